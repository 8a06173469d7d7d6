"""Gates with controls as single-qubit gates and CNOTs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import scipy.linalg

from ...circuit import Circuit
from ...gates.families import unitary
from ...library import uniformly_controlled_rotation

__all__ = ["controlled_matrix", "controlled_phase", "controlled_rotation", "controlled_x"]

_GRAY = 3  # controls up to which 2**k CNOTs are fewest


def controlled_x(circuit: Circuit, controls: Sequence[int], target: int, spare: Sequence[int] = ()) -> None:
    """Append X with controls; `spare` qubits may be in any state, and return to it.

    A. Barenco et al., Phys. Rev. A 52, 3457 (1995), lemmas 7.2 (k - 2 spare qubits) and 7.3 (one).
    """
    k = len(controls)
    if k == 0:
        circuit.x(target)
    elif k == 1:
        circuit.cx(controls[0], target)
    elif k <= 3 or not spare:
        circuit.h(target)
        controlled_phase(circuit, math.pi, controls, target)
        circuit.h(target)
    elif len(spare) >= k - 2:
        chain = [(controls[-1], spare[k - 3], target)] + [
            (controls[j], spare[j - 2], spare[j - 1]) for j in range(k - 2, 1, -1)
        ]
        middle = [(controls[0], controls[1], spare[0])]
        for a, b, t in chain + middle + chain[::-1] + chain[1:] + middle + chain[:0:-1]:
            if t == target:
                controlled_x(circuit, (a, b), t)
            else:  # undone later, and so a Toffoli up to phases, of 3 CNOTs: Maslov, Phys. Rev. A 93, 022311 (2016)
                circuit.h(t).t(t).cx(b, t).tdg(t).cx(a, t).t(t).cx(b, t).tdg(t).h(t)
    else:
        first, second = controls[: (k + 1) // 2], [*controls[(k + 1) // 2 :], spare[0]]
        for _ in range(2):
            controlled_x(circuit, first, spare[0], [*second[:-1], target])
            controlled_x(circuit, second, target, first)


def controlled_rotation(circuit: Circuit, axis: str, angle: Any, controls: Sequence[int], target: int) -> None:
    """Append R_axis(angle) with k controls: 2**k CNOTs for few controls, a number linear in k for many."""
    if axis == "x":
        circuit.h(target)
        controlled_rotation(circuit, "z", angle, controls, target)
        circuit.h(target)
        return
    k = len(controls)
    if k <= _GRAY:
        angles = [0.0] * ((1 << k) - 1) + [angle]
        circuit.extend(uniformly_controlled_rotation(axis, angles, controls, target))
        return
    # R. Vale et al., IEEE Trans. CAD 43, 802 (2024): with A = R(-angle/4), X A X = A*; the two halves of the controls
    # together apply A* X A X A* X A X = A*^4, and one of them only 1
    first, second = controls[: (k + 1) // 2], controls[(k + 1) // 2 :]
    for _ in range(2):
        for mine, others, sign in ((first, second, -0.25), (second, first, 0.25)):
            controlled_x(circuit, mine, target, others)
            circuit.append(f"r{axis}", target, [sign * angle])


def controlled_phase(circuit: Circuit, angle: Any, controls: Sequence[int], target: int) -> None:
    """exp(i angle) where all are 1: an RZ of the target, and half the angle as a phase of the controls."""
    if not controls:
        circuit.p(angle, target)
        return
    controlled_rotation(circuit, "z", angle, controls, target)
    controlled_phase(circuit, 0.5 * angle, controls[:-1], controls[-1])


def controlled_matrix(circuit: Circuit, matrix: np.ndarray, controls: Sequence[int], target: int) -> None:
    """A unitary (2, 2) matrix with controls: it is V D V* with diagonal D, and only D needs them."""
    triangle, v = scipy.linalg.schur(matrix, output="complex")
    low, high = np.angle(np.diag(triangle)).tolist()
    trivial = np.abs(v - np.diag(np.diag(v))).max() < 1e-15
    if not trivial:
        circuit.append(unitary(v.conj().T), target)
    controlled_rotation(circuit, "z", high - low, controls, target)
    if not trivial:
        circuit.append(unitary(v), target)
    if abs(high + low) > 1e-15:
        controlled_phase(circuit, 0.5 * (high + low), controls[:-1], controls[-1])
