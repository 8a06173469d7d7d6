"""Environments of Gymnasium as vector environments, and our environments registered with Gymnasium."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..errors import EnvError
from ..gymnasium_spaces import actions_of, flattened, observations_of
from ..spaces import Box

__all__ = ["GymnasiumVectorEnv", "make", "register_gymnasium"]

_CLASSES = "triskele.reinforce.vector.gymnasium_classes"


def register_gymnasium() -> list[str]:
    """Register our environments with Gymnasium, as ``triskele/CartPole-v1`` and so on, for its `make` and `make_vec`.

    Returns
    -------
    list of str
        The names.

    Raises
    ------
    ImportError
        If Gymnasium is not installed.

    Examples
    --------
    >>> import gymnasium
    >>> from triskele import reinforce as rl
    >>> names = rl.register_gymnasium()
    >>> gymnasium.make_vec("triskele/CartPole-v1", num_envs=4).reset(seed=0)[0].shape
    (4, 4)
    """
    gymnasium = optional.need("gymnasium", "register_gymnasium", "rl")
    from ..envs import registry

    names = []
    for ours, create in registry().items():
        name = f"triskele/{ours.rsplit('/', 1)[-1]}"
        if name not in gymnasium.registry:
            gymnasium.register(
                name,
                f"{_CLASSES}:SingleEnv",
                max_episode_steps=create().max_steps,
                vector_entry_point=f"{_CLASSES}:ManyEnvs",
                kwargs={"name": ours},
            )
        names.append(name)
    return names


def make(
    env: str | Callable,
    num_envs: int,
    seed: int | None,
    max_episode_steps: int | None,
    options: dict[str, Any],
    ours: Sequence[str],
) -> GymnasiumVectorEnv:
    """Return the vector environment of `triskele.reinforce.make` for environments other than ours."""
    from .env import integer

    if isinstance(env, GymnasiumVectorEnv):
        env, max_episode_steps, options = (
            env.given,
            env.max_episode_steps if max_episode_steps is None else max_episode_steps,
            {**env.options, **options},
        )
    if hasattr(env, "unwrapped") and not isinstance(env, type):
        raise EnvError(
            f"make: env must be a function that makes environments (lambda: gymnasium.make(...)), since "
            f"there may be several, got {env!r:.80}"
        )
    check.kind(
        env,
        (str, Callable),
        "make: env",
        "a name, an Environment or a function that makes an environment",
        error=EnvError,
    )
    if isinstance(env, str):
        try:
            gymnasium = optional.need("gymnasium", f"make: {env!r}, which is none of ours{check.near(env, ours)}", "rl")
        except ImportError:
            if check.near(env, ours):  # a slip of the pen is more likely than a missing package
                raise EnvError(f"make: there is no environment {env!r}{check.near(env, ours)}") from None
            raise
        if ":" not in env and env not in gymnasium.registry:
            raise EnvError(
                f"make: there is no environment {env!r}, neither here nor in "
                f"Gymnasium{check.near(env, [*ours, *gymnasium.registry])}"
            )
    workers = integer("make: workers", options.get("workers", 1), 1)
    used = min(workers, integer("make: num_envs", num_envs, 1))
    options = {name: option for name, option in options.items() if name != "workers"}
    made: GymnasiumVectorEnv
    if used > 1:
        from .gymnasium_workers import WorkerVectorEnv

        made = WorkerVectorEnv(env, num_envs, seed, max_episode_steps, options, used)
    else:
        made = GymnasiumVectorEnv(env, num_envs, seed, max_episode_steps, options)
    made.options = {**options, "workers": workers}  # of more copies, if an agent makes them of this
    return made


class GymnasiumVectorEnv:
    """Environments of Gymnasium, by name or by a function that makes one, with the methods of `VectorEnv`; there is
    nothing in it for compiled code. `options` are for `gymnasium.make_vec`; spaces are those of one copy.

    Observations become arrays of float32, or stay uint8 (see `gymnasium_spaces`). A checkpoint holds the environments
    whose state is plain to see: numbers, arrays and generators of NumPy, as attributes of environments, wrappers and
    what they are made of. Others, as those with a simulator in C, begin new episodes there.
    """

    step_kernel = None
    first = 0  # number of the first copy among those of all workers

    def __init__(
        self,
        env: str | Callable,
        num_envs: int,
        seed: int | None,
        max_episode_steps: int | None,
        options: dict[str, Any],
    ):
        from .env import integer

        gymnasium = optional.need("gymnasium", "an environment of Gymnasium", "rl")
        self.name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
        self.given, self.options, self.max_episode_steps = env, dict(options), max_episode_steps
        self.num_envs = integer(f"{self.name}: num_envs", num_envs, 1)
        self._seed = None if seed is None else integer(f"{self.name}: seed", seed, 0)
        if max_episode_steps is not None:
            limit = integer(f"{self.name}: max_episode_steps", max_episode_steps, 0) or -1  # -1: none, for Gymnasium
        if isinstance(env, str):
            options = options if max_episode_steps is None else {"max_episode_steps": limit, **options}
            self.env = gymnasium.make_vec(env, num_envs=num_envs, **options)
            if self.env.metadata.get("autoreset_mode") != gymnasium.vector.AutoresetMode.NEXT_STEP:
                self.env.close()
                self.env = gymnasium.make_vec(env, num_envs=num_envs, vectorization_mode="sync", **options)
        else:
            if options or max_episode_steps is not None:
                raise EnvError(
                    f"make: options go with a name, got a function and {', '.join(options) or 'max_episode_steps'}"
                )
            first = check.kind(
                env(), gymnasium.Env, "make: what the function makes", "an environment of Gymnasium", error=EnvError
            )
            made = iter([first])
            self.env = gymnasium.vector.SyncVectorEnv([lambda: next(made, None) or env()] * num_envs)
        self.their_space = self.env.single_observation_space
        self.observation_space, self._observed = observations_of(self.name, self.their_space)
        self.action_space = actions_of(self.name, self.env.single_action_space)
        self._is_reset, self._steps = False, 0
        self._seeded: int | None = None  # the seed of the last reset that had one

    def _failure(self, what, error):
        """An EnvError that says in which copy this exception was raised, and when."""
        self._is_reset = False  # some copies were stepped, and others were not
        where, trace = "", error.__traceback__
        while trace is not None:  # Gymnasium goes through the copies in a loop
            space = trace.tb_frame.f_locals
            if space.get("self") is self.env and isinstance(space.get("i"), int):
                seed = "" if self._seeded is None else f" (seed {self._seeded + space['i']})"
                where = f", in environment {self.first + space['i']}{seed}"
            trace = trace.tb_next
        return EnvError(
            f"{self.name}: {what} raised {type(error).__name__}: {error}{where} after {self._steps} steps (call reset)"
        )

    def reset(self, *, seed: int | None = None, options: Mapping | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode in every copy; the arguments go to Gymnasium. See `VectorEnv.reset`."""
        seed, self._seed = (self._seed if seed is None else seed), None
        self._seeded, self._steps = (self._seeded if seed is None else seed), 0
        try:
            observation, info = self.env.reset(seed=seed, options=options)
        except Exception as error:
            raise self._failure("reset", error) from error
        self._is_reset = True
        return self._observed(observation), info

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Step every copy. See `VectorEnv.step`; `info` is Gymnasium's."""
        space: Any = self.env.single_action_space
        given = self._checked(actions)
        actions = given.astype(space.dtype, copy=False)
        if isinstance(self.action_space, Box) and actions.dtype != given.dtype:  # bounds may have been rounded outwards
            inside = (given >= self.action_space.low) & (given <= self.action_space.high)
            actions = np.where(inside, np.clip(actions, space.low, space.high), actions)
        try:
            observation, reward, terminated, truncated, info = self.env.step(actions)
        except Exception as error:
            raise self._failure("step", error) from error
        self._steps += 1
        return self._observed(observation), np.asarray(reward, np.float64), terminated, truncated, info

    def _checked(self, actions):
        """Return the actions of all copies as an array; EnvError if one is out of range."""
        from .env import check_actions, refuse_actions

        if not self._is_reset:
            raise EnvError(f"{self.name}: call reset before step")
        actions = check_actions(self.name, self.action_space, self.num_envs, actions)
        refuse_actions(self.name, self.action_space, actions)
        return actions

    def flat(self, observation: Any) -> Any:
        """Return Gymnasium's observations, one or a batch, as agents see them, and flattened ones as they are."""
        return flattened(self.name, self.their_space, observation)

    @property
    def state(self) -> Any:
        """Everything that the next steps depend on, as a tree of arrays and numbers; setting it goes back there.

        EnvError: it is not known.
        """
        from .object_state import UnknownState, read

        if not self._is_reset:
            raise EnvError(f"{self.name}: call reset before asking for its state")
        try:
            return read(self.env, "env")
        except UnknownState as unknown:
            raise EnvError(
                f"{self.name}: its state is not known, so that no checkpoint can hold it ({unknown})"
            ) from None

    @state.setter
    def state(self, value: Any) -> None:
        from .object_state import UnknownState, write

        if not isinstance(value, Mapping) or "object" not in value:
            raise EnvError(f"{self.name}: state must be what `state` of such an environment gave, got {value!r:.80}")
        try:
            self._seed = None
            self.env.reset()  # makes what a first episode makes
            write(value, self.env, "env")
        except UnknownState as unknown:
            self._is_reset = False
            raise EnvError(f"{self.name}: cannot restore this state ({unknown})") from None
        self._is_reset = True

    def close(self) -> None:
        """Close Gymnasium's environment."""
        self.env.close()

    def __repr__(self) -> str:
        return f"<{self.num_envs} {self.name} of Gymnasium>"
