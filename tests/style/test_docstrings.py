"""Every public name says what it does, documents exactly the parameters it has, and its examples run."""

import ast
import doctest
import importlib
import inspect
import math
import re
from pathlib import Path

import numpy as np
import pytest

from triskele import core, quantum, sponge

ROOT = Path(__file__).parents[2]
FILES = sorted(path for package in ("core", "sponge", "quantum", "reinforce") for path in (ROOT / package).rglob("*.py") if path.name != "__main__.py")


def module_name(path):
    return ".".join(("triskele", *path.relative_to(ROOT).with_suffix("").parts)).removesuffix(".__init__")


def public_names():
    """(module, name) of every string written out in an `__all__`, read without importing."""
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                for entry in getattr(node.value, "elts", ()):
                    if isinstance(entry, ast.Constant):
                        yield module_name(path), entry.value


def section(docstring, title):
    """The body of one numpydoc section, or None."""
    found = re.search(rf"^{title}\n-+\n(.*?)(?=^\S[^\n]*\n-{{3,}}\n|\Z)", inspect.cleandoc(docstring), re.M | re.S)
    return found and found.group(1)


def documented(body):
    """Names before the colon of every entry, with stars and default markers removed."""
    names = []
    for line in body.splitlines():
        if line and not line[0].isspace():
            names += [n.strip().lstrip("*") for n in line.split(" :")[0].split(",")]
    return [n for n in names if n and n != "..."]


@pytest.mark.parametrize(("module", "public"), list(public_names()))
def test_public_docstring(module, public):
    thing = getattr(importlib.import_module(module), public)
    if not (inspect.isfunction(thing) or inspect.isclass(thing)):
        return
    docstring = thing.__doc__
    assert docstring and docstring.strip(), f"{thing.__qualname__}: a public name must have a docstring"
    body = section(docstring, "Parameters")
    if body is None:
        return
    try:
        parameters = [p for p in inspect.signature(thing).parameters if p != "self" and not p.startswith("_")]
    except (TypeError, ValueError):
        return
    claimed = documented(body)
    assert set(claimed) <= set(parameters), f"{thing.__qualname__}: documents {set(claimed) - set(parameters)}, has {parameters}"
    missing = set(parameters) - set(claimed)
    assert not missing, f"{thing.__qualname__}: parameters {missing} must be documented"


@pytest.mark.parametrize("module", [module_name(path) for path in FILES])
def test_examples_run(module):
    """Examples may use np, math, core, sponge and quantum without importing them, besides their module's own names."""
    results = doctest.testmod(
        importlib.import_module(module),
        extraglobs={"np": np, "math": math, "core": core, "sponge": sponge, "quantum": quantum},
        optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS,
    )
    assert results.failed == 0, f"{module}: {results.failed} of {results.attempted} examples in docstrings fail"
