"""Statements of OpenQASM that add to a circuit: gates, controlled and powered, definitions, conditions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

import numpy as np

from ...circuit import Circuit
from ...errors import CircuitError, GateError
from ...gates.base import Gate, find
from ...gates.families import unitary
from ...gates.instruction import BARRIER, MEASURE, RESET, Condition, Instruction
from ...gates.inverse import inverse
from ...gates.power import power
from ...parameters import Linear
from .expressions import Qubits, Scope
from .lexer import Token, fail

__all__ = ["PHASED", "CircuitBuilder", "Definition", "Modifier", "Run"]

# statements carried out, where the text has not more words: definitions of definitions, and loops, grow without bound
_STEPS = 1_000_000
_NESTED = 80  # definitions in definitions: each takes some seven frames of Python's stack
_WIRES = 1_000_000


@dataclass(frozen=True)
class Modifier:
    """`ctrl`, `negctrl`, `inv` or `pow` before a gate, with a number of qubits or an exponent."""

    kind: str
    value: Any
    token: Token


Run = Callable[["CircuitBuilder", dict[str, Any]], None]


@dataclass(frozen=True)
class Definition:
    """A gate that the program, or OpenQASM 3 itself, defines; `body` is None where it is opaque."""

    name: str
    params: tuple[str, ...]
    qubits: tuple[str, ...]
    body: Run | None


def with_phase(name: str, ours: str, phase: Callable[..., Any]) -> Definition:
    """One of our gates on one qubit together with a global phase of its angles."""
    gate = find(ours)
    angles = ("theta", "phi", "lambda")[-gate.num_params :]

    def body(builder: CircuitBuilder, scope: Scope) -> None:
        values = tuple(scope[a] if type(scope[a]) is Linear else float(scope[a]) for a in angles)
        builder.instructions += [
            Instruction(find("global_phase"), (), (phase(*values),)),
            Instruction(gate, scope["q"].wires, values),
        ]

    return Definition(name, angles, ("q",), body)


# Of OpenQASM 3, whose U has the phase exp(i theta/2), and whose u2 and u3 are those of OpenQASM 2: it matters where
# they have controls.
PHASED = {
    "U": with_phase("U", "u", lambda t, f, l: 0.5 * t),
    "u2": with_phase("u2", "u2", lambda f, l: -0.5 * (f + l)),
    "u3": with_phase("u3", "u", lambda t, f, l: -0.5 * (f + l)),
}


@dataclass
class _Branch:
    """The body of an `if`, being carried out."""

    bits: dict[int, int]
    changed: Token | None = None  # the measurement in it that overwrote one of these bits


@dataclass
class CircuitBuilder:
    """Collects instructions while a program is carried out."""

    num_qubits: int = 0
    num_clbits: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)  # parameters in the order of their declaration
    words: int = 0  # of the text
    is_physical: bool = False  # whether qubits are $0, $1, ... and not in registers
    depth: int = 0  # of the definition that is being carried out
    _branches: list[_Branch] = field(default_factory=list)
    _steps: int = 0

    def circuit(self) -> Circuit:
        """All that was collected."""
        circuit = Circuit(self.num_qubits, self.num_clbits)
        for i in self.instructions:
            if i.clbits or i.condition or not all(type(p) is float and isfinite(p) for p in i.params):
                circuit.append(i.gate, i.qubits, i.params, controls=i.controls, clbits=i.clbits, condition=i.condition)
            else:  # numbers and qubits are known to be right
                circuit._instructions.append(i)
        return circuit._ordered(self.inputs)

    def declare(self, token: Token, *, qubits: int = 0, clbits: int = 0) -> tuple[int, ...]:
        """Numbers of new qubits or classical bits."""
        first = self.num_qubits if qubits else self.num_clbits
        if first + qubits + clbits > _WIRES:
            fail(f"a program may have {_WIRES} qubits and as many bits, got {first + qubits + clbits}", token)
        self.num_qubits, self.num_clbits = self.num_qubits + qubits, self.num_clbits + clbits
        return tuple(range(first, first + qubits + clbits))

    def step(self, token: Token) -> None:
        """Count a statement that is carried out."""
        self._steps += 1
        if self._steps > max(_STEPS, self.words):
            fail(f"the program has more than {max(_STEPS, self.words)} steps", token)

    # -- conditions ---------------------------------------------------------------------------------------------------

    def branch(self, bits: Sequence[tuple[int, int]], token: Token, body: Callable[[], None]) -> bool:
        """Carry out `body` under a condition; whether the bits of the condition are still what they were."""
        everything = {b: v for branch in self._branches for b, v in branch.bits.items()}
        if any(everything.get(b, v) != v for b, v in bits):
            return True  # contradicts an if around it
        self._branches.append(_Branch(dict(bits)))
        body()
        return self._branches.pop().changed is None

    def _condition(self, token: Token) -> Condition | None:
        if not self._branches:
            return None
        for branch in self._branches:
            if branch.changed:
                fail(
                    f"the if around it depends on a bit that was measured again in line {branch.changed.line} (move "
                    f"this after the if)",
                    token,
                )
        bits = {b: v for branch in self._branches for b, v in branch.bits.items()}
        return Condition(tuple(bits), sum(v << k for k, v in enumerate(bits.values())))

    def _add(self, instruction: Instruction, token: Token) -> None:
        self.step(token)
        self.instructions.append(
            instruction._replace(condition=self._condition(token)) if self._branches else instruction
        )

    # -- instructions -------------------------------------------------------------------------------------------------

    def measure(self, qubit: int, clbit: int, token: Token) -> None:
        """A measurement."""
        self._add(Instruction(MEASURE, (qubit,), clbits=(clbit,)), token)
        for branch in self._branches:
            if clbit in branch.bits:
                branch.changed = token

    def reset(self, qubit: int, token: Token) -> None:
        """A reset."""
        self._add(Instruction(RESET, (qubit,)), token)

    def barrier(self, qubits: Sequence[int], token: Token) -> None:
        """A barrier; conditions do not matter to it."""
        self.step(token)
        distinct(qubits, token)
        self.instructions.append(Instruction(BARRIER, tuple(qubits)))

    def gate(
        self,
        what: Definition | tuple[int, Gate] | None,
        modifiers: Sequence[Modifier],
        params: Sequence[Any],
        qubits: Sequence[int],
        token: Token,
    ) -> None:
        """A gate on qubits, controls of modifiers first."""
        distinct(qubits, token)
        for instruction in self._expand(what, modifiers, params, tuple(qubits), token):
            self._add(instruction, token)

    def _expand(
        self, what: Any, modifiers: Sequence[Modifier], params: Sequence[Any], qubits: tuple[int, ...], token: Token
    ) -> list[Instruction]:
        if modifiers:
            return self._modified(what, modifiers, params, qubits, token)
        if isinstance(what, Definition):
            return self._defined(what, params, qubits, token)
        if what is None:  # u0: waits
            return [] if _count(params, 1, qubits, 1, token) else []
        controls, gate = what
        _count(params, gate.num_params, qubits, gate.num_qubits + controls, token)
        return [
            Instruction(
                gate, qubits[controls:], tuple(p if type(p) is Linear else float(p) for p in params), qubits[:controls]
            )
        ]

    def _defined(
        self, what: Definition, params: Sequence[Any], qubits: tuple[int, ...], token: Token
    ) -> list[Instruction]:
        if what.body is None:
            fail(f"{what.name!r} is opaque: its definition is not known", token)
        _count(params, len(what.params), qubits, len(what.qubits), token)
        if self.depth >= _NESTED:
            fail(f"{what.name!r}: definitions must not be nested more than {_NESTED} deep", token)
        inner = CircuitBuilder(
            self.num_qubits, self.num_clbits, words=self.words, depth=self.depth + 1, _steps=self._steps
        )
        inner.step(token)
        what.body(
            inner,
            dict(zip(what.params, params, strict=True))
            | {name: Qubits((q,), True) for name, q in zip(what.qubits, qubits, strict=True)},
        )
        self._steps = inner._steps
        return inner.instructions

    def _modified(
        self, what: Any, modifiers: Sequence[Modifier], params: Sequence[Any], qubits: tuple[int, ...], token: Token
    ) -> list[Instruction]:
        modifier, inner = modifiers[0], modifiers[1:]
        if modifier.kind in ("ctrl", "negctrl"):
            n = modifier.value
            if not 1 <= n <= len(qubits):
                fail(f"{modifier.kind} needs from 1 to {len(qubits)} qubits, got {n}", modifier.token)
            controls = qubits[:n]
            flips = [Instruction(find("x"), (c,)) for c in controls] if modifier.kind == "negctrl" else []
            return (
                flips + [_controlled(i, controls) for i in self._expand(what, inner, params, qubits[n:], token)] + flips
            )
        body = self._expand(what, inner, params, qubits, token)
        try:
            if modifier.kind == "inv":
                return [inverse(i) for i in reversed(body)]
            exponent = modifier.value
            if not body:
                return []
            if float(exponent).is_integer():
                body = body if exponent >= 0 else [inverse(i) for i in reversed(body)]
                self._steps += len(body) * abs(int(exponent))
                self.step(modifier.token)
                return body * abs(int(exponent))
            if len(body) == 2 and body[0].gate.name == "global_phase" and what in PHASED.values() and not inner:
                phase = body[0].params[0]
                if isinstance(phase, float) and _numbers(body):
                    body = [body[1]._replace(gate=unitary(np.exp(1j * phase) * body[1].matrix()), params=())]
            if len(body) != 1:
                fail("a gate made of several gates can only have whole powers", modifier.token)
            return [power(body[0], float(exponent))]
        except (CircuitError, GateError) as error:
            fail(str(error), modifier.token)


def _numbers(body: Sequence[Instruction]) -> bool:
    return all(type(p) is float for i in body for p in i.params)


def _controlled(instruction: Instruction, controls: tuple[int, ...]) -> Instruction:
    if instruction.gate is BARRIER:
        return instruction
    everything = controls + instruction.controls
    if not instruction.qubits:  # a global phase becomes that of a control
        return Instruction(find("p"), everything[-1:], instruction.params, everything[:-1])
    return instruction._replace(controls=everything)


def _count(params: Sequence[Any], num_params: int, qubits: Sequence[int], num_qubits: int, token: Token) -> bool:
    if len(params) != num_params:
        fail(f"{token.text} has {num_params} parameters, got {len(params)}", token)
    if len(qubits) != num_qubits:
        fail(f"{token.text} acts on {num_qubits} qubits, got {len(qubits)}", token)
    return True


def distinct(qubits: Sequence[int], token: Token) -> None:
    """Fail where a qubit occurs twice."""
    if len(set(qubits)) != len(qubits):
        fail(f"{token.text}: qubits must differ", token)
