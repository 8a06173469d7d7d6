"""The most common statements of OpenQASM without their tokens: known gates, measurements, resets and barriers on qubits
of registers.
"""

from __future__ import annotations

import math
import re
from typing import Any, NamedTuple

from ...errors import QASMError
from ...gates.instruction import BARRIER, RESET, Instruction
from ...parameters import Linear
from . import expressions
from .lexer import Stream, Token
from .operands import angle
from .statements import CircuitBuilder, Definition
from .values import Bits, Qubits, Scope, Subroutine, Variable

__all__ = ["PlainGates"]

_SPACE = r"[ \t\r\n]*"
_BEFORE = rf"{_SPACE}(?://[^\n]*\n{_SPACE})*"
_QUBIT = rf"[A-Za-z_]\w*\[\d{{1,7}}\]{_SPACE}"
_GATE = re.compile(
    rf"{_BEFORE}([A-Za-z_]\w*){_SPACE}(?:\(([^();]*(?:\([^();]*\)[^();]*)*)\){_SPACE}|(?<=[ \t\r\n]))"
    rf"({_QUBIT}(?:,{_SPACE}{_QUBIT})*);"
)
_MEASURE = re.compile(
    rf"{_BEFORE}(?:measure[ \t\r\n]+({_QUBIT})->{_SPACE}({_QUBIT})|({_QUBIT})={_SPACE}measure[ \t\r\n]+({_QUBIT}));"
)
_REAL = r"(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?"
_NUMBER = re.compile(rf"{_SPACE}-?{_REAL}{_SPACE}")
_PRODUCT = re.compile(rf"{_SPACE}(-?)(?:({_REAL})\*)?pi(?:([*/])([1-9]\d{{0,8}}))?{_SPACE}")
_NAME = re.compile(r"[A-Za-z_]\w*")
_LARGE = 1e300  # angles of which linear expressions in definitions may not be finite
_NOWHERE = Token("name", "", 1, 1)


class _Template(NamedTuple):
    """What a gate that the program defines is made of, on qubits 0, 1, ..."""

    definition: Definition
    body: list[tuple[Any, tuple[int, ...], list[Any], tuple[int, ...]]] | None  # gate, qubits, angles, controls


