"""UCT: upper confidence bounds for trees."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from triskele.core.extend import check

from ...errors import SearchError
from ..loops.select import select_uct

__all__ = ["UCT"]


@dataclass(frozen=True)
class UCT:
    """Upper confidence bounds for trees: mean + c sqrt(log N / n), for N visits of the node and n of the action.

    Attributes
    ----------
    c : float
        Weight of exploration; sqrt(2) in the paper, for values in [0, 1].
    fpu : float, optional
        Score of an action that has never been taken; without it, all actions are taken once before one is taken twice.

    References
    ----------
    Kocsis and Szepesvári, *Bandit based Monte-Carlo planning*, ECML 2006, section 2.3.

    Examples
    --------
    >>> UCT(c=1.0)
    UCT(c=1.0, fpu=None)
    """

    c: float = math.sqrt(2)
    fpu: float | None = None

    dirichlet = None
    in_random_order = True  # of equal scores any wins, so that no action profits from its number

    def __post_init__(self):
        check.number(self.c, "UCT: c", 0, error=SearchError)
        if self.fpu is not None:
            check.number(self.fpu, "UCT: fpu", error=SearchError)

    @property
    def parameters(self) -> tuple[float, ...]:
        """As `function` takes them."""
        return float(self.c), math.inf if self.fpu is None else float(self.fpu)

    @property
    def function(self) -> Any:
        """select(tree, node, parameters, stream) -> edge."""
        return select_uct

    @property
    def key(self) -> str:
        """Key of the compiled code; policies with equal keys share it."""
        return "uct"
