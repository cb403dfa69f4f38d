"""Training: the same job inside containers and outside, in turn, under each MPI launcher.

Must not: need privilege.
"""
import os
import statistics
import subprocess
import sys

import bench


def image():
    """The quickstart's image; it is made by recipes/quickstart/run.sh."""
    path = os.path.join(bench.SOURCE, "build", "quickstart", "digits.sqfs")
    if not os.path.exists(path):
        sys.exit("the quickstart's image is not there; run recipes/quickstart/run.sh first")
    return path


def throughput(argv):
    done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    for line in done.stdout.splitlines():
        if line.startswith("throughput "):
            return float(line.split()[1])
    raise SystemExit(f"{' '.join(argv)}: no throughput\n{done.stdout}\n{done.stderr}")


def main():
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    squashfs = image()
    data = os.path.join(bench.SOURCE, "recipes", "quickstart", "data")
    job = ["--model", "lenet", "--epochs", "60"]
    print(f"LeNet on 8x8 digits, images/s, {turns} runs in turn; limit: inside >= 0.99 x outside ({bench.machine()})")
    print(f"  {'':28} {'inside':>10} {'outside':>10} {'ratio':>8}")
    for launcher in ("mpiexec.openmpi", "mpiexec.mpich"):
        for ranks in (1, 2):
            launch = [bench.need(launcher), "-n", str(ranks)]
            inside, outside = [], []
            for turn in range(turns + 1):
                a = throughput(launch + [bench.SLIPWAY, "run", squashfs, "--", "slipway-train", "--data",
                                         "/data/digits", *job])
                b = throughput(launch + [bench.TRAIN, "--data", data, *job])
                if turn > 0:
                    inside.append(a)
                    outside.append(b)
            ratio = statistics.median(a / b for a, b in zip(inside, outside))
            print(f"  {launcher + ', ' + str(ranks) + ' ranks':28} {statistics.median(inside):10.0f} "
                  f"{statistics.median(outside):10.0f} {ratio:8.3f}", flush=True)


if __name__ == "__main__":
    main()
