"""SIF files: run, inspect and convert, on files written by the documented layout around an mksquashfs image; damaged ones.

Must not: use Slipway to make what it reads.
"""
import os

from sif_file import (DEFINITION, ENCRYPTED_SQUASHFS, EXT3, GOCRYPTFS, OVERLAY, SYSTEM, TABLE_AT, descriptor, partition, write_sif)
from slipway_test import SlipwayTest, host_architecture, main, program, run, tree_of
from small_root import make_root, make_squashfs

HERE = host_architecture()
RUNSCRIPT = '#!/bin/sh\necho "runscript: $*"\nexec env\n'
DOCKER_ENVIRONMENT = """#!/bin/sh
export PATH="/usr/local/bin:/usr/bin:/bin"
export GREETING="${GREETING:-"good \\"day\\""}"
export PLAIN=1.2.3
"""
OWN_ENVIRONMENT = """# set by %environment
export QUOTED='a $b c'
if [ -n "$CONDITIONAL" ]; then
    export CONDITIONAL=wrong
fi
export COMPUTED=$(date)
export LATER=yes
"""


def a_partition(**of_it):
    return lambda number, offset, size: partition(number, offset, size, **{"architecture": HERE, **of_it})


def a_definition(number, offset, size):
    return descriptor(DEFINITION, number, offset, size)


class SifFiles(SlipwayTest):
    maxDiff = None

    def make_image(self, environment=True):
        """A squashfs of a small root as Apptainer would keep it; returns its bytes."""
        root = make_root(self.path("root"))
        os.makedirs(os.path.join(root, ".singularity.d/env"))
        files = {"runscript": RUNSCRIPT, "labels.json": '{"org.label-schema.build-arch": "amd64", "maintainer": "the lab"}'}
        if environment:
            files.update({"env/10-docker2singularity.sh": DOCKER_ENVIRONMENT, "env/90-environment.sh": OWN_ENVIRONMENT,
                          "env/99-base.sh": 'if [ -z "${X}" ]; then\n    export LD_LIBRARY_PATH=/nowhere\nfi\n'})
        for name, text in files.items():
            path = os.path.join(root, ".singularity.d", name)
            with open(path, "w") as file:
                file.write(text)
            os.chmod(path, 0o755)
        with open(make_squashfs(root, self.path("root.sqfs")), "rb") as file:
            return file.read()

    def make_sif(self, name="image.sif", data=None, before=b"Bootstrap: docker\nFrom: nowhere\n", **of_it):
        data = self.make_image() if data is None else data
        write_sif(self.path(name), [(a_definition, before), (a_partition(**of_it), data)], architecture=HERE)
        return self.path(name)


