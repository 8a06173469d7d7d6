"""The state of a simulation as arrays, from which it resumes bit for bit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..engine.engine import Engine, Runner
from ..engine.flags import STEP
from .checkpoint_file import below, nested
from .list_schedule import ListSchedule
from .sampling_method import Sampling

__all__ = ["restore", "snapshot"]


def snapshot(engine: Engine, lists: ListSchedule, sampling: Iterable[Sampling]) -> dict[str, np.ndarray]:
    """Copies of all arrays that the next steps depend on, by name."""
    arrays = {name: getattr(engine, name).copy() for name in ("positions", "velocities", "forces", "box")}
    arrays |= nested("store/", {name: np.copy(values) for name, values in engine.store.items()})
    for method in sampling:
        arrays |= nested(f"sampling/{method.name}/", method.state())
    return arrays | lists.state()


def restore(
    engine: Engine,
    runner: Runner,
    lists: ListSchedule,
    sampling: Iterable[Sampling],
    arrays: dict[str, np.ndarray],
    step: int,
) -> bool:
    """Set all arrays to those of a `snapshot`. Return True if the neighbor lists are also those of its next steps."""
    runner.program.restart()  # makes the plans, and with them the store
    places = {name: getattr(engine, name) for name in ("positions", "velocities", "forces", "box")}
    places |= nested("store/", {name: engine.store[name] for name in below("store/", arrays)})
    for name, place in places.items():
        if arrays[name].shape != place.shape or arrays[name].dtype != place.dtype:
            raise ValueError(
                f"{name} must be {place.dtype} of shape {place.shape}, got {arrays[name].dtype} of "
                f"shape {arrays[name].shape}"
            )
    for name, place in places.items():
        place[...] = arrays[name]
    for method in sampling:
        method.restore(below(f"sampling/{method.name}/", arrays))
    lists.restore(arrays)
    if engine.periodic:
        engine.box_changed()
    engine.flags[STEP] = step
    return lists.rebuild(arrays)
