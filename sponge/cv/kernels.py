"""Kernels that check collective variables and turn slopes of a bias into forces."""

from __future__ import annotations

import math

from triskele.core.extend import kernel

# the words of Engine.flags that are used here, as engine.flags has them
_STATUS, _ENERGY = 1, 3


@kernel(nogil=True)
def finish(chunk, flags, code, positions, box, values, gradients, by_box, owners, atoms, slopes, bias, rows):
    """Set status `code` unless everything is finite; fill `rows` [1, 10].

    values, slopes [m], gradients [k, 3], by_box [m, 3, 3], owners and atoms [k], bias [].
    """
    total = bias[()] * 0.0
    for c in range(values.size):
        total += values[c] * 0.0 + slopes[c] * 0.0
    for k in range(owners.size):
        for a in range(3):
            total += gradients[k, a] * 0.0
    if not math.isfinite(total):  # 0 times infinity is NaN
        flags[_STATUS] = code
        return
    if not flags[_ENERGY]:
        return
    rows[0, 0] = bias[()]
    for b in range(1, 10):
        rows[0, b] = 0.0
    for k in range(owners.size):
        for a in range(3):
            f = -slopes[owners[k]] * gradients[k, a]
            for b in range(3):
                rows[0, 1 + 3 * a + b] += f * positions[atoms[k], b]
    for c in range(by_box.shape[0]):
        for d in range(3):
            for a in range(3):
                for b in range(3):
                    rows[0, 1 + 3 * a + b] -= slopes[c] * by_box[c, d, a] * box[d, b]


@kernel(nogil=True)
def spread(chunk, first, order, owners, atoms, gradients, slopes, forces):
    """Add the forces on the atoms of one chunk: `order` [k] sorts the entries by atom, `first` [chunks + 1] cuts it."""
    for p in range(first[chunk], first[chunk + 1]):
        k = order[p]
        for a in range(3):
            forces[atoms[k], a] -= slopes[owners[k]] * gradients[k, a]
