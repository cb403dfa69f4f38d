# The two executables: what the static starter does itself, when it becomes the full program, and what it is alone.
# Must not: run as root.
import os
import platform
import shutil
import subprocess

from slipway_test import SlipwayTest, build_directory, main, program, run
from small_root import make_root, make_squashfs

# glibc's loader tells on stderr what it loads; a static program has none. Slipway takes LD_* from commands.
LOADER_TALKS = {"LD_DEBUG": "files"}
UNNAMED = ["unshare", "--user", "--map-user=4242", "--map-group=4243"]


class StarterTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))

    def talking(self, *words):
        """Run a command with a loader that talks."""
        return self.assert_succeeds(run(words, env={**self.env, **LOADER_TALKS}))

    def started(self, *words):
        return run(words, env=self.env)

    def is_full(self, result):
        return "calling init:" in result.stderr

    def alone(self):
        """The starter as somebody copies it: without what lies beside it."""
        os.makedirs(self.path("elsewhere/bin"))
        return shutil.copy(program(), self.path("elsewhere/bin/slipway"))

    def test_ordinary_runs_load_nothing(self):
        for image in self.root, make_squashfs(self.root, self.path("zstd.sqfs")):
            for words in ["run"], ["-q", "run", "--env", "A=1", "--bind=/etc/hosts:/mnt/hosts", "-t", "--session", "none"]:
                result = self.talking(program(), *words, image, "--", "true")
                self.assertFalse(self.is_full(result), result)

    def test_unusual_command_lines_are_read_by_the_full_program(self):
        for words in ["run", "--dry-run"], ["run", "-b/etc/hosts:/mnt/hosts"], ["shell"], ["-vv", "run"]:
            result = self.talking(program(), *words, self.root, *(["-c"] if words == ["shell"] else ["--"]), "true")
            self.assertTrue(self.is_full(result), result)

    def test_its_start_asks_the_processor_nothing(self):
        if not os.path.exists(os.path.join(build_directory(), "libexec/slipway/slipway-full")):
            self.skipTest("this build has no starter")
        if os.confstr("CS_GNU_LIBC_VERSION") != "glibc 2.36" or platform.machine() != "x86_64":
            self.skipTest("another C library starts as it does")
        for function in "__libc_start_main", "lzma_crc64":
            code = subprocess.run(["objdump", "--disassemble=" + function, program()], capture_output=True, text=True,
                                  check=True).stdout
            self.assertIn(f"<{function}>:", code)
            self.assertNotIn("cpuid", code)

    def test_other_subcommands_are_the_full_program(self):
        for words in ("--version",), ("--help",), ("images", "--storage", self.path("store")), ("-q", "inspect", self.root):
            result = self.talking(program(), *words)
            self.assertTrue(self.is_full(result), result)

    def test_names_that_no_file_tells_are_asked_for(self):
        words = [program(), "run", self.root, "--", "true"]
        self.assertFalse(self.is_full(self.talking(*words)))
        result = self.talking(*UNNAMED, *words)
        self.assertEqual(result.stderr.count("transferring control:"), 2, result)  # unshare(1) and the full program

    def test_gzip_images_need_the_full_program(self):
        image = make_squashfs(self.root, self.path("gzip.sqfs"), "gzip")
        result = self.slipway("run", image, "--", "sh", "-c", 'echo "$0 $*"', "a b", "", "c")
        self.assert_succeeds(result)
        self.assertEqual(result.stdout, "a b  c\n")  # the words came through both programs
        self.assertTrue(self.is_full(self.talking(program(), "run", image, "--", "true")))

    def test_gzip_packs_need_the_full_program_before_anything_has_begun(self):
        image = make_squashfs(self.root, self.path("zstd.sqfs"))
        pack = make_squashfs(self.root, self.path("pack.sqfs"), "gzip")
        self.assertTrue(self.is_full(self.talking(program(), "run", "--data", f"{pack}:/opt", image, "--", "true")))
        result = self.slipway("run", "--data", f"{pack}:/opt", image, "--", "cat", "/opt/etc/image")
        self.assertEqual((result.status, result.stdout, result.stderr), (0, "small root\n", ""))

    def test_standard_input_and_closed_descriptors_pass(self):
        image = make_squashfs(self.root, self.path("gzip.sqfs"), "gzip")
        result = self.slipway("run", image, "--", "cat", input="through both\n")
        self.assertEqual(result.stdout, "through both\n")
        read, write = os.pipe()
        os.set_inheritable(write, True)
        command = [program(), "run", image, "--", "sh", "-c", f"echo kept >&{write}"]
        subprocess.run(command, pass_fds=[write], check=True, timeout=60, env=self.env)
        os.close(write)
        with os.fdopen(read) as pipe:
            self.assertEqual(pipe.read(), "kept\n")

    def test_alone_it_starts_containers(self):
        starter = self.alone()
        self.assertEqual(self.started(starter, "run", self.root, "--", "echo", "here").stdout, "here\n")
        result = self.started(*UNNAMED, starter, "run", self.root, "--", "id", "-u")
        self.assertEqual((result.status, result.stdout), (0, "4242\n"), result)
        self.assertIn("name services are not asked", result.stderr)

    def test_alone_it_says_what_is_missing(self):
        starter = self.alone()
        gzip = make_squashfs(self.root, self.path("gzip.sqfs"), "gzip")
        for words in ("images",), ("run", gzip, "--", "true"), ("--help",):
            result = self.started(starter, *words)
            self.assertEqual(result.status, 125, result)
            self.assertIn(f'there is no "{self.path("elsewhere/libexec/slipway/slipway-full")}"', result.stderr)
            self.assertIn("copy Slipway with its whole prefix", result.stderr)

    def test_a_moved_prefix_works(self):
        prefix = self.path("moved")
        for part in "bin/slipway", "libexec/slipway/slipway-full":
            os.makedirs(os.path.dirname(os.path.join(prefix, part)))
            shutil.copy(os.path.join(build_directory(), part), os.path.join(prefix, part))
        os.symlink("moved/bin/slipway", self.path("link"))
        self.assert_succeeds(self.started(self.path("link"), "--version"))


if __name__ == "__main__":
    main()
