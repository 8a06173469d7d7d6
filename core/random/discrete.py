"""Integers, choices and orders."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.graph import spec_of
from ..ops.define import as_value
from ..tensor import Tensor
from .continuous import check_broadcast, gumbel, uniform
from .keys import as_shape, bits, checked_key

__all__ = ["bernoulli", "categorical", "choice", "permutation", "randint", "shuffle"]

Shape = int | Sequence[int]


def bernoulli(key: Any, p: Any = 0.5, shape: Shape | None = None) -> Any:
    """True with probability `p`.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    p : array_like, in [0, 1]
    shape : int or sequence of int, optional
        Default: that of `p`.

    Raises
    ------
    ValueError
        If `p` does not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.bernoulli(random.key(0), 0.5, 3)
    array([False, False,  True])
    """
    checked_key(key, "bernoulli")
    shape = np.shape(p) if shape is None else as_shape(shape, "bernoulli")
    check_broadcast("bernoulli", shape, p=p)
    return np.less(uniform(key, shape), p)


def randint(key: Any, low: Any, high: Any, shape: Shape = (), dtype: Any = np.int64) -> Any:
    """Integers with ``low <= n < high``, all equally likely up to (high - low) / 2**64.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    low, high : int or array of integers
        Broadcast to `shape`; ``low < high`` is checked unless they are traced.
    shape : int or sequence of int
    dtype : dtype
        An integer dtype.

    Raises
    ------
    TypeError
        If `low` or `high` is not an integer.
    ValueError
        If the range is empty, exceeds `dtype`, or does not broadcast to `shape`.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.randint(random.key(0), 0, 10, 5)
    array([8, 6, 3, 0, 3])
    """
    checked_key(key, "randint")
    dtype, shape = np.dtype(dtype), as_shape(shape, "randint")
    if dtype.kind not in "iu":
        raise TypeError(f"random.randint: dtype must be an integer type, got {dtype}")
    if isinstance(low, (int, np.integer)) and isinstance(high, (int, np.integer)):
        if not low < high:
            raise ValueError(f"random.randint: low < high must hold, got {low} and {high}")
        if low < np.iinfo(dtype).min or high - 1 > np.iinfo(dtype).max:
            raise ValueError(f"random.randint: low and high must fit {dtype}, got {low} and {high}")
        span, start = np.uint64(int(high) - int(low)), np.uint64(int(low) % 2**64)
    else:
        low, high = as_value(low), as_value(high)
        if any(spec_of(x).dtype.kind not in "iu" for x in (low, high)):
            raise TypeError(f"random.randint: low and high must be integers, got {spec_of(low)} and {spec_of(high)}")
        check_broadcast("randint", shape, low=low, high=high)
        if not isinstance(low, Tensor) and not isinstance(high, Tensor) and not np.all(np.less(low, high)):
            raise ValueError("random.randint: low < high must hold for every element")
        start, end = [x.astype(np.uint64) if hasattr(x, "astype") else np.uint64(x % 2**64) for x in (low, high)]
        span = end - start
    words = bits(key, shape, np.uint64)
    with np.errstate(over="ignore"):
        return (start + _high_product(words, span)).astype(dtype)


def _high_product(a, b):
    """The upper half of the 128-bit product of uint64 values."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    middle = a1 * b0 + (a0 * b0 >> half)
    cross = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (cross >> half)


def categorical(key: Any, logits: Any, axis: int = -1, shape: Shape | None = None) -> Any:
    """Indices along `axis` with probability proportional to ``exp(logits)``.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    logits : array_like
        Unnormalized log-probabilities; -inf for never.
    axis : int
    shape : int or sequence of int, optional
        Shape of the result; ends with the shape of `logits` without `axis`, which is the default.

    Raises
    ------
    ValueError
        If `logits` has no such axis, or `shape` does not end as it must.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> random.categorical(random.key(0), np.log([0.1, 0.2, 0.7]), shape=5)
    array([2, 0, 2, 1, 2])
    """
    checked_key(key, "categorical")
    rank = np.ndim(logits)
    if rank == 0 or not -rank <= axis < rank:
        raise ValueError(f"random.categorical: logits must have the axis {axis}, got shape {np.shape(logits)}")
    logits = np.moveaxis(logits, axis, -1)
    batch = np.shape(logits)[:-1]
    shape = batch if shape is None else as_shape(shape, "categorical")
    if shape[len(shape) - len(batch) :] != batch:
        raise ValueError(
            f"random.categorical: shape must end with {batch}, the shape of logits without the axis, got {shape}"
        )
    return np.argmax(gumbel(key, (*shape, np.shape(logits)[-1])) + logits, axis=-1)


def _order(key, n):
    return np.argsort(bits(key, n, np.uint64))


def permutation(key: Any, x: Any, axis: int = 0) -> Any:
    """`x` with its entries along `axis` in random order; for an integer, a random order of ``range(x)``.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    x : int or array_like
    axis : int

    Raises
    ------
    ValueError
        For a negative number or an array without axes.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.permutation(random.key(0), 5)
    array([3, 4, 2, 1, 0])
    """
    checked_key(key, "permutation")
    if isinstance(x, (int, np.integer)):
        if x < 0:
            raise ValueError(f"random.permutation: a number must be >= 0, got {x}")
        return _order(key, int(x))
    x = x if isinstance(x, Tensor) else np.asarray(x)
    if x.ndim == 0:
        raise ValueError("random.permutation: an array must have an axis, got shape ()")
    return np.take(x, _order(key, x.shape[axis]), axis=axis)


shuffle = permutation


def choice(key: Any, a: Any, shape: Shape = (), replace: bool = True, p: Any = None) -> Any:
    """Entries of `a`, or of ``range(a)``, at random.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    a : int or array_like
        Chosen from along its first axis.
    shape : int or sequence of int
    replace : bool
        If True, draw with replacement.
    p : array_like, optional
        Probabilities, which are normalized; equal by default.

    Raises
    ------
    ValueError
        If there is nothing, or not enough, to choose from, or `p` has another shape.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> random.choice(random.key(0), np.array([2, 3, 5, 7]), 3, replace=False)
    array([7, 5, 3])
    """
    checked_key(key, "choice")
    shape = as_shape(shape, "choice")
    many = int(a) if isinstance(a, (int, np.integer)) else np.shape(a)[0] if np.ndim(a) else 0
    count = math.prod(shape)
    if many <= 0:
        raise ValueError(f"random.choice: there must be something to choose from, got {a!r}")
    if p is not None and np.shape(p) != (many,):
        raise ValueError(f"random.choice: p must have shape ({many},), got {np.shape(p)}")
    if not replace and count > many:
        raise ValueError(f"random.choice: without replacement at most {many} can be chosen, got {count}")
    if p is not None:
        with np.errstate(divide="ignore"):  # never, for a probability of zero
            log_p = np.log(p)
    if replace:
        index = randint(key, 0, many, shape) if p is None else categorical(key, log_p, shape=shape)
    elif p is None:
        index = np.reshape(_order(key, many)[:count], shape)
    else:  # the largest of log p plus Gumbel numbers: drawing without replacement
        index = np.reshape(np.argsort(-(gumbel(key, many) + log_p))[:count], shape)
    return (
        index
        if isinstance(a, (int, np.integer))
        else np.take(a if isinstance(a, Tensor) else np.asarray(a), index, axis=0)
    )
