"""`Ewald`: the compiled form of the plain Ewald sum, as stages of tasks for a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task

from ..engine.plan import ROW
from ..units import COULOMB
from . import ewald_kernels as kernels

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["Ewald"]

_TERMS_PER_CHUNK = 20_000  # atoms times pairs (nx, ny)
_MOST_CHUNKS = 64


class Ewald:
    """Reciprocal part of the Ewald sum, over the wave vectors |n_a| < counts[a], in float64.

    The work grows as the square of the number of atoms. Attributes are those of `PME`.
    """

    def __init__(
        self,
        engine: Engine,  # of a periodic system
        charges: Any,  # (n,) e
        alpha: float,  # splitting parameter, 1/nm
        counts: tuple[int, int, int],  # wave vectors on each side along each axis, zero included
    ):
        if min(counts) < 1:
            raise ValueError(f"ewald: counts must be at least 1, got {tuple(counts)}")
        n, self.engine, self.alpha = engine.n, engine, float(alpha)
        kx, ky, kz = counts
        self.charges = np.zeros(n)
        self._pairs = pairs = np.array(
            [(x, y) for x in range(kx) for y in range(0 if x == 0 else 1 - ky, ky)], np.int64
        )
        lanes = -(-kz // 16) * 16
        nz = np.stack([np.arange(lanes), -np.arange(lanes)])
        self._vectors = np.stack(np.broadcast_arrays(pairs[:, 0, None, None], pairs[:, 1, None, None], nz), -1)
        counted = (abs(nz) < kz) & np.ones((len(pairs), 1, 1), bool)
        counted[:, 1, 0] = False  # nz = -0
        counted[0, 0, 0] = False  # the zero vector
        counted[0, 1] = False  # nx = ny = 0: one of a vector and its negative
        self._counted = counted
        self._inverse, self._influence, self._slope = np.zeros((3, 3)), np.zeros(counted.shape), np.zeros(counted.shape)
        self._potentials = np.zeros(n)
        x_waves, y_waves, z_waves = np.zeros((2, kx, n)), np.zeros((2, ky, n)), np.zeros((n, 2, lanes))
        sums = np.zeros((len(pairs), 4, lanes))
        chunks = int(np.clip(n * len(pairs) // _TERMS_PER_CHUNK, 1, min(_MOST_CHUNKS, len(pairs))))
        self.rows = np.zeros((chunks + 1, ROW))
        starts, waves = engine.atom_starts, (x_waves, y_waves, z_waves)
        self.before: list[Task] = []
        self.stages = [
            [Task(kernels.waves, starts, engine.positions, self._inverse, *waves, chunks=engine.atom_chunks)],
            [
                Task(
                    kernels.structure,
                    chunks,
                    self.charges,
                    pairs,
                    self._inverse,
                    *waves,
                    self._influence,
                    self._slope,
                    sums,
                    self.rows,
                    engine.flags,
                    chunks=chunks,
                )
            ],
        ]
        self.reduce = [
            Task(
                kernels.field,
                starts,
                self.charges,
                pairs,
                self._inverse,
                *waves,
                sums,
                engine.forces,
                self._potentials,
                chunks=engine.atom_chunks,
            )
        ]
        self.update_charges(charges)

    def update_charges(self, charges: Any) -> None:
        """Take new charges."""
        charges = np.asarray(charges, float)
        if charges.shape != self.charges.shape:
            raise ValueError(f"ewald: charges must have shape {self.charges.shape}, got {charges.shape}")
        self.charges[:] = charges
        self.update_box()

    def update_box(self) -> None:
        """Take the engine's box: influence function and background."""
        box = self.engine.box
        self._inverse[:] = np.linalg.inv(box)
        volume = box[0, 0] * box[1, 1] * box[2, 2]
        square = np.sum((self._vectors @ self._inverse.T) ** 2, axis=-1)
        square[~self._counted] = 1.0
        decay = (np.pi / self.alpha) ** 2 * square
        self._influence[:] = self._counted * np.exp(-decay) / square * (COULOMB / (np.pi * volume))
        self._slope[:] = self._influence * (-2 - 2 * decay) / square
        background = -COULOMB * np.pi / (2 * self.alpha**2 * volume) * self.charges.sum() ** 2
        self.rows[-1] = 0.0
        self.rows[-1, 0] = background - COULOMB * self.alpha / np.sqrt(np.pi) * np.sum(self.charges**2)
        self.rows[-1, [1, 5, 9]] = background

    def charge_gradient(self) -> np.ndarray:
        """Derivatives of the energy by the charges (kJ/mol/e), as of the last evaluation."""
        box = self.engine.box
        background = -np.pi / self.alpha**2 * self.charges.sum() / (box[0, 0] * box[1, 1] * box[2, 2])
        return self._potentials + COULOMB * (background - 2 * self.alpha / np.sqrt(np.pi) * self.charges)