class Sif(SifFiles):
    def test_run(self):
        sif = self.make_sif()
        result = self.assert_succeeds(self.slipway("run", sif, "--", "cat", "/etc/image"))
        self.assertEqual(result.stdout, "small root\n")
        result = self.assert_succeeds(self.slipway("run", sif, "--", "sh", "-c", "cat /usr/share/words-* | sha256sum"))
        with_files = self.slipway("run", self.path("root"), "--", "sh", "-c", "cat /usr/share/words-* | sha256sum")
        self.assertEqual(result.stdout, with_files.stdout)

    def test_what_apptainer_keeps_becomes_the_configuration(self):
        sif = self.make_sif()
        result = self.assert_succeeds(self.slipway("run", sif))
        lines = result.stdout.splitlines()
        self.assertEqual(lines[0], "runscript: ")
        self.assertTrue({'GREETING=good "day"', "PLAIN=1.2.3", "QUOTED=a $b c", "LATER=yes",
                         "PATH=/usr/local/bin:/usr/bin:/bin"} <= set(lines), result)
        self.assertNotIn("CONDITIONAL", result.stdout)
        self.assertNotIn("LD_LIBRARY_PATH", result.stdout)
        self.assertIn("90-environment.sh", result.stderr)
        self.assertIn("what 4 lines of it would set is missing", result.stderr)

        facts = self.assert_succeeds(self.slipway("inspect", "--json", sif)).json()
        self.assertEqual(facts["kind"], "SIF")
        self.assertEqual(facts["config"]["architecture"], HERE)
        self.assertEqual(facts["config"]["config"]["Labels"]["maintainer"], "the lab")
        self.assertEqual(facts["config"]["config"]["Cmd"], ["/.singularity.d/runscript"])
        self.assertEqual(facts["offset_bytes"] % 4096, 0)

    def test_users_are_looked_up_where_the_squashfs_lies(self):
        self.assert_fails(self.slipway("run", "--user", "nobody-here", self.make_sif(), "--", "true"),
                          'the image has no user "nobody-here"')

    def test_dry_run_shows_the_offset(self):
        plan = self.assert_succeeds(self.slipway("run", "--dry-run", self.make_sif(), "--", "true")).json()
        self.assertEqual(plan["mounts"][0]["image_offset_bytes"], 32768 + 4096)

    def test_convert(self):
        sif = self.make_sif()
        for destination in ("out.sqfs", "oci:layout", "dir"):
            self.assert_succeeds(self.slipway("convert", sif, destination))
        tree = {path: facts for path, facts in tree_of(self.path("dir")).items() if path.split("/")[0] not in (".slipway", "ch")}
        self.assertEqual(tree, tree_of(self.path("root")))
        for image in ("out.sqfs", "oci:layout", "dir"):
            with self.subTest(image):
                result = self.assert_succeeds(self.slipway("run", image))
                self.assertIn("PLAIN=1.2.3\n", result.stdout)

    def test_our_own_configuration_wins(self):
        root = make_root(self.path("root"))
        os.makedirs(os.path.join(root, ".singularity.d"))
        for name, text in ((".slipway/image.json", '{"architecture":"%s","os":"linux","config":{"Cmd":["echo","ours"]}}' % HERE),
                           (".singularity.d/runscript", RUNSCRIPT)):
            os.makedirs(os.path.dirname(os.path.join(root, name)), exist_ok=True)
            with open(os.path.join(root, name), "w") as file:
                file.write(text)
        with open(make_squashfs(root, self.path("root.sqfs")), "rb") as file:
            sif = self.make_sif(data=file.read())
        self.assertEqual(self.assert_succeeds(self.slipway("run", sif)).stdout, "ours\n")

    def test_other_partitions_do_not_matter(self):
        data = self.make_image(environment=False)
        write_sif(self.path("x.sif"), [(a_partition(role=SYSTEM), b"other" * 100), (a_partition(), data),
                                       (a_partition(file_system=EXT3, role=OVERLAY), b"overlay" * 1000)], architecture=HERE)
        result = self.assert_succeeds(self.slipway("run", "x.sif", "--", "cat", "/etc/image"))
        self.assertEqual(result.stdout, "small root\n")
        self.assertIn("overlay partition", result.stderr)

    def test_many_ranks_share_one_server(self):
        sif = self.make_sif()
        script = f'for i in 1 2 3 4 5 6 7 8; do "$0" run --session=s "$1" -- cat /etc/image & done; wait'
        result = run(["sh", "-c", script, program(), sif], env=self.env)
        self.assertEqual(result.stdout, "small root\n" * 8, result)


