# The image store on file systems that can do less than a local disk: the same images, or a clear refusal.
# Must not: imitate a file system; each is one of the kernel's, or a FUSE program of the distribution's.
"""ramfs has no extended attributes. bindfs, told to refuse them, has no files without a name either, and keeps a
deleted file that is open under another name, which NFS does as well. Both are mounted by the ordinary user, in a user
namespace in which the programs under test then run."""
import errno
import glob
import hashlib
import json
import os
import subprocess
import sys
import time

from registry_test import RegistryTest
from slipway_test import Dir, File, Opaque, Whiteout, main, program, require_program, run, tree_of

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from build import base_layer  # noqa: E402

PROBE = """
import fcntl, os, sys
os.chdir(sys.argv[1])
with open("probe", "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
try:
    os.setxattr("probe", "user.probe", b"1")
    print("attributes", end=" ")
except OSError as error:
    print(error.errno, end=" ")
try:
    os.close(os.open(".", os.O_TMPFILE | os.O_RDWR))
    print("unnamed")
except OSError as error:
    print(error.errno)
os.unlink("probe")
"""

RECIPE = """FROM base
RUN echo made > /etc/made && rm -r /usr/share/old && mkdir /usr/share/old && echo new > /usr/share/old/new
COPY --from=base /etc/passwd /etc/copied
RUN rm /etc/group
"""


def sleepers():
    """The processes of the killed build's RUN, whose environment is its own."""
    found = []
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            with open(path, "rb") as file:
                if file.read() == b"sleep\x0060.0731\0":
                    found.append(path)
        except OSError:
            pass
    return found


