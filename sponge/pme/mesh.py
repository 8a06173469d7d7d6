"""`Mesh`: the compiled form of smooth particle mesh Ewald, as stages of tasks for a plan."""

from __future__ import annotations

from math import comb, factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, check, fft

from ..engine.plan import ROW
from ..units import COULOMB
from . import mesh_kernels as mesh
from . import transform_kernels as transforms
from .energy import spline_moduli
from .parameters import ORDER, ORDERS

if TYPE_CHECKING:
    from ..engine.engine import Engine

__all__ = ["PME", "grid_size"]

_ATOMS_PER_SPREAD = 2000  # some 30 us; each chunk has planes of its own, which cost something too
_ATOMS_PER_GATHER = 1000  # some 15 us
_POINTS_PER_CHUNK = 12_000  # of transforms: some 12 us
_MOST_CHUNKS = 64
_MARGIN = 1  # planes that an atom may go between two sortings without becoming a stray
_SPARE = 12  # points of a plane beyond its period


def grid_size(wanted: tuple[int, int, int]) -> tuple[int, int, int]:
    """The smallest grid of at least `wanted` points that the transforms can handle: factors 2, 3, 5 and 7."""
    x, y, z = (fft.next_length(n) for n in wanted)
    return x, y, z


class PME:
    """Reciprocal part of particle mesh Ewald for charges, or for the coefficients of dispersion."""

    def __init__(
        self,
        engine: Engine,  # of a periodic system; positions, forces and box are read and written in place
        charges: Any,  # (n,) e; for dispersion the square roots of C6
        alpha: float,  # splitting parameter, 1/nm
        grid: tuple[int, int, int],  # see `grid_size`
        order: int = ORDER,  # of the splines
        *,
        dispersion: bool = False,  # sum -c_i c_j / r^6 in place of q_i q_j / r
        builds: np.ndarray | None = None,  # (1,) int64, counts list builds: sort atoms after each; None: always
        felt: Any = None,  # (n,) charges that feel the field; None: those that create it
        precision: str | None = None,  # "mixed" or "double"; None: the engine's
    ):
        check.choice(order, ORDERS, "pme: order")
        if min(grid) < order:
            raise ValueError(
                f"pme: grid must have at least {order} points along each axis for order {order}, got {tuple(grid)}"
            )
        dtype = np.dtype(np.float64 if (precision or engine.precision) == "double" else np.float32)
        n, self.engine, self.alpha, self.grid, self.dispersion = engine.n, engine, float(alpha), tuple(grid), dispersion
        self.charges, wide = np.zeros(n, dtype), order == 6
        self._layout = layout = fft.Layout(grid, dtype, margin=_SPARE)
        nx, ny, nz = layout.shape
        slabs, pieces, piece_starts = _slabs(n, nx, 6 if wide else 5)
        chunks, blocks, lines = len(slabs), _chunks(n, _ATOMS_PER_GATHER), layout.blocks * ny
        by_planes, by_lines = (min(_chunks(nx * ny * nz, _POINTS_PER_CHUNK), most) for most in (nx, lines))
        self._mesh = own = _mesh(n, layout, order, slabs, max(chunks, blocks), dtype)
        self._field, self._slots = fft.aligned(4 * (n + 16), dtype), own.order[:n].copy()
        self._green, self._virial = (fft.aligned(lines * nx * fft.LANES, dtype) for _ in range(2))
        self._inverse, (self._moduli, twice) = np.zeros((3, 3)), _moduli(layout, order)
        planes = _planes(layout, max(by_planes, by_lines), dtype)
        # their contents do not matter between evaluations
        self.scratch = own.bricks, own.scratch, planes.rows, planes.scratch
        self.rows = np.zeros((by_lines + 1, ROW))  # energy and virial, with self energy and neutralizing background
        self.before = [self._sort(np.full(1, -1, np.int64) if builds is None else builds)] if chunks > 1 else []
        r, felt = engine.positions, self.charges if felt is None else np.array(felt, dtype)
        spread, gather = (mesh.spread_wide, mesh.gather_wide) if wide else (mesh.spread, mesh.gather)
        # spread; transform planes; solve along x; transform planes back; gather
        self.stages = [
            [Task(spread, r, self.charges, own, chunks=chunks)],
            [Task(transforms.forward, by_planes, r, self.charges, own, pieces, piece_starts, planes, chunks=by_planes)],
            [
                Task(
                    transforms.solve,
                    by_lines,
                    layout.sizes,
                    planes.spectrum,
                    planes.scratch,
                    self._green,
                    self._virial,
                    self._inverse,
                    twice,
                    layout.passes[0],
                    layout.twiddles[0],
                    self.rows,
                    engine.flags,
                    chunks=by_lines,
                )
            ],
            [Task(transforms.backward, by_planes, own, planes, chunks=by_planes)],
            [Task(gather, blocks, felt, own, self._field, chunks=blocks)],
        ]
        self.reduce = [
            Task(
                mesh.add_forces, engine.atom_starts, self._slots, self._field, engine.forces, chunks=engine.atom_chunks
            )
        ]
        self.update_charges(charges)

    def _sort(self, builds):
        """The task that orders the atoms."""
        n, own = self.engine.n, self._mesh.slabs[:, mesh.OWN]
        owners = np.repeat(np.stack([np.cumsum(own) - own, own], 1), own, axis=0)
        counts = np.zeros(self._layout.shape[0] * self._mesh.sizes[mesh.BRICKS_Y] + 1, np.int64)
        return Task(
            mesh.sort,
            self.engine.positions,
            self._mesh,
            owners,
            builds,
            np.full(1, -2, np.int64),
            np.zeros(n, np.int32),
            counts,
            self._slots,
        )

    def update_charges(self, charges: Any) -> None:
        """Take new charges."""
        self._exact = np.array(charges, float)
        if self._exact.shape != self.charges.shape:
            raise ValueError(f"pme: charges must have shape {self.charges.shape}, got {self._exact.shape}")
        self.charges[:] = self._exact
        self.update_box()

    def update_box(self) -> None:
        """Take the engine's box: geometry and influence function."""
        box, n = self.engine.box, self.grid
        inverse = np.linalg.inv(box)
        self._inverse[:] = inverse
        geometry = self._mesh.geometry
        geometry[:9] = [*inverse[:, 0], *inverse[1:, 1], inverse[2, 2], *n]
        geometry[16:].reshape(3, 4, 4)[:, :, :3] = (-inverse.T * np.array(n, float)[:, None])[:, None]
        volume = box[0, 0] * box[1, 1] * box[2, 2]
        scale = -(np.pi**1.5) * self.alpha**3 / 3 / volume if self.dispersion else COULOMB / (np.pi * volume)
        transforms.influence(
            0,
            1,
            int(self.dispersion),
            self.alpha,
            scale,
            self._layout.sizes,
            self._inverse,
            *self._moduli,
            self._green,
            self._virial,
        )
        own, background = self._own_energy(volume)
        self.rows[-1] = 0.0
        self.rows[-1, 0] = own + background
        self.rows[-1, [1, 5, 9]] = background

    def charge_gradient(self) -> np.ndarray:
        """Derivatives of the energy by the charges (kJ/mol/e), as of the last evaluation."""
        potential = self._field.reshape(-1, 4)[self._slots, 3].astype(float)
        if self.dispersion:
            return potential + self.alpha**6 / 6 * self._exact
        box = self.engine.box
        background = -np.pi / self.alpha**2 * self._exact.sum() / (box[0, 0] * box[1, 1] * box[2, 2])
        return potential + COULOMB * (background - 2 * self.alpha / np.sqrt(np.pi) * self._exact)

    def follow(self, charges: np.ndarray) -> Task:
        """A task that takes new charges (e) from an array, for a phase before the stages."""
        return Task(mesh.take_charges, charges, self.charges, self._exact, self.engine.box, self.alpha, self.rows)

    def slope_task(self, charges: np.ndarray, slopes: np.ndarray) -> Task:
        """A task that adds the derivatives of the energy by the `charges` to `slopes`, for a phase after the stages."""
        engine = self.engine
        return Task(
            mesh.add_slopes,
            engine.atom_starts,
            self._slots,
            self._field,
            charges,
            engine.box,
            self.alpha,
            slopes,
            chunks=engine.atom_chunks,
        )

    def _own_energy(self, volume):
        """Self energy, and the energy of the neutralizing background, which goes as 1 / volume."""
        if self.dispersion:
            return self.alpha**6 / 12 * np.sum(self._exact**2), 0.0
        background = -COULOMB * np.pi / (2 * self.alpha**2 * volume) * np.sum(self._exact) ** 2
        return -COULOMB * self.alpha / np.sqrt(np.pi) * np.sum(self._exact**2), background


