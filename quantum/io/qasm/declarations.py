"""Declarations of OpenQASM 3, assignments to what they declare, and measurements, which assign to bits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...parameters import Parameter
from . import expressions
from .cases import Angle, Cases, Word, combine
from .expressions import RULES, Index
from .lexer import Token, describe, fail
from .operands import qubits_of
from .phrases import Phrases
from .statements import CircuitBuilder, Run
from .values import (
    CONSTANTS,
    TYPES,
    Bits,
    Evaluate,
    Qubits,
    Scope,
    Variable,
    binary,
    converted,
    number_of,
    part,
    positions,
)

__all__ = ["ASSIGNMENTS", "Declarations", "constants_of", "joint"]

_COMPOUND = ("+=", "-=", "*=", "/=", "%=", "**=", "&=", "|=", "^=", "<<=", ">>=")
ASSIGNMENTS = ("=", "[", *_COMPOUND)  # what may stand behind a name that is assigned to


def constants_of(scope: Scope) -> Iterator[tuple[str, Any]]:
    """Yield the names that a definition can read from the enclosing scope, with their values."""
    for name, value in scope.items():
        if name and not isinstance(value, (Qubits, Bits)):
            yield name, value.value if type(value) is Variable else value


def joint(groups: Sequence[Sequence[Any]], token: Token) -> Any:
    """Return groups of values, or one set of cases for all of them."""
    flat = [x for group in groups for x in group]
    if not any(type(x) is Cases for x in flat):
        return groups

    def regroup(*values: Any) -> list[list[Any]]:
        """Rebuild the groups for one case."""
        rest = iter(values)
        return [[next(rest) for _ in group] for group in groups]

    return combine(token, regroup, *flat)


class Declarations(Phrases):
    """Parser of declarations, assignments and measurements."""

    def _new(self, token: Token, scope: dict[str, Any]) -> None:
        """Fail if a name is already declared in this block; a block may shadow names of enclosing blocks."""
        outside = scope.get("", ())
        if token.text in scope and token.text not in outside:
            fail(f"{token.text!r} is already declared", token)
        constants = CONSTANTS if self._version == 3 else ("pi",)
        if token.text in self._keywords or token.text in constants or token.text.startswith("$"):
            fail(f"{token.text!r} is a reserved word and cannot be a name", token)
        if token.text in outside:
            scope[""] = outside - {token.text}

    def _declare(self, name: Token, size: Evaluate | None, place: Token, kind: type) -> Run:
        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            n = 1 if size is None else expressions.integer(size, scope, place)
            if n < 1:
                fail(f"{name.text}: a register has at least 1 element, got {n}", place)
            self._new(name, scope)
            if kind is Bits:
                scope[name.text] = Bits(builder.declare(name, clbits=n), size is None, builder)
                return
            if builder.is_physical:
                fail(
                    f"{name.text!r} is a register, and physical qubits are used (a program has one kind of qubits)",
                    name,
                )
            scope[name.text] = Qubits(builder.declare(name, qubits=n), size is None)

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
        assign = self._assigned((name, []), "=")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            declare(builder, scope)
            assign(builder, scope)

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
        kind = self._stream.take() if token.text == "const" else token
        if kind.text not in TYPES:
            fail(f"a type ({', '.join(TYPES)}) is missing before {describe(kind)}", kind)
        return self._variable(kind, self._size(kind.text)[0], [], token.text == "const")

    def _read_array(self, token: Token) -> Run:
        self._stream.expect("[", token.text)
        kind = self._stream.take()
        if kind.text not in TYPES:
            fail(f"array: a type ({', '.join(TYPES)}) is missing before {describe(kind)}", kind)
        width, _ = self._size(kind.text)
        sizes = []
        while self._stream.accept(","):
            sizes.append(self._expression())
        self._stream.expect("]", "array")
        return self._variable(kind, width, sizes, False)

    def _variable(self, kind: Token, width: Evaluate | None, sizes: list[Evaluate], fixed: bool) -> Run:
        """Parse the declaration of a number or array, a constant if `fixed`."""
        name = self._stream.name(kind.text)
        value = self._value() if self._stream.accept("=") else None
        self._end(f"{kind.text} {name.text}")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            given = 0 if value is None else value(scope)
            self._new(name, scope)
            bits = expressions.size(width, scope, kind)
            shape = [expressions.integer(s, scope, name) for s in sizes]
            if value is None:
                for n in reversed(shape):
                    given = (given,) * n
            found = Variable(kind, bits, None, builder, tuple(shape), builder.loops)
            found.value = _held(given, found, found.shape, name)
            scope[name.text] = found.value if fixed else found

        return run

    def _read_let(self, token: Token) -> Run:
        name = self._stream.name("let")
        self._stream.expect("=", "let")
        parts = [(self._stream.now, self._expression())]
        while self._stream.accept("++"):
            parts.append((self._stream.now, self._expression()))
        self._end("let")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            values = [value(scope) for _, value in parts]
            self._new(name, scope)
            for (place, _), value in zip(parts, values, strict=True):
                if not isinstance(value, (Qubits, Bits)) or type(value) is not type(values[0]):
                    fail("let: only qubits or bits can get another name", place)
            wires = tuple(w for v in values for w in v.wires)
            if len(set(wires)) != len(wires):
                fail(f"let: {name.text!r} contains a qubit or bit twice", name)
            one = len(values) == 1 and values[0].one
            scope[name.text] = Qubits(wires, one) if isinstance(values[0], Qubits) else Bits(wires, one, builder)

        return run

    # -- assignments --------------------------------------------------------------------------------------------------

    def _value(self) -> Evaluate:
        """Parse the right-hand side of an assignment: an expression, an array literal or a measurement."""
        stream = self._stream
        if stream.accept("measure"):
            place, operand = self._operand("measure")

            def measure(scope: Scope) -> Bits:
                """Measure into new bits."""
                source = qubits_of(operand(scope), place)
                bits = self._builder.hide(len(source.wires))
                for q, c in zip(source.wires, bits, strict=True):
                    self._builder.measure(q, c, place)
                return Bits(bits, source.one, self._builder)

            return measure
        if not stream.accept("{"):
            return self._expression()
        elements = []
        while not stream.accept("}"):
            elements.append(self._value())
            if stream.now.text != "}":
                stream.expect(",", "array")
        return lambda scope: tuple(e(scope) for e in elements)

    def _place(self) -> tuple[Token, list[Index]]:
        """Parse the left-hand side of an assignment: a name with indices."""
        name, indices = self._stream.name("assignment"), list[Index]()
        while self._stream.accept("["):
            indices += expressions.read_index(self._stream, RULES[self._version])
        return name, indices

    def _assignment(self) -> Run:
        place = self._place()
        sign = self._stream.accept("=", *_COMPOUND)
        if sign is None:
            fail(f"assignment: '=' is missing before {describe(self._stream.now)}", self._stream.now)
        return self._assigned(place, sign.text, sign)

    def _assigned(self, place: tuple[Token, list[Index]], symbol: str, sign: Token | None = None) -> Run:
        """Parse an assignment after its operator."""
        if symbol == "=" and self._stream.accept("measure"):
            operand = self._operand("measure")
            self._end("measure")
            return self._measured(operand, place)
        value = self._value()
        self._end("assignment")
        change = binary(sign._replace(text=symbol[:-1]), "**", True) if sign and symbol != "=" else None
        name, indices = place

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            new = value(scope)
            if change is not None:
                new = change(_element(expressions.lookup(name, scope), indices, scope, name), new)
            _assign(builder, scope, place, new)

        return run

    def _read_measure(self, token: Token) -> Run:
        operand = self._operand("measure")
        if self._version == 3 and self._stream.accept(";"):
            return self._measured(operand, None)
        if not self._stream.accept("->"):
            fail(f"measure: '->' and a bit are missing before {describe(self._stream.now)}", self._stream.now)
        place = self._place()
        self._end("measure")
        return self._measured(operand, place)

    def _measured(self, operand: tuple[Token, Evaluate], place: tuple[Token, list[Index]] | None) -> Run:
        """Return the statement that measures into bits, or into new bits that a variable is then assigned from."""

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            def measure(given: Any) -> None:
                """Measure known qubits into known bits."""
                ((source,), indices) = given
                source, target = qubits_of(source, operand[0]), None
                if place is not None:
                    target = expressions.lookup(place[0], scope)
                    if isinstance(target, Bits):
                        for index in indices:
                            target = part(target, index, place[0])
                    elif not isinstance(scope.get(place[0].text), Variable):
                        fail("measure: the result must be assigned to a bit or a register of bits", place[0])
                bits = target.wires if isinstance(target, Bits) else builder.hide(len(source.wires))
                if len(bits) != len(source.wires):
                    fail(
                        f"measure: the numbers of bits and qubits must be equal, got {len(bits)} and "
                        f"{len(source.wires)}",
                        place[0] if place else operand[0],
                    )
                for q, c in zip(source.wires, bits, strict=True):
                    builder.measure(q, c, operand[0])
                if place is not None and not isinstance(target, Bits):
                    _assign(builder, scope, place, Bits(bits, source.one, builder))

            where = [] if place is None else [index(scope) for index in place[1]]
            builder.each(joint([[operand[1](scope)], where], operand[0]), operand[0], measure)

        return run


def _element(value: Any, indices: Sequence[Index], scope: Scope, token: Token) -> Any:
    for index in indices:
        value = combine(token, lambda v, i: part(v, i, token), value, index(scope))
    return value


def _held(value: Any, of: Variable, shape: tuple[int, ...], token: Token) -> Any:
    """Convert a value to the type of a variable or of its elements."""
    if not shape:
        if type(value) is tuple:
            fail(f"{token.text!r}: a number is needed, got an array", token)
        return combine(token, lambda x: converted(x, of.kind, of.width), number_of(value, token))
    if type(value) is Cases:
        return combine(token, lambda x: _held(x, of, shape, token), value)
    if type(value) is not tuple or len(value) != shape[0]:
        got = len(value) if type(value) is tuple else "a number"
        fail(f"{token.text!r}: {shape[0]} elements are needed, got {got}", token)
    return tuple(_held(v, of, shape[1:], token) for v in value)


def _assign(builder: CircuitBuilder, scope: dict[str, Any], place: tuple[Token, list[Index]], value: Any) -> None:
    """Assign a value to bits, to a variable, or to a part of one."""
    name, indices = place
    target = scope.get(name.text)
    where = [index(scope) for index in indices]
    if isinstance(target, Bits):

        def store(given: Any) -> None:
            """Store the value in known bits."""
            bits: Any = target
            for index in given[0]:
                bits = part(bits, index, name)
            builder.store(bits.wires, _digits(value, len(bits.wires), name), name)

        builder.each(joint([where], name), name, store)
        return
    if not isinstance(target, Variable):
        expressions.lookup(name, scope)
        fail(f"{name.text!r} is a constant and cannot be assigned to", name)
    if target.loops < builder.loops:
        fail(
            f"{name.text!r} cannot be assigned to in a loop that measurements decide about: only bits can (declare it "
            f"as bit or bit[n])",
            name,
        )
    if where:
        value = combine(
            name, lambda old, new, *at: _with(old, new, at, target, target.shape, name), target.value,
            value if type(value) is tuple else number_of(value, name), *where,
        )  # fmt: skip
    else:
        value = _held(value, target, target.shape, name)
    target.value = builder.here(value, target.value, name)


def _digits(value: Any, size: int, token: Token) -> list[Any]:
    """Return the digits of a value that is assigned to `size` bits."""
    if isinstance(value, Bits):
        if len(value.wires) != size:
            fail(f"{token.text!r}: {size} bits are needed, got {len(value.wires)}", token)
        return [value.memory.bit(w) for w in value.wires]

    def digit(k: int, x: Any) -> Word:
        """Return one bit of a number."""
        wrong = x.width != size if isinstance(x, (Word, Angle)) else not isinstance(x, int) or not 0 <= x < 1 << size
        if wrong:
            got = f"{x.width}" if isinstance(x, (Word, Angle)) else repr(x)
            fail(f"{token.text!r}: {size} bits are needed, got {got}", token)
        return Word(int(x) >> k, 1)

    return [combine(token, lambda x, k=k: digit(k, x), value) for k in range(size)]


def _with(old: Any, new: Any, at: Sequence[Any], of: Variable, shape: tuple[int, ...], token: Token) -> Any:
    """Return `old` with elements, or bits, replaced at an index."""
    if not at:
        return _held(new, of, shape, token)
    index, *rest = at
    one = not isinstance(index, (tuple, list))
    if type(old) is tuple:
        elements = list(old)
        chosen = positions(index, len(elements), token)
        if not one and (type(new) is not tuple or len(new) != len(chosen)):
            fail(f"{token.text!r}: {len(chosen)} elements are needed", token)
        for k, j in enumerate(chosen):
            elements[j] = _with(elements[j], new if one else new[k], rest, of, shape[1:], token)
        return tuple(elements)
    if rest or not isinstance(old, (Word, Angle)):
        fail(f"{token.text!r} is not a register and cannot be indexed", token)
    bits, chosen = int(old), positions(index, old.width, token)
    for j, digit in zip(chosen, _digits(new, len(chosen), token), strict=True):
        bits = bits & ~(1 << j) | int(digit) << j
    return old.like(bits)
