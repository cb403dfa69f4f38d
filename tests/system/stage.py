# --stage: image and packs copied to a local disk once per node, whole or not at all.
# Must not: stage into the machine's own /tmp.
import hashlib
import os
import re
import signal
import subprocess
import time

from slipway_test import SlipwayTest, main, program
from small_root import make_root, make_squashfs


class Stage(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))
        self.image = make_squashfs(self.root, self.path("image.sqfs"))
        self.disk = self.path("disk")
        os.mkdir(self.disk)
        self.staged = os.path.join(self.disk, f"slipway-stage-{os.getuid()}")

    def run_staged(self, *arguments, image=None, **more):
        return self.slipway("run", f"--stage={self.disk}", *arguments, image or self.image, "--", "cat", "/etc/image", **more)

    def copies(self):
        return sorted(name for name in os.listdir(self.staged) if not name.endswith((".lock", ".sha256")))

    def test_a_copy_is_made_checked_used_and_used_again(self):
        self.assertEqual(self.assert_succeeds(self.run_staged()).stdout, "small root\n")
        copy, = self.copies()
        self.assertRegex(copy, r"^[0-9a-f]{16}-image\.sqfs$")
        path = os.path.join(self.staged, copy)
        with open(path, "rb") as file, open(self.image, "rb") as source:
            self.assertEqual(file.read(), source.read())
        check = subprocess.run(["sha256sum", "-c", copy + ".sha256"], cwd=self.staged, stdout=subprocess.PIPE, text=True)
        self.assertEqual((check.returncode, check.stdout), (0, copy + ": OK\n"))
        self.assertEqual(os.stat(self.staged).st_mode & 0o777, 0o700)
        before = os.stat(path)
        plan = self.slipway("run", f"--stage={self.disk}", "--dry-run", self.image, "--", "true").json()
        self.assertEqual(plan["stages"], [{"source": self.image, "target": path, "size_bytes": before.st_size,
                                           "origin": "--stage"}])
        self.assertEqual(plan["mounts"][0]["source"], path)
        self.assert_succeeds(self.run_staged())
        self.assertEqual(os.stat(path), os.stat(path))
        self.assertEqual((os.stat(path).st_ino, os.stat(path).st_mtime), (before.st_ino, before.st_mtime))

    def test_the_image_is_read_from_the_copy(self):
        rank = subprocess.Popen([program(), "run", f"--stage={self.disk}", self.image, "--", "sh", "-c", "echo up; read line"],
                                env=self.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.assertEqual(rank.stdout.readline(), "up\n")
        opened = []
        for pid in self.processes("slipway-fuse"):
            for number in os.listdir(f"/proc/{pid}/fd"):
                opened.append(os.readlink(f"/proc/{pid}/fd/{number}"))
        self.assertIn(os.path.join(self.staged, self.copies()[0]), opened)
        self.assertNotIn(self.image, opened)
        rank.communicate("\n", timeout=30)

    def test_a_changed_image_is_copied_again_and_the_old_copy_goes(self):
        self.assert_succeeds(self.run_staged())
        first = self.copies()
        with open(os.path.join(self.root, "etc/image"), "w") as file:
            file.write("second state\n")
        os.unlink(self.image)
        make_squashfs(self.root, self.image)
        self.assertEqual(self.run_staged().stdout, "second state\n")
        self.assertEqual(len(self.copies()), 1)
        self.assertNotEqual(self.copies(), first)

    def test_packs_are_staged_and_directories_are_not(self):
        os.mkdir(self.path("set"))
        self.write("set/file", "of the set\n")
        pack = make_squashfs(self.path("set"), self.path("set.sqfs"))
        result = self.run_staged("--data", pack + ":/data")
        self.assert_succeeds(result)
        self.assertEqual([name[17:] for name in sorted(self.copies(), key=lambda name: name[17:])], ["image.sqfs", "set.sqfs"])
        result = self.run_staged(image=self.root)
        self.assertEqual(self.assert_succeeds(result).stdout, "small root\n")
        self.assertIn("is not staged, only files are", result.stderr)

    def test_ranks_that_come_at_once_copy_once(self):
        with open(self.image, "ab") as file:  # the squashfs ends before; what follows is copied all the same
            file.truncate(400 << 20)
        trace = [program(), "-v", "run", f"--stage={self.disk}", self.image, "--", "cat", "/etc/image"]
        ranks = [subprocess.Popen(trace, env=self.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                 for _ in range(32)]
        copied = 0
        for rank in ranks:
            out, error = rank.communicate(timeout=120)
            self.assertEqual((rank.returncode, out), (0, "small root\n"), error)
            copied += len(re.findall(r"staged \"", error))
        self.assertEqual(copied, 1)
        self.assertEqual(len(self.copies()), 1)

    def test_a_killed_copier_leaves_nothing_that_is_trusted(self):
        with open(self.image, "ab") as file:
            file.truncate(1 << 30)
        for _ in range(3):
            rank = subprocess.Popen([program(), "run", f"--stage={self.disk}", self.image, "--", "true"], env=self.env,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 20
            while time.monotonic() < deadline and not (os.path.isdir(self.staged) and
                                                       any(name.endswith(".part") for name in os.listdir(self.staged))):
                time.sleep(0.001)
            rank.send_signal(signal.SIGKILL)
            rank.wait(timeout=30)
            self.assertTrue(self.copies()[0].endswith(".part"))
        self.write("other", "")
        part = os.path.join(self.staged, "0123456789abcdef-other.sqfs.part")
        with open(part, "w") as file:
            file.write("of a process that was killed")
        os.truncate(self.image, (os.path.getsize(self.image) >> 30 << 30) + (64 << 20))
        self.assertEqual(self.assert_succeeds(self.run_staged()).stdout, "small root\n")
        copy, = self.copies()
        digest = hashlib.sha256()
        with open(self.image, "rb") as file:
            while block := file.read(1 << 24):
                digest.update(block)
        with open(os.path.join(self.staged, copy + ".sha256")) as file:
            self.assertIn(digest.hexdigest(), file.read())

    def test_a_stopped_copier_is_not_waited_for_by_those_who_need_another_file(self):
        with open(self.image, "ab") as file:
            file.truncate(1 << 30)
        rank = subprocess.Popen([program(), "run", f"--stage={self.disk}", self.image, "--", "true"], env=self.env,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not (os.path.isdir(self.staged) and any(name.endswith(".part") for name in os.listdir(self.staged))):
            time.sleep(0.001)
        rank.send_signal(signal.SIGSTOP)
        other = make_squashfs(self.root, self.path("other.sqfs"))
        self.assertEqual(self.assert_succeeds(self.run_staged(image=other)).stdout, "small root\n")
        self.assertTrue(any(name.endswith(".part") for name in self.copies()), "the copy of a living process stays")
        rank.send_signal(signal.SIGCONT)
        self.assertEqual(rank.wait(timeout=400), 0)

    def test_places_that_do_not_do(self):
        result = self.slipway("run", "--stage=" + self.path("absent"), self.image, "--", "true")
        self.assert_fails(result, "no local disk can take the files", "is not there", "requested by: --stage", "try:")
        with open(self.image, "ab") as file:
            file.truncate(15 << 40)  # 15 TiB with holes: no disk has room
        self.assert_fails(self.run_staged(), "no local disk can take the files", "free", "are needed", "--stage=DIR")
        os.mkdir(self.staged)
        os.chmod(self.staged, 0o777)
        self.assert_fails(self.run_staged(), "is not yours alone")

    def test_auto_copies_from_shared_file_systems_only(self):
        """An image inside a pack lies on FUSE, as on a parallel file system; one on a local disk stays where it is."""
        plan = self.slipway("run", "--stage", "--dry-run", self.image, "--", "true").json()
        self.assertEqual((plan["stages"], plan["mounts"][0]["source"]), ([], self.image))
        os.mkdir(self.path("shared"))
        os.rename(self.image, self.path("shared/image.sqfs"))
        pack = make_squashfs(self.path("shared"), self.path("shared.sqfs"))
        env = {"SLURM_TMPDIR": self.disk}
        result = self.slipway("run", "--data", pack + ":/mnt", "/", "--", program(), "run", "--stage", "/mnt/image.sqfs", "--",
                              "cat", "/etc/image", env=env)
        self.assertEqual(self.assert_succeeds(result).stdout, "small root\n")
        self.assertEqual(len(self.copies()), 1)
        result = self.slipway("run", "--data", pack + ":/mnt", "/", "--", program(), "run", "--stage", "--dry-run",
                              "/mnt/image.sqfs", "--", "true", env=env)
        self.assertEqual(result.json()["stages"][0]["origin"], "--stage, $SLURM_TMPDIR")
        result = self.slipway("run", "--data", pack + ":/mnt", "/", "--", program(), "run", "--stage=/mnt", "/mnt/image.sqfs",
                              "--", "true")
        self.assert_fails(result, "lies on FUSE, which other nodes share")


if __name__ == "__main__":
    main()
