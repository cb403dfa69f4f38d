# Builds through the real program, as an ordinary user: stages, variables, cache, failures, reproducibility.
# Must not: need the network, but for the cases that install packages from the distribution's mirror.
import json
import os
import re
import subprocess
import unittest

from slipway_test import Dir, File, SlipwayTest, Symlink, main

PROGRAMS = ("sh", "cat", "chmod", "cp", "env", "id", "ls", "mkdir", "mv", "pwd", "rm", "sleep", "stat", "touch")


def base_layer():
    """A small system from the host's own programs and the libraries that they ask for."""
    members = [Dir("usr"), Dir("usr/bin"), Dir("usr/lib"), Symlink("bin", "usr/bin"), Symlink("lib", "usr/lib"),
               Symlink("lib64", "usr/lib64"), Dir("usr/lib64"), Dir("etc"), Dir("tmp", mode=0o1777), Dir("dev"), Dir("proc"),
               Dir("sys"), File("etc/passwd", "root:x:0:0:root:/root:/bin/sh\njoe:x:1000:100:Joe:/home/joe:/bin/sh\n"),
               File("etc/group", "root:x:0:\nusers:x:100:\nshadow:x:42:\n"),
               File("etc/shadow", "root:*:1::::::\n", mode=0o640, gid=42)]
    wanted = {}
    for name in PROGRAMS:
        path = os.path.realpath("/bin/" + name)
        wanted["usr/bin/" + name] = path
        listing = subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout
        for library in re.findall(r"(/\S+) \(0x", listing):
            directory = "usr/lib64/" if library.startswith("/lib64/") else "usr/lib/"
            wanted[directory + os.path.basename(library)] = os.path.realpath(library)
    for target, path in sorted(wanted.items()):
        with open(path, "rb") as file:
            members.append(File(target, file.read(), mode=0o755))
    return members


class BuildTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.context = self.path("context")
        os.mkdir(self.context)

    def use_base(self, config=None):
        layout = self.make_oci_layout([base_layer()], config=config or {})
        return f"oci:{layout}"

    def build(self, dockerfile, *options, status=0, tag="test", **more):
        self.write("context/Dockerfile", dockerfile)
        result = self.slipway("build", "-t", tag, *options, self.context, **more)
        self.assertEqual(result.status, status, str(result))
        return result

    def config(self, name="test"):
        """The stored image's config document, read without Slipway's help."""
        layout = os.path.join(self.store, "oci")
        with open(os.path.join(layout, "index.json")) as file:
            index = json.load(file)

        def blob(digest):
            with open(os.path.join(layout, "blobs", "sha256", digest.split(":")[1])) as document:
                return json.load(document)

        for manifest in index["manifests"]:
            if manifest["annotations"]["org.opencontainers.image.ref.name"] == name + ":latest":
                return blob(blob(manifest["digest"])["config"]["digest"])
        raise AssertionError(f"{name} is not in the store")

    def export(self, name="test"):
        out = self.path("out-" + name)
        if os.path.exists(out):
            subprocess.run(["rm", "-rf", out], check=True)
        result = self.slipway("convert", name, out)
        self.assertEqual(result.status, 0, str(result))
        return out

    def read(self, root, name):
        with open(os.path.join(root, name)) as file:
            return file.read()


