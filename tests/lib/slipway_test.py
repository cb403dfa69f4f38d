# What the Python tests share: the built program, scratch places, OCI layouts made by hand, leak checks.
# Must not: use Slipway's own code to make or read what a test compares with.
"""Base class and helpers of the tests that drive the built programs.

    from slipway_test import SlipwayTest, Dir, File, Symlink, Hardlink, Whiteout, main

    class Convert(SlipwayTest):
        def test_it(self):
            layout = self.make_oci_layout([[Dir("d"), File("d/f", b"x")]])
            result = self.slipway("convert", f"oci:{layout}", self.path("out"))
            self.assert_status(result, 0)

    if __name__ == "__main__":
        main()
"""
import gzip
import hashlib
import io
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest


def build_directory():
    """Return the build tree under test ($SLIPWAY_BUILD_DIR, else build/ beside tests/)."""
    here = os.path.dirname(os.path.abspath(__file__))
    return os.environ.get("SLIPWAY_BUILD_DIR") or os.path.join(os.path.dirname(os.path.dirname(here)), "build")


def program(name="slipway"):
    """Return the path of a built program; a missing one is a failure, never a skip."""
    path = os.path.join(build_directory(), "bin", name)
    if not os.access(path, os.X_OK):
        raise AssertionError(f"{path} is not built; set SLIPWAY_BUILD_DIR or build the target {name}")
    return path


class Result:
    """How a program ended: status (128+N for a signal), stdout and stderr as text."""

    def __init__(self, argv, status, stdout, stderr, seconds):
        self.argv, self.status, self.stdout, self.stderr, self.seconds = argv, status, stdout, stderr, seconds

    def json(self):
        return json.loads(self.stdout)

    def __str__(self):
        return (f"$ {' '.join(map(str, self.argv))}\nstatus {self.status} after {self.seconds:.2f} s\n"
                f"--- stdout\n{self.stdout}\n--- stderr\n{self.stderr}")


