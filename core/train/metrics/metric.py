"""Base of metrics, and metrics by their names."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ... import check, tree
from ...imports.discover import modules

__all__ = ["Metric", "get"]


class Metric:
    """Base of metrics: a frozen dataclass of options whose methods work on a state.

    A subclass sets `name` and writes `init`, `update` and `result`. States that are sums need no `merge` of their own.

    Attributes
    ----------
    name : str
        The name by which `get` finds the metric, and under which a history records it.
    compiled : bool
        True if `update` can be traced by `core.jit`: its state has a fixed size. Compiled code cannot raise, so bad
        values are then reported later: labels out of range raise in `result`, and NaN predictions give NaN.
    greater_is_better : bool

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.train import metrics
    >>> metric = metrics.Accuracy()
    >>> a = metric.update(metric.init(), np.array([[0.9, 0.1], [0.2, 0.8]]), np.array([0, 0]))
    >>> b = metric.update(metric.init(), np.array([[0.3, 0.7]]), np.array([1]))
    >>> round(metric.result(metric.merge(a, b)), 3)
    0.667
    """

    name: ClassVar[str]
    compiled: bool = True
    greater_is_better: ClassVar[bool] = True

    def init(self) -> Any:
        """Return the state before the first batch."""
        raise NotImplementedError

    def update(self, state: Any, predictions: Any, targets: Any, weights: Any = None) -> Any:
        """Return the state after a batch."""
        raise NotImplementedError

    def merge(self, a: Any, b: Any) -> Any:
        """Return the state of the batches of both: the sum, leaf by leaf."""
        self._check_alike(a, b)
        return tree.map(np.add, a, b)

    def result(self, state: Any) -> Any:
        """Return the metric of all batches; NaN if no sample has a weight."""
        raise NotImplementedError

    def _check_alike(self, a: Any, b: Any) -> None:
        one, other = (tree.map(np.shape, state) for state in (a, b))
        if one != other:
            raise ValueError(
                f"{type(self).__name__}: states to merge must come from metrics with the same options, "
                f"got shapes {one} and {other}"
            )


def get(metric: str | Metric) -> Metric:
    """Return a metric by its name, with default options; a metric is returned as it is.

    Parameters
    ----------
    metric : str or Metric
        The `name` of a class, also of one that you define yourself.

    Returns
    -------
    Metric

    Raises
    ------
    ValueError
        For an unknown name; the message lists the known ones.

    Examples
    --------
    >>> from triskele.core.train import metrics
    >>> metrics.get("accuracy")
    Accuracy(threshold=0.5)
    """
    if isinstance(metric, Metric):
        return metric
    check.kind(metric, str, "metrics", "a name or a Metric")
    known = _known()
    return known[check.choice(metric, sorted(known), "metrics: a metric")]()


def _known():
    """Every subclass with a name: those of this folder, and those that were defined elsewhere."""
    modules(__package__)
    classes: list[type[Metric]] = [Metric]
    found = {}
    for c in classes:
        classes += c.__subclasses__()
        if "name" in vars(c):
            found[c.name] = c
    return found
