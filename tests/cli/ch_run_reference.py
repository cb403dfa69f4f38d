# The manual page and the reference of ch-run against its --help and --usage.
# Must not: hold a list of options of its own.
import os
import re
import subprocess

from slipway_test import SlipwayTest, main, require_program

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def read(path):
    with open(os.path.join(SOURCE, path), encoding="utf-8") as file:
        return file.read()


def names(text):
    return set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)), set(re.findall(r"(?<![\w-])-[A-Za-z?](?![\w-])", text))


class Reference(SlipwayTest):
    def help_options(self):
        lines = [line[:27] for line in self.run_program("ch-run", "--help").stdout.splitlines() if line.startswith("  ")]
        return names("\n".join(lines))

    def test_manual_page(self):
        text = read("docs/man/ch-run.1").split(".SH OPTIONS")[1].split(".SH ")[0].replace("\\-", "-")
        entries = "\n".join(line for before, line in zip(text.splitlines(), text.splitlines()[1:]) if before == ".TP")
        entries = re.sub(r"\\f[IRB]|\"", "", entries.replace(" ,", ","))
        self.assertEqual(names(entries), self.help_options())

    def test_manual_page_is_well_formed(self):
        program = require_program("groff")
        page = os.path.join(SOURCE, "docs/man/ch-run.1")
        result = subprocess.run([program, "-man", "-ww", "-Tutf8", "-z", page], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True)
        self.assertEqual((result.returncode, result.stdout), (0, ""))

    def test_reference(self):
        rows = [line.split("|")[1] for line in read("docs/reference/ch-run.md").splitlines() if line.startswith("| `-")]
        self.assertEqual(names("\n".join(rows).replace("`", "")), self.help_options())

    def test_usage(self):
        usage = self.run_program("ch-run", "--usage").stdout
        long, _ = self.help_options()
        self.assertEqual(names(usage)[0], long)


if __name__ == "__main__":
    main()
