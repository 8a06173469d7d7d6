"""Expressions of OpenQASM: angles, indices and conditions.

Parsing gives functions of a scope, so that bodies of gates and loops are read once and evaluated often. Values are
integers, floats and truth values, `Linear` expressions of input parameters, classical bits, and conditions on them.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from triskele.core.extend import check

from ...parameters import Linear
from .lexer import Stream, Token, describe, fail

__all__ = ["CONSTANTS", "FUNCTIONS", "RULES", "Bits", "Evaluate", "Qubits", "Rules", "Test", "integer", "parse"]

Scope = Mapping[str, Any]
Evaluate = Callable[[Scope], Any]


@dataclass(frozen=True)
class Qubits:
    """Qubits by number; `one` where they stand for one qubit and not for a register."""

    wires: tuple[int, ...]
    one: bool = False


@dataclass(frozen=True)
class Bits:
    """Classical bits by number, the first least significant."""

    wires: tuple[int, ...]
    one: bool = False


@dataclass(frozen=True)
class Test:
    """A condition: the bits that must have these values; None of both is never fulfilled."""

    __test__ = False  # not pytest's
    bits: tuple[tuple[int, int], ...]


class Rules(NamedTuple):
    """What differs between expressions: the symbol of powers, whether whole numbers have whole quotients, and whether
    types are functions.
    """

    power: str
    whole: bool
    casts: bool


RULES = {2: Rules("^", False, False), 3: Rules("**", True, True)}
CONSTANTS = {
    "pi": math.pi,
    "π": math.pi,
    "tau": math.tau,
    "τ": math.tau,
    "euler": math.e,
    "ℇ": math.e,
    "true": True,
    "false": False,
}
FUNCTIONS: dict[str, tuple[int, Callable[..., float]]] = {
    "sin": (1, math.sin), "cos": (1, math.cos), "tan": (1, math.tan), "exp": (1, math.exp), "ln": (1, math.log),
    "log": (1, math.log), "sqrt": (1, math.sqrt), "arcsin": (1, math.asin), "arccos": (1, math.acos),
    "arctan": (1, math.atan), "asin": (1, math.asin), "acos": (1, math.acos), "atan": (1, math.atan),
    "ceiling": (1, math.ceil), "floor": (1, math.floor), "pow": (2, math.pow), "mod": (2, math.fmod),
    "float": (1, float), "int": (1, int), "uint": (1, int), "bool": (1, bool), "angle": (1, float),
}  # fmt: skip
_LEVELS = {"||": 0, "&&": 1, "==": 2, "!=": 2, "<": 3, ">": 3, "<=": 3, ">=": 3, "+": 4, "-": 4, "*": 5, "/": 5, "%": 5}
_DEPTH = 60  # of nested parentheses; deeper ones would exhaust Python's stack


def parse(stream: Stream, rules: Rules, depth: int = 0, lowest: int = 0) -> Evaluate:
    """Return a function that evaluates an expression of operators of at least the level `lowest`; it raises QASMError
    where the value does not exist.
    """
    first = _signed(stream, rules, depth)
    rest = []
    while (level := _LEVELS.get(stream.now.text, -1)) >= lowest and stream.now.kind == "symbol":
        operator = stream.take()
        rest.append((_binary(operator, rules), parse(stream, rules, depth, level + 1)))
    if not rest:
        return first

    def value(scope: Scope) -> Any:  # one after the other: sums may be longer than Python's stack is deep
        left = first(scope)
        for combine, right in rest:
            left = combine(left, right(scope))
        return left

    return value


def _signed(stream: Stream, rules: Rules, depth: int) -> Evaluate:
    signs = []
    while sign := stream.accept("-", "+", "!"):
        signs.append(sign)
    operand = _power(stream, rules, depth)
    if not signs:
        return operand

    def value(scope: Scope) -> Any:
        x = operand(scope)
        for sign in reversed(signs):
            x = _unary(sign, x)
        return x

    return value


def _power(stream: Stream, rules: Rules, depth: int) -> Evaluate:
    base = _atom(stream, rules, depth)
    if operator := stream.accept(rules.power):
        if depth > _DEPTH:
            fail("expressions are nested too deeply", operator)
        combine, exponent = _binary(operator, rules), _signed(stream, rules, depth + 1)
        return lambda scope: combine(base(scope), exponent(scope))
    return base


def _atom(stream: Stream, rules: Rules, depth: int) -> Evaluate:
    token = stream.take()
    if depth > _DEPTH:
        fail("expressions are nested too deeply", token)
    if token.kind in ("integer", "real"):
        number = _number(token)
        return lambda scope: number
    if token.text == "(":
        value = parse(stream, rules, depth + 1)
        stream.expect(")", "expression")
        return value
    if token.kind != "name":
        fail(f"a number, a name or '(' is missing before {describe(token)}", token)
    if token.text in FUNCTIONS and stream.now.text in (("(", "[") if rules.casts else "("):
        if stream.accept("["):  # the width of a cast
            parse(stream, rules, depth + 1)
            stream.expect("]", token.text)
        stream.expect("(", token.text)
        arguments = [parse(stream, rules, depth + 1)]
        while stream.accept(","):
            arguments.append(parse(stream, rules, depth + 1))
        stream.expect(")", token.text)
        return _call(token, arguments)
    if stream.accept("["):
        return _indexed(token, stream, rules, depth + 1)
    return lambda scope: lookup(token, scope)


def lookup(token: Token, scope: Scope) -> Any:
    """Return the value of a name."""
    if token.text in scope:
        return scope[token.text]
    if token.text in CONSTANTS:
        return CONSTANTS[token.text]
    fail(f"{token.text!r} is not declared{check.near(token.text, [*scope, *CONSTANTS])}", token)


def _indexed(token: Token, stream: Stream, rules: Rules, depth: int) -> Evaluate:
    parts = [None if stream.now.text == ":" else parse(stream, rules, depth)]
    while stream.accept(":"):
        parts.append(None if stream.now.text in ("]", ":") else parse(stream, rules, depth))
    close = stream.expect("]", "index")
    if len(parts) > 3:
        fail("a range has at most three parts, start : step : end", close)

    def value(scope: Scope) -> Any:
        register = lookup(token, scope)
        if not isinstance(register, (Qubits, Bits)) or register.one:
            fail(f"{token.text!r} is not a register and cannot be indexed", token)
        numbers = [None if p is None else integer(p, scope, token) for p in parts]
        if len(numbers) == 1 and numbers[0] is not None:
            return type(register)((_element(register, numbers[0], token),), True)
        return type(register)(
            tuple(_element(register, k, token) for k in inclusive(numbers, len(register.wires), token))
        )

    return value


def _element(register: Qubits | Bits, index: int, token: Token) -> int:
    n = len(register.wires)
    if not -n <= index < n:
        fail(f"the index of {token.text!r} must be from 0 to {n - 1}, got {index}", token)
    return register.wires[index]


def inclusive(parts: Sequence[int | None], size: int | None, token: Token) -> range:
    """The range start : end or start : step : end, which contains its end; missing parts from the size of a
    register.
    """
    step = parts[1] if len(parts) == 3 else 1
    step = 1 if step is None else step
    if step == 0:
        fail("the step of a range must not be 0", token)
    first, last = parts[0], parts[-1]
    if size is not None:
        first = (0 if step > 0 else size - 1) if first is None else first + size * (first < 0)
        last = (size - 1 if step > 0 else 0) if last is None else last + size * (last < 0)
    if first is None or last is None:
        fail("this range needs a start and an end", token)
    return range(first, last + (1 if step > 0 else -1), step)


def integer(evaluate: Evaluate, scope: Scope, token: Token) -> int:
    """An expression's value, which must be a whole number."""
    value = evaluate(scope)
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


