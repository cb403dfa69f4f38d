# The squashfs writer and server as an ordinary user: against unsquashfs, against the source, damaged, killed.
# Must not: need privilege, or accept any outcome but the one that is named.
import json
import os
import random
import signal
import subprocess
import time

from slipway_test import (CharDevice, Dir, Fifo, File, Hardlink, Opaque, SlipwayTest, Symlink, Whiteout, main, make_tar,
                          program, require_program, run, tree_of)

NOISE = random.Random(1).randbytes(700000)

BASE = [
    Dir("usr"), Dir("usr/lib"), Symlink("lib", "usr/lib"), Dir("tmp", mode=0o1777),
    File("usr/lib/a.so", NOISE[:400000] + b"x" * 300000, mode=0o755), File("empty", b""),
    File("setuid", b"s", mode=0o4755), File("usr/lib/gone", b"old"), Dir("cleared"), File("cleared/old", b"old"),
    File("target", NOISE[:5000]), Hardlink("usr/name", "target"), Fifo("fifo"), CharDevice("null", 1, 3),
    File("n" * 255, b"long name"), File("odd \x01 name\n", b"odd"), File("exact", NOISE[:262144]),
    File("attributes", b"x", xattrs={"user.note": "kept", "user.second": "too"}),
    File("twin", NOISE[:400000] + b"x" * 300000, mtime=1600000000),
] + [Dir("many")] + [File(f"many/f{i}", NOISE[i:i * 3]) for i in range(3000)]
TOP = [
    File("lib/new.so", NOISE[5:100000]), Whiteout("lib/gone"), Opaque("cleared"), File("cleared/new", b"new"),
    Whiteout("target"), Symlink("absolute", "/usr/lib/a.so"),
]

# Run inside the mount: what the kernel says of every name, as JSON.
FACTS = """
import json, os, sys
sys.path.insert(0, sys.argv[2])
from slipway_test import tree_of
tree = tree_of(sys.argv[1], owners=True)
for path, facts in tree.items():
    status = os.lstat(os.path.join(sys.argv[1], path))
    facts.update(links=status.st_nlink, inode=status.st_ino, seconds=status.st_mtime_ns / 1e9, device=status.st_rdev)
    facts["xattrs"] = {n: os.getxattr(os.path.join(sys.argv[1], path), n, follow_symlinks=False).decode()
                       for n in os.listxattr(os.path.join(sys.argv[1], path), follow_symlinks=False)}
json.dump(tree, sys.stdout)
"""


class SquashfsTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("mnt"))

    def probe(self, *arguments, **more):
        return self.run_program("squashfs_probe", *arguments, **more)

    def layers(self, *layers):
        return [self.write(f"layer{i}.tar", layer if isinstance(layer, bytes) else make_tar(layer))
                for i, layer in enumerate(layers)]

    def image(self, *layers, options=(), name="image.sqfs"):
        self.assert_succeeds(self.probe("write", *options, self.path(name), *self.layers(*layers)))
        return self.path(name)

    def serve(self, image, *command, options=(), **more):
        return self.probe("serve", *options, image, self.path("mnt"), *command, **more)

    def facts(self, image, *options):
        import slipway_test
        result = self.serve(image, "python3", "-B", "-c", FACTS, self.path("mnt"),
                            os.path.dirname(slipway_test.__file__), options=options)
        return self.assert_succeeds(result).json()


