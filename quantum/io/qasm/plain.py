"""The most common statement of OpenQASM, a known gate with numbers on qubits of registers, without its tokens."""

from __future__ import annotations

import math
import re
from typing import Any

from ...errors import QASMError
from ...gates.instruction import Instruction
from . import expressions
from .lexer import Stream
from .statements import CircuitBuilder
from .values import Qubits, Scope

__all__ = ["PlainGates"]

_SPACE = r"[ \t\r\n]*"
_QUBIT = rf"[A-Za-z_]\w*\[\d{{1,7}}\]{_SPACE}"
_GATE = re.compile(
    rf"{_SPACE}([A-Za-z_]\w*){_SPACE}(?:\(([^();]*)\){_SPACE}|(?<=[ \t\r\n]))"
    rf"({_QUBIT}(?:,{_SPACE}{_QUBIT})*);"
)
_NUMBER = re.compile(rf"{_SPACE}-?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?{_SPACE}")
_OF_PI = re.compile(r"[-+*/.\d \t\r\n]*(?:\bpi\b[-+*/.\d \t\r\n]*)*")


class PlainGates:
    """Reads runs of such statements; all others, and those with mistakes, are left for the reader."""

    def __init__(self, definitions: dict[str, Any], scope: Scope, version: int):
        # by name, of which (number of controls, gate) are read here; registers by name
        self._definitions, self._scope, self._rules = definitions, scope, expressions.RULES[version]
        self._wires: dict[str, int] = {}  # by operand: registers of a program stay what they are
        self._angles: dict[str, float] = {}  # by expression, where it is more than a number

    def read(self, stream: Stream, builder: CircuitBuilder) -> None:
        """Read statements from here on, up to one of another kind."""
        while match := stream.match(_GATE):
            known = self._definitions.get(match[1])
            if type(known) is not tuple:
                return
            controls, gate = known
            wires = [self._wire(text) for text in match[3].split(",")]
            angles = [] if match[2] is None else [self._angle(text) for text in match[2].split(",")]
            if (
                len(wires) != controls + gate.num_qubits
                or len(angles) != gate.num_params
                or None in wires
                or None in angles
                or len(set(wires)) < len(wires)
            ):
                return
            mine, theirs = tuple(wires[controls:]), tuple(wires[:controls])
            builder.instructions.append(Instruction(gate, mine, tuple(angles), theirs))  # type: ignore
            stream.skip(match.end())

    def _wire(self, text: str) -> int | None:
        wire = self._wires.get(text)
        if wire is None:
            name, index = text.strip()[:-1].split("[")
            register = self._scope.get(name)
            if not isinstance(register, Qubits) or register.one or int(index) >= len(register.wires):
                return None
            wire = self._wires[text] = register.wires[int(index)]
        return wire

    def _angle(self, text: str) -> float | None:
        if _NUMBER.fullmatch(text):
            value = float(text)
            return value if math.isfinite(value) else None
        if text not in self._angles:
            if not _OF_PI.fullmatch(text):
                return None
            try:
                stream = Stream(text)
                value = float(expressions.parse(stream, self._rules)({}))
            except (QASMError, OverflowError):
                return None
            if stream.now.kind != "end":
                return None
            self._angles[text] = value
        return self._angles[text]
