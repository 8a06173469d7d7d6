"""Arrays of a neighbor list that kernels take together."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .state import WORDS, sparse_zeros

__all__ = ["Clusters", "PairList", "empty_lists"]

_SHORT = 1 << 16  # clusters of a window that 16 bits can number


class Clusters(NamedTuple):
    """The atoms, sorted into clusters of four."""

    state: np.ndarray  # words of `state`
    start: np.ndarray  # the first cluster of each column, and of each group in it
    atoms: np.ndarray  # [slots]: atom of each slot, -1 for padding
    slots: np.ndarray  # [n]: slot of each atom
    xs: np.ndarray  # blocks x4 y4 z4 w4 (w unused), in the brick that repeats
    built_xs: np.ndarray  # xs when the list was built, with the squared thermal speeds in w4
    turns: np.ndarray  # [clusters * 12]: blocks of box counts
    low: np.ndarray  # [3, clusters]: bounding boxes; the search reads 16 at once
    high: np.ndarray
    lj: np.ndarray  # [clusters]: whether an atom has Lennard-Jones parameters


class PairList(NamedTuple):
    """Cluster pairs of one kind, with what their kernels read of the atoms; rows belong to chunks."""

    kind: int  # -1 for all pairs, else the number of clusters of group 1 in the pair: 0, 1 or 2
    state: np.ndarray
    shifts: np.ndarray  # image vectors, added to the first cluster of an entry
    xs: np.ndarray
    entries: np.ndarray  # words I, SHIFT, START, LJ_END, PLAIN_END, END, MASK of `state`
    n_entries: np.ndarray
    pairs: np.ndarray  # second clusters, counted from the chunk's window
    masks: np.ndarray  # of an entry's pairs from PLAIN_END on, from MASK on; bits are the atoms 4a + b that count
    touched: np.ndarray  # clusters that get a force, counted from the window, in order
    n_touched: np.ndarray
    window: np.ndarray  # the cluster that the first block of the force buffer belongs to


def empty_lists(
    kind: int, chunks: int, sizes: dict[str, int], clusters: Clusters, shifts: np.ndarray
) -> tuple[PairList, PairList]:
    """Return the outer list of a kind, and the inner one."""
    place = np.uint16 if sizes["touched"] <= _SHORT else np.int32
    touched, (n_touched, window) = sparse_zeros((chunks, sizes["touched"]), place), np.zeros((2, chunks), np.int64)

    def one():
        """Return a list; pairs and masks have one more than the search fills, as pruning writes before it decides."""
        return PairList(
            kind,
            clusters.state,
            shifts,
            clusters.xs,
            sparse_zeros((chunks, sizes["entries"], WORDS), np.int32),
            np.zeros(chunks, np.int64),
            sparse_zeros((chunks, sizes["pairs"] + 1), place),
            sparse_zeros((chunks, sizes["masks"] + 1), np.uint16),
            touched,
            n_touched,
            window,
        )

    return one(), one()
