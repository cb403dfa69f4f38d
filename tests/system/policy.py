# The layers of configuration and the site's policy, through the real binary.
# Must not: write to /etc; a site is a directory that SLIPWAY_SITE names.
import gzip
import json
import os
import pwd
import shutil
import tempfile

from slipway_test import SlipwayTest, main
from small_root import make_root, make_squashfs

NAME = pwd.getpwuid(os.getuid()).pw_name


class SiteTest(SlipwayTest):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.mkdtemp(prefix="slipway-system-")
        cls.addClassCleanup(shutil.rmtree, cls.shared)
        make_squashfs(make_root(os.path.join(cls.shared, "root")), os.path.join(cls.shared, "image.sqfs"))

    def setUp(self):
        super().setUp()
        os.mkdir(self.path("site"))
        self.env["SLIPWAY_SITE"] = self.path("site")
        self.root, self.image = os.path.join(self.shared, "root"), self.path("image.sqfs")
        shutil.copy(os.path.join(self.shared, "image.sqfs"), self.image)

    def write_json(self, name, value):
        return self.write(name, value if isinstance(value, str) else json.dumps(value))

    def run_image(self, *options, image=None, command=("true",), **more):
        return self.slipway("run", *options, image or self.image, "--", *command, **more)


class Policy(SiteTest):
    def policy(self, **rules):
        return self.write_json("site/policy.json", rules)

    def refused(self, rule, *options, image=None):
        """Run, and expect a refusal that names the file, the rule and a remedy."""
        return self.assert_fails(self.run_image(*options, image=image), "this site's policy forbids",
                                 f'requested by: "{rule}" in "{self.path("site/policy.json")}"', "allowed: ", "try: ")

    def test_rules_that_are_kept_change_nothing(self):
        self.policy(owners=["self"], paths=[self.path("")], formats=["squashfs"], write_modes=[], contact="help desk")
        self.assert_succeeds(self.run_image())
        self.policy()
        self.assert_succeeds(self.run_image("--write", image=self.root))

    def test_owners(self):
        for owners in (["root"], [0], [os.getuid() + 1], []):
            self.policy(owners=owners, contact="help@example.org")
            result = self.refused("owners")
            self.assertIn(f"{NAME} (uid {os.getuid()})", result.stderr)
            self.assertIn("ask: help@example.org", result.stderr)
        for owners in ([NAME], [os.getuid()], [str(os.getuid())], ["root", "self"]):
            self.policy(owners=owners)
            self.assert_succeeds(self.run_image())

    def test_paths_count_as_they_are_and_not_as_they_are_called(self):
        os.mkdir(self.path("apps"))
        os.symlink(self.path("image.sqfs"), self.path("apps/link.sqfs"))
        os.symlink(self.path("apps"), self.path("applications"))
        inside = make_squashfs(self.root, self.path("apps/inside.sqfs"))
        for path in (self.path("apps"), self.path("applications"), self.path("apps/")):
            self.policy(paths=[path])
            self.assert_succeeds(self.run_image(image=inside))
            self.assert_succeeds(self.run_image(image=self.path("applications/inside.sqfs")))
            for outside in (self.image, self.path("apps/link.sqfs"), self.path("apps/../image.sqfs")):
                self.refused("paths", image=outside)
        os.mkdir(self.path("apps-of-others"))
        self.refused("paths", image=self.path("apps-of-others"))  # a prefix of names is none of directories

    def test_formats(self):
        self.policy(formats=["squashfs", "stored"])
        self.assert_succeeds(self.run_image())
        self.refused("formats", image=self.root)
        self.assert_succeeds(self.slipway("convert", self.image, "oci:layout:x"))
        self.refused("formats", image=f"oci:{self.path('layout')}:x")
        self.assert_succeeds(self.slipway("convert", self.image, "store:x"))
        self.assert_succeeds(self.run_image(image="x"))

    def test_archives_are_told_apart_by_what_is_in_them(self):
        """However they are named: with a scheme, by a suffix, by a name that says nothing, compressed."""
        archives = {}
        for kind in ("docker-archive", "oci-archive", "tar"):
            archives[kind] = self.path(kind + ".tar")
            self.assert_succeeds(self.slipway("convert", self.image, f"{kind}:{archives[kind]}"))
        shutil.copy(archives["oci-archive"], self.path("nothing-in-a-name"))
        with open(archives["docker-archive"], "rb") as file:
            self.write("docker.tar.gz", gzip.compress(file.read(), 1))
        for kind, path in archives.items():
            named = [path, f"{kind}:{path}"]
            named += {"oci-archive": [self.path("nothing-in-a-name")], "docker-archive": [self.path("docker.tar.gz")]}.get(kind, [])
            for image in named:
                self.policy(formats=[kind])
                self.assert_succeeds(self.run_image(image=image))
                self.policy(formats=[other for other in archives if other != kind])
                self.assertIn(f"its format is {kind}", self.refused("formats", image=image).stderr)

    def test_write_modes(self):
        self.policy(write_modes=[])
        self.refused("write_modes", "--write", image=self.root)
        self.assert_succeeds(self.run_image(image=self.root))
        self.policy(write_modes=["write"])
        self.assert_succeeds(self.run_image("--write", image=self.root))

    def test_a_signature_that_is_required_is_never_taken_for_granted(self):
        self.policy(require_signature=True)
        self.assertIn("is not signed", self.refused("require_signature").stderr)  # more of it in sign.py
        self.policy(require_signature=False)
        self.assert_succeeds(self.run_image())

    def test_the_host_is_no_image(self):
        self.policy(owners=[], paths=[], formats=[], require_signature=True)
        self.assert_succeeds(self.run_image(image="/"))

    def test_a_policy_that_cannot_be_understood_is_an_error(self):
        for text, words in (("{", "is not JSON"), ("[]", "is not a JSON object"),
                            ('{"ownrs": []}', 'write "owners" if that was meant'),
                            ('{"nosuch": []}', "choose among: owners"), ('{"owners": "root"}', "is not a list"),
                            ('{"formats": ["zip"]}', 'holds "zip"'), ('{"paths": ["apps"]}', "no absolute path"),
                            ('{"require_signature": "yes"}', "neither true nor false"),
                            ('{"owners": [[]]}', "is not a string")):
            with self.subTest(text):
                self.write("site/policy.json", text)
                self.assert_fails(self.run_image(), words, "policy.json")

    def test_a_policy_that_cannot_be_read_is_an_error(self):
        os.chmod(self.policy(owners=["self"]), 0)
        self.assert_fails(self.run_image(), "policy.json", "EACCES")

    def test_a_dry_run_is_checked_too(self):
        self.policy(owners=["root"])
        self.assert_fails(self.slipway("run", "--dry-run", self.image, "--", "true"), "this site's policy forbids")


