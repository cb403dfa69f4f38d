# What `convert` writes beside what umoci unpacks as root, file by file: every fact, owners and devices too.
# Must not: convert anything as root; leave a mount, a loop device or a file behind.
"""Usage: umoci_root.py USER [DIRECTORY[:TAG]]

tests/run.sh calls it with USER, who converts, where it was started as root; root unpacks and mounts. An OCI layout can be
named that is compared in place of the layers made here; it must have gzip layers, for umoci 0.4.7 reads no zstd.
What an ordinary user can see of the same comparison is in formats.py.
"""
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

from image_tree import differences, facts_of
from slipway_test import (CharDevice, Dir, Fifo, File, Hardlink, Layout, Opaque, Symlink, Whiteout, make_tar, program,
                          require_program)

OURS = (".slipway", ".singularity.d", "singularity", "ch")  # what convert adds
PRIVATE = "--in-a-private-namespace"
LAST_ID, LAST_TIME = 2**32 - 2, 2**32 - 1
CAPABILITY = "\x01\x00\x00\x02\x00\x04\x00\x00" + "\x00" * 12  # cap_net_raw+ep, as setcap stores it


def base_layer():
    attributes = {"user.note": "kept", "trusted.note": "root's", "security.capability": CAPABILITY}
    return [
        Dir("./", 0o751, mtime=1600000000, uid=7), Dir("etc", 0o755), File("etc/passwd", "root:x:0:0\n"),
        Dir("bin"), File("bin/su", b"\x7fELF", 0o4755), File("bin/write", b"\x7fELF", 0o2755, gid=5), Hardlink("bin/su2", "bin/su"),
        File("bin/ping", b"\x7fELF", xattrs=attributes), Dir("tmp", 0o1777), Fifo("queue", 0o620, uid=3),
        CharDevice("null", 1, 3), CharDevice("minor", 259, 70000, 0o640, gid=6), block_device("disk", 8, 17),
        Hardlink("null2", "null"), File("last id", "x", uid=LAST_ID, gid=LAST_ID), File("ids", "x", uid=65534, gid=2**31),
        File("first", "1", mtime=0), File("second", "1", mtime=1), File("last", "1", mtime=LAST_TIME),
        Dir("old", mtime=86400), Symlink("link", "etc/passwd", uid=4, mtime=5), Symlink("dangling", "/no/where"),
        Symlink("long", "t" * 1000), Hardlink("link2", "link"), File("n" * 255), File("\udcff\udcfe\x01 bytes\n"), File("caf\u00e9"),
        File("cafe\u0301"), File("empty"), File("block", os.urandom(131072)), File("block and tail", os.urandom(131073)),
        File("zeros", bytes(300000)), File("closed", "x", 0), Dir("shut", 0), File("shut/in", "x", 0o200),
        Dir("usr"), Dir("usr/lib"), Symlink("lib", "usr/lib"), File("usr/lib/kept"),
        Dir("many"), *[File(f"many/{i}", str(i), uid=i, mode=i % 0o1000) for i in range(3000)]]


def block_device(name, major, minor):
    info, data = CharDevice(name, major, minor, 0o660)
    info.type = b"4"
    return info, data


def links_and_whiteouts():
    """Two layers: files with several names, directories to be emptied; and what becomes of them."""
    return [
        [File("a", "shared", uid=9), Hardlink("b", "a"), Hardlink("c", "b"), Hardlink("d", "a"),
         Dir("opaque", 0o700, mtime=77), File("opaque/old"), Dir("opaque/sub"), File("opaque/sub/x"),
         Dir("gone"), File("gone/x"), Dir("file later"), File("file later/x"), File("directory later", "x"),
         Symlink("link later", "etc"), File("etc/behind the link")],
        [Whiteout("a"), File("c", "of its own"), Hardlink("e", "d"), Dir("opaque", 0o750, uid=8), Opaque("opaque"),
         File("opaque/new", "n"), Whiteout("gone"), File("file later", "now a file"), Dir("directory later", 0o711),
         File("directory later/x"), File("link later", "no link"), File("lib/through the link", "x"),
         Whiteout("usr/lib/kept"), File("block", "replaced"), Dir("tmp", 0o1770), Whiteout("null2")]]


def tars(directory):
    """A sparse file in a pax tar, and a tar older than ustar. (umoci knows no sparse files of GNU's own format: those
    are in formats.py.)"""
    tree = os.path.join(directory, "sparse tree")
    os.mkdir(tree)
    for name in ("posix", "v7"):
        with open(os.path.join(tree, f"sparse {name}"), "wb") as file:
            if name != "v7":
                file.seek(40 << 20)
            file.write(b"middle")
            file.truncate(file.tell() + (11 << 20 if name != "v7" else 0))
    made = [subprocess.run(["tar", "-cf" if name == "v7" else "-cSf", "-", f"--format={name}", "--owner=11:11", "--group=12:12", "-C", tree,
                            f"sparse {name}"], check=True, stdout=subprocess.PIPE).stdout for name in ("posix", "v7")]
    shutil.rmtree(tree)
    return made


