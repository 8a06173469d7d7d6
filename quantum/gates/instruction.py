"""One instruction of a circuit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import CircuitError
from ..parameters import Linear
from .base import Gate

__all__ = ["BARRIER", "LOOP", "MEASURE", "REPEAT", "RESET", "Condition", "Instruction", "Operation"]


@dataclass(frozen=True, eq=False)
class Operation:
    """An operation other than a gate: measurement, reset or barrier. `num_qubits` None: any number."""

    name: str
    num_qubits: int | None = 1
    label: str = ""
    num_params = 0

    def __reduce__(self) -> str:
        return self.name.upper()  # there is one of each, found by its name in this module


MEASURE = Operation("measure", 1, "M")
RESET = Operation("reset", 1, "|0⟩")
BARRIER = Operation("barrier", None, "")
# what is between LOOP and REPEAT is carried out, again and again, only where their classical bit is 1
LOOP = Operation("loop", None, "↻")
REPEAT = Operation("repeat", None, "↺")


class Condition(NamedTuple):
    """Classical bits, first one least significant, that must hold `value`."""

    clbits: tuple[int, ...]
    value: int

    @classmethod
    def checked(cls, where: str, clbits: Sequence[int], value: int, num_clbits: int) -> Condition:
        """A condition on some of `num_clbits` bits, in plain integers."""
        bits = tuple(clbits)
        if not all(
            isinstance(c, (int, np.integer)) and not isinstance(c, bool) and 0 <= c < num_clbits for c in bits
        ) or len(set(bits)) != len(bits):
            there = f"different ones from 0 to {num_clbits - 1}" if num_clbits else "there (measure into them first)"
            raise CircuitError(f"{where}: classical bits must be {there}, got {list(bits)}")
        if not isinstance(value, (int, np.integer)) or not bits or not 0 <= value < 1 << len(bits):
            raise CircuitError(
                f"{where}: the value of a condition on {len(bits)} bits must be an integer from 0 to "
                f"{(1 << len(bits)) - 1}, got {value!r}"
            )
        return cls(tuple([int(c) for c in bits]), int(value))

    def bits(self) -> list[tuple[int, int]]:
        """Each classical bit, and the value that it must have."""
        return [(c, self.value >> k & 1) for k, c in enumerate(self.clbits)]


class Instruction(NamedTuple):
    """One step of a circuit."""

    gate: Any  # a Gate, Operation or Channel: an object with `name` and `num_qubits`
    qubits: tuple[int, ...]  # targets, in the gate's order
    params: tuple[float | Linear, ...] = ()  # one for each parameter of the gate
    controls: tuple[int, ...] = ()  # qubits that must be 1
    clbits: tuple[int, ...] = ()  # classical bits that a measurement writes
    condition: Condition | None = None  # the instruction acts only if these classical bits hold this value

    @property
    def is_unitary(self) -> bool:
        """True if the instruction is a gate without a classical condition."""
        return isinstance(self.gate, Gate) and self.condition is None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of its parameters."""
        return tuple(n for p in self.params if type(p) is Linear for n, _ in p.terms)

    def matrix(self, values: dict[str, float] | None = None) -> np.ndarray:
        """Matrix of the gate with its controls, the qubits being `(*qubits, *controls)`, for these parameter values."""
        inner = self.gate.matrix(*(p(values or {}) if type(p) is Linear else p for p in self.params))
        size = len(inner) << len(self.controls)
        outer = np.eye(size, dtype=complex)
        outer[size - len(inner) :, size - len(inner) :] = inner
        return outer
