"""What `help()` shows of public names: a summary, documented parameters, and an example that can be pasted.

`docstrings_to_write.txt` lists the names that still lack something; the list only shrinks.
"""

import enum
import inspect
import re
from pathlib import Path

from tests.docs.public import examples, inner, things, unbound

LACKING = set(Path(__file__).with_name("docstrings_to_write.txt").read_text().splitlines())


def parameters(thing):
    """Names of the public parameters; none where there is no signature to read."""
    try:
        return [p for p in inspect.signature(thing).parameters if p != "self" and not p.startswith("_")]
    except (TypeError, ValueError):
        return []


def lacks(thing):
    """What the docstring of a public function or class lacks: "summary", "parameters", "example".

    Exceptions and enumerations need only a summary, and records that say "See `function`" have that function's example.
    Attributes of a record are its parameters, too.
    """
    text = inspect.cleandoc(thing.__doc__ or "")
    exempt = inspect.isclass(thing) and issubclass(thing, BaseException | enum.Enum)
    if not text.partition("\n")[0]:
        yield "summary"
    if not exempt and len(parameters(thing)) >= 3 and not re.search(r"^(Parameters|Attributes)\n-+", text, re.M):
        yield "parameters"
    if not exempt and ">>> " not in text and not re.match(r"(?:.*, )?[Ss]ee `", text):
        yield "example"


def test_public_docstrings_are_complete():
    found = {f"{what} {name}" for name, thing in things().items() for what in lacks(thing)}
    assert len(things()) > 500
    assert not (new := found - LACKING), "\n".join(sorted(new))
    assert not (mended := LACKING - found), "to be deleted from docstrings_to_write.txt:\n" + "\n".join(sorted(mended))


def test_inner_docstrings_are_short():
    """Sections are for the reference; inside, one line, and shapes and units at the arguments."""
    found = inner()
    assert sum(found.values()) <= 400, "\n".join(f"{lines} {name}" for name, lines in sorted(found.items()))


def test_examples_of_public_names_can_be_pasted():
    """Each example imports, or makes, what it uses; `tests/style/test_docstrings.py` runs them."""
    assert len(examples()) > 300
    assert not (found := {name: u for name, text in examples().items() if (u := unbound(text))}), found


def test_what_is_lacking_is_found():
    def f(a, b, c):
        """Add."""

    assert list(lacks(f)) == ["parameters", "example"]
    f.__doc__ = ""
    assert "summary" in list(lacks(f))
    assert not list(lacks(type("Wrong", (ValueError,), {"__doc__": "An error."})))
    assert sorted(unbound(">>> a = 1\n>>> a + np.sin(b)")) == ["b", "np"]
