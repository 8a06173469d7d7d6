"""OpenQASM 2 and 3 programs as circuits."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from ...circuit import Circuit
from ...errors import QASMError
from ...gates.base import Gate
from ...parameters import Parameter
from . import expressions
from .expressions import Bits, Evaluate, Qubits, Scope, Test
from .lexer import Stream, Token, describe, fail
from .names import (
    ADDED,
    BUILT_IN,
    KEYWORDS,
    KEYWORDS_2,
    LIBRARIES,
    MODIFIERS,
    NOT_SUPPORTED,
    TYPES,
    U_DEFINITION,
    known,
    unknown,
)
from .operands import angle, broadcast, converted, modifier, qubits_of
from .phrases import Phrases
from .plain import PlainGates
from .statements import PHASED, CircuitBuilder, Definition, Run

__all__ = ["from_qasm"]

_NESTED = 100  # ifs and loops in each other
_INCLUDED = 200  # files: each may include others several times


def from_qasm(source: str | os.PathLike[str]) -> Circuit:
    """The circuit of an OpenQASM 2 or 3 program.

    Registers are numbered in the order of their declaration; gates that the program defines are replaced by what they
    are made of. Of OpenQASM 3 it reads what circuits need: qubits and bits, gates with modifiers, `input float`
    parameters, constants, measurement, reset, `if`, and `for` over known ranges. Its `U`, `u2` and `u3` have the global
    phases that its specification gives them, which matter under controls; whole numbers have whole quotients, except in
    `pow`; qubits are physical (`$0`) or in registers. Loops and definitions may make a million
    statements. Parameters come in the order of their declaration.

    Parameters
    ----------
    source : str or path
        The program, or where it is: a string without line breaks and semicolons is a path.

    Raises
    ------
    QASMError
        With the line and column of what cannot be read.
    FileNotFoundError
        If the file does not exist.

    References
    ----------
    A. W. Cross, L. S. Bishop, J. A. Smolin and J. M. Gambetta, arXiv:1707.03429 (OpenQASM 2); A. W. Cross et al., ACM
    Trans. Quantum Comput. 3, 12 (2022) (OpenQASM 3).

    Examples
    --------
    >>> from triskele.quantum.io import from_qasm
    >>> from_qasm('OPENQASM 2.0; include "qelib1.inc"; qreg q[2]; h q[0]; cx q[0], q[1];').counts()
    {'h': 1, 'cx': 1}
    """
    if isinstance(source, str) and ("\n" in source or ";" in source or "OPENQASM" in source or not source.strip()):
        text, folder = source, None
    else:
        path = pathlib.Path(source)
        text, folder = path.read_text(encoding="utf-8", errors="replace"), path.parent
    try:
        return _Reader(text, folder).circuit()
    except RecursionError:  # limits keep programs from it, but not where the caller has used up the stack
        raise QASMError("the program is nested too deeply for what is left of Python's stack", 1, 1) from None


class _Reader(Phrases):
    def __init__(self, text: str, folder: pathlib.Path | None):
        self._stream, self._folder = Stream(text), folder
        self._scope: dict[str, Any] = {}
        self._definitions: dict[str, Definition | tuple[int, Gate] | None] = {}
        self._builder = CircuitBuilder(words=len(text))
        self._including, self._included, self._depth = 0, 0, 0
        self._version = self._header(text)
        self._keywords = KEYWORDS if self._version == 3 else KEYWORDS_2
        for name, ours in BUILT_IN[self._version].items():
            self._definitions[name] = known(ours)
        if self._version == 3:
            self._definitions["U"] = PHASED["U"]

    def circuit(self) -> Circuit:
        plain = PlainGates(self._definitions, self._scope, self._version)
        while True:
            plain.read(self._stream, self._builder)
            if self._stream.now.kind == "end":
                return self._builder.circuit()
            self._statement()(self._builder, self._scope)

    def _header(self, text: str) -> int:
        stream = self._stream
        if not stream.accept("OPENQASM"):
            return 3 if "qubit" in text or "stdgates.inc" in text else 2
        token = stream.take()
        if token.kind not in ("integer", "real") or token.text.split(".")[0] not in ("2", "3"):
            fail(f"OPENQASM must be followed by version 2.0 or 3.0, got {describe(token)}", token)
        stream.expect(";", "OPENQASM")
        return int(token.text.split(".")[0])

    # -- statements: each is read and gives a function that carries it out --------------------------------------------

    def _statement(self) -> Run:
        stream, token = self._stream, self._stream.now
        while stream.accept("@"):  # an annotation, which lasts to the end of its line, changes nothing
            while stream.now.line == token.line and stream.now.kind != "end":
                stream.take()
            token = stream.now
        if token.kind != "name":
            fail(f"a statement cannot begin with {describe(token)}", token)
        method = getattr(self, f"_read_{token.text}", None) if token.text in self._keywords else None
        if token.text in TYPES and self._version == 3 and stream.peek().text != "(":
            method = self._read_const
        if method is not None:
            stream.take()
            return method(token)
        if token.text in NOT_SUPPORTED and token.text not in self._definitions:
            fail(f"{token.text!r} is not supported ({NOT_SUPPORTED[token.text]})", token)
        if token.text not in MODIFIERS and stream.peek().text in ("=", "["):
            return self._assignment()
        return self._gate_call()

    def _block(self) -> Run:
        stream, token = self._stream, self._stream.now
        self._depth += 1
        if self._depth > _NESTED:
            fail("blocks are nested too deeply", token)
        body = []
        if stream.accept("{"):
            while not stream.accept("}"):
                if stream.now.kind == "end":
                    fail(f"the block that begins in line {token.line} is not closed ('}}' is missing)", stream.now)
                body.append(self._statement())
        else:
            body.append(self._statement())
        self._depth -= 1

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            inner = dict(scope)
            for statement in body:
                statement(builder, inner)

        return run

    def _read_include(self, token: Token) -> Run:
        name = self._stream.take()
        if name.kind != "string":
            fail(f"include: a file name in quotation marks is missing before {describe(name)}", name)
        self._end("include")
        file = name.text[1:-1]
        if file in LIBRARIES:
            for gate, ours in LIBRARIES[file].items():
                if isinstance(found := self._definitions.get(gate), Definition) and found is not PHASED.get(gate):
                    self._check_free(gate, name)
                phased = PHASED.get(gate) if file == "stdgates.inc" else None
                self._definitions.setdefault(gate, None if ours == "u0" else phased or known(ours or gate))
            return _nothing
        path = None if self._folder is None else self._folder / file
        if path is None or not path.is_file():
            fail(
                f"include: file {file!r} not found (known: {', '.join(LIBRARIES)}; other files must lie next to a "
                f"program that is read from its path)",
                name,
            )
        self._including, self._included = self._including + 1, self._included + 1
        if self._including > 20:
            fail(f"include: {file!r} includes itself", name)
        if self._included > _INCLUDED:
            fail(f"include: a program may include {_INCLUDED} files", name)
        outside, self._stream = self._stream, Stream(path.read_text(encoding="utf-8", errors="replace"))
        while self._stream.now.kind != "end":
            self._statement()(self._builder, self._scope)
        self._stream = outside
        self._including -= 1
        return _nothing

    def _new(self, token: Token, scope: Scope) -> None:
        if token.text in scope:
            fail(f"{token.text!r} is already declared", token)
        constants = expressions.CONSTANTS if self._version == 3 else ("pi",)
        if token.text in self._keywords or token.text in constants or token.text.startswith("$"):
            fail(f"{token.text!r} is a reserved word and cannot be a name", token)

    def _declare(self, name: Token, size: Evaluate | None, place: Token, kind: type) -> Run:
        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            n = 1 if size is None else expressions.integer(size, scope, place)
            if n < 1:
                fail(f"{name.text}: a register has at least 1 element, got {n}", place)
            self._new(name, scope)
            if kind is Qubits and builder.is_physical:
                fail(
                    f"{name.text!r} is a register, and physical qubits are used (a program has one kind of qubits)",
                    name,
                )
            wires = builder.declare(name, qubits=n) if kind is Qubits else builder.declare(name, clbits=n)
            scope[name.text] = kind(wires, size is None)

        return run

    def _read_qreg(self, token: Token) -> Run:
        name = self._stream.name(token.text)
        size, place = self._size(token.text)
        if size is None and self._version == 2:
            fail(f"{token.text}: a size such as {name.text}[2] is missing before {describe(place)}", place)
        self._end(token.text)
        return self._declare(name, size, place, Qubits if token.text == "qreg" else Bits)

    _read_creg = _read_qreg

    def _read_qubit(self, token: Token) -> Run:
        size, place = self._size("qubit")
        name = self._stream.name("qubit")
        self._end("qubit")
        return self._declare(name, size, place, Qubits)

    def _read_bit(self, token: Token) -> Run:
        size, place = self._size("bit")
        name = self._stream.name("bit")
        declare = self._declare(name, size, place, Bits)
        if not self._stream.accept("="):
            self._end("bit")
            return declare
        self._stream.expect("measure", "bit (a bit's first value can only be a measurement)")
        measure = self._measure(lambda scope: scope[name.text], name)

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            declare(builder, scope)
            measure(builder, scope)

        return run

    def _read_input(self, token: Token) -> Run:
        kind = self._stream.name("input")
        if kind.text not in ("float", "angle"):
            fail(f"input: parameters are float or angle, got {describe(kind)}", kind)
        self._size("input")
        name = self._stream.name("input")
        self._end("input")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            self._new(name, scope)
            scope[name.text] = Parameter(name.text)
            builder.inputs.append(name.text)

        return run

    def _read_output(self, token: Token) -> Run:
        kind = self._stream.expect("bit", "output (bits are all that can be put out)")
        return self._read_bit(kind)

    def _read_const(self, token: Token) -> Run:
        stream = self._stream
        kind = token
        if stream.accept("const") or token.text == "const":
            kind = stream.take()
        elif token.text in TYPES:
            stream.accept(token.text)
        if kind.text not in TYPES:
            fail(f"a type ({', '.join(TYPES)}) is missing before {describe(kind)}", kind)
        self._size(kind.text)
        name = stream.name(kind.text)
        value: Evaluate | None = None
        if stream.accept("="):
            value = self._expression()
        self._end(f"{kind.text} {name.text}")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            self._new(name, scope)
            if value is not None:
                scope[name.text] = converted(value(scope), kind)

        return run

    def _read_let(self, token: Token) -> Run:
        name = self._stream.name("let")
        self._stream.expect("=", "let")
        parts = [(self._stream.now, self._expression())]
        while self._stream.accept("++"):
            parts.append((self._stream.now, self._expression()))
        self._end("let")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            self._new(name, scope)
            values = [value(scope) for _, value in parts]
            for (place, _), value in zip(parts, values, strict=True):
                if not isinstance(value, (Qubits, Bits)) or type(value) is not type(values[0]):
                    fail("let: only qubits or bits can get another name", place)
            wires = tuple(w for v in values for w in v.wires)
            if len(set(wires)) != len(wires):
                fail(f"let: {name.text!r} contains a qubit or bit twice", name)
            scope[name.text] = type(values[0])(wires, len(values) == 1 and values[0].one)

        return run

    # -- gates --------------------------------------------------------------------------------------------------------

    def _read_gate(self, token: Token) -> Run:
        stream, start = self._stream, self._stream.place
        name = stream.name(token.text)
        if self._depth:
            fail("gates must be defined outside of blocks", token)
        if name.text in self._keywords:
            fail(f"{name.text!r} is a reserved word and cannot be a name", name)
        self._check_free(name.text, name)
        params, qubits = [], []
        if stream.accept("(") and not stream.accept(")"):
            params = self._names(f"{token.text} {name.text}")
            stream.expect(")", f"{token.text} {name.text}")
        if stream.now.kind == "name":
            qubits = self._names(f"{token.text} {name.text}")
        if repeated := [t for i, t in enumerate(params + qubits) if t.text in {s.text for s in (params + qubits)[:i]}]:
            fail(f"{token.text} {name.text}: {repeated[0].text!r} occurs twice", repeated[0])
        body: Run | None = None
        if token.text == "gate":
            if stream.now.text != "{":
                fail(f"gate {name.text}: '{{' is missing before {describe(stream.now)}", stream.now)
            self._check_body()
            body = self._in_scope(self._block())
        else:
            self._end("opaque")
        if body is None and name.text == "delay":  # as Qiskit writes it: it waits
            self._definitions["delay"] = None
            return _nothing
        if name.text == "u" and "".join(stream.since(start)) == U_DEFINITION.replace(" ", ""):
            self._definitions["u"] = known("u")  # as `to_qasm` writes it
            return _nothing
        definition = Definition(name.text, tuple(t.text for t in params), tuple(t.text for t in qubits), body)
        self._definitions[name.text] = definition
        return _nothing

    _read_opaque = _read_gate

    def _check_free(self, gate: str, token: Token) -> None:
        """Fail where OpenQASM 3 has a gate of that name already; version 2's programs may replace those of its file."""
        found = self._definitions.get(gate)
        added = gate in ADDED and not isinstance(found, Definition)
        if self._version == 3 and found is not None and not added:
            fail(f"gate {gate!r} is defined already", token)

    def _check_body(self) -> None:
        """Bodies of gates have nothing but gates; found out before they are read."""
        ahead, depth = 0, 0
        while (token := self._stream.peek(ahead)).kind != "end":
            depth += (token.text == "{") - (token.text == "}")
            if depth == 0:
                return
            if (
                token.text
                in (
                    "measure",
                    "reset",
                    "if",
                    "include",
                    "qubit",
                    "bit",
                    "qreg",
                    "creg",
                    "input",
                    "gate",
                    "opaque",
                    "let",
                )
                and token.kind == "name"
            ):
                fail(f"{token.text!r} cannot be in the body of a gate", token)
            ahead += 1

    def _in_scope(self, body: Run) -> Run:
        """The body of a gate, which sees the constants that are declared now."""
        constants = {k: v for k, v in self._scope.items() if isinstance(v, (int, float))}
        return lambda builder, scope: body(builder, constants | scope)

    def _gate_call(self) -> Run:
        stream = self._stream
        modifiers = self._modifiers() if self._version == 3 else []
        token = stream.name("gate")
        what = self._lookup(token)
        params: list[Evaluate] = []
        if stream.accept("(") and not stream.accept(")"):
            params.append(self._expression())
            while stream.accept(","):
                params.append(self._expression())
            stream.expect(")", token.text)
        operands = self._operands(token.text) if stream.now.text != ";" else []
        self._end(token.text)

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            values = [angle(p(scope), token) for p in params]
            each = [modifier(m, v, scope) for m, v in modifiers]
            for wires in broadcast(operands, scope, token):
                builder.gate(what, each, values, wires, token)

        return run

    def _lookup(self, token: Token) -> Definition | tuple[int, Gate] | None:
        if token.text in self._definitions:
            return self._definitions[token.text]
        fail(unknown(token.text, self._version, self._definitions), token)

    # -- measurement and flow -----------------------------------------------------------------------------------------

    def _read_measure(self, token: Token) -> Run:
        operand = self._operand("measure")
        if not self._stream.accept("->"):
            fail(f"measure: '->' and a bit are missing before {describe(self._stream.now)}", self._stream.now)
        place = self._stream.now
        bits = self._expression()
        self._end("measure")
        return self._measured(operand, bits, place)

    def _assignment(self) -> Run:
        place = self._stream.now
        bits = self._expression()
        self._stream.expect("=", "assignment")
        if not self._stream.accept("measure"):
            fail("only measurements can be assigned (variables keep their declared value)", place)
        return self._measure(bits, place)

    def _measure(self, bits: Evaluate, place: Token) -> Run:
        operand = self._operand("measure")
        self._end("measure")
        return self._measured(operand, bits, place)

    def _measured(self, operand: tuple[Token, Evaluate], bits: Evaluate, place: Token) -> Run:
        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            sources, target = qubits_of(operand, scope), bits(scope)
            if not isinstance(target, Bits):
                fail("measure: the result must be assigned to a bit or a register of bits", place)
            if len(target.wires) != len(sources.wires):
                fail(
                    f"measure: the numbers of bits and qubits must be equal, got {len(target.wires)} and "
                    f"{len(sources.wires)}",
                    place,
                )
            for q, c in zip(sources.wires, target.wires, strict=True):
                builder.measure(q, c, operand[0])

        return run

    def _read_reset(self, token: Token) -> Run:
        operands = self._operands("reset")
        self._end("reset")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            for operand in operands:
                for q in qubits_of(operand, scope).wires:
                    builder.reset(q, token)

        return run

    def _read_barrier(self, token: Token) -> Run:
        operands = self._operands("barrier") if self._stream.now.text != ";" else []
        self._end("barrier")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            wires = tuple(w for operand in operands for w in qubits_of(operand, scope).wires)
            builder.barrier(wires if operands else tuple(range(builder.num_qubits)), token)

        return run

    def _read_if(self, token: Token) -> Run:
        stream = self._stream
        stream.expect("(", "if")
        condition = self._expression()
        stream.expect(")", "if")
        then = self._block()
        otherwise = self._block() if self._version == 3 and stream.accept("else") else None

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            value = condition(scope)
            if isinstance(value, Bits) and value.one:
                value = Test(((value.wires[0], 1),))
            if isinstance(value, bool):
                if value:
                    then(builder, scope)
                elif otherwise:
                    otherwise(builder, scope)
                return
            if not isinstance(value, Test):
                fail("if: a condition on bits is needed, such as c == 1", token)
            holds = builder.branch(value.bits, token, lambda: then(builder, scope))
            if otherwise is not None:
                if len(value.bits) != 1 or not holds:
                    fail("else: the condition must be on a single bit that the if does not measure", token)
                bit, wanted = value.bits[0]
                builder.branch([(bit, 1 - wanted)], token, lambda: otherwise(builder, scope))

        return run

    def _read_for(self, token: Token) -> Run:
        stream = self._stream
        if stream.accept(*TYPES):
            self._size("for")
        name = stream.name("for")
        stream.expect("in", "for")
        bracket = stream.now
        if not stream.accept("[", "{"):
            fail(f"for: a range [start:end] or a set {{1, 2}} is missing before {describe(bracket)}", bracket)
        parts = [self._expression()]
        while stream.accept(":" if bracket.text == "[" else ","):
            parts.append(self._expression())
        stream.expect("]" if bracket.text == "[" else "}", "for")
        if bracket.text == "[" and not 2 <= len(parts) <= 3:
            fail("for: a range is [start:end] or [start:step:end]", bracket)
        body = self._block()

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            self._new(name, {})
            numbers = [expressions.integer(p, scope, bracket) for p in parts]
            for value in expressions.inclusive(numbers, None, bracket) if bracket.text == "[" else numbers:
                builder.step(token)
                body(builder, {**scope, name.text: value})

        return run


def _nothing(builder: CircuitBuilder, scope: Scope) -> None:
    """Carry out a statement that adds nothing."""
