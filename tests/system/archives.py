"""Formats that convert writes: docker and OCI archives, tars, SIF, squashfs of every compressor; what digests survive the way.

Must not: read an archive with Slipway only; skopeo, umoci, GNU tar and unsquashfs look at what was written.
"""
import hashlib
import json
import os
import signal
import subprocess
import tarfile
import unittest

from slipway_test import (CharDevice, Dir, File, Hardlink, Layout, SlipwayTest, Symlink, Whiteout, digest_of, main, make_tar,
                          program, require_program, run, tree_of)

ADDED = (".slipway", ".singularity.d", "singularity", "ch")
LAYERS = [[Dir("bin"), File("bin/x", "#!", 0o755), Hardlink("bin/y", "bin/x"), Symlink("l", "bin"), Dir("tmp", 0o1777),
           File("old")], [Whiteout("old"), File("new", "2", xattrs={"user.note": "kept"}, uid=7, gid=8), File("\u00e9" * 120)]]
CONFIG = {"Env": ["A=1"], "Cmd": ["/bin/x"], "Labels": {"k": "v"}}


def image_of(tree):
    return {path: facts for path, facts in tree.items() if path.split("/")[0] not in ADDED}


class Archives(SlipwayTest):
    maxDiff = None

    def convert(self, source, destination):
        return self.assert_succeeds(self.slipway("convert", source, destination))

    def inspect(self, reference):
        return self.assert_succeeds(self.slipway("inspect", "--json", reference)).json()

    def layout(self, **more):
        return "oci:" + self.make_oci_layout(LAYERS, config=CONFIG, **more)

    def skopeo(self, reference):
        """What skopeo says of an image, raw."""
        result = run([require_program("skopeo"), "inspect", "--config", "--raw", reference], env=self.env)
        return self.assert_succeeds(result).stdout

    def unpacked(self, reference, name):
        self.convert(reference, self.path(name))
        return image_of(tree_of(self.path(name)))


class Layouts(Archives):
    def test_an_image_is_added_to_an_old_layout(self):
        self.convert(self.layout(), "oci:both:a")
        blobs = self.path("both/blobs/sha256")
        before = sorted(os.listdir(blobs))
        for name in before:
            os.utime(os.path.join(blobs, name), (1_000_000_000, 1_000_000_000))
        left = os.path.join(blobs, "0123456789abcdef-4026531836-1-2-3")  # of a process of another machine, killed long ago
        open(left, "w").close()
        os.utime(left, (1_000_000_000, 1_000_000_000))
        self.convert("oci:" + self.make_oci_layout([[File("other", "x")]], name="other"), "oci:both:b")
        self.assertEqual([name for name in before if not os.path.exists(os.path.join(blobs, name))], [])
        self.assertFalse(os.path.exists(left))
        self.assertIn("new", self.unpacked("oci:both:a", "a"))

    def test_two_plain_tars_are_two_images(self):
        for name in "one", "two":
            with open(self.path(name + ".tar"), "wb") as file:
                file.write(make_tar([File("which", name)]))
        for name in "one", "two", "one":
            with self.subTest(name):
                result = self.slipway("run", "--dry-run", self.path(name + ".tar"), "--", "true")
                source, = {mount["source"] for mount in self.assert_succeeds(result).json()["mounts"] if "squashfs" in mount.get("source", "")}
                self.convert(source, self.path("tree-" + name) + str(len(os.listdir(self.path("")))))
        self.assertEqual(len([name for name in os.listdir(os.path.join(self.store, "squashfs")) if name.endswith(".sqfs")]), 2)


