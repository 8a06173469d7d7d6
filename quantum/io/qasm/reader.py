"""OpenQASM 2 and 3 programs as circuits."""

from __future__ import annotations

import os
import pathlib
from typing import Any

from ...circuit import Circuit
from ...errors import QASMError
from ...gates.base import Gate
from .declarations import ASSIGNMENTS, Declarations, constants_of, joint
from .flow import End, Flow
from .lexer import Stream, Token, describe, fail
from .names import (
    ADDED,
    BUILT_IN,
    KEYWORDS,
    KEYWORDS_2,
    LIBRARIES,
    MODIFIERS,
    NOT_SUPPORTED,
    U_DEFINITION,
    known,
    unknown,
)
from .operands import angle, broadcast, modifier, qubits_of
from .plain import PlainGates
from .statements import PHASED, CircuitBuilder, Definition, Run, nothing
from .values import TYPES, Evaluate, number_of

__all__ = ["from_qasm"]

_NESTED = 100  # ifs and loops in each other
_INCLUDED = 200  # files: each may include others several times


def from_qasm(source: str | os.PathLike[str]) -> Circuit:
    """The circuit of an OpenQASM 2 or 3 program.

    Registers are numbered in the order of their declaration; gates that the program defines are replaced by what they
    are made of, and so are subroutines. Variables, arrays and loops of OpenQASM 3 are evaluated while the program is
    read. What measurements decide becomes conditions of instructions, and a `while` that they decide about a loop of
    the circuit, in which only bits can change. Bits that the program does not name, such as those that remember an
    earlier outcome, follow its own. Timing (`delay`, `box`, `duration`) changes nothing; pulses and `extern` functions
    are refused.

    The built-in `U`, `u2` and `u3` have the global phases that the specification gives them, which matter under
    controls; whole numbers have whole quotients, except in `pow`; variables without a value are 0; qubits are physical
    (`$0`) or in registers. Loops and definitions may make a million statements. Parameters (`input float`) come in the
    order of their declaration.

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
    saved: frozenset[Any] = frozenset()
    try:
        while True:  # once more where bits turned out to be needed after they have been written again
            builder = _Reader(text, folder, saved).read()
            if not (lost := builder.lost):
                return builder.circuit()
            if lost.keys() <= saved:
                fail("this depends on a bit that is measured again before", next(iter(lost.values())))
            saved |= lost.keys()
    except RecursionError:  # limits keep programs from it, but not where the caller has used up the stack
        raise QASMError("the program is nested too deeply for what is left of Python's stack", 1, 1) from None


class _Reader(Flow, Declarations):
    def __init__(self, text: str, folder: pathlib.Path | None, saved: frozenset[Any]):
        self._stream, self._folder = Stream(text), folder
        self._scope: dict[str, Any] = {}
        self._definitions: dict[str, Definition | tuple[int, Gate] | None] = {}
        self._builder = CircuitBuilder(words=len(text), saved=saved)
        self._including, self._included, self._depth, self._calls = 0, 0, 0, 0
        self._frames: list[Any] = []
        self._subroutines: set[str] = set()
        self._version = self._header(text)
        self._keywords = KEYWORDS if self._version == 3 else KEYWORDS_2
        for name, ours in BUILT_IN[self._version].items():
            self._definitions[name] = known(ours)
        if self._version == 3:
            self._definitions["U"] = PHASED["U"]

    def read(self) -> CircuitBuilder:
        """Run the program."""
        plain = PlainGates(self._definitions, self._scope, self._version)
        try:
            while True:
                plain.read(self._stream, self._builder)
                if self._stream.now.kind == "end":
                    break
                self._statement()(self._builder, self._scope)
        except End:
            pass
        return self._builder

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
        if token.text == "{" and self._version == 3:
            return self._block()
        if token.kind != "name":
            fail(f"a statement cannot begin with {describe(token)}", token)
        method = getattr(self, f"_read_{token.text}", None) if token.text in self._keywords else None
        if token.text in TYPES and token.text != "bit" and self._version == 3 and stream.peek().text != "(":
            method = self._read_const
        if method is not None:
            stream.take()
            return method(token)
        if token.text in NOT_SUPPORTED and token.text not in self._definitions:
            fail(f"{token.text!r} is not supported ({NOT_SUPPORTED[token.text]})", token)
        if token.text not in MODIFIERS and stream.peek().text in ASSIGNMENTS:
            return self._assignment()
        if token.text in self._subroutines:
            return self._call()
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
            inner = dict(scope) | {"": frozenset(scope)}
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
            return nothing
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
        return nothing

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
            return nothing
        if name.text == "u" and "".join(stream.since(start)) == U_DEFINITION.replace(" ", ""):
            self._definitions["u"] = known("u")  # as `to_qasm` writes it
            return nothing
        definition = Definition(name.text, tuple(t.text for t in params), tuple(t.text for t in qubits), body)
        self._definitions[name.text] = definition
        return nothing

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
        constants = {k: v for k, v in constants_of(self._scope) if isinstance(v, (int, float))}
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

        places = [place for place, _ in operands]

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            def apply(given: Any) -> None:
                """Apply the gate with known numbers to known qubits."""
                angles, powers, wires = given
                values = [angle(a, token) for a in angles]
                each = [modifier(m, v) for (m, _), v in zip(modifiers, powers, strict=True)]
                for some in broadcast(wires, places, token):
                    builder.gate(what, each, values, some, token)

            numbers = [[number_of(v(scope), token) for v in some] for some in (params, [v for _, v in modifiers])]
            given = [*numbers, [o(scope) for _, o in operands]]
            builder.each(joint(given, token), token, apply)

        return run

    def _lookup(self, token: Token) -> Definition | tuple[int, Gate] | None:
        if token.text in self._definitions:
            return self._definitions[token.text]
        fail(unknown(token.text, self._version, self._definitions), token)

    # -- measurement and flow -----------------------------------------------------------------------------------------

    def _read_reset(self, token: Token) -> Run:
        operands = self._operands("reset")
        self._end("reset")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            def reset(given: Any) -> None:
                """Reset known qubits."""
                for (place, _), value in zip(operands, given[0], strict=True):
                    for q in qubits_of(value, place).wires:
                        builder.reset(q, token)

            builder.each(joint([[operand(scope) for _, operand in operands]], token), token, reset)

        return run

    def _read_barrier(self, token: Token) -> Run:
        operands = self._operands("barrier") if self._stream.now.text != ";" else []
        self._end("barrier")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            wires = tuple(w for place, operand in operands for w in qubits_of(operand(scope), place).wires)
            builder.barrier(wires if operands else tuple(range(builder.num_qubits)), token)

        return run
