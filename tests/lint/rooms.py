"""Owns the list of allowed includes between rooms, and what every source file must open with.

Must not: need anything built.
"""
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]

# A room may include the public headers of these rooms, and of itself.
ALLOWED = {
    "base": set(),
    "image": {"base"},
    "runtime": {"image", "base"},
    "builder": {"runtime", "image", "base"},
    "train": {"base"},
    "cli": {"builder", "runtime", "image", "train", "base"},
}
PLACES = {
    "src/base": "base", "include/slipway/base": "base",
    "src/image": "image", "include/slipway/image": "image",
    "runtime": "runtime", "include/slipway/runtime": "runtime",
    "builder": "builder", "include/slipway/builder": "builder",
    "src/train": "train", "include/slipway/train": "train",
    "src/cli": "cli",
}
# The builder reaches the runtime through one header, the command line reaches the runtime through another.
ONLY_THROUGH = {("builder", "runtime"): {"slipway/runtime/step.hpp"}}
MAX_LINES = 800
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    relative = path.relative_to(TOP).as_posix()
    for place, room in PLACES.items():
        if relative.startswith(place + "/"):
            return room
    return None


def problems_of(path):
    text = path.read_text(encoding="utf-8")
    relative = path.relative_to(TOP)
    room = room_of(path)
    lines = text.splitlines()
    if len(lines) > MAX_LINES:
        yield f"{relative}: {len(lines)} lines; split it"
    if not (lines and lines[0].startswith("// ")):
        yield f"{relative}: does not open with a line that says its job"
    elif path.suffix == ".cpp":
        head = " ".join(lines[:4])
        if "Must not:" not in head:
            yield f"{relative}: its head does not say what it must not do"
    if room is None:
        return
    for quote, name in INCLUDE.findall(text):
        if name.startswith("slipway/"):
            other = name.split("/")[1]
            if other != room and other not in ALLOWED[room]:
                yield f"{relative}: {room} may not include {name}"
            through = ONLY_THROUGH.get((room, other))
            if through and name not in through:
                yield f"{relative}: {room} reaches {other} only through {', '.join(sorted(through))}"
        elif quote == '"' and not any((base / name).is_file() for base in own_directories(path, room)):
            yield f"{relative}: the private header {name} is not of this room"


def own_directories(path, room):
    yield path.parent
    for place, owner in PLACES.items():
        if owner == room:
            yield TOP / place
            yield (TOP / place).parent  # "train/comm/shared.hpp" from within src/train


def main():
    files = [p for place in PLACES for p in (TOP / place).rglob("*") if p.suffix in (".cpp", ".hpp")]
    if len(files) < 20:
        sys.exit(f"only {len(files)} source files found below {TOP}: the lint test looks in the wrong place")
    problems = [line for path in sorted(set(files)) for line in problems_of(path)]
    for line in problems:
        print(line)
    print(f"{len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
