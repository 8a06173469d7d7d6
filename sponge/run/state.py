"""`State`: a moment of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

__all__ = ["State"]


@dataclass(frozen=True, eq=False)
class State:
    """A snapshot of a simulation. Its arrays are copies, which do not change when the run continues.

    Attributes
    ----------
    step : int
    time : float, ps
        Time.
    positions, velocities : (n, 3) array, nm and nm/ps
        Positions and velocities of the atoms.
    box : (3, 3) array or None, nm
        Box vectors, one in each row.
    """

    step: int
    time: float
    positions: np.ndarray
    velocities: np.ndarray
    box: np.ndarray | None
