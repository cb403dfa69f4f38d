"""One squashfs, SIF or directory that Slipway wrote, run by Slipway, by ch-run and by Apptainer: environment, runscript, labels.

Must not: take Slipway's word for what the others do.
"""
import json
import os

from sid_root import sid_program
from slipway_test import SlipwayTest, main, require_program, run
from small_root import make_root

ENV = ["PATH=/opt/none:/usr/bin:/bin", "PLAIN=1.2.3", "SPACES=a  b c", "QUOTES=say \"it\" and 'that'", "SHELL_CODE=$(id) `id` \\n",
       "EMPTY=", "LIST=/a:/b:", "APOSTROPHES='both'"]
CONFIG = {"Env": ENV, "Entrypoint": ["sh", "-c", 'echo "entry: $0 $*"'], "Cmd": ["one word", "it's"], "Labels": {"org.lab": "x \"y\""}}
ADDED = [".singularity.d/env/10-docker2singularity.sh", ".singularity.d/env/99-base.sh", ".singularity.d/labels.json", ".singularity.d/runscript", ".slipway/image.json",
         "ch/environment", "singularity"]


class Peers(SlipwayTest):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.apptainer = sid_program("apptainer", "apptainer", "charliecloud", "squashfuse")

    def make_image(self, destination, config=CONFIG, before=lambda root: None):
        root = make_root(self.path("root"))
        before(root)
        os.makedirs(os.path.join(root, ".slipway"))
        with open(os.path.join(root, ".slipway/image.json"), "w") as file:
            json.dump({"architecture": "amd64", "os": "linux", "config": config}, file)
        self.assert_succeeds(self.slipway("convert", "root", destination))
        return self.path(destination)

    def lines(self, result):
        return self.assert_succeeds(result).stdout.splitlines()

    def run_apptainer(self, *words, env=None):
        environment = dict(self.env, **(env or {}))
        return run([self.apptainer, *words], env=environment, timeout=60)

    def of_image(self, lines):
        """The image's variables among the lines of env."""
        wanted = tuple(line.split("=")[0] + "=" for line in ENV)
        return sorted(line for line in lines if line.startswith(wanted))

    def test_ch_run_reads_the_environment(self):
        for destination in ("image.sqfs", "directory"):
            image = self.make_image(destination)
            expected = sorted(line for line in ENV if not line.startswith(("PATH=", "SHELL_CODE=")))
            for ch_run in (require_program("ch-run"), os.path.join(os.path.dirname(self.apptainer), "ch-run")):
                with self.subTest(destination, ch_run=ch_run):
                    mount = ["-m", self.path("mnt")] if destination.endswith(".sqfs") else []
                    os.makedirs(self.path("mnt"), exist_ok=True)
                    lines = self.lines(run([ch_run, *mount, "--set-env", image, "--", "/usr/bin/env"], env=self.env))
                    # A value that begins with "$", or an item of a list, would be replaced: it is not written.
                    self.assertEqual([line for line in self.of_image(lines) if not line.startswith("PATH=")], expected)
                    self.assertIn("PATH=/opt/none:/usr/bin:/bin", lines)
            os.rename(self.path("root"), self.path("root-" + destination))

    def test_apptainer_runs_it(self):
        for destination in ("image.sif", "image.sqfs", "directory"):
            with self.subTest(destination):
                image = self.make_image(destination)
                lines = self.lines(self.run_apptainer("exec", "--userns", "--cleanenv", image, "/usr/bin/env"))
                self.assertEqual([line for line in self.of_image(lines) if not line.startswith("PATH=")],
                                 sorted(line for line in ENV if not line.startswith("PATH=")))
                path = next(line for line in lines if line.startswith("PATH="))
                self.assertTrue(path.startswith("PATH=/opt/none:/usr/bin:/bin"), path)
                for words in ([], ["other", "two  words"]):
                    theirs = self.lines(self.run_apptainer("run", "--userns", "--cleanenv", image, *words))
                    ours = self.lines(self.slipway("run", image, *(["--", *words] if words else [])))
                    self.assertEqual(theirs, ours)
                os.rename(self.path("root"), self.path("root-" + destination))

    def test_a_variable_of_the_user_wins_under_apptainer(self):
        image = self.make_image("image.sif")
        lines = self.lines(self.run_apptainer("exec", "--userns", "--env", "PLAIN=mine", image, "/usr/bin/env"))
        self.assertIn("PLAIN=mine", lines)

    def test_apptainer_lists_what_we_wrote(self):
        image = self.make_image("image.sif")
        listed = self.assert_succeeds(self.run_apptainer("sif", "list", image)).stdout
        self.assertIn("FS (Squashfs/*System/amd64)", listed)
        self.assertIn("JSON.Generic", listed)
        header = self.assert_succeeds(self.run_apptainer("sif", "header", image)).stdout
        self.assertIn("amd64", header)
        dumped = json.loads(self.assert_succeeds(self.run_apptainer("sif", "dump", "1", image)).stdout)
        self.assertEqual(dumped["config"], CONFIG)
        labels = json.loads(self.assert_succeeds(self.run_apptainer("sif", "dump", "2", image)).stdout)
        self.assertEqual(labels, CONFIG["Labels"])

    def test_what_the_image_has_itself_stays(self):
        def theirs(root):
            for name, text in ((".singularity.d/runscript", "#!/bin/sh\necho theirs\n"), ("ch/environment", "FROM=them\n"),
                               ("singularity", "a file\n")):
                os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
                with open(os.path.join(root, name), "w") as file:
                    file.write(text)
        image = self.make_image("image.sqfs", before=theirs)
        self.assert_succeeds(self.slipway("convert", image, "out"))
        for name, text in ((".singularity.d/runscript", "#!/bin/sh\necho theirs\n"), ("ch/environment", "FROM=them\n"),
                           ("singularity", "a file\n")):
            with open(self.path("out/" + name)) as file:
                self.assertEqual(file.read(), text)
        self.assertEqual(os.listdir(self.path("out/.singularity.d")), ["runscript"])

    def test_the_documented_place(self):
        image = self.make_image("image.sqfs")
        self.assert_succeeds(run([require_program("unsquashfs"), "-q", "-n", "-d", self.path("out"), image], env=self.env))
        with open(self.path("out/.slipway/image.json")) as file:
            document = json.load(file)
        self.assertEqual(document["config"], CONFIG)
        version = self.assert_succeeds(self.slipway("--version")).stdout.split()[-1]
        self.assertEqual(document["slipway"]["version"], version)
        files = [item["path"] for item in document["slipway"]["files"] if "digest" in item]
        self.assertEqual(sorted(files + [".slipway/image.json"]), ADDED)
        for name in ADDED:
            self.assertTrue(os.path.lexists(self.path("out/" + name)), name)
        self.assertEqual(os.readlink(self.path("out/singularity")), ".singularity.d/runscript")

    def test_the_source_is_noted(self):
        layout = self.make_oci_layout([[]], config=CONFIG)
        manifest = self.assert_succeeds(self.slipway("inspect", "--json", f"oci:{layout}")).json()
        self.assert_succeeds(self.slipway("convert", f"oci:{layout}", "dir"))
        with open(self.path("dir/.slipway/image.json")) as file:
            document = json.load(file)
        self.assertEqual(document["slipway"]["source"], manifest["manifest_digest"])
        self.assertEqual(document["rootfs"]["diff_ids"], [layer["diff_id"] for layer in manifest["layers"]])

    def test_a_file_that_was_changed_is_the_images_own(self):
        self.make_image("dir")
        with open(self.path("dir/.singularity.d/runscript"), "a") as file:
            file.write("# changed\n")
        self.assert_succeeds(self.slipway("convert", "dir", "changed.sqfs"))
        self.assert_succeeds(self.slipway("convert", "changed.sqfs", "out"))
        with open(self.path("out/.singularity.d/runscript")) as file:
            self.assertTrue(file.read().endswith("# changed\n"))


if __name__ == "__main__":
    main()
