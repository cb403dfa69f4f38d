# What a run mounts: overlays, data packs, binds and their options, site defaults; and what it leaves behind.
# Must not: alter an image or a directory of the host unnoticed.
import os
import subprocess

from slipway_test import SlipwayTest, main, program, tree_of
from small_root import make_root, make_squashfs


class MountsTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))
        # What images of registries lack: every mount point.
        for name in ("dev", "proc", "sys", "tmp", "etc/hosts", "etc/resolv.conf"):
            path = os.path.join(self.root, name)
            os.rmdir(path) if os.path.isdir(path) else os.unlink(path)
        self.image = make_squashfs(self.root, self.path("image.sqfs"))
        self.write("set/file", "of the set\n")
        self.pack = make_squashfs(self.path("set"), self.path("set.sqfs"))

    def images(self):
        yield "directory", self.root
        yield "squashfs", self.image

    def sh(self, image, script, *options, **more):
        return self.slipway("run", *options, image, "--", "sh", "-c", script, **more)

    def start(self, script, *options, image=None):
        return subprocess.Popen([program(), "run", *options, image or self.image, "--", "sh", "-c", script], env=self.env,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for_servers(self):
        """The server tidies up after the last process has ended."""
        self.wait_until(lambda: not self.processes(), "the server does not end")

    def assert_unchanged(self, before, directory=None):
        self.wait_for_servers()
        self.assertEqual(tree_of(directory or self.root), before)


class Overlay(MountsTest):
    CHANGE = ("echo changed > /etc/image && rm /usr/share/words-1 && rm -r /opt && mkdir /opt /new && echo x > /new/file && "
              "chmod 600 /usr/share/words-2 && rm -r /usr/bin/wc && echo y > /words && cat /etc/image")

    def test_changes_in_memory_go_with_the_session(self):
        before = tree_of(self.root)
        for kind, image in self.images():
            for session in ("none", "memory"):
                for overlay in ("tmpfs", "tmpfs=8m", "tmpfs=12%"):
                    with self.subTest(kind, session=session, overlay=overlay):
                        result = self.sh(image, self.CHANGE, "--overlay", overlay, self.session(session))
                        self.assertEqual(self.assert_succeeds(result).stdout, "changed\n")
                        result = self.sh(image, "cat /etc/image", "--overlay", overlay, self.session(session))
                        self.assertEqual(result.stdout, "small root\n")
        self.assert_unchanged(before)

    def test_the_size_is_a_limit(self):
        result = self.sh(self.image, "tail -c 3000000 /dev/zero > /big", "--overlay", "tmpfs=1m")
        self.assertNotEqual(result.status, 0)
        self.assertIn("No space left", result.stderr)

    def test_changes_in_a_directory_are_kept_and_mount_points_are_not(self):
        before = tree_of(self.root)
        for kind, image in self.images():
            for session in ("none", "kept"):
                with self.subTest(kind, session=session):
                    place = self.path(f"{kind}-{session}")
                    options = ("--overlay", place, self.session(session), "-b", self.path("set") + ":/var/log/set")
                    self.assert_succeeds(self.sh(image, self.CHANGE, *options))
                    self.wait_for_servers()
                    upper = os.path.join(place, "upper")
                    self.assertEqual(sorted(os.listdir(upper)), ["etc", "new", "opt", "usr", "words"])
                    self.assertEqual(os.listdir(os.path.join(upper, "etc")), ["image"])
                    self.assertEqual(os.listdir(os.path.join(place, "work")), [])
                    result = self.sh(image, "cat /etc/image /new/file /var/log/set/file; ls /opt; ls /usr/share/words-1; ls /dev/null",
                                     *options)
                    self.assertEqual(result.stdout, "changed\nx\nof the set\n/dev/null\n", result)
                    self.assertIn("words-1", result.stderr)
        self.assert_unchanged(before)

    def test_a_kept_directory_belongs_to_one_session(self):
        place = self.path("kept")
        first = self.start("echo up; until [ -s /by-second ]; do sleep 0.05; done; cat /by-second", "--overlay", place,
                           self.session("one"))
        self.assertEqual(first.stdout.readline(), "up\n")
        self.assert_succeeds(self.sh(self.image, "echo shared > /by-second", "--overlay", place, self.session("one")))
        self.assertEqual(first.communicate(timeout=30), ("shared\n", ""))
        first = self.start("echo up; exec sleep 100", "--overlay", place, self.session("one"))
        first.stdout.readline()
        for session in (self.session("two"), "--session=none"):
            result = self.sh(self.image, "true", "--overlay", place, session, timeout=30)
            self.assert_fails(result, "is used by another container", "held by process", "requested by: --overlay", "try:")
        first.kill()
        first.communicate(timeout=30)
        self.assert_succeeds(self.sh(self.image, "true", "--overlay", place, self.session("two")))

    def test_ranks_share_an_overlay(self):
        script = "echo > /rank-{}; until [ $(cat /rank-* | wc -l) = 16 ]; do sleep 0.2; done; echo all"
        ranks = [self.start(script.format(i), "--overlay", self.path("kept")) for i in range(16)]
        for rank in ranks:
            out, error = rank.communicate(timeout=60)
            self.assertEqual((rank.returncode, out, error), (0, "all\n", ""))

    def test_what_cannot_hold_an_overlay(self):
        inner = ["--overlay", "/inner", self.root, "--", "true"]
        result = self.slipway("run", "--overlay", "tmpfs", "-b", "/usr:/usr", "-b", self.root + ":" + self.root,
                              *[word for name in ("lib", "lib64") if os.path.islink("/" + name) is False
                                for word in ("-b", f"/{name}:/{name}")],
                              "-b", program() + ":/slipway", "--session=none", self.root, "--", "/slipway", "run",
                              "--session=none", *inner)
        self.assert_fails(result, "cannot hold an overlay", "it lies on an overlay itself", "use --overlay tmpfs")
        self.assert_fails(self.sh("/", "true", "--overlay", "tmpfs"), "not the host", "requested by: --overlay")
        self.assert_fails(self.sh(self.root, "true", "--overlay", "tmpfs", "--write"), "--write and --overlay", "try:")
        for size in ("0", "12q", "101%", "m", "-1"):
            self.assert_fails(self.sh(self.root, "true", "--overlay", "tmpfs=" + size), "cannot understand the size")
        self.write("file", "")
        self.assert_fails(self.sh(self.root, "true", "--overlay", self.path("file")), "Not a directory", "file")


class Write(MountsTest):
    def test_empty_mount_points_are_removed_again(self):
        before = tree_of(self.root)
        for session in ("none", "write"):
            result = self.sh(self.root, "ls /dev/null /w/x/file; echo kept > /made", "--write", self.session(session),
                             "-b", self.path("set") + ":/w/x")
            self.assertEqual(self.assert_succeeds(result).stdout, "/dev/null\n/w/x/file\n")
            os.unlink(os.path.join(self.root, "made"))
            self.assert_unchanged(before)

    def test_they_stay_while_another_container_needs_them(self):
        first = self.start("echo up; read line; echo > /dev/null && ls /etc/hosts", "--write", self.session("first"),
                           image=self.root)
        self.assertEqual(first.stdout.readline(), "up\n")
        before = self.processes().keys()
        self.assert_succeeds(self.sh(self.root, "echo > /dev/null", "--write", "--session=none"))
        self.wait_until(lambda: self.processes().keys() <= before, "the second container's server does not end")
        self.assertEqual(first.communicate("go\n", timeout=30), ("/etc/hosts\n", ""))

    def test_a_child_in_the_background_keeps_them(self):
        result = self.sh(self.root, "(sleep 1; echo > /dev/null && echo fine > /result) > /dev/null 2>&1 & exit 0", "--write",
                         "--session=none")
        self.assert_succeeds(result)
        self.wait_for_servers()
        with open(os.path.join(self.root, "result")) as file:
            self.assertEqual(file.read(), "fine\n")
        self.assertFalse(os.path.exists(os.path.join(self.root, "dev")))


class Data(MountsTest):
    def test_packs_are_served_by_the_images_server(self):
        other = make_squashfs(self.path("root/usr"), self.path("other.sqfs"))
        for kind, image in [*self.images(), ("host", "/")]:
            with self.subTest(kind):
                places = ("/mnt", "/media") if image == "/" else ("/data/set", "/data/other")
                rank = self.start(f"cat {places[0]}/file; ls {places[1]}; echo up; exec sleep 100", "--data",
                                  f"{self.pack}:{places[0]}", "--data", f"{other}:{places[1]}", image=image)
                lines = [rank.stdout.readline() for _ in range(5)]
                self.assertEqual(lines[0], "of the set\n")
                self.assertIn("bin\n", lines)
                self.assertEqual(len(self.processes("slipway-fuse")), 1)
                rank.kill()
                rank.communicate(timeout=30)
                self.wait_for_servers()
        self.assertFalse(os.path.exists(os.path.join(self.root, "data")))

    def test_ranks_share_packs(self):
        ranks = [self.start("cat /data/file; sleep 1; cat /data/file", "--data", self.pack + ":/data") for _ in range(32)]
        for rank in ranks:
            self.assertEqual(rank.communicate(timeout=60), ("of the set\nof the set\n", ""))

    def test_binds_go_into_packs_and_packs_into_images(self):
        self.write("more/file", "of the host\n")
        result = self.sh(self.image, "cat /data/file /data/more/file; touch /data/x", "--data", self.pack + ":/data",
                         "-b", self.path("more") + ":/data/more")
        self.assertEqual(result.stdout, "of the set\nof the host\n", result)
        self.assertIn("Read-only", result.stderr)

    def test_a_pack_that_is_none(self):
        for name, text in (("absent.sqfs", "it is not on this host"), ("text.sqfs", "squashfs"), ("cut.sqfs", "cut.sqfs")):
            if name == "text.sqfs":
                self.write(name, "no squashfs")
            if name == "cut.sqfs":
                with open(self.image, "rb") as file:
                    self.write(name, file.read()[:100000])
            for session in ("none", "pack"):
                result = self.sh(self.image, "true", "--data", self.pack + ":/ok", "--data", self.path(name) + ":/data",
                                 self.session(session))
                self.assert_fails(result, text, "requested by: --data, argument 2")
        self.assert_succeeds(self.sh(self.image, "true", "--data", self.path("absent.sqfs") + ":/data:optional"))
        self.assert_fails(self.sh(self.image, "true", "--data", self.path("set") + ":/data"), "no data pack", "--bind")
        self.assert_fails(self.sh(self.image, "true", "--data", self.pack), "where to show", "requested by: --data, argument 1")
        self.assert_fails(self.sh(self.image, "true", "--data", self.pack + ":/data:rw"), "there is no option")


class Binds(MountsTest):
    def test_options(self):
        os.mkdir(self.path("data"))
        self.write("data/run", "#!/bin/sh\necho ran\n")
        os.chmod(self.path("data/run"), 0o755)
        for kind, image in self.images():
            with self.subTest(kind):
                data = self.path("data") + ":/opt"
                self.assertEqual(self.sh(image, "/opt/run", "-b", data).stdout, "ran\n")
                result = self.sh(image, "/opt/run", "-b", data + ":ro,noexec,nosuid,nodev")
                self.assertIn("Permission denied", result.stderr)
                flags = self.sh(image, "grep ' /opt ' /proc/self/mountinfo", "-b", data + ":noexec,nosuid,nodev").stdout
                for flag in ("nosuid", "nodev", "noexec"):
                    self.assertIn(flag, flags)
                self.assertEqual(self.sh(image, "/opt/run", "--volume", data + ":norec").stdout, "ran\n")
                new = self.path("made/here-" + kind)
                self.assert_succeeds(self.sh(image, "touch /opt/file", "-b", new + ":/opt:create"))
                self.assertEqual(os.listdir(new), ["file"])
        result = self.sh(self.root, "true", "-b", "/:/opt:norec", "--session=none")
        self.assert_fails(result, "other file systems are mounted below", "requested by: --bind, argument 1", "norec")
        self.assert_fails(self.sh(self.root, "true", "-b", "/usr:/opt:create,optional"), "exclude each other")

    def test_no_mount_point_is_made_on_the_host(self):
        before = tree_of(self.path("set"))
        for kind, image in [*self.images(), ("host", "/")]:
            with self.subTest(kind):
                inside = self.path("set") if image == "/" else "/opt"
                options = ["-b", self.root + f":{inside}/new"]
                if image != "/":
                    options = ["-b", self.path("set") + ":/opt", *options]
                result = self.sh(image, "true", *options)
                self.assert_fails(result, "would be made in a directory of the host", "requested by: --bind", "make it yourself")
                self.assertEqual(tree_of(self.path("set")), before)
        result = self.sh(self.image, "cat /opt/new/etc/image /opt/file", "-b", self.path("set") + ":/opt:ro", "-b",
                         self.root + ":/opt/new")
        self.assertEqual(result.stdout, "small root\nof the set\n", "below a read-only bind the host stays as it is")
        self.assertEqual(tree_of(self.path("set")), before)

    def test_nothing_of_ours_can_be_written(self):
        """Each directory that had to be covered for a mount point is sealed, also when one above it is covered later."""
        result = self.sh(self.image, "touch /usr/share/x /usr/x /x; ls /usr/share/new /new > /dev/null", "-b",
                         self.path("set") + ":/usr/share/new", "-b", self.path("set") + ":/usr/new", "-b", self.path("set") + ":/new")
        self.assertEqual(result.stderr.count("Read-only"), 3, result)

    def test_private_tmp_and_home(self):
        home = os.path.join(self._base, "home")
        self.write("../home/note", "at home\n")
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "ls -A /tmp; stat -c %a /tmp; touch /tmp/x && echo $HOME; echo $TMPDIR; cat ~/note",
                                 "--private-tmp")
                self.assertEqual(result.stdout, "1777\n/\n\n", result)
                result = self.sh(image, "echo $HOME; cat ~/note", "--home")
                self.assertEqual(self.assert_succeeds(result).stdout, home + "\nat home\n")
        self.assert_fails(self.sh(self.root, "true", "--home", env={"HOME": self.path("no-home")}), "requested by: --home")
        result = self.sh("/", "ls -A /tmp", "--private-tmp", "--cd", "/")
        self.assertEqual(self.assert_succeeds(result).stdout, "")


