"""Expressions of OpenQASM: angles, indices and conditions.

Parsing gives functions of a scope, so that bodies of gates and loops are read once and evaluated often. Values are
integers, floats and truth values, `Linear` expressions of input parameters, arrays as tuples, qubits and classical
bits, and cases of all these where measurements decide.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from triskele.core.extend import check

from .cases import Angle, Cases, Word, combine, restrict
from .lexer import Stream, Token, describe, fail
from .values import (
    CONSTANTS,
    FUNCTIONS,
    TYPES,
    Bits,
    Evaluate,
    Qubits,
    Scope,
    Subroutine,
    Variable,
    binary,
    checked,
    constant,
    converted,
    number_of,
    part,
    unary,
)

__all__ = ["RULES", "Index", "Rules", "integer", "lookup", "parse", "read_index", "size"]


class Rules(NamedTuple):
    """What differs between expressions: the symbol of powers, whether whole numbers have whole quotients, and whether
    types are functions.
    """

    power: str
    whole: bool
    casts: bool


RULES = {2: Rules("^", False, False), 3: Rules("**", True, True)}
_LEVELS = {
    symbol: level
    for level, symbols in enumerate(
        ("||", "&&", "|", "^", "&", "== !=", "< > <= >=", "<< >>", "+ -", "* / %")
    )
    for symbol in symbols.split()
}  # fmt: skip
_WIDEST = 1 << 10
_DEPTH = 60  # of nested parentheses; deeper ones would exhaust Python's stack


def parse(stream: Stream, rules: Rules, depth: int = 0, lowest: int = 0) -> Evaluate:
    """Return a function that evaluates an expression of operators of at least the level `lowest`; it raises QASMError
    where the value does not exist.
    """
    first = _signed(stream, rules, depth)
    rest = []
    while (level := _LEVELS.get(stream.now.text, -1)) >= lowest and stream.now.kind == "symbol":
        sign = stream.take()
        rest.append((binary(sign, rules.power, rules.whole), parse(stream, rules, depth, level + 1)))
    if not rest:
        return first

    def value(scope: Scope) -> Any:  # one after the other: sums may be longer than Python's stack is deep
        left = first(scope)
        for of, right in rest:
            left = of(left, right(scope))
        return left

    return value


def _signed(stream: Stream, rules: Rules, depth: int) -> Evaluate:
    signs = []
    while sign := stream.accept("-", "+", "!", "~"):
        signs.append(sign)
    operand = _power(stream, rules, depth)
    if not signs:
        return operand

    def value(scope: Scope) -> Any:
        x = operand(scope)
        for sign in reversed(signs):
            x = combine(sign, lambda x, sign=sign: unary(sign, x), number_of(x, sign))
        return x

    return value


def _power(stream: Stream, rules: Rules, depth: int) -> Evaluate:
    base = _atom(stream, rules, depth)
    if sign := stream.accept(rules.power):
        if depth > _DEPTH:
            fail("expressions are nested too deeply", sign)
        raised, exponent = binary(sign, rules.power, rules.whole), _signed(stream, rules, depth + 1)
        return lambda scope: raised(base(scope), exponent(scope))
    return base


def _atom(stream: Stream, rules: Rules, depth: int) -> Evaluate:
    token = stream.take()
    if depth > _DEPTH:
        fail("expressions are nested too deeply", token)
    if token.kind in ("integer", "real"):
        return constant(_number(token))
    if token.kind == "string" and rules.casts:
        digits = token.text[1:-1].replace("_", "")
        if not digits or set(digits) > {"0", "1"}:
            fail(f"a string of bits has only 0 and 1, got {token.text}", token)
        return constant(Word(int(digits, 2), len(digits)))
    if token.text == "(":
        inner = parse(stream, rules, depth + 1)
        stream.expect(")", "expression")
        return _indices(token, inner, stream, rules, depth)
    if token.kind != "name":
        fail(f"a number, a name or '(' is missing before {describe(token)}", token)
    if rules.casts and token.text in TYPES and stream.now.text in ("(", "["):
        width = None
        if stream.accept("["):
            width = parse(stream, rules, depth + 1)
            stream.expect("]", token.text)
        (_, inner), *more = _arguments(token, stream, rules, depth)
        if more:
            fail(f"{token.text} has 1 argument, got {1 + len(more)}", token)
        return _indices(token, _cast(token, width, inner), stream, rules, depth)
    if token.text == "sizeof" and rules.casts and stream.now.text == "(":
        return _size_of(token, [inner for _, inner in _arguments(token, stream, rules, depth)])
    if stream.now.text == "(" and (token.text in FUNCTIONS or rules.casts):
        arguments = _arguments(token, stream, rules, depth)
        call = _call(token, arguments) if token.text in FUNCTIONS else _routine(token, arguments)
        return _indices(token, call, stream, rules, depth)
    return _indices(token, lambda scope: lookup(token, scope), stream, rules, depth)


def _arguments(token: Token, stream: Stream, rules: Rules, depth: int) -> list[tuple[Token, Evaluate]]:
    stream.expect("(", token.text)
    if stream.accept(")"):
        return []
    found = [(stream.now, parse(stream, rules, depth + 1))]
    while stream.accept(","):
        found.append((stream.now, parse(stream, rules, depth + 1)))
    stream.expect(")", token.text)
    return found


def _routine(token: Token, arguments: list[tuple[Token, Evaluate]]) -> Evaluate:
    def value(scope: Scope) -> Any:
        routine = scope.get(token.text)
        if not isinstance(routine, Subroutine):
            fail(f"{token.text!r} is not a function{check.near(token.text, FUNCTIONS)}", token)
        return routine.call(token, arguments, scope)

    return value


def lookup(token: Token, scope: Scope) -> Any:
    """Return the value of a name."""
    if token.text in scope:
        value = scope[token.text]
        return restrict(value.value, value.memory.path) if type(value) is Variable else value
    if token.text in CONSTANTS:
        return CONSTANTS[token.text]
    fail(f"{token.text!r} is not declared{check.near(token.text, [*scope, *CONSTANTS])}", token)


# -- parts of registers, arrays and numbers


Index = Callable[[Scope], Any]  # a number, a tuple of the parts of a range, or a list of numbers


def read_index(stream: Stream, rules: Rules, depth: int = 0) -> list[Index]:
    """Parse the indices after an opening bracket."""
    found: list[Index] = []
    while not found or stream.accept(","):
        token = stream.now
        if stream.accept("{"):
            found.append(_together(_elements(stream, rules, depth), token, lambda *x: list(x)))
            continue
        ends = [None if stream.now.text == ":" else parse(stream, rules, depth + 1)]
        while stream.accept(":"):
            ends.append(None if stream.now.text in ("]", ":", ",") else parse(stream, rules, depth + 1))
        if len(ends) > 3:
            fail("a range has at most three parts, start : step : end", stream.now)
        single = len(ends) == 1 and ends[0] is not None
        found.append(_together(ends, token, (lambda x: x) if single else lambda *x: x))
    stream.expect("]", "index")
    return found


def _elements(stream: Stream, rules: Rules, depth: int) -> list[Evaluate]:
    found = [parse(stream, rules, depth + 1)]
    while stream.accept(","):
        found.append(parse(stream, rules, depth + 1))
    stream.expect("}", "index")
    return found


def _together(parts: Sequence[Evaluate | None], token: Token, f: Callable[..., Any]) -> Index:
    return lambda scope: combine(token, f, *(None if p is None else number_of(p(scope), token) for p in parts))


def _indices(token: Token, what: Evaluate, stream: Stream, rules: Rules, depth: int) -> Evaluate:
    """Parse the indices that follow an expression."""
    found: list[Index] = []
    while stream.accept("["):
        found += read_index(stream, rules, depth)
    if not found:
        return what

    def value(scope: Scope) -> Any:
        register = what(scope)
        for index in found:
            register = combine(token, lambda r, i: part(r, i, token), register, index(scope))
        return register

    return value


def _size_of(token: Token, arguments: list[Evaluate]) -> Evaluate:
    if not 1 <= len(arguments) <= 2:
        fail(f"sizeof has 1 or 2 arguments, got {len(arguments)}", token)

    def value(scope: Scope) -> int:
        array, dimension = arguments[0](scope), integer(arguments[1], scope, token) if len(arguments) > 1 else 0
        for _ in range(dimension):
            array = array[0] if isinstance(array, tuple) and array else None
        if isinstance(array, (Qubits, Bits)):
            return len(array.wires)
        if not isinstance(array, tuple):
            fail("sizeof: the argument must be an array with that dimension", token)
        return len(array)

    return value


def integer(evaluate: Evaluate, scope: Scope, token: Token) -> int:
    """An expression's value, which must be a whole number."""
    value = number_of(evaluate(scope), token)
    if type(value) is Cases:
        fail("a number is needed that does not depend on measurements", token)
    if isinstance(value, bool) or not isinstance(value, int):
        fail(f"a whole number is needed, got {value!r}", token)
    return value


