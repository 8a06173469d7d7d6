"""The steps of pipelines; `Source` has a method for each."""

from __future__ import annotations

import dataclasses
import itertools
import threading
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from ..errors import DataError
from . import mapping
from .block import Block, concatenate, map_in_order, stack
from .iteration import walk
from .order import permuted
from .pipeline import InMemory, Source
from .workers import ahead_of

__all__ = [
    "Batch",
    "Buffer",
    "Cache",
    "Filter",
    "Interleave",
    "Map",
    "Node",
    "Prefetch",
    "Repeat",
    "Shard",
    "Shuffle",
    "Take",
    "in_memory",
]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Node(Source):
    """A step behind another source."""

    parent: Source

    @property
    def indexed(self) -> bool:
        return self.parent.indexed

    @property
    def batched(self) -> bool:
        return self.parent.batched

    @property
    def maps(self) -> int:
        return self.parent.maps

    def count(self) -> int | None:
        return self.parent.count()

    def describe(self, index: int) -> str | None:
        return self.parent.describe(index)

    def __repr__(self) -> str:
        given = [getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "parent"]
        shown = [mapping.name_of(v) if callable(v) else repr(v) for v in given if not (v is None or v is False)]
        return f"{self.parent!r}.{type(self).__name__.lower()}({', '.join(shown)})"


