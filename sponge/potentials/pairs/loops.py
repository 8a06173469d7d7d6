"""Loops over cluster pairs, for any pair function: templates that built-in and generated kernels are made of.

A pair kernel is a module-level function that names a template and four device functions (`template`s themselves, so
that they are inlined)::

    @kernel(nogil=True)
    def forces(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers,
               sums, blocks, rows, flags):
        force_loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params,
        numbers,
                   sums, blocks, rows, flags, constants, load, force, force_plain)

    constants(numbers)             tuple of 16-lane vectors from the array `numbers` of xs' dtype, made once per chunk,
    as by
                                   simd.load_splat(numbers, k, 16); the first must be the square of the cut-off.
    load(params, cluster, lanes)   parameters of a cluster's four atoms, with `lanes` one of `first` and `second`: a
    tuple
                                   such as (lanes(params, 8 * cluster), lanes(params, 8 * cluster + 4)) for two
                                   parameters per atom, which stand in blocks of four atoms: a4 b4.
    force(r2, i, j, c)             -(dU/dr)/r, from the squared distance, the parameters of both atoms, the constants;
                                   `force_plain` is for pairs of clusters one of which has no Lennard-Jones parameters.
    energy(r2, i, j, c)            for `energy_loop`: U and -(dU/dr)/r; it also sums the virial, into rows[chunk].
                                   `force_energy_loop` takes two, as `force_loop` does.

Lanes outside of the cut-off, excluded pairs and padding are dropped afterwards, whatever the function gives for them
(infinities and NaN too: r2 is 0 for an atom with itself).

`PairPlan` makes the tasks of such kernels.

Forces on second clusters are kept lane by lane (three vectors a cluster) and summed over lanes once per chunk: that
saves two thirds of the shuffles of a sum per pair, which would be a fifth of the instructions.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import Task, give_slot, kernel, simd, take_slot, template

from ...engine.flags import ENERGY
from ...engine.plan import ROW, Plan
from ...neighbors.lanes import add_quarters, first, first_not_below, second
from ...neighbors.state import CLUSTERS, END, LJ_END, MASK, PLAIN_END, SHIFT, START, I, aligned_zeros, sparse_zeros

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...neighbors import NeighborList

__all__ = ["PairPlan", "energy_loop", "force_energy_loop", "force_loop", "gradient_loop", "slope_loop", "two_over_r",
           "two_over_r_exact"]


@template
def _clear(chunk, touched, n_touched, force):
    zero = simd.splat(force.dtype.type(0), 16)
    for t in range(n_touched):
        j = np.int64(touched[chunk, t])
        simd.store(force, 48 * j, zero)
        simd.store(force, 48 * j + 16, zero)
        simd.store(force, 48 * j + 32, zero)


@template
def _close(chunk, touched, n_touched, force, block):
    """Sum the lanes of the touched clusters, one after the other, to blocks x4 y4 z4."""
    for t in range(n_touched):
        j = np.int64(touched[chunk, t])
        for a in range(3):
            v = simd.load(force, 48 * j + 16 * a, 16)
            h = simd.low(v) + simd.high(v)
            simd.store(block, 12 * t + 4 * a, simd.low(h) + simd.high(h))


@template
def _three(force, at, x, y, z):
    """Add the sums of the quarters of three vectors to the rows of a first cluster."""
    add_quarters(force, at, x)
    add_quarters(force, at + 16, y)
    add_quarters(force, at + 32, z)


@template
def _place(cluster, origin, clusters):
    """Index of a cluster's lanes among the sums of a chunk, whose window may run over the end."""
    at = cluster - origin
    return 48 * (at + clusters * (at < 0))


@template
def _second(pair, k, origin, clusters):
    """A second cluster, and the index of its lanes among the sums of the chunk."""
    at = np.int64(simd.load_scalar(pair, k))
    j = at + origin
    return j - clusters * (j >= clusters), 48 * at


@template
def _image(xs, i, shifts, s, real):
    """Coordinates of a first cluster, shifted by a vector of the lattice."""
    return (first(xs, 16 * i) + real(shifts[3 * s]), first(xs, 16 * i + 4) + real(shifts[3 * s + 1]),
            first(xs, 16 * i + 8) + real(shifts[3 * s + 2]))


@template
def _separation(ix, iy, iz, xs, j):
    """Differences to the atoms of a second cluster, and their squared lengths."""
    dx, dy, dz = ix - second(xs, 16 * j), iy - second(xs, 16 * j + 4), iz - second(xs, 16 * j + 8)
    return dx, dy, dz, simd.fma(dx, dx, simd.fma(dy, dy, dz * dz))


