# The squashfs server's reading ahead and what it adds, and images made to harm it, as an ordinary user.
# Must not: need privilege, or accept any outcome but the one that is named.
import hashlib
import os
import random
import struct
import zlib

from slipway_test import Dir, File, SlipwayTest, Symlink, main, make_tar, program, require_program, run

NOISE = random.Random(3).randbytes(3 << 20)
# What the server may hold at once: 64 MiB of metadata, 48 MiB of blocks, and itself with its threads.
MOST_KIB = 180 << 10

# Run inside the mount: threads that read one file in different ways at once; prints whether each saw what it should.
READERS = """
import hashlib, os, random, sys, threading
path, size, digest = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with open(sys.argv[4], "rb") as file:
    true = file.read()
assert hashlib.sha256(true).hexdigest() == digest
good = []
def check(fd, offset, count):
    return os.pread(fd, count, offset) == true[offset:offset + count]
def pages(seed):
    fd, rng = os.open(path, os.O_RDONLY), random.Random(seed)
    good.append(all(check(fd, rng.randrange(size), rng.choice([1, 4096, 5000, 70000])) for _ in range(400)))
def in_order(step):
    fd = os.open(path, os.O_RDONLY)
    good.append(all(check(fd, offset, step) for offset in range(0, size, step)))
def backwards():
    fd = os.open(path, os.O_RDONLY)
    good.append(all(check(fd, offset, 30000) for offset in range(size // 30000 * 30000, -1, -30000)))
jobs = [threading.Thread(target=pages, args=(seed,)) for seed in range(3)]
jobs += [threading.Thread(target=in_order, args=(step,)) for step in (4096, 100001)] + [threading.Thread(target=backwards)]
for job in jobs: job.start()
for job in jobs: job.join()
print(os.path.getsize(path), good)
"""

# Run inside the mount: a walk by one client, beside `hogs` busy loops on each processor; prints how many names there
# are, and how many of the server's threads run only when nothing else does.
WALK = """
import glob, os, subprocess, sys
hogs = [subprocess.Popen(["timeout", "90", "taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
        for cpu in os.sched_getaffinity(0) for _ in range(int(sys.argv[2]))]
try:
    os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])
    names = 0
    for directory, directories, files in os.walk(sys.argv[1]):
        names += len(directories) + len(files)
        for file in files:
            with open(os.path.join(directory, file), "rb") as stream:
                while stream.read(1 << 16): pass
finally:
    for hog in hogs: hog.terminate()  # which timeout passes on
idle = 0
for stat in glob.glob(f"/proc/{os.getppid()}/task/*/stat"):
    with open(stat) as file:
        idle += int(file.read().rpartition(")")[2].split()[38]) == os.SCHED_IDLE
print(names, idle)
"""


class ReadingTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("mnt"))

    def image(self, members, *options, name="image.sqfs"):
        layer = self.write("layer.tar", make_tar(members))
        self.assert_succeeds(self.run_program("squashfs_probe", "write", *options, self.path(name), layer))
        return self.path(name)

    def serve(self, image, *command, options=(), **more):
        return self.run_program("squashfs_probe", "serve", "--peak", self.path("peak"), *options, image,
                                self.path("mnt"), *command, **more)

    def script(self, image, text, *arguments, options=(), **more):
        """Run a shell script in the mount."""
        return self.serve(image, "sh", "-c", f"cd $0 && {text}", self.path("mnt"), *arguments, options=options, **more)

    def peak_kib(self):
        with open(self.path("peak"), encoding="utf-8") as file:
            return int(file.read())


