"""The stream written into fused loops, which draw few numbers without leaving compiled code.

Words are held in uint64 values below 2**32. The numbers are those of `kernels.philox`, bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..kernels.philox_ir import MULTIPLIERS, ROUNDS, WEYL

__all__ = ["U64", "block", "constant", "high", "join", "linear", "load_key", "low", "pick", "stream_block"]

U64 = np.dtype(np.uint64)
_LOW = 0xFFFFFFFF


def linear(b: Any, index: list[Any], shape: tuple[int, ...]) -> Any:
    """The position, as uint64, of an element in C order."""
    at = b.index(0)
    for i, n in zip(index, shape, strict=True):
        at = b.add(b.mul(at, b.index(n)), i)
    return b.cast(at, U64)


def constant(b: Any, value: int) -> Any:
    """Emit an unsigned 64-bit constant."""
    return b.const(value, U64)


def high(b: Any, x: Any) -> Any:
    """Emit the upper 32 bits of a 64-bit word."""
    return b.shift_right(x, constant(b, 32))


def low(b: Any, x: Any) -> Any:
    """Emit the lower 32 bits of a 64-bit word."""
    return b.and_(x, constant(b, _LOW))


def block(b: Any, counter: list[Any], key: list[Any]) -> list[Any]:
    """Four words from four counter words and two key words."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for r in range(ROUNDS):
        p0, p1 = b.mul(c0, constant(b, MULTIPLIERS[0])), b.mul(c2, constant(b, MULTIPLIERS[1]))
        if r:
            k0, k1 = low(b, b.add(k0, constant(b, WEYL[0]))), low(b, b.add(k1, constant(b, WEYL[1])))
        c0, c1, c2, c3 = b.xor(b.xor(high(b, p1), c1), k0), low(b, p1), b.xor(b.xor(high(b, p0), c3), k1), low(b, p0)
    return [c0, c1, c2, c3]


def stream_block(b: Any, number: Any, key: list[Any]) -> list[Any]:
    """Block `number` of the stream of a key."""
    return block(b, [low(b, number), high(b, number), constant(b, 0), constant(b, 0)], key)


def load_key(b: Any, load: Any, batch: list[Any]) -> list[Any]:
    """Emit the loads of the two words of a key."""
    return [b.cast(load([*batch, b.index(w)]), U64) for w in (0, 1)]


def pick(b: Any, values: list[Any], which: Any) -> Any:
    """``values[which]`` for a small power of two of values."""
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    upper = b.cmp(">=", which, constant(b, half))
    rest = b.and_(which, constant(b, half - 1))
    return b.select(upper, pick(b, values[half:], rest), pick(b, values[:half], rest))


def join(b: Any, lower: Any, upper: Any) -> Any:
    """Emit a 64-bit word made of two 32-bit words."""
    return b.or_(lower, b.shift_left(upper, constant(b, 32)))