def _checked(compute: Callable[..., Any], token: Token, *values: Any) -> Any:
    try:
        value = compute(*values)
    except (ValueError, ZeroDivisionError, OverflowError, TypeError) as error:
        fail(f"{token.text!r} of {', '.join(str(v) for v in values)[:80]} does not exist ({error})", token)
    if (
        isinstance(value, complex)
        or isinstance(value, float)
        and not math.isfinite(value)
        or isinstance(value, int)
        and abs(value) > 1 << 64
    ):
        fail(f"{token.text!r} of {', '.join(str(v) for v in values)[:80]} is not a finite real number", token)
    return value


def _call(token: Token, arguments: list[Evaluate]) -> Evaluate:
    count, function = FUNCTIONS[token.text]
    if len(arguments) != count:
        fail(f"{token.text} has {count} argument{'s' * (count > 1)}, got {len(arguments)}", token)

    def value(scope: Scope) -> Any:
        values = [argument(scope) for argument in arguments]
        if token.text in ("float", "angle") and isinstance(values[0], Linear):
            return values[0]
        if not all(isinstance(v, (int, float)) for v in values):
            fail(
                f"{token.text} of an input parameter or a bit: only linear expressions of input parameters can be "
                f"angles",
                token,
            )
        return _checked(function, token, *values)

    return value