@template
def _within(r2, c, mask, k, plain_end, masks):
    """The pairs of an entry that count: within the cut-off, and not masked; only those from `plain_end` on have bits,
    the first at `masks`.
    """
    bits = np.int32(simd.load_scalar(mask, masks + k - plain_end)) if k >= plain_end else np.int32(-1)
    return (r2 < c[0]) & simd.from_bits(np.uint64(bits), 16)


@template
def _force(force, inside, r2, pi, pj, c, zero, u):
    return simd.select(inside, force(r2, pi, pj, c), zero), u


@template
def _force_and_energy(energy, inside, r2, pi, pj, c, zero, u):
    du, f = energy(r2, pi, pj, c)
    return simd.select(inside, f, zero), u + simd.select(inside, du, zero)


@template
def _run(pair, mask, begin, end, masks, origin, clusters, xs, params, total, ix, iy, iz, pi, fx, fy, fz, u, c, load,
         force, evaluate):
    """One run of an entry: forces on its first cluster are returned, those on the second go to `total`."""
    zero = simd.splat(total.dtype.type(0), 16)
    for k in range(begin, end):
        j, at = _second(pair, k, origin, clusters)
        dx, dy, dz, r2 = _separation(ix, iy, iz, xs, j)
        inside = r2 < c[0]
        if masks is not None:
            inside = inside & simd.from_bits(np.uint64(simd.load_scalar(mask, masks + k - begin)), 16)
        s, u = evaluate(force, inside, r2, pi, load(params, j, second), c, zero, u)
        simd.store(total, at, simd.fma(-s, dx, simd.load(total, at, 16)))
        simd.store(total, at + 16, simd.fma(-s, dy, simd.load(total, at + 16, 16)))
        simd.store(total, at + 32, simd.fma(-s, dz, simd.load(total, at + 32, 16)))
        fx, fy, fz = simd.fma(s, dx, fx), simd.fma(s, dy, fy), simd.fma(s, dz, fz)
    return fx, fy, fz, u


@template
def _loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers, sums,
          blocks,
          rows, flags, constants, load, evaluate, f, f_plain, with_energy):
    if flags[ENERGY]:
        return
    clusters, origin, real = state[CLUSTERS], window[chunk], xs.dtype.type
    row = take_slot(sums)
    total, mine, pair, mask = sums[row], entries[chunk], pairs[chunk], masks[chunk]
    _clear(chunk, touched, n_touched[chunk], total)
    c = constants(numbers)
    zero = simd.splat(real(0), 16)
    u_sum = 0.0
    for e in range(n_entries[chunk]):
        i, s = np.int64(mine[e, I]), np.int64(mine[e, SHIFT])
        ix, iy, iz = _image(xs, i, shifts, s, real)
        p = load(params, i, first)
        fx, fy, fz, u = zero, zero, zero, zero
        fx, fy, fz, u = _run(pair, mask, mine[e, START], mine[e, LJ_END], None, origin, clusters, xs, params, total,
                             ix, iy, iz, p, fx, fy, fz, u, c, load, f, evaluate)
        fx, fy, fz, u = _run(pair, mask, mine[e, LJ_END], mine[e, PLAIN_END], None, origin, clusters, xs, params,
                             total, ix, iy, iz, p, fx, fy, fz, u, c, load, f_plain, evaluate)
        fx, fy, fz, u = _run(pair, mask, mine[e, PLAIN_END], mine[e, END], mine[e, MASK], origin, clusters, xs, params,
                             total, ix, iy, iz, p, fx, fy, fz, u, c, load, f, evaluate)
        _three(total, _place(i, origin, clusters), fx, fy, fz)
        if with_energy:
            u_sum += simd.sum(u)
    if with_energy:
        rows[chunk, 0] = u_sum
    _close(chunk, touched, n_touched[chunk], total, blocks[chunk])
    give_slot(sums, row)


@template
def force_loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers,
               sums, blocks, rows, flags, constants, load, force, force_plain):
    """Forces of a chunk; `force_plain` is for pairs of clusters one of which has no Lennard-Jones parameters."""
    _loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers, sums,
          blocks,
          rows, flags, constants, load, _force, force, force_plain, False)


@template
def force_energy_loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params,
                      numbers,
                      sums, blocks, rows, flags, constants, load, energy, energy_plain):
    """Forces as `force_loop` sums them, bit for bit, and the energy, without the virial, into rows[chunk]."""
    _loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers, sums,
          blocks,
          rows, flags, constants, load, _force_and_energy, energy, energy_plain, True)


