"""Pooling: the largest element or the mean of windows, or of all positions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..ops.pool import max_pool, mean_pool

__all__ = ["global_max_pool", "global_mean_pool", "max_pool", "mean_pool"]


def global_mean_pool(x: Any) -> NDArray[Any]:
    """Mean over all positions.

    Parameters
    ----------
    x : (n, *axes, channels) array

    Returns
    -------
    (n, channels) array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.global_mean_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[3., 4.]])
    """
    return np.mean(x, axis=_positions("global_mean_pool", x))


def global_max_pool(x: Any) -> NDArray[Any]:
    """Largest element over all positions.

    Parameters
    ----------
    x : (n, *axes, channels) array

    Returns
    -------
    (n, channels) array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import nn
    >>> nn.global_max_pool(np.arange(8.0).reshape(1, 2, 2, 2))
    array([[6., 7.]])
    """
    return np.max(x, axis=_positions("global_max_pool", x))


def _positions(where: str, x: Any) -> tuple[int, ...]:
    if np.ndim(x) < 3:
        raise ValueError(f"{where}: x must be (n, *axes, channels) with at least one axis, got shape {np.shape(x)}")
    return tuple(range(1, np.ndim(x) - 1))
