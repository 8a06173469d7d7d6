"""Angles, torsions and the like, from the bonds of a molecule."""

from __future__ import annotations

from itertools import combinations

import numpy as np

__all__ = ["bonded_angles", "bonded_impropers", "bonded_propers", "five_chains", "neighbor_lists"]


def neighbor_lists(bonds: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return starts (n + 1,) and near (2 m,): the atoms bound to i, sorted, are ``near[starts[i]:starts[i + 1]]``."""
    i, j = np.concatenate([bonds, bonds[:, ::-1]]).astype(np.int64).T
    order = np.lexsort((j, i))
    return np.searchsorted(i[order], np.arange(n + 1)), j[order]


def bonded_angles(starts: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Angles [m, 3]: each pair of atoms bound to one, that one in the middle; the first atom's number is below the
    last's.
    """
    return _neighbor_sets(starts, near, 2)[:, [1, 0, 2]]


def bonded_impropers(starts: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Candidates for impropers [m, 4]: an atom and each three bound to it, in the order of their numbers."""
    return _neighbor_sets(starts, near, 3)


def _neighbor_sets(starts, near, size):
    """Rows (atom, `size` atoms bound to it)."""
    degree = np.diff(starts)
    rows = []
    for d in np.unique(degree[degree >= size]):
        centers = np.flatnonzero(degree == d)
        bound = near[starts[centers][:, None] + np.arange(d)]
        rows += [np.column_stack([centers, bound[:, list(c)]]) for c in combinations(range(d), size)]
    return _sorted(np.concatenate(rows)) if rows else np.empty((0, size + 1), np.int64)


def bonded_propers(bonds: np.ndarray, starts: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Proper torsions [m, 4]: chains i-j-k-l of four different atoms, each once, with i < l."""
    j, k = bonds.astype(np.int64).T
    left, right = np.diff(starts)[j], np.diff(starts)[k]
    count = left * right
    bond = np.repeat(np.arange(len(j)), count)
    within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
    i = near[starts[j[bond]] + within // np.maximum(right[bond], 1)]
    l = near[starts[k[bond]] + within % np.maximum(right[bond], 1)]
    rows = np.column_stack([i, j[bond], k[bond], l])
    rows = rows[(i != k[bond]) & (l != j[bond]) & (i != l)]
    flip = rows[:, 0] > rows[:, 3]
    rows[flip] = rows[flip, ::-1]
    return _sorted(rows)


def five_chains(propers: np.ndarray, starts: np.ndarray, near: np.ndarray) -> np.ndarray:
    """Chains of five atoms [m, 5], each once."""
    rows = []
    for chain in (propers, propers[:, ::-1]):
        end = chain[:, 3]
        count = np.diff(starts)[end]
        row = np.repeat(np.arange(len(chain)), count)
        within = np.arange(count.sum()) - np.repeat(np.cumsum(count) - count, count)
        after = near[starts[end[row]] + within]
        longer = np.column_stack([chain[row], after])
        rows.append(longer[np.all(longer[:, :4] != after[:, None], axis=1)])
    found = np.concatenate(rows)
    flip = found[:, 0] > found[:, 4]
    found[flip] = found[flip, ::-1]
    return np.unique(found, axis=0)


def _sorted(rows):
    return rows[np.lexsort(rows.T[::-1])]