def traps(directory):
    layout = Layout(os.path.join(directory, "layout"))
    layout.add_image([make_tar(layer) for layer in (base_layer(), *links_and_whiteouts())] + tars(directory))
    return f"{layout.directory}:latest"


def run(argv, **more):
    result = subprocess.run(argv, capture_output=True, text=True, check=False, **more)
    if result.returncode != 0:
        sys.exit(f"umoci_root: {' '.join(argv)}: status {result.returncode}\n{result.stdout}{result.stderr}")
    return result


def copy_of_program(directory):
    """Copy the program to where the user can read it, which may not be so of the build tree; and its full part beside."""
    build = os.path.dirname(os.path.dirname(program()))
    for part in ("bin/slipway", "libexec/slipway/slipway-full"):
        if os.path.exists(os.path.join(build, part)):
            os.makedirs(os.path.dirname(os.path.join(directory, part)), exist_ok=True)
            shutil.copy(os.path.join(build, part), os.path.join(directory, part))


def convert(user, image, directory):
    """Convert as `user` to a file that only this comparison reads."""
    work = os.path.join(directory, "work")
    os.mkdir(work)
    os.chown(work, user.pw_uid, user.pw_gid)
    run([os.path.join(directory, "bin/slipway"), "-q", "convert", "-s", os.path.join(work, "store"), f"oci:{image}",
         os.path.join(work, "image.sqfs")], user=user.pw_uid, group=user.pw_gid, extra_groups=[], cwd="/",
        env={"HOME": work, "PATH": os.environ["PATH"]})
    return os.path.join(work, "image.sqfs")


def readings(squashfs, directory, everything):
    """Yield (reader, tree): the kernel's where it can mount, else that of unsquashfs; both with `everything`."""
    mounted = os.path.join(directory, "mounted")
    os.mkdir(mounted)
    mount = subprocess.run(["mount", "-t", "squashfs", "-o", "loop,ro", squashfs, mounted], capture_output=True, text=True, check=False)
    if mount.returncode == 0:
        try:
            yield "the kernel", facts_of(mounted, without=OURS)
        finally:
            run(["umount", mounted])
    else:
        print(f"umoci_root: the kernel does not mount it ({mount.stderr.strip()}); unsquashfs reads it")
    if mount.returncode != 0 or everything:
        out = os.path.join(directory, "unsquashed")
        run([require_program("unsquashfs"), "-no-progress", "-d", out, squashfs])
        yield "unsquashfs", facts_of(out, without=OURS)
        shutil.rmtree(out)


def check_the_oracle(tree):
    """The comparison is worth something only where umoci shows what is compared."""
    shown = {b"bin/su": ("mode", 0o4755), b"minor": ("device", (259, 70000)), b"last id": ("gid", LAST_ID), b"last": ("mtime", LAST_TIME),
             b"": ("uid", 7), b"link2": ("same file as", b"link"), b"e": ("links", 3), b"sparse posix": ("size", (51 << 20) + 6),
             b"opaque": ("mode", 0o750), b"usr/lib/through the link": ("size", 1), b"n" * 255: ("size", 0)}
    for path, (fact, value) in shown.items():
        if tree.get(path, {}).get(fact) != value:
            sys.exit(f"umoci_root: umoci does not show {fact} {value!r} of {path!r}: {tree.get(path)}")
    if len(tree[b"bin/ping"]["xattrs"]) != 3 or any(name in tree for name in (b"a", b"gone", b"opaque/old", b"usr/lib/kept", b"null2")):
        sys.exit("umoci_root: umoci does not show attributes, or not what whiteouts remove")


def compare(user, image, directory, everything):
    bundle = os.path.join(directory, "bundle")
    run([require_program("umoci"), "unpack", "--image", image, bundle])
    expected = facts_of(os.path.join(bundle, "rootfs"), without=OURS)
    shutil.rmtree(bundle)
    if everything:
        check_the_oracle(expected)
    squashfs = convert(user, image, directory)
    failed = False
    for reader, found in readings(squashfs, directory, everything):
        lines = differences(expected, found)
        print(f"umoci_root: {len(expected)} names, read by {reader}: {len(lines)} differences")
        for line in lines[:40]:
            print(f"  {line}")
        failed |= bool(lines)
    if failed:
        sys.exit("umoci_root: what was converted is not what umoci unpacks")


def main():
    if len(sys.argv) < 2 or os.geteuid() != 0:
        sys.exit(__doc__)
    if sys.argv[1] != PRIVATE:  # mounts go with the namespace, whatever ends us
        os.execvp("unshare", ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", __file__, PRIVATE,
                              *sys.argv[1:]])
    user, images = pwd.getpwnam(sys.argv[2]), sys.argv[3:]
    os.umask(0o022)
    directory = tempfile.mkdtemp(prefix="slipway-umoci-")
    try:
        os.chmod(directory, 0o755)
        copy_of_program(directory)
        image = images[0] if images else traps(directory)
        compare(user, image if ":" in os.path.basename(image) else f"{image}:latest", directory, everything=not images)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
