"""Molecules as wholes: centers of mass, scaling of boxes, and the pressure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .. import box as boxes
from ..constraints.clusters import connected, constraint_clusters
from ..engine.flags import STEP
from ..errors import BoxError

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from ..system import System

__all__ = ["Molecules", "molecules"]


def molecules(system: System) -> np.ndarray:
    """Molecule of each atom [n]: what bonds, constraints and virtual sites hold together."""
    n = system.n
    cluster = constraint_clusters(system)
    first = np.full(cluster.max(initial=-1) + 1, n)
    np.minimum.at(first, cluster, np.arange(n))
    joined = np.stack([first[cluster], np.arange(n)], axis=1)
    return connected(np.concatenate([np.asarray(system.topology.bonds, np.int64).reshape(-1, 2), joined]), n)


class Molecules:
    """An engine's molecules."""

    def __init__(self, engine: Engine):
        self.engine = engine
        self.of = molecules(engine.system)
        self.masses = np.bincount(self.of, engine.masses)
        self.count = int(np.count_nonzero(self.masses))  # of molecules that have mass
        size = np.bincount(self.of)
        # atoms without mass that are alone move with themselves
        weights = np.where(self.masses[self.of] > 0, engine.masses, 1.0)
        self._weights = weights / np.where(self.masses > 0, self.masses, size)[self.of]

    def centers(self, vectors: np.ndarray) -> np.ndarray:
        """Mass-weighted mean over each molecule, [molecules, 3], of positions or velocities [n, 3]."""
        return np.stack([np.bincount(self.of, self._weights * x) for x in vectors.T], axis=1)

    def radius(self) -> float:
        """The largest distance of an atom from the center of its molecule, in nm."""
        r = self.engine.positions - self.centers(self.engine.positions)[self.of]
        return float(np.sqrt(np.max(np.sum(r * r, axis=1))))

    def scale(self, factors: np.ndarray, who: str) -> None:
        """Multiply box and centers of mass by `factors` (3,); molecules keep their shapes.

        If a potential cannot be computed in the new box, raise a BoxError that begins with `who`; positions and box
        have changed by then.
        """
        engine = self.engine
        engine.positions += ((factors - 1) * self.centers(engine.positions))[self.of]
        engine.box *= factors
        for potential in engine.potentials:
            if hasattr(potential, "check_box"):
                try:
                    potential.check_box(engine.box)
                except BoxError as error:
                    raise BoxError(f"{who}, step {engine.flags[STEP]}: the box has become too small; {error}") from None
        engine.box_changed(rebuild=False)

    def scale_velocities(self, factors: np.ndarray) -> None:
        """Multiply the velocities of the centers of mass by `factors` [3]."""
        v = self.engine.velocities
        gain = ((factors - 1) * self.centers(v))[self.of]
        gain[self.engine.masses == 0] = 0.0
        v += gain

    def pressure(self, positions: np.ndarray | None = None) -> np.ndarray:
        """The diagonal of the pressure in kJ/mol/nm^3, [3], of molecules as wholes.

        From the virial last computed, the forces and the velocities; `positions` [n, 3] are those that forces and
        virial belong to, the present ones when left out. Forces within molecules, those of constraints among them, do
        not come in, as they sum to nothing over a molecule: W - sum f (r - R) is the virial that belongs to scaling the
        centers of mass R, and the kinetic energy is that of the centers. Where the tail of Lennard-Jones energies is
        corrected for, the step at the cut-off, which forces do not know of, is part of the pressure.
        """
        engine = self.engine
        positions = engine.positions if positions is None else positions
        r = positions - self.centers(positions)[self.of]
        virial = np.diag(engine.virial()) - np.einsum("ia,ia->a", engine.forces, r)
        kinetic = self.masses @ self.centers(engine.velocities) ** 2
        volume = boxes.volume(engine.box)
        return (kinetic + virial + sum(plan.jump for plan in engine.plans.values()) / volume) / volume
