"""The compiled form of `ChargeEquilibration`: pairs in rows of neighbors, a mesh, conjugate gradients, and forces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task, kernel, simd

from ..engine.flags import ENERGY, N_FLAGS, STEP
from ..engine.plan import ROW, Plan, add_forces
from ..engine.program import Phase, Program
from ..neighbors.rows import EVERYWHERE, check_extent, eight, shared_rows
from ..neighbors.state import aligned_zeros
from ..pme.mesh import PME
from ..units import COULOMB

if TYPE_CHECKING:
    from ..engine.engine import Engine
    from .equilibration import ChargeEquilibration

__all__ = ["EquilibrationPlan"]

_MOST = 200  # iterations
_ORDER = 5
_SLOPE = COULOMB * 2 / np.sqrt(np.pi)  # of erf


@kernel(nogil=True)
def note_rebuild(_chunk, fresh, builds):
    fresh[0] = 1
    builds[0] += 1


@kernel(nogil=True)
def fill_matrix(chunk, chunks, n, cutoff, alpha, squares, xs, atoms, counts, rows, partners, matrix):
    """Coupling of each atom to its neighbors: atoms in `partners`, and k_e (erfc(alpha r) - erfc(gamma r)) / r."""
    limit, width = cutoff * cutoff, rows.shape[1]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        own = squares[atoms[i]]
        for k in range(0, counts[i], 8):
            ex, ey, ez, _ = eight(xs, rows[i], k)
            dx, dy, dz = ex - x, ey - y, ez - z
            r2 = dx * dx + dy * dy + dz * dz
            inside = r2 < limit
            r = simd.sqrt(simd.select(inside, r2, limit))
            other = simd.gather(atoms, simd.load(rows, i * width + k, 8))
            gamma = 1.0 / simd.sqrt(2.0 * (own + simd.gather(squares, other)))
            value = COULOMB * (simd.erfc(alpha * r) - simd.erfc(gamma * r)) / r
            simd.store(partners, i * width + k, other)
            simd.store(matrix, i * width + k, simd.select(inside, value, 0.0))


@kernel(nogil=True)
def multiply(chunk, chunks, n, atoms, counts, partners, matrix, diagonal, charges, out):
    """Derivatives of the energy of pairs and of charges with themselves by the charges."""
    width = matrix.shape[1]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        total = simd.splat(0.0, 8)
        for k in range(i * width, i * width + counts[i], 8):
            total = simd.fma(simd.load(matrix, k, 8), simd.gather(charges, simd.load(partners, k, 8)), total)
        at = atoms[i]
        out[at] = diagonal[at] * charges[at] + simd.sum(total)


@kernel(nogil=True)
def pair_forces(chunk, chunks, n, flags, cutoff, alpha, squares, xs, atoms, counts, rows, partners, matrix, diagonal,
                linear, charges, forces, sums):
    """Forces of pairs at the charges, and the energy of all but the mesh with the virial."""
    limit, width, want, out = cutoff * cutoff, rows.shape[1], flags[ENERGY] != 0, sums[chunk]
    out[:] = 0.0
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        at = atoms[i]
        q, own = charges[at], squares[at]
        zero = simd.splat(0.0, 8)
        fx, fy, fz, energy = zero, zero, zero, zero
        xx, yy, zz, xy, xz, yz = zero, zero, zero, zero, zero, zero
        for k in range(0, counts[i], 8):
            ex, ey, ez, _ = eight(xs, rows[i], k)
            dx, dy, dz = ex - x, ey - y, ez - z
            r2 = dx * dx + dy * dy + dz * dz
            inside = r2 < limit
            r2 = simd.select(inside, r2, limit)
            other = simd.load(partners, i * width + k, 8)
            gamma2 = 0.5 / (own + simd.gather(squares, other))
            value = simd.load(matrix, i * width + k, 8)
            slope = simd.sqrt(gamma2) * simd.exp(-gamma2 * r2) - alpha * simd.exp(-(alpha * alpha) * r2)
            pair = q * simd.gather(charges, other)
            f = simd.select(inside, pair * (_SLOPE * slope - value) / r2, 0.0)
            gx, gy, gz = f * dx, f * dy, f * dz
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            if want:
                energy = energy + pair * value
                xx, yy, zz = xx + gx * dx, yy + gy * dy, zz + gz * dz
                xy, xz, yz = xy + gx * dy, xz + gx * dz, yz + gy * dz
        forces[at, 0], forces[at, 1], forces[at, 2] = simd.sum(fx), simd.sum(fy), simd.sum(fz)
        if want:  # each pair is met twice
            out[0] += 0.5 * simd.sum(energy) + q * (linear[at] + 0.5 * diagonal[at] * q)
            a, b, c = 0.5 * simd.sum(xy), 0.5 * simd.sum(xz), 0.5 * simd.sum(yz)
            out[1] -= 0.5 * simd.sum(xx)
            out[5] -= 0.5 * simd.sum(yy)
            out[9] -= 0.5 * simd.sum(zz)
            out[2], out[4] = out[2] - a, out[4] - a
            out[3], out[7] = out[3] - b, out[7] - b
            out[6], out[8] = out[6] - c, out[8] - c


class EquilibrationPlan(Plan):
    """Rows of neighbors and their matrix; the charges, by conjugate gradients; forces.

    Attributes
    ----------
    charges : (n,) float64, e
        As of the last evaluation; after `Engine.measure`, what it started from.
    iterations : int
        Of the last evaluation.
    """

    def __init__(self, potential: ChargeEquilibration, engine: Engine):
        n, periodic = engine.n, engine.periodic
        self.potential, self.engine, self.iterations = potential, engine, 0
        self.charges, self._direction, self._product = np.zeros(n), np.zeros(n), np.zeros(n)
        self._fresh, builds = np.ones(1, np.int64), np.zeros(1, np.int64)
        self._start, self._started_fresh = np.zeros(n), True  # where the last solution started from
        cutoff, alpha = (potential.cutoff, potential.alpha) if periodic else (EVERYWHERE, 0.0)
        self._linear, squares = potential.params["electronegativities"], potential.widths**2
        own = potential.params["hardnesses"] + COULOMB / (np.sqrt(np.pi) * potential.widths)
        listed = shared_rows(engine, cutoff)
        chunks, where = listed.chunks, (listed.xs, listed.atoms, listed.counts, listed.rows)
        partners = aligned_zeros(listed.rows.shape, np.int32)
        matrix = aligned_zeros(listed.rows.shape, np.float64)
        forces, sums = np.zeros((n, 3)), np.zeros((chunks, ROW))
        listed.after_sorting(Task(note_rebuild, self._fresh, builds))
        mesh = None if not periodic else PME(engine, self.charges, alpha, potential.grid, _ORDER, builds=builds,
                                             precision="double")
        product = [Phase([Task(multiply, chunks, n, listed.atoms, listed.counts, partners, matrix, own,
                               self._direction, self._product, chunks=chunks)])]
        last = Task(pair_forces, chunks, n, engine.flags, cutoff, alpha, squares, *where, partners, matrix, own,
                    self._linear, self.charges, forces, sums, chunks=chunks)
        before = [*listed.before, Phase([Task(fill_matrix, chunks, n, cutoff, alpha, squares, *where, partners, matrix,
                                              chunks=chunks)], name="charge matrix"),
                  Phase(call=self._solve, name="charges")]
        stages, reduce = [[last]], [Task(add_forces, engine.atom_starts, forces, engine.forces,
                                         chunks=engine.atom_chunks)]
        self._mesh, self._preconditioner = mesh, 1 / own
        if mesh is not None:
            sort = [Phase(mesh.before, name="mesh sort")] if mesh.before else []
            product += [Phase([mesh.follow(self._direction)]), *sort, *(Phase(tasks) for tasks in mesh.stages),
                        Phase([mesh.slope_task(self._direction, self._product)])]
            before += [Phase([mesh.follow(self.charges)], name="charges of the mesh"), *sort]
            stages, reduce = [[last, *mesh.stages[0]], *mesh.stages[1:]], [*reduce, *mesh.reduce]
        self._program = Program(product, np.zeros(N_FLAGS, np.int64))
        super().__init__(before=before, stages=stages, reduce=reduce, rows=sums,
                         update_box=None if mesh is None else mesh.update_box, undo=self._undo)

    def totals(self) -> np.ndarray:
        """Energy and virial [10] of pairs and mesh; `rows` are those of the pairs."""
        return self.rows.sum(axis=0) + (0.0 if self._mesh is None else self._mesh.rows.sum(axis=0))

    def _times(self, charges):
        """The matrix of second derivatives of the energy by the charges, times `charges`."""
        self._direction[:] = charges
        self._program.run(1)
        return self._product.copy()

    def _by_group(self, values):
        groups = self.potential.groups
        return np.bincount(groups, values)[groups]

    def _solve(self):
        """Preconditioned conjugate gradients among charges whose sums in the groups are the totals."""
        q, groups = self.charges, self.potential.groups
        check_extent(self.engine, f"charge equilibration {self.potential.name!r}")
        self._started_fresh = bool(self._fresh[0])
        if self._started_fresh:  # so that a run resumes, and energies come out, without memory of former charges
            self._fresh[0], q[:] = 0, 0.0
        self._start[:] = q
        q += (self.potential.totals - np.bincount(groups, q))[groups] / np.bincount(groups)[groups]
        self.iterations, converges = 0, True
        while True:
            r = -self._linear - self._times(q)  # the recursion's own loses digits
            rest = self._rest(r)
            worst = int(np.argmax(np.abs(rest)))
            if abs(rest[worst]) <= self.potential.convergence:
                return
            if not converges or self.iterations == _MOST:
                break
            converges = self._descend(r)
        self._fresh[0] = 1
        raise RuntimeError(
            f"charge equilibration {self.potential.name!r}: at step {self.engine.flags[STEP]}, derivatives by the "
            f"charges must agree to {self.potential.convergence:g} kJ/mol/e, got {abs(rest[worst]):.3g} on "
            f"{self.engine.system.topology.describe(worst)} after {self.iterations} iterations (are atoms too close, "
            "or is `convergence` below rounding errors?)")

    def _undo(self):
        """Go back to the charges that the last solution started from."""
        self.charges[:], self._fresh[0] = self._start, self._started_fresh

    def _rest(self, r):
        """The residual without what is the same for all charges of a group."""
        m = self._preconditioner
        return r - self._by_group(m * r) / self._by_group(m)

    def _descend(self, r):
        """Follow conjugate directions from the residual r to convergence; False if the matrix is not positive."""
        p, before = np.zeros_like(r), 1.0
        while self.iterations < _MOST:
            rest = self._rest(r)
            if np.max(np.abs(rest)) <= 0.5 * self.potential.convergence:
                break
            z = self._preconditioner * rest
            now = float(rest @ z)
            p = z + now / before * p
            product = self._times(p)
            curvature = float(p @ product)
            if not curvature > 0:
                return False
            before = now
            self.charges += now / curvature * p
            r -= now / curvature * product
            self.iterations += 1
        return True
