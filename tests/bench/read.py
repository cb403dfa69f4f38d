"""Reading an image: a walk, everything once, pages at random, `import torch`, /bin/true; ours beside the peers, the
kernel's squashfs and a directory, in turn, in one run.

Must not: measure as root; root only empties the machine's caches and mounts for the kernel's row.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import bench
import peers as peer_commands
import read_report as report
import resident
from read_report import DIRECTORY, KERNEL, NEWEST, OLDER, OURS, OURS_LIVING

# The packages make some 53,000 files; `--small` is the base image alone.
RECIPE = """FROM {base}
RUN apt-get update && apt-get install -y --no-install-recommends \\
    python3-torch python3-scipy g++ libboost-dev cmake git perl linux-headers-amd64 && apt-get clean
"""
SMALL_RECIPE = "FROM {base}\nRUN apt-get update && apt-get install -y --no-install-recommends python3 && apt-get clean\n"
WORKER = os.path.join(bench.SOURCE, "tests/bench/read_worker.py")
RANDOM_READS = 20000
TORCH = ["/usr/bin/python3", "-c", "import torch"]
TIMEOUT_S = 300


def make_images(arguments):
    """Return (directory, squashfs file): --image and --root, or built here."""
    if arguments.image:
        return os.path.abspath(arguments.root), os.path.abspath(arguments.image)
    name = "read-small" if arguments.small else "read"
    root, squashfs = (os.path.join(bench.WORK, name + suffix) for suffix in ("", ".sqfs"))
    if not os.path.exists(squashfs):
        recipe = (SMALL_RECIPE if arguments.small else RECIPE).format(base=bench.base_image())
        with tempfile.TemporaryDirectory() as context:
            with open(os.path.join(context, "Dockerfile"), "w", encoding="utf-8") as stream:
                stream.write(recipe)
            subprocess.run([bench.SLIPWAY, "build", "-t", name, "-o", squashfs, context], check=True)
    if not os.path.isdir(root):
        subprocess.run([bench.SLIPWAY, "convert", name, root], check=True)
    return os.path.abspath(root), os.path.abspath(squashfs)


def large_file(root):
    """The largest file's path inside the image, and its size."""
    largest = (0, "")
    for directory, _, files in os.walk(os.path.join(root, "usr")):
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                largest = max(largest, (os.path.getsize(path), path))
    return "/" + os.path.relpath(largest[1], root), largest[0]


def count_files(root):
    return sum(len(directories) + len(files) for _, directories, files in os.walk(root)) + 1


class Caches:
    """Forgets what the machine has read. Root empties all caches; a user those of the image's and the directory's
    data, and the directory's names stay known."""

    def __init__(self, root, squashfs):
        self.all = os.geteuid() == 0
        self.paths = [squashfs]
        if not self.all:
            self.paths += [os.path.join(top, name) for top, _, files in os.walk(root) for name in files]

    def drop(self):
        if self.all:
            os.sync()
            with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as stream:
                stream.write("3")
            return
        for path in self.paths:
            if os.path.isfile(path) and not os.path.islink(path) and os.access(path, os.R_OK):
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)


def call(start, user):
    """Run a command as the ordinary user: (seconds, what it printed). Raises RuntimeError with what it said."""
    words = start.before + start.argv
    if user:
        words = peer_commands.as_user(user, start)
    begin = time.perf_counter()
    done = subprocess.run(words, env={**os.environ, **start.env}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False, timeout=TIMEOUT_S)
    seconds = time.perf_counter() - begin
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)[:300]}: status {done.returncode}\n{done.stderr[:2000]}")
    return seconds, done.stdout


def works(root):
    """{work: the worker's command line}, of those that this image allows."""
    with open(WORKER, encoding="utf-8") as stream:
        worker = ["/usr/bin/python3", "-B", "-c", stream.read()]
    path, _ = large_file(root)
    return {"walk": worker + ["walk"], "read": worker + ["read"],
            "random": worker + ["random", path, str(RANDOM_READS)]}


def in_turn(rows, caches, user, runs, take):
    """{name: Start} A B C A B C ...: {name: [what `take` makes of (seconds, output), ...]}; each with cold caches and,
    by its nature, a fresh server. What fails is told and left out."""
    found = {name: [] for name in rows}
    for _ in range(runs):
        for name, start in rows.items():
            if found[name] is None:
                continue
            caches.drop()
            try:
                found[name].append(take(*call(start, user)))
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                print(f"{name}: {error}", file=sys.stderr)
                found[name] = None
    return {name: values for name, values in found.items() if values}


