"""Continuous distributions: standard numbers from bits, then location and scale by arithmetic, which is
differentiated.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..kernels import philox
from ..tensor import Tensor
from . import inline
from .keys import INLINE, KEY, as_shape, batch_keys, bits, checked_key, each_key, float_dtype

__all__ = ["check_broadcast", "exponential", "gumbel", "laplace", "normal", "truncated_normal", "uniform"]

Shape = int | Sequence[int]


def _standard_uniform(where, key, shape, dtype):
    """Multiples of 2**-53 (float64) or 2**-24 (float32) in [0, 1), as `kernels.philox.uniform`."""
    checked_key(key, where)
    shape, dtype = as_shape(shape, where), float_dtype(dtype, where)
    if dtype == np.float32:
        return (bits(key, shape, np.uint32) >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
    return (bits(key, shape, np.uint64) >> np.uint64(11)).astype(np.float64) * 2.0**-53


def check_broadcast(where: str, shape: tuple[int, ...], **parameters: Any) -> None:
    """Raise unless the parameters broadcast to `shape`: beyond it, one number would be used several times."""
    shapes = {name: np.shape(value) for name, value in parameters.items()}
    if not any(shapes.values()):
        return
    try:
        fits = np.broadcast_shapes(shape, *shapes.values()) == shape
    except ValueError:
        fits = False
    if not fits:
        got = ", ".join(f"{name} of shape {s}" for name, s in shapes.items())
        raise ValueError(
            f"random.{where}: parameters must broadcast to the shape of the result, {shape}, got {got} (give shape)"
        )


def _moved(where: str, x: Any, **parameters: Any) -> Any:
    """``x * scale + loc`` for the two parameters (loc, scale); standard numbers as they are."""
    loc, scale = parameters.values()
    if type(loc) in (int, float) and type(scale) in (int, float) and (loc, scale) == (0, 1):
        return x
    check_broadcast(where, np.shape(x), **parameters)
    return x * scale + loc


def uniform(key: Any, shape: Shape = (), dtype: Any = np.float64, low: Any = 0.0, high: Any = 1.0) -> Any:
    """Numbers in [low, high), of full resolution: multiples of 2**-53 (float64) or 2**-24 (float32) of the interval.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    low, high : array_like
        Broadcast to `shape`; differentiable.

    Raises
    ------
    ValueError
        If the parameters do not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.uniform(random.key(0), 2, low=-1.0)
    array([0.7610404 , 0.21096371])
    """
    u = _standard_uniform("uniform", key, shape, dtype)
    return _moved("uniform", u, low=low, width=high - low)


# -- normal ------------------------------------------------------------------------------------------------------------


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
        angle = b.mul(
            b.cast(b.cast(b.cast(w1, np.uint32), np.int32), dtype), b.const(float(np.float32(np.pi * 2.0**-31)), dtype)
        )
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
inline_normal_p = Primitive(
    "random_normal_inline",
    _normal,
    _normal_spec,
    kind="pull",
    pull=_normal_pull,
    differentiable=False,
    flops=120,
    samples=_samples,
)
batch_keys(normal_p)
batch_keys(inline_normal_p)


def normal(key: Any, shape: Shape = (), dtype: Any = np.float64, mean: Any = 0.0, std: Any = 1.0) -> Any:
    """Normal numbers, by Box and Muller's method in the precision of `dtype`.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    mean, std : array_like
        Broadcast to `shape`; differentiable.

    Raises
    ------
    ValueError
        If the parameters do not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.normal(random.key(0), 2, mean=3.0)
    array([2.60233246, 2.68960452])
    """
    checked_key(key, "normal")
    shape = as_shape(shape, "normal")
    z = bind(
        inline_normal_p if math.prod(shape) <= INLINE else normal_p,
        key,
        shape=shape,
        dtype=float_dtype(dtype, "normal"),
    )
    return _moved("normal", z, mean=mean, std=std)


def truncated_normal(key: Any, lower: Any, upper: Any, shape: Shape = (), dtype: Any = np.float64) -> Any:
    """Standard normal numbers within [lower, upper], by inversion of the distribution function.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    lower, upper : array_like
        Broadcast to `shape`; differentiable.
    shape : int or sequence of int
    dtype : {float64, float32}

    Raises
    ------
    ValueError
        If the bounds do not broadcast to `shape`, or ``lower <= upper`` does not hold (checked unless they are traced).

    Examples
    --------
    >>> from triskele.core import random
    >>> random.truncated_normal(random.key(0), -1.0, 1.0, 2)
    array([0.70558586, 0.18149725])
    """
    from scipy.special import ndtr, ndtri

    dtype, shape = float_dtype(dtype, "truncated_normal"), as_shape(shape, "truncated_normal")
    check_broadcast("truncated_normal", shape, lower=lower, upper=upper)
    if not isinstance(lower, Tensor) and not isinstance(upper, Tensor) and not np.all(np.less_equal(lower, upper)):
        raise ValueError(f"random.truncated_normal: lower <= upper must hold, got {lower} and {upper}")
    u = _standard_uniform("truncated_normal", key, shape, np.float64)
    # far above zero the distribution function is 1 to all digits: work with the mirror image there
    flip = np.greater(lower, 0)
    a, b = np.where(flip, np.negative(upper), lower), np.where(flip, np.negative(lower), upper)
    pa, pb = ndtr(a), ndtr(b)
    x = np.clip(ndtri(pa + u * (pb - pa)), a, b)
    x = np.where(flip, -x, x)
    return x.astype(dtype)


# -- of exponentials ---------------------------------------------------------------------------------------------------


def exponential(key: Any, shape: Shape = (), dtype: Any = np.float64, scale: Any = 1.0) -> Any:
    """Exponential numbers of mean `scale` (differentiable).

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    scale : array_like

    Raises
    ------
    ValueError
        If the parameters do not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.exponential(random.key(0), 2)
    array([2.12460794, 0.93009014])
    """
    e = -np.log1p(-_standard_uniform("exponential", key, shape, dtype))
    check_broadcast("exponential", np.shape(e), scale=scale)
    return e * scale


def gumbel(key: Any, shape: Shape = (), dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Gumbel numbers, ``loc - scale log(E)`` of exponential numbers E; `loc` and `scale` are differentiable.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    loc, scale : array_like

    Raises
    ------
    ValueError
        If the parameters do not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.gumbel(random.key(0), 2)
    array([-0.75358729,  0.07247377])
    """
    checked_key(key, "gumbel")
    dtype = float_dtype(dtype, "gumbel")
    smallest = 2.0**-25 if dtype == np.float32 else 2.0**-54  # half the resolution, in place of 0
    g = -np.log(np.maximum(exponential(key, shape, dtype), smallest))
    return _moved("gumbel", g, loc=loc, scale=scale)


def laplace(key: Any, shape: Shape = (), dtype: Any = np.float64, loc: Any = 0.0, scale: Any = 1.0) -> Any:
    """Laplace numbers, of density ``exp(-|x - loc| / scale) / (2 scale)``; `loc` and `scale` are differentiable.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    shape : int or sequence of int
    dtype : {float64, float32}
    loc, scale : array_like

    Raises
    ------
    ValueError
        If the parameters do not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.laplace(random.key(0), 2)
    array([1.43146076, 0.23694296])
    """
    u = _standard_uniform("laplace", key, shape, dtype)
    # the upper bit is the sign, the others an exponential number
    upper = u >= 0.5
    e = np.log1p(-np.where(upper, 2 * u - 1, 2 * u))
    x = np.where(upper, -e, e)
    return _moved("laplace", x, loc=loc, scale=scale)
