"""Callbacks that watch one quantity of a training."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ... import check
from .callback import Callback

if TYPE_CHECKING:
    from collections.abc import Collection

    from ..loop import Run

__all__ = ["Monitor", "monitored_names"]


class Monitor(Callback):
    """Base of callbacks that watch a number.

    Parameters
    ----------
    monitor : str
        Name of the number, such as ``"validation/loss"``.
    patience : int
        Epochs without improvement that are tolerated: with 0, the first one counts.
    min_delta : float
        An improvement is a change by more than this.
    mode : {"min", "max"}, optional
        Which way is better. By default "min" for losses and errors, "max" for metrics that are better when greater.

    Examples
    --------
    >>> from triskele.core import train
    >>> class Stagnation(train.Monitor):
    ...     def epoch_end(self, run):
    ...         if not self.better(run, self.value(run), self.best):
    ...             print("no better in epoch", run.epoch)
    ...         self.best = self.value(run)
    >>> Stagnation("loss", patience=0, min_delta=0.0, mode="min")
    Stagnation('loss', patience=0)
    """

    def __init__(self, monitor: str, patience: int, min_delta: float, mode: str | None):
        where = type(self).__name__
        check.integer(patience, f"{where}: patience", 0)
        check.number(min_delta, f"{where}: min_delta", 0.0)
        check.choice(mode, (None, "min", "max"), f"{where}: mode")
        self.monitor, self.patience, self.min_delta, self.mode = monitor, int(patience), float(min_delta), mode
        self.best: float | None = None
        self.waited = 0

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.monitor!r}, patience={self.patience})"

    def check(self, known: Collection[str]) -> None:
        """Raise ValueError if the number will not be recorded."""
        if self.monitor not in known and not any(self.monitor.startswith(f"{name}/") for name in known):
            raise ValueError(
                f"{type(self).__name__}: monitor must be one of {', '.join(known)}, got {self.monitor!r}"
                f"{check.near(self.monitor, known)}"
            )

    def value(self, run: Run) -> float:
        """The watched number of the last epoch."""
        return float(run.record[check.choice(self.monitor, run.record, f"{type(self).__name__}: monitor")])

    def better(self, run: Run, value: float, than: float | None) -> bool:
        """Return True if `value` improves on `than` by more than `min_delta`. NaN never does."""
        sign = 1.0 if (self.mode or _mode(run, self.monitor)) == "max" else -1.0
        return not math.isnan(value) and (than is None or sign * (value - than) > self.min_delta)

    def state(self) -> Any:
        """The best value and the epochs since."""
        return {"best": self.best, "waited": self.waited}

    def restore(self, state: Any) -> None:
        """Continue the count."""
        self.best, self.waited = state["best"], state["waited"]


def _mode(run, name):
    """The way in which a number is better."""
    metric = run.model.metrics.get(name.removeprefix("validation/").split("/")[0])
    return "min" if metric is None else "max" if metric.greater_is_better else "min"


def monitored_names(run: Run) -> list[str]:
    """Names of the numbers that the epochs of a run record; metrics of several numbers have more, after a slash."""
    names = ["loss", *run.model.metrics]
    return names + [f"validation/{name}" for name in names] if run.validation is not None else names
