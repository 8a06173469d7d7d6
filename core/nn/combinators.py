"""Networks made of others: one after the other, and residual connections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import check, tree
from ..show.short_repr import short_repr
from .layers import static

__all__ = ["Residual", "Sequential"]


@short_repr
@dataclass(frozen=True)
class _Apply:
    """A function without parameters as a layer, so that it belongs to the structure of a network.

    Two partial functions are never equal. They are taken apart, so that networks made alike have equal structures.
    """

    function: Callable[..., Any] = static()
    options: tuple[tuple[str, Any], ...] = static(default=())

    def __call__(self, x: Any) -> Any:
        return self.function(x, **dict(self.options))


def _layer(x: Any) -> Any:
    if isinstance(x, partial) and not x.args:
        return _Apply(x.func, tuple(sorted(x.keywords.items())))
    return _Apply(x) if callable(x) and tree.structure(x).kind is None and not hasattr(x, "dtype") else x


@short_repr
@dataclass(frozen=True)
class Sequential:
    """Layers and functions, applied one after the other.

    Parameters
    ----------
    layers : sequence of callable
        Layers, and functions such as `relu` or ``functools.partial(max_pool, window=2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> first, second = random.split(random.key(0), 2)
    >>> net = nn.Sequential([nn.Conv2d(first, 3, 8, 3), nn.relu, nn.global_mean_pool, nn.Linear.init(second, 8, 10)])
    >>> net(np.zeros((4, 16, 16, 3), np.float32)).shape
    (4, 10)
    """

    layers: tuple[Any, ...]

    def __post_init__(self):
        if isinstance(self.layers, (list, tuple)):
            object.__setattr__(self, "layers", tuple(map(_layer, self.layers)))

    def __call__(self, x: Any) -> NDArray[Any]:
        for layer in self.layers:
            x = layer(x)
        return x


@short_repr
@dataclass(frozen=True)
class Residual:
    """``shortcut(x) + body(x)`` (He et al. 2016, eq. 1 and 2).

    Parameters
    ----------
    body : callable
        A layer, a network or a function.
    shortcut : callable, optional
        Applied to the input where the body changes its shape; the identity by default.

    Raises
    ------
    ValueError
        If the two terms have different shapes.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn, random
    >>> block = nn.Residual(nn.Sequential([nn.Conv2d(random.key(0), 8, 8, 3), nn.relu]))
    >>> block(np.zeros((4, 16, 16, 8), np.float32)).shape
    (4, 16, 16, 8)
    """

    body: Any
    shortcut: Any = None

    def __post_init__(self):
        object.__setattr__(self, "body", _layer(self.body))
        object.__setattr__(self, "shortcut", _layer(self.shortcut))

    def __call__(self, x: Any) -> NDArray[Any]:
        y = self.body(x)
        x = check.shape(
            x if self.shortcut is None else self.shortcut(x),
            np.shape(y),
            "Residual: the shortcut",
            hint="that of the body; a body that changes the shape needs a shortcut",
        )
        return x + y
