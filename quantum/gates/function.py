"""Gates from a user's matrix function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core import extend
from triskele.core.extend import check

from ..errors import GateError
from .base import Gate, register
from .families import unitarity

__all__ = ["Adjoint", "gate"]


def gate(function: Callable[..., Any], num_qubits: int, num_params: int, name: str | None = None) -> Gate:
    """Return a gate from a function that computes its matrix, differentiated by the core.

    Only unitarity is assumed: the matrix need not have a generator or be periodic in its parameters.

    Parameters
    ----------
    function : callable
        Function of `num_params` numbers that returns a (2**num_qubits, 2**num_qubits) matrix, in NumPy code that the
        core can differentiate. Bit k of an index is the gate's qubit k.
    num_qubits, num_params : int
    name : str, optional
        Defaults to the function's name.

    Returns
    -------
    Gate
        For `Circuit.append`; after `quantum.gates.register(gate)` it is a method of circuits.

    Raises
    ------
    GateError
        If the matrix has the wrong shape, or is not unitary to 1e-9 at some random parameters.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import quantum
    >>> def kick(t):
    ...     return np.array([[np.cos(t**2), -np.sin(t**2)], [np.sin(t**2), np.cos(t**2)]])
    >>> kick = quantum.gate(kick, 1, 1)
    >>> quantum.Circuit(1).append(kick, 0, ["a"]).parameters
    ('a',)
    """
    name = name or str(getattr(function, "__name__", "custom"))
    name = "custom" if name == "<lambda>" else name
    check.kind(function, Callable, "gate: function", "a function from parameters to a matrix", error=GateError)
    if not (isinstance(num_qubits, int) and num_qubits >= 0 and isinstance(num_params, int) and num_params >= 0):
        raise GateError(
            f"gate {name}: numbers of qubits and parameters must be integers >= 0, got {num_qubits!r}, {num_params!r}"
        )
    random = np.random.default_rng(num_params)
    for values in random.uniform(-7, 7, (3, num_params)).tolist():
        matrix = check.shape(
            np.asarray(function(*values)), (1 << num_qubits,) * 2, f"gate {name}: the matrix", error=GateError
        )
        if not (deviation := unitarity(matrix)) < 1e-9:
            raise GateError(
                f"gate {name}: the matrix must be unitary, at parameters {values} U†U differs from 1 by {deviation:.3g}"
            )
    if num_params == 0:
        return Gate(name, num_qubits, constant=np.asarray(function(), complex), label=name)
    return Gate(name, num_qubits, num_params, function=function, label=name)


@dataclass(frozen=True)
class Adjoint:
    """The matrix function of the inverse of a gate that is a function."""

    gate: Gate
    function: Callable[..., Any]

    def __call__(self, *params: Any) -> Any:
        return np.conj(np.swapaxes(extend.traceable(self.function)(*params), 0, 1))


def _rotation_about_vector(x: Any, y: Any, z: Any) -> Any:
    # cos(r/2) and sin(r/2)/r are even in r: series where the root has no derivative (next terms: r^4/384, r^4/3840)
    r2 = x * x + y * y + z * z
    far = r2 > 1e-8
    r = np.sqrt(np.where(far, r2, 1.0))
    c = np.where(far, np.cos(r / 2), 1 - r2 / 8)
    s = np.where(far, np.sin(r / 2) / r, 0.5 - r2 / 48)
    return c * _1 - 1j * (s * x * _X + s * y * _Y + s * z * _Z)


_1, _X, _Y, _Z = np.eye(2), np.array([[0, 1], [1, 0]]), np.array([[0, -1j], [1j, 0]]), np.diag([1, -1])
# exp(-i (x X + y Y + z Z)/2), Qiskit's RVGate
register(Gate("rv", 1, 3, function=_rotation_about_vector, label="RV", adjoint=lambda x, y, z: (-x, -y, -z)), "rn")
