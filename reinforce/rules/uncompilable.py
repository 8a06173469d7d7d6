"""One-line summaries of Numba's compile errors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from triskele.core.extend import check

__all__ = ["essence"]

_NOISE = (
    "Failed in ",
    "During:",
    "There are",
    "- Of which",
    "Overload",
    "Operator Overload",
    "With argument",
    "No match",
    "*",
    "<source elided>",
    "^",
    "raised from",
    "Rejected as",
    "Candidate",
)


def essence(error: Any, fields: Sequence[str] = ()) -> str:
    """Return the core of a Numba error message, and the first line of the user's code that it names; for code that uses
    another field of the state, one of `fields` is suggested.
    """
    text = re.sub(r"\x1b\[\d*m", "", str(error))
    lines = [line.strip() for line in text.splitlines()]
    told = [
        line for line in lines if line and not line.startswith((*_NOISE, "File ")) and "triskele_generated" not in line
    ]
    places = [p for p in re.findall(r'File "([^"]+", line \d+)', text) if "triskele" not in p and "numba/" not in p]
    where = f" (file {places[0].replace(chr(34), '')})" if places else ""
    if isinstance(error, KeyError):  # what Numba raises for a field that a record does not have
        name = str(error.args[0])
        return f"the state has no field {name!r}{check.near(name, fields, listing=True)}{where}"
    return " ".join(told[:4])[:500] + where
