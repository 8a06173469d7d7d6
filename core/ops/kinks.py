"""Squares of moduli and lengths, from before the root was taken.

The first derivative of ``abs(x)``, ``hypot(x, y)`` and norms at 0 is 0 by convention. Second derivatives do not follow
from this value, so that even powers are computed from the square, which has no kink.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..tensor import Tensor

__all__ = ["made_by", "remember", "squared"]


def remember(out: Any, name: str, args: Any) -> Any:
    """`out`; a Tensor notes of which arguments the primitive `name` made it."""
    if isinstance(out, Tensor):
        out._made = name, out.value, args, [getattr(a, "value", None) for a in args]
    return out


def made_by(x: Any, *names: str) -> Any:
    """The arguments from which a primitive among `names` made the Tensor `x`; None if one was assigned to since."""
    made = getattr(x, "_made", None)
    if made is None or made[0] not in names or made[1] is not x.value:
        return None
    return made[2] if all(getattr(a, "value", None) is v for a, v in zip(made[2], made[3], strict=True)) else None


_SQUARES: dict[str, Callable[..., Any]] = {
    "absolute": lambda x: np.real(x) * np.real(x) + np.imag(x) * np.imag(x) if np.iscomplexobj(x) else x * x,
    "fabs": lambda x: x * x,
    "norm_root": lambda s: s,
    "hypot": lambda x, y: x * x + y * y,
}


def squared(x: Any) -> Any:
    """The square of a modulus or length from before the root was taken; None for other values."""
    made = getattr(x, "_made", None)
    if made is None or (args := made_by(x, *_SQUARES)) is None or x.dtype.kind != "f":
        return None
    found = _SQUARES[made[0]](*args)
    return found if found.dtype == x.dtype and found.shape == x.shape else None
