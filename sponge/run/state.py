"""`State`: a moment of a simulation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from triskele.core.extend import short_repr

__all__ = ["State"]


@short_repr
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

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
    >>> bath = sponge.LangevinMiddle(300, 1.0, 0.002)
    >>> simulation = sponge.Simulation(system, bath, seed=1)
    >>> state = simulation.state()
    >>> state.step, state.positions.shape
    (0, (22, 3))
    """

    step: int
    time: float
    positions: np.ndarray
    velocities: np.ndarray
    box: np.ndarray | None
