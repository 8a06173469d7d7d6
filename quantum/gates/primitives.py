"""What gates are made of: exponentials of three kinds of generators."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Factor", "Pair", "Phase", "Rotation", "embed", "exponential"]

_PAULI = {
    "I": np.eye(2, dtype=complex),
    "X": np.array([[0, 1], [1, 0]], complex),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.diag([1.0 + 0j, -1.0]),
}


@dataclass(frozen=True)
class Rotation:
    """exp(-i t/2 P); letter k of `paulis` (X, Y, Z) acts on the factor's qubit k.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> gates.Rotation('Z').generator.real.tolist()
    [[0.5, 0.0], [0.0, -0.5]]
    """

    paulis: str

    @property
    def generator(self) -> np.ndarray:
        """G of exp(-i t G), bit 0 of its index being the first qubit."""
        return 0.5 * functools.reduce(lambda low, p: np.kron(_PAULI[p], low), self.paulis, np.eye(1))


@dataclass(frozen=True)
class Phase:
    """diag(1, ..., 1, exp(i t)) on `qubits` qubits; a global phase on none.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> gates.Phase(1).generator.real.tolist()
    [[0.0, 0.0], [0.0, -1.0]]
    """

    qubits: int = 1

    @property
    def generator(self) -> np.ndarray:
        """G of exp(-i t G)."""
        g = np.zeros((1 << self.qubits, 1 << self.qubits), complex)
        g[-1, -1] = -1.0
        return g


@dataclass(frozen=True)
class Pair:
    """Rotation in the plane of basis states `a`, `b` (bit k = qubit k); exp(t/2 (|b><a| - |a><b|)), or exp(-i t/2
    (|b><a| + |a><b|)).

    `parity` is a mask of qubits: the angle has the opposite sign in states where an odd number of them is 1 (the sign
    of fermionic excitations after Jordan-Wigner). They are qubits outside the plane, so they are none that differ in a
    and b.

    Parameters
    ----------
    qubits : int
    a, b : int
        Basis states; bit k is qubit k.
    imaginary : bool, default False
        True for the second form.
    free : int, default 0
        Mask of qubits that may have any value: the rotation acts for each.
    parity : int, default 0
        Mask within `free`.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> gates.Pair(2, 0b01, 0b10, imaginary=True).generator.real[1:3, 1:3].tolist()
    [[0.0, 0.5], [0.5, 0.0]]
    """

    qubits: int
    a: int
    b: int
    imaginary: bool = False
    free: int = 0  # mask of qubits that may be anything: the rotation acts in each of their states
    parity: int = 0  # a part of `free`

    @property
    def generator(self) -> np.ndarray:
        """G of exp(-i t G)."""
        g = np.zeros((1 << self.qubits, 1 << self.qubits), complex)
        for rest in range(1 << self.qubits):
            if rest & ~self.free:
                continue
            sign = -0.5 if (rest & self.parity).bit_count() % 2 else 0.5
            a, b = self.a | rest, self.b | rest
            g[b, a], g[a, b] = (sign, sign) if self.imaginary else (1j * sign, -1j * sign)
        return g


@dataclass(frozen=True)
class Factor:
    """One factor of a gate: a primitive on some of the gate's qubits, with an angle linear in the gate's parameters.

    Parameters
    ----------
    primitive : Rotation, Phase or Pair
    qubits : tuple of int
        Qubits of the gate that the primitive acts on.
    coefficients : tuple of float, default (1.0,)
        Of each parameter of the gate in the angle.
    constant : float, default 0
        Added to the angle, in radians.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> half = gates.Factor(gates.Rotation('X'), (0,), coefficients=(0.5,))
    >>> half.angle([0.6])
    0.3
    """

    primitive: Rotation | Phase | Pair
    qubits: tuple[int, ...]
    coefficients: tuple[float, ...] = (1.0,)
    constant: float = 0.0

    def angle(self, params: Sequence[Any]) -> Any:
        """The angle for the gate's parameters: numbers, or anything that can be added and scaled."""
        total: Any = self.constant
        for c, p in zip(self.coefficients, params, strict=True):
            if c:
                total = total + (p if c == 1.0 else c * p)
        return total


def exponential(primitive: Rotation | Phase | Pair, t: float) -> np.ndarray:
    """exp(-i t G) of a primitive, as a matrix. G has eigenvalues 0, ±g with one g, so that G^3 = g^2 G."""
    if isinstance(primitive, Phase):
        diagonal = np.ones(1 << primitive.qubits, complex)
        diagonal[-1] = np.exp(1j * t)
        return np.diag(diagonal)
    g2 = 4 * (primitive.generator @ primitive.generator)  # projector on the plane: g = 1/2
    return np.eye(len(g2)) + (np.cos(t / 2) - 1) * g2 - 2j * np.sin(t / 2) * primitive.generator


def embed(matrix: np.ndarray, qubits: Sequence[int], n: int) -> np.ndarray:
    """The matrix of a gate on `qubits` as one on n qubits: (2**n, 2**n)."""
    k = len(qubits)
    if tuple(qubits) == tuple(range(n)):
        return matrix
    total = np.eye(1 << n, dtype=complex).reshape((2,) * n + (1 << n,))
    axes = [n - 1 - q for q in reversed(qubits)]
    total = np.tensordot(matrix.reshape((2,) * (2 * k)), total, (list(range(k, 2 * k)), axes))
    return np.moveaxis(total, range(k), axes).reshape(1 << n, 1 << n)
