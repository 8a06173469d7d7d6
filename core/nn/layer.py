"""`layer`: what all layers have in common: a short repr, and errors that name `init`."""

from __future__ import annotations

import dataclasses
import functools
from typing import TypeVar

from ..show.short_repr import short_repr

__all__ = ["layer"]

C = TypeVar("C", bound=type)


def layer(cls: C) -> C:
    """Decorate a dataclass of arrays that has `init` and `__call__`.

    A layer that is made of sizes instead of arrays, ``Linear(3, 4)``, raises TypeError, when it is made or called.
    """
    hint = f"nn.{cls.__name__}.init(key, ...) makes a layer with fresh weights"
    make, call = cls.__init__, cls.__call__  # type: ignore[misc]

    @functools.wraps(make)
    def __init__(self, *args, **kwargs):
        """Make a layer of its arrays."""
        try:
            make(self, *args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{error} ({hint})") from None

    @functools.wraps(call)
    def __call__(self, *args, **kwargs):
        """Apply the layer."""
        try:
            return call(self, *args, **kwargs)
        except (IndexError, TypeError, ValueError):
            first = getattr(self, dataclasses.fields(self)[0].name)
            if type(first[0] if type(first) in (list, tuple) and first else first) is int:
                raise TypeError(f"{cls.__name__}: weights must be arrays, got a layer made of sizes ({hint})") from None
            raise

    cls.__init__, cls.__call__ = __init__, __call__  # type: ignore[misc, assignment]
    return short_repr(cls)