class RoundTrips(Archives):
    def test_a_docker_archive_keeps_image_id_and_diff_ids(self):
        source = self.layout()
        before = self.inspect(source)
        result = self.convert(source, "docker-archive:a.tar:lab/digits")
        self.assertIn("not kept: the manifest", result.stderr)
        config = self.skopeo(f"docker-archive:{self.path('a.tar')}:lab/digits:latest")
        self.assertEqual(digest_of(config.encode()), before["config_digest"])
        with tarfile.open(self.path("a.tar")) as tar:
            manifest, = json.load(tar.extractfile("manifest.json"))
            self.assertEqual(manifest["RepoTags"], ["lab/digits:latest"])
            found = [digest_of(tar.extractfile(name).read()) for name in manifest["Layers"]]
        self.assertEqual(found, [layer["diff_id"] for layer in before["layers"]])
        self.convert("docker-archive:a.tar", "oci:back")
        after = self.inspect("oci:back")
        self.assertEqual(after["config_digest"], before["config_digest"])
        self.assertEqual([layer["diff_id"] for layer in after["layers"]], found)
        self.assertEqual(self.unpacked("oci:back", "d1"), self.unpacked(source, "d2"))

    def test_an_oci_archive_keeps_the_manifest(self):
        source = self.layout()
        before = self.inspect(source)["manifest_digest"]
        self.convert(source, "oci-archive:a.tar:v1")
        raw = self.assert_succeeds(run([require_program("skopeo"), "inspect", "--raw", f"oci-archive:{self.path('a.tar')}:v1"],
                                       env=self.env)).stdout
        self.assertEqual(digest_of(raw.encode()), before)
        for step, (origin, target) in enumerate((("oci-archive:a.tar:v1", "oci:b"), ("oci:b", "store:c"), ("c", "oci-archive:d.tar"),
                                                 ("d.tar", "oci:e:x"))):
            with self.subTest(step):
                self.convert(origin, target)
        self.assertEqual(self.inspect("oci:e:x")["manifest_digest"], before)
        self.assert_succeeds(run([require_program("umoci"), "unpack", "--rootless", "--image", "e:x", self.path("bundle")],
                                 env=self.env, cwd=self.path("")))
        self.assertEqual(self.unpacked("oci:e:x", "f"), tree_of(self.path("bundle/rootfs")))

    def test_one_tree_of_every_format_and_back(self):
        source = self.layout()
        expected = self.unpacked(source, "expected")
        before = "oci:" + self.path("layout")
        for name in ("a.sqfs", "a.sif", "a.tar", "a.tar.gz", "a.tar.zst", "docker-archive:a.docker", "oci-archive:a.oci", "store:a"):
            with self.subTest(name):
                self.convert(before, name)
                origin = name.removeprefix("store:")
                back = "from-" + name.replace(":", "-").replace(".", "-")
                self.assertEqual(self.unpacked(origin, back), expected)
                self.assertEqual(self.inspect(origin)["config"]["config"], CONFIG)
                before = origin

    def test_a_squashfs_becomes_one_layer_again_the_same(self):
        self.convert(self.layout(), "a.sqfs")
        for number in ("1", "2"):
            self.convert("a.sqfs", f"oci:l{number}")
            self.convert("a.sqfs", f"docker-archive:d{number}.tar")
            self.convert("a.sqfs", f"t{number}.tar.gz")
            self.convert("a.sqfs", f"s{number}.sif")
        for one, two in (("l1/index.json", "l2/index.json"), ("d1.tar", "d2.tar"), ("t1.tar.gz", "t2.tar.gz"), ("s1.sif", "s2.sif")):
            with open(self.path(one), "rb") as first, open(self.path(two), "rb") as second:
                self.assertEqual(hashlib.sha256(first.read()).digest(), hashlib.sha256(second.read()).digest(), one)
        facts = self.inspect("oci:l1")
        self.assertEqual(len(facts["layers"]), 1)
        members = subprocess.run(["tar", "-tf", "-"], input=self.layer_of("l1"), stdout=subprocess.PIPE, check=True).stdout
        for name in ADDED:  # what Slipway adds is no part of the image
            self.assertNotIn(name.encode(), [word.rstrip(b"/") for word in members.splitlines()])
        self.convert("oci:l1", "b.sqfs")
        self.convert("b.sqfs", "oci:l3")
        self.assertEqual(self.inspect("oci:l3")["layers"], facts["layers"])

    def layer_of(self, layout):
        with open(self.path(f"{layout}/index.json")) as file:
            manifest = json.load(file)["manifests"][0]
        with open(self.path(f"{layout}/blobs/sha256/{manifest['digest'][7:]}")) as file:
            layer = json.load(file)["layers"][0]
        path = self.path(f"{layout}/blobs/sha256/{layer['digest'][7:]}")
        return subprocess.run(["gzip", "-dc", path], stdout=subprocess.PIPE, check=True).stdout

    def test_history_says_that_layers_became_one(self):
        layout = Layout(self.path("layout"))
        layout.add_image(LAYERS, config=CONFIG, platform={"os": "linux", "architecture": "amd64", "history": [
            {"created_by": "one"}, {"created_by": "env", "empty_layer": True}, {"created_by": "two"}]})
        self.convert("oci:layout", "a.sqfs")
        self.convert("a.sqfs", "oci:b")
        history = self.inspect("oci:b")["config"]["history"]
        self.assertEqual([(item["created_by"], item.get("empty_layer", False)) for item in history],
                         [("one", True), ("env", True), ("two", True), ("slipway convert", False)])


