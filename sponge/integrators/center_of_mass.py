"""Removal of the motion of the center of mass, and where momentum is conserved so that it may act."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele import core
from triskele.core.extend import Task

from ..engine.program import Phase
from ..protocols import SystemLike
from .kernels import momentum, remove_momentum

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["acts_on", "com_phases", "momentum_leak", "remove_com_motion", "removes_com_motion", "warn_of_leak"]

_EVERY = 10  # steps between removals
_LEAK = 1e-5  # of the sum of the forces' sizes: more than rounding in float32
# nm; where all atoms are moved to, to find out whether forces add up to nothing: near, and beyond walls
_MOVES = np.array([[0, 0, 0], [0.31, -0.27, 0.23], [-0.31, 0.27, -0.23], [41, 37, 43], [-41, -37, -43], [39, -40, 38],
                   [-39, 40, -38]])  # fmt: skip


def removes_com_motion(system: SystemLike, sampling: Sequence[Any] = ()) -> bool:
    """Return True if runs of the system with these sampling methods remove the motion of the center of mass."""
    if np.count_nonzero(system.masses) - len(system.drude_pairs) < 2:
        return False
    wanted = system.remove_com_motion
    return not momentum_leak(system, sampling) if wanted is None else wanted


def acts_on(engine: Engine) -> bool:
    """Return `removes_com_motion` of an engine's system and sampling methods, which is found once."""
    if engine.removes_com_motion is None:
        engine.removes_com_motion = removes_com_motion(engine.system, engine.sampling)
    return engine.removes_com_motion


def momentum_leak(system: SystemLike, sampling: Sequence[Any] = ()) -> str:
    """Return what keeps the total momentum from being conserved, in words; empty if nothing does."""
    frozen = system.masses == 0
    for sites in system.virtual_sites:
        frozen[sites.sites] = False
    if np.any(frozen):
        return f"{np.count_nonzero(frozen)} atoms that never move"
    return next((repr(one.name) for one in [*system.potentials, *sampling] if not _conserves(one, system)), "")


def warn_of_leak(system: SystemLike, sampling: Sequence[Any]) -> None:
    """Warn if a system whose momentum is not conserved asks for the removal of the motion of the center of mass."""
    if system.remove_com_motion and (leak := momentum_leak(system, sampling)):
        warnings.warn(
            f"Simulation: momentum must be conserved for system.remove_com_motion=True, got {leak}: kinetic "
            "energies and fluctuations will be too small (None, the default, removes the motion of the "
            "center of mass only where momentum is conserved)",
            stacklevel=3,
        )


def _conserves(one: Any, system: SystemLike) -> bool:
    """Return what a potential or sampling method says, or else what its forces at a few places say."""
    if one.conserves_momentum is not None:
        return one.conserves_momentum
    return all(_adds_up(function, system) for function in _functions(one))


def _functions(one: Any) -> Iterator[Callable]:
    """Functions of positions and box that the energy is made of; those of a bias are its variables."""
    if hasattr(one, "cvs"):
        yield from one.cvs
    else:
        yield lambda positions, box: one.energy(one.params, positions, box)


def _adds_up(function: Callable, system: SystemLike) -> bool:
    """Return True if the gradients by the atoms' positions sum to zero, wherever all atoms are moved to."""
    x = system.positions
    if x is None:  # a crumpled chain
        x = np.cumsum(np.random.default_rng(0).normal(scale=0.1, size=(system.n, 3)), axis=0)
    gradient = core.grad(lambda positions: function(positions, system.box))
    for move in _MOVES:
        with np.errstate(all="ignore"):
            g = np.asarray(gradient(x + move))
        if not np.all(np.abs(g.sum(0)) <= _LEAK * np.abs(g).sum()):  # NaN is no answer: nothing is removed
            return False
    return True


def remove_com_motion(engine: Engine, every: int = 1) -> list[Phase]:
    """Phases that take the velocity of the center of mass from all velocities, in steps that are multiples of
    `every`.
    """
    sums = np.zeros((engine.atom_chunks, 4))
    arrays = (engine.atom_starts, engine.velocities, engine.masses, sums)
    return [
        Phase([Task(f, *arrays, chunks=engine.atom_chunks)], every=every, name="center of mass")
        for f in (momentum, remove_momentum)
    ]


def com_phases(engine: Engine) -> list[Phase]:
    """Return the phases that remove center-of-mass motion; empty if the system leaves it alone."""
    return remove_com_motion(engine, _EVERY) if acts_on(engine) else []
