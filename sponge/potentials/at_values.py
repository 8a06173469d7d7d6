"""Sums whose terms are chosen by values: which pairs are near, which images are nearest.

`at_values` makes such a sum an operator of the core: the terms are chosen when values are there (inside `core.jit` and
`core.vmap` too), and all of its derivatives, which are sums over the same terms, are worked out in the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from triskele import core

__all__ = ["Part", "at_values"]


class Part(NamedTuple):
    """One addend of the sum in `at_values`."""

    # function(data, *leaves) returns a number: pure code for the core. Parts that differ only in their data share one
    # object, so that it is compiled once.
    function: Callable[..., Any]
    data: Any  # tree of arrays, constants to derivatives
    compile: bool = False  # True if it is worth compiling


def at_values(
    choose: Callable[..., list[Part]],  # takes float64 arrays
    *leaves: Any,
) -> Any:  # float64 arrays or Tensors
    """Return the sum of the parts that ``choose(*values of leaves)`` returns, with all its derivatives by the leaves.

    >>> near = lambda x: [Part(lambda i, x: np.sum(x[i] ** 3), np.flatnonzero(x < 2))]
    >>> core.hessian(lambda x: at_values(near, x))(np.array([1.0, 3.0])).tolist()
    [[6.0, 0.0], [0.0, 0.0]]
    """
    return _sum(*leaves, term=_Term(choose, lambda *specs: (core.spec(()),), _value))[0]


class _Term:
    """The function applied to each part (`_value`, or its pullback), and its outputs."""

    def __init__(self, choose, out, of):
        self.choose, self.out, self.of = choose, out, of

    def pullback(self, n):
        """The term that takes n leaves and the cotangents of the outputs to cotangents of the leaves."""
        return _Term(lambda *xs: self.choose(*xs[:n]), lambda *specs: tuple(specs[:n]), _pulled(self.of, n))


def _kept(function: Any, key: Any, make: Callable[[], Any]) -> Any:
    """Return ``make()``, cached on the function itself, so that both are freed together."""
    kept = vars(function).setdefault("_at_values", {})
    if key not in kept:
        kept[key] = make()
    return kept[key]


def _value(function):
    return _kept(function, "value", lambda: lambda data, *leaves: (function(data, *leaves),))


@cache
def _pulled(of, n):  # a few: `_value`, and pullbacks of it
    def pulled(function):
        f = of(function)

        def pull(data, *args):
            return tuple(core.vjp(lambda *xs: f(data, *xs), *args[:n])[1](tuple(args[n:])))

        return _kept(function, (of, n), lambda: pull)

    return pulled


def _compiled(function):
    return _kept(function, "compiled", lambda: core.jit(function))


@core.custom_op(out=lambda *specs, term: term.out(*specs), mode="python", batch="sequential")
def _sum(*leaves, term):
    total = None
    leaves = tuple(np.asarray(x, np.float64) for x in leaves)
    for part in term.choose(*leaves):
        function = term.of(part.function)
        found = (_compiled(function) if part.compile else function)(part.data, *leaves)
        total = found if total is None else tuple(a + b for a, b in zip(total, found, strict=True))
    if total is None:
        return tuple(np.zeros(s.shape) for s in term.out(*leaves))
    return tuple(np.asarray(x) for x in total)


@_sum.vjp
def _(cotangents, outs, *leaves, term):
    return tuple(_sum(*leaves, *cotangents, term=term.pullback(len(leaves))))
