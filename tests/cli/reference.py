# The command-line reference and the bash completion against what the programs' --help says.
# Must not: hold a list of options of its own.
"""docs/reference/cli.md and packaging/completions/slipway.bash name every subcommand and option, and no others."""
import os
import re

from slipway_test import SlipwayTest, main, run

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = os.path.join(TOP, "docs", "reference", "cli.md")
COMPLETION = os.path.join(TOP, "packaging", "completions", "slipway.bash")

# "  -b,--bind TEXT ...   what it does", "  --no-augment{false}   ..."
HELP_OPTION = re.compile(r"^  (-[^\s]+)")
HELP_SUBCOMMAND = re.compile(r"^  ([a-z][a-z-]*)\s")
OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][A-Za-z-]*")


def options_of_help(text):
    """Return the option names that a --help prints."""
    options = set()
    for line in text.splitlines():
        if match := HELP_OPTION.match(line):
            options.update(name.split("{")[0] for name in match[1].split(","))
    return options


def subcommands_of_help(text):
    names, inside = set(), False
    for line in text.splitlines():
        if line.startswith("Subcommands:"):
            inside = True
        elif inside and (match := HELP_SUBCOMMAND.match(line)):
            names.add(match[1])
    return names


def sections_of_reference():
    """Return {heading: options in the first column of its table}."""
    sections, current = {}, None
    with open(REFERENCE, encoding="utf-8") as file:
        for line in file:
            if match := re.match(r"^## `(.+)`$", line):
                current = sections.setdefault(match[1], set())
            elif current is not None and line.startswith("| `-"):
                first = line.replace(r"\|", "/").split("|")[1]
                for span in re.findall(r"`([^`]+)`", first):
                    current.update(OPTION.findall(span.split()[0]))
    return sections


class Reference(SlipwayTest):
    def help_of(self):
        """Return {heading: options} as the programs tell it."""
        top = self.assert_succeeds(self.slipway("--help")).stdout
        told = {"slipway": options_of_help(top)}
        self.add_subcommands(told, [], top)
        train = self.assert_succeeds(self.run_program("slipway-train", "--help"))
        told["slipway-train"] = options_of_help(train.stdout)
        for heading, options in told.items():
            self.assertIn("--help", options, f"cannot read the help of {heading}")
        self.assertGreater(len(told), 5, "cannot read the list of subcommands")
        return told

    def add_subcommands(self, told, words, text):
        """Add what each subcommand in a --help tells of itself, and of its own subcommands."""
        for name in subcommands_of_help(text):
            below = [*words, name]
            own = self.assert_succeeds(self.slipway(*below, "--help")).stdout
            told[" ".join(["slipway", *below])] = options_of_help(own)
            self.add_subcommands(told, below, own)

    def complete(self, words):
        """Return what the completion offers for the last of `words`."""
        script = 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _slipway; printf "%s\\n" "${COMPREPLY[@]}"'
        result = run(["bash", "-c", script, "bash", COMPLETION, *words])
        self.assertEqual((result.status, result.stderr), (0, ""), result)
        return set(result.stdout.split())

    def test_reference_names_every_option_and_no_other(self):
        told, written = self.help_of(), sections_of_reference()
        self.assertEqual(sorted(told), sorted(written), "subcommands of --help and headings of cli.md differ")
        for heading, options in told.items():
            with self.subTest(heading):
                self.assertEqual(sorted(options - written[heading]), [], "missing from docs/reference/cli.md")
                self.assertEqual(sorted(written[heading] - options), [], "in docs/reference/cli.md, but not in --help")

    def test_completion_offers_every_option_and_no_other(self):
        for heading, options in self.help_of().items():
            with self.subTest(heading):
                self.assertEqual(sorted(self.complete([*heading.split(), "-"])), sorted(options))

    def test_completion_offers_every_subcommand(self):
        top = self.assert_succeeds(self.slipway("--help")).stdout
        self.assertEqual(self.complete(["slipway", ""]), subcommands_of_help(top))
        own = self.assert_succeeds(self.slipway("instance", "--help")).stdout
        self.assertEqual(self.complete(["slipway", "instance", ""]), subcommands_of_help(own))

    def test_completion_offers_values(self):
        for words, value in ((["slipway", "convert", "--compressor", "zs"], "zstd"),
                             (["slipway", "-v", "build", "--network", "n"], "none"),
                             (["slipway-train", "--transport", "mp"], "mpich")):
            with self.subTest(words):
                self.assertEqual(self.complete(words), {value})

    def test_errors_are_told_however_quiet(self):
        for quiet in ((), ("-q",), ("-q", "-q")):
            with self.subTest(quiet):
                self.assert_fails(self.slipway(*quiet, "run", "nosuch", "--", "true"), "slipway: error: there is no image")

    def test_what_is_misspelt_is_named(self):
        self.assert_fails(self.slipway("biuld", "."), 'there is no subcommand "biuld"')
        self.assert_fails(self.slipway("--nosuch"), 'there is no option "--nosuch"')
        self.assert_fails(self.slipway(), "a subcommand is required")

    def test_links_of_the_documentation_lead_somewhere(self):
        links = 0
        for parent, _, names in os.walk(os.path.join(TOP, "docs")):
            for name in filter(lambda n: n.endswith(".md"), names):
                with open(os.path.join(parent, name), encoding="utf-8") as file:
                    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", file.read()):
                        links += 1
                        if "://" not in target:
                            self.assertTrue(os.path.exists(os.path.join(parent, target)), f"{name} links to {target}")
        self.assertGreater(links, 20, "cannot read the documentation")

    def test_every_variable_is_documented(self):
        with open(os.path.join(TOP, "docs", "reference", "files-and-environment.md"), encoding="utf-8") as file:
            documented = set(re.findall(r"`(SLIPWAY_[A-Z_]+)`", file.read()))
        used = set()
        for place in ("src", "runtime", "builder"):
            for parent, _, names in os.walk(os.path.join(TOP, place)):
                for name in filter(lambda n: n.endswith(".cpp"), names):
                    with open(os.path.join(parent, name), encoding="utf-8") as file:
                        used.update(re.findall(r'"(SLIPWAY_[A-Z_]+)"', file.read()))
        self.assertIn("SLIPWAY_STORE", used, "cannot read the sources")
        self.assertEqual(sorted(used - documented), [], "missing from docs/reference/files-and-environment.md")


if __name__ == "__main__":
    main()
