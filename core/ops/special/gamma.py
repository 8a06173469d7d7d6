"""Gamma and beta functions, their logarithms, derivatives and incomplete forms; zeta, exponential integrals, Lambert's
W.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from ...check import integer
from ...errors import MissingRuleError
from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...graph.trace import bind
from ..define import as_value, batch_elementwise, elementwise, ufunc_loop
from .basic import xlog1py, xlogy
from .define import POSITIVE, UNIT, no_derivative, scipy_special, special, where_zero

__all__ = [
    "beta",
    "betainc",
    "betaincinv",
    "betaln",
    "binom",
    "comb",
    "digamma",
    "ellipe",
    "ellipk",
    "exp1",
    "expi",
    "factorial",
    "gamma",
    "gammainc",
    "gammaincc",
    "gammainccinv",
    "gammaincinv",
    "gammaln",
    "gammasgn",
    "lambertw",
    "loggamma",
    "multigammaln",
    "poch",
    "polygamma",
    "rgamma",
    "spence",
    "zeta",
]

# -- gamma -------------------------------------------------------------------------------------------------------------

gammaln = special("gammaln", (lambda out, x: digamma(x),), domain=(POSITIVE,), emit="gammaln", flops=130)
loggamma = special("loggamma", (lambda out, x: digamma(x),), domain=(POSITIVE,))
gamma = special("gamma", (lambda out, x: out * digamma(x),), domain=(POSITIVE,))
rgamma = special("rgamma", (lambda out, x: -out * digamma(x),), domain=(POSITIVE,))
gammasgn = special("gammasgn", (None,), domain=(POSITIVE,))
digamma: Callable = special(
    "psi", (lambda out, x: _trigamma(x),), domain=(POSITIVE,), also=("digamma",), emit="psi", flops=130
)


def _trigamma(x):
    if np.iscomplexobj(x):
        raise MissingRuleError("psi: no derivative at complex arguments (SciPy has no complex zeta function)")
    return hurwitz(2.0, x)


hurwitz: Callable = special(
    "zeta",
    (no_derivative("zeta", "x"), lambda out, s, q: -s * hurwitz(s + 1, q)),
    domain=((1.5, 4.0), POSITIVE),
    like="beta",
)
poch = special(
    "poch",
    (lambda out, a, n: out * (digamma(a + n) - digamma(a)), lambda out, a, n: out * digamma(a + n)),
    domain=(POSITIVE, POSITIVE),
)


def zeta(x, q=1.0):
    """Hurwitz's zeta function, as ``scipy.special.zeta``; differentiable in `q`."""
    return hurwitz(x, q)


def polygamma(n, x):
    """The `n`-th derivative of digamma, as ``scipy.special.polygamma``, for one fixed integer `n`."""
    n = integer(n, "polygamma: n", 0)
    return digamma(x) if n == 0 else (-1.0) ** (n + 1) * math.factorial(n) * hurwitz(n + 1.0, x)


def multigammaln(a, d):
    """Logarithm of the multivariate gamma function, as ``scipy.special.multigammaln``, for one fixed integer `d`."""
    d = integer(d, "multigammaln: d", 1)
    shifts = -0.5 * np.arange(d)
    a = as_value(a)
    return d * (d - 1) * 0.25 * math.log(math.pi) + np.sum(gammaln(np.expand_dims(a, -1) + shifts), axis=-1)


# -- beta --------------------------------------------------------------------------------------------------------------

beta = special(
    "beta",
    (lambda out, a, b: out * (digamma(a) - digamma(a + b)), lambda out, a, b: out * (digamma(b) - digamma(a + b))),
    domain=(POSITIVE, POSITIVE),
)
betaln = special(
    "betaln",
    (lambda out, a, b: digamma(a) - digamma(a + b), lambda out, a, b: digamma(b) - digamma(a + b)),
    domain=(POSITIVE, POSITIVE),
)
binom = special(
    "binom",
    (
        lambda out, n, k: out * (digamma(n + 1) - digamma(n - k + 1)),
        lambda out, n, k: out * (digamma(n - k + 1) - digamma(k + 1)),
    ),
    domain=((3.0, 6.0), (0.5, 2.5)),
)


def comb(N, k):
    """Binomial coefficients, as ``scipy.special.comb`` of floating-point numbers."""
    return binom(N, k)


def factorial(n):
    """``gamma(n + 1)``, as ``scipy.special.factorial`` of floating-point numbers."""
    return gamma(as_value(n) + 1.0)


# -- incomplete forms --------------------------------------------------------------------------------------------------


def _gamma_density(a, x):
    return np.exp(xlogy(a - 1, x) - x - gammaln(a))


def _beta_density(a, b, x):
    return np.exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))


@cache
def _kernels():
    return scipy_special("gammaln"), scipy_special("psi"), scipy_special("gammainc")


def _gammainc_da(a, x):
    """d/da of P(a, x) = sum over n of x^(a+n) e^-x / Γ(a+n+1) (DLMF 8.7.1), term by term."""
    gammaln, psi, _ = _kernels()
    dtype = np.result_type(a, x, np.float32)
    a, x = np.broadcast_arrays(np.asarray(a, float), np.asarray(x, float))
    total = np.zeros(a.shape)
    inside = (x > 0) & np.isfinite(x) & (a > 0)
    a, x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    log_x = np.log(x)
    term = np.exp(a * log_x - x - gammaln(a + 1))
    slope = log_x - psi(a + 1)
    # terms grow up to n near x - a and then fall faster than geometrically
    for n in range(1, int(np.max(x, initial=0.0) + 12 * math.sqrt(np.max(x, initial=0.0)) + 60)):
        total += term * slope
        term = term * (x / (a + n))
        slope = slope - 1 / (a + n)
    return np.where(inside, total, np.where(np.isnan(x), x, 0.0)).astype(dtype)[()]


