"""``scipy.linalg`` for traced and plain arrays, stacks of matrices included; SciPy's signatures and defaults."""

from __future__ import annotations

import numpy as np

from .. import check
from ..ops.linalg.basic import cholesky as _cholesky
from ..ops.linalg.basic import conj, from_triangle, inv, mH, mT
from ..ops.linalg.basic import solve as _solve
from ..ops.linalg.determinant import det
from ..ops.linalg.functions import (
    block_diag,
    cho_factor,
    cho_solve,
    circulant,
    cosm,
    expm,
    hankel,
    logm,
    lu,
    lu_factor,
    lu_solve,
    polar,
    sinm,
    solve_continuous_lyapunov,
    solve_sylvester,
    solve_triangular,
    sqrtm,
    toeplitz,
)
from ..ops.linalg.functions import expm_frechet as _expm_frechet
from ..ops.linalg.least import pinv as _pinv
from ..ops.linalg.norm import norm
from ..ops.linalg.spectral import eigh as _eigh
from ..ops.linalg.spectral import eigvals, svdvals
from ..ops.linalg.spectral import eigvalsh as _eigvalsh
from ..ops.linalg.spectral import qr as _qr
from ..ops.linalg.spectral import svd as _svd

__all__ = [
    "block_diag",
    "cho_factor",
    "cho_solve",
    "cholesky",
    "circulant",
    "cosm",
    "det",
    "eigh",
    "eigvals",
    "eigvalsh",
    "expm",
    "expm_frechet",
    "hankel",
    "inv",
    "logm",
    "lu",
    "lu_factor",
    "lu_solve",
    "norm",
    "pinv",
    "polar",
    "qr",
    "sinm",
    "solve",
    "solve_continuous_lyapunov",
    "solve_sylvester",
    "solve_triangular",
    "sqrtm",
    "svd",
    "svdvals",
    "toeplitz",
]


def cholesky(a, lower=False):
    """``scipy.linalg.cholesky``."""
    return _cholesky(a, upper=not lower)


def eigh(a, b=None, *, lower=True, eigvals_only=False):
    """``scipy.linalg.eigh``; with `b`, the generalized problem ``a v = w b v``."""
    uplo = "L" if lower else "U"
    if b is None:
        return _eigvalsh(a, uplo) if eigvals_only else tuple(_eigh(a, uplo))
    c = _cholesky(b if lower else mH(b))
    reduced = solve_triangular(c, mH(solve_triangular(c, from_triangle(a, lower), lower=True)), lower=True)
    if eigvals_only:
        return _eigvalsh(reduced)
    w, v = _eigh(reduced)
    return w, solve_triangular(c, v, trans=2, lower=True)


def eigvalsh(a, b=None, *, lower=True):
    """``scipy.linalg.eigvalsh``."""
    return eigh(a, b, lower=lower, eigvals_only=True)


def expm_frechet(A, E, *, compute_expm=True):
    """``scipy.linalg.expm_frechet``: the exponential of `A` and its derivative along `E`, or the derivative alone."""
    return (expm(A), _expm_frechet(A, E)) if compute_expm else _expm_frechet(A, E)


def pinv(a, *, atol=None, rtol=None):
    """``scipy.linalg.pinv``: singular values up to ``atol + rtol * largest`` count as zero."""
    if rtol is None:
        rtol = max(np.shape(a)[-2:]) * np.finfo(np.result_type(a, np.float32)).eps
    return _pinv(a, rtol=rtol if atol is None else rtol + atol / np.max(svdvals(a), axis=-1))


def qr(a, *, mode="full"):
    """``scipy.linalg.qr`` in modes full, economic and r."""
    check.choice(mode, ("full", "economic", "r"), "qr: mode")
    out = _qr(a, {"full": "complete", "economic": "reduced", "r": "complete"}[mode])
    return (out[1],) if mode == "r" else tuple(out)


def svd(a, full_matrices=True, compute_uv=True):
    """``scipy.linalg.svd``. Derivatives need ``full_matrices=False`` (or a square matrix)."""
    out = _svd(a, full_matrices, compute_uv)
    return tuple(out) if compute_uv else out


def solve(a, b, lower=False, *, assume_a="gen", transposed=False):
    """``scipy.linalg.solve`` for general, symmetric, Hermitian, positive definite and triangular matrices."""
    if assume_a in ("pos", "positive definite"):
        factor = cho_factor(a, lower)
        # the transpose is the conjugate
        return conj(cho_solve(factor, conj(b))) if transposed else cho_solve(factor, b)
    if assume_a in ("lower triangular", "upper triangular"):
        return solve_triangular(a, b, trans=int(transposed), lower=assume_a == "lower triangular")
    if assume_a in ("her", "hermitian"):
        a = from_triangle(a, lower)
    elif assume_a in ("sym", "symmetric"):
        half = np.tril(a) if lower else mT(np.triu(a))
        a = half + mT(np.tril(half, -1))
    elif assume_a not in ("gen", "general"):
        raise ValueError(f"solve: assume_a must be 'gen', 'sym', 'her', 'pos' or a triangular form, got {assume_a!r}")
    return _solve(mT(a) if transposed else a, b)