@template
def energy_loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers,
                sums, blocks, rows, flags, constants, load, energy):
    """Forces, energy and virial of a chunk: rows[chunk] gets the energy and W_ab = sum f_a r_b."""
    if not flags[ENERGY]:
        return
    clusters, origin, real = state[CLUSTERS], window[chunk], xs.dtype.type
    row = take_slot(sums)
    total, mine, pair, mask = sums[row], entries[chunk], pairs[chunk], masks[chunk]
    _clear(chunk, touched, n_touched[chunk], total)
    c = constants(numbers)
    zero = simd.splat(real(0), 16)
    u_sum, xx_sum, yy_sum, zz_sum, xy_sum, xz_sum, yz_sum = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    for e in range(n_entries[chunk]):
        i, s = np.int64(mine[e, I]), np.int64(mine[e, SHIFT])
        ix, iy, iz = _image(xs, i, shifts, s, real)
        p = load(params, i, first)
        fx, fy, fz, u = zero, zero, zero, zero
        xx, yy, zz, xy, xz, yz = zero, zero, zero, zero, zero, zero
        for k in range(mine[e, START], mine[e, END]):
            j, at = _second(pair, k, origin, clusters)
            dx, dy, dz, r2 = _separation(ix, iy, iz, xs, j)
            inside = _within(r2, c, mask, k, mine[e, PLAIN_END], mine[e, MASK])
            du, f = energy(r2, p, load(params, j, second), c)
            f = simd.select(inside, f, zero)
            u = u + simd.select(inside, du, zero)
            gx, gy, gz = f * dx, f * dy, f * dz
            simd.store(total, at, simd.load(total, at, 16) - gx)
            simd.store(total, at + 16, simd.load(total, at + 16, 16) - gy)
            simd.store(total, at + 32, simd.load(total, at + 32, 16) - gz)
            fx, fy, fz = fx + gx, fy + gy, fz + gz
            xx, yy, zz = simd.fma(gx, dx, xx), simd.fma(gy, dy, yy), simd.fma(gz, dz, zz)
            xy, xz, yz = simd.fma(gx, dy, xy), simd.fma(gx, dz, xz), simd.fma(gy, dz, yz)
        _three(total, _place(i, origin, clusters), fx, fy, fz)
        u_sum += simd.sum(u)
        xx_sum += simd.sum(xx)
        yy_sum += simd.sum(yy)
        zz_sum += simd.sum(zz)
        xy_sum += simd.sum(xy)
        xz_sum += simd.sum(xz)
        yz_sum += simd.sum(yz)
    out = rows[chunk]
    out[0], out[1], out[5], out[9] = u_sum, xx_sum, yy_sum, zz_sum
    out[2], out[3], out[6] = xy_sum, xz_sum, yz_sum
    out[4], out[7], out[8] = xy_sum, xz_sum, yz_sum
    _close(chunk, touched, n_touched[chunk], total, blocks[chunk])
    give_slot(sums, row)


@template
def gradient_loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params,
                  numbers,
                  sums, blocks, rows, flags, constants, load, gradient):
    """Derivatives of the energy by three parameters of each atom, in place of forces.

    gradient(r2, i, j, c) returns the derivatives by the parameters of the first atom, and those by the second's, as
    tuples.
    """
    clusters, origin, real = state[CLUSTERS], window[chunk], xs.dtype.type
    row = take_slot(sums)
    total, mine, pair, mask = sums[row], entries[chunk], pairs[chunk], masks[chunk]
    _clear(chunk, touched, n_touched[chunk], total)
    c = constants(numbers)
    zero = simd.splat(real(0), 16)
    for e in range(n_entries[chunk]):
        i, s = np.int64(mine[e, I]), np.int64(mine[e, SHIFT])
        ix, iy, iz = _image(xs, i, shifts, s, real)
        p = load(params, i, first)
        ga, gb, gc = zero, zero, zero
        for k in range(mine[e, START], mine[e, END]):
            j, at = _second(pair, k, origin, clusters)
            dx, dy, dz, r2 = _separation(ix, iy, iz, xs, j)
            inside = _within(r2, c, mask, k, mine[e, PLAIN_END], mine[e, MASK])
            own, other = gradient(r2, p, load(params, j, second), c)
            ga = ga + simd.select(inside, own[0], zero)
            gb = gb + simd.select(inside, own[1], zero)
            simd.store(total, at, simd.load(total, at, 16) + simd.select(inside, other[0], zero))
            simd.store(total, at + 16, simd.load(total, at + 16, 16) + simd.select(inside, other[1], zero))
            gc = gc + simd.select(inside, own[2], zero)
            simd.store(total, at + 32, simd.load(total, at + 32, 16) + simd.select(inside, other[2], zero))
        _three(total, _place(i, origin, clusters), ga, gb, gc)
    _close(chunk, touched, n_touched[chunk], total, blocks[chunk])
    give_slot(sums, row)