class PlainGates:
    """Reads runs of such statements; all others, and those with mistakes, are left for the reader."""

    def __init__(self, definitions: dict[str, Any], scope: Scope, version: int):
        # by name, of which (number of controls, gate) and what is made of them are read here; registers by name
        self._definitions, self._scope, self._rules = definitions, scope, expressions.RULES[version]
        # by operand or expression: what a program declares outside of blocks stays what it is
        self._wires: dict[tuple[type, str], int] = {}
        self._angles: dict[str, float | Linear | None] = {}
        self._templates: dict[str, _Template] = {}

    def read(self, stream: Stream, builder: CircuitBuilder) -> None:
        """Read statements from here on, up to one of another kind."""
        while True:
            if match := stream.match(_GATE):
                done = self._read_gate(match, builder)
            elif match := stream.match(_MEASURE):
                done = self._read_measure(match, builder)
            if not match or not done:
                return
            stream.skip(match.end())

    def _read_measure(self, match: re.Match[str], builder: CircuitBuilder) -> bool:
        qubit, bit = self._wire(Qubits, match[1] or match[4]), self._wire(Bits, match[2] or match[3])
        if qubit is None or bit is None:
            return False
        builder.measure(qubit, bit, _NOWHERE)
        return True

    def _read_gate(self, match: re.Match[str], builder: CircuitBuilder) -> bool:
        name, parameters, operands = match.groups()
        wires: list[Any] = [self._wire(Qubits, text) for text in operands.split(",")]
        if None in wires or len(set(wires)) < len(wires):
            return False
        known = self._definitions.get(name)
        if type(known) is tuple:
            controls, gate = known
            angles: list[Any] = [] if parameters is None else [self._angle(text) for text in parameters.split(",")]
            if len(wires) != controls + gate.num_qubits or len(angles) != gate.num_params or None in angles:
                return False
            mine, theirs = tuple(wires[controls:]), tuple(wires[:controls])
            builder.instructions.append(Instruction(gate, mine, tuple(angles), theirs))
        elif type(known) is Definition:
            angles = [] if not parameters else [self._angle(text) for text in parameters.split(",")]
            return None not in angles and self._read_defined(name, known, angles, wires, builder)
        elif name == "barrier" and parameters is None:
            builder.instructions.append(Instruction(BARRIER, tuple(wires)))
        elif name == "reset" and parameters is None:
            builder.instructions += [Instruction(RESET, (q,)) for q in wires]
        else:
            return False
        return True

    def _read_defined(
        self, name: str, known: Definition, angles: list[Any], wires: list[int], builder: CircuitBuilder
    ) -> bool:
        template = self._templates.get(name)
        if template is None or template.definition is not known:
            template = self._templates[name] = _template(known, builder)
        if template.body is None or len(wires) != len(known.qubits) or len(angles) != len(known.params):
            return False
        if any(type(a) is not float or abs(a) > _LARGE for a in angles):
            return False
        try:
            for _ in range(len(template.body) or 1):
                builder.step(_NOWHERE)
        except QASMError:  # which the reader raises again, with the place
            return False
        values = dict(zip(known.params, angles, strict=True))
        builder.instructions += [
            Instruction(
                gate,
                tuple([wires[q] for q in qubits]),
                tuple([p if type(p) is float else p(values) for p in params]),
                tuple([wires[q] for q in controls]),
            )
            for gate, qubits, params, controls in template.body
        ]
        return True

    def _wire(self, kind: type[Qubits] | type[Bits], text: str) -> int | None:
        wire = self._wires.get((kind, text))
        if wire is None:
            name, index = text.strip()[:-1].split("[")
            register = self._scope.get(name)
            if type(register) is not kind or register.one or int(index) >= len(register.wires):
                return None
            wire = self._wires[kind, text] = register.wires[int(index)]
        return wire

    def _angle(self, text: str) -> float | Linear | None:
        if _NUMBER.fullmatch(text):
            value = float(text)
            return value if math.isfinite(value) else None
        if text not in self._angles:
            if any(type(self._scope.get(name)) in (Variable, Subroutine, Bits) for name in _NAME.findall(text)):
                return None  # it may be another one the next time
            match = _PRODUCT.fullmatch(text)
            self._angles[text] = self._evaluated(text) if match is None else _product(*match.groups())
        return self._angles[text]

    def _evaluated(self, text: str) -> float | Linear | None:
        stream = Stream(text)
        try:
            value = angle(expressions.parse(stream, self._rules)(self._scope), stream.now)
        except QASMError:
            return None
        return value if stream.now.kind == "end" else None


def _product(sign: str, factor: str | None, operator: str | None, number: str | None) -> float | None:
    """A multiple of pi, computed in the order of the expression."""
    value = math.pi if factor is None else float(factor) * math.pi
    if number is not None:
        value = value * int(number) if operator == "*" else value / int(number)
    return None if not math.isfinite(value) else -value if sign else value


def _template(definition: Definition, builder: CircuitBuilder) -> _Template:
    """Carry out a definition once, with names for its parameters."""
    trial = CircuitBuilder(builder.num_qubits, builder.num_clbits, words=builder.words)
    try:
        parameters = [Linear(((name, 1.0),)) for name in definition.params]
        trial.gate(definition, (), parameters, range(len(definition.qubits)), _NOWHERE)
    except QASMError:  # it is opaque or not linear, or the reader will say what is wrong
        return _Template(definition, None)
    body = [(i.gate, i.qubits, list(i.params), i.controls) for i in trial.instructions]
    same = not builder.is_physical and all(_is_exact(p) for row in body for p in row[2])
    return _Template(definition, body if same else None)


def _is_exact(p: float | Linear) -> bool:
    """Return True if the expression has one value, whatever the order of its operations: it rounds at most once."""
    if type(p) is not Linear:
        return True
    halves = all(abs(math.frexp(c)[0]) == 0.5 for _, c in p.terms)
    return halves and len(p.terms) + (p.constant != 0) <= 2
