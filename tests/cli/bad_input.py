# Bad input to the command line: one clear error with a remedy, status 125, nothing left behind.
# Must not: need the network or a base image of a distribution.
import os
import subprocess
import unittest

from slipway_test import SlipwayTest, main, program
from small_root import make_root, make_squashfs


class BadInput(SlipwayTest):
    def make_image(self):
        return make_squashfs(make_root(self.path("root")), self.path("image.sqfs"))

    def test_a_path_is_quoted_once(self):
        self.write("garbage.sqfs", os.urandom(5000))
        result = self.slipway("run", "garbage.sqfs", "--", "/bin/true")
        self.assert_fails(result, 'error: "garbage.sqfs" is no squashfs file', "try: ")

    def test_a_missing_image_has_a_remedy(self):
        for name in ("absent.sqfs", "./absent", "oci:absent", "docker-archive:absent"):
            self.assert_fails(self.slipway("run", name, "--", "true"), "there is no ", "  try: ")

    def test_an_unknown_subcommand_is_named(self):
        self.assert_fails(self.slipway("rn", "x"), 'there is no subcommand "rn"', "try: slipway --help")

    def test_a_file_is_not_bound_on_a_directory(self):
        image = self.make_image()
        self.assert_fails(self.slipway("run", "-b", "/etc/passwd:/etc", image, "--", "/bin/sh"),
                          "a file cannot be shown in place of a directory", "--bind, argument 1", "try: ")
        self.assert_fails(self.slipway("run", "-b", "/etc:/etc/image", image, "--", "/bin/sh"),
                          "a directory cannot be shown in place of a file")

    def test_any_standard_descriptor_may_be_closed(self):
        image = self.make_image()
        for closed in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
            words = [program(), "run", image, "--", "/bin/sh", "-c", "exit 7"]
            shell = " ".join(f"{fd}>&-" for fd in closed)
            done = subprocess.run(["sh", "-c", f'exec "$@" {shell}', "sh", *words], env=self.env, timeout=60,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 7, f"closed: {closed}")

    def test_messages_never_land_in_an_output_file(self):
        self.make_image()
        out = self.path("again.sqfs")
        done = subprocess.run(["sh", "-c", 'exec "$@" 0>&- 1>&- 2>&-', "sh", program(), "-v", "-v", "convert",
                               self.path("image.sqfs"), out], env=self.env, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assert_succeeds(self.slipway("run", out, "--", "/bin/sh", "-c", "exit 0"))
        with open(out, "rb") as file:
            self.assertNotIn(b"slipway:", file.read())

    def test_too_few_descriptors_have_a_remedy(self):
        image = self.make_image()
        done = subprocess.run(["sh", "-c", 'ulimit -n 12; exec "$@"', "sh", program(), "run", image, "--", "/bin/sh"],
                              env=self.env, timeout=60, text=True, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertIn("ulimit -n", done.stderr)


    def test_a_pipe_is_no_image_and_does_not_hold_us(self):
        os.mkfifo(self.path("pipe"))
        os.mkfifo(self.path("pipe.sqfs"))
        for name in ("./pipe", "pipe.sqfs", "docker-archive:pipe", "/dev/null"):
            for words in (("run", name, "--", "true"), ("inspect", name), ("convert", name, "out.sqfs")):
                self.assert_fails(self.slipway(*words, timeout=20), "is neither a file nor a directory", "try: ")

    def test_options_after_the_image_are_explained(self):
        result = self.slipway("run", self.make_image(), "-c", "x")
        self.assert_fails(result, 'cannot find the command "-c"', "try: put options before IMAGE", status=127)

    def test_the_last_of_two_counts(self):
        for options, out in ((("--cd", "/etc", "--cd", "/usr"), "/usr\n"), (("--session=none", "--session", "a", "-c", "/tmp"), "/tmp\n")):
            self.assertEqual(self.assert_succeeds(self.slipway("run", *options, "/", "--", "pwd")).stdout, out)

    def test_a_hint_names_the_whole_subcommand(self):
        self.assert_fails(self.slipway("instance", "start", "web"), "no image was named",
                          "try: slipway instance start NAME IMAGE -- COMMAND")
        self.assert_fails(self.slipway("instance", "start"), "try: slipway instance start --help")

    def test_a_deleted_working_directory(self):
        image = self.make_image()
        shell = f'mkdir {self.path("gone")}; cd {self.path("gone")}; rmdir {self.path("gone")}; exec "$@"'

        def run_there(*words):
            return subprocess.run(["sh", "-c", shell, "sh", program(), "run", *words], env=self.env, timeout=60,
                                  text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for words in ((image, "--", "sh", "-c", "exit 7"), ("/", "--", "sh", "-c", "exit 7")):
            done = run_there(*words)
            self.assertEqual(done.returncode, 7, done.stderr)
        done = run_there("image.sqfs", "--", "true")
        self.assertEqual(done.returncode, 125)
        done = run_there("./image.sqfs", "--", "true")
        self.assertIn("try: ", done.stderr)


class BadTraining(SlipwayTest):
    def test_numbers_have_a_range(self):
        for option, value in (("--lr", "nan"), ("--lr", "inf"), ("--lr", "-1"), ("--lr", "1x"), ("--momentum", "nan"),
                              ("--momentum", "1.5"), ("--weight-decay", "nan"), ("--threads", "100000"),
                              ("--threads", "-1")):
            with self.subTest(f"{option} {value}"):
                result = self.run_program("slipway-train", "--model", "lenet", "--data", "absent", option, value)
                self.assert_fails(result, option, value)
                self.assertNotIn("absent", result.stderr)


class BadBuild(SlipwayTest):
    def make_base(self):
        self.assert_succeeds(self.slipway("convert", make_root(self.path("root"), etc_files=False), "store:base:1"))
        return "base:1"

    def build(self, dockerfile, *options):
        self.write("context/Dockerfile", dockerfile)
        return self.slipway("build", *options, self.path("context"))

    def test_a_bad_name_is_refused_before_the_first_step(self):
        result = self.build(f"FROM {self.make_base()}\nRUN exit 9\n", "-t", "Bad Name")
        self.assert_fails(result, '"Bad Name" is no valid image name', "try: ")
        self.assertNotIn("STEP", result.stderr)

    def test_a_bad_output_is_refused_before_the_first_step(self):
        dockerfile = f"FROM {self.make_base()}\nRUN exit 9\n"
        for output in (self.path(""), self.path("absent/x.sqfs"), "/proc/x.sqfs"):
            result = self.build(dockerfile, "-o", output)
            self.assert_fails(result, "cannot write", "try: ")
            self.assertNotIn("STEP", result.stderr)

    def test_run_may_lock_its_own_files(self):
        """Modes that stop an ordinary user, but not root in a container, reach the image as they are."""
        result = self.build(f"FROM {self.make_base()}\n"
                            "RUN mkdir -p /a/b /w && echo deep > /a/b/c && echo secret > /shadow &&"
                            " chmod 000 /a/b/c /a/b /a /shadow && chmod 300 /w\n"
                            "RUN stat -c '%a %n' /a /a/b /a/b/c /shadow /w && cat /a/b/c /shadow\n",
                            "-t", "locked", "-o", self.path("locked.sqfs"))
        self.assert_succeeds(result)
        for line in ("0 /a\n", "0 /a/b\n", "0 /a/b/c\n", "0 /shadow\n", "300 /w\n", "deep\n", "secret\n"):
            self.assertIn(line, result.stdout + result.stderr)
        self.assert_succeeds(self.slipway("rmi", "locked"))
        self.assert_succeeds(self.slipway("gc"))


if __name__ == "__main__":
    main()
