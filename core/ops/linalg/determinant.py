"""Determinants and their derivatives, which singular matrices have too."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...graph.trace import bind
from ...tensor import implements
from ..complex import real_dtype
from ..contract import vecdot
from .basic import (
    as_matrices,
    batch_in_front,
    complex_sample,
    conj,
    floating,
    inv_p,
    mT,
    per_matrix,
    same_spec,
    stack_of_matrices,
    well_conditioned,
)

__all__ = ["det", "slogdet"]


def _cofactors(a):
    """det(A) A⁻ᵀ, through the singular value decomposition, so that singular matrices have it too."""
    u, s, vh = np.linalg.svd(a)
    return _in_basis(u, vh, _others(s, 1)[..., None] * np.eye(a.shape[-1]), a.dtype)


def _others(s, rank):
    """Products of all `s` but one, or but two [..., i, j]."""
    left_out = np.eye(s.shape[-1], dtype=bool)
    if rank == 2:
        left_out = left_out[:, None] | left_out
    return np.where(left_out, 1, np.expand_dims(s, tuple(range(-1 - rank, -1)))).prod(-1)


def _in_basis(u, vh, inner, dtype):
    """Cofactors from those of the singular values."""
    phase = (np.linalg.det(u) * np.linalg.det(vh))[..., None, None]
    return (phase * np.conj(u) @ inner @ np.conj(vh)).astype(dtype, copy=False)


def _cofactor_slopes(a, t):
    """The derivative of the cofactors of `a` in the direction `t`."""
    n = a.shape[-1]
    u, s, vh = np.linalg.svd(a)
    p = np.conj(np.swapaxes(u, -1, -2)) @ t @ np.conj(np.swapaxes(vh, -1, -2))
    q, eye = _others(s, 2), np.eye(n, dtype=bool)
    kept = np.where(eye, 0, q * np.diagonal(p, 0, -2, -1)[..., None, :]).sum(-1)
    return _in_basis(u, vh, np.where(eye, kept[..., None], -q * np.swapaxes(p, -1, -2)), np.result_type(a, t))


cofactors_p = Primitive(
    "cofactors",
    _cofactors,
    same_spec,
    flops=per_matrix(20.0),
    samples=lambda rng: [((well_conditioned(rng, 3, 3),), {})],
)


def _trace_of_product(a, b):
    return as_matrices(vecdot(conj(np.reshape(a, (*np.shape(a)[:-2], -1))), np.reshape(b, (*np.shape(b)[:-2], -1))))


cofactor_slopes_p = Primitive(
    "cofactor_slopes",
    _cofactor_slopes,
    lambda a, t: Spec(a.shape, np.result_type(a.dtype, t.dtype)),
    flops=per_matrix(25.0),
    samples=lambda rng: [((well_conditioned(rng, 3, 3), rng.normal(size=(3, 3))), {})],
)
cofactors_p.defvjp(lambda ct, out, a: bind(cofactor_slopes_p, a, ct))  # the second derivative of det is symmetric
cofactors_p.defjvp(lambda t, out, a: bind(cofactor_slopes_p, a, t))


def _third_derivative(a, t, s):
    """The second derivative of the cofactors in the directions `t` and `s`; the matrix must be regular."""
    x, c, other = mT(bind(inv_p, a)), bind(cofactors_p, a), bind(cofactor_slopes_p, a, s)
    xs, xt = np.matmul(x, mT(s)), np.matmul(x, mT(t))
    traces = [np.sum(np.diagonal(m, 0, -2, -1), axis=-1)[..., None, None] for m in (np.matmul(xs, xt), xt)]
    return -traces[0] * c + traces[1] * other + np.matmul(xs, np.matmul(xt, c)) - np.matmul(xt, other)


cofactor_slopes_p.defvjp(
    lambda ct, out, a, t: _third_derivative(a, t, ct), lambda ct, out, a, t: bind(cofactor_slopes_p, a, ct)
)
cofactor_slopes_p.defjvp(
    lambda d, out, a, t: _third_derivative(a, t, d), lambda d, out, a, t: bind(cofactor_slopes_p, a, d)
)
batch_in_front(cofactor_slopes_p)
batch_in_front(cofactors_p)

det_p = Primitive(
    "det",
    np.linalg.det,
    lambda a: Spec(a.shape[:-2], a.dtype),
    flops=per_matrix(2 / 3),
    samples=lambda rng: [((well_conditioned(rng, 3, 3),), {}), ((complex_sample(rng, 2, 3, 3),), {})],
)
det_p.defvjp(lambda ct, out, a: as_matrices(ct) * bind(cofactors_p, a))
det_p.defjvp(lambda t, out, a: _trace_of_product(t, bind(cofactors_p, a))[..., 0, 0])
batch_in_front(det_p)


@implements(np.linalg.det)
def det(a):
    """``numpy.linalg.det``. The gradient is the matrix of cofactors, which singular matrices have too."""
    a = floating("det", a)
    stack_of_matrices("det", a)
    return bind(det_p, a)


class SlogdetResult(NamedTuple):
    sign: Any
    logabsdet: Any


slogdet_p = Primitive(
    "slogdet",
    lambda a: tuple(np.linalg.slogdet(a)),
    lambda a: (Spec(a.shape[:-2], a.dtype), Spec(a.shape[:-2], real_dtype(a.dtype))),
    multiple=True,
    flops=per_matrix(2 / 3),
    samples=lambda rng: [((well_conditioned(rng, 2, 3, 3),), {}), ((complex_sample(rng, 3, 3),), {})],
)


@slogdet_p.defvjp_all
def _(ct, out, args, needed):
    ct_sign, ct_log = ct
    complex_ = np.iscomplexobj(args[0])
    total = ct_log
    if complex_ and ct_sign is not None:
        turn = 1j * np.imag(ct_sign * out[0])
        total = turn if total is None else total + turn
    if total is None:
        return [None]
    return [(as_matrices(total) * mT(bind(inv_p, args[0]))).astype(np.result_type(args[0]))]


@slogdet_p.defjvp_all
def _(tangents, out, args):
    z = _trace_of_product(tangents[0], mT(bind(inv_p, args[0])))[..., 0, 0]
    if not np.iscomplexobj(z):
        return None, z
    return (1j * np.imag(z) * out[0]).astype(np.result_type(out[0])), np.real(z)


batch_in_front(slogdet_p)


@implements(np.linalg.slogdet)
def slogdet(a):
    """``numpy.linalg.slogdet``: sign (or phase) and logarithm of the absolute value of the determinant."""
    a = floating("slogdet", a)
    stack_of_matrices("slogdet", a)
    return SlogdetResult(*bind(slogdet_p, a))
