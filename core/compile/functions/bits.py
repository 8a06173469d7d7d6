"""Functions of the way numbers are stored, and of integers by loops: nextafter, ldexp, gcd, integer powers."""

from __future__ import annotations

import math

import numpy as np

from ..scalars import BOOL, NotEmittable, Value, llvm_type

__all__ = ["BitFunctions"]


class BitFunctions:
    """Functions of `Builder` that look into the representation of numbers."""

    def bits(self, x: Value) -> Value:
        """The representation of a floating-point number as a signed integer."""
        whole = np.dtype(f"i{x.dtype.itemsize}")
        return Value(
            self.ins(f"bitcast {llvm_type(x.dtype)} {self.name(x)} to {llvm_type(whole)}", x.level), whole, x.level
        )

    def from_bits(self, n: Value) -> Value:
        real = np.dtype(f"f{n.dtype.itemsize}")
        return Value(
            self.ins(f"bitcast {llvm_type(n.dtype)} {self.name(n)} to {llvm_type(real)}", n.level), real, n.level
        )

    def _whole(self, value, n):
        """An integer constant without affine form."""
        return self._plain(self.const(value, n.dtype))

    def _need_real(self, what, *xs):
        if any(x.dtype.kind != "f" for x in xs):
            raise NotEmittable(what)

    def ordered(self, x: Value, nan_last: bool = True) -> Value:
        """An integer in the order of the real number `x` (itself if it is one): both zeros alike, NaN last or first."""
        if x.dtype.kind == "c":
            raise NotEmittable("order of complex numbers")
        if x.dtype.kind != "f":
            return self.cast(x, np.uint8) if x.dtype.kind == "b" else x
        n = self.bits(self.add(x, self.const_like(0.0, x)))  # -0 becomes 0
        info = np.iinfo(n.dtype)
        sign = self._binary("", "ashr", n, self._whole(8 * n.dtype.itemsize - 1, n))
        flipped = self.xor(n, self.and_(sign, self._whole(info.max, n)))
        return self.select(self.isnan(x), self._whole(info.max if nan_last else info.min, n), flipped)

    def nextafter(self, x: Value, y: Value) -> Value:
        self._need_real("nextafter", x, y)
        n, zero = self.bits(x), self.const_like(0.0, x)
        away = self.cmp("==", self._bool(self.cmp("<", x, y)), self._bool(self.cmp(">", x, zero)))
        moved = self.from_bits(self._binary("", "add", n, self.select(away, self._whole(1, n), self._whole(-1, n))))
        least = self.copysign(self.const_like(float(np.finfo(x.dtype).smallest_subnormal), x), y)
        out = self.select(self.cmp("==", x, zero), least, moved)
        out = self.select(self.cmp("==", x, y), y, out)
        return self.select(self.or_(self.isnan(x), self.isnan(y)), self.add(x, y), out)

    def _bool(self, x):
        return self.cast(x, np.uint8)

    def spacing(self, x: Value) -> Value:
        self._need_real("spacing", x)
        info = np.finfo(x.dtype)
        exponents = self._whole(((1 << info.nexp) - 1) << info.nmant, self.bits(x))
        power = self.from_bits(self.and_(self.bits(x), exponents))
        step = self.max(
            self.mul(power, self.const_like(float(info.eps), x)), self.const_like(float(info.smallest_subnormal), x)
        )
        step = self.select(self.cmp("==", x, self.const_like(0.0, x)), step, self.copysign(step, x))
        last = self.cmp("==", self.abs(x), self.const_like(float(info.max), x))  # nothing follows
        step = self.select(last, self.copysign(self.const_like(math.inf, x), x), step)
        return self.select(self.isfinite(x), step, self.const_like(math.nan, x))

    def ldexp(self, x: Value, n: Value) -> Value:
        self._need_real("ldexp", x)
        info, whole = np.finfo(x.dtype), np.dtype(f"i{x.dtype.itemsize}")
        low, high = int(info.minexp), int(info.maxexp) - 1
        n = self._plain(n)

        def clipped(n, low, high):
            n = self.select(self.cmp("<", n, self._whole(low, n)), self._whole(low, n), n)
            return self.select(self.cmp(">", n, self._whole(high, n)), self._whole(high, n), n)

        if n.dtype.itemsize > 1:
            n = clipped(n, 3 * low, 3 * high)
        n = self._plain(self.cast(n, whole))
        first = clipped(n, low, high)
        rest = self._binary("", "sub", n, first)
        second = clipped(rest, low, high)
        # in three steps; only the last rounds
        for e in (self._binary("", "sub", rest, second), second, first):
            power = self._binary(
                "", "shl", self._binary("", "add", e, self._whole(high, e)), self._whole(info.nmant, e)
            )
            x = self._exact("fmul", x, self.from_bits(power))
        return x

    def frexp_exponent(self, x: Value) -> Value:
        self._need_real("frexp", x)
        info = np.finfo(x.dtype)
        small = self.cmp("<", self.abs(x), self.const_like(float(info.tiny), x))
        y = self.select(small, self.mul(x, self.const_like(2.0 ** (info.nmant + 2), x)), x)
        n = self.bits(self.abs(y))
        e = self._binary("", "lshr", n, self._whole(info.nmant, n))
        e = self._binary(
            "",
            "sub",
            e,
            self.select(small, self._whole(info.maxexp - 2 + info.nmant + 2, n), self._whole(info.maxexp - 2, n)),
        )
        none = self.or_(self.cmp("==", x, self.const_like(0.0, x)), self.logical_not(self.isfinite(x)))
        return self.cast(self.select(none, self._whole(0, n), e), np.int32)

    # -- integers by loops: functions of their own, defined once in a program
    # -----------------------------------------------

    def _defined(self, symbol, text, x, y):
        self.declares.add(text)
        t, level = llvm_type(x.dtype), max(x.level, y.level)
        return Value(self.ins(f"call {t} {symbol}({t} {self.name(x)}, {t} {self.name(y)})", level), x.dtype, level)

    def gcd(self, x: Value, y: Value) -> Value:
        if x.dtype.kind not in "iu":
            raise NotEmittable("gcd")
        x, y = (self._plain(self.abs(self._plain(v))) for v in (x, y))
        t = llvm_type(x.dtype)
        return self._defined(
            f"@tsk.gcd.{t}",
            f"""define internal {t} @tsk.gcd.{t}({t} %x, {t} %y) nounwind willreturn memory(none) {{
entry:
  br label %test
test:
  %a = phi {t} [ %x, %entry ], [ %b, %step ]
  %b = phi {t} [ %y, %entry ], [ %r, %step ]
  %done = icmp eq {t} %b, 0
  br i1 %done, label %end, label %step
step:
  %r = urem {t} %a, %b
  br label %test
end:
  ret {t} %a
}}""",
            x,
            y,
        )

    def lcm(self, x: Value, y: Value) -> Value:
        g = self.gcd(x, y)
        size = self._plain(self.abs(self._plain(x))), self._plain(self.abs(self._plain(y)))
        none = self.cmp("==", g, self.const(0, g.dtype))
        safe = self.select(none, self._whole(1, g), g)
        t, level = llvm_type(g.dtype), max(size[0].level, safe.level)
        q = Value(self.ins(f"udiv {t} {self.name(size[0])}, {self.name(safe)}", level), g.dtype, level)
        return self._binary("", "mul", q, size[1])

    def power_of_integers(self, x: Value, y: Value) -> Value:
        """Square and multiply, wrapping; a negative exponent is an error, as in NumPy."""
        if x.dtype.kind not in "iu":
            raise NotEmittable("power of bool")
        x, y = self._plain(x), self._plain(y)
        if x.dtype.kind == "i" and self.check is not None:
            self.check(Value(self.cmp(">=", y, self._whole(0, y)).name, BOOL, y.level))
        t = llvm_type(x.dtype)
        return self._defined(
            f"@tsk.power.{t}",
            f"""define internal {t} @tsk.power.{t}({t} %x, {t} %y) nounwind willreturn memory(none) {{
entry:
  br label %test
test:
  %p = phi {t} [ 1, %entry ], [ %q, %step ]
  %s = phi {t} [ %x, %entry ], [ %s2, %step ]
  %n = phi {t} [ %y, %entry ], [ %half, %step ]
  %done = icmp eq {t} %n, 0
  br i1 %done, label %end, label %step
step:
  %bit = and {t} %n, 1
  %odd = icmp ne {t} %bit, 0
  %ps = mul {t} %p, %s
  %q = select i1 %odd, {t} %ps, {t} %p
  %s2 = mul {t} %s, %s
  %half = lshr {t} %n, 1
  br label %test
end:
  ret {t} %p
}}""",
            x,
            y,
        )
