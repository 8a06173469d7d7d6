"""The half list of cluster pairs: search, pruning, and the check of how far atoms have gone.

A pair of clusters in one image is listed once: the image vector's first nonzero count is negative, or, in the home
image, the second cluster does not come before the first. Chunk c owns the clusters from c*clusters/chunks on, its own
stretch of the list, and the buffer its forces go to.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, give_slot, kernel, simd, take_slot, template

from ..engine.flags import REBUILD, STATUS, STATUS_INFO
from .lanes import second, shifted
from .state import (
    AGE,
    BUILDS,
    CLUSTERS,
    COLUMN,
    COLUMNS_X,
    COLUMNS_Y,
    CUTOFF,
    EARLY,
    END,
    EVERY,
    FULL_ENTRIES,
    FULL_MASKS,
    FULL_PAIRS,
    FULL_SCRATCH,
    FULL_TOUCHED,
    INNER,
    LJ_END,
    LOW,
    MASK,
    OUTER,
    OVERFLOW,
    PLAIN_END,
    PRUNE_EVERY,
    SHIFT,
    SMALL_BOX,
    START,
    STEP_TIME,
    WIDE,
    I,
)

__all__ = ["clock", "finish", "prune", "refresh", "search"]

_ALL_PAIRS = 0xFFFF
# rows of the scratch memory of a chunk: second clusters of an entry, those without Lennard-Jones parameters, those with
# masks, and clusters that have exclusions with the first one
_NEAR, _PLAIN, _MASKED, _MASKED_MASK, _HIT, _HIT_MASK = range(6)
_ROUNDING = 1.2e-7  # relative, of float32


@kernel(nogil=True)
def clock(chunk, need, prune, first_word, last_word, flags, box, periodic, images, shifts, geometry, state):
    """Decide at the beginning of a force evaluation whether to build or prune; compute the image vectors."""
    if flags[REBUILD]:
        flags[REBUILD] = 0
        for word in range(first_word, last_word, 2):
            flags[word] = 1
    state[AGE] += 1
    if geometry[EVERY] > 0.0 and state[AGE] >= geometry[EVERY]:
        flags[need] = 1
    if geometry[PRUNE_EVERY] > 0.0 and state[AGE] % np.int64(geometry[PRUNE_EVERY]) == 0:
        flags[prune] = 1
    if periodic:
        for s in range(images.shape[0]):
            for a in range(3):
                v = images[s, 0] * box[0, a] + images[s, 1] * box[1, a] + images[s, 2] * box[2, a]
                shifts[3 * s + a] = v
        if min(box[0, 0], min(box[1, 1], box[2, 2])) < 2.0 * geometry[CUTOFF]:
            flags[STATUS] = SMALL_BOX


@kernel(nogil=True)
def refresh(chunk, chunks, need, flags, positions, box, periodic, geometry, clusters):
    """Sorted coordinates from positions; asks for a new list when an atom has gone farther than the list allows."""
    if flags[need]:
        return
    state, atoms, turns, xs, built_xs = clusters.state, clusters.atoms, clusters.turns, clusters.xs, clusters.built_xs
    real = xs.dtype.type
    half = 0.5 * (geometry[OUTER] - geometry[CUTOFF])
    # with a schedule the buffers allow for thermal motion: seven standard deviations of free flight
    time = state[AGE] * geometry[STEP_TIME]
    allowed, per_thermal = simd.splat(real(half * half), 4), real(time * time)
    ax, bx, by, cx, cy, cz = box[0, 0], box[1, 0], box[1, 1], box[2, 0], box[2, 1], box[2, 2]
    near = simd.splat(True, 4)
    for i in range(chunk * state[CLUSTERS] // chunks, (chunk + 1) * state[CLUSTERS] // chunks):
        atom = simd.load(atoms, 4 * i, 4)
        there, at = atom >= np.int32(0), simd.maximum(atom, np.int32(0)) * np.int32(3)
        x, y, z = (
            simd.gather(positions, at),
            simd.gather(positions, at + np.int32(1)),
            simd.gather(positions, at + np.int32(2)),
        )
        if periodic:
            a = simd.convert(simd.load(turns, 12 * i, 4), np.float64)
            b = simd.convert(simd.load(turns, 12 * i + 4, 4), np.float64)
            c = simd.convert(simd.load(turns, 12 * i + 8, 4), np.float64)
            x, y, z = x - (a * ax + b * bx + c * cx), y - (b * by + c * cy), z - c * cz
        px, py, pz = simd.convert(x, real), simd.convert(y, real), simd.convert(z, real)
        dx = px - simd.load(built_xs, 16 * i, 4)
        dy = py - simd.load(built_xs, 16 * i + 4, 4)
        dz = pz - simd.load(built_xs, 16 * i + 8, 4)
        limit = simd.maximum(allowed, per_thermal * simd.load(built_xs, 16 * i + 12, 4))
        near = near & ((dx * dx + dy * dy + dz * dz <= limit) | ~there)
        simd.store_masked(xs, 16 * i, px, there)
        simd.store_masked(xs, 16 * i + 4, py, there)
        simd.store_masked(xs, 16 * i + 8, pz, there)
    if not simd.all(near):
        flags[need] = 1


@device
def _mark(slots, atoms, excluded_start, excluded, i, mark, marked, masks):
    """Note for each cluster that has exclusions with cluster i which of the sixteen pairs are left; their number."""
    n = 0
    for a in range(4):
        atom = atoms[4 * i + a]
        if atom < 0:
            continue
        for k in range(excluded_start[atom], excluded_start[atom + 1]):
            slot = slots[excluded[k]]
            j = slot >> 2
            if mark[j] == 0:
                if n == marked.shape[0]:
                    return -1
                marked[n], masks[n] = j, _ALL_PAIRS
                n += 1
                mark[j] = n
            masks[mark[j] - 1] &= ~(1 << (4 * a + (slot & 3)))
    return n


@device
def _find_window(chunk, clusters, mine, n_mine, found, mark, outer):
    """List the clusters whose forces a chunk touches, its own and the partners; their number, -1 if they are too many.

    Buffers hold the stretch that starts after the longest gap, counted around the periodic row of clusters. Partners
    and touched clusters are numbered from its start on.
    """
    pair, touched = outer.pairs[chunk], outer.touched
    n_pairs = mine[n_mine - 1, END] if n_mine else 0
    for e in range(n_mine):
        mark[mine[e, I]] = 1
    for k in range(n_pairs):
        mark[found[k]] = 1
    gap, longest, origin = 0, -1, 0
    for k in range(2 * clusters):
        j = k if k < clusters else k - clusters
        if mark[j]:
            if gap > longest:
                longest, origin = gap, j
            gap = 0
        else:
            gap += 1
    outer.window[chunk] = origin
    n = 0
    for k in range(clusters):
        j = origin + k
        j = j if j < clusters else j - clusters
        if mark[j]:
            if k >= touched.shape[1]:  # as many as a buffer holds
                return -1
            touched[chunk, n] = k
            n += 1
    for k in range(n_pairs):
        at = found[k] - origin
        pair[k] = at + clusters * (at < 0)
    return n


@device
def _images_in_reach(begin, end, shifts, n_images, low, high, geometry, reach, found):
    """Images in which clusters from begin to end - 1 may meet the brick that repeats; their number."""
    n = 0
    bounds = (np.inf, np.inf, np.inf), (-np.inf, -np.inf, -np.inf)
    for i in range(begin, end):
        bounds = (
            (min(bounds[0][0], low[0, i]), min(bounds[0][1], low[1, i]), min(bounds[0][2], low[2, i])),
            (max(bounds[1][0], high[0, i]), max(bounds[1][1], high[1, i]), max(bounds[1][2], high[2, i])),
        )
    for s in range(n_images):
        meets = True
        for a in range(3):
            edge, shift = geometry[LOW + a], shifts[3 * s + a]
            meets &= bounds[0][a] + shift - reach <= edge + geometry[WIDE + a] and bounds[1][a] + shift + reach >= edge
        found[n] = s
        n += meets
    return n


@device
def _reached(low_z, high_z, begin, end, bottom, ceiling):
    """The clusters of a column, sorted by z, of which none is wholly below the bottom or above the ceiling."""
    real = low_z.dtype.type
    bottom = simd.splat(real(bottom - _ROUNDING * abs(bottom)), 16)
    ceiling = simd.splat(real(ceiling + _ROUNDING * abs(ceiling)), 16)
    below, up_to = 0, 0
    for k in range(begin, end, 16):
        there = simd.iota(16) < np.int32(end - k)
        below += simd.popcount(np.int64(simd.bits(there & (simd.load(high_z, k, 16) < bottom))))
        up_to += simd.popcount(np.int64(simd.bits(there & (simd.load(low_z, k, 16) <= ceiling))))
    return begin + below, begin + up_to


@template
def _grown(low, high, i, shifts, s, reach):
    """Corners of a cluster's bounding box, shifted by a vector of the lattice and grown by the reach."""
    x, y, z = shifts[3 * s], shifts[3 * s + 1], shifts[3 * s + 2]
    return (
        (low[0, i] + x - reach, low[1, i] + y - reach, low[2, i] + z - reach),
        (high[0, i] + x + reach, high[1, i] + y + reach, high[2, i] + z + reach),
    )


