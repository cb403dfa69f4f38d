# What reaches the command, and what becomes of it: signals, job control, limits, statuses, time limits, orphans.
# Must not: take a launcher for granted: each is the real program.
import os
import pty
import re
import resource
import select
import signal
import subprocess
import sys
import time

from slipway_test import SlipwayTest, main, program, require_program, run
from small_root import make_root, make_squashfs

# Signals that can be caught, without those by which the kernel itself speaks of a child.
CATCHABLE = [number for number in sorted(signal.valid_signals()) if number not in (signal.SIGKILL, signal.SIGSTOP,
                                                                                     signal.SIGCHLD)]
# Says which signals come, as they come. Runs on the host's files: the image is "/" with a bind.
CATCHER = """
import os, signal, sys, time
def note(number, frame):
    os.write(1, b"%d\\n" % number)
for number in map(int, sys.argv[1].split(",")):
    signal.signal(number, note)
print("ready", flush=True)
while True:
    time.sleep(10)
"""
SUPERVISED = ("--timeout", "100")


class SupervisionTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))

    def host_run(self, *options):
        """The words that run a command of the host's files in namespaces of their own."""
        return [program(), "run", *options, "-b", f"{self.root}:/mnt", "/", "--"]

    def start(self, argv, **more):
        more = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL, "env": self.env,
                "text": True, "start_new_session": True} | more
        return subprocess.Popen([str(word) for word in argv], **more)

    def modes(self):
        """Options of a run in which the command is the launcher itself, and of those with a parent."""
        yield "the command itself", ()
        yield "a time limit", SUPERVISED
        yield "detached", ("--detach-on-kill",)

    def test_every_catchable_signal_reaches_the_command_once(self):
        for kind, options in self.modes():
            with self.subTest(kind):
                process = self.start([*self.host_run(*options), sys.executable, "-c", CATCHER, ",".join(map(str, map(int, CATCHABLE)))])
                self.assertEqual(process.stdout.readline(), "ready\n")
                for number in CATCHABLE:
                    os.kill(process.pid, number)
                    self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
                self.assertEqual(select.select([process.stdout], [], [], 0.2)[0], [], "a signal came twice")
                process.kill()
                self.end_the_rest()
                process.communicate(timeout=10)

    def end_the_rest(self):
        """End a command that outlived its launcher."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def test_a_signal_to_the_group_comes_once(self):
        # What mpiexec, Slurm and timeout(1) do, away from a terminal.
        for kind, options in self.modes():
            with self.subTest(kind):
                process = self.start([*self.host_run(*options), sys.executable, "-c", CATCHER, f"{int(signal.SIGUSR1)},{int(signal.SIGTERM)}"])
                self.assertEqual(process.stdout.readline(), "ready\n")
                for number in (signal.SIGUSR1, signal.SIGTERM, signal.SIGUSR1):
                    os.killpg(process.pid, number)
                    self.assertEqual(process.stdout.readline(), f"{int(number)}\n")
                self.assertEqual(select.select([process.stdout], [], [], 0.2)[0], [], "a signal came twice")
                process.kill()
                self.end_the_rest()
                process.communicate(timeout=10)

    def test_a_queued_signal_keeps_its_value(self):
        code = ("import signal, sys; signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGRTMIN}); print('ready', flush=True); "
                "print(signal.sigwaitinfo({signal.SIGRTMIN}).si_code)")
        kill = require_program("kill")
        for kind, options in self.modes():
            with self.subTest(kind):
                process = self.start([*self.host_run(*options), sys.executable, "-c", code])
                self.assertEqual(process.stdout.readline(), "ready\n")
                subprocess.run([kill, "-q", "77", "-s", "RTMIN", str(process.pid)], check=True)
                self.assertEqual(process.communicate(timeout=10)[0], "-1\n")  # SI_QUEUE

    def test_statuses(self):
        for kind, options in self.modes():
            for words, status in ((["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -TERM $$"], 143),
                                  (["sh", "-c", "kill -SEGV $$"], 139), (["sh", "-c", "kill -KILL $$"], 137),
                                  (["/etc/image"], 126), (["/etc"], 126), (["nothere"], 127), (["sh", "-c", "exit 125"], 125)):
                with self.subTest(kind, command=words):
                    self.assert_status(self.slipway("run", *options, self.root, "--", *words), status)
            self.assert_fails(self.slipway("run", *options, "--cd", "/nothere", self.root, "--", "true"), "--cd")

    def test_stop_and_continue(self):
        # A time limit goes on away from a terminal, where nobody may ever continue the command.
        for kind, options in (mode for mode in self.modes() if mode[1] != SUPERVISED):
            for number in (signal.SIGTSTP, signal.SIGTTIN):
                with self.subTest(kind, number=number):
                    # The group must not be an orphaned one, or the kernel does not stop it: sh is its shell.
                    script = 'set -m; "$@" & echo $!; wait $!; echo "stopped $?"; kill -CONT %1; wait $!; echo "ended $?"'
                    process = self.start(["bash", "-c", script, "bash", *self.host_run(*options), "sh", "-c",
                                          "echo up >&2; sleep 2; exit 9"])
                    pid = int(process.stdout.readline())
                    self.assertEqual(process.stderr.readline(), "up\n")
                    os.kill(pid, number)
                    out = process.communicate(timeout=20)[0]
                    self.assertIn("ended 9", out)
                    self.assertIn(f"stopped {128 + number}", out)

    def test_sigstop_of_the_command_itself_and_sigcont(self):
        process = self.start([program(), "run", self.root, "--", "sh", "-c", "echo up; sleep 2; echo on"])
        self.assertEqual(process.stdout.readline(), "up\n")
        os.kill(process.pid, signal.SIGSTOP)
        self.assertEqual(os.waitid(os.P_PID, process.pid, os.WSTOPPED).si_status, signal.SIGSTOP)
        os.kill(process.pid, signal.SIGCONT)
        self.assertEqual(process.communicate(timeout=10)[0], "on\n")

    def test_a_hang_up_reaches_the_command(self):
        """The kernel tells it to the session's leader alone, which may be us (ssh -t, a terminal's window)."""
        for kind, options in self.modes():
            with self.subTest(kind):
                pid, terminal = pty.fork()
                if pid == 0:
                    os.execve(program(), [program(), "run", *options, self.root, "--", "sh", "-c", "echo up; sleep 60; true"], self.env)
                self.assertIn(b"up", os.read(terminal, 100))
                os.close(terminal)
                status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
                self.assertIn(status, (-signal.SIGHUP, 128 + signal.SIGHUP))
                self.end_the_rest()  # what sh started

    def test_a_timer_set_before_rings_for_the_command(self):
        code = "import os, signal, sys; signal.alarm(2); os.execv(sys.argv[1], sys.argv[1:])"
        for kind, options in self.modes():
            with self.subTest(kind):
                process = self.start([sys.executable, "-c", code, program(), "run", *options, self.root, "--", "sleep", "60"])
                process.communicate(timeout=30)
                self.assertIn(process.returncode, (-signal.SIGALRM, 128 + signal.SIGALRM))

    def test_a_stopped_command_that_is_killed_where_no_shell_is(self):
        for kind, options in self.modes():
            with self.subTest(kind):
                process = subprocess.Popen([program(), "run", *options, self.root, "--", "sh", "-c", "echo $$; exec sleep 60"],
                                           env=self.env, stdout=subprocess.PIPE, text=True, start_new_session=True)
                command = int(process.stdout.readline())
                os.kill(command, signal.SIGSTOP)
                time.sleep(0.3)  # for a supervisor, to follow
                os.kill(command, signal.SIGKILL)
                process.communicate(timeout=30)
                self.assertIn(process.returncode, (-signal.SIGKILL, 128 + signal.SIGKILL))

    def test_sigkill_of_the_launcher_ends_the_command(self):
        for kind, options in self.modes():
            with self.subTest(kind):
                process = self.start([program(), "run", *options, self.root, "--", "sh", "-c", "echo $$; exec sleep 100"])
                pid = int(process.stdout.readline())
                process.kill()
                process.wait(timeout=10)
                if "--detach-on-kill" in options:
                    self.wait_until(lambda: pid in self.processes("sleep"), "the command ended with its launcher")
                    time.sleep(0.3)
                    self.assertIn(pid, self.processes("sleep"))
                    os.kill(pid, signal.SIGKILL)
                else:
                    self.wait_until(lambda: pid not in self.processes(), "the command goes on without its launcher", 10)
                process.communicate()

    def test_time_limit(self):
        result = self.slipway("run", "--timeout", "0.4", self.root, "--", "sleep", "30")
        self.assert_fails(result, "longer than 0.4 s (--timeout)", status=124)
        self.assertLess(result.seconds, 20)
        # What the command started ends with it, wherever it hides; a stopped command, too.
        result = self.slipway("run", "--timeout=0.4s", self.root, "--", "sh", "-c",
                              "setsid sleep 50 & (setsid sleep 51 &); kill -STOP $$; echo continued", timeout=60)
        self.assert_status(result, 124)
        self.assertEqual(self.processes("sleep"), {})
        # In time, it does nothing.
        result = self.slipway("run", "--timeout=1m", self.root, "--", "sh", "-c", "sleep 0.1; exit 3")
        self.assert_status(result, 3)
        self.assertEqual(result.stderr, "")

    def test_time_limit_ends_in_sigkill(self):
        result = self.slipway("run", "--timeout=3", self.root, "--", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
        self.assert_fails(result, "within 10 s of SIGTERM", status=124)
        self.assertTrue(10 < result.seconds < 60, result)

    def test_bad_durations(self):
        for text in ("x", "-1", "1w", "1e400", "nan"):
            self.assert_fails(self.slipway("run", f"--timeout={text}", self.root, "--", "true"), "--timeout")

    def test_orphans_are_reaped(self):
        # One of them may have died a moment ago: the script looks again, for ten seconds.
        script = ("(sleep 0.05 & exec true) & (sh -c 'sh -c \"sleep 0.05 & :\" & :') & sleep 0.4; "
                  "zombies() { for p in /proc/[0-9]*; do read -r line < $p/stat && case \"$line\" in *') Z '\"$1\"' '*) "
                  "echo zombie $line;; esac; done 2>/dev/null; }; "
                  "for i in {1..50}; do [ -z \"$(zombies)\" ] && exit 0; sleep 0.2; done; zombies; exit 0")
        for kind, options in self.modes():
            with self.subTest(kind):
                process = self.start([program(), "run", *options, self.root, "--", "bash", "-c",
                                      script.replace('"$1"', "$PPID")])
                out, error = process.communicate(timeout=60)
                self.assertEqual((out, process.returncode), ("", 0), error)

    def test_background_children_outlive_the_command_and_keep_the_files(self):
        image = make_squashfs(self.root, self.path("image.sqfs"))
        for kind, options in self.modes():
            with self.subTest(kind):
                result = self.slipway("run", *options, "-b", self.path("") + ":/opt", image, "--", "sh", "-c",
                                      "(until [ -e /opt/go ]; do sleep 0.05; done; cat /etc/image; "
                                      "wc -c < /usr/share/words-9) > /opt/out 2>&1 & exit 5", timeout=60)
                self.assert_status(result, 5)
                go = self.write("go", "")
                self.wait_until(lambda: not self.processes(), "the child, or what served it, does not end")
                os.unlink(go)
                with open(self.path("out")) as file:
                    self.assertEqual(file.read(), "small root\n65536\n")

    def test_the_parent_holds_no_pipe_open(self):
        # The command gives up its standard output, and another descriptor: whoever reads sees the end at once.
        for kind, options in self.modes():
            with self.subTest(kind):
                read, write = os.pipe()
                process = self.start([program(), "run", *options, self.root, "--", "sh", "-c",
                                      f"exec >&- {write}>&-; sleep 60"], pass_fds=[write])
                os.close(write)
                began = time.monotonic()
                self.assertEqual(os.read(read, 1), b"")
                self.assertEqual(process.stdout.read(), "")
                self.assertLess(time.monotonic() - began, 30)
                os.close(read)
                process.kill()
                self.end_the_rest()
                process.communicate(timeout=10)

    def test_what_the_caller_set_reaches_the_command(self):
        """Limits, priority, processors, masks, ignored signals, umask, session, OOM score, descriptors."""
        prepare = ("import os, resource, signal, sys\n"
                   "signal.signal(signal.SIGHUP, signal.SIG_IGN); signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
                   "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                   "signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR2})\n"
                   "resource.setrlimit(resource.RLIMIT_CORE, (4096, 8192)); resource.setrlimit(resource.RLIMIT_STACK, (1 << 22, 1 << 23))\n"
                   "os.nice(5); os.umask(0o027); os.close(0); os.dup2(1, 9); os.set_inheritable(9, True)\n"
                   "os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})\n"
                   "open('/proc/self/oom_score_adj', 'w').write('321')\n"
                   "os.environ['PMI_FD'] = '9'\n"
                   "os.execvp(sys.argv[1], sys.argv[1:])\n")
        report = ("grep -E '^(Sig(Blk|Ign)|Cpus_allowed|Umask)' /proc/self/status; cat /proc/self/limits /proc/self/oom_score_adj; "
                  "ls /proc/self/fd; read -r line < /proc/self/stat; set -- ${line##*) }; echo session $4 tty $5 nice ${17}; echo pmi >&9")
        native = None
        for words in [["sh", "-c", report]], *[[*[program(), "run", *options, "--keep-env", self.root, "--", "sh", "-c", report]]
                                               for _, options in self.modes()]:
            words = words if isinstance(words[0], str) else words[0]
            result = run([sys.executable, "-c", prepare, *words], env=self.env)
            text = re.sub(r"session \d+", "session", result.stdout)
            native = native or text
            self.assertRegex(text, r"(?s)Umask:\s0027.*Max core file size +4096 +8192.*\n321\n.*nice 5\npmi")
            self.assertEqual(text, native, result)

    def test_a_core_dump_is_the_commands_own(self):
        with open("/proc/sys/kernel/core_pattern") as file:
            pattern = file.read().strip()
        if pattern.startswith("|") or "/" in pattern:
            self.skipTest(f"this host sends core dumps elsewhere: {pattern}")
        for kind, options in self.modes():
            for limit, wanted in ((0, False), (resource.RLIM_INFINITY, True)):
                with self.subTest(kind, limit=limit):
                    place = self.path(f"core-{kind.replace(' ', '-')}-{limit}")
                    os.mkdir(place)
                    result = run(["sh", "-c", f"ulimit -c {'unlimited' if wanted else 0}; exec \"$@\"", "sh", program(), "run",
                                  *options, "-b", place + ":/opt", "--cd=/opt", self.root, "--", "sh", "-c", "kill -ABRT $$"],
                                 env=self.env)
                    self.assert_status(result, 134)
                    self.assertEqual(bool(os.listdir(place)), wanted)

    def test_closed_streams_and_a_closed_pipe(self):
        for kind, options in self.modes():
            with self.subTest(kind):
                base = [program(), "run", *options, self.root, "--", "sh", "-c"]
                closed = run(["sh", "-c", 'exec "$@" <&-', "sh", *base, "ls /proc/self/fd; exit 4"], env=self.env)
                self.assertEqual((closed.status, closed.stdout.split()[0]), (4, "0"))  # 0 is ls's own directory
                piped = run(["bash", "-c", '"$@" | true; echo ${PIPESTATUS[0]}', "bash", *base,
                             "while echo x; do :; done 2>/dev/null"], env=self.env)
                self.assertEqual(piped.stdout, "141\n")


class TerminalTest(SlipwayTest):
    """A real terminal with a real shell: what people type."""

    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.execvpe("bash", ["bash", "--norc", "--noediting", "-i"], self.env | {"PS1": "<prompt>", "PS2": "", "TERM": "dumb"})
        self.seen = ""
        self.addCleanup(os.close, self.terminal)
        self.addCleanup(self.end_shell)
        self.expect("<prompt>")

    def end_shell(self):
        try:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        except (ProcessLookupError, ChildProcessError):
            pass

    def type(self, text):
        os.write(self.terminal, text.encode())

    def expect(self, pattern, seconds=30):
        """Return what the terminal shows up to the pattern."""
        deadline = time.monotonic() + seconds
        while not (match := re.search(pattern, self.seen)):
            ready = select.select([self.terminal], [], [], max(0, deadline - time.monotonic()))[0]
            self.assertTrue(ready, f"no {pattern!r} in {self.seen!r}")
            self.seen += os.read(self.terminal, 4096).decode(errors="replace")
        text, self.seen = self.seen[:match.end()], self.seen[match.end():]
        return text

    def run_line(self, options, script):
        self.type(f"{program()} run {' '.join(options)} {self.root} -- sh -c '{script}'\n")

    def foreground(self):
        self.expect("<prompt>")
        self.type("fg\n")
        self.expect(r"fg\r?\n[^\n]*slipway run[^\n]*\n")
        deadline = time.monotonic() + 10
        while os.tcgetpgrp(self.terminal) == self.pid and time.monotonic() < deadline:
            time.sleep(0.01)  # the shell tells of the job before it gives it the terminal

    def jobs(self):
        """Return what the shell says of its jobs."""
        self.type("jobs; echo as\"ked\"\n")
        return self.expect("asked")

    def modes(self):
        yield ()
        yield SUPERVISED

    def test_job_control(self):
        for options in self.modes():
            with self.subTest(options=options):
                self.run_line(options, "echo be\"gun\"; read line; echo got $line; exec sleep 30")
                self.expect("begun")
                self.type("\x1a")
                self.expect("Stopped")
                self.expect("<prompt>")
                self.type("jobs\n")
                self.expect("Stopped")
                self.foreground()
                self.type("wo\"rd\"\n")
                self.expect('got wo"rd"')
                self.type("\x1a")
                self.expect("Stopped")
                self.type("bg; echo back-$((1+1))\n")
                self.expect("back-2")
                self.type("jobs\n")
                self.expect("Running")
                self.foreground()
                self.type("\x03")
                self.expect("<prompt>")
                self.type("echo status-$?\n")
                self.expect("status-130")

    def test_ctrl_c_comes_once(self):
        for options in self.modes():
            with self.subTest(options=options):
                self.run_line(options, 'trap "echo in\"\"terrupted" INT; echo be\"gun\"; sleep 5; sleep 1; exit 4')
                self.expect("begun")
                self.type("\x03")
                text = self.expect("<prompt>")
                self.assertEqual(text.count("interrupted"), 1, text)
                self.type("echo status-$?\n")
                self.expect("status-4")

    def test_reading_in_the_background_stops(self):
        for options in self.modes():
            with self.subTest(options=options):
                self.type(f"{program()} run {' '.join(options)} {self.root} -- sh -c 'read line; echo got $line' &\n")
                self.wait_until(lambda: "Stopped" in self.jobs(), "it does not stop")
                self.foreground()
                self.type("te\"xt\"\n")
                self.expect('got te"xt"')

    def test_a_resized_terminal(self):
        import fcntl
        import struct
        import termios
        for number, options in enumerate(self.modes()):
            with self.subTest(options=options):
                code = "import signal, os, time; signal.signal(signal.SIGWINCH, lambda *_: os.write(1, str(os.get_terminal_size()).encode())); " \
                       "os.write(1, b\"be\" + b\"gun\"); time.sleep(2)"
                self.type(f"{program()} run {' '.join(options)} -b {self.root}:/mnt / -- {sys.executable} -c '{code}'\n")
                self.expect("begun")
                fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 31 + number, 91, 0, 0))
                text = self.expect("<prompt>")
                self.assertEqual(text.count(f"columns=91, lines={31 + number}"), 1, text)

    def tearDown(self):
        self.type("exit\nexit\n")
        self.end_shell()
        super().tearDown()


class LauncherTest(SlipwayTest):
    """Under the launchers of MPICH and of Open MPI."""

    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))

    def launchers(self):
        yield "mpich", [require_program("mpiexec.mpich"), "-n"]
        yield "openmpi", [require_program("mpiexec.openmpi"), "--oversubscribe", "-n"]

    def test_statuses_and_one_session(self):
        for name, launcher in self.launchers():
            for options in ((), SUPERVISED):
                with self.subTest(name, options=options):
                    result = run([*launcher, "4", program(), "run", *options, self.root, "--", "sh", "-c",
                                  "readlink /proc/self/ns/mnt; sleep 3"], env=self.env)
                    self.assert_status(result, 0)
                    self.assertEqual((len(result.stdout.split()), len(set(result.stdout.split()))), (4, 1), result)
                    result = run([*launcher, "2", program(), "run", *options, self.root, "--", "sh", "-c", "exit 7"],
                                 env=self.env)
                    self.assert_status(result, 7)

    def test_a_signal_to_the_launcher_ends_every_command(self):
        for name, launcher in self.launchers():
            for options in ((), SUPERVISED):
                with self.subTest(name, options=options):
                    process = subprocess.Popen([*launcher, "3", program(), "run", *options, self.root, "--", "sh", "-c",
                                                "echo up; exec sleep 60"], env=self.env, text=True, stdout=subprocess.PIPE,
                                               stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
                    self.assertEqual([process.stdout.readline() for _ in range(3)], ["up\n"] * 3)
                    process.send_signal(signal.SIGTERM)
                    process.communicate(timeout=30)
                    self.check_leaks()

    def test_the_time_limit_under_a_launcher(self):
        for name, launcher in self.launchers():
            with self.subTest(name):
                result = run([*launcher, "2", program(), "run", "--timeout=0.5", self.root, "--", "sleep", "60"], env=self.env)
                self.assert_status(result, 124)
                self.assertIn("longer than 0.5 s", result.stderr)


if __name__ == "__main__":
    main()
