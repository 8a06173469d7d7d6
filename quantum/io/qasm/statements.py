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
from ...gates.instruction import BARRIER, LOOP, MEASURE, REPEAT, RESET, Condition, Instruction, Operation
from ...gates.inverse import inverse
from ...gates.power import power
from ...noise.readout import ReadoutError
from ...parameters import Linear
from .cases import Bit, Cases, Word, combine, leaves, restrict
from .lexer import Token, fail
from .values import Qubits, Scope

__all__ = ["PHASED", "CircuitBuilder", "Definition", "Modifier", "Run", "nothing"]

# statements carried out, where the text has not more words: definitions of definitions, and loops, grow without bound
_STEPS = 1_000_000
_NESTED = 80  # definitions in definitions: each takes some seven frames of Python's stack
_WIRES = 1_000_000
_HIDDEN = 1 << 24  # from here on, bits that the program does not declare: they follow the others in the circuit


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
class CircuitBuilder:
    """Collects instructions while a program is carried out."""

    num_qubits: int = 0
    num_clbits: int = 0
    instructions: list[Instruction] = field(default_factory=list)
    inputs: list[str] = field(default_factory=list)  # parameters in the order of their declaration
    words: int = 0  # of the text
    is_physical: bool = False  # whether qubits are $0, $1, ... and not in registers
    depth: int = 0  # of the definition that is being carried out
    loops: int = 0  # around this that measurements decide about
    path: dict[Bit, int] = field(default_factory=dict)  # what holds where this is carried out
    saved: frozenset[Bit] = frozenset()  # bits that are needed when they have been written again
    lost: dict[Bit, Token] = field(default_factory=dict)  # others that turned out to be: where
    _base: dict[Bit, int] = field(default_factory=dict)  # the path where the innermost loop begins
    _copies: dict[Bit, int] = field(default_factory=dict)
    _hidden: int = 0
    _count: dict[int, int] = field(default_factory=dict)  # versions of each classical bit that was written
    _now: dict[int, int] = field(default_factory=dict)  # the version that a bit has on this path
    _held: dict[int, frozenset[Bit]] = field(default_factory=dict)  # the versions that it is where they are asked for
    _gone: set[Bit] = field(default_factory=set)  # versions that were overwritten
    _constants: dict[int, int] = field(default_factory=dict)  # classical bits whose value is known
    _steps: int = 0

    def circuit(self) -> Circuit:
        """All that was collected."""
        circuit = Circuit(self.num_qubits, self.num_clbits + self._hidden)
        for i in map(self._placed, self.instructions) if self._hidden else self.instructions:
            if (
                i.condition
                or i.clbits
                and i.gate is not MEASURE
                or not all(type(p) is float and isfinite(p) for p in i.params)
            ):
                circuit.append(i.gate, i.qubits, i.params, controls=i.controls, clbits=i.clbits, condition=i.condition)
            else:  # numbers and qubits are known to be right
                circuit._instructions.append(i)
        return circuit._ordered(self.inputs)

    def _placed(self, i: Instruction) -> Instruction:
        """Move hidden bits of an instruction behind the declared ones."""
        place = lambda bits: tuple(c if c < _HIDDEN else c - _HIDDEN + self.num_clbits for c in bits)
        condition = i.condition and Condition(place(i.condition.clbits), i.condition.value)
        return i._replace(clbits=place(i.clbits), condition=condition)

    def hide(self, count: int) -> tuple[int, ...]:
        """Allocate classical bits that the program does not name."""
        self._hidden += count
        return tuple(range(_HIDDEN + self._hidden - count, _HIDDEN + self._hidden))

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

    # -- classical bits -----------------------------------------------------------------------------------------------

    def bit(self, wire: int) -> Any:
        """The value of a classical bit: a number where that is known here, else cases."""
        if wire in self._constants:
            return Word(self._constants[wire], 1)
        bit = (wire, self._now.get(wire, 0))
        return Word(self.path[bit], 1) if bit in self.path else Cases(bit, Word(0, 1), Word(1, 1))

    def each(self, value: Any, token: Token, body: Callable[..., Any]) -> None:
        """Run `body` for each case of a value, under that case's condition. Cases do not see each other's changes."""
        outside, value = self.path, restrict(value, self.path)
        if type(value) is not Cases:
            body(value)
            return
        now, held, constants = self._now, self._held, self._constants
        changed: dict[int, frozenset[Bit]] = {}
        for bits, leaf in leaves(value):
            self.step(token)
            if not self._can_hold(outside | bits):
                continue
            self.path, self._now, self._held, self._constants = outside | bits, dict(now), dict(held), dict(constants)
            body(leaf)
            for wire, version in self._now.items():
                if version != now.get(wire, 0):
                    changed[wire] = changed.get(wire, frozenset()) | self._held[wire]
        self.path, self._now, self._held = outside, dict(now), dict(held)
        self._constants = {w: v for w, v in constants.items() if w not in changed}
        for wire, versions in changed.items():
            self._new_version(wire, versions)

    def here(self, value: Any, elsewhere: Any, token: Token) -> Any:
        """Return `value` on the current path, and `elsewhere` on all other paths."""
        holds: Any = True
        for bit, wanted in sorted(self.path.items(), reverse=True):
            holds = Cases(bit, False, holds) if wanted else Cases(bit, holds, False)
        return combine(token, lambda is_here, a, b: a if is_here else b, holds, value, elsewhere)

    def _can_hold(self, path: dict[Bit, int]) -> bool:
        """Return False if a path requires two values of one physical bit."""
        wires: dict[int, int] = {}
        there = [(self._copies.get(b, b[0]), k) for b, k in path.items() if b not in self._gone or b in self._copies]
        return all(wires.setdefault(wire, k) == k for wire, k in there)

    def _condition(self, token: Token) -> Condition | None:
        if not self.path:
            return None
        wires: dict[int, int] = {}
        for bit, value in self.path.items():
            if bit in self._gone and bit not in self._copies:
                self.lost[bit] = token
            wires[self._copies.get(bit, bit[0])] = value
        return Condition(tuple(wires), sum(v << k for k, v in enumerate(wires.values())))

    def _holds(self, wire: int) -> frozenset[Bit]:
        return self._held.get(wire) or frozenset([(wire, 0)])

    def _save(self, wire: int, token: Token) -> None:
        """Copy a bit before it is overwritten if its present value is needed later."""
        if needed := [bit for bit in self._holds(wire) if bit in self.saved and bit not in self._copies]:
            (copy,) = self.hide(1)
            outside, self.path = self.path, self._base
            self.store([copy], [self.bit(wire)], token)
            self.path = outside
            self._copies |= dict.fromkeys(needed, copy)

    def _write(self, wire: int) -> None:
        """Mark a bit as overwritten."""
        self._gone |= self._holds(wire)
        self._constants.pop(wire, None)
        self._new_version(wire)

    def _new_version(self, wire: int, versions: frozenset[Bit] = frozenset()) -> None:
        """Start a new version of a bit that stands for these versions on the paths that lead to them."""
        self._count[wire] = self._now[wire] = self._count.get(wire, 0) + 1
        self._held[wire] = versions | {(wire, self._now[wire])}

    def store(self, wires: Sequence[int], values: Sequence[Any], token: Token, was: int | None = None) -> None:
        """Assign values (0, 1 or cases of them) to classical bits; `was` is their present value, if known."""
        held = [self._holds(w) for w in wires]
        if any(_bits(value) & before for k, value in enumerate(values) for before in held[:k]):
            copies = self.hide(len(wires))
            self.store(copies, values, token)
            values = [self.bit(c) for c in copies]
        for wire, own, value in zip(wires, held, values, strict=True):
            known = self.path.get((wire, self._now.get(wire, 0)), was)
            new = [k if known == 1 - k else restrict(value, dict.fromkeys(own, k)) for k in (0, 1)]
            change = combine(token, lambda a, b: (int(a), int(b)), *new)
            self._save(wire, token)
            self.each(change, token, lambda leaf, wire=wire: self._set(wire, leaf, token))
            self._write(wire)
            if not self.path and change in ((0, 0), (1, 1)):
                self._constants[wire] = change[0]

    def _set(self, wire: int, change: tuple[int, int], token: Token) -> None:
        """Set a bit to the first value if it is 0, and to the second if it is 1."""
        if change != (0, 1):
            self._add(Instruction(ReadoutError(1 - change[1], change[0]), (), clbits=(wire,)), token)

    def trial(self, run: Callable[[], None]) -> list[int]:
        """Run `run`, undo it, and return the classical bits that it wrote."""
        before = {
            name: getattr(self, name) for name in ("num_qubits", "num_clbits", "_hidden", "instructions", "inputs")
        }
        kept = ("_count", "_now", "_held", "_gone", "_copies")
        before |= {name: getattr(self, name) for name in (*kept, "_constants")}
        self.instructions, self._constants = [], {}
        for name in kept:
            setattr(self, name, before[name].copy())
        try:
            run()
            return [
                w
                for w, version in self._now.items()
                if version != before["_now"].get(w, 0)
                and (w < before["num_clbits"] or _HIDDEN <= w < _HIDDEN + before["_hidden"])
            ]
        finally:
            for name, value in before.items():
                setattr(self, name, value)

    def loop(self, condition: Cases, body: Callable[[], Any], token: Token) -> None:
        """Repeat `body`, which returns the condition for the next time, while a condition on bits holds.

        A bit of its own holds the condition: it is 0 where the loop is not reached, so that all in the loop depends on
        it alone. A bit that is the whole condition takes its place where nothing follows its last change.
        """
        outside, base, bit, changed = self.path, self._base, condition.bit, list[int]()
        self.loops += 1
        own = not outside and condition[1:] == (False, True) and bit not in self.saved
        if own:
            self.path = self._base = {bit: 1}
            found = list[Any]()
            changed = self.trial(lambda: found.append((body(), self.bit(bit[0]), self.instructions)))
            again, now, made = found[0]
            # whether it is the whole condition in each round, and not measured under a condition on itself
            own = bit not in self.lost and again == combine(token, bool, now)
            own = own and not any(i.gate is MEASURE and bit[0] in i.clbits for i in made)
            self.path, self._base = outside, base
        wire = bit[0]
        if not own:
            (wire,) = self.hide(1)
            self.store([wire], [condition], token, was=0)
            self.path = self._base = {(wire, self._now[wire]): 1}
            changed = self.trial(body)
            self.path, self._base = outside, base
        for written in changed:
            self._save(written, token)
            self._write(written)
        self.path = self._base = {(wire, self._now.get(wire, 0)): 1}
        self.mark(LOOP, wire, token)
        again = body()
        if not own:
            self.store([wire], [again], token)
        self.mark(REPEAT, wire, token)
        self.path, self._base = outside, base
        self.loops -= 1

    def mark(self, operation: Operation, wire: int, token: Token) -> None:
        """Append the marker of the beginning or the end of a loop, on all qubits."""
        self.step(token)
        self.instructions.append(Instruction(operation, tuple(range(self.num_qubits)), clbits=(wire,)))

    def _add(self, instruction: Instruction, token: Token) -> None:
        self.step(token)
        self.instructions.append(instruction._replace(condition=self._condition(token)) if self.path else instruction)

    # -- instructions -------------------------------------------------------------------------------------------------

    def measure(self, qubit: int, clbit: int, token: Token) -> None:
        """A measurement."""
        self._save(clbit, token)
        self._add(Instruction(MEASURE, (qubit,), clbits=(clbit,)), token)
        self._write(clbit)

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


def nothing(builder: CircuitBuilder, scope: Scope) -> None:
    """Carry out a statement that adds nothing."""


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


def _bits(value: Any) -> set[Bit]:
    """Return the classical bits that a value depends on."""
    return {bit for bits, _ in leaves(value) for bit in bits}
