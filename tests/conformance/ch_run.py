# Runs the same command lines under Charliecloud's ch-run, the old and the new, and under ours.
# Must not: know what a command line should do; the new one of Charliecloud says it.
import json
import os
import pwd
import shlex
import shutil
import struct

from ch_run_rows import ROWS
from sid_root import sid_program
from slipway_test import SlipwayTest, main, program, require_program, run
from small_root import make_root, make_squashfs

OWN_FAILURES = (31, 49)  # of 0.45, for which 0.31 has 1
USAGE = 64


def lv(*words):
    """Return words in the form in which ch-image records them."""
    return b"angi" + b"".join(struct.pack(">I", len(word)) + word for word in words)


class ChRun(SlipwayTest):
    @classmethod
    def setUpClass(cls):
        cls.programs = {"ours": program("ch-run"), "old": require_program("ch-run"),
                        "new": sid_program("ch-run", "charliecloud")}

    def setUp(self):
        super().setUp()
        # The default mount point of ch-run itself, outside of every scratch directory.
        mounts = f"/var/tmp/{pwd.getpwuid(os.geteuid()).pw_name}.ch"
        if not os.path.exists(mounts):
            self.addCleanup(shutil.rmtree, mounts, True)
        os.mkdir(os.path.join(self.path("bound")))
        self.write("bound/file", "bound\n")
        self.write("home/of-the-user", "")
        self.write("lines", "A=1\n\nB=$A:x\nQ='quoted'\nC=")
        self.write("zeros", b"A=1\n2\0\0B=$BAR:x\0Q='q'")
        self.write("bad-line", "A=1\nnope\n")
        self.write("bad-name", "=1\n")
        self.write("empty", "")
        self.write("damaged.sqfs", b"hsqs" + bytes(200))
        edits = {"env": ["CDI_A=a $HOME", "BAR=cdi"], "hooks": [{"hookName": "createContainer", "path": "/usr/bin/nvidia-ctk",
                                                                 "args": ["nvidia-ctk", "hook", "update-ldcache"]}],
                 "mounts": [{"hostPath": self.path("bound/file"), "containerPath": "/opt/of/cdi",
                             "options": ["ro", "nosuid", "bind"]}]}
        device = {"name": "0", "containerEdits": {"env": ["CDI_DEVICE=0"]}}
        for place, kind, edits in (("one/a", "a.org/gpu", edits), ("two/b", "b.org/net", {"env": ["CDI_B=b"]}),
                                   ("again/c", "a.org/gpu", {}), ("bad/d", "d.org/x", {"env": ["NOVALUE"]})):
            self.write(f"cdi/{place}.json", json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [device],
                                                        "containerEdits": edits}))
        self.write("cdi/broken.json", "{")
        os.mkdir(self.path("cdi/none"))
        self.make_images()

    def make_images(self):
        root = make_root(self.path("image"))
        for name in os.listdir(os.path.join(root, "usr/share")):
            os.unlink(os.path.join(root, "usr/share", name))
        os.symlink("opt", os.path.join(root, "link"))
        for name, text in (("script", "#!/bin/sh\necho $0 $*\n"), ("script-of-nothing", "#!/nosuch\n")):
            with open(os.path.join(root, name), "w") as file:
                file.write(text)
            os.chmod(os.path.join(root, name), 0o755)
        os.mkdir(os.path.join(root, "etc/machine-id.d"))
        os.mkdir(os.path.join(root, "home"))
        for name, files in (("bare", {}), ("command", {"entrypoint": lv(b"echo", b"hello"), "cmd": lv(b"world")}),
                            ("entrypoint", {"entrypoint": lv(b"echo", b"alone")}),
                            ("damaged", {"cmd": b"angi\0\0\1\0short"})):
            shutil.copytree(root, f"{root}-{name}", symlinks=True)
            self.record(f"{root}-{name}", files)
        self.record(root, {"environment": b"IMG=yes\nQ='q'\nP=/x:$PATH\n"})
        make_squashfs(root, self.path("image.sqfs"))
        links = shutil.copytree(root, self.path("links"), symlinks=True)
        for name, target in (("root", "opt/../var"), ("ch", "/var/ch")):
            shutil.move(os.path.join(links, name), os.path.join(links, "var", name))
            os.symlink(target, os.path.join(links, name))
        make_squashfs(links, self.path("links.sqfs"))
        storage = self.path("storage/img")
        os.makedirs(storage)
        for name in ("stored", "example.com+5000%stored+1"):
            shutil.copytree(root, os.path.join(storage, name), symlinks=True)

    def record(self, root, files):
        for name, data in files.items():
            os.makedirs(os.path.join(root, "ch"), exist_ok=True)
            with open(os.path.join(root, "ch", name), "wb") as file:
                file.write(data)

    def run_row(self, which, row, image):
        names = {"image": image, "dir": self.path("image"), "sqfs": self.path("image.sqfs"),
                 "work": self.path("").rstrip("/")}
        words = [word.format(**names) for word in shlex.split(row.line)]
        sort = "env -0" in row.line or words[-1:] == ["ENV"]
        if words[-1:] == ["ENV"]:
            words[-1:] = ["env", "-0"]
        environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": self.path("home"), "USER": self.user,
                       "LANG": "C.UTF-8", "BAR": "bar", "MARK": self.temporary}
        for key, value in row.env.items():
            environment.pop(key, None)
            if value is not None:
                environment[key] = value.format(**names)
        result = run([self.programs[which], *words], timeout=60, env=environment, cwd=self.path(""))
        if sort:
            result.stdout = "\0".join(sorted(result.stdout.split("\0")))
        return result

    def without_home(self, text):
        return "\0".join(entry for entry in text.split("\0") if not entry.startswith(("HOME=", "PWD=")))

    def agree_with_old(self, old, new):
        if new.status in OWN_FAILURES:
            return old.status == 1 and old.stdout == new.stdout
        return old.status == new.status and self.without_home(old.stdout) == self.without_home(new.stdout)

    def check_row(self, row, image):
        ours, old, new = (self.run_row(which, row, image) for which in ("ours", "old", "new"))
        same = (ours.status, ours.stdout) == (new.status, new.stdout)
        if row.kept:
            self.assertFalse(same, f"no difference is left to keep: {row.kept}\n{ours}")
            self.assertEqual(ours.status, row.status, f"\n{ours}")
        else:
            self.assertTrue(same, f"\nours {ours}\nnew {new}")
        if row.old:
            self.assertFalse(self.agree_with_old(old, new), f"0.31 does not differ: {row.old}\n{old}\n{new}")
        elif not row.kept:
            self.assertTrue(self.agree_with_old(old, new), f"\nold {old}\nnew {new}")

    def check_rows(self, section):
        self.user = pwd.getpwuid(os.geteuid()).pw_name
        count = 0
        for row in ROWS[section]:
            images = [self.path("image"), self.path("image.sqfs")] if "{image}" in row.line else [None]
            for image in images:
                with self.subTest(line=row.line, image=image and os.path.basename(image), env=row.env):
                    self.check_row(row, image)
                count += 1
        return count

    def test_environment(self):
        self.assertGreaterEqual(self.check_rows("environment"), 100)

    def test_commands(self):
        self.check_rows("commands")

    def test_grammar(self):
        self.check_rows("grammar")

    def test_container(self):
        self.check_rows("container")

    def test_join(self):
        self.check_rows("join")


if __name__ == "__main__":
    main()
