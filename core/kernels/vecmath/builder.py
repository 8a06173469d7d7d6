"""Formulas to LLVM IR text: values with Python operators, over one (dtype, width).

A `Builder` collects the instructions of one function body. Its values overload the operators, so a body reads like
the formula it computes. No fast-math flag is ever set: the bodies use compensated arithmetic, and a NaN has to stay
visible. Fusing is asked for by name: `mad` where it only helps, `fma` where the exact product is needed.
"""

from __future__ import annotations

import struct

__all__ = ["Builder", "Value", "type_name"]

_BITS = {"f32": 32, "f64": 64}
_MANTISSA = {"f32": 23, "f64": 52}
_BIAS = {"f32": 127, "f64": 1023}
_SCALAR = {"f32": "float", "f64": "double"}


def type_name(dtype: str, width: int) -> str:
    """Suffix of symbols and intrinsics: "f64", "v8f64"."""
    return dtype if width == 1 else f"v{width}{dtype}"


def vector_type(scalar: str, width: int) -> str:
    """LLVM type: "double", "<8 x double>"."""
    return scalar if width == 1 else f"<{width} x {scalar}>"


class Value:
    """An SSA value; kind "f" (float), "i" (integer of the same size) or "b" (truth)."""

    __slots__ = ("b", "name", "kind")

    def __init__(self, b: Builder, name: str, kind: str):
        self.b, self.name, self.kind = b, name, kind

    def _op(self, f_op, i_op, other, swap=False):
        b = self.b
        other = b.value(other, self.kind)
        x, y = (other, self) if swap else (self, other)
        return b.emit(f"{f_op if self.kind == 'f' else i_op} {b.type(self.kind)} {x.name}, {y.name}", self.kind)

    def __add__(self, other):
        return self._op("fadd", "add", other)

    __radd__ = __add__

    def __sub__(self, other):
        return self._op("fsub", "sub", other)

    def __rsub__(self, other):
        return self._op("fsub", "sub", other, swap=True)

    def __mul__(self, other):
        return self._op("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other):
        return self._op("fdiv", None, other)

    def __rtruediv__(self, other):
        return self._op("fdiv", None, other, swap=True)

    def __neg__(self):
        return self.b.emit(f"fneg {self.b.type('f')} {self.name}", "f")

    def __and__(self, other):
        return self._op(None, "and", other)

    def __or__(self, other):
        return self._op(None, "or", other)

    def __xor__(self, other):
        return self._op(None, "xor", other)

    def __invert__(self):
        return self._op(None, "xor", -1 if self.kind == "i" else True)

    def __lshift__(self, n):
        return self._op(None, "shl", n)

    def __rshift__(self, n):
        """Logical (unsigned) shift."""
        return self._op(None, "lshr", n)

    def _cmp(self, pred, other):
        b = self.b
        other = b.value(other, self.kind)
        op = f"fcmp o{pred}" if self.kind == "f" else f"icmp {pred if pred == 'eq' else 's' + pred}"
        return b.emit(f"{op} {b.type(self.kind)} {self.name}, {other.name}", "b")

    def __lt__(self, other):
        return self._cmp("lt", other)

    def __le__(self, other):
        return self._cmp("le", other)

    def __gt__(self, other):
        return self._cmp("gt", other)

    def __ge__(self, other):
        return self._cmp("ge", other)

    def eq(self, other):
        return self._cmp("eq", other)


class Builder:
    """Instructions of one body over `width` lanes of `dtype`, "f32" or "f64"."""

    def __init__(
        self,
        dtype: str,
        width: int = 1,  # 1: scalar code for the loop vectorizer, n: <n x dtype>
        fma: bool = True,  # if False, split exact products by Dekker's method: `llvm.fma` would call libm
        parent: Builder | None = None,  # whose lines this one continues
    ):
        self.dtype, self.width, self.has_fma = dtype, width, fma
        self.bits, self.mantissa, self.bias = _BITS[dtype], _MANTISSA[dtype], _BIAS[dtype]
        self.is64 = dtype == "f64"
        self._types = {
            "f": vector_type(_SCALAR[dtype], width),
            "i": vector_type(f"i{self.bits}", width),
            "b": vector_type("i1", width),
        }
        self.lines: list[str] = parent.lines if parent else []
        self.declares: set[str] = parent.declares if parent else set()

    # ---- text
    def type(self, kind: str = "f") -> str:
        return self._types[kind]

    def emit(self, text: str, kind: str) -> Value:
        name = f"%v{len(self.lines)}"
        self.lines.append(f"  {name} = {text}")
        return Value(self, name, kind)

    def value(self, x, kind: str = "f") -> Value:
        """A constant of this builder's type, or the value itself."""
        if isinstance(x, Value):
            return x
        if kind == "f":
            x = float(x)
            if not self.is64:  # LLVM writes float literals as the double of the same value
                x = struct.unpack("f", struct.pack("f", x))[0]
            text, scalar = f"0x{struct.unpack('<Q', struct.pack('<d', x))[0]:016X}", _SCALAR[self.dtype]
        elif kind == "i":
            text, scalar = str(int(x)), f"i{self.bits}"
        else:
            text, scalar = ("true" if x else "false"), "i1"
        return Value(self, text if self.width == 1 else f"splat ({scalar} {text})", kind)

    def call(self, intrinsic: str, *args: Value, kind: str = "f") -> Value:
        t = self.type(kind)
        symbol = f"@llvm.{intrinsic}.{type_name(self.dtype if kind == 'f' else f'i{self.bits}', self.width)}"
        self.declares.add(f"declare {t} {symbol}({', '.join([t] * len(args))})")
        return self.emit(f"call {t} {symbol}({', '.join(f'{t} {a.name}' for a in args)})", kind)

    # ---- arithmetic
    def mad(self, x, y, z) -> Value:
        """x*y + z, rounded once or twice as the target likes."""
        return self.call("fmuladd", *(self.value(v) for v in (x, y, z)))

    def fma(self, x, y, z) -> Value:
        """x*y + z where the product must be exact: argument reduction, rounding errors."""
        x, y, z = (self.value(v) for v in (x, y, z))
        if self.has_fma:
            return self.call("fma", x, y, z)
        if not self.is64:
            d = self.double()
            return self.narrow(d.widen(x) * d.widen(y) + d.widen(z))
        hi, lo = self.two_prod(x, y)
        return (hi + z) + lo

    def two_prod(self, x, y) -> tuple[Value, Value]:
        """x*y as an unevaluated sum (Dekker 1971 where there is no FMA)."""
        x, y = self.value(x), self.value(y)
        hi = x * y
        if self.has_fma or not self.is64:
            return hi, self.fma(x, y, -hi)
        (xh, xl), (yh, yl) = self._split(x), self._split(y)
        return hi, ((xh * yh - hi) + xh * yl + xl * yh) + xl * yl

    def _split(self, x):
        # By masking rather than by Veltkamp's multiplication: cannot overflow.
        hi = self.float_of(self.bits_of(x) & -(1 << 27))
        return hi, x - hi

    def two_sum(self, x, y) -> tuple[Value, Value]:
        """x+y as an unevaluated sum, any order (Knuth)."""
        x, y = self.value(x), self.value(y)
        s = x + y
        t = s - x
        return s, (x - (s - t)) + (y - t)

    def fast_two_sum(self, x, y) -> tuple[Value, Value]:
        """x+y as an unevaluated sum, |x| >= |y| (Dekker)."""
        x, y = self.value(x), self.value(y)
        s = x + y
        return s, y - (s - x)

    def horner(self, x, coefficients) -> Value:
        """Polynomial, lowest order first."""
        *rest, acc = coefficients
        acc = self.value(acc)
        for c in reversed(rest):
            acc = self.mad(acc, x, c)
        return acc

    def quotient(self, num, num_lo, den, den_lo) -> tuple[Value, Value]:
        """(num + num_lo)/(den + den_lo) as an unevaluated sum, with one division."""
        inverse = 1.0 / den
        q = num * inverse
        return q, (self.fma(-q, den, num) + self.mad(-q, den_lo, num_lo)) * inverse

    def sqrt(self, x) -> Value:
        return self.call("sqrt", x)

    def abs(self, x) -> Value:
        return self.call("fabs", x)

    def copysign(self, magnitude, sign) -> Value:
        return self.call("copysign", self.value(magnitude), sign)

    # ---- choice
    def select(self, condition, x, y) -> Value:
        kind = next((v.kind for v in (x, y) if isinstance(v, Value)), "f")
        x, y = self.value(x, kind), self.value(y, kind)
        t = self.type(kind)
        return self.emit(f"select {self.type('b')} {condition.name}, {t} {x.name}, {t} {y.name}", kind)

    def clamp(self, x, low=None, high=None) -> Value:
        """x within [low, high]; NaN passes through."""
        if low is not None:
            x = self.select(self.value(low) > x, low, x)
        if high is not None:
            x = self.select(self.value(high) < x, high, x)
        return x

    def is_nan(self, x, y=None) -> Value:
        """Return True where x, or x or y, is NaN."""
        return self.emit(f"fcmp uno {self.type()} {x.name}, {(x if y is None else y).name}", "b")

    # ---- bits
    def bits_of(self, x) -> Value:
        return self.emit(f"bitcast {self.type('f')} {x.name} to {self.type('i')}", "i")

    def float_of(self, i) -> Value:
        return self.emit(f"bitcast {self.type('i')} {i.name} to {self.type('f')}", "f")

    def int_constant(self, x: float) -> int:
        """The bit pattern of a float constant."""
        return (
            struct.unpack("<Q", struct.pack("<d", x))[0] if self.is64 else struct.unpack("<I", struct.pack("<f", x))[0]
        )

    def round_magic(self, x, scale) -> tuple[Value, Value]:
        """n = round(x*scale) as a float, and as an integer; |x*scale| < 2**(mantissa-2).

        Adding 1.5*2**mantissa rounds at the units' place and leaves the integer in the low bits: no conversion
        instruction, which AVX2 lacks for 64 bits.
        """
        magic = 1.5 * 2.0**self.mantissa
        t = self.mad(x, scale, magic)
        return t - magic, self.bits_of(t) - self.int_constant(magic)

    # ---- float32 by way of float64
    def double(self) -> Builder:
        """A float64 builder writing into the same body."""
        return Builder("f64", self.width, self.has_fma, parent=self)

    def widen(self, x) -> Value:
        """float32 value to this float64 builder."""
        return self.emit(f"fpext {x.b.type()} {x.name} to {self.type()}", "f")

    def narrow(self, x) -> Value:
        """float64 value to this float32 builder."""
        return self.emit(f"fptrunc {x.b.type()} {x.name} to {self.type()}", "f")

    def low_bits(self, i) -> Value:
        """The lower half of a 64-bit integer, in this float32 builder."""
        return self.emit(f"trunc {i.b.type('i')} {i.name} to {self.type('i')}", "i")
