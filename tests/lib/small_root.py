# A root directory with a dozen programs of this machine and the libraries they need, as an image to run.
# Must not: contain anything of Slipway.
import os
import re
import shutil
import subprocess

from slipway_test import require_program

PROGRAMS = ["sh", "bash", "cat", "ls", "id", "env", "sleep", "true", "false", "touch", "readlink", "mkdir", "rm", "stat",
            "sha256sum", "echo", "pwd", "grep", "wc", "tail", "setsid", "kill", "whoami", "chmod", "chown"]
DIRECTORIES = ["dev", "proc", "sys", "tmp", "etc", "root", "usr/bin", "usr/lib", "usr/share", "var/tmp", "opt"]


def libraries_of(program):
    """Return the paths of the shared libraries and the loader of a program, by ldd."""
    text = subprocess.run(["ldd", program], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    return re.findall(r"(?:=> |^\s*)(/\S+) \(0x", text, flags=re.M)


def make_root(directory, etc_files=True):
    """Write the root into a new directory and return its path. With etc_files, the mount points that every image
    should have are there, so that no part of /etc needs to be covered."""
    for name in DIRECTORIES:
        os.makedirs(os.path.join(directory, name))
    os.symlink("usr/bin", os.path.join(directory, "bin"))
    copied = set()
    for name in PROGRAMS:
        source = require_program(name)
        shutil.copy(source, os.path.join(directory, "usr/bin", name))
        for library in libraries_of(source):
            if library in copied:
                continue
            copied.add(library)
            target = directory + library
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy(library, target)
    if etc_files:
        for name in ("passwd", "group", "hosts", "resolv.conf"):
            with open(os.path.join(directory, "etc", name), "w") as file:
                file.write("of the image\n")
    with open(os.path.join(directory, "etc/image"), "w") as file:
        file.write("small root\n")
    for i in range(40):
        with open(os.path.join(directory, f"usr/share/words-{i}"), "wb") as file:
            file.write(os.urandom(1 << 16))
    return directory


def make_squashfs(root, file, compression="zstd"):
    """Pack a root with squashfs-tools, whose work is not ours."""
    subprocess.run([require_program("mksquashfs"), root, file, "-comp", compression, "-quiet", "-no-progress", "-all-root"],
                   check=True, stdout=subprocess.DEVNULL)
    return file
