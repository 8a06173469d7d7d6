"""Compiled loops over the batches of a source in memory."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ..compile.jit import jit
from ..data.pipeline import InMemory, Source
from ..transforms.control.operators import fori_loop

__all__ = ["Epochs"]


class Epochs:
    """Training steps whose batches are gathered from a source in memory.

    It outlives a call of `fit`, so that the next one over the same source traces nothing; it holds the source weakly.
    """

    def __init__(
        self,
        advance: Callable[..., Any],  # advance(state, totals, batch) -> (state, totals, rest): one step
        source: Source,
        memory: InMemory,  # the arrays of `source`
    ):
        self.source, self.steps, self.step = weakref.ref(source), jit(self._steps), jit(self._step)
        self._advance, self._size = advance, memory.size

    def __repr__(self) -> str:
        return f"Epochs({self.source()!r})"

    def _step(self, state, totals, arrays, indices, epoch):
        """Do one step over the samples at `indices`."""
        source: Any = self.source()  # alive, for it is being read
        state, totals, _ = self._advance(state, totals, source.arrays_in_memory().make(arrays, indices, epoch))
        return state, totals

    def _steps(self, state, totals, arrays, order, epoch, start, stop):
        """Do the steps over the whole batches `start` to `stop`."""

        def body(k, carry):
            state, totals = carry
            return self._step(state, totals, arrays, order[k * self._size + np.arange(self._size)], epoch)

        return fori_loop(start, stop, body, (state, totals))
