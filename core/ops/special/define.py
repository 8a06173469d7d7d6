"""How a function of scipy.special is defined. SciPy is loaded when the first of these functions is used.

Derivatives: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), chapters 5 to 8, 10, 19 and 25.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from ...errors import MissingRuleError
from ...tensor import implements
from ..define import elementwise, ufunc_loop

__all__ = ["INNER", "LINE", "POSITIVE", "UNIT", "no_derivative", "scipy_special", "special", "where_zero"]

LINE, POSITIVE, UNIT, INNER = (-2.0, 2.0), (0.4, 4.0), (0.1, 0.9), (-0.9, 0.9)


@cache
def scipy_special(name: str) -> Any:
    """A member of scipy.special."""
    import scipy.special

    return getattr(scipy.special, name)


def special(
    name: str,
    d: tuple,
    *,
    domain: tuple,
    emit: Any = None,
    flops: float = 60.0,
    like: str | None = None,
    also: tuple[str, ...] = (),
) -> Callable:
    """Define ``scipy.special.name`` as an elementwise primitive with partial derivatives `d` (see `elementwise`).

    `like` names a ufunc of the same number of arguments whose promotion holds, where `name` is a Python function.
    """
    f = elementwise(
        name,
        impl=lambda *args: scipy_special(name)(*args),
        loop=lambda *specs: ufunc_loop(scipy_special(like or name))(*specs),
        d=d,
        emit=emit,
        domain=domain,
        flops=flops,
        doc=f"Elementwise {name}, as ``scipy.special.{name}``.",
    )
    return implements(*[f"scipy.special.{n}" for n in (name, *also)])(f)


def no_derivative(name: str, argument: str) -> Callable:
    """Return a partial derivative without a closed form, which raises when it is used."""

    def d(out, *args):
        raise MissingRuleError(
            f"{name}: no derivative with respect to {argument} (core.stop_gradient({argument}) if you need none)"
        )

    return d


def where_zero(condition: Any, x: Any) -> Any:
    """`x`, made 1 where it must not be looked at."""
    return np.where(condition, 1, x)