class Served(SquashfsTest):
    def test_the_tree_is_the_one_that_unsquashfs_sees(self):
        for codec in "zstd", "gzip", "xz", "lz4":
            with self.subTest(codec):
                image = self.image(BASE, TOP, options=("--codec", codec, "--block", 65536))
                served = self.facts(image)
                out = self.path(f"unpacked-{codec}")
                unpacked = run([require_program("unsquashfs"), "-q", "-n", "-d", out, "-ignore-errors", image])
                self.assertIn(unpacked.status, (0, 2), f"\n{unpacked}")  # 2: an ordinary user makes no device nodes
                expected = tree_of(out)
                self.assertEqual(set(served) - set(expected), {"null"})
                expected["setuid"]["mode"] |= 0o4000  # nor set-user-id files
                for path, facts in expected.items():
                    self.assertEqual({k: served[path].get(k) for k in facts}, facts, path)

    def test_the_tree_is_what_the_layers_say(self):
        served = self.facts(self.image(BASE, TOP))
        self.assertNotIn("target", served)
        self.assertNotIn("usr/lib/gone", served)
        self.assertEqual([p for p in served if p.startswith("cleared/")], ["cleared/new"])
        self.assertEqual(served["usr/name"]["size"], 5000)
        self.assertEqual(served["usr/name"]["links"], 1)
        self.assertEqual(served["usr"]["links"], 3)
        self.assertEqual(served["usr/lib/new.so"]["size"], 100000 - 5)
        self.assertEqual(served["setuid"]["mode"], 0o4755)
        self.assertEqual(served["tmp"]["mode"], 0o1777)
        self.assertEqual(served["twin"]["seconds"], 1600000000)
        self.assertEqual(served["twin"]["digest"], served["usr/lib/a.so"]["digest"])
        self.assertEqual(served["null"]["device"], os.makedev(1, 3))
        self.assertEqual(served["attributes"]["xattrs"], {"user.note": "kept", "user.second": "too"})
        self.assertEqual(served["empty"]["xattrs"], {})
        self.assertEqual(served["absolute"]["target"], "/usr/lib/a.so")
        inodes = [f["inode"] for f in served.values()]
        self.assertEqual(len(set(inodes)), len(inodes))
        self.assertEqual({tuple(f["owner"]) for f in served.values()}, {(0, 0)})

    def test_hard_links_are_one_inode(self):
        served = self.facts(self.image([File("a", b"x"), Dir("d"), Hardlink("d/b", "a"), Hardlink("c", "d/b")]))
        self.assertEqual({served[p]["inode"] for p in ("a", "d/b", "c")}, {served["a"]["inode"]})
        self.assertEqual([served[p]["links"] for p in ("a", "d/b", "c")], [3, 3, 3])

    def test_owners_are_shown_as_asked(self):
        image = self.image([File("theirs", b"x", uid=1234, gid=77)])
        self.assertNotEqual(self.facts(image)["theirs"]["owner"], [0, 0])
        self.assertEqual(self.facts(image, "--show-uid", "0")["theirs"]["owner"], [0, 0])
        listing = run([require_program("unsquashfs"), "-lln", image]).stdout
        self.assertIn(" 1234/77 ", listing)

    def test_a_sparse_file_above_4_gib(self):
        with open(self.path("big"), "wb") as file:
            file.seek(5 << 30)
            file.write(b"the end")
        tar = run([require_program("tar"), "-S", "-cf", self.path("big.tar"), "-C", self.path(""), "big"])
        self.assert_succeeds(tar)
        image = self.path("image.sqfs")
        self.assert_succeeds(self.probe("write", image, self.path("big.tar")))
        self.assertLess(os.path.getsize(image), 1 << 20)
        script = """
import os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
print(os.fstat(fd).st_size, os.pread(fd, 100, 5 << 30), os.pread(fd, 9, (5 << 30) - 5), set(os.pread(fd, 70000, 3 << 30)))
"""
        result = self.assert_succeeds(self.serve(image, "python3", "-c", script, self.path("mnt/big")))
        self.assertEqual(result.stdout, f"{(5 << 30) + 7} b'the end' b'\\x00\\x00\\x00\\x00\\x00the ' {{0}}\n")

    def test_names_that_are_not_there_and_writes_are_refused(self):
        image = self.image(BASE)
        result = self.serve(image, "sh", "-c", "cd $0; ls many/f2999 many/f3000 many/e z; echo x > new; rm empty",
                            self.path("mnt"))
        self.assertIn("many/f2999\n", result.stdout)
        for text in "many/f3000", "many/e", "'z'":
            self.assertRegex(result.stderr, f"cannot access .*{text}.*No such file")
        self.assertRegex(result.stderr, "new: Read-only file system")
        self.assertRegex(result.stderr, "cannot remove 'empty': Read-only file system")

    def test_many_readers_at_once(self):
        image = self.image(BASE, options=("--block", 4096))
        command = "for i in 1 2 3 4 5 6 7 8; do tar -cf - --exclude ./null -C $0 . | sha256sum & done; wait"
        result = self.assert_succeeds(self.serve(image, "sh", "-c", command, self.path("mnt"), options=("--threads", 4)))
        sums = result.stdout.split("\n")[:-1]
        self.assertEqual(len(sums), 8)
        self.assertEqual(len(set(sums)), 1, result.stdout)


