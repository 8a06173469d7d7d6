"""Gates and channels as methods of circuits: `rx("a", 2)`, `crz(0.5, control, target)`, `mcx([0, 1], 2)`.

Their signatures for type checkers are in `gate_methods.pyi`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from . import gates
from .errors import CircuitError, GateError
from .gates.base import Gate
from .gates.formula import angles, formula
from .gates.standard import CONTROLLED, resolve
from .noise import channels

__all__ = ["GateMethods", "hint"]


def _method(name: str) -> Callable[..., Any]:
    """Make the method of a gate or channel when it is first used, and keep it in the class."""
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
    return method


class _Lookup(type):
    """Lets the class have the methods, too: ``help(Circuit.rx)``."""

    def __getattr__(cls, name: str) -> Any:
        return _method(name)

    def __dir__(cls) -> Iterable[str]:
        return [*super().__dir__(), *gates.names(), *CONTROLLED, *channels.CHANNELS]


class GateMethods(metaclass=_Lookup):
    """Base class of circuits: every registered gate or channel becomes a method when it is first used."""

    def __getattr__(self, name: str) -> Any:
        return _method(name).__get__(self)

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *gates.names(), *CONTROLLED, *channels.CHANNELS]


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
        return self.append(
            gate, arguments[last:], arguments[:first], controls=arguments[first] if listed else arguments[first:last]
        )

    qubits = _numbered("qubit", gate.num_qubits)
    control = ["controls"] if controls is None else _numbered("control", controls)
    names = [*angles(gate), *control, *qubits]
    method.__name__, method.__qualname__, method.__module__ = name, f"Circuit.{name}", "triskele.quantum.circuit"
    method.__doc__ = _documentation(name, gate, control, qubits)
    positional = inspect.Parameter.POSITIONAL_ONLY
    method.__signature__ = inspect.Signature([inspect.Parameter(n, positional) for n in ["self", *names]])
    return method


def _numbered(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word}{k + 1}" for k in range(count)]


def _documentation(name: str, gate: Gate, control: list[str], qubits: list[str]) -> str:
    """The docstring of a gate's method: its parameters, its matrix, and a call."""
    controlled = f", where {' and '.join(control)} {'is' if len(control) == 1 else 'are'} 1" if control else ""
    controlled = ", where all controls are 1" if control == ["controls"] else controlled
    lines = [
        f"Add the gate {name}{f': {gate.name}' if gate.name != name else ''}{controlled}.",
        "",
        "Parameters",
        "----------",
    ]
    if angles(gate):
        lines += [
            f"{', '.join(angles(gate))} : float, str, dict or Linear, rad",
            "    A number, or the name of a parameter or a linear combination of parameters.",
        ]
    if control:
        lines += ["controls : sequence of int" if control == ["controls"] else f"{', '.join(control)} : int"]
    if qubits:
        lines += [f"{', '.join(qubits)} : int"]
    if text := formula(gate):
        lines += [
            "",
            "Notes",
            "-----",
            f"Matrix{' of the gate without controls' if control else ''}"
            f"{'; bit k of an index is that of the k-th qubit' if len(qubits) > 1 else ''}::",
            "",
            *(f"    {line}" for line in text.splitlines()),
        ]
    values = [
        *(f"0.{k + 1}" for k in range(gate.num_params)),
        *(["[0, 1]"] if control == ["controls"] else map(str, range(len(control)))),
    ]
    first = 2 if control == ["controls"] else len(control)
    values += map(str, range(first, first + len(qubits)))
    lines += [
        "",
        "Examples",
        "--------",
        ">>> from triskele import quantum",
        f">>> circuit = quantum.Circuit({first + len(qubits)}).{name}({', '.join(values)})",
    ]
    return "\n".join(lines)


def hint(gate: Any, qubit: Any) -> str:
    """Return a hint for an argument that is not a qubit."""
    if isinstance(qubit, (list, tuple, range, set, np.ndarray)):
        return " (one call for each qubit)"
    return " (parameters come before qubits)" if isinstance(qubit, float) and gate.num_params else ""
