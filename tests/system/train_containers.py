# The engine in containers: one per rank, under both MPIs, from the preloaded bundle.
# Must not: run as root (the launchers refuse), or need a network.
"""mpiexec -n N slipway run IMAGE -- slipway-train, many times: every run ends, with one session and the shared transport."""
import os

from slipway_test import SlipwayTest, main, program, run
from small_root import make_root

HERE = os.path.dirname(os.path.abspath(__file__))
DIGITS = os.path.join(HERE, "..", "..", "recipes", "quickstart", "data")
LAUNCHERS = {"openmpi": ["mpiexec.openmpi", "--oversubscribe"], "mpich": ["mpiexec.mpich"]}
# MPICH's MPI_Finalize once hung in every second run of four ranks: one run proves nothing.
ROUNDS = 4


class TrainContainers(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.assert_succeeds(self.slipway("convert", make_root(self.path("root")), "store:small"))
        self.write("context/Dockerfile", "FROM small\n")
        self.image = self.path("train.sqfs")
        self.assert_succeeds(self.slipway("build", "-t", "train", "--preload", "train", "-o", self.image,
                                          self.path("context")))

    def train(self, launcher, ranks):
        foreign = ("OMPI_", "PMIX_", "PMI_", "SLURM_", "MPI_", "UCX_")
        environment = {key: value for key, value in self.env.items() if not key.startswith(foreign)}
        return run([*LAUNCHERS[launcher], "-n", ranks, program(), "run", "--bind", f"{DIGITS}:/data:ro", self.image, "--",
                    "slipway-train", "--model", "lenet", "--data", "/data", "--epochs", "2", "--json", self.path("facts")],
                   env=environment, timeout=120)

    def test_four_ranks_end_every_time(self):
        for launcher in LAUNCHERS:
            for number in range(ROUNDS):
                with self.subTest(launcher=launcher, round=number):
                    result = self.assert_succeeds(self.train(launcher, 4))
                    self.assertRegex(result.stdout.splitlines()[-1], r"^test accuracy [01]\.\d{4}$")
                    self.assertEqual(result.stdout.count("test accuracy"), 1)
                    self.assertNotIn("private", result.stderr, "the ranks did not share a session")


if __name__ == "__main__":
    main()
