"""Functions of scalars beyond arithmetic: roots, rounding, vector math, integer powers."""

from __future__ import annotations

import numpy as np

from ...kernels import vecmath
from ..scalars import BOOL, NotEmittable, Value, llvm_type
from .bits import BitFunctions
from .complex import ComplexFunctions
from .special import SpecialFunctions

__all__ = ["Functions"]

_INTRINSICS = {"sqrt": "sqrt", "floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "roundeven", "fabs": "fabs"}
_SYNONYMS = {"arctan2": "atan2", "power": "pow", "absolute": "abs", "float_power": "pow"}


class Functions(ComplexFunctions, BitFunctions, SpecialFunctions):
    """Named functions of `Builder`; functions without a native form raise `NotEmittable`."""

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        return lambda *args: self.call(name, *args)

    def call(self, name: str, *args: Value) -> Value:
        """A function of the vector-math library, or an intrinsic, of real floating-point values."""
        name = _SYNONYMS.get(name, name)
        dtype = args[0].dtype
        if name == "abs":
            return self.abs(*args)
        if dtype.kind == "c" and all(a.dtype == dtype for a in args):
            return self.complex_call(name, *args)
        if dtype.kind != "f" or any(a.dtype != dtype for a in args):
            raise NotEmittable(f"{name} of {dtype}")
        if name in _INTRINSICS:
            return self._intrinsic(_INTRINSICS[name], *args)
        if name not in vecmath.FUNCTIONS:
            raise NotEmittable(name)
        precision = f"f{8 * dtype.itemsize}"
        far = vecmath.FUNCTIONS[name].far
        if far and self.far is not None:
            self.far(args[0], far[precision])
        symbol = vecmath.symbol(name, precision)
        self.symbols.add(symbol)
        t, level = llvm_type(dtype), max(a.level for a in args)
        return Value(self.ins(f"call {t} {symbol}({', '.join(f'{t} {a.name}' for a in args)})", level), dtype, level)

    def _intrinsic(self, name, *args):
        dtype = args[0].dtype
        t, level = llvm_type(dtype), max(a.level for a in args)
        symbol = f"@llvm.{name}.{'f' if dtype.kind == 'f' else 'i'}{8 * dtype.itemsize}"
        self.declares.add(f"declare {t} {symbol}({', '.join([t] * len(args))})")
        return Value(
            self.ins(f"call {t} {symbol}({', '.join(f'{t} {self.name(a)}' for a in args)})", level), dtype, level
        )

    def sqrt(self, x: Value) -> Value:
        return self.call("sqrt", x)

    def floor(self, x: Value) -> Value:
        return x if x.dtype.kind in "biu" else self.call("floor", x)

    def ceil(self, x: Value) -> Value:
        return x if x.dtype.kind in "biu" else self.call("ceil", x)

    def trunc(self, x: Value) -> Value:
        return x if x.dtype.kind in "biu" else self.call("trunc", x)

    def abs(self, x: Value) -> Value:
        kind = x.dtype.kind
        if kind == "f":
            return self._intrinsic("fabs", x)
        if kind in "ub":
            return x
        if kind == "i":
            return self.select(
                self.cmp("<", x, self.const(0, x.dtype)), self._plain(self.neg(self._plain(x))), self._plain(x)
            )
        return self._hypot(*map(self.abs, x.parts))

    def _hypot(self, x, y):
        """Scaled, so that it overflows only where the result does; infinite where a part is."""
        big, small = self.select(self.cmp(">=", x, y), x, y), self.select(self.cmp(">=", x, y), y, x)
        zero, one = self.const(0.0, x.dtype), self.const(1.0, x.dtype)
        q = self.div(small, self.select(self.cmp("==", big, zero), one, big))
        h = self.mul(big, self.sqrt(self.add(one, self.mul(q, q))))
        infinity = self.const(np.inf, x.dtype)
        infinite = self.or_(self.cmp("==", x, infinity), self.cmp("==", y, infinity))
        return self.select(infinite, infinity, h)

    def copysign(self, x: Value, y: Value) -> Value:
        if x.dtype.kind != "f":
            raise NotEmittable("copysign")
        return self._intrinsic("copysign", x, y)

    def signbit(self, x: Value) -> Value:
        if x.dtype.kind == "f":
            bits = np.dtype(f"i{x.dtype.itemsize}")
            x = Value(self.ins(f"bitcast {llvm_type(x.dtype)} {x.name} to {llvm_type(bits)}", x.level), bits, x.level)
        return self.cmp("<", x, self.const(0, x.dtype))

    def fmax(self, x: Value, y: Value) -> Value:
        return self._other_than_nan(self.max, x, y)

    def fmin(self, x: Value, y: Value) -> Value:
        return self._other_than_nan(self.min, x, y)

    def _other_than_nan(self, choose, x, y):
        if x.dtype.kind not in "fc":
            return choose(x, y)
        return self.select(self.isnan(y), x, self.select(self.isnan(x), y, choose(x, y)))

    def fmod(self, x: Value, y: Value) -> Value:
        if x.dtype.kind == "f":
            return self._fmod(x, y)
        if x.dtype.kind not in "iu":
            raise NotEmittable("fmod")
        return self._int_div(self._plain(x), self._plain(y), "rem")

    def bitwise_count(self, x: Value) -> Value:
        if x.dtype.kind not in "iu":
            raise NotEmittable("bitwise_count")
        return self._intrinsic("ctpop", self.abs(x))

    def isnan(self, x: Value) -> Value:
        if x.parts:
            return self.or_(self.isnan(x.parts[0]), self.isnan(x.parts[1]))
        return self.cmp("!=", x, x) if x.dtype.kind == "f" else self.const(False, BOOL)

    def isinf(self, x: Value) -> Value:
        if x.parts:
            return self.or_(self.isinf(x.parts[0]), self.isinf(x.parts[1]))
        return (
            self.cmp("==", self.abs(x), self.const(np.inf, x.dtype)) if x.dtype.kind == "f" else self.const(False, BOOL)
        )

    def isfinite(self, x: Value) -> Value:
        if x.parts:
            return self.and_(self.isfinite(x.parts[0]), self.isfinite(x.parts[1]))
        return (
            self.cmp("<", self.abs(x), self.const(np.inf, x.dtype)) if x.dtype.kind == "f" else self.const(True, BOOL)
        )

    def sign(self, x: Value) -> Value:
        kind = x.dtype.kind
        if kind in "bc":
            raise NotEmittable("sign")
        zero, one = self.const(0, x.dtype), self.const(1, x.dtype)
        # -0 becomes 0, NaN stays
        rest = self.select(self.cmp("==", x, zero), zero, x) if kind == "f" else self._same(x)
        down = self.select(self.cmp("<", x, zero), self.const(-1, x.dtype), rest) if kind != "u" else x
        return self.select(self.cmp(">", x, zero), one, self._plain(down))

    def _same(self, x):
        return self._plain(x)

    def pow(self, x: Value, y: Value) -> Value:
        return self.power_of_integers(x, y) if x.dtype.kind in "biu" else self.call("pow", x, y)

    def logaddexp2(self, x: Value, y: Value) -> Value:
        """The larger plus log2(1 + 2^-distance), which is 0 for two equal infinities."""
        up, down = self.max(x, y), self.min(x, y)
        distance = self.select(self.cmp("==", x, y), self.const_like(0.0, x), self.sub(down, up))
        return self.add(
            up, self.mul(self.call("log1p", self.call("exp2", distance)), self.const_like(1.4426950408889634, x))
        )

    def integer_power(self, x: Value, n: int) -> Value:
        """Repeated squaring; a negative exponent takes the reciprocal of the result."""
        if x.dtype.kind == "b":
            raise NotEmittable("power of bool")
        if n < 0:
            return self.div(self.const(1, x.dtype), self.integer_power(x, -n))
        if n == 0:
            return self.const(1, x.dtype)
        while not n & 1:
            x, n = self.mul(x, x), n >> 1
        result = x
        while n := n >> 1:
            x = self.mul(x, x)
            if n & 1:
                result = self.mul(result, x)
        return result
