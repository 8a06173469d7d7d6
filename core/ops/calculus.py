"""Numerical calculus on samples: gradient, trapezoid, interp, polynomials."""

from __future__ import annotations

import numpy as np

from ..tensor import Tensor, implements
from .define import as_value, scalar_or_array
from .shape import normal_axis, part
from .take import take

__all__: list[str] = []


@implements(np.gradient)
def gradient(f, *varargs, axis=None, edge_order=1):
    """``numpy.gradient``; spacings may be numbers or coordinates."""
    f = as_value(f)
    rank = np.ndim(f)
    axes = range(rank) if axis is None else [normal_axis(a, rank) for a in ([axis] if np.ndim(axis) == 0 else axis)]
    if len(varargs) not in (0, 1, len(axes)):
        raise TypeError("invalid number of arguments")
    spacings = list(varargs) * (len(axes) if len(varargs) == 1 else 1) or [1.0] * len(axes)
    out = [_slope(f, h, a, edge_order) for h, a in zip(spacings, axes, strict=True)]
    return out[0] if len(out) == 1 else tuple(out)


def _slope(f, h, axis, edge_order):
    """Second-order differences inside, one-sided ones at the ends, for uneven steps as well."""
    n = np.shape(f)[axis]
    if n < edge_order + 1:
        raise ValueError(
            "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
            "required."
        )
    if edge_order not in (1, 2):
        raise ValueError("'edge_order' greater than 2 not supported")
    if np.result_type(f).kind in "iub":
        f = f.astype(float)
    dtype = np.result_type(f)
    at = lambda a, b: part(f, axis, a, b)
    if np.ndim(h) == 0:
        inner = (at(2, n) - at(0, n - 2)) / (2.0 * h)
        h1 = h2 = hn1 = hn2 = h
    else:
        h = as_value(h)
        h = np.diff(h.astype(float) if np.result_type(h).kind in "iu" else h)
        if np.shape(h) != (n - 1,):
            raise ValueError("when 1d, distances must match the length of the corresponding dimension")
        h1, hn1 = h[0], h[n - 2]
        h2, hn2 = (h[1], h[n - 3]) if n > 2 else (h1, hn1)
        column = lambda x: np.reshape(x, (-1,) + (1,) * (np.ndim(f) - axis - 1))
        left, right = column(h[: n - 2]), column(h[1 : n - 1])
        inner = (
            (-right / (left * (left + right))) * at(0, n - 2)
            + ((right - left) / (left * right)) * at(1, n - 1)
            + (left / (right * (left + right))) * at(2, n)
        )
    if edge_order == 1:
        first, last = (at(1, 2) - at(0, 1)) / h1, (at(n - 1, n) - at(n - 2, n - 1)) / hn1
    else:
        first = (
            (-(2.0 * h1 + h2) / (h1 * (h1 + h2))) * at(0, 1)
            + ((h1 + h2) / (h1 * h2)) * at(1, 2)
            - (h1 / (h2 * (h1 + h2))) * at(2, 3)
        )
        last = (
            (hn1 / (hn2 * (hn1 + hn2))) * at(n - 3, n - 2)
            - ((hn1 + hn2) / (hn1 * hn2)) * at(n - 2, n - 1)
            + ((2.0 * hn1 + hn2) / (hn1 * (hn1 + hn2))) * at(n - 1, n)
        )
    return np.concatenate([x.astype(dtype) for x in (first, inner, last)], axis=axis)


@implements(np.trapezoid)
def trapezoid(y, x=None, dx=1.0, axis=-1):
    """``numpy.trapezoid``."""
    y = as_value(y)
    axis = normal_axis(axis, np.ndim(y))
    if x is None:
        d = dx
    else:
        d = np.diff(x, axis=axis if np.ndim(x) > 1 else -1)
        if np.ndim(d) == 1:
            d = np.reshape(d, (-1,) + (1,) * (np.ndim(y) - axis - 1))
    n = np.shape(y)[axis]
    return np.sum(d * (part(y, axis, 1, n) + part(y, axis, 0, n - 1)) / 2.0, axis=axis)


def _double(a):
    dtype = complex if np.result_type(a).kind == "c" else float
    return a.astype(dtype) if isinstance(a, Tensor) else np.asarray(a, dtype)


