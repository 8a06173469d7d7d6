"""Sharing of one n_k between walkers of SITS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..run.checkpoint_file import below, nested
from .ladder_weights import LadderWeights, Online

__all__ = ["Sharing"]


class Sharing:
    """State that all walkers share, and energies that wait for a complete block.

    All walkers feed the same news in the same order into the same estimator, and so agree bit for bit. At first they
    take over what walker 0 knows.
    """

    def __init__(self, learner: LadderWeights, state: dict[str, Any] | None = None):  # state: of a checkpoint
        self._learner = learner
        self._common: dict[str, np.ndarray] | None = None
        # that wait, and what they were drawn with
        self._energies, self._rows = np.zeros(0), np.zeros((0, len(learner.log_n)))
        if state is not None and "energies" in state:
            self._energies, self._rows = state["energies"], state["rows"]
            self._common = below("common/", state) or None

    def state(self) -> dict[str, np.ndarray]:
        """Return the shared state, as arrays that do not change later."""
        return {"energies": self._energies, "rows": self._rows, **nested("common/", self._common or {})}

    def learn(self, news: Sequence[dict[str, np.ndarray]], block: int) -> bool:
        """Take in the news of all walkers; whether n_k may have changed."""
        states = [below("estimator/", walker) for walker in news]
        first = self._common is None
        if self._common is None:
            self._common = states[0]
        started = bool(news[0]["started"])
        if isinstance(self._learner, Online) and started and not first:
            self._learner.restore(self._learner.merge(self._common, states))
        else:
            self._learner.restore(self._common)
        self._energies = np.concatenate([self._energies, *[walker["energies"] for walker in news]])
        self._rows = np.concatenate([self._rows, *[walker["log_n"][walker["epochs"]] for walker in news]])
        enough = len(self._energies) >= block
        if enough:
            kinds, kind = np.unique(self._rows, axis=0, return_inverse=True, equal_nan=True)
            for k, row in enumerate(kinds):
                self._learner.add(self._energies[kind.ravel() == k], None if np.isnan(row[0]) else row)
            self._learner.update()
            self._energies, self._rows = np.zeros(0), self._rows[:0]
        self._common = self._learner.state()
        return enough or started
