# Data packs: order, what is compressed, sums and description; read back with squashfs-tools.
# Must not: take Slipway's word for what is in a pack.
import gzip
import hashlib
import json
import os
import random
import subprocess

from slipway_test import SlipwayTest, main, require_program, tree_of
from small_root import make_root, make_squashfs


class Pack(SlipwayTest):
    def make_data(self):
        noise = random.Random(1)
        self.write("data/readme.txt", "a text\n" * 1000)
        for number in (1, 2, 10, 11, 100):
            self.write(f"data/train/img{number}.jpg", b"\xff\xd8\xff\xe0" + noise.randbytes(90_000))
        self.write("data/train/labels.csv", "".join(f"img{i}.jpg,{i % 10}\n" for i in range(20_000)))
        self.write("data/raw.bin", noise.randbytes(400_000))
        self.write("data/texts.gz", gzip.compress(b"compressed " * 50_000))
        self.write("data/empty", b"")
        os.link(self.path("data/raw.bin"), self.path("data/same.bin"))
        os.symlink("train/img1.jpg", self.path("data/first.jpg"))
        return self.path("data")

    def pack(self, *options, output="pack.sqfs", **more):
        return self.slipway("pack", self.path("data"), "-o", self.path(output), *options, **more)

    def inside(self, name, pack="pack.sqfs"):
        return subprocess.run([require_program("unsquashfs"), "-cat", self.path(pack), name], check=True,
                              stdout=subprocess.PIPE).stdout

    def test_the_tree_comes_back_and_its_sums_are_right(self):
        self.make_data()
        result = self.assert_succeeds(self.pack("--name", "pictures", "--data-version", "2", "--license", "CC-BY-4.0",
                                                "--source", "https://example.org/pictures", "--description", "Ten pictures"))
        self.assertIn("10 files", result.stderr)
        subprocess.run([require_program("unsquashfs"), "-q", "-n", "-d", self.path("out"), self.path("pack.sqfs")], check=True,
                       stdout=subprocess.DEVNULL)
        subprocess.run(["sha256sum", "--quiet", "-c", ".slipway/SHA256SUMS"], cwd=self.path("out"), check=True)
        sums = self.inside(".slipway/SHA256SUMS").decode().splitlines()
        self.assertEqual(len(sums), 11)  # a hard link has a line, too
        about = json.loads(self.inside(".slipway/pack.json"))
        self.assertEqual({key: about[key] for key in ("name", "version", "license", "source", "description", "files")},
                         {"name": "pictures", "version": "2", "license": "CC-BY-4.0", "files": 10,
                          "source": "https://example.org/pictures", "description": "Ten pictures"})
        self.assertEqual(about["digest"], "sha256:" + hashlib.sha256(self.inside(".slipway/SHA256SUMS")).hexdigest())
        labels = self.slipway("inspect", self.path("pack.sqfs"), "--json").json()["config"]["config"]["Labels"]
        self.assertEqual(labels["org.opencontainers.image.licenses"], "CC-BY-4.0")
        before, after = tree_of(self.path("data")), tree_of(self.path("out"))
        self.assertEqual({name: facts for name, facts in after.items() if not name.startswith(".slipway")}, before)

    def test_files_lie_in_the_order_in_which_they_are_read(self):
        self.make_data()
        self.assert_succeeds(self.pack())
        with open(self.path("pack.sqfs"), "rb") as file:
            pack = file.read()
        places = []
        for name in ("img1", "img2", "img10", "img11", "img100"):
            with open(self.path(f"data/train/{name}.jpg"), "rb") as file:
                places.append(pack.index(file.read()[:90_000]))  # stored as it is: the bytes are there
        self.assertEqual(places, sorted(places))
        for name in ("raw.bin", "texts.gz"):
            with open(self.path("data/" + name), "rb") as file:
                self.assertIn(file.read(4000), pack)
        self.assertNotIn(b"img77.jpg,7", pack)  # the list is compressed

    def test_the_same_tree_gives_the_same_bytes(self):
        self.make_data()
        digests = []
        for number in range(2):
            self.assert_succeeds(self.pack(output=f"{number}.sqfs"))
            with open(self.path(f"{number}.sqfs"), "rb") as file:
                digests.append(hashlib.sha256(file.read()).hexdigest())
        self.assertEqual(len(set(digests)), 1)
        self.assert_succeeds(self.pack(output="old.sqfs", env={"SOURCE_DATE_EPOCH": "1000000000"}))
        listing = subprocess.run([require_program("unsquashfs"), "-lln", self.path("old.sqfs")], stdout=subprocess.PIPE,
                                 text=True, check=True).stdout
        self.assertNotRegex(listing, r" 20[1-9]\d-")

    def test_a_pack_of_a_pack_has_one_description(self):
        self.make_data()
        self.assert_succeeds(self.pack("--name", "first"))
        subprocess.run([require_program("unsquashfs"), "-q", "-n", "-f", "-d", self.path("data"), self.path("pack.sqfs")],
                       check=True, stdout=subprocess.DEVNULL)
        self.assert_succeeds(self.pack("--name", "second", output="second.sqfs"))
        self.assertEqual(json.loads(self.inside(".slipway/pack.json", "second.sqfs"))["name"], "second")
        self.assertEqual(self.inside(".slipway/SHA256SUMS", "second.sqfs"), self.inside(".slipway/SHA256SUMS"))

    def test_in_a_container(self):
        self.make_data()
        self.assert_succeeds(self.pack())
        make_squashfs(make_root(self.path("root")), self.path("image.sqfs"))
        result = self.assert_succeeds(self.slipway("run", "--data", f"{self.path('pack.sqfs')}:/data", self.path("image.sqfs"),
                                                   "--", "sh", "-c", "cd /data && sha256sum -c .slipway/SHA256SUMS"))
        self.assertEqual(result.stdout.count(": OK"), 11)

    def test_errors(self):
        self.make_data()
        self.assert_fails(self.pack(output="data/inside.sqfs"), "would lie in the directory that it packs", "try: ")
        self.assert_fails(self.slipway("pack", self.path("absent"), "-o", self.path("x.sqfs")), "absent")
        self.assert_fails(self.pack("--block-size", "1000"), "no squashfs block size")


if __name__ == "__main__":
    main()
