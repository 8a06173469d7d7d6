"""The contract of trajectory formats: numbers of frames and atoms, and one frame at a time."""

from __future__ import annotations

import numpy as np

from ..topology import Topology

__all__ = ["Reader"]


class Reader:
    """Frames of a trajectory, in nm and ps.

    Attributes
    ----------
    frames : int
        Number of frames.
    n : int
        Number of atoms.
    topology : Topology or None
        Where the source has one.
    """

    frames: int
    n: int
    topology: Topology | None = None

    def read(self, k: int) -> tuple[np.ndarray, np.ndarray | None, float | None]:
        """Read a frame.

        Parameters
        ----------
        k : int
            From 0 to frames - 1.

        Returns
        -------
        positions : (n, 3) float64, nm
        box : (3, 3) float64, nm, or None
        time : float, ps, or None
        """
        raise NotImplementedError
