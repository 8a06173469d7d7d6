"""Keys and raw bits."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..graph.graph import Spec, spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..kernels import philox
from ..ops.define import as_value, batch_first
from ..tensor import Tensor
from . import inline

__all__ = [
    "INLINE",
    "KEY",
    "as_shape",
    "batch_keys",
    "bits",
    "checked_key",
    "each_key",
    "float_dtype",
    "fold_in",
    "key",
    "split",
]

KEY = np.dtype(np.uint32)
# most numbers per key that compiled programs compute in their loops instead of calling the kernel
INLINE = 64
_INLINE_BITS = 1 << 17  # bits need no table and no rejection: as fast in a fused loop as in a kernel of their own
_VECTOR_WORDS = 512  # most words per key for which NumPy handles a batch of keys at once


def key(seed: Any) -> Any:
    """The key of a seed.

    Parameters
    ----------
    seed : int, or integer array of shape ()
        Taken modulo 2**64.

    Returns
    -------
    ndarray of uint32, [2]

    Examples
    --------
    >>> from triskele.core.random import key
    >>> key(7)
    array([7, 0], dtype=uint32)
    """
    if isinstance(seed, Tensor) or isinstance(seed, np.ndarray) and seed.shape == () and seed.dtype.kind in "iu":
        wide = seed.astype(np.uint64)
        return np.stack([wide & np.uint64(0xFFFFFFFF), wide >> np.uint64(32)]).astype(KEY)
    try:
        seed = operator.index(seed) % 2**64
    except TypeError:
        raise TypeError(f"random.key: the seed must be an integer, got {type(seed).__name__} {seed!r}") from None
    return np.array([seed & 0xFFFFFFFF, seed >> 32], KEY)


def checked_key(k: Any, where: str) -> Any:
    """Return a key, or raise TypeError if `k` is not a key."""
    spec = spec_of(k) if isinstance(k, (Tensor, np.ndarray)) else None
    if spec is None or spec.shape != (2,) or spec.dtype != KEY:
        got = spec if spec is not None else f"{type(k).__name__} {k!r}"
        hint = (
            " (use vmap for a batch of keys)"
            if spec is not None and spec.dtype == KEY and spec.shape[-1:] == (2,)
            else ""
        )
        raise TypeError(
            f"random.{where}: key must be uint32 of shape (2,), got {got} (make one with core.random.key(seed)){hint}"
        )
    return k


def as_shape(shape: Any, where: str) -> tuple[int, ...]:
    """Return a shape as a tuple of integers."""
    try:
        shape = (
            (operator.index(shape),)
            if not isinstance(shape, (tuple, list))
            else tuple(operator.index(n) for n in shape)
        )
    except TypeError:
        raise TypeError(
            f"random.{where}: shape must be made of integers, got {shape!r} (the second argument is the shape)"
        ) from None
    if any(n < 0 for n in shape):
        raise ValueError(f"random.{where}: shape must have no negative entry, got {shape}")
    return shape


def float_dtype(dtype: Any, where: str) -> np.dtype:
    """Return `dtype` if it is float32 or float64, or raise TypeError."""
    dtype = np.dtype(dtype)
    if dtype not in (np.float32, np.float64):
        raise TypeError(f"random.{where}: dtype must be float32 or float64, got {dtype}")
    return dtype


def batch_keys(p: Primitive) -> None:
    """Batching of a primitive whose first argument is a key: keys of any leading shape are taken together."""

    @p.defbatch
    def _(args, axes, size, **params):
        return bind(p, *batch_first(args, axes, size), **params), 0


def each_key(keys: np.ndarray, shape: tuple[int, ...], dtype: Any, draw: Any) -> np.ndarray:
    """``draw(key) -> flat array`` for every key of an array [..., 2]."""
    if keys.ndim == 1:
        return draw(keys).reshape(shape)
    out = np.empty((math.prod(keys.shape[:-1]), math.prod(shape)), dtype)
    for row, k in zip(out, keys.reshape(-1, 2), strict=True):
        row[:] = draw(k)
    return out.reshape(keys.shape[:-1] + shape)


# -- new keys from old
# ----------------------------------------------------------------------------------------------------


def _split(keys, *, n):
    keys = np.asarray(keys)
    i = np.arange(n, dtype=np.uint64)
    k = (keys[..., :1], keys[..., 1:])
    return np.stack([*philox.philox4x32((i, 0, 0, philox.SPLIT), k)[:2]], axis=-1)


def _split_pull(b, index, loads, in_specs, out_spec, *, n):
    zero = inline.constant(b, 0)
    counter = [b.cast(index[-2], inline.U64), zero, zero, inline.constant(b, philox.SPLIT)]
    words = inline.block(b, counter, inline.load_key(b, loads[0], index[:-2]))
    return b.cast(inline.pick(b, words[:2], b.cast(index[-1], inline.U64)), KEY)


split_p = Primitive(
    "random_split",
    _split,
    lambda k, *, n: Spec((*k.shape[:-1], n, 2), KEY),
    kind="pull",
    pull=_split_pull,
    differentiable=False,
    flops=60,
    samples=lambda rng: [((np.array([3, 4], KEY),), {"n": 3})],
)
batch_keys(split_p)


def split(key: Any, n: int | Sequence[int] = 2) -> Any:
    """`n` new keys from one, which is then used up.

    Parameters
    ----------
    key : (2,) uint32
    n : int or sequence of int

    Returns
    -------
    array of uint32, [n, 2] or [*n, 2]

    Examples
    --------
    >>> from triskele.core import random
    >>> random.split(random.key(0), 3).shape
    (3, 2)
    """
    checked_key(key, "split")
    shape = as_shape(n, "split")
    keys = bind(split_p, key, n=math.prod(shape))
    return keys if len(shape) == 1 else np.reshape(keys, (*shape, 2))


def _fold(keys, data):
    keys, data = np.asarray(keys), np.asarray(data).astype(np.uint64)
    counter = (data & np.uint64(0xFFFFFFFF), data >> np.uint64(32), 0, philox.FOLD)
    return np.stack([*philox.philox4x32(counter, (keys[..., 0], keys[..., 1]))[:2]], axis=-1)


def _fold_pull(b, index, loads, in_specs, out_spec):
    at = index[:-1]
    data = b.cast(loads[1](at), inline.U64)
    counter = [inline.low(b, data), inline.high(b, data), inline.constant(b, 0), inline.constant(b, philox.FOLD)]
    words = inline.block(b, counter, inline.load_key(b, loads[0], at))
    return b.cast(inline.pick(b, words[:2], b.cast(index[-1], inline.U64)), KEY)


fold_p = Primitive(
    "random_fold_in",
    _fold,
    lambda k, d: Spec(k.shape, KEY),
    kind="pull",
    pull=_fold_pull,
    differentiable=False,
    flops=60,
    samples=lambda rng: [((np.array([3, 4], KEY), np.int64(5)), {})],
)
batch_keys(fold_p)


def fold_in(key: Any, data: Any) -> Any:
    """A new key from a key and a number, such as the count of a loop.

    Parameters
    ----------
    key : (2,) uint32
    data : int, or integer array of shape ()
        Taken modulo 2**64.

    Returns
    -------
    array of uint32, [2]

    Raises
    ------
    TypeError
        If `data` is not one integer.

    Examples
    --------
    >>> from triskele.core import random
    >>> random.fold_in(random.key(0), 3)
    array([2661137593, 2764693776], dtype=uint32)
    """
    checked_key(key, "fold_in")
    if type(data) is int:
        data = np.uint64(data % 2**64)
    data = as_value(data)
    if np.shape(data) != () or spec_of(data).dtype.kind not in "iu":
        raise TypeError(f"random.fold_in: data must be one integer, got {spec_of(data)}")
    return bind(fold_p, key, data)


# -- bits --------------------------------------------------------------------------------------------------------------


def _bits(keys, *, shape, dtype):
    keys = np.asarray(keys)
    n = math.prod(shape)
    words = n * (2 if dtype.itemsize == 8 else 1)
    if keys.ndim == 1:
        found = philox.bits(keys, 0, words)
    elif words <= _VECTOR_WORDS:
        blocks = np.arange((words + 3) // 4, dtype=np.uint64)
        found = np.stack([*philox.philox4x32((blocks, 0, 0, 0), (keys[..., :1], keys[..., 1:]))], axis=-1)
        found = np.ascontiguousarray(found.reshape(*keys.shape[:-1], -1)[..., :words])
    else:
        found = each_key(keys, (words,), KEY, lambda k: philox.bits(k, 0, words))
    if dtype.itemsize == 8:
        found = found.astype("<u4", copy=False).view("<u8").astype(np.uint64, copy=False)  # the lower word comes first
    elif dtype.itemsize < 4:
        found = (found >> np.uint32(32 - 8 * dtype.itemsize)).astype(dtype)
    return found.reshape(keys.shape[:-1] + shape)[()]


def _bits_pull(b, index, loads, in_specs, out_spec, *, shape, dtype):
    n = len(index) - len(shape)
    at = inline.linear(b, index[n:], shape)
    per_block = 2 if dtype.itemsize == 8 else 4
    number = b.shift_right(at, inline.constant(b, 1 if per_block == 2 else 2))
    words = inline.stream_block(b, number, inline.load_key(b, loads[0], index[:n]))
    which = b.and_(at, inline.constant(b, per_block - 1))
    if per_block == 2:
        return inline.pick(b, [inline.join(b, *words[:2]), inline.join(b, *words[2:])], which)
    word = inline.pick(b, words, which)
    return b.cast(
        b.shift_right(word, inline.constant(b, 32 - 8 * dtype.itemsize)) if dtype.itemsize < 4 else word, dtype
    )


def _bits_spec(k, *, shape, dtype):
    return Spec(k.shape[:-1] + shape, dtype)


def _samples(rng):
    return [
        ((np.array([3, 4], KEY),), {"shape": s, "dtype": np.dtype(t)})
        for s, t in (((3, 2), "uint32"), ((), "uint64"), ((5,), "uint8"))
    ]


bits_p = Primitive("random_bits", _bits, _bits_spec, differentiable=False, flops=15, samples=_samples)
inline_bits_p = Primitive(
    "random_bits_inline",
    _bits,
    _bits_spec,
    kind="pull",
    pull=_bits_pull,
    differentiable=False,
    flops=60,
    samples=_samples,
)
batch_keys(bits_p)
batch_keys(inline_bits_p)


def bits(key: Any, shape: int | Sequence[int] = (), dtype: Any = np.uint32) -> Any:
    """Random bits.

    Parameters
    ----------
    key : (2,) uint32
        Used up.
    shape : int or sequence of int
    dtype : dtype
        uint8, uint16, uint32 or uint64.

    Examples
    --------
    >>> from triskele.core import random
    >>> [hex(w) for w in random.bits(random.key(0), 2)]
    ['0x6627e8d5', '0xe169c58d']
    """
    checked_key(key, "bits")
    dtype = np.dtype(dtype)
    if dtype.kind != "u":
        raise TypeError(f"random.bits: dtype must be an unsigned integer, got {dtype}")
    shape = as_shape(shape, "bits")
    return bind(inline_bits_p if math.prod(shape) <= _INLINE_BITS else bits_p, key, shape=shape, dtype=dtype)