@template
def slope_loop(chunk, state, shifts, entries, n_entries, pairs, masks, touched, n_touched, window, xs, params, numbers,
               sums, blocks, _rows, _flags, constants, load, potential):
    """Derivatives of the energy by the first parameter of each atom, in place of forces along x: sums of
    potential(r2, i, j, c) times that of the other atom.
    """
    clusters, origin, real = state[CLUSTERS], window[chunk], xs.dtype.type
    row = take_slot(sums)
    total, mine, pair, mask = sums[row], entries[chunk], pairs[chunk], masks[chunk]
    _clear(chunk, touched, n_touched[chunk], total)
    c = constants(numbers)
    zero = simd.splat(real(0), 16)
    for e in range(n_entries[chunk]):
        i, s = np.int64(mine[e, I]), np.int64(mine[e, SHIFT])
        ix, iy, iz = _image(xs, i, shifts, s, real)
        p, found = load(params, i, first), zero
        for k in range(mine[e, START], mine[e, END]):
            j, at = _second(pair, k, origin, clusters)
            _, _, _, r2 = _separation(ix, iy, iz, xs, j)
            inside = _within(r2, c, mask, k, mine[e, PLAIN_END], mine[e, MASK])
            q = load(params, j, second)
            phi = simd.select(inside, potential(r2, p, q, c), zero)
            found = simd.fma(phi, q[0], found)
            simd.store(total, at, simd.fma(phi, p[0], simd.load(total, at, 16)))
        add_quarters(total, _place(i, origin, clusters), found)
    _close(chunk, touched, n_touched[chunk], total, blocks[chunk])
    give_slot(sums, row)


@template
def two_over_r(r2, three):
    """2/r in float32: the processor's estimate and one Newton step."""
    y = simd.rsqrt_fast(r2, 0)
    return y * simd.fma(-(r2 * y), y, three)


@template
def two_over_r_exact(r2, three):
    """2/r in float64, of vectors of 16."""
    y = simd.concat(simd.rsqrt_fast(simd.low(r2), 1), simd.rsqrt_fast(simd.high(r2), 1))
    return y * simd.fma(-(r2 * y), y, three)


@kernel(nogil=True)
def sum_chunks(chunk, chunks, state, touched, n_touched, window, blocks, sorted_forces):
    """Add up the chunks' blocks of each cluster, in the order of the chunks, in float64."""
    clusters, zero = state[CLUSTERS], simd.splat(0.0, 4)
    begin, end = chunk * clusters // chunks, (chunk + 1) * clusters // chunks
    for k in range(12 * begin, 12 * end, 4):
        simd.store(sorted_forces, k, zero)
    for c in range(chunks):
        n, low = n_touched[c], begin - window[c]
        low += clusters * (low < 0)
        for turn in range(2):  # the stretch may reach over the end of the row
            first = low - turn * clusters
            last = first + end - begin
            t = first_not_below(touched[c], n, max(first, 0))
            while t < n and touched[c, t] < last:
                at = 12 * (begin + touched[c, t] - first)
                xy = simd.convert(simd.load(blocks[c], 12 * t, 8), np.float64)
                z = simd.convert(simd.load(blocks[c], 12 * t + 8, 4), np.float64)
                simd.store(sorted_forces, at, simd.load(sorted_forces, at, 8) + xy)
                simd.store(sorted_forces, at + 8, simd.load(sorted_forces, at + 8, 4) + z)
                t += 1


@kernel(nogil=True)
def add_sorted(chunk, starts, slots, sorted_forces, forces):
    """Add sorted forces to those of the atoms."""
    for atom in range(starts[chunk], starts[chunk + 1]):
        slot = np.int64(slots[atom])
        at = 3 * slot - 2 * (slot & 3)
        for a in range(3):
            forces[atom, a] += sorted_forces[at + 4 * a]


