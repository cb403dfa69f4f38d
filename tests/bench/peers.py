"""How each program that starts containers or serves an image is called in the benchmarks, in the way that is fastest
for it.

Must not: wrap a peer in anything that its figure would then contain.
"""
import dataclasses
import json
import os
import subprocess

import bench

PACKAGES = ["charliecloud", "crun", "apptainer", "bubblewrap", "squashfuse"]


@dataclasses.dataclass
class Start:
    """A command to measure; "{n}" in a word becomes the copy's number. What `before` does, it does before the timer
    starts, so that it is outside of the figure."""
    argv: list
    before: list = dataclasses.field(default_factory=list)
    env: dict = dataclasses.field(default_factory=dict)


def sid_root():
    """Return the directory with the newest peers, unpacked from Debian sid if it is not there."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    root = os.environ.get("SLIPWAY_SID_ROOT") or os.path.join(cache, "slipway-tests/sid")
    subprocess.run([os.path.join(bench.SOURCE, "tests/lib/sid-root.sh"), root, *PACKAGES], check=True)
    return root


def without_hybrid_cgroups():
    """crun refuses to start where control groups are of both versions. Nothing of it is measured here: show it a
    machine without, by a mount namespace around the timer; the user and the (lack of) capabilities stay."""
    if not os.path.exists("/sys/fs/cgroup/unified/cgroup.controllers"):
        return []
    hide = "mount -t tmpfs tmpfs /sys/fs/cgroup; exec setpriv --inh-caps=-all --ambient-caps=-all -- \"$@\""
    return [bench.need("unshare"), "--map-current-user", "--keep-caps", "--mount", "/bin/sh", "-ec", hide, "sh"]


def as_user(name, start):
    """The words that run a command as an ordinary user without capabilities, for a benchmark that runs as root."""
    drop = [bench.need("setpriv"), f"--reuid={name}", f"--regid={name}", "--init-groups", "--inh-caps=-all",
            "--bounding-set=-all"]
    # What mounts as root does that before; it has "AS USER" where the command begins to be the user's.
    words = start.before + start.argv
    if AS_USER in words:
        at = words.index(AS_USER)
        return words[:at] + drop + words[at + 1:]
    return drop + ["--", "/usr/bin/env", f"HOME={os.path.expanduser('~' + name)}", f"USER={name}"] + words


AS_USER = "--as-the-user--"
# Mount with the words up to "--", below $1; run the rest with that as its root and the host's /dev, /proc and /tmp.
IN_MOUNT = """place=$1; shift; while [ "$1" != -- ]; do mount="$mount '$1'"; shift; done; shift; eval "$mount"
for name in dev proc tmp; do mount --rbind /$name "$place/$name"; done
"$@"; status=$?; umount -l "$place"; exit $status"""


class Peers:
    """The peers, and the images in each form that they take."""

    def __init__(self, root, squashfs):
        self.root, self.squashfs = os.path.abspath(root), os.path.abspath(squashfs)
        self.sid = sid_root()
        self.work = os.path.abspath(bench.WORK)
        self.apptainer_env = {"PATH": os.path.join(self.sid, "usr/bin") + ":" + os.environ["PATH"]}

    def new(self, program):
        """Return the path of a program of Debian sid."""
        return os.path.join(self.sid, "usr/bin", program)

    def versions(self):
        """Return {program: version}, as each says it."""
        asked = {"bubblewrap (host)": [bench.need("bwrap")], "bubblewrap (sid)": [self.new("bwrap")],
                 "ch-run (host)": [bench.need("ch-run")], "ch-run (sid)": [self.new("ch-run")],
                 "crun (sid)": [self.new("crun")], "apptainer (sid)": [self.new("apptainer")],
                 "slipway": [bench.SLIPWAY]}
        told = {}
        for name, argv in asked.items():
            answer = subprocess.run(argv + ["--version"], capture_output=True, text=True, check=True)
            told[name] = (answer.stdout + answer.stderr).split("\n")[0].split()[-1]
        return told

    def bubblewrap(self, program, command):
        root = self.root
        return Start([program, "--ro-bind", root, "/", "--dev-bind", "/dev", "/dev", "--bind", "/proc", "/proc",
                      "--ro-bind", "/sys", "/sys", "--bind", "/tmp", "/tmp", *command])

    def crun(self, bundle, command, namespaces=None):
        """A bundle as `crun spec --rootless` makes it, without a terminal and without control groups; the one id that
        needs no newuidmap is mapped, and PATH keeps crun from trying that program first."""
        directory = os.path.join(self.work, bundle)
        os.makedirs(directory, exist_ok=True)
        file = os.path.join(directory, "config.json")
        if os.path.exists(file):
            os.unlink(file)
        subprocess.run([self.new("crun"), "spec", "--rootless"], cwd=directory, check=True)
        with open(file, encoding="utf-8") as stream:
            config = json.load(stream)
        config["process"].update(terminal=False, args=command)
        config["root"]["path"] = self.root
        config["mounts"] = [mount for mount in config["mounts"] if mount["type"] != "cgroup"]
        config["linux"]["uidMappings"] = [{"containerID": 0, "hostID": os.getuid(), "size": 1}]
        config["linux"]["gidMappings"] = [{"containerID": 0, "hostID": os.getgid(), "size": 1}]
        del config["linux"]["resources"]
        if namespaces:
            kept = {"mqueue": "ipc", "sysfs": "network", "proc": "pid"}  # each mount needs that namespace to be its own
            config["linux"]["namespaces"] = [{"type": name} for name in namespaces]
            config["mounts"] = [m for m in config["mounts"] if kept.get(m["type"], "user") in namespaces]
            config["mounts"] += [{"destination": f"/{name}", "type": "bind", "source": f"/{name}", "options": ["rbind"]}
                                 for name in ("proc", "sys")]
            config.pop("hostname")
            config["linux"]["maskedPaths"] = config["linux"]["readonlyPaths"] = []
        with open(file, "w", encoding="utf-8") as stream:
            json.dump(config, stream, indent=1)
        state = os.path.join(self.work, "crun-state")
        options = ["--root", state, "--cgroup-manager=disabled"]
        return Start([self.new("crun"), *options, "run", "--bundle", directory, "bench{n}"],
                     before=[*without_hybrid_cgroups(), "/usr/bin/env", "PATH=/nonexistent"])

    def ch_run_old(self, image, command):
        return Start([bench.need("ch-run"), image, "--", *command])

    def ch_run_new(self, image, command):
        """With one thread in the FUSE server it starts sooner than by default."""
        options = ["--fuse-single"] if os.path.isfile(image) else []
        return Start([self.new("ch-run"), *options, image, "--", *command])

    def apptainer(self, image, command):
        """Its files are found relative to the program; squashfuse_ll by PATH."""
        return Start([self.new("apptainer"), "--silent", "exec", image, *command], env=self.apptainer_env)

    def sif(self):
        """Return the image in Apptainer's own form, made by Apptainer."""
        file = os.path.join(self.work, "root.sif")
        if not os.path.exists(file):
            subprocess.run([self.new("apptainer"), "--silent", "build", file, self.root], check=True,
                           env={**os.environ, **self.apptainer_env})
        return file

    def charliecloud_squashfs(self):
        """Return the image as Charliecloud's own converter writes it."""
        file = os.path.join(self.work, "root-charliecloud.sqfs")
        if not os.path.exists(file):
            subprocess.run([bench.need("ch-convert"), "-i", "dir", "-o", "squash", self.root, file], check=True,
                           capture_output=True)
        return file

    def mounted(self, mount, command):
        """A file system that `mount` mounts on a directory, as the root of a command, in namespaces of its own."""
        place = os.path.join(self.work, "mounted")
        os.makedirs(place, exist_ok=True)
        chroot = [bench.need("chroot"), place, *command]
        namespaces = [bench.need("unshare"), "-Urm"]
        return Start([*namespaces, "/bin/sh", "-ec", IN_MOUNT, "sh", place, *mount, place, "--", *chroot])

    def kernel(self, command):
        """The kernel's squashfs; only root may mount it, the command is the user's."""
        place = os.path.join(self.work, "mounted")
        os.makedirs(place, exist_ok=True)
        mount = [bench.need("mount"), "-t", "squashfs", "-o", "ro,loop", self.squashfs, place]
        return Start([bench.need("unshare"), "-m", "/bin/sh", "-ec", IN_MOUNT, "sh", place, *mount, "--", AS_USER,
                      "--", bench.need("unshare"), "-Ur", bench.need("chroot"), place, *command])

    def starters(self, command):
        """{name: Start} of what starts a container from the squashfs file."""
        return {"ch-run (host)": self.ch_run_old(self.squashfs, command),
                "ch-run (sid)": self.ch_run_new(self.squashfs, command),
                "apptainer (sid)": self.apptainer(self.squashfs, command),
                "slipway": self.slipway(self.squashfs, command)}

    def readers(self, command):
        """{name: Start} of what serves the squashfs file, the kernel where this is root, and the directory."""
        told = {"directory (native)": self.mounted([bench.need("mount"), "--bind", self.root], command)}
        if os.geteuid() == 0:
            told["kernel squashfs"] = self.kernel(command)
        told["squashfuse_ll (host)"] = self.mounted([bench.need("squashfuse_ll"), self.squashfs], command)
        told["squashfuse_ll (sid)"] = self.mounted([self.new("squashfuse_ll"), self.squashfs], command)
        return told | {name: start for name, start in self.starters(command).items() if name != "ch-run (host)"}

    def slipway(self, image, command, *options):
        return Start([os.path.abspath(bench.SLIPWAY), "run", *options, image, "--", *command])
