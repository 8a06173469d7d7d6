"""Exceptions that compiled rules raise.

A kernel on the pool of threads cannot pass them on, so they are caught where Numba reports them.
"""

from __future__ import annotations

import sys
from typing import Any, Self

__all__ = ["Raised"]

_active: list[Raised] = []


class Raised:
    """Collect in `errors` what rules raise inside a ``with`` block, which would otherwise only be printed."""

    def __init__(self) -> None:
        self.errors: list[BaseException] = []

    def __enter__(self) -> Self:
        if not getattr(sys.unraisablehook, "of_rules", False):
            sys.unraisablehook = _hook(sys.unraisablehook)
        _active.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _active.remove(self)


def _hook(before: Any) -> Any:
    def note(unraisable: Any) -> None:
        if _active and unraisable.exc_value is not None and "numba" in str(unraisable.object):
            for raised in _active:
                raised.errors.append(unraisable.exc_value)
        else:
            before(unraisable)

    note.of_rules = True  # type: ignore[attr-defined]
    return note
