"""Change the learning rates during training."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import check
from .callback import Callback
from .monitor import Monitor

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["ReduceLROnPlateau", "Schedule"]


class ReduceLROnPlateau(Monitor):
    """Multiply all learning rates by a factor when a number no longer improves.

    It works on top of schedules and groups: their rates are multiplied by ``run.rate_scale``, which this callback
    changes.

    Parameters
    ----------
    monitor : str, default "validation/loss"
    factor : float, default 0.1
        Above 0 and below 1.
    patience : int, default 10
        Epochs without improvement that are tolerated: with 0, the first one lowers the rates.
    min_delta : float, default 0
        An improvement is a change by more than this.
    cooldown : int, default 0
        Epochs after a reduction in which nothing is counted.
    min_scale : float, default 0
        The factor of all rates stays at least this.
    mode : {"min", "max"}, optional
        Which way is better. By default "min" for losses and errors, "max" for metrics that are better when greater.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.ReduceLROnPlateau("validation/loss", factor=0.5, patience=3)
    ReduceLROnPlateau('validation/loss', patience=3)
    """

    def __init__(
        self,
        monitor: str = "validation/loss",
        *,
        factor: float = 0.1,
        patience: int = 10,
        min_delta: float = 0.0,
        cooldown: int = 0,
        min_scale: float = 0.0,
        mode: str | None = None,
    ):
        super().__init__(monitor, patience, min_delta, mode)
        check.positive(factor, "ReduceLROnPlateau: factor")
        if factor >= 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be below 1, got {factor}")
        check.integer(cooldown, "ReduceLROnPlateau: cooldown", 0)
        check.number(min_scale, "ReduceLROnPlateau: min_scale", 0.0)
        self.factor, self.cooldown, self.min_scale = float(factor), int(cooldown), float(min_scale)
        self.resting = 0
        self._resumed = False

    def run_begin(self, _run: Run) -> None:
        """Begin a fresh count unless the run resumes."""
        if not self._resumed:
            self.best, self.waited, self.resting = None, 0, 0
        self._resumed = False

    def epoch_end(self, run: Run) -> None:
        """Count epochs without improvement."""
        value = self.value(run)
        if self.better(run, value, self.best):
            self.best, self.waited = value, 0
        elif not self.resting:
            self.waited += 1
        self.resting = max(self.resting - 1, 0)
        if self.waited > self.patience:
            run.rate_scale = max(run.rate_scale * self.factor, self.min_scale)
            self.waited, self.resting = 0, self.cooldown

    def state(self) -> Any:
        """The count."""
        return super().state() | {"resting": self.resting}

    def restore(self, state: Any) -> None:
        """Continue the count."""
        super().restore(state)
        self.resting, self._resumed = state["resting"], True


class Schedule(Callback):
    """Set the factor of all learning rates at the beginning of each epoch.

    Schedules of steps are the optimizer's: ``optim.SGD(optim.one_cycle(...))``.

    Parameters
    ----------
    factor : callable
        ``factor(epoch)`` of the number of complete epochs.

    Examples
    --------
    >>> from triskele.core import train
    >>> halved = train.Schedule(lambda epoch: 0.5 ** (epoch // 10))
    """

    def __init__(self, factor: Callable[[int], float]):
        self.factor = check.kind(factor, Callable, "Schedule: factor", "a function of the epoch")

    def epoch_begin(self, run: Run) -> None:
        """Set the factor."""
        value = float(self.factor(run.epoch))
        check.number(value, f"Schedule: the factor of epoch {run.epoch}", 0.0)
        run.rate_scale = value
