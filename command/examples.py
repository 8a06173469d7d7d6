"""List, copy or run the example scripts.

`triskele examples copy NAME` writes a script and the data it reads into the current folder, to change and run it.
"""

from __future__ import annotations

import argparse
import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import triskele

from . import PACKAGES

__all__ = ["arguments", "find", "run", "scripts"]

FOLDER = Path(str(triskele.__file__)).parent / "examples"


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        default="list",
        choices=["list", "copy", "run"],
        metavar="list|copy|run",
        help="list all examples (the default), copy one into this folder, or run it here",
    )
    parser.add_argument("example", nargs="?", help="name from the list, such as vqe_lih")
    parser.add_argument("options", nargs=argparse.REMAINDER, help="options of the script that runs; --help shows them")


def run(options: argparse.Namespace) -> int | None:
    """List, copy or run."""
    if options.action == "list":
        if options.example:
            raise ValueError(f"list takes no name, got {options.example!r}")
        _list()
        return None
    if not options.example:
        raise ValueError(f"{options.action} needs the name of an example (`triskele examples list` shows them)")
    script = find(options.example)
    if options.action == "copy":
        if options.options:
            raise ValueError(f"copy takes one name, got {' '.join([options.example, *options.options])}")
        _copy(script)
        return None
    if "import matplotlib" in script.read_text(encoding="utf-8"):  # before the work, which may be long
        from triskele.core.extend import optional

        optional.need("matplotlib", options.example, "plot")
    return subprocess.run([sys.executable, script, *options.options]).returncode


def scripts() -> dict[str, Path]:
    """Return the example scripts by name, in the order of their packages; what combines packages comes last."""
    folders = sorted({path.parent.name for path in FOLDER.glob("*/*.py")} - {*PACKAGES})
    return {path.stem: path for folder in (*PACKAGES, *folders) for path in sorted((FOLDER / folder).glob("*.py"))}


def find(name: str) -> Path:
    """Return the script of that name; raise ValueError, with the nearest name, if there is none."""
    known = scripts()
    if (stem := name.removesuffix(".py").replace("-", "_")) not in known:
        from triskele.core.extend import check

        raise ValueError(f"there is no example {name!r}{check.near(stem, known)} (`triskele examples list` shows all)")
    return known[stem]


def _summary(script: Path) -> str:
    return (ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or "").partition("\n")[0]


def _list() -> None:
    known = scripts()
    width = max(map(len, known)) + 2
    folder = None
    for name, path in known.items():
        if path.parent != folder:
            folder = path.parent
            print(f"{folder.name}:")
        print(f"  {name:<{width}}{_summary(path)}")


def _copy(script: Path) -> None:
    """Copy a script, and the files of the folder `data` beside it whose names stand in it."""
    data = script.parent / "data"
    text = script.read_text(encoding="utf-8")
    files = [script, *(path for path in sorted(data.glob("*")) if re.search(rf"\b{re.escape(path.name)}\b", text))]
    targets = [Path(path.relative_to(script.parent)) for path in files]
    for target in targets:
        if target.exists():
            raise FileExistsError(f"{target} exists already (move it away, or copy in another folder)")
    for path, target in zip(files, targets, strict=True):
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
        print(target)
