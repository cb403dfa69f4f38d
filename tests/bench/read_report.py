"""What the reading benchmark's figures say: the limits, the tables on the terminal and in the documentation.

Must not: measure.
"""
import collections
import statistics

import bench

DIRECTORY, KERNEL = "directory (native)", "kernel squashfs"
OLDER, NEWEST = "squashfuse_ll (host)", "squashfuse_ll (sid)"
CH_RUN, CH_RUN_NEW, APPTAINER = "ch-run (host)", "ch-run (sid)", "apptainer (sid)"
OURS, OURS_LIVING = "slipway", "slipway, in a session"

# (row, ours, beside, at most): ratios of medians.
LIMITS = [
    ("walk, cold", OURS, NEWEST, 0.6),
    ("walk, again", OURS, NEWEST, 0.15),
    ("walk, again", OURS, KERNEL, 1.0),
    ("read, cold", OURS, NEWEST, 0.6),
    ("read, cold", OURS, DIRECTORY, 1.0),
    ("random, cold", OURS, KERNEL, 1.0),
    ("import torch, fresh", OURS, CH_RUN, 0.75),
    ("import torch, again", OURS_LIVING, DIRECTORY, 1.1),
    ("/bin/true", OURS, CH_RUN, 0.5),
]
Target = collections.namedtuple("Target", "row beside figure least limit")


def targets(times):
    """[Target]: `figure` is the ratio of the medians, None if one of the two was not measured; `least` of the shortest
    times, which other work on the machine disturbs less."""
    rows = []
    for row, ours, beside, limit in LIMITS:
        of = times.get(row, {})
        if ours in of and beside in of:
            ratios = (statistics.median(of[ours]) / statistics.median(of[beside]), min(of[ours]) / min(of[beside]))
            rows.append(Target(row, beside, *ratios, limit))
        else:
            rows.append(Target(row, beside, None, None, limit))
    return rows


def verdict(row):
    if row.figure is None:
        return "not measured"
    return "met" if row.figure <= row.limit else "missed"


def heading(facts):
    busy = f"; {facts['busy']:.0%} of the processors' time used by others" if facts["busy"] > 0.05 else ""
    return (f"{facts['machine']}; an image of {facts['files']} files, {facts['image_mib']} MiB as squashfs{busy}. "
            f"Cold: {facts['caches']}, and a fresh server.")


def print_all(times, told):
    for row, of in times.items():
        bench.table(row, of, OURS if OURS in of else OURS_LIVING)
        figures = told.get(row, {})
        if row.startswith("random"):
            print("  reads a second: " + ", ".join(f"{name} {value:,.0f}" for name, value in figures.items()))
        elif len(set(figures.values())) > 1:
            print("  they saw (names or bytes): " + ", ".join(f"{name} {value:,.0f}" for name, value in figures.items()))


def print_targets(rows):
    print(f"\nlimits\n  {'':22} {'beside':24} {'figure':>8} {'at most':>8}  {'':13} of the shortest")
    for row in rows:
        figure, least = ("none" if value is None else f"{value:.2f}" for value in (row.figure, row.least))
        print(f"  {row.row:22} {row.beside:24} {figure:>8} {row.limit:8.2f}  {verdict(row):13} {least}")


def markdown(times, told, rows, facts):
    """The same as tables for docs/reference/benchmarks.md."""
    names = list(dict.fromkeys(name for of in times.values() for name in of))
    lines = [heading(facts), "", "| ms | " + " | ".join(times) + " |", "|---" + "|--:" * len(times) + "|"]
    for name in names:
        cells = [f"{statistics.median(of[name]) * 1000:.1f}" if name in of else "–" for of in times.values()]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    reads = told.get("random, cold", {})
    if reads:
        lines += ["", "Reads a second: " + ", ".join(f"{name} {value:,.0f}" for name, value in reads.items()) + "."]
    lines += ["", "| limit | figure | at most | of the shortest | |", "|---|--:|--:|--:|---|"]
    for row in rows:
        figure, least = ("none" if value is None else f"{value:.2f}" for value in (row.figure, row.least))
        lines.append(f"| {row.row} | {figure} | {row.limit:g} × {row.beside} | {least} | {verdict(row)} |")
    return "\n".join(lines) + "\n"
