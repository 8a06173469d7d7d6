"""Sorting atoms into clusters of four: columns of the xy plane, within a column by z.

Kernels, in the order in which they run. All are chunked by atoms or by columns, and sort stably, so that the order of
the atoms depends on the positions alone.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel

from .state import CLUSTERS, COLUMN, COLUMNS_X, COLUMNS_Y, FAR, LATTICE, LOW, SPREAD, WIDE

__all__ = ["columns", "count", "fill", "place", "start", "wrap"]

_FEW_MOVES = 16  # of an atom in a column, while insertion is faster than a heap
_MOST_TURNS = 1.0e9  # an atom farther away than this many boxes is lost; it is left where it is


@device
def _turns(x, edge):
    """Return the number of edges to subtract so that x lies in [0, edge)."""
    k = np.floor(x / edge)
    return k if abs(k) < _MOST_TURNS else 0.0  # of NaN: 0


@device
def _wrapped(positions, i, box, periodic):
    """Position of an atom inside the brick that repeats, and the box vectors subtracted to get there."""
    x, y, z = positions[i, 0], positions[i, 1], positions[i, 2]
    a, b, c = 0.0, 0.0, 0.0
    if periodic:
        c = _turns(z, box[2, 2])
        x, y, z = x - c * box[2, 0], y - c * box[2, 1], z - c * box[2, 2]
        b = _turns(y, box[1, 1])
        x, y = x - b * box[1, 0], y - b * box[1, 1]
        a = _turns(x, box[0, 0])
        x = x - a * box[0, 0]
    # a lost atom is sorted somewhere; its true coordinates are what forces see
    x = x if abs(x) < 1.0e9 else 0.0
    y = y if abs(y) < 1.0e9 else 0.0
    z = z if abs(z) < 1.0e9 else 0.0
    return (x, y, z), (a, b, c)


@kernel(nogil=True)
def wrap(chunk, chunks, positions, box, periodic, heights, extent):
    """Wrapped z of each atom; extent[chunk] holds the lowest and highest wrapped coordinates."""
    n = positions.shape[0]
    low_x, low_y, low_z = np.inf, np.inf, np.inf
    high_x, high_y, high_z = -np.inf, -np.inf, -np.inf
    for i in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        (x, y, z), _ = _wrapped(positions, i, box, periodic)
        heights[i] = z
        low_x, high_x = min(low_x, x), max(high_x, x)
        low_y, high_y = min(low_y, y), max(high_y, y)
        low_z, high_z = min(low_z, z), max(high_z, z)
    extent[chunk, 0], extent[chunk, 1], extent[chunk, 2] = low_x, low_y, low_z
    extent[chunk, 3], extent[chunk, 4], extent[chunk, 5] = high_x, high_y, high_z


@kernel(nogil=True)
def columns(chunk, n, box, periodic, extent, most_columns, geometry, state):
    """Choose the grid: columns whose width is the edge of a cube that holds four atoms."""
    for a in range(3):
        if periodic:
            low, wide = 0.0, box[a, a]
        else:
            low, high = extent[0, a], extent[0, 3 + a]
            for c in range(1, extent.shape[0]):
                low, high = min(low, extent[c, a]), max(high, extent[c, 3 + a])
            wide = max(high - low, 1.0e-3)
        geometry[LOW + a], geometry[WIDE + a] = low, wide
    wx, wy, wz = geometry[WIDE], geometry[WIDE + 1], geometry[WIDE + 2]
    width = (4.0 * wx * wy * wz / max(n, 1)) ** (1.0 / 3.0)
    width = max(width, np.sqrt(wx * wy / most_columns), max(wx, wy) / most_columns)
    nx, ny = max(1, int(wx / width)), max(1, int(wy / width))
    state[COLUMNS_X], state[COLUMNS_Y] = nx, ny
    geometry[COLUMN], geometry[COLUMN + 1] = wx / nx, wy / ny


@kernel(nogil=True)
def count(chunk, chunks, positions, box, periodic, groups, n_groups, geometry, state, before, keys, counts):
    """Column (and group) of each atom, and how many atoms of this chunk each one gets.

    Atoms are taken in the order before [n] of the last sort, in which most of them stay.
    """
    n, nx, ny = positions.shape[0], state[COLUMNS_X], state[COLUMNS_Y]
    for k in range(nx * ny * n_groups):
        counts[chunk, k] = 0
    for k in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        i = before[k]
        (x, y, _), _ = _wrapped(positions, i, box, periodic)
        cx = min(max(int((x - geometry[LOW]) / geometry[COLUMN]), 0), nx - 1)
        cy = min(max(int((y - geometry[LOW + 1]) / geometry[COLUMN + 1]), 0), ny - 1)
        key = (cx * ny + cy) * n_groups + (groups[i] if n_groups > 1 else 0)
        keys[k] = key
        counts[chunk, key] += 1


@kernel(nogil=True)
def start(chunk, chunks, n_groups, state, counts, atom_start, cluster_start, prune, flags):
    """Find where columns begin among atoms and clusters; counts[chunk, key] becomes the start of the chunk's share."""
    atoms, clusters = 0, 0
    for key in range(state[COLUMNS_X] * state[COLUMNS_Y] * n_groups):
        atom_start[key], cluster_start[key] = atoms, clusters
        first = atoms
        for c in range(chunks):
            here = counts[c, key]
            counts[c, key] = atoms
            atoms += here
        clusters += (atoms - first + 3) // 4
    last = state[COLUMNS_X] * state[COLUMNS_Y] * n_groups
    atom_start[last], cluster_start[last] = atoms, clusters
    state[CLUSTERS] = clusters
    flags[prune] = 1  # a new list is pruned


