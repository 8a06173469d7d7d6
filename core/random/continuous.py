"""Continuous distributions: standard numbers from bits, then location and scale by arithmetic, which is differentiated."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.graph.graph import Spec
from triskele.core.graph.primitive import Primitive
from triskele.core.graph.trace import bind
from triskele.core.kernels import philox
from triskele.core.random import inline
from triskele.core.random.keys import INLINE, KEY, as_shape, batch_keys, bits, checked_key, each_key, float_dtype

Shape = int | Sequence[int]


def _standard_uniform(key, shape, dtype):
    """Multiples of 2**-53 (float64) or 2**-24 (float32) in [0, 1), as `kernels.philox.uniform`."""
    if dtype == np.float32:
        return (bits(key, shape, np.uint32) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return (bits(key, shape, np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def uniform(key: Any, shape: Shape = (), dtype: Any = np.float64, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Numbers in [low, high), of full resolution: multiples of 2**-53 (float64) or 2**-24 (float32) of the interval.

    Parameters
    ----------
    key : array of uint32, [2]
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    low, high : array_like
        Broadcast against `shape`; differentiable.
    """
    checked_key(key, "uniform")
    u = _standard_uniform(key, as_shape(shape, "uniform"), float_dtype(dtype, "uniform"))
    if type(low) in (int, float) and type(high) in (int, float):
        return u if low == 0 and high == 1 else u * (high - low) + low
    return u * (high - low) + low


# -- normal -------------------------------------------------------------------------------------------------------------------


def _normal(keys, *, shape, dtype):
    return each_key(np.asarray(keys), shape, dtype, lambda k: philox.normal(k, 0, math.prod(shape), dtype))[()]


def _normal_pull(b, index, loads, in_specs, out_spec, *, shape, dtype):
    n = len(index) - len(shape)
    at = inline.linear(b, index[n:], shape)
    key = inline.load_key(b, loads[0], index[:n])
    if dtype == np.float32:
        words = inline.stream_block(b, b.shift_right(at, inline.constant(b, 2)), key)
        second = b.cmp("!=", b.and_(at, inline.constant(b, 2)), inline.constant(b, 0))
        w0, w1 = b.select(second, words[2], words[0]), b.select(second, words[3], words[1])
        u = b.add(b.mul(b.cast(w0, dtype), b.const(2.0**-32, dtype)), b.const(2.0**-33, dtype))
        angle = b.mul(b.cast(b.cast(b.cast(w1, np.uint32), np.int32), dtype), b.const(float(np.float32(np.pi * 2.0**-31)), dtype))
    else:
        words = inline.stream_block(b, b.shift_right(at, inline.constant(b, 1)), key)
        k = b.add(b.shift_right(inline.join(b, *words[:2]), inline.constant(b, 11)), inline.constant(b, 1))
        u = b.mul(b.cast(b.cast(k, np.int64), dtype), b.const(2.0**-53, dtype))
        v = b.shift_right(b.cast(inline.join(b, *words[2:]), np.int64), b.const(11, np.dtype(np.int64)))
        angle = b.mul(b.cast(v, dtype), b.const(np.pi * 2.0**-52, dtype))
    radius = b.sqrt(b.mul(b.call("log", u), b.const(-2.0, dtype)))
    odd = b.cmp("!=", b.and_(at, inline.constant(b, 1)), inline.constant(b, 0))
    return b.mul(radius, b.select(odd, b.call("sin", angle), b.call("cos", angle)))


def _normal_spec(k, *, shape, dtype):
    return Spec(k.shape[:-1] + shape, dtype)


def _samples(rng):
    return [((np.array([3, 4], KEY),), {"shape": (3, 2), "dtype": np.dtype(t)}) for t in ("float32", "float64")]


normal_p = Primitive("random_normal", _normal, _normal_spec, differentiable=False, flops=40, samples=_samples)
inline_normal_p = Primitive("random_normal_inline", _normal, _normal_spec, kind="pull", pull=_normal_pull, differentiable=False, flops=120, samples=_samples)
batch_keys(normal_p)
batch_keys(inline_normal_p)


