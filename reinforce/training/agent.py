"""`Agent`: training, checkpoints and evaluation, shared by all agents."""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from triskele.core.extend import Reports, TriskeleError, Work, check, interruption, patient_interrupts

from .. import storage
from ..errors import CheckpointError, EnvError
from ..policy import Policy
from .cancellation import Stopped
from .checkpoint_checks import check_like, registered
from .episodes import Episodes
from .evaluation import Evaluation, evaluate, evaluation_seed

if TYPE_CHECKING:
    from ..distribution.actors import Actor, Port
    from ..distribution.placements import Distribution

__all__ = ["Agent"]

_UNITS = "bounds"  # in which networks work with actions; files of versions before 0.13 do not say


class Settings(SimpleNamespace):
    """The hyper-parameters of an agent. They cannot be changed: much of an agent is compiled with them."""

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"settings: {name} cannot be changed, the agent is compiled with it (make another agent)")

    __delattr__ = None  # type: ignore[assignment]


class _Hints:
    """Names the hyper-parameters of other libraries in errors."""

    def __new__(cls, *_: Any, **kwargs: Any) -> Any:
        check.renamed(kwargs, cls.__name__, gamma="discount", n_envs="num_envs", total_timesteps="train(steps)")
        return super().__new__(cls)


class Agent(_Hints):
    """Base of agents. A subclass says in `kept` what it consists of, and either collects and learns in `iterate`, or is
    made of fragments, which run in several places: `ports`, `actor`, `parameters`, `learn_from`, `deal` and `gather`.

    Its constructor takes an environment and hyper-parameters, calls this one, and sets its attributes.

    Parameters
    ----------
    env : str, Environment, subclass of Environment, or function
        As `make` takes it.
    settings : dict
        All hyper-parameters, ``seed`` and ``num_envs`` among them; they become `settings`, and a resumed agent is made
        with them.

    Attributes
    ----------
    env : VectorEnv
    settings : namespace
    steps : int
        Taken in all environments together, restarts among them.
    start, target : int
        Steps at which the current training has begun and will end; learning rates may be annealed between them.
    episodes : Episodes
        Statistics of the training's episodes.
    stopped : str or None
        Why a reporter ended the last training early.
    kept : tuple of str
        Attributes that make up the agent's state: trees of arrays and numbers. One called ``position`` says where the
        environments are; it is left out where these cannot be saved (see `GymnasiumVectorEnv`).
    ports : dict of Port, optional
        Arrays that an actor returns; None for an agent in one piece.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.PPO('CartPole-v1', seed=0)
    >>> isinstance(agent, rl.Agent)
    True
    """

    kept: tuple[str, ...] = ()
    ports: dict[str, Port] | None = None

    def __init__(self, env: Any, settings: dict[str, Any]):
        self.settings = Settings(**settings)
        self._given = env
        self.interrupted: list[int] = []  # by Ctrl-C, while training
        self.stopped: str | None = None
        self.steps = self.start = self.target = 0
        self._enter(env)

    def _enter(self, env):
        """Make what the agent lives in: environments, or for some agents a game."""
        from ..vector.env import make

        self.check_settings(integers=["num_envs"])
        self.env = make(env, num_envs=self.settings.num_envs, seed=self.settings.seed)
        self.episodes = Episodes.start(self.env.num_envs)

    def __getattr__(self, name: str) -> Any:
        if name == "learn":  # what other libraries call it
            raise AttributeError(f"{self.name}: no attribute 'learn' (train(total_steps) trains an agent)")
        return object.__getattribute__(self, name)  # which says what is missing

    @property
    def name(self) -> str:
        """For messages and progress bars."""
        return type(self).__name__

    # -- what a subclass gives
    # ----------------------------------------------------------------------------------------------

    def iterate(self) -> dict[str, float]:
        """Collect and learn once: count `steps` up, and return numbers for reports, always with the same names."""
        raise NotImplementedError

    def actor(self, k: int, actors: int) -> Actor:
        """Create actor `k` of several, with its share of the environments and its own random streams."""
        raise NotImplementedError

    @property
    def parameters(self) -> Any:
        """Return the parameters that actors need, a tree of arrays."""
        raise NotImplementedError

    def learn_from(self, experiences: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
        """Learn from as many experiences as there are actors: one of each in their order, or, asynchronously, as they
        came in.

        Like `iterate` it counts `steps` up, and returns numbers for reports.
        """
        raise NotImplementedError

    def deal(self, actors: int) -> Sequence[Any]:
        """Return the states from which the actors continue; None for one that is new or has no known state."""
        raise NotImplementedError

    def gather(self, states: Sequence[Any]) -> None:
        """Keep the states of all actors, in their order: what `deal` hands out again, perhaps to another number of
        actors.
        """
        raise NotImplementedError

    @property
    def policy(self) -> Policy:
        """Return a snapshot of the learned state, which further training does not change."""
        raise NotImplementedError

    # -- training ------------------------------------------------------------------------------------------------------

    def train(
        self,
        total_steps: int | None = None,
        *,
        report: Reports = None,
        progress: bool | None = None,
        checkpoint: str | os.PathLike | None = None,
        every: int | None = None,
        distribution: Distribution | None = None,
    ) -> Self:
        """Train for a number of steps.

        Ctrl-C ends the training after the current iteration, once the checkpoint has been written, and so does SIGTERM
        except under `MPI`; a second one ends it immediately. `AlphaZero`, whose iterations are long, abandons the
        current one after the next move and keeps the state from before that iteration.

        Parameters
        ----------
        total_steps : int, optional
            Number of further steps, in all environments together. Defaults to the remainder of a training that was
            interrupted or resumed.
        report : function or list of functions, optional
            Called after every iteration with a dictionary of numbers: ``step``, ``return`` ... `CSV`, `TensorBoard`,
            `Log`, ``print``, ``wandb.log`` and the ``append`` of a list serve as they are. A reporter that raises
            StopIteration ends the training after this iteration; `stopped` keeps its reason.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the training's state, written whole or not at all, every `every` steps and at the end. If the file
            exists, the training resumes from it, bit for bit: a script that was killed continues when it is run again.
        every : int, optional
            Steps between checkpoints. Defaults to a twentieth of the training.
        distribution : OneProcess, Threads or MPI, optional
            Where actors and learner run. Defaults to all in this process, with one actor. A checkpoint resumes under
            any of them.

        Returns
        -------
        Agent
            Itself.

        Raises
        ------
        ValueError
            If there is nothing to do.
        CheckpointError
            If the checkpoint belongs to another agent, environment or training; the message names what differs.
        FloatingPointError
            If the network or its inputs are no longer finite. The last checkpoint stays as it was.
        DistributionError
            If an actor fails, is replaced, and fails again, or no longer answers. The last checkpoint stays as it was.
        """
        from ..distribution.placements import Distribution, OneProcess, Threads

        if total_steps is not None:
            check.integer(total_steps, f"{self.name}.train: total_steps", 1)
            self.start, self.target = self.steps, self.steps + int(total_steps)
        elif self.steps >= self.target:
            raise ValueError(f"{self.name}.train: total_steps must be given, because no training is unfinished")
        if every is None:
            every = max((self.target - self.start) // 20, 1)
        check.integer(every, f"{self.name}.train: every", 1)
        check.kind(
            distribution,
            (Distribution, None),
            f"{self.name}.train: distribution",
            "OneProcess(...), Threads(...) or MPI(...)",
        )
        if checkpoint is not None and os.path.exists(checkpoint):
            self._resume(checkpoint)
        work = Work(f"{self.name}.train", report, progress, title=self.name, total=self.target, done=self.steps)

        def loop(iterate):
            if checkpoint is not None:
                self._check_place(checkpoint)
            with work:
                self._run(iterate, work, checkpoint, every, interrupted)
            self.stopped = work.stopped

        here = distribution is None or isinstance(distribution, (OneProcess, Threads))
        with patient_interrupts(terminate=here) as interrupted:
            self.interrupted = interrupted if here else []
            (distribution or OneProcess()).run(self, loop, interrupted)
        if interrupted:
            raise interruption(interrupted[0], f"{self.name}.train: stopped after step {self.steps}")
        return self

    def _run(self, iterate, work, checkpoint, every, interrupted):
        due = (self.steps // every + 1) * every
        began, before = time.perf_counter(), self.steps
        while self.steps < self.target and not work.stopped and not interrupted:
            try:
                found = iterate()
            except Stopped:
                break
            seconds = max(time.perf_counter() - began, 1e-9)
            value = self.episodes.mean_return
            numbers = {
                "step": self.steps,
                "episodes": self.episodes.finished,
                "return": value,
                "length": self.episodes.mean_length,
                **found,
                "steps_per_second": round((self.steps - before) / seconds),
            }
            work(numbers, "" if value is None else f"return {value:.1f}")
            if checkpoint is not None and self.steps >= due:
                work.sync()
                self.save(checkpoint)
                due = (self.steps // every + 1) * every
        if checkpoint is not None:
            work.sync()
            self.save(checkpoint)

    # -- use -----------------------------------------------------------------------------------------------------------

    def act(self, observation: Any, *, mask: Any = None) -> Any:
        """The action of the policy for an observation, or those for a batch; see `Policy`.

        An observation of a Gymnasium environment may be a number, tuple or dictionary, as the environment returns it,
        or a batch, as `gymnasium.make_vec` returns it. Integers are observations, floats may be one-hot.
        """
        flat = getattr(getattr(self, "env", None), "flat", None)
        return self.policy(observation if flat is None else flat(observation), mask=mask)

    def evaluate(
        self,
        episodes: int = 100,
        *,
        seed: int = 0,
        deterministic: bool = True,
        report: Reports = None,
        progress: bool | None = None,
    ) -> Evaluation:
        """Play whole episodes in fresh environments, without affecting the training.

        Parameters
        ----------
        episodes : int
        seed : int
            Seed of the environments and of the actions, which differ from those of a training of the same seed.
        deterministic : bool
            If True, take the most probable action rather than draw one.
        report : function or list of functions, optional
            Called with the ``step``, ``return`` and ``length`` of each episode, where ``step`` counts episodes. A
            reporter that raises StopIteration ends the evaluation with the episodes played so far.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.

        Returns
        -------
        Evaluation
        """
        check.integer(episodes, f"{self.name}.evaluate: episodes", 1)
        check.integer(seed, f"{self.name}.evaluate: seed", 0)
        policy = self.policy
        most = self.env.num_envs if self.env.step_kernel is None else 128  # environments of Gymnasium may be large
        rng = None if deterministic else np.random.default_rng(seed + 1)
        return self.play(policy, int(episodes), most, seed, rng, report, progress)

    def play(
        self,
        policy: Any,
        episodes: int,
        most: int,
        seed: int,
        rng: np.random.Generator | None,
        report: Reports,
        progress: bool | None,
    ) -> Evaluation:
        """Evaluate a policy in fresh environments, at most `most` side by side; see `evaluate`."""
        from ..vector.env import make

        env = make(self._given, num_envs=min(episodes, most), seed=evaluation_seed(seed))
        try:
            with Work(f"{self.name}.evaluate", report, progress, unit="episode", total=episodes) as work:
                return evaluate(policy, env, episodes, rng, work)
        finally:
            env.close()

    # -- checkpoints ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike) -> None:
        """Write everything, all or nothing: networks, optimizer, environments, random streams, counters.

        `load` reads it. For the policy alone, which needs no code of this agent, use ``agent.policy.save(path)``.
        """
        storage.write(
            path,
            "checkpoint",
            {
                "agent": self.name,
                "env": self._given if isinstance(self._given, str) else None,
                "spaces": self._spaces,
                "units": _UNITS,
                "settings": vars(self.settings),
                **self.state,
            },
        )

    @property
    def state(self) -> dict[str, Any]:
        """Everything that the rest of the training depends on, besides the settings, as a tree."""
        kept = self._kept()  # first: a position begins the first episodes
        return {
            "counters": [self.steps, self.start, self.target],
            "episodes": self.episodes,
            "environment": self._environment(),
            "state": kept,
        }

    @state.setter
    def state(self, state: dict[str, Any]) -> None:
        counters, episodes = state["counters"], state["episodes"]
        if not all(type(n) is int and n >= 0 for n in counters):
            raise TypeError(f"counters must be natural numbers, got {counters}")
        check_like("episodes", episodes, self.episodes)
        self.steps, self.start, self.target = counters
        self.episodes = episodes
        mine, names = self._kept(), set(self.kept)
        if state["environment"] is None:
            self.episodes.restart()
            names -= {name for name in names if name.endswith(".position")}
        else:
            self.env.state = state["environment"]
        for name in names:
            *owner, last = name.split(".")
            place, value = operator.attrgetter(*owner)(self) if owner else self, state["state"][name]
            if last != "state":  # which is checked where it is set
                check_like(name, value, mine[name])
            setattr(place, last, value)

    def _kept(self):
        return {name: operator.attrgetter(name)(self) for name in self.kept}

    def _environment(self):
        try:
            return self.env.state
        except EnvError:
            return None

    @classmethod
    def load(cls, path: str | os.PathLike, env: Any = None, known: Sequence[Any] = ()) -> Self:
        """Load an agent that `save` or the checkpoint of a training has written; ``train()`` resumes it bit for bit.

        Environments of Gymnasium whose state is not accessible cannot be saved: there, everything else resumes, with
        new episodes.

        A checkpoint holds numbers and names, no code. It may name the environments of this suite and those that are
        registered with Gymnasium by now, the layers and activations of this suite, ufuncs of NumPy and SciPy, and what
        you pass in `known`. The states of environments and games in it are taken as they are: resume only from a
        checkpoint that you trust to be one.

        Parameters
        ----------
        path : path-like
        env : optional
            Needed where the environment was not given by its name, or by one with a module in it ("module:name").
        known : sequence of classes and functions, optional
            Your own networks (dataclasses or namedtuples) and functions that the checkpoint may name.

        Raises
        ------
        FileNotFoundError
        CheckpointError
            If the file is damaged, names a class or function that is not allowed, or belongs to another agent or
            environment.
        EnvError
            If the environment cannot be made, or another than the one of the checkpoint was given.

        Examples
        --------
        >>> from triskele.reinforce import PPO
        >>> agent = PPO.load("run.chk")  # doctest: +SKIP
        >>> agent.train(checkpoint="run.chk")  # doctest: +SKIP
        """
        found = storage.read(path, "checkpoint", known)
        where = f"checkpoint {os.fspath(path)!r}"
        try:
            if found["agent"] != cls.__name__:
                raise CheckpointError(
                    f"{where}: must be of the agent {cls.__name__}, got {found['agent']} (use {found['agent']}.load)"
                )
            if env is None and found["env"] is None:
                raise CheckpointError(
                    f"{where}: the environment was an object, which a checkpoint does not hold (load(path, env=...))"
                )
            agent = cls(registered(where, found["env"]) if env is None else env, **found["settings"])
            if found["spaces"] != agent._spaces:
                raise CheckpointError(
                    f"{where}: observations and actions must be {found['spaces']}, got "
                    f"{agent._spaces} (another environment?)"
                )
            agent._check_units(where, found)
            agent.state = found
        except (TriskeleError, FloatingPointError):
            raise
        except (
            ArithmeticError,
            AttributeError,
            IndexError,
            KeyError,
            MemoryError,
            NotImplementedError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise CheckpointError(f"{where}: does not hold an agent: {type(error).__name__} {error}") from error
        return agent

    def _resume(self, path):
        """Take over the state of a file that was written by the same training."""
        where = f"checkpoint {os.fspath(path)!r}"
        found = storage.read(path, "checkpoint", storage.named([vars(self.settings), self.state]))
        try:
            counters, theirs = found["counters"], dict(found["settings"])
            here = {
                "agent": self.name,
                "env": self._given if isinstance(self._given, str) else None,
                "spaces": self._spaces,
                **vars(self.settings),
            }
            there = {"agent": found["agent"], "env": found["env"], "spaces": found["spaces"], **theirs}
            differ = [
                f"{name} ({there.get(name)!r:.60} in the file, {here.get(name)!r:.60} here)"
                for name in sorted(here.keys() | there.keys())
                if not storage.same(there.get(name), here.get(name))
            ]
            if differ:
                raise CheckpointError(
                    f"{where}: must belong to this training, but these differ: {', '.join(differ)} "
                    f"(choose another path, or delete the file)"
                )
            self._check_units(where, found)
            if counters[0] == self.steps > 0:
                return  # this agent wrote it
            if counters[1:] != [self.start, self.target] or self.steps != self.start:
                raise CheckpointError(
                    f"{where}: must belong to a training from step {self.start} to {self.target}, "
                    f"got one from {counters[1]} to {counters[2]} (choose another path, or delete "
                    f"the file)"
                )
            self.state = found
        except (TriskeleError, FloatingPointError):
            raise
        except (
            ArithmeticError,
            AttributeError,
            IndexError,
            KeyError,
            MemoryError,
            NotImplementedError,
            RecursionError,
            TypeError,
            ValueError,
        ) as error:
            raise CheckpointError(f"{where}: does not hold an agent: {type(error).__name__} {error}") from error

    def _check_units(self, where, found):
        """Raise an error if networks in a file work with actions in another unit than those of this version."""
        low = getattr(self.policy.head, "low", ())
        if found.get("units") != _UNITS and any(abs(bound) != 1 for bound in low):
            raise CheckpointError(
                f"{where}: was written before version 0.13, whose networks take actions in half the "
                f"width of their bounds (train again)"
            )

    @property
    def _spaces(self):
        return f"{self.env.observation_space} and {self.env.action_space}"

    def _check_place(self, path):
        """Raise an error if no checkpoint can be written, before any work is done."""
        folder = os.path.dirname(os.fspath(path)) or "."
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise CheckpointError(
                f"{self.name}.train: checkpoint {os.fspath(path)!r} cannot be written (missing or read-only folder)"
            )
        try:
            storage.pack(vars(self.settings), {})
        except TypeError as error:
            raise CheckpointError(
                f"{self.name}.train: a hyper-parameter does not fit into a checkpoint: {error}"
            ) from error

    def check_settings(
        self,
        *,
        integers: Sequence[str] = (),
        positive: Sequence[str] = (),
        not_negative: Sequence[str] = (),
        fractions: Sequence[str] = (),
    ) -> None:
        """Raise ValueError unless hyper-parameters of these names are positive integers, positive, not negative, from 0
        to 1.
        """
        tests: list[Any] = [
            (integers, check.integer, 1),
            (positive, check.positive),
            (not_negative, check.number, 0),
            (fractions, check.number, 0, 1),
        ]
        for names, test, *bounds in tests:
            for name in names:
                test(getattr(self.settings, name), f"{self.name}: {name}", *bounds)

    def check_layers(self) -> None:
        """Raise ValueError unless `hidden` holds widths of layers and `activation` is a function."""
        s = self.settings
        for width in check.kind(s.hidden, Iterable, f"{self.name}: hidden", "widths of layers", error=ValueError):
            check.integer(width, f"{self.name}: each width in hidden", 1)
        check.kind(s.activation, Callable, f"{self.name}: activation", error=ValueError)

    def check_played(self, first: int = 0, **arrays: Any) -> None:
        """Raise EnvError unless what environments from `first` on gave in some steps, [T, N, ...], is finite."""
        for what, x in arrays.items():
            if not np.isfinite(x).all():
                t, k, *rest = np.argwhere(~np.isfinite(x))[0]
                raise EnvError(
                    f"{self.name}: {what} must be finite, got {x[t, k, *rest]} from environment {first + k} "
                    f"of {self.env} after {self.steps // self.env.num_envs + t} steps"
                )

    def check_finite(self, what: str, *values: Any) -> None:
        """Raise FloatingPointError unless all of these numbers are finite."""
        for x in values:
            if not np.isfinite(x).all():
                raise FloatingPointError(
                    f"{self.name}: {what} must stay finite, got NaN or infinity after "
                    f"{self.steps} steps (a lower learning rate, "
                    "or observations of a smaller size)"
                )

    def __repr__(self) -> str:
        return f"<{self.name} on {self._given if isinstance(self._given, str) else self.env} after {self.steps} steps>"
