"""Gates and channels as methods of circuits: `rx("a", 2)`, `crz(0.5, control, target)`, `mcx([0, 1], 2)`.

Their signatures for type checkers are in `gate_methods.pyi`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import gates
from .errors import CircuitError, GateError
from .gates.base import Gate
from .gates.standard import CONTROLLED, resolve
from .noise import channels

__all__ = ["GateMethods", "hint"]


class GateMethods:
    """Base class of circuits: every registered gate or channel becomes a method when it is first used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        method: Callable[..., Any] | None
        try:
            number, gate = resolve(name)
            method = _gate_method(name, gate, number)
        except GateError as error:
            method = channels.method(name)
            if method is None:
                raise AttributeError(f"Circuit has no gate or method {name!r}: {error}") from None
        setattr(GateMethods, name, method)
        return method.__get__(self)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *gates.names(), *CONTROLLED]


def _gate_method(name: str, gate: Gate, controls: int | None) -> Callable[..., Any]:
    """Return the method that adds a gate with that many controls, or with a list of them for None."""
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
