"""The compiled form of `InducedDipoles`: rows of neighbors, a mesh, conjugate gradients, and forces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task

from ...box import displacement
from ...engine.flags import N_FLAGS, STEP
from ...engine.plan import ROW, Plan, add_forces
from ...engine.program import Phase, Program
from ...neighbors.rows import EVERYWHERE, check_extent, shared_rows
from ...neighbors.state import aligned_zeros
from ...pme.dipole_mesh import DipolePME
from ...units import COULOMB
from ..nonbonded.exclusion_kernels import by_first_atom
from . import induced_dipoles_kernels as kernels
from .induced_dipoles import CLOSEST

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .induced_dipoles import InducedDipoles

__all__ = ["InducedDipolesPlan"]

_DIGITS = 1e10  # of dipoles over their convergence, beyond which rounding errors of the recursion matter
_FAR = 1e30  # in place of an infinite factor of the damping
_MOST = 200  # iterations
_NUDGE = 100  # size of random dipoles over the convergence, which let the solver see any direction


class InducedDipolesPlan(Plan):
    """Fields of the charges; the dipoles, by conjugate gradients; forces.

    `dipoles` (n, 3), in e nm, and `iterations` are those of the last evaluation.
    """

    def __init__(self, potential: InducedDipoles, engine: Engine):
        n, params = engine.n, potential.params
        self.potential, self.engine, self.iterations = potential, engine, 0
        self.dipoles, self._direction, self._product = (np.zeros((n, 3)) for _ in range(3))
        self._field, none = np.zeros((n, 3)), np.zeros(n)
        charges, own = params["charges"].copy(), params["polarizabilities"].copy()
        self._scale, self._stiff = (own / COULOMB)[:, None], np.zeros((n, 1))
        np.divide(1.0, self._scale, out=self._stiff, where=self._scale > 0)
        # in symmetric surroundings, no field has a part along dipoles that would grow without limit
        self._nudge = _NUDGE * potential.convergence * np.random.default_rng(0).normal(size=(n, 3)) * (self._scale > 0)
        cutoff = potential.cutoff if engine.periodic else EVERYWHERE
        listed = shared_rows(engine, cutoff)
        chunks, rows = listed.chunks, (listed.xs, listed.atoms, listed.counts, listed.rows)
        first, second = aligned_zeros(listed.rows.shape, np.float64), aligned_zeros(listed.rows.shape, np.float64)
        sources, constants = aligned_zeros(len(listed.xs), np.float64), aligned_zeros(len(listed.xs), np.float64)
        seen, self._extremes = np.full((n, listed.rows.shape[1] // 8), 255, np.uint8), np.zeros((chunks, 4))
        excluded = np.concatenate([potential.exclusions, potential.exclusions[:, ::-1]]).astype(np.int64)
        excluded = excluded[np.lexsort(excluded.T[::-1])]
        listed.after_sorting(
            Task(
                kernels.mark_excluded,
                n,
                np.searchsorted(excluded[:, 0], np.arange(n + 1)),
                np.ascontiguousarray(excluded[:, 1]),
                *rows[1:],
                seen,
            )
        )
        # products are 1 / sqrt(alpha alpha'); without a polarizability they are so large that damping vanishes
        factors = np.sqrt(np.divide(1.0, own, out=np.full(n, _FAR * _FAR), where=own > 0))
        thole = np.array(np.broadcast_to(params.get("thole", _FAR), n))
        listed.after_sorting(
            Task(kernels.place_constants, listed.sizes, listed.atoms, factors, thole, charges, constants)
        )

        def placed(dipoles, charges):
            return Phase(
                [
                    Task(
                        kernels.place_sources,
                        chunks,
                        listed.sizes,
                        listed.atoms,
                        charges,
                        dipoles,
                        sources,
                        chunks=chunks,
                    )
                ],
                name="dipoles of entries",
            )

        forces, sums = np.zeros((n, 3)), np.zeros((chunks, ROW))
        before = [
            *listed.before,
            Phase(
                [
                    Task(
                        kernels.pair_fields,
                        chunks,
                        n,
                        cutoff,
                        potential.alpha,
                        constants,
                        *rows,
                        seen,
                        first,
                        second,
                        self._field,
                        self._extremes,
                        chunks=chunks,
                    )
                ],
                name="fields of charges",
            ),
        ]
        product = [
            placed(self._direction, none),
            Phase(
                [Task(kernels.times_pairs, chunks, n, own, *rows, first, second, sources, self._product, chunks=chunks)]
            ),
        ]
        last = [
            Task(
                kernels.pair_forces,
                chunks,
                n,
                engine.flags,
                cutoff,
                potential.alpha,
                constants,
                own,
                self.dipoles,
                *rows,
                seen,
                first,
                second,
                sources,
                forces,
                sums,
                chunks=chunks,
            )
        ]
        stages, added, self._parts = [last], [forces], [sums]
        if engine.periodic:
            mesh = DipolePME(engine, charges, potential.alpha, potential.mesh(engine.first_box))
            sort = [mesh.before] if mesh.before else []
            before += [
                *(Phase(tasks, name="fields of the mesh") for tasks in [*sort, *mesh.stages]),
                Phase([mesh.add_field(np.zeros((n, 3)), self._field)], name="fields of the mesh"),
            ]
            product += [
                *(Phase(tasks) for tasks in mesh.of_dipoles(none, self._direction)),
                Phase(mesh.stages[-1]),
                Phase([mesh.add_field(self._direction, self._product)]),
            ]
            spread, *between = mesh.of_dipoles(charges, self.dipoles)
            stages = [[*last, *spread], *between, [mesh.felt_by(charges, self.dipoles)]]
            added, self._parts = [*added, mesh.forces], [*self._parts, mesh.rows, mesh.sums]
            if len(potential.exclusions):
                starts, partners, ranges = by_first_atom(potential.exclusions, n)
                pairs = ranges, starts, partners, engine.positions, engine.box, potential.alpha, charges
                taken, rest = np.zeros((n, 3)), np.zeros((len(ranges) - 1, ROW))
                before.append(
                    Phase(
                        [Task(kernels.excluded_fields, *pairs, self._field, chunks=len(rest))],
                        name="fields of excluded pairs",
                    )
                )
                stages[0].append(
                    Task(kernels.excluded_forces, *pairs, self.dipoles, taken, rest, engine.flags, chunks=len(rest))
                )
                added, self._parts = [*added, taken], [*self._parts, rest]
        before += [Phase(call=self._solve, name="dipoles"), placed(self.dipoles, charges)]
        self._program = Program(product, np.zeros(N_FLAGS, np.int64))
        super().__init__(
            before=before,
            stages=stages,
            rows=sums,
            update_box=mesh.update_box if engine.periodic else None,
            reduce=[Task(add_forces, engine.atom_starts, f, engine.forces, chunks=engine.atom_chunks) for f in added],
        )

    def totals(self) -> np.ndarray:
        """Energy and virial [10] of pairs and mesh; `rows` are those of the pairs."""
        return sum(part.sum(axis=0) for part in self._parts)

    def _fields(self, dipoles):
        """Fields of `dipoles` at the polarizable atoms; at others, what they are does not matter."""
        self._direction[:] = dipoles
        self._program.run(1)
        return self._product

    def _solve(self):
        """Preconditioned conjugate gradients, from nearly the dipoles that the charges alone induce."""
        check_extent(self.engine, f"induced dipoles {self.potential.name!r}")
        self._check_pairs()
        mu, self.iterations, ended = self.dipoles, 0, ""
        mu[:] = self._scale * self._field + self._nudge
        if not np.all(np.isfinite(mu)):
            return  # as energy and forces will not be, which is reported as for any potential
        while True:
            z = self._scale * (self._field + self._fields(mu)) - mu
            error = np.sqrt(np.einsum("ia,ia->i", z, z))
            worst = int(np.argmax(error))
            if error[worst] <= self.potential.convergence:
                return
            if ended == "unbounded" or self.iterations >= _MOST:
                break
            ended = self._descend(z)
            if ended == "converged" and np.max(np.abs(mu)) < _DIGITS * self.potential.convergence:
                return
        where = f"induced dipoles {self.potential.name!r}: at step {self.engine.flags[STEP]}"
        found = (
            f"got {error[worst]:.3g} on {self.engine.system.topology.describe(worst)} after {self.iterations} "
            "iterations"
        )
        if ended != "unbounded":
            raise RuntimeError(
                f"{where}, dipoles must agree with their fields to {self.potential.convergence:g} e nm, "
                f"{found} (is `convergence` below rounding errors?)"
            )
        raise RuntimeError(
            f"{where}, no dipoles minimize the energy (polarization catastrophe), residual in e nm: "
            f"{found} (atoms are too close for their polarizabilities)"
        )

    def _descend(self, z):
        """Follow conjugate directions from the residual z of the dipoles.

        Return "converged", "unfinished", or "unbounded" if the energy has no minimum.
        """
        p, before, r = np.zeros_like(z), 1.0, self._stiff * z
        while self.iterations < _MOST:
            z = self._scale * r
            if np.max(np.einsum("ia,ia->i", z, z)) <= (0.5 * self.potential.convergence) ** 2:
                return "converged"
            now = float(np.sum(r * z))
            p = z + now / before * p
            product = self._stiff * p - self._fields(p)
            curvature = float(np.sum(p * product))
            if curvature <= 0:
                return "unbounded"
            before = now
            self.dipoles += now / curvature * p
            r -= now / curvature * product
            self.iterations += 1
            if not np.isfinite(curvature):
                self.iterations = _MOST
        return "unfinished"

    def _check_pairs(self):
        """Raise RuntimeError if two atoms are at the same place, or polarize each other without limit."""
        distances, excesses = self._extremes[:, 0], self._extremes[:, 2]
        if np.min(distances) < CLOSEST**2:
            i, j, _ = self._pair(self._extremes[np.argmin(distances), 1])
            problem = f"polarizable atoms must not be at the same place, got {i} and {j}"
        elif np.max(excesses) >= 0:
            i, j, r = self._pair(self._extremes[np.argmax(excesses), 3])
            problem = (
                f"no dipoles minimize the energy (polarization catastrophe): {i} and {j}, {r:.3g} nm apart, are "
                "too close for their polarizabilities"
            )
        else:
            return
        raise RuntimeError(f"induced dipoles {self.potential.name!r}: at step {self.engine.flags[STEP]}, {problem}")

    def _pair(self, atom):
        """An atom and the polarizable one next to it in words, and their distance."""
        engine, i = self.engine, int(atom)
        d = displacement(engine.positions - engine.positions[i], engine.box if engine.periodic else None)
        others = (self._scale[:, 0] > 0) & (np.arange(engine.n) != i)
        r2 = np.where(others, np.sum(d * d, axis=1), np.inf)
        j = int(np.argmin(r2))
        describe = engine.system.topology.describe
        return describe(min(i, j)), describe(max(i, j)), np.sqrt(r2[j])