class Stored(ReadingTest):
    """What is put into the kernel's page cache ahead of the requests is what the file holds."""

    def test_readers_of_all_kinds_see_the_same_bytes(self):
        data = NOISE[:1 << 20] + b"text " * 300000 + bytes(1 << 20) + NOISE[7:(1 << 20) + 12345]
        members = [File("f", data)] + [File(f"small{i}", NOISE[i:i + 50]) for i in range(40)]
        true = self.write("true", data)
        for block in 4096, 131072, 1048576:
            for threads in 1, 4:
                with self.subTest(block=block, threads=threads):
                    image = self.image(members, "--block", block)
                    result = self.serve(image, "python3", "-B", "-c", READERS, self.path("mnt/f"), len(data),
                                        hashlib.sha256(data).hexdigest(), true, options=("--threads", threads))
                    self.assert_succeeds(result)
                    self.assertEqual(result.stdout, f"{len(data)} {[True] * 6}\n")

    def test_small_files_that_share_a_block(self):
        contents = [NOISE[i * 7:i * 7 + i * 3 % 9000] for i in range(1500)]
        image = self.image([Dir("d")] + [File(f"d/{i:04}", data) for i, data in enumerate(contents)])
        for walk in "tar -cf - .", "find . -type f | tac | tar -cf - -T -":  # in order, and against it
            result = self.assert_succeeds(self.script(image, f"{walk} | tar -xf - -C $1 --exclude=.slipway",
                                                      self.path("")))
            self.assertEqual(result.stderr, "")
            for i, data in enumerate(contents):
                with open(self.path(f"d/{i:04}"), "rb") as file:
                    self.assertEqual(file.read(), data, i)

    def test_walks_with_and_without_attributes_tell_the_same(self):
        members = [Dir(f"d{i}") for i in range(80)] + [File(f"d{i}/f{j}", b"x" * j) for i in range(80) for j in range(9)]
        members += [Symlink(f"d{i}/link", f"f{i % 9}") for i in range(80)]
        image = self.image(members)
        names = self.assert_succeeds(self.script(image, "find . | sort | sha256sum; find . | wc -l")).stdout
        with_sizes = self.script(image, "find . -printf '%p %s %y %l\\n' > $1; cut -d' ' -f1 $1 | sort | sha256sum;"
                                 " wc -l < $1; ls -lR >/dev/null && du -s . >/dev/null", self.path("list"))
        self.assertEqual(self.assert_succeeds(with_sizes).stdout, names)
        with open(self.path("list"), encoding="utf-8") as file:
            told = dict(line.rstrip("\n").split(" ", 1) for line in file)
        for i in range(80):
            self.assertEqual(told[f"./d{i}/link"], f"2 l f{i % 9}")
            for j in range(9):
                self.assertEqual(told[f"./d{i}/f{j}"], f"{j} f ")

    def test_memory_stays_within_its_bound(self):
        members = [File(f"f{i}", NOISE[i:] + b"t" * (9 << 20)) for i in range(16)]
        image = self.image(members)
        self.assert_succeeds(self.script(image, "cat f* >/dev/null & tar -cf - . | cat >/dev/null; wait",
                                         options=("--threads", 4)))
        self.assertLess(self.peak_kib(), MOST_KIB)


class Turns(ReadingTest):
    """One client is answered by a thread that runs where it does, after everything else that runs there."""

    def setUp(self):
        super().setUp()
        # So many that a walk without help takes minutes.
        files = [File(f"d{i}/f", b"text " * 100000 + bytes([i])) for i in range(40)]
        self.tree = self.image([Dir(f"d{i}") for i in range(6000)] + files)
        self.names = 6040

    def walk(self, hogs):
        return self.assert_succeeds(self.serve(self.tree, "python3", "-B", "-c", WALK, self.path("mnt"), hogs,
                                               timeout=60)).stdout.split()

    def test_alone(self):
        names, idle = self.walk(0)
        self.assertGreaterEqual(int(names), self.names)
        self.assertEqual(idle, "1", "what reads ahead is not one of them")

    def test_it_is_helped_where_others_keep_its_processor(self):
        for hogs in 1, 3:
            names, _ = self.walk(hogs)
            self.assertGreaterEqual(int(names), self.names)


