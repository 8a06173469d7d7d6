"""Pseudo-inverse, least squares, rank.

The derivative of the pseudo-inverse at constant rank: G. H. Golub and V. Pereyra, SIAM J. Numer. Anal. 10, 413 (1973).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...graph.trace import bind
from ...tensor import Tensor, implements
from ..complex import real_dtype
from ..define import as_value
from .basic import batch_in_front, conj, floating, mH, per_matrix, stack_of_matrices, well_conditioned
from .spectral import svdvals_p

__all__ = ["pinv"]

# -- pseudo-inverse and least squares
# -------------------------------------------------------------------------------------

pinv_p = Primitive(
    "pinv",
    lambda a, *cutoff, rtol, hermitian: np.linalg.pinv(a, cutoff[0] if cutoff else rtol, hermitian),
    lambda a, *cutoff, rtol, hermitian: Spec((*a.shape[:-2], a.shape[-1], a.shape[-2]), a.dtype),
    flops=per_matrix(16.0),
    samples=lambda rng: [
        ((well_conditioned(rng, *shape),), {"rtol": None, "hermitian": False}) for shape in ((3, 3), (2, 4, 3), (2, 3))
    ],
)


def _residual_projectors(a, p):
    """I - A A⁺ and I - A⁺ A."""
    m, n = np.shape(a)[-2:]
    dtype = np.result_type(a)
    return np.eye(m, dtype=dtype) - np.matmul(a, p), np.eye(n, dtype=dtype) - np.matmul(p, a)


@pinv_p.defjvp_all
def _(tangents, out, args, *, rtol, hermitian):
    t, p = tangents[0], out
    if t is None:
        return None
    left, right = _residual_projectors(args[0], p)
    mm = np.matmul
    return -mm(mm(p, t), p) + mm(mm(mm(p, mH(p)), mH(t)), left) + mm(mm(right, mH(t)), mm(mH(p), p))


@pinv_p.defvjp_all
def _(ct, out, args, needed, *, rtol, hermitian):
    g, p = conj(ct), out
    left, right = _residual_projectors(args[0], p)
    mm = np.matmul
    total = -mm(mm(mH(p), g), mH(p)) + mm(mm(left, mH(g)), mm(p, mH(p))) + mm(mm(mm(mH(p), p), mH(g)), right)
    return [conj(total), *[None] * (len(args) - 1)]


batch_in_front(pinv_p)


def _pinv(a, rtol, hermitian=False):
    """`rtol` is a number or None, a parameter then, or an array or traced: one for each matrix."""
    if rtol is None or not (isinstance(rtol, Tensor) or np.ndim(rtol)):
        return bind(pinv_p, a, rtol=None if rtol is None else float(rtol), hermitian=bool(hermitian))
    return bind(pinv_p, a, np.broadcast_to(rtol, np.shape(a)[:-2]), rtol=None, hermitian=bool(hermitian))


@implements(np.linalg.pinv)
def pinv(a, rcond=None, hermitian=False, *, rtol=None):
    """``numpy.linalg.pinv``. The derivative is that at constant rank."""
    a = floating("pinv", a)
    stack_of_matrices("pinv", a, square=hermitian)
    return _pinv(a, rcond if rtol is None else rtol, hermitian)


class LstsqResult(NamedTuple):
    x: Any
    residuals: Any
    rank: Any
    singular_values: Any


matrix_rank_p = Primitive(
    "matrix_rank",
    lambda a, *, tol, hermitian, rtol: np.asarray(np.linalg.matrix_rank(a, tol, hermitian, rtol=rtol))[()],
    lambda a, *, tol, hermitian, rtol: Spec(a.shape[:-2], np.dtype(np.int64)),
    differentiable=False,
    flops=per_matrix(8 / 3),
    samples=lambda rng: [((well_conditioned(rng, 2, 4, 3),), {"tol": None, "hermitian": False, "rtol": None})],
)
batch_in_front(matrix_rank_p)


@implements(np.linalg.matrix_rank)
def matrix_rank(A, tol=None, hermitian=False, *, rtol=None):
    """``numpy.linalg.matrix_rank``: an integer, without derivative."""
    A = as_value(A)
    if np.ndim(A) < 2:
        return np.any(np.not_equal(A, 0)).astype(int)
    A = floating("matrix_rank", A)
    if all(t is None or not (isinstance(t, Tensor) or np.ndim(t)) for t in (tol, rtol)):
        return bind(matrix_rank_p, A, tol=tol, hermitian=bool(hermitian), rtol=rtol)
    s = np.abs(np.linalg.eigvalsh(A)) if hermitian else bind(svdvals_p, A)
    smallest = (
        np.expand_dims(tol, -1) if tol is not None else np.expand_dims(rtol, -1) * np.max(s, axis=-1, keepdims=True)
    )
    return np.sum(np.greater(s, smallest), axis=-1)


@implements(np.linalg.lstsq)
def lstsq(a, b, rcond=None):
    """``numpy.linalg.lstsq``; `residuals` has the shape for full rank, as shapes cannot depend on values."""
    a, b = floating("lstsq", a, b)
    stack_of_matrices("lstsq", a, square=False)
    if np.ndim(a) != 2 or np.ndim(b) not in (1, 2) or np.shape(a)[0] != np.shape(b)[0]:
        raise np.linalg.LinAlgError(
            f"lstsq: a (m, n) and b (m,) or (m, k) must agree, got shapes {np.shape(a)} and {np.shape(b)}"
        )
    m, n = np.shape(a)
    if rcond is None or rcond == -1:
        rcond = np.finfo(np.result_type(a)).eps * (max(m, n) if rcond is None else 1)
    x = np.matmul(_pinv(a, rcond), b)
    rest = b - np.matmul(a, x)
    size = np.real(conj(rest) * rest) if np.iscomplexobj(rest) else rest * rest
    columns = 1 if np.ndim(b) == 1 else np.shape(b)[1]
    residuals = np.reshape(np.sum(size, axis=0), (columns,)) if m > n else np.zeros(0, real_dtype(np.result_type(a)))
    s = bind(svdvals_p, a)
    return LstsqResult(x, residuals, np.sum(np.greater(s, rcond * np.max(s)).astype(int)), s)
