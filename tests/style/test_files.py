"""House rules that a script can check: file length, imports that only one door may make, words that do not belong."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "sponge", "quantum", "reinforce", "tests", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
LONGEST = 600

# Unfinished work belongs in the tracker, and no file may know the machine it was written on.
FORBIDDEN = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|(?<![\w.])/(work|home|root|Users)/")


def name(path):
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_can_be_held_in_the_head(path):
    lines = len(path.read_text().splitlines())
    assert lines <= LONGEST, f"{name(path)}: a file must have at most {LONGEST} lines, got {lines} (split it by matter)"


@pytest.mark.parametrize("path", [p for p in SOURCES if p != Path(__file__).resolve()], ids=name)
def test_no_forbidden_words(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = FORBIDDEN.search(line)
        assert not found, f"{name(path)}:{number}: {found.group()!r} does not belong in the code"


@pytest.mark.parametrize("path", [p for p in SOURCES if p.is_relative_to(ROOT / "core") or p.is_relative_to(ROOT / "sponge")], ids=name)
def test_source_has_a_docstring(path):
    text = path.read_text().strip()
    assert not text or text.startswith(('"""', 'r"""')), f"{name(path)}: a module must say in its first line what it is"


def test_packages_are_linked_into_the_namespace():
    """The editable install and the tests import through .src; a copy instead of a link would hide edits."""
    for folder in ("core", "sponge", "quantum", "reinforce"):
        assert (ROOT / ".src" / "triskele" / folder).resolve() == ROOT / folder


@pytest.mark.parametrize("project", ["OpenMM", "openmmtools"])
def test_data_of_others_lie_beside_their_licence(project):
    readmes = [ROOT / "sponge" / "data", ROOT / "examples" / "sponge" / "data", ROOT / "tests" / "data" / "sponge"]
    folders = [folder for folder in readmes if re.search(rf"\b{project}\b.*\bMIT\b", (folder / "README.md").read_text(), re.DOTALL)]
    assert folders
    for folder in folders:
        text = (folder / f"LICENSE-{project}.txt").read_text()
        assert "Permission is hereby granted, free of charge" in text and "Copyright" in text or "copyright" in text


def test_licences_of_shipped_data_are_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shipped = {str(path.relative_to(ROOT)) for folder in FOLDERS[:4] for path in (ROOT / folder).rglob("LICENSE*")}
    assert shipped | {"LICENSE"} == set(project["license-files"])
