"""Logarithm of the gamma function, digamma, and inverses of the error functions, without branches.

Series and recurrences: NIST Digital Library of Mathematical Functions (dlmf.nist.gov), 5.5 and 5.11. float32 goes
through float64.
"""

from __future__ import annotations

import math

import numpy as np

from ..scalars import NotEmittable, Value

__all__ = ["SpecialFunctions"]

# log gamma(2 + t) / t on |t| <= 1/2, by Chebyshev interpolation against mpmath, error 7e-20; highest power first
_LOG_GAMMA = (
    6.379047507619774e-08, -1.3412819758517287e-07, 2.0304806751615227e-07, -4.303558760359961e-07,
    9.578663334114758e-07, -2.0449201467015115e-06, 4.374374916915131e-06, -9.438458716242811e-06,
    2.050726741605779e-05, -4.4926351103833334e-05, 9.945750909889392e-05, -0.00022315475074520367,
    0.0005096695248853096, -0.0011927539120010226, 0.002890510330738737, -0.0073855510286681535, 0.02058080842778457,
    -0.06735230105319814, 0.3224670334241132, 0.42278433509846713,
)  # fmt: skip
# B(2k) / (2k (2k - 1)) and B(2k) / 2k for k = 9 (10) ... 1, B the numbers of Bernoulli: DLMF 5.11.1, 5.11.2
_STIRLING = (
    0.17964437236883057,
    -0.029550653594771242,
    0.00641025641025641,
    -0.0019175269175269176,
    0.0008417508417508417,
    -0.0005952380952380953,
    0.0007936507936507937,
    -0.002777777777777778,
    0.08333333333333333,
)
_ASYMPTOTIC = (
    -26.456212121212122,
    3.0539543302701198,
    -0.4432598039215686,
    0.08333333333333333,
    -0.021092796092796094,
    0.007575757575757576,
    -0.004166666666666667,
    0.003968253968253968,
    -0.008333333333333333,
    0.08333333333333333,
)
# digamma(3/2 + t) / (3/2 + t - zero) on |t| <= 1/2, likewise, error 4e-18; the zero of digamma in two parts
_DIGAMMA = (
    0.00011881232908510335, -0.0001782188548855923, 9.653646261410062e-05, -0.00014480643368061614,
    0.00032395945401345196, -0.00048595039220036254, 0.0006909255761282986, -0.0010364584817312839,
    0.0015633696313653504, -0.0023454947397380833, 0.003518106563802472, -0.005279937255532708, 0.007927021796868154,
    -0.011908220105959716, 0.017907248317313294, -0.026975796659787055, 0.040760833940846085, -0.06192213327548831,
    0.09498872445289039, -0.14840492305388092, 0.24054248424078697, -0.4236274212814606, 0.9510558760318328,
)  # fmt: skip
_DIGAMMA_ZERO = (1.4616321449683622, 9.549995429965697e-17)
_FAR = 8.0  # from where on the asymptotic series hold
_NEAR_ZERO = 1e-20  # below it gamma(x) is 1/x to all digits, and digamma(x) is -1/x

# M. J. Wichura, Algorithm AS 241: the percentage points of the normal distribution, Applied Statistics 37 (1988) 477:
# numerators and denominators near 1/2, in the tails, and far out; lowest power first
_MIDDLE = (
    (
        3.3871328727963666080,
        133.14166789178437745,
        1971.5909503065514427,
        13731.693765509461125,
        45921.953931549871457,
        67265.770927008700853,
        33430.575583588128105,
        2509.0809287301226727,
    ),
    (
        1.0,
        42.313330701600911252,
        687.18700749205790830,
        5394.1960214247511077,
        21213.794301586595867,
        39307.895800092710610,
        28729.085735721942674,
        5226.4952788528545610,
    ),
)
_TAIL = (
    (
        1.42343711074968357734,
        4.63033784615654529590,
        5.76949722146069140550,
        3.64784832476320460504,
        1.27045825245236838258,
        0.241780725177450611770,
        0.0227238449892691845833,
        7.74545014278341407640e-4,
    ),
    (
        1.0,
        2.05319162663775882187,
        1.67638483018380384940,
        0.689767334985100004550,
        0.148103976427480074590,
        0.0151986665636164571966,
        5.47593808499534494600e-4,
        1.05075007164441684324e-9,
    ),
)
_FAR_TAIL = (
    (
        6.65790464350110377720,
        5.46378491116411436990,
        1.78482653991729133580,
        0.296560571828504891230,
        0.0265321895265761230930,
        0.00124266094738807843860,
        2.71155556874348757815e-5,
        2.01033439929228813265e-7,
    ),
    (
        1.0,
        0.599832206555887937690,
        0.136929880922735805310,
        0.0148753612908506148525,
        7.86869131145613259100e-4,
        1.84631831751005468180e-5,
        1.42151175831644588870e-7,
        2.04426310338993978564e-15,
    ),
)


