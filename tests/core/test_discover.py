"""Modules of a folder are found by being there."""

import sys

import pytest

from triskele.core.imports import discover


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package of two modules; importing the second leaves a mark."""
    folder = tmp_path / "found_by_folder"
    folder.mkdir()
    (folder / "__init__.py").write_text(
        "from triskele.core.extend import discover\n__getattr__, __dir__ = discover.attach(__name__)\n"
    )
    (folder / "one.py").write_text("__all__ = ['Chess']\nclass Chess: pass\nhidden = 1\n")
    (folder / "two.py").write_text("__all__ = ['Go']\nGo = 2\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield folder.name
    for name in [m for m in sys.modules if m.startswith(folder.name)]:
        del sys.modules[name]


def test_names_do_not_import(package):
    assert discover.names(package) == ["one", "two"]
    assert f"{package}.one" not in sys.modules


def test_folders_inside(package, tmp_path):
    (tmp_path / package / "inner").mkdir()
    (tmp_path / package / "inner" / "__init__.py").write_text("")
    (tmp_path / package / "inner" / "three.py").write_text("")
    assert discover.names(package) == ["inner", "one", "two"]
    assert list(discover.modules(package, deep=True)) == ["inner", "inner.three", "one", "two"]


def test_modules_and_public_names(package):
    assert [m.__name__ for m in discover.modules(package).values()] == [f"{package}.one", f"{package}.two"]
    assert set(discover.public(package)) == {"Chess", "Go"}


def test_a_package_gets_the_public_names(package):
    face = __import__(package)
    assert f"{package}.one" not in sys.modules
    assert face.Go == 2
    assert face.Chess.__name__ == "Chess"
    assert dir(face) == ["Chess", "Go"]
    with pytest.raises(AttributeError, match="module 'found_by_folder' has no attribute 'hidden'"):
        face.hidden  # noqa: B018
    assert not hasattr(face, "_private")
