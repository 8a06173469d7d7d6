"""Order statistics and covariances: median, quantiles, cov, corrcoef."""

from __future__ import annotations

import numpy as np

from ..tensor import Tensor, implements
from .define import as_value, scalar_or_array
from .reduce import normal_axes

__all__: list[str] = []

# -- median and quantiles
# -----------------------------------------------------------------------------------------------------------


def _to_last(a, axis):
    """The axes to be reduced as one last axis."""
    axes = normal_axes(axis, np.ndim(a))
    rest = [i for i in range(np.ndim(a)) if i not in axes]
    return np.reshape(np.transpose(a, (*rest, *axes)), (*[np.shape(a)[i] for i in rest], -1)), axes


# (alpha, beta) of Hyndman and Fan, The American Statistician 50 (1996) 361, in NumPy's names
_CONTINUOUS = {
    "interpolated_inverted_cdf": (0, 1),
    "hazen": (0.5, 0.5),
    "weibull": (0, 0),
    "linear": (1, 1),
    "median_unbiased": (1 / 3, 1 / 3),
    "normal_unbiased": (3 / 8, 3 / 8),
}


def _between(below, above, part):
    """Interpolate linearly; an infinite neighbor with weight zero must not make the result NaN."""
    with np.errstate(invalid="ignore"):
        step = above - below
    idle = np.equal(part, 0) | np.equal(below, above)
    return below + part * np.where(np.logical_not(np.isfinite(step)) & idle, 0, step)


@implements(np.quantile)
def quantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """``numpy.quantile``; differentiable in `a` and `q`. Without weights."""
    if weights is not None or out is not None:
        raise TypeError("quantile: weights= and out= are not supported for traced values")
    a, q = as_value(a), as_value(q)
    if not isinstance(q, Tensor) and not (np.all(np.asarray(q) >= 0) and np.all(np.asarray(q) <= 1)):
        raise ValueError("Quantiles must be in the range [0, 1]")
    chosen = method in ("lower", "higher", "nearest")  # elements, in their own dtype
    if np.result_type(a).kind in "iub" and not chosen:
        a = a.astype(float)
    shape = np.shape(a)
    flat, axes = _to_last(a, axis)
    n = np.shape(flat)[-1]
    if n == 0:
        raise ValueError(f"quantile: expected at least one element, got shape {shape}")
    ordered = np.sort(flat, axis=-1)
    if method in _CONTINUOUS:
        alpha, beta = _CONTINUOUS[method]
        place = n * q + (alpha + q * (1 - alpha - beta)) - 1
    elif chosen or method == "midpoint":
        place = q * (n - 1)
        low, high = np.floor(place), np.ceil(place)
        place = {"lower": low, "higher": high, "midpoint": 0.5 * (low + high), "nearest": np.rint(place)}[method]
    else:
        raise ValueError(
            f"quantile: method must be one of {sorted([*_CONTINUOUS, 'lower', 'higher', 'midpoint', 'nearest'])}, got "
            f"{method!r}"
        )
    place = np.clip(place, 0, n - 1)
    low = np.floor(place)
    part = place - low
    low = low.astype(np.intp) if hasattr(low, "astype") else int(low)
    found = np.take(ordered, low, axis=-1)
    if not chosen:
        found = _between(found, np.take(ordered, np.minimum(low + 1, n - 1), axis=-1), part)
    if np.result_type(a).kind not in "iub":
        spoilt = np.any(np.isnan(flat), axis=-1)
        spoilt = np.reshape(spoilt, (*np.shape(spoilt), *(1,) * np.ndim(q)))
        found = np.where(spoilt, np.nan, found)
    rank = np.ndim(q)
    found = np.moveaxis(found, range(np.ndim(found) - rank, np.ndim(found)), range(rank)) if rank else found
    if found.dtype != np.result_type(a):
        found = found.astype(np.result_type(a)) if not isinstance(q, Tensor) and np.ndim(q) == 0 else found
    if keepdims:
        found = np.reshape(found, (*np.shape(q), *[1 if i in axes else n for i, n in enumerate(shape)]))
    return scalar_or_array(found)


@implements(np.percentile)
def percentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """``numpy.percentile``."""
    q = np.true_divide(q, 100)
    return quantile(a, q, axis, out, overwrite_input, method, keepdims, weights=weights)


