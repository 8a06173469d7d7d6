"""Environments of Gymnasium in several processes: each steps its share, and all begin with the seeds of one process."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ..errors import EnvError
from .gymnasium_envs import GymnasiumVectorEnv

__all__ = ["WorkerVectorEnv", "serve"]

_COMMAND = "from triskele.reinforce.vector.gymnasium_workers import serve; serve()"


class WorkerVectorEnv(GymnasiumVectorEnv):
    """The same, in `workers` processes that each step some of the copies; numbers do not depend on how many there are.

    `options` are those of the environment.
    """

    def __init__(
        self,
        env: str | Callable,
        num_envs: int,
        seed: int | None,
        max_episode_steps: int | None,
        options: dict[str, Any],
        workers: int,
    ):
        import cloudpickle  # type: ignore[import-untyped]  # Gymnasium needs it, too
        import gymnasium

        self.name = env if isinstance(env, str) else getattr(env, "__name__", "environment")
        self.given, self.max_episode_steps = env, max_episode_steps
        self.num_envs, self._is_reset, self._seed = num_envs, False, seed
        self._lost: str | None = None  # how a worker has ended
        self._ends = np.cumsum([len(part) for part in np.array_split(np.arange(num_envs), workers)])
        place = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._processes: list[Any] = [
            subprocess.Popen([sys.executable, "-c", _COMMAND], env=place, **pipes) for _ in self._ends
        ]
        self.close = weakref.finalize(self, _end, self._processes)  # type: ignore[method-assign]
        # the script may have registered it
        spec = gymnasium.registry.get(env) if isinstance(env, str) else None
        sizes = np.diff(self._ends, prepend=0).tolist()
        made = [(spec, env, n, max_episode_steps, options, int(e) - n) for n, e in zip(sizes, self._ends, strict=True)]
        self.observation_space, self.action_space, self.their_space = self._all([cloudpickle.dumps(x) for x in made])[0]

    def _all(self, requests):
        """Answers of all workers to their requests."""
        if self._lost is not None:
            raise EnvError(self._lost)
        for process, request in zip(self._processes, requests, strict=True):
            with contextlib.suppress(OSError, ValueError):  # of one that has ended, which is told below
                pickle.dump(request, process.stdin)
                process.stdin.flush()
        answers = [self._answer(k, process) for k, process in enumerate(self._processes)]
        for answer in answers:
            if isinstance(answer, Exception):
                self._is_reset = False
                raise answer if isinstance(answer, EnvError) else EnvError(f"{self.name}: {answer}")
        return answers

    def _answer(self, k, process):
        try:
            return pickle.load(process.stdout)
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            self.close()
            self._is_reset = False
            first = int(self._ends[k - 1]) if k else 0
            self._lost = (
                f"{self.name}: worker {k}, process {process.pid} with environments {first} to {self._ends[k] - 1}, "
                f"ended with exit code {process.returncode} (killed, or out of memory? resume from a checkpoint)"
            )
            raise EnvError(self._lost) from None

    def reset(self, *, seed: int | None = None, options: Mapping | None = None) -> tuple[np.ndarray, dict]:
        """See `GymnasiumVectorEnv.reset`."""
        seed, self._seed = (self._seed if seed is None else seed), None
        firsts = [0, *self._ends[:-1].tolist()]
        seeds = [None if seed is None else seed + first for first in firsts]
        answers = self._all([("reset", {"seed": seed, "options": options}) for seed in seeds])
        self._is_reset = True
        return np.concatenate([x for x, _ in answers]), self._merged([info for _, info in answers])

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict]:
        """See `GymnasiumVectorEnv.step`."""
        actions = np.split(self._checked(actions), self._ends[:-1])
        *arrays, infos = zip(*self._all([("step", {"actions": part}) for part in actions]), strict=True)
        return *map(np.concatenate, arrays), self._merged(infos)  # type: ignore[return-value]

    def _merged(self, infos):
        """Gymnasium's infos of all copies; a worker that lacks one has zeros there, or None for objects."""
        sizes, merged = np.diff(self._ends, prepend=0), {}
        for name in {name: None for info in infos for name in info}:
            found = [info.get(name) for info in infos]
            one = next(x for x in found if x is not None)
            if isinstance(one, dict):
                merged[name] = self._merged([x or {} for x in found])
            else:
                nothing = None if one.dtype == object and one.ndim == 1 else 0  # as in Gymnasium
                empty = (np.full((n, *one.shape[1:]), nothing, one.dtype) for n in sizes)
                merged[name] = np.concatenate([e if x is None else x for x, e in zip(found, empty, strict=True)])
        return merged

    @property
    def state(self) -> Any:
        """See `GymnasiumVectorEnv.state`: those of all workers."""
        return {"workers": self._all([("state", None)] * len(self._ends))}

    @state.setter
    def state(self, value: Any) -> None:
        parts = value.get("workers") if isinstance(value, Mapping) else None
        if not isinstance(parts, list) or len(parts) != len(self._ends):
            raise EnvError(
                f"{self.name}: state must be what `state` of {len(self._ends)} workers gave, got {value!r:.80}"
            )
        self._all([("state", part) for part in parts])
        self._seed, self._is_reset = None, True


def _end(processes):
    """End all processes: they stop when nothing more can come."""
    for process in processes:
        with contextlib.suppress(OSError):  # it has gone already
            process.stdin.close()
    for process in processes:
        process.wait()
        process.stdout.close()


def serve() -> None:
    """Be a worker: make the environments that the first request describes, and answer requests until there are none."""
    import gymnasium

    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the training
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)  # an environment that reads its input must not take requests
    os.dup2(2, 1)  # what an environment prints must not go in between
    env: Any = None
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        try:
            if env is None:
                spec, name, num_envs, limit, options, first = pickle.loads(request)
                if spec is not None:
                    gymnasium.registry.setdefault(spec.id, spec)
                env = GymnasiumVectorEnv(name, num_envs, None, limit, options)
                env.first = first
                answer: Any = env.observation_space, env.action_space, env.their_space
            elif request[0] == "state":
                answer = env.state if request[1] is None else None
                if request[1] is not None:
                    env.state = request[1]
            else:
                answer = getattr(env, request[0])(**request[1])
            answer = pickle.dumps(answer)
        except EnvError as error:
            answer = pickle.dumps(EnvError(str(error)))  # without its cause, which may not be picklable
        except Exception as error:  # of what makes the environment, or of pickling its infos  # noqa: BLE001
            answer = pickle.dumps(RuntimeError(f"a worker raised {type(error).__name__}: {error}"))
        answers.write(answer)
        answers.flush()