@template
def _meets(low, high, geometry):
    """Return True if a box meets the brick that holds the sorted atoms."""
    return not (
        low[0] > geometry[LOW] + geometry[WIDE]
        or low[1] > geometry[LOW + 1] + geometry[WIDE + 1]
        or low[2] > geometry[LOW + 2] + geometry[WIDE + 2]
        or high[0] < geometry[LOW]
        or high[1] < geometry[LOW + 1]
        or high[2] < geometry[LOW + 2]
    )


@template
def _candidates(i, home, own_x, group, n_groups, low, high, reach, geometry, state, start, bottoms, tops, near):
    """List the clusters of a group in reach of a grown box, by columns and heights; their number, -1 if too many.

    In the home image only those from cluster i on, which stands in a column of `own_x`.
    """
    n_x, n_y, n = state[COLUMNS_X], state[COLUMNS_Y], 0
    reach2 = (geometry[OUTER] + 2.0e-6) ** 2
    x0 = max(0, int(np.floor((low[0] - geometry[LOW]) / geometry[COLUMN])))
    x1 = min(n_x - 1, int(np.floor((high[0] - geometry[LOW]) / geometry[COLUMN])))
    y0 = max(0, int(np.floor((low[1] - geometry[LOW + 1]) / geometry[COLUMN + 1])))
    y1 = min(n_y - 1, int(np.floor((high[1] - geometry[LOW + 1]) / geometry[COLUMN + 1])))
    for column_x in range(max(x0, own_x) if home else x0, x1 + 1):
        edge = geometry[LOW] + column_x * geometry[COLUMN]
        dx = max(0.0, max(low[0] + reach - edge - geometry[COLUMN], edge - (high[0] - reach)))
        for column_y in range(y0, y1 + 1):
            edge = geometry[LOW + 1] + column_y * geometry[COLUMN + 1]
            dy = max(0.0, max(low[1] + reach - edge - geometry[COLUMN + 1], edge - (high[1] - reach)))
            if dx * dx + dy * dy >= reach2:
                continue
            key = (column_x * n_y + column_y) * n_groups + group
            height = np.sqrt(reach2 - dx * dx - dy * dy) - reach
            lowest, last = _reached(bottoms, tops, start[key], start[key + 1], low[2] - height, high[2] + height)
            if home:
                lowest = max(lowest, i)
            if n + last - lowest + 16 > near.shape[0]:
                return -1
            for j in range(lowest, last, 16):  # mostly once
                simd.store(near, n + j - lowest, simd.iota(16) + np.int32(j))
            n += max(last - lowest, 0)
    return n


