"""Values of programs that depend on what was measured: one for each value of the classical bits that matter."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from .lexer import Token, fail

__all__ = ["Angle", "Bit", "Cases", "Word", "combine", "leaves", "restrict"]

_LEAVES = 1 << 14  # values that the bits of one expression may tell apart

Bit = tuple[int, int]  # a classical bit, and how often it had been written


class Cases(NamedTuple):
    """A value that is `zero` where a bit is 0 and `one` where it is 1; both may depend on later bits."""

    bit: Bit
    zero: Any
    one: Any


class Word(int):
    """A whole number of `width` bits."""

    width: int

    def __new__(cls, value: int, width: int) -> Word:
        """The lowest bits of a number."""
        word = super().__new__(cls, value & ((1 << width) - 1))
        word.width = width
        return word

    def like(self, value: int) -> Word:
        """A number as wide as this one."""
        return Word(value, self.width)

    def __reduce__(self) -> Any:
        return Word, (int(self), self.width)


class Angle(float):
    """An angle of `width` bits, which are looked at where a program does; the number keeps all its digits."""

    width: int

    def __new__(cls, value: float, width: int) -> Angle:
        """An angle in radians."""
        angle = super().__new__(cls, value)
        angle.width = width
        return angle

    def like(self, value: int) -> Angle:
        """The angle as wide as this one that has these bits."""
        return Angle((value & ((1 << self.width) - 1)) * (math.tau / (1 << self.width)), self.width)

    def __int__(self) -> int:
        """Its bits."""
        return round(self / math.tau * (1 << self.width)) % (1 << self.width)

    def __reduce__(self) -> Any:
        return Angle, (float(self), self.width)


def combine(token: Token, f: Callable[..., Any], *values: Any) -> Any:
    """`f` of the values, case by case."""
    if not any(type(v) is Cases for v in values):
        return f(*values)
    count = [0]

    def of(values: tuple[Any, ...]) -> Any:
        """The same for values that have fewer cases."""
        bits = [v.bit for v in values if type(v) is Cases]
        if not bits:
            count[0] += 1
            if count[0] > _LEAVES:
                fail(f"{token.text!r}: this depends on too many measured bits (more than {_LEAVES} cases)", token)
            return f(*values)
        bit = min(bits)
        zero, one = (of(tuple(v[side] if type(v) is Cases and v.bit == bit else v for v in values)) for side in (1, 2))
        return zero if type(zero) is type(one) and zero == one else Cases(bit, zero, one)

    return of(values)


def restrict(value: Any, known: Mapping[Bit, int]) -> Any:
    """A value where some bits are known."""
    if type(value) is not Cases:
        return value
    bit, zero, one = value
    if bit in known:
        return restrict(one if known[bit] else zero, known)
    zero, one = restrict(zero, known), restrict(one, known)
    return zero if type(zero) is type(one) and zero == one else Cases(bit, zero, one)


def leaves(value: Any) -> Iterator[tuple[dict[Bit, int], Any]]:
    """The bits that lead to each case, and its value."""
    if type(value) is not Cases:
        yield {}, value
        return
    for k, inner in enumerate(value[1:]):
        for bits, leaf in leaves(inner):
            yield {value.bit: k, **bits}, leaf
