"""`ExpressionTail`: what pairs beyond the cut-off add on average, for pair energies given as an expression."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...box import volume
from ...codegen.expressions import parse
from ...codegen.tabulated import Tabulated
from ...errors import BoxError
from ...potential import Potential
from ..pairs.formulas import fade
from .expression import pair_values

__all__ = ["ExpressionTail"]

_NODES = 96  # of the quadrature


class ExpressionTail(Potential):
    r"""Long-range correction of a pair energy that is given as an expression, for a homogeneous fluid.

    :math:`\frac{2\pi N^2}{V} \langle\int_0^\infty (1 - S(r)) u(r) r^2 dr\rangle`, where S is the factor of the cut-off
    and the switch, and the mean is over all pairs of atoms, each with itself included, as in OpenMM's
    CustomNonbondedForce (M. P. Allen and D. J. Tildesley, Computer Simulation of Liquids (1987), equation 2.133).

    Raise ValueError if the integral does not converge: the energy must fall faster than 1/r^3.
    """

    conserves_momentum = True
    together = slice(None)

    def __init__(
        self,
        expression: str,
        types: Any,
        params: Mapping[str, Any],
        cutoff: float,  # as for `ExpressionPair`
        switch: float | None = None,
        tables: Mapping[str, Tabulated] | None = None,
        pairs: np.ndarray | None = None,
    ):  # (m, 2) that interact, by default all
        self.name, self.expression, self.cutoff, self.switch = "pair_tail", expression, cutoff, switch
        self.tables = dict(tables or {})
        self.params = {key: np.array(v, np.float64) for key, v in params.items()}
        t = max((v.size for v in self.params.values() if v.ndim), default=1)
        self.atoms, n = len(types), np.bincount(types, minlength=t).astype(np.float64)
        self.counts = 0.5 * (n[:, None] * n + np.diag(n))  # of types i <= j, half of them when i < j
        if pairs is not None:
            self.counts = np.zeros((t, t))
            np.add.at(self.counts, tuple(np.sort(np.asarray(types)[pairs], axis=1).T), 1.0)
        coarse, fine = (self._coefficient(self.params, nodes) for nodes in (_NODES // 2, _NODES))
        if not abs(coarse - fine) <= 1e-6 * abs(fine):
            raise ValueError(
                f"{self.name}: the integral beyond the cut-off must converge, got {coarse:g} and "
                f"{fine:g} of {expression[:200]!r} (it must fall faster than 1/r^3)"
            )

    def _coefficient(self, params: Mapping[str, Any], nodes: int = _NODES) -> Any:
        x, w = np.polynomial.legendre.leggauss(nodes)
        x, w = 0.5 * (x + 1), 0.5 * w
        weights, r = w * self.cutoff**3 / x**4, self.cutoff / x  # of r^2 dr, with x = cutoff/r
        if self.switch is not None:
            width = self.cutoff - self.switch
            s = self.switch + x * width
            weights = np.concatenate([weights, w * width * s * s * (1 - fade(x))])
            r = np.concatenate([r, s])
        numbers = [key for key, v in self.params.items() if not v.ndim]
        values = pair_values({key: params[key] for key in self.params if key not in numbers})
        values |= {key: params[key] for key in numbers} | {"r": r[:, None, None]}
        parsed = parse(self.expression, self.name, tuple(values), {key: f.arity for key, f in self.tables.items()})
        total = np.sum(parsed(values, self.tables) * weights[:, None, None] * self.counts)
        return 4 * np.pi * self.atoms / (self.atoms + 1) * total

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        return self._coefficient(params) / volume(box) + 0.0 * positions[0, 0]

    def check(self, system):
        if system.box is None:
            raise BoxError(f"{self.name}: a long-range correction needs a box, got none")


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    tail = ExpressionTail(
        "4*e*((s/r)^12-(s/r)^6)*k; s=0.5*(s1+s2); e=sqrt(e1*e2)",
        np.arange(12) % 3,
        {"k": 1.5, "s": [0.2, 0.25, 0.3], "e": [1.0, 2.0, 3.0]},
        0.5,
        0.4,
    )
    return [([tail], {"box": [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.2]]})]
