"""Actors on MPI ranks.

Rank 0 has the learner, rank k + 1 actor k; nothing but trees of arrays and numbers passes between them.

The learner sends parameters, with their version, to every actor that waits for them; an actor answers with experience,
the version that it came from, and its state. Synchronously an actor waits for parameters after each answer.
Asynchronously it continues with the parameters it has until two answers are unread; the learner takes the first answer.
Nobody blocks in a send while the other side may be sending, too, so that no order of events can lock two ranks.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import hashlib
import json
import signal
import socket
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from triskele.core import get_threads, set_threads
from triskele.core.extend import check, mpi

from .. import errors, storage
from ..errors import DistributionError
from .actors import FragmentedAgent, PlacedActor
from .placements import Distribution, Iterate, OneProcess, check_splits, learn

__all__ = ["MPI"]

_TAG = 7411  # of our messages, apart from the user's own
_LONGEST_NAP = 2e-3  # seconds


class MPI(Distribution):
    """One learner and as many actors as there are further ranks, started by ``mpiexec -n 3 python script.py``.

    All ranks run the same script and make the same agent; after a training all have its result. Guard the
    output of a script with ``if distribution.root:``. Without mpiexec, learner and one actor are in this process.

    Parameters
    ----------
    synchronous : bool
        If True, learner and actors wait for each other, and numbers are those of ``OneProcess(actors)``, bit for bit.
        Otherwise the learner takes as many experiences as there are actors in the order in which they come, and
        actors keep playing meanwhile: results vary between runs, and ``staleness`` in reports says how many updates old
        the parameters were, on average, with which experience was made.
    comm : mpi4py communicator, optional
        ``COMM_WORLD`` when left out.
    timeout : float
        Seconds without a message after which the learner gives up on a rank and ends the training with an error; actors
        wait twice as long for the learner.

    Attributes
    ----------
    rank, size : int
        Rank of this process, and number of ranks; 0 and 1 without mpiexec.
    actors : int

    Raises
    ------
    ImportError
        If mpiexec has started several processes, and mpi4py is missing: each would do the work of all.
    RuntimeError
        If it is an mpiexec of another MPI than mpi4py's: likewise.

    Examples
    --------
    >>> from triskele import reinforce as rl
    >>> distribution = rl.MPI(synchronous=False)
    >>> agent = rl.PPO("CartPole-v1", seed=0).train(1024, progress=False, distribution=distribution)
    """

    def __init__(self, synchronous: bool = True, *, comm: Any = None, timeout: float = 3600.0):
        check.kind(synchronous, bool, "MPI: synchronous")
        self.synchronous, self.timeout = synchronous, check.positive(timeout, "MPI: timeout", "s")
        self._comm = mpi.world("MPI") if comm is None else comm
        self.rank: int = 0 if self._comm is None else self._comm.Get_rank()
        self.size: int = 1 if self._comm is None else self._comm.Get_size()
        self.actors = max(self.size - 1, 1)

    @property
    def root(self) -> bool:  # type: ignore[override]
        """True on the learner's rank."""
        return self.rank == 0

    def run(self, agent: FragmentedAgent, loop: Callable[[Iterate], None], interrupted: list[int]) -> None:
        """See `Distribution`."""
        if self.size == 1:
            return OneProcess().run(agent, _reporting_staleness(loop) if not self.synchronous else loop, interrupted)
        check_splits(agent, self)
        before = get_threads()
        try:
            (_Learner if self.root else _Acting)(agent, self, interrupted).run(loop)
        finally:
            set_threads(before)

    def __repr__(self) -> str:
        return f"MPI(synchronous={self.synchronous}) on {self.size} ranks"


class _Link:
    """Messages between ranks: trees, pickled but for their arrays.

    A rank that waits sleeps, and leaves its processor to others.
    """

    def __init__(self, comm: Any, timeout: float):
        from mpi4py.util import pkl5

        self.comm, self.timeout, self.lost = pkl5.Intracomm(comm), timeout, False
        self.here = f"rank {comm.Get_rank()} on {socket.gethostname()}"

    def send(self, rank: int, message: tuple) -> Any:
        """Begin to send; the request is done when the other side has received."""
        return self.comm.isend(message, rank, _TAG)

    def waiting(self) -> bool:
        """Return True if a message has arrived."""
        return self.comm.iprobe(tag=_TAG)

    def receive(self, missing: Callable[[], str], rank: int | None = None) -> tuple[int, tuple]:
        """(rank, message): the next one of that rank, or of any. `missing` says who has not answered."""
        from mpi4py.MPI import ANY_SOURCE, Status

        status = Status()
        self.wait(lambda: self.comm.iprobe(ANY_SOURCE if rank is None else rank, _TAG, status), missing)
        return status.Get_source(), self.comm.recv(source=status.Get_source(), tag=_TAG)

    def wait(self, done: Callable[[], bool], missing: Callable[[], str]) -> None:
        """Until something is done."""
        began = time.monotonic()
        while not done():
            waited = time.monotonic() - began
            if waited > self.timeout:
                self.give_up(missing(), waited)
            time.sleep(min(waited / 10, _LONGEST_NAP))

    def give_up(self, who: str, waited: float) -> None:
        """A rank does not answer."""
        self.lost = True
        raise DistributionError(
            f"{who}: nothing was heard for {waited:.3g} s (it hangs or was killed; MPI(timeout=) sets how long to wait)"
        )