gammainc_da = elementwise(
    "gammainc_da",
    impl=_gammainc_da,
    loop=lambda *specs: ufunc_loop(scipy_special("beta"))(*specs),
    d=(
        no_derivative("gammainc", "a, of second order,"),
        lambda out, a, x: _gamma_density(a, x) * (np.log(x) - digamma(a)),
    ),
    domain=(POSITIVE, POSITIVE),
    flops=500,
    doc="Derivative of the incomplete gamma function P(a, x) in `a`.",
)

gammainc = special(
    "gammainc",
    (lambda out, a, x: gammainc_da(a, x), lambda out, a, x: _gamma_density(a, x)),
    domain=(POSITIVE, POSITIVE),
)
gammaincc = special(
    "gammaincc",
    (lambda out, a, x: -gammainc_da(a, x), lambda out, a, x: -_gamma_density(a, x)),
    domain=(POSITIVE, POSITIVE),
)
gammaincinv = special(
    "gammaincinv",
    (lambda out, a, y: -gammainc_da(a, out) / _gamma_density(a, out), lambda out, a, y: 1 / _gamma_density(a, out)),
    domain=(POSITIVE, UNIT),
)
gammainccinv = special(
    "gammainccinv",
    (lambda out, a, y: -gammainc_da(a, out) / _gamma_density(a, out), lambda out, a, y: -1 / _gamma_density(a, out)),
    domain=(POSITIVE, UNIT),
)
betainc = special(
    "betainc",
    (no_derivative("betainc", "a"), no_derivative("betainc", "b"), lambda out, a, b, x: _beta_density(a, b, x)),
    domain=(POSITIVE, POSITIVE, UNIT),
)
betaincinv = special(
    "betaincinv",
    (
        no_derivative("betaincinv", "a"),
        no_derivative("betaincinv", "b"),
        lambda out, a, b, y: 1 / _beta_density(a, b, out),
    ),
    domain=(POSITIVE, POSITIVE, UNIT),
)

# -- exponential integrals, dilogarithm
# -------------------------------------------------------------------------------------

expi = special("expi", (lambda out, x: np.exp(x) / x,), domain=(POSITIVE,))
exp1 = special("exp1", (lambda out, x: -np.exp(-x) / x,), domain=(POSITIVE,))


def _spence_slope(x):
    one = np.equal(x, 1)
    return np.where(one, -1, np.log(np.where(one, 2, x)) / (1 - np.where(one, 2, x)))


spence = special("spence", (lambda out, x: _spence_slope(x),), domain=((0.2, 0.8),))

# -- Lambert's W -------------------------------------------------------------------------------------------------------


def _complex_of(dtype):
    return np.result_type(dtype, np.complex128)


lambertw_p = Primitive(
    "lambertw",
    lambda z, *, k: np.asarray(scipy_special("lambertw")(z, k))[()],
    lambda z, *, k: Spec(z.shape, _complex_of(z.dtype)),
    kind="elementwise",
    flops=100,
    samples=lambda rng: [((rng.uniform(0.2, 3, 4),), {"k": 0})],
)
lambertw_p.loop = lambda z, **_: (_complex_of(z.dtype),) * 2
lambertw_p.defvjp(lambda ct, out, z, *, k: ct * (np.exp(-out) / (1 + out)))
lambertw_p.defjvp(lambda t, out, z, *, k: t * (np.exp(-out) / (1 + out)))
lambertw_p.defbatch(lambda args, axes, size, **params: batch_elementwise(lambertw_p, args, axes, params))


def lambertw(z, k=0):
    """Branch `k` of Lambert's W (complex), as ``scipy.special.lambertw``."""
    return bind(lambertw_p, as_value(z), k=int(k))


# -- complete elliptic integrals
# --------------------------------------------------------------------------------------------


def _series_of_d(terms):
    """Coefficients of D(m) = (K(m) - E(m))/m in powers of m (DLMF 19.5.1, 19.5.2)."""
    c, out = 1.0, []
    for n in range(1, terms + 1):
        c *= ((2 * n - 1) / (2 * n)) ** 2
        out.append(math.pi / 2 * c * 2 * n / (2 * n - 1))
    return out


_D = _series_of_d(16)


def _elliptic_d(m):
    """D(m): a series near 0, where the quotient loses its digits."""
    small = np.abs(m) < 0.05
    series = _D[-1]
    for c in _D[-2::-1]:
        series = series * m + c
    away = np.where(small, 0.5, m)
    return np.where(small, series, (ellipk(away) - ellipe(away)) / away)


ellipk = special(
    "ellipk", (lambda out, m: (out - _elliptic_d(m)) / (2 * where_zero(np.equal(m, 1), 1 - m)),), domain=((-0.9, 0.9),)
)
ellipe = special("ellipe", (lambda out, m: -0.5 * _elliptic_d(m),), domain=((-0.9, 0.9),))
