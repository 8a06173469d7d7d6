"""A tree of sums: draws a leaf with probability proportional to its weight, and changes a weight, in logarithmic time.

Eight children to a node, which are one cache line: a million leaves have seven levels. Every sum is recomputed from
its children in one order, so that the tree depends on the weights alone, not on how they came about: weights restored
give the tree bit for bit.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import device, kernel

__all__ = ["SumTree"]

_LINE = 64  # bytes


@device
def _sum_children(nodes, child):
    left = (nodes[child] + nodes[child + 1]) + (nodes[child + 2] + nodes[child + 3])
    return left + ((nodes[child + 4] + nodes[child + 5]) + (nodes[child + 6] + nodes[child + 7]))


@device
def put(nodes, starts, leaf, weight):
    """Change one weight. nodes [n] holds the leaves and then level after level; starts [levels]: where each begins."""
    nodes[leaf] = weight
    for level in range(1, starts.size):
        leaf >>= 3
        nodes[starts[level] + leaf] = _sum_children(nodes, starts[level - 1] + 8 * leaf)


@device
def find(nodes, starts, u):
    """The leaf in which cumulative weight `u` falls; never one of weight zero."""
    at = 0
    for level in range(starts.size - 2, -1, -1):
        child = starts[level] + 8 * at
        chosen = 0
        for c in range(8):
            weight = nodes[child + c]
            if weight > 0:  # where rounding leads past the end, the last one that can be drawn is
                chosen = c
                if u < weight:
                    break
                u -= weight
        at = 8 * at + chosen
    return at


@kernel(nogil=True)
def put_range(nodes, starts, first, last):
    """New sums above leaves first ... last - 1."""
    for level in range(1, starts.size):
        first, last = first >> 3, (last + 7) >> 3
        for at in range(first, last):
            nodes[starts[level] + at] = _sum_children(nodes, starts[level - 1] + 8 * at)


@kernel(nogil=True)
def put_all(nodes, starts, leaves, weights):
    for i in range(leaves.size):
        put(nodes, starts, leaves[i], weights[i])


@kernel(nogil=True)
def find_all(nodes, starts, us, leaves):
    for i in range(us.size):
        leaves[i] = find(nodes, starts, us[i])


class SumTree:
    """Weights of leaves, and their sums.

    Parameters
    ----------
    size : int
        Number of leaves.

    Attributes
    ----------
    nodes : array of float64
        Leaves first, then the levels above; `starts` says where each begins.
    weights : (size,) float64
        Weights of the leaves, as a view. Call `update` after changing them.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.reinforce import SumTree
    >>> tree = SumTree(3)
    >>> tree.set(np.array([0, 1, 2]), np.array([1.0, 0.0, 3.0]))
    >>> tree.total, tree.find(np.array([0.5, 1.0, 3.5]))
    (4.0, array([0, 2, 2]))
    """

    def __init__(self, size: int):
        self.size = size
        counts = [size]
        while counts[-1] > 1 or len(counts) == 1:
            counts.append(-(-counts[-1] // 8))
        padded = [8 * -(-c // 8) for c in counts]
        self.starts = np.concatenate([[0], np.cumsum(padded[:-1])]).astype(np.int64)
        memory = np.zeros(sum(padded) + _LINE // 8)
        skipped = -memory.ctypes.data % _LINE // 8
        self.nodes = memory[skipped : skipped + sum(padded)]
        self.weights = self.nodes[:size]

    @staticmethod
    def bytes_for(size: int) -> int:
        """Return the memory of a tree with that many leaves (an upper bound)."""
        return 8 * (8 * size // 7 + 128)

    def __repr__(self) -> str:
        return f"<SumTree: {self.size} weights, total {self.total:.6g}>"

    @property
    def total(self) -> float:
        """Sum of all weights."""
        return float(self.nodes[self.starts[-1]])

    def set(self, leaves: np.ndarray, weights: np.ndarray) -> None:
        """Change the weights (float64) of some leaves (int64)."""
        put_all(self.nodes, self.starts, leaves, weights)

    def update(self, first: int = 0, last: int | None = None) -> None:
        """New sums after `weights[first:last]` were written."""
        put_range(self.nodes, self.starts, first, self.size if last is None else last)

    def find(self, us: np.ndarray) -> np.ndarray:
        """The leaves in which cumulative weights (float64, from 0 to below `total`) fall."""
        leaves = np.empty(us.size, np.int64)
        find_all(self.nodes, self.starts, us, leaves)
        return leaves
