"""The contract of trajectory formats: numbers of frames and atoms, and one frame at a time."""

from __future__ import annotations

import numpy as np

from ..topology import Topology

__all__ = ["Reader"]


class Reader:
    """Frames of a trajectory, in nm and ps."""

    frames: int  # number of frames
    n: int  # number of atoms
    topology: Topology | None = None  # where the source has one

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """Return positions (n, 3), box (3, 3) or None, both float64, and time or None of frame `k` >= 0."""
        raise NotImplementedError
