"""Every public name says what it does, documents exactly the parameters it has, and its examples run."""

import doctest
import importlib
import inspect
import pkgutil
import re

import pytest

from triskele import core

MODULES = ["triskele.core", *sorted(m.name for m in pkgutil.walk_packages(core.__path__, "triskele.core."))]


def public_names():
    for module_name in MODULES:
        module = importlib.import_module(module_name)
        for public in getattr(module, "__all__", ()):
            thing = getattr(module, public)
            if inspect.isfunction(thing) or inspect.isclass(thing):
                yield pytest.param(thing, id=f"{module_name.removeprefix('triskele.')}.{public}")


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


@pytest.mark.parametrize("thing", list(public_names()))
def test_public_docstring(thing):
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


@pytest.mark.parametrize("module_name", MODULES)
def test_examples_run(module_name):
    module = importlib.import_module(module_name)
    results = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert results.failed == 0, f"{module_name}: {results.failed} of {results.attempted} examples in docstrings fail"
