"""Groups of atoms that move together: clusters of constraints, with virtual sites and Drude particles."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["connected", "constraint_clusters"]


def connected(pairs: np.ndarray, n: int) -> np.ndarray:
    """Number of the connected component of each of `n` atoms, counted by lowest atom; `pairs` [m, 2]."""
    if len(pairs) == 0:
        return np.arange(n)
    from scipy.sparse import coo_matrix
    from scipy.sparse.csgraph import connected_components

    pairs = np.asarray(pairs)
    graph = coo_matrix((np.ones(len(pairs), np.int8), (pairs[:, 0], pairs[:, 1])), (n, n))
    labels = connected_components(graph, directed=False)[1]
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse]


def constraint_clusters(system: Any) -> np.ndarray:
    """Return the cluster of each atom, (n,) int: equal for atoms that must be updated together.

    These are atoms tied by constraints, directly or through others, virtual sites with their parents, and Drude
    particles with their atoms. Clusters are counted by their lowest atom; an atom without constraints is a cluster of
    its own.
    """
    pairs = [np.asarray(system.constraints.pairs, np.int64).reshape(-1, 2), system.drude_pairs]
    for kind in system.virtual_sites:
        parents = np.asarray(kind.parents)
        pairs.append(np.stack([np.repeat(kind.sites, parents.shape[1]), parents.ravel()], axis=1))
    return connected(np.concatenate(pairs), len(system.masses))
