"""Placements of an agent's fragments within one process. `OneProcess` with one actor is the default."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from triskele.core import get_threads, set_threads
from triskele.core.extend import check

from ..errors import DistributionError
from .actors import FragmentedAgent, PlacedActor

__all__ = ["Distribution", "OneProcess", "Threads"]

Iterate = Callable[[], dict[str, Any]]


class Distribution:
    """Base of placements: where the fragments of an agent run.

    Attributes
    ----------
    root : bool
        True if this process has the learner, and should print and draw.
    """

    root = True

    def run(self, agent: FragmentedAgent, loop: Callable[[Iterate], None], interrupted: list[int]) -> None:
        """Place the agent's fragments and call ``loop(iterate)`` where the learner is; each ``iterate()`` collects and
        learns once.

        Parameters
        ----------
        agent : FragmentedAgent
        loop : function
        interrupted : list
            Not empty after a Ctrl-C, here or elsewhere; the loop ends then.
        """
        raise NotImplementedError


class OneProcess(Distribution):
    """All fragments in this process, one actor after the other.

    Parameters
    ----------
    actors : int

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.PPO("CartPole-v1", seed=0).train(1024, progress=False, distribution=rl.OneProcess(actors=2))
    """

    def __init__(self, actors: int = 1):
        self.actors = check.integer(actors, "OneProcess: actors", 1)

    def run(self, agent: FragmentedAgent, loop: Callable[[Iterate], None], interrupted: list[int]) -> None:
        """See `Distribution`."""
        if agent.ports is None and self.actors == 1:
            return loop(agent.iterate)
        placed = place(agent, self, self.actors, "this process")

        def iterate():
            parameters = agent.parameters
            return learn(agent, [actor.collect(parameters) for actor in placed], [actor.state for actor in placed])

        return loop(iterate)

    def __repr__(self) -> str:
        return f"OneProcess(actors={self.actors})"


class Threads(Distribution):
    """Each actor on a thread of its own; the learner waits for all of them.

    The numbers are those of ``OneProcess(actors)``.

    Compiled code runs in parallel; Python code, such as environments of Gymnasium, takes turns.

    Parameters
    ----------
    actors : int
    timeout : float
        Seconds after which the learner no longer waits for an actor, and the training ends with an error.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> agent = rl.PPO("CartPole-v1", seed=0).train(1024, progress=False, distribution=rl.Threads(actors=2))
    """

    def __init__(self, actors: int, *, timeout: float = 3600.0):
        self.actors = check.integer(actors, "Threads: actors", 1)
        self.timeout = check.positive(timeout, "Threads: timeout", "s")

    def run(self, agent: FragmentedAgent, loop: Callable[[Iterate], None], interrupted: list[int]) -> None:
        """See `Distribution`."""
        workers = [_Worker(actor) for actor in place(agent, self, self.actors, "thread {}")]

        def iterate():
            with processors_for(self.actors):
                parameters = agent.parameters
                for worker in workers:
                    worker.tasks.put(parameters)
                until = time.monotonic() + self.timeout
                # all, before one of them is raised
                answers = [worker.answer(until, self.timeout) for worker in workers]
            for answer in answers:
                if isinstance(answer, BaseException):
                    raise answer
            return learn(agent, answers, [worker.actor.state for worker in workers])

        try:
            loop(iterate)
        finally:
            for worker in workers:
                worker.tasks.put(None)

    def __repr__(self) -> str:
        return f"Threads(actors={self.actors})"


class _Worker:
    """A thread with an actor. A daemon: one that hangs must not keep the process from ending."""

    def __init__(self, actor: PlacedActor):
        self.actor = actor
        self.tasks: queue.SimpleQueue = queue.SimpleQueue()
        self._answers: queue.SimpleQueue = queue.SimpleQueue()
        threading.Thread(target=self._work, name=actor.name, daemon=True).start()

    def _work(self):
        while (parameters := self.tasks.get()) is not None:
            try:
                self._answers.put(self.actor.collect(parameters))
            except BaseException as error:  # noqa: BLE001  a thread has no caller to raise to
                self._answers.put(error)

    def answer(self, until, timeout):
        """Experience, or what went wrong."""
        try:
            return self._answers.get(timeout=max(until - time.monotonic(), 0.0))
        except queue.Empty:
            return DistributionError(
                f"{self.actor.name} must answer within {timeout:g} s, got nothing (Threads(..., "
                f"timeout=) sets how long)"
            )


def place(agent: FragmentedAgent, placement: Distribution, actors: int, where: str) -> list[PlacedActor]:
    """All actors of an agent; ``{}`` in `where` is the actor's number."""
    check_splits(agent, placement)
    return [PlacedActor(agent, k, actors, state, where.format(k)) for k, state in enumerate(agent.deal(actors))]


def check_splits(agent: FragmentedAgent, placement: Distribution) -> None:
    """Raise ValueError unless the agent is made of fragments."""
    if agent.ports is None:
        raise ValueError(
            f"{agent.name}.train: distribution must be OneProcess(), got {placement} ({agent.name} is one "
            f"piece, which runs in one process "
            "only; PPO and AlphaZero run on several)"
        )


def learn(agent: FragmentedAgent, experiences: Sequence[Any], states: Sequence[Any]) -> dict[str, Any]:
    """Handle the results of all actors of an iteration."""
    numbers = agent.learn_from(experiences)
    agent.gather(states)
    return numbers


@contextlib.contextmanager
def processors_for(actors: int) -> Iterator[None]:
    """Let each actor compute on its own if there are as many as processors; the pool of threads is for one at a
    time.
    """
    before = get_threads()
    set_threads(1 if actors >= before else before)
    try:
        yield
    finally:
        set_threads(before)