class _End:
    """Shared state of both ends of the connection."""

    def __init__(self, agent: FragmentedAgent, policy: MPI, interrupted: list[int]):
        self.agent, self.actors, self.synchronous, self.interrupted = (
            agent,
            policy.actors,
            policy.synchronous,
            interrupted,
        )
        # the learner may be waiting for others
        self.link = _Link(policy._comm, policy.timeout if policy.root else 2 * policy.timeout)


class _Learner(_End):
    """The role of rank 0."""

    def run(self, loop: Callable[[Iterate], None]) -> None:
        self.version = 0
        self.requests: list[Any] = []
        # answers of each actor that were read, and got none themselves
        self.owed = Counter(dict.fromkeys(range(self.actors), 0))
        self.places = {k: f"rank {k + 1}" for k in range(self.actors)}
        ended = False
        try:
            try:
                self._join()
                loop(self._iterate)
            except Exception as error:
                if not self.link.lost:
                    with contextlib.suppress(DistributionError):  # the first error is the one to be raised
                        self._end(_told(error, self.link.here))
                        ended = True
                raise
            self._end(None)
            ended = True
        finally:
            if not ended:  # a rank does not answer, or Ctrl-C was pressed twice: only MPI can end the others
                atexit.register(self.link.comm.Abort, 1)

    def _join(self):
        """All ranks must have made the same agent; actors get their states, and how many threads are theirs."""
        mine = _description(self.agent)
        hosts: dict[int, Any] = {}
        while len(hosts) < self.actors:
            rank, (theirs, host) = self._receive([k for k in range(self.actors) if k + 1 not in hosts])
            self.places[rank - 1], hosts[rank] = f"rank {rank} on {host[0]}", host
            different = [
                f"{name} ({mine.get(name)} and {theirs.get(name)})"
                for name in mine | theirs
                if mine.get(name) != theirs.get(name)
            ]
            if different:
                raise DistributionError(
                    f"{self.agent.name}.train: all ranks must have made the same agent, but ranks "
                    f"0 and {rank} differ in "
                    f"{', '.join(different)}"
                )
        if not self.synchronous:
            hosts[0] = mpi.location()
            set_threads(_share(hosts, 0))
        self.states = list(self.agent.deal(self.actors))
        self.requests += [self.link.send(k + 1, ("begin", state, hosts)) for k, state in enumerate(self.states)]
        self.heard = dict.fromkeys(range(self.actors), time.monotonic())

    def _iterate(self):
        parameters = self.agent.parameters
        self.requests = [r for r in self.requests if not r.test()[0]]
        self.requests += [
            self.link.send(k + 1, ("parameters", self.version, parameters, answered))
            for k, answered in self.owed.items()
        ]
        found: list[tuple[int, int, Any]] = []
        while len(found) < self.actors:
            rank, (version, experience, self.states[rank - 1], stop) = self._receive(
                set(range(self.actors)) - {k for k, *_ in found}
            )
            found.append((rank - 1, version, experience))
            self.heard[rank - 1] = time.monotonic()
            if stop and not self.interrupted:
                self.interrupted.append(signal.SIGINT)
        if self.synchronous:
            found.sort(key=lambda x: x[0])
        self.owed = Counter(k for k, *_ in found)
        numbers = self._learned([x for *_, x in found])
        staleness = sum(self.version - version for _, version, _ in found) / self.actors
        self.version += 1
        return numbers if self.synchronous else {**numbers, "staleness": staleness}

    def _learned(self, experiences):
        """Numbers of the agent; who was not heard for long while others were is noticed before."""
        began = time.monotonic()
        silent = min(self.heard, key=self.heard.__getitem__)
        if began - self.heard[silent] > self.link.timeout:
            self.link.give_up(self._names([silent]), began - self.heard[silent])
        numbers = learn(self.agent, experiences, self.states)
        # no messages were received meanwhile
        self.heard = {k: then + time.monotonic() - began for k, then in self.heard.items()}
        return numbers

    def _receive(self, missing):
        """Return the next message that is not a failure."""
        rank, message = self.link.receive(lambda: self._names(missing))
        if message[0] == "failed":
            raise _error(*message[1:])
        return rank, message

    def _names(self, actors):
        return f"{self.agent.name}: " + " and ".join(
            f"actor {k} of {self.actors} ({self.places[k]})" for k in sorted(actors)
        )

    def _end(self, told):
        """Tell all actors, and read until they have heard, so that no message is left."""
        state = None if told else self.agent.state
        self.requests += [
            self.link.send(k + 1, ("end", told, bool(self.interrupted), state)) for k in range(self.actors)
        ]
        # one that has ended may already have begun the next training: of that nothing must be read here
        for k in range(self.actors):
            who = self._names([k])
            while self.link.receive(who.__str__, k + 1)[1][0] != "ended":
                pass
        for request in self.requests:
            request.wait()


