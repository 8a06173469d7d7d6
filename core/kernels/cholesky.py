"""Inverse of a positive definite matrix by our own matrix products, which share the thread pool.

OpenBLAS's factorizations on several threads wait for one another awake: beside a second busy process, the inverse of a
matrix of 1,000 rows took 20 times as long. Here only blocks of `_LEAF` rows go to LAPACK, which does those on one
thread.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from . import blas

__all__ = ["positive_inverse"]

_LEAF = 128  # OpenBLAS factorizes up to 200 x 200 on one thread
_COLUMNS = 256  # of a block of the last product
_NAMES = {np.dtype(np.float32): "f32", np.dtype(np.float64): "f64"}
_i64, _bool, _ptr = ctypes.c_int64, ctypes.c_bool, ctypes.c_void_p
_SIGNATURE = ctypes.CFUNCTYPE(None, _i64, _i64, _i64, _ptr, _i64, _bool, _ptr, _i64, _bool, _ptr, _i64, _bool)


@cache
def _gemm(dtype):
    return _SIGNATURE(blas.address(f"tsk.gemm.{_NAMES[dtype]}"))


def _product(a, b, out, *, transpose_a=False, transpose_b=False, accumulate=False):
    """``out (+)= op(a) op(b)`` for matrices whose rows are contiguous."""
    rows, inner = a.shape[::-1] if transpose_a else a.shape
    (pa, la), (pb, lb), (pc, lc) = ((x.ctypes.data, x.strides[0] // x.itemsize) for x in (a, b, out))
    _gemm(a.dtype)(rows, out.shape[1], inner, pa, la, transpose_a, pb, lb, transpose_b, pc, lc, accumulate)
    return out


def _factorize(a, inverse):
    """Write the inverse of the Cholesky factor of the lower triangle of `a` to the lower triangle of `inverse`.

    Overwrites `a`; returns False if it is not positive definite.
    """
    n = len(a)
    if n <= _LEAF:
        from scipy.linalg import get_lapack_funcs

        factorize, invert = get_lapack_funcs(("potrf", "trtri"), (a,))
        factor, failed = factorize(a.T, clean=1)  # the transposed matrix is in LAPACK's order
        if not failed:
            inverse[...] = invert(factor)[0].T
        return failed == 0
    half = (n // 2 + 15) // 16 * 16
    if not _factorize(a[:half, :half], inverse[:half, :half]):
        return False
    left, first = np.empty((n - half, half), a.dtype), inverse[:half, :half]
    _product(a[half:, :half], first, left, transpose_b=True)
    minus = np.negative(left, out=a[half:, :half])
    _product(minus, left, a[half:, half:], transpose_b=True, accumulate=True)
    if not _factorize(a[half:, half:], inverse[half:, half:]):
        return False
    _product(_product(inverse[half:, half:], minus, left), first, inverse[half:, :half])
    return True


def _mirrored(a):
    """The symmetric matrix of the lower triangle of `a`."""
    return np.tril(a) + np.tril(a, -1).T


def positive_inverse(a: np.ndarray) -> np.ndarray | None:
    """Return the inverse of a matrix, float32 or float64, whose lower triangle alone is read.

    Returns None if the matrix is not positive definite. Results do not depend on the number of threads.
    """
    if len(a) <= _LEAF:
        from scipy.linalg import get_lapack_funcs

        factorize, invert = get_lapack_funcs(("potrf", "potri"), (a,))
        factor, failed = factorize(a.T, clean=1)
        return None if failed else _mirrored(invert(factor)[0].T)
    root = np.zeros(a.shape, a.dtype)
    if not _factorize(a.copy(), root):
        return None
    out = np.empty(a.shape, a.dtype)
    for begin in range(0, len(a), _COLUMNS):
        part = slice(begin, min(begin + _COLUMNS, len(a)))
        _product(root[begin:, part], root[begin:, : part.stop], out[part, : part.stop], transpose_a=True)
        out[:begin, part] = out[part, :begin].T
        out[part, part] = _mirrored(out[part, part])
    return out
