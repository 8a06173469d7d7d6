"""Frames of another trajectory, changed when they are read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import box as boxes
from .reader import Reader

__all__ = ["Changed", "Unwrapped"]


class Changed(Reader):
    """Frames whose positions and box a function changes, each by itself."""

    def __init__(self, trajectory: Any, function: Callable, n: int):
        self._trajectory, self._function = trajectory, function
        self.frames, self.n = len(trajectory), n

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        x, box, time = self._trajectory[k]
        return *self._function(x, box), time


class Unwrapped(Reader):
    """Frames without jumps across the faces of the box; the last one that was read is kept, for the next one."""

    def __init__(self, trajectory: Any):
        self._trajectory = trajectory
        self.frames, self.n = len(trajectory), trajectory.n
        self._last = -1
        self._unwrapped = self._wrapped = np.empty((0, 3))

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """See `Reader`."""
        for j in range(self._last + 1 if k >= self._last else 0, k + 1):
            x, box, time = self._trajectory[j]
            self._unwrapped = x if j == 0 else self._unwrapped + boxes.displacement(x - self._wrapped, box)
            self._wrapped, self._frame, self._last = x, (box, time), j
        return self._unwrapped.copy(), *self._frame
