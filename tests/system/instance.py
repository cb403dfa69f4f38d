# Instances: services in the background, with real servers; what starts, is found, is entered and is gone.
# Must not: leave it to a test's end to stop what was started.
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.request

from slipway_test import SlipwayTest, main, program, require_program
from small_root import libraries_of, make_root, make_squashfs

SUPERVISOR = "slipway-service"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class InstanceTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))
        self.env["SLIPWAY_INSTANCES"] = self.path("instances")

    def tearDown(self):
        self.slipway("instance", "stop", "--all", "--time", "0")
        super().tearDown()

    def instance(self, *words, **more):
        return self.slipway("instance", *words, **more)

    def start(self, name, script, *options, image=None, **more):
        return self.instance("start", name, *options, image or self.root, "--", "sh", "-c", script, **more)

    def listed(self):
        return {one["name"]: one for one in self.assert_succeeds(self.instance("list", "--json")).json()}

    def wait_for(self, condition):
        self.wait_until(condition, "waited too long")

    def gone(self):
        self.wait_for(lambda: not self.processes())

    def test_a_web_server(self):
        busybox = require_program("busybox")
        shutil.copy(busybox, os.path.join(self.root, "usr/bin/busybox"))
        for library in libraries_of(busybox):
            os.makedirs(os.path.dirname(self.root + library), exist_ok=True)
            shutil.copy(library, self.root + library)
        image = make_squashfs(self.root, self.path("image.sqfs"))
        port = free_port()
        self.assert_succeeds(self.instance("start", "web", "--ready-port", str(port), image, "--", "busybox", "httpd", "-f", "-v",
                                           "-p", f"127.0.0.1:{port}", "-h", "/etc"))
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/image", timeout=5) as answer:
            self.assertEqual(answer.read(), b"small root\n")
        one = self.listed()["web"]
        self.assertEqual((one["state"], one["image"], one["command"][:2]), ("ready", image, ["busybox", "httpd"]))
        self.assertEqual(self.processes(SUPERVISOR).keys() & {one["pid"]}, set())
        self.assertEqual(len(self.processes(SUPERVISOR)), 1)
        self.assertIn("web", self.assert_succeeds(self.instance("list")).stdout)
        self.wait_for(lambda: "/image" in self.instance("logs", "web").stdout or "200" in self.instance("logs", "web").stdout)
        # Port in use: neither ready by somebody else's server, nor a second one.
        self.assert_fails(self.instance("start", "other", "--ready-port", str(port), image, "--", "sleep", "60"), "already")
        self.assert_succeeds(self.instance("stop", "web"))
        self.assertEqual(self.listed(), {})
        self.gone()
        with self.assertRaises(OSError):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/image", timeout=5)

    def test_exec_runs_in_the_instances_container(self):
        image = make_squashfs(self.root, self.path("image.sqfs"))
        self.assert_succeeds(self.start("box", "readlink /proc/self/ns/mnt; echo up; exec sleep 100", "-e", "COLOUR=green",
                                        "--cd=/usr", "--ready-log", "up", image=image))
        space = self.instance("logs", "box").stdout.split()[0]
        result = self.instance("exec", "box", "--", "sh", "-c", "readlink /proc/self/ns/mnt; echo $COLOUR; pwd; cat /etc/image; exit 6")
        self.assert_status(result, 6)
        self.assertEqual(result.stdout.splitlines(), [space, "green", "/usr", "small root"])
        result = self.instance("exec", "-e", "COLOUR=red", "-e", "FROM_HERE", "--cd", "/etc", "box", "sh", "-c",
                               "echo $COLOUR $FROM_HERE; pwd; kill -TERM $$", env={"FROM_HERE": "there"})
        self.assert_status(result, 143)
        self.assertEqual(result.stdout.splitlines(), ["red there", "/etc"])
        self.assert_status(self.instance("exec", "box", "nothere"), 127)
        self.assert_fails(self.instance("exec", "nobody", "true"), "there is no instance \"nobody\"", "slipway instance list")
        self.assert_succeeds(self.instance("stop", "box"))

    def test_ready_command_and_text(self):
        began = time.monotonic()
        self.assert_succeeds(self.start("slow", "trap 'exit 0' TERM; sleep 0.6; echo listening on nothing; while :; do sleep 0.1; done",
                                        "--ready-log", "listening on"))
        self.assertGreater(time.monotonic() - began, 0.5)
        self.assertEqual(self.listed()["slow"]["state"], "ready")
        mark = self.write("mark/none", "")
        self.assert_succeeds(self.start("marked", "sleep 0.5; touch /mnt/up; exec sleep 100", "-b",
                                        os.path.dirname(mark) + ":/mnt", "--ready", "ls /mnt/up"))
        self.assertEqual(self.listed()["marked"]["state"], "ready")
        self.assert_succeeds(self.instance("stop", "slow", "marked"))

    def test_never_ready(self):
        result = self.start("never", "echo first words; echo last words >&2; sleep 100 & sleep 100", "--ready", "false",
                            "--ready-timeout", "3")
        self.assert_fails(result, "was not ready within 3 s", "first words", "last words", "--ready-timeout")
        self.gone()
        self.assertEqual(self.listed(), {})

    def test_ends_before_it_is_ready(self):
        result = self.start("broken", "echo cannot find my data; sleep 0.2; exit 3", "--ready-log", "listening")
        self.assert_fails(result, "ended before it was ready: exit status 3", "cannot find my data")
        self.assertEqual(self.listed(), {})
        self.assertEqual(self.instance("logs", "broken").stdout, "cannot find my data\n")
        self.assert_fails(self.instance("start", "broken", self.root, "--", "nothere"), "cannot find the command", status=127)
        self.assert_fails(self.instance("start", "broken", self.path("absent"), "--", "true"), "absent")
        self.assertEqual(self.listed(), {})

    def test_what_ended_is_told_once(self):
        self.assert_succeeds(self.start("short", "until [ -e /opt/go ]; do sleep 0.05; done; echo bye; exit 4", "-b",
                                        self.path("") + ":/opt"))
        self.assertEqual(self.listed()["short"]["state"], "running")
        self.write("go", "")
        self.wait_for(lambda: not self.processes())
        one = self.listed()["short"]
        self.assertEqual((one["state"], one["exit_status"], one["end"]), ("ended", 4, "exit status 4"))
        self.assertEqual(self.listed(), {})
        self.assertEqual(self.instance("logs", "short").stdout, "bye\n")

    def test_stop_ends_everything_in_the_container(self):
        hidden = "setsid sh -c 'trap \"\" TERM HUP; env -i sleep 100' & (setsid env -i sleep 101 &) ; "
        self.assert_succeeds(self.start("family", hidden + "trap 'echo stopping; exit 0' TERM; echo up; while :; do sleep 0.05; done",
                                        "--ready-log", "up"))
        # A guest that does not descend from the command, and has none of its environment.
        guest = subprocess.Popen([program(), "instance", "exec", "family", "--", "env", "-i", "sleep", "102"], env=self.env)
        def name_of_guest():
            with open(f"/proc/{guest.pid}/comm") as file:
                return file.read()
        self.wait_for(lambda: name_of_guest() == "sleep\n")
        self.assert_succeeds(self.instance("stop", "family"))
        self.assertEqual(guest.wait(timeout=5), -signal.SIGKILL)
        self.assertIn("stopping", self.instance("logs", "family").stdout)
        listing = subprocess.run(["ps", "-u", str(os.getuid()), "-o", "args="], stdout=subprocess.PIPE, text=True).stdout
        for seconds in (100, 101, 102):
            self.assertNotIn(f"sleep {seconds}\n", listing)

    def test_stop_signals_and_time(self):
        loop = "while :; do sleep 0.05; done"
        self.assert_succeeds(self.start("int", f"trap 'echo by INT; exit 0' INT; echo up; {loop}", "--stop-signal", "INT",
                                        "--ready-log", "up"))
        self.assert_succeeds(self.instance("stop", "int"))
        self.assertIn("by INT", self.instance("logs", "int").stdout)
        self.assert_succeeds(self.start("deaf", f"trap '' TERM; echo up; {loop}", "--ready-log", "up"))
        result = self.assert_succeeds(self.instance("stop", "deaf", "--time", "0.5"))
        self.assertTrue(0.4 < result.seconds < 5, result)
        self.assert_succeeds(self.start("usr", f"trap 'echo by USR1; exit 0' USR1; echo up; {loop}", "--ready-log", "up"))
        self.assert_succeeds(self.instance("stop", "usr", "--signal=SIGUSR1"))
        self.assertIn("by USR1", self.instance("logs", "usr").stdout)
        self.assert_fails(self.instance("stop", "usr"), "there is no instance")
        self.assert_fails(self.start("bad", "true", "--stop-signal", "NOPE"), "no signal \"NOPE\"")

    def test_the_images_stop_signal(self):
        os.mkdir(os.path.join(self.root, ".slipway"))
        with open(os.path.join(self.root, ".slipway/image.json"), "w") as file:
            json.dump({"architecture": "amd64", "os": "linux", "config": {"StopSignal": "SIGQUIT"},
                       "rootfs": {"type": "layers", "diff_ids": []}}, file)
        self.assert_succeeds(self.start("quit", "trap 'echo by QUIT; exit 0' QUIT; echo up; while :; do sleep 0.05; done",
                                        "--ready-log", "up"))
        self.assert_succeeds(self.instance("stop", "quit"))
        self.assertIn("by QUIT", self.instance("logs", "quit").stdout)

    def test_one_name_once(self):
        racers = [subprocess.Popen([program(), "instance", "start", "one", self.root, "--", "sleep", "100"], env=self.env,
                                   stderr=subprocess.PIPE, text=True) for _ in range(12)]
        ends = [(racer.communicate(timeout=60)[1], racer.returncode) for racer in racers]
        self.assertEqual(sorted(status for _, status in ends), [0] + [125] * 11)
        self.assertEqual(len([text for text, _ in ends if "is there already" in text]), 11)
        self.assertEqual(len(self.processes("sleep")), 1)
        self.assert_succeeds(self.instance("stop", "one"))
        self.assert_succeeds(self.start("one", "exec sleep 100"))
        self.assert_succeeds(self.instance("stop", "--all"))

    def test_lifetime(self):
        def session(*options):
            """Start an instance from a login session of its own, which then ends."""
            script = f'"$@"; echo $?; sleep 0.3'
            return subprocess.run(["setsid", "--wait", "sh", "-c", script, "sh", program(), "instance", "start", "life", *options,
                                   self.root, "--", "sleep", "100"], env=self.env, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(session(), "0\n")
        self.gone()
        one = self.listed()["life"]
        self.assertEqual((one["state"], one["exit_status"]), ("ended", 143))
        self.assertEqual(session("--persist"), "0\n")
        time.sleep(0.5)
        self.assertEqual(self.listed()["life"]["state"], "running")
        self.assert_succeeds(self.instance("stop", "life"))

    def test_killing_the_starter_while_it_waits(self):
        starter = subprocess.Popen([program(), "instance", "start", "early", "--ready", "false", self.root, "--", "sleep", "100"],
                                   env=self.env, stderr=subprocess.PIPE)
        self.wait_for(lambda: self.listed().get("early", {}).get("pid", 0) != 0)
        starter.kill()
        starter.communicate()
        self.gone()

    def test_kill_anything_anytime(self):
        """Whatever is killed, the next start, list or stop puts it right."""
        image = make_squashfs(self.root, self.path("image.sqfs"))
        for _ in range(12):
            starter = subprocess.Popen([program(), "instance", "start", "victim", image, "--", "sh", "-c",
                                        "setsid sleep 100 & sleep 100"], env=self.env, stderr=subprocess.DEVNULL)
            time.sleep(random.random() * 0.15)
            for pid in random.choices(list(self.processes()) or [starter.pid], k=2):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            starter.wait(timeout=30)
            if random.random() < 0.5:
                self.listed()
            again = self.instance("start", "victim", image, "--", "sleep", "99")
            state = self.listed()["victim"]["state"]
            if again.status != 0:  # it lived, perhaps with a part hit of which it died just now
                self.assert_fails(again, "is there already")
                self.assertIn(state, ("running", "ended"))
            else:
                self.assertEqual(state, "running", again)
            if state == "running":
                self.instance("stop", "victim", "--time=1")
            self.gone()

    def test_a_killed_supervisor(self):
        self.assert_succeeds(self.start("lost", "setsid sleep 100 & sleep 100"))
        for pid in self.processes(SUPERVISOR):
            os.kill(pid, signal.SIGKILL)
        self.wait_for(lambda: not self.processes(SUPERVISOR))
        one = self.listed()["lost"]
        self.assertEqual((one["state"], one["end"]), ("ended", "its supervisor was killed"))
        self.gone()

    def test_a_recycled_pid_is_never_signalled(self):
        self.assert_succeeds(self.start("stale", "exec sleep 100"))
        record = next(os.path.join(parent, "instance.json") for parent, _, files in os.walk(self.path("instances"))
                      if "instance.json" in files)
        with open(record) as file:
            data = json.load(file)
        self.assert_succeeds(self.instance("stop", "stale"))
        bystander = subprocess.Popen(["sleep", "30"], env=self.env)
        # As it would be after the numbers came round: the pids are another process's, the start times are not.
        data["command"]["pid"] = data["supervisor"]["pid"] = bystander.pid
        with open(record, "w") as file:
            json.dump(data, file)
        self.assertEqual(self.listed()["stale"]["state"], "ended")
        with open(record, "w") as file:
            json.dump(data, file)
        self.assert_succeeds(self.instance("stop", "stale"))
        self.assertIsNone(bystander.poll())
        bystander.kill()
        bystander.wait()

    def test_what_is_being_started_is_not_entered(self):
        slow = dict(self.env, SLIPWAY_FAULT="container.user-namespace:sleep=3000")
        starter = subprocess.Popen([program(), "instance", "start", "slow", self.root, "--", "sleep", "60"], env=slow,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_for(lambda: self.listed().get("slow", {}).get("pid"))
        self.assertEqual(self.listed()["slow"]["state"], "starting")
        self.assert_fails(self.instance("exec", "slow", "--", "ls", "/"), "is still being started", "try:")
        self.assertEqual(starter.wait(timeout=30), 0)
        self.assertEqual(self.listed()["slow"]["state"], "running")
        self.assert_succeeds(self.instance("exec", "slow", "--", "true"))

    def test_stopping_from_elsewhere_ends_nothing_else(self):
        """The instance's helpers live in the mount namespace of who started it, as do that user's other processes."""
        script = ('sleep 47 & "$0" instance start --persist far "$1" -- sh -c "trap \'\' TERM; while :; do sleep 0.1; done"; '
                  "echo $?; wait")
        login = subprocess.Popen([require_program("unshare"), "-Urm", "sh", "-c", script, program(), self.root], env=self.env,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.assertEqual(login.stdout.readline(), "0\n")
        self.assert_succeeds(self.instance("stop", "--time", "0.2", "far"))
        self.assertEqual([name for name, _ in self.processes().values() if name == "slipway-service"], [])
        self.assertIsNone(login.poll())
        self.assertEqual(len(self.processes("sleep")), 1, "what was started beside the instance lives")
        for pid in self.processes("sleep"):
            os.kill(pid, signal.SIGTERM)
        login.communicate(timeout=20)
        self.gone()

    def test_asking_makes_nothing(self):
        self.assertEqual(self.listed(), {})
        self.assert_fails(self.instance("stop", "nobody"), "there is no instance")
        self.assertFalse(os.path.exists(self.path("instances")))

    def test_log_is_bounded_and_followed(self):
        self.assert_succeeds(self.start("noisy", "i=0; while [ $i -lt 4000 ]; do i=$((i+1)); echo line $i; done; echo done; exec sleep 100",
                                        "--log-size=8k", "--ready-log", "done"))
        log = self.listed()["noisy"]["log"]
        self.assertLessEqual(os.path.getsize(log), 8192)
        self.assertLessEqual(os.path.getsize(log + ".1"), 8192)
        self.assertEqual(self.instance("logs", "noisy", "--tail", "2").stdout, "line 4000\ndone\n")
        lines = self.instance("logs", "noisy").stdout.splitlines()
        self.assertEqual(lines[-3:], ["line 3999", "line 4000", "done"])
        self.assert_succeeds(self.instance("stop", "noisy"))
        self.assert_succeeds(self.start("ticks", "for i in 1 2 3; do sleep 0.2; echo tick $i; done"))
        follow = self.instance("logs", "ticks", "-f", timeout=20)
        self.assertEqual(follow.stdout, "tick 1\ntick 2\ntick 3\n")

    def test_the_host_as_image(self):
        port = free_port()
        self.assert_succeeds(self.instance("start", "py", "--ready-port", str(port), "/", "--", require_program("python3"), "-m",
                                           "http.server", "--bind", "127.0.0.1", str(port)))
        self.assert_succeeds(self.instance("exec", "py", "true"))
        self.assert_succeeds(self.instance("stop", "py"))
        self.gone()

    def test_no_zombie_of_ours_remains(self):
        image = make_squashfs(self.root, self.path("image.sqfs"))
        self.assert_succeeds(self.start("calm", "(sleep 0.05 &) ; exec sleep 100", image=image))
        supervisor = next(iter(self.processes(SUPERVISOR)))
        time.sleep(0.3)

        def zombies():
            lines = subprocess.run(["ps", "--ppid", str(supervisor), "-o", "stat=,pid="], stdout=subprocess.PIPE,
                                   text=True).stdout
            return {line for line in lines.splitlines() if line.startswith("Z")}
        # One that died a moment ago may be seen once, not again.
        before = zombies()
        time.sleep(0.2)
        self.assertEqual(before & zombies(), set())
        self.assert_succeeds(self.instance("stop", "calm"))

    def test_a_session_of_the_configuration_is_for_runs(self):
        self.env["SLIPWAY_SESSION"] = "mine"
        self.assert_succeeds(self.start("own", "sleep 100"))
        self.assert_succeeds(self.instance("stop", "own"))

    def test_bad_requests(self):
        for name in ("", "../x", "a b", ".x", "x" * 65):
            self.assert_fails(self.instance("start", name, self.root, "--", "true"), "instance's name")
        self.assert_fails(self.start("s", "true", "--session=mine"), "a session of its own")
        self.assert_fails(self.instance("stop"), "no instance was named")
        self.assert_fails(self.instance("logs", "nobody"), "no log")
        self.assert_fails(self.start("s", "true", "--log-size=lots"), "--log-size")


if __name__ == "__main__":
    main()
