"""Values of OpenQASM (registers, arrays, sized numbers) and the operators on them."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ...parameters import Linear
from .cases import Angle, Bit, Cases, Word, combine
from .lexer import Token, fail

__all__ = [
    "CONSTANTS",
    "FUNCTIONS",
    "TYPES",
    "Bits",
    "Evaluate",
    "Qubits",
    "Scope",
    "Subroutine",
    "Variable",
    "binary",
    "checked",
    "constant",
    "converted",
    "inclusive",
    "number_of",
    "part",
    "positions",
    "truth",
    "unary",
]

Scope = Mapping[str, Any]
Evaluate = Callable[[Scope], Any]


def constant(value: Any) -> Evaluate:
    """Return an expression with a constant value."""
    return lambda scope: value


class Memory(Protocol):
    """Holder of the values of classical bits."""

    path: dict[Bit, int]

    def bit(self, wire: int) -> Any:
        """The value of a classical bit: a number where that is known, else cases."""


@dataclass(frozen=True)
class Qubits:
    """Qubits by number; `one` where they stand for one qubit and not for a register."""

    wires: tuple[int, ...]
    one: bool = False


@dataclass(frozen=True)
class Bits:
    """Classical bits by number, the first least significant."""

    wires: tuple[int, ...]
    one: bool
    memory: Memory
    signed: bool = False  # whether the last one counts negatively

    def value(self, token: Token) -> Any:
        """Return the bits as a number, or as cases of it."""
        n = len(self.wires)

        def number(*bits: int) -> int:
            """Return the number with these digits."""
            word = Word(sum(b << k for k, b in enumerate(bits)), n)
            return word - (1 << n) if self.signed and bits[-1] else word

        return combine(token, number, *map(self.memory.bit, self.wires))


@dataclass
class Variable:
    """A variable: a name that a program can assign to."""

    kind: Token
    width: int | None
    value: Any
    memory: Memory
    shape: tuple[int, ...] = ()  # of an array
    loops: int = 0  # around its declaration that measurements decide about


@dataclass(frozen=True)
class Subroutine:
    """A subroutine defined by `def`; `call` takes the call's token, arguments and scope."""

    call: Callable[[Token, list[tuple[Token, Evaluate]], Scope], Any]


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
    "popcount": (1, lambda x: int(x).bit_count()),
    "rotl": (2, lambda x, k: x.like(int(x) << k % x.width | int(x) >> -k % x.width)),
    "rotr": (2, lambda x, k: x.like(int(x) >> k % x.width | int(x) << -k % x.width)),
}  # fmt: skip
TYPES = ("int", "uint", "float", "angle", "bool", "bit")


def number_of(value: Any, token: Token) -> Any:
    """Return the number that classical bits hold, and any other value unchanged."""
    return value.value(token) if isinstance(value, Bits) else value


def converted(value: Any, kind: Token, width: int | None = None, cast: bool = False) -> Any:
    """Convert a number to a type; fail if the type cannot hold it, unless this is a cast."""
    name = kind.text
    if isinstance(value, Linear) and name in ("float", "angle"):
        return value
    if not isinstance(value, (int, float)):
        fail(f"{name}: the value must be a number, and no input parameter", kind)
    if name in ("float", "angle"):
        if isinstance(value, Word) and name == "angle":  # the same bits
            return Angle(0.0, value.width if width is None else width).like(int(value))
        value = value if isinstance(value, Angle) else checked(float, kind, value)
        return Angle(value, width) if name == "angle" and width is not None else value
    if name == "bool":
        return bool(value)
    whole = int(value)
    if (
        not cast
        and whole != value
        and not isinstance(value, Angle)
        or not cast
        and width is None
        and name == "uint"
        and whole < 0
    ):
        fail(f"{name}: the value must be a number of this type, got {value}", kind)
    if name == "bit":
        return Word(whole, 1 if width is None else width)
    if width is None:
        return whole
    return Word(whole, width) if name == "uint" else (whole + (1 << width - 1)) % (1 << width) - (1 << width - 1)