class Site(MountsTest):
    def setUp(self):
        super().setUp()
        self.env["SLIPWAY_SITE"] = self.path("site")
        self.env["SCRATCH"] = self.path("set")

    def test_defaults_of_site_and_user(self):
        self.write("site/mounts.d/20-late.conf", "$SCRATCH:/late\n")
        self.write("site/mounts.d/10-scratch.conf", "# the scratch file system\n\n  ${SCRATCH}:/scratch:ro  \n"
                                                    "$UNSET_HERE/x:/x:optional\n/not/there:/y:optional\n")
        self.write("site/mounts.d/README", "no configuration\n")
        self.write("../home/.config/slipway/mounts.d/own.conf", "$SCRATCH:/own\n")
        for kind, image in self.images():
            with self.subTest(kind):
                result = self.sh(image, "cat /scratch/file /late/file /own/file; touch /scratch/x; ls -d /x /y")
                self.assertEqual(result.stdout, "of the set\n" * 3, result)
                self.assertIn("Read-only", result.stderr)
        mounts = self.slipway("run", "--dry-run", self.image, "--", "true").json()["mounts"]
        origins = {mount["destination"]: mount["origin"] for mount in mounts}
        self.assertEqual(origins["/scratch"], self.path("site/mounts.d/10-scratch.conf") + ", line 3")
        self.assertIn("slipway/mounts.d/own.conf, line 1", origins["/own"])
        self.assertEqual([m["destination"] for m in mounts][-3:], ["/scratch", "/late", "/own"])
        none = self.slipway("run", "--dry-run", "--no-site-mounts", self.image, "--", "true").json()["mounts"]
        self.assertNotIn("/scratch", [mount["destination"] for mount in none])
        self.assertEqual(self.slipway("run", "--dry-run", "/", "--", "true").json()["mounts"], [])

    def test_mistakes_name_file_and_line(self):
        for line, text in (("/not/there:/y", "it is not on this host"), ("$UNSET_HERE/x:/x", "UNSET_HERE is not set"),
                           ("relative:/x", "is not absolute"), ("/usr:/x:nosuch", "there is no option")):
            self.write("site/mounts.d/10-site.conf", "# comment\n" + line + "\n")
            self.assert_fails(self.sh(self.image, "true"), text, "mounts.d/10-site.conf, line 2", "try:")


if __name__ == "__main__":
    main()
