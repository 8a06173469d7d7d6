"""Kernels of `EAM`: densities and pair forces, embedding, and forces through the densities; double precision.

A block of a table is eight numbers, one cache line: the cubic polynomials of the density that an atom of one element
makes at an atom of another, and of r times their pair energy. Eight neighbors take eight loads and a transposition.
Rows hold both directions of each pair, so that a chunk writes only to its own atoms.
"""

from __future__ import annotations

from collections import namedtuple
from typing import TYPE_CHECKING

import numpy as np

from triskele.core.extend import Task, kernel, simd, template

from ...engine.flags import ENERGY
from ...engine.plan import ROW, Plan, add_forces
from ...neighbors.rows import add_virial, describe, eight, even, odd, shared_rows, zipped
from ...neighbors.state import aligned_zeros

if TYPE_CHECKING:
    from ...engine.engine import Engine
    from .eam import EAM

__all__ = ["plan"]


@template
def _block(table, block, lane):
    return simd.load(table, 8 * np.int64(simd.extract(block, lane)), 8)


@template
def _blocks(table, block):
    """The eight numbers of a block, for eight blocks: vectors over the blocks."""
    a, b = zipped(_block(table, block, 0), _block(table, block, 1))
    c, d = zipped(_block(table, block, 2), _block(table, block, 3))
    e, f = zipped(_block(table, block, 4), _block(table, block, 5))
    g, h = zipped(_block(table, block, 6), _block(table, block, 7))
    a, b, c, d = even(a, c), even(b, d), odd(a, c), odd(b, d)
    e, f, g, h = even(e, g), even(f, h), odd(e, g), odd(f, h)
    return even(a, e), even(b, f), even(c, g), even(d, h), odd(a, e), odd(b, f), odd(c, g), odd(d, h)


@template
def _near(row, count, xs, i, limit, near, start):
    """Copy the entries of a row that are within the cut-off to `near` from `start` on; their number."""
    x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
    n = 0
    for k in range(0, count, 8):
        ex, ey, ez, _ = eight(xs, row, k)
        dx, dy, dz = ex - x, ey - y, ez - z
        bits = np.int64(simd.bits(dx * dx + dy * dy + dz * dz < limit))
        for m in range(8):
            simd.store_scalar(near, start + n, simd.load_scalar(row, k + m))
            n += bits >> m & 1
    return n


Splines = namedtuple("Splines", "per_r blocks elements table per_density embedding")
# what `densities` keeps for `embedding_forces`, without gaps, which memory is fast at: spans of each atom in `near`,
# the neighbors within the cut-off, and the derivatives by r, over r, of the density at the atom and (slopes[1], with
# several elements) at the neighbor
Kept = namedtuple("Kept", "spans near slopes")


@kernel(nogil=True)
def densities(chunk, chunks, n, flags, cutoff, splines, xs, kinds, counts, rows, kept, embedded, forces, sums):
    """Densities, pair forces, and embedding energies with their derivatives."""
    (per_r, blocks, elements, table, per_density, embedding), (spans, near, slopes) = splines, kept
    want, limit, last = flags[ENERGY] != 0, cutoff * cutoff, np.int32(blocks - 1)
    out = sums[chunk]
    out[:] = 0.0
    energy = simd.splat(0.0, 8)
    several = elements > 1
    into, outof = slopes[0], slopes[len(slopes) - 1]
    end = chunk * n // chunks * rows.shape[1]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        start = end
        count = _near(rows[i], counts[i], xs, i, limit, near, start)
        end = start + ((count + 7) & -8)
        spans[i, 0], spans[i, 1] = start, end
        for k in range(start + count, end):
            near[k] = i
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        fx, fy, fz = simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8)
        density = simd.splat(0.0, 8)
        kind = kinds[i]
        for k in range(start, end, 8):
            ex, ey, ez, _ = eight(xs, near, k)
            real = simd.iota(8) < np.int32(start + count - k)
            dx, dy, dz = ex - x, ey - y, ez - z
            square = simd.select(real, dx * dx + dy * dy + dz * dz, limit)
            inverse = simd.rsqrt_fast(square, 2)
            at = square * inverse * per_r
            block = simd.minimum(simd.convert(at, np.int32), last)
            p = at - simd.convert(block, np.float64)
            beyond = p
            p = simd.minimum(p, 1.0)
            beyond = beyond - p  # the table's end: straight on
            scale = simd.select(real, inverse * per_r, 0.0)
            if several:
                other = simd.gather(kinds, simd.load(near, k, 8)) * np.int32(blocks)
                there = block + other + np.int32(elements * blocks) * kind  # of this element at others
                block = block + other * np.int32(elements) + kind * np.int32(blocks)
                a, b, c, d, _, _, _, _ = _blocks(table, there)
                simd.store(outof, k, ((3.0 * a * p + 2.0 * b) * p + c) * scale)
            a, b, c, d, s, t, u, v = _blocks(table, block)
            slope = (3.0 * a * p + 2.0 * b) * p + c
            simd.store(into, k, slope * scale)
            density = density + simd.select(real, ((a * p + b) * p + c) * p + d + slope * beyond, 0.0)
            inverse = simd.select(real, inverse, 0.0)
            slope = (3.0 * s * p + 2.0 * t) * p + u
            pair = (((s * p + t) * p + u) * p + v + slope * beyond) * inverse
            f = slope * scale * inverse - pair * inverse * inverse
            fx, fy, fz = fx + f * dx, fy + f * dy, fz + f * dz
            if want:
                energy = energy + 0.5 * pair
                add_virial(out, f, dx, dy, dz)
        forces[i, 0], forces[i, 1], forces[i, 2] = simd.sum(fx), simd.sum(fy), simd.sum(fz)
        at_density = simd.sum(density) * per_density
        m = min(max(np.int64(at_density), 0), embedding.shape[1] - 1)
        q = min(at_density - m, 1.0)
        s, t, u, v = embedding[kind, m, 0], embedding[kind, m, 1], embedding[kind, m, 2], embedding[kind, m, 3]
        by = (3.0 * s * q + 2.0 * t) * q + u
        embedded[i] = by * per_density
        if want:
            out[0] += ((s * q + t) * q + u) * q + v + by * (at_density - m - q)
    out[0] += simd.sum(energy)


