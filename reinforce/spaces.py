"""Spaces of actions and observations: `Box`, `Discrete` and `MultiDiscrete`, as Gymnasium defines them."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import check

from .errors import EnvError

__all__ = ["Box", "Discrete", "MultiDiscrete", "Space"]


class Space:
    """Base of spaces.

    Attributes
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    """

    shape: tuple[int, ...]
    dtype: np.dtype

    def contains(self, x: Any) -> bool:
        """Return True if `x` is an element of the space."""
        raise NotImplementedError

    def sample(self, seed: int, count: int | None = None) -> np.ndarray:
        """Random elements.

        Parameters
        ----------
        seed : int
            The same seed gives the same elements.
        count : int, optional
            Number of elements; None for one element without a leading axis.

        Returns
        -------
        ndarray of `dtype`, of shape (count, *shape)
        """
        raise NotImplementedError

    def to_gymnasium(self) -> Any:
        """Return the equivalent space of Gymnasium, which must be installed."""
        raise NotImplementedError


class Discrete(Space):
    """The numbers start ... start + n - 1.

    Parameters
    ----------
    n : int
    start : int
        The smallest number; 0 for environments of this package.

    Raises
    ------
    EnvError
        If `n` is not at least 1, or `start` not an integer.

    Examples
    --------
    >>> from triskele.reinforce import Discrete
    >>> Discrete(3).contains(2), Discrete(3).contains(3)
    (True, False)
    """

    def __init__(self, n: int, start: int = 0):
        check.integer(n, "Discrete: n", 1, error=EnvError)
        check.integer(start, "Discrete: start", error=EnvError)
        self.n, self.start, self.shape, self.dtype = int(n), int(start), (), np.dtype(np.int64)

    def contains(self, x: Any) -> bool:
        """Return True if `x` is an integer in range."""
        if isinstance(x, (bool, np.bool_)):
            return False
        try:
            return 0 <= operator.index(x) - self.start < self.n
        except TypeError:
            return False

    def sample(self, seed: int, count: int | None = None) -> np.ndarray:
        """Uniform; see `Space.sample`."""
        shape = () if count is None else (count,)
        return np.asarray(random.randint(random.key(seed), self.start, self.start + self.n, shape))

    def to_gymnasium(self) -> Any:
        """gymnasium.spaces.Discrete."""
        from gymnasium import spaces

        return spaces.Discrete(self.n, start=self.start)

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Discrete) and (self.n, self.start) == (other.n, other.start)

    def __hash__(self) -> int:
        return hash((self.n, self.start))

    def __repr__(self) -> str:
        return f"Discrete({self.n}{f', start={self.start}' if self.start else ''})"


class MultiDiscrete(Space):
    """Arrays of integers, element i of which is one of the numbers start[i] ... start[i] + nvec[i] - 1.

    Parameters
    ----------
    nvec : array_like of int
        Number of values of each element; its shape is that of the space.
    start : array_like of int
        The smallest value of each element.

    Raises
    ------
    EnvError
        If a number in `nvec` is not at least 1, or `nvec` and `start` do not hold integers of matching shapes.

    Examples
    --------
    >>> from triskele.reinforce import MultiDiscrete
    >>> MultiDiscrete([3, 2]).contains([2, 1]), MultiDiscrete([3, 2]).contains([1, 2])
    (True, False)
    """

    def __init__(self, nvec: Any, start: Any = 0):
        counts, first = np.asarray(nvec), np.asarray(start)
        fits = counts.dtype.kind in "iu" and counts.ndim > 0 and counts.size > 0 and first.dtype.kind in "iu"
        if not fits or (counts < 1).any() or first.shape not in ((), counts.shape):
            raise EnvError(
                f"MultiDiscrete: nvec must hold integers >= 1 and start as many integers, got {nvec!r:.60} and "
                f"{start!r:.60}"
            )
        self.nvec, self.shape, self.dtype = counts.astype(np.int64), counts.shape, np.dtype(np.int64)
        self.start = np.broadcast_to(first.astype(np.int64), self.shape)

    def contains(self, x: Any) -> bool:
        """Return True if `x` is an array of integers of this shape in range."""
        x = np.asarray(x)
        inside = x.shape == self.shape and x.dtype.kind in "iu"
        return bool(inside and np.all((self.start <= x) & (x < self.start + self.nvec)))

    def sample(self, seed: int, count: int | None = None) -> np.ndarray:
        """Uniform; see `Space.sample`."""
        shape = self.shape if count is None else (count, *self.shape)
        return np.asarray(random.randint(random.key(seed), self.start, self.start + self.nvec, shape))

    def to_gymnasium(self) -> Any:
        """gymnasium.spaces.MultiDiscrete."""
        from gymnasium import spaces

        return spaces.MultiDiscrete(self.nvec.copy(), start=self.start.copy())

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, MultiDiscrete)
            and np.array_equal(self.nvec, other.nvec)
            and np.array_equal(self.start, other.start)
        )

    def __hash__(self) -> int:
        return hash((self.nvec.tobytes(), self.start.tobytes()))

    def __repr__(self) -> str:
        start = f", start={self.start.tolist()}" if self.start.any() else ""
        return f"MultiDiscrete({self.nvec.tolist()}{start})"


class Box(Space):
    """Arrays of numbers within bounds, the bounds included.

    Parameters
    ----------
    low, high : float or array_like
        Bounds of each element; they may be infinite.
    shape : tuple of int, optional
        Defaults to the shape of the bounds.
    dtype : dtype
        Data type of the elements.

    Raises
    ------
    EnvError
        If a bound is NaN, or the lower one above the upper one, or the shapes do not fit.

    Examples
    --------
    >>> from triskele.reinforce import Box
    >>> Box(-1, 1, (2,))
    Box(-1.0, 1.0, (2,), float32)
    """

    def __init__(self, low: Any, high: Any, shape: tuple[int, ...] | None = None, dtype: Any = np.float32):
        self.dtype = np.dtype(dtype)
        try:
            self.shape = (
                tuple(map(operator.index, shape))
                if shape is not None
                else np.broadcast_shapes(np.shape(low), np.shape(high))
            )
            self.low, self.high = (np.broadcast_to(np.asarray(b, self.dtype), self.shape) for b in (low, high))
        except (TypeError, ValueError) as error:
            raise EnvError(f"Box: bounds must be numbers of shape {shape}, got {low!r:.60} and {high!r:.60}") from error
        if not np.all(self.low <= self.high):
            raise EnvError(f"Box: low must be <= high everywhere, got {low!r:.60} and {high!r:.60}")

    def contains(self, x: Any) -> bool:
        """Return True if `x` is an array of this shape within the bounds."""
        x = np.asarray(x)
        return x.shape == self.shape and x.dtype.kind in "fiub" and bool(np.all((self.low <= x) & (x <= self.high)))

    def sample(self, seed: int, count: int | None = None) -> np.ndarray:
        """Uniform between finite bounds, exponential beyond one, normal without any; see `Space.sample`."""
        shape = self.shape if count is None else (count, *self.shape)
        keys = random.split(random.key(seed), 3)
        low, high = self.low.astype(np.float64), self.high.astype(np.float64)
        below, above = np.isfinite(low), np.isfinite(high)
        width = np.where(below & above, high, 0.0) - np.where(below & above, low, 0.0)
        tail = random.exponential(keys[1], shape)
        x = np.where(
            below & above,
            low + random.uniform(keys[0], shape) * (width + (self.dtype.kind in "iub")),
            random.normal(keys[2], shape),
        )
        x = np.where(below & ~above, low + tail, np.where(above & ~below, high - tail, x))
        return np.clip(np.floor(x) if self.dtype.kind in "iub" else x, low, high).astype(self.dtype)

    def to_gymnasium(self) -> Any:
        """gymnasium.spaces.Box."""
        from gymnasium import spaces

        return spaces.Box(self.low.copy(), self.high.copy(), self.shape, self.dtype.type)

    def __eq__(self, other: Any) -> bool:
        return (
            isinstance(other, Box)
            and self.dtype == other.dtype
            and np.array_equal(self.low, other.low)
            and np.array_equal(self.high, other.high)
        )

    def __hash__(self) -> int:
        return hash((self.shape, self.dtype))

    def __repr__(self) -> str:
        same = [str(b.flat[0]) if b.size and np.all(b == b.flat[0]) else "[...]" for b in (self.low, self.high)]
        return f"Box({same[0]}, {same[1]}, {self.shape}, {self.dtype})"
