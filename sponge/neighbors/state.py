"""Words of a neighbor list's state, shared by its kernels.

A list has two words of `Engine.flags` of its own, need (rebuild) and prune. They are conditions of its phases, and 0
when these are through.
"""

from __future__ import annotations

import mmap
from typing import Any, Final

import numpy as np

# of `NeighborList.state` (int64)
CLUSTERS: Final = 0  # number of clusters
COLUMNS_X: Final = 1
COLUMNS_Y: Final = 2
AGE: Final = 3  # force evaluations since the list was built
BUILDS: Final = 4  # how often it was built
EARLY: Final = 5  # how often before its time, as when an atom has gone too far
N_STATE: Final = 8

# of `NeighborList.geometry` (float64)
LOW: Final = 0  # 3: corner of the region that holds the sorted atoms
WIDE: Final = 3  # 3: its edges
COLUMN: Final = 6  # 2: edges of a column
OUTER: Final = 8  # radius of the outer list
INNER: Final = 9  # radius of the pruned list
CUTOFF: Final = 10
STEP_TIME: Final = 11  # ps between two force evaluations, 0 without a schedule
EVERY: Final = 12  # evaluations between two builds
PRUNE_EVERY: Final = 13
N_GEOMETRY: Final = 16

# an entry of the cluster-pair list: eight int32 words. The clusters paired with one cluster in one image stand in three
# runs: those with Lennard-Jones parameters in both clusters, those without, and those with some pairs masked. Only the
# last run has masks. Second clusters are counted from the first cluster of the chunk's window, around the row of
# clusters.
I: Final = 0
SHIFT: Final = 1
START: Final = 2
LJ_END: Final = 3
PLAIN_END: Final = 4
END: Final = 5
MASK: Final = 6  # the first mask of the last run
WORDS: Final = 8

# status codes
OVERFLOW: Final = 21  # an array of a chunk is full; the information says which
FULL_PAIRS, FULL_ENTRIES, FULL_TOUCHED, FULL_SCRATCH, FULL_MASKS = range(1, 6)
SMALL_BOX: Final = 22  # the cut-off is over half the box

# Padding slots stand on a lattice of their own, out of any cut-off of atoms and of one another. Not farther than
# needed: (sigma/r)^6 must not become subnormal in float32, which would cost a hundred times an ordinary multiplication.
FAR = 1000.0  # nm
SPREAD = 16.0
LATTICE = 128  # points along an axis


_LARGE = 1 << 22  # bytes, from where on NumPy asks for huge pages


def sparse_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros for rows that are filled in part: for a large array, memory is taken for what is written.

    The array refuses huge pages of Linux: one of 2 MB is as large as the row of a chunk.
    """
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    if size < _LARGE or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(shape, dtype)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(memory, dtype).reshape(shape)


def aligned_zeros(shape: tuple[int, ...] | int, dtype: Any) -> np.ndarray:
    """Zeros that begin at a cache line: vectors of 64 bytes that lie across two lines take twice the time."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    raw = np.zeros(size + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + size].view(dtype).reshape(shape)