class Places(RegistryTest):
    def mount(self, script, expected):
        """Mount something at self.store in a namespace of its own; `script` gets the directory as $1 and a spare one as $2."""
        for name in ("ordinary", "spare", "mounted"):
            os.mkdir(self.path(name))
        self.ordinary_store = self.store
        self.store = self.path("mounted")
        self.holder = subprocess.Popen([require_program("unshare"), "-Urm", "sh", "-c", script + "\necho ready\ncat", "sh", self.store,
                                        self.path("spare")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                       env=dict(os.environ))
        self.addCleanup(self.unmount)
        self.assertEqual(self.holder.stdout.readline(), "ready\n")
        probe = self.inside(sys.executable, "-c", PROBE, self.store)
        self.assertEqual(probe.stdout.split(), expected, "the file system is not what this test is about")

    def unmount(self):
        self.holder.stdin.close()
        self.holder.stdout.close()
        self.holder.wait(10)

    def enter(self):
        return [require_program("nsenter"), "-t", str(self.holder.pid), "-U", "-m", "--preserve-credentials"]

    def inside(self, *command, env=None, **more):
        environment = {**self.env, "SLIPWAY_STORE": self.store, **(env or {})}
        return run([*self.enter(), *command], env=environment, cwd=self.path(""), **more)

    def there(self, *command, **more):
        return self.inside(program(), *command, **more)

    def both(self, *command, **more):
        """Run a command with the store there and with one on the ordinary file system, and return both ends."""
        ordinary = self.assert_succeeds(self.slipway(*command, env={"SLIPWAY_STORE": self.ordinary_store}, **more))
        return ordinary, self.assert_succeeds(self.there(*command, **more))

    def names_and_digests(self):
        ordinary, there = self.both("images", "--json")
        return [[(image["name"], image["manifest_digest"]) for image in json.loads(result.stdout)] for result in (ordinary, there)]

    def sum_of(self, name):
        with open(self.path(name), "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()

    def check_everything(self):
        epoch = {"SOURCE_DATE_EPOCH": "1700000000"}
        self.env.update(epoch)
        base = base_layer() + [Dir("usr/share"), Dir("usr/share/old"), File("usr/share/old/file", "old", xattrs={"user.kept": "1"})]
        layout = self.make_oci_layout([base, [Opaque("usr/share/old"), File("usr/share/old/second", "2"), Whiteout("etc/shadow")]],
                                      name="base-layout")
        self.push_small()
        for command in (("pull", f"{self.registry.host}/lab/small:v1"), ("convert", f"oci:{layout}", "store:base")):
            self.both(*command)
        context = os.path.dirname(self.write("context/Dockerfile", RECIPE))
        built = self.both("build", "-t", "made", context)
        self.assertNotIn("hold no layers", built[0].stderr)
        self.assertIn("can hold no layers of an overlay: they are unpacked in " + self.temporary, built[1].stderr)
        again = self.assert_succeeds(self.there("build", "-t", "made", context))
        self.assertEqual(again.stderr.count("(CACHED)"), 3, again)
        ordinary, there = self.names_and_digests()
        self.assertEqual(len(there), 3)
        self.assertEqual(there, ordinary)
        for store, name in ((self.ordinary_store, "ordinary.sqfs"), (self.store, "there.sqfs")):
            self.assert_succeeds(self.there("convert", "made", self.path(name), env={"SLIPWAY_STORE": store}))
        self.assertEqual(self.sum_of("there.sqfs"), self.sum_of("ordinary.sqfs"))
        for target in ("there", "ordinary"):
            self.assert_succeeds(self.there("convert", self.path(target + ".sqfs"), self.path(target + "-tree")))
        tree = tree_of(self.path("there-tree"))
        self.assertEqual(tree, tree_of(self.path("ordinary-tree")))
        self.assertIn("usr/share/old/new", tree)
        for gone in ("usr/share/old/file", "usr/share/old/second", "etc/group", "etc/shadow"):
            self.assertNotIn(gone, tree)
        for _ in range(2):
            result = self.assert_succeeds(self.there("run", "made", "--", "cat", "/etc/made", "/etc/copied"))
            self.assertEqual(result.stdout.splitlines()[:2], ["made", "root:x:0:0:root:/root:/bin/sh"])
        while self.processes():  # the image's server ends a moment after the command, and holds its file until then
            time.sleep(0.02)
        self.assert_succeeds(self.there("rmi", "made"))
        report = json.loads(self.assert_succeeds(self.there("gc", "--json")).stdout)
        self.assertEqual({item["kind"] for item in report["deleted"]} & {"blob", "squashfs"}, {"blob"})
        self.assertEqual([image[0] for image in self.names_and_digests()[1]], ["base:latest", f"{self.registry.host}/lab/small:v1"])
        left = self.inside("find", *(os.path.join(self.store, name) for name in ("tmp", "squashfs")), "-mindepth", "1")
        self.assertEqual(self.assert_succeeds(left).stdout, "", "left behind")

    def test_without_attributes(self):
        self.mount('mount -t ramfs none "$1" || exit 99', [str(errno.EOPNOTSUPP), "unnamed"])
        self.check_everything()

    def test_what_a_killed_build_left_goes_with_the_next_command(self):
        self.mount('mount -t ramfs none "$1" || exit 99', [str(errno.EOPNOTSUPP), "unnamed"])
        layout = self.make_oci_layout([base_layer()], name="base-layout")
        self.assert_succeeds(self.there("convert", f"oci:{layout}", "store:base"))
        context = os.path.dirname(self.write("context/Dockerfile", "FROM base\nRUN touch /begun; sleep 60.0731\n"))
        build = subprocess.Popen(self.enter() + [program(), "build", "-t", "made", context], stderr=subprocess.DEVNULL,
                                 env={**self.env, "SLIPWAY_STORE": self.store})
        deadline = time.monotonic() + 30
        while not glob.glob(self.temporary + "/.slipway-*/tmp/*/upper/begun") and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(len([name for name in os.listdir(self.temporary) if name.startswith(".slipway-")]), 1)
        build.kill()
        build.wait()
        while (left := sleepers()) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(left, [])
        self.assertEqual(len(os.listdir(self.temporary)), 1, "the kill came too late to leave anything")
        self.assert_succeeds(self.there("images"))
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertEqual(self.inside("find", os.path.join(self.store, "tmp"), "-mindepth", "1").stdout, "")

    def test_like_nfs(self):
        bindfs = require_program("bindfs")
        self.mount(f'{bindfs} --xattr-none -f "$2" "$1" & server=$!; trap "kill $server; wait" EXIT\n'
                   'while ! mountpoint -q "$1"; do sleep 0.05; done', [str(errno.EOPNOTSUPP), str(errno.EOPNOTSUPP)])
        self.check_everything()


if __name__ == "__main__":
    main()