@template
def _keep_near(i, shifts, s, xs, limit2, near, n):
    """Keep those of the n clusters in `near` that have a pair of atoms within the limit; their number."""
    kept = 0
    x, y, z = shifted(xs, i, shifts, s)
    for k in range(n):
        j = np.int64(simd.load_scalar(near, k))
        ux = x - second(xs, 16 * j)
        uy = y - second(xs, 16 * j + 4)
        uz = z - second(xs, 16 * j + 8)
        r2 = simd.fma(ux, ux, simd.fma(uy, uy, uz * uz))
        near[kept] = j
        kept += simd.any(r2 < limit2)  # no branch: whether a cluster is near is hard to foresee
    return kept


@template
def _lacking(mine, pair, mask, n_mine, n_pairs, n_masks, n_near, n_hit):
    """Return the flag of the array that is too short for one more entry, or 0."""
    if n_mine == mine.shape[0]:
        return FULL_ENTRIES
    if n_pairs + n_near > pair.shape[0]:
        return FULL_PAIRS
    return FULL_MASKS if n_masks + n_hit + 1 > mask.shape[0] else 0


@template
def _add_entry(i, s, n_near, lj, mark, rows, mine, pair, mask, n_mine, n_pairs, n_masks):
    """Sort the near clusters into the runs of an entry; the numbers of entries, pairs and masks with it."""
    begin, n_plain, n_masked = n_pairs, 0, 0
    for k in range(n_near):
        j = np.int64(rows[_NEAR, k])
        bits = _ALL_PAIRS
        if mark[j] > 0:
            bits = np.int64(rows[_HIT_MASK, mark[j] - 1])
        if s == 0 and j == i:
            bits &= 0x08CE  # each pair within the cluster once
        if bits != _ALL_PAIRS:
            rows[_MASKED, n_masked], rows[_MASKED_MASK, n_masked] = j, bits
            n_masked += bits != 0
        else:
            pair[n_pairs], rows[_PLAIN, n_plain] = j, j
            both = lj[i] & lj[j]
            n_pairs += both
            n_plain += 1 - both
    if n_pairs + n_plain + n_masked > begin:
        mine[n_mine, I], mine[n_mine, SHIFT], mine[n_mine, START], mine[n_mine, LJ_END] = i, s, begin, n_pairs
        for k in range(n_plain):
            pair[n_pairs + k] = rows[_PLAIN, k]
        n_pairs += n_plain
        mine[n_mine, PLAIN_END], mine[n_mine, MASK] = n_pairs, n_masks
        for k in range(n_masked):
            pair[n_pairs + k], mask[n_masks + k] = rows[_MASKED, k], rows[_MASKED_MASK, k]
        n_pairs += n_masked
        n_masks += n_masked
        mine[n_mine, END] = n_pairs
        n_mine += 1
    return n_mine, n_pairs, n_masks


