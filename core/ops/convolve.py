"""``numpy.convolve`` and ``numpy.correlate``: one axis, one channel of `conv_general`."""

from __future__ import annotations

import numpy as np

from ..tensor import implements
from .convolve_nd import conv_general
from .define import as_value

__all__: list[str] = []


def _slide(a, v, mode, name):
    """Sums of products of `v` with every piece of `a`, which is at least as long."""
    if mode not in ("full", "same", "valid"):
        raise ValueError(f"{name}: mode must be one of 'valid', 'same', or 'full' (got {mode!r})")
    m = np.shape(v)[0]
    padding = {"full": (m - 1, m - 1), "same": (m // 2, m - 1 - m // 2), "valid": (0, 0)}[mode]
    dtype = np.result_type(a)
    if dtype.kind in "iub":  # exact, and modulo its size
        pieces = np.pad(a, padding)[np.arange(np.shape(a)[0] + sum(padding) - m + 1)[:, None] + np.arange(m)]
        return np.any(pieces & v, axis=1) if dtype.kind == "b" else np.sum(pieces * v, axis=1, dtype=dtype)
    return np.reshape(conv_general(np.reshape(a, (1, -1, 1)), np.reshape(v, (-1, 1, 1)), padding=(padding,)), (-1,))


def _vectors(a, v, name):
    a, v = np.atleast_1d(as_value(a)), np.atleast_1d(as_value(v))
    if np.ndim(a) != 1 or np.ndim(v) != 1:
        raise ValueError(f"{name}: object too deep for desired array, got shapes {np.shape(a)} and {np.shape(v)}")
    if 0 in (np.shape(a)[0], np.shape(v)[0]):
        raise ValueError(f"{name}: arrays cannot be empty")
    dtype = np.result_type(a, v)
    return a.astype(dtype), v.astype(dtype)


@implements(np.convolve)
def convolve(a, v, mode="full"):
    """``numpy.convolve``."""
    a, v = _vectors(a, v, "convolve")
    if np.shape(v)[0] > np.shape(a)[0]:
        a, v = v, a
    return _slide(a, np.flip(v), mode, "convolve")


@implements(np.correlate)
def correlate(a, v, mode="valid"):
    """``numpy.correlate``."""
    a, v = _vectors(a, v, "correlate")
    v = np.conjugate(v) if np.result_type(v).kind == "c" else v
    if np.shape(v)[0] > np.shape(a)[0]:  # NumPy exchanges them and turns the result round
        return np.flip(_slide(v, a, mode, "correlate"))
    return _slide(a, v, mode, "correlate")
