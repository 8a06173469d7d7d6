"""A benchmark case of quantum circuits, in words that no tool owns.

A gate is (name, qubits, argument). Qubit 0 is the least significant bit; rotations are exp(-i t P/2). An angle is a
number, or a list of (index, coefficient) over the concatenation of theta and a data point.

    h x swap cx                 argument None; cx has its control first
    rx ry rz rzz cp             argument: angle
    u4                          two qubits, a 4x4 matrix whose index has the first qubit as its lowest bit
    pauli                       qubits, (letters, angle)
    excite                      (emptied modes, filled modes), angle: exp(t (T - T^dagger)) after Jordan-Wigner
    noise                       one qubit, p: rho -> (1 - p) rho + p Tr(rho) 1/2 on it
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

CASES: dict[str, Callable[[], Bench]] = {}


@dataclass
class Bench:
    """One row of the table.

    Parameters
    ----------
    kind : str
        "state", "gradient" (value and gradient), "subspace" (the same with particle number), "density" (probabilities),
        "trajectories" or "samples".
    num_qubits : int
    gates : list
        As above.
    peers : tuple of str
        Tools that can do it, and not much slower than the best.
    theta : (P,) array
    data : (B, D) array, optional
    hamiltonians : list of list of (string such as "X0 Z1", float)
    dtype : str
        "complex128" or "complex64".
    shots : int
    electrons : int
        "subspace": number of particles.
    fermions : list of (string such as "2^ 0", float)
        "subspace": the Hamiltonian.
    simple : list, optional
        `gates` without excitations, for tools that have none.
    tolerance : float
        Largest difference from our outputs, relative to the largest entry.
    share : int
        Times are divided by it.
    flops, bytes : float
        What it needs at least, where that is no plan of the circuit.
    """

    kind: str
    num_qubits: int
    gates: list
    peers: tuple[str, ...]
    theta: np.ndarray = field(default_factory=lambda: np.zeros(0))
    data: np.ndarray | None = None
    hamiltonians: list = field(default_factory=list)
    dtype: str = "complex128"
    shots: int = 0
    electrons: int = 0
    fermions: list = field(default_factory=list)
    simple: list | None = None
    tolerance: float = 1e-9
    share: int = 1

    @property
    def elementary(self):
        return self.gates if self.simple is None else self.simple


def case(name):
    """Register a function that makes a `Bench`."""

    def register(make):
        CASES[name] = make
        return make

    return register


def slopes(angle):
    """(index, coefficient) pairs of an angle; none of a number."""
    return angle if isinstance(angle, list) else []


def value(angle, values):
    """The angle as a number."""
    return float(sum(c * values[k] for k, c in angle)) if isinstance(angle, list) else angle