@kernel(nogil=True)
def spread(chunk, chunks, sizes, first, embedded, xs):
    """Give every entry the derivative of its atom's embedding energy, in the fourth word."""
    for k in range(chunk * sizes[0] // chunks, (chunk + 1) * sizes[0] // chunks):
        xs[4 * k + 3] = embedded[first[k]]


@kernel(nogil=True)
def embedding_forces(chunk, chunks, n, flags, xs, atoms, kept, forces, by_atom, sums):
    """Forces through the densities; by_atom gets all forces in the order of the atoms."""
    (spans, near, slopes), want, out = kept, flags[ENERGY] != 0, sums[chunk]
    into, outof = slopes[0], slopes[len(slopes) - 1]
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        x, y, z = simd.splat(xs[4 * i], 8), simd.splat(xs[4 * i + 1], 8), simd.splat(xs[4 * i + 2], 8)
        own = simd.splat(xs[4 * i + 3], 8)
        fx, fy, fz = simd.splat(0.0, 8), simd.splat(0.0, 8), simd.splat(0.0, 8)
        for k in range(spans[i, 0], spans[i, 1], 8):
            ex, ey, ez, other = eight(xs, near, k)
            dx, dy, dz = ex - x, ey - y, ez - z
            f = own * simd.load(into, k, 8) + other * simd.load(outof, k, 8)
            fx, fy, fz = fx + f * dx, fy + f * dy, fz + f * dz
            if want:
                add_virial(out, f, dx, dy, dz)
        atom = atoms[i]
        by_atom[atom, 0] = forces[i, 0] + simd.sum(fx)
        by_atom[atom, 1] = forces[i, 1] + simd.sum(fy)
        by_atom[atom, 2] = forces[i, 2] + simd.sum(fz)


def plan(potential: EAM, engine: Engine) -> Plan:
    """The tasks of an EAM potential."""
    rows, n, elements = shared_rows(engine, potential.cutoff), engine.n, len(potential.elements)
    density, pair, embedding = potential.splines()
    table = aligned_zeros((elements, elements, *pair.shape[2:-1], 8), np.float64)
    table[..., :4], table[..., 4:] = density, pair
    splines = Splines(
        1 / potential.dr,
        table.shape[2],
        elements,
        table.reshape(-1),
        1 / potential.drho,
        np.ascontiguousarray(embedding),
    )
    types, kinds = potential.types, np.zeros(len(rows.atoms) + 1, np.int32)
    home, first = np.zeros(n, np.int32), np.zeros(len(rows.atoms), np.int32)
    kept = Kept(
        np.zeros((n, 2), np.int64),
        np.zeros(rows.rows.size + 8, np.int32),
        aligned_zeros((min(elements, 2), rows.rows.size), np.float64),
    )
    embedded, forces, by_atom = np.zeros(n), np.zeros((n, 3)), np.zeros((n, 3))
    chunks, sums = rows.chunks, np.zeros((rows.chunks, ROW))
    rows.after_sorting(Task(describe, n, rows.sizes, types, rows.atoms, kinds, home, first))
    own = chunks, n
    return Plan(
        stages=[
            [
                Task(
                    densities,
                    *own,
                    engine.flags,
                    potential.cutoff,
                    splines,
                    rows.xs,
                    kinds,
                    rows.counts,
                    rows.rows,
                    kept,
                    embedded,
                    forces,
                    sums,
                    chunks=chunks,
                )
            ],
            [Task(spread, chunks, rows.sizes, first, embedded, rows.xs, chunks=chunks)],
            [
                Task(
                    embedding_forces,
                    *own,
                    engine.flags,
                    rows.xs,
                    rows.atoms,
                    kept,
                    forces,
                    by_atom,
                    sums,
                    chunks=chunks,
                )
            ],
        ],
        reduce=[Task(add_forces, engine.atom_starts, by_atom, engine.forces, chunks=engine.atom_chunks)],
        rows=sums,
        before=rows.before,
    )
