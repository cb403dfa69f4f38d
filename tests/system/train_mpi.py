"""slipway-train under both MPIs: ranks agree with one process, find each other or say why not, and leave nothing behind.

Must not: run as root (the launchers refuse), or need a network.
"""
import glob
import gzip
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

from slipway_test import processes_of

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.environ.get("SLIPWAY_BUILD_DIR", os.path.join(HERE, "..", "..", "build"))
PROGRAM = os.path.join(BUILD, "bin", "slipway-train")
DIGITS = os.path.join(HERE, "..", "..", "recipes", "quickstart", "data")
LAUNCHERS = {"openmpi": ["mpiexec.openmpi", "--oversubscribe"], "mpich": ["mpiexec.mpich"]}


def clean_environment(**extra):
    """Ours, without what a surrounding launcher or batch system may have set."""
    foreign = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "MPI_", "UCX_", "SLIPWAY_TRANSPORT")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(foreign)}
    environment.update(extra)
    return environment


def read_checkpoint(path):
    """Header and floats, by the format's description in src/train/checkpoint.hpp."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"SLPWTRN\n", data[:8]
    version, size = struct.unpack_from("<II", data, 8)
    assert version == 1
    header = json.loads(data[16:16 + size])
    body = data[16 + size:-32]
    return header, struct.unpack(f"<{len(body) // 4}f", body)


class TrainMpi(unittest.TestCase):
    def setUp(self):
        self.place = tempfile.mkdtemp(prefix="slipway-train-test-")
        os.chmod(self.place, 0o755)
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.shm_before = set(os.listdir("/dev/shm"))

    def environment(self, **extra):
        """Of the programs that a test starts: their files go into its directory, which tells them from others', too."""
        return clean_environment(TMPDIR=self.place, **extra)

    def tearDown(self):
        deadline = time.monotonic() + 10
        while (living := processes_of(self.place)) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual(living, {}, "processes were left behind")
        ours = ("slipway", f".{os.getuid()}.")  # Open MPI puts the user's number into its names
        left = {name for name in os.listdir("/dev/shm") if any(part in name for part in ours)} - self.shm_before
        self.assertEqual(left, set(), "left in /dev/shm")

    def command(self, *arguments, epochs=3):
        data = [] if "--data" in arguments else ["--data", DIGITS]
        return [PROGRAM, *data, "--epochs", str(epochs), *arguments]

    def run_ranks(self, launcher, ranks, *arguments, status=0, environment=None, epochs=3):
        command = self.command(*arguments, epochs=epochs)
        if launcher:
            command = LAUNCHERS[launcher] + ["-n", str(ranks)] + command
        result = subprocess.run(command, capture_output=True, text=True, timeout=240,
                                env=environment or self.environment())
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def test_accuracy_and_output(self):
        for launcher, ranks in ((None, 1), ("openmpi", 2), ("mpich", 2), ("openmpi", 4), ("mpich", 4)):
            with self.subTest(launcher=launcher, ranks=ranks):
                report = os.path.join(self.place, "report.json")
                result = self.run_ranks(launcher, ranks, "--model", "lenet", f"--json={report}", epochs=30)
                lines = result.stdout.splitlines()
                self.assertRegex(lines[-1], r"^test accuracy 0\.\d{4}$|^test accuracy 1\.0000$")
                self.assertRegex(lines[-2], r"^throughput \d+ images/s$")
                self.assertGreaterEqual(float(lines[-1].split()[-1]), 0.96)
                self.assertEqual(result.stdout.count("test accuracy"), 1)
                self.assertEqual(result.stderr.count("epoch 30/30"), 1, "only rank 0 speaks")
                with open(report) as file:
                    facts = json.load(file)
                self.assertEqual(facts["ranks"], ranks)
                self.assertEqual(facts["transport"], f"{launcher}+shm" if launcher else "single")
                self.assertEqual(facts["epochs"], 30)
                self.assertAlmostEqual(facts["accuracy"], float(lines[-1].split()[-1]), places=4)

    def small_data(self, count):
        """The first `count` training digits and all test digits, plain."""
        place = os.path.join(self.place, "small")
        os.mkdir(place)
        for name in ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte",
                     "t10k-labels-idx1-ubyte"):
            with gzip.open(os.path.join(DIGITS, name + ".gz")) as file:
                data = file.read()
            if name.startswith("train"):
                header, item = (16, 64) if "images" in name else (8, 1)
                data = data[:4] + struct.pack(">I", count) + data[8:header + count * item]
            with open(os.path.join(place, name), "wb") as file:
                file.write(data)
        return place

    def test_ranks_compute_what_one_process_computes(self):
        # Few steps: rounding alone differs, and later it would decide on which side of a ReLU a
        # number falls. The last batch is a partial one, which 2, 3 and 4 do not divide.
        data = self.small_data(64 * 3 + 29)
        alone = os.path.join(self.place, "alone")
        self.run_ranks(None, 1, "--model", "lenet", "--data", data, "--checkpoint", alone, epochs=1)
        _, expected = read_checkpoint(alone)
        largest = max(abs(value) for value in expected)
        ways = [("openmpi", 2, []), ("mpich", 2, []), ("mpich", 3, []),
                ("openmpi", 2, ["--no-shared-memory", "--overlap", "thread", "--bucket-bytes", "65536"]),
                ("mpich", 2, ["--no-shared-memory", "--overlap", "inline", "--bucket-bytes", "65536"]),
                ("mpich", 4, ["--overlap", "inline", "--bucket-bytes", "65536"])]
        for launcher, ranks, options in ways:
            with self.subTest(launcher=launcher, ranks=ranks, options=options):
                path = os.path.join(self.place, f"{launcher}{ranks}{len(options)}")
                self.run_ranks(launcher, ranks, "--model", "lenet", "--data", data, "--checkpoint", path, *options,
                               epochs=1)
                header, found = read_checkpoint(path)
                self.assertEqual(header["ranks"], ranks)
                self.assertEqual(len(found), len(expected))
                worst = max(abs(a - b) for a, b in zip(expected, found))
                self.assertLess(worst, 1e-4 * largest)

    def test_resume_gives_the_same_bits(self):
        for launcher in LAUNCHERS:
            with self.subTest(launcher=launcher):
                whole, parts = (os.path.join(self.place, f"{launcher}-{name}") for name in ("whole", "parts"))
                self.run_ranks(launcher, 2, "--model", "mlp", "--checkpoint", whole, epochs=4)
                self.run_ranks(launcher, 2, "--model", "mlp", "--checkpoint", parts, "--stop-after", "2", epochs=4)
                result = self.run_ranks(launcher, 2, "--model", "mlp", "--checkpoint", parts, "--resume", epochs=4)
                self.assertIn("after epoch 2", result.stderr)
                with open(whole, "rb") as one, open(parts, "rb") as other:
                    self.assertEqual(one.read(), other.read())

    def test_the_death_of_a_rank_ends_the_others(self):
        for launcher, base in LAUNCHERS.items():
            with self.subTest(launcher=launcher):
                checkpoint = os.path.join(self.place, f"{launcher}-c")
                # Without the launcher's help: it is stopped, so that it can kill nobody.
                process = subprocess.Popen(
                    base + ["-n", "2"] + self.command("--model", "lenet", "--checkpoint", checkpoint, epochs=100000),
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment(),
                    start_new_session=True)
                try:
                    deadline = time.monotonic() + 60
                    while not os.path.exists(checkpoint) and time.monotonic() < deadline:
                        time.sleep(0.05)
                    self.assertTrue(os.path.exists(checkpoint), "no checkpoint after 60 s")
                    ranks = self.ranks_of(checkpoint)
                    self.assertEqual(len(ranks), 2)
                    os.kill(process.pid, signal.SIGSTOP)
                    for helper in self.children_of(process.pid):
                        if helper not in ranks:
                            self.kill(helper, signal.SIGSTOP)
                    os.kill(ranks[1], signal.SIGKILL)
                    deadline = time.monotonic() + 30
                    while self.alive(ranks[0]) and time.monotonic() < deadline:
                        time.sleep(0.1)
                    self.assertFalse(self.alive(ranks[0]), "the other rank waits for ever")
                finally:
                    for pid in processes_of(self.place):  # Hydra's proxy has a group of its own
                        self.kill(pid, signal.SIGKILL)
                    process.communicate(timeout=30)
                    self.remove_segments_of_killed_launchers()

    def remove_segments_of_killed_launchers(self):
        """Open MPI's own files, which mpirun removes unless it is killed itself, as it is here."""
        for name in set(os.listdir("/dev/shm")) - self.shm_before:
            if name.startswith("vader_segment."):
                os.unlink(os.path.join("/dev/shm", name))

    @staticmethod
    def kill(pid, number):
        """Send a signal to a process that may have ended since it was seen."""
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass

    @staticmethod
    def ranks_of(word):
        """Process ids of slipway-train with this word on its command line, first the lowest."""
        found = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    words = file.read().split(b"\0")
            except OSError:
                continue
            if words and words[0] == PROGRAM.encode() and word.encode() in words:
                found.append(int(path.split("/")[2]))
        return sorted(found)

    @staticmethod
    def children_of(pid):
        found = []
        for path in glob.glob(f"/proc/{pid}/task/*/children"):
            try:
                with open(path) as file:
                    found += [int(word) for word in file.read().split()]
            except OSError:
                pass
        return found

    @staticmethod
    def alive(pid):
        try:
            with open(f"/proc/{pid}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"
        except OSError:
            return False

    def test_a_launcher_that_no_transport_fits_is_refused(self):
        environment = self.environment(SLURM_STEP_ID="0", SLURM_PROCID="1", SLURM_STEP_NUM_TASKS="4")
        result = self.run_ranks(None, 1, "--model", "mlp", status=125, environment=environment)
        self.assertIn("srun without MPI support has started 4 ranks", result.stderr)
        self.assertIn("try: run srun --mpi=pmix", result.stderr)

    def test_the_wrong_transport_is_refused_and_not_run_n_times(self):
        for launcher, wrong in (("openmpi", "mpich"), ("mpich", "openmpi")):
            with self.subTest(launcher=launcher, transport=wrong):
                command = LAUNCHERS[launcher] + ["-n", "2"] + self.command("--model", "mlp", "--transport", wrong)
                result = subprocess.run(command, capture_output=True, text=True, timeout=120, env=self.environment())
                self.assertNotEqual(result.returncode, 0)
                self.assertNotIn("test accuracy", result.stdout)
                self.assertIn("error:", result.stderr)

    def test_alone_on_request_is_said_aloud(self):
        result = self.run_ranks("mpich", 2, "--model", "mlp", "--transport", "single", epochs=1)
        self.assertIn("--transport single makes each train alone", result.stderr)
        self.assertEqual(result.stdout.count("test accuracy"), 2)

    def test_one_rank_under_a_launcher(self):
        for launcher in LAUNCHERS:
            self.run_ranks(launcher, 1, "--model", "mlp", epochs=1)

    def test_errors_of_one_rank_end_the_job_with_our_status(self):
        result = self.run_ranks(None, 1, "--model", "mlp", "--device", "cuda", status=125)
        self.assertIn("no CUDA part", result.stderr)
        self.assertIn("try: use --device cpu", result.stderr)
        result = self.run_ranks("mpich", 2, "--model", "nothing", status=125)
        self.assertIn('there is no model "nothing"', result.stderr)


if __name__ == "__main__":
    if os.geteuid() == 0:
        raise SystemExit("train_mpi: run this as an ordinary user (mpiexec.openmpi refuses root)")
    unittest.main(verbosity=2)
