"""Every public name says what it does, documents exactly the parameters it has, and its examples run."""

import ast
import doctest
import importlib
import inspect
import math
import re
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from tests.docs.public import examples
from tests.peers import missing
from triskele import core, quantum, sponge
from triskele.quantum.gates import base as gates
from triskele.quantum.noise import channels

ROOT = Path(__file__).parents[2]
FILES = sorted(
    path
    for package in ("core", "sponge", "quantum", "reinforce", "command")
    for path in (ROOT / package).rglob("*.py")
    if path.name != "__main__.py"
)


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


def offence(thing):
    """Return what is wrong with the docstring of a public function or class, or None."""
    docstring = thing.__doc__
    if not docstring or not docstring.strip():
        return "a public name must have a docstring"
    body = section(docstring, "Parameters")
    if body is None:
        return None
    try:
        parameters = {p for p in inspect.signature(thing).parameters if p != "self" and not p.startswith("_")}
    except (TypeError, ValueError):
        return None
    claimed = set(documented(body))
    return (
        f"documents {sorted(claimed - parameters)} and not {sorted(parameters - claimed)}"
        if claimed != parameters
        else None
    )


def imported(module):
    """A module, or None if it needs a program that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if not missing(error):
            raise
        return None


class Runner(doctest.DocTestRunner):
    """Leaves out the rest of a docstring where it needs a program that is not installed."""

    left_out = False

    def report_unexpected_exception(self, out, test, example, exc_info):
        """Note programs that are missing; the examples after them count no more."""
        self.left_out = self.left_out or missing(exc_info[1])
        if not self.left_out:
            super().report_unexpected_exception(out, test, example, exc_info)


def test_public_names_document_their_parameters():
    things = {
        (module, public): getattr(imported(module), public) for module, public in public_names() if imported(module)
    }
    assert len(things) > 1500
    found = {
        f"{module}.{public}": offence(thing)
        for (module, public), thing in things.items()
        if inspect.isfunction(thing) or inspect.isclass(thing)
    }
    assert not (wrong := [f"{name}: {what}" for name, what in found.items() if what]), "\n".join(wrong)


def test_modules_of_the_core_list_their_public_names():
    core_files = [path for path in FILES if path.is_relative_to(ROOT / "core") and path.stat().st_size]
    assert not [
        str(p.relative_to(ROOT)) for p in core_files if not hasattr(importlib.import_module(module_name(p)), "__all__")
    ]


@pytest.mark.parametrize("module", [module_name(path) for path in FILES if ">>> " in path.read_text()])
def test_examples_run(module):
    """Examples of public names run where they are pasted, in an empty namespace; others have their module's names."""
    thing = imported(module) or pytest.skip("it needs a program that is not installed")
    public, failures = set(examples().values()), 0
    found = doctest.DocTestFinder().find(
        thing, extraglobs={"np": np, "math": math, "core": core, "sponge": sponge, "quantum": quantum}
    )
    for test in found:
        if test.docstring in public:
            test.globs = {"__name__": "__main__"}
        runner = Runner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
        # an example's own gates and channels would be there in later tests, and its names would not
        with mock.patch.dict(gates._REGISTRY), mock.patch.dict(channels.CHANNELS):
            runner.run(test)
        failures += 0 if runner.left_out else runner.failures
    assert failures == 0, f"{module}: {failures} examples in docstrings fail"
