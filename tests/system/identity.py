# Who one is inside: users, groups, passwd, host name, USER and WORKDIR of images, faked privilege.
# Must not: run as root.
import json
import os
import pwd
import socket
import subprocess

from slipway_test import SlipwayTest, main, program
from small_root import make_root, make_squashfs

PASSWD = "root:x:0:0:root:/root:/bin/bash\nbob:x:1234:1235::/home/bob:/bin/bash\n"


class IdentityTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))
        self.write("root/etc/passwd", PASSWD)
        self.write("root/etc/group", "root:x:0:\ncrew:x:1235:bob\n")

    def configure(self, **config):
        """Give the image a configuration, as podman and slipway build would."""
        self.write("root/.slipway/image.json", json.dumps(
            {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}, "config": config}))

    def images(self):
        yield "directory", self.root
        image = self.path("image.sqfs")
        if os.path.exists(image):
            os.unlink(image)
        yield "squashfs", make_squashfs(self.root, image)

    def sh(self, image, script, *options, **more):
        return self.slipway("run", *options, image, "--", "sh", "-c", script, **more)

    def lines(self, *arguments, **more):
        return self.assert_succeeds(self.sh(*arguments, **more)).stdout.splitlines()

    def test_root_uid_and_gid(self):
        for kind, image in self.images():
            for session in "none", "ids":
                with self.subTest(kind, session=session):
                    shared = f"--session={session}"
                    self.assertEqual(self.lines(image, "id -u; id -g; id -un; echo $HOME", shared if session == "none" else
                                                "--session=root", "--root"), ["0", "0", "root", "/root"])
                    self.assertEqual(self.lines(image, "id -u; id -g; whoami", shared if session == "none" else
                                                "--session=numbers", "--uid", "77", "--gid", "78"), ["77", "78", "uid77"])

    def test_users_of_the_image(self):
        for kind, image in self.images():
            with self.subTest(kind):
                for user, ids in (("bob", "1234 1235 /home/bob"), ("1234", "1234 1235 /home/bob"), ("55", "55 0 /"),
                                  ("bob:44", "1234 44 /home/bob"), ("55:crew", "55 1235 /")):
                    self.assertEqual(self.lines(image, "echo $(id -u) $(id -g) $HOME", "--user", user), [ids], user)
                self.assert_fails(self.sh(image, "true", "--user", "nobody-here"), 'the image has no user "nobody-here"',
                                  "requested by: --user", "try:")
                self.assert_fails(self.sh(image, "true", "--user", "bob:no"), 'the image has no group "no"')

    def test_requests_that_exclude_each_other(self):
        for options in (("--root", "--uid", "0"), ("--root", "--user", "bob"), ("--user", "bob", "--gid", "1")):
            self.assert_fails(self.sh(self.root, "true", *options), "exclude each other")
        self.assert_fails(self.sh(self.root, "true", "--uid", "bob"), '"bob" is no id', "requested by: --uid")

    def test_the_images_user_counts_but_not_for_a_rank(self):
        self.configure(User="bob")
        for kind, image in self.images():
            with self.subTest(kind):
                self.assertEqual(self.lines(image, "id -u; id -g; whoami"), ["1234", "1235", "bob"])
                rank = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_ID": kind, "SLURM_PROCID": "0"}
                self.assertEqual(self.lines(image, "id -u", env=rank), [str(os.getuid())])
                told = self.slipway("explain", image, "--", "true", env=rank).stdout
                self.assertIn('this is a rank of a launcher (SLURM_STEP_ID), which compares ids', told)
        self.configure(User="gone")
        self.assert_fails(self.sh(self.root, "true"), 'the image has no user "gone"', "requested by: the image's USER",
                          "--uid $(id -u)")
        self.assertEqual(self.lines(self.root, "id -u", "--uid", str(os.getuid())), [str(os.getuid())])

    def test_passwd_says_who_we_are(self):
        me = pwd.getpwuid(os.getuid())
        entry = self.lines(self.root, f"grep ^{me.pw_name}: /etc/passwd")[0].split(":")
        self.assertEqual(entry[:4], [me.pw_name, "x", str(os.getuid()), str(os.getgid())])
        present = os.path.exists(self.root + me.pw_shell)
        self.assertEqual(entry[6], me.pw_shell if present else "/bin/sh")
        self.assertEqual(self.lines(self.root, "cat /etc/passwd", "--no-passwd"), PASSWD.splitlines())

    def test_supplementary_groups_are_kept(self):
        """None of them can be mapped, so they show as nogroup; the kernel has them all the same, and checks files by them."""
        others = [g for g in os.getgroups() if g != os.getgid()]
        for options in ((), ("--root",), ("--uid", "77")):
            with self.subTest(options):
                process = subprocess.Popen([program(), "run", "--session=none", *options, self.root, "--", "sh", "-c",
                                            "cat /proc/self/setgroups; id -G; read line"], env=self.env,
                                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                self.assertEqual(process.stdout.readline(), "deny\n")
                self.assertEqual("65534" in process.stdout.readline().split(), bool(others))
                with open(f"/proc/{process.pid}/status") as file:
                    groups = next(line.split()[1:] for line in file if line.startswith("Groups:"))
                process.communicate("\n", timeout=30)
                self.assertEqual(sorted(map(int, groups)), sorted(os.getgroups()))

    def test_host_name(self):
        for session in "none", "named":
            for kind, image in self.images():
                with self.subTest(kind, session=session):
                    script = "cat /proc/sys/kernel/hostname /etc/hostname; tail -1 /etc/hosts"
                    self.assertEqual(self.lines(image, script, "--hostname", "vessel-1", f"--session={session}{kind}"
                                                if session == "named" else "--session=none"),
                                     ["vessel-1", "vessel-1", "127.0.1.1 vessel-1"])
        self.assertEqual(self.slipway("run", "--hostname", "other", "/", "--", "cat", "/proc/sys/kernel/hostname").stdout,
                         "other\n")
        self.assertNotIn(socket.gethostname(), ("vessel-1", "other"))
        self.assert_fails(self.sh(self.root, "true", "--hostname", "no name"), "is no host name", "--hostname")

    def test_privileged_calls_succeed_without_effect(self):
        script = "touch /tmp/$0; chown 5:6 /tmp/$0; echo $?; rm /tmp/$0"
        name = os.path.basename(self.temporary) + str(os.getpid())
        for options, status in ((("--root", "--seccomp"), "0"), (("--root",), "1")):
            result = self.slipway("run", *options, self.path("root"), "--", "sh", "-c", script.replace("chown", "/bin/chown"),
                                  name)
            self.assertEqual(result.stdout, status + "\n", result)

    def test_a_missing_working_directory(self):
        """Of the image's WORKDIR: made, as podman does; of --cd: an error."""
        self.configure(WorkingDir="/srv/app/deep")
        for kind, image in self.images():
            with self.subTest(kind):
                self.assertEqual(self.lines(image, "pwd; ls -A; cat /etc/image"), ["/srv/app/deep", "small root"])
                self.assert_fails(self.sh(image, "true", "--cd", "/srv/none"), "/srv/none", "requested by: --cd", "try:")
        self.assertFalse(os.path.exists(os.path.join(self.root, "srv")))

    def test_shell(self):
        for kind, image in self.images():
            with self.subTest(kind):
                shell = pwd.getpwuid(os.getuid()).pw_shell
                wanted = shell if os.path.exists(self.root + shell) else "/usr/bin/bash"
                result = self.slipway("shell", image, input="echo $SHELL; echo $0\nexit 5\n")
                self.assertEqual((result.stdout.splitlines()[0], result.status), (wanted, 5), result)
                result = self.slipway("shell", image, "-ic", "echo \"$PS1\" $1", "sh", "word")  # bash drops PS1 without -i
                name = "root" if kind == "directory" else "image"
                self.assertEqual(result.stdout, f"[{name}] $PWD\\$  word\n", result)
        self.write("root/etc/profile", "PROFILE=read\n")
        result = self.slipway("shell", "--login", self.root, "-c", "echo $PROFILE")
        self.assertEqual(result.stdout, "read\n", result)
        for name in "bash", "sh":
            os.unlink(os.path.join(self.root, "usr/bin", name))
        self.assert_fails(self.slipway("shell", self.root), "the image has no shell", "looked for: ", "try:", status=127)

    def test_explain(self):
        self.configure(Entrypoint=["echo", "entry"], Cmd=["default"], Env=["FROM_IMAGE=1"], WorkingDir="/usr/share")
        for kind, image in self.images():
            with self.subTest(kind):
                told = self.assert_succeeds(self.slipway("explain", "--bind", "/var/tmp:/opt", "-e", "A=1", image)).stdout
                for text in ("echo entry (image ENTRYPOINT) default (image CMD)", "/usr/share (image WORKDIR)",
                             "host's /var/tmp; writable, made if missing (--bind, argument 1)", "1 (--env, argument 1)",
                             "FROM_IMAGE           1 (image ENV)", "your own, as on the host", "user, mount"):
                    self.assertIn(text, told)
                plan = self.slipway("explain", "--json", image, "--", "more").json()
                self.assertEqual(plan["argv"], ["echo", "entry", "more"])
                self.assertEqual([part["origin"] for part in plan["reasons"]["command"]], ["image ENTRYPOINT", "command line"])
        self.configure()
        self.assertIn("none: the image has neither ENTRYPOINT nor CMD", self.slipway("explain", self.root).stdout)


if __name__ == "__main__":
    main()
