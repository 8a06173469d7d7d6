"""The half list of cluster pairs: search, pruning, and the check of how far atoms have gone.

A pair of clusters in one image is listed once: the image vector's first nonzero count is negative, or, in the home
image, the second cluster does not come before the first. Chunk c owns the clusters from c*clusters/chunks on, its own
stretch of the list, and the buffer its forces go to.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, give_slot, kernel, simd, take_slot

from ..engine.flags import REBUILD, STATUS, STATUS_INFO
from .lanes import first, second
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
def refresh(chunk, chunks, need, flags, positions, box, periodic, atoms, turns, geometry, state, xs, built_xs):
    """Sorted coordinates from positions; asks for a new list when an atom has gone farther than the list allows."""
    if flags[need]:
        return
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
        x, y, z = simd.gather(positions,
                              at), simd.gather(positions, at + np.int32(1)), simd.gather(positions, at + np.int32(2))
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
def _mark(clusters, slots, atoms, excluded_start, excluded, i, mark, marked, masks):
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
def _find_window(chunk, clusters, mine, n_mine, found, mark, pair, touched, window):
    """List the clusters whose forces a chunk touches, its own and the partners; their number, -1 if they are too many.

    Buffers hold the stretch that starts after the longest gap, counted around the periodic row of clusters. Partners
    and touched clusters are numbered from its start on.
    """
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
    window[chunk] = origin
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
        bounds = ((min(bounds[0][0], low[0, i]), min(bounds[0][1], low[1, i]), min(bounds[0][2], low[2, i])),
                  (max(bounds[1][0], high[0, i]), max(bounds[1][1], high[1, i]), max(bounds[1][2], high[2, i])))
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


@kernel(nogil=True)
def search(chunk, chunks, kind, n_groups, groups, flags, images, shifts, geometry, state, cluster_start, atoms, slots,
           xs, low, high, lj, excluded_start, excluded, marks, unplaced, scratch, entries, n_entries, pairs, masks,
           touched, n_touched, window):
    """Build the outer list of this chunk's clusters, and the list of clusters that its forces touch.

    kind is -1 for all pairs, else the number of clusters of group 1 in the pair: 0, 1 or 2.
    """
    clusters, n_x, n_y = state[CLUSTERS], state[COLUMNS_X], state[COLUMNS_Y]
    real = xs.dtype.type
    outer = geometry[OUTER]
    # a margin for the rounding of bounding boxes to xs' precision
    reach, reach2, limit2 = outer * (1.0 + 1.0e-6) + 1.0e-6, (outer + 2.0e-6) ** 2, real(outer * outer)
    slot = take_slot(marks)
    mark, mine, pair, mask = marks[slot], entries[chunk], unplaced[slot], masks[chunk]
    near, plain, masked, masked_mask = scratch[chunk, 0], scratch[chunk, 1], scratch[chunk, 2], scratch[chunk, 3]
    hit, hit_mask = scratch[chunk, 4], scratch[chunk, 5]
    mark[:clusters] = 0
    home_low, home_high = chunk * clusters // chunks, (chunk + 1) * clusters // chunks
    n_pairs, n_masks, n_mine, full, own_x = 0, 0, 0, 0, 0
    in_reach = np.empty(images.shape[0] + 1, np.int64)
    n_images = _images_in_reach(home_low, home_high, shifts, images.shape[0], low, high, geometry, reach, in_reach)
    for i in range(home_low, home_high):
        group_i = np.int64(groups[atoms[4 * i]]) if n_groups > 1 else 0
        group_j = kind - group_i if kind >= 0 else 0
        if group_j < 0 or group_j > 1:
            continue
        n_hit = _mark(clusters, slots, atoms, excluded_start, excluded, i, mark, hit, hit_mask)
        if n_hit < 0:
            full = FULL_SCRATCH
            break
        ix, iy, iz = first(xs, 16 * i), first(xs, 16 * i + 4), first(xs, 16 * i + 8)
        while cluster_start[(own_x + 1) * n_y * n_groups] <= i:  # columns of smaller x come before
            own_x += 1
        for image in range(n_images):
            s = in_reach[image]
            sx, sy, sz = shifts[3 * s], shifts[3 * s + 1], shifts[3 * s + 2]
            low_x, low_y, low_z = low[0, i] + sx - reach, low[1, i] + sy - reach, low[2, i] + sz - reach
            high_x, high_y, high_z = high[0, i] + sx + reach, high[1, i] + sy + reach, high[2, i] + sz + reach
            if (
                low_x > geometry[LOW] + geometry[WIDE]
                or low_y > geometry[LOW + 1] + geometry[WIDE + 1]
                or low_z > geometry[LOW + 2] + geometry[WIDE + 2]
                or high_x < geometry[LOW]
                or high_y < geometry[LOW + 1]
                or high_z < geometry[LOW + 2]
            ):
                continue
            x0 = max(0, int(np.floor((low_x - geometry[LOW]) / geometry[COLUMN])))
            x1 = min(n_x - 1, int(np.floor((high_x - geometry[LOW]) / geometry[COLUMN])))
            y0 = max(0, int(np.floor((low_y - geometry[LOW + 1]) / geometry[COLUMN + 1])))
            y1 = min(n_y - 1, int(np.floor((high_y - geometry[LOW + 1]) / geometry[COLUMN + 1])))
            jx, jy, jz = ix + real(sx), iy + real(sy), iz + real(sz)
            n_close = 0
            for column_x in range(max(x0, own_x) if s == 0 else x0, x1 + 1):
                edge = geometry[LOW] + column_x * geometry[COLUMN]
                dx = max(0.0, max(low_x + reach - edge - geometry[COLUMN], edge - (high_x - reach)))
                for column_y in range(y0, y1 + 1):
                    edge = geometry[LOW + 1] + column_y * geometry[COLUMN + 1]
                    dy = max(0.0, max(low_y + reach - edge - geometry[COLUMN + 1], edge - (high_y - reach)))
                    if dx * dx + dy * dy >= reach2:
                        continue
                    for group in range(n_groups):
                        if kind >= 0 and group != group_j:
                            continue
                        key = (column_x * n_y + column_y) * n_groups + group
                        height = np.sqrt(reach2 - dx * dx - dy * dy) - reach
                        lowest, last = _reached(low[2], high[2], cluster_start[key], cluster_start[key + 1],
                                                low_z - height, high_z + height)
                        if s == 0:
                            lowest = max(lowest, i)
                        if n_close + last - lowest + 16 > near.shape[0]:
                            full = FULL_SCRATCH
                            break
                        for j in range(lowest, last, 16):  # mostly once
                            simd.store(near, n_close + j - lowest, simd.iota(16) + np.int32(j))
                        n_close += max(last - lowest, 0)
                    if full:
                        break
                if full:
                    break
            n_near = 0
            for k in range(n_close):
                j = np.int64(simd.load_scalar(near, k))
                ux = jx - second(xs, 16 * j)
                uy = jy - second(xs, 16 * j + 4)
                uz = jz - second(xs, 16 * j + 8)
                r2 = simd.fma(ux, ux, simd.fma(uy, uy, uz * uz))
                near[n_near] = j
                n_near += simd.any(r2 < limit2)  # no branch: whether a cluster is near is hard to foresee
            if not full and n_mine == mine.shape[0]:
                full = FULL_ENTRIES
            if not full and n_pairs + n_near > pair.shape[0]:
                full = FULL_PAIRS
            if full:
                break
            if n_masks + n_hit + 1 > mask.shape[0]:
                full = FULL_MASKS
                break
            begin, n_plain, n_masked = n_pairs, 0, 0
            for k in range(n_near):
                j = np.int64(near[k])
                bits = _ALL_PAIRS
                if mark[j] > 0:
                    bits = np.int64(hit_mask[mark[j] - 1])
                if s == 0 and j == i:
                    bits &= 0x08CE  # each pair within the cluster once
                if bits != _ALL_PAIRS:
                    masked[n_masked], masked_mask[n_masked] = j, bits
                    n_masked += bits != 0
                else:
                    pair[n_pairs], plain[n_plain] = j, j
                    both = lj[i] & lj[j]
                    n_pairs += both
                    n_plain += 1 - both
            if n_pairs + n_plain + n_masked > begin:
                entry = mine[n_mine]
                entry[I], entry[SHIFT], entry[START], entry[LJ_END] = i, s, begin, n_pairs
                for k in range(n_plain):
                    pair[n_pairs + k] = plain[k]
                n_pairs += n_plain
                entry[PLAIN_END], entry[MASK] = n_pairs, n_masks
                for k in range(n_masked):
                    pair[n_pairs + k], mask[n_masks + k] = masked[k], masked_mask[k]
                n_pairs += n_masked
                n_masks += n_masked
                entry[END] = n_pairs
                n_mine += 1
        for k in range(n_hit):
            mark[hit[k]] = 0
        if full:
            break
    n = 0
    if not full:
        n = _find_window(chunk, clusters, mine, n_mine, pair, mark, pairs[chunk], touched, window)
    give_slot(marks, slot)
    if full or n < 0:
        flags[STATUS], flags[STATUS_INFO] = OVERFLOW, full if full else FULL_TOUCHED
        n_mine = n = 0
    n_entries[chunk], n_touched[chunk] = n_mine, n


@device(forceinline=True)
def _is_near(ix, iy, iz, xs, j, clusters, limit2):
    """Return True if an atom of cluster j, counted around the row, is within the limit."""
    j -= clusters * (j >= clusters)
    ux = ix - second(xs, 16 * j)
    uy = iy - second(xs, 16 * j + 4)
    uz = iz - second(xs, 16 * j + 8)
    return simd.any(simd.fma(ux, ux, simd.fma(uy, uy, uz * uz)) < limit2)


@kernel(nogil=True)
def prune(chunk, geometry, state, shifts, xs, window, entries, n_entries, pairs, masks, kept, n_kept, kept_pairs,
          kept_masks):
    """The inner list: those cluster pairs of the outer list that have a pair of atoms within the inner radius."""
    real, clusters, origin = xs.dtype.type, state[CLUSTERS], window[chunk]
    limit2 = real(geometry[INNER] * geometry[INNER])
    mine, pair, mask = entries[chunk], pairs[chunk], masks[chunk]
    to, to_pair, to_mask = kept[chunk], kept_pairs[chunk], kept_masks[chunk]
    n, n_masks, n_to = 0, 0, 0
    for e in range(n_entries[chunk]):
        i, s = mine[e, I], mine[e, SHIFT]
        ix = first(xs, 16 * i) + real(shifts[3 * s])
        iy = first(xs, 16 * i + 4) + real(shifts[3 * s + 1])
        iz = first(xs, 16 * i + 8) + real(shifts[3 * s + 2])
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
    n_kept[chunk] = n_to


@kernel(nogil=True)
def finish(chunk, need, prune, flags, geometry, state):
    """Count the build, and clear the list's flags."""
    if flags[need]:
        if state[BUILDS] > 0 and 0 < state[AGE] < geometry[EVERY]:
            state[EARLY] += 1
        state[BUILDS] += 1
        state[AGE] = 0
    flags[need] = flags[prune] = 0