def truth(value: Any, token: Token) -> Any:
    """Return a value as a condition, or as cases of it."""
    if isinstance(value, Bits) and value.one:
        value = value.value(token)
    return combine(token, lambda x: _test(x, token), value)


def _test(value: Any, token: Token) -> bool:
    if isinstance(value, bool) or isinstance(value, Word) and value.width == 1:
        return bool(value)
    fail("a condition is needed: a bit, a bool, or a comparison such as c == 1", token)


def part(value: Any, index: Any, token: Token) -> Any:
    """Return the elements of a register, an array or the bits of a number at an index."""
    if isinstance(value, (Qubits, Bits)) and not value.one:
        elements = value.wires
    elif isinstance(value, tuple):
        elements = value
    elif isinstance(value, (Word, Angle)):
        elements = tuple(int(value) >> k & 1 for k in range(value.width))
    else:
        fail(f"{token.text!r} is not a register and cannot be indexed", token)
    numbers = positions(index, len(elements), token)
    chosen = tuple(elements[k] for k in numbers)
    one = not isinstance(index, (tuple, list))
    if isinstance(value, Qubits):
        return Qubits(chosen, one)
    if isinstance(value, Bits):
        return Bits(chosen, one, value.memory)
    if isinstance(value, tuple):
        return chosen[0] if one else chosen
    return Word(sum(b << k for k, b in enumerate(chosen)), len(chosen))


def positions(index: Any, size: int, token: Token) -> list[int]:
    """Return the element numbers, counted from 0, that an index selects."""
    numbers = (
        list(inclusive(index, size, token))
        if isinstance(index, tuple)
        else index
        if isinstance(index, list)
        else [index]
    )
    for k in numbers:
        if isinstance(k, bool) or not isinstance(k, int):
            fail(f"a whole number is needed, got {k!r}", token)
        if not -size <= k < size:
            fail(f"the index of {token.text!r} must be from 0 to {size - 1}, got {k}", token)
    return [k % size for k in numbers]


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


def checked(compute: Callable[..., Any], token: Token, *values: Any) -> Any:
    """Apply a function to numbers; fail unless the result is a finite number."""
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


def unary(sign: Token, x: Any) -> Any:
    """Apply a unary operator."""
    if sign.text == "!" or sign.text == "~" and isinstance(x, bool):
        return not _test(x, sign)
    if sign.text == "~":
        if not isinstance(x, (Word, Angle)):
            fail("'~' needs a number whose number of bits is known (bit[n], uint[n] or angle[n])", sign)
        return x.like(~int(x))
    if not isinstance(x, (int, float, Linear)):
        fail(f"{sign.text!r} needs a number", sign)
    if sign.text == "-":
        return x.like(-int(x)) if isinstance(x, (Word, Angle)) else -x
    return x


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


def _remainder(a: Any, b: Any) -> Any:
    """Return the remainder of the division that truncates towards 0."""
    return math.fmod(a, b) if isinstance(a, float) or isinstance(b, float) else abs(a) % abs(b) * (1 if a >= 0 else -1)


