"""Image formats through the real binary: convert, inspect, images, rmi, against umoci, GNU tar and squashfs-tools.

Must not: run containers.
"""
import json
import os
import stat
import subprocess
import unittest

from slipway_test import (CharDevice, Dir, Fifo, File, Hardlink, Layout, Opaque, SlipwayTest, Symlink, Whiteout, digest_of,
                          main, make_tar, program, remove_tree, require_program, run, tree_of)

OURS = [".singularity.d", ".slipway", "ch", "singularity"]  # what a directory written by us holds besides the image


def without_ours(tree):
    return {path: facts for path, facts in tree.items() if path.split("/")[0] not in OURS}


def without_setuid(tree):
    """unsquashfs gives an ordinary user no setuid files."""
    return {path: {**facts, "mode": facts["mode"] & 0o1777} for path, facts in tree.items()}


def read(path):
    with open(path, "rb") as file:
        return file.read()


class FormatsTest(SlipwayTest):
    maxDiff = None

    def program_path(self):
        return program("slipway")

    def umoci_tree(self, layout, tag="latest"):
        """Unpack with umoci, as the reference for what a layout's root directory is."""
        bundle = self.path("bundle")
        result = run([require_program("umoci"), "unpack", "--rootless", "--image", f"{layout}:{tag}", bundle],
                     env=self.env)
        self.assert_succeeds(result)
        return tree_of(os.path.join(bundle, "rootfs"))

    def convert(self, source, destination):
        return self.assert_succeeds(self.slipway("convert", source, destination))

    def check_against_umoci(self, layers, compression="gzip"):
        layout = self.make_oci_layout(layers, compression=compression)
        expected = self.umoci_tree(layout)
        self.convert(f"oci:{layout}", self.path("dir"))
        self.assertEqual(without_ours(tree_of(self.path("dir"))), expected)
        self.check_squashfs(layout, expected)
        return expected

    def check_squashfs(self, layout, expected):
        """The squashfs of the same layout is the same tree, unpacked by squashfs-tools and by ourselves."""
        self.convert(f"oci:{layout}", self.path("image.sqfs"))
        result = run([require_program("unsquashfs"), "-no-progress", "-d", self.path("unsquashed"),
                      self.path("image.sqfs")], env=self.env)
        self.assert_succeeds(result)
        self.assertEqual(without_setuid(without_ours(tree_of(self.path("unsquashed")))), without_setuid(expected))
        self.convert(self.path("image.sqfs"), self.path("dir from squashfs"))
        self.assertEqual(without_ours(tree_of(self.path("dir from squashfs"))), expected)