def timed_inside(peers, caches, arguments):
    """The worker's rows: {row: {name: [seconds, ...]}}, and {row: {name: names, bytes or reads a second}}."""
    times, told = {}, {}
    for work, command in works(peers.root).items():
        if arguments.only and work not in arguments.only:
            continue
        rows = peers.readers(command)
        found = in_turn(rows, caches, arguments.user, arguments.runs, lambda _, output: json.loads(output))
        for phase in ("cold", "again"):
            times[f"{work}, {phase}"] = {name: [v[phase][0] for v in values] for name, values in found.items()
                                         if phase in values[0]}
            told[f"{work}, {phase}"] = {name: statistics.median(v[phase][1] for v in values)
                                        for name, values in found.items() if phase in values[0]}
    return {row: of for row, of in times.items() if of}, told


def in_session(peers, command, user, runs):
    """Seconds of a command in a session that another rank keeps, from the third time on."""
    session = f"read-{os.getpid()}"
    keep = peers.slipway(peers.squashfs, ["/bin/sleep", "3600"], f"--session={session}")
    holder = subprocess.Popen(peer_commands.as_user(user, keep) if user else keep.argv)
    try:
        deadline = time.monotonic() + 10
        while resident.command_name(holder.pid) != "sleep":
            if holder.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("the rank that should keep the session did not start")
            time.sleep(0.01)
        start = peers.slipway(peers.squashfs, command, f"--session={session}")
        return [call(start, user)[0] for _ in range(runs + 2)][2:]
    finally:
        holder.kill()
        holder.wait()


def timed_outside(peers, caches, arguments):
    """Whole runs, from start to exit: {row: {name: [seconds, ...]}}."""
    times = {}
    torch = os.path.isdir(os.path.join(peers.root, "usr/lib/python3/dist-packages/torch"))
    if torch and (not arguments.only or "torch" in arguments.only):
        rows = {name: start for name, start in peers.readers(TORCH).items() if name not in (KERNEL, OLDER)}
        rows |= peers.starters(TORCH)
        times["import torch, fresh"] = in_turn(rows, caches, arguments.user, arguments.runs, lambda s, _: s)
        warm = in_turn({DIRECTORY: rows[DIRECTORY]}, NoCaches, arguments.user, arguments.runs + 2, lambda s, _: s)
        times["import torch, again"] = {DIRECTORY: warm[DIRECTORY][2:],
                                        OURS_LIVING: in_session(peers, TORCH, arguments.user, arguments.runs)}
    if not arguments.only or "true" in arguments.only:
        rows = peers.starters(["/bin/true"])
        times["/bin/true"] = in_turn(rows, NoCaches, arguments.user, 4 * arguments.runs + 1, lambda s, _: s)
    return times


class NoCaches:
    """For rows that are measured warm."""

    @staticmethod
    def drop():
        time.sleep(0.02)  # what the last one leaves in the background ends


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=5, help="how often each is measured (5)")
    parser.add_argument("--small", action="store_true", help="the base image and Python instead of 53,000 files")
    parser.add_argument("--images-only", action="store_true", help="build the images, which is an ordinary user's work, and end")
    parser.add_argument("--image", metavar="FILE", help="another squashfs file; needs --root, the same as a directory")
    parser.add_argument("--root", metavar="DIRECTORY")
    parser.add_argument("--only", action="append", choices=["walk", "read", "random", "torch", "true"])
    parser.add_argument("--user", help="as root: the ordinary user who runs what is measured")
    parser.add_argument("--json", metavar="FILE", help="write every figure to FILE as well")
    parser.add_argument("--markdown", metavar="FILE", help="write the table of docs/reference/benchmarks.md to FILE")
    arguments = parser.parse_args()
    if bool(arguments.image) != bool(arguments.root):
        parser.error("--image and --root go together: the same tree in two forms")
    if os.geteuid() == 0 and not arguments.user:
        parser.error("as root name the ordinary user who runs what is measured: --user NAME")
    os.makedirs(bench.WORK, exist_ok=True)
    images = make_images(arguments)
    if arguments.images_only:
        return
    peers = peer_commands.Peers(*images)
    facts = {"machine": bench.machine(), "busy": bench.busy_share(), "files": count_files(peers.root),
             "image_mib": os.path.getsize(peers.squashfs) >> 20, "caches": "all dropped" if os.geteuid() == 0 else
             "the image's and the files' data dropped, names in the kernel stay"}
    print(report.heading(facts))
    if os.geteuid() != 0:
        print(f"{KERNEL}: left out, only root can mount it (run this as root, with --user NAME)")
    caches = Caches(peers.root, peers.squashfs)
    times, told = timed_inside(peers, caches, arguments)
    times |= timed_outside(peers, caches, arguments)
    report.print_all(times, told)
    rows = report.targets(times)
    report.print_targets(rows)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as stream:
            json.dump({**facts, "seconds": times, "told": told, "targets": [row._asdict() for row in rows]}, stream,
                      indent=1)
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as stream:
            stream.write(report.markdown(times, told, rows, facts))


if __name__ == "__main__":
    main()
