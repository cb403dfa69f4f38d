# Sessions: many ranks, one container and one image server; any of them may end, be killed, or come late.
# Must not: use a launcher; the session is that of this test's process.
import os
import random
import signal
import subprocess
import time

from slipway_test import SlipwayTest, main, program
from small_root import make_root, make_squashfs

SERVER, BROKER = "slipway-fuse", "slipway-session"


class SessionTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        root = make_root(self.path("root"))
        self.image = make_squashfs(root, self.path("image.sqfs"))

    def start(self, script, *options, image=None):
        return subprocess.Popen([program(), "run", *options, image or self.image, "--", "sh", "-c", script], env=self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def servers(self):
        return set(self.processes(SERVER))

    def brokers(self):
        return set(self.processes(BROKER))

    def finish(self, ranks, timeout=60):
        """Return how each rank ended, which may have waited for a line until now; any word on stderr is a failure."""
        ends = []
        for rank in ranks:
            out, error = rank.communicate("\n", timeout=timeout)
            ends.append((rank.returncode, error))
        return ends

    def test_ranks_share_namespaces_and_one_server(self):
        ranks = [self.start("readlink /proc/self/ns/mnt /proc/self/ns/user; read line") for _ in range(64)]
        namespaces = {(rank.stdout.readline(), rank.stdout.readline()) for rank in ranks}
        self.assertEqual(len(namespaces), 1)
        self.assertEqual((len(self.servers()), len(self.brokers())), (1, 1))
        self.assertEqual(set(self.finish(ranks)), {(0, "")})

    def test_many_short_ranks(self):
        for _ in range(5):
            ranks = [self.start("exit 0") for _ in range(64)]
            self.assertEqual(set(self.finish(ranks)), {(0, "")})

    def test_joining_while_the_session_ends(self):
        for at_once in (1, 2, 3, 4, 8):
            running, ends = [], []
            for _ in range(120):
                running.append(self.start("exit 0"))
                if len(running) == at_once:
                    ends += self.finish([running.pop(0)])
            ends += self.finish(running)
            self.assertEqual(set(ends), {(0, "")}, f"{at_once} at once")

    def test_uneven_ends(self):
        ranks = [self.start(f"sleep {random.random():.2f}; sha256sum /usr/share/words-* > /dev/null") for _ in range(16)]
        self.assertEqual(set(self.finish(ranks)), {(0, "")})

    def test_killing_the_first_rank(self):
        for _ in range(5):
            ranks = [self.start("sleep 0.4; sha256sum /usr/share/words-* > /dev/null" if i else "exec sleep 60")
                     for i in range(6)]
            time.sleep(random.random() * 0.1)
            ranks[0].kill()
            ends = self.finish(ranks)
            self.assertEqual(ends[0][0], -signal.SIGKILL)
            self.assertEqual(set(ends[1:]), {(0, "")})

    def test_killing_the_broker(self):
        old = [self.start("echo up; read line; sha256sum /usr/share/words-* > /dev/null") for _ in range(4)]
        for rank in old:
            rank.stdout.readline()
        for pid in self.brokers():
            os.kill(pid, signal.SIGKILL)
        new = [self.start("sha256sum /usr/share/words-1 > /dev/null") for _ in range(4)]
        self.assertEqual(set(self.finish(old + new)), {(0, "")})

    def test_killing_the_server_fails_its_ranks_and_no_other(self):
        old = [self.start("echo up; read line; sha256sum /usr/share/words-* > /dev/null") for _ in range(4)]
        for rank in old:
            rank.stdout.readline()
        helpers = self.servers() | self.brokers()
        for pid in self.servers():
            os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: not helpers & set(self.processes()), "the session goes on without its server")
        new = [self.start("sha256sum /usr/share/words-1 > /dev/null") for _ in range(4)]
        self.assertNotIn(0, [status for status, _ in self.finish(old, timeout=20)])
        self.assertEqual(set(self.finish(new)), {(0, "")})

    def test_a_child_in_the_background_outlives_the_session(self):
        rank = self.start("(until [ -e /opt/go ]; do sleep 0.05; done; cat /usr/share/words-3 | wc -c; cat /etc/image) "
                          "> /opt/out 2>&1 & exit 5", "-b", self.path("") + ":/opt")
        self.assertEqual(self.finish([rank])[0][0], 5)
        self.wait_until(lambda: not self.brokers(), "the broker outlives its last member")
        self.assertEqual(len(self.servers()), 1, "the server stays for the child")
        self.write("go", "")
        self.wait_until(lambda: not self.servers(), "the server outlives the child")
        with open(self.path("out")) as file:
            self.assertEqual(file.read(), "65536\nsmall root\n")

    def test_graceful_signals_to_everything_reach_the_commands_only(self):
        ranks = [self.start("trap 'sha256sum /usr/share/words-2 >/dev/null && exit 3' TERM; echo up; "
                            "while :; do sleep 0.05; done") for _ in range(3)]
        for rank in ranks:
            rank.stdout.readline()
        for pid in set(self.brokers()) | set(self.servers()) | {rank.pid for rank in ranks}:
            os.kill(pid, signal.SIGTERM)
        self.assertEqual([status for status, _ in self.finish(ranks)], [3, 3, 3])

    def test_sessions_are_told_apart(self):
        script = "readlink /proc/self/ns/mnt; read line"
        ranks = [self.start(script), self.start(script, "--session=mine"), self.start(script, "--session=none"),
                 self.start(script, "-b", self.path("root") + ":/opt"), self.start(script, image=self.path("root"))]
        self.assertEqual(len({rank.stdout.readline() for rank in ranks}), 5)
        self.assertEqual(set(self.finish(ranks)), {(0, "")})

    def test_a_private_run_leaves_nothing_after_sigkill(self):
        rank = self.start("echo up; sleep 30", "--session=none")
        rank.stdout.readline()
        self.assertEqual((len(self.servers()), len(self.brokers())), (1, 0))
        subprocess.run(["pkill", "-KILL", "-P", str(rank.pid)], check=False)
        rank.kill()
        self.finish([rank])

    def test_an_error_of_the_set_up_reaches_every_rank(self):
        # /etc/image is a file: no directory can be made below it.
        ranks = [self.start("true", "-b", self.path("root") + ":/etc/image/below") for _ in range(4)]
        for status, error in self.finish(ranks):
            self.assertEqual(status, 125)
            self.assertIn("requested by: --bind, argument 1", error)

    def test_what_serves_a_command_is_no_child_of_it(self):
        # What ends all its children, as job scripts and worker pools do, must not end the image's server.
        script = """if True:
            import os, signal
            signal.signal(signal.SIGCHLD, lambda *_: print("a child has ended"))
            with open(f"/proc/self/task/{os.getpid()}/children") as children:
                print(children.read().split())
            try:
                print(os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | 0x40000000))  # __WALL
            except ChildProcessError:
                print("no child")
            """
        for options in [], ["--session=none"]:
            result = self.slipway("run", *options, "--bind", "/usr:/usr", self.image, "--", "/usr/bin/python3", "-c", script)
            self.assertEqual((result.status, result.stdout, result.stderr), (0, "[]\nno child\n", ""))

    def test_ranks_may_read_each_others_memory(self):
        # Cross-memory attach, which MPI's shared memory transports use: allowed between members of one session.
        target = self.start("echo $$; read line")
        pid = int(target.stdout.readline())
        reader = self.start(f"cat /proc/{pid}/environ > /dev/null && readlink /proc/{pid}/root")
        out, error = reader.communicate(timeout=30)
        self.assertEqual((reader.returncode, error), (0, ""))
        self.finish([target])


if __name__ == "__main__":
    main()
