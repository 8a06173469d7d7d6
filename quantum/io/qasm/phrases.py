"""Parts of OpenQASM statements: expressions, sizes, lists of names, modifiers and operands of gates."""

from __future__ import annotations

from typing import Any

from . import expressions
from .expressions import RULES
from .lexer import Stream, Token, describe, fail
from .names import MODIFIERS
from .statements import CircuitBuilder
from .values import Evaluate, Qubits, constant

__all__ = ["Phrases"]

_MODIFIERS_OF_A_GATE = 20


class Phrases:
    """Reads parts of statements from a stream of tokens."""

    _stream: Stream
    _builder: CircuitBuilder
    _version: int
    _scope: dict[str, Any]
    _keywords: frozenset[str]

    def _expression(self) -> Evaluate:
        return expressions.parse(self._stream, RULES[self._version])

    def _in_parentheses(self, where: str) -> Evaluate:
        self._stream.expect("(", where)
        value = self._expression()
        self._stream.expect(")", where)
        return value

    def _end(self, where: str) -> None:
        self._stream.expect(";", where)

    def _size(self, where: str) -> tuple[Evaluate | None, Token]:
        """Return the content of brackets, if there are any."""
        token = self._stream.now
        if not self._stream.accept("["):
            return None, token
        value = self._expression()
        self._stream.expect("]", where)
        return value, token

    def _skip(self, first: str, last: str) -> None:
        """Skip a bracketed part, if there is one."""
        depth = 0
        while self._stream.now.text == first or depth:
            token = self._stream.take()
            depth += (token.text == first) - (token.text == last)
            if token.kind == "end":
                fail(f"{last!r} is missing", token)
            if not depth:
                return

    def _names(self, where: str) -> list[Token]:
        names = [self._stream.name(where)]
        while self._stream.accept(","):
            names.append(self._stream.name(where))
        return names

    def _modifiers(self) -> list[tuple[Token, Evaluate]]:
        found = []
        while token := self._stream.accept(*MODIFIERS):
            value = constant(1)
            if token.text == "inv" and self._stream.now.text == "(":
                fail("inv takes no argument", self._stream.now)
            if self._stream.accept("("):  # the specification itself writes pow(1/2)
                value = expressions.parse(self._stream, RULES[3]._replace(whole=token.text != "pow"))
                self._stream.expect(")", token.text)
            elif token.text == "pow":
                fail("pow: '(' with the exponent is missing", self._stream.now)
            self._stream.expect("@", token.text)
            found.append((token, value))
            if len(found) > _MODIFIERS_OF_A_GATE:
                fail(f"a gate may have {_MODIFIERS_OF_A_GATE} modifiers", token)
        return found

    def _operand(self, where: str) -> tuple[Token, Evaluate]:
        token = self._stream.now
        if token.kind != "name":
            fail(f"{where}: a qubit or register is missing before {describe(token)}", token)
        return token, self._physical(self._stream.take()) if token.text.startswith("$") else self._expression()

    def _operands(self, where: str) -> list[tuple[Token, Evaluate]]:
        found = [self._operand(where)]
        while self._stream.accept(","):
            found.append(self._operand(where))
        return found

    def _physical(self, token: Token) -> Evaluate:
        if self._builder.num_qubits and not self._builder.is_physical:
            fail(
                f"{token.text} is a physical qubit, and registers are declared (a program has one kind of qubits)",
                token,
            )
        self._builder.is_physical = True
        number = int(token.text[1:]) if len(token.text) < 8 else 1 << 40
        if number >= self._builder.num_qubits:
            self._builder.declare(token, qubits=number + 1 - self._builder.num_qubits)
        return constant(Qubits((number,), True))