@implements(np.median)
def median(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """``numpy.median``."""
    return quantile(a, 0.5, axis, out, keepdims=keepdims)


def _nan_quantile(a, q, axis, keepdims):
    """Linear quantiles of the elements that are not NaN: sorting puts NaN last."""
    a = as_value(a)
    if np.result_type(a).kind in "iub":
        a = a.astype(float)
    shape = np.shape(a)
    flat, axes = _to_last(a, axis)
    present = np.sum(~np.isnan(flat), axis=-1)
    ordered = np.sort(flat, axis=-1)
    place = np.reshape(q, (-1, *(1,) * np.ndim(present))) * np.maximum(present - 1, 0)
    low = np.floor(place)
    part, low = place - low, low.astype(np.intp)
    high = np.minimum(low + 1, np.maximum(present - 1, 0))
    pick = lambda k: np.moveaxis(np.take_along_axis(ordered, np.moveaxis(k, 0, -1), axis=-1), -1, 0)
    below, above = pick(low), pick(high)
    found = np.reshape(_between(below, above, part), (*np.shape(q), *np.shape(present)))
    if isinstance(q, (int, float)):
        found = found.astype(np.result_type(a))
    return (
        np.reshape(found, (*np.shape(q), *[1 if i in axes else n for i, n in enumerate(shape)])) if keepdims else found
    )


@implements(np.nanquantile)
def nanquantile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """``numpy.nanquantile``, method "linear"."""
    if method != "linear" or weights is not None or out is not None:
        raise TypeError("nanquantile: only method='linear', without weights= and out=, is supported for traced values")
    return _nan_quantile(a, q if isinstance(q, (int, float)) else np.asarray(q), axis, keepdims)


@implements(np.nanpercentile)
def nanpercentile(a, q, axis=None, out=None, overwrite_input=False, method="linear", keepdims=False, *, weights=None):
    """``numpy.nanpercentile``, method "linear"."""
    return nanquantile(a, np.true_divide(q, 100), axis, out, overwrite_input, method, keepdims, weights=weights)


@implements(np.nanmedian)
def nanmedian(a, axis=None, out=None, overwrite_input=False, keepdims=False):
    """``numpy.nanmedian``."""
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims)


# -- covariances -------------------------------------------------------------------------------------------------------


@implements(np.cov, array=True)
def cov(m, y=None, rowvar=True, bias=False, ddof=None, fweights=None, aweights=None, *, dtype=None):
    """``numpy.cov``."""
    x = np.atleast_2d(as_value(m))
    if np.ndim(x) > 2:
        raise ValueError("m has more than 2 dimensions")
    if not rowvar and np.ndim(m) == 2:
        x = np.transpose(x)
    if y is not None:
        y = np.atleast_2d(as_value(y))
        x = np.concatenate([x, np.transpose(y) if not rowvar and np.shape(y)[0] != 1 else y], axis=0)
    x = x.astype(np.result_type(x, float) if dtype is None else dtype)
    ddof = (0 if bias else 1) if ddof is None else ddof
    weights = None
    for w in (fweights, aweights):
        if w is not None:
            weights = as_value(w) if weights is None else weights * as_value(w)
    if weights is None:
        n = np.shape(x)[1]
        x = x - np.mean(x, axis=1, keepdims=True)
        left, scale = x, max(n - ddof, 0)
    else:
        total = np.sum(weights)
        x = x - np.average(x, axis=1, weights=weights, keepdims=True)
        left = x * weights
        scale = (
            total - ddof
            if aweights is None
            else total - ddof * np.sum(weights * as_value(aweights)) / total
            if ddof
            else total
        )
    product = np.matmul(left, np.conjugate(np.transpose(x)))
    return np.squeeze(product / scale)


@implements(np.corrcoef)
def corrcoef(x, y=None, rowvar=True, *, dtype=None):
    """``numpy.corrcoef``."""
    c = cov(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    size = np.sqrt(np.real(np.diagonal(c)))
    c = c / size[:, None] / size[None, :]
    if np.result_type(c).kind == "c":
        return np.clip(np.real(c), -1, 1) + 1j * np.clip(np.imag(c), -1, 1)
    return np.clip(c, -1, 1)
