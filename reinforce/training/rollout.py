"""Collection: some steps of all environments under a policy, by one compiled call where the environment is compiled."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele import core
from triskele.core.extend import Jitted, check

from ..errors import EnvError
from ..rules.program import Batch
from ..vector.failures import Raised

__all__ = ["Rollout"]


class Rollout:
    """Arrays for `length` steps of N environments, time first, and what fills them.

    ``act(model, x, noise, mask) -> (action, action as the environment takes it, log probability, value)`` is in NumPy,
    for observations x (N, ...) float32 and noise (N, k); `mask` is None or bool (N, actions). The same compiled program
    serves environments in machine code and in Python, so that both get the same numbers.
    """

    def __init__(self, env: Any, act: Callable, length: int):
        n, shape = env.num_envs, env.observation_space.shape
        self.env, self.length = env, length
        self._act = act if isinstance(act, Jitted) else core.jit(act)
        self._batch: Batch | None = None
        # the last row begins the next collection
        self.observations = np.zeros((length + 1, n, *shape), env.observation_space.dtype)
        self.log_probs = np.zeros((length, n), np.float32)
        self.values = np.zeros((length + 1, n), np.float32)
        self.rewards = np.zeros((length, n))
        self.terminated, self.truncated = np.zeros((length, n), bool), np.zeros((length, n), bool)
        space = env.action_space
        # as the policy draws them: numbered from 0, and along one axis
        axes = (math.prod(space.shape),) if space.shape else ()
        self.actions = np.zeros((length, n, *axes), np.float32 if hasattr(space, "low") else np.int64)
        self._compiled = env.step_kernel is not None
        self.masks: np.ndarray | None = None  # (length + 1, n, actions), if environments give info["action_mask"]
        self._has_begun = False
        if not self._compiled:
            self._begin()

    def _begin(self) -> None:
        """Start the first episodes, once. This compiles the environment."""
        if self._has_begun:
            return
        self._has_begun = True
        env, space, length = self.env, self.env.action_space, self.length
        observation, info = env.reset()
        self.observations[length] = self._checked(observation)
        if "action_mask" in info:
            if not hasattr(space, "n"):
                raise EnvError(f"{env}: an action mask belongs to discrete actions, got {space}")
            self.masks = np.zeros((length + 1, env.num_envs, space.n), bool)
            self.masks[length] = self._mask(info)

    @property
    def position(self) -> dict[str, np.ndarray]:
        """The start of the next collection, which a checkpoint stores next to the environment's state."""
        self._begin()
        found = {"observation": self.observations[-1].copy()}
        return found if self.masks is None else {**found, "mask": self.masks[-1].copy()}

    @position.setter
    def position(self, value: dict[str, np.ndarray]) -> None:
        self._has_begun = True
        self.observations[-1] = value["observation"]
        if "mask" in value:
            if self.masks is None:
                self.masks = np.zeros((len(self.observations), *np.shape(value["mask"])), bool)
            self.masks[-1] = value["mask"]

    def collect(self, model: Any, noise: np.ndarray) -> None:
        """Fill the arrays, continuing where the last collection ended; `noise` is (length + 1, N, k) float32."""
        self._begin()
        self.observations[0] = self.observations[-1]
        if self.masks is not None:
            self.masks[0] = self.masks[-1]
        if self._compiled:
            self._in_machine_code(model, noise)
        else:
            self._in_python(model, noise)

    def _in_machine_code(self, model, noise):
        from .rollout_kernel import ENV_FAILED, POLICY_FAILED, run_policy

        if not self.env.is_reset:
            raise EnvError(
                f"{self.env.name}: a rule of the environment has raised, the training cannot continue "
                f"(resume from a checkpoint, or make another agent)"
            )
        if self._batch is None:
            model = core.tree.map(_held, model)  # the program reads these from now on
            self._held = core.tree.leaves(model)
            inputs: list[tuple[Any, Any]] = [(self.observations.shape[2:], np.float32), (noise.shape[2:], np.float32)]
            inputs += [] if self.masks is None else [(self.masks.shape[2:], np.bool_)]
            self._batch = Batch(self._act, model, self.env.num_envs, *inputs)
        else:
            for held, now in zip(self._held, core.tree.leaves(model), strict=True):
                held[...] = now
        batch = self._batch
        (x, draws, *rest), (action, played, log_prob, value) = batch.inputs, batch.outputs
        rows, (steps, n) = len(x), self.rewards.shape
        allowed, masks = (
            (rest[0], self.masks) if rest else (np.empty((rows, 0), bool), np.empty((steps + 1, n, 0), bool))
        )
        with Raised() as raised:
            ended = run_policy(
                batch.calls,
                x.reshape(rows, -1),
                draws,
                allowed,
                action.reshape(rows, -1),
                played[:n],
                log_prob,
                value,
                *self.env.machine,
                noise,
                self.observations.reshape(steps + 1, n, -1),
                masks,
                self.actions.reshape(steps, n, -1),
                self.log_probs,
                self.values,
                self.rewards,
                self.terminated,
                self.truncated,
            )
        if ended == POLICY_FAILED:
            batch.failed()
        # else the log probabilities tell that the network has diverged
        if ended == ENV_FAILED and np.isfinite(played[:n]).all():
            self.env.failed(played[:n], raised.errors)
        if rest:
            self.env.check_masks(masks)

    def _in_python(self, model, noise):
        for t in range(self.length + 1):
            mask = None if self.masks is None else self.masks[t]
            action, played, log_prob, self.values[t] = self._act(model, self.observations[t], noise[t], mask)
            if t == self.length:
                break
            self.actions[t], self.log_probs[t] = action, log_prob
            observation, self.rewards[t], self.terminated[t], self.truncated[t], info = self.env.step(played)
            self.observations[t + 1] = self._checked(observation)
            if self.masks is not None:
                self.masks[t + 1] = self._mask(info)

    def _checked(self, observation):
        if np.shape(observation) != self.observations.shape[1:]:
            raise EnvError(
                f"{self.env}: observations must have shape {self.observations.shape[1:]}, got {np.shape(observation)}"
            )
        return observation

    def _mask(self, info):
        mask = np.asarray(info.get("action_mask"))
        shape = self.env.num_envs, self.env.action_space.n
        if mask.shape != shape:
            raise EnvError(
                f"{self.env}: info['action_mask'] must have shape {shape} after every step, got {mask.shape}"
            )
        mask = mask.astype(bool)
        if not mask.any(axis=-1).all():
            raise EnvError(
                f"{self.env}: info['action_mask'] must allow at least one action, got none in environment "
                f"{int(np.argmin(mask.any(axis=-1)))}"
            )
        return mask


def _held(leaf):
    """A copy of an array, into which the next ones are written.

    A number of Python has no place, nor a dtype to keep.
    """
    check.kind(
        leaf,
        (np.ndarray, np.generic),
        "Rollout.collect: the leaves of a model",
        "arrays",
        hint="np.float32(...) is one for a number",
    )
    return np.array(leaf, order="C")
