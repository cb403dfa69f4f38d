"""What the start-up benchmark's figures say: the targets, the tables on the terminal and in the documentation.

Must not: measure.
"""
import collections
import statistics

CHROOT, NATIVE = "unshare -Urm chroot (limit)", "native"
OURS, OURS_NONE, OURS_ENTERING = "slipway", "slipway --session=none", "slipway, entering a session"
RANKS = (32, 128, 200)
WAITING_RANKS = 128

# `figure`, of the medians, is None if it could not be measured; it must not exceed `limit`. `least` is the same of the
# shortest times: on a busy machine it is nearer to the truth, and decides nothing.
Target = collections.namedtuple("Target", "what figure least beside limit unit")


def medians(of):
    return {name: statistics.median(values) for name, values in of.items()}


def shortest(of):
    return {name: min(values) for name, values in of.items()}


def best_peer(of, own_file=None):
    """The name of the fastest that is neither ours nor a limit; `own_file`: of those with a file that their own tools
    made (True), or with ours (False)."""
    others = {name: values for name, values in medians(of).items()
              if name not in (NATIVE, CHROOT) and not name.startswith("slipway") and own_file in (None, "," in name)}
    return min(others, key=others.get)


def targets(times, waiting):
    """What the start-up must reach: [Target]."""
    def ratio(what, group, ours, beside, limit):
        of = times[group]
        if ours not in of or beside not in of:
            return Target(what, None, None, beside, limit, "x")
        figure, least = (known[ours] / known[beside] for known in (medians(of), shortest(of)))
        return Target(what, figure, least, beside, limit, "x")

    squashfs = times["squashfs"]
    rows = [ratio("start, directory", "directory", OURS, best_peer(times["directory"]), 0.75),
            ratio("start, squashfs, each its own", "squashfs", OURS, best_peer(squashfs, own_file=True), 0.5),
            ratio("start, squashfs, ours for all", "squashfs", OURS, best_peer(squashfs, own_file=False), 0.5)]
    rows.append(ratio("entering a session", "squashfs", OURS_ENTERING, CHROOT, 1.3))
    rows += [ratio(f"{ranks} ranks, squashfs", f"{ranks} ranks", OURS, NATIVE, 2.0) for ranks in RANKS]
    ours = waiting.get(OURS)
    rows.append(Target("memory of a waiting rank", extra_pss(waiting, OURS), None, NATIVE, 150.0, "KiB"))
    rows.append(Target(f"FUSE servers of {WAITING_RANKS} ranks", ours and ours["fuse_servers"], None, "", 1, ""))
    return rows


def extra_pss(waiting, name):
    """KiB of proportional set size a rank beyond the command's own, or None."""
    if not waiting.get(name) or not waiting.get(NATIVE):
        return None
    return (waiting[name]["pss_kib"] - waiting[NATIVE]["pss_kib"]) / WAITING_RANKS


def warn_if_busy(share):
    """Say so if this machine works for others as well."""
    if share > 0.05:
        print(f"{share:.0%} of the processors' time is used by something else: these figures are not worth keeping")


def verdict(row):
    if row.figure is None:
        return "not measured"
    return "met" if row.figure <= row.limit else "missed"


def print_waiting(waiting):
    print(f"\n{WAITING_RANKS} ranks asleep: proportional set size of all processes, and a rank beyond native")
    print(f"  {'':44} {'PSS':>9} {'a rank':>9} {'processes':>9} {'FUSE servers':>12} {'all up after':>12}")
    for name, told in waiting.items():
        if not told:
            continue
        extra = extra_pss(waiting, name)
        shown = "" if extra is None else f"{extra:.0f} KiB"
        unread = f"   {told['unreadable']} not readable: their resident size" if told["unreadable"] else ""
        print(f"  {name:44} {told['pss_kib'] / 1024:5.1f} MiB {shown:>9} {told['processes']:9} "
              f"{told['fuse_servers']:12} {told['up_s'] * 1000:9.0f} ms{unread}")


def print_targets(rows):
    print("\ntargets")
    print(f"  {'':30} {'figure':>8} {'at most':>8} {'':17} {'of the shortest':>15}")
    for row in rows:
        figure = "none" if row.figure is None else f"{row.figure:.2f}"
        beside = f"beside {row.beside}" if row.beside else ""
        least = "" if row.least is None else f"{row.least:.2f}"
        print(f"  {row.what:30} {figure:>8} {row.limit:8.2f} {row.unit:4} {verdict(row):12} {least:>15} {beside}")


def markdown(times, waiting, rows, facts):
    """The same as tables for docs/reference/benchmarks.md."""
    busy = max(facts["busy_before"], facts["busy_after"])
    lines = [f"{facts['machine']}; {busy:.0%} of the processors' time used by others. "
             + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()) + ".", ""]
    lines += ["| start to exit of /bin/true, ms | directory | squashfs |", "|---|--:|--:|"]
    one = {group: medians(times[group]) for group in ("directory", "squashfs")}
    for name in dict.fromkeys([*one["directory"], *one["squashfs"]]):
        cells = [f"{one[group][name] * 1000:.2f}" if name in one[group] else "–" for group in one]
        lines.append(f"| {name} | {cells[0]} | {cells[1]} |")
    known = {ranks: medians(times[f"{ranks} ranks"]) for ranks in RANKS}
    lines += ["", "| at once, squashfs, ms | " + " | ".join(str(ranks) for ranks in RANKS)
              + " | memory of a rank that waits | FUSE servers |", "|---" + "|--:" * (len(RANKS) + 2) + "|"]
    for name in dict.fromkeys(name for of in known.values() for name in of):
        cells = [f"{of[name] * 1000:.0f}" if name in of else "–" for of in known.values()]
        extra, told = extra_pss(waiting, name), waiting.get(name)
        cells.append("–" if extra is None or name == NATIVE else f"{extra:.0f} KiB")
        cells.append(str(told["fuse_servers"]) if told else "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "| target | figure | at most | |", "|---|--:|--:|---|"]
    for row in rows:
        figure = "none" if row.figure is None else f"{row.figure:.2f}"
        beside = {"x": f"× {row.beside}", "KiB": "KiB beyond native"}.get(row.unit, "")
        lines.append(f"| {row.what} | {figure} | {row.limit:g} {beside} | {verdict(row)} |")
    return "\n".join(lines) + "\n"