class _Selected(Node):
    """A step that reads the parent's elements at other positions."""

    def at(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        """Positions in the parent."""
        raise NotImplementedError

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        return self.parent.rows(self.at(positions, epoch), epoch)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Shuffle(_Selected):
    """See `Source.shuffle`."""

    seed: int

    def at(self, positions: np.ndarray, epoch: int) -> np.ndarray:
        return permuted(positions, len(self.parent), self.seed, epoch)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Shard(_Selected):
    """See `Source.shard`."""

    index: int
    shards: int

    def at(self, positions: np.ndarray, _epoch: int) -> np.ndarray:
        return positions * self.shards + self.index

    def count(self) -> int | None:
        n = self.parent.count()
        return None if n is None else (n - self.index + self.shards - 1) // self.shards

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        seen = 0 if state is None else int(state["seen"])
        for value, index, own, after in walk(self.parent, epoch, None if state is None else state["parent"]):
            seen += 1
            if (seen - 1) % self.shards == self.index:
                yield value, index, own, {"seen": seen, "parent": after}


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Take(_Selected):
    """See `Source.take`."""

    n: int

    def at(self, positions: np.ndarray, _epoch: int) -> np.ndarray:
        return positions

    def count(self) -> int | None:
        n = self.parent.count()
        return self.n if n is None and self.indexed else None if n is None else min(n, self.n)

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        seen = 0 if state is None else int(state["seen"])
        if seen < self.n:
            for value, index, own, after in walk(self.parent, epoch, None if state is None else state["parent"]):
                seen += 1
                yield value, index, own, {"seen": seen, "parent": after}
                if seen == self.n:
                    return


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Repeat(Node):
    """See `Source.repeat`. Pass p of epoch e reads epoch ``e * times + p`` of the parent, and e + p without end."""

    times: int | None

    @property
    def indexed(self) -> bool:
        return self.parent.indexed and self.parent.count() is not None

    def count(self) -> int | None:
        n = self.parent.count()
        return None if n is None or self.times is None else n * self.times

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        n = len(self.parent)
        passes, positions = np.divmod(positions, n)
        first = epoch * (self.times or 1)
        edges = [0, *(np.flatnonzero(np.diff(passes)) + 1), len(passes)]
        return concatenate(
            [self.parent.rows(positions[a:b], first + int(passes[a])) for a, b in itertools.pairwise(edges)]
        )

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        start = 0 if state is None else int(state["pass"])
        inner = None if state is None else state["parent"]
        for k in itertools.count(start) if self.times is None else range(start, self.times):
            empty = inner is None
            for value, index, own, after in walk(self.parent, epoch * (self.times or 1) + k, inner):
                empty = False
                yield value, index, own, {"pass": k, "parent": after}
            if empty:
                raise DataError(f"repeat: the source must have elements, got none in pass {k} of {self.parent!r}")
            inner = None


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Map(Node):
    """See `Source.map`."""

    function: Any
    on: Any
    seed: int
    stage: int

    @property
    def maps(self) -> int:
        return self.stage + 1

    def __repr__(self) -> str:
        on = "" if self.on is None else f", on={self.on!r}"
        names = " | ".join(mapping.name_of(s.function) for s in self.steps)
        return f"{self.parent!r}.map({names}{on})"

    @cached_property
    def steps(self) -> list[mapping.Step]:
        return mapping.steps(self.function, self.on, self.seed, self.stage)

    @cached_property
    def _chain(self):
        """The source before all neighboring maps, and their program."""
        base, found = self.parent, self.steps
        while isinstance(base, Map):
            base, found = base.parent, base.steps + found
        return base, mapping.Program(found, self.batched)

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        base, program = self._chain
        return program(base.rows(positions, epoch), self.describe)

    def feed(self, epoch: int, state: Any, size: int) -> Iterator[tuple[Any, int, Any]]:
        return self._chain[0].feed(epoch, state, size)

    def run(self, job: Any) -> Block:
        base, program = self._chain
        return program(base.run(job), self.describe)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Batch(Node):
    """See `Source.batch`. The id of a batch is that of its first sample."""

    size: int
    drop_remainder: bool

    @property
    def batched(self) -> bool:
        return True

    def count(self) -> int | None:
        n = self.parent.count()
        return None if n is None else n // self.size if self.drop_remainder else -(-n // self.size)

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        n = self.parent.count()
        ends = [(k + 1) * self.size if n is None else min((k + 1) * self.size, n) for k in positions.tolist()]
        return self._stacked(
            [
                self.parent.rows(np.arange(k * self.size, end), epoch)
                for k, end in zip(positions.tolist(), ends, strict=True)
            ]
        )

    def feed(self, epoch: int, state: Any, size: int) -> Iterator[tuple[Any, int, Any]]:
        if self.indexed:
            yield from super().feed(epoch, state, size)
            return
        found, after = [], None
        for job, n, after in self.parent.feed(epoch, state, self.size):
            if n == self.size or not self.drop_remainder:
                found.append(job)
            if len(found) == size:
                yield found, size, after
                found = []
        if found:
            yield found, len(found), after

    def run(self, job: Any) -> Block:
        return self.rows(*job) if self.indexed else self._stacked([self.parent.run(j) for j in job])

    def _stacked(self, blocks):
        stacked = [stack(b, self.describe) for b in blocks]
        ids, epochs = (np.array([getattr(b, name)[0] for b in blocks], np.int64) for name in ("ids", "epochs"))
        return Block([b.values for b in stacked], ids, epochs, False)


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class _Stream(Node):
    """A step that happens in order."""

    @property
    def indexed(self) -> bool:
        return False


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Filter(_Stream):
    """See `Source.filter`."""

    predicate: Any

    def count(self) -> None:
        return None

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        for value, index, own, after in walk(self.parent, epoch, state):
            try:
                kept = bool(self.predicate(value))
            except Exception as error:
                which = Block([value], np.array([index]), np.array([own]), False).named(0, self.describe)
                raise DataError(
                    f"filter: `{mapping.name_of(self.predicate)}` failed at {which}: {type(error).__name__}: {error}"
                ) from error
            if kept:
                yield value, index, own, after


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Buffer(_Stream):
    """See `Source.shuffle`; the state is that before the window, which is read again."""

    seed: int
    buffer: int

    def __repr__(self) -> str:
        return f"{self.parent!r}.shuffle({self.seed}, buffer={self.buffer})"

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        before, number, taken = (
            (None, 0, 0) if state is None else (state["parent"], int(state["window"]), int(state["taken"]))
        )
        upstream = walk(self.parent, epoch, before)
        while window := list(itertools.islice(upstream, self.buffer)):
            n = len(window)
            order = permuted(np.arange(n), n, self.seed + (number << 32), epoch)
            after = {"parent": window[-1][3], "window": number + 1, "taken": 0}
            for k in range(taken, n):
                here = {"parent": before, "window": number, "taken": k + 1}
                yield (*window[order[k]][:3], here if k + 1 < n else after)
            before, number, taken = window[-1][3], number + 1, 0


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Interleave(Source):
    """See `Source.interleave`. The id of a sample is ``id * sources + number of the source``."""

    sources: tuple[Source, ...]

    @property
    def indexed(self) -> bool:
        return False

    @property
    def batched(self) -> bool:
        return self.sources[0].batched

    @property
    def maps(self) -> int:
        return sum(s.maps for s in self.sources)

    def count(self) -> int | None:
        counts = [s.count() for s in self.sources]
        return None if None in counts else sum(counts)

    def describe(self, index: int) -> str | None:
        index, which = divmod(index, len(self.sources))
        return self.sources[which].describe(index)

    def __repr__(self) -> str:
        return f"{self.sources[0]!r}.interleave({', '.join(map(repr, self.sources[1:]))})"

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        m = len(self.sources)
        states = [None] * m if state is None else list(state["sources"])
        open_ = [True] * m if state is None else [bool(x) for x in state["open"]]
        turn = 0 if state is None else int(state["turn"])
        walks = [walk(s, epoch, p) for s, p in zip(self.sources, states, strict=True)]
        while any(open_):
            k, turn = turn, (turn + 1) % m
            if not open_[k]:
                continue
            try:
                value, index, own, states[k] = next(walks[k])
            except StopIteration:
                open_[k] = False
                continue
            yield value, index * m + k, own, {"sources": list(states), "open": list(open_), "turn": turn}


class _Kept:
    """Elements that a cache holds; of streams, those up to `upstream`."""

    def __init__(self):
        self.lock, self.found, self.upstream = threading.Lock(), {}, None


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Cache(Node):
    """See `Source.cache`."""

    @cached_property
    def _kept(self):
        return _Kept()

    def count(self) -> int | None:
        n, kept = self.parent.count(), self._kept
        return len(kept.found) if n is None and not self.indexed and kept.upstream == "ended" else n

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        found = self._kept.found
        missing = np.array([p for p in positions.tolist() if p not in found], np.int64)
        if missing.size:
            block = self.parent.rows(missing, 0)
            for p, value, index in zip(missing.tolist(), block.samples(), block.ids.tolist(), strict=True):
                found.setdefault(p, (map_in_order(np.array, value) if block.stacked else value, index))
        values, ids = zip(*[found[p] for p in positions.tolist()], strict=True)
        return Block(list(values), np.array(ids, np.int64), np.full(len(ids), epoch, np.int64), False)

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        kept = self._kept
        for k in itertools.count(0 if state is None else int(state)):
            with kept.lock:
                if kept.upstream is None:
                    kept.upstream = walk(self.parent, 0, None)
                while len(kept.found) <= k and kept.upstream != "ended":
                    try:
                        kept.found[len(kept.found)] = next(kept.upstream)[:2]
                    except StopIteration:
                        kept.upstream = "ended"
                if k >= len(kept.found):
                    return
            yield *kept.found[k], epoch, k + 1


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Prefetch(_Stream):
    """See `Source.prefetch`."""

    ahead: int
    workers: int
    processes: bool

    def feed(self, epoch: int, state: Any, size: int) -> Iterator[tuple[Any, int, Any]]:
        jobs = self.parent.feed(epoch, state, size)
        yield from ahead_of(self.parent, jobs, self.ahead * self.workers, self.workers, self.processes)

    def run(self, job: Any) -> Block:
        return job


def in_memory(source: Source) -> InMemory | None:
    """See `Source.arrays_in_memory`."""
    behind: list[mapping.Step] = []
    before: list[mapping.Step] = []
    selected: list[_Selected] = []
    batch, node = None, source
    while (held := node.held()) is None:
        if isinstance(node, Map):
            (behind if batch is None else before)[:0] = node.steps
        elif isinstance(node, Batch) and batch is None:
            batch = node
        elif isinstance(node, _Selected) and batch is not None:
            selected.append(node)
        elif not isinstance(node, Prefetch):
            return None
        node = node.parent  # type: ignore[attr-defined]
    if batch is None:
        return None
    one, whole = mapping.Program(before, False).traceable(), mapping.Program(behind, True).traceable()
    if one is None or whole is None:
        return None
    n, (arrays, gather) = len(batch.parent), held

    def order(epoch: int) -> np.ndarray:
        positions = np.arange(n)
        for step in selected:
            positions = step.at(positions, epoch)
        return positions

    def make(arrays: Any, indices: Any, epoch: Any) -> Any:
        epochs = np.broadcast_to(np.asarray(epoch, np.int64) if isinstance(epoch, int) else epoch, np.shape(indices))
        return whole(one(gather(arrays, indices), indices, epochs), indices[0], epochs[0])

    return InMemory(arrays, order, make, batch.size, batch.drop_remainder)
