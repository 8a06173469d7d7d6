"""Gates as methods of circuits: `rx("a", 2)`, `crz(0.5, control, target)`, `mcx([0, 1], 2)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..errors import CircuitError
from .base import Gate

__all__ = ["gate_method", "hint"]


def gate_method(name: str, gate: Gate, controls: int | None) -> Callable[..., Any]:
    """Return the method of `Circuit` that adds a gate with that many controls, or with a list of them for None."""
    first, listed = gate.num_params, controls is None
    last = first + (1 if controls is None else controls)
    wanted = f"a list of controls and {gate.num_qubits}" if listed else f"{last - first + gate.num_qubits}"

    def method(self: Any, *arguments: Any) -> Any:
        if len(arguments) != last + gate.num_qubits:
            comma = "," if listed else " and"
            raise CircuitError(
                f"{name}: needs {first} parameters{comma} {wanted} qubits, got {len(arguments)} arguments"
            )
        return self.append(gate, arguments[last:], arguments[:first],
                           controls=arguments[first] if listed else arguments[first:last])

    names = ["angle"] * first + (["controls"] if controls is None else ["control"] * controls)
    method.__name__, method.__doc__ = name, f"Add {name}({', '.join([*names, *['qubit'] * gate.num_qubits])})."
    return method


def hint(gate: Any, qubit: Any) -> str:
    """Return a hint for an argument that is not a qubit."""
    if isinstance(qubit, (list, tuple, range, set, np.ndarray)):
        return " (one call for each qubit)"
    return " (parameters come before qubits)" if isinstance(qubit, float) and gate.num_params else ""
