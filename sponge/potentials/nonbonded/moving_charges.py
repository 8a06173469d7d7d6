"""Charges that change from step to step: tasks that hand them to the kernels of `Nonbonded`, and that collect the
derivatives of the energy by them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, kernel, load_module

from ...box import minimum_image
from ...engine.flags import ENERGY
from ...engine.plan import ROW
from ...engine.program import Phase
from ...pme.mesh import PME
from ...units import COULOMB
from .exclusion_kernels import by_first_atom, excluded_slopes, polynomials
from .plan import ExclusionPlan

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .nonbonded import Nonbonded
    from .plan import NonbondedPlan

__all__ = ["MovingCharges", "factors14"]

_PER_PAIR = np.sqrt(COULOMB / 8)  # of charges in pair kernels, see `forms`
_PER_EXCLUSION = np.sqrt(COULOMB)


@kernel(nogil=True)
def hand_out(chunk, starts, charges, slots, column, values, params, excluded):
    """Set the charges that pair kernels (by atom in `values`, by slot in `params`) and exclusions read."""
    width = values.shape[1]
    for i in range(starts[chunk], starts[chunk + 1]):
        slot = np.int64(slots[i])
        values[i, column] = _PER_PAIR * charges[i]
        params[4 * (width * (slot >> 2) + column) + (slot & 3)] = values[i, column]
        excluded[i] = _PER_EXCLUSION * charges[i]


@kernel(nogil=True)
def clear_slopes(chunk, starts, slopes):
    for i in range(starts[chunk], starts[chunk + 1]):
        slopes[i] = 0.0


@kernel(nogil=True)
def add_pair_slopes(chunk, starts, slots, sums, slopes):
    """Add the derivatives that a list of pairs contributes: lane 0 of the blocks of clusters."""
    for i in range(starts[chunk], starts[chunk + 1]):
        slot = np.int64(slots[i])
        slopes[i] += _PER_PAIR * sums[3 * slot - 2 * (slot & 3)]


@kernel(nogil=True)
def pairs14(chunk, pairs, factors, positions, box, periodic, charges, slopes, forces, rows, flags):
    """Coulomb energy of scaled pairs, its forces on all atoms [n, 3], and its derivatives by the charges."""
    forces[:] = 0.0
    rows[:] = 0.0
    wanted = flags[ENERGY] != 0
    for k in range(pairs.shape[0]):
        i, j = pairs[k, 0], pairs[k, 1]
        dx = positions[i, 0] - positions[j, 0]
        dy = positions[i, 1] - positions[j, 1]
        dz = positions[i, 2] - positions[j, 2]
        if periodic:
            dx, dy, dz = minimum_image(dx, dy, dz, box)
        inverse2 = 1.0 / (dx * dx + dy * dy + dz * dz)
        potential = COULOMB * factors[k] * np.sqrt(inverse2)
        slopes[i] += potential * charges[j]
        slopes[j] += potential * charges[i]
        energy = potential * charges[i] * charges[j]
        d = dx, dy, dz
        for a in range(3):
            force = energy * inverse2 * d[a]
            forces[i, a] += force
            forces[j, a] -= force
            if wanted:
                for b in range(3):
                    rows[0, 1 + 3 * a + b] += force * d[b]
        if wanted:
            rows[0, 0] += energy


class MovingCharges:
    """Tasks by which the plan of a `Nonbonded` takes charges that change from step to step.

    `before` hands out the charges, after the plan's own phases that run before its stages. `after` sets `slopes` and
    `forces`, between the plan's stages and the sum of forces.
    """

    def __init__(
        self,
        plan: NonbondedPlan,  # "pme", "reaction_field" or "cutoff"; no LJ-PME
        engine: Engine,
        potential: Nonbonded,  # the one that `plan` is of
        pairs: np.ndarray,  # (m, 2), scaled pairs, such as 1-4
        factors: np.ndarray,  # (m,)
    ):
        if potential.method == "reaction_field" and potential.excluded_field:
            raise ValueError("charges that move: nonbonded must not have an excluded_field")
        n, starts, own, mesh = engine.n, engine.atom_starts, plan.pairs, plan.coulomb
        assert mesh is None or isinstance(mesh, PME)
        self.charges, self.slopes = np.zeros(n), np.zeros(n)  # e, read in every step; kJ/mol/e, of the last evaluation
        self.forces, self.rows = np.zeros((n, 3)), np.zeros((1, ROW))  # forces, energy and virial of the scaled pairs
        neighbors, chunks = own.neighbors, engine.atom_chunks
        excluded = next((part.charges for part in plan.parts if isinstance(part, ExclusionPlan)), np.zeros(n))
        column = plan.form.parameters.index("charge")
        tasks = [
            Task(
                hand_out, starts, self.charges, neighbors.slots, column, own.values, own.params, excluded, chunks=chunks
            )
        ]
        if mesh is not None:
            tasks.append(mesh.follow(self.charges))
        self.before = [Phase(tasks, name="charges")]

        phases = own.gradient_phases(load_module(plan.form.source, "pairs").pair_slopes)
        computed = [t for k, tasks in enumerate(phases) if k % 2 == 0 for t in tasks]
        summed = [t for k, tasks in enumerate(phases) if k % 2 for t in tasks]
        collected = [Task(clear_slopes, starts, self.slopes, chunks=chunks)]
        collected += [
            Task(add_pair_slopes, starts, neighbors.slots, task.args[-1], self.slopes, chunks=chunks) for task in summed
        ]
        if mesh is not None:
            collected.append(mesh.slope_task(self.charges, self.slopes))
        self.after = [
            Phase(computed, name="charge slopes"),
            Phase(summed, name="charge slopes of clusters"),
            Phase(collected, "sequence", name="charge slopes of atoms"),
        ]
        box = engine.box if potential.images else np.diag([1e30] * 3)
        if mesh is not None and len(potential.exclusions):
            first, partners, atoms = by_first_atom(potential.exclusions, n)
            where = engine.positions, self.charges, box, mesh.alpha
            task = Task(
                excluded_slopes, atoms, first, partners, *where, polynomials(), self.slopes, chunks=len(atoms) - 1
            )
            self.after.append(Phase([task], name="charge slopes of exclusions"))
        if len(pairs):
            periodic = engine.periodic and potential.images
            self.after.append(
                Phase(
                    [
                        Task(
                            pairs14,
                            np.ascontiguousarray(pairs, np.int64),
                            factors,
                            engine.positions,
                            engine.box,
                            int(periodic),
                            self.charges,
                            self.slopes,
                            self.forces,
                            self.rows,
                            engine.flags,
                        )
                    ],
                    name="1-4 pairs",
                )
            )


def factors14(pairs: Any, products: Any, charges: np.ndarray, where: str) -> np.ndarray:
    """Factors of scaled pairs, from their products of charges and the charges."""
    own = charges[pairs[:, 0]] * charges[pairs[:, 1]]
    if np.any(own == 0):
        i, j = pairs[np.argmax(own == 0)]
        raise ValueError(
            f"{where}: the factor of 1-4 pairs must be given, as that of atoms {i} and {j} does not "
            "follow from their fixed charges, which are 0 (scale14=)"
        )
    return products / own
