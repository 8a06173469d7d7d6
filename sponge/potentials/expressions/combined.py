"""Expressions of the energies of other potentials, and of the box."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from triskele.core.extend import check

from ...box import volume
from ...codegen.expressions import Expression, parse
from ...codegen.tabulated import Tabulated
from ...errors import BoxError
from ...potential import Potential

__all__ = ["ExpressionCombination", "ExpressionVolume"]


class ExpressionCombination(Potential):
    """An energy given as an expression of the energies of other potentials, as OpenMM's CustomCVForce has it.

    The potentials are copied into this one: their parameters go by ``"variable/parameter"``, with the number of the
    potential between the names if a variable has several.

    >>> stretch = sponge.harmonic_bond([[0, 1]], k=2.0, r0=0.0)
    >>> ExpressionCombination("k*(r2-0.04)^2", {"r2": [stretch]}, {"k": 500.0})
    <ExpressionCombination 'cv_expression': k (), r2/k (1,), r2/r0 (1,)>
    """

    def __init__(
        self,
        expression: str,  # kJ/mol, of the variables and the parameters, in OpenMM's syntax
        variables: Mapping[str, Sequence[Potential]],  # a name stands for the sum of the energies
        params: Mapping[str, float],
        functions: Mapping[str, Tabulated] | None = None,
    ):  # that the expression may call
        self.name, self.expression = "cv_expression", expression
        self.variables = {name: tuple(potentials) for name, potentials in variables.items()}
        self.functions = dict(functions or {})
        self.numbers = tuple(params)
        self.params = {key: np.array(value, np.float64) for key, value in params.items()}
        for prefix, potential in self._all():
            self.params |= {prefix + key: np.array(value) for key, value in potential.params.items()}
        self._parsed()

    def _all(self):
        for name, potentials in self.variables.items():
            for k, potential in enumerate(potentials):
                yield f"{name}/{k}/" if len(potentials) > 1 else f"{name}/", potential

    def _parsed(self) -> Expression:
        arity = tuple((key, f.arity) for key, f in self.functions.items())
        return _parse(self.expression, self.name, (*self.numbers, *self.variables), arity)

    @property
    def invariant(self) -> bool:
        """Return True if all potentials depend on relative positions only."""
        return all(getattr(potential, "invariant", True) for _, potential in self._all())

    @property
    def together(self) -> slice | None:  # type: ignore[override]
        """Return all atoms if one of the potentials acts on all."""
        whole = any(p.pair_scope is not None or p.together is not None for _, p in self._all())
        return slice(None) if whole else None

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        values = {key: params[key] for key in self.numbers} | dict.fromkeys(self.variables, 0.0)
        for prefix, potential in self._all():
            own = {key: params[prefix + key] for key in potential.params}
            name = prefix.partition("/")[0]
            values[name] = values[name] + potential.energy(own, positions, box)
        return self._parsed()(values, self.functions) + 0.0 * positions[0, 0]

    def check(self, system):
        for key in self.numbers:
            check.finite(self.params[key], f"{type(self).__name__} {self.name!r}: parameter {key}")
        for _, potential in self._all():
            potential.check(system)


class ExpressionVolume(Potential):
    """An energy given as an expression of the box vectors, as OpenMM's CustomVolumeForce has it.

    The expression, in kJ/mol and OpenMM's syntax, takes the volume ``v`` (nm^3), the entries ``ax``, ``bx``, ``by``,
    ``cx``, ``cy``, ``cz`` (nm) of the box and the parameters.
    """

    conserves_momentum = True

    def __init__(self, expression: str, params: Mapping[str, float]):
        self.name, self.expression = "volume_expression", expression
        self.params = {key: np.array(value, np.float64) for key, value in params.items()}
        self._parsed()

    def _parsed(self) -> Expression:
        return _parse(self.expression, self.name, (*_BOX, "v", *self.params), ())

    def energy(self, params: dict[str, Any], positions: Any, box: Any) -> Any:
        values = {name: box[k] for name, k in _BOX.items()} | {"v": volume(box)} | dict(params)
        return self._parsed()(values) + 0.0 * positions[0, 0]

    def check(self, system):
        if system.box is None:
            raise BoxError(f"{self.name}: an energy of the volume needs a box, got none")
        for key, values in self.params.items():
            check.finite(values, f"{type(self).__name__} {self.name!r}: parameter {key}")


_BOX = {"ax": (0, 0), "bx": (1, 0), "by": (1, 1), "cx": (2, 0), "cy": (2, 1), "cz": (2, 2)}


@lru_cache(64)
def _parse(expression: str, where: str, names: tuple[str, ...], arity: tuple[tuple[str, int], ...]) -> Expression:
    return parse(expression, where, names, dict(arity))


def example():
    """Potentials for `testing`, with the options of `example_system` that each needs."""
    from ..bonded.harmonic_angle import harmonic_angle
    from ..bonded.harmonic_bond import harmonic_bond

    bonds = harmonic_bond([[0, 3], [2, 5]], k=[300.0, 200.0], r0=0.2)
    angles = harmonic_angle([[0, 4, 7]], k=20.0, theta0=1.5)
    combination = ExpressionCombination("k*(a-1)^2 + b*sqrt(a+1)", {"a": [bonds, angles], "b": [angles]}, {"k": 0.2})
    box = [[1.2, 0, 0], [0.2, 1.1, 0], [-0.1, 0.3, 1.2]]
    return [
        ([combination], {}),
        ([combination, ExpressionVolume("p*v + k*(ax-1)^2", {"p": 3.0, "k": 50.0})], {"box": box}),
    ]
