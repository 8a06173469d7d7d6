"""Tell the classes of this package from those that users write, which are checked when they are first used."""

from __future__ import annotations

from typing import Any

__all__ = ["is_shipped"]


def is_shipped(value: Any) -> bool:
    """Return True if the class of an object belongs to this package."""
    return type(value).__module__.startswith("triskele.reinforce.")