class AgainstUmoci(FormatsTest):
    def test_plain_layers(self):
        tree = self.check_against_umoci([
            [Dir("etc"), File("etc/passwd", "root:x:0:0\n"), Dir("bin"), File("bin/sh", b"\x7fELF", 0o4755),
             Hardlink("bin/ash", "bin/sh"), Symlink("sbin", "bin"), Dir("tmp", 0o1777), Fifo("queue")],
            [File("etc/passwd", "root:x:0:0\nuser:x:1:1\n"), Dir("home", 0o700), File("home/empty", b"")]])
        self.assertEqual(tree["bin/sh"]["same file as"], "bin/ash")

    def test_hard_link_whose_target_is_deleted_later(self):
        self.check_against_umoci([[File("a", "shared"), Hardlink("b", "a"), Hardlink("c", "a")],
                                  [Whiteout("a")], [File("c", "new")]])

    def test_whiteouts(self):
        self.check_against_umoci([
            [Dir("d"), File("d/one"), File("d/two"), Dir("d/sub"), File("d/sub/x"), Dir("e"), File("e/x"), Symlink("s", "d")],
            [Whiteout("d/one"), Whiteout("d/sub"), Whiteout("e"), Whiteout("s"), Whiteout("absent")]])

    def test_opaque_directories(self):
        self.check_against_umoci([
            [Dir("d"), File("d/old"), Dir("d/sub"), File("d/sub/old"), Dir("keep"), File("keep/x")],
            [Dir("d", 0o750), Opaque("d"), File("d/new")]])

    def test_a_directory_becomes_a_file_and_a_file_a_directory(self):
        self.check_against_umoci([
            [Dir("a"), File("a/x"), File("b"), Symlink("c", "a"), Dir("target"), File("target/kept")],
            [File("a", "file"), Dir("b"), File("b/y"), File("c", "no link")]])

    def test_symlinked_parents(self):
        self.check_against_umoci([
            [Dir("usr"), Dir("usr/lib"), File("usr/lib/a"), Symlink("lib", "usr/lib"), Symlink("absolute", "/usr/lib")],
            [File("lib/b", "through the link"), File("absolute/c", "through the absolute link")],
            [Whiteout("lib/a")]])

    def test_odd_names_and_long_ones(self):
        long_directory = "/".join(["d" * 60] * 5)
        self.check_against_umoci([
            [File("caf\u00e9"), File("cafe\u0301"), File("new\nline"), File("bad\udcff\udcfe", "bytes"), File("sp ace"),
             File("n" * 255), *[Dir("/".join(["d" * 60] * n)) for n in range(1, 6)], File(long_directory + "/" + "f" * 200),
             Symlink("long link", "t" * 300)]])

    def test_directories_without_permissions(self):
        layout = self.make_oci_layout([[Dir("shut", 0o500), File("shut/x", "1", 0o400), Dir("shut/in", 0o000)],
                                       [File("shut/y", "2")]])
        self.convert(f"oci:{layout}", self.path("dir"))
        shut = self.path("dir/shut")
        self.assertEqual(stat.S_IMODE(os.stat(shut).st_mode), 0o500)
        self.assertEqual(sorted(os.listdir(shut)), ["in", "x", "y"])

    def test_sparse_files(self):
        with open(self.path("sparse"), "wb") as file:
            file.write(b"begin")
            file.seek(50 << 20)
            file.write(b"middle")
            file.truncate(80 << 20)
        for name in ("gnu", "pax"):
            tar = subprocess.run(["tar", "-cSf", "-", f"--format={name}", "-C", self.path(""), "sparse"], check=True,
                                 stdout=subprocess.PIPE).stdout
            layout = self.make_oci_layout([tar], name=f"layout-{name}")
            self.convert(f"oci:{layout}", self.path(name))
            self.assertEqual(tree_of(self.path(name))["sparse"]["digest"],
                             tree_of(self.path(""))["sparse"]["digest"])
            self.assertLess(os.stat(self.path(f"{name}/sparse")).st_blocks * 512, 1 << 20)


class Traps(FormatsTest):
    def test_a_whiteout_stored_as_a_hard_link(self):
        # umoci refuses these; images of that kind exist all the same.
        layout = self.make_oci_layout([[Dir("d"), File("d/a"), File("d/b")],
                                       [Dir("d"), File("d/.wh.a"), Hardlink("d/.wh.b", "d/.wh.a")]])
        self.convert(f"oci:{layout}", self.path("dir"))
        self.assertEqual(os.listdir(self.path("dir/d")), [])

    def test_whiteouts_apply_to_lower_layers_only(self):
        layout = self.make_oci_layout([[Dir("d"), File("d/old")], [Dir("d"), File("d/new"), Opaque("d"), File("x"), Whiteout("x")]])
        self.convert(f"oci:{layout}", self.path("dir"))
        self.assertEqual(os.listdir(self.path("dir/d")), ["new"])
        self.assertTrue(os.path.exists(self.path("dir/x")))

    def refused(self, layers, *texts):
        layout = self.make_oci_layout(layers, name=f"layout{len(os.listdir(self.path('')))}")
        before = sorted(os.listdir(self.path("")))
        for destination in (self.path("out"), self.path("out.sqfs")):
            self.assert_fails(self.slipway("convert", f"oci:{layout}", destination), "slipway: error: ", *texts)
            self.assertEqual(sorted(os.listdir(self.path(""))), before, "something was left behind")

    def test_names_that_leave_the_image(self):
        for name in ("../evil", "a/../../evil", "/../evil", "a/.."):
            with self.subTest(name):
                self.refused([[File(name, "x")]], "layer 1", "would leave the image", "try: ")
        self.refused([[File("f"), Hardlink("h", "../../etc/passwd")]], "hard link target", "would leave the image")

    def test_absolute_names_are_taken_below_the_root(self):
        layout = self.make_oci_layout([[File("/etc/absolute", "x")]])
        self.convert(f"oci:{layout}", self.path("dir"))
        self.assertTrue(os.path.exists(self.path("dir/etc/absolute")))

    def test_links_that_leave_the_root_are_not_followed(self):
        victim = self.write("victim/file", "untouched")
        layout = self.make_oci_layout([
            [Symlink("out", os.path.dirname(victim)), Symlink("f", victim), Symlink("up", "../../../../../..")],
            [File("f", "new"), File("up/through", "inside")]])
        self.convert(f"oci:{layout}", self.path("dir"))
        self.assertEqual(read(victim), b"untouched")
        self.assertEqual(os.listdir(os.path.dirname(victim)), ["file"])
        self.assertTrue(os.path.exists(self.path("dir/through")))
        self.assertTrue(os.path.islink(self.path("dir/out")))

    def test_missing_hard_link_target(self):
        self.refused([[Hardlink("here", "not/there")]], '"here"', '"not/there"')

    def test_bare_whiteout(self):
        self.refused([[File("d/.wh.")]], ".wh.")

    def test_devices_are_left_out_and_said(self):
        layout = self.make_oci_layout([[Dir("dev"), CharDevice("dev/null", 1, 3), File("dev/x")]])
        if os.getuid() == 0:
            self.skipTest("root can make devices; CI runs this as an ordinary user")
        result = self.convert(f"oci:{layout}", self.path("dir"))
        self.assertIn("1 device node", result.stderr)
        self.assertEqual(os.listdir(self.path("dir/dev")), ["x"])

    def test_owners_are_lost_and_said(self):
        if os.getuid() == 0:
            self.skipTest("root can give files away; CI runs this as an ordinary user")
        layout = self.make_oci_layout([[File("a", uid=42), File("b", gid=7), File("c")]])
        result = self.convert(f"oci:{layout}", self.path("dir"))
        self.assertIn("2 files", result.stderr)