class MountPoints(ReadingTest):
    OPTIONS = ("--shown-file", "/etc/hosts", "--shown-directory", "/data", "--shown-file", "/etc/present",
               "--shown-file", "/link/through", "--shown-file", "/no/parent", "--shown-file", "/etc/present/below")

    def test_they_are_shown_where_the_image_has_nothing(self):
        image = self.image([Dir("etc"), File("etc/present", b"here"), Dir("real"), Symlink("link", "/real")])
        result = self.script(image, "stat -c '%n %F %s %a' etc/hosts data etc/present real/through; ls data etc real;"
                             " cat etc/hosts etc/present; stat no", options=self.OPTIONS)
        self.assertEqual(result.stdout, "etc/hosts regular empty file 0 644\ndata directory 0 755\n"
                         "etc/present regular file 4 644\nreal/through regular empty file 0 644\n"
                         "data:\n\netc:\nhosts\npresent\n\nreal:\nthrough\nhere")
        self.assertIn("'no': No such file or directory", result.stderr)
        self.assertNotIn("through", self.script(image, "ls real").stdout)

    def test_a_long_listing_has_each_name_once(self):
        names = [f"{i:04}" + "n" * 60 for i in range(2000)]
        image = self.image([Dir("etc")] + [File(f"etc/{name}") for name in names])
        for options in self.OPTIONS, ():
            shown = ["hosts", "present"] if options else []
            result = self.assert_succeeds(self.script(image, "ls -U etc; ls -lU etc | wc -l", options=options))
            *listed, count = result.stdout.split()
            self.assertEqual(sorted(listed), sorted(names + shown))
            self.assertEqual(int(count), len(listed) + 1)

    def test_inode_numbers_differ(self):
        image = self.image([Dir("etc"), File("etc/a"), File("b")])
        result = self.assert_succeeds(self.script(image, "find . -printf '%i\\n'", options=self.OPTIONS))
        numbers = result.stdout.split()
        self.assertEqual(len(set(numbers)), len(numbers))


