"""Shared parts of both methods to differentiate a trajectory: the integrator as numbers, and its noise."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from triskele import core
from triskele.core import tree
from triskele.core.extend import check, kernel

from .. import units
from ..errors import BrokenSimulationError
from ..integrators.kernels import NOISE, _masks, _store
from ..integrators.langevin_middle import LangevinMiddle
from ..integrators.normals import normals
from ..integrators.velocity_verlet import VelocityVerlet

__all__ = ["Path", "Scheme", "check_state", "finite", "noise"]


@kernel
def fill_noise(step, key, like, out):  # key uint32 [2]; like, out [n, 3]
    n = out.shape[0]
    for i in range(0, n, 16):
        lower, upper = normals(i, key[0], key[1], np.uint64(step), NOISE)
        _store(out, i, _masks(min(n - i, 8)), lower)
        if i + 8 < n:
            _store(out, i + 8, _masks(min(n - i - 8, 8)), upper)


class Path(NamedTuple):
    """Final state of a trajectory, and the results of `observe` on the way."""

    positions: Any  # (n, 3)
    velocities: Any  # (n, 3); those of Langevin dynamics stand at the half step before
    observed: Any  # tree of (records, ...) arrays, every `every` steps; None without `observe`


@dataclass(frozen=True, eq=False)
class Scheme:
    """An integrator in numbers. A step is: v += kick F; x += half v; v = decay v + noise R; x += half v.

    Velocity Verlet is the same without noise, between a half kick back at the beginning and a half kick at the end.
    """

    steps: int
    every: int
    kick: np.ndarray  # [n, 1]: timestep / mass
    half: float
    decay: float
    noise: np.ndarray | None  # [n, 1]
    calls: dict[Any, Any] = field(default_factory=dict)  # compiled functions, by structure of their arguments

    @property
    def verlet(self) -> bool:
        """True if velocities begin and end at the times of the positions."""
        return self.noise is None

    @property
    def records(self) -> int:
        """Number of calls of `observe`."""
        return self.steps // self.every

    @classmethod
    def of(cls, integrator: Any, masses: Any, steps: int, every: int | None) -> Scheme:
        """Return the scheme of a `VelocityVerlet` or `LangevinMiddle` integrator."""
        where = "trajectory"
        if not isinstance(integrator, (VelocityVerlet, LangevinMiddle)):
            raise TypeError(
                f"{where}: the integrator must be VelocityVerlet or LangevinMiddle, got {type(integrator).__name__}"
            )
        masses = np.asarray(masses, np.float64)
        if masses.ndim != 1 or not np.all((masses > 0) & np.isfinite(masses)):
            raise ValueError(
                f"{where}: masses must be positive numbers [n] (no virtual sites, no frozen atoms), got {masses}"
            )
        every = steps if every is None else every
        for name, value in (("steps", steps), ("every", every)):
            check.integer(value, f"{where}: {name}", 1)
        if steps % every:
            raise ValueError(f"{where}: steps must be a multiple of every, got {steps} and {every}")
        dt, masses = integrator.timestep, masses[:, None]
        if isinstance(integrator, VelocityVerlet):
            return cls(int(steps), int(every), dt / masses, dt / 2, 1.0, None)
        width = np.sqrt(units.GAS_CONSTANT * integrator.temperature / masses * -np.expm1(-2 * integrator.friction * dt))
        return cls(int(steps), int(every), dt / masses, dt / 2, float(np.exp(-integrator.friction * dt)), width)


noise = core.custom_op(out=lambda step, key, like: core.spec(like.shape), batch="sequential")(fill_noise)
"""``noise(step, key, like)``: the normal numbers of the engine's thermostats in this step, shaped as `like`, (n, 3)."""


@core.custom_op(out=lambda good, *leaves, steps: tuple(leaves), mode="python", batch="sequential")
def _finite(good, *leaves, steps):
    if good < steps or not all(np.isfinite(x).all() for x in leaves):
        raise BrokenSimulationError(
            f"trajectory: positions must stay finite, but are not after step "
            f"{min(int(good) + 1, steps)} "
            "(a shorter time step, or starting positions that are less strained)"
        )
    return tuple(np.asarray(x) for x in leaves)


@_finite.vjp
def _(cotangents, outs, good, *leaves, steps):
    return None, *_finite(good, *cotangents, steps=steps)  # compiled gradients may not need the values at all


def finite(good: Any, steps: int, values: Any) -> Any:
    """Return the tree `values`; raise BrokenSimulationError unless it is finite and was so after all `steps`."""
    leaves, structure = tree.flatten(values)
    return tree.unflatten(structure, _finite(good, *leaves, steps=steps))


def check_state(n: int, positions: Any, velocities: Any) -> None:
    """Raise if shapes are wrong."""
    for name, value in (("positions", positions), ("velocities", velocities)):
        if np.shape(value) != (n, 3):
            raise ValueError(f"trajectory: {name} must have shape {(n, 3)}, got {np.shape(value)}")
