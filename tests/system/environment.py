# The environment of a command: what passes, what the options change, and what is said about it.
# Must not: run as root.
import json
import os

from slipway_test import SlipwayTest, main
from small_root import make_root


class EnvironmentTest(SlipwayTest):
    def setUp(self):
        super().setUp()
        self.root = make_root(self.path("root"))

    def environment(self, *options, host=None):
        """Run env inside and return what it prints."""
        result = self.assert_succeeds(self.slipway("run", *options, self.root, "--", "env", "-0", env=host))
        return dict(entry.split("=", 1) for entry in result.stdout.split("\0") if entry)

    def test_changes_apply_in_the_order_typed(self):
        file = self.write("vars", "# a comment\n\nA=file\n  B=a b \"c\"\nFROM_HOST\n")
        inside = self.environment("--env", "A=1", "--env-file", file, "--env", "C=", "--unset-env", "[AC]", "--env", "C=2",
                                  "--env", "MODULE*", host={"FROM_HOST": "yes", "MODULEPATH": "/m", "LMOD_CMD": "/l"})
        self.assertEqual((inside.get("A"), inside["B"], inside["C"], inside["FROM_HOST"], inside["MODULEPATH"]),
                         (None, 'a b "c"', "2", "yes", "/m"))
        self.assertNotIn("LMOD_CMD", inside)
        self.assertEqual(self.environment("--unset-env", "A*", "--env", "A=1", "--env-file", file)["A"], "file")
        self.assertEqual(self.environment("--env-file", file, "--env", "A=$HOME `id` $(id)")["A"], "$HOME `id` $(id)")

    def test_an_env_file_that_cannot_be_used(self):
        run = lambda *options: self.slipway("run", *options, self.root, "--", "true")
        self.assert_fails(run("--env-file", self.path("absent")), "absent", "requested by: --env-file, argument 1")
        file = self.write("vars", "A=1\nexport B=2\n")
        self.assert_fails(run("--env-file", file), 'cannot understand the variable "export B=2"', f"{file}:2", "try:")
        self.assert_fails(run("--env", "=x"), "the variable has no name", "--env, argument 1")

    def test_clean_and_keep(self):
        host = {"LD_LIBRARY_PATH": "/x", "EDITOR": "vi", "SLURM_NODEID": "4", "UCX_TLS": "tcp", "NODE_RANK": "1"}
        clean = self.environment("--clean-env", "-e", "MINE=1", host=host)
        self.assertEqual((clean["SLURM_NODEID"], clean["UCX_TLS"], clean["NODE_RANK"], clean["MINE"]), ("4", "tcp", "1", "1"))
        self.assertFalse({"LD_LIBRARY_PATH", "EDITOR"} & set(clean), clean)
        keep = self.environment("--keep-env", host=host)
        self.assertEqual((keep["LD_LIBRARY_PATH"], keep["EDITOR"], keep["HOME"]), ("/x", "vi", self.env["HOME"]))
        self.assert_fails(self.slipway("run", "--keep-env", "--clean-env", self.root, "--", "true"), "exclude each other")

    def test_every_variable_is_explained_and_the_command_gets_just_that(self):
        os.mkdir(os.path.join(self.root, ".slipway"))
        self.write("root/.slipway/image.json", json.dumps(
            {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []},
             "config": {"Env": ["CUDA_VISIBLE_DEVICES=all", "LANG=de_DE", "APP=1"]}}))
        options = ("--env", "A=1", "--unset-env", "EDITOR")
        host = {"CUDA_VISIBLE_DEVICES": "3", "LANG": "C", "EDITOR": "vi", "PYTHONPATH": "/p"}
        rows = self.slipway("run", "--explain-env", "--json", *options, self.root, env=host).json()
        told = {row["name"]: (row["value"], row["origin"]) for row in rows}
        self.assertEqual([told[name] for name in ("CUDA_VISIBLE_DEVICES", "LANG", "APP", "A", "EDITOR", "PYTHONPATH")],
                         [("3", "host"), ("de_DE", "image ENV"), ("1", "image ENV"), ("1", "--env, argument 1"),
                          (None, "--unset-env, argument 1"), (None, "default")])
        inside = self.environment(*options, host=host)
        self.assertEqual(inside, {name: value for name, (value, _) in told.items() if value is not None})
        self.assertEqual(set(told) - set(inside), set({**self.env, **host}) - set(inside))
        table = self.assert_succeeds(self.slipway("run", "--explain-env", *options, self.root, env=host)).stdout
        self.assertRegex(table, r"(?m)^PYTHONPATH +\(not inside\) +default: modules and interpreter settings of the host$")
        self.assertRegex(table, r"(?m)^A +1 +--env, argument 1$")
        self.assert_fails(self.slipway("run", "--json", self.root, "--", "true"), "--json requires --explain-env")

    def test_the_host_as_image(self):
        result = self.slipway("run", "--unset-env", "X*", "--env", "Y=1", "/", "--", "env", env={"XA": "1", "LD_BIND_NOW": "1"})
        self.assertIn("Y=1\n", result.stdout)
        self.assertIn("LD_BIND_NOW=1\n", result.stdout)
        self.assertNotIn("XA=", result.stdout)
        clean = self.slipway("run", "--clean-env", "/", "--", "env", env={"EDITOR": "vi"}).stdout
        self.assertNotIn("EDITOR", clean)
        self.assertIn("PATH=" + self.env["PATH"], clean)


if __name__ == "__main__":
    main()
