"""Inverse of symmetric positive definite matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...graph.primitive import Primitive
from ...graph.trace import bind
from ...kernels import cholesky
from .basic import batch_in_front, from_triangle, mT, per_matrix, positive, same_spec, to_triangle

__all__ = ["positive_inverse"]


def _positive_inverse(a):
    out = np.empty(a.shape, a.dtype)
    for index in np.ndindex(*a.shape[:-2]):
        found = cholesky.positive_inverse(a[index])
        out[index] = np.linalg.inv(a[index]) if found is None else found
    return out


inv_positive_p = Primitive(
    "inv_positive",
    _positive_inverse,
    same_spec,
    flops=per_matrix(1.0),
    samples=lambda rng: [((positive(rng, 3, 3),), {}), ((positive(rng, 2, 3, 3),), {})],
)
inv_positive_p.defvjp(lambda ct, out, *_: -to_triangle(np.matmul(np.matmul(mT(out), (ct + mT(ct)) / 2), mT(out))))
inv_positive_p.defjvp(lambda t, out, *_: -np.matmul(np.matmul(out, from_triangle(t)), out))
batch_in_front(inv_positive_p)


def positive_inverse(a: Any) -> Any:
    """The inverse of symmetric positive definite matrices (..., n, n) by Cholesky's factorization.

    Reads the lower triangle. Matrices that are not positive definite are inverted as any matrix.
    """
    return bind(inv_positive_p, a)
