"""Arithmetic of scalars as NumPy defines it, in LLVM IR: the operations of `Builder`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..dtypes import is_narrow
from .scalars import BOOL, NotEmittable, Value, llvm_type, real_of, supported

__all__ = ["Arithmetic"]


class Arithmetic:
    """Operations on `Value`; both operands of a binary one have the same dtype."""

    # -- arithmetic ----------------------------------------------------------------------------------------------------

    def _binary(self, float_op, int_op, x, y):
        dtype = x.dtype
        kind = dtype.kind
        op = f"{float_op} contract" if kind == "f" else int_op
        level = max(x.level, y.level)
        return Value(self.ins(f"{op} {llvm_type(dtype)} {self.name(x)}, {self.name(y)}", level), dtype, level)

    def _complex(self, re, im, dtype):
        return Value(None, dtype, max(re.level, im.level), (re, im))

    def add(self, x: Value, y: Value) -> Value:
        kind = x.dtype.kind
        if x.terms is not None or y.terms is not None:
            x, y = self._as_affine(x), self._as_affine(y)
            terms = dict(x.terms or {})
            for a, c in (y.terms or {}).items():
                c += terms.pop(a, 0)
                if c:
                    terms[a] = c
            return self._affine(terms, x.offset + y.offset)
        if kind == "c":
            return self._complex(self.add(x.parts[0], y.parts[0]), self.add(x.parts[1], y.parts[1]), x.dtype)
        if kind == "b":
            return self.or_(x, y)
        return self._binary("fadd", "add", x, y)

    def sub(self, x: Value, y: Value) -> Value:
        if x.terms is not None or y.terms is not None:
            return self.add(x, self.mul(y, self.index(-1)))
        if x.dtype.kind == "c":
            return self._complex(self.sub(x.parts[0], y.parts[0]), self.sub(x.parts[1], y.parts[1]), x.dtype)
        return self._binary("fsub", "sub", x, y)

    def mul(self, x: Value, y: Value) -> Value:
        if x.terms is not None or y.terms is not None:
            x, y = self._as_affine(x), self._as_affine(y)
            if not y.terms:
                x, y = y, x
            if not x.terms:
                c = x.offset
                return self._affine({a: c * k for a, k in (y.terms or {}).items()} if c else {}, c * y.offset)
            low, high = (
                (x.low * y.low, x.high * y.high)
                if x.low is not None and y.low is not None and x.low >= 0 and y.low >= 0
                else (None, None)
            )
            level = max(x.level, y.level)
            return self.atom(self.ins(f"mul i64 {self.name(x)}, {self.name(y)}", level), level, low, high)
        kind = x.dtype.kind
        if kind == "c":
            (a, b), (c, d) = x.parts, y.parts
            return self._complex(
                self.sub(self.mul(a, c), self.mul(b, d)), self.add(self.mul(a, d), self.mul(b, c)), x.dtype
            )
        if kind == "b":
            return self.and_(x, y)
        return self._binary("fmul", "mul", x, y)

    def neg(self, x: Value) -> Value:
        if x.terms is not None:
            return self.mul(x, self.index(-1))
        kind = x.dtype.kind
        if kind == "c":
            return self._complex(self.neg(x.parts[0]), self.neg(x.parts[1]), x.dtype)
        if kind == "b":
            raise NotEmittable("negative of bool")
        if kind == "f":
            return Value(self.ins(f"fneg {llvm_type(x.dtype)} {x.name}", x.level), x.dtype, x.level)
        return self._binary("", "sub", self.const(0, x.dtype), x)

    def div(self, x: Value, y: Value) -> Value:
        kind = x.dtype.kind
        if kind == "f":
            return self._binary("fdiv", "", x, y)
        if kind == "c":
            return self._complex_div(x, y)
        if kind in "iu":  # reciprocal of integers
            return self._int_div(x, y, "div")
        raise NotEmittable("division of bool")

    def _complex_div(self, x, y):
        """Smith's method, as NumPy: no overflow where the quotient has none."""
        (a, b), (c, d) = x.parts, y.parts
        big = self.cmp(">=", self.abs(c), self.abs(d))
        top, low = self.select(big, c, d), self.select(big, d, c)
        zero = self.const(0.0, c.dtype)
        both_zero = self.logical_and(self.cmp("==", c, zero), self.cmp("==", d, zero))
        ratio = self.div(low, top)
        scale = self.div(self.const(1.0, c.dtype), self.add(top, self.mul(low, ratio)))
        u, v = self.select(big, a, b), self.select(big, b, a)
        re = self.mul(self.add(u, self.mul(v, ratio)), scale)
        im = self.mul(self.sub(self.select(big, v, self.mul(v, ratio)), self.select(big, self.mul(u, ratio), u)), scale)
        im = self.select(big, im, self.mul(self.sub(self.mul(b, ratio), a), scale))
        return self._complex(
            self.select(both_zero, self.div(a, self.abs(c)), re),
            self.select(both_zero, self.div(b, self.abs(c)), im),
            x.dtype,
        )

    def _int_div(self, x, y, what):
        """Truncated quotient or remainder; a divisor of 0 gives 0, the lowest number over -1 itself, as NumPy."""
        dtype, signed = x.dtype, x.dtype.kind == "i"
        zero = self.cmp("==", y, self.const(0, dtype))
        safe = self.select(zero, self.const(1, dtype), y)
        if signed:
            minus = self.cmp("==", y, self.const(-1, dtype))
            safe = self.select(minus, self.const(1, dtype), safe)
        op = {"div": "sdiv" if signed else "udiv", "rem": "srem" if signed else "urem"}[what]
        level = max(x.level, y.level)
        q = Value(self.ins(f"{op} {llvm_type(dtype)} {self.name(x)}, {self.name(safe)}", level), dtype, level)
        if signed and what == "div":
            q = self.select(minus, self._binary("", "sub", self._plain(self.const(0, dtype)), self._plain(x)), q)
        return self.select(zero, self.const(0, dtype), q)

    def _plain(self, v):
        """Without its affine form: arithmetic then wraps."""
        if v.terms is None:
            return v
        return Value(self.name(v), v.dtype, v.level)

    def floordiv(self, x: Value, y: Value) -> Value:
        if x.terms is not None and y.terms is not None and not y.terms and y.offset > 0 and x.low is not None:
            return self._divmod_affine(x, y.offset)[0]
        kind = x.dtype.kind
        if kind in "bc":
            raise NotEmittable("floor_divide")
        if kind in "iu":
            x, y = self._plain(x), self._plain(y)
            q = self._int_div(x, y, "div")
            if kind == "u":
                return q
            r = self._int_div(x, y, "rem")
            wrong = self.logical_and(
                self.cmp("!=", r, self.const(0, r.dtype)), self.cmp("<", self.xor(r, y), self.const(0, r.dtype))
            )
            return self.select(wrong, self._binary("", "sub", q, self.const(1, q.dtype)), q)
        r = self._fmod(x, y)
        zero, one = self.const(0.0, x.dtype), self.const(1.0, x.dtype)
        q = self.div(self.sub(x, r), y)
        other = self.logical_xor(self.cmp("<", y, zero), self.cmp("<", r, zero))
        q = self.select(self.logical_and(self.cmp("!=", r, zero), other), self.sub(q, one), q)
        down = self.floor(q)
        down = self.select(self.cmp(">", self.sub(q, down), self.const(0.5, x.dtype)), self.add(down, one), down)
        ratio = self.div(x, y)
        down = self.select(self.cmp("!=", q, zero), down, self.copysign(zero, ratio))
        return self.select(self.cmp("==", y, zero), ratio, down)

    def mod(self, x: Value, y: Value) -> Value:
        if x.terms is not None and y.terms is not None and not y.terms and y.offset > 0 and x.low is not None:
            return self._divmod_affine(x, y.offset)[1]
        kind = x.dtype.kind
        if kind in "bc":
            raise NotEmittable("remainder")
        if kind in "iu":
            x, y = self._plain(x), self._plain(y)
            r = self._int_div(x, y, "rem")
            if kind == "u":
                return r
            wrong = self.logical_and(
                self.cmp("!=", r, self.const(0, r.dtype)), self.cmp("<", self.xor(r, y), self.const(0, r.dtype))
            )
            return self.select(wrong, self._binary("", "add", r, y), r)
        r = self._fmod(x, y)
        zero = self.const(0.0, x.dtype)
        other = self.logical_xor(self.cmp("<", y, zero), self.cmp("<", r, zero))
        fixed = self.select(self.cmp("!=", r, zero), self.select(other, self.add(r, y), r), self.copysign(zero, y))
        return self.select(self.cmp("==", y, zero), r, fixed)

    def _fmod(self, x, y):
        level = max(x.level, y.level)
        return Value(self.ins(f"frem {llvm_type(x.dtype)} {x.name}, {y.name}", level), x.dtype, level)

    def _divmod_affine(self, x, n):
        """(x // n, x % n) of an affine form of known range: terms that are multiples of n come apart."""
        if n == 1:
            return x, self.index(0)
        whole = self._affine({a: c // n for a, c in x.terms.items() if c % n == 0}, x.offset // n)
        rest = self._affine({a: c for a, c in x.terms.items() if c % n}, x.offset % n)
        if rest.low is not None and rest.low // n == rest.high // n:
            k = rest.low // n
            return self.add(whole, self.index(k)), self.sub(rest, self.index(k * n))
        k = max(0, -(rest.low // n))  # shifted so that unsigned division is floor division
        rest = self.add(rest, self.index(k * n))
        text = self.name(rest)
        q = self.atom(self.ins(f"udiv i64 {text}, {n}", rest.level), rest.level, rest.low // n, rest.high // n)
        r = self.atom(self.ins(f"urem i64 {text}, {n}", rest.level), rest.level, 0, n - 1)
        return self.add(whole, self.sub(q, self.index(k))), r

    # -- order and choice ----------------------------------------------------------------------------------------------

    def max(self, x: Value, y: Value) -> Value:
        return self._choose(">=", x, y)

    def min(self, x: Value, y: Value) -> Value:
        return self._choose("<=", x, y)

    def _choose(self, op, x, y):
        if x.terms is not None and y.terms is not None and x.low is not None and y.low is not None:
            known = self._decide(op, self.sub(x, y))
            if known is not None:
                return x if known else y
            z = self.select(self.cmp(op, x, y), x, y)
            low, high = (max, min)[op == "<="](x.low, y.low), (max, min)[op == "<="](x.high, y.high)
            return self.atom(self.name(z), z.level, low, high)
        keep = self.cmp(op, x, y)
        if x.dtype.kind in "fc":
            keep = self.logical_or(keep, self.cmp("!=", x, x))  # a NaN stays
        return self.select(keep, x, y)

    def _decide(self, op, d):
        """Return ``d op 0`` if it is known from the range of the affine form `d`; else where it changes is noted."""
        if d.low is None:
            return None
        lo, hi = d.low, d.high
        always, never = {
            "<": (hi < 0, lo >= 0),
            "<=": (hi <= 0, lo > 0),
            ">": (lo > 0, hi <= 0),
            ">=": (lo >= 0, hi < 0),
            "==": (lo == hi == 0, lo > 0 or hi < 0),
            "!=": (lo > 0 or hi < 0, lo == hi == 0),
        }[op]
        if always or never:
            return always
        if len(d.terms) == 1:
            ((atom, c),) = d.terms.items()
            if c in (1, -1):
                zero = -d.offset * c  # the value of the atom at which d is 0
                places = {
                    "<": (zero,),
                    ">=": (zero,),
                    "<=": (zero + 1,),
                    ">": (zero + 1,),
                    "==": (zero, zero + 1),
                    "!=": (zero, zero + 1),
                }[op]
                if c == -1:
                    places = {
                        "<": (zero + 1,),
                        ">=": (zero + 1,),
                        "<=": (zero,),
                        ">": (zero,),
                        "==": (zero, zero + 1),
                        "!=": (zero, zero + 1),
                    }[op]
                self.breaks.setdefault(atom, set()).update(places)
        return None

    def cmp(self, op: str, x: Value, y: Value) -> Value:
        dtype, level = x.dtype, max(x.level, y.level)
        if x.terms is not None and y.terms is not None:
            known = self._decide(op, self.sub(x, y))
            if known is not None:
                return self.const(known, BOOL)
        if dtype.kind == "c":
            (a, b), (c, d) = x.parts, y.parts
            if op == "==":
                return self.and_(self.cmp("==", a, c), self.cmp("==", b, d))
            if op == "!=":
                return self.or_(self.cmp("!=", a, c), self.cmp("!=", b, d))
            if op in "<=>=":  # lexicographic, with the NaNs of NumPy's CLT, CGT …
                strict = op[0]
                nan = self.or_(self.cmp("!=", b, b), self.cmp("!=", d, d))
                first = self.and_(self.cmp(strict, a, c), self.logical_not(nan))
                return self.or_(first, self.and_(self.cmp("==", a, c), self.cmp(op, b, d)))
        t = llvm_type(dtype)
        if dtype.kind == "f":
            code = {"==": "oeq", "!=": "une", "<": "olt", "<=": "ole", ">": "ogt", ">=": "oge"}[op]
            return Value(self.ins(f"fcmp {code} {t} {x.name}, {y.name}", level), BOOL, level)
        if (dtype.kind == "u") != (y.dtype.kind == "u") and "b" not in (dtype.kind, y.dtype.kind):
            return self._cmp_signs(op, x, y)
        s = "s" if dtype.kind == "i" else "u"
        code = {"==": "eq", "!=": "ne", "<": s + "lt", "<=": s + "le", ">": s + "gt", ">=": s + "ge"}[op]
        return Value(self.ins(f"icmp {code} {t} {self.name(x)}, {self.name(y)}", level), BOOL, level)

    def _cmp_signs(self, op, x, y):
        """Comparison of an unsigned and a signed integer of one size: what is negative is less."""
        x, y = self._plain(x), self._plain(y)
        signed = x if x.dtype.kind == "i" else y
        negative = self.cmp("<", signed, self.const(0, signed.dtype))
        plain = self.cmp(op, *[Value(v.name, np.dtype(f"u{v.dtype.itemsize}"), v.level) for v in (x, y)])
        return self.select(
            negative, self.const(op == "!=" or (op[0] == "<") == (signed is x) and op != "==", BOOL), plain
        )

    def select(self, c: Value, x: Value, y: Value) -> Value:
        if c.const is not None:
            return x if c.const else y
        if x is y:
            return x
        if x.dtype.kind == "c":
            return self._complex(
                self.select(c, x.parts[0], y.parts[0]), self.select(c, x.parts[1], y.parts[1]), x.dtype
            )
        level, t = max(c.level, x.level, y.level), llvm_type(x.dtype)
        name = self.ins(f"select i1 {c.name}, {t} {self.name(x)}, {t} {self.name(y)}", level)
        if x.terms is not None and y.terms is not None:
            known = x.low is not None and y.low is not None
            return self.atom(name, level, *((min(x.low, y.low), max(x.high, y.high)) if known else (None, None)))
        return Value(name, x.dtype, level)

    def check_index(self, i: Value, n: Value) -> Value:
        """`i`, counted from the end when negative; outside -n ... n-1 the kernel fails (and element 0 stands in)."""
        size = n.offset
        i = self._as_affine(i)
        if i.low is not None and i.low >= 0 and i.high < size:
            return i
        at = self.select(self.cmp("<", i, self.index(0)), self._plain(self.add(i, n)), self._plain(i))
        level = at.level
        inside = self.ins(f"icmp ult i64 {at.name}, {size}", level)
        if self.check is not None:
            self.check(Value(inside, BOOL, level))
        return self.atom(self.ins(f"select i1 {inside}, i64 {at.name}, i64 0", level), level, 0, max(size - 1, 0))

    # -- logic and bits ------------------------------------------------------------------------------------------------

    def truth(self, x: Value) -> Value:
        """x != 0."""
        return x if x.dtype.kind == "b" else self.cmp("!=", x, self.const(0, x.dtype))

    def _bits(self, op, x, y):
        if x.dtype.kind not in "biu":
            raise NotEmittable(op)
        for a, other in ((x, y), (y, x)):
            if x.dtype.kind == "b" and a.const is not None:
                if op == "and":
                    return other if a.const else a
                if op == "or":
                    return a if a.const else other
        level = max(x.level, y.level)
        return Value(self.ins(f"{op} {llvm_type(x.dtype)} {self.name(x)}, {self.name(y)}", level), x.dtype, level)

    def and_(self, x, y):
        return self._bits("and", x, y)

    def or_(self, x, y):
        return self._bits("or", x, y)

    def xor(self, x, y):
        return self._bits("xor", x, y)

    def invert(self, x):
        return self._bits("xor", x, self.const(True if x.dtype.kind == "b" else -1, x.dtype))

    def logical_and(self, x, y):
        return self._bits("and", self.truth(x), self.truth(y))

    def logical_or(self, x, y):
        return self._bits("or", self.truth(x), self.truth(y))

    def logical_xor(self, x, y):
        return self._bits("xor", self.truth(x), self.truth(y))

    def logical_not(self, x):
        x = self.truth(x)
        return self.const(not x.const, BOOL) if x.const is not None else self.invert(x)

    def shift_left(self, x, y):
        return self._shift("shl", x, y)

    def shift_right(self, x, y):
        return self._shift("ashr" if x.dtype.kind == "i" else "lshr", x, y)

    def _shift(self, op, x, y):
        """NumPy's: a shift by the width or more leaves nothing (or the sign)."""
        bits = 8 * x.dtype.itemsize
        if x.dtype.kind not in "iu":
            raise NotEmittable(op)
        x, y = self._plain(x), self._plain(y)
        unsigned = Value(y.name, np.dtype(f"u{y.dtype.itemsize}"), y.level, None, y.const)
        fits = (
            self.cmp("<", unsigned, self.const(bits, unsigned.dtype))
            if y.const is None
            else self.const(0 <= y.const < bits, BOOL)
        )
        safe = self.select(fits, y, self.const(bits - 1, y.dtype))
        z = self._binary("", op, x, self._plain(safe))
        return z if op == "ashr" else self.select(fits, z, self.const(0, x.dtype))

    # -- conversion ----------------------------------------------------------------------------------------------------

    def cast(self, x: Value, dtype: Any) -> Value:
        """C's conversion, as ``astype``."""
        dtype, have = np.dtype(dtype), x.dtype
        if have == dtype:
            return x
        if not supported(dtype):
            raise NotEmittable(str(dtype))
        if is_narrow(dtype) and x.const is None:
            return self.narrowed(x, dtype)
        if x.const is not None and have.kind != "c":
            with np.errstate(all="ignore"):
                return self.const(np.asarray(x.const).astype(have).astype(dtype)[()].item(), dtype)
        if dtype.kind == "b":
            return self.truth(x)
        if dtype.kind == "c":
            r = real_of(dtype)
            parts = x.parts if have.kind == "c" else (x, self.const(0, r))
            return self._complex(self.cast(parts[0], r), self.cast(parts[1], r), dtype)
        if have.kind == "c":
            return self.cast(x.parts[0], dtype)
        a, b, name = llvm_type(have), llvm_type(dtype), self.name(x)
        if have.kind == "f" and dtype.kind == "f":
            op = "fpext" if dtype.itemsize > have.itemsize else "fptrunc"
        elif have.kind == "f":
            op = "fptosi" if dtype.kind == "i" or dtype.itemsize < 8 else "fptoui"
            wide = max(dtype.itemsize, 4) if dtype.kind == "i" else 8  # NaN and out of range: what the processor does
            got = self.ins(f"freeze i{8 * wide} " + self.ins(f"{op} {a} {name} to i{8 * wide}", x.level), x.level)
            return Value(
                got if wide == dtype.itemsize else self.ins(f"trunc i{8 * wide} {got} to {b}", x.level), dtype, x.level
            )
        elif dtype.kind == "f":
            op = "sitofp" if have.kind == "i" else "uitofp"
        elif a == b:
            return Value(name, dtype, x.level)
        elif have.itemsize > dtype.itemsize:
            op = "trunc"
        else:
            op = "sext" if have.kind == "i" else "zext"
        return Value(self.ins(f"{op} {a} {name} to {b}", x.level), dtype, x.level)

    def _bitcast(self, x, dtype):
        text = f"bitcast {llvm_type(x.dtype)} {self.name(x)} to {llvm_type(dtype)}"
        return Value(self.ins(text, x.level), dtype, x.level)

    def real(self, x: Value) -> Value:
        return x.parts[0] if x.parts else x

    def imag(self, x: Value) -> Value:
        return x.parts[1] if x.parts else self.const(0, x.dtype)

    def complex(self, re: Value, im: Value) -> Value:
        return self._complex(re, im, np.dtype(f"c{2 * re.dtype.itemsize}"))

    def conj(self, x: Value) -> Value:
        return self._complex(x.parts[0], self.neg(x.parts[1]), x.dtype) if x.parts else x
