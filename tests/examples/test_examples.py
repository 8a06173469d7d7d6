"""Every example runs as a user would run it, ends well and leaves its picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.py"))
SHORTER = {"alphazero_connect_four.py": ["--minutes", "0.2"]}  # where an example takes as long as it is let


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: str(path.relative_to(ROOT / "examples")))
def test_example(path, tmp_path):
    picture = tmp_path / "picture.png"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / ".src"), "MPLCONFIGDIR": str(tmp_path)}
    # busy machines
    run = subprocess.run([sys.executable, path, "--output", picture, *SHORTER.get(path.name, [])], env=environment,
                         cwd=tmp_path, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stdout + run.stderr
    assert picture.stat().st_size > 5000
