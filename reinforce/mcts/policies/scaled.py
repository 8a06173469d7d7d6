"""Values scaled by the least and the greatest return that a search has seen, so that one constant of exploration serves
returns of any size.

References
----------
Schrittwieser et al., *Mastering Atari, Go, chess and shogi by planning with a learned model*, Nature 588 (2020),
appendix B, eq. 5, whose bounds are those of means.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core.extend import device, simd

from ..loops.simulation import NEW
from ..tree import RAN
from .children import INFINITY

__all__ = ["bounds", "finish_of", "scaled"]

_LEAST, _GREATEST = 6, 7  # columns of `Tree.counts`, as float64


@device
def bounds(tree):
    """The least return, and the number that makes the greatest one 1 more than it."""
    least, greatest = np.int64(tree.counts[_LEAST]).view(np.float64), np.int64(tree.counts[_GREATEST]).view(np.float64)
    return np.float32(least), np.float32(1.0 / (greatest - least)) if greatest > least else np.float32(0)


@device
def scaled(mean, least, scale):
    """Means between the bounds; -inf stays what it is."""
    between = (mean - simd.splat(least, 8)) * simd.splat(scale, 8)
    return simd.select(mean == -INFINITY, simd.splat(-INFINITY, 8), between)


def finish_of(policy: Any, finish: Callable) -> Callable:
    """Return `finish` of a search, which notes the bounds where the policy asks for them."""
    if not getattr(policy, "normalize", False):
        return finish

    @device
    def finish_and_note(search, tree, states, depth, known, work):
        status = finish(search, tree, states, depth, known, work)
        if status == NEW:
            for p in range(len(work.values)):
                value, new = np.float64(work.values[p]), tree.counts[RAN] == 0 and p == 0
                if new or value < np.int64(tree.counts[_LEAST]).view(np.float64):
                    tree.counts[_LEAST] = value.view(np.int64)
                if new or value > np.int64(tree.counts[_GREATEST]).view(np.float64):
                    tree.counts[_GREATEST] = value.view(np.int64)
        return status

    return finish_and_note
