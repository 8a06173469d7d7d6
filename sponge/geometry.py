"""Distances, angles and torsions of atoms between nearest images, which the core can trace."""

from __future__ import annotations

from typing import Any

import numpy as np

from .box import displacement

__all__ = ["angle", "angles", "cross", "distances", "length", "superposed", "torsion", "torsions"]


def length(d: Any) -> Any:
    """|d| of vectors [..., 3]; where it is 0, its derivative is taken as 0."""
    square = np.sum(d * d, axis=-1)
    some = square > 0
    return np.where(some, np.sqrt(np.where(some, square, 1.0)), 0.0)


def cross(a: Any, b: Any) -> Any:
    """Cross product of vectors [..., 3]."""
    (ax, ay, az), (bx, by, bz) = ([v[..., k] for k in range(3)] for v in (a, b))
    return np.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=-1)


def distances(positions: Any, box: Any, atoms: np.ndarray) -> Any:
    """Distances in nm of pairs of atoms [m, 2]."""
    return length(displacement(positions[atoms[:, 0]] - positions[atoms[:, 1]], box))


def angle(a: Any, b: Any) -> Any:
    """Angles in [0, pi] between vectors [..., 3]; where they lie on a line, the derivative is taken as 0."""
    sine, cosine = length(cross(a, b)), np.sum(a * b, axis=-1)
    bent = sine > 0
    return np.where(bent, np.arctan2(np.where(bent, sine, 1.0), cosine), np.where(cosine < 0, np.pi, 0.0))


def torsion(a: Any, b: Any, c: Any) -> Any:
    """Torsion angles in (-pi, pi] of chains of three vectors [..., 3], positive clockwise seen along b (IUPAC)."""
    n = cross(b, c)
    return np.arctan2(length(b) * np.sum(a * n, axis=-1), np.sum(cross(a, b) * n, axis=-1))


def angles(positions: Any, box: Any, atoms: np.ndarray) -> Any:
    """Angles in [0, pi] at the second of three atoms [m, 3]; where they lie on a line, the derivative is taken as 0."""
    middle = positions[atoms[:, 1]]
    return angle(*(displacement(positions[atoms[:, k]] - middle, box) for k in (0, 2)))


def torsions(positions: Any, box: Any, atoms: np.ndarray) -> Any:
    """Torsion angles in (-pi, pi] of chains of four atoms [m, 4], positive clockwise seen along the middle bond
    (IUPAC).
    """
    return torsion(*(displacement(positions[atoms[:, k + 1]] - positions[atoms[:, k]], box) for k in range(3)))


def superposed(positions: np.ndarray, reference: np.ndarray, atoms: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return frames [m, n, 3], rotated and moved so that `atoms` deviate least from those of `reference` [n, 3]."""
    w = weights / weights.sum()
    center = np.einsum("a,fax->fx", w, positions[:, atoms])
    target = w @ reference[atoms]
    covariance = np.einsum(
        "a,fax,ay->fxy", w, positions[:, atoms] - center[:, None], reference[atoms] - target, optimize=True
    )
    u, _, vt = np.linalg.svd(covariance)
    u[:, :, 2] *= np.sign(np.linalg.det(u @ vt))[:, None]
    return (positions - center[:, None]) @ (u @ vt) + target
