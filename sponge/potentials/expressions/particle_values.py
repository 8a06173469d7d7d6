"""Energies of values that each atom gets from all others, given as expressions: OpenMM's CustomGBForce."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from triskele.core.extend import check

from ...box import check_cutoff, displacement
from ...codegen.expressions import Expression, parse
from ...codegen.tabulated import Tabulated
from ...potential import Potential
from ...topology import check_indices
from .expression import pair_values

__all__ = ["ExpressionGB"]

_MOST_ATOMS = 4000  # all pairs are worked on at once


class ExpressionGB(Potential):
    """An energy of values that are computed for each atom, such as Born radii.

    A value of kind ``"single"`` depends on the parameters, the values before it and the coordinates ``x``, ``y``, ``z``
    (nm) of its atom. One of kind ``"pair"`` (without excluded pairs) or ``"every pair"`` is a sum over the other atoms;
    its expression has the distance ``r`` (nm), and values of the atom and of the other one with the suffixes 1 and 2.

    >>> ExpressionGB([("n", "exp(-r/width)", "pair")], [("depth*sqrt(n)", "single")],
    ...              {"width": 0.2, "depth": np.ones(4)})
    <ExpressionGB 'gb_expression': width (), depth (4,)>
    """

    together = slice(None)

    def __init__(
        self,
        values: Sequence[tuple[str, str, str]],  # name, expression and kind
        terms: Sequence[tuple[str, str]],  # expression (kJ/mol) and kind of each term, over all atoms or pairs
        params: Mapping[str, Any],  # numbers for all atoms, or (n,)
        functions: Mapping[str, Tabulated] | None = None,  # that the expressions may call
        exclusions: Any = (),  # (m, 2) pairs that the kind "pair" leaves out
        cutoff: float | None = None,
    ):  # nm
        self.name, self.cutoff = "gb_expression", cutoff
        self.values, self.terms = tuple(tuple(v) for v in values), tuple(tuple(t) for t in terms)
        self.params = {key: np.array(value, np.float64) for key, value in params.items()}
        self.functions = dict(functions or {})
        self.excluded = np.array(exclusions, np.int64).reshape(-1, 2)
        names = [*self.params]
        for name, text, kind in self.values:
            self._parsed(text, kind, names)
            names.append(name)
        for text, kind in self.terms:
            self._parsed(text, kind, names)

    @property
    def invariant(self) -> bool:
        """Return True if no expression has coordinates."""
        names = [*self.params, *(v[0] for v in self.values)]
        singles = [
            text
            for *_, text, kind in [*((0, v[1], v[2]) for v in self.values), *((0, *t) for t in self.terms)]
            if kind == "single"
        ]
        return not any({"x", "y", "z"} & set(self._parsed(text, "single", names).variables) for text in singles)

    @property
    def conserves_momentum(self) -> bool:  # type: ignore[override]
        """Return True if no expression has coordinates."""
        return self.invariant

    def _parsed(self, text: str, kind: str, names: Collection[str]) -> Expression:
        numbers = [key for key, v in self.params.items() if not v.ndim]
        own = [name for name in names if name not in numbers]
        known = ("x", "y", "z", *own) if kind == "single" else ("r", *(f"{name}{k}" for name in own for k in (1, 2)))
        return _parse(text, self.name, (*numbers, *known), tuple((key, f.arity) for key, f in self.functions.items()))

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        n = positions.shape[0]
        d = displacement(positions[:, None, :] - positions[None, :, :], box if self.images else None)
        self_pair = np.eye(n, dtype=bool)
        r = np.sqrt(np.where(self_pair, 1.0, np.sum(d * d, axis=-1)))
        every = ~self_pair if self.cutoff is None else ~self_pair & (r < self.cutoff)
        apart = np.ones((n, n), bool)
        apart[self.excluded[:, 0], self.excluded[:, 1]] = apart[self.excluded[:, 1], self.excluded[:, 0]] = False
        numbers = {key: params[key] for key, v in self.params.items() if not v.ndim}
        own = {key: params[key] for key in self.params if key not in numbers}
        places = {axis: positions[:, k] for k, axis in enumerate("xyz")}

        def evaluate(text, kind):
            parsed = self._parsed(text, kind, [*numbers, *own])
            if kind == "single":
                return parsed(numbers | own | places, self.functions) + np.zeros(n)
            found = parsed(numbers | pair_values(own) | {"r": r}, self.functions)
            return np.where(every & apart if kind == "pair" else every, found, 0.0)

        for name, text, kind in self.values:
            own[name] = evaluate(text, kind) if kind == "single" else np.sum(evaluate(text, kind), axis=1)
        total = 0.0 * positions[0, 0]
        for text, kind in self.terms:
            found = evaluate(text, kind)
            total = total + np.sum(found if kind == "single" else np.where(np.triu(np.ones((n, n), bool), 1), found, 0))
        return total

    def check(self, system):
        where = f"{type(self).__name__} {self.name!r}"
        if system.n > _MOST_ATOMS:
            raise ValueError(f"{where}: there must be at most {_MOST_ATOMS} atoms, got {system.n}")
        for key, values in self.params.items():
            check.finite(values, f"{where}: parameter {key}")
            if values.ndim and len(values) != system.n:
                raise ValueError(
                    f"{where}: parameter {key} must be one for each of {system.n} atoms, got {len(values)}"
                )
        check_indices(self.excluded, system.n, f"{where}: exclusions")
        if system.box is not None and self.images and self.cutoff is not None:
            check_cutoff(self.name, self.cutoff, system.box)


@lru_cache(64)
def _parse(text: str, where: str, names: tuple[str, ...], arity: tuple[tuple[str, int], ...]) -> Expression:
    return parse(text, where, names, dict(arity))


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    n = 12
    params = {"q": np.cos(np.arange(n)), "s": np.linspace(0.1, 0.3, n), "g": 2.0}
    values = [("I", "s1*exp(-r/s2)", "pair"), ("B", "s/(1+I^2)*g", "single")]
    terms = [("B*q^2", "single"), ("q1*q2/(r+B1+B2)", "every pair")]
    gb = ExpressionGB(values, terms, params, exclusions=[[0, 1], [3, 7]])
    cut = ExpressionGB(values, terms, params, exclusions=[[0, 1]], cutoff=0.44)
    return [([gb], {}), ([cut], {"box": [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.2]]})]
