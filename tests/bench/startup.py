"""Start-up: from start to exit of /bin/true, ours beside bubblewrap and Debian's Charliecloud.

Must not: need privilege, or leave anything but its images in $SLIPWAY_BENCH_DIR.
"""
import os
import subprocess
import sys

import bench


def images():
    """The base image as a directory and as a squashfs file."""
    root = os.path.join(bench.WORK, "root")
    squashfs = os.path.join(bench.WORK, "root.sqfs")
    name = bench.base_image()
    if not os.path.isdir(root):
        subprocess.run([bench.SLIPWAY, "convert", name, root], check=True)
    if not os.path.exists(squashfs):
        subprocess.run([bench.SLIPWAY, "convert", name, squashfs], check=True)
    return root, squashfs


def main():
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 31
    root, squashfs = images()
    true = "/bin/true"
    bwrap, ch_run, unshare = bench.need("bwrap"), bench.need("ch-run"), bench.need("unshare")
    ours = bench.SLIPWAY
    print(f"start-up of /bin/true, {runs} runs in turn ({bench.machine()})")

    directory = {
        "native": [true],
        "unshare -Urm chroot (limit)": [unshare, "-Urm", "/usr/sbin/chroot", root, true],
        "bubblewrap, directory": [bwrap, "--ro-bind", root, "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc",
                                  "--ro-bind", "/sys", "/sys", "--bind", "/tmp", "/tmp", true],
        "ch-run, directory": [ch_run, root, "--", true],
        "slipway, directory, own session": [ours, "run", "--session=none", root, "--", true],
        "slipway, directory": [ours, "run", root, "--", true],
    }
    bench.table("directory", bench.in_turn(directory, runs), "native")

    holder = subprocess.Popen([ours, "run", "--session=bench", squashfs, "--", "/bin/sleep", "3600"])
    try:
        image = {
            "native": [true],
            "ch-run, squashfs": [ch_run, squashfs, "--", true],
            "slipway, squashfs, own session": [ours, "run", "--session=none", squashfs, "--", true],
            "slipway, squashfs, entering a session": [ours, "run", "--session=bench", squashfs, "--", true],
        }
        bench.table("squashfs", bench.in_turn(image, runs), "native")
    finally:
        holder.kill()
        holder.wait()

    for ranks in (32, 128):
        together = {
            "native": [true],
            "ch-run, squashfs": [ch_run, squashfs, "--", true],
            "slipway, squashfs": [ours, "run", squashfs, "--", true],
        }
        bench.table(f"{ranks} at once", bench.in_turn(together, max(3, runs // 6), copies=ranks), "native")


if __name__ == "__main__":
    main()
