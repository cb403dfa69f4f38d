"""Start-up: from start to exit of /bin/true, ours beside the peers and the limit in one run; what waiting ranks cost.

Must not: need privilege, or leave anything but its images in $SLIPWAY_BENCH_DIR and the peers in the user's cache.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import time

import bench
import peers as peer_commands
import resident
import startup_report as report
from peers import Start
from startup_report import CHROOT, NATIVE, OURS, OURS_ENTERING, OURS_NONE, RANKS, WAITING_RANKS

TRUE, SLEEP = ["/bin/true"], ["/bin/sleep", "3600"]
SETTLE_S = 0.02  # what a command leaves to the background (FUSE servers, brokers) ends before the next is measured


def images():
    """The base image as a directory and as a squashfs file."""
    os.makedirs(bench.WORK, exist_ok=True)
    root = os.path.join(bench.WORK, "root")
    squashfs = os.path.join(bench.WORK, "root.sqfs")
    name = bench.base_image()
    if not os.path.isdir(root):
        subprocess.run([bench.SLIPWAY, "convert", name, root], check=True)
    if not os.path.exists(squashfs):
        subprocess.run([bench.SLIPWAY, "convert", name, squashfs], check=True)
    return root, squashfs


def single_starts(peers, session):
    """{group: {name: Start}} of one process at a time."""
    root, squashfs = peers.root, peers.squashfs
    limits = {NATIVE: Start(TRUE), CHROOT: Start([bench.need("unshare"), "-Urm", "/usr/sbin/chroot", root, *TRUE])}
    directory = {
        **limits,
        "bubblewrap (host)": peers.bubblewrap(bench.need("bwrap"), TRUE),
        "bubblewrap (sid)": peers.bubblewrap(peers.new("bwrap"), TRUE),
        "ch-run (host)": peers.ch_run_old(root, TRUE),
        "ch-run (sid)": peers.ch_run_new(root, TRUE),
        "crun (sid), user and mount namespace": peers.crun("crun-two", TRUE, ["user", "mount"]),
        "crun (sid), its default namespaces": peers.crun("crun-default", TRUE),
        "apptainer (sid)": peers.apptainer(root, TRUE),
        OURS: peers.slipway(root, TRUE),
        OURS_NONE: peers.slipway(root, TRUE, "--session=none"),
    }
    image = {
        "ch-run (host)": peers.ch_run_old(squashfs, TRUE),
        "ch-run (sid)": peers.ch_run_new(squashfs, TRUE),
        "apptainer (sid)": peers.apptainer(squashfs, TRUE),
        "apptainer (sid), SIF": peers.apptainer(peers.sif(), TRUE),
        "ch-run (host), Charliecloud's file": peers.ch_run_old(peers.charliecloud_squashfs(), TRUE),
        "ch-run (sid), Charliecloud's file": peers.ch_run_new(peers.charliecloud_squashfs(), TRUE),
        OURS: peers.slipway(squashfs, TRUE),
        "slipway, SIF": peers.slipway(peers.sif(), TRUE),
        "slipway, Charliecloud's file": peers.slipway(peers.charliecloud_squashfs(), TRUE),
        OURS_NONE: peers.slipway(squashfs, TRUE, "--session=none"),
        OURS_ENTERING: peers.slipway(squashfs, TRUE, f"--session={session}"),
    }
    return {"directory": directory, "squashfs": image}


def rank_starts(peers):
    """{name: Start} of many at once; all from the squashfs file but where the name says otherwise."""
    return {
        NATIVE: Start(TRUE),
        "ch-run (host), directory": peers.ch_run_old(peers.root, TRUE),
        "ch-run (host)": peers.ch_run_old(peers.squashfs, TRUE),
        "ch-run (sid)": peers.ch_run_new(peers.squashfs, TRUE),
        "apptainer (sid)": peers.apptainer(peers.squashfs, TRUE),
        "slipway, directory": peers.slipway(peers.root, TRUE),
        OURS: peers.slipway(peers.squashfs, TRUE),
    }


def seconds_of(start, timer, copies=1):
    """Time one start of `copies` commands at once. Raises RuntimeError with what they said if one fails."""
    errors = os.path.join(bench.WORK, "errors")
    if os.path.exists(errors):
        os.unlink(errors)
    words = start.before + [timer, str(copies), os.path.abspath(errors), *start.argv]
    done = subprocess.run(words, env={**os.environ, **start.env}, stdin=subprocess.DEVNULL, capture_output=True,
                          text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    nanoseconds, failed, status = (int(word) for word in done.stdout.split())
    if failed:
        said = open(errors, encoding="utf-8", errors="replace").read() if os.path.exists(errors) else ""
        raise RuntimeError(f"{failed} of {copies} failed, the first with status {status}\n{said[:2000]}{done.stderr}")
    return nanoseconds / 1e9


def in_turn(starts, timer, runs, copies=1, budget_s=None):
    """Time {name: Start} A B C, B C A ...: {name: [seconds, ...]}, each turn in an order of its own, so that nothing
    always finds the caches as the same other one leaves them. The first turn warms up and counts only for what is so
    slow that it has few turns: later ones leave out what has used up `budget_s`. What fails is told and left out."""
    times, spent = {name: [] for name in starts}, dict.fromkeys(starts, 0.0)
    settle = SETTLE_S * (1 if copies == 1 else 10)
    for turn in range(runs + 1):
        for name, start in random.Random(turn).sample(list(starts.items()), len(starts)):
            if times[name] is None or (budget_s and times[name] and spent[name] > budget_s):
                continue
            try:
                seconds = seconds_of(start, timer, copies)
            except RuntimeError as error:
                shown = name if isinstance(name, str) else ", ".join(name)
                print(f"{shown}, {copies} at once: {error}", file=sys.stderr)
                times[name] = None
                continue
            spent[name] += seconds
            if turn > 0 or (budget_s and seconds > budget_s / 4):
                times[name].append(seconds)
            time.sleep(settle)
    return {name: values for name, values in times.items() if values}


def held_session(peers, session):
    """Start a rank that keeps a session alive, and return it once it runs its command."""
    start = peers.slipway(peers.squashfs, SLEEP, f"--session={session}")
    holder = subprocess.Popen(start.argv)
    deadline = time.monotonic() + 10
    while resident.command_name(holder.pid) != "sleep":
        if holder.poll() is not None or time.monotonic() > deadline:
            holder.kill()
            raise RuntimeError("the rank that should keep the session did not start")
        time.sleep(0.01)
    return holder


def measure(arguments):
    """All figures: {group: {name: [seconds, ...]}} and {name: what `resident.of_ranks` tells}, and the machine."""
    timer = bench.spawn_timer()
    peers = peer_commands.Peers(*images())
    facts = {"machine": bench.machine(), "busy_before": bench.busy_share(), "versions": peers.versions()}
    print(f"{facts['machine']}; a squashfs file of {os.path.getsize(peers.squashfs) >> 20} MiB")
    report.warn_if_busy(facts["busy_before"])
    print("versions: " + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    if peer_commands.without_hybrid_cgroups():
        print("crun refuses this machine's control groups: it is measured where they are hidden from it")

    session = f"bench-{os.getpid()}"
    holder = held_session(peers, session)
    try:
        groups = single_starts(peers, session)
        mixed = {(group, name): start for group, starts in groups.items() for name, start in starts.items()}
        timed = in_turn(mixed, timer, arguments.runs)
    finally:
        holder.kill()
        holder.wait()
    times = {group: {name: values for (of, name), values in timed.items() if of == group} for group in groups}
    times["squashfs"] = {**{name: times["directory"][name] for name in (NATIVE, CHROOT)}, **times["squashfs"]}
    for ranks in RANKS:
        runs = arguments.runs // 3 if ranks < 100 else arguments.runs // 6
        times[f"{ranks} ranks"] = in_turn(rank_starts(peers), timer, max(runs, 3), ranks, budget_s=10)

    waiting = {}
    commands = {
        NATIVE: Start(SLEEP),
        "ch-run (host), directory": peers.ch_run_old(peers.root, SLEEP),
        "ch-run (host)": peers.ch_run_old(peers.squashfs, SLEEP),
        "ch-run (sid)": peers.ch_run_new(peers.squashfs, SLEEP),
        "apptainer (sid)": peers.apptainer(peers.squashfs, SLEEP),
        OURS: peers.slipway(peers.squashfs, SLEEP),
    }
    for name, start in commands.items():
        waiting[name] = resident.of_ranks(start, WAITING_RANKS, "sleep")
    facts["busy_after"] = bench.busy_share()
    return times, waiting, facts


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--runs", type=int, default=41, help="how often each is started alone (41)")
    parser.add_argument("--json", metavar="FILE", help="write every figure to FILE as well")
    parser.add_argument("--markdown", metavar="FILE", help="write the tables of docs/reference/benchmarks.md to FILE")
    arguments = parser.parse_args()
    times, waiting, facts = measure(arguments)
    for group, of in times.items():
        bench.table(group, of, NATIVE)
    report.print_waiting(waiting)
    rows = report.targets(times, waiting)
    report.print_targets(rows)
    report.warn_if_busy(facts["busy_after"])
    if arguments.json:
        told = {**facts, "seconds": times, "waiting": waiting, "targets": [row._asdict() for row in rows]}
        with open(arguments.json, "w", encoding="utf-8") as stream:
            json.dump(told, stream, indent=1)
    if arguments.markdown:
        with open(arguments.markdown, "w", encoding="utf-8") as stream:
            stream.write(report.markdown(times, waiting, rows, facts))


if __name__ == "__main__":
    main()