def _number(token: Token) -> int | float:
    text = token.text.replace("_", "")
    if len(text) > 400:
        fail("this number is too long", token)
    value = float(text) if token.kind != "integer" else int(text, 0) if text[1:2].isalpha() else int(text)
    if value > sys.float_info.max:
        fail(f"{text} does not fit in 64 bits", token)
    return value


def size(evaluate: Evaluate | None, scope: Scope, token: Token) -> int | None:
    """Return the width of a type in bits, or None if the program gives none."""
    if evaluate is None:
        return None
    value = integer(evaluate, scope, token)
    if not 1 <= value <= _WIDEST:
        fail(f"{token.text}: a type has from 1 to {_WIDEST} bits, got {value}", token)
    return value


def _call(token: Token, arguments: list[tuple[Token, Evaluate]]) -> Evaluate:
    count, function = FUNCTIONS[token.text]
    if len(arguments) != count:
        fail(f"{token.text} has {count} argument{'s' * (count > 1)}, got {len(arguments)}", token)

    def of(*values: Any) -> Any:
        """Apply the function to numbers."""
        if not all(isinstance(v, (int, float)) for v in values):
            fail(
                f"{token.text} of an input parameter: only linear expressions of input parameters can be angles", token
            )
        if token.text in ("popcount", "rotl", "rotr") and not isinstance(values[0], (Word, Angle)):
            fail(f"{token.text}: the number of bits of the argument must be known (bit[n], uint[n] or angle[n])", token)
        return checked(function, token, *values)

    return lambda scope: combine(token, of, *(number_of(argument(scope), token) for _, argument in arguments))


def _cast(token: Token, width: Evaluate | None, inner: Evaluate) -> Evaluate:
    def value(scope: Scope) -> Any:
        x, bits = inner(scope), size(width, scope, token)
        if isinstance(x, Bits) and token.text in ("int", "uint", "bit") and bits in (None, len(x.wires)):
            return Bits(x.wires, x.one, x.memory, token.text == "int" and bits is not None)
        return combine(token, lambda x: converted(x, token, bits, True), number_of(x, token))

    return value
