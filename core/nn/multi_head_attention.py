"""Attention: the function of queries, keys and values, and the layer with several heads."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import check, random
from ..dtypes import kind_of
from ..graph.trace import bind
from ..ops.attention import attention_p, plain_attention
from ..ops.define import as_value
from .init import glorot_uniform
from .layer import layer
from .layers import Linear, static

__all__ = ["MultiHeadAttention", "attention"]

_FEW = 4  # queries for which keys are read in place


def attention(q: Any, k: Any, v: Any, *, causal: bool = False, mask: Any = None, scale: float | None = None) -> Any:
    """Scaled dot-product attention, ``softmax(q @ k.T * scale + mask) @ v`` for each head.

    Compiled functions compute it in blocks, so that memory, for derivatives too, is linear in the lengths (Dao et al.
    2022, algorithms 1 and 4). Forward-mode and second derivatives hold all scores at once.

    Parameters
    ----------
    q : (..., queries, heads, depth) array
    k : (..., keys, key_heads, depth) array
        `key_heads` divides `heads`; ``heads // key_heads`` consecutive heads share a head of keys and values (Ainslie
        et al. 2023).
    v : (..., keys, key_heads, width) array
    causal : bool, default False
        Hide key j from query i where ``j > i + keys - queries``: the last query sees all keys.
    mask : array broadcastable to (..., heads, queries, keys), optional
        Boolean, True where a query sees a key; or floating-point numbers that are added to the scores.
    scale : float, default ``1 / sqrt(depth)``

    Returns
    -------
    (..., queries, heads, width) array

    Raises
    ------
    ValueError
        If shapes do not fit together, or if the scale is not finite.
    TypeError
        If the mask consists of integers or complex numbers, or if q, k or v is complex.

    Notes
    -----
    A query that sees no key, because of `causal`, False or -inf, has the result 0 and derivatives 0. A hidden key has
    no weight even if its score is NaN, but values v must be finite at hidden keys too: 0 times infinity is NaN. NaN in
    a visible score or in the mask gives a row of NaN, and so does a score of +inf.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> q = k = np.zeros((3, 1, 2))
    >>> v = np.arange(3.0).reshape(3, 1, 1)
    >>> nn.attention(q, k, v, causal=True)[:, 0, 0]
    array([0. , 0.5, 1. ])
    """
    q, k, v = map(as_value, (q, k, v))
    shapes = [np.shape(x) for x in (q, k, v)]
    if (
        min(map(len, shapes)) < 3
        or len({s[:-3] for s in shapes}) > 1
        or shapes[0][-1] != shapes[1][-1]
        or shapes[1][:-1] != shapes[2][:-1]
    ):
        raise ValueError(
            "attention: q must be (..., queries, heads, depth), k (..., keys, key_heads, depth) and v "
            f"(..., keys, key_heads, width), got shapes {', '.join(map(str, shapes))}"
        )
    (*lead, queries, heads, depth), (keys, key_heads) = shapes[0], shapes[1][-3:-1]
    if not key_heads or heads % key_heads:
        raise ValueError(f"attention: the heads of k must divide those of q, got {key_heads} and {heads}")
    scale = 1 / math.sqrt(max(depth, 1)) if scale is None else float(scale)
    if not math.isfinite(scale):
        raise ValueError(f"attention: scale must be finite, got {scale}")
    given = np.result_type(q, k, v)
    if given.kind == "c":
        raise TypeError(f"attention: q, k and v must be real, got {given}")
    dtype = np.result_type(given, np.float32) if kind_of(given) == "f" else np.dtype(float)
    batch = math.prod(lead)
    arrays = [np.astype(np.reshape(x, (batch, *s[-3:])), dtype) for x, s in zip((q, k, v), shapes, strict=True)]
    if mask is not None:
        arrays.append(_mask(mask, tuple(lead), (heads, queries, keys), dtype))
    if keys == 0 or queries == 0 or batch == 0:
        y = np.zeros((batch, queries, heads, shapes[2][-1]), dtype)
    elif queries < _FEW:
        y, _ = plain_attention(*arrays, causal=bool(causal), scale=scale)
    else:
        y, _ = bind(attention_p, *arrays, causal=bool(causal), scale=scale)
    y = np.reshape(y, (*lead, *np.shape(y)[1:]))
    return np.astype(y, given) if kind_of(given) == "f" and given != dtype else y


def _mask(mask, lead, shape, dtype):
    """The mask as numbers (batch or 1, heads or 1, queries or 1, keys)."""
    mask = as_value(mask)
    kind = kind_of(np.result_type(mask))
    if kind not in "bf":
        raise TypeError(f"attention: mask must be bool or floating-point, got {np.result_type(mask)}")
    given = np.shape(mask)
    try:
        fits = np.broadcast_shapes(given, (*lead, *shape)) == (*lead, *shape)
    except ValueError:
        fits = False
    if not fits:
        raise ValueError(
            f"attention: mask must broadcast to (..., heads, queries, keys), {(*lead, *shape)}, got {given}"
        )
    full = (1,) * (len(lead) + 3 - len(given)) + given
    own = full[: len(lead)]
    if any(n > 1 for n in own):
        mask = np.broadcast_to(mask, (*lead, *full[-3:-1], shape[-1]))
        own = lead
    else:
        mask = np.broadcast_to(mask, (*full[:-1], shape[-1]))
    numbers = np.where(mask, np.zeros((), dtype), -np.inf) if kind == "b" else mask
    return np.reshape(np.astype(numbers, dtype), (math.prod(own), *full[-3:-1], shape[-1]))


@layer
@dataclass(frozen=True)
class MultiHeadAttention:
    """Scaled dot-product attention with several heads (Vaswani et al. 2017, section 3.2).

    Attributes
    ----------
    query, key, value, output : Linear, n_features -> n_features
    heads : int

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import MultiHeadAttention
    >>> layer = MultiHeadAttention.init(random.key(0), 16, heads=4)
    >>> x = np.zeros((2, 7, 16), np.float32)
    >>> layer(x).shape
    (2, 7, 16)
    """

    query: Linear
    key: Linear
    value: Linear
    output: Linear
    heads: int = static(default=1)

    @classmethod
    def init(cls, key: Any, n_features: int, heads: int, *, dtype: DTypeLike = np.float32) -> MultiHeadAttention:
        """Fresh weights; `heads` must divide `n_features`."""
        if n_features % heads:
            raise ValueError(f"MultiHeadAttention: heads must divide n_features, got {heads} for {n_features}")
        q, k, v, o = [
            Linear.init(part, n_features, n_features, initializer=glorot_uniform, dtype=dtype)
            for part in random.split(key, 4)
        ]
        return cls(q, k, v, o, heads)

    def __call__(self, x: Any, context: Any = None, mask: Any = None) -> NDArray[Any]:
        """Attend from `x` to `context` (to itself when absent).

        Parameters
        ----------
        x : (..., T, n_features) array
        context : (..., S, n_features) array, optional
        mask : array broadcastable to [..., heads, T, S], optional
            As in `attention`: True where attention is allowed (``np.tri(T, dtype=bool)`` is causal).

        Returns
        -------
        array, [..., T, n_features]
        """
        check.shape(x, (..., np.shape(self.query.weight)[0]), "MultiHeadAttention: the input")
        context = x if context is None else context

        def split(y):
            return np.reshape(y, (*np.shape(y)[:-1], self.heads, np.shape(y)[-1] // self.heads))

        y = attention(split(self.query(x)), split(self.key(context)), split(self.value(context)), mask=mask)
        return self.output(np.reshape(y, np.shape(x)))