@implements(np.interp)
def interp(x, xp, fp, left=None, right=None, period=None):
    """``numpy.interp``, in double precision whatever the dtypes; differentiable in `x`, `xp` and `fp`."""
    x, xp, fp = (_double(as_value(a)) for a in (x, xp, fp))
    x, xp = np.real(x), np.real(xp)
    if np.ndim(xp) != 1 or np.shape(xp) != np.shape(fp):
        raise ValueError(f"fp and xp are not of the same length, got {np.shape(fp)} and {np.shape(xp)}")
    n = np.shape(xp)[0]
    if n == 0:
        raise ValueError("array of sample points is empty")
    if period is not None:
        period = abs(period)
        if period == 0:
            raise ValueError("period must be a non-zero value")
        x, xp = np.remainder(x, period), np.remainder(xp, period)
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - period, xp, xp[:1] + period])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
        left = right = None
        n += 2
    if n == 1:
        inside = np.broadcast_to(fp[0], np.shape(x)) + 0.0 * x
    else:
        i = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, n - 2)
        x0, x1, f0, f1 = take(xp, i), take(xp, i + 1), take(fp, i), take(fp, i + 1)
        inside = f0 + (f1 - f0) / (x1 - x0) * (x - x0)
    out = np.where(
        np.less(x, xp[0]),
        fp[0] if left is None else left,
        np.where(np.greater(x, xp[n - 1]), fp[n - 1] if right is None else right, inside),
    )
    return scalar_or_array(np.where(np.equal(x, xp[n - 1]), fp[n - 1], out))


# -- polynomials -------------------------------------------------------------------------------------------------------


@implements(np.polyval)
def polyval(p, x):
    """``numpy.polyval``, by Horner's rule."""
    p = as_value(p)
    y = np.zeros(np.shape(x), np.result_type(x))
    for i in range(np.shape(p)[0]):
        y = y * x + p[i]
    return y


@implements(np.polyder)
def polyder(p, m=1):
    """``numpy.polyder``."""
    for _ in range(m):
        n = np.shape(p)[0]
        p = p[: n - 1] * np.arange(n - 1, 0, -1)
    return p


@implements(np.polyint)
def polyint(p, m=1, k=None):
    """``numpy.polyint``."""
    constants = np.broadcast_to(0.0 if k is None else k, (m,))
    for i in range(m):
        p = np.concatenate([p / np.arange(np.shape(p)[0], 0, -1), np.reshape(constants[i], (1,))])
    return p


def _aligned(a, b):
    """Coefficients of one length, zeros in front."""
    a, b = np.atleast_1d(a), np.atleast_1d(b)
    n = max(np.shape(a)[0], np.shape(b)[0])
    return [np.concatenate([np.zeros(n - np.shape(x)[0], np.result_type(x)), x]) for x in (a, b)]


@implements(np.polyadd)
def polyadd(a1, a2):
    """``numpy.polyadd``."""
    a, b = _aligned(a1, a2)
    return a + b


@implements(np.polysub)
def polysub(a1, a2):
    """``numpy.polysub``."""
    a, b = _aligned(a1, a2)
    return a - b


@implements(np.polymul)
def polymul(a1, a2):
    """``numpy.polymul``."""
    return np.convolve(a1, a2)


@implements(np.poly)
def poly(seq_of_zeros):
    """``numpy.poly`` of a sequence of roots."""
    roots = np.atleast_1d(seq_of_zeros)
    if np.ndim(roots) != 1:
        raise ValueError(f"poly: traced values need a 1-d sequence of roots, got shape {np.shape(roots)}")
    dtype = np.dtype(np.mintypecode(np.result_type(roots).char))
    roots, a, zero = roots.astype(dtype), np.ones(1, dtype), np.zeros(1, dtype)
    for i in range(np.shape(roots)[0]):
        a = np.concatenate([a, zero]) - np.concatenate([zero, a]) * roots[i]
    return a


@implements(np.polyfit)
def polyfit(x, y, deg, rcond=None, full=False, w=None, cov=False):
    """``numpy.polyfit``: coefficients only, by least squares."""
    if full or cov or not isinstance(deg, int):
        raise TypeError("polyfit: full=, cov= and lists of degrees are not supported for traced values")
    x, y = as_value(x) * 1.0, as_value(y) * 1.0
    left = np.vander(x, deg + 1)
    if w is not None:
        left = left * np.reshape(w, (-1, 1))
        y = y * (np.reshape(w, (-1, 1)) if np.ndim(y) == 2 else w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    found = np.linalg.lstsq(left / scale, y, rcond=rcond)[0]
    return found / (scale if np.ndim(found) == 1 else scale[:, None])
