"""The range of a network's training data, and configurations outside of it.

Of each element and each element of its neighbors, a network keeps the closest distance in its training data, and the
fewest and the most neighbors that an atom has there, counted with the weight `radial.envelope`. The fewest neighbors of
an element without data are infinitely many.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from ..box import displacement
from ..elements import SYMBOLS
from ..neighbors.pairs import find_pairs
from .dataset import Batches
from .network import Network
from .radial import envelope

__all__ = ["outside", "with_range"]

_CLOSER = 0.05  # of the closest distance, and
_MORE = 0.1  # of the most neighbors and one more: what a configuration may be outside without a warning


def with_range(network: Network, batches: Batches) -> Network:
    """The network with the range of data that it is trained on, as well as what it has been trained on before."""
    e, all_ = len(network.elements), batches.frames
    seen = np.array(network.seen or np.tile([network.cutoff, np.inf, 0.0], (e * e, 1))).reshape(e, e, 3)
    for species, x, neighbors, offsets, real in zip(
        all_.species, all_.positions, all_.neighbors, all_.offsets, all_.real, strict=True
    ):
        r = np.linalg.norm((x[neighbors] - x[:, None] + offsets).astype(np.float64), axis=2)
        i, place = np.nonzero((r < network.cutoff) & (real[:, None] > 0))
        closest, counts = _neighborhoods(network, i, species[neighbors[i, place]], r[i, place], len(x))
        for k in range(e):
            own = (species == k) & (real > 0)
            if np.any(own):
                seen[k, :, 0] = np.minimum(seen[k, :, 0], closest[own].min(axis=0))
                seen[k, :, 1] = np.minimum(seen[k, :, 1], counts[own].min(axis=0))
                seen[k, :, 2] = np.maximum(seen[k, :, 2], counts[own].max(axis=0))
    rows = tuple((float(a), float(b), float(c)) for a, b, c in seen.reshape(-1, 3))
    return dataclasses.replace(network, seen=rows)  # type: ignore[type-var]


def outside(
    network: Network,
    species: np.ndarray,  # (m,) int
    atoms: np.ndarray | None,  # (m,) int; None: all
    positions: np.ndarray,  # (n, 3) nm
    box: Any,  # (3, 3) nm, or None
) -> tuple[int, str] | None:
    """Return the atom that is farthest outside the range of the training data, and how far; None if all are within."""
    if not network.seen:
        return None
    e = len(network.elements)
    x = np.ascontiguousarray(positions if atoms is None else positions[atoms])
    pairs = find_pairs(x, box, network.cutoff, np.zeros((0, 2), np.int64))
    i, j = np.concatenate([pairs, pairs[:, ::-1]]).T
    r = np.linalg.norm(displacement(x[j] - x[i], box), axis=1)
    closest, counts = _neighborhoods(network, i, species[j], r, len(x))
    least_r, fewest, most = np.moveaxis(np.array(network.seen).reshape(e, e, 3)[species], 2, 0)
    closer, beyond = least_r - closest, np.maximum(counts - most, fewest - counts)
    far = np.stack([closer / (_CLOSER * least_r), beyond / (_MORE * (most + 1))])
    kind, k, s = np.unravel_index(np.argmax(far), far.shape)
    if far[kind, k, s] <= 1:
        return None
    other = SYMBOLS[network.elements[s]]
    if not np.isfinite(far[kind, k, s]):
        return int(k if atoms is None else atoms[k]), "is of an element that the training data do not have"
    text = (
        (
            f"is {closest[k, s]:.3g} nm from an atom {other}, {closer[k, s]:.2g} nm less than any of its element in "
            "the training data"
        )
        if kind == 0
        else (
            f"has {counts[k, s]:.3g} neighbors {other}, counted with the envelope of {network.cutoff} nm, where its "
            f"element has {fewest[k, s]:.3g} to {most[k, s]:.3g} in the training data"
        )
    )
    return int(k if atoms is None else atoms[k]), text


def _neighborhoods(network, i, others, r, n):
    """Closest neighbor and weighted number of neighbors of each element, [n, elements] each."""
    e = len(network.elements)
    at = i * e + others
    closest = np.full(n * e, network.cutoff)
    np.minimum.at(closest, at, r)
    counts = np.bincount(at, weights=np.asarray(envelope(r, network.cutoff)), minlength=n * e)
    return closest.reshape(n, e), counts.reshape(n, e)