class Configuration(SiteTest):
    def user_file(self, value):
        return self.write_json(os.path.join(self.env["HOME"], ".config/slipway/config.json"), value)

    def plan(self, *options, env=None):
        return self.assert_succeeds(self.slipway("run", "--dry-run", *options, self.image, "--", "true", env=env)).json()

    def test_the_stronger_layer_wins(self):
        self.assertEqual(self.plan()["linger_ms"], 0)
        self.write_json("site/config.json", {"linger": "1"})
        self.assertEqual(self.plan()["linger_ms"], 1000)
        self.user_file({"linger": "2"})
        self.assertEqual(self.plan()["linger_ms"], 2000)
        self.assertEqual(self.plan(env={"SLIPWAY_LINGER": "3"})["linger_ms"], 3000)
        self.assertEqual(self.plan("--linger", "4", env={"SLIPWAY_LINGER": "3"})["linger_ms"], 4000)
        self.user_file({"linger": None})  # back to what is built in
        self.assertEqual(self.plan()["linger_ms"], 0)

    def test_xdg_config_home(self):
        self.write_json("xdg/slipway/config.json", {"linger": "7"})
        self.assertEqual(self.plan(env={"XDG_CONFIG_HOME": self.path("xdg")})["linger_ms"], 7000)

    def test_session(self):
        self.assertNotEqual(self.plan()["session_key"], "")
        self.write_json("site/config.json", {"session": "none"})
        self.assertEqual(self.plan()["session_key"], "")
        self.assertNotEqual(self.plan("--session", "mine")["session_key"], "")

    def test_the_store_of_every_subcommand(self):
        self.env.pop("SLIPWAY_STORE")
        self.write_json("site/config.json", {"store": "$PLACE/of-${NAME}"})
        self.env.update(PLACE=self.path("stores"), NAME="me")
        self.assert_succeeds(self.slipway("convert", self.image, "store:x"))
        self.assertTrue(os.path.isdir(self.path("stores/of-me/oci")))
        self.assertIn("x:latest", self.assert_succeeds(self.slipway("images")).stdout)
        self.assert_succeeds(self.slipway("run", "x", "--", "true"))
        self.assert_succeeds(self.slipway("inspect", "x"))
        self.user_file({"store": "~/mine"})
        self.assertNotIn("x:latest", self.assert_succeeds(self.slipway("images")).stdout)
        self.assertTrue(os.path.isdir(os.path.join(self.env["HOME"], "mine/oci")))
        self.assertIn("x:latest", self.assert_succeeds(self.slipway("images", "-s", self.path("stores/of-me"))).stdout)
        for command in (("rmi", "x"), ("gc",)):
            self.assert_succeeds(self.slipway(*command, env={"SLIPWAY_STORE": self.path("stores/of-me")}))

    def test_environment(self):
        self.write_json("site/config.json", {"env": {"A": "site", "B": "site", "C": "site"}})
        self.user_file({"env": {"B": "user", "C": "user"}})
        result = self.assert_succeeds(self.run_image("--env", "C=typed", command=("sh", "-c", "echo $A $B $C")))
        self.assertEqual(result.stdout, "site user typed\n")

    def test_what_cannot_be_understood_names_file_and_key(self):
        for text, words in (("{", "is not JSON"), ('{"stor": "/x"}', 'write "store" if that was meant'),
                            ('{"store": "relative"}', "no absolute path"), ('{"store": 5}', '"store" in'),
                            ('{"store": ""}', "built-in"), ('{"store": "/x/$NOSUCH_VARIABLE"}', "NOSUCH_VARIABLE"),
                            ('{"store": "/x/$"}', "without a variable's name"), ('{"linger": "soon"}', "linger"),
                            ('{"env": []}', '"env" in'), ('{"env": {"A": 1}}', '"A"'),
                            ('{"unset_env": "A"}', "unset_env")):
            with self.subTest(text):
                file = self.write("site/config.json", text)
                self.assert_fails(self.run_image(), words, file)
        os.unlink(self.path("site/config.json"))
        self.assert_fails(self.run_image(env={"SLIPWAY_LINGER": "soon"}), "SLIPWAY_LINGER")

    def test_help_needs_no_configuration(self):
        self.write("site/config.json", "{")
        self.assert_succeeds(self.slipway("run", "--help"))


if __name__ == "__main__":
    main()
