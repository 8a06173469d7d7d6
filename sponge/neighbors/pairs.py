"""Pairs of atoms within a distance, for sums in plain NumPy."""

from __future__ import annotations

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


@kernel(nogil=True)
def _brute(x, box, periodic, r2, out):  # -> number of pairs; fills as many as fit
    n = 0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            if _near(x, i, j, box, periodic, r2):
                if n < len(out):
                    out[n, 0], out[n, 1] = i, j
                n += 1
    return n


@kernel(nogil=True)
def _by_cells(x, box, cells, order, starts, r2, out):
    """The same with atoms sorted by cells [nx, ny, nz] no thinner than the distance; three or more along each axis."""
    n = 0
    nx, ny, nz = cells[0], cells[1], cells[2]
    for c in range(nx * ny * nz):
        cx, cy, cz = c // (ny * nz), c // nz % ny, c % nz
        for k in range(27):
            other = ((cx + k // 9 - 1) % nx * ny + (cy + k // 3 % 3 - 1) % ny) * nz + (cz + k % 3 - 1) % nz
            for p in range(starts[c], starts[c + 1]):
                i = order[p]
                for q in range(starts[other], starts[other + 1]):
                    j = order[q]
                    if i < j and _near(x, i, j, box, True, r2):
                        if n < len(out):
                            out[n, 0], out[n, 1] = i, j
                        n += 1
    return n


def find_pairs(positions: np.ndarray, box: np.ndarray | None, cutoff: float | None,
               exclusions: np.ndarray) -> np.ndarray:
    """Pairs i < j closer than `cutoff` (nm; None: all pairs) that are not excluded, int64 [m, 2]."""
    n = len(positions)
    if cutoff is None:
        pairs = np.stack(np.triu_indices(n, 1), axis=1)
    else:
        pairs = _within(positions, box, cutoff)
    if len(exclusions):
        i, j = np.sort(exclusions, axis=1).astype(np.int64).T
        left_out = np.sort(i * n + j)
        keys = pairs[:, 0] * n + pairs[:, 1]
        pairs = pairs[left_out[np.minimum(np.searchsorted(left_out, keys), len(left_out) - 1)] != keys]
    return pairs


def _within(positions, box, cutoff):
    if box is not None:
        inverse = np.linalg.inv(box)
        # heights of the box
        cells = np.floor(1 / np.linalg.norm(inverse, axis=0) / (cutoff * (1 + 1e-9))).astype(np.int64)
    if box is None or np.any(cells < 3) or not np.all(np.isfinite(positions)):
        arguments = _brute, positions, np.eye(3) if box is None else box, box is not None
    else:
        s = positions @ inverse
        at = np.minimum(np.floor((s - np.floor(s)) * cells).astype(np.int64), cells - 1)
        cell = (at[:, 0] * cells[1] + at[:, 1]) * cells[2] + at[:, 2]
        order = np.argsort(cell, kind="stable")
        arguments = _by_cells, positions, box, cells, order, np.searchsorted(cell[order], np.arange(np.prod(cells) + 1))
    search, *rest = arguments
    n = len(positions)
    guess = 64 * n if box is None else int(2.4 * n * n * cutoff**3 / np.linalg.det(box)) + 64  # an even fluid has 2.1
    while True:
        pairs = np.empty((min(guess, n * (n - 1) // 2), 2), np.int64)
        found = search(*rest, cutoff * cutoff, pairs)
        if found <= len(pairs):
            return pairs[:found]
        guess = found
