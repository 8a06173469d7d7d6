"""Kinks at 0: second derivatives of moduli and lengths.

The first derivative of ``abs(x)``, ``hypot(x, y)`` and norms at 0 is 0. Second derivatives do not follow from this
value. Even powers are therefore computed from the square, which has no kink, and other second derivatives at the kink
are NaN if the slope jumps there. Where the result enters with slope 0, as in ``norm(x) ** 3`` or behind a mask, the
second derivative is 0; this is wrong for ``cosh(abs(x))``, which has no kink but is no power.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import Tensor
from .define import batch_elementwise

__all__ = ["made_by", "mark_kink", "remember", "squared"]

# "across": of one number, which must move; of a length by reverse mode ("pulled") and by forward mode ("pushed"), where
# nothing moves to first order
_HOW = ("across", "pulled", "pushed")

# value, where the kink is (at 0), and the slope that meets it there: a cotangent or a tangent
kink_p = Primitive("kink", lambda value, at, slope, *, how: value, lambda value, at, slope, *, how: value,
                   kind="elementwise", flops=0, emit=lambda b, value, at, slope, *, how: value,
                   samples=lambda rng: [(tuple(rng.normal(size=(3, 2))), {"how": how}) for how in _HOW])
kink_p.loop = lambda value, at, slope, *, how: (value.dtype, at.dtype, slope.dtype, value.dtype)
kink_p.defbatch(lambda args, axes, size, **params: batch_elementwise(kink_p, args, axes, params))


def _pull(t, out, value, at, slope, *, how):
    """NaN where the slope jumps."""
    zero = np.equal(at, 0)
    if how == "pulled":
        return t * np.where(zero & np.not_equal(slope, 0), np.nan, 0.0)
    moves = np.not_equal(t, 0) & np.not_equal(slope, 0) if how == "across" else np.not_equal(t, 0)
    return np.where(zero & moves, np.nan, 0.0)


def _push(t, out, value, at, slope, *, how):
    """NaN where the slope jumps."""
    return np.where(np.equal(at, 0), np.nan, 0.0) if how == "pushed" else _pull(t, out, value, at, slope, how=how)


kink_p.defvjp(lambda t, *_, **__: t, _pull, None)
kink_p.defjvp(lambda t, *_, **__: t, _push, None)


def mark_kink(p: Primitive, across: bool = False) -> None:
    """Make second derivatives of the elementwise primitive `p` NaN where its result is 0 and a slope is asked for.

    With `across`, `p` is a function of one number that has its kink at 0; other numbers keep their derivatives.
    """

    def marked(rule, how):
        """The rule with a mark where `out` is differentiated again."""

        def with_kink(t, out, *args):
            """What `rule` returns."""
            found = rule(t, out, *args)
            return bind(kink_p, found, args[0] if across else out, t, how=how) if isinstance(out, Tensor) else found

        return with_kink

    p.defvjp(*[marked(r, "across" if across else "pulled") for r in p.vjps or ()])
    p.defjvp(*[marked(r, "across" if across else "pushed") for r in p.jvps or ()])


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
