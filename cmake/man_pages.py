"""Writes the manual pages: options, images and variables from docs/reference, the prose from docs/man/NAME.1.in.

    man_pages.py --list TOP                          print the pages that can be made, one a line
    man_pages.py TOP VERSION PAGE OUTPUT             write one page, for example slipway-run.1

A page without a prose file gets the paragraphs of its section. In a prose file a line @OPTIONS@ stands for the table of
options, @SUBCOMMANDS@ for the list of subcommands, @IMAGES@ for the forms of image references, @VARIABLES WORD...@ for
the variables that one of these read. Must not: hold an option or a sentence of its own about one.
"""
import os
import pathlib
import re
import sys
import time

CODE = re.compile(r"`([^`]+)`|\[([^\]]+)\]\([^)]*\)|\*\*([^*]+)\*\*")


def escaped(text):
    return text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("^", r"\(ha").replace("~", r"\(ti")


def inline(text):
    """Markdown within a line as man(7) with font escapes."""
    out, at = [], 0
    for match in CODE.finditer(text):
        out.append(escaped(text[at:match.start()]))
        code, link, strong = match.groups()
        out.append(inline(link) if link else r"\fB" + escaped(code or strong) + r"\fR")
        at = match.end()
    line = "".join(out) + escaped(text[at:])
    return r"\&" + line if line[:1] in (".", "'") else line


def tag(cell):
    """An option's cell as a tag: names bold, what they take italic."""
    parts = []
    for code in re.findall(r"`([^`]+)`", cell):
        name, rest = re.match(r"(--?[A-Za-z0-9?-]+|\S+)(.*)", code).groups()
        parts.append(rf"\fB{escaped(name)}\fR" + (rf"\fI{escaped(rest)}\fR" if rest else ""))
    return ", ".join(parts)


def rows(lines):
    """The rows of the first Markdown table among lines, with its head."""
    table = []
    for line in lines:
        if line.startswith("|"):
            table.append([cell.strip().replace("\0", "|") for cell in line.replace(r"\|", "\0").strip().strip("|").split("|")])
        elif table:
            break
    return table[:1] + table[2:]


def tagged(pairs):
    return [line for head, text in pairs for line in (".TP", head, inline(text))]


def options(lines):
    table = rows(lines)
    pairs = []
    for row in table[1:]:
        text = row[-1]
        if len(row) == 3 and row[1]:
            text += f" (default: {row[1]})"
        pairs.append((tag(row[0]), text))
    return tagged(pairs)


def sections(text):
    """{heading without backquotes: lines}; what stands before the first heading is ""."""
    found, current = {"": []}, ""
    for line in text.splitlines():
        if line.startswith("## "):
            current = line[3:].strip().strip("`")
            found[current] = []
        else:
            found[current].append(line)
    return found


def paragraphs(lines):
    """The paragraphs of plain prose, and the indented code before them."""
    prose, code, current = [], [], []
    for line in [*lines, ""]:
        if line.startswith("    ") and not current:
            code.append(line.strip())
        elif line and not line.startswith(("|", "#", "-")):
            current.append(line.strip())
        elif current:
            prose.append(" ".join(current))
            current = []
    return prose, code


def summary(lines):
    """The first sentence, as the line after a name: lower case, no full stop."""
    prose, _ = paragraphs(lines)
    first = prose[0].split(". ")[0].rstrip(".")
    return first[0].lower() + first[1:]


class Reference:
    def __init__(self, top):
        self.top = pathlib.Path(top)
        self.cli = sections((self.top / "docs/reference/cli.md").read_text(encoding="utf-8"))
        self.variables = rows(sections((self.top / "docs/reference/files-and-environment.md").read_text(
            encoding="utf-8"))["Variables that Slipway reads"])[1:]

    def pages(self):
        """{page: heading}; a page written whole by hand is not among them."""
        found = {heading.replace(" ", "-") + ".1": heading for heading in self.cli if re.match(r"[a-z]", heading)}
        return {page: heading for page, heading in found.items() if not (self.top / "docs/man" / page).exists()}

    def subcommands(self):
        return tagged((rf"\fB{escaped(heading.replace(' ', '-'))}\fR(1)", summary(lines))
                      for heading, lines in self.cli.items() if heading.startswith("slipway "))

    def variables_of(self, words):
        return tagged((", ".join(rf"\fB{escaped(name)}\fR" for name in re.findall("`([^`]+)`", names)), meaning)
                      for names, readers, meaning in self.variables
                      if any(word in re.split(r"[`, ]+", readers) for word in words))

    def body_of_prose(self, heading, text):
        lines = self.cli[heading]
        out = []
        for line in text.splitlines():
            if line == "@OPTIONS@":
                out += options(lines)
            elif line == "@SUBCOMMANDS@":
                out += self.subcommands()
            elif line == "@IMAGES@":
                out += tagged((inline(form), meaning) for form, meaning in rows(self.cli[""])[1:])
            elif match := re.match(r"@VARIABLES (.+)@$", line):
                out += self.variables_of(match[1].split())
            else:
                out.append(line)
        return out

    def body_of_section(self, heading):
        lines = self.cli[heading]
        prose, code = paragraphs(lines)
        name = escaped(heading.replace(" ", "-"))
        out = [".SH NAME", rf"{name} \- {inline(summary(lines))}", ".SH SYNOPSIS"]
        for usage in code:
            words = usage.split()[:len(heading.split())]
            out.append(rf"\fB{escaped(' '.join(words))}\fR {escaped(' '.join(usage.split()[len(words):]))}")
            out.append(".br")
        out[-1:] = [".SH DESCRIPTION"]
        for number, paragraph in enumerate(prose):
            out += [".PP"] * (number > 0) + [inline(paragraph)]
        out += [".SH OPTIONS", *options(lines)]
        out += [".SH SEE ALSO", r"\fBslipway\fR(1), \fBslipway\-run\fR(1)"]
        return out

    def page(self, page, version):
        heading = self.pages()[page]
        prose = self.top / "docs/man" / (page + ".in")
        changed = os.environ.get("SOURCE_DATE_EPOCH") or (self.top / "docs/reference/cli.md").stat().st_mtime
        date = time.strftime("%Y-%m-%d", time.gmtime(int(changed)))
        body = self.body_of_prose(heading, prose.read_text(encoding="utf-8")) if prose.exists() \
            else self.body_of_section(heading)
        head = f'.TH {escaped(page[:-2].upper())} 1 {date} "Slipway {version}" "Slipway"'
        return "\n".join([r".\" Made by cmake/man_pages.py: change docs/reference or docs/man.", head, *body]) + "\n"


def main(arguments):
    if arguments[0] == "--list":
        print("\n".join(Reference(arguments[1]).pages()))
        return
    top, version, page, output = arguments
    pathlib.Path(output).write_text(Reference(top).page(page, version), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
