# Under a real Slurm: one session a step, statuses, scancel's signals, nothing left after a cancelled job.
# Must not: imitate Slurm's variables; srun sets them.
import re
import subprocess
import time

from slipway_test import SlipwayTest, main, program, require_program, run
from slurm_node import Slurm
from small_root import make_root, make_squashfs


class SlurmTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.slurm = Slurm(self.path("slurm"), self.env)
        self.addCleanup(self.slurm.stop)
        self.image = make_squashfs(make_root(self.path("root")), self.path("image.sqfs"))
        self.srun = [require_program("srun"), "-O"]

    def tearDown(self):
        self.slurm.stop()
        super().tearDown()

    def step(self, ranks, script, *options):
        return [*self.srun, f"-n{ranks}", program(), "run", *options, self.image, "--", "sh", "-c", script]

    def run_step(self, ranks, script, *options):
        return run(self.step(ranks, script, *options), env=self.slurm.env, timeout=60)

    def start_step(self, ranks, script, *options):
        return subprocess.Popen(self.step(ranks, script, *options), env=self.slurm.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)

    def modes(self):
        yield ()
        yield ("--timeout=100",)

    def test_the_ranks_of_a_step_share_a_session_and_steps_do_not(self):
        script = "echo $(readlink /proc/self/ns/mnt /proc/self/ns/user) $SLURM_JOB_ID.$SLURM_STEP_ID; sleep 5"
        steps = [self.start_step(4, script) for _ in range(2)]
        seen = []
        for step in steps:
            out, error = step.communicate(timeout=60)
            self.assertEqual(step.returncode, 0, error)
            self.assertEqual((len(out.splitlines()), len(set(out.splitlines()))), (4, 1), out)
            seen.append(out.splitlines()[0].split())
        self.assertNotEqual(seen[0][2], seen[1][2])
        # Their namespaces may have one number: the second may begin when the first has gone.
        keys = {self.run_step(1, "true", "--dry-run").json()["session_key"] for _ in range(2)}
        self.assertEqual(len(keys), 2)
        self.assertEqual(len(self.processes("slipway-fuse")), 0)

    def test_statuses(self):
        for options in self.modes():
            with self.subTest(options=options):
                self.assert_status(self.run_step(3, "exit 7", *options), 7)
                self.assert_status(self.run_step(2, "kill -KILL $$", *options), 137)
        self.assert_status(run([*self.srun, program(), "run", self.image, "--", "nothere"], env=self.slurm.env), 127)
        self.assert_status(self.run_step(2, "sleep 60", "--timeout=0.5"), 124)

    def test_scancel_sends_a_signal_once_to_every_rank(self):
        for options in self.modes():
            with self.subTest(options=options):
                step = self.start_step(3, "trap 'echo came' USR1; trap 'exit 0' USR2; echo $SLURM_JOB_ID; "
                                          "while :; do sleep 0.1 & wait $!; done", *options)
                job = [step.stdout.readline() for _ in range(3)][0].strip()
                for name in ("USR1", "USR2"):
                    subprocess.run([require_program("scancel"), f"--signal={name}", job], env=self.slurm.env, check=True)
                    time.sleep(1)
                out, error = step.communicate(timeout=30)
                self.assertEqual(out.count("came"), 3, out + error)

    def test_a_cancelled_job_leaves_nothing(self):
        for options in self.modes():
            with self.subTest(options=options):
                # Without cgroups Slurm kills one descendant after the other: none may start another meanwhile.
                step = self.start_step(3, "setsid sleep 70 & trap '' TERM; echo $SLURM_JOB_ID; exec sleep 71", *options)
                job = [step.stdout.readline() for _ in range(3)][0].strip()
                subprocess.run([require_program("scancel"), job], env=self.slurm.env, check=True)
                step.communicate(timeout=30)
                deadline = time.monotonic() + 30
                while (left := self.processes("sleep")) and time.monotonic() < deadline:
                    time.sleep(0.1)
                self.assertEqual(left, {}, self.slurm.logs())

    def test_an_instance_of_a_job_ends_with_the_job(self):
        script = self.write("job.sh", "#!/bin/sh\n" + f"{program()} instance start svc {self.image} -- sleep 300 && echo started\n"
                            f"{program()} instance list\n")
        env = self.slurm.env | {"SLIPWAY_INSTANCES": self.path("instances")}
        out = self.path("job.out")
        result = run([require_program("sbatch"), "--wait", "-o", out, script], env=env, timeout=60)
        self.assert_status(result, 0)
        with open(out) as file:
            self.assertRegex(file.read(), re.compile(r"started.*svc +\d+ running", re.S))
        deadline = time.monotonic() + 20
        while (left := self.processes("sleep")) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(left, {})


if __name__ == "__main__":
    main()
