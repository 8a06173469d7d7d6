"""Prioritized replay, the proportional variant.

References
----------
Schaul, Quan, Antonoglou and Silver, "Prioritized experience replay", ICLR 2016. arXiv:1511.05952
"""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.extend import check, kernel

from ..errors import BufferError
from .n_step import Transitions, uniform
from .replay import ReplayBuffer
from .ring import RESTART
from .sum_tree import SumTree, find, put

__all__ = ["PrioritizedReplayBuffer"]


@kernel(nogil=True)
def draw_stratified(nodes, starts, slots, steps, envs, k0, k1, draw, beta, indices, weights):
    """One from each of as many ranges of equal weight (appendix B.2.1), and their importance weights by the largest
    (3.4).
    """
    rows, total = slots // envs, nodes[starts[-1]]
    smallest = np.inf
    for i in range(indices.size):
        slot = find(nodes, starts, (i + uniform(k0, k1, draw, i, 0)) * (total / indices.size))
        row, env = slot // envs, slot % envs
        step = steps - 1 - (steps - 1 - row) % rows  # the newest one in that row
        indices[i] = step * envs + env
        smallest = min(smallest, nodes[slot])
    for i in range(indices.size):
        slot = (indices[i] // envs % rows) * envs + indices[i] % envs
        weights[i] = (smallest / nodes[slot]) ** beta


@kernel(nogil=True)
def change(nodes, starts, slots, first, envs, indices, errors, alpha, epsilon, largest):
    """Priorities (3.3) of the transitions that are still there; returns the largest |error| + epsilon."""
    rows = slots // envs
    for i in range(indices.size):
        step = indices[i] // envs
        slot = (step % rows) * envs + indices[i] % envs
        priority = abs(np.float64(errors[i])) + epsilon
        largest = max(largest, priority)
        if step >= first and nodes[slot] > 0:
            put(nodes, starts, slot, priority**alpha)
    return largest


class PrioritizedReplayBuffer(ReplayBuffer):
    """The last transitions, drawn with probabilities proportional to ``(|error| + epsilon) ** alpha``.

    New ones get the largest priority so far, so that all are seen.

    Parameters
    ----------
    capacity, observation_space, action_space, num_envs, n_step, discount, seed
        As for `ReplayBuffer`.
    alpha : float
        0: uniform; 1: proportional to the error.
    epsilon : float
        Positive: keeps those without error.

    Raises
    ------
    BufferError
        As there, and if `alpha` or `epsilon` is out of range.

    References
    ----------
    Schaul, Quan, Antonoglou and Silver, "Prioritized experience replay", ICLR 2016, section 3.3, with alpha = 0.6 as in
    its table 3. arXiv:1511.05952

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> buffer = rl.PrioritizedReplayBuffer(100, ((), np.float32), ((), np.int64), alpha=1.0)
    >>> for t in range(3):
    ...     buffer.add([t], [0], [0.0], [False], [False], [t + 1])
    >>> buffer.update_priorities(np.arange(3), np.array([0.0, 0.0, 5.0]))
    >>> buffer.sample(3, beta=1.0).indices
    array([2, 2, 2])
    """

    def __init__(
        self,
        capacity: int,
        observation_space: Any,
        action_space: Any,
        *,
        num_envs: int = 1,
        n_step: int = 1,
        discount: float = 0.99,
        alpha: float = 0.6,
        epsilon: float = 1e-6,
        seed: int = 0,
    ):
        super().__init__(
            capacity, observation_space, action_space, num_envs=num_envs, n_step=n_step, discount=discount, seed=seed
        )
        self.alpha = check.number(alpha, f"{self.name}: alpha", 0, 1, error=BufferError)
        self.epsilon = check.positive(epsilon, f"{self.name}: epsilon", error=BufferError)
        self._tree = SumTree(self.rows * self.num_envs)
        self._largest = 1.0

    @property
    def nbytes(self) -> int:
        """Memory of the whole buffer in bytes, allocated at once on creation."""
        return super().nbytes + SumTree.bytes_for(self.rows * self.num_envs)

    @property
    def priorities(self) -> np.ndarray:
        """[rows, num_envs], to the power alpha; 0 for what cannot be drawn. A copy."""
        return self._tree.weights.reshape(self.rows, self.num_envs).copy()

    def _advance(self, count):
        written = np.arange(self.steps, self.steps + count + 1) % self.rows  # the last one waits for its actions
        super()._advance(count)
        weights = self._tree.weights.reshape(self.rows, self.num_envs)
        weights[written[:-1]] = np.where(self.flags[written[:-1]] & RESTART, 0.0, self._largest**self.alpha)
        weights[written[-1]] = 0
        for part in np.split(written, np.flatnonzero(np.diff(written) != 1) + 1):
            self._tree.update(part[0] * self.num_envs, (part[-1] + 1) * self.num_envs)

    def sample(self, batch_size: int, beta: float = 0.4) -> Transitions:
        """Draw transitions.

        Parameters
        ----------
        batch_size : int
        beta : float
            Exponent of the importance weights: 0 leaves the bias of the priorities, 1 corrects it fully.

        Returns
        -------
        Transitions
            With weights whose largest is 1.

        Raises
        ------
        BufferError
            If the buffer holds fewer than that, or `beta` is not in [0, 1].
        """
        indices = np.empty(self._checked_size(f"{self.name}.sample", batch_size), np.int64)
        check.number(beta, f"{self.name}.sample: beta", 0, 1, error=BufferError)
        weights = np.empty(len(indices), np.float32)
        tree = self._tree
        draw_stratified(
            tree.nodes,
            tree.starts,
            tree.size,
            self.steps,
            self.num_envs,
            *self._key(),
            self.draws,
            float(beta),
            indices,
            weights,
        )
        self.draws += 1
        return self._gather(indices, weights)

    def update_priorities(self, indices: np.ndarray, errors: Any) -> None:
        """New priorities of transitions that were drawn; those that have gone since are passed over.

        Parameters
        ----------
        indices : (batch,) int64
            As `Transitions` has them.
        errors : (batch,) array
            Temporal-difference errors, of any sign.

        Raises
        ------
        BufferError
            If shapes differ, an index was never drawn, or an error is not finite.
        """
        where = f"{self.name}.update_priorities"
        indices, errors = np.ascontiguousarray(indices), np.ascontiguousarray(errors, np.float64)
        if indices.ndim != 1 or indices.dtype != np.int64 or errors.shape != indices.shape:
            raise BufferError(
                f"{where}: indices must be int64, [batch], and errors as many, got {indices.dtype} "
                f"{indices.shape} and {errors.shape}"
            )
        if not np.isfinite(errors).all():
            k = int(np.argmin(np.isfinite(errors)))
            raise BufferError(f"{where}: errors must be finite, got {errors[k]} for index {indices[k]}")
        if indices.size and not (indices.min() >= 0 and indices.max() < self.steps * self.num_envs):
            raise BufferError(
                f"{where}: indices must be between 0 and {self.steps * self.num_envs - 1}, got "
                f"{indices.min()} to {indices.max()}"
            )
        tree = self._tree
        self._largest = change(
            tree.nodes,
            tree.starts,
            tree.size,
            self.first,
            self.num_envs,
            indices,
            errors,
            self.alpha,
            self.epsilon,
            self._largest,
        )

    def _save(self):
        return {
            **super()._save(),
            "largest": self._largest,
            "priorities": self.priorities[: min(self.steps + 1, self.rows)],
        }

    def _restore(self, state):
        super()._restore(state)
        used = min(self.steps + 1, self.rows)
        weights = self._tree.weights.reshape(self.rows, self.num_envs)
        weights[:used], weights[used:] = state["priorities"], 0
        self._tree.update()
        self._largest = float(state["largest"])