class Tars(Archives):
    def test_a_plain_tar_is_an_image_of_one_layer(self):
        tar = make_tar([Dir("./bin"), File("./bin/x", "1", 0o755), File("./manifest.txt", "no image's")])
        self.write("root.tar", tar)
        facts = self.inspect("root.tar")
        self.assertEqual([layer["diff_id"] for layer in facts["layers"]], [digest_of(tar)])
        subprocess.run(["gzip", "-k", self.path("root.tar")], check=True)
        self.assertEqual(self.inspect("root.tar.gz")["layers"][0]["diff_id"], digest_of(tar))
        self.assertEqual(self.unpacked("root.tar", "a"), self.unpacked("root.tar.gz", "b"))
        self.convert("root.tar", "c.sqfs")
        self.assertEqual(self.unpacked("c.sqfs", "d"), image_of(tree_of(self.path("a"))))

    def test_tars_of_gnu_with_sparse_files(self):
        with open(self.path("sparse"), "wb") as file:
            for at in range(0, 400 << 16, 1 << 17):  # more holes than the first header can name
                file.seek(at)
                file.write(b"x")
            file.truncate(400 << 16)
        subprocess.run(["tar", "-cSf", self.path("s.tar"), "--format=gnu", "-C", self.path(""), "sparse"], check=True)
        tree = self.unpacked("s.tar", "out")
        self.assertEqual(tree["sparse"]["digest"], tree_of(self.path(""))["sparse"]["digest"])

    def test_owners_and_devices_stay_in_a_tar(self):
        layout = "oci:" + self.make_oci_layout([[Dir("dev"), CharDevice("dev/null", 1, 3), File("f", uid=70000, gid=3)]])
        self.convert(layout, "a.tar")
        with tarfile.open(self.path("a.tar")) as tar:
            self.assertEqual((tar.getmember("f").uid, tar.getmember("f").gid), (70000, 3))
            self.assertTrue(tar.getmember("dev/null").ischr())

    def test_what_cannot_be_read_or_written(self):
        source = self.layout()
        for name in ("x.tar.xz", "x.ext4"):
            self.assert_fails(self.slipway("convert", source, name), "are not written", "try: ")
        self.write("y.tar.xz", "")
        self.assert_fails(self.slipway("convert", "y.tar.xz", "z"), "decompress it first")
        self.write("root.tar", make_tar([File("x")]))
        for scheme in ("docker-archive:", "oci-archive:"):
            self.assert_fails(self.slipway("convert", scheme + "root.tar", "z"), "try: name it without a scheme")
        self.assert_fails(self.slipway("convert", source, "docker-archive:z.tar:Not Lower"), "is no valid image name")
        self.assert_fails(self.slipway("convert", source, "layout"), "is an OCI layout", "oci:layout:TAG")
        for there in ("root.tar", "docker-archive:root.tar", "oci-archive:root.tar"):
            self.assert_fails(self.slipway("convert", source, there), "is there already")
        self.assertEqual(sorted(os.listdir(self.path(""))), ["layout", "root.tar", "y.tar.xz"])


class Compressors(Archives):
    def test_every_compressor_is_written_and_read(self):
        source = self.layout()
        expected = self.unpacked(source, "expected")
        for codec in ("gzip", "xz", "lz4", "zstd"):
            self.assert_succeeds(self.slipway("convert", "--compressor", codec, source, f"{codec}.sqfs"))
            self.assertEqual(self.inspect(f"{codec}.sqfs")["compressor"], codec)
            self.assertEqual(self.unpacked(f"{codec}.sqfs", codec), expected)
        self.convert(source, "a.sif")
        self.assertEqual(self.inspect("a.sif")["compressor"], "gzip")
        self.assert_succeeds(self.slipway("convert", "--compressor", "zstd", source, "b.sif"))
        self.assertEqual(self.inspect("b.sif")["compressor"], "zstd")


class Damage(Archives):
    def test_a_damaged_layer_writes_no_archive(self):
        layout = Layout(self.path("layout"))
        layout.add_image([[File("f", os.urandom(300_000))]])
        name, = (name for name in os.listdir(self.path("layout/blobs/sha256"))
                 if os.path.getsize(self.path(f"layout/blobs/sha256/{name}")) > 100_000)
        with open(self.path(f"layout/blobs/sha256/{name}"), "r+b") as file:
            file.seek(1000)
            file.write(b"changed")
        for destination in ("docker-archive:x", "oci-archive:x", "x.tar", "x.sif", "oci:x", "x"):
            result = self.assert_fails(self.slipway("convert", "oci:layout", destination), "slipway: error: ")
            self.assertRegex(result.stderr, "damaged|invalid|checksum")
        self.assertEqual(os.listdir(self.path("")), ["layout"])

    def test_a_kill_at_any_step_leaves_no_half_output(self):
        self.convert(self.layout(), "a.sqfs")
        self.convert("oci:layout", "store:a")  # the store's own directories are there
        before = sorted(os.listdir(self.path("")))
        for destination in ("x.sqfs", "x.sif", "x.tar", "docker-archive:x", "oci-archive:x", "oci:x", "x"):
            path, step = destination.split(":")[-1], 0
            while True:
                step += 1
                result = self.slipway("convert", "oci:layout", destination, env={"SLIPWAY_FAULT": f"change@{step}:kill"})
                if result.status == 0:
                    break
                self.assertEqual(result.status, 128 + signal.SIGKILL, f"{destination}, step {step}\n{result}")
                self.assert_succeeds(self.slipway("images"))  # sweeps
                left = sorted(os.listdir(self.path("")))
                if path in left:  # killed after it had its name: it is whole
                    self.inspect(destination if ":" in destination else path)
                    left.remove(path)
                    run(["rm", "-rf", self.path(path)])
                self.assertEqual(left, before, f"{destination}, killed at step {step}")
            self.assertGreater(step, 3, "no step was reached")
            run(["rm", "-rf", self.path(path)])


if __name__ == "__main__":
    main()