@kernel(nogil=True)
def sort_params(chunk, chunks, state, atoms, values, params):
    """Parameters [n, p] of the atoms into blocks of four; those of padding are 0."""
    p, clusters = values.shape[1], state[CLUSTERS]
    for cluster in range(chunk * clusters // chunks, (chunk + 1) * clusters // chunks):
        for lane in range(4):
            atom = atoms[4 * cluster + lane]
            for k in range(p):
                params[4 * (p * cluster + k) + lane] = values[atom, k] if atom >= 0 else 0.0


class PairPlan(Plan):
    """The plan of a pair potential over a neighbor list.

    `values` and `numbers` are the plan's own arrays: change them in place, and set ``engine.flags[REBUILD]`` after
    changing `values`. `params`, which the kernels read, holds `values` by cluster and is set when the list is built.
    """

    def __init__(self, engine: Engine, neighbors: NeighborList,  # ``shared_list(engine, cutoff)``
                 force: Any, energy: Any,  # kernels from the templates above
                 values: np.ndarray,  # (n, p) parameters of each atom, in the order in which `load` reads them
                 numbers: np.ndarray,  # that `constants` reads; the first is the square of the cut-off
                 both: Any = None):  # of `force_energy_loop`: for `force` where an `EnergySplit` always needs energies
        real, chunks, state = neighbors.real, neighbors.chunks, neighbors.state
        n_clusters = len(neighbors.atoms) // 4
        self.values = np.ascontiguousarray(values, real)
        self.numbers = np.ascontiguousarray(numbers, real)
        self.params = params = aligned_zeros(4 * n_clusters * self.values.shape[1], real)
        sort = Task(sort_params, chunks, state, neighbors.atoms, self.values, params, chunks=chunks)
        rows = np.zeros((len(neighbors.lists) * chunks, ROW))
        # a row for each thread, of which no more are busy here than there are chunks; pages never used cost nothing. A
        # line more than the forces take holds the lock.
        wide = aligned_zeros((len(neighbors.lists) * chunks, 48 * neighbors.lists[0].touched.shape[1] + 16), real)
        # parts: for each of neighbors.lists, sorted forces [clusters * 12] in blocks x4 y4 z4, and rows [chunks, 10]
        pair_tasks, sums, adds, self.parts = [], [], [], []
        classes, enhanced = [], []
        for k, part in enumerate(neighbors.lists):
            blocks = sparse_zeros((chunks, 12 * part.touched.shape[1]), real)
            sorted_forces, mine = aligned_zeros(12 * n_clusters, np.float64), rows[k * chunks : (k + 1) * chunks]
            args = (state, neighbors.shifts, part.entries, part.n_entries, part.pairs, part.masks, part.touched,
                    part.n_touched,
                    part.window, neighbors.xs, params, self.numbers, wide, blocks, mine, engine.flags)
            classes.append(engine.split.pair_class(part.kind) if engine.split is not None else 0)
            if classes[-1]:
                enhanced.append((classes[-1], mine))
                if both is None:
                    raise ValueError("pair plan: an energy split needs a kernel for forces and energies")
            pair_tasks += [Task(both if classes[-1] else force, *args, chunks=chunks),
                           Task(energy, *args, chunks=chunks)]
            sums.append(Task(sum_chunks, chunks, state, part.touched, part.n_touched, part.window, blocks,
                             sorted_forces, chunks=chunks))
            adds.append(Task(add_sorted, engine.atom_starts, neighbors.slots, sorted_forces,
                             engine.forces,
                             chunks=engine.atom_chunks))
            self.parts.append((sorted_forces, mine))
        neighbors.after_sorting(sort)
        self.neighbors, self._arguments = neighbors, [t.args for t in pair_tasks[::2]]
        super().__init__(stages=[pair_tasks, sums], reduce=adds, rows=rows, before=neighbors.before, classes=classes,
                         enhanced=enhanced)

    def gradient_phases(self, gradient: Any) -> list[list[Task]]:
        """Tasks that set `gradient_sums` by a kernel of `gradient_loop` or `slope_loop`, in the forces' buffers."""
        chunks, state = self.neighbors.chunks, self.neighbors.state
        phases = []
        self._sums = [aligned_zeros(len(self.neighbors.atoms) * 3, np.float64) for _ in self._arguments]
        for part, arguments, total in zip(self.neighbors.lists, self._arguments, self._sums):
            phases.append([Task(gradient, *arguments, chunks=chunks)])
            phases.append([Task(sum_chunks, chunks, state, part.touched, part.n_touched, part.window,
                                arguments[13],
                                total,
                                chunks=chunks)])
        return phases

    @property
    def gradient_sums(self) -> np.ndarray:
        """Derivatives by the first three parameters of each slot [slots, 3]."""
        return reduce(np.add, self._sums).reshape(-1, 3, 4).swapaxes(1, 2).reshape(-1, 3)
