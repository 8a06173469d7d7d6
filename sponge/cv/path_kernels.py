"""A path of structures inside the step loop: both of its variables and their gradients from one superposition each."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from triskele.core.extend import Task, device, kernel

__all__ = ["StructurePath"]

_SWEEPS: Final = 30  # of Jacobi's method, which needs five or six
_NEGLIGIBLE: Final = 1e-20  # share of a structure's weight that changes no digit of the sums


@device
def _largest_eigenvalue(f, v):
    """Column of the largest eigenvalue of the symmetric 4 x 4 matrix f, by Jacobi's rotations.

    They keep all digits when eigenvalues are close. The upper triangle of `f` is given, its diagonal becomes the
    eigenvalues, and the columns of `v` the eigenvectors.
    """
    for a in range(4):
        for b in range(4):
            v[a, b] = 1.0 if a == b else 0.0
    for _ in range(_SWEEPS):
        turned = False
        for p in range(3):
            for q in range(p + 1, 4):
                g = f[p, q]
                if not abs(g) > 1e-17 * (abs(f[p, p]) + abs(f[q, q])):  # NaN ends it, too
                    continue
                turned = True
                theta = 0.5 * (f[q, q] - f[p, p]) / g
                t = math.copysign(1.0 / (abs(theta) + math.sqrt(theta * theta + 1.0)), theta)
                c = 1.0 / math.sqrt(t * t + 1.0)
                s = t * c
                f[p, p] -= t * g
                f[q, q] += t * g
                f[p, q] = 0.0
                for r in range(4):
                    if r != p and r != q:
                        a, b, d, e = min(r, p), max(r, p), min(r, q), max(r, q)
                        x, y = f[a, b], f[d, e]
                        f[a, b], f[d, e] = c * x - s * y, s * x + c * y
                    x, y = v[r, p], v[r, q]
                    v[r, p], v[r, q] = c * x - s * y, s * x + c * y
        if not turned:
            break
    top = 0
    for a in range(1, 4):
        if f[a, a] > f[top, top]:
            top = a
    return top


@device
def _superpose(d, weighted, size, least, f, v, rotation):
    """Mean square deviation of positions d (k, 3) about their center from a structure; `rotation` (3, 3) takes d to it.

    `weighted` (k, 3) are the weighted positions of the structure, `size` the sum of both mean squares. NaN where the
    rotation is not unique: the two largest eigenvalues are closer than `least`.
    """
    xx = xy = xz = yx = yy = yz = zx = zy = zz = 0.0
    for a in range(len(d)):
        x, y, z = d[a, 0], d[a, 1], d[a, 2]
        p, q, r = weighted[a, 0], weighted[a, 1], weighted[a, 2]
        xx += p * x
        xy += p * y
        xz += p * z
        yx += q * x
        yy += q * y
        yz += q * z
        zx += r * x
        zy += r * y
        zz += r * z
    f[0, 0], f[1, 1], f[2, 2], f[3, 3] = xx + yy + zz, xx - yy - zz, yy - xx - zz, zz - xx - yy
    f[0, 1], f[0, 2], f[0, 3] = yz - zy, zx - xz, xy - yx
    f[1, 2], f[1, 3], f[2, 3] = xy + yx, zx + xz, yz + zy
    top = _largest_eigenvalue(f, v)
    below = -math.inf
    for a in range(4):
        if a != top:
            below = max(below, f[a, a])
    if not f[top, top] - below > least:
        return math.nan
    a, x, y, z = v[0, top], v[1, top], v[2, top], v[3, top]
    rotation[0, 0] = a * a + x * x - y * y - z * z
    rotation[1, 1] = a * a - x * x + y * y - z * z
    rotation[2, 2] = a * a - x * x - y * y + z * z
    rotation[0, 1], rotation[1, 0] = 2.0 * (x * y + a * z), 2.0 * (x * y - a * z)
    rotation[1, 2], rotation[2, 1] = 2.0 * (y * z + a * x), 2.0 * (y * z - a * x)
    rotation[2, 0], rotation[0, 2] = 2.0 * (x * z + a * y), 2.0 * (x * z - a * y)
    return size - 2.0 * f[top, top]


@kernel(nogil=True)
def follow(
    _chunk,
    positions,
    atoms,
    weights,
    weighted,
    sizes,
    lambda_,
    on_a_line,
    wanted,
    d,
    square,
    rotations,
    f,
    v,
    values,
    gradients,
):
    """Progress s and distance z of a path, and their gradients.

    `weighted` (N, k, 3) are the structures times their weights, `sizes` (N,) their mean squares. `wanted` (2, 2) are,
    of s and z, the place in `values` and the first row in `gradients`, or -1. d (k, 3), square (N,), rotations
    (N, 3, 3), f and v (4, 4) are room of the kernel's own.
    """
    k, n = len(atoms), len(sizes)
    for b in range(3):
        mean = 0.0
        for a in range(k):
            mean += weights[a] * positions[atoms[a], b]
        for a in range(k):
            d[a, b] = positions[atoms[a], b] - mean
    size = 0.0
    for a in range(k):
        size += weights[a] * (d[a, 0] * d[a, 0] + d[a, 1] * d[a, 1] + d[a, 2] * d[a, 2])
    nearest = math.inf
    for i in range(n):
        both = size + sizes[i]
        square[i] = _superpose(d, weighted[i], both, on_a_line * both, f, v, rotations[i])
        nearest = min(nearest, square[i])
    total, sum_s = 0.0, 0.0
    for i in range(n):
        share = math.exp(-lambda_ * (square[i] - nearest))
        total += share
        sum_s += (i + 1) * share
    s = sum_s / total
    for which in range(2):
        at, first = wanted[which]
        if at < 0:
            continue
        values[at] = s if which == 0 else nearest - math.log(total) / lambda_
        whole = 0.0
        for a in range(k):
            for b in range(3):
                gradients[first + a, b] = 0.0
        for i in range(n):
            share = math.exp(-lambda_ * (square[i] - nearest)) / total
            if share < _NEGLIGIBLE:
                continue
            slope = -lambda_ * share * (i + 1 - s) if which == 0 else share
            whole += slope
            for a in range(k):  # of the deviation: 2 w (d - R^T r)
                x, y, z = weighted[i, a, 0], weighted[i, a, 1], weighted[i, a, 2]
                for b in range(3):
                    gradients[first + a, b] -= (
                        2.0 * slope * (rotations[i, 0, b] * x + rotations[i, 1, b] * y + rotations[i, 2, b] * z)
                    )
        for a in range(k):
            for b in range(3):
                gradients[first + a, b] += 2.0 * whole * weights[a] * d[a, b]


@dataclass(frozen=True, eq=False)
class StructurePath:
    """Constants of a path of structures, which the task of its two variables shares."""

    atoms: np.ndarray  # (k,)
    references: np.ndarray  # (N, k, 3) nm, about their weighted centers
    weights: np.ndarray  # (k,), of sum 1
    lambda_: float  # 1/nm^2
    on_a_line: float  # gap of the two largest eigenvalues over the mean squares, below which no superposition is unique

    def task(
        self,
        wanted: dict[str, tuple[int, int]],  # of "s" and "z": place in `values`, first row in `gradients`
        positions: np.ndarray,
        values: np.ndarray,
        gradients: np.ndarray,
    ) -> Task:
        """Return the task that fills `values` and `gradients`; it holds all three arrays by address."""
        n, k = self.references.shape[:2]
        weighted = self.weights[:, None] * self.references
        places = np.array([wanted.get(part, (-1, -1)) for part in ("s", "z")], np.int64)
        return Task(
            follow,
            positions,
            self.atoms,
            self.weights,
            weighted,
            np.sum(weighted * self.references, axis=(1, 2)),
            self.lambda_,
            self.on_a_line,
            places,
            np.zeros((k, 3)),
            np.zeros(n),
            np.zeros((n, 3, 3)),
            np.zeros((4, 4)),
            np.zeros((4, 4)),
            values,
            gradients,
        )
