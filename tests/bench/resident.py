"""What ranks that wait cost: the proportional set size of everything a tool leaves running, and its FUSE servers.

Must not: count a process that is not below this one; leave one behind.
"""
import ctypes
import os
import signal
import sys
import time

import bench

PR_SET_CHILD_SUBREAPER = 36
TIMEOUT_S = 120


def command_name(pid):
    """The kernel's name of a process, or None."""
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as stream:
            return stream.read().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return None


def descendants():
    """The pids of all living processes below this one, those that have made themselves daemons included."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                with open(f"/proc/{entry}/stat", encoding="utf-8", errors="replace") as stream:
                    state, parent = stream.read().rpartition(")")[2].split()[:2]
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(entry))
    found, todo = [], [os.getpid()]
    while todo:
        children = parents.get(todo.pop(), [])
        found += children
        todo += children
    return found


def memory_of(pid):
    """(KiB, is it the proportional size?); a process that may not be looked into tells its resident size alone."""
    try:
        with open(f"/proc/{pid}/smaps_rollup", encoding="utf-8") as stream:
            return next(int(line.split()[1]) for line in stream if line.startswith("Pss:")), True
    except PermissionError:
        with open(f"/proc/{pid}/statm", encoding="utf-8") as stream:
            return int(stream.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024, False


def fuse_mounts(pid):
    """The device numbers of the FUSE file systems that a process sees: a server each."""
    with open(f"/proc/{pid}/mountinfo", encoding="utf-8") as stream:
        mounts = [[half.split() for half in line.split(" - ")] for line in stream]
    return {left[2] for left, right in mounts if right[0] == "fuse" or right[0].startswith("fuse.")}


def reap_all(deadline):
    """Kill everything below this process and wait for it; those in a pid namespace or a new session too."""
    while time.monotonic() < deadline:
        for pid in descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)
    raise RuntimeError("processes are left that do not end")


def of_ranks(start, ranks, name):
    """Start `ranks` copies of a command that waits, whose kernel name is `name`, look, and end them: a dictionary, or
    None (and a message) if they do not all come up."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")
    log = os.path.join(bench.WORK, "errors")
    before = fuse_mounts(os.getpid())
    began = time.monotonic()
    try:
        for _ in range(ranks):
            bench.spawn(start.argv, log, {**os.environ, **start.env})
        up = 0
        while up < ranks and time.monotonic() - began < TIMEOUT_S:
            time.sleep(0.02)
            up = sum(command_name(pid) == name for pid in descendants())
        up_s = time.monotonic() - began
        if up < ranks:
            print(f"{' '.join(start.argv)}: {up} of {ranks} came up in {TIMEOUT_S} s", file=sys.stderr)
            return None
        time.sleep(0.5)  # what still starts or ends besides
        running = descendants()
        sizes = [memory_of(pid) for pid in running]
        servers = set().union(*(fuse_mounts(pid) for pid in running)) - before
    finally:
        reap_all(time.monotonic() + 30)
        libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
    return {"pss_kib": sum(size for size, _ in sizes), "processes": len(running), "fuse_servers": len(servers),
            "unreadable": sum(not proportional for _, proportional in sizes), "up_s": up_s}
