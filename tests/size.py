"""Count what the source consists of, by folder: `python -m tests.size [REVISION]`, which `make size` calls.

A statement is a node of the syntax tree, so that line breaks do not change the count; docstrings are not statements.
A refusal is a `raise`, or a call of a function whose name begins with `check` for its errors alone. Both are counted
among the statements. With a revision of git, the table has the growth of statements since then.
"""

import argparse
import ast
import io
import subprocess
import tarfile
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("core", "sponge", "quantum", "reinforce", "command")
COLUMNS = ("files", "lines", "statements", "refusals", "docstrings")


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def is_refusal(node):
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return any(part.strip("_").startswith("check") for part in ast.unparse(node.value.func).split("."))
    return isinstance(node, ast.Raise)


def statements(node):
    """Yield the statements inside a node; walking expressions, too, would take three times as long."""
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        for inner in getattr(node, field, ()):
            if isinstance(inner, ast.stmt):
                yield inner
            yield from statements(inner)


def count(source):
    """Return the numbers of lines, statements, refusals, and lines of docstrings of one file.

    >>> sorted(count("def f(x):\\n    '''Add one.'''\\n    return x + 1\\n").items())
    [('docstrings', 1), ('files', 1), ('lines', 3), ('statements', 2)]
    """
    found = Counter(files=1, lines=len(source.splitlines()))
    for node in statements(ast.parse(source)):
        if is_docstring(node):
            found["docstrings"] += node.end_lineno - node.lineno + 1
        else:
            found["statements"] += 1
            found["refusals"] += is_refusal(node)
    return +found


def today():
    """Return the sources of the working tree by path."""
    files = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in files}


def at(revision):
    """Return the sources of a revision by path."""
    command = ["git", "archive", revision, *PACKAGES]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(done.stdout)) as archive:
        return {
            member.name: archive.extractfile(member).read().decode()
            for member in archive
            if member.isfile() and member.name.endswith(".py")
        }


def by_folder(sources):
    """Return the counts of each folder, of each package and of all packages."""
    total = defaultdict(Counter)
    for path, source in sources.items():
        found, (package, *rest) = count(source), path.split("/")
        for key in ("all", package, f"{package}/{rest[0] if len(rest) > 1 else ''}"):
            total[key] += found
    return total


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.size", description=__doc__.partition("\n")[0])
    parser.add_argument("revision", nargs="?", help="commit, branch or tag to compare with")
    options = parser.parse_args()
    now, before = by_folder(today()), by_folder(at(options.revision)) if options.revision else {}
    print(f"{'folder':<24}" + "".join(f"{name:>12}" for name in COLUMNS) + f"{'growth':>12}" * bool(before))
    for key in sorted(now, key=lambda key: (key == "all", key)):
        growth = now[key]["statements"] - before.get(key, Counter())["statements"]
        print(f"{key:<24}" + "".join(f"{now[key][name]:>12,}" for name in COLUMNS) + f"{growth:>+12,}" * bool(before))


if __name__ == "__main__":
    main()
