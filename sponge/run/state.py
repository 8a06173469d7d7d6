"""`State`: a moment of a simulation."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from triskele.core.extend import short_repr

__all__ = ["State", "warn_of_box"]


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

    def __post_init__(self):
        _STATES[id(self.positions)] = self


# States that are still there, by their positions.
_STATES: WeakValueDictionary[int, State] = WeakValueDictionary()


def warn_of_box(positions: Any, box: np.ndarray | None) -> None:
    """Warn if positions are those of a state with another box, which is not used."""
    state = _STATES.get(id(positions))
    if state is not None and state.box is not None and not np.array_equal(state.box, box):
        edges = [" x ".join(f"{x:.4g}" for x in np.diag(b)) if b is not None else "none" for b in (state.box, box)]
        warnings.warn(
            f"Simulation: positions must belong to the box of the system, {edges[1]} nm, got those of a "
            f"state in a box of {edges[0]} nm (give state=state, which brings its box)",
            stacklevel=3,
        )
