"""Type checkers accept what users write: `user_code.py`, and every snippet of the READMEs is in it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / ".src"


def test_mypy_accepts_user_code_when_strict(tmp_path):
    # away from the project's own settings, and with the package as another project would find it
    shutil.copy(HERE / "user_code.py", tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--config-file=", "user_code.py"], cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(SOURCES)}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.skipif(shutil.which("pyright") is None, reason="pyright is not installed")
def test_pyright_accepts_user_code(tmp_path):
    shutil.copy(HERE / "user_code.py", tmp_path)
    (tmp_path / "pyrightconfig.json").write_text(
        f'{{"include": ["user_code.py"], "extraPaths": ["{SOURCES}"], "typeCheckingMode": "basic"}}')
    done = subprocess.run(["pyright", "--pythonpath", sys.executable], cwd=tmp_path, capture_output=True, text=True,
                          timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
