"""What the checks of this folder share: the tree, its rooms, its words."""

import re
import subprocess
import sys
from pathlib import Path

# Prefixes of a commit subject: the rooms, and the parts around them.
PREFIXES = (
    "base wire crypto fib policy srv6 esp plane conf ctl ike babel node os engine weftd weft "
    "test interop bench fuzz tools ci build doc dist"
).split()

# Words that have no place in the tree or its history. Written with character
# classes, so that this list does not find itself.
UNFIT = [
    (re.compile(r"\b(T[O]DO|FIX[M]E|X[X]X|HA[C]K)\b"), "a note to do it later; do it or drop it"),
    (re.compile(r"\b[i]ssues? ?#?\d+|[(\s]#\d+\b(?!\s*(?:if|define))"), "a number of a tracker"),
    (re.compile(r"\bsub[-_ ]?a[g]ents?\b|\bhelper a[g]ents?\b|\bC[E]O\b", re.I), "a foreign word"),
    (re.compile(r"(?<![\w.])/w[o]rk/|/tmp/w[t]/|\.\./sh[a]red\b"), "a path of one machine"),
]


class Room:
    """One line of LAYERS."""

    def __init__(self, name, may_include, grants):
        self.name = name
        self.may_include = may_include
        self.io = "io" in grants
        self.heap = "heap" in grants


def read_layers(root):
    """LAYERS as {name: Room} and the list of what is wrong with the file itself."""
    rooms, wrong = {}, []
    for number, line in enumerate((root / "LAYERS").read_text().splitlines(), 1):
        words = line.split("#")[0].split()
        if not words:
            continue
        grants = words.pop().split(",") if words[-1] in ("heap", "io", "io,heap") else []
        name, includes = words[0], [w for w in words[1:] if w != "-"]
        for other in includes:
            if other not in rooms:
                wrong.append(f"LAYERS:{number}: {name} names {other}, not on an earlier line")
        if name in rooms:
            wrong.append(f"LAYERS:{number}: {name} has two lines")
        rooms[name] = Room(name, includes, grants)
    return rooms, wrong


def tracked(root, *patterns):
    """Files of the tree as paths relative to root: git's, else what lies there."""
    out = subprocess.run(
        ["git", "-C", str(root), "ls-files", "-z", "--cached", "--others", "--exclude-standard",
         "--", *patterns],
        capture_output=True, text=True, check=True).stdout
    return sorted(p for p in set(out.split("\0")) if p and (root / p).is_file())


def finish(check, wrong, looked_at):
    """Print what is wrong and exit: 1 when anything is, 0 with a count else."""
    for line in wrong:
        print(line)
    if wrong:
        print(f"{check}: {len(wrong)} wrong", file=sys.stderr)
        sys.exit(1)
    print(f"{check}: {looked_at}, all well")
    sys.exit(0)


def root_argument(parser):
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent,
                        help="the tree to check (default: this one)")
