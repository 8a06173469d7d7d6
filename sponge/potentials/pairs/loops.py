"""Loops over cluster pairs, for any pair function: templates that built-in and generated kernels are made of.

A pair kernel is a module-level function that names a template and four device functions (`template`s themselves, so
that they are inlined)::

    @kernel(nogil=True)
    def forces(chunk, pairs, params, numbers, sums, blocks, rows, flags):
        force_loop(chunk, pairs, params, numbers, sums, blocks, rows, flags, constants, load, force, force_plain)

    constants(numbers)             tuple of 16-lane vectors from the array `numbers` of xs' dtype, made once per chunk,
                                   as by simd.load_splat(numbers, k, 16); the first must be the square of the cut-off.
    load(params, cluster, lanes)   parameters of a cluster's four atoms, with `lanes` one of `first` and `second`: a
                                   tuple such as (lanes(params, 8 * cluster), lanes(params, 8 * cluster + 4)) for two
                                   parameters per atom, which stand in blocks of four atoms: a4 b4.
    force(r2, i, j, c)             -(dU/dr)/r, from the squared distance, the parameters of both atoms, the constants;
                                   `force_plain` is for pairs of clusters one of which has no Lennard-Jones parameters.
    energy(r2, i, j, c)            for `energy_loop`: U and -(dU/dr)/r; it also sums the virial, into rows[chunk].
                                   `force_energy_loop` takes two, as `force_loop` does.

`pairs` is a `PairList`. Lanes outside of the cut-off, excluded pairs and padding are dropped afterwards, whatever the
function gives for them (infinities and NaN too: r2 is 0 for an atom with itself).

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
from ...engine.vectors import add_row
from ...neighbors.lanes import (
    add_quarters,
    clear_touched,
    close_touched,
    first,
    first_not_below,
    second,
    second_cluster,
    shifted,
    since,
)
from ...neighbors.state import CLUSTERS, END, LJ_END, MASK, PLAIN_END, SHIFT, START, I, aligned_zeros, sparse_zeros

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from ...neighbors import NeighborList

__all__ = [
    "PairPlan",
    "energy_loop",
    "force_energy_loop",
    "force_loop",
    "gradient_loop",
    "slope_loop",
    "two_over_r",
    "two_over_r_exact",
]


@template
def _three(total, at, x, y, z):
    """Add the sums of the quarters of three vectors to the rows of a first cluster."""
    add_quarters(total, at, x)
    add_quarters(total, at + 16, y)
    add_quarters(total, at + 32, z)


@template
def _separation(x, xs, j):
    """Differences to the atoms of a second cluster, and their squared lengths."""
    dx, dy, dz = x[0] - second(xs, 16 * j), x[1] - second(xs, 16 * j + 4), x[2] - second(xs, 16 * j + 8)
    return dx, dy, dz, simd.fma(dx, dx, simd.fma(dy, dy, dz * dz))


@template
def _bounds(chunk, pairs, e):
    """First and last pair of an entry, and what `_pair` reads of it, once: sums might be the same memory."""
    mine = pairs.entries
    plain = np.int64(mine[chunk, e, PLAIN_END])
    return (
        mine[chunk, e, START],
        mine[chunk, e, END],
        (pairs.window[chunk], pairs.state[CLUSTERS], plain, np.int64(mine[chunk, e, MASK]) - plain),
    )


@template
def _pair(pair, mask, xs, k, bounds, x, c):
    """Pair k of an entry: its second cluster, the place of this one's lanes, the separation, and which lanes count.

    These are within the cut-off, and not masked; only the pairs from PLAIN_END on have bits.
    """
    origin, clusters, plain, masks = bounds
    j, at = second_cluster(pair, k, origin, clusters)
    away = _separation(x, xs, j)
    bits = np.int32(simd.load_scalar(mask, masks + k)) if k >= plain else np.int32(-1)
    return j, 48 * at, away, (away[3] < c[0]) & simd.from_bits(np.uint64(bits), 16)


@template
def _visit(chunk, pairs, params, numbers, sums, blocks, rows, constants, load, entry, f, plain):
    """Call `entry`, which sums over the pairs of one first cluster, for all entries of a chunk."""
    row = take_slot(sums)
    total, mine, out, xs, shifts = sums[row], pairs.entries[chunk], rows[chunk], pairs.xs, pairs.shifts
    origin, clusters = pairs.window[chunk], pairs.state[CLUSTERS]
    clear_touched(chunk, pairs, total, 3)
    c = constants(numbers)
    for e in range(pairs.n_entries[chunk]):
        i = np.int64(mine[e, I])
        entry(
            chunk,
            e,
            pairs,
            shifted(xs, i, shifts, np.int64(mine[e, SHIFT])),
            load(params, i, first),
            params,
            total,
            48 * since(i, origin, clusters),
            out,
            c,
            load,
            f,
            plain,
        )
    close_touched(chunk, pairs, total, blocks[chunk], 3)
    give_slot(sums, row)


@template
def _force(force, inside, r2, pi, pj, c, zero, u):
    return simd.select(inside, force(r2, pi, pj, c), zero), u


@template
def _force_and_energy(energy, inside, r2, pi, pj, c, zero, u):
    du, f = energy(r2, pi, pj, c)
    return simd.select(inside, f, zero), u + simd.select(inside, du, zero)


@template
def _run(chunk, pairs, begin, end, masks, x, p, params, total, own, c, load, force, evaluate):
    """One run of an entry: forces on its first cluster are returned, those on the second go to `total`."""
    zero, pair, mask, xs = simd.splat(total.dtype.type(0), 16), pairs.pairs[chunk], pairs.masks[chunk], pairs.xs
    origin, clusters, (fx, fy, fz, u) = pairs.window[chunk], pairs.state[CLUSTERS], own
    for k in range(begin, end):
        j, at = second_cluster(pair, k, origin, clusters)
        dx, dy, dz, r2 = _separation(x, xs, j)
        inside = r2 < c[0]
        if masks is not None:
            inside = inside & simd.from_bits(np.uint64(simd.load_scalar(mask, masks + k - begin)), 16)
        s, u = evaluate(force, inside, r2, p, load(params, j, second), c, zero, u)
        simd.store(total, 48 * at, simd.fma(-s, dx, simd.load(total, 48 * at, 16)))
        simd.store(total, 48 * at + 16, simd.fma(-s, dy, simd.load(total, 48 * at + 16, 16)))
        simd.store(total, 48 * at + 32, simd.fma(-s, dz, simd.load(total, 48 * at + 32, 16)))
        fx, fy, fz = simd.fma(s, dx, fx), simd.fma(s, dy, fy), simd.fma(s, dz, fz)
    return fx, fy, fz, u


@template
def _runs(chunk, e, pairs, x, p, params, total, to, c, load, force, plain, evaluate):
    """The three runs of an entry, of which the second is `plain`; the energies of its lanes."""
    mine, zero = pairs.entries, simd.splat(total.dtype.type(0), 16)
    start, lj_end, plain_end = mine[chunk, e, START], mine[chunk, e, LJ_END], mine[chunk, e, PLAIN_END]
    own = zero, zero, zero, zero
    own = _run(chunk, pairs, start, lj_end, None, x, p, params, total, own, c, load, force, evaluate)
    own = _run(chunk, pairs, lj_end, plain_end, None, x, p, params, total, own, c, load, plain, evaluate)
    fx, fy, fz, u = _run(
        chunk,
        pairs,
        plain_end,
        mine[chunk, e, END],
        mine[chunk, e, MASK],
        x,
        p,
        params,
        total,
        own,
        c,
        load,
        force,
        evaluate,
    )
    _three(total, to, fx, fy, fz)
    return u


@template
def _forces(chunk, e, pairs, x, p, params, total, to, _out, c, load, force, plain):
    _runs(chunk, e, pairs, x, p, params, total, to, c, load, force, plain, _force)


@template
def _forces_and_energy(chunk, e, pairs, x, p, params, total, to, out, c, load, energy, plain):
    out[0] += simd.sum(_runs(chunk, e, pairs, x, p, params, total, to, c, load, energy, plain, _force_and_energy))


@template
def _forces_and_virial(chunk, e, pairs, x, p, params, total, to, out, c, load, energy, _plain):
    zero = simd.splat(total.dtype.type(0), 16)
    fx, fy, fz, u = zero, zero, zero, zero
    xx, yy, zz, xy, xz, yz = zero, zero, zero, zero, zero, zero
    pair, mask, xs, (begin, end, bounds) = pairs.pairs[chunk], pairs.masks[chunk], pairs.xs, _bounds(chunk, pairs, e)
    for k in range(begin, end):
        j, at, (dx, dy, dz, r2), inside = _pair(pair, mask, xs, k, bounds, x, c)
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
    _three(total, to, fx, fy, fz)
    add_row(out, u, xx, yy, zz, xy, xz, yz)


@template
def _gradients(chunk, e, pairs, x, p, params, total, to, _out, c, load, gradient, _plain):
    zero = simd.splat(total.dtype.type(0), 16)
    ga, gb, gc = zero, zero, zero
    pair, mask, xs, (begin, end, bounds) = pairs.pairs[chunk], pairs.masks[chunk], pairs.xs, _bounds(chunk, pairs, e)
    for k in range(begin, end):
        j, at, away, inside = _pair(pair, mask, xs, k, bounds, x, c)
        own, other = gradient(away[3], p, load(params, j, second), c)
        ga = ga + simd.select(inside, own[0], zero)
        gb = gb + simd.select(inside, own[1], zero)
        simd.store(total, at, simd.load(total, at, 16) + simd.select(inside, other[0], zero))
        simd.store(total, at + 16, simd.load(total, at + 16, 16) + simd.select(inside, other[1], zero))
        gc = gc + simd.select(inside, own[2], zero)
        simd.store(total, at + 32, simd.load(total, at + 32, 16) + simd.select(inside, other[2], zero))
    _three(total, to, ga, gb, gc)


@template
def _slopes(chunk, e, pairs, x, p, params, total, to, _out, c, load, potential, _plain):
    zero = simd.splat(total.dtype.type(0), 16)
    found = zero
    pair, mask, xs, (begin, end, bounds) = pairs.pairs[chunk], pairs.masks[chunk], pairs.xs, _bounds(chunk, pairs, e)
    for k in range(begin, end):
        j, at, away, inside = _pair(pair, mask, xs, k, bounds, x, c)
        q = load(params, j, second)
        phi = simd.select(inside, potential(away[3], p, q, c), zero)
        found = simd.fma(phi, q[0], found)
        simd.store(total, at, simd.fma(phi, p[0], simd.load(total, at, 16)))
    add_quarters(total, to, found)


@template
def force_loop(chunk, pairs, params, numbers, sums, blocks, rows, flags, constants, load, force, force_plain):
    """Forces of a chunk; `force_plain` is for pairs of clusters one of which has no Lennard-Jones parameters."""
    if not flags[ENERGY]:
        _visit(chunk, pairs, params, numbers, sums, blocks, rows, constants, load, _forces, force, force_plain)


@template
def force_energy_loop(chunk, pairs, params, numbers, sums, blocks, rows, flags, constants, load, energy, energy_plain):
    """Forces as `force_loop` sums them, bit for bit, and the energy, without the virial, into rows[chunk]."""
    if not flags[ENERGY]:
        rows[chunk, 0] = 0.0
        _visit(
            chunk, pairs, params, numbers, sums, blocks, rows, constants, load, _forces_and_energy, energy, energy_plain
        )


@template
def energy_loop(chunk, pairs, params, numbers, sums, blocks, rows, flags, constants, load, energy):
    """Forces, energy and virial of a chunk: rows[chunk] gets the energy and W_ab = sum f_a r_b."""
    if flags[ENERGY]:
        rows[chunk, :] = 0.0
        _visit(chunk, pairs, params, numbers, sums, blocks, rows, constants, load, _forces_and_virial, energy, energy)


@template
def gradient_loop(chunk, pairs, params, numbers, sums, blocks, rows, _flags, constants, load, gradient):
    """Derivatives of the energy by three parameters of each atom, in place of forces.

    gradient(r2, i, j, c) returns the derivatives by the parameters of the first atom, and those by the second's, as
    tuples.
    """
    _visit(chunk, pairs, params, numbers, sums, blocks, rows, constants, load, _gradients, gradient, gradient)


@template
def slope_loop(chunk, pairs, params, numbers, sums, blocks, rows, _flags, constants, load, potential):
    """Derivatives of the energy by the first parameter of each atom, in place of forces along x: sums of
    potential(r2, i, j, c) times that of the other atom.
    """
    _visit(chunk, pairs, params, numbers, sums, blocks, rows, constants, load, _slopes, potential, potential)


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
def sum_chunks(chunk, chunks, pairs, blocks, sorted_forces):
    """Add up the chunks' blocks of each cluster, in the order of the chunks, in float64."""
    clusters, zero, window, touched = pairs.state[CLUSTERS], simd.splat(0.0, 4), pairs.window, pairs.touched
    begin, end = chunk * clusters // chunks, (chunk + 1) * clusters // chunks
    for k in range(12 * begin, 12 * end, 4):
        simd.store(sorted_forces, k, zero)
    for c in range(chunks):
        n, low = pairs.n_touched[c], begin - window[c]
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

    def __init__(
        self,
        engine: Engine,
        neighbors: NeighborList,  # ``shared_list(engine, cutoff)``
        force: Any,
        energy: Any,  # kernels from the templates above
        values: np.ndarray,  # (n, p) parameters of each atom, in the order in which `load` reads them
        numbers: np.ndarray,  # that `constants` reads; the first is the square of the cut-off
        both: Any = None,
    ):  # of `force_energy_loop`: for `force` where an `EnergySplit` always needs energies
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
            args = part, params, self.numbers, wide, blocks, mine, engine.flags
            classes.append(engine.split.pair_class(part.kind) if engine.split is not None else 0)
            if classes[-1]:
                enhanced.append((classes[-1], mine))
                if both is None:
                    raise ValueError("pair plan: an energy split needs a kernel for forces and energies")
            pair_tasks += [
                Task(both if classes[-1] else force, *args, chunks=chunks),
                Task(energy, *args, chunks=chunks),
            ]
            sums.append(Task(sum_chunks, chunks, part, blocks, sorted_forces, chunks=chunks))
            adds.append(
                Task(
                    add_sorted,
                    engine.atom_starts,
                    neighbors.slots,
                    sorted_forces,
                    engine.forces,
                    chunks=engine.atom_chunks,
                )
            )
            self.parts.append((sorted_forces, mine))
        neighbors.after_sorting(sort)
        self.neighbors, self._arguments = neighbors, [t.args for t in pair_tasks[::2]]
        super().__init__(
            stages=[pair_tasks, sums],
            reduce=adds,
            rows=rows,
            before=neighbors.before,
            classes=classes,
            enhanced=enhanced,
        )

    def gradient_phases(self, gradient: Any) -> list[list[Task]]:
        """Tasks that set `gradient_sums` by a kernel of `gradient_loop` or `slope_loop`, in the forces' buffers."""
        chunks, phases = self.neighbors.chunks, []
        self._sums = [aligned_zeros(len(self.neighbors.atoms) * 3, np.float64) for _ in self._arguments]
        for part, arguments, total in zip(self.neighbors.lists, self._arguments, self._sums):
            phases.append([Task(gradient, *arguments, chunks=chunks)])
            phases.append([Task(sum_chunks, chunks, part, arguments[4], total, chunks=chunks)])
        return phases

    @property
    def gradient_sums(self) -> np.ndarray:
        """Derivatives by the first three parameters of each slot [slots, 3]."""
        return reduce(np.add, self._sums).reshape(-1, 3, 4).swapaxes(1, 2).reshape(-1, 3)