class Refused(SifFiles):
    """What cannot be run is refused by run, inspect and convert alike, with the reason."""

    def refused(self, *texts):
        self.assert_fails(self.slipway("run", "x.sif", "--", "true"), *texts)
        self.assert_fails(self.slipway("inspect", "x.sif"), *texts)
        self.assert_fails(self.slipway("convert", "x.sif", "out"), *texts)
        self.assertFalse(os.path.exists(self.path("out")))

    def one_partition(self, **of_it):
        self.make_sif("x.sif", data=b"\0" * 8192, **of_it)

    def change(self, at, data):
        with open(self.path("x.sif"), "r+b") as file:
            file.seek(at)
            file.write(data)

    def test_encrypted(self):
        self.one_partition(file_system=ENCRYPTED_SQUASHFS)
        self.refused("is encrypted (LUKS)", "holds no keys")
        self.one_partition(file_system=GOCRYPTFS)
        self.refused("is encrypted (gocryptfs)")

    def test_not_squashfs(self):
        self.one_partition(file_system=EXT3)
        self.refused("is ext3, not squashfs", "try: ")
        self.one_partition(file_system=77)
        self.refused("unknown kind 77")

    def test_no_primary_partition(self):
        self.one_partition(role=SYSTEM)
        self.refused("no primary system partition")
        write_sif(self.path("x.sif"), [(a_definition, b"x")])
        self.refused("no primary system partition")

    def test_two_primary_partitions(self):
        write_sif(self.path("x.sif"), [(a_partition(), b"x" * 5000), (a_partition(), b"y" * 5000)])
        self.refused("two primary system partitions")

    def test_the_partition_holds_something_else(self):
        self.one_partition()
        self.refused("no squashfs file", "hsqs")

    def test_cut_off(self):
        data = self.make_image(environment=False)
        self.make_sif("x.sif", data=data)
        whole = os.path.getsize(self.path("x.sif"))
        for size in (whole - 8192, 32768 + 4096 + 100, 32768, TABLE_AT + 100, 200, 127, 42):
            with self.subTest(size):
                self.make_sif("x.sif", data=data)
                os.truncate(self.path("x.sif"), size)
                self.assert_fails(self.slipway("run", "x.sif", "--", "true"), "x.sif", "try: ")
                self.assert_fails(self.slipway("inspect", "x.sif"), "x.sif", "try: ")

    def test_the_squashfs_is_larger_than_its_partition(self):
        data = self.make_image(environment=False)
        shorter = lambda number, offset, size: partition(number, offset, size - 4096, architecture=HERE)
        write_sif(self.path("x.sif"), [(shorter, data)])
        self.refused("larger than its partition")

    def test_hostile_headers(self):
        texts = {"descriptors past the end": dict(table_at=1 << 40), "a negative place": dict(table_at=-4096),
                 "descriptors over the header": dict(table_at=0), "countless descriptors": dict(count=1 << 40),
                 "a negative count": dict(count=-1), "no descriptors": dict(count=0), "a small table": dict(table_bytes=10)}
        for name, changed in texts.items():
            with self.subTest(name):
                write_sif(self.path("x.sif"), [(a_partition(), b"\0" * 8192)], **changed)
                self.refused("is damaged: ", "descriptors")

    def test_wrong_magic_and_version(self):
        write_sif(self.path("x.sif"), [(a_partition(), b"\0" * 8192)], magic=b"SIF_MAGIK\0")
        self.refused("is no SIF file")
        write_sif(self.path("x.sif"), [(a_partition(), b"\0" * 8192)], version=b"02")
        self.refused('version "02"')

    def test_hostile_places(self):
        data = self.make_image(environment=False)
        for offset, size in ((-1, 8192), (1 << 62, 8192), (0, 8192), (32768, -1), (32768, 0), ((1 << 63) - 4096, (1 << 63) - 1)):
            with self.subTest((offset, size)):
                make = lambda number, _, __: partition(number, offset, size, architecture=HERE)
                write_sif(self.path("x.sif"), [(make, data)])
                self.assert_fails(self.slipway("run", "x.sif", "--", "true"), "x.sif", "try: ")

    def test_every_byte_of_the_table_may_be_wrong(self):
        """A descriptor of noise never crashes: it runs or is refused."""
        data = self.make_image(environment=False)
        make = a_partition()
        for bit in range(0, 8 * 30, 7):
            raw = bytearray(make(1, 32768, len(data)))
            raw[bit // 8] ^= 1 << bit % 8
            write_sif(self.path("x.sif"), [(lambda *_: bytes(raw), data)])
            result = self.slipway("inspect", "x.sif")
            self.assertIn(result.status, (0, 125), result)

    def test_another_architecture(self):
        other = "arm64" if HERE == "amd64" else "amd64"
        if os.path.exists(f"/proc/sys/fs/binfmt_misc/qemu-{'aarch64' if other == 'arm64' else 'x86_64'}"):
            self.skipTest(f"this machine emulates {other}")
        sif = self.make_sif(architecture=other)
        self.assert_fails(self.slipway("run", sif, "--", "true"), f"is an image for {other}", f"this machine is {HERE}")
        facts = self.assert_succeeds(self.slipway("inspect", "--json", sif)).json()
        self.assertEqual(facts["config"]["architecture"], other)


if __name__ == "__main__":
    main()
