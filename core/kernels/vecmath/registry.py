"""The table of functions: name -> body, arity and stated errors. A module of bodies adds rows by decorating them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .builder import Value

__all__ = ["FUNCTIONS", "Row", "function"]


class Row(NamedTuple):
    """One function of the library."""

    body: Callable[..., Value]  # body(b, *arguments) -> result
    arity: int
    ulp: dict[str, float]  # largest error in units in the last place, by dtype
    far: dict[str, float] | None  # |x| beyond which the body does not hold, by dtype


FUNCTIONS: dict[str, Row] = {}


def function(name: str, *, f32: float, f64: float, arity: int = 1, far: dict[str, float] | None = None):
    """Register a body with the largest error it may show, in ulp of the correctly rounded result.

    Beyond `far` vectors call the C library lane by lane, and scalar code, which must not branch, gives NaN.
    """

    def register(body):
        if name in FUNCTIONS:
            raise ValueError(
                f"vecmath: function {name!r} must be defined once, is already in {FUNCTIONS[name].body.__module__}"
            )
        FUNCTIONS[name] = Row(body, arity, {"f32": f32, "f64": f64}, far)
        return body

    return register