@kernel(nogil=True)
def place(chunk, chunks, before, keys, counts, order):
    """Atoms by column, in the order before."""
    n = keys.shape[0]
    for k in range(chunk * n // chunks, (chunk + 1) * n // chunks):
        key = keys[k]
        order[counts[chunk, key]] = before[k]
        counts[chunk, key] += 1


@device
def _sort(order, first, last, heights):
    """Sort order[first:last] by z; equal z by number, so that the result does not depend on the input's order.

    Insertion, which suits a column that was sorted not long ago; heap sort for one that is far from it.
    """
    n = last - first
    moves = _FEW_MOVES * n
    for k in range(first + 1, last):
        atom, at = order[k], k
        while at > first and _is_before(atom, order[at - 1], heights):
            order[at] = order[at - 1]
            at -= 1
        order[at] = atom
        moves -= k - at
        if moves < 0:
            break
    else:
        return
    for begin in range(n // 2 - 1, -1, -1):
        _sift(order, first, begin, n, heights)
    for end in range(n - 1, 0, -1):
        order[first], order[first + end] = order[first + end], order[first]
        _sift(order, first, 0, end, heights)


@device
def _is_before(a, b, heights):
    return heights[a] < heights[b] or (heights[a] == heights[b] and a < b)


@device
def _sift(order, first, root, n, heights):
    moved = order[first + root]
    while True:
        child = 2 * root + 1
        if child >= n:
            break
        if child + 1 < n and _is_before(order[first + child], order[first + child + 1], heights):
            child += 1
        if not _is_before(moved, order[first + child], heights):
            break
        order[first + root] = order[first + child]
        root = child
    order[first + root] = moved


@kernel(nogil=True)
def fill(
    chunk, chunks, n_groups, atom_start, order, before, heights, positions, box, periodic, has_lj, thermal, clusters
):
    """Sort each column by z and cut it into clusters; the order becomes the one before the next sort."""
    state, atoms, xs, built_xs, turns = clusters.state, clusters.atoms, clusters.xs, clusters.built_xs, clusters.turns
    low, high, lj, slots, cluster_start = clusters.low, clusters.high, clusters.lj, clusters.slots, clusters.start
    keys = state[COLUMNS_X] * state[COLUMNS_Y] * n_groups
    for key in range(chunk * keys // chunks, (chunk + 1) * keys // chunks):
        _sort(order, atom_start[key], atom_start[key + 1], heights)
        i, last = atom_start[key], atom_start[key + 1]
        for cluster in range(cluster_start[key], cluster_start[key + 1]):
            lj[cluster] = 0
            for lane in range(4):
                slot, base = cluster * 4 + lane, cluster * 16 + lane
                if i < last:
                    atom = before[i] = order[i]
                    atoms[slot], slots[atom] = atom, slot
                    built_xs[base + 12] = thermal[atom]
                    place, count = _wrapped(positions, atom, box, periodic)
                    for a in range(3):
                        turns[12 * cluster + 4 * a + lane] = count[a]
                        x = xs.dtype.type(place[a])
                        xs[base + 4 * a] = built_xs[base + 4 * a] = x
                        low[a, cluster] = x if lane == 0 else min(low[a, cluster], x)
                        high[a, cluster] = x if lane == 0 else max(high[a, cluster], x)
                    lj[cluster] |= has_lj[atom]
                else:
                    atoms[slot] = -1
                    xs[base] = FAR + SPREAD * (slot % LATTICE)
                    xs[base + 4] = FAR + SPREAD * (slot // LATTICE % LATTICE)
                    xs[base + 8] = FAR + SPREAD * (slot // (LATTICE * LATTICE))
                i += 1