class Lifetime(SquashfsTest):
    def test_the_exit_status_is_the_commands_and_a_background_child_keeps_the_mount(self):
        image = self.image(BASE)
        start = time.monotonic()
        result = self.serve(image, "sh", "-c", "(exec >/dev/null 2>&1; sleep 1; cat $0/exact) & exit 3", self.path("mnt"))
        self.assert_status(result, 3)
        self.assertGreater(time.monotonic() - start, 0.9)

    def test_a_killed_command_ends_the_server(self):
        image = self.image(BASE)
        process = subprocess.Popen([program("squashfs_probe"), "serve", image, self.path("mnt"), "sh", "-c",
                                    "ls $0 >/dev/null; echo $$; exec sleep 60", self.path("mnt")],
                                   stdout=subprocess.PIPE, text=True)
        pid = int(process.stdout.readline())
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(process.wait(timeout=10), 137)
        process.stdout.close()

    def test_a_killed_server_is_an_error_inside_not_a_hang(self):
        image = self.image(BASE)
        process = subprocess.Popen([program("squashfs_probe"), "serve", image, self.path("mnt"), "sh", "-c",
                                    "echo ready; read line; ls $0/many; echo $?", self.path("mnt")],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.kill()
        process.wait(timeout=10)
        process.stdin.write("go\n")
        process.stdin.close()
        said = process.stdout.read()
        process.stdout.close()
        self.assertRegex(said, "(Transport endpoint is not connected|Software caused connection abort)\n2\n$")

    def test_killed_while_it_reads_ahead_it_leaves_nobody_stuck(self):
        """Storing a page waits for who reads it, and no signal ends that: the server alone, or all at once as Slurm does."""
        words = "".join(f"line {i} " for i in range(30000)).encode()
        image = self.image([Dir("data")] + [File(f"data/{i}", words[i:]) for i in range(250)])
        for alone in (True, False):
            for attempt in range(15):
                process = subprocess.Popen([program("squashfs_probe"), "serve", image, self.path("mnt"), "sh", "-c",
                                            "cat $0/data/* & cat $0/data/* & wait", self.path("mnt")],
                                           env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                time.sleep(random.uniform(0.03, 0.25))
                for pid in [process.pid] if alone else [*self.processes()]:
                    try:
                        os.kill(pid, signal.SIGKILL)
                    except ProcessLookupError:
                        pass
                deadline = time.monotonic() + 20
                while self.processes() and time.monotonic() < deadline:
                    process.poll()
                    time.sleep(0.01)
                self.assertEqual(self.processes(), {}, f"attempt {attempt}, the server alone: {alone}")
                process.wait(timeout=20)


class Damaged(SquashfsTest):
    WALK = "find $0 -ls >/dev/null 2>&1; find $0 -type f -size -100M -exec cat {} + >/dev/null 2>&1; echo walked"

    def walk(self, image):
        return self.serve(image, "sh", "-c", self.WALK, self.path("mnt"), timeout=60)

    def test_flipped_bytes_neither_hang_nor_crash_the_server(self):
        image = self.image(BASE[:40], [Dir("many")] + [File(f"many/x{i}", NOISE[i:i * 2]) for i in range(300)],
                           options=("--block", 4096))
        with open(image, "rb") as file:
            whole = file.read()
        rng, served = random.Random(5), 0
        for round in range(60):
            broken = bytearray(whole)
            for _ in range(1 + round % 5):
                # Tables are at the end; the superblock is the first 96 bytes.
                where = [(0, len(whole)), (len(whole) - 9000, len(whole)), (32, 96)][round % 3]
                broken[rng.randrange(*where)] = rng.randrange(256)
            path = self.write("broken.sqfs", bytes(broken))
            result = self.walk(path)
            if result.status == 0:
                self.assertEqual(result.stdout, "walked\n")
                served += 1
            else:
                self.assert_status(result, 125)
                self.assertRegex(result.stderr, "error: .*\n  try: .*", f"round {round}")
        self.assertGreater(served, 20)

    def test_a_cut_image_is_named_with_its_proper_size(self):
        image = self.image(BASE)
        size = os.path.getsize(image)
        os.truncate(image, size // 2)
        result = self.assert_fails(self.probe("check", image), "is cut off", "copy the image again; its size should be ")
        self.assert_fails(self.walk(image), "is cut off")
        self.assertRegex(result.stderr, f'"{image}" is cut off: it has {size // 2} bytes of [0-9]+\n')

    def test_an_image_cut_while_it_is_served_gives_input_output_errors(self):
        image = self.image(BASE)
        script = "stat $0/usr/lib/a.so >/dev/null && truncate -s 5000 $1 && cat $0/usr/lib/a.so >$2; echo $?"
        result = self.serve(image, "sh", "-c", script, self.path("mnt"), image, self.path("got"))
        self.assertEqual(result.stdout, "1\n")
        with open(self.path("got"), "rb") as got:  # noise lies in the image as it is: what is there still can be read
            data = got.read()
        self.assertTrue(len(data) < 5000 and NOISE.startswith(data), len(data))
        self.assertIn("Input/output error", result.stderr)
        self.assertIn("became shorter while it was read", result.stderr)

    def test_no_squashfs_at_all(self):
        self.assert_fails(self.probe("check", self.write("text", "hello")), "is no squashfs file", "slipway convert")


class Written(SquashfsTest):
    def test_the_summary_is_what_unsquashfs_reads(self):
        image = self.image(BASE, TOP, options=("--epoch", 1650000000))
        summary = run([require_program("unsquashfs"), "-s", "-UTC", image]).stdout
        self.assertIn("Found a valid SQUASHFS 4:0 superblock", summary)
        self.assertIn("Fri Apr 15 05:20:00 2022", summary)
        self.assertIn("compression-level 3", summary)
        check = self.assert_succeeds(self.probe("check", image))
        self.assertIn("config PATH=/usr/bin:/bin", check.stdout)
        config = run([require_program("unsquashfs"), "-cat", image, ".slipway/image.json"])
        self.assertEqual(json.loads(config.stdout)["config"]["Env"], ["PATH=/usr/bin:/bin"])

    def test_repacking_gives_the_same_tree(self):
        image = self.image(BASE, TOP)
        self.assert_succeeds(self.probe("repack", image, self.path("again.sqfs")))
        first, again = self.facts(image), self.facts(self.path("again.sqfs"))
        for tree in first, again:
            for facts in tree.values():
                del facts["inode"]
            for path in [p for p in tree if p.startswith(".slipway")]:
                del tree[path]
        self.assertEqual(first, again)

    def test_cached_packs_give_the_same_bytes(self):
        plain = self.image(BASE, TOP)
        options = ("--packs", self.path("packs"))
        for round in range(2):
            cached = self.image(BASE, TOP, options=options, name="cached.sqfs")
            with open(plain, "rb") as one, open(cached, "rb") as two:
                self.assertEqual(one.read(), two.read())
        self.assertEqual(len(os.listdir(self.path("packs"))), 2)

    def test_a_full_disk_leaves_nothing(self):
        layer = self.layers([File("big", NOISE * 4)])[0]
        script = "mount -t tmpfs -o size=1m none $0 && $1 write $0/o.sqfs $2; echo $?; ls -A $0"
        result = run([require_program("unshare"), "-rm", "sh", "-c", script, self.path("mnt"), program("squashfs_probe"),
                      layer])
        self.assertEqual(result.stdout, "125\n", f"\n{result}")
        self.assertIn("No space left on device", result.stderr)


if __name__ == "__main__":
    main()
