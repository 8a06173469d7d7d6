"""Base of callbacks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ... import check

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from ..loop import Run

__all__ = ["Callback", "Lambda"]


class Callback:
    """Base of callbacks: override the hooks that you need. Each gets the `Run`.

    A callback with step hooks makes the loop return to Python after every step; without any, epochs of arrays in memory
    run as one compiled loop.

    Hooks: ``run_begin``, ``epoch_begin``, ``step_begin``, ``step_end`` (``run.loss`` is that of the step), ``glance``,
    ``evaluation_begin``, ``evaluation_end``, ``epoch_end`` (``run.record`` has the numbers of the epoch), ``run_end``,
    which is called however the run ends.

    Examples
    --------
    >>> from triskele.core import train
    >>> class Print(train.Callback):
    ...     def epoch_end(self, run):
    ...         print(run.epoch, run.record["loss"])
    """

    hooks = (
        "run_begin",
        "epoch_begin",
        "step_begin",
        "step_end",
        "glance",
        "evaluation_begin",
        "evaluation_end",
        "epoch_end",
        "epoch_saved",
        "interrupted",
        "run_end",
    )

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def run_begin(self, run: Run) -> None:
        """Before the first epoch, or after a checkpoint was read."""

    def epoch_begin(self, run: Run) -> None:
        """Before an epoch; not when it is resumed in the middle."""

    def step_begin(self, run: Run) -> None:
        """Before a step."""

    def step_end(self, run: Run) -> None:
        """After a step."""

    def glance(self, run: Run) -> None:
        """In the middle of epochs, each after about 2 % more steps than before; loops stay compiled."""

    def evaluation_begin(self, run: Run) -> None:
        """Before the evaluation on the validation set."""

    def evaluation_end(self, run: Run) -> None:
        """After it; ``run.record`` has its numbers."""

    def epoch_end(self, run: Run) -> None:
        """After an epoch and its evaluation."""

    def epoch_saved(self, run: Run) -> None:
        """After all callbacks and reporters have seen the epoch: the place for what records their state."""

    def interrupted(self, run: Run) -> None:
        """After the step in which Ctrl-C or SIGTERM came, before `run_end`."""

    def run_end(self, run: Run) -> None:
        """After the run, however it ended."""

    def check(self, known: Collection[str]) -> None:
        """Raise an error if the run will not record what the callback needs; `known` are the names of its numbers."""

    @contextlib.contextmanager
    def opened(self, _run: Run) -> Iterator[None]:
        """Hold what has to be released at the end; resume the run if there is something to resume from."""
        yield

    def state(self) -> Any:
        """Tree of numbers and arrays that a checkpoint keeps; None if there is nothing to keep."""

    def restore(self, state: Any) -> None:
        """Take back what `state` returned."""


class Lambda(Callback):
    """Functions as hooks.

    Parameters
    ----------
    **hooks : callable
        Functions of the run by the name of a hook of `Callback`.

    Raises
    ------
    TypeError
        For a name that is no hook.

    Examples
    --------
    >>> from triskele.core import train
    >>> train.Lambda(epoch_end=lambda run: print(run.record["loss"]))
    Lambda(epoch_end)
    """

    def __init__(self, **hooks: Any):
        for name, f in hooks.items():
            check.choice(name, self.hooks, "Lambda: hooks", error=TypeError)
            check.kind(f, Callable, f"Lambda: {name}", "a function of the run")
        vars(self).update(hooks)

    def __repr__(self) -> str:
        return f"Lambda({', '.join(vars(self))})"