class _Acting(_End):
    """The role of the other ranks."""

    def run(self, loop: Callable[[Iterate], None]) -> None:
        self.k, self.ended = self.link.comm.Get_rank() - 1, None
        failed = None
        try:
            try:
                self._send((_description(self.agent), mpi.location()))
                self._act()
            except _Ended:
                raise
            except Exception as error:
                if self.link.lost:
                    raise
                failed = error
                self._send(("failed", *_told(error, self.link.here)))
            while True:
                self._next()
        except _Ended as end:
            _, told, interrupted, state = end.args[0]
            self._send(("ended",))
        except BaseException:  # the learner does not answer, or Ctrl-C was pressed twice
            atexit.register(self.link.comm.Abort, 1)
            raise
        if failed is not None:
            raise failed
        if told is not None:
            raise _error(*told)
        self.agent.state = state
        if interrupted and not self.interrupted:
            self.interrupted.append(signal.SIGINT)

    def _act(self):
        _, state, hosts = self._next()
        set_threads(_share(hosts, self.k + 1))
        actor = PlacedActor(self.agent, self.k, self.actors, state, f"rank {self.k + 1}")
        parameters, unanswered, most = None, 0, 0 if self.synchronous else 1
        while True:
            while parameters is None or unanswered > most or self.link.waiting():
                _, version, parameters, answered = self._next()
                unanswered -= answered
            experience = actor.collect(parameters)
            self._send((version, experience, actor.state, bool(self.interrupted)))
            unanswered += 1

    def _next(self):
        """The learner's next message."""
        _, message = self.link.receive(self._learner)
        if message[0] == "end":
            raise _Ended(message)
        return message

    def _send(self, message):
        request = self.link.send(0, message)
        self.link.wait(lambda: request.test()[0], self._learner)

    def _learner(self):
        return f"{self.agent.name}: the learner (rank 0)"


class _Ended(Exception):
    """The learner has said that it is over."""


def _share(hosts, rank):
    """Threads of a rank, when all of these compute at the same time."""
    return max(1, get_threads() // sum(host == hosts[rank] for host in hosts.values()))


def _reporting_staleness(loop):
    """The same columns of a table as with several ranks."""
    return lambda iterate: loop(lambda: {**iterate(), "staleness": 0.0})


def _description(agent):
    """Return a text that must be equal on all ranks."""
    return {
        "agent": agent.name,
        "spaces": agent._spaces,
        **{name: _text(value) for name, value in vars(agent.settings).items()},
    }


def _text(value):
    arrays: dict[str, np.ndarray] = {}
    try:
        text = json.dumps(storage.pack(value, arrays), default=str)
    except TypeError:  # values without a name cannot be compared
        return type(value).__name__
    digest = hashlib.sha256(
        b"".join([text.encode(), *(np.ascontiguousarray(a).tobytes() for a in arrays.values())])
    ).hexdigest()
    return text if len(text) < 40 and not arrays else f"{type(value).__name__} {digest[:8]}"


def _told(error, here):
    """An error for other ranks: name of its class, text, and where it came from."""
    trace = "".join(traceback.format_exception(error))
    return type(error).__name__, str(error), f"({here})\n{trace}"


def _error(kind, text, note):
    """The error of another rank: of its class, where that takes a text."""
    found = getattr(errors, kind, None) or getattr(builtins, kind, None)
    if not (isinstance(found, type) and issubclass(found, Exception)) or issubclass(found, (KeyError, UnicodeError)):
        found, text = DistributionError, f"{kind}: {text}"
    error = found(text)
    error.add_note(note)
    return error