class Copying(BuildTest):
    def test_stages_and_links(self):
        """COPY through a link of the image lands where the link leads; only the last stage's files stay."""
        base = self.use_base()
        self.write("context/a.txt", "a\n")
        self.write("context/d/one", "1\n")
        self.write("context/d/sub/two", "2\n")
        self.build(f"FROM scratch AS first\nCOPY a.txt /kept/a\nCOPY a.txt /lost\nFROM {base}\n"
                   "COPY --from=first /kept /from-first\nCOPY d /lib/d\nCOPY a.txt /new/dir/\nCOPY a.txt d/o* /many/\n")
        root = self.export()
        self.assertEqual(self.read(root, "from-first/a"), "a\n")
        self.assertFalse(os.path.exists(os.path.join(root, "lost")))
        self.assertEqual(self.read(root, "usr/lib/d/sub/two"), "2\n")
        self.assertTrue(os.path.islink(os.path.join(root, "lib")))
        self.assertEqual(sorted(os.listdir(os.path.join(root, "many"))), ["a.txt", "one"])
        self.assertEqual(self.read(root, "new/dir/a.txt"), "a\n")
        self.assertEqual(os.stat(os.path.join(root, "tmp")).st_mode & 0o7777, 0o1777)

    def test_dockerignore(self):
        for name in ("keep.txt", "drop.log", "sub/drop.log", "sub/keep.log", "secret/key", "secret/public"):
            self.write("context/" + name, name)
        self.write("context/.dockerignore", "# comment\n**/*.log\n!sub/keep.log\n/secret\n!secret/public\n")
        self.build("FROM scratch\nCOPY . /c/\n")
        root = self.export()
        found = sorted(os.path.relpath(os.path.join(parent, name), os.path.join(root, "c"))
                       for parent, _, names in os.walk(os.path.join(root, "c")) for name in names)
        self.assertEqual(found, [".dockerignore", "Dockerfile", "keep.txt", "secret/public", "sub/keep.log"])
        result = self.build("FROM scratch\nCOPY drop.log /\n", status=125)
        self.assertIn('"drop.log" is not in the build context', result.stderr)

    def test_outside_the_context(self):
        self.write("secret", "x")
        result = self.build("FROM scratch\nCOPY ../secret /\n", status=125)
        self.assertIn('Dockerfile, line 2: "../secret" lies outside the build context', result.stderr)
        os.symlink("../secret", os.path.join(self.context, "link"))
        result = self.build("FROM scratch\nCOPY link /\n", status=125)
        self.assertIn("symbolic link", result.stderr)

    def test_owners_and_modes(self):
        base = self.use_base()
        self.write("context/f", "x")
        self.build(f"FROM {base}\nCOPY --chown=joe --chmod=0640 f /by-name\nCOPY --chown=7:joe2 f /x\n", status=125)
        self.build(f"FROM {base}\nCOPY --chown=joe:users --chmod=u=rwx,g+s f /by-name\nCOPY --chown=7 f /by-number\n",
                   "-o", self.path("o.sqfs"))
        listing = subprocess.run(["unsquashfs", "-lln", self.path("o.sqfs")], capture_output=True, text=True).stdout
        self.assertRegex(listing, r"-rwxr-Sr-- 1000/100 +1 .*/by-name")
        self.assertRegex(listing, r"-rw-r--r-- 7/7 +1 .*/by-number")
        self.assertRegex(listing, r"-rw-r----- 0/42 .*/etc/shadow")

    def test_archives_are_unpacked_by_add_only(self):
        self.write("tree/in/file", "inside\n")
        for name, option in (("plain", "-cf"), ("zipped", "-czf"), ("packed", "-cJf")):
            subprocess.run(["tar", option, os.path.join(self.context, name), "-C", self.path("tree"), "in"], check=True)
        self.build("FROM scratch\nADD plain /p/\nADD zipped /z/\nADD packed /x/\nCOPY plain /copied\nADD Dockerfile /\n")
        root = self.export()
        for directory in "pzx":
            self.assertEqual(self.read(root, f"{directory}/in/file"), "inside\n")
        self.assertTrue(os.path.isfile(os.path.join(root, "copied")))

    def test_heredoc_files(self):
        self.build("FROM scratch\nARG who=you\nCOPY <<one <<-'two' /d/\nhello ${who}\none\n\t$plain\ntwo\n")
        root = self.export()
        self.assertEqual(self.read(root, "d/one"), "hello you\n")
        self.assertEqual(self.read(root, "d/two"), "$plain\n")

    def test_the_same_bytes_twice(self):
        self.write("context/d/f", "x")
        dockerfile = "FROM scratch\nCOPY d /d\nCOPY d/f /new/place/f\nWORKDIR /w\n"
        layers = []
        for _ in range(2):
            os.utime(os.path.join(self.context, "d/f"))
            self.build(dockerfile, "--no-cache", env={"SOURCE_DATE_EPOCH": "1000000000"})
            layers.append(self.config())
        self.assertEqual(layers[0], layers[1])
        self.assertEqual(len(layers[0]["rootfs"]["diff_ids"]), 3)
        self.assertEqual(layers[0]["created"], "2001-09-09T01:46:40Z")


