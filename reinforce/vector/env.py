"""`VectorEnv`: many copies of an environment that are stepped at once, and `make`, which knows environments by name.

A copy that is over restarts in the next step, which ignores its action and gives the first observation with reward 0
(`NEXT_STEP` of Gymnasium 1): the observation at the end of an episode is the last one of that episode.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np

from triskele.core.extend import check, threads

from ..environment import Environment, LaneEnvironment
from ..errors import EnvError
from ..rules.first_use import checks
from ..rules.shipped import is_shipped
from ..spaces import Box, Discrete, MultiDiscrete
from .failures import Raised
from .stepping import AT_WORK, CONTEXT, LANES, step_kernels

if TYPE_CHECKING:
    from .gymnasium_envs import GymnasiumVectorEnv

__all__ = ["EnvArrays", "VectorEnv", "make"]

_NEVER = 2**62  # steps


class EnvArrays(NamedTuple):
    """Everything that copies of an environment are made of, for compiled code.

    P is their number, rounded up to a multiple of 8.
    """

    data: np.ndarray  # (P,) records, or (fields, P) float64
    steps: np.ndarray  # (P,) int64, number of steps of the episode
    done: np.ndarray  # (P,) uint8, nonzero if the next step starts an episode
    streams: np.ndarray  # (P, 1) uint64, random streams
    limit: np.ndarray  # (1,) int64, steps of an episode after which it is cut off


class VectorEnv:
    """Copies of an environment, stepped together; several threads share large numbers of them, which changes no result.

    Parameters
    ----------
    environment : Environment
    num_envs : int
        Number of copies.
    seed : int
        Copy i draws from a stream of its own, which belongs to (seed, i).
    max_episode_steps : int, optional
        Overrides the environment's `max_steps`; 0 for no limit.

    Attributes
    ----------
    environment : Environment
    num_envs : int
    observation_space, action_space : Box or Discrete
        Spaces of one copy.
    max_episode_steps : int
        0 for no limit.
    has_masks : bool
        True if the environment has an action mask.
    arrays : EnvArrays
        Arrays of the copies, for compiled code; each step changes them in place.
    step_kernel : Compiled
        ``step_kernel(arrays, actions, obs, reward, terminated, truncated)`` steps all copies, within other kernels.
        Actions are int64 (N,) or float32 (N, k), in range; the rest, float32 (N, ...), float (N,) and bool (N,) twice,
        is written.
    step_range : Compiled
        The same with ``begin, end`` at the end, for a range of copies; `begin` is a multiple of 8, and so is `end`, or
        it is N.

    Raises
    ------
    EnvError

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> env = rl.make("CartPole-v1", num_envs=3, seed=0)
    >>> observation, info = env.reset()
    >>> observation, reward, terminated, truncated, info = env.step([0, 1, 1])
    >>> observation.shape, reward
    ((3, 4), array([1., 1., 1.]))
    """

    def __init__(
        self, environment: Environment, num_envs: int = 1, seed: int = 0, *, max_episode_steps: int | None = None
    ):
        check.kind(
            environment,
            Environment,
            "VectorEnv: environment",
            error=EnvError,
            hint="rl.make takes names and classes too",
        )
        self.environment, self.name = environment, environment.name
        environment.check()
        self.num_envs = integer(f"{self.name}: num_envs", num_envs, 1)
        limit = environment.max_steps if max_episode_steps is None else max_episode_steps
        most = integer(f"{self.name}: max_episode_steps", limit or 0, 0)
        self.observation_space, self.action_space = environment.observation_space, environment.action_space
        self._kernels = step_kernels(environment)
        self._may_raise = not is_shipped(environment) and not isinstance(environment, LaneEnvironment)
        self._seed, self._limit = integer(f"{self.name}: seed", seed, 0), np.array([most or _NEVER])
        self._is_reset = False
        n = self.num_envs
        self._observation_shape, self._action_shape = (n, *self.observation_space.shape), (n, *self.action_space.shape)
        self._num_actions, self.has_masks = getattr(self.action_space, "n", 0), environment.has_masks
        if not is_shipped(environment):
            self._compiled  # noqa: B018 - mistakes in rules are best seen here
        if self._may_raise:
            checks().check_env_once(self)

    @cached_property
    def arrays(self) -> EnvArrays:
        """See the class."""
        from . import run

        size = -(-self.num_envs // LANES) * LANES
        streams = np.zeros((size, 1), np.uint64)
        run.seed(streams, np.uint64(self._seed))
        return EnvArrays(
            self.environment.new_data(size), np.zeros(size, np.int64), np.zeros(size, np.uint8), streams, self._limit
        )

    @property
    def max_episode_steps(self) -> int:
        """Steps after which an episode is cut off, from now on; 0 for no limit."""
        limit = int(self._limit[0])
        return 0 if limit == _NEVER else limit

    @max_episode_steps.setter
    def max_episode_steps(self, value: int) -> None:
        self._limit[0] = integer(f"{self.name}: max_episode_steps", value, 0) or _NEVER

    @property
    def key(self) -> str:
        """Hash of the environment's rules: identifies it in the source of kernels that call `step_kernel`."""
        return self.environment.key

    @property
    def machine(self) -> tuple[np.ndarray, int, int, int]:
        """(context, num_actions, chunks, function) for `run.run` inside other kernels, which are then the same for all
        environments.

        To be asked for again before each call of such a kernel: the number of threads may have changed.
        """
        n, chunks = self.num_envs, 1
        share = self.environment._share
        if n >= 2 * share:  # one for each thread, which then finds its copies in its own cache step by step
            chunks = min(threads.get_threads(), n // share)
        context, function = self._compiled
        context[2] = size = -(-n // (chunks * LANES)) * LANES
        return context, self._num_actions, -(-n // size), function

    @property
    def step_kernel(self) -> Any:
        """See the class."""
        return self._kernels.step

    @property
    def step_range(self) -> Any:
        """See the class."""
        return self._kernels.step_range

    def reset(self, *, seed: int | None = None, options: Mapping | None = None) -> tuple[np.ndarray, dict]:
        """Start an episode in every copy.

        Parameters
        ----------
        seed : int, optional
            Seed of all random streams. None: the streams continue.
        options : mapping, optional
            Must be empty: Gymnasium passes it.

        Returns
        -------
        observation : (N, ...) float32
        info : dict
            With "action_mask", bool (N, n), where the environment has one.
        """
        from . import run

        if options:
            raise EnvError(f"{self.name}: reset has no options, got {options!r:.80}")
        if seed is not None:
            self._seed = integer(f"{self.name}: seed", seed, 0)
            run.seed(self.arrays.streams, np.uint64(self._seed))
        self.arrays.done[:] = 1  # a step begins an episode in copies that are over
        self._is_reset = True
        observation, _, _, _, info = self._step(np.zeros(self._action_shape, self.action_space.dtype))
        return observation, info

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """Step every copy; those that are over start an episode instead.

        Parameters
        ----------
        actions : (N,) integers, or (N, k) numbers

        Returns
        -------
        observation : (N, ...) float32
        reward : (N,) float64
        terminated, truncated : (N,) bool
            True if the episode is over, and if it is cut off after too many steps.
        info : dict
            As `reset` gives it. A copy that is over takes any action.

        Raises
        ------
        EnvError
            Before `reset`, and for invalid actions; no environment has been stepped then.
        """
        if not self._is_reset:
            raise EnvError(f"{self.name}: call reset before step")
        return self._step(check_actions(self.name, self.action_space, self.num_envs, actions))

    def _step(self, actions):
        n = self.num_envs
        observation, reward = np.empty(self._observation_shape, np.float32), np.empty(n)
        terminated, truncated = np.empty(n, np.bool_), np.empty(n, np.bool_)
        masks = np.empty((n, self._num_actions if self.has_masks else 0), np.bool_)
        context, num_actions, chunks, function = self.machine
        if self._may_raise:
            with Raised() as raised:
                stepped = self._run(
                    context, num_actions, actions, observation, reward, terminated, truncated, masks, chunks, function
                )
            if not stepped:
                self.failed(actions, raised.errors)
        elif not self._run(
            context, num_actions, actions, observation, reward, terminated, truncated, masks, chunks, function
        ):
            self.failed(actions)
        if self.has_masks:
            self.check_masks(masks)
        return observation, reward, terminated, truncated, {"action_mask": masks} if self.has_masks else {}

    def check_masks(self, masks: np.ndarray) -> None:
        """EnvError if one of the masks (..., N, n) allows nothing."""
        allowed = masks.any(axis=-1)
        if not allowed.all():
            self._is_reset = False
            raise EnvError(
                f"{self.name}: action_mask must allow at least one action, got none in environment "
                f"{int(np.argwhere(~allowed)[0, -1])}"
            )

    def failed(self, actions: np.ndarray, errors: Sequence[BaseException] = ()) -> NoReturn:
        """Raise the EnvError that explains why `run.run` returned False for these actions.

        Parameters
        ----------
        actions : array
        errors : sequence of BaseException
            What `failures.Raised` collected meanwhile.
        """
        refuse_actions(self.name, self.action_space, actions)
        self._is_reset = False  # some copies were stepped, and others were not
        at_work = np.flatnonzero(self.arrays.done[: self.num_envs] > 1)
        copy = int(at_work[0]) if len(at_work) else 0
        rule = AT_WORK[int(self.arrays.done[copy])] if len(at_work) else "a rule"
        when = (
            "at the start of an episode"
            if rule == "reset"
            else f"at step {int(self.arrays.steps[copy]) + (rule == 'step')} of its episode"
        )
        what = f"{type(errors[0]).__name__}: {errors[0]}" if errors else "an exception"
        raise EnvError(
            f"{self.name}: {rule} raised {what}, in environment {copy} {when}, with seed {self._seed} (call reset)"
        ) from (errors[0] if errors else None)

    @property
    def is_reset(self) -> bool:
        """Return False before the first `reset`, and after a rule has raised."""
        return self._is_reset

    @property
    def state(self) -> dict[str, Any]:
        """Everything that the next steps depend on, as a tree of arrays (a copy); setting it goes back there, bit for
        bit.
        """
        a = self.arrays
        data = a.data.view(np.uint8) if a.data.dtype.names else a.data
        return {
            "data": data.copy(),
            "steps": a.steps.copy(),
            "done": a.done.copy(),
            "streams": a.streams.copy(),
            "reset": int(self._is_reset),
            "num_envs": self.num_envs,
        }

    @state.setter
    def state(self, value: Mapping[str, Any]) -> None:
        mine = self.state
        if not isinstance(value, Mapping) or value.keys() != mine.keys():
            raise EnvError(f"{self.name}: state must be what `state` of such an environment gave, got {value!r:.80}")
        new = {k: np.asarray(v) for k, v in value.items()}
        if new["num_envs"] != self.num_envs:
            raise EnvError(f"{self.name}: state must be of {self.num_envs} copies, got {int(new['num_envs'])}")
        for k, v in new.items():
            want = np.asarray(mine[k])
            if v.shape != want.shape or v.dtype != want.dtype and k not in ("reset", "num_envs"):
                raise EnvError(
                    f"{self.name}: state[{k!r}] must be {want.dtype} of shape {want.shape}, got {v.dtype} "
                    f"of shape {v.shape} (another environment, or another number of copies?)"
                )
        for k in ("data", "steps", "done", "streams"):
            target = getattr(self.arrays, k)
            (target.view(np.uint8) if target.dtype.names else target)[...] = new[k]
        self._is_reset = bool(new["reset"])

    def copies(self, begin: int, end: int) -> dict[str, np.ndarray]:
        """Return the state of some copies, for `set_copies` of this or another `VectorEnv` of the same environment."""
        a = self.arrays
        found = {
            "data": a.data[..., begin:end],
            "steps": a.steps[begin:end],
            "done": a.done[begin:end],
            "streams": a.streams[begin:end],
        }
        return {name: array.copy() for name, array in found.items()}

    def set_copies(self, begin: int, state: Mapping[str, np.ndarray]) -> None:
        """Set copies from `begin` on to these states; they continue bit for bit."""
        a, end = self.arrays, begin + len(state["steps"])
        a.data[..., begin:end] = state["data"]
        a.steps[begin:end], a.done[begin:end], a.streams[begin:end] = state["steps"], state["done"], state["streams"]

    def close(self) -> None:
        """Does nothing: Gymnasium's environments have it."""

    @cached_property
    def _run(self) -> Any:
        from .run import run

        return run

    @cached_property
    def _compiled(self) -> tuple[np.ndarray, int]:
        """The context of `run.run`, and the address of the function that steps a chunk of copies."""
        from numba.core.errors import NumbaError

        from ..rules.uncompilable import essence

        try:
            function = threads.body(self._kernels.chunk, "voidptr")
        except (NumbaError, KeyError) as error:
            raise EnvError(
                f"{self.name}: the rules do not compile, or do not return what they must (`Environment` "
                f"says what): {essence(error, self.environment.dtype.names or ())}"
            ) from error
        context = np.zeros(CONTEXT, np.int64)
        addresses = [a.ctypes.data for a in self.arrays]
        context[:9] = [context.ctypes.data, self.num_envs, 0, len(self.arrays.steps), *addresses]
        return context, function

    def __reduce__(self):
        return _copied, (self.environment, self.num_envs, self.max_episode_steps, self.state)

    def __repr__(self) -> str:
        return f"<VectorEnv of {self.num_envs} {self.name}>"


def _copied(environment, num_envs, max_episode_steps, state):
    """Restore a VectorEnv for `copy` and `pickle`."""
    env = VectorEnv(environment, num_envs, 0, max_episode_steps=max_episode_steps)
    env.state = state
    return env


def check_actions(name: str, space: Box | Discrete | MultiDiscrete, num_envs: int, actions: Any) -> np.ndarray:
    """Actions as an array of the space's dtype; EnvError for a wrong dtype or shape."""
    shape = (num_envs, *space.shape)
    if (
        type(actions) is np.ndarray
        and actions.dtype == space.dtype
        and actions.shape == shape
        and actions.flags.c_contiguous
    ):
        return actions
    try:
        given = np.asarray(actions)
    except ValueError as error:
        raise EnvError(f"{name}: actions must have shape {shape}, got {actions!r:.80}") from error
    if given.dtype.kind not in ("iuf" if isinstance(space, Box) else "iu"):
        raise EnvError(
            f"{name}: actions must be {'numbers' if isinstance(space, Box) else 'integers'}, got dtype {given.dtype}"
        )
    check.shape(given, shape, f"{name}: actions", error=EnvError)
    return np.ascontiguousarray(given, space.dtype)


def refuse_actions(name: str, space: Box | Discrete | MultiDiscrete, actions: np.ndarray) -> None:
    """EnvError if one of the actions is out of range, or not finite (`Box`)."""
    if isinstance(space, Box):
        bad, must = ~np.isfinite(actions), "finite"
    else:
        last = space.start + (space.n if isinstance(space, Discrete) else space.nvec) - 1
        bad, must = (actions < space.start) | (actions > last), f"{space.start} to {last}"
    if bad.any():
        i = int(np.argwhere(bad)[0, 0])
        raise EnvError(f"{name}: actions must be {must}, got {actions[i].tolist()} for environment {i}")


def integer(where: str, value: Any, least: int) -> int:
    """A checked integer."""
    check.integer(value, where, least, 2**63 - 1, error=EnvError)
    return int(value)


def make(
    env: Any, num_envs: int = 1, seed: int = 0, *, max_episode_steps: int | None = None, **options: Any
) -> VectorEnv | GymnasiumVectorEnv:
    """Make copies of an environment.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, VectorEnv, or function
        Name of an environment in `rl.envs` or else of Gymnasium, or a function that makes an environment of Gymnasium.
        A VectorEnv passes on its environment, but not its state.
    num_envs : int
    seed : int
        Seed of the environments' random numbers.
    max_episode_steps : int, optional
        Overrides the environment's `max_steps`; 0 for no limit.
    **options
        Options of the environment. For environments of Gymnasium, ``workers=n`` is the number of processes that step
        the copies (1: this one); seeds and results do not depend on it.

    Returns
    -------
    VectorEnv
        Or a `GymnasiumVectorEnv`, which has the same methods but nothing for compiled code.

    Raises
    ------
    EnvError
        For an unknown name or option.
    ImportError
        If Gymnasium is required and not installed.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> rl.make("CartPole-v1", num_envs=8, seed=0)
    <VectorEnv of 8 CartPole>
    """
    if isinstance(env, VectorEnv):
        env, max_episode_steps = (
            env.environment,
            env.max_episode_steps if max_episode_steps is None else max_episode_steps,
        )
    if isinstance(env, Environment):
        if options:
            raise EnvError(
                f"make: options go with a name or a class, got {env!r} and {', '.join(options)}{_no_workers(options)}"
            )
        return VectorEnv(env, num_envs, seed, max_episode_steps=max_episode_steps)
    if isinstance(env, str):
        from ..envs import registry

        ours = registry()
        if env not in ours:
            from . import gymnasium_envs

            return gymnasium_envs.make(env, num_envs, seed, max_episode_steps, options, list(ours))
        env = ours[env]
    elif not (isinstance(env, type) and issubclass(env, Environment)):
        from . import gymnasium_envs

        return gymnasium_envs.make(env, num_envs, seed, max_episode_steps, options, [])
    try:
        inspect.signature(env).bind(**options)
    except TypeError as error:
        accepted = ", ".join(inspect.signature(env).parameters) or "none"
        raise EnvError(
            f"make: {getattr(env, '__name__', env)} does not take these options: {error} (it has: {accepted})"
            f"{_no_workers(options)}"
        ) from error
    return VectorEnv(env(**options), num_envs, seed, max_episode_steps=max_episode_steps)


def _no_workers(options):
    """What to say of the option that only environments of Gymnasium have."""
    if "workers" not in options:
        return ""
    return "; leave out workers, which are for environments of Gymnasium: this one runs as compiled code, in threads"