def _unary(sign: Token, x: Any) -> Any:
    if sign.text == "!":
        x = _test(x, sign)
        if isinstance(x, bool):
            return not x
        if len(x.bits) != 1:
            fail("a negated condition on several bits is not supported", sign)
        return Test(((x.bits[0][0], 1 - x.bits[0][1]),))
    if not isinstance(x, (int, float, Linear)):
        fail(f"{sign.text!r} needs a number", sign)
    return -x if sign.text == "-" else x


def _test(value: Any, token: Token) -> Test | bool:
    if isinstance(value, (Test, bool)):
        return value
    if isinstance(value, Bits) and value.one:
        return Test(((value.wires[0], 1),))
    fail("a condition is needed: bit, bit == 1, register == number, joined by &&", token)


def _power_of(a: float, b: float) -> float:
    if isinstance(a, int) and isinstance(b, int) and 0 <= b <= 1024:
        return a**b if abs(a) < 1 << 16 and b <= 64 else float(a) ** b
    return float(a) ** b


def _divide(a: Any, b: Any) -> Any:
    if isinstance(a, int) and isinstance(b, int) and b and a % b == 0:
        return a // b
    return a / b


def _divide_whole(a: Any, b: Any) -> Any:
    if not isinstance(a, int) or not isinstance(b, int) or not b:
        return a / b
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)  # towards 0, as in C


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "%": lambda a, b: a % b,
    "<": lambda a, b: a < b,
    ">": lambda a, b: a > b,
    "<=": lambda a, b: a <= b,
    ">=": lambda a, b: a >= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "/": _divide,
    "^": _power_of,
    "**": _power_of,
}


def _binary(operator: Token, rules: Rules) -> Callable[[Any, Any], Any]:
    symbol = operator.text
    compute = _divide_whole if symbol == "/" and rules.whole else _ARITHMETIC.get(symbol, _divide)

    def value(a: Any, b: Any) -> Any:
        if symbol in ("&&", "||"):
            return _logic(operator, _test(a, operator), _test(b, operator))
        if isinstance(a, (Bits, Test)) or isinstance(b, (Bits, Test)):
            return _compare(operator, a, b)
        if isinstance(a, Linear) or isinstance(b, Linear):
            linear = (
                symbol in "+-"
                or symbol == "*"
                and not (isinstance(a, Linear) and isinstance(b, Linear))
                or symbol == "/"
                and not isinstance(b, Linear)
            )
            if not linear:
                fail(f"{symbol!r} of input parameters: only linear expressions of them can be angles", operator)
        elif not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
            fail(f"{symbol!r} needs numbers", operator)
        assert compute is not None  # logic has returned
        return _checked(compute, operator, a, b)

    return value


def _logic(operator: Token, a: Test | bool, b: Test | bool) -> Test | bool:
    if operator.text == "||":
        if isinstance(a, Test) or isinstance(b, Test):
            fail("'||' of conditions on bits is not supported (use two ifs)", operator)
        return a or b
    if isinstance(a, bool) or isinstance(b, bool):
        return (b if a else False) if isinstance(a, bool) else (a if b else False)
    bits = dict(a.bits)
    if any(bits.setdefault(bit, wanted) != wanted for bit, wanted in b.bits):
        return False
    return Test(tuple(bits.items()))


def _compare(operator: Token, a: Any, b: Any) -> Test | bool:
    if isinstance(b, Bits) and isinstance(a, (int, bool)):
        a, b = b, a
    if not isinstance(a, Bits) or not isinstance(b, int) or operator.text not in ("==", "!="):
        fail("bits can only be compared with a whole number, by == or !=", operator)
    n = len(a.wires)
    if not 0 <= b < 1 << n:
        return operator.text == "!="
    if operator.text == "!=":
        if n != 1:
            fail("'!=' on several bits is not supported", operator)
        b = 1 - b
    return Test(tuple((wire, int(b) >> k & 1) for k, wire in enumerate(a.wires)))