def _mesh(n, layout, order, slabs, chunks, dtype):
    """The arrays of the kernels, before the atoms are sorted."""
    nx, ny, nz = layout.shape
    wide, padded = order == 6, -(-n // 16) * 16 + 16
    points = 6 if wide else 5
    bricks_y, bricks_z = ((m - 1) // 4 + (3 if wide else 2) for m in (ny, nz))
    bricks_y = -(-bricks_y // 4) * 4
    plane = (bricks_y * bricks_z | 1) * fft.LANES
    values, slopes = (_coefficients(t, points - k, wide).astype(dtype) for k, t in enumerate(spline_polynomials(order)))
    starts, atoms = np.zeros(len(slabs) + 1, np.int64), np.zeros(n + 16, np.int32)
    starts[-1], atoms[:n] = n, np.arange(n, dtype=np.int32)
    return mesh.Mesh(
        np.array([nx, ny, nz, points, bricks_y, bricks_z, plane, 0], np.int64),
        np.zeros(64),
        values,
        slopes,
        slabs,
        atoms,
        starts,
        fft.aligned(int(slabs[-1, mesh.AT] + slabs[-1, mesh.WIDTH]) * plane, dtype),
        fft.aligned(chunks * mesh.SCRATCH, dtype),
        np.zeros((3, padded), dtype),
        np.zeros((2, padded), np.int32),
        np.zeros(n, np.int32),
        np.zeros(len(slabs), np.int64),
    )


def _moduli(layout, order):
    """Inverse moduli of the splines along each axis, and how often a frequency along z stands in the spectrum."""
    nz, half = layout.shape[2], layout.shape[2] // 2 + 1
    x, y, z = (1 / spline_moduli(m, order) for m in layout.shape)
    z_moduli, twice = np.zeros((2, layout.blocks * fft.LANES))
    z_moduli[:half], twice[:half] = z[:half], 2.0
    twice[[0, half - 1] if nz % 2 == 0 else 0] = 1.0
    return (x, y, z_moduli), twice


def _planes(layout, slots, dtype):
    """Memory of the transforms, for `slots` threads."""
    # the lock of a slot has a cache line of its own
    width = max(layout.scratch, 6 * layout.shape[0] * fft.LANES) + fft.LANES
    rows, work = (fft.aligned(slots * m, dtype).reshape(slots, -1) for m in (layout.rows, width))
    (y_table, z_table), (y_twiddles, z_twiddles) = layout.passes[1:], layout.twiddles[1:]
    return transforms.Planes(
        layout.sizes, fft.aligned(layout.spectrum, dtype), rows, work, y_table, y_twiddles, z_table, z_twiddles
    )


def spline_polynomials(order: int) -> tuple[np.ndarray, np.ndarray]:
    """Weight of grid point first + k, and its slope, as polynomials of the fraction: coefficients [k, power], padded to
    8.

    Cardinal splines written out: M_p(x) = sum_j (-1)^j C(p, j) (x - j)_+^(p - 1) / (p - 1)!, of which point first + k
    takes the piece at x = f + p - 1 - k (Essmann et al., J. Chem. Phys. 103, 8577 (1995), equation 4.1).
    """
    values, slopes = np.zeros((order, 8)), np.zeros((order, 8))
    for k in range(order):
        piece = order - 1 - k
        for j in range(piece + 1):
            for power in range(order):
                values[k, power] += (
                    (-1) ** j
                    * comb(order, j)
                    * comb(order - 1, power)
                    * float(piece - j) ** (order - 1 - power)
                    / factorial(order - 1)
                )
        slopes[k, : order - 1] = values[k, 1:order] * np.arange(1, order)
    return values, slopes


def _coefficients(polynomials, powers, wide):
    """The layout of coefficients that the kernels read: by point and power; then rows of lanes shifted within
    bricks.
    """
    rows = polynomials[:, powers - 1 :: -1].T  # highest power first, [power, point]
    k = len(polynomials)
    if wide:
        table = np.zeros((4, 6, 16))
        for shift in range(4):
            table[shift, :powers, shift : shift + k] = rows
    else:
        table = np.zeros((4, 4, 5, 16))
        for y in range(4):
            for z in range(4):
                table[y, z, :powers, y : y + k] = rows
                table[y, z, :powers, 8 + z : 8 + z + k] = rows
    head = np.zeros((6, 8))
    head[:k] = polynomials
    return np.concatenate([head.ravel(), table.ravel()])


def _chunks(work, size):
    return int(np.clip(work // size, 1, _MOST_CHUNKS))


def _slabs(n, nx, points):
    """The planes of each chunk of spreading, and which planes of the chunks' memory make up each plane of the mesh."""
    chunks = min(_chunks(n, _ATOMS_PER_SPREAD), nx // (points + 2 * _MARGIN + 1))
    slabs = np.zeros((max(chunks, 1), mesh.N_SLAB), np.int64)
    owners: list[list[int]] = [[] for _ in range(nx)]
    at = 0
    for c, slab in enumerate(slabs):
        first, end = c * nx // len(slabs), (c + 1) * nx // len(slabs)
        margin = _MARGIN if len(slabs) > 1 else 0
        slab[[mesh.FIRST, mesh.WIDTH, mesh.AT, mesh.OWN]] = (
            (first - margin) % nx,
            end - first + 2 * margin + points - 1,
            at,
            end - first,
        )
        for k in range(slab[mesh.WIDTH]):
            owners[(first - margin + k) % nx].append(at + k)
        at += slab[mesh.WIDTH]
    starts = np.cumsum([0, *[len(o) for o in owners]])
    return slabs, np.concatenate(owners).astype(np.int64), starts.astype(np.int64)
