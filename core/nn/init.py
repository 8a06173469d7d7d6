"""Initial values of weights: ``initializer(key, shape, dtype) -> ndarray``.

Shapes are ``(*window, fan in, fan out)``: the last axis counts outputs, the one before it inputs, all before are a
convolution's window (its size multiplies both fans).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import random

__all__ = ["Initializer", "glorot_uniform", "he_normal", "lecun_normal", "orthogonal"]

Initializer = Callable[..., NDArray[Any]]


def fans(shape: tuple[int, ...]) -> tuple[int, int]:
    """(fan in, fan out) of a weight of this shape."""
    if len(shape) < 2:
        raise ValueError(f"nn.init: a weight must have at least 2 axes (fan in, fan out), got shape {shape}")
    window = math.prod(shape[:-2])
    return window * shape[-2], window * shape[-1]


def glorot_uniform(key: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Uniform with variance 2 / (fan in + fan out) (Glorot & Bengio 2010, eq. 16): for tanh and sigmoid.

    Parameters
    ----------
    key : key
        Source of the random numbers; see `random.key`.
    shape : tuple of int
        Shape of the weights: inputs before outputs.
    dtype : dtype, default float32

    Examples
    --------
    >>> from triskele.core import random
    >>> from triskele.core.nn import init
    >>> w = init.glorot_uniform(random.key(0), (300, 200))
    >>> w.shape, w.dtype, round(float(w.std()), 3)
    ((300, 200), dtype('float32'), 0.063)
    """
    n_in, n_out = fans(shape)
    limit = math.sqrt(6.0 / (n_in + n_out))
    return random.uniform(key, shape, dtype=dtype) * (2 * limit) - limit


def lecun_normal(key: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Normal with variance 1 / fan in (LeCun et al. 1998, section 4.6): keeps the scale through linear layers.

    Parameters
    ----------
    key : key
        Source of the random numbers; see `random.key`.
    shape : tuple of int
        Shape of the weights: inputs before outputs.
    dtype : dtype, default float32

    Examples
    --------
    >>> from triskele.core import random
    >>> from triskele.core.nn import init
    >>> w = init.lecun_normal(random.key(0), (300, 200))
    >>> w.shape, w.dtype, round(float(w.std()), 3)
    ((300, 200), dtype('float32'), 0.058)
    """
    return random.normal(key, shape, dtype=dtype) * math.sqrt(1.0 / fans(shape)[0])


def he_normal(key: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Normal with variance 2 / fan in (He et al. 2015, eq. 10): for relu.

    Parameters
    ----------
    key : key
        Source of the random numbers; see `random.key`.
    shape : tuple of int
        Shape of the weights: inputs before outputs.
    dtype : dtype, default float32

    Examples
    --------
    >>> from triskele.core import random
    >>> from triskele.core.nn import init
    >>> w = init.he_normal(random.key(0), (300, 200))
    >>> w.shape, w.dtype, round(float(w.std()), 3)
    ((300, 200), dtype('float32'), 0.082)
    """
    return random.normal(key, shape, dtype=dtype) * math.sqrt(2.0 / fans(shape)[0])


def orthogonal(key: Any, shape: tuple[int, ...], dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Rows or columns orthonormal (Saxe et al. 2014): for recurrent weights.

    Parameters
    ----------
    key : key
        Source of the random numbers; see `random.key`.
    shape : tuple of int
        Shape of the weights: inputs before outputs.
    dtype : dtype, default float32

    Examples
    --------
    >>> from triskele.core import random
    >>> from triskele.core.nn import init
    >>> w = init.orthogonal(random.key(0), (6, 4))
    >>> abs(w.T @ w).round(3).tolist()[0]
    [1.0, 0.0, 0.0, 0.0]
    """
    n_in, n_out = shape[-2], shape[-1]
    q, r = np.linalg.qr(random.normal(key, (*shape[:-2], max(n_in, n_out), min(n_in, n_out)), dtype=np.float64))
    q = q * np.sign(np.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return (q if n_in >= n_out else np.swapaxes(q, -1, -2)).astype(dtype)
