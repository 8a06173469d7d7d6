"""Find the operation that made the loss NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compile.jit import jit
from .callback import Callback

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["StopOnNaN", "made_by"]


def made_by(f: Callable[..., Any], *args: Any) -> FloatingPointError | None:
    """The error that names the operation and line by which `f` makes NaN or infinity of finite numbers, if one does."""
    try:
        jit(f, debug=True)(*args)
    except FloatingPointError as error:
        return error
    return None


class StopOnNaN(Callback):
    """Raise an error at the first step whose loss is NaN or infinite, and name the operation and line that made it.

    The step is run again, operation by operation. The model keeps the parameters from before that step. Watching every
    step, it makes the loop return to Python after each.

    Raises
    ------
    FloatingPointError
        During training, with the operation, the source line, epoch and step.

    Examples
    --------
    >>> from triskele.core import train
    >>> callbacks = [train.StopOnNaN()]
    """

    def step_end(self, run: Run) -> None:
        """Look at the loss of the step."""
        if np.isfinite(run.loss):
            return
        state, batch = run.previous
        run.state = state
        where = f"epoch {run.epoch + 1}, step {int(state.count) + 1}"
        culprit = made_by(run.model.advance, state, run.inside, batch)
        if culprit is not None:
            culprit.add_note(f"StopOnNaN: in {where}; the model keeps the parameters from before it")
            raise culprit
        raise FloatingPointError(
            f"StopOnNaN: the loss must stay finite, got {float(run.loss)} in {where}; no "
            f"operation made it from finite numbers (look for NaN in the data or the parameters)"
        )