class Variables(BuildTest):
    def test_arg_and_env(self):
        self.build("ARG global=g\nARG unused=u\nFROM scratch\nARG global\nARG local=${global}l\nARG given=default\n"
                   "ENV a=$local b=${given} c=${unused:-none}\nENV a=2 d=$a\nLABEL x=$b y='$b'\nARG b=loses\nENV e=$b\n",
                   "--build-arg", "given=from outside")
        environment = dict(entry.split("=", 1) for entry in self.config()["config"]["Env"])
        del environment["PATH"]
        self.assertEqual(environment, {"a": "2", "b": "from outside", "c": "none", "d": "gl", "e": "from outside"})
        self.assertEqual(self.config()["config"]["Labels"], {"x": "from outside", "y": "$b"})

    def test_entrypoint_clears_an_inherited_command(self):
        base = self.use_base({"Cmd": ["inherited"], "Env": ["PATH=/x"]})
        self.build(f'FROM {base}\nENTRYPOINT ["/e"]\n')
        self.assertEqual(self.config()["config"].get("Cmd"), None)
        self.build(f'FROM {base}\nSHELL ["/s", "-x"]\nCMD mine  too\nENTRYPOINT ["/e"]\nEXPOSE 80 90-91/udp\n')
        config = self.config()["config"]
        self.assertEqual(config["Cmd"], ["/s", "-x", "mine  too"])
        self.assertEqual(sorted(config["ExposedPorts"]), ["80/tcp", "90/udp", "91/udp"])

    def test_onbuild(self):
        self.write("context/f", "x")
        self.build("FROM scratch\nONBUILD COPY f /triggered\nONBUILD ENV t=1\n", tag="trigger")
        self.assertNotIn("t=1", self.config("trigger")["config"].get("Env", []))
        self.build("FROM trigger\n")
        self.assertIn("t=1", self.config()["config"]["Env"])
        self.assertTrue(os.path.exists(os.path.join(self.export(), "triggered")))

    def test_target(self):
        self.build("FROM scratch AS one\nENV stage=1\nFROM nowhere:1 AS two\nENV stage=2\n", "--target", "one")
        self.assertIn("stage=1", self.config()["config"]["Env"])
        result = self.build("FROM scratch AS one\n", "--target", "onne", status=125)
        self.assertIn("its stages are: one", result.stderr)


class Mistakes(BuildTest):
    def refuse(self, dockerfile, *texts):
        result = self.build(dockerfile, status=125)
        for text in texts:
            self.assertIn(text, result.stderr)

    def test_what_the_user_reads(self):
        self.refuse("FROM scratch\n\nRUNN true\n", 'Dockerfile, line 3: unknown instruction "RUNN"', "did you mean RUN?")
        self.refuse("FROM scratch\nCOPY --form=x a /\n", "line 2: unknown flag --form of COPY", "did you mean --from?")
        self.refuse("RUN true\n", "line 1: RUN stands before the first FROM")
        self.refuse("FROM scratch\nCOPY absent /\n", '"absent" is not in the build context')
        self.refuse("FROM debian:12\n", 'line 1: the base image "debian:12" is not in the store', "slipway bootstrap bookworm")
        self.refuse("FROM scratch\nRUN --mount=type=ssh true\n", "line 2", "mounts of type ssh are not supported")
        self.refuse("FROM scratch\nADD https://example.org/x /\n", "line 2", "downloads are not supported", "RUN")
        self.refuse("FROM --platform=linux/s390x scratch\n", "line 1", "this machine builds")
        self.refuse("FROM scratch\nCOPY --chmod=9 Dockerfile /\n", "--chmod=9 is no mode")

    def test_the_plan_without_doing(self):
        self.write("context/Dockerfile", "FROM scratch\nENV a=1\nCOPY Dockerfile /\n")
        plan = self.slipway("build", "--dry-run", self.context).json()
        self.assertEqual([step["kind"] for step in plan["steps"]], ["base", "config", "copy"])
        self.assertEqual(plan["steps"][2]["parent"], 1)
        self.assertEqual(plan["steps"][1]["key"], plan["steps"][0]["key"])


