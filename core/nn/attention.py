"""Multi-head attention."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import random
from ..short_repr import short_repr
from .functional import softmax
from .init import glorot_uniform
from .layers import Linear, check_last_axis, static

__all__ = ["MultiHeadAttention"]


@short_repr
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
        q, k, v, o = [Linear.init(part, n_features, n_features, initializer=glorot_uniform,
                                  dtype=dtype) for part in random.split(key, 4)]
        return cls(q, k, v, o, heads)

    def __call__(self, x: Any, context: Any = None, mask: Any = None) -> NDArray[Any]:
        """Attend from `x` to `context` (to itself when absent).

        Parameters
        ----------
        x : (..., T, n_features) array
        context : (..., S, n_features) array, optional
        mask : bool array broadcastable to [..., heads, T, S], optional
            True where attention is allowed (``np.tri(T, dtype=bool)`` is causal).

        Returns
        -------
        array, [..., T, n_features]
        """
        check_last_axis("MultiHeadAttention", x, np.shape(self.query.weight)[0])
        context = x if context is None else context

        def split(y):
            y = np.reshape(y, (*np.shape(y)[:-1], self.heads, np.shape(y)[-1] // self.heads))
            return np.swapaxes(y, -2, -3)

        q, k, v = split(self.query(x)), split(self.key(context)), split(self.value(context))
        scores = q @ np.swapaxes(k, -1, -2) / math.sqrt(np.shape(q)[-1])
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        y = np.swapaxes(softmax(scores) @ v, -2, -3)
        return self.output(np.reshape(y, np.shape(x)))
