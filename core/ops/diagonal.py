"""Diagonals of matrices and matrices with a given diagonal: each is the transpose of the other."""

from __future__ import annotations

import operator

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind, view
from ..tensor import implements
from .define import as_value, refuse_out

__all__: list[str] = []


def _length(m, n, offset):
    return max(0, min(m, n - offset) if offset >= 0 else min(m + offset, n))


def _diagonal_spec(x, *, offset):
    return Spec((*x.shape[:-2], _length(x.shape[-2], x.shape[-1], offset)), x.dtype)


def _diagonal_pull(b, index, loads, in_specs, out_spec, *, offset):
    i = index[-1]
    shift = b.index(abs(offset))
    return loads[0]([*index[:-1], i if offset >= 0 else b.add(i, shift), b.add(i, shift) if offset > 0 else i])


diagonal_p = Primitive(
    "diagonal",
    lambda x, *, offset: np.diagonal(x, offset, -2, -1),
    _diagonal_spec,
    kind="pull",
    pull=_diagonal_pull,
    flops=0,
    samples=lambda rng: [((rng.normal(size=(2, 3, 4)),), {"offset": k}) for k in (0, 1, -2)],
)


def _embed(x, *, shape, offset):
    out = np.zeros((*x.shape[:-1], *shape), x.dtype)
    i = np.arange(x.shape[-1])
    out[..., i + max(-offset, 0), i + max(offset, 0)] = x
    return out


def _embed_pull(b, index, loads, in_specs, out_spec, *, shape, offset):
    i, j = index[-2:]
    on = b.cmp("==", j, b.add(i, b.index(offset)))
    # off the diagonal element 0 is read and dropped, so that the index is always valid
    at = b.select(on, i if offset >= 0 else j, b.index(0))
    x = loads[0]([*index[:-2], at])
    return b.select(on, x, b.const_like(0, x))


embed_p = Primitive(
    "diagonal_embed",
    _embed,
    lambda x, *, shape, offset: Spec((*x.shape[:-1], *shape), x.dtype),
    kind="pull",
    pull=_embed_pull,
    flops=0,
    samples=lambda rng: [
        ((rng.normal(size=(2, 3)),), {"shape": s, "offset": k}) for s, k in (((3, 3), 0), ((3, 4), 1), ((5, 4), -2))
    ],
)

diagonal_p.defvjp(lambda ct, out, x, *, offset: bind(embed_p, ct, shape=np.shape(x)[-2:], offset=offset))
diagonal_p.defjvp("same")
diagonal_p.defview()  # read-only
diagonal_p.defbatch(
    lambda args, axes, size, **params: (bind(diagonal_p, np.moveaxis(args[0], axes[0], 0), **params), 0)
)
embed_p.defvjp(lambda ct, out, x, *, shape, offset: bind(diagonal_p, ct, offset=offset))
embed_p.defjvp("same")
embed_p.defbatch(lambda args, axes, size, **params: (bind(embed_p, np.moveaxis(args[0], axes[0], 0), **params), 0))


def embed_diagonal(x, shape=None, offset=0):
    """Matrices (…, *shape) with `x` (…, n) on the diagonal `offset` and zeros elsewhere."""
    n = np.shape(x)[-1] + abs(offset)
    return bind(embed_p, as_value(x), shape=shape or (n, n), offset=offset)


@implements(np.diagonal, method="diagonal", view=True)
def diagonal(a, offset=0, axis1=0, axis2=1):
    """``numpy.diagonal``."""
    a = as_value(a)
    if np.ndim(a) < 2:
        raise ValueError("diag requires an array of at least two dimensions")
    return view(diagonal_p, np.moveaxis(a, (axis1, axis2), (-2, -1)), offset=operator.index(offset))


@implements(np.linalg.diagonal, view=True)
def matrix_diagonal(x, /, *, offset=0):
    """``numpy.linalg.diagonal``: of the last two dimensions."""
    return diagonal(x, offset, -2, -1)


@implements(np.trace, method="trace")
def trace(a, offset=0, axis1=0, axis2=1, dtype=None, out=None):
    """``numpy.trace``."""
    refuse_out("trace", out)
    return np.sum(diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype)


@implements(np.linalg.trace)
def matrix_trace(x, /, *, offset=0, dtype=None):
    """``numpy.linalg.trace``: of the last two dimensions."""
    return trace(x, offset, -2, -1, dtype)


@implements(np.diag, view=True)
def diag(v, k=0):
    """``numpy.diag``: the diagonal of a matrix, or the matrix with diagonal `v`."""
    if np.ndim(v) == 1:
        return embed_diagonal(v, offset=k)
    if np.ndim(v) == 2:
        return diagonal(v, k)
    raise ValueError("Input must be 1- or 2-d.")


@implements(np.diagflat)
def diagflat(v, k=0):
    """``numpy.diagflat``."""
    return embed_diagonal(np.reshape(v, (-1,)), offset=k)
