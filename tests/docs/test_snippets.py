"""Every block of Python in the READMEs and in the documentation runs as it stands, and prints what the page says."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import Page, assert_output, split_output
from tests.peers import PEERS

ROOT = Path(__file__).parents[2]
READMES = ["README.md", *(f"{package}/README.md" for package in ("core", "sponge", "quantum", "reinforce"))]
PAGES = [*(ROOT / name for name in READMES), *sorted((ROOT / "docs" / "pages").rglob("*.md"))]
SCRIPTS = [(page, peer) for page in map(Page.read, PAGES) for peer in page.scripts]


@pytest.mark.parametrize(
    "page, peer",
    [
        pytest.param(
            page, peer, id=f"{page.path.relative_to(ROOT)}-{peer}", marks=() if peer == "triskele" else pytest.mark.peer
        )
        for page, peer in SCRIPTS
    ],
)
def test_blocks_run_in_an_empty_folder(page, peer, tmp_path):
    if peer != "triskele" and importlib.util.find_spec(peer) is None:
        pytest.skip(f"{peer} is not installed")
    script = tmp_path / "page.py"  # not the page's name: jax.py would be in the way of JAX
    script.write_text(page.script(peer))
    folder = tmp_path / "empty"
    folder.mkdir()
    path = os.pathsep.join(filter(None, [str(ROOT / ".src"), os.environ.get("PYTHONPATH")]))
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        env=os.environ | {"PYTHONPATH": path, "MPLBACKEND": "Agg", "TRISKELE_QUIET": "1"},
    )
    lacks = re.search(r"ModuleNotFoundError: .*\b(" + "|".join(PEERS) + r")\b", done.stderr)
    if lacks and importlib.util.find_spec(lacks[1]) is None:
        pytest.skip(f"{lacks[1]} is not installed")
    assert done.returncode == 0, f"{page.path}: lines of the error are those of the page\n{done.stdout}\n{done.stderr}"
    printed = split_output(done.stdout)
    for block in page.scripts[peer]:
        if block.output is not None:
            assert_output(block.output, printed[block.line], block.tolerance)
