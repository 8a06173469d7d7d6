"""UCT: upper confidence bounds for trees."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from triskele.core.extend import check, device, simd

from ...errors import SearchError
from .children import INFINITY, LOWEST, best_lane, eight_children
from .logarithms import root_log
from .scaled import as_is, bounds, scaled, whole_range

__all__ = ["UCT"]


def _selection(bounds, scaled):
    """Return the rule of selection for means that are scaled so, or left as they are."""

    @device
    def select_uct(tree, node, parameters, stream):
        """Mean + c sqrt(log N / n), with N visits of the node and n of the child; parameters: c, score of an action
        never taken.
        """
        link = tree.links[node]
        first, count = np.int64(link.first_edge), np.int64(link.num_edges)
        wide = np.float32(parameters[0]) * root_log(max(tree.stats[node].visits, 1))
        unknown, nothing = simd.splat(np.float32(parameters[1]), 8), simd.splat(-INFINITY, 8)
        least, scale = bounds(tree)
        edge, highest = first, LOWEST
        for at in range(first, first + count, 8):
            lanes, taken, visits, mean = eight_children(tree, at, first + count - at)
            score = scaled(mean, least, scale) + simd.splat(wide, 8) / simd.sqrt(visits)
            top, lane = best_lane(simd.select(taken, score, simd.select(lanes, unknown, nothing)))
            if top > highest:
                edge, highest = at + lane, top
        return edge

    return select_uct


select_uct, select_scaled_uct = _selection(whole_range, as_is), _selection(bounds, scaled)


@dataclass(frozen=True)
class UCT:
    """Upper confidence bounds for trees: mean + c sqrt(log N / n), for N visits of the node and n of the action.

    Attributes
    ----------
    c : float
        Weight of exploration; sqrt(2) in the paper, for values in [0, 1].
    fpu : float, optional
        Score of an action that has never been taken; without it, all actions are taken once before one is taken twice.
    normalize : bool
        Scale means by the least and the greatest return that the search has seen to [0, 1], for returns of any size.

    References
    ----------
    Kocsis and Szepesvári, *Bandit based Monte-Carlo planning*, ECML 2006, section 2.3.

    Examples
    --------
    >>> from triskele.reinforce import UCT
    >>> UCT(c=1.0)
    UCT(c=1.0, fpu=None, normalize=False)
    """

    c: float = math.sqrt(2)
    fpu: float | None = None
    normalize: bool = False

    dirichlet = None
    in_random_order = True  # of equal scores any wins, so that no action profits from its number

    def __post_init__(self):
        check.number(self.c, "UCT: c", 0, error=SearchError)
        if self.fpu is not None:
            check.number(self.fpu, "UCT: fpu", error=SearchError)

    key = property(lambda self: "scaled uct" if self.normalize else "uct")
    function = property(lambda self: select_scaled_uct if self.normalize else select_uct)

    @property
    def parameters(self) -> tuple[float, ...]:
        """As `function` takes them."""
        return float(self.c), math.inf if self.fpu is None else float(self.fpu)
