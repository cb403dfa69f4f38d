# `slipway build` on the kernel, offline: what a build must not take from its caller, or leave behind.
# Must not: run as root, or need a network: the base is a small root made from programs of this machine.
import json
import os
import signal
import subprocess
import sys
import time
import unittest

from slipway_test import SlipwayTest, main, program, run
from small_root import make_root


class BuildTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))

    def make_base(self, name="base", **config):
        """Store the small root under a name, with a configuration of its own."""
        os.makedirs(os.path.join(self.root, ".slipway"), exist_ok=True)
        with open(os.path.join(self.root, ".slipway/image.json"), "w") as file:
            json.dump({"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []},
                       "config": config}, file)
        self.assert_succeeds(self.slipway("convert", self.root, f"store:{name}"))

    def dockerfile(self, *lines):
        return os.path.dirname(self.write("context/Dockerfile", "".join(line + "\n" for line in lines)))

    def build(self, *options, **more):
        return self.slipway("build", "-t", "built", *options, self.path("context"), **more)

    def inside(self, *command):
        return self.assert_succeeds(self.slipway("run", "built", "--", *command)).stdout

    def test_a_working_directory_that_only_the_base_names(self):
        """Its parents in the image keep modes and times; the caller's umask shows nowhere."""
        parent = os.path.join(self.root, "srv/app")
        os.makedirs(parent)
        os.chmod(parent, 0o711)
        os.utime(parent, (1577836800, 1577836800))
        self.make_base(WorkingDir="/srv/app/deep/er")
        self.dockerfile("FROM base", "RUN pwd > /where")
        self.assert_succeeds(run(["sh", "-c", 'umask 077; "$@"', "sh", program(), "build", "-t", "built",
                                  self.path("context")], env=self.env))
        self.assertEqual(self.inside("stat", "-c", "%a %Y", "/srv/app"), "711 1577836800\n")
        self.assertEqual(self.inside("stat", "-c", "%a", "/srv/app/deep", "/srv/app/deep/er", "/where"), "755\n755\n644\n")
        self.assertEqual(self.inside("cat", "/where"), "/srv/app/deep/er\n")

    def test_what_the_caller_ignores_and_closed(self):
        """SIGCHLD ignored and standard streams closed, as under some batch systems and daemons."""
        self.make_base()
        self.dockerfile("FROM base", "RUN ls /proc/self/fd > /fds; (exit 0) && grep SigIgn /proc/self/status > /ignored")
        prepare = ("import os, signal, sys\n"
                   "signal.signal(signal.SIGCHLD, signal.SIG_IGN); signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
                   "os.close(0); os.close(1); os.close(2)\n"
                   "os.execv(sys.argv[1], sys.argv[1:])\n")
        result = run([sys.executable, "-c", prepare, program(), "build", "-t", "built", self.path("context")], env=self.env)
        self.assert_succeeds(result)
        self.assertEqual(self.inside("cat", "/fds"), "0\n1\n2\n3\n")

    def test_files_that_nobody_may_read(self):
        """Mode 0, as of /etc/shadow in some distributions: in the layer, and copied from a stage."""
        self.make_base()
        self.dockerfile("FROM base AS first", "RUN echo secret > /shadow && chmod 0 /shadow", "FROM base",
                        "COPY --from=first /shadow /copied", "RUN echo more > /own && chmod 0 /own")
        self.assert_succeeds(self.build())
        self.assertEqual(self.inside("stat", "-c", "%a %s", "/copied", "/own"), "0 7\n0 5\n")
        self.assert_succeeds(self.build("--no-cache"))

    def test_arguments_reach_the_stages_that_begin_from_theirs(self):
        self.make_base()
        self.dockerfile("ARG GLOBAL=g", "FROM base AS first", "ARG LOCAL=l", "ARG GLOBAL", "ENV KEPT=$LOCAL", "FROM base AS apart",
                        "RUN echo ${LOCAL:-none} > /apart", "FROM first", "COPY --from=apart /apart /apart",
                        "RUN echo $LOCAL $GLOBAL $KEPT > /child", "LABEL of=$LOCAL")
        self.assert_succeeds(self.build())
        self.assertEqual(self.inside("cat", "/child", "/apart"), "l g l\nnone\n")
        self.assert_succeeds(self.build("--build-arg", "LOCAL=given"))
        self.assertEqual(self.inside("cat", "/child", "/apart"), "given g given\nnone\n")

    def test_a_killed_build_leaves_nothing(self):
        self.make_base()
        self.dockerfile("FROM base", "RUN echo begun > /big; sleep 77")
        process = subprocess.Popen([program(), "build", "-t", "built", self.path("context")], env=self.env,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        places = os.path.join(self.env["SLIPWAY_STORE"], "tmp")
        deadline = time.monotonic() + 30
        while not any(os.path.exists(os.path.join(places, name, "upper/big")) for name in os.listdir(places)):
            self.assertLess(time.monotonic(), deadline, "the step did not begin")
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
        process.wait()
        self.assert_succeeds(self.slipway("images"))
        self.assertEqual(os.listdir(places), [])
        self.dockerfile("FROM base", "RUN echo begun > /big")
        self.assert_succeeds(self.build())
        self.assertEqual(self.inside("cat", "/big"), "begun\n")

    def test_what_a_step_depends_on(self):
        """Everything that changes a result makes a step new; nothing else does."""
        self.make_base()
        self.write("context/file", "one")
        self.write("context/other", "not copied")
        lines = ["FROM base", "ARG A=1", "COPY file /copied", "RUN true $A"]
        self.dockerfile(*lines)

        def cached(*options, **env):
            result = self.assert_succeeds(self.build(*options, env=env))
            return result.stderr.count("(CACHED)")

        self.assertEqual(cached(), 0)
        self.assertEqual(cached(), 2)
        self.write("context/other", "changed")
        os.utime(self.path("context/file"), (1, 1))
        self.assertEqual(cached(), 2)
        os.chmod(self.path("context/file"), 0o600)
        self.assertEqual(cached(), 0, "a file's mode")
        self.assertEqual(cached("--build-arg", "A=2"), 1, "an argument that RUN sees")
        self.assertEqual(cached("--network", "none"), 1, "the network that RUN sees")
        self.assertEqual(cached(SOURCE_DATE_EPOCH="1000000000"), 0, "the date of every file")
        self.assertEqual(cached(SOURCE_DATE_EPOCH="1000000000"), 2)
        self.write("context/file", "two")
        self.assertEqual(cached(), 0, "contents")
        self.write("context/.dockerignore", "other\n")
        self.assertEqual(cached(), 2, "what is left out was not copied")
        with open(os.path.join(self.root, "etc/image"), "w") as file:
            file.write("another root\n")
        self.make_base()
        self.assertEqual(cached(), 0, "the base's contents under the same name")

    def test_a_context_that_changes_during_the_build(self):
        """What was written meanwhile is in the image, but not in the cache under the old contents' key."""
        self.make_base()
        self.write("context/file", "before")
        self.dockerfile("FROM base", "RUN sleep 1.5", "COPY file /copied", "RUN cat /copied > /seen")
        process = subprocess.Popen([program(), "build", "-t", "built", self.path("context")], env=self.env,
                                   stderr=subprocess.PIPE, text=True)
        while "STEP 2/4" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        time.sleep(0.2)
        self.write("context/file", "after")
        said = process.communicate(timeout=60)[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertIn("the context changed while it was built", said)
        self.assertEqual(self.inside("cat", "/seen"), "after")
        self.write("context/file", "before")
        self.assertEqual(self.assert_succeeds(self.build()).stderr.count("(CACHED)"), 1)
        self.assertEqual(self.inside("cat", "/seen"), "before")


if __name__ == "__main__":
    unittest.TestCase.maxDiff = None
    main()