class Running(BuildTest):
    def test_forms_of_run(self):
        base = self.use_base()
        self.build(f"FROM {base}\nENV v=1\nARG w=2\nRUN echo $v$w > /shell\nRUN [\"/bin/touch\", \"/exec\"]\n"
                   "RUN <<EOF\nset -e\necho one > /h\necho two >> /h\nEOF\n"
                   "RUN cat > /input <<X\nfrom $v\nX\nRUN <<S\n#!/bin/cat\nscript\nS\n"
                   "WORKDIR /w\nUSER joe\nRUN id -u > /tmp/id; id -g >> /tmp/id; pwd >> /tmp/id; echo $HOME >> /tmp/id\n")
        root = self.export()
        self.assertEqual(self.read(root, "shell"), "12\n")
        self.assertTrue(os.path.exists(os.path.join(root, "exec")))
        self.assertEqual(self.read(root, "h"), "one\ntwo\n")
        self.assertEqual(self.read(root, "input"), "from 1\n")
        self.assertEqual(self.read(root, "tmp/id"), "1000\n100\n/w\n/home/joe\n")

    def test_a_failing_run_leaves_nothing(self):
        base = self.use_base()
        before = self.slipway("images", "--json").json()
        result = self.build(f"FROM {base}\nRUN mkdir -p /a/b && chmod 0 /a && (sleep 1000 &) && exit 7\n", status=125)
        self.assertIn("Dockerfile, line 2: the command of RUN ended with exit status 7", result.stderr)
        self.assertEqual(self.slipway("images", "--json").json(), before)
        entries = os.listdir(os.path.join(self.store, "cache"))
        self.assertEqual([name for name in entries if name.startswith("step-")], [])

    def test_owners_survive_a_rewrite(self):
        """A rewritten file keeps the owner that the base gave it; what is new belongs to root."""
        base = self.use_base()
        self.build(f"FROM {base}\nRUN cp -p /etc/shadow /etc/s && mv /etc/s /etc/shadow && touch /etc/new && rm /etc/group\n",
                   "-o", self.path("o.sqfs"))
        listing = subprocess.run(["unsquashfs", "-lln", self.path("o.sqfs")], capture_output=True, text=True).stdout
        self.assertRegex(listing, r"-rw-r----- 0/42 .*/etc/shadow")
        self.assertRegex(listing, r"-rw-r--r-- 0/0 .*/etc/new")
        self.assertNotIn("/etc/group", listing)

    def test_cache(self):
        base = self.use_base()
        self.write("context/f", "1")
        dockerfile = f"FROM {base}\nARG a=1\nRUN echo $a > /r\nCOPY f /f\nRUN cat /f > /g\n"
        self.assertEqual(self.build(dockerfile).stderr.count("(CACHED)"), 0)
        first = self.config()
        result = self.build(dockerfile)
        self.assertEqual(result.stderr.count("(CACHED)"), 3, result.stderr)
        self.assertEqual(self.config(), first)
        self.assertLess(result.seconds, 30)
        os.utime(os.path.join(self.context, "f"))  # a new time alone changes nothing
        self.assertEqual(self.build(dockerfile).stderr.count("(CACHED)"), 3)
        self.write("context/f", "2")
        self.assertEqual(self.build(dockerfile).stderr.count("(CACHED)"), 1)
        self.assertEqual(self.read(self.export(), "g"), "2")
        self.assertEqual(self.build(dockerfile, "--build-arg", "a=2").stderr.count("(CACHED)"), 0)
        self.assertEqual(self.build(dockerfile, "--no-cache").stderr.count("(CACHED)"), 0)

    def test_mounts(self):
        base = self.use_base()
        self.write("context/in/f", "bound\n")
        dockerfile = (f"FROM {base} AS src\nRUN echo stage > /s\nFROM {base}\n"
                      "RUN --mount=type=cache,target=/c echo 1 >> /c/n; cat /c/n > /r{}\n"
                      "RUN --mount=type=bind,source=in,target=/m --mount=type=bind,from=src,source=/s,target=/x "
                      "cat /m/f /x > /bound; ! touch /m/g\n"
                      "RUN --mount=type=tmpfs,target=/t touch /t/f\n")
        self.build(dockerfile.format(1))
        self.build(dockerfile.format(2))
        root = self.export()
        self.assertEqual(self.read(root, "r2"), "1\n1\n")
        self.assertEqual(self.read(root, "bound"), "bound\nstage\n")
        for name in ("c", "m", "x", "t"):
            self.assertFalse(os.path.exists(os.path.join(root, name)), name)


class Bootstrapping(BuildTest):
    def test_a_debian_base_and_packages(self):
        with open("/etc/os-release") as file:
            codename = re.search(r"^VERSION_CODENAME=(\S+)", file.read(), re.M).group(1)
        result = self.slipway("bootstrap", codename, "-t", "base", timeout=500)
        self.assertEqual(result.status, 0, str(result))
        self.assertRegex(result.stderr, r"[1-9]\d* owners other than root recovered")
        self.build("FROM base\nRUN apt-get update && apt-get install -y --no-install-recommends hello openssh-client\n"
                   "RUN useradd -m joe\n", "-o", self.path("o.sqfs"), timeout=500)
        listing = subprocess.run(["unsquashfs", "-lln", self.path("o.sqfs")], capture_output=True, text=True).stdout
        for pattern in (r"-rw-r----- 0/42 .*/etc/shadow\n", r"-rwxr-sr-x 0/42 .*/usr/bin/chage\n", r"/usr/bin/hello\n"):
            self.assertRegex(listing, pattern)

    def test_mistakes(self):
        result = self.slipway("bootstrap", "no.such.suite", "-t", "base")
        self.assertEqual(result.status, 125)
        self.assertIn('has no suite "no.such.suite"', result.stderr)
        result = self.slipway("bootstrap", "bookworm", "-t", "base", "--mirror", "http://127.0.0.1:9")
        self.assertIn("the mirror http://127.0.0.1:9 cannot be reached", result.stderr)
        result = self.slipway("bootstrap", "Book worm", "-t", "base")
        self.assertIn("is no name of a suite", result.stderr)


if __name__ == "__main__":
    main()
