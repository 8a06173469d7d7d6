"""Checks that all analyses share: shapes of trajectories and boxes, choices of atoms."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check

from .. import box as boxes_
from ..topology import as_atoms
from ..trajectories.broken import BrokenMolecules
from ..trajectories.trajectory import Trajectory, is_trajectory, load_trajectory


def as_positions(where: str, positions: Any) -> np.ndarray:
    """A trajectory, or what `load_trajectory` takes, as float64 [frames, n, 3]; one structure [n, 3] becomes one
    frame.
    """
    if is_trajectory(positions):
        positions = load_trajectory(positions).positions
    positions = np.asarray(positions, np.float64)
    if positions.ndim == 2:
        positions = positions[None]
    if positions.ndim != 3 or positions.shape[2] != 3 or 0 in positions.shape:
        raise ValueError(f"{where}: positions must have shape [frames, n, 3], none of them 0, got {positions.shape}")
    if not np.isfinite(positions).all():
        frame, atom = np.argwhere(~np.isfinite(positions))[0, :2]
        raise ValueError(
            f"{where}: positions must be finite, got {positions[frame, atom]} for atom {atom} in frame {frame}"
        )
    return positions


def opened(positions: Any, boxes: Any = None) -> tuple[Any, Any, np.ndarray | None, Trajectory | None]:
    """Positions, boxes and times, and the trajectory that they come from, if they come from one."""
    if not is_trajectory(positions):
        return positions, boxes, None, None
    trajectory = load_trajectory(positions)
    found = trajectory.read()
    return found.positions, found.box if boxes is None else boxes, found.time, trajectory


def as_whole(where: str, positions: Any, atoms: Any) -> tuple[np.ndarray, np.ndarray]:
    """`as_positions`, and the indices of `atoms`; warns if their molecules are broken in a trajectory that tells it."""
    positions, boxes, _, trajectory = opened(positions)
    positions = as_positions(where, positions)
    atoms = as_atoms(where, atoms, positions.shape[1])
    if boxes is not None and trajectory is not None and trajectory.topology is not None:
        look = BrokenMolecules(where, trajectory.topology, atoms)
        for k, (x, box) in enumerate(zip(positions, boxes)):
            look(x, box, f" in frame {k}")
    return positions, atoms


def as_interval(where: str, interval: Any, times: np.ndarray | None) -> float:
    """The time between frames, given or that of the trajectory, ps."""
    if interval is None:
        if times is None or len(times) < 2:
            raise ValueError(
                f"{where}: interval is needed, the time between frames in ps, since the positions come without times"
            )
        steps = np.diff(times)
        if not np.allclose(steps, steps[0], rtol=1e-3, atol=1e-6):
            raise ValueError(
                f"{where}: frames must be equally spaced in time, got {steps.min():g} to {steps.max():g} "
                "ps between them (choose some, or give interval)"
            )
        return float((times[-1] - times[0]) / (len(times) - 1))
    check.positive(interval, f"{where}: interval", "ps")
    return interval


def as_boxes(where: str, boxes: Any, frames: int) -> np.ndarray | None:
    """Boxes as [frames, 3, 3] in reduced form, or None."""
    if boxes is None:
        return None
    boxes = np.asarray(boxes, np.float64)
    if boxes.ndim < 3:
        return np.broadcast_to(boxes_.as_box(boxes, where), (frames, 3, 3))
    check.shape(boxes, (frames, 3, 3), f"{where}: boxes")
    return np.stack([boxes_.as_box(b, where) for b in boxes])


def as_series(where: str, name: str, x: Any, length: int | None = None) -> np.ndarray:
    """A finite one-dimensional array."""
    x = np.asarray(x, np.float64)
    if x.ndim != 1 or (length is not None and len(x) != length) or not len(x):
        raise ValueError(
            f"{where}: {name} must be one-dimensional{'' if length is None else f' of length {length}'}, "
            f"got shape {x.shape}"
        )
    return check.finite(x, f"{where}: {name}")
