"""The last steps of vectorized environments, as a ring of rows.

Row r holds the observations of all environments before a step, their actions, rewards and how it ended; the
observations after it are those of the next row, so that each is kept once. The newest row has only observations.
Environments restart in the step after an end, as Gymnasium's NEXT_STEP mode has it: the row after an end holds the last
observation of the old episode and leads to the first one of the new; it is marked as a restart, not a transition.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import BufferError

__all__ = ["RESTART", "TERMINATED", "TRUNCATED", "Ring"]

TERMINATED, TRUNCATED, RESTART = 1, 2, 4  # bits of `flags`
_ENDED = TERMINATED | TRUNCATED


class Ring:
    """Base of buffers: storage, what is added to it, and its exact state.

    `ReplayBuffer` says what the parameters are.
    """

    def __init__(
        self,
        capacity: int,
        observation_space: Any,
        action_space: Any,
        *,
        num_envs: int = 1,
        seed: int = 0,
        extras: dict[str, Any] | None = None,
    ):
        self.name = type(self).__name__
        self.num_envs = check.integer(num_envs, f"{self.name}: num_envs", 1, error=BufferError)
        self.capacity = check.integer(capacity, f"{self.name}: capacity", 1, error=BufferError)
        self.rows = -(-self.capacity // self.num_envs) + 1
        self.seed = operator.index(seed) % 2**64
        self.observation = _array_of(self.name, "observation_space", observation_space)
        self.action = _array_of(self.name, "action_space", action_space)
        first = int(getattr(action_space, "start", 0))
        # actions of a Discrete space, end excluded
        self._choices = (first, first + int(action_space.n)) if hasattr(action_space, "n") else None
        self.extra = {k: _array_of(self.name, f"extras[{k!r}]", s) for k, s in (extras or {}).items()}
        self._refuse_too_much()

        def storage(kind):
            return np.zeros((self.rows, self.num_envs, *kind[0]), kind[1])

        self.observations, self.actions = storage(self.observation), storage(self.action)
        self.rewards, self.flags = storage(((), np.float32)), storage(((), np.uint8))
        self.extras = {k: storage(kind) for k, kind in self.extra.items()}
        self.steps = 0  # rows ever completed; row `steps % rows` waits for its actions
        self.draws = 0  # samples ever drawn
        self._counts = np.zeros(self.rows, np.int64)  # transitions in each row that is kept
        self._transitions = 0
        self._started = False

    # -- memory --------------------------------------------------------------------------------------------------------

    @property
    def nbytes(self) -> int:
        """Memory of the whole buffer in bytes, allocated at once on creation."""
        kinds = [self.observation, self.action, *self.extra.values()]
        per_step = sum(int(np.prod(shape)) * dtype.itemsize for shape, dtype in kinds) + 5  # reward and flags
        return self.rows * self.num_envs * per_step

    def _refuse_too_much(self):
        try:
            have = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (AttributeError, ValueError, OSError):  # no POSIX: let the allocation fail
            return
        if self.nbytes > have:
            raise BufferError(
                f"{self.name}: capacity must fit into memory, got {self.capacity} transitions, "
                f"{self.nbytes / 2**30:.1f} of {have / 2**30:.1f} GiB"
            )

    def __len__(self) -> int:
        """Transitions that can be drawn."""
        return self._transitions

    def __repr__(self) -> str:
        return (
            f"<{self.name}: {len(self)} of {self.capacity} transitions, {self.num_envs} "
            f"environment{'s' * (self.num_envs > 1)}, {self.nbytes / 2**20:.1f} MiB>"
        )

    @property
    def first(self) -> int:
        """The oldest step that is kept whole. Steps count from 0; step s is in row ``s % rows``."""
        return max(0, self.steps - self.rows + 1)

    # -- adding --------------------------------------------------------------------------------------------------------

    def add(
        self,
        observations: Any,
        actions: Any,
        rewards: Any,
        terminated: Any,
        truncated: Any,
        next_observations: Any,
        **extras: Any,
    ) -> None:
        """Add one step of all environments.

        Parameters
        ----------
        observations, next_observations : (num_envs, ...) array
            Before and after the step. The former are the latter of the step before, after an end too: the environments
            restart in the step after it.
        actions : (num_envs, ...) array
        rewards : (num_envs,) array
        terminated, truncated : (num_envs,) bool
        **extras : (num_envs, ...) array
            The further arrays that the buffer was made with.

        Raises
        ------
        BufferError
            If shapes or dtypes are not the spaces', something is not finite, or `observations` do not continue from the
            step before; the buffer is then as it was.
        """
        where = f"{self.name}.add"
        both = [
            self._fit(where, k, np.asarray(x)[None], 1, self.observation)
            for k, x in (("observations", observations), ("next_observations", next_observations))
        ]
        a, r, t, u = (np.asarray(x)[None] for x in (actions, rewards, terminated, truncated))
        self._extend(where, np.concatenate(both), a, r, t, u, {k: np.asarray(x)[None] for k, x in extras.items()})

    def extend(
        self, observations: Any, actions: Any, rewards: Any, terminated: Any, truncated: Any, **extras: Any
    ) -> None:
        """Add several steps of all environments.

        Parameters
        ----------
        observations : (T + 1, num_envs, ...) array
            Before each step, and after the last.
        actions : (T, num_envs, ...) array
        rewards : (T, num_envs) array
        terminated, truncated : (T, num_envs) bool
        **extras : (T, num_envs, ...) array

        Raises
        ------
        BufferError
            As for `add`, and if the buffer is too small for that many at once.
        """
        self._extend(f"{self.name}.extend", observations, actions, rewards, terminated, truncated, extras)

    def _extend(self, where, observations, actions, rewards, terminated, truncated, extras):
        count = np.shape(rewards)[0] if np.ndim(rewards) else 0
        if not 1 <= count < self.rows:
            raise BufferError(
                f"{where}: there must be 1 to {self.rows - 1} steps of {self.num_envs} environments at "
                f"once, got {count}"
            )
        observations = self._fit(where, "observations", observations, count + 1, self.observation)
        actions = self._fit(where, "actions", actions, count, self.action)
        rewards = self._fit(where, "rewards", rewards, count, ((), self.rewards.dtype))
        terminated = self._fit(where, "terminated", terminated, count, ((), np.dtype(bool)))
        truncated = self._fit(where, "truncated", truncated, count, ((), np.dtype(bool)))
        if extras.keys() != self.extra.keys():
            raise BufferError(f"{where}: extras must be {sorted(self.extra)}, got {sorted(extras)}")
        extras = {k: self._fit(where, k, x, count, self.extra[k]) for k, x in extras.items()}
        for name, x in (("rewards", rewards), ("observations", observations), ("actions", actions)):
            self._check_finite(where, name, x)
        if self._choices is not None and not (self._choices[0] <= actions.min() and actions.max() < self._choices[1]):
            low, high = self._choices
            bad = actions[(actions < low) | (actions >= high)][0]
            raise BufferError(f"{where}: actions must be {low} to {high - 1}, got {bad}")
        if self._started:
            self._check_continues(where, observations[0])
        flags = terminated * np.uint8(TERMINATED) | truncated * np.uint8(TRUNCATED)
        before = self.flags[(self.steps - 1) % self.rows]
        for now in flags:
            now[(before & _ENDED) != 0] = RESTART
            before = now
        at = np.arange(self.steps, self.steps + count) % self.rows
        self.observations[at], self.actions[at], self.rewards[at], self.flags[at] = (
            observations[:-1],
            actions,
            rewards,
            flags,
        )
        self.observations[(self.steps + count) % self.rows] = observations[-1]
        for k, x in extras.items():
            self.extras[k][at] = x
        self._advance(count)

    def interrupt(self) -> None:
        """Say that the environments were reset at another time than after an end: what ran is cut off (truncated), and
        the next `add` may begin anywhere.
        """
        self._started, before = False, self._started
        if not self.steps:
            self.flags[-1] = 0
        if not self.steps or not before:
            return
        last, row = self.flags[(self.steps - 1) % self.rows], self.steps % self.rows
        last[last == 0] = TRUNCATED
        self.flags[row], self.actions[row], self.rewards[row] = RESTART, 0, 0
        self._advance(1)
        self._started = False

    def _advance(self, count):
        """Count rows that have been written."""
        rows = np.arange(self.steps, self.steps + count) % self.rows
        waiting = (self.steps + count) % self.rows
        gone = self._counts[rows].sum() + self._counts[waiting]
        self._counts[rows] = self.num_envs - np.count_nonzero(self.flags[rows] & RESTART, axis=1)
        self._counts[waiting] = 0
        self._transitions += int(self._counts[rows].sum() - gone)
        self.steps += count
        self._started = True

    def _fit(self, where, what, x, count, kind):
        x, shape = np.asarray(x), (count, self.num_envs, *kind[0])
        if x.shape != shape:
            shown = slice(where.endswith(".add"), None)  # one step has no axis of time
            raise BufferError(f"{where}: {what} must have shape {shape[shown]}, got {x.shape[shown]}")
        if x.dtype != kind[1] and not np.can_cast(x.dtype, kind[1], "same_kind"):
            raise BufferError(f"{where}: {what} must be {kind[1]}, got {x.dtype}")
        return np.ascontiguousarray(x, kind[1])

    def _check_finite(self, where, what, x):
        if x.dtype.kind == "f" and not np.isfinite(x).all():
            t, env, *rest = np.argwhere(~np.isfinite(x))[0]
            raise BufferError(
                f"{where}: {what} must be finite, got {x[t, env, *rest]} in environment {env} at step {self.steps + t}"
            )

    def _check_continues(self, where, observations):
        waiting = self.observations[self.steps % self.rows]
        if observations.tobytes() != waiting.tobytes():
            env = next(e for e in range(self.num_envs) if observations[e].tobytes() != waiting[e].tobytes())
            raise BufferError(
                f"{where}: observations must be those that the step before has led to, got others in "
                f"environment {env} (environments "
                "restart in the step after an end, as in Gymnasium's NEXT_STEP mode; call `interrupt` "
                "after a reset at another time)"
            )

    # -- what is drawn -------------------------------------------------------------------------------------------------

    def _checked_size(self, where, batch_size):
        batch_size = check.integer(batch_size, f"{where}: batch_size", 1, error=BufferError)
        if batch_size > len(self):
            raise BufferError(
                f"{where}: the buffer must hold at least batch_size = {batch_size} transitions, got {len(self)}"
            )
        return batch_size

    def _key(self):
        return np.uint32(self.seed & 0xFFFFFFFF), np.uint32(self.seed >> 32)

    def _bytes(self, storage):
        """[rows, num_envs, bytes]: kernels copy bytes, so that one serves all dtypes."""
        return storage.reshape(self.rows, self.num_envs, -1).view(np.uint8)

    # -- state ---------------------------------------------------------------------------------------------------------

    @property
    def state(self) -> dict[str, Any]:
        """Everything that later samples depend on, the random stream too, as a tree for `core.save`: a copy."""
        return self._save()

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        self._restore(state)

    def _save(self):
        used = min(self.steps + 1, self.rows)
        arrays = {"observations": self.observations, "actions": self.actions, "rewards": self.rewards}
        return {
            "steps": self.steps,
            "draws": self.draws,
            "seed": np.uint64(self.seed),
            "started": self._started,
            "shape": np.array([self.rows, self.num_envs]),
            "flags": self.flags.copy(),
            "arrays": {k: x[:used].copy() for k, x in arrays.items()},
            "extras": {k: x[:used].copy() for k, x in self.extras.items()},
        }

    def _restore(self, state):
        if not isinstance(state, Mapping) or not state.keys() >= {"shape", "steps", "flags", "arrays", "extras"}:
            raise BufferError(f"{self.name}.state: must be what `state` of such a buffer gave, got {state!r:.80}")
        shape, used = tuple(int(n) for n in state["shape"]), min(int(state["steps"]) + 1, self.rows)
        if shape != (self.rows, self.num_envs) or state["flags"].shape != shape:
            raise BufferError(
                f"{self.name}.state: rows and environments must be {(self.rows, self.num_envs)}, got "
                f"{shape} (made with another capacity?)"
            )
        targets = {**{k: getattr(self, k) for k in state["arrays"]}, **self.extras}
        sources = {**state["arrays"], **state["extras"]}
        for k, x in targets.items():
            if k not in sources or sources[k].shape != (used, *x.shape[1:]) or sources[k].dtype != x.dtype:
                raise BufferError(
                    f"{self.name}.state: {k} must be {x.dtype} of shape {(used, *x.shape[1:])}, got "
                    f"{getattr(sources.get(k), 'dtype', None)} {getattr(sources.get(k), 'shape', ())}"
                )
        for k, x in targets.items():
            x[:used] = sources[k]
        self.flags[:] = state["flags"]
        self.steps, self.draws, self.seed, self._started = (
            int(state["steps"]),
            int(state["draws"]),
            int(state["seed"]),
            bool(state["started"]),
        )
        self._counts[:] = 0
        for row in (s % self.rows for s in range(self.first, self.steps)):
            self._counts[row] = self.num_envs - np.count_nonzero(self.flags[row] & RESTART)
        self._transitions = int(self._counts.sum())


def _array_of(where, what, space):
    """(shape, dtype) of a space, or of a pair of them."""
    pair = (
        space
        if isinstance(space, tuple) and len(space) == 2
        else (getattr(space, "shape", None), getattr(space, "dtype", None))
    )
    if pair[0] is None or pair[1] is None:
        raise BufferError(
            f"{where}: {what} must be a space of arrays (with shape and dtype), or a pair of shape and "
            f"dtype, got {space!r:.80}"
        )
    dtype = np.dtype(pair[1])
    if dtype.hasobject:
        raise BufferError(f"{where}: {what} must have a dtype of fixed size, got {dtype}")
    return tuple(int(n) for n in pair[0]), dtype
