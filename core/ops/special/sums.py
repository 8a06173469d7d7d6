"""logsumexp, softmax, log_softmax: sums of exponentials that do not overflow."""

from __future__ import annotations

import numpy as np

from ...graph.primitive import Primitive
from ...graph.trace import bind
from ..define import as_value, batch_elementwise

__all__ = ["log_softmax", "logsumexp", "softmax"]

# A value without derivative: the largest element is subtracted for range only, the result does not depend on it.
shift_p = Primitive(
    "shift",
    lambda x: np.where(np.isfinite(x), x, 0)[()],
    lambda x: x._replace(weak=False),
    kind="elementwise",
    flops=1,
    emit=lambda b, x: b.select(b.isfinite(x), x, b.const_like(0.0, x)),
    differentiable=False,
    domain=((-3.0, 3.0),),
)
shift_p.loop = lambda x: (x.dtype, x.dtype)
shift_p.defbatch(lambda args, axes, size: batch_elementwise(shift_p, args, axes, {}))


def _floating(x):
    x = as_value(x)
    dtype = np.result_type(x)
    return np.asarray(x, float) if isinstance(x, (int, float)) else np.astype(x, float) if dtype.kind in "iub" else x


def _largest(x, axis):
    return bind(shift_p, np.max(np.real(x) if np.iscomplexobj(x) else x, axis=axis, keepdims=True))


def logsumexp(a, axis=None, b=None, keepdims=False, return_sign=False):
    """Logarithm of the sum of exponentials, as ``scipy.special.logsumexp``.

    Parameters
    ----------
    a : array
    axis : int or tuple of ints, optional
        Summed; all by default.
    b : array, optional
        Factors of the exponentials; may be negative or zero.
    keepdims : bool
    return_sign : bool
        Return ``(log of the absolute value, sign)``.

    Examples
    --------
    >>> float(logsumexp(np.array([1000.0, 1000.0])))
    1000.6931471805599
    """
    a = _floating(a)
    if b is not None:
        b = _floating(b)
        # a term of weight zero is absent: its exponential must not be looked at
        a = np.where(np.equal(b, 0), -np.inf, a)
    m = _largest(a, axis)
    terms = np.exp(a - m)
    s = np.sum(terms if b is None else np.where(np.equal(b, 0), 0, b * terms), axis=axis, keepdims=True)
    if return_sign:
        sign = np.sign(s)
        out = np.log(np.abs(s)) + m
        return (out, sign) if keepdims else (np.squeeze(out, axis=axis), np.squeeze(sign, axis=axis))
    none = np.equal(np.max(np.real(a), axis=axis, keepdims=True), -np.inf)  # no term at all: with derivative 0
    out = np.where(none, -np.inf, np.log(np.where(none, 1, s)) + m)
    return out if keepdims else np.squeeze(out, axis=axis)


def softmax(x, axis=None):
    """``exp(x)`` divided by its sum over `axis` (over everything by default), as ``scipy.special.softmax``."""
    x = _floating(x)
    e = np.exp(x - _largest(x, axis))
    return e / np.sum(e, axis=axis, keepdims=True)


def log_softmax(x, axis=None):
    """Logarithm of `softmax`, as ``scipy.special.log_softmax``."""
    x = _floating(x)
    x = x - _largest(x, axis)
    return x - np.log(np.sum(np.exp(x), axis=axis, keepdims=True))
