"""Values that depend on measurement outcomes: one value for each assignment of the classical bits that matter."""

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
        """Keep the lowest `width` bits of a number."""
        word = super().__new__(cls, value & ((1 << width) - 1))
        word.width = width
        return word

    def like(self, value: int) -> Word:
        """Return a number of the same width."""
        return Word(value, self.width)

    def __reduce__(self) -> Any:
        return Word, (int(self), self.width)


class Angle(float):
    """An angle in radians of `width` bits. A literal keeps all its digits; operators round to the width."""

    width: int

    def __new__(cls, value: float, width: int) -> Angle:
        """Make an angle from radians."""
        angle = super().__new__(cls, value)
        angle.width = width
        return angle

    def like(self, value: int) -> Angle:
        """Return the angle of the same width with these bits."""
        return Angle((value & ((1 << self.width) - 1)) * (math.tau / (1 << self.width)), self.width)

    def __int__(self) -> int:
        """Return its bits as a number."""
        return round(self / math.tau * (1 << self.width)) % (1 << self.width)

    def __reduce__(self) -> Any:
        return Angle, (float(self), self.width)


def combine(token: Token, f: Callable[..., Any], *values: Any) -> Any:
    """Apply `f` to the values, case by case."""
    if not any(type(v) is Cases for v in values):
        return f(*values)
    count = [0]

    def of(values: tuple[Any, ...]) -> Any:
        """Split the cases by their first bit."""
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
    """Return the value that is left when some bits are known."""
    if type(value) is not Cases:
        return value
    bit, zero, one = value
    if bit in known:
        return restrict(one if known[bit] else zero, known)
    zero, one = restrict(zero, known), restrict(one, known)
    return zero if type(zero) is type(one) and zero == one else Cases(bit, zero, one)


def leaves(value: Any) -> Iterator[tuple[dict[Bit, int], Any]]:
    """Yield each case as the bits that select it and its value."""
    if type(value) is not Cases:
        yield {}, value
        return
    for k, inner in enumerate(value[1:]):
        for bits, leaf in leaves(inner):
            yield {value.bit: k, **bits}, leaf
