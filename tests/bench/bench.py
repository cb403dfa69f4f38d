"""What the benchmarks share: commands timed in turn, medians, a table with ratios.

Must not: judge; a figure is a ratio beside a peer of the same run, never a test.
"""
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

BUILD = os.environ.get("SLIPWAY_BUILD_DIR", "build/release")
WORK = os.environ.get("SLIPWAY_BENCH_DIR", "build/bench")
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SLIPWAY = os.path.join(BUILD, "bin", "slipway")
TRAIN = os.path.join(BUILD, "bin", "slipway-train")


def machine():
    """One line: date, processors, kernel."""
    return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} CPUs, kernel {platform.release()}"


def busy_share(seconds=1.0):
    """Return how much of the processors' time is used at the moment, 0 to 1."""
    def ticks():
        with open("/proc/stat", encoding="utf-8") as stream:
            fields = [int(word) for word in stream.readline().split()[1:9]]
        return sum(fields), fields[3] + fields[4]
    all_before, idle_before = ticks()
    time.sleep(seconds)
    all_after, idle_after = ticks()
    return 1 - (idle_after - idle_before) / max(1, all_after - all_before)


def need(program):
    """Return the program's path, or end with what to install."""
    path = shutil.which(program)
    if not path:
        sys.exit(f"{program} is not installed; run packaging/install-deps.sh bench")
    return path


def spawn_timer():
    """Return the program that measures starts, compiled here: what Python's own processes cost is not in its figure."""
    source = os.path.join(SOURCE, "tests/bench/spawn_timer.cpp")
    program = os.path.abspath(os.path.join(WORK, "spawn_timer"))
    if not os.path.exists(program) or os.path.getmtime(program) < os.path.getmtime(source):
        subprocess.run([need("c++"), "-O2", "-std=c++20", "-o", program, source], check=True)
    return program


def spawn(argv, log, env=None):
    actions = [(os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
               (os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0),
               (os.POSIX_SPAWN_OPEN, 2, log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)]
    return os.posix_spawn(argv[0], argv, env or os.environ, file_actions=actions)


def once(argv, copies=1):
    """Start `copies` of a command at once and wait for all: (seconds, largest resident set of one in MB)."""
    with tempfile.TemporaryDirectory() as logs:
        start = time.perf_counter()
        pids = [spawn(argv, f"{logs}/{i}") for i in range(copies)]
        peak = 0
        for i, pid in enumerate(pids):
            _, status, usage = os.wait4(pid, 0)
            peak = max(peak, usage.ru_maxrss)
            if status != 0:
                message = open(f"{logs}/{i}", encoding="utf-8", errors="replace").read()
                raise RuntimeError(f"{' '.join(argv)}: status {os.waitstatus_to_exitcode(status)}\n{message}")
        return time.perf_counter() - start, peak / 1024


def in_turn(commands, runs, copies=1, before=None):
    """Time {name: argv} A B C A B C ...: {name: [seconds, ...]}; one that fails is reported and left out."""
    times = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, argv in commands.items():
            if times[name] is None:
                continue
            try:
                if before:
                    before(name)
                seconds, _ = once(argv, copies)
            except RuntimeError as error:
                print(f"{name} failed: {error}", file=sys.stderr)
                times[name] = None
                continue
            if turn > 0:  # the first turn warms up
                times[name].append(seconds)
    return {name: values for name, values in times.items() if values}


def table(title, times, reference, unit="ms"):
    """Print the median, least and greatest of each, and its ratio to the reference."""
    scale = 1000 if unit == "ms" else 1
    print(f"\n{title}")
    print(f"  {'':44} {'median':>9} {'min':>9} {'max':>9}   x {reference}")
    base = statistics.median(times[reference]) if reference in times else None
    for name, values in times.items():
        median = statistics.median(values)
        ratio = f"{median / base:7.2f}" if base else ""
        print(f"  {name:44} {median * scale:9.2f} {min(values) * scale:9.2f} {max(values) * scale:9.2f} {unit} {ratio}")


def base_image():
    """Return the name of a stored Debian or Ubuntu base, made if absent."""
    release = dict(line.rstrip("\n").split("=", 1) for line in open("/etc/os-release", encoding="utf-8") if "=" in line)
    suite = release["VERSION_CODENAME"].strip('"')
    name = f"{release['ID'].strip(chr(34))}:{suite}"
    if subprocess.run([SLIPWAY, "-q", "inspect", name], capture_output=True, check=False).returncode != 0:
        subprocess.run([SLIPWAY, "bootstrap", suite, "-t", name], check=True)
    return name
