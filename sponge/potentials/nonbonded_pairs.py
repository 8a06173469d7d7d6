"""Pairs of atoms within a distance, for sums in plain NumPy."""

from __future__ import annotations

import numpy as np

from triskele.core.kernels.njit import kernel
from triskele.sponge.box import minimum_image

__all__ = ["find_pairs"]


@kernel(nogil=True)
def _brute(x, box, periodic, r2, out):  # -> number of pairs; fills as many as fit
    n = 0
    for i in range(len(x)):
        for j in range(i + 1, len(x)):
            dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
            if periodic:
                dx, dy, dz = minimum_image(dx, dy, dz, box)
            if dx * dx + dy * dy + dz * dz < r2:
                if n < len(out):
                    out[n, 0], out[n, 1] = i, j
                n += 1
    return n


def find_pairs(positions: np.ndarray, box: np.ndarray | None, cutoff: float | None, exclusions: np.ndarray) -> np.ndarray:
    """Pairs i < j closer than `cutoff` (nm; None: all pairs) that are not excluded, int64 [m, 2]."""
    n = len(positions)
    if cutoff is None:
        pairs = np.stack(np.triu_indices(n, 1), axis=1)
    else:
        unit = np.eye(3) if box is None else box
        pairs = np.empty((0, 2), np.int64)
        for _ in range(2):
            found = _brute(positions, unit, box is not None, cutoff * cutoff, pairs)
            if found == len(pairs):
                break
            pairs = np.empty((found, 2), np.int64)
    if len(exclusions):
        keys = pairs[:, 0] * n + pairs[:, 1]
        left_out = np.sort(exclusions, axis=1).astype(np.int64)
        pairs = pairs[~np.isin(keys, left_out[:, 0] * n + left_out[:, 1])]
    return pairs
