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

__all__ = ["as_is", "bounds", "finish_of", "scaled", "whole_range"]

_LEAST, _GREATEST = 6, 7  # columns of `Tree.counts`, as float64


@device
def whole_range(tree):
    """Return bounds that leave means as they are."""
    return np.float32(0), np.float32(1)


@device
def as_is(mean, least, scale):
    """Return means unchanged."""
    return mean


@device
def bounds(tree):
    """Return the least return, and the factor that maps the range of returns to [0, 1]."""
    least, greatest = np.int64(tree.counts[_LEAST]).view(np.float64), np.int64(tree.counts[_GREATEST]).view(np.float64)
    return np.float32(least), np.float32(1.0 / (greatest - least)) if greatest > least else np.float32(0)


@device
def scaled(mean, least, scale):
    """Scale means to [0, 1]; -inf stays -inf."""
    between = (mean - simd.splat(least, 8)) * simd.splat(scale, 8)
    return simd.select(mean == -INFINITY, simd.splat(-INFINITY, 8), between)


def finish_of(policy: Any, finish: Callable) -> Callable:
    """Return the `finish` of a search, which also records the range of returns if the policy needs it."""
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
