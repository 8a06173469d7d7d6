"""Gamma numbers and what is made of them (beta, Dirichlet), with derivatives in the shape parameter; Poisson numbers.

The derivative of a gamma number x with respect to its parameter is that of the quantile function at a fixed
probability, ``dx/da = -(dF/da) / p(x)``, whichever way the number was drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..ops.define import as_value
from ..transforms.checkpoint import stop_gradient
from .keys import KEY, as_shape, batch_keys, checked_key, float_dtype, split

__all__ = ["beta", "dirichlet", "gamma", "loggamma", "poisson"]

Shape = int | Sequence[int]
_NODES = 80
_SPAN = 42.0  # the integrand is below exp(-42) beyond


def _fill(name, key, parameter, shape, out_dtype):
    """Numbers of every key of a batch; the parameter has the shape of the numbers, or () in each example."""
    from . import numba as draws

    fill = getattr(draws, name)
    keys, parameter = np.asarray(key), np.asarray(parameter, np.float64)
    batch = keys.shape[:-1]
    out = np.empty((math.prod(batch), math.prod(shape)), out_dtype)
    rows = np.broadcast_to(parameter, batch + shape).reshape(out.shape)
    for row, (k0, k1), p in zip(out, keys.reshape(-1, 2), rows, strict=True):
        fill(k0, k1, np.ascontiguousarray(p), row)
    return out.reshape(batch + shape)


loggamma_p = Primitive(
    "random_loggamma",
    lambda key, a, *, shape, dtype: _fill("fill_loggamma", key, a, shape, np.float64).astype(dtype)[()],
    lambda key, a, *, shape, dtype: Spec(key.shape[:-1] + shape, dtype),
    flops=100,
    samples=lambda rng: [
        ((np.array([3, 4], KEY), rng.uniform(0.5, 3, (2, 3))), {"shape": (2, 3), "dtype": np.dtype(float)})
    ],
)
loggamma_p.defvjp(None, lambda ct, out, key, a, *, shape, dtype: ct * _slope(out, a))
loggamma_p.defjvp(None, lambda t, out, key, a, *, shape, dtype: t * _slope(out, a))
batch_keys(loggamma_p)


@cache
def _quadrature():
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return (nodes + 1) / 2, weights / 2


def _slope(log_x, a):
    """d(log x)/da at fixed probability.

    With t = x exp(-v) below x, or x exp(v) above it (the two integrals of dp/da add up to zero),
    ``-(1/x p(x)) int_0^x dp/da dt = -int exp(phi(v)) (log t - digamma(a)) dv``, phi(v) = -a v + x (1 - exp(-v)). The
    side is taken on which phi falls from the start; the integral is cut where the integrand is negligible and done by
    Gauss's rule.
    """
    from scipy.special import digamma

    dtype = np.result_type(log_x)
    log_x, a = log_x.astype(np.float64), a.astype(np.float64)
    x = np.exp(log_x)
    side = np.where(np.less(x, a), -1.0, 1.0)
    span = stop_gradient(_cut(stop_gradient(x), stop_gradient(a), stop_gradient(side)))
    nodes, weights = _quadrature()
    wide = (*np.shape(x), 1)
    v = np.reshape(span, wide) * nodes
    s, x1, a1 = np.reshape(side, wide), np.reshape(x, wide), np.reshape(a, wide)
    phi = a1 * s * v - x1 * np.expm1(s * v)
    inner = np.exp(phi) * (np.reshape(log_x, wide) + s * v - np.reshape(digamma(a), wide))
    slope = side * np.sum(inner * weights, axis=-1) * span
    return slope.astype(dtype)


def _cut(x, a, side):
    """Return an upper bound of the point where phi has fallen by `_SPAN`."""
    rate = np.abs(x - a) + 1e-300
    linear = _SPAN / rate
    curved = np.sqrt(2 * _SPAN / np.maximum(x, 1e-300))
    # above x, phi = a v - x expm1(v) <= -|a - x| v - x v**2 / 2, and in the end the exponential decides
    above = np.minimum(linear, curved)
    above = np.minimum(above, np.log1p((_SPAN + a * above) / np.maximum(x, 1e-300)))
    # below, phi = -a v - x expm1(-v): at most -(a - x) v, and once exp(-v) is small, x - a v
    below = np.minimum(linear, np.maximum(1.0, (_SPAN + x) / a))
    near = 2.0 * curved  # quadratic while v is small
    below = np.where(np.less(near, 0.7), np.minimum(below, near), below)
    return np.where(np.greater(side, 0), above, below)


def loggamma(key: Any, alpha: Any, shape: Shape | None = None, dtype: Any = np.float64) -> Any:
    """Logarithms of gamma numbers; they do not underflow for small `alpha`. Parameters as for `gamma`.

    Parameters
    ----------
    key : key
    alpha : float or array
        Shape of the distribution, > 0.
    shape : int or tuple of int, optional
        Defaults to the shape of `alpha`.
    dtype : float dtype, default float64

    Examples
    --------
    >>> from triskele.core import random
    >>> random.loggamma(random.key(0), 2.0, 2)
    array([0.58018265, 1.36494305])
    """
    checked_key(key, "loggamma")
    shape = np.shape(alpha) if shape is None else as_shape(shape, "loggamma")
    alpha = np.broadcast_to(_positive(alpha, "loggamma", "alpha"), shape)
    return bind(loggamma_p, key, alpha, shape=shape, dtype=float_dtype(dtype, "loggamma"))


def _positive(x, where, name):
    x = as_value(x)
    if isinstance(x, (int, float, np.ndarray, np.generic)) and not np.all(np.greater(x, 0)):
        raise ValueError(f"random.{where}: {name} must be > 0, got {np.min(x)}")
    return x if not isinstance(x, (int, float)) else np.float64(x)


def gamma(key: Any, alpha: Any, shape: Shape | None = None, dtype: Any = np.float64) -> Any:
    """Gamma numbers of density ``x**(alpha - 1) exp(-x) / Gamma(alpha)``; multiply for a scale.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    alpha : array_like, > 0
        Differentiable: see the module. Wrong values give an error, or NaN where they are traced.
    shape : int or sequence of int, optional
        Default: that of `alpha`, which is broadcast to it.
    dtype : {float64, float32}

    Raises
    ------
    ValueError
        If `alpha` is not positive (checked unless it is traced) or does not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.gamma(random.key(0), 2.0, 2)
    array([1.78636468, 3.91550007])
    """
    return np.exp(loggamma(key, alpha, shape, dtype))


def beta(key: Any, a: Any, b: Any, shape: Shape | None = None, dtype: Any = np.float64) -> Any:
    """Beta numbers of density proportional to ``x**(a - 1) (1 - x)**(b - 1)``; differentiable in `a` and `b`.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    a, b : array_like, > 0
    shape : int or sequence of int, optional
    dtype : {float64, float32}

    Raises
    ------
    ValueError
        Under the same conditions as for `gamma`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.beta(random.key(0), 2.0, 3.0, 2)
    array([0.50672594, 0.30882699])
    """
    checked_key(key, "beta")
    shape = np.broadcast_shapes(np.shape(a), np.shape(b)) if shape is None else shape
    keys = split(key)
    difference = loggamma(keys[0], a, shape, dtype) - loggamma(keys[1], b, shape, dtype)
    return np.exp(-np.logaddexp(0.0, -difference))


def dirichlet(key: Any, alpha: Any, shape: Shape | None = None, dtype: Any = np.float64) -> Any:
    """Dirichlet vectors: positive, of sum 1 along the last axis; differentiable in `alpha`.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    alpha : array_like, [..., n], > 0
    shape : int or sequence of int, optional
        Shape of the result without the last axis; default: that of `alpha`.
    dtype : {float64, float32}

    Raises
    ------
    ValueError
        As for `gamma`, or if `alpha` has no axis.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> random.dirichlet(random.key(0), np.ones(3))
    array([0.12662893, 0.39941253, 0.47395853])
    """
    checked_key(key, "dirichlet")
    if np.ndim(alpha) == 0:
        raise ValueError("random.dirichlet: alpha must have an axis, got shape ()")
    batch = np.shape(alpha)[:-1] if shape is None else as_shape(shape, "dirichlet")
    g = loggamma(key, alpha, (*batch, np.shape(alpha)[-1]), dtype)
    g = np.exp(g - stop_gradient(np.max(g, axis=-1, keepdims=True)))
    return g / np.sum(g, axis=-1, keepdims=True)


poisson_p = Primitive(
    "random_poisson",
    lambda key, rate, *, shape, dtype: _fill("fill_poisson", key, rate, shape, np.int64).astype(dtype)[()],
    lambda key, rate, *, shape, dtype: Spec(key.shape[:-1] + shape, dtype),
    flops=100,
    differentiable=False,
    samples=lambda rng: [
        ((np.array([3, 4], KEY), rng.uniform(0.5, 30, (2, 3))), {"shape": (2, 3), "dtype": np.dtype(np.int64)})
    ],
)
batch_keys(poisson_p)


def poisson(key: Any, rate: Any, shape: Shape | None = None, dtype: Any = np.int64) -> Any:
    """Poisson numbers of mean `rate`.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    rate : array_like, in [0, 1e18]
        Wrong values give an error, or -1 where they are traced. Not differentiable.
    shape : int or sequence of int, optional
        Default: that of `rate`, which is broadcast to it.
    dtype : dtype
        A signed integer dtype.

    Raises
    ------
    TypeError
        If `dtype` is not a signed integer type.
    ValueError
        If `rate` is out of range (checked unless it is traced) or does not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.poisson(random.key(0), 4.0, 5)
    array([7, 6, 4, 3, 8])
    """
    checked_key(key, "poisson")
    dtype = np.dtype(dtype)
    if dtype.kind != "i":
        raise TypeError(f"random.poisson: dtype must be a signed integer type, got {dtype}")
    shape = np.shape(rate) if shape is None else as_shape(shape, "poisson")
    rate = as_value(rate)
    if isinstance(rate, (int, float, np.ndarray, np.generic)):
        if not np.all(np.greater_equal(rate, 0) & np.less_equal(rate, 1e18)):
            raise ValueError(f"random.poisson: rate must be in [0, 1e18], got {np.min(rate)} to {np.max(rate)}")
        rate = np.asarray(rate, np.float64)
    return bind(poisson_p, key, np.broadcast_to(rate, shape), shape=shape, dtype=dtype)
