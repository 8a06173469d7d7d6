"""Functions of complex numbers as pairs of reals, with the overflow, the zeros and the branch cuts of C99's.

Formulas: W. Kahan, Branch cuts for complex elementary functions, or much ado about nothing's sign bit (1987).
"""

from __future__ import annotations

import math

import numpy as np

from ..scalars import NotEmittable, Value, llvm_type

__all__ = ["ComplexFunctions"]

_LARGE = {4: 88.0, 8: 709.0}  # from where on exp is nearly infinite
_TANH_ONE = {4: 10.0, 8: 20.0}  # from where on tanh is 1


class ComplexFunctions:
    """``complex_NAME`` of `Builder`: what `call` uses for complex arguments."""

    def _exact(self, op: str, x: Value, y: Value) -> Value:
        """An operation that is not contracted, for compensated arithmetic."""
        level = max(x.level, y.level)
        return Value(self.ins(f"{op} {llvm_type(x.dtype)} {x.name}, {y.name}", level), x.dtype, level)

    def _two_sum(self, x, y):
        s = self._exact("fadd", x, y)
        back = self._exact("fsub", s, x)
        return s, self._exact(
            "fadd", self._exact("fsub", x, self._exact("fsub", s, back)), self._exact("fsub", y, back)
        )

    def _two_product(self, x, y):
        p = self._exact("fmul", x, y)
        return p, self._intrinsic("fma", x, y, self.neg(p))

    def _growing(self, x, *factors):
        """exp(|x|)/2 times each factor: in two steps where exp is infinite."""
        half = self.call("exp", self.mul(self.abs(x), self.const_like(0.5, x)))
        return [self.mul(self.mul(self.mul(self.const_like(0.5, x), half), f), half) for f in factors]

    def _zero_stays(self, x, y):
        """`y`, or `x` where that is 0."""
        return self.select(self.cmp("==", x, self.const_like(0.0, x)), x, y)

    # -- exponentials and logarithms -----------------------------------------------------------------------------------

    def complex_exp(self, z):
        x, y = z.parts
        c, s = self.call("cos", y), self.call("sin", y)
        e = self.call("exp", x)
        large = self.cmp(">", x, self.const_like(_LARGE[x.dtype.itemsize], x))
        re, im = self._growing(x, self.add(c, c), self.add(s, s))
        re, im = self.select(large, re, self.mul(e, c)), self.select(large, im, self.mul(e, s))
        gone = self.cmp("==", e, self.const_like(0.0, x))  # whatever the angle is
        re, im = (self.select(self.and_(gone, self.cmp("!=", v, v)), self.const_like(0.0, x), v) for v in (re, im))
        zero = self.cmp("==", y, self.const_like(0.0, y))
        return self.complex(self.select(zero, e, re), self.select(zero, y, im))

    def complex_exp2(self, z):
        scale = self.const_like(math.log(2), z.parts[0])
        return self.complex_exp(self.complex(*[self.mul(p, scale) for p in z.parts]))

    def complex_expm1(self, z):
        x, y = z.parts
        h = self.call("sin", self.mul(y, self.const_like(0.5, y)))
        h = self.mul(h, h)
        re = self.sub(self.mul(self.call("expm1", x), self.call("cos", y)), self.add(h, h))
        return self.complex(re, self._zero_stays(y, self.mul(self.call("exp", x), self.call("sin", y))))

    def _log_abs(self, x, y):
        """log |x + iy|: near 1 through |z|^2 - 1, computed with twice the digits."""
        x, y = self.abs(x), self.abs(y)
        swap = self.cmp("<", x, y)
        x, y = self.select(swap, y, x), self.select(swap, x, y)
        h = self.call("hypot", x, y)
        one = self.const_like(1.0, x)
        less, more = self._exact("fsub", x, one), self._two_sum(x, one)
        p, pe = self._two_product(less, more[0])
        q, qe = self._two_product(y, y)
        s, se = self._two_sum(p, q)
        rest = self._exact(
            "fadd", self._exact("fadd", pe, self._exact("fmul", less, more[1])), self._exact("fadd", qe, se)
        )
        near = self.call("log1p", self._exact("fadd", s, rest))
        inside = self.and_(self.cmp(">", h, self.const_like(0.6, x)), self.cmp("<", h, self.const_like(1.7, x)))
        # subnormal: digits are gained before hypot
        tiny = self.cmp("<", h, self.const_like(float(np.finfo(x.dtype).tiny), x))
        up = self.const_like(2.0 ** (60 if x.dtype.itemsize == 8 else 30), x)
        small = self.sub(
            self.call("log", self.call("hypot", self.mul(x, up), self.mul(y, up))),
            self.const_like(math.log(up.const), x),
        )
        huge = self.cmp("==", h, self.const_like(math.inf, x))
        half = self.const_like(0.5, x)
        large = self.add(
            self.call("log", self.call("hypot", self.mul(x, half), self.mul(y, half))), self.const_like(math.log(2), x)
        )
        far = self.select(huge, large, self.select(tiny, small, self.call("log", h)))
        return self.select(inside, self.mul(half, near), far)

    def complex_log(self, z):
        x, y = z.parts
        return self.complex(self._log_abs(x, y), self.call("atan2", y, x))

    def _log_over(self, z, scale):
        w = self.complex_log(z)
        return self.complex(*[self.mul(p, self.const_like(scale, p)) for p in w.parts])

    def complex_log2(self, z):
        return self._log_over(z, 1 / math.log(2))

    def complex_log10(self, z):
        return self._log_over(z, 1 / math.log(10))

    def complex_log1p(self, z):
        x, y = z.parts
        one = self.const_like(1.0, x)
        # |1 + z|^2 - 1 = x (x + 2) + y^2 keeps the digits of a small z
        p, pe = self._two_product(x, self._exact("fadd", x, self.const_like(2.0, x)))
        q, qe = self._two_product(y, y)
        s, se = self._two_sum(p, q)
        near = self.call("log1p", self._exact("fadd", s, self._exact("fadd", self._exact("fadd", pe, qe), se)))
        half = self.const_like(0.5, x)
        inside = self.and_(self.cmp("<", self.abs(x), half), self.cmp("<", self.abs(y), half))
        w = self.complex_log(self.complex(self.add(x, one), y))
        return self.complex(self.select(inside, self.mul(half, near), w.parts[0]), w.parts[1])

    def complex_pow(self, z, w):
        (a, b), (c, d) = z.parts, w.parts
        zero, one = self.const_like(0.0, a), self.const_like(1.0, a)
        none = self.and_(self.cmp("==", a, zero), self.cmp("==", b, zero))
        flat = self.and_(self.cmp("==", c, zero), self.cmp("==", d, zero))
        out = self.complex_exp(self.mul(w, self.complex_log(z)))
        out = self._short_powers(z, c, d, out)
        of_zero = self.select(self.cmp(">", c, zero), zero, self.const_like(math.nan, a))
        out = self.select(none, self.complex(of_zero, of_zero), out)
        return self.select(flat, self.complex(one, zero), out)

    def _short_powers(self, z, c, d, out):
        """1, 2 and 3 as products, as NumPy."""
        real = self.cmp("==", d, self.const_like(0.0, d))
        square = self.mul(z, z)
        for n, value in ((1, z), (2, square), (3, self.mul(square, z))):
            out = self.select(self.and_(real, self.cmp("==", c, self.const_like(float(n), c))), value, out)
        return out

    def complex_sqrt(self, z):
        x, y = z.parts
        c = lambda v: self.const_like(v, x)
        size = self.max(self.abs(x), self.abs(y))
        info = np.finfo(x.dtype)
        digits = info.nmant + 2 + info.nmant % 2  # the root of the factor is a power of two too
        large, small = (
            self.cmp(">", size, c(float(info.max) / 8)),
            self.cmp("<", size, c(float(info.tiny) * 2.0**digits)),
        )
        up = self.select(large, c(2.0**-4), self.select(small, c(2.0**digits), c(1.0)))
        back = self.select(large, c(4.0), self.select(small, c(2.0 ** (-digits // 2)), c(1.0)))
        u, v = self.mul(x, up), self.mul(y, up)
        t = self.sqrt(self.mul(self.add(self.abs(u), self.call("hypot", u, v)), c(0.5)))
        other = self.div(self.abs(v), self.add(t, t))
        right = self.not_negative(u)
        re, im = self.select(right, t, other), self.copysign(self.select(right, other, t), y)
        none = self.and_(self.cmp("==", x, c(0.0)), self.cmp("==", y, c(0.0)))
        re, im = self.select(none, c(0.0), self.mul(re, back)), self.select(none, y, self.mul(im, back))
        infinity = c(math.inf)
        at_left, at_right = self.cmp("==", x, c(-math.inf)), self.cmp("==", x, infinity)
        nan = self.cmp("!=", y, y)
        re = self.select(at_left, self.select(nan, y, c(0.0)), self.select(at_right, infinity, re))
        im = self.select(
            at_left,
            self.copysign(infinity, y),
            self.select(at_right, self.select(nan, y, self.copysign(c(0.0), y)), im),
        )
        above = self.cmp("==", self.abs(y), infinity)
        return self.complex(self.select(above, infinity, re), self.select(above, y, im))

    def not_negative(self, x):
        """x >= 0 by the sign of zero; a NaN counts as not negative."""
        return self.logical_not(self.cmp("<", x, self.const_like(0.0, x)))

    # -- circles and hyperbolas ----------------------------------------------------------------------------------------

    def _hyperbolic(self, z):
        """(cosh x cos y, sinh x sin y, sinh x cos y, cosh x sin y)."""
        x, y = z.parts
        c, s = self.call("cos", y), self.call("sin", y)
        ch, sh = self.call("cosh", x), self.call("sinh", x)
        large = self.cmp(">", self.abs(x), self.const_like(_LARGE[x.dtype.itemsize], x))
        gc, gs = self._growing(x, c, s)
        down = self.cmp("<", x, self.const_like(0.0, x))
        turn = lambda v: self.select(down, self.neg(v), v)
        plain = (self.mul(ch, c), self.mul(sh, s), self.mul(sh, c), self.mul(ch, s))
        cc, ss, sc, cs = (self.select(large, g, p) for g, p in zip((gc, turn(gs), turn(gc), gs), plain, strict=True))
        flat_y, flat_x = self.cmp("==", y, self.const_like(0.0, y)), self.cmp("==", x, self.const_like(0.0, x))
        nan = self.isnan(c)  # of an infinite angle: 0 stays 0
        return (
            self.select(flat_y, ch, cc),
            self.select(self.or_(self.and_(flat_x, nan), flat_y), self.mul(self._sign_of(x), y), ss),
            self.select(self.and_(flat_x, nan), x, self.select(flat_y, sh, sc)),
            self.select(flat_y, y, cs),
        )

    def _sign_of(self, x):
        """±1, or x itself where that is 0."""
        return self._zero_stays(x, self.copysign(self.const_like(1.0, x), x))

    def complex_cosh(self, z):
        cc, ss, _, _ = self._hyperbolic(z)
        return self.complex(cc, ss)

    def complex_sinh(self, z):
        _, _, sc, cs = self._hyperbolic(z)
        return self.complex(sc, cs)

    def complex_tanh(self, z):
        x, y = z.parts
        one = self.const_like(1.0, x)
        t, s = self.call("tan", y), self.call("sinh", x)
        s2 = self.mul(s, s)
        beta = self.add(one, self.mul(t, t))
        below = self.add(one, self.mul(beta, s2))
        re = self.div(self.mul(self.mul(beta, self.sqrt(self.add(one, s2))), s), below)
        im = self.div(t, below)
        far = self.cmp(">", self.abs(x), self.const_like(_TANH_ONE[x.dtype.itemsize], x))
        e = self.call("exp", self.neg(self.abs(x)))
        turn = self.mul(self.call("sin", y), self.call("cos", y))
        turn = self.select(
            self.and_(self.cmp("==", e, self.const_like(0.0, x)), self.cmp("!=", turn, turn)),
            self.const_like(0.0, x),
            turn,
        )
        slope = self.mul(self.mul(self.mul(self.const_like(4.0, x), turn), e), e)
        return self.complex(
            self.select(far, self.copysign(one, x), re), self.select(far, slope, self._zero_stays(y, im))
        )

    def _times_i(self, z):
        return self.complex(self.neg(z.parts[1]), z.parts[0])

    def _over_i(self, z):
        return self.complex(z.parts[1], self.neg(z.parts[0]))

    def complex_cos(self, z):
        return self.complex_cosh(self._times_i(z))

    def complex_sin(self, z):
        return self._over_i(self.complex_sinh(self._times_i(z)))

    def complex_tan(self, z):
        return self._over_i(self.complex_tanh(self._times_i(z)))

    # -- their inverses ------------------------------------------------------------------------------------------------

    def _roots(self, x, y):
        """sqrt(1 - z), sqrt(1 + z)."""
        one = self.const_like(1.0, x)
        return self.complex_sqrt(self.complex(self.sub(one, x), self.neg(y))), self.complex_sqrt(
            self.complex(self.add(one, x), y)
        )

    def _cross(self, u, v):
        """Im(conj(u) v)."""
        return self.sub(self.mul(u.parts[0], v.parts[1]), self.mul(u.parts[1], v.parts[0]))

    def _inner(self, u, v):
        """Re(conj(u) v)."""
        return self.add(self.mul(u.parts[0], v.parts[0]), self.mul(u.parts[1], v.parts[1]))

    def complex_asin(self, z):
        x, y = z.parts
        xi, eta = self._roots(x, y)
        product = self.sub(self.mul(xi.parts[0], eta.parts[0]), self.mul(xi.parts[1], eta.parts[1]))
        return self.complex(self.call("atan2", x, product), self.call("asinh", self._cross(xi, eta)))

    def complex_acos(self, z):
        xi, eta = self._roots(*z.parts)
        half = self.call("atan2", xi.parts[0], eta.parts[0])
        return self.complex(self._diagonal(z, self.add(half, half)), self.call("asinh", self._cross(eta, xi)))

    def _diagonal(self, z, angle):
        """`angle`, or that of a diagonal where both parts of `z` are infinite, NaN where the real one is (C99,
        G.6.1.1).
        """
        x, y = z.parts
        c = lambda v: self.const_like(v, x)
        angle = self.select(self.isnan(x), c(math.nan), angle)
        both = self.and_(self.isinf(x), self.isinf(y))
        return self.select(both, self.select(self.cmp(">", x, c(0.0)), c(math.pi / 4), c(3 * math.pi / 4)), angle)

    def complex_asinh(self, z):
        return self._over_i(self.complex_asin(self._times_i(z)))

    def complex_acosh(self, z):
        x, y = z.parts
        one = self.const_like(1.0, x)
        xi, eta = (
            self.complex_sqrt(self.complex(self.sub(x, one), y)),
            self.complex_sqrt(self.complex(self.add(x, one), y)),
        )
        half = self.call("atan2", xi.parts[1], eta.parts[0])
        angle = self.copysign(self._diagonal(z, self.abs(self.add(half, half))), y)
        return self.complex(self.call("asinh", self._inner(xi, eta)), angle)

    def complex_atanh(self, z):
        x, y = z.parts
        c = lambda v: self.const_like(v, x)
        large = self.cmp(">", self.max(self.abs(x), self.abs(y)), c(2.0 ** (500 if x.dtype.itemsize == 8 else 60)))
        u, v = self.select(large, c(0.0), self.abs(x)), self.select(large, c(0.0), y)
        left = self.sub(c(1.0), u)
        h = self.call("hypot", left, v)
        re = self.mul(c(0.25), self.call("log1p", self.div(self.div(self.mul(c(4.0), u), h), h)))
        pole = self.cmp("<", h, c(float(np.finfo(x.dtype).eps)))  # 4u = 4 there, and h^2 may be 0
        re = self.select(pole, self.mul(c(0.5), self.sub(c(math.log(2)), self.call("log", h))), re)
        # 1 - |z|^2 with twice the digits
        (p, pe), (q, qe) = self._two_product(u, u), self._two_product(v, v)
        s, se = self._two_sum(c(1.0), self.neg(p))
        d, de = self._two_sum(s, self.neg(q))
        rest = self._exact("fsub", self._exact("fadd", se, de), self._exact("fadd", pe, qe))
        turn = self.call("atan2", self.add(v, v), self._exact("fadd", d, rest))
        far = self.copysign(c(math.pi / 2), y)
        size = self.call("hypot", x, y)  # where z is large, atanh z is 1/z, turned by the side of the cut
        re = self.select(large, self.div(self.div(self.abs(x), size), size), re)
        im = self.select(large, far, self.mul(c(0.5), turn))
        nan = self.or_(self.isnan(x), self.isnan(y))
        return self.complex(self.select(nan, c(math.nan), self.copysign(re, x)), self.select(nan, c(math.nan), im))

    def complex_atan(self, z):
        return self._over_i(self.complex_atanh(self._times_i(z)))

    def complex_reciprocal(self, z):
        """Smith's method, as NumPy."""
        x, y = z.parts
        flat = self.cmp("<=", self.abs(y), self.abs(x))
        large, small = self.select(flat, x, y), self.select(flat, y, x)
        ratio = self.div(small, large)
        below = self.add(large, self.mul(small, ratio))
        one = self.const_like(1.0, x)
        re, im = self.select(flat, one, ratio), self.select(flat, ratio, one)
        return self.complex(self.div(re, below), self.div(self.neg(im), below))

    def complex_rint(self, z):
        return self.complex(*[self.call("rint", p) for p in z.parts])

    def complex_call(self, name: str, *args: Value) -> Value:
        """The function `name` of complex arguments."""
        own = getattr(type(self), f"complex_{name}", None)
        if own is None:
            raise NotEmittable(f"{name} of complex")
        if self.special is not None:
            for part in (p for a in args for p in a.parts):
                if part.const is None:
                    self.special(part)
        return own(self, *args)
