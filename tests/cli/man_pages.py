# The manual pages: they render without a warning, and their options are those of --help.
# Must not: hold a list of options or pages of its own.
"""Every subcommand has a page; every option of its --help is a tag of the page's OPTIONS, and the other way round."""
import os
import re
import shutil

from reference import options_of_help, subcommands_of_help
from slipway_test import SlipwayTest, build_directory, main, program, require_program, run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MADE = os.path.join(build_directory(), "man")
WRITTEN = os.path.join(TOP, "docs", "man")
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z?][A-Za-z0-9-]*")


def pages():
    """Return {name: path} of every page, made or written by hand."""
    return {name[:-2]: os.path.join(directory, name) for directory in (MADE, WRITTEN) if os.path.isdir(directory)
            for name in sorted(os.listdir(directory)) if name.endswith(".1")}


def options_of_page(text):
    """Return the options that a rendered page has as tags of its section OPTIONS."""
    options, inside = set(), False
    for line in text.splitlines():
        if re.match(r"\S", line):
            inside = line.strip() == "OPTIONS"
        elif inside and (match := re.match(r" {1,7}(-.*)$", line)):
            options.update(OPTION.findall(re.split(r"\s{2,}|(?<=\w) (?=[a-z])", match[1])[0]))
    return options


class ManPages(SlipwayTest):
    def render(self, path):
        """Return the page as plain text; a warning of groff fails the test."""
        env = {**self.env, "MANWIDTH": "200", "MAN_KEEP_FORMATTING": "", "MANPAGER": "cat", "LC_ALL": "C.UTF-8"}
        shown = run([require_program("man"), "--warnings", "-l", path], env=env)
        self.assertEqual((shown.status, shown.stderr), (0, ""), f"{shown}")
        return run([require_program("col"), "-bx"], env=env, input=shown.stdout).stdout

    def test_every_subcommand_has_a_page(self):
        names = subcommands_of_help(self.assert_succeeds(self.slipway("--help")).stdout)
        self.assertGreater(len(names), 5)
        self.assertEqual(sorted({"slipway", "slipway-train", *(f"slipway-{name}" for name in names)} - set(pages())), [])

    def test_pages_render_without_warnings(self):
        for name, path in pages().items():
            with self.subTest(name):
                lint = run([require_program("mandoc"), "-Tlint", "-W", "warning", path])
                self.assertEqual((lint.status, lint.stdout, lint.stderr), (0, "", ""), f"{lint}")
                text = self.render(path)
                for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS"):
                    self.assertRegex(text, rf"(?m)^{section}$")
                self.assertNotRegex(text, r"@[A-Z]+@|\\f|\\-|`")

    def test_options_are_those_of_help(self):
        for name, path in pages().items():
            if name == "ch-run":  # its help has another form; tests/cli/ch_run_reference.py compares
                continue
            words = name.split("-") if name != "slipway-train" else [name]
            with self.subTest(name):
                told = self.assert_succeeds(self.run_program(words[0], *words[1:], "--help"))
                self.assertEqual(sorted(options_of_help(told.stdout)), sorted(options_of_page(self.render(path))))

    def test_the_front_of_another_name_has_a_page(self):
        if os.path.lexists(os.path.join(build_directory(), "bin", "ch-run")):
            self.assertIn("ch-run", pages())

    def test_prose_pages_tell_of_status_files_and_environment(self):
        text = self.render(pages()["slipway-run"])
        for section in ("EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES"):
            self.assertRegex(text, rf"(?m)^{section}$")
        for name in ("SLIPWAY_STORE", "SLURM_JOB_ID", "policy.json", "125"):
            self.assertIn(name, text)

    def test_examples_are_understood(self):
        """Every example of `slipway run` names options that there are."""
        examples = re.findall(r"slipway run (.*)", self.render(pages()["slipway-run"]).split("EXAMPLES")[1])
        self.assertGreater(len(examples), 3)
        known = options_of_help(self.assert_succeeds(self.slipway("run", "--help")).stdout)
        for example in examples:
            self.assertEqual(set(OPTION.findall(example.split(" -- ")[0])) - known, set(), example)

    def test_install_puts_pages_and_profile(self):
        where = self.path("prefix")
        for part in ("man1", "apparmor"):
            os.makedirs(os.path.join(where, part))
        script = os.path.join(build_directory(), "cmake_install.cmake")
        with open(script, encoding="utf-8") as file:
            text = file.read()
        for name in pages():
            self.assertIn(f"{name}.1", text)
        self.assertIn("packaging/apparmor/slipway", text)


class AppArmor(SlipwayTest):
    def test_the_profile_is_understood(self):
        """With AppArmor 4 as it is; older parsers have neither its features file nor the rule that it is about."""
        parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
        self.assertIsNotNone(parser, "apparmor_parser is not installed; run packaging/install-deps.sh test")
        with open(os.path.join(TOP, "packaging/apparmor/slipway"), encoding="utf-8") as file:
            profile = file.read()
        if not os.path.exists("/etc/apparmor.d/abi/4.0"):
            self.assertIn("abi <abi/4.0>,\n", profile)
            self.assertIn("  userns,\n", profile)
            profile = profile.replace("abi <abi/4.0>,\n", "").replace("  userns,\n", "")
        path = self.write("slipway", profile)
        parsed = run([parser, "--skip-kernel-load", "--skip-cache", "--names", path], env=self.env)
        self.assert_succeeds(parsed)
        self.assertEqual(parsed.stdout.strip(), "slipway")
        broken = run([parser, "--skip-kernel-load", "--skip-cache", "--names", self.write("bad", profile.replace("}\n", ""))])
        self.assertNotEqual(broken.status, 0)


if __name__ == "__main__":
    main()