class Damage(FormatsTest):
    def damaged_layer(self, change):
        layout = Layout(self.path("layout"))
        descriptor = layout.add_image([[File("f", os.urandom(300_000))]])
        manifest = json.loads(read(layout.blob_path(descriptor["digest"])))
        path = layout.blob_path(manifest["layers"][0]["digest"])
        data = bytearray(read(path))
        with open(path, "wb") as file:
            file.write(change(data))
        for destination in (self.path("out"), self.path("out.sqfs"), "store:x", f"oci:{self.path('copy')}"):
            result = self.assert_fails(self.slipway("convert", f"oci:{layout.directory}", destination), "try: ")
            self.assertRegex(result.stderr, "damaged|cut off|too early|invalid|checksum")
        self.assertEqual(os.listdir(self.path("")), ["layout"])
        self.assertEqual(self.slipway("images", "--json").json(), [])

    def test_cut_off(self):
        self.damaged_layer(lambda data: data[:-1000])

    def test_flipped_bit(self):
        def flip(data):
            data[len(data) // 2] ^= 4
            return data
        self.damaged_layer(flip)

    def test_another_valid_layer(self):
        import gzip
        self.damaged_layer(lambda data: gzip.compress(make_tar([File("evil", "x")])))

    def test_empty(self):
        self.damaged_layer(lambda data: b"")

    def test_a_full_disk_is_told_and_nothing_is_left(self):
        layout = self.make_oci_layout([[File("big", os.urandom(32 << 20))]], compression="none")
        os.mkdir(self.path("small"))
        # A small file system that an ordinary user can make: a tmpfs in a user namespace.
        script = ('mount -t tmpfs -o size=8m none "$1" && cd "$1" || exit 99; "$2" convert "$3" "$4"; status=$?; '
                  'find . -mindepth 1 \\( -type f -o -type d -empty \\) | sort; exit $status')
        for destination in ("out", "out.sqfs", "oci:out", "store:x"):
            with self.subTest(destination):
                result = run([require_program("unshare"), "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh",
                              self.path("small"), self.program_path(), f"oci:{layout}", destination],
                             env={**self.env, "SLIPWAY_STORE": self.path("small/store")})
                self.assert_status(result, 125)
                self.assertIn("No space left", result.stderr)
                self.assertIn("try: ", result.stderr)
                left = [name for name in result.stdout.splitlines()
                        if not name.startswith("./store/") or "/tmp/" in name or "/blobs/sha256/" in name]
                self.assertEqual(left, [])


class Choice(FormatsTest):
    def test_tags_and_platforms(self):
        layout = Layout(self.path("layout"))
        layout.add_image([[File("one")]], tag="one")
        layout.add_image([[File("two")]], tag="two")
        oci = f"oci:{layout.directory}"
        self.assert_fails(self.slipway("convert", oci, self.path("x")), "several images", "one, two", "try: ")
        self.assert_fails(self.slipway("convert", oci + ":three", self.path("x")), '"three"', "one, two")
        self.convert(oci + ":two", self.path("two"))
        self.assertTrue(os.path.exists(self.path("two/two")))

    def test_this_machines_platform_is_taken(self):
        layout = Layout(self.path("layout"))
        layout.add_image([[File("other")]], tag="t", platform={"os": "linux", "architecture": "s390x"})
        architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        layout.add_image([[File("mine")]], tag="t", platform={"os": "linux", "architecture": architecture})
        self.convert(f"oci:{layout.directory}", self.path("dir"))
        self.assertTrue(os.path.exists(self.path("dir/mine")))

    def test_absent_things(self):
        for source, text in (("oci:/no/such", "/no/such"), ("docker-archive:/no/such.tar", "/no/such.tar"),
                             ("./nothing.sqfs", "nothing.sqfs"), ("nothing", "slipway images")):
            with self.subTest(source):
                self.assert_fails(self.slipway("convert", source, self.path("x")), text)


class DockerArchive(FormatsTest):
    def archive(self, name, layers, tags, linked=False):
        members, names, diff_ids = [], [], []
        for number, layer in enumerate(layers):
            tar = make_tar(layer)
            diff_ids.append(digest_of(tar))
            names.append(f"{number}/layer.tar")
            if linked and number:
                members.append(Symlink(names[-1], "../0/layer.tar"))
            else:
                members.append(File(names[-1], tar))
        config = {"architecture": "amd64", "os": "linux", "config": {"Cmd": ["/x"]},
                  "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        members += [File("config.json", json.dumps(config)),
                    File("manifest.json", json.dumps([{"Config": "config.json", "RepoTags": tags, "Layers": names}]))]
        return self.write(name, make_tar(members))

    def test_archives(self):
        layers = [[Dir("d"), File("d/a", "1")], [File("b", "2"), Whiteout("d/a")]]
        path = self.archive("saved.tar", layers, ["lab/x:v1"])
        subprocess.run(["gzip", "-k", path], check=True)
        for source in (f"docker-archive:{path}", f"docker-archive:{path}:lab/x:v1", path, f"docker-archive:{path}.gz"):
            with self.subTest(source):
                out = self.path("out")
                self.convert(source, out)
                self.assertEqual(sorted(os.listdir(out)), sorted([*OURS, "b", "d"]))
                self.assertEqual(os.listdir(os.path.join(out, "d")), [])
                remove_tree(out)
        self.assert_fails(self.slipway("convert", f"docker-archive:{path}:other", self.path("x")), "lab/x:v1")
        self.convert(path, f"oci:{self.path('layout')}")
        self.umoci_tree(self.path("layout"))

    def test_linked_layers(self):
        path = self.archive("saved.tar", [[File("a", "1")], [File("a", "1")]], None, linked=True)
        self.convert(path, self.path("out"))
        self.assertEqual(read(self.path("out/a")), b"1")


class Conversions(FormatsTest):
    LAYERS = [[Dir("bin"), File("bin/x", "#!", 0o755), Hardlink("bin/y", "bin/x"), Symlink("l", "bin"), Dir("tmp", 0o1777),
               File("old")], [Whiteout("old"), File("new", "2", xattrs={"user.note": "kept"})]]
    CONFIG = {"Env": ["A=1"], "Cmd": ["/bin/x"], "Labels": {"k": "v"}, "Healthcheck": {"Test": ["NONE"]}}

    def config_of(self, reference):
        return self.assert_succeeds(self.slipway("inspect", "--json", reference)).json()["config"]["config"]

    def test_round_trips(self):
        layout = self.make_oci_layout(self.LAYERS, config=self.CONFIG)
        expected = self.umoci_tree(layout)
        self.convert(f"oci:{layout}", self.path("a.sqfs"))
        self.convert(self.path("a.sqfs"), f"oci:{self.path('b')}:t")
        self.convert(f"oci:{self.path('b')}", "store:c")
        self.convert("c", self.path("d"))
        self.convert(self.path("d"), self.path("e.sqfs"))
        self.convert(self.path("e.sqfs"), self.path("f"))
        self.assertEqual(without_ours(tree_of(self.path("f"))), expected)
        self.assertEqual(os.getxattr(self.path("f/new"), "user.note"), b"kept")
        for reference in (f"oci:{layout}", self.path("a.sqfs"), f"oci:{self.path('b')}:t", "c", self.path("f")):
            with self.subTest(reference):
                self.assertEqual(self.config_of(reference), self.CONFIG)

    def test_compressions(self):
        trees = []
        for compression in ("none", "gzip", "zstd"):
            layout = self.make_oci_layout(self.LAYERS, compression=compression, name=f"layout-{compression}")
            self.convert(f"oci:{layout}", self.path(compression))
            trees.append(without_ours(tree_of(self.path(compression))))
        self.assertEqual(trees[0], trees[1])
        self.assertEqual(trees[0], trees[2])

    def test_an_ordinary_tree_is_roots_in_the_image(self):
        self.write("tree/f", "x")
        self.convert(self.path("tree"), self.path("t.sqfs"))
        listing = self.assert_succeeds(run([require_program("unsquashfs"), "-lln", self.path("t.sqfs")], env=self.env))
        owners = {line.split()[1] for line in listing.stdout.splitlines() if "squashfs-root" in line}
        self.assertEqual(owners, {"0/0"})

    def test_the_same_input_gives_the_same_bytes(self):
        layout = self.make_oci_layout(self.LAYERS)
        for name in ("1", "2"):
            self.convert(f"oci:{layout}", self.path(f"{name}.sqfs"))
            self.convert(self.path(f"{name}.sqfs"), f"oci:{self.path(name)}")
        self.assertEqual(read(self.path("1.sqfs")), read(self.path("2.sqfs")))
        self.assertEqual(read(self.path("1/index.json")), read(self.path("2/index.json")))

    def test_nothing_is_overwritten(self):
        layout = self.make_oci_layout(self.LAYERS)
        self.write("there.sqfs", "x")
        self.write("full/x", "x")
        for name in ("there.sqfs", "full"):
            self.assert_fails(self.slipway("convert", f"oci:{layout}", self.path(name)), name, "try: ")
        self.assertEqual(read(self.path("there.sqfs")), b"x")

    def test_a_layout_takes_more_images(self):
        layout = self.make_oci_layout(self.LAYERS)
        self.convert(f"oci:{layout}", f"oci:{self.path('many')}:a")
        self.convert(f"oci:{layout}", f"oci:{self.path('many')}:b")
        tags = self.assert_succeeds(run(["umoci", "ls", "--layout", self.path("many")], env=self.env)).stdout.split()
        self.assertEqual(sorted(tags), ["a", "b"])


class StoreCommands(FormatsTest):
    def test_images_and_rmi(self):
        self.assertEqual(self.slipway("images", "--json").json(), [])
        layout = self.make_oci_layout([[File("a", "1")]])
        for name in ("one", "two:v2"):
            self.convert(f"oci:{layout}", f"store:{name}")
        names = [image["name"] for image in self.slipway("images", "--json").json()]
        self.assertEqual(names, ["one:latest", "two:v2"])
        self.assertIn("two:v2", self.slipway("images").stdout)
        self.assert_fails(self.slipway("rmi", "tow:v2"), "near it: two:v2", "slipway images")
        self.assert_succeeds(self.slipway("rmi", "one"))
        self.assert_succeeds(self.slipway("inspect", "two:v2"))
        self.assert_succeeds(self.slipway("rmi", "two:v2"))
        self.assertEqual(os.listdir(os.path.join(self.store, "oci/blobs/sha256")), [])

    def test_a_killed_conversion_is_swept(self):
        layout = self.make_oci_layout([[File("big", os.urandom(40 << 20))]], compression="none")
        process = subprocess.Popen([self.program_path(), "convert", f"oci:{layout}", "store:x"], env=self.env,
                                   stderr=subprocess.DEVNULL)
        temporary = os.path.join(self.store, "tmp")
        while process.poll() is None and not (os.path.isdir(temporary) and os.listdir(temporary)):
            pass
        process.kill()
        process.wait()
        self.assert_succeeds(self.slipway("images"))
        self.assertEqual(os.listdir(temporary), [])


if __name__ == "__main__":
    main()
