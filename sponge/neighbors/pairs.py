"""Pairs of atoms within a distance, for sums in plain NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import device, kernel

from ..box import minimum_image

__all__ = ["find_pairs"]


@device
def _near(x, i, j, box, periodic, r2):
    dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
    if periodic:
        dx, dy, dz = minimum_image(dx, dy, dz, box)
    return dx * dx + dy * dy + dz * dz < r2


@device
def _counts(i, j, starts, partners):
    """True unless i < j are an excluded pair."""
    for k in range(starts[i], starts[i + 1]):
        if partners[k] == j:
            return False
    return True


@kernel(nogil=True)
def _brute(x, box, periodic, left_out, partners, r2, out):  # -> number of pairs; fills as many as fit
    n = 0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            if _near(x, i, j, box, periodic, r2) and _counts(i, j, left_out, partners):
                if n < len(out):
                    out[n, 0], out[n, 1] = i, j
                n += 1
    return n


@kernel(nogil=True)
def _by_cells(x, box, cells, order, starts, left_out, partners, r2, out):
    """The same with atoms sorted by cells [nx, ny, nz] no thinner than the distance; three or more along each axis.

    x [n, 3] in the box, in the order of the cells: images follow from the cells, in place of a search for each pair.
    """
    n = 0
    nx, ny, nz = cells[0], cells[1], cells[2]
    for c in range(nx * ny * nz):
        cx, cy, cz = c // (ny * nz), c // nz % ny, c % nz
        for k in range(13, 27):  # a cell with itself, and one of each two opposite neighbors
            ox, oy, oz = cx + k // 9 - 1, cy + k // 3 % 3 - 1, cz + k % 3 - 1
            a, b, e = ox // nx, oy // ny, oz // nz  # of the box in which that cell is
            other = ((ox - a * nx) * ny + oy - b * ny) * nz + oz - e * nz
            sx = a * box[0, 0] + b * box[1, 0] + e * box[2, 0]
            sy = a * box[0, 1] + b * box[1, 1] + e * box[2, 1]
            sz = a * box[0, 2] + b * box[1, 2] + e * box[2, 2]
            for p in range(starts[c], starts[c + 1]):
                px, py, pz = x[p, 0] - sx, x[p, 1] - sy, x[p, 2] - sz
                for q in range(p + 1 if k == 13 else starts[other], starts[other + 1]):
                    dx, dy, dz = px - x[q, 0], py - x[q, 1], pz - x[q, 2]
                    if dx * dx + dy * dy + dz * dz < r2:
                        i, j = min(order[p], order[q]), max(order[p], order[q])
                        if _counts(i, j, left_out, partners):
                            if n < len(out):
                                out[n, 0], out[n, 1] = i, j
                            n += 1
    return n


def find_pairs(
    positions: np.ndarray, box: np.ndarray | None, cutoff: float | None, exclusions: np.ndarray
) -> np.ndarray:
    """Pairs i < j closer than `cutoff` (nm; None: all pairs) that are not excluded, int64 [m, 2]."""
    starts, partners = _partners(exclusions, len(positions))
    if cutoff is not None:
        return _within(positions, box, cutoff, starts, partners)
    pairs = np.stack(np.triu_indices(len(positions), 1), axis=1)
    if len(partners):
        n = len(positions)
        wanted = np.ones(len(pairs), bool)
        i = np.repeat(np.arange(n), np.diff(starts))
        wanted[i * n - i * (i + 1) // 2 + partners - i - 1] = False
        pairs = pairs[wanted]
    return pairs


def _partners(exclusions, n):
    """Excluded partners j > i of each atom i: starts [n + 1], partners."""
    i, j = np.sort(exclusions, axis=1).astype(np.int64).reshape(-1, 2).T
    order = np.argsort(i, kind="stable")
    return np.searchsorted(i[order], np.arange(n + 1)), np.ascontiguousarray(j[order])


def _within(positions, box, cutoff, left_out, partners):
    if box is not None:
        inverse = np.linalg.inv(box)
        # heights of the box
        cells = np.floor(1 / np.linalg.norm(inverse, axis=0) / (cutoff * (1 + 1e-9))).astype(np.int64)
    if box is None or np.any(cells < 3) or not np.all(np.isfinite(positions)):
        arguments: Any = _brute, positions, np.eye(3) if box is None else box, box is not None, left_out, partners
    else:
        s = positions @ inverse
        s -= np.floor(s)
        at = np.minimum(np.floor(s * cells).astype(np.int64), cells - 1)
        cell = (at[:, 0] * cells[1] + at[:, 1]) * cells[2] + at[:, 2]
        order = np.argsort(cell, kind="stable")
        starts = np.searchsorted(cell[order], np.arange(np.prod(cells) + 1))
        arguments = _by_cells, s[order] @ box, box, cells, order, starts, left_out, partners
    search, *rest = arguments
    n = len(positions)
    guess = 64 * n if box is None else int(2.4 * n * n * cutoff**3 / np.linalg.det(box)) + 64  # an even fluid has 2.1
    while True:
        pairs = np.empty((min(guess, n * (n - 1) // 2), 2), np.int64)
        found = search(*rest, cutoff * cutoff, pairs)
        if found <= len(pairs):
            return pairs[:found]
        guess = found
