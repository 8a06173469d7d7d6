"""Second derivatives of noisy expectation values: forward tangents through the adjoint sweep, map by map.

Exact, and written for few qubits: every map is a product of arrays, and all vectors are kept.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import SimulatorError
from ...parameters import Linear
from ...simulators.density_matrix.transfer import Wide, functions
from ...simulators.density_matrix.vector import PauliVector

__all__ = ["second"]

# derivatives of (1, cos t/2, sin t/2, cos t, sin t) as combinations of the same
_D = np.zeros((5, 5))
_D[1, 2], _D[2, 1], _D[3, 4], _D[4, 3] = -0.5, 0.5, -1.0, 1.0


def second(
    engine: Any,
    values: np.ndarray,
    d_values: np.ndarray,
    start: np.ndarray,
    d_start: np.ndarray,
    changes: Any,
    weights: np.ndarray,
    wanted: bool,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Along tangents of values, initial state and coefficients: tangents of E (m,), and of the gradients of S = weights
    @ E.

    Those are with respect to values (V,), all coefficients (T,) if they are `wanted`, and the initial state.
    """
    n, names = engine.num_qubits, engine.names
    named, d_named = (dict(zip(names, v.tolist(), strict=True)) for v in (values, d_values))
    steps = [_Step(e, n, named, d_named) for e in engine.maps]
    r, d_r = _initial(engine, start, d_start)
    tape = []
    for step in steps:
        tape.append((r, d_r))
        r, d_r = (
            step.forward(step.m, r),
            step.forward(step.m, d_r) + (step.forward(step.d_m, r) if step.angle is not None else 0.0),
        )
    where = PauliVector(np.zeros(4**n), list(range(n)))
    found = [where.indices(h) for h in engine.hamiltonians]
    coefficients = [h.coefficients.real for h in engine.hamiltonians]
    d_energies = np.array([c @ d_r[f] for c, f in zip(coefficients, found, strict=True)])
    l, d_l = np.zeros(4**n), np.zeros(4**n)
    for k, (w, c, f) in enumerate(zip(weights, coefficients, found, strict=True)):
        l[f] += w * c
        if changes is not None:
            d_l[f] += w * changes[k]
            d_energies[k] += changes[k] @ r[f]
    d_terms = np.concatenate([w * d_r[f] for w, f in zip(weights, found, strict=True)]) if wanted else np.zeros(0)
    g = np.zeros(len(values))
    for step, (r, d_r) in zip(reversed(steps), reversed(tape), strict=True):
        if step.angle is not None:
            slope = d_l @ step.forward(step.slope, r) + l @ (
                step.forward(step.slope, d_r) + step.forward(step.d_slope, r)
            )
            for name, c in step.angle.terms:
                g[names.index(name)] += c * slope
            d_l = step.backward(step.m, d_l) + step.backward(step.d_m, l)
        else:
            d_l = step.backward(step.m, d_l)
        l = step.backward(step.m, l)
    d_state = np.zeros(0, complex)
    if start.size:
        psi, d_psi = np.asarray(start[0], complex), np.asarray(d_start[0], complex)
        a, d_a = (PauliVector(v, list(range(n))).matrix() * len(psi) for v in (l, d_l))
        d_state = 2 * (a @ d_psi + d_a @ psi).conj()
    return d_energies, g, d_terms, d_state


class _Step:
    """A map with its matrix m, the tangent d_m, the derivative with respect to the angle, and that one's tangent."""

    def __init__(self, element: Any, n: int, named: dict[str, float], d_named: dict[str, float]):
        if isinstance(element, Wide) or element.source is not None:
            what = element.instruction.gate.name if isinstance(element, Wide) else element.source.gate.name
            raise SimulatorError(
                f"Expectation: second derivatives through noise are of gates made of factors on at "
                f"most 4 qubits, got {what} on {len(element.qubits)}"
            )
        self.n, self.qubits, self.angle = (
            n,
            element.qubits,
            element.angle if isinstance(element.angle, Linear) else None,
        )
        if self.angle is None:
            self.m = element.table[0]
            return
        f = functions(self.angle(named))
        d = sum(c * d_named[name] for name, c in self.angle.terms)
        self.m, self.slope = np.tensordot(f, element.table, 1), np.tensordot(_D @ f, element.table, 1)
        self.d_m, self.d_slope = d * self.slope, d * np.tensordot(_D @ _D @ f, element.table, 1)

    def forward(self, matrix: np.ndarray, r: np.ndarray) -> np.ndarray:
        k = len(self.qubits)
        axes = [self.n - 1 - q for q in reversed(self.qubits)]
        out = np.tensordot(matrix.reshape((4,) * (2 * k)), r.reshape((4,) * self.n), (list(range(k, 2 * k)), axes))
        return np.moveaxis(out, range(k), axes).reshape(-1)

    def backward(self, matrix: np.ndarray, l: np.ndarray) -> np.ndarray:
        return self.forward(matrix.T, l)


def _initial(engine: Any, start: np.ndarray, d_start: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    n = engine.num_qubits
    if not start.size:
        return PauliVector.zero(n, n).r, np.zeros(4**n)
    psi, d_psi = np.asarray(start[0], complex), np.asarray(d_start[0], complex)
    change = np.outer(psi, d_psi.conj())
    return PauliVector.of(psi, n).r, PauliVector.of(change + change.conj().T, n).r
