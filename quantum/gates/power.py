"""Real powers of gates."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ..errors import CircuitError
from ..parameters import Linear
from .base import Gate
from .instruction import Instruction

__all__ = ["power"]


def power(instruction: Instruction, exponent: float) -> Instruction:
    """Return the principal power of a gate with numbers for parameters: its eigenvalues exp(i f), -pi < f <= pi, become
    exp(i f exponent).

    >>> from triskele import quantum
    >>> (x,) = quantum.Circuit(1).x(0)
    >>> power(x, 0.5).matrix()[0].round(3)  # that is sx
    array([0.5+0.5j, 0.5-0.5j])
    """
    if not instruction.is_unitary or any(type(p) is Linear for p in instruction.params):
        raise CircuitError(
            f"power: a gate with numbers for parameters is needed, got {instruction.gate.name} (bind it first)"
        )
    gate = instruction.gate
    # eigenvectors of a Schur form are orthogonal where eigenvalues coincide, too
    triangle, vectors = scipy.linalg.schur(gate.matrix(*instruction.params), output="complex")
    phases = np.angle(np.diag(triangle))
    phases = np.where(phases < -np.pi + 1e-12, np.pi, phases)  # -1 with a rounded imaginary part
    matrix = (vectors * np.exp(1j * phases * exponent)) @ vectors.conj().T
    matrix.flags.writeable = False
    name = f"{gate.name}_power"
    return instruction._replace(
        gate=Gate(name, gate.num_qubits, constant=matrix, label=f"{gate.label}^{exponent:.3g}"), params=()
    )
