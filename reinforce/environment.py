"""Environments as users write them: a description with a few rules, which are compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .errors import EnvError
from .rules.fingerprint import fingerprint
from .rules.shipped import rule_options
from .rules.state_dtype import given, record_dtype
from .spaces import Box, Discrete

__all__ = ["EnvRules", "Environment", "LaneEnvironment"]

_NEEDED = ("reset", "step", "observe")


class EnvRules(NamedTuple):
    """The functions of an environment, as `Environment` describes them."""

    reset: Callable
    step: Callable
    observe: Callable
    action_mask: Callable | None = None


class Environment:
    """Base of environments: a subclass in a file of its own gives four attributes and three functions.

    The functions are static methods that get compiled. `state` is one record, changed in place; `stream` is what the
    functions of `triskele.reinforce.random` draw from; `action` is an integer (`Discrete`) or a float32 array (`Box`).
    An environment with parameters overrides `rules` and returns functions that close over them. When an environment is
    first used, some steps are taken with the bounds of arrays checked; from then on its attributes cannot be changed.

    * ``reset(state, stream)`` makes the first state of an episode; `state` holds what the last episode left, at first
      zeros.
    * ``step(state, action, stream)`` returns the reward and whether the episode is over.
    * ``observe(state, out)`` writes the observation whole.
    * ``action_mask(state, out)``, which may be left out, writes for each of the actions (`Discrete`) whether it is
      allowed. It comes in ``info["action_mask"]``, bool (N, n), and PPO draws allowed ones alone; what a forbidden one
      does is up to `step`.

    Attributes
    ----------
    state : numpy.dtype, or list of fields
        Fields of a state.
    observation_space : Box
        A space of float32.
    action_space : Discrete, or Box of float32
        Numbers outside the bounds of a Box go to `step` as they are; NaN and infinity never do.
    max_steps : int, optional
        Number of steps after which `VectorEnv` truncates an episode.

    Examples
    --------
    A walk on places 0 ... 8 that pays 1 at the right end:

    >>> import numpy as np
    >>> from triskele import reinforce as rl
    >>> class Walk(rl.Environment):
    ...     state = [("place", np.int64)]
    ...     observation_space, action_space = rl.Box(0, 8, (1,)), rl.Discrete(2)
    ...     max_steps = 100
    ...     @staticmethod
    ...     def reset(state, stream):
    ...         state.place = 4
    ...     @staticmethod
    ...     def step(state, action, stream):
    ...         state.place += 2 * action - 1
    ...         return state.place == 8, state.place == 0 or state.place == 8
    ...     @staticmethod
    ...     def observe(state, out):
    ...         out[0] = state.place
    >>> env = rl.make(Walk, num_envs=2, seed=0)
    >>> observation, info = env.reset()
    >>> for _ in range(4):
    ...     observation, reward, terminated, truncated, info = env.step([0, 1])
    >>> observation.ravel(), reward, terminated
    (array([0., 8.], dtype=float32), array([0., 1.]), array([ True,  True]))
    """

    state: Any
    observation_space: Box
    action_space: Box | Discrete
    max_steps: int | None = None

    @property
    def name(self) -> str:
        """Name of the environment, for messages."""
        return type(self).__name__

    def __setattr__(self, name: str, value: Any) -> None:
        if "_functions" in vars(self):
            raise EnvError(
                f"{self.name}: {name} cannot be changed once the rules are compiled (make another environment)"
            )
        super().__setattr__(name, value)

    def rules(self) -> EnvRules:
        """The rules as Python functions (or Numba functions), which become parts of kernels."""
        missing = [n for n in _NEEDED if not callable(getattr(self, n, None))]
        if missing:
            raise EnvError(
                f"{self.name}: an environment needs the function{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)} (static methods)"
            )
        return EnvRules._make(getattr(self, n, None) for n in EnvRules._fields)

    @functools.cached_property
    def dtype(self) -> np.dtype:
        """NumPy dtype of a state record."""
        return record_dtype(self.name, self.state, EnvError)

    @functools.cached_property
    def key(self) -> str:
        """Hash of the rules and the description: what is compiled for one key serves every environment that has it."""
        self.check()
        spaces = [(s.shape, s.dtype, getattr(s, "n", 0)) for s in (self.observation_space, self.action_space)]
        return fingerprint(spaces, self.state_key, [f for f in self._functions if f is not None], *rule_options(self))

    @property
    def has_masks(self) -> bool:
        """True if the environment has an action mask."""
        return self._functions.action_mask is not None

    def new_data(self, count: int) -> np.ndarray:
        """Zeros, for the states of `count` copies."""
        return np.zeros(count, self.dtype)

    _share = 512  # copies; with fewer for each of them (about 30 us), threads are not worth waking

    @property
    def state_key(self) -> Any:
        """Return the layout of states for compiled code."""
        return self.dtype

    @functools.cached_property
    def _functions(self):
        return self.rules()

    def check(self) -> None:
        """Raise EnvError if something is missing, or spaces do not fit."""
        observation, action = getattr(self, "observation_space", None), getattr(self, "action_space", None)
        if not isinstance(observation, Box) or observation.dtype != np.float32 or not observation.shape:
            raise EnvError(
                f"{self.name}: observation_space must be a Box of float32 with at least one axis, got {observation!r}"
            )
        if not isinstance(action, Discrete) and not (
            isinstance(action, Box) and action.dtype == np.float32 and len(action.shape) == 1
        ):
            raise EnvError(
                f"{self.name}: action_space must be Discrete, or a Box of float32 with one axis, got {action!r}"
            )
        if getattr(action, "start", 0):
            raise EnvError(
                f"{self.name}: actions are numbered from 0, got {action!r} (add the start in the rule `step`)"
            )
        if self.has_masks and not isinstance(action, Discrete):
            raise EnvError(f"{self.name}: action_mask belongs to Discrete actions, got {action!r}")

    __getstate__ = given

    def __repr__(self) -> str:
        return f"{self.name}()"


class LaneEnvironment(Environment):
    """Base of environments whose rules work on eight copies at a time, in vectors of `core.kernels.simd`.

    Such rules have no branches and are several times faster; `reinforce/envs/cart_pole.py` is one. States are tuples of
    float64 vectors, observations have one axis, and random numbers are drawn by `reset` alone:

    * ``reset(stream)`` returns the fields of the first state of one copy, as numbers.
    * ``step(state, action)`` returns the next state, the reward (float64) and whether the episode is over (a mask).
      `action` is an int64 vector, or for a Box a tuple of float64 vectors that hold the float32 numbers.
    * ``observe(state)`` returns the observation as a tuple of float64 vectors.

    Attributes
    ----------
    state : tuple of str
        Names of the fields.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> issubclass(rl.envs.CartPole, rl.LaneEnvironment)
    True
    """

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """Floating-point type of all fields."""
        return np.dtype(np.float64)

    def new_data(self, count: int) -> np.ndarray:
        """Zeros, for the states of `count` copies."""
        return np.zeros((len(self.state), count))

    _share = 4096

    @property
    def state_key(self) -> Any:
        """See `Environment`."""
        return tuple(self.state)

    def check(self) -> None:
        """See `Environment`."""
        super().check()
        if len(self.observation_space.shape) != 1:
            raise EnvError(f"{self.name}: observation_space must have one axis, got {self.observation_space!r}")
        if self.has_masks:
            raise EnvError(f"{self.name}: rules on lanes have no action_mask (an Environment on records may)")
