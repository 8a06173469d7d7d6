"""The documentation builds without a warning: every link has a target, and every public name a docstring to show."""

import re
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


FROM_ELSEWHERE = re.compile(r"<(?:script|img|link)\b[^>]*(?:src|href)=[\"']?(?:https?:)?//")  # loaded by browsers


def test_site_builds_without_warnings(tmp_path):
    site = tmp_path / "site"
    (tmp_path / "sources").mkdir()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "--keep-going",
            "-j",
            "auto",
            "-c",
            "docs",
            tmp_path / "sources",
            site,
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr, done.stderr
    assert (site / "reference" / "core" / "index.html").stat().st_size > 100_000
    assert "<math" in (site / "reference" / "sponge" / "Nonbonded.html").read_text()
    assert not [page for page in site.rglob("*.html") if FROM_ELSEWHERE.search(page.read_text())]


def test_evidence_exists():
    """Tests that the page "How correctness is checked" names are there."""
    page = (ROOT / "docs" / "pages" / "how-we-know.md").read_text()
    named = set(re.findall(r"`(tests/[\w/.]+)`", page))
    assert len(named) > 40
    assert not [path for path in sorted(named) if not (ROOT / path).exists()]


def external_links():
    """Addresses of other servers in pages and READMEs."""
    pages = [*(ROOT / "docs" / "pages").rglob("*.md"), ROOT / "README.md", *ROOT.glob("*/README.md")]
    return sorted({link for page in pages for link in re.findall(r"\]\((https?://[^)\s]+)\)", page.read_text())})


@pytest.mark.slow
def test_external_links_have_targets():
    """Servers that refuse programs (403, 429) have the page; a machine without a network cannot tell."""
    dead = {}
    for link in external_links():
        request = urllib.request.Request(link, headers={"User-Agent": "Mozilla/5.0"})
        try:
            urllib.request.urlopen(request, timeout=30).close()
        except urllib.error.HTTPError as error:
            if error.code in (404, 410):
                dead[link] = error.code
        except OSError as error:
            pytest.skip(f"{link} cannot be reached: {error}")
    assert not dead, dead