def run(argv, *, timeout=120, env=None, cwd=None, input=None):
    """Run a program to its end and return a Result. One that hangs is killed with its whole group and fails the test."""
    start = time.monotonic()
    process = subprocess.Popen([str(a) for a in argv], env=env, cwd=cwd, text=True, errors="surrogateescape",
                               stdin=subprocess.PIPE if input is not None else subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    try:
        stdout, stderr = process.communicate(input, timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        stdout, stderr = process.communicate()
        raise AssertionError(f"timed out after {timeout} s: {argv}\n{stdout}\n{stderr}") from None
    status = process.returncode if process.returncode >= 0 else 128 - process.returncode
    return Result(argv, status, stdout, stderr, time.monotonic() - start)


# --- tar members, for layers made by hand ---

def _member(kind, name, *, mode, uid=0, gid=0, mtime=1700000000, data=b"", link="", device=(0, 0), pax=None):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.mtime = kind, mode, uid, gid, mtime
    info.size, info.linkname = len(data), link
    info.devmajor, info.devminor = device
    info.pax_headers = pax or {}
    return info, data


def File(name, data=b"", mode=0o644, xattrs=None, **more):
    data = data.encode() if isinstance(data, str) else data
    pax = {f"SCHILY.xattr.{key}": value for key, value in (xattrs or {}).items()}
    return _member(tarfile.REGTYPE, name, mode=mode, data=data, pax=pax, **more)


def Dir(name, mode=0o755, **more):
    return _member(tarfile.DIRTYPE, name, mode=mode, **more)


def Symlink(name, target, **more):
    return _member(tarfile.SYMTYPE, name, mode=0o777, link=target, **more)


def Hardlink(name, target, mode=0o644, **more):
    return _member(tarfile.LNKTYPE, name, mode=mode, link=target, **more)


def Fifo(name, mode=0o600, **more):
    return _member(tarfile.FIFOTYPE, name, mode=mode, **more)


def CharDevice(name, major, minor, mode=0o666, **more):
    return _member(tarfile.CHRTYPE, name, mode=mode, device=(major, minor), **more)


def Whiteout(path):
    parent, name = os.path.split(path)
    return File(os.path.join(parent, ".wh." + name))


def Opaque(directory):
    return File(os.path.join(directory, ".wh..wh..opq"))


def make_tar(members, format=tarfile.PAX_FORMAT):
    """Return the bytes of a tar of members in the order given, whatever their names are."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=format, errors="surrogateescape") as tar:
        for info, data in members:
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def digest_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def host_architecture():
    machine = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)


class Layout:
    """An OCI image layout that is written blob by blob."""

    def __init__(self, directory):
        self.directory = directory
        self.manifests = []
        os.makedirs(os.path.join(directory, "blobs", "sha256"), exist_ok=True)
        with open(os.path.join(directory, "oci-layout"), "w") as file:
            file.write('{"imageLayoutVersion": "1.0.0"}')
        self.write_index()

    def blob_path(self, digest):
        return os.path.join(self.directory, "blobs", "sha256", digest.split(":")[1])

    def add_blob(self, data, media_type):
        digest = digest_of(data)
        with open(self.blob_path(digest), "wb") as file:
            file.write(data)
        return {"mediaType": media_type, "digest": digest, "size": len(data)}

    def add_image(self, layers, tag="latest", config=None, compression="gzip", platform=None):
        """Add an image; each layer is a list of members or the bytes of a tar. Returns its descriptor."""
        diff_ids, descriptors = [], []
        for layer in layers:
            tar = layer if isinstance(layer, bytes) else make_tar(layer)
            diff_ids.append(digest_of(tar))
            descriptors.append(self.add_blob(*compress(tar, compression)))
        document = {"architecture": host_architecture(), "os": "linux", "config": config or {},
                    "rootfs": {"type": "layers", "diff_ids": diff_ids}}
        if platform:
            document.update(platform)
        manifest = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
                    "config": self.add_blob(json.dumps(document).encode(), "application/vnd.oci.image.config.v1+json"),
                    "layers": descriptors}
        descriptor = self.add_blob(json.dumps(manifest).encode(), manifest["mediaType"])
        if tag is not None:
            descriptor["annotations"] = {"org.opencontainers.image.ref.name": tag}
        if platform:
            descriptor["platform"] = platform
        self.manifests.append(descriptor)
        self.write_index()
        return descriptor

    def write_index(self):
        with open(os.path.join(self.directory, "index.json"), "w") as file:
            json.dump({"schemaVersion": 2, "manifests": self.manifests}, file)


def compress(tar, compression):
    """Return (blob, media type)."""
    base = "application/vnd.oci.image.layer.v1.tar"
    if compression == "gzip":
        return gzip.compress(tar, 6, mtime=0), base + "+gzip"
    if compression == "zstd":
        return subprocess.run(["zstd", "-q", "-c"], input=tar, stdout=subprocess.PIPE, check=True).stdout, base + "+zstd"
    return tar, base


# --- comparing trees ---

def tree_of(directory, owners=False):
    """Return {path: facts} of a directory: type, mode, link target, contents' digest, which names are one file."""
    tree, first = {}, {}
    for parent, directories, files in os.walk(os.fsencode(directory)):
        for name in directories + files:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            relative = os.fsdecode(os.path.relpath(path, os.fsencode(directory)))
            facts = {"type": stat.S_IFMT(status.st_mode), "mode": stat.S_IMODE(status.st_mode)}
            if stat.S_ISLNK(status.st_mode):
                facts["target"] = os.fsdecode(os.readlink(path))
                facts["mode"] = 0o777
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    facts["digest"] = digest_of(file.read())
                facts["size"] = status.st_size
            if not stat.S_ISDIR(status.st_mode):
                facts["mtime"] = int(status.st_mtime)
                first.setdefault(status.st_ino, []).append(relative)
            if owners:
                facts["owner"] = (status.st_uid, status.st_gid)
            tree[relative] = facts
    for names in first.values():
        for name in names:
            tree[name]["same file as"] = min(names)
    return tree


def remove_tree(path):
    """Remove a tree whose directories may forbid it."""
    for parent, directories, _ in os.walk(path):
        for name in directories:
            child = os.path.join(parent, name)
            if not os.path.islink(child):
                os.chmod(child, 0o700)
    shutil.rmtree(path)


# --- the test case ---

def processes_of(mark):
    """Return {pid: (name, command line)} of the living processes whose environment holds the text `mark`: those that a
    test started, however far removed, and nobody else's."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                if mark.encode() not in file.read():
                    continue
            with open(f"/proc/{pid}/stat") as file:
                text = file.read()
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        name, state = text[text.index("(") + 1:text.rindex(")")], text[text.rindex(")") + 2]
        if state != "Z":
            found[int(pid)] = name, b" ".join(words).decode(errors="replace")
    return found


def _mounts():
    with open("/proc/self/mountinfo") as file:
        return {line.split()[4] for line in file}


class SlipwayTest(unittest.TestCase):
    """Gives each test a scratch directory with TMPDIR, HOME, a runtime directory and SLIPWAY_STORE of its own, and
    fails it when it leaves a process, a mount or a temporary file behind."""

    settle_seconds = 30  # how long a session may take to go away after its last process, on a busy machine

    def setUp(self):
        self._base = tempfile.mkdtemp(prefix="slipway-system-")
        self.addCleanup(remove_tree, self._base)
        for name in ("tmp", "home", "run", "work"):
            os.mkdir(os.path.join(self._base, name), 0o700)
        self.temporary = os.path.join(self._base, "tmp")
        self.store = os.path.join(self._base, "store")
        self.env = {key: value for key, value in os.environ.items() if not key.startswith("SLIPWAY_")}
        self.env.update(TMPDIR=self.temporary, HOME=os.path.join(self._base, "home"), SLIPWAY_STORE=self.store,
                        XDG_RUNTIME_DIR=os.path.join(self._base, "run"), LC_ALL="C.UTF-8")
        self._mounts_before = _mounts()

    def tearDown(self):
        self.check_leaks()

    def check_leaks(self):
        """Fail if something of ours is left; called after every test."""
        deadline = time.monotonic() + self.settle_seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.02)
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertEqual(left, {}, "processes were left behind")
        self.assertEqual(_mounts() - self._mounts_before, set(), "mounts were left behind")
        self.assertEqual(os.listdir(self.temporary), [], "temporary files were left in $TMPDIR")
        in_store = os.path.join(self.store, "tmp")
        self.assertEqual(os.listdir(in_store) if os.path.isdir(in_store) else [], [],
                         "temporary files were left in the store")

    def processes(self, name=None):
        """Return {pid: (name, command line)} of what this test started, all or those of one name."""
        return {pid: facts for pid, facts in processes_of(self.temporary).items() if name in (None, facts[0])}

    def wait_until(self, condition, what, seconds=30):
        """Wait for a condition; the test fails with the words `what` when it does not come about."""
        deadline = time.monotonic() + seconds
        while not condition():
            self.assertLess(time.monotonic(), deadline, what)
            time.sleep(0.01)

    def path(self, name):
        """Return a path in this test's work directory."""
        return os.path.join(self._base, "work", name)

    def write(self, name, data):
        path = self.path(name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
        return path

    def slipway(self, *arguments, timeout=120, env=None, cwd=None, input=None):
        """Run the built slipway in this test's environment; `env` adds to it (None takes a variable away)."""
        return self.run_program("slipway", *arguments, timeout=timeout, env=env, cwd=cwd, input=input)

    def session(self, name):
        """Return the option for a named session of this test: to other tests of the same user, its name is another one."""
        return "--session=" + (name if name == "none" else f"{name}-{os.path.basename(self._base)}")

    def run_program(self, name, *arguments, timeout=120, env=None, cwd=None, input=None):
        environment = dict(self.env)
        for key, value in (env or {}).items():
            environment.pop(key, None) if value is None else environment.__setitem__(key, str(value))
        return run([program(name), *arguments], timeout=timeout, env=environment, cwd=cwd or self.path(""), input=input)

    def make_oci_layout(self, layers, tag="latest", config=None, compression="gzip", name="layout"):
        """Write an OCI layout of one image and return its directory; each layer is a list of members."""
        layout = Layout(self.path(name))
        layout.add_image(layers, tag, config, compression)
        return layout.directory

    def assert_status(self, result, status):
        self.assertEqual(result.status, status, f"\n{result}")

    def assert_succeeds(self, result):
        self.assert_status(result, 0)
        return result

    def assert_fails(self, result, *texts, status=125):
        """Check the status, that stderr holds each text, and that stdout is empty."""
        self.assert_status(result, status)
        for text in texts:
            self.assertIn(text, result.stderr, f"\n{result}")
        self.assertEqual(result.stdout, "", f"\n{result}")
        return result


def require_program(name):
    """Return the path of a program of the distribution that a test compares with; a missing one fails the test."""
    path = shutil.which(name)
    if path is None:
        raise AssertionError(f"{name} is not installed; run packaging/install-deps.sh test")
    return path


def main():
    unittest.main(verbosity=2 if "-v" in sys.argv else 1)
