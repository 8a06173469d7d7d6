"""Dense layers and embeddings.

A layer is a frozen dataclass of arrays: a tree, so every transform and optimizer takes it whole.

``Layer.init(key, ...)`` makes one with fresh weights, ``layer(x)`` applies it. Batches are leading axes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import check, random
from ..ops.index import getitem
from ..precision import in_dtype_of
from .entries import pick_entries
from .init import Initializer, lecun_normal
from .layer import layer

__all__ = ["Cell", "Embedding", "Linear", "MLP", "static"]


def static(**kwargs: Any) -> Any:
    """A dataclass field that belongs to the structure of the tree, not to its leaves.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np
    >>> from triskele.core import nn, tree
    >>> @dataclass(frozen=True)
    ... class Scale:
    ...     factor: np.ndarray
    ...     power: int = nn.static(default=2)
    ...     def __call__(self, x):
    ...         return self.factor * x**self.power
    >>> tree.leaves(Scale(np.ones(2)))
    [array([1., 1.])]
    """
    return field(metadata={"static": True}, **kwargs)


class Cell:
    """A place to which the training twin of a layer writes during one forward pass."""

    def __init__(self, value: Any = None):
        self.value = value


@layer
@dataclass(frozen=True)
class Linear:
    """``x @ weight + bias``.

    Attributes
    ----------
    weight : (n_in, n_out) array
    bias : (n_out,) array, or None

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import Linear
    >>> layer = Linear.init(random.key(0), 3, 2)
    >>> layer(np.ones((5, 3), np.float32)).shape
    (5, 2)
    """

    weight: Any  # [n_in, n_out]
    bias: Any = None  # [n_out]

    @classmethod
    def init(
        cls,
        key: Any,
        n_in: int,
        n_out: int,
        *,
        bias: bool = True,
        initializer: Initializer = lecun_normal,
        dtype: DTypeLike = np.float32,
    ) -> Linear:
        """Fresh weights; the bias starts at zero."""
        return cls(initializer(key, (n_in, n_out), dtype), np.zeros(n_out, dtype) if bias else None)

    def __call__(self, x: Any) -> NDArray[Any]:
        check.shape(x, (..., np.shape(self.weight)[0]), "Linear: the input")
        y = in_dtype_of(x, self.weight) @ self.weight
        return y if self.bias is None else y + self.bias


@layer
@dataclass(frozen=True)
class MLP:
    """Linear layers with an activation between them.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import MLP
    >>> net = MLP.init(random.key(0), [2, 16, 1], activation=np.tanh)
    >>> net(np.zeros(2, np.float32)).shape
    (1,)
    """

    layers: tuple[Linear, ...]
    activation: Callable[..., Any] = static(default=np.tanh)

    @classmethod
    def init(
        cls,
        key: Any,
        sizes: Sequence[int],
        *,
        activation: Callable[..., Any] = np.tanh,
        initializer: Initializer = lecun_normal,
        dtype: DTypeLike = np.float32,
    ) -> MLP:
        """`sizes` are the widths from input to output."""
        if len(sizes) < 2:
            raise ValueError(f"MLP: sizes must name at least input and output width, got {sizes}")
        keys = random.split(key, len(sizes) - 1)
        layers = [
            Linear.init(k, a, b, initializer=initializer, dtype=dtype)
            for k, a, b in zip(keys, sizes[:-1], sizes[1:], strict=True)
        ]
        return cls(tuple(layers), activation)

    def __call__(self, x: Any) -> NDArray[Any]:
        for linear in self.layers[:-1]:
            x = self.activation(linear(x))
        return self.layers[-1](x)


@layer
@dataclass(frozen=True)
class Embedding:
    """A row of `weight` for each index, which must be at least 0 and below the number of rows.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import random
    >>> from triskele.core.nn import Embedding
    >>> Embedding.init(random.key(0), 10, 4)(np.array([[1, 2], [3, 4]])).shape
    (2, 2, 4)
    """

    weight: Any  # [n_entries, n_features]

    @classmethod
    def init(cls, key: Any, n_entries: int, n_features: int, *, dtype: DTypeLike = np.float32) -> Embedding:
        """Standard normal entries."""
        return cls(random.normal(key, (n_entries, n_features), dtype=dtype))

    def __call__(self, indices: Any) -> NDArray[Any]:
        return pick_entries("Embedding: indices", indices, np.shape(self.weight)[0], lambda i: getitem(self.weight, i))
