"""The contract of trajectory formats: numbers of frames and atoms, and one frame at a time."""

from __future__ import annotations

import numpy as np

from .. import box as boxes
from ..topology import Topology

__all__ = ["Reader", "box_of_vectors"]


class Reader:
    """Frames of a trajectory, in nm and ps."""

    frames: int  # number of frames
    n: int  # number of atoms
    topology: Topology | None = None  # where the source has one

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """Return positions (n, 3), box (3, 3) or None, both float64, and time or None of frame `k` >= 0."""
        raise NotImplementedError


def box_of_vectors(vectors):
    """A reduced box of vectors in single precision; None where a file or another library has zeros."""
    if vectors is None or not np.any(vectors):
        return None
    vectors = np.array(vectors, np.float64)
    vectors[np.abs(vectors) < 1e-6 * vectors.max()] = 0.0  # rounding of single precision
    return boxes.as_box(vectors)
