"""End the training when a number no longer improves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import tree
from .monitor import Monitor

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["EarlyStopping"]


class EarlyStopping(Monitor):
    """End the training when a number no longer improves, and bring back the best parameters (Prechelt 1998).

    Parameters
    ----------
    monitor : str, default "validation/loss"
    patience : int, default 10
        Epochs without improvement that are tolerated: with 0, the first epoch without improvement is the last one.
    min_delta : float, default 0
        An improvement is a change by more than this.
    baseline : float, optional
        The first improvement must be on this value.
    mode : {"min", "max"}, optional
        Which way is better. By default "min" for losses and errors, "max" for metrics that are better when greater.
    restore_best : bool, default True
        Bring back the parameters of the best epoch, however the training ended.

    Attributes
    ----------
    best : float or None
        The best value.
    best_epoch : int or None
        Its epoch, counted from 1.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.EarlyStopping("validation/accuracy", patience=5)
    EarlyStopping('validation/accuracy', patience=5)
    """

    def __init__(
        self,
        monitor: str = "validation/loss",
        *,
        patience: int = 10,
        min_delta: float = 0.0,
        baseline: float | None = None,
        mode: str | None = None,
        restore_best: bool = True,
    ):
        super().__init__(monitor, patience, min_delta, mode)
        self.baseline, self.restore_best = baseline, restore_best
        self.best_epoch: int | None = None
        self._parameters: Any = None

    def epoch_end(self, run: Run) -> None:
        """Count epochs without improvement."""
        value = self.value(run)
        if self.better(run, value, self.baseline if self.best is None else self.best):
            self.best, self.best_epoch, self.waited = value, run.epoch, 0
            if self.restore_best:
                self._parameters = run.state.params, run.state.rest, run.state.average
            return
        self.waited += 1
        self._decide(run)

    def _decide(self, run):
        if self.waited > self.patience:
            best = "never improved" if self.best is None else f"{self.best:.6g} in epoch {self.best_epoch} was the best"
            run.stop(f"{self.monitor}: {best}")

    def run_end(self, run: Run) -> None:
        """Bring back the best parameters."""
        if self._parameters is not None:
            params, rest, average = self._parameters
            run.state = run.state._replace(params=params, rest=rest, average=average)

    def state(self) -> Any:
        """The count, and the best parameters."""
        return super().state() | {"best_epoch": self.best_epoch, "parameters": tree.leaves(self._parameters)}

    def restore(self, state: Any) -> None:
        """Continue the count."""
        super().restore(state)
        self.best_epoch, self._restored = state["best_epoch"], state["parameters"]

    def run_begin(self, run: Run) -> None:
        """Begin anew, or put restored parameters into the form of the network."""
        restored, self._restored = self._restored, None
        if restored is None:
            self.best, self.best_epoch, self.waited, self._parameters = None, None, 0, None
        elif restored:
            like = tree.structure((run.state.params, run.state.rest, run.state.average))
            self._parameters = tree.unflatten(like, restored)
        if restored is not None:  # a run that had ended here does not train on
            self._decide(run)

    _restored: Any = None
