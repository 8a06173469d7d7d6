"""House rules that a script can check: file length, imports that only one door may make, words that do not belong."""

import importlib
import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "sponge", "quantum", "reinforce", "command", "tests", "examples")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
LONGEST = 600

# Unfinished work belongs in the tracker, no file may know the machine it was written on, and no formatter is run.
FORBIDDEN = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b|# fmt: (?!skip)|(?<![\w.])/(work|home|root|Users)/")


def name(path):
    return str(path.relative_to(ROOT))


TEXTS = {path: path.read_text() for path in SOURCES}


def test_a_file_can_be_held_in_the_head():
    long = [f"{name(path)}: {n} lines" for path, text in TEXTS.items() if (n := len(text.splitlines())) > LONGEST]
    assert not long, f"a file must have at most {LONGEST} lines (split it by matter): " + ", ".join(long)


def test_no_forbidden_words():
    found = [
        f"{name(path)}:{number}: {word.group()}"
        for path, text in TEXTS.items()
        if path != Path(__file__).resolve()
        for number, line in enumerate(text.splitlines(), 1)
        if (word := FORBIDDEN.search(line))
    ]
    assert not found, "these words do not belong in the code: " + ", ".join(found)


def test_sources_have_a_docstring():
    without = [
        name(path)
        for path, text in TEXTS.items()
        if not path.is_relative_to(ROOT / "tests")
        and not path.is_relative_to(ROOT / "examples")
        and text.strip()
        and not text.lstrip().startswith(('"""', 'r"""'))
    ]
    assert not without, "a module must say in its first line what it is: " + ", ".join(without)


def test_no_module_hides_a_name_of_its_package():
    """Importing `package.name` sets `name` of the package to the module, in place of a function of that name; a module
    that can be called takes the function's place.
    """
    faces = [path for folder in FOLDERS[:5] for path in (ROOT / folder).rglob("__init__.pyi")]
    hidden = [
        f"{name(path.parent)}.{word}"
        for path in faces
        for word in re.findall(r"^from \.\S+ import \w+ as (\w+)$", path.read_text(), re.M)
        if ((path.parent / f"{word}.py").exists() or (path.parent / word).is_dir())
        and not callable(importlib.import_module(f"triskele.{name(path.parent).replace('/', '.')}.{word}"))
    ]
    assert faces and not hidden, "a module must not be named like a public name beside it: " + ", ".join(hidden)


def test_packages_are_linked_into_the_namespace():
    """The editable install and the tests import through .src; a copy instead of a link would hide edits."""
    for folder in (*FOLDERS[:5], "examples"):
        assert (ROOT / ".src" / "triskele" / folder).resolve() == ROOT / folder


@pytest.mark.parametrize("project", ["OpenMM", "openmmtools"])
def test_data_of_others_lie_beside_their_license(project):
    readmes = [ROOT / "sponge" / "data", ROOT / "examples" / "sponge" / "data", ROOT / "tests" / "data" / "sponge"]
    folders = [
        folder
        for folder in readmes
        if re.search(rf"\b{project}\b.*\bMIT\b", (folder / "README.md").read_text(), re.DOTALL)
    ]
    assert folders
    for folder in folders:
        text = (folder / f"LICENSE-{project}.txt").read_text()
        assert "Permission is hereby granted, free of charge" in text and "Copyright" in text or "copyright" in text


def test_licenses_of_shipped_data_are_in_the_wheel():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    shipped = {str(path.relative_to(ROOT)) for folder in FOLDERS[:5] for path in (ROOT / folder).rglob("LICENSE*")}
    assert shipped | {"LICENSE"} == set(project["license-files"])
