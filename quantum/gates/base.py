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

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import GateError
from .primitives import Factor, embed, exponential

__all__ = ["Gate", "family", "find", "names", "register"]


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
                product = (
                    embed(-1j * f.primitive.generator @ u if other == number else u, f.qubits, self.num_qubits)
                    @ product
                )
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
        mine, its = (
            (g.name, g.num_qubits, g.num_params, g.factors, g.function, g.constant is None) for g in (self, other)
        )
        return mine == its and (self.constant is None or np.array_equal(self.constant, np.asarray(other.constant)))

    def __hash__(self) -> int:
        return hash(self.name if self.constant is None else (self.name, self.constant.item(0), self.constant.item(-1)))


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