def _sized(f: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def of(a: Any, b: Any) -> Any:
        """Apply `f`; sized integers and angles wrap around."""
        if isinstance(a, Word) and isinstance(b, Word):
            found = f(int(a), int(b))
            return Word(found, max(a.width, b.width)) if type(found) is int else found
        angles = [x for x in (a, b) if isinstance(x, Angle)]
        if not angles:
            return f(a, b)
        wide = max(angles, key=lambda x: x.width)
        if f in (operator.mul, _divide_whole) and len(angles) == 1 and any(type(x) is float for x in (a, b)):
            return f(float(a), float(b))  # half of an angle, say
        a, b = (int(Angle(x, wide.width)) if isinstance(x, float) else int(x) for x in (a, b))
        found = f(a, b)
        if type(found) is bool:
            return found
        return Word(found, wide.width) if f is _divide_whole and len(angles) == 2 else wide.like(found)

    return of


def _bitwise(f: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    def of(a: Any, b: Any) -> Any:
        """Apply `f` to the bits; the result has the larger width, and none if an operand has none."""
        if isinstance(a, bool) and isinstance(b, bool):
            return bool(f(a, b))
        value, sized = f(int(a), int(b)), [x for x in (a, b) if isinstance(x, (Word, Angle))]
        if any(isinstance(x, float) and not isinstance(x, Angle) for x in (a, b)):
            raise TypeError("bits of a float")
        if not sized or any(not isinstance(x, (Word, Angle, bool)) for x in (a, b)):
            return value
        return max(sized, key=lambda x: x.width).like(value)

    return of


def _shift(f: Callable[[int, int], int]) -> Callable[[Any, Any], Any]:
    def of(a: Any, b: int) -> Any:
        """Shift; bits that leave a number of known width are lost."""
        if not 0 <= b <= 1 << 10:
            raise ValueError("shifts are from 0 to 1024")
        return a.like(f(int(a), b)) if isinstance(a, (Word, Angle)) else f(a, b)

    return of


_ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": _sized(operator.add),
    "-": _sized(operator.sub),
    "*": _sized(operator.mul),
    "%": _remainder,
    "<": _sized(operator.lt),
    ">": _sized(operator.gt),
    "<=": _sized(operator.le),
    ">=": _sized(operator.ge),
    "==": _sized(operator.eq),
    "!=": _sized(operator.ne),
    "&": _bitwise(operator.and_),
    "|": _bitwise(operator.or_),
    "^": _bitwise(operator.xor),
    "<<": _shift(operator.lshift),
    ">>": _shift(operator.rshift),
    "/": _divide,
    "**": _power_of,
}


def binary(sign: Token, power: str, whole: bool) -> Callable[[Any, Any], Any]:
    """Return the function of a binary operator. `power` is the symbol of powers; with `whole`, integers have whole
    quotients.
    """
    symbol = sign.text
    compute = _ARITHMETIC.get(symbol)
    if symbol == power:
        compute = _power_of
    elif symbol == "/" and whole:
        compute = _sized(_divide_whole)

    def plain(a: Any, b: Any) -> Any:
        """Apply the operator to numbers."""
        if compute is None:
            return _test(a, sign) and _test(b, sign) if symbol == "&&" else _test(a, sign) or _test(b, sign)
        if isinstance(a, Linear) or isinstance(b, Linear):
            linear = (
                symbol in "+-"
                or symbol == "*"
                and not (isinstance(a, Linear) and isinstance(b, Linear))
                or symbol == "/"
                and not isinstance(b, Linear)
            )
            if not linear:
                fail(f"{symbol!r} of input parameters: only linear expressions of them can be angles", sign)
        elif not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
            fail(f"{symbol!r} needs numbers", sign)
        return checked(compute, sign, a, b)

    def value(a: Any, b: Any) -> Any:
        if symbol in ("==", "!=") and isinstance(a, Bits) and isinstance(b, int):
            same = _equals(a, int(b))
            return same if symbol == "==" else combine(sign, operator.not_, same)
        return combine(sign, plain, number_of(a, sign), number_of(b, sign))

    return value


def _equals(a: Bits, b: int) -> Any:
    """Compare bits with a number, in one case however many bits there are."""
    n = len(a.wires)
    if not (-(1 << n - 1) <= b < 1 << n - 1 if a.signed else 0 <= b < 1 << n):
        return False
    open_ = []
    for k, bit in enumerate(map(a.memory.bit, a.wires)):
        if type(bit) is Cases:
            open_.append((bit.bit, b >> k & 1))
        elif bit != b >> k & 1:
            return False
    result: Any = True
    for bit, wanted in sorted(open_, reverse=True):
        result = Cases(bit, False, result) if wanted else Cases(bit, result, False)
    return result
