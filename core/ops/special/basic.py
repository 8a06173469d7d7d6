"""scipy.special: error functions, logistic functions, entropies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from ...graph.graph import spec_of
from ...tensor import implements
from ..define import as_value, named, ufunc_loop
from .define import INNER, LINE, POSITIVE, UNIT, scipy_special, special, where_zero

__all__ = [
    "cosm1",
    "dawsn",
    "entr",
    "erf",
    "erfc",
    "erfcinv",
    "erfcx",
    "erfi",
    "erfinv",
    "exp10",
    "expit",
    "huber",
    "kl_div",
    "log_expit",
    "log_ndtr",
    "logit",
    "ndtr",
    "ndtri",
    "pseudo_huber",
    "rel_entr",
    "wofz",
    "xlog1py",
    "xlogy",
]

_ROOT_PI = math.sqrt(math.pi)
_ROOT_2PI = math.sqrt(2 * math.pi)


def _c(b, value, x):
    return b.const_like(value, x)


# -- error functions ---------------------------------------------------------------------------------------------------

erf = special("erf", (lambda out, x: 2 / _ROOT_PI * np.exp(-x * x),), domain=(LINE,), emit="erf", flops=30)
erfc = special("erfc", (lambda out, x: -2 / _ROOT_PI * np.exp(-x * x),), domain=(LINE,), emit="erfc", flops=40)
erfcx = special("erfcx", (lambda out, x: 2 * x * out - 2 / _ROOT_PI,), domain=(LINE,))
erfi = special("erfi", (lambda out, x: 2 / _ROOT_PI * np.exp(x * x),), domain=(LINE,))
erfinv = special("erfinv", (lambda out, x: _ROOT_PI / 2 * np.exp(out * out),), domain=(INNER,), emit="erfinv", flops=70)
erfcinv = special(
    "erfcinv", (lambda out, x: -_ROOT_PI / 2 * np.exp(out * out),), domain=((0.2, 1.8),), emit="erfcinv", flops=70
)
dawsn = special("dawsn", (lambda out, x: 1 - 2 * x * out,), domain=(LINE,))
wofz = special("wofz", (lambda out, x: 2j / _ROOT_PI - 2 * x * out,), domain=(LINE,))
ndtr = special(
    "ndtr",
    (lambda out, x: np.exp(-x * x / 2) / _ROOT_2PI,),
    domain=(LINE,),
    flops=40,
    emit=lambda b, x: b.mul(b.call("erfc", b.mul(x, _c(b, -math.sqrt(0.5), x))), _c(b, 0.5, x)),
)
ndtri = special("ndtri", (lambda out, x: _ROOT_2PI * np.exp(out * out / 2),), domain=(UNIT,), emit="ndtri", flops=70)
log_ndtr = special("log_ndtr", (lambda out, x: np.exp(-x * x / 2 - out) / _ROOT_2PI,), domain=(LINE,))

# -- logistic functions
# ---------------------------------------------------------------------------------------------------


def _emit_log_expit(b, x):
    # min(x, 0) - log1p(exp(-|x|)): no overflow on either side
    zero = _c(b, 0.0, x)
    return b.sub(b.min(x, zero), b.call("log1p", b.call("exp", b.neg(b.abs(x)))))


def _emit_logit(b, x):
    # near 1/2 the quotient is near 1, and its logarithm would lose digits
    twice = b.sub(b.add(x, x), _c(b, 1.0, x))
    near = b.cmp("<", b.abs(twice), _c(b, 0.4, x))
    close = b.call("atanh", twice)
    return b.select(near, b.add(close, close), b.call("log", b.div(x, b.sub(_c(b, 1.0, x), x))))


expit: Callable = special("expit", (lambda out, x: out * expit(-x),), domain=(LINE,), emit="sigmoid", flops=20)
logit = special("logit", (lambda out, x: np.divide(1, x * (1 - x)),), domain=(UNIT,), emit=_emit_logit, flops=60)
log_expit = special("log_expit", (lambda out, x: expit(-x),), domain=(LINE,), emit=_emit_log_expit, flops=45)

# -- x log y and entropies
# ------------------------------------------------------------------------------------------------


def _zero_or(b, x, value):
    return b.select(b.cmp("==", x, _c(b, 0.0, x)), _c(b, 0.0, x), value)


# where x is 0 the product is 0 whatever y is, and so is its derivative in y; at x = y = 0 that in x is taken as 0 too
xlogy = special(
    "xlogy",
    (
        lambda out, x, y: np.log(where_zero(np.equal(x, 0) & np.equal(y, 0), y)),
        lambda out, x, y: np.where(np.equal(x, 0), 0, x / where_zero(np.equal(x, 0), y)),
    ),
    domain=(LINE, POSITIVE),
    emit=lambda b, x, y: b.select(b.cmp("==", y, y), _zero_or(b, x, b.mul(x, b.call("log", y))), y),
    flops=25,
)
xlog1py = special(
    "xlog1py",
    (
        lambda out, x, y: np.log1p(np.where(np.equal(x, 0) & np.equal(y, -1), 0, y)),
        lambda out, x, y: np.where(np.equal(x, 0), 0, x / where_zero(np.equal(x, 0), 1 + y)),
    ),
    domain=(LINE, (-0.5, 3.0)),
    emit=lambda b, x, y: b.select(b.cmp("==", y, y), _zero_or(b, x, b.mul(x, b.call("log1p", y))), y),
    flops=25,
)


def _emit_entr(b, x):
    zero, infinity = _c(b, 0.0, x), _c(b, math.inf, x)
    value = b.neg(b.mul(x, b.call("log", x)))  # NaN for NaN and for negative x
    return b.select(b.cmp("==", x, zero), zero, b.select(b.cmp("<", x, zero), b.neg(infinity), value))


def _emit_divergence(b, x, y, kl):
    """x log(x/y) (- x + y), infinite outside x >= 0, y > 0."""
    zero, infinity = _c(b, 0.0, x), _c(b, math.inf, x)
    excess = b.div(b.sub(x, y), y)  # near 1 the quotient's logarithm would lose digits
    near = b.cmp("<", b.abs(excess), _c(b, 0.5, x))
    ratio = b.div(x, y)
    fits = b.and_(b.cmp(">", ratio, _c(b, 1e-37, x)), b.cmp("<", ratio, infinity))  # neither over- nor underflow
    far = b.sub(b.call("log", b.select(fits, ratio, x)), b.select(fits, zero, b.call("log", y)))
    value = b.mul(x, b.select(near, b.call("log1p", excess), far))
    value = b.add(b.sub(value, x), y) if kl else value
    nan = b.or_(b.cmp("!=", x, x), b.cmp("!=", y, y))
    inside = b.or_(b.and_(b.cmp(">", x, zero), b.cmp(">", y, zero)), nan)
    empty = b.and_(b.cmp("==", x, zero), b.cmp(">=", y, zero))
    return b.select(empty, y if kl else zero, b.select(inside, value, infinity))


entr = special("entr", (lambda out, x: -np.log(x) - 1,), domain=(POSITIVE,), emit=_emit_entr, flops=25)
rel_entr = special(
    "rel_entr",
    (lambda out, x, y: np.log(np.divide(x, y)) + 1, lambda out, x, y: -np.divide(x, y)),
    domain=(POSITIVE, POSITIVE),
    emit=lambda b, x, y: _emit_divergence(b, x, y, False),
    flops=25,
)
kl_div = special(
    "kl_div",
    (lambda out, x, y: np.log(np.divide(x, y)), lambda out, x, y: 1 - np.divide(x, y)),
    domain=(POSITIVE, POSITIVE),
    emit=lambda b, x, y: _emit_divergence(b, x, y, True),
    flops=25,
)


def _emit_huber(b, d, r):
    size = b.abs(r)
    inside = b.mul(b.mul(_c(b, 0.5, r), r), r)  # r^2 may overflow
    value = b.select(b.cmp("<=", size, d), inside, b.mul(d, b.sub(size, b.mul(_c(b, 0.5, d), d))))
    return b.select(b.cmp("<", d, _c(b, 0.0, d)), _c(b, math.inf, d), value)


def _emit_pseudo_huber(b, d, r):
    zero, one, v = _c(b, 0.0, d), _c(b, 1.0, d), b.div(r, d)
    # sqrt(1 + v^2) - 1 = v slope without cancellation. From 1e18 on 1 is nothing beside v^2, which may overflow; below
    # 1e-9 v^2 is nothing beside 1, and v may underflow.
    slope = b.div(v, b.add(one, b.sqrt(b.add(one, b.mul(v, v)))))
    slope = b.select(b.cmp(">", b.abs(v), _c(b, 1e18, d)), b.copysign(one, v), slope)
    square = b.mul(b.mul(_c(b, 0.5, r), r), r)
    value = b.select(b.cmp("<", b.abs(v), _c(b, 1e-9, d)), square, b.mul(d, b.mul(r, slope)))
    none = b.or_(b.cmp("==", d, zero), b.cmp("==", r, zero))
    return b.select(b.cmp("<", d, zero), _c(b, math.inf, d), b.select(none, zero, value))


def _emit_cosm1(b, x):
    s = b.call("sin", b.mul(x, _c(b, 0.5, x)))
    return b.mul(_c(b, -2.0, x), b.mul(s, s))


huber = special(
    "huber",
    (lambda out, d, r: np.maximum(np.abs(r) - d, 0), lambda out, d, r: np.clip(r, -d, d)),
    domain=(UNIT, (1.2, 3.0)),
    emit=_emit_huber,
)


pseudo_huber = special(
    "pseudo_huber",
    (lambda out, d, r: 2 * out / d - r * (r / np.hypot(d, r)), lambda out, d, r: d * (r / np.hypot(d, r))),
    domain=(UNIT, LINE),
    emit=_emit_pseudo_huber,
)

# -- SciPy's own names of NumPy's functions
# -------------------------------------------------------------------------------


def _scipy_name(name):
    def function(x):
        # SciPy's loops are of float32 and float64: what NumPy computes in a shorter dtype is float64 here
        x = as_value(x)
        return getattr(np, name)(x.astype(ufunc_loop(scipy_special(name))(spec_of(x))[0]))

    return implements(f"scipy.special.{name}")(named(function, name, f"``scipy.special.{name}``."))


cbrt, exp2, expm1, log1p = map(_scipy_name, ("cbrt", "exp2", "expm1", "log1p"))
exp10 = special(
    "exp10", (lambda out, x: math.log(10) * out,), domain=(LINE,), emit=lambda b, x: b.call("pow", _c(b, 10.0, x), x)
)
cosm1 = special("cosm1", (lambda out, x: -np.sin(x),), domain=(LINE,), emit=_emit_cosm1)
