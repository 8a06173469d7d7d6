"""Bessel functions; derivatives by DLMF 10.6, 10.29. Derivatives in the order are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...graph.graph import spec_of
from ...tensor import implements
from ..define import as_value, ufunc_loop
from .define import POSITIVE, no_derivative, scipy_special, special

__all__ = [
    "i0",
    "i0e",
    "i1",
    "i1e",
    "iv",
    "ive",
    "j0",
    "j1",
    "jv",
    "k0",
    "k0e",
    "k1",
    "k1e",
    "kv",
    "kve",
    "y0",
    "y1",
    "yv",
]

ORDER, ARGUMENT = (0.5, 3.0), POSITIVE


def _half_difference(f):
    """Cᵥ' = (Cᵥ₋₁ - Cᵥ₊₁)/2."""
    return lambda out, v, x: (f()(v - 1, x) - f()(v + 1, x)) / 2


def _half_sum(f):
    return lambda out, v, x: (f()(v - 1, x) + f()(v + 1, x)) / 2


jv: Callable = special(
    "jv", (no_derivative("jv", "v"), _half_difference(lambda: jv)), domain=(ORDER, ARGUMENT), also=("jn",)
)
yv: Callable = special("yv", (no_derivative("yv", "v"), _half_difference(lambda: yv)), domain=(ORDER, ARGUMENT))


@implements("scipy.special.yn")
def yn(n, x):
    """``scipy.special.yn``: `yv` of an integer order; others are truncated."""
    dtype = ufunc_loop(scipy_special("yn"))(spec_of(n), spec_of(x))[-1]
    return yv(*[np.add(v, np.zeros((), dtype)) for v in (np.trunc(as_value(n)), as_value(x))])


iv: Callable = special("iv", (no_derivative("iv", "v"), _half_sum(lambda: iv)), domain=(ORDER, ARGUMENT))
kv: Callable = special(
    "kv", (no_derivative("kv", "v"), lambda out, v, x: -(kv(v - 1, x) + kv(v + 1, x)) / 2), domain=(ORDER, ARGUMENT)
)
ive: Callable = special(
    "ive",
    (no_derivative("ive", "v"), lambda out, v, x: (ive(v - 1, x) + ive(v + 1, x)) / 2 - np.sign(np.real(x)) * out),
    domain=(ORDER, ARGUMENT),
)
kve: Callable = special(
    "kve",
    (no_derivative("kve", "v"), lambda out, v, x: out - (kve(v - 1, x) + kve(v + 1, x)) / 2),
    domain=(ORDER, ARGUMENT),
)

# orders 0 and 1; the second-order functions stand in where the recurrence would divide by x = 0
j0 = special("j0", (lambda out, x: -j1(x),), domain=((-3.0, 3.0),))
j1: Callable = special("j1", (lambda out, x: (j0(x) - jv(2.0, x)) / 2,), domain=((-3.0, 3.0),))
y0 = special("y0", (lambda out, x: -y1(x),), domain=(ARGUMENT,))
y1: Callable = special("y1", (lambda out, x: y0(x) - out / x,), domain=(ARGUMENT,))
i0 = special("i0", (lambda out, x: i1(x),), domain=((-3.0, 3.0),))
i1: Callable = special("i1", (lambda out, x: (i0(x) + iv(2.0, x)) / 2,), domain=((-3.0, 3.0),))
i0e = special("i0e", (lambda out, x: i1e(x) - np.sign(x) * out,), domain=(ARGUMENT,))
i1e: Callable = special("i1e", (lambda out, x: (i0e(x) + ive(2.0, x)) / 2 - np.sign(x) * out,), domain=(ARGUMENT,))
k0 = special("k0", (lambda out, x: -k1(x),), domain=(ARGUMENT,))
k1: Callable = special("k1", (lambda out, x: -k0(x) - out / x,), domain=(ARGUMENT,))
k0e = special("k0e", (lambda out, x: out - k1e(x),), domain=(ARGUMENT,))
k1e: Callable = special("k1e", (lambda out, x: out - k0e(x) - out / x,), domain=(ARGUMENT,))
