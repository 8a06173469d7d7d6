"""Actors: the parts of an agent that a distribution places, and the ports that join them to the learner.

An agent that runs in several places consists of *actors*, which turn parameters into experience, and a *learner*, the
agent itself, which turns experience into parameters (its buffer is inside it). No fragment knows where the others are.
`FragmentedAgent` lists all that passes between them, after Zhu, Zhao, Li, Pietzuch et al., "MSRL: distributed
reinforcement learning with dataflow fragments", USENIX ATC 2023, section 4.
"""

from __future__ import annotations

import socket
import warnings
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ..errors import DistributionError, EnvError, ReinforceError

__all__ = ["Actor", "FragmentedAgent", "PlacedActor", "Port", "check_ports"]


class Actor(Protocol):
    """An actor, which turns parameters into experience."""

    state: Any
    """A copy of everything that later experience depends on: a tree of arrays and numbers. Setting it goes back there.

    None where the state is not known."""

    def collect(self, parameters: Any) -> dict[str, np.ndarray]:
        """Experience under these parameters: an array for each port, which the next call may overwrite."""


class FragmentedAgent(Protocol):
    """An agent as a distribution sees it. See `training.agent.Agent`."""

    settings: Any

    @property
    def name(self) -> str:
        """Name of the agent, for messages."""

    @property
    def ports(self) -> dict[str, Port] | None:
        """Arrays that an actor returns; None for an agent in one piece."""

    @property
    def _spaces(self) -> Any: ...

    @property
    def state(self) -> Any:
        """Everything that the rest of the training depends on; can be set."""

    @state.setter
    def state(self, state: Any) -> None: ...

    @property
    def parameters(self) -> Any:
        """Parameters that actors need: a tree of arrays."""

    def iterate(self) -> dict[str, float]:
        """Collect and learn once."""

    def actor(self, k: int, actors: int) -> Actor:
        """Actor number k, with random streams of its own and no reference to the agent."""

    def learn_from(self, experiences: Sequence[dict[str, np.ndarray]]) -> dict[str, float]:
        """Learn from the experience of actors, and return numbers for reports."""

    def deal(self, actors: int) -> Sequence[Any]:
        """The states of this many actors; None for one that begins."""

    def gather(self, states: Sequence[Any]) -> None:
        """Take back the states of all actors."""


class Port:
    """Dtype and shape of an array that passes. A name in `shape` stands for any size, the same wherever it stands."""

    __slots__ = ("dtype", "shape")

    def __init__(self, dtype: Any, *shape: int | str):
        self.dtype, self.shape = np.dtype(dtype), shape

    def __repr__(self) -> str:
        return f"{self.dtype} ({', '.join(map(str, self.shape))})"


def check_ports(where: str, ports: dict[str, Port], experience: Any) -> None:
    """Raise DistributionError unless there is an array for each port, which fits it."""
    if not isinstance(experience, dict) or experience.keys() != ports.keys():
        got = ", ".join(map(str, experience)) if isinstance(experience, dict) else type(experience).__name__
        raise DistributionError(f"{where}: experience must have the ports {', '.join(ports)}, got {got}")
    sizes: dict[str, int] = {}
    for name, port in ports.items():
        value = experience[name]
        shape: Any = getattr(value, "shape", None)
        if getattr(value, "dtype", None) == port.dtype and len(shape) == len(port.shape):
            if all(
                n == (sizes.setdefault(m, n) if isinstance(m, str) else m)
                for n, m in zip(shape, port.shape, strict=True)
            ):
                continue
        must = ", ".join(f"{m} = {sizes[m]}" if m in sizes else str(m) for m in port.shape)
        got = type(value).__name__ if shape is None else f"{value.dtype} ({', '.join(map(str, shape))})"
        raise DistributionError(f"{where}: port {name!r} must be {port.dtype} ({must}), got {got}")


class PlacedActor:
    """An actor where a policy has put it. One that fails is replaced from its last state, and its work is done again.

    It begins in `state`, as `Agent.deal` returned it; `self.state` is that after the last collection. Messages name
    `place`.
    """

    def __init__(self, agent: FragmentedAgent, k: int, actors: int, state: Any, place: str):
        self._agent, self.k, self._actors = agent, k, actors
        self.name = f"{agent.name}: actor {k} of {actors} ({place} on {socket.gethostname()})"
        self._ports: dict[str, Port] = agent.ports  # type: ignore[assignment]  # a policy has looked
        self._iteration, self.state = 0, state
        self._make()

    def _make(self):
        self._actor = self._agent.actor(self.k, self._actors)
        if self.state is None:
            self.state = self._actor.state
        else:
            self._actor.state = self.state

    def collect(self, parameters: Any) -> dict[str, np.ndarray]:
        """Return the experience under these parameters.

        Raise DistributionError if the actor fails twice in a row, or returns arrays that do not fit the ports. Errors
        that are reproducible, not accidental, ReinforceError and FloatingPointError, are raised unchanged.
        """
        self._iteration += 1
        try:
            return self._collected(parameters)
        except Exception as error:
            # a full disk or a lost connection in an environment is an accident; its other exceptions would come again
            accident = isinstance(error, EnvError) and isinstance(error.__cause__, OSError)
            if isinstance(error, (ReinforceError, FloatingPointError)) and not accident:
                error.add_note(f"({self.name}, iteration {self._iteration})")
                raise
            if self.state is None:
                raise self._failed(
                    error, "and cannot be replaced, since its environments cannot tell their state"
                ) from error
            warnings.warn(f"{self._failed(error, 'and is replaced from its last state')}", RuntimeWarning, stacklevel=1)
        try:
            self._make()
            return self._collected(parameters)
        except Exception as error:
            raise self._failed(error, "again after it was replaced") from error

    def _collected(self, parameters):
        experience = self._actor.collect(parameters)
        check_ports(self.name, self._ports, experience)
        self.state = self._actor.state
        return experience

    def _failed(self, error, what):
        return DistributionError(
            f"{self.name} failed in iteration {self._iteration} {what}: {type(error).__name__}: {error}"
        )
