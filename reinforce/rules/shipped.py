"""Tell the classes of this package from those that users write, which are checked when they are first used."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["is_shipped", "rule_options"]


def is_shipped(value: Any) -> bool:
    """Return True if a function, or the class of an object, belongs to this package."""
    home = value if hasattr(value, "__code__") else type(value)
    return home.__module__.startswith("triskele.reinforce.")


def rule_options(value: Any) -> dict[str, bool]:
    """Return how the rules of a game or environment, or a function, are compiled where their own loop is short: what
    users write checks its indices, unless the environment variable `TRISKELE_CHECKED` is 0.

    An environment checks them in every step or in none, because machine code of the two kinds may differ in the last
    bits of its results.
    """
    unchecked = os.environ.get("TRISKELE_CHECKED") == "0" or is_shipped(value)
    return {} if unchecked else {"boundscheck": True}
