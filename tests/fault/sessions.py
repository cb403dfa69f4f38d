# The fault matrix of sessions: whatever ends, is killed, is stopped or is in the way, every other rank works.
# Must not: use a launcher; the job step of all ranks is this test's process.
"""Each case runs with 64 and with 200 ranks at once; no rank but the victim may fail, and nothing may be left."""
import json
import os
import random
import select
import signal
import socket
import subprocess
import time

from slipway_test import SlipwayTest, main, program, require_program
from small_root import make_root, make_squashfs

SIZES = (64, 200)
SERVER, BROKER = "slipway-fuse", "slipway-session"
# Where a rank's start-up may be cut: on the way of who makes the session, of who enters it, and of their helpers.
RANK_POINTS = ("session.bound", "session.broker-forked", "container.user-namespace", "container.server-started",
               "container.assembled", "session.handed-over", "container.entered", "session.asked", "session.answered")
HELPER_POINTS = ("broker.started", "server.started")
FINE = (0, "")


class Sessions(SlipwayTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        import tempfile
        cls.images = tempfile.TemporaryDirectory(prefix="slipway-fault-")
        cls.root = make_root(os.path.join(cls.images.name, "root"))
        cls.image = make_squashfs(cls.root, os.path.join(cls.images.name, "image.sqfs"))

    @classmethod
    def tearDownClass(cls):
        cls.images.cleanup()
        super().tearDownClass()

    def start(self, *command, options=(), image=None, env=None):
        environment = dict(self.env, **(env or {}))
        return subprocess.Popen([program(), "run", *options, image or self.image, "--", *command], env=environment,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

    def finish(self, ranks, timeout=90):
        """Return (status, stderr) of each rank; one that hangs fails the test."""
        deadline = time.monotonic() + timeout
        ends = []
        for rank in ranks:
            _, error = rank.communicate(timeout=max(0.1, deadline - time.monotonic()))
            ends.append((rank.returncode, error))
        return ends

    def assert_all_fine(self, ends, case=""):
        self.assertEqual([end for end in ends if end != FINE], [], case)

    def kill_servers(self):
        """Return how many there were; all have closed their files: until then users of the image see other errors."""
        servers = self.processes(SERVER)
        for pid in servers:
            end = os.pidfd_open(pid)
            os.kill(pid, signal.SIGKILL)
            self.assertTrue(select.select([end], [], [], 30)[0], "the server lives on")
            os.close(end)
        return len(servers)

    def session_key(self, *options, image=None):
        result = self.slipway("run", "--dry-run", *options, image or self.image, "--", "true")
        return json.loads(self.assert_succeeds(result).stdout)["session_key"]

    def assert_no_socket(self, key):
        def bound():
            with open("/proc/net/unix") as file:
                return f"@slipway-session-{key}" in file.read()
        self.wait_until(lambda: not bound(), "the session's socket was left behind", 10)

    # --- nothing is in the way ---

    def test_all_run_true(self):
        for count in SIZES:
            self.assert_all_fine(self.finish([self.start("true") for _ in range(count)]), count)
        self.assert_no_socket(self.session_key())

    def test_uneven_ends(self):
        for count in SIZES:
            ranks = [self.start("sleep", f"{random.random() * 0.5:.3f}") for _ in range(count)]
            self.assert_all_fine(self.finish(ranks), count)

    def test_joining_while_the_session_ends(self):
        for count in SIZES:
            running, ends = [], []
            for i in range(count):
                running.append(self.start("true"))
                if len(running) > i % 4:
                    ends += self.finish([running.pop(0)])
            self.assert_all_fine(ends + self.finish(running), count)

    def test_two_images_at_once(self):
        other = self.path("other.sqfs")
        with open(self.image, "rb") as source, open(other, "wb") as target:
            target.write(source.read())
        for count in SIZES:
            ranks = [self.start("true", image=(self.image, other, self.root)[i % 3]) for i in range(count)]
            self.assert_all_fine(self.finish(ranks), count)

    def test_inside_a_container(self):
        # The outer ranks share a session, and so do the inner ones: they have one parent.
        options = ("-b", os.path.dirname(os.path.dirname(program())) + ":/opt/slipway", "-b", self.image + ":/opt/image.sqfs",
                   "-b", "/usr/lib:/opt/lib", "--env", "LD_LIBRARY_PATH=/opt/lib:/opt/lib/" + os.uname().machine + "-linux-gnu")
        for path in ("opt/slipway", "opt/image.sqfs", "opt/lib"):
            self.assertFalse(os.path.exists(os.path.join(self.root, path)))
        for count in SIZES:
            ranks = [self.start("/opt/slipway/bin/slipway", "run", "/opt/image.sqfs", "--", "true", options=options)
                     for _ in range(count)]
            self.assert_all_fine(self.finish(ranks), count)

    # --- something is killed ---

    def test_killed_at_every_point_of_start_up(self):
        for point in RANK_POINTS:
            for count in SIZES:
                for place in (0, random.randrange(1, count)):
                    case = f"{point}, rank {place} of {count}"
                    ranks = [self.start("true", env={"SLIPWAY_FAULT": f"{point}:kill"} if i == place else None)
                             for i in range(count)]
                    ends = self.finish(ranks)
                    victim = ends.pop(place)
                    self.assertIn(victim, (FINE, (-signal.SIGKILL, "")), case)  # not every rank comes by every point
                    self.assert_all_fine(ends, case)

    def test_every_point_is_reached(self):
        """A point that no rank came by would make the case above empty."""
        for point in RANK_POINTS[:7]:
            ends = self.finish([self.start("true", env={"SLIPWAY_FAULT": f"{point}:kill"})])
            self.assertEqual(ends, [(-signal.SIGKILL, "")], point)
        holder = self.start("sleep", "60")
        self.wait_until(lambda: self.processes("sleep"), "the first rank does not run")
        for point in RANK_POINTS[7:]:
            ends = self.finish([self.start("true", env={"SLIPWAY_FAULT": f"{point}:kill"})])
            self.assertEqual(ends, [(-signal.SIGKILL, "")], point)
        holder.kill()
        self.finish([holder])
        self.wait_until(lambda: not self.processes(BROKER), "the broker outlives its last member")
        (status, error), = self.finish([self.start("true", env={"SLIPWAY_FAULT": "server.started:kill"})])
        self.assertEqual(status, 125)
        self.assertIn("the image's server ended before the container was ready", error)
        self.assertIn("try: run the command again", error)

    def test_helpers_killed_at_their_start(self):
        for point in HELPER_POINTS:
            for count in SIZES:
                case = f"{point}, {count}"
                ranks = [self.start("true", env={"SLIPWAY_FAULT": f"{point}:kill"} if i == 0 else None)
                         for i in range(count)]
                ends = self.finish(ranks)
                if point in "server.started":
                    ends.pop(0)  # told that its server has ended: see above
                self.assert_all_fine(ends, case)

    def test_an_error_at_every_point_reaches_the_rank(self):
        for point in ("container.user-namespace", "container.server-started", "container.assembled"):
            (status, error), = self.finish([self.start("true", env={"SLIPWAY_FAULT": f"{point}:error"})])
            self.assertEqual(status, 125)
            self.assertIn(f"fault point {point}", error)

    def test_the_first_is_killed(self):
        for count in SIZES:
            ranks = [self.start("sleep", "60" if i == 0 else "0.5") for i in range(count)]
            time.sleep(random.random() * 0.1)
            ranks[0].kill()
            ends = self.finish(ranks)
            self.assertEqual(ends[0][0], -signal.SIGKILL)
            self.assert_all_fine(ends[1:], count)

    def test_the_server_is_killed(self):
        gate = self.path("gate")
        os.mkfifo(gate)
        for count in SIZES:
            # What is in the page cache stays readable without a server: this file is read by nobody before.
            ranks = [self.start("sh", "-c", ": < /opt/gate; cat /usr/share/words-7", options=("-b", gate + ":/opt/gate"))
                     for _ in range(count)]
            self.wait_until(lambda: len(self.processes("sh")) == count, "the ranks do not run", 60)
            self.assertEqual(self.kill_servers(), 1)
            time.sleep(0.2)  # until all of them stand at the gate
            opened = os.open(gate, os.O_RDWR)  # waits for nobody, should all have ended before they came here
            ends = self.finish(ranks, timeout=60)
            os.close(opened)
            # A page of the program itself that cannot be read is a SIGBUS.
            silent = [end for end in ends if end[0] != -signal.SIGBUS and
                      (end[0] == 0 or "ransport endpoint is not connected" not in end[1])]
            self.assertEqual(silent, [], count)
            self.assert_all_fine(self.finish([self.start("sha256sum", "/usr/share/words-7")]), "a rank afterwards")

    def test_who_enters_without_a_server_is_told(self):
        holder = self.start("sleep", "60")
        self.wait_until(lambda: self.processes("sleep"), "the first rank does not run")
        rank = self.start("sha256sum", "/etc/image", env={"SLIPWAY_FAULT": "session.answered:stop"})
        os.waitid(os.P_PID, rank.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.kill_servers()
        rank.send_signal(signal.SIGCONT)
        (status, error), = self.finish([rank])
        holder.kill()
        self.finish([holder])
        self.assertIn(status, (125, 126))
        self.assertRegex(error, "ENOTCONN|ECONNABORTED")  # the latter of what was asked at that moment
        self.assertIn("the image's server has ended", error)

    # --- something is in the way ---

    def test_a_stopped_broker_holds_nobody_up(self):
        for count in SIZES:
            holder = self.start("sleep", "600", image=self.root)
            self.wait_until(lambda: self.processes("sleep") and self.processes(BROKER), "the first rank does not run")
            brokers = list(self.processes(BROKER))
            for pid in brokers:
                os.kill(pid, signal.SIGSTOP)
            ends = self.finish([self.start("true", image=self.root) for _ in range(count)], timeout=60)
            for pid in brokers:
                os.kill(pid, signal.SIGCONT)
            self.assertEqual({status for status, _ in ends}, {0})
            self.assertEqual([error for _, error in ends if "using a private one" not in error], [], count)
            holder.kill()
            self.finish([holder])

    def test_a_session_is_over_with_its_last_rank(self):
        """However late its broker hears of it: no plan is refused for it, and its own plan begins anew."""
        for options in (("-b", "/usr/lib:/opt"), ()):
            holder = self.start("sleep", "600", options=("--session=mine",), image=self.root)
            # Its broker has its name a little later.
            self.wait_until(lambda: self.processes("sleep") and len(self.processes(BROKER)) == 1,
                            "the first rank does not run")
            (broker,) = self.processes(BROKER)
            os.kill(broker, signal.SIGSTOP)
            holder.kill()
            self.finish([holder])
            after = self.start("sleep", "600", options=("--session=mine", *options), image=self.root)
            time.sleep(0.3)  # it asks the one that has stopped
            os.kill(broker, signal.SIGCONT)
            self.wait_until(lambda: self.processes("sleep") or after.poll() is not None, "the next rank does not run")
            self.assertIsNone(after.poll(), "the next rank was refused")
            self.wait_until(lambda: broker not in self.processes(BROKER), "the first session goes on")
            self.wait_until(lambda: len(self.processes(BROKER)) == 1, "the next rank has no session")
            after.kill()
            self.finish([after])
            self.wait_until(lambda: not self.processes(), "a session was left")

    def test_a_squatter_holds_nobody_up(self):
        for count in SIZES:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as squatter:
                squatter.bind("\0slipway-session-" + self.session_key("--session=mine", image=self.root))
                ends = self.finish([self.start("true", options=("--session=mine",), image=self.root)
                                    for _ in range(count)])
            self.assertEqual({status for status, _ in ends}, {0})
            self.assertEqual([error for _, error in ends if "using a private one" not in error], [], count)

    def test_a_full_tmp_and_a_read_only_run(self):
        inside = self.path("tiny")
        os.mkdir(inside)
        for count in SIZES:
            script = (f"mount -t tmpfs -o size=4k none {inside} && ! head -c 9000 /dev/zero > {inside}/full 2>/dev/null;"
                      "mount --bind /run /run && mount -o remount,ro,bind /run || exit 3;"
                      "! touch /run/x 2>/dev/null || exit 4;"
                      f"export TMPDIR={inside}/ XDG_RUNTIME_DIR=/run;"
                      f"for i in $(seq {count}); do {program()} run {self.image} -- true || echo failed & done; wait")
            environment = dict(self.env, SLIPWAY_TEST_MARK=self.temporary)
            result = subprocess.run([require_program("unshare"), "-Urm", "sh", "-c", script], env=environment,
                                    capture_output=True, text=True, timeout=90)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""), count)

    # --- names, plans, memory ---

    def test_a_name_with_another_plan_is_refused_with_the_difference(self):
        holder = self.start("sleep", "60", options=("--session=mine",))
        self.wait_until(lambda: self.processes("sleep"), "the first rank does not run")
        (status, error), = self.finish([self.start("true", options=("--session=mine", "-b", "/usr/lib:/opt"))])
        self.assertEqual(status, 125)
        self.assertIn('the session "mine" runs another plan', error)
        self.assertIn('this run: bind "/usr/lib" on "/opt"', error)
        self.assertIn("try: choose another name with --session", error)
        (status, error), = self.finish([self.start("true", options=("--session=mine",), image=self.root)])
        self.assertEqual(status, 125)
        self.assertIn(f'the session: image-squashfs "{self.image}"', error)
        self.assert_all_fine(self.finish([self.start("true", options=("--session=mine",))]))
        holder.kill()
        self.finish([holder])

    def test_a_lingering_session_waits_for_the_next(self):
        self.assert_all_fine(self.finish([self.start("true", options=("--linger=5",))]))
        self.wait_until(lambda: len(self.processes(BROKER)) == 1, "the session does not linger")
        server = set(self.processes(SERVER))
        self.assertEqual(len(server), 1)
        for count in SIZES:
            ranks = [self.start("true", options=("--linger=5",)) for _ in range(count)]
            self.assert_all_fine(self.finish(ranks), count)
            self.assertEqual(set(self.processes(SERVER)), server, "the same server serves them all")
        self.wait_until(lambda: not self.processes(), "the session outlives its time")

    def test_who_waits_hears_of_it_whoever_comes_meanwhile(self):
        """A container that takes longer than a silent broker is given, and ranks that come all the time."""
        ranks = [self.start("sleep", "600", env={"SLIPWAY_FAULT": "container.assembled:sleep=4000"})]
        self.wait_until(lambda: self.processes(BROKER), "the session has no broker")
        for _ in range(12):
            ranks.append(self.start("sleep", "600"))
            time.sleep(0.3)
        self.wait_until(lambda: len(self.processes("sleep")) == len(ranks), "a rank does not run")
        self.assertEqual((len(self.processes(BROKER)), len(self.processes(SERVER))), (1, 1))
        for rank in ranks:
            rank.kill()
        self.assertEqual([error for _, error in self.finish(ranks) if error], [])

    def test_nobody_is_taken_in_after_the_servers_end(self):
        holder = self.start("sleep", "600", options=("--session=mine",))
        self.wait_until(lambda: self.processes("sleep") and len(self.processes(BROKER)) == 1, "the first rank does not run")
        (broker,), (server,) = self.processes(BROKER), self.processes(SERVER)
        os.kill(broker, signal.SIGSTOP)
        os.kill(server, signal.SIGKILL)
        self.wait_until(lambda: server not in self.processes(), "the server lives")
        after = self.start("true", options=("--session=mine",))
        time.sleep(0.3)  # it asks the one that has stopped
        os.kill(broker, signal.SIGCONT)
        self.assert_all_fine(self.finish([after]))
        holder.kill()
        self.finish([holder])

    def test_who_joins_may_ask_for_a_longer_time(self):
        holder = self.start("sleep", "600", options=("--session=mine",))
        self.wait_until(lambda: self.processes("sleep"), "the first rank does not run")
        server = set(self.processes(SERVER))
        self.assert_all_fine(self.finish([self.start("true", options=("--session=mine", "--linger=60"))]))
        holder.kill()
        self.finish([holder])
        time.sleep(0.5)
        self.assertEqual(set(self.processes(SERVER)), server, "the session is kept")
        self.assert_all_fine(self.finish([self.start("true", options=("--session=mine",))]))
        self.assertEqual(set(self.processes(SERVER)), server, "the next was in it")
        for pid in self.processes(BROKER):
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: not self.processes(), "a server without a session lives")

    def test_ranks_read_each_others_memory(self):
        """Cross-memory attach, by which MPI moves data within a node, works inside a session and not across."""
        root = self.path("cma")
        for name in ("usr", "dev", "proc", "sys", "tmp", "etc"):
            os.makedirs(os.path.join(root, name))
        for name in ("bin", "lib", "lib64"):
            os.symlink("usr/" + name, os.path.join(root, name))
        owner = ("import ctypes,os,sys,time; b=ctypes.create_string_buffer(b'through memory');"
                 "print(os.getpid(), ctypes.addressof(b), flush=True); time.sleep(20)")
        reader = ("import ctypes,sys; libc=ctypes.CDLL(None,use_errno=True); n=14; b=ctypes.create_string_buffer(n);"
                  "V=type('V',(ctypes.Structure,),{'_fields_':[('p',ctypes.c_void_p),('n',ctypes.c_size_t)]});"
                  "l,r=V(ctypes.addressof(b),n),V(int(sys.argv[2]),n);"
                  "s=libc.process_vm_readv(int(sys.argv[1]),ctypes.byref(l),1,ctypes.byref(r),1,0);"
                  "print(b.raw.decode() if s==n else ctypes.get_errno())")
        command = [program(), "run", "-b", "/usr:/usr", root, "--", "/usr/bin/python3", "-c"]
        target = subprocess.Popen([*command, owner], env=self.env, stdout=subprocess.PIPE, text=True)
        words = target.stdout.readline().split()
        read = subprocess.run([*command, reader, *words], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual((read.stdout, read.stderr), ("through memory\n", ""))
        apart = [word for word in command if word != "run"]
        apart[1:1] = ["run", "--session=none"]
        read = subprocess.run([*apart, reader, *words], env=self.env, capture_output=True, text=True, timeout=60)
        self.assertEqual(read.stdout, "1\n", "EPERM across user namespaces")
        target.kill()
        target.communicate()


if __name__ == "__main__":
    main()