@kernel(nogil=True)
def search(
    chunk,
    chunks,
    n_groups,
    groups,
    flags,
    images,
    geometry,
    clusters,
    excluded_start,
    excluded,
    marks,
    unplaced,
    scratch,
    outer,
):
    """Build the outer list of this chunk's clusters, and the list of clusters that its forces touch."""
    state, start, atoms, xs, lj = clusters.state, clusters.start, clusters.atoms, clusters.xs, clusters.lj
    n, kind, shifts, slots = state[CLUSTERS], outer.kind, outer.shifts, clusters.slots
    lows, highs, bottoms, tops = clusters.low, clusters.high, clusters.low[2], clusters.high[2]
    # a margin for the rounding of bounding boxes to xs' precision
    reach, limit2 = geometry[OUTER] * (1.0 + 1.0e-6) + 1.0e-6, xs.dtype.type(geometry[OUTER] * geometry[OUTER])
    slot = take_slot(marks)
    mark, pair, rows, mine, mask = marks[slot], unplaced[slot], scratch[chunk], outer.entries[chunk], outer.masks[chunk]
    near, hit, hit_mask = rows[_NEAR], rows[_HIT], rows[_HIT_MASK]
    mark[:n] = 0
    begin, end = chunk * n // chunks, (chunk + 1) * n // chunks
    n_mine, n_pairs, n_masks, full, own_x = 0, 0, 0, 0, 0
    in_reach = np.empty(images.shape[0] + 1, np.int64)
    n_images = _images_in_reach(begin, end, shifts, images.shape[0], lows, highs, geometry, reach, in_reach)
    for i in range(begin, end):
        group_i = np.int64(groups[atoms[4 * i]]) if n_groups > 1 else 0
        group_j = kind - group_i if kind >= 0 else 0
        if group_j < 0 or group_j > 1:
            continue
        n_hit = _mark(slots, atoms, excluded_start, excluded, i, mark, hit, hit_mask)
        if n_hit < 0:
            full = FULL_SCRATCH
            break
        while start[(own_x + 1) * state[COLUMNS_Y] * n_groups] <= i:  # columns of smaller x come before
            own_x += 1
        for image in range(n_images):
            s = in_reach[image]
            low, high = _grown(lows, highs, i, shifts, s, reach)
            if not _meets(low, high, geometry):
                continue
            n_close = _candidates(
                i, s == 0, own_x, group_j, n_groups, low, high, reach, geometry, state, start, bottoms, tops, near
            )
            if n_close < 0:
                full = FULL_SCRATCH
                break
            n_near = _keep_near(i, shifts, s, xs, limit2, near, n_close)
            full = _lacking(mine, pair, mask, n_mine, n_pairs, n_masks, n_near, n_hit)
            if full:
                break
            n_mine, n_pairs, n_masks = _add_entry(
                i, s, n_near, lj, mark, rows, mine, pair, mask, n_mine, n_pairs, n_masks
            )
        for k in range(n_hit):
            mark[hit[k]] = 0
        if full:
            break
    n_touched = 0 if full else _find_window(chunk, n, mine, n_mine, pair, mark, outer)
    give_slot(marks, slot)
    if full or n_touched < 0:
        flags[STATUS], flags[STATUS_INFO] = OVERFLOW, full if full else FULL_TOUCHED
        n_mine = n_touched = 0
    outer.n_entries[chunk], outer.n_touched[chunk] = n_mine, n_touched


