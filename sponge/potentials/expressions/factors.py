"""Coefficients of pairs of types, taken apart into values of single atoms for the loops over pairs.

A table over pairs of types costs a gather for each pair of atoms. Most coefficients are a product of values of both
atoms, sqrt(e1) sqrt(e2), or a power of their sum, (s1/2 + s2/2)^6, which cost one operation or a few. The kernels of
expressions use these where the numbers allow it; derivatives by parameters use the tables.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Factor", "Factors"]

_ROUNDING = 1e-13  # relative, of coefficients that are made of a few dozen operations


class Factor(NamedTuple):
    """One value by types that the kernels mix, as `PairPotential` does by the rule."""

    rule: str  # "same", "product", "arithmetic" or "table"
    values: np.ndarray  # (), (t,) values of types, or a table (t, t)

    def same(self, other: Factor) -> bool:
        return self.rule == other.rule and np.array_equal(self.values, other.values)


class Factors:
    """The different factors of several coefficients, and the coefficients as products of their powers."""

    def __init__(self):
        self.found: list[Factor] = []
        self.products: list[tuple[tuple[int, int], ...]] = []  # for each coefficient: indices into `found`, powers

    def add(self, whole: Any, parts: Sequence[tuple[Any, int]]) -> None:
        """Add a coefficient, given as a number or a table by types, and as a product of powers of such."""
        separate = _separate(np.asarray(whole, np.float64), [(np.asarray(x, np.float64), n) for x, n in parts])
        self.products.append(tuple((self._index(factor), n) for factor, n in separate))

    def _index(self, factor: Factor) -> int:
        known = [k for k, other in enumerate(self.found) if factor.same(other)]
        if not known:
            self.found.append(factor)
        return known[0] if known else len(self.found) - 1


def _separate(whole: np.ndarray, parts: list[tuple[np.ndarray, int]]) -> list[tuple[Factor, int]]:
    if alone := _factors(whole):
        return alone
    sums, rest = [], np.ones(whole.shape)
    for x, n in parts:
        if n > 0 and x.shape == whole.shape and (mean := _mean(x)) is not None:
            sums.append((Factor("arithmetic", mean), n))
        else:
            rest = rest * x ** float(n)
    others = _factors(rest)
    if not sums or not others:
        return [(Factor("table", whole), 1)]
    return [*(f for f in others if f[0].rule != "same" or f[0].values != 1), *sums]


def _factors(x: np.ndarray) -> list[tuple[Factor, int]]:
    """The values as a number, a product or a mean of values of both types; empty if they are none of these."""
    if x.ndim == 0 or np.all(x == x.flat[0]):
        return [(Factor("same", np.array(x.flat[0])), 1)]
    k = int(np.argmax(np.abs(np.diag(x))))
    sign = float(np.sign(x[k, k]))
    if sign:
        u = x[k] / np.sqrt(abs(x[k, k]))
        if np.all(np.abs(x - sign * u[:, None] * u) <= _ROUNDING * np.abs(x)):
            return [(Factor("product", u), 1)] + [(Factor("same", np.array(-1.0)), 1)] * int(sign < 0)
    return [] if (mean := _mean(x)) is None else [(Factor("arithmetic", mean), 1)]


def _mean(x: np.ndarray) -> np.ndarray | None:
    """v with x_ij = (v_i + v_j)/2, all of one sign: in float32, others would lose digits."""
    v = np.diag(x)
    if np.any(v < 0) and np.any(v > 0):
        return None
    return v if np.all(np.abs(x - 0.5 * (v[:, None] + v)) <= _ROUNDING * np.abs(x)) else None
