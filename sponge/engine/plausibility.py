"""Checks for input that is valid but implausible: overlapping atoms, and lengths in angstrom."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import box as boxes
from .. import units
from ..errors import BrokenSimulationError, UnitsWarning
from ..protocols import SystemLike

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["check_energies", "check_forces", "check_settings", "check_units", "worst_force"]

_TENFOLD = 8.0, 12.5  # times its reference: a bond length in angstrom
_LONGEST_STEP = 0.02  # ps
_HIGHEST_PRESSURE = 1e4  # bar
_DENSITIES = 0.3, 3.0  # g/cm^3, of liquids and solids


def worst_force(engine: Engine) -> tuple[float, str, int] | None:
    """Size (NaN before infinite before large), term and atom of the worst force of a single term, at what was last
    computed.
    """
    worst, kept = None, engine.forces.copy()
    try:
        for name, plan in engine.plans.items():
            engine.forces[:] = 0.0
            for task in plan.reduce:
                task.run()
            sizes = np.linalg.norm(engine.forces, axis=1)
            atom = int(np.argmax(np.isnan(sizes) if np.isnan(sizes).any() else sizes))
            size = float(sizes[atom])
            if worst is None or np.isnan(size) or size > worst[0]:
                worst = size, name, atom
            if np.isnan(size):
                break
    finally:
        engine.forces[:] = kept
    return worst


def check_energies(engine: Engine, terms: dict[str, float], where: str) -> None:
    """Raise BrokenSimulationError if an energy is not finite; names the term, and the atoms that are too close."""
    for name, energy in terms.items():
        if not np.isfinite(energy):
            raise BrokenSimulationError(
                f"{where}: energies must be finite, got {energy} from term {name!r}{_because(engine)}"
            )


def check_forces(engine: Engine, where: str) -> None:
    """Raise BrokenSimulationError if a force is not finite; names the term, and the atoms that are too close."""
    finite = np.isfinite(engine.forces).all(1)
    if not finite.all():
        found = worst_force(engine)
        name = "a bias" if found is None or np.isfinite(found[0]) else f"term {found[1]!r}"
        raise BrokenSimulationError(
            f"{where}: forces must be finite, got {engine.forces[np.argmin(finite)]} from {name}{_because(engine)}"
        )


def _because(engine):
    """The atom with the worst force, or else the two closest of all, and how far apart they are."""
    describe, x = engine.system.topology.describe, engine.positions
    worst = worst_force(engine)
    if worst is None or engine.n < 2:
        return ""
    box = engine.box if engine.periodic else None
    atoms = [worst[2]] if not np.isfinite(worst[0]) else range(engine.n)
    i, j, apart = min(((i, *_nearest(x, i, box)) for i in atoms), key=lambda found: found[2])
    return (
        f": {describe(i)} and {describe(j)} are {apart:.3g} nm apart (if atoms overlap, Simulation.minimize moves "
        f"them apart)"
    )


def _nearest(positions, i, box):
    apart = np.linalg.norm(boxes.displacement(positions - positions[i], box), axis=1)
    apart[i] = np.inf
    j = int(np.argmin(apart))
    return j, float(apart[j])


def check_units(system: SystemLike, positions: np.ndarray, box: np.ndarray | None, where: str) -> None:
    """Warn if positions or the box look like angstrom.

    Bonds and constraints ten times as long as their references tell of positions in angstrom. When the lengths are
    right, a box ten times as wide as what is in it, with a density 1000 times too low, tells of a box in angstrom.
    """
    pairs, lengths = _references(system)
    if len(pairs):
        apart = np.linalg.norm(boxes.displacement(positions[pairs[:, 0]] - positions[pairs[:, 1]], box), axis=1)
        ratio = float(np.median(apart / lengths))
        least, most = np.quantile(apart / lengths, (0.1, 0.9))
        if _TENFOLD[0] < least and most < _TENFOLD[1]:
            k = int(np.argmin(np.abs(apart / lengths - ratio)))
            i, j = (system.topology.describe(a) for a in pairs[k])
            warnings.warn(
                UnitsWarning(
                    f"{where}: positions look like angstrom: bonds are {ratio:.3g} times as long as "
                    f"their references, {i} and {j} are {apart[k]:.3g} nm apart instead of "
                    f"{lengths[k]:.3g} nm (lengths are in nm)"
                ),
                stacklevel=4,
            )
            return
    if box is not None and len(positions) > 1:
        wide = np.ptp(positions @ np.linalg.inv(box), axis=0)
        density = float(system.masses.sum() / boxes.volume(box) * units.DENSITY)
        if np.all((wide > 0.07) & (wide < 0.13)) and _DENSITIES[0] < 1000 * density < _DENSITIES[1]:
            warnings.warn(
                UnitsWarning(
                    f"{where}: the box looks like angstrom: it is {1 / wide.max():.3g} times as "
                    f"wide as what is in it, "
                    f"and the density is {density:.2g} g/cm^3 (lengths are in nm)"
                ),
                stacklevel=4,
            )


def check_settings(system: SystemLike, integrator: Any, barostat: Any) -> None:
    """Warn of a time step that looks like fs, and of a pressure that looks like Pa. Particles of models may be slow."""
    step = integrator.timestep
    if step > _LONGEST_STEP and np.any(system.topology.elements > 0):
        warnings.warn(
            UnitsWarning(
                f"Simulation: the time step looks like fs: {step:g} ps are {1000 * step:g} fs (time steps are in ps)"
            ),
            stacklevel=3,
        )
    if barostat is not None and np.max(np.abs(barostat.pressure)) > _HIGHEST_PRESSURE:
        warnings.warn(
            UnitsWarning(f"Simulation: the pressure looks like Pa, got {barostat.pressure} bar (pressures are in bar)"),
            stacklevel=3,
        )


def _references(system):
    """Pairs of atoms with a reference length: constraints and bonds."""
    pairs, lengths = [system.constraints.pairs], [system.constraints.distances]
    for p in system.potentials:
        atoms = getattr(p, "atoms", None)
        if not isinstance(atoms, np.ndarray) or atoms.shape[1:] != (2,) or getattr(p, "groups", None) is not None:
            continue
        if "r0" in p.params and np.shape(p.params["r0"]) in ((), (len(atoms),)):
            pairs.append(atoms)
            lengths.append(np.broadcast_to(p.params["r0"], len(atoms)))
    reference = np.concatenate(lengths)
    real = reference > 0.05  # shorter than any bond: springs of models
    return np.concatenate(pairs)[real], reference[real]