@device(forceinline=True)
def _is_near(ix, iy, iz, xs, j, clusters, limit2):
    """Return True if an atom of cluster j, counted around the row, is within the limit."""
    j -= clusters * (j >= clusters)
    ux = ix - second(xs, 16 * j)
    uy = iy - second(xs, 16 * j + 4)
    uz = iz - second(xs, 16 * j + 8)
    return simd.any(simd.fma(ux, ux, simd.fma(uy, uy, uz * uz)) < limit2)


@kernel(nogil=True)
def prune(chunk, geometry, outer, inner):
    """The inner list: those cluster pairs of the outer list that have a pair of atoms within the inner radius."""
    xs, shifts = outer.xs, outer.shifts
    real, clusters, origin = xs.dtype.type, outer.state[CLUSTERS], outer.window[chunk]
    limit2 = real(geometry[INNER] * geometry[INNER])
    mine, pair, mask = outer.entries[chunk], outer.pairs[chunk], outer.masks[chunk]
    to, to_pair, to_mask = inner.entries[chunk], inner.pairs[chunk], inner.masks[chunk]
    n, n_masks, n_to = 0, 0, 0
    for e in range(outer.n_entries[chunk]):
        i, s = mine[e, I], mine[e, SHIFT]
        ix, iy, iz = shifted(xs, i, shifts, s)
        begin = n
        to[n_to, START], to[n_to, MASK] = n, n_masks
        for run in range(LJ_END, END):
            for k in range(mine[e, run - 1], mine[e, run]):
                at = np.int64(simd.load_scalar(pair, k))
                to_pair[n] = at
                n += _is_near(ix, iy, iz, xs, at + origin, clusters, limit2)
            to[n_to, run] = n
        for k in range(mine[e, PLAIN_END], mine[e, END]):
            at = np.int64(simd.load_scalar(pair, k))
            to_pair[n], to_mask[n_masks] = at, mask[mine[e, MASK] + k - mine[e, PLAIN_END]]
            near = _is_near(ix, iy, iz, xs, at + origin, clusters, limit2)
            n += near
            n_masks += near
        to[n_to, END] = n
        if n > begin:
            to[n_to, I], to[n_to, SHIFT] = i, s
            n_to += 1
    inner.n_entries[chunk] = n_to


@kernel(nogil=True)
def finish(chunk, need, prune, flags, geometry, state):
    """Count the build, and clear the list's flags."""
    if flags[need]:
        if state[BUILDS] > 0 and 0 < state[AGE] < geometry[EVERY]:
            state[EARLY] += 1
        state[BUILDS] += 1
        state[AGE] = 0
    flags[need] = flags[prune] = 0
