"""The documentation builds without a warning: every link has a target, and every public name a docstring to show."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_site_builds_without_warnings(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-f", "docs/mkdocs.yml", "-d", tmp_path],
        cwd=ROOT, capture_output=True, text=True, timeout=600,
        env=os.environ | {"PYTHONPATH": str(ROOT / ".src"), "NO_MKDOCS_2_WARNING": "1",
                          "DISABLE_MKDOCS_2_WARNING": "true"})
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    assert (tmp_path / "reference" / "core" / "index.html").stat().st_size > 100_000


def test_evidence_exists():
    """Tests that the page "How we know that it is right" names are there."""
    page = (ROOT / "docs" / "pages" / "how-we-know.md").read_text()
    named = set(re.findall(r"`(tests/[\w/.]+)`", page))
    assert len(named) > 40
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]
