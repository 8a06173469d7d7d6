"""The definition of gates: constant matrices, or products of one-angle factors.

A parameterised gate is a product of *factors*, each exp(-i t G) for one angle t that is linear in the gate's
parameters. There are three kinds, and every simulator, gradient rule and drawing needs to know these three only:

- `Rotation("XY")`: exp(-i t/2 P) of a Pauli string P, one letter a qubit;
- `Phase()`: diag(1, ..., 1, exp(i t)) on its qubits; on none it is a global phase;
- `Pair(a, b)`: a rotation in the plane of two basis states, [[c, -s], [s, c]] with c = cos(t/2), s = sin(t/2), or with
  `imaginary=True` [[c, -i s], [-i s, c]].

Controls distribute over products, so that a controlled gate is the product of its controlled factors.
A gate is found by everything (methods of `Circuit`, OpenQASM, drawings, tests) once it is registered.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import GateError

__all__ = ["Factor", "Gate", "Pair", "Phase", "Rotation", "family", "find", "names", "register"]

_PAULI = {
    "I": np.eye(2, dtype=complex), "X": np.array([[0, 1], [1, 0]], complex),
    "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1.0 + 0j, -1.0]),
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


@dataclass(frozen=True, eq=False)
class Gate:
    """A kind of gate. Exactly one of `constant`, `factors` and `function` defines it.

    Attributes
    ----------
    name : str
        Name in lower case, as in OpenQASM if the gate exists there.
    num_qubits, num_params : int
        Numbers of targets and of parameters. Controls belong to the instruction.
    constant : (2**q, 2**q) complex array, optional
        Its matrix; bit k of an index is the gate's qubit k.
    factors : tuple of Factor, optional
        In the order in which they act.
    function : callable, optional
        Parameters to matrix, in NumPy code that the core can differentiate.
    label : str
        Text in drawings.
    adjoint : str or callable, optional
        Name of the inverse of a constant gate, or parameters to parameters of the same gate's inverse. Without it,
        the inverse negates all parameters where each factor commutes, and else is found from factors or matrix.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> gate = gates.find('x')
    >>> gate.matrix().real.astype(int).tolist()
    [[0, 1], [1, 0]]
    """

    name: str
    num_qubits: int
    num_params: int = 0
    constant: np.ndarray | None = None
    factors: tuple[Factor, ...] | None = None
    function: Callable[..., Any] | None = None
    label: str = ""
    adjoint: str | Callable[..., tuple[Any, ...]] | None = None

    def __post_init__(self) -> None:
        # what is compiled of it must not change behind our back
        if self.constant is not None and self.constant.flags.writeable:
            constant = np.array(self.constant, complex)
            constant.flags.writeable = False
            object.__setattr__(self, "constant", constant)

    def kept(self, key: Any, make: Callable[[], Any]) -> Any:
        """Return ``make()``, cached for the life of the gate; holds what compilers derive from it."""
        found = self.__dict__.get("_kept")
        if found is None:
            found = self.__dict__["_kept"] = {}
        if key not in found:
            found[key] = make()
        return found[key]

    def __reduce__(self) -> tuple[Any, ...]:
        if is_found(self):
            return find, (self.name,)
        return Gate, tuple(getattr(self, f) for f in self.__dataclass_fields__)

    def matrix(self, *params: float) -> np.ndarray:
        """The (2**q, 2**q) complex128 matrix for these parameters; bit k of an index is the gate's qubit k.

        Raises
        ------
        GateError
            If the number of parameters is wrong.
        """
        if len(params) != self.num_params:
            raise GateError(f"gate {self.name}: {self.num_params} parameters are needed, got {len(params)}")
        if self.constant is not None:
            return self.constant
        if self.function is not None:
            return np.asarray(self.function(*params), complex)
        total = np.eye(1 << self.num_qubits, dtype=complex)
        for factor in self.factors or ():
            total = embed(exponential(factor.primitive, factor.angle(params)), factor.qubits, self.num_qubits) @ total
        return total

    def derivative(self, *params: float) -> np.ndarray:
        """Derivatives of the matrix with respect to each parameter, (p, 2**q, 2**q) complex128; of a function by the
        core.
        """
        d = 1 << self.num_qubits
        total = np.zeros((self.num_params, d, d), complex)
        if self.function is not None:
            from triskele import core

            ones = np.eye(self.num_params)
            for k in range(self.num_params):
                total[k] = core.jvp(self.function, tuple(float(p) for p in params), tuple(ones[k].tolist()))[1]
        for number, factor in enumerate(self.factors or ()):
            product = np.eye(d, dtype=complex)
            for other, f in enumerate(self.factors or ()):
                u = exponential(f.primitive, f.angle(params))
                product = embed(-1j * f.primitive.generator @ u if other == number else u, f.qubits,
                                self.num_qubits) @ product
            total += np.multiply.outer(factor.coefficients, product)
        return total

    def __repr__(self) -> str:
        return f"Gate({self.name!r})"

    def __eq__(self, other: object) -> bool:
        """Return True if both have the same definition, so that circuits read back from a file equal those
        written.
        """
        if self is other or not isinstance(other, Gate):
            return self is other
        mine, its = ((g.name, g.num_qubits, g.num_params, g.factors, g.function,
                      g.constant is None) for g in (self, other))
        return mine == its and (self.constant is None or np.array_equal(self.constant, np.asarray(other.constant)))

    def __hash__(self) -> int:
        return hash(self.name if self.constant is None else (self.name, self.constant.item(0), self.constant.item(-1)))


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


_REGISTRY: dict[str, Gate] = {}
_FAMILIES: list[Callable[[str], Gate | None]] = []


def register(gate: Gate, *aliases: str) -> Gate:
    """Register `gate` under its name and `aliases`.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> from triskele import quantum
    >>> gate = gates.Gate('half_x', 1, 1, factors=(gates.Factor(gates.Rotation('X'), (0,), (0.5,)),), label='X/2')
    >>> gates.register(gate)
    Gate('half_x')
    >>> quantum.Circuit(1).half_x('a', 0).parameters
    ('a',)
    """
    for name in (gate.name, *aliases):
        if name in _REGISTRY:
            raise GateError(f"register: there is a gate {name!r} already")
        _REGISTRY[name] = gate
    return gate


def family(make: Callable[[str], Gate | None]) -> Callable[[str], Gate | None]:
    """Let `find` ask `make` for gates whose names follow a rule; it returns None where they do not."""
    _FAMILIES.append(make)
    return make


def find(name: str) -> Gate:
    """Return the gate of that name, registered or a member of a family.

    Raises
    ------
    GateError
        If no gate has that name. The message suggests similar names.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> gates.find('rzz').num_qubits
    2
    """
    try:
        return _REGISTRY[name]
    except KeyError:
        for make in _FAMILIES if isinstance(name, str) else ():
            if (gate := make(name)) is not None:
                return gate
        raise GateError(f"unknown gate {name!r}{check.near(name, _REGISTRY)}") from None


def is_found(gate: Gate) -> bool:
    """Return True if `find` returns this very gate for its name."""
    try:
        return find(gate.name) is gate
    except GateError:
        return False


def names() -> list[str]:
    """Names of all registered gates, without aliases.

    Examples
    --------
    >>> from triskele.quantum import gates
    >>> 'rx' in gates.names()
    True
    """
    return [name for name, gate in _REGISTRY.items() if gate.name == name]