class SpecialFunctions:
    """Functions of `Builder` of real arguments."""

    def _in_double(self, f, what, *xs):
        if any(x.dtype.kind != "f" for x in xs):
            raise NotEmittable(what)
        return self.cast(f(*[self.cast(x, np.float64) for x in xs]), xs[0].dtype)

    def _polynomial(self, x: Value, coefficients) -> Value:
        """Highest power first."""
        out = self.const_like(coefficients[0], x)
        for c in coefficients[1:]:
            out = self.add(self.mul(out, x), self.const_like(c, x))
        return out

    # -- gamma ---------------------------------------------------------------------------------------------------------

    def gammaln(self, x: Value) -> Value:
        return self._in_double(self._gammaln, "gammaln", x)

    def _gammaln(self, x):
        c = lambda v: self.const_like(v, x)
        y = self.abs(x)
        far = self.cmp(">=", y, c(_FAR))
        z, product = self.select(far, c(2.0), y), c(1.0)
        for _ in range(6):  # down to 1.5 ... 2.5
            more = self.cmp(">=", z, c(2.5))
            z = self.select(more, self._exact("fsub", z, c(1.0)), z)
            product = self.select(more, self.mul(product, z), product)
        below, tiny = self.cmp("<", z, c(1.5)), self.cmp("<", z, c(0.5))
        up = self.select(tiny, self.mul(z, self.add(z, c(1.0))), z)
        t = self._exact("fsub", z, c(2.0))
        t = self.select(tiny, z, self.select(below, self._exact("fsub", z, c(1.0)), t))
        logarithm = self.call("log", self.select(far, y, self.select(below, up, product)))
        near = self.add(
            self.mul(t, self._polynomial(t, _LOG_GAMMA)), self.select(below, self.neg(logarithm), logarithm)
        )
        r = self.div(c(1.0), self.select(far, y, c(1.0)))
        series = self.mul(r, self._polynomial(self.mul(r, r), _STIRLING))
        # y (log y - 1) - log(y)/2: infinite, not NaN, for infinite y
        large = self.add(
            self.sub(self.mul(y, self.sub(logarithm, c(1.0))), self.mul(c(0.5), logarithm)),
            self.add(c(0.5 * math.log(2 * math.pi)), series),
        )
        large = self.select(self.cmp("==", y, c(math.inf)), y, large)
        out = self.select(far, large, near)
        # reflection, DLMF 5.5.3; sin(pi y) of what is left of the nearest integer
        rest = self._exact("fsub", y, self.call("rint", y))
        wave = self.mul(y, self.abs(self.call("sin", self.mul(c(math.pi), self.abs(rest)))))
        turned = self.sub(self.call("log", self.div(c(math.pi), wave)), out)
        turned = self.select(self.cmp("<", y, c(_NEAR_ZERO)), out, turned)  # the wave underflows
        out = self.select(self.cmp("<", x, c(0.0)), self.select(self.cmp("==", rest, c(0.0)), c(math.inf), turned), out)
        out = self.select(self.cmp("==", x, c(-math.inf)), x, out)  # as SciPy
        return self.select(self.cmp("==", x, c(0.0)), c(math.inf), out)

    def psi(self, x: Value) -> Value:
        return self._in_double(self._psi, "psi", x)

    def _psi(self, x):
        c = lambda v: self.const_like(v, x)
        y = self.abs(x)
        far = self.cmp(">=", y, c(_FAR))
        z, top, below = self.select(far, c(1.0), y), c(0.0), c(1.0)
        for _ in range(7):  # down to 1 ... 2, DLMF 5.5.2; the sum of 1/z as one quotient
            more = self.cmp(">=", z, c(2.0))
            z = self.select(more, self._exact("fsub", z, c(1.0)), z)
            top = self.select(more, self.add(self.mul(top, z), below), top)
            below = self.select(more, self.mul(below, z), below)
        small = self.cmp("<", z, c(1.0))
        top, below = self.select(small, c(-1.0), top), self.select(small, z, below)
        z = self.select(small, self.add(z, c(1.0)), z)
        distance = self._exact("fsub", self._exact("fsub", z, c(_DIGAMMA_ZERO[0])), c(_DIGAMMA_ZERO[1]))
        near = self.add(
            self.mul(distance, self._polynomial(self._exact("fsub", z, c(1.5)), _DIGAMMA)), self.div(top, below)
        )
        r = self.div(c(1.0), self.select(far, y, c(1.0)))
        square = self.mul(r, r)
        series = self.mul(square, self._polynomial(square, _ASYMPTOTIC))
        large = self.sub(self.sub(self.call("log", self.select(far, y, c(1.0))), self.mul(c(0.5), r)), series)
        out = self.select(far, large, near)
        rest = self._exact("fsub", y, self.call("rint", y))
        turned = self.add(
            self.add(out, self.div(c(1.0), y)), self.div(c(math.pi), self.call("tan", self.mul(c(math.pi), rest)))
        )
        turned = self.select(self.cmp("<", y, c(_NEAR_ZERO)), self.neg(out), turned)  # infinite terms would cancel
        pole = self.or_(self.cmp("==", rest, c(0.0)), self.cmp("==", y, c(math.inf)))
        out = self.select(self.cmp("<", x, c(0.0)), self.select(pole, c(math.nan), turned), out)
        return self.select(self.cmp("==", x, c(0.0)), self.copysign(c(math.inf), self.neg(x)), out)

    # -- inverses of error functions -----------------------------------------------------------------------------------

    def _normal_quantile(self, q, tail, twice=False):
        """The quantile from q = p - 1/2 and the smaller of p and 1 - p (or, if `twice`, twice that), both exact."""
        c = lambda v: self.const_like(v, q)

        def quotient(t, parts):
            return self.div(*[self._polynomial(t, p[::-1]) for p in parts])

        middle = self.mul(q, quotient(self.sub(c(0.180625), self.mul(q, q)), _MIDDLE))
        r = self.sqrt(self.sub(c(math.log(2) if twice else 0.0), self.call("log", tail)))
        far = self.cmp(">", r, c(5.0))
        t = self._exact("fsub", r, self.select(far, c(5.0), c(1.6)))
        outside = self.div(*[self._chosen(far, t, f, m) for f, m in zip(_FAR_TAIL, _TAIL, strict=True)])
        outside = self.select(
            self.cmp("==", tail, c(0.0)), c(math.inf), self.select(self.cmp("<", tail, c(0.0)), c(math.nan), outside)
        )
        return self.select(self.cmp("<=", self.abs(q), c(0.425)), middle, self.copysign(outside, q))

    def _chosen(self, condition, t, first, second):
        """The polynomial with the coefficients `first` where the condition holds, else `second`."""
        out = None
        for a, b in zip(first[::-1], second[::-1], strict=True):
            coefficient = self.select(condition, self.const_like(a, t), self.const_like(b, t))
            out = coefficient if out is None else self.add(self.mul(out, t), coefficient)
        return out

    def ndtri(self, p: Value) -> Value:
        def quantile(p):
            half = self.const_like(0.5, p)
            low = self.cmp("<", p, half)
            tail = self.select(low, p, self._exact("fsub", self.const_like(1.0, p), p))
            return self._normal_quantile(self._exact("fsub", p, half), tail)

        return self._in_double(quantile, "ndtri", p)

    def erfinv(self, x: Value) -> Value:
        def inverse(x):
            half, one = self.const_like(0.5, x), self.const_like(1.0, x)
            tail = self.mul(half, self._exact("fsub", one, self.abs(x)))
            y = self._normal_quantile(self.mul(half, x), tail)
            return self._zero_stays(x, self.mul(y, self.const_like(math.sqrt(0.5), x)))

        return self._in_double(inverse, "erfinv", x)

    def erfcinv(self, x: Value) -> Value:
        def inverse(x):
            half, one = self.const_like(0.5, x), self.const_like(1.0, x)
            q = self._exact("fsub", one, x)
            # half of the smallest number would be 0
            tail = self.select(self.cmp("<", x, one), x, self._exact("fsub", self.const_like(2.0, x), x))
            return self.mul(
                self._normal_quantile(self.mul(half, q), tail, twice=True), self.const_like(math.sqrt(0.5), x)
            )

        return self._in_double(inverse, "erfcinv", x)