def normal(key: Any, shape: Shape = (), dtype: Any = np.float64, mean: Any = 0.0, std: Any = 1.0) -> Any:
    """Normal numbers, by Box and Muller's method in the precision of `dtype`.

    Parameters
    ----------
    key : array of uint32, [2]
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    mean, std : array_like
        Broadcast against `shape`; differentiable.
    """
    checked_key(key, "normal")
    shape = as_shape(shape, "normal")
    z = bind(inline_normal_p if math.prod(shape) <= INLINE else normal_p, key, shape=shape, dtype=float_dtype(dtype, "normal"))
    if type(mean) in (int, float) and type(std) in (int, float):
        return z if mean == 0 and std == 1 else z * std + mean
    return z * std + mean


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Shape = (), dtype: Any = np.float64) -> Any:
    """Standard normal numbers within [lower, upper], by inversion of the distribution function.

    Parameters
    ----------
    key : array of uint32, [2]
        Used up.
    lower, upper : array_like
        Broadcast against `shape`; differentiable.
    shape : int or sequence of int
    dtype : {float64, float32}
    """
    from scipy.special import ndtr, ndtri

    checked_key(key, "truncated_normal")
    dtype = float_dtype(dtype, "truncated_normal")
    u = _standard_uniform(key, as_shape(shape, "truncated_normal"), np.dtype(np.float64))
    # far above zero the distribution function is 1 to all digits: work with the mirror image there
    flip = np.greater(lower, 0)
    a, b = np.where(flip, np.negative(upper), lower), np.where(flip, np.negative(lower), upper)
    pa, pb = ndtr(a), ndtr(b)
    x = np.clip(ndtri(pa + u * (pb - pa)), a, b)
    x = np.where(flip, -x, x)
    return x.astype(dtype)


# -- of exponentials ------------------------------------------------------------------------------------------------------------


def exponential(key: Any, shape: Shape = (), dtype: Any = np.float64, scale: Any = 1.0) -> Any:
    """Exponential numbers of mean `scale` (differentiable).

    Parameters
    ----------
    key : array of uint32, [2]
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    scale : array_like
    """
    checked_key(key, "exponential")
    e = -np.log1p(-_standard_uniform(key, as_shape(shape, "exponential"), float_dtype(dtype, "exponential")))
    return e if type(scale) in (int, float) and scale == 1 else e * scale


def gumbel(key: Any, shape: Shape = (), dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Gumbel numbers, ``loc - scale log(E)`` of exponential numbers E; `loc` and `scale` are differentiable.

    Parameters
    ----------
    key : array of uint32, [2]
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    loc, scale : array_like
    """
    checked_key(key, "gumbel")
    dtype = float_dtype(dtype, "gumbel")
    smallest = 2.0**-25 if dtype == np.float32 else 2.0**-54  # half the resolution, in place of 0
    g = -np.log(np.maximum(exponential(key, shape, dtype), smallest))
    return g if type(loc) in (int, float) and type(scale) in (int, float) and (loc, scale) == (0, 1) else g * scale + loc


def laplace(key: Any, shape: Shape = (), dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Laplace numbers, of density ``exp(-|x - loc| / scale) / (2 scale)``; `loc` and `scale` are differentiable.

    Parameters
    ----------
    key : array of uint32, [2]
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    loc, scale : array_like
    """
    checked_key(key, "laplace")
    u = _standard_uniform(key, as_shape(shape, "laplace"), float_dtype(dtype, "laplace"))
    # the upper bit is the sign, the others an exponential number
    upper = u >= 0.5
    e = np.log1p(-np.where(upper, 2 * u - 1, 2 * u))
    x = np.where(upper, -e, e)
    return x if type(loc) in (int, float) and type(scale) in (int, float) and (loc, scale) == (0, 1) else x * scale + loc
