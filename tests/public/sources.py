"""Finds the example programs in a folder of the vendor's public repositories.

A program is a file `examples/**/*.cpp`, or a block of C++ in a page (`*.md`), that has a `main` and calls an aclnn function.
The same program in two places counts once.
"""

import re
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^[ \t]*```\s*(?:c|cpp|c\+\+|C\+\+|Cpp|CPP)?[ \t]*\n(.*?)^[ \t]*```", re.DOTALL | re.MULTILINE)
MAIN = re.compile(r"\bmain\s*\(")
CALL = re.compile(r"\b(aclnn\w+?)GetWorkspaceSize\s*\(")
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


@dataclass(frozen=True)
class Program:
    """One program, the file it comes from with its folder, and the aclnn functions it calls."""

    name: str
    place: str
    folder: Path
    text: str
    functions: tuple[str, ...]


def normalized(text):
    """The text without comments and blanks: programs that agree in it are the same."""
    return re.sub(r"\s+", "", COMMENT.sub("", text))


def texts(root):
    for path in sorted(root.rglob("*.cpp")):
        if "examples" in path.relative_to(root).parts:
            yield path, path.read_text(encoding="utf-8", errors="replace")
    for path in sorted(root.rglob("*.md")):
        for block in BLOCK.findall(path.read_text(encoding="utf-8", errors="replace")):
            yield path, block


def collect(root):
    """Every program below a folder, each once, in the order of their files."""
    root, known, programs, names = Path(root), set(), [], {}
    for path, text in texts(root):
        code = COMMENT.sub("", text)
        functions = tuple(dict.fromkeys(CALL.findall(code)))
        if not MAIN.search(code) or not functions or normalized(text) in known:
            continue
        known.add(normalized(text))
        stem = re.sub(r"\W+", "_", path.stem)
        names[stem] = names.get(stem, 0) + 1
        name = stem if names[stem] == 1 else f"{stem}-{names[stem]}"
        programs.append(Program(name, str(path.relative_to(root)), path.parent, text, functions))
    return programs
