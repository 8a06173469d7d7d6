"""Find the operation that made the loss NaN."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...compile.jit import jit
from .callback import Callback

if TYPE_CHECKING:
    from ..loop import Run

__all__ = ["StopOnNaN"]


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
        try:
            jit(run.model.advance, debug=True)(state, run.inside, batch)
        except FloatingPointError as error:
            error.add_note(f"StopOnNaN: in {where}; the model keeps the parameters from before it")
            raise
        raise FloatingPointError(f"StopOnNaN: the loss must stay finite, got {float(run.loss)} in {where}; no "
                                 f"operation made it from finite numbers (look for NaN in the data or the parameters)")
