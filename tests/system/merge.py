"""Layers merged into squashfs, through the real binary: what is refused, what stays the same, what a kill leaves.

Must not: run containers. What becomes of each kind of file is compared in formats.py and umoci_root.py.
"""
import json
import os
import subprocess

from slipway_test import (Dir, File, Layout, SlipwayTest, compress, digest_of, host_architecture, main, make_tar, program,
                          require_program, run)


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Merge(SlipwayTest):
    LAYER = [File("good", "x")]

    def convert(self, source, destination):
        return self.assert_succeeds(self.slipway("convert", source, destination))

    def lying_layout(self, compression):
        """An image whose configuration says that its layer is another one."""
        layout = Layout(self.path(f"lying {compression}"))
        tar, real = make_tar([File("evil", "x")]), make_tar(self.LAYER)
        layer = layout.add_blob(*compress(tar, compression))
        config = {"architecture": host_architecture(), "os": "linux", "rootfs": {"type": "layers", "diff_ids": [digest_of(real)]}}
        kind = "application/vnd.oci.image."
        manifest = {"schemaVersion": 2, "mediaType": kind + "manifest.v1+json", "layers": [layer],
                    "config": layout.add_blob(json.dumps(config).encode(), kind + "config.v1+json")}
        layout.manifests.append(layout.add_blob(json.dumps(manifest).encode(), manifest["mediaType"]))
        layout.write_index()
        return layout.directory

    def test_a_layer_that_is_not_what_the_configuration_says(self):
        for compression in ("gzip", "zstd", "none"):
            liar = self.lying_layout(compression)
            for destination in ("out.sqfs", "out"):
                with self.subTest(compression, destination=destination):
                    self.assert_fails(self.slipway("convert", f"oci:{liar}", self.path(destination)),
                                      "is damaged", "diff id", digest_of(make_tar(self.LAYER)), "try: ")
                    self.assertFalse(os.path.exists(self.path(destination)))
        honest = self.make_oci_layout([self.LAYER])
        self.convert(f"oci:{honest}", self.path("honest.sqfs"))
        listing = run([require_program("unsquashfs"), "-l", self.path("honest.sqfs")], env=self.env).stdout
        self.assertIn("good", listing)
        self.assertNotIn("evil", listing, "the liar's blocks were taken for this layer's")

    def test_owners_that_linux_does_not_have(self):
        kept = self.make_oci_layout([[File("last", uid=2**32 - 2, gid=2**32 - 2)]], name="kept")
        self.convert(f"oci:{kept}", self.path("kept.sqfs"))
        listing = self.assert_succeeds(run([require_program("unsquashfs"), "-lln", self.path("kept.sqfs")], env=self.env)).stdout
        self.assertIn("4294967294/4294967294", listing)
        for uid in (2**32 - 1, 2**32, 2**40):
            layout = self.make_oci_layout([[File("f", uid=uid)]], name=f"uid {uid}")
            self.assert_fails(self.slipway("convert", f"oci:{layout}", self.path("x.sqfs")), f'"f"', str(uid), "chown", "try: ")

    def test_a_sparse_file_of_10_gb(self):
        with open(self.path("huge"), "wb") as file:
            file.write(b"begin")
            file.seek(5 << 30)
            file.write(b"middle")
            file.truncate(10 << 30)
        tar = subprocess.run(["tar", "-cSf", "-", "--format=posix", "-C", self.path(""), "huge"], check=True,
                             stdout=subprocess.PIPE).stdout
        self.assertLess(len(tar), 1 << 20)
        layout = self.make_oci_layout([tar])
        os.unlink(self.path("huge"))
        self.convert(f"oci:{layout}", self.path("huge.sqfs"))
        self.assertLess(os.path.getsize(self.path("huge.sqfs")), 1 << 20)
        out = self.path("out")
        self.assert_succeeds(run([require_program("unsquashfs"), "-no-progress", "-d", out, self.path("huge.sqfs")], env=self.env))
        status = os.stat(f"{out}/huge")
        self.assertEqual(status.st_size, 10 << 30)
        self.assertLess(status.st_blocks * 512, 8 << 20)
        with open(f"{out}/huge", "rb") as file:
            self.assertEqual(file.read(8), b"begin\0\0\0")
            file.seek((5 << 30) - 2)
            self.assertEqual(file.read(10), b"\0\0middle\0\0")

    def test_the_same_bytes_with_a_date_and_any_threads(self):
        layout = self.make_oci_layout([[Dir("d"), *[File(f"d/{i}", os.urandom(50000)) for i in range(40)]],
                                       [File("d/new", "n" * 300000, mtime=1800000000)]])
        seen = set()
        for threads in ("1", "2", "5"):
            out = self.path(f"{threads}.sqfs")
            self.assert_succeeds(self.slipway("convert", "--threads", threads, "-s", self.path(f"store {threads}"), f"oci:{layout}",
                                              out, env={"SOURCE_DATE_EPOCH": "1750000000"}))
            seen.add(digest_of(read(out)))
        self.assertEqual(len(seen), 1)
        out = self.path("unpacked")
        self.assert_succeeds(run([require_program("unsquashfs"), "-no-progress", "-d", out, self.path("1.sqfs")], env=self.env))
        self.assertEqual(int(os.stat(f"{out}/d/new").st_mtime), 1750000000)
        self.assertEqual(int(os.stat(f"{out}/d/1").st_mtime), 1700000000)
        self.assert_fails(self.slipway("convert", f"oci:{layout}", self.path("x.sqfs"), env={"SOURCE_DATE_EPOCH": "today"}),
                          "SOURCE_DATE_EPOCH=today", "try: ")

    def packs(self):
        return sorted(os.listdir(os.path.join(self.store, "packs")))

    def test_packs_are_kept_within_their_limit(self):
        layers = [[File(name, os.urandom(400_000))] for name in "abc"]
        one, all_three = self.make_oci_layout(layers[:1], name="one"), self.make_oci_layout(layers, name="three")
        said = self.assert_succeeds(self.slipway("convert", f"oci:{all_three}", self.path("1.sqfs"))).stderr
        self.assertRegex(said, r"wrote .*; \d+ files of 1\.2 MB; at most [0-9.]+ MB of memory and 1\.2 MB of disk beside")
        self.assertEqual(len(self.packs()), 3)
        first = digest_of(make_tar(layers[0])).split(":")[1]
        said = self.assert_succeeds(self.slipway("convert", f"oci:{one}", self.path("2.sqfs"), env={"SLIPWAY_PACK_CACHE": "900K"})).stderr
        self.assertIn("of memory and 0 B of disk", said)
        self.assertEqual(len(self.packs()), 2)
        self.assertTrue(any(name.startswith(first) for name in self.packs()), "the pack used last was removed")
        self.assert_succeeds(self.slipway("convert", f"oci:{all_three}", self.path("3.sqfs"), env={"SLIPWAY_PACK_CACHE": "0"}))
        self.assertEqual(self.packs(), [])
        self.assertEqual(read(self.path("1.sqfs")), read(self.path("3.sqfs")))
        self.assert_fails(self.slipway("convert", f"oci:{one}", self.path("4.sqfs"), env={"SLIPWAY_PACK_CACHE": "much"}),
                          "SLIPWAY_PACK_CACHE", '"much"', "try: ")

    def test_conversions_at_once_share_a_store(self):
        layout = self.make_oci_layout([[File(f"{i}", os.urandom(300_000)) for i in range(20)], [File("x", "y")]])
        running = [subprocess.Popen([program(), "-q", "convert", f"oci:{layout}", self.path(f"{i}.sqfs")],
                                    env={**self.env, "SLIPWAY_PACK_CACHE": limit}, stderr=subprocess.PIPE, text=True)
                   for i, limit in enumerate(("1M", "20G", "1M", "20G", "100K", "20G"))]
        ends = [(process.communicate(timeout=100)[1], process.returncode) for process in running]
        self.assertEqual(ends, [("", 0)] * len(running))
        self.assertEqual(len({digest_of(read(self.path(f"{i}.sqfs"))) for i in range(len(running))}), 1)

    def test_a_conversion_to_squashfs_that_is_killed_leaves_nothing(self):
        layout = self.make_oci_layout([[File(f"{i}", os.urandom(1_000_000)) for i in range(30)]], compression="none")
        before = sorted(os.listdir(self.path("")))
        self.assert_succeeds(self.slipway("images"))  # the store is there
        for delay in (0.01, 0.03, 0.06, 0.1, 0.15):
            process = subprocess.Popen([program(), "-q", "convert", "--compressor", "xz", f"oci:{layout}", self.path("out.sqfs")],
                                       env=self.env)
            try:
                process.wait(delay)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            self.assertEqual(sorted(os.listdir(self.path(""))), before)
            packs = os.path.join(self.store, "packs")
            self.assertEqual(os.listdir(packs) if os.path.isdir(packs) else [], [])


if __name__ == "__main__":
    main()
