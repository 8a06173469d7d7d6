"""Exact minimization along one angle after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ..circuit import Circuit
from ..errors import OptimizerError
from ..gates.primitives import Phase, Rotation
from ..parameters import Linear
from .objective import Objective

__all__ = ["Rotosolve"]


@dataclass(frozen=True)
class Rotosolve:
    """Each angle in turn goes to the minimum of the sinusoid that the energy is along it, from three values [1]_ [2]_.

    That holds for angles that are in one gate only, whose generator has two eigenvalues: Pauli rotations of any weight
    without controls, and phases. Needs no gradient; a sweep costs two evaluations an angle.

    Attributes
    ----------
    max_steps : int
        Number of sweeps over all angles.
    tolerance : float
        Converged when a sweep lowers the energy by less.

    References
    ----------
    .. [1] Ostaszewski, Grant, Benedetti, "Structure optimization for parameterized quantum circuits", Quantum 5, 391
       (2021). doi:10.22331/q-2021-01-28-391
    .. [2] Nakanishi, Fujii, Todo, "Sequential minimal optimization for quantum-classical hybrid algorithms", Phys. Rev.
       Research 2, 043158 (2020). doi:10.1103/PhysRevResearch.2.043158

    Examples
    --------
    >>> from triskele import quantum
    >>> h = quantum.tfim(3, 1.0, 0.7)
    >>> ansatz = quantum.hardware_efficient(3, layers=2)
    >>> from triskele.quantum import optimizers
    >>> result = quantum.VQE(h, ansatz, initial='random', optimizer=optimizers.Rotosolve()).run()
    >>> result.energy < -2
    True
    """

    max_steps: int = 100
    tolerance: float = 1e-9

    def minimize(
        self, objective: Objective, theta: np.ndarray, report: Callable[[np.ndarray, float], None]
    ) -> tuple[np.ndarray, bool, str]:
        """See `Optimizer.minimize`."""
        if objective.circuit is None:
            raise OptimizerError(
                "Rotosolve: the function must have a circuit, as an Expectation does (its gates "
                "decide whether the method is exact)"
            )
        frequencies = _frequencies(objective.circuit)
        before = objective(theta)
        for _ in range(self.max_steps):
            # carried along the sweep, and measured again at its start so that rounding and noise do not add up
            value = objective.fresh(theta)
            for k, frequency in enumerate(frequencies):
                quarter = math.pi / (2 * frequency)
                theta[k] += quarter
                above = objective(theta)
                theta[k] -= 2 * quarter
                below = objective(theta)
                # value = mean + r sin(phase), above = mean + r cos(phase), below = mean - r cos(phase)
                mean = 0.5 * (above + below)
                sine, cosine = value - mean, 0.5 * (above - below)
                theta[k] += quarter - (math.atan2(sine, cosine) + math.pi / 2) / frequency
                theta[k] -= math.tau / frequency * round(theta[k] * frequency / math.tau)
                value = mean - math.hypot(sine, cosine)
            report(theta, value)
            if before - value < self.tolerance:
                return theta, True, f"a sweep lowered the value by less than {self.tolerance:g}"
            before = value
        return theta, False, f"the limit of {self.max_steps} sweeps was reached"


def _frequencies(circuit: Circuit) -> list[float]:
    """For each parameter the frequency of the sinusoid along it, in radians per radian."""
    found: dict[str, float] = {}
    for i in circuit:
        for name in set(i.names):
            if i.gate.factors is None:
                raise OptimizerError(
                    f"Rotosolve: parameter {name!r} is in the gate {i.gate.name}, whose generator is "
                    f"not known (use Pauli rotations)"
                )
            # how the angle of each factor depends on this parameter
            weights = [dict(p.terms).get(name, 0.0) if type(p) is Linear else 0.0 for p in i.params]
            for factor in i.gate.factors:
                slope = sum(c * w for c, w in zip(factor.coefficients, weights, strict=True))
                if not slope:
                    continue
                two_valued = (
                    isinstance(factor.primitive, Phase) or isinstance(factor.primitive, Rotation) and not i.controls
                )
                if not two_valued:
                    raise OptimizerError(
                        f"Rotosolve: parameter {name!r} is in {'c' * len(i.controls)}{i.gate.name}, "
                        f"whose generator has more than two "
                        "eigenvalues (Pauli rotations without controls and phases are exact; use "
                        "another optimizer)"
                    )
                if name in found:
                    raise OptimizerError(
                        f"Rotosolve: parameter {name!r} is in several gates, so the energy is "
                        f"not a sinusoid "
                        "(give each gate a parameter of its own, or use another optimizer)"
                    )
                found[name] = abs(slope)
    return [found[name] for name in circuit.parameters]