class Hostile(ReadingTest):
    """Tables of an image that mksquashfs left uncompressed, changed on purpose. What is not touched stays readable."""

    def setUp(self):
        super().setUp()
        for directory in "tree/a/within", "tree/other":
            os.makedirs(self.path(directory))
        for name, size in (("a/victim", 200003), ("a/tiny", 1237), ("other/sound", 5000), ("block", 131072)):
            self.write(f"tree/{name}", NOISE[:size])
        made = run([require_program("mksquashfs"), self.path("tree"), self.path("image.sqfs"), "-comp", "gzip", "-noI",
                    "-noX", "-noF", "-all-root", "-quiet", "-no-progress", "-mkfs-time", "0"])
        self.assert_succeeds(made)
        with open(self.path("image.sqfs"), "rb") as file:
            self.bytes = bytearray(file.read())
        self.root, = struct.unpack_from("<Q", self.bytes, 32)
        self.inodes, self.directories = struct.unpack_from("<QQ", self.bytes, 64)

    def inode_of_size(self, size):
        """Where the size stands in a file's inode; before it start, fragment and offset, then the sizes of blocks."""
        return self.bytes.index(struct.pack("<I", size), self.inodes)

    def entry(self, name):
        """Where a name's entry stands in its listing: the inode's offset, number, type and the name's length."""
        at = self.bytes.index(name, self.directories) - 8
        self.assertEqual(struct.unpack_from("<H", self.bytes, at + 6)[0], len(name) - 1)
        return at

    def walk(self):
        """Everything once; the untouched file is right, memory bounded. Returns what was said."""
        image = self.write("hostile.sqfs", bytes(self.bytes))
        result = self.script(image, "cmp other/sound $1 && echo sound; find . -ls; cat a/tiny a/victim block >/dev/null;"
                             " tar -cf - --exclude=tiny . | cat >/dev/null",
                             self.path("tree/other/sound"), timeout=60)
        self.assertTrue(result.stdout.startswith("sound\n"), f"\n{result}")
        self.assertLess(self.peak_kib(), MOST_KIB)
        return result

    def test_untouched_it_is_read(self):
        self.assertEqual(self.walk().stderr, "")

    def test_a_directory_that_holds_itself_or_the_root(self):
        above = self.bytes.index(b"within", self.directories) - 8
        for target in self.root & 0xffff, struct.unpack_from("<H", self.bytes, self.entry(b"a"))[0]:
            struct.pack_into("<H", self.bytes, above, target)
            self.assertRegex(self.walk().stderr, "within.*(Input/output error|Too many levels|loop|File exists)")

    def test_a_file_that_leads_past_the_end(self):
        size = self.inode_of_size(200003)
        struct.pack_into("<I", self.bytes, size - 12, 0xfffffff0)
        self.assertRegex(self.walk().stderr, "a/victim: Input/output error")

    def test_a_file_in_a_fragment_that_is_not_there(self):
        size = self.inode_of_size(1237)
        for fragment, offset in ((5000, 0), (0, 0xfffffff0), (0, 131000)):
            struct.pack_into("<II", self.bytes, size - 8, fragment, offset)
            self.assertRegex(self.walk().stderr, "a/tiny: Input/output error")

    def test_a_size_that_is_not_there(self):
        size = self.inode_of_size(1237)
        struct.pack_into("<I", self.bytes, size, 0xffffffff)
        self.assertRegex(self.walk().stderr, "a/tiny: Input/output error")

    def test_a_block_that_unpacks_without_end(self):
        bomb = zlib.compress(bytes(100 << 20), 9)
        self.assertLess(len(bomb), 131072)
        inode = self.bytes.index(struct.pack("<II", 131072, 1 << 24 | 131072), self.inodes)
        start, = struct.unpack_from("<I", self.bytes, inode - 12)
        self.bytes[start:start + len(bomb)] = bomb
        struct.pack_into("<I", self.bytes, inode + 4, len(bomb))
        self.assertRegex(self.walk().stderr, "block: Input/output error")

    def test_a_table_that_unpacks_without_end(self):
        bomb = zlib.compress(bytes(4 << 20), 9)
        self.assertLess(len(bomb), 8192)
        data = bytes(self.bytes)
        broken = data[:self.inodes] + struct.pack("<H", len(bomb)) + bomb + data[self.inodes:]
        shift = len(bomb) + 2
        for at in 40, 48, 72, 80, 88:  # all tables but the inodes' now stand further back
            place, = struct.unpack_from("<Q", data, at)
            broken = broken[:at] + struct.pack("<Q", place + shift if place < 1 << 60 else place) + broken[at + 8:]
        result = self.script(self.write("bomb.sqfs", broken), "ls; echo $?", timeout=60)
        self.assert_status(result, 125)
        self.assertIn("bad metadata block", result.stderr)


# $1 squashfs_probe, $2 mount point, $3 and $4 directories: the disk that stops is a bindfs of one on the other.
STOPPED_DISK = """
bindfs "$3" "$4" -f & disk=$!; trap "kill -CONT $disk; kill $disk; wait" EXIT
until [ -e "$4/image.sqfs" ]; do sleep 0.02; done
"$1" serve "$4/image.sqfs" "$2" sh -c '
    ls -l "$0/d" >/dev/null
    kill -STOP $1
    cat "$0/big" >/dev/null & reader=$!
    sleep 0.3
    timeout -s KILL 20 ls "$0/d/absent1" "$0/d/absent2" "$0/d/absent3" 2>/dev/null
    [ $? = 2 ] && kill -0 $reader && echo answered
    kill -CONT $1
    wait $reader && echo read' "$2" $disk
"""


class StoppedDisk(ReadingTest):
    def test_who_waits_for_the_disk_keeps_nobody_waiting(self):
        require_program("bindfs")
        os.mkdir(self.path("lower"))
        os.mkdir(self.path("disk"))
        self.image([Dir("d"), *(File(f"d/f{i}", b"") for i in range(50)), File("big", NOISE)], name="lower/image.sqfs")
        result = run(["unshare", "-Urm", "sh", "-c", STOPPED_DISK, "sh", program("squashfs_probe"), self.path("mnt"),
                      self.path("lower"), self.path("disk")])
        self.assertEqual(result.stdout, "answered\nread\n", result.stderr)


if __name__ == "__main__":
    main()
