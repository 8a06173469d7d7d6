"""float16 and bfloat16 in compiled code: float32 in registers, rounded after each operation, 16 bits in memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import FLOAT32, is_bfloat16
from .scalars import Value

__all__ = ["Narrow"]

_U16, _U32 = np.dtype(np.uint16), np.dtype(np.uint32)


class Narrow:
    """Conversions of `Builder`.

    A value is rounded wherever it is used, whether it comes from memory or from the registers of a kernel that computes
    it again: comparisons of the two must hold.
    """

    known: dict[tuple[str, np.dtype], Value | None]
    """Registers that hold a number of a narrow dtype exactly, and its bits where they are at hand."""

    def narrowed(self: Any, x: Value, dtype: np.dtype) -> Value:
        """Round `x` to the nearest float16 or bfloat16, ties to even; the register is float32."""
        if x.dtype == FLOAT32 and (self.name(x), dtype) in self.known:
            return x
        return self.from_narrow_bits(self.narrow_bits(x, dtype), dtype)

    def keep(self: Any, x: Value, dtype: np.dtype) -> Value:
        """Note that the float32 `x` is a number of `dtype`, such as the larger of two."""
        self.known.setdefault((self.name(x), dtype), None)
        return x

    def narrow_bits(self: Any, x: Value, dtype: np.dtype) -> Value:
        """The 16 bits of the float16 or bfloat16 next to `x`; a NaN gives a quiet NaN.

        bfloat16 is rounded in integers: the processors' instruction for it takes subnormal numbers for 0. float64
        becomes bfloat16 by way of float32, as in ml_dtypes, and float16 directly, as in NumPy.
        """
        half, y = not is_bfloat16(dtype), self.cast(x, FLOAT32)
        bits = self.known.get((self.name(y), dtype))
        if bits is not None:
            return bits
        if half:
            y = self._to_odd(x, y) if x.dtype == np.float64 else y
            name = self.ins(f"fptrunc float {self.name(y)} to half", y.level)
            return Value(self.ins(f"bitcast half {name} to i16", y.level), _U16, y.level)
        word, place = self._bitcast(y, _U32), self.const(16, _U32)
        high = self.shift_right(word, place)
        odd = self.and_(high, self.const(1, _U32))
        near = self.shift_right(self.add(self.add(word, self.const(0x7FFF, _U32)), odd), place)
        nan = self.or_(self.and_(high, self.const(0x8000, _U32)), self.const(0x7FC0, _U32))
        return self.cast(self.select(self.cmp("==", y, y), near, nan), _U16)

    def _to_odd(self: Any, x, y):
        """float64 `x`, of which `y` is the nearest float32, as float32 rounded to odd.

        Rounding again then gives the float16 next to `x` (Boldo & Melquiond 2008, theorem 1).
        """
        word, one = self._bitcast(y, _U32), self.const(1, _U32)
        back = self.cast(y, x.dtype)
        down = self.select(self.cmp(">", self.abs(back), self.abs(x)), self.sub(word, one), word)
        inexact = self.logical_and(self.cmp("!=", back, x), self.cmp("==", x, x))
        return self._bitcast(self.select(inexact, self.or_(down, one), word), FLOAT32)

    def from_narrow_bits(self: Any, bits: Value, dtype: np.dtype) -> Value:
        """The float32 that 16 bits of float16 or bfloat16 stand for."""
        if is_bfloat16(dtype):
            x = self._bitcast(self.shift_left(self.cast(bits, _U32), self.const(16, _U32)), FLOAT32)
        else:
            half = self.ins(f"bitcast i16 {self.name(bits)} to half", bits.level)
            x = Value(self.ins(f"fpext half {half} to float", bits.level), FLOAT32, bits.level)
        self.known[x.name, dtype] = bits
        return x
