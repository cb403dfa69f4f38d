# `slipway run` on the kernel: directories and squashfs files, binds, environment, errors, exit status.
# Must not: run as root; every case leaves nothing behind (checked by SlipwayTest).
import grp
import json
import os
import pwd
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from slipway_test import SlipwayTest, main, program, run
from small_root import make_root, make_squashfs


class RunTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))

    def images(self):
        """Yield each kind of image with its name."""
        yield "directory", self.root
        yield "squashfs", make_squashfs(self.root, self.path("image.sqfs"))

    def sh(self, image, script, *options, **more):
        return self.slipway("run", *options, image, "--", "sh", "-c", script, **more)

    def test_exit_status_is_the_commands_own(self):
        for kind, image in self.images():
            for session in ("none", "exit"):
                with self.subTest(kind, session=session):
                    self.assert_status(self.sh(image, "exit 7", f"--session={session}"), 7)
                    self.assert_status(self.sh(image, "kill -TERM $$", f"--session={session}"), 128 + signal.SIGTERM)
                    self.assertEqual(self.sh(image, "cat /etc/image", f"--session={session}").stdout, "small root\n")

    def test_the_command_runs_in_our_pid(self):
        process = subprocess.Popen([program(), "run", self.root, "--", "sh", "-c", "echo $$"], env=self.env,
                                   stdout=subprocess.PIPE, text=True)
        self.assertEqual(int(process.communicate(timeout=30)[0]), process.pid)

    def test_a_signal_reaches_the_command(self):
        for kind, image in self.images():
            with self.subTest(kind):
                process = subprocess.Popen([program(), "run", image, "--", "sh", "-c",
                                            "trap 'echo stopped; exit 9' TERM; echo ready; while :; do sleep 0.05; done"],
                                           env=self.env, stdout=subprocess.PIPE, text=True)
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.terminate()
                self.assertEqual(process.communicate(timeout=30)[0], "stopped\n")
                self.assertEqual(process.returncode, 9)

    def test_ids_are_the_callers(self):
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "id -u; id -g; id -un; cat /etc/passwd")
                lines = result.stdout.splitlines()
                self.assertEqual(lines[:2], [str(os.getuid()), str(os.getgid())], result)
                self.assertIn(f":x:{os.getuid()}:{os.getgid()}:", result.stdout)

    def test_users_of_the_image_stay_and_the_caller_is_one_of_them(self):
        """Also where the image's first user has the caller's id, as on most laptops."""
        me, uid = pwd.getpwuid(os.getuid()).pw_name, os.getuid()
        own_group = grp.getgrgid(os.getgid()).gr_name
        passwd = f"root:x:0:0:root:/root:/bin/bash\nbob:x:1234:1235::/home/bob:/bin/bash\n\xff:::\ntwin:x:{uid}:1235::/:/bin/sh"
        self.write("root/etc/passwd", passwd.encode("latin-1"))
        self.write("root/etc/group", "root:x:0:\ncrew:x:1235:bob\n")
        for kind, image in self.images():
            for session in ("none", "accounts"):
                with self.subTest(kind, session=session):
                    result = self.sh(image, "id bob; id -u twin; whoami; id -gn; stat -c %a /etc/passwd; grep -c :0:0: /etc/passwd",
                                     f"--session={session}")
                    self.assertEqual(self.assert_succeeds(result).stdout.splitlines(),
                                     ["uid=1234(bob) gid=1235(crew) groups=1235(crew)",
                                      str(uid), me, own_group, "644", "1"])
        with open(self.path("root/etc/passwd"), encoding="latin-1") as file:
            self.assertEqual(file.read(), passwd)

    def test_a_passwd_file_that_cannot_be_merged(self):
        passwd = self.path("root/etc/passwd")
        for make in (lambda: os.mkfifo(passwd), lambda: os.symlink("/absent/passwd", passwd),
                     lambda: self.write("root/etc/passwd", "x" * (3 << 20))):
            if os.path.lexists(passwd):
                os.unlink(passwd)
            make()
            result = self.sh(self.root, "id -un; tail -1 /etc/passwd", "--session=none", timeout=20)
            self.assertEqual(self.assert_succeeds(result).stdout.splitlines(),
                             [pwd.getpwuid(os.getuid()).pw_name, "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin"])

    def test_no_store_is_made_for_an_image_in_the_file_system(self):
        store = self.path("store-never-made")
        for _, image in [*self.images(), ("host", "/")]:
            self.assert_succeeds(self.slipway("run", "-s", store, image, "--", "true"))
        self.assertFalse(os.path.exists(store))

    def test_what_the_caller_set_for_its_children_reaches_the_command(self):
        """Blocked and ignored signals, limits, umask, closed standard streams: none is ours to change."""
        probe = ["grep", "-E", "^(Sig(Blk|Ign)|Cpus_allowed|Umask|Max open files)", "/proc/self/status", "/proc/self/limits"]
        prepare = ("import os, resource, signal, sys\n"
                   "signal.signal(signal.SIGPIPE, signal.SIG_IGN); signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                   "signal.pthread_sigmask(signal.SIG_SETMASK, {signal.SIGUSR1, signal.SIGTERM})\n"
                   "resource.setrlimit(resource.RLIMIT_NOFILE, (99, 999)); os.umask(0o077); os.close(0); os.close(2)\n"
                   "os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
                   "os.execvp(sys.argv[1], sys.argv[1:])\n")
        images = list(self.images())
        for command in probe, ["ls", "/proc/self/fd"]:
            native = run([sys.executable, "-c", prepare, *command], env=self.env).stdout
            self.assertTrue(re.search("Umask:\t0077(.|\n)*Max open files +99 ", native) or native == "0\n1\n", native)
            for kind, image in images:
                for session in ("none", "state"):
                    with self.subTest(kind, session=session, command=command[0]):
                        inside = run([sys.executable, "-c", prepare, program(), "run", f"--session={session}", image, "--",
                                      *command], env=self.env)
                        self.assertEqual(inside.stdout, native, inside)

    def test_modes_inside_do_not_depend_on_the_umask(self):
        for kind, image in self.images():
            for session in ("none", "umask"):
                with self.subTest(kind, session=session):
                    result = run(["sh", "-c", 'umask 277; "$@"', "sh", program(), "run", f"--session={session}", "-b",
                                  self.path("root/usr") + ":/new/place", image, "--", "stat", "-c", "%a", "/etc/passwd",
                                  "/new"], env=self.env)
                    self.assertEqual(result.stdout, "644\n755\n", result)

    def test_images_are_read_only(self):
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "touch /new; touch /usr/new; touch /etc/new; ls /")
                self.assertEqual(result.stderr.count("Read-only file system"), 3, result)
        self.assertNotIn("new", os.listdir(self.root))

    def test_write(self):
        self.assert_succeeds(self.sh(self.root, "echo text > /usr/new && mkdir /made", "--write"))
        self.assertTrue(os.path.isdir(os.path.join(self.root, "made")))
        image = make_squashfs(self.root, self.path("image.sqfs"))
        self.assert_fails(self.sh(image, "true", "--write"), "cannot write to", "slipway convert")

    def test_default_mounts(self):
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "ls /dev/null /dev/shm /dev/pts -d; cat /proc/self/stat; ls /sys/kernel; "
                                        "cat /etc/resolv.conf /etc/hosts")
                self.assert_succeeds(result)
                for name in ("/etc/resolv.conf", "/etc/hosts"):
                    if os.path.exists(name):
                        with open(name) as file:
                            self.assertIn(file.read(), result.stdout)

    def test_binds(self):
        data = self.path("data")
        os.mkdir(data)
        self.write("data/file", "of the host\n")
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "cat /opt/file; touch /opt/by-rank", "-b", f"{data}:/opt")
                self.assertEqual(self.assert_succeeds(result).stdout, "of the host\n")
                os.unlink(os.path.join(data, "by-rank"))
                result = self.sh(image, "cat /opt/file; touch /opt/x", "-b", f"{data}:/opt:ro")
                self.assertIn("Read-only", result.stderr)
                self.assertEqual(os.listdir(data), ["file"])
                result = self.sh(image, "cat /etc/image", "-b", f"{data}/file:/etc/image")
                self.assertEqual(result.stdout, "of the host\n")

    def test_bind_where_the_image_has_nothing(self):
        self.write("data/file", "of the host\n")
        os.makedirs(self.path("data/deep/er"))
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "cat /data/file /data/deep/er/file /usr/share/new/file /opt/one; ls /usr/share; "
                                        "cat /etc/image; touch /data/x; touch /y",
                                 "-b", self.path("data") + ":/data", "-b", self.path("data") + ":/data/deep/er",
                                 "-b", self.path("data") + ":/usr/share/new", "-b", self.path("data/file") + ":/opt/one")
                self.assertEqual(result.stdout.count("of the host\n"), 4, result)
                self.assertIn("words-39", result.stdout)
                self.assertIn("small root", result.stdout)
                self.assertIn("cannot touch '/y': Read-only file system", result.stderr)
                os.unlink(self.path("data/x"))
        self.assertFalse(os.path.exists(os.path.join(self.root, "data")))
        self.assertFalse(os.path.exists(os.path.join(self.root, "usr/share/new")))

    def test_an_image_without_any_mount_point(self):
        root = self.path("bare")
        make_root(root, etc_files=False)
        for name in ("dev", "proc", "sys", "tmp"):
            os.rmdir(os.path.join(root, name))
        before = sorted(os.listdir(root))
        for image in (root, make_squashfs(root, self.path("bare.sqfs"))):
            result = self.sh(image, "ls -d /dev/null /proc/self /sys/kernel /tmp && id -un && cat /etc/image")
            self.assert_succeeds(result)
        self.assertEqual(sorted(os.listdir(root)), before)

    def test_a_missing_mount_point_costs_one_mount(self):
        root = self.path("many")
        make_root(root, etc_files=False)
        for i in range(60):
            with open(os.path.join(root, f"etc/file-{i}"), "w") as file:
                file.write(f"{i}\n")
        before = sorted(os.listdir(os.path.join(root, "etc")))
        for image in (root, make_squashfs(root, self.path("many.sqfs"))):
            result = self.assert_succeeds(self.sh(image, "cat /etc/file-7 /etc/hosts > /dev/null && cat /etc/file-59; "
                                                         "touch /etc/new 2>/dev/null; grep -c ' /etc' /proc/self/mountinfo"))
            last, count = result.stdout.split()
            self.assertEqual(last, "59")
            self.assertLess(int(count), 10)  # an overlay (Linux 5.11), not a bind of each file
        mounts = self.sh(self.path("many.sqfs"), "cat /proc/self/mountinfo; ls /etc | grep -c hosts").stdout
        self.assertNotRegex(mounts, r"(?m)^\S+ \S+ \S+ \S+ /etc ")  # a served image shows the mount point itself
        self.assertRegex(mounts, r"(?s) /etc/hosts .*\n1\n$")
        self.assertEqual(sorted(os.listdir(os.path.join(root, "etc"))), before)

    def test_links_of_the_image_stay_inside(self):
        outside = tempfile.mkdtemp(dir="/var/tmp", prefix="slipway-outside-")  # no default bind shows it
        self.addCleanup(os.rmdir, outside)
        os.symlink(outside, os.path.join(self.root, "link"))
        self.write("data/file", "of the host\n")
        for kind, image in self.images():
            with self.subTest(kind):
                self.assert_succeeds(self.sh(image, "cat /link/sub/file", "-b", self.path("data") + ":/link/sub"))
        self.assertEqual(os.listdir(outside), [])

    def test_a_missing_source(self):
        result = self.sh(self.root, "true", "-b", self.path("absent") + ":/opt")
        self.assert_fails(result, "cannot bind", "requested by: --bind, argument 1", "try:")
        self.assert_succeeds(self.sh(self.root, "true", "-b", self.path("absent") + ":/opt:optional"))

    def test_a_file_and_a_directory_do_not_replace_each_other(self):
        for kind, image in self.images():
            with self.subTest(kind):
                self.assert_fails(self.sh(image, "true", "-b", "/etc/passwd:/opt"), "a file cannot be shown in place of a directory",
                                  "requested by: --bind, argument 1", "try:")
                self.assert_fails(self.sh(image, "true", "-b", "/usr:/etc/image"), "a directory cannot be shown in place of a file",
                                  "requested by: --bind, argument 1", "try:")

    def test_environment(self):
        env = {"LD_PRELOAD": "", "LD_LIBRARY_PATH": "/host/lib", "PYTHONPATH": "/host/py", "SLURM_PROCID": "3",
               "OMP_NUM_THREADS": "2", "MODULEPATH": "/host/modules", "FROM_HOST": "yes", "HOME": "/home/not-bound"}
        result = self.slipway("run", "--set-env", "A=1", "--set-env", "A=2", "--set-env", "PYTHONPATH", self.root, "--",
                              "env", env=env)
        got = dict(line.split("=", 1) for line in self.assert_succeeds(result).stdout.splitlines())
        self.assertEqual((got["SLURM_PROCID"], got["OMP_NUM_THREADS"], got["A"], got["FROM_HOST"]), ("3", "2", "2", "yes"))
        self.assertEqual(got["PYTHONPATH"], "/host/py")
        self.assertEqual(got["HOME"], "/")
        for name in ("LD_LIBRARY_PATH", "MODULEPATH", "LD_PRELOAD"):
            self.assertNotIn(name, got)

    def test_directory(self):
        self.assertEqual(self.sh(self.root, "pwd").stdout, "/\n")
        self.assertEqual(self.sh(self.root, "pwd", "--cd", "/usr/share").stdout, "/usr/share\n")
        self.assert_fails(self.sh(self.root, "pwd", "--cd", "/nowhere"), "/nowhere", "--cd")

    def test_commands_that_cannot_run(self):
        for kind, image in self.images():
            with self.subTest(kind):
                self.assert_fails(self.slipway("run", image, "--", "no-such"), "no-such", "PATH searched: /usr/local/sbin",
                                  status=127)
                self.assert_fails(self.slipway("run", image, "--", "/etc/image"), "no execute permission", status=126)
                self.assert_fails(self.slipway("run", image), "no command to run", "slipway run IMAGE -- COMMAND")
        script = os.path.join(self.root, "usr/bin/script")
        with open(script, "w") as file:
            file.write("#!/no/interpreter\n")
        os.chmod(script, 0o755)
        self.assert_fails(self.slipway("run", self.root, "--", "script"), "/no/interpreter", status=127)
        with open(script, "w") as file:
            file.write("echo plain text: $1\n")
        self.assertEqual(self.slipway("run", self.root, "--", "script", "runs").stdout, "plain text: runs\n")
        os.unlink(os.path.join(self.root, "usr/bin/sh"))
        self.assert_fails(self.slipway("run", self.root, "--", "script"), "the image has no /bin/sh", status=126)

    def test_inherited_descriptors_survive_and_ours_do_not_leak(self):
        for kind, image in self.images():
            with self.subTest(kind):
                reader, writer = os.pipe()
                result = subprocess.run([program(), "run", image, "--", "bash", "-c",
                                         f"ls /proc/$$/fd; echo through >&{writer}"],
                                        env=self.env, stdout=subprocess.PIPE, text=True, pass_fds=[writer], timeout=60)
                os.close(writer)
                self.assertEqual(os.read(reader, 100), b"through\n")
                self.assertEqual(os.read(reader, 100), b"", "a process of the session kept the pipe open")
                os.close(reader)
                own = {"0", "1", "2", str(writer), "255"}
                self.assertEqual(set(result.stdout.split()) - own, set(), result)

    def test_output_ends_with_the_command(self):
        image = make_squashfs(self.root, self.path("image.sqfs"))
        result = self.sh(image, "(sleep 100 >/dev/null 2>&1 &) ; echo done; echo $! > /dev/null", timeout=60)
        self.assertEqual(result.stdout, "done\n")
        self.wait_until(lambda: self.processes("sleep"), "the child did not outlive the command")
        for pid in self.processes("sleep"):
            os.kill(pid, signal.SIGTERM)

    def test_dry_run_starts_nothing(self):
        plan = self.slipway("run", "--dry-run", "-b", self.root + ":/opt", self.root, "--", "no-such").json()
        self.assertEqual(plan["argv"], ["no-such"])
        self.assertEqual(plan["mounts"][0]["kind"], "image-directory")
        self.assertEqual(plan["mounts"][-1]["origin"], "--bind, argument 1")

    def test_the_host_as_image(self):
        result = self.slipway("run", "/", "--", "pwd")
        self.assertEqual(self.assert_succeeds(result).stdout.strip(), self.path("").rstrip("/"))
        result = self.slipway("run", "-b", self.root + ":/mnt", "/", "--", "cat", "/mnt/etc/image")
        self.assertEqual(self.assert_succeeds(result).stdout, "small root\n")

    def test_a_truncated_image(self):
        image = make_squashfs(self.root, self.path("image.sqfs"))
        os.truncate(image, os.path.getsize(image) // 2)
        result = self.sh(image, "true")
        self.assert_fails(result, "image.sqfs")

    def in_own_namespace(self, *script):
        """Run a shell script as the root of a user and mount namespace, with slipway as "$slipway"."""
        return self.run_host(["unshare", "-Urm", "sh", "-c", "slipway=$1; shift\n" + script[0], "sh", program(), *script[1:]])

    def run_host(self, argv):
        return run(argv, env=self.env, cwd=self.path(""))

    def test_user_namespaces_forbidden(self):
        for session in ("none", "shared"):
            result = self.in_own_namespace('echo 0 > /proc/sys/user/max_user_namespaces\n'
                                           '"$slipway" run "$1" "$2" -- true', f"--session={session}", self.root)
            self.assert_fails(result, "cannot make a user namespace", "user.max_user_namespaces is 0",
                              "try: ask the administrator for: sysctl user.max_user_namespaces=")

    def test_what_the_host_mounts_later_shows_inside_and_nothing_of_ours_outside(self):
        """As an automounter does: a bind that is in use when its directory gets a mount."""
        for kind, image in self.images():
            for session in ("none", "late"):
                with self.subTest(kind, session=session):
                    place = self.path(f"{kind}-{session}")
                    os.makedirs(os.path.join(place, "sub"))
                    result = self.in_own_namespace(
                        'mount --make-rshared /; before=$(wc -l < /proc/self/mountinfo)\n'
                        '"$slipway" run --session="$1" -b "$2:/opt" "$3" -- sh -c "echo > /opt/ready; '
                        'for i in 1 2 3 4 5 6 7 8 9; do sleep 0.2; cat /opt/sub/late && exit; done" &\n'
                        'while [ ! -e "$2/ready" ]; do sleep 0.02; done\n'
                        'echo $(($(wc -l < /proc/self/mountinfo) - before))\n'
                        'mount -t tmpfs none "$2/sub"; echo mounted > "$2/sub/late"; wait', session, place, image)
                    self.assertEqual(result.stdout, "0\nmounted\n", result)

    def test_no_fuse_device(self):
        image = make_squashfs(self.root, self.path("image.sqfs"))
        result = self.in_own_namespace('mount -t tmpfs none /dev\n"$slipway" run --session=none "$1" -- true', image)
        self.assert_fails(result, "/dev/fuse", "slipway convert")

    def test_no_home_directory(self):
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "cat /etc/image", env={"HOME": "/home/not/there", "SLIPWAY_STORE": None,
                                                               "XDG_DATA_HOME": None})
                self.assertEqual(self.assert_succeeds(result).stdout, "small root\n")

    def test_nested(self):
        """A container inside a container: the program and its libraries are bound into the outer one."""
        result = self.slipway("run", "/", "--", program(), "run", self.root, "--", "cat", "/etc/image")
        self.assertEqual(self.assert_succeeds(result).stdout, "small root\n")
        result = self.slipway("run", "-b", self.root + ":/mnt", "/", "--", program(), "run", self.root, "--", "cat",
                              "/etc/image")
        self.assertEqual(self.assert_succeeds(result).stdout, "small root\n")

    def test_entrypoint_and_command_of_an_image(self):
        os.mkdir(os.path.join(self.root, ".slipway"))
        with open(os.path.join(self.root, ".slipway/image.json"), "w") as file:
            json.dump({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []},
                       "config": {"Entrypoint": ["echo", "entry"], "Cmd": ["default"], "Env": ["FROM_IMAGE=1"],
                                  "WorkingDir": "/usr/share"}}, file)
        for kind, image in self.images():
            with self.subTest(kind):
                self.assertEqual(self.slipway("run", image).stdout, "entry default\n")
                self.assertEqual(self.slipway("run", image, "--", "mine", "too").stdout, "entry mine too\n")
                plain = self.slipway("run", "--entrypoint", "", image, "--", "sh", "-c", "echo $FROM_IMAGE; pwd")
                self.assertEqual(plain.stdout, "1\n/usr/share\n")
                own = self.slipway("run", "--entrypoint", "pwd", image)
                self.assertEqual(own.stdout, "/usr/share\n", "CMD counts no more")


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main()
