"""Flow of OpenQASM programs: branches, loops and subroutines.

What is known while a program is read is carried out then. Branches that measurements decide about become conditions of
instructions; loops that they decide about stay loops.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import expressions
from .cases import combine, restrict
from .declarations import constants_of
from .lexer import Token, describe, fail
from .phrases import Phrases
from .statements import CircuitBuilder, Run, nothing
from .values import (
    TYPES,
    Bits,
    Evaluate,
    Qubits,
    Scope,
    Subroutine,
    Variable,
    converted,
    inclusive,
    number_of,
    truth,
)

__all__ = ["End", "Flow"]

_CALLS = 40  # subroutines in each other: each takes some ten frames of Python's stack


class End(Exception):
    """Raised by the statement `end`."""


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    def __init__(self, value: Any):
        super().__init__()
        self.value = value


class Flow(Phrases):
    """Parser of branches, loops and subroutines."""

    _depth: int
    _definitions: dict[str, Any]
    _subroutines: set[str]
    _frames: list[dict[Any, int] | None]  # under which condition each loop and subroutine around this was entered
    _calls: int
    _block: Callable[[], Run]
    _value: Callable[[], Evaluate]
    _new: Callable[[Token, dict[str, Any]], None]

    def _read_if(self, token: Token) -> Run:
        stream = self._stream
        condition = self._in_parentheses("if")
        then = self._block()
        otherwise = self._block() if self._version == 3 and stream.accept("else") else nothing

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            holds = truth(condition(scope), token)
            for value, body in ((True, then), (False, otherwise)):
                builder.each(holds, token, lambda leaf, value=value, body=body: leaf == value and body(builder, scope))

        return run

    def _read_switch(self, token: Token) -> Run:
        stream = self._stream
        what = self._in_parentheses("switch")
        stream.expect("{", "switch")
        labels: list[tuple[Token, Evaluate, int]] = []
        blocks: list[Run] = []
        default: Run = nothing
        while not stream.accept("}"):
            if stream.accept("default"):
                default = self._block()
                continue
            case = stream.expect("case", "switch")
            labels.append((case, self._expression(), len(blocks)))
            while stream.accept(","):
                labels.append((case, self._expression(), len(blocks)))
            blocks.append(self._block())

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            numbers: dict[int, int] = {}
            for place, label, block in labels:
                number = int(expressions.integer(label, scope, place))
                if numbers.setdefault(number, block) != block:
                    fail(f"switch: the case {number} occurs twice", place)
            chosen = combine(token, lambda x: numbers.get(int(_whole(x, token)), -1), number_of(what(scope), token))
            builder.each(chosen, token, lambda leaf: ([*blocks, default][leaf])(builder, scope))

        return run

    # -- loops --------------------------------------------------------------------------------------------------------

    def _read_for(self, token: Token) -> Run:
        stream = self._stream
        kind = stream.accept(*TYPES) or token
        width = self._size("for")[0] if kind is not token else None
        name = stream.name("for")
        stream.expect("in", "for")
        values = self._set()
        body = self._block()

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            self._new(name, dict(scope) | {"": frozenset(scope)})
            bits = expressions.size(width, scope, token)
            word = kind._replace(text="int") if kind is token else kind

            def loop(given: Any) -> None:
                """Run the loop over known values."""
                for value in given:
                    builder.step(token)
                    if kind is not token and isinstance(value, (int, float)):
                        value = converted(value, kind, bits)
                    if not isinstance(value, Bits):
                        value = Variable(word, bits, value, builder, (), builder.loops)
                    if self._ends(builder, body, dict(scope) | {name.text: value}):
                        return

            builder.each(values(scope), token, loop)

        return run

    def _set(self) -> Evaluate:
        """Parse the values of a loop: a range, a set, or the elements of a register or array."""
        stream, place = self._stream, self._stream.now
        if not stream.accept("["):
            value = self._value() if place.text == "{" else self._expression()

            def elements(scope: Scope) -> Any:
                """Return the elements as a list."""
                found = value(scope)
                if isinstance(found, Bits):
                    return [Bits((w,), True, found.memory) for w in found.wires]
                if type(found) is not tuple:
                    fail("for: a range [start:end], a set {1, 2}, an array or a register of bits is needed", place)
                return combine(place, lambda *x: list(x), *(number_of(x, place) for x in found))

            return elements
        parts = [self._expression()]
        while stream.accept(":"):
            parts.append(self._expression())
        stream.expect("]", "for")
        if not 2 <= len(parts) <= 3:
            fail("for: a range is [start:end] or [start:step:end]", place)

        def numbers(scope: Scope) -> Any:
            """Evaluate the range."""
            ends = [number_of(p(scope), place) for p in parts]
            return combine(place, lambda *x: inclusive([_whole(v, place) for v in x], None, place), *ends)

        return numbers

    def _ends(self, builder: CircuitBuilder, body: Run, scope: dict[str, Any]) -> bool:
        """Run one iteration of a loop and return True if it was the last."""
        self._frames.append(builder.path)
        try:
            body(builder, scope)
        except _Continue:
            pass
        except _Break:
            return True
        finally:
            self._frames.pop()
        return False

    def _read_while(self, token: Token) -> Run:
        condition = self._in_parentheses("while")
        body = self._block()

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            def holds() -> Any:
                """Evaluate the condition of the loop."""
                return restrict(truth(condition(scope), token), builder.path)

            def again() -> Any:
                """Run one iteration and evaluate the condition again."""
                self._frames.append(None)
                try:
                    body(builder, scope)
                finally:
                    self._frames.pop()
                return holds()

            go_on = holds()
            while go_on is True:
                builder.step(token)
                if self._ends(builder, body, scope):
                    return
                go_on = holds()
            if go_on is not False:
                builder.loop(go_on, again, token)

        return run

    def _jump(self, token: Token, builder: CircuitBuilder, error: Exception) -> None:
        """Leave a loop or a subroutine; fail if this depends on measurements."""
        if not self._frames:
            fail(f"{token.text!r} is outside of a {'subroutine' if token.text == 'return' else 'loop'}", token)
        if self._frames[-1] != builder.path:
            fail(
                f"{token.text!r} cannot depend on measurements (let the condition of a while, or an if around the "
                f"rest, depend on them)",
                token,
            )
        raise error

    def _read_break(self, token: Token) -> Run:
        self._end(token.text)
        error = _Break if token.text == "break" else _Continue
        return lambda builder, scope: self._jump(token, builder, error())

    _read_continue = _read_break

    def _read_end(self, token: Token) -> Run:
        self._end("end")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            if builder.path:
                fail("'end' cannot depend on measurements", token)
            raise End

        return run

    # -- subroutines --------------------------------------------------------------------------------------------------

    def _read_def(self, token: Token) -> Run:
        stream, name = self._stream, self._stream.name("def")
        if self._depth:
            fail("subroutines must be defined outside of blocks", token)
        if name.text in self._definitions:
            fail(f"gate {name.text!r} is defined already", name)
        self._subroutines.add(name.text)
        stream.expect("(", f"def {name.text}")
        params = []
        while not stream.accept(")"):
            params.append(self._param(name))
            if stream.now.text != ")":
                stream.expect(",", f"def {name.text}")
        kind, width = None, None
        if stream.accept("->"):
            kind = stream.take()
            if kind.text not in TYPES:
                fail(f"def {name.text}: a type ({', '.join(TYPES)}) is missing before {describe(kind)}", kind)
            width, _ = self._size(kind.text)
        body = self._block()

        def call(place: Token, arguments: list[tuple[Token, Evaluate]], scope: Scope) -> Any:
            """Run the body with arguments."""
            builder = self._builder
            if len(arguments) != len(params):
                fail(f"{name.text} has {len(params)} arguments, got {len(arguments)}", place)
            if self._calls >= _CALLS:
                fail(f"{name.text!r}: subroutines must not be nested more than {_CALLS} deep", place)
            inside = dict(constants_of(self._scope))
            for (param, bind), (where, argument) in zip(params, arguments, strict=True):
                inside[param.text] = bind(inside, where, argument, scope)
            self._frames.append(builder.path)
            self._calls += 1
            value = None
            try:
                body(builder, inside)
            except _Return as found:
                value = found.value
            finally:
                self._frames.pop()
                self._calls -= 1
            if kind is None:
                return value
            size = expressions.size(width, inside, kind)
            if isinstance(value, Bits) and kind.text in ("bit", "bool") and len(value.wires) == (size or 1):
                return value
            return combine(place, lambda x: converted(x, kind, size), number_of(value, place))

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            self._new(name, scope)
            scope[name.text] = Subroutine(call)

        return run

    def _param(self, of: Token) -> tuple[Token, Callable[..., Any]]:
        """Parse a parameter of a subroutine; return its name and the function that binds an argument."""
        stream = self._stream
        mutable = stream.accept("mutable", "readonly")
        kind = stream.name(f"def {of.text}")
        if kind.text == "array":
            self._skip("[", "]")
            name = stream.name(f"def {of.text}")
        else:
            if kind.text not in (*TYPES, "qubit", "qreg", "creg"):
                fail(f"def {of.text}: a type is missing before {describe(kind)}", kind)
            old = kind.text in ("qreg", "creg")
            size, _ = (None, None) if old else self._size(kind.text)
            name = stream.name(f"def {of.text}")
            if old:
                size, _ = self._size(kind.text)

        def bind(inside: Scope, where: Token, argument: Evaluate, scope: Scope) -> Any:
            """Convert the argument to the parameter's type."""
            if kind.text == "array":
                found = scope.get(where.text)
                if mutable and mutable.text == "mutable":
                    if not isinstance(found, Variable) or argument(scope) is not found.value:
                        fail(f"{of.text}: {name.text!r} needs a whole array that can be changed", where)
                    return found
                return argument(scope)
            n = None if size is None else expressions.integer(size, inside, kind)
            value = argument(scope)
            if kind.text in ("qubit", "qreg"):
                if not isinstance(value, Qubits) or len(value.wires) != (n or 1):
                    got = len(value.wires) if isinstance(value, Qubits) else "something else"
                    fail(f"{of.text}: {name.text!r} needs {n or 1} qubits, got {got}", where)
                return Qubits(value.wires, n is None)
            word = kind._replace(text="bit") if kind.text == "creg" else kind
            held = combine(where, lambda x: converted(x, word, n), number_of(value, where))
            return Variable(word, n, held, self._builder, (), self._builder.loops)

        return name, bind

    def _read_return(self, token: Token) -> Run:
        value = self._value() if self._stream.now.text != ";" else None
        self._end("return")

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            if not self._calls:
                fail("'return' is outside of a subroutine", token)
            self._jump(token, builder, _Return(None if value is None else value(scope)))

        return run

    def _call(self) -> Run:
        """Parse a subroutine call as a statement; qubits may follow the other arguments, as in gate calls."""
        stream, token = self._stream, self._stream.take()
        arguments = []
        if stream.accept("("):
            while not stream.accept(")"):
                arguments.append((stream.now, self._expression()))
                if stream.now.text != ")":
                    stream.expect(",", token.text)
        if stream.now.text != ";":
            arguments += self._operands(token.text)
        self._end(token.text)

        def run(builder: CircuitBuilder, scope: dict[str, Any]) -> None:
            expressions.lookup(token, scope).call(token, arguments, scope)

        return run

    # -- timing, which changes nothing --------------------------------------------------------------------------------

    def _read_box(self, token: Token) -> Run:
        self._skip("[", "]")
        return self._block()

    def _read_delay(self, token: Token) -> Run:
        self._skip("[", "]")
        if self._stream.now.text != ";":
            self._operands(token.text)
        self._end(token.text)
        return nothing

    _read_nop = _read_delay

    def _read_duration(self, token: Token) -> Run:
        while self._stream.now.text != ";" and self._stream.now.kind != "end":
            self._skip("{", "}")
            self._stream.take()
        self._end(token.text)
        return nothing

    _read_stretch = _read_duration


def _whole(value: Any, token: Token) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        fail(f"a whole number is needed, got {value!r}", token)
    return value
