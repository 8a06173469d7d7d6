"""Values in other forms: squashed, and as distributions over a few fixed numbers.

All compile, batch and differentiate.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

__all__ = ["from_two_hot", "project", "signed_hyperbolic", "signed_parabolic", "two_hot"]


def signed_hyperbolic(x: Any, epsilon: float = 1e-3) -> Any:
    r"""Squash values of any size: :math:`\mathrm{sign}(x)(\sqrt{|x| + 1} - 1) + \epsilon x`.

    Parameters
    ----------
    x : array
    epsilon : float
        Positive, so that there is an inverse with a bounded slope.

    Returns
    -------
    array
        Array of the same shape; accurate and differentiable at 0, too.

    References
    ----------
    Pohlen et al., "Observe and look further", 2018, proposition A.2. arXiv:1805.11593

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.value_transforms import signed_hyperbolic
    >>> signed_hyperbolic(np.array([-3.0, 0.0, 8.0]), epsilon=0.0)
    array([-1.,  0.,  2.])
    """
    # sqrt(a + 1) - 1 = a / (sqrt(a + 1) + 1), without cancellation
    return x / (np.sqrt(np.abs(x) + 1) + 1) + epsilon * x


def signed_parabolic(x: Any, epsilon: float = 1e-3) -> Any:
    r"""The inverse of `signed_hyperbolic`.

    .. math:: \mathrm{sign}(x)(w^2 - 1), \qquad w = \frac{\sqrt{1 + 4\epsilon(|x| + 1 + \epsilon)} - 1}{2\epsilon}

    Parameters
    ----------
    x : array
    epsilon : float
        The `epsilon` of `signed_hyperbolic`.

    Returns
    -------
    array
        Array of the same shape.

    References
    ----------
    Pohlen et al., "Observe and look further", 2018, proposition A.2. arXiv:1805.11593

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.value_transforms import signed_hyperbolic, signed_parabolic
    >>> signed_parabolic(signed_hyperbolic(np.array([-300.0, 0.0, 7.0])))
    array([-300.,    0.,    7.])
    """
    root = np.sqrt(1 + 4 * epsilon * (np.abs(x) + 1 + epsilon))
    # (w - 1) / |x|: no difference of near numbers, no 1 / epsilon
    slope = 2 * (1 - 2 * epsilon / (root + 1 + 2 * epsilon)) / (root + 1)
    return x * slope * (2 + np.abs(x) * slope)


def _checked_bins(where: str, low: float, high: float, bins: int) -> None:
    if not isinstance(bins, int) or bins < 2 or not low < high:
        raise ValueError(f"{where}: there must be at least 2 bins and low < high, got {bins} bins from {low} to {high}")


def two_hot(x: Any, low: float, high: float, bins: int) -> Any:
    """Each number as weights of the two nearest of `bins` evenly spaced numbers, which have it as their mean.

    Parameters
    ----------
    x : (...) array
        Cut to [low, high].
    low, high : float
    bins : int

    Returns
    -------
    array, [..., bins]

    Raises
    ------
    ValueError
        If there are fewer than 2 bins, or low < high does not hold.

    References
    ----------
    Schrittwieser et al., "Mastering Atari, Go, chess and shogi by planning with a learned model", Nature 588 (2020),
    appendix F. arXiv:1911.08265

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.value_transforms import two_hot
    >>> two_hot(np.array([0.25, 2.0]), 0.0, 2.0, 3)
    array([[0.75, 0.25, 0.  ],
           [0.  , 0.  , 1.  ]])
    """
    _checked_bins("two_hot", low, high, bins)
    x = x if hasattr(x, "dtype") else np.asarray(x)
    place = (np.clip(x, low, high) - low) * ((bins - 1) / (high - low))
    return np.maximum(0, 1 - np.abs(place[..., None] - np.arange(bins, dtype=place.dtype)))


def from_two_hot(weights: Any, low: float, high: float) -> Any:
    """The mean of distributions over evenly spaced numbers.

    Parameters
    ----------
    weights : (..., bins) array
        Weights that sum to 1, such as the softmax of a network.
    low, high : float

    Returns
    -------
    array, [...]

    Raises
    ------
    ValueError
        If there are fewer than 2 bins, or low < high does not hold.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.value_transforms import from_two_hot
    >>> from_two_hot(np.array([[0.75, 0.25, 0.0]]), 0.0, 2.0)
    array([0.25])
    """
    bins = np.shape(weights)[-1] if np.ndim(weights) else 0
    _checked_bins("from_two_hot", low, high, bins)
    return np.sum(weights * np.linspace(low, high, bins).astype(np.result_type(weights)), axis=-1)


def project(support: Any, weights: Any, onto: Any) -> Any:
    """Distributions over some numbers moved to others, each weight shared by its two neighbors.

    Parameters
    ----------
    support : (..., n) array
        The numbers that have `weights`; cut to the range of `onto`.
    weights : (..., n) array
    onto : (m,) array
        Increasing numbers, evenly spaced or not.

    Returns
    -------
    array, [..., m]
        The mean is kept, unless numbers had to be cut.

    Raises
    ------
    ValueError
        If shapes do not fit, or `onto` does not increase.

    References
    ----------
    Bellemare, Dabney and Munos, "A distributional perspective on reinforcement learning", ICML 2017, eq. 7.
    arXiv:1707.06887

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce.value_transforms import project
    >>> project(np.array([0.5, 9.0]), np.array([0.5, 0.5]), np.array([0.0, 1.0, 2.0]))
    array([0.25, 0.25, 0.5 ])
    """
    onto = np.asarray(onto)
    if onto.ndim != 1 or onto.size < 2 or not np.all(np.diff(onto) > 0):
        raise ValueError(f"project: onto must be at least 2 rising numbers, got shape {onto.shape}: {onto}")
    check.shape(weights, np.shape(support), "project: weights", hint="the shape of support")
    z = np.clip(support, onto[0], onto[-1])[..., None, :] - onto[:, None]  # [..., m, n]: how far right of each target
    gaps = np.diff(onto)
    left, right = np.concatenate([gaps[:1], gaps])[:, None], np.concatenate([gaps, gaps[-1:]])[:, None]
    share = np.maximum(0, 1 - np.where(z < 0, -z / left, z / right))
    return np.sum(share * weights[..., None, :], axis=-1)
