# ch-run as scripts use it: peers, signals, background children, images of both makes.
# Must not: run Charliecloud; tests/conformance/ch_run.py does.
import json
import os
import signal
import subprocess

from slipway_test import Dir, File, SlipwayTest, build_directory, main, program
from small_root import make_root, make_squashfs

READ_ALL = "sha256sum /usr/share/words-* > /dev/null"
NAMESPACES = "readlink /proc/self/ns/mnt /proc/self/ns/user"


class ChRun(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))
        self.image = make_squashfs(self.root, self.path("image.sqfs"))

    def ch_run(self, *words, env=None):
        return self.run_program("ch-run", *words, env=env)

    def start(self, *words, env=None):
        return subprocess.Popen([program("ch-run"), *words], env={**self.env, **(env or {})}, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, ranks, timeout=60):
        """Return how each ended, which may have waited for a line until now."""
        outputs = [rank.communicate("\n", timeout=timeout) for rank in ranks]
        return [(rank.returncode, *output) for rank, output in zip(ranks, outputs)]

    def test_the_same_program_by_two_names(self):
        self.assertEqual(os.readlink(os.path.join(build_directory(), "bin/ch-run")), "slipway")

    def test_the_environment_of_the_host_passes(self):
        passed = {"LD_PRELOAD": "/host/preload.so", "PYTHONPATH": "/host/python", "LOADEDMODULES": "cuda/12", "X": "ä\n"}
        result = self.ch_run(self.image, "--", "env", "-0", env=passed)
        self.assertEqual(result.status, 0)
        inside = dict(entry.split("=", 1) for entry in result.stdout.split("\0") if entry)
        self.assertEqual({**passed, **inside}, inside)

    def test_joined_peers_may_end_one_after_another(self):
        for _ in range(3):
            peers = [self.start("--join", self.image, "--", "sh", "-c", f"{NAMESPACES}; sleep 1.{n}; {READ_ALL}",
                                env={"SLURM_CPUS_ON_NODE": "8"}) for n in range(1, 9)]
            ends = self.finish(peers)
            self.assertEqual({(status, error) for status, _, error in ends}, {(0, "")})
            self.assertEqual(len({out for _, out, _ in ends}), 1, "the peers are in different containers")

    def test_joined_peers_that_end_at_once(self):
        for image in (self.image, self.root):
            for _ in range(3):
                peers = [self.start("--join", image, "--", "true", env={"OMPI_COMM_WORLD_LOCAL_SIZE": "64"})
                         for _ in range(64)]
                self.assertEqual(set(self.finish(peers)), {(0, "", "")})

    def test_a_tag_joins_peers_of_different_parents(self):
        first = self.start("--join-tag=one", self.image, "--", "sh", "-c", f"{NAMESPACES}; read line")
        here = first.stdout.readline()
        script = f"{program('ch-run')} --join-tag=$1 {self.image} -- readlink /proc/self/ns/mnt; true"
        for tag, same in (("one", True), ("two", False)):
            peer = subprocess.run(["sh", "-c", script, "sh", tag], env=self.env, stdout=subprocess.PIPE, text=True)
            self.assertEqual(peer.stdout == here, same, tag)
        self.assertEqual(self.finish([first])[0][0], 0)

    def test_join_pid_enters_a_living_container(self):
        first = self.start(self.image, "--", "sh", "-c", f"{NAMESPACES}; read line")
        here = first.stdout.readline()
        second = self.ch_run(f"--join-pid={first.pid}", "--cd=/usr/share", self.image, "--", "sh", "-c",
                             "readlink /proc/self/ns/mnt; pwd; cat /etc/image; echo $HOME $A",
                             env={"HOME": "/of/the/host"})
        self.assert_succeeds(second)
        self.assertEqual(second.stdout, here + "/usr/share\nsmall root\n/of/the/host\n")
        asked = self.ch_run(f"--join-pid={first.pid}", "--set-env=A=1", self.image, "--", "sh", "-c", "echo $A")
        self.assertEqual(asked.stdout, "1\n")
        self.finish([first])
        gone = self.ch_run(f"--join-pid={first.pid}", self.image, "--", "true")
        self.assert_fails(gone, f"/proc/{first.pid}/ns/user", "joining process", status=31)

    def test_signals_reach_the_command(self):
        for image in (self.image, self.root):
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
                run = self.start(image, "--", "sh", "-c", "trap 'exit 9' TERM INT HUP USR1; echo up; sleep 5 & wait")
                run.stdout.readline()
                run.send_signal(number)
                status, _, _ = self.finish([run])[0]
                self.assertEqual(status, 9, number)
                for pid in self.processes("sleep"):
                    os.kill(pid, signal.SIGKILL)

    def test_a_signal_that_kills_the_command_is_its_end(self):
        for number in (signal.SIGTERM, signal.SIGKILL):
            run = self.start(self.image, "--", "sh", "-c", "echo up; exec sleep 20")
            run.stdout.readline()
            run.send_signal(number)
            self.assertIn(self.finish([run])[0][0], (-number, 128 + number))
            self.assertEqual(self.processes("sleep"), {}, "the command lives on")

    def test_a_background_child_keeps_the_image(self):
        script = (f"(until [ -e /opt/go ]; do sleep 0.05; done; {READ_ALL} && cat /etc/image > /opt/late) "
                  "> /dev/null 2>&1 & exit 0")
        self.assert_succeeds(self.ch_run("--bind", self.path("") + ":/opt", self.image, "--", "sh", "-c", script))
        self.write("go", "")
        self.wait_until(lambda: os.path.exists(self.path("late")) and os.path.getsize(self.path("late")),
                        "the child lost its image")
        with open(self.path("late")) as file:
            self.assertEqual(file.read(), "small root\n")

    def test_libraries_of_cdi_are_put_in_the_loaders_cache_once(self):
        with open(os.path.join(self.root, "usr/bin/ldconfig"), "w") as file:
            file.write("#!/bin/sh\necho run for $* >> /etc/ld.so.cache\n")
        os.chmod(os.path.join(self.root, "usr/bin/ldconfig"), 0o755)
        library = self.write("libdriver.so.1.2", "the host's driver\n")
        mounts = [{"hostPath": library, "containerPath": f"/opt/{name}", "options": ["ro", "bind"]}
                  for name in ("lib/libdriver.so.1.2", "more/libdriver.so", "lib/driver.conf")]
        hooks = [{"hookName": "createContainer", "path": "/bin/other", "args": ["other"]}]
        specification = self.write("cdi.json", json.dumps({"cdiVersion": "0.6.0", "kind": "a.org/gpu",
                                                           "containerEdits": {"mounts": mounts, "hooks": hooks}}))
        command = ["--", "sh", "-c", "cat /etc/ld.so.cache /opt/more/libdriver.so; "
                   "echo changed > /opt/lib/driver.conf || true; read line"]
        for image in self.root, make_squashfs(self.root, self.path("with-ldconfig.sqfs")):
            peers = [self.start("--join", f"--cdi={specification}", image, *command, env={"SLURM_CPUS_ON_NODE": "4"})
                     for _ in range(4)]
            for status, out, error in self.finish(peers):
                self.assertEqual((status, out), (0, "run for /opt/lib /opt/more\nthe host's driver\n"), error)
                self.assertIn('the hook "/bin/other" is not run', error)
        self.assertFalse(os.path.exists(os.path.join(self.root, "etc/ld.so.cache")), "the image was changed")
        with open(library) as file:
            self.assertEqual(file.read(), "the host's driver\n", "it is mounted read-only")
        colon = self.write("colon.json", json.dumps({"kind": "a.org/gpu", "containerEdits": {"mounts": [
            {"hostPath": library, "containerPath": "/opt/a:b", "options": ["bind"]}]}}))
        self.assert_fails(self.ch_run(f"--cdi={colon}", self.image, "--", "true"), "without", colon, status=31)

    def test_failures_have_numbers_words_and_no_output(self):
        self.assert_fails(self.ch_run(self.image, "--", "nosuch"), "cannot find the command", status=49)
        self.assert_fails(self.ch_run(self.image, "--", "/etc/image"), "Permission denied", status=49)
        self.assert_fails(self.ch_run("nosuch", "--", "true"), "nosuch", status=31)
        self.assert_fails(self.ch_run("--bind=/nosuch:/opt", self.image, "--", "true"), "/nosuch", "--bind", status=31)
        self.assert_fails(self.ch_run("--cdi-dirs=/nosuch", "--cdi", self.image, "--", "true"), "/nosuch", "--cdi-dirs",
                          status=31)
        self.assert_fails(self.ch_run("--feature=gc"), status=87)
        self.assert_fails(self.ch_run("--nope"), 'unknown option "--nope"', status=64)
        lines = self.write("lines", "A=1\nB\n")
        self.assert_fails(self.ch_run(f"--set-env={lines}", self.image, "--", "true"), '"B"', f"{lines}:2", status=31)
        silent = self.assert_fails(self.ch_run("-qqq", "nosuch", "--", "true"), status=31)
        self.assertEqual(silent.stderr, "")

    def test_images_of_slipway(self):
        layout = self.make_oci_layout([[Dir("d"), File("d/f", "x")]],
                                      config={"Env": ["A=$HOME:'1'", "PATH=/usr/bin:/bin"], "WorkingDir": "/d",
                                              "Entrypoint": ["echo", "hello"], "Cmd": ["world"], "User": "7"})
        self.assert_succeeds(self.slipway("convert", f"oci:{layout}", "store:recorded"))
        where = ["--bind=/usr", "--bind=/bin", "--bind=/lib", "--bind=/lib64"]
        for words, output in ((["recorded"], "hello world\n"), (["recorded", "--", "-", "a"], "hello a\n"),
                              (["recorded", "--", "pwd"], "/\n"), (["recorded", "--", "id", "-u"], f"{os.getuid()}\n"),
                              (["--set-env", "recorded", "--", "printenv", "A"], "$HOME:'1'\n"),
                              (["recorded", "--", "printenv", "HOME"], "/\n")):
            result = self.ch_run(*where, *words)
            self.assert_succeeds(result)
            self.assertEqual(result.stdout, output, words)

    def test_changes_in_memory_are_nobody_elses(self):
        for options, place in ((["-W"], "/var/x"), (["-t"], "/tmp/x")):
            script = f"echo mine > {place}; echo up; read line; cat {place}"
            first = subprocess.Popen([program("ch-run"), *options, self.image, "--", "sh", "-c", script], env=self.env,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual(first.stdout.readline(), "up\n", first.stderr)
            second = self.ch_run(*options, self.image, "--", "ls", place)
            self.assertNotEqual(second.status, 0, second)
            out, error = first.communicate("go\n", timeout=20)
            self.assertEqual((first.returncode, out, error), (0, "mine\n", ""))

    def test_joined_peers_share_what_they_change(self):
        options = ["-W", "--join-tag=writers", self.image, "--"]
        first = self.start(*options, "sh", "-c", "echo ours > /var/x; echo up; read line")
        self.assertEqual(first.stdout.readline(), "up\n")
        self.assertEqual(self.ch_run(*options, "cat", "/var/x").stdout, "ours\n")
        self.assertEqual(self.finish([first])[0][0], 0)


if __name__ == "__main__":
    main()
