"""Type checkers accept what users write: `user_code.py`, and every snippet of the READMEs is in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from triskele.core.extend import disk_cache

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / ".src"


def check_with_mypy(folder, package):
    """Check the user code in an empty folder, away from the project's settings, with `package` on the path.

    What the package itself would be told is silent, as it is for installed packages.
    """
    shutil.copy(HERE / "user_code.py", folder)
    options = [
        "--strict",
        "--follow-imports=silent",
        "--config-file=",
        "--cache-dir",
        disk_cache.folder() / "mypy-strict",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "user_code.py"],
        cwd=folder,
        env={**os.environ, "MYPYPATH": str(package)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_accepts_user_code_when_strict(tmp_path):
    check_with_mypy(tmp_path, SOURCES)


def typing_files(folder):
    """The stubs and `py.typed` markers of all packages in a folder, also of linked ones."""
    return {
        path.relative_to(package.parent)
        for link in folder.iterdir()
        for package in [link.resolve()]
        for path in package.rglob("*")
        if path.suffix == ".pyi" or path.name == "py.typed"
    }


@pytest.mark.slow
def test_mypy_accepts_user_code_with_the_wheel(tmp_path):
    """The wheel ships the stubs and `py.typed` markers that the source tree has."""
    pytest.importorskip("hatchling")
    package = tmp_path / "installed"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--no-build-isolation",
            "--no-index",
            "--target",
            package,
            SOURCES.parent,
        ],
        check=True,
        timeout=300,
    )
    assert typing_files(package / "triskele") == typing_files(SOURCES / "triskele")
    check_with_mypy(tmp_path, package)


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_user_code(tmp_path):
    shutil.copy(HERE / "user_code.py", tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"include": ["user_code.py"], "extraPaths": ["{SOURCES}"], "typeCheckingMode": "basic"}}'
    )
    done = subprocess.run(
        ["pyright", "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
