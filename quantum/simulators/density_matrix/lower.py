"""From a circuit to tables of operations for `kernels`: places of qubits, blocks of the vector, coefficients.

Which qubit is at which position of the index changes as operations need it: positions 0 and 1 are inside SIMD vectors,
where nothing acts, and a vector too large for the cache is worked on in blocks of `BLOCK` positions, chosen so that as
many operations as possible are done on each.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...parameters import Linear
from .merge import Map
from .vector_kernels import EXCHANGE_0, EXCHANGE_1, GROUP, ONE, ROW, STAGE, UNITAL

__all__ = ["Segment", "lower"]

BLOCK = 6  # positions of a block: 32 kB
SINGLE = 7  # a vector of as many positions is one block
_LOW = 3  # positions that are in every block: contiguous runs of 512 bytes


@dataclass
class Segment:
    """Consecutive maps as tables for `kernels.fill` and `kernels.run`."""

    positions: int  # m: the vector has 4**m numbers
    before: list[int]  # position of each qubit at the start, and at the end
    after: list[int] = field(default_factory=list)
    stages: Any = field(default_factory=list)
    rows: Any = field(default_factory=list)
    ints: Any = field(default_factory=list)
    fills: Any = field(default_factory=list)
    table: Any = field(default_factory=list)
    coefficients: int = 0
    table_size: int = 0
    # of gates that are functions: (instruction, place in table, strings, place in coefficients)
    sources: list[tuple[Any, int, np.ndarray, int]] = field(default_factory=list)


def lower(maps: list[Map], before: list[int], positions: int, angles: dict[Linear, int], block: int = BLOCK) -> Segment:
    """Tables for the maps, the qubits being at `before` of `positions` positions; new angles are added to `angles`."""
    segment = Segment(positions, list(before))
    emitter = _Emitter(segment, maps, angles)
    remaining = list(range(len(maps)))
    while remaining:
        active, chosen, left = emitter.choose(remaining, block)
        emitter.emit(active, chosen)
        remaining = left
    segment.after = emitter.where[: len(before)]
    segment.stages = np.array(segment.stages, np.int64).reshape(-1, STAGE)
    segment.rows = np.array(segment.rows, np.int64).reshape(-1, ROW)
    segment.ints = np.array(segment.ints or [0], np.int64)
    segment.fills = np.array(segment.fills, np.int64).reshape(-1, 5)
    segment.table = np.concatenate([t.reshape(-1) for t in segment.table]) if segment.table else np.zeros(1)
    return segment


class _Emitter:
    def __init__(self, segment: Segment, maps: list[Map], angles: dict[Linear, int]):
        self.segment, self.maps, self.angles = segment, maps, angles
        used = set(segment.before)
        # dummy qubits after the real
        self.where = [*segment.before, *(p for p in range(segment.positions) if p not in used)]
        self.at = [0] * segment.positions
        for q, p in enumerate(self.where):
            self.at[p] = q
        self.uses: dict[int, list[int]] = {q: [] for q in range(segment.positions)}
        for number, item in enumerate(maps):
            for q in item.qubits:
                self.uses[q].append(number)

    def choose(self, remaining: list[int], block: int) -> tuple[list[int], list[int], list[int]]:
        """Positions of the next block, the maps that are done in it, and those left."""
        m = self.segment.positions
        if m <= block:
            return list(range(m)), remaining, []
        inside = set(self.at[:_LOW])
        blocked: set[int] = set()
        chosen, left = [], []
        for number in remaining:
            qubits = self.maps[number].qubits
            if blocked.isdisjoint(qubits) and len(inside.union(qubits)) <= block:
                inside.update(qubits)
                chosen.append(number)
            else:
                blocked.update(qubits)
                left.append(number)
        others = (p for p in range(m) if self.at[p] not in inside)
        active = [self.where[q] for q in inside]
        while len(active) < block:
            active.append(next(others))
        return sorted(active), chosen, left

    def emit(self, active: list[int], chosen: list[int]) -> None:
        m, low = self.segment.positions, 0
        while low < len(active) and active[low] == low:
            low += 1
        gathered = np.zeros(1, np.int64)
        for p in active[low:]:
            gathered = (np.arange(4)[:, None] << 2 * p | gathered).reshape(-1)
        ints, first = self.segment.ints, len(self.segment.rows)
        stage = [len(active), len(ints), len(gathered), len(ints) + len(gathered), low, first]
        ints.extend(gathered.tolist())
        ints.extend(2 * p for p in range(m) if p not in active)
        self.place = {p: k for k, p in enumerate(active)}
        for number in chosen:
            item = self.maps[number]
            self.make_room(item.qubits, number)
            (self.one if len(item.qubits) == 1 and item.source is None else self.group)(item)
        self.segment.stages.append([*stage, len(self.segment.rows)])

    def make_room(self, qubits: tuple[int, ...], number: int) -> None:
        """Exchange positions so that none of `qubits` is inside a vector; those needed last go there."""
        for q in qubits:
            p = self.where[q]
            if p > 1:
                continue
            free = [self.at[p2] for p2 in self.place if p2 > 1 and self.at[p2] not in qubits]
            other = max(free, key=lambda o: next((u for u in self.uses[o] if u > number), len(self.maps) + o))
            p2 = self.where[other]
            self.row(EXCHANGE_1 if p else EXCHANGE_0, 2 * self.place[p2])
            self.where[q], self.where[other], self.at[p], self.at[p2] = p2, p, other, q

    def row(self, *integers: int, varying: int = 0) -> None:
        self.segment.rows.append([*integers, *[0] * (ROW - 1 - len(integers)), varying])

    def fill(self, times: int, table: np.ndarray, angle: Linear | None, place: int, count: int) -> None:
        at = self.segment.table_size
        self.segment.table.append(table)
        self.segment.table_size += table.size
        number = -1 if angle is None else self.angles.setdefault(angle, len(self.angles))
        self.segment.fills.append([times, at, number, place, count])

    def one(self, item: Map) -> None:
        place = self.segment.coefficients
        for k, (table, angle) in enumerate(zip(item.tables, item.angles, strict=True)):
            self.fill(k > 0, table, angle, place, 16)
        self.segment.coefficients += 16
        unital = all(
            not t[:, 0, 1:].any() and not t[:, 1:, 0].any() and t[0, 0, 0] == 1 and not t[1:, 0, 0].any()
            for t in item.tables
        )
        varying = 16 * any(a is not None for a in item.angles)
        self.row(UNITAL if unital else ONE, 2 * self.place[self.where[item.qubits[0]]], place, varying=varying)

    def group(self, item: Map) -> None:
        segment, (table,), (angle,) = self.segment, item.tables, item.angles
        shifts = [2 * self.place[self.where[q]] for q in item.qubits]
        places = len(segment.ints)
        segment.ints.extend(sorted(shifts))
        strings = np.arange(table.shape[1])
        offsets = sum(((strings >> 2 * k & 3) << shift for k, shift in enumerate(shifts)), np.zeros_like(strings))
        for part in components(table):
            inner = table[:, part[:, None], part]
            if angle is None and item.source is None and len(part) == 1 and inner[0, 0, 0] == 1:
                continue
            if item.source is not None:
                segment.sources.append((item.source, segment.table_size, part, segment.coefficients))
            entries = len(segment.ints)
            segment.ints.extend(offsets[part].tolist())
            self.fill(0, inner, angle, segment.coefficients, inner[0].size)
            varying = inner[0].size * (angle is not None or item.source is not None)
            self.row(GROUP, places, len(shifts), entries, len(part), segment.coefficients, varying=varying)
            segment.coefficients += inner[0].size


def components(table: np.ndarray) -> tuple[np.ndarray, ...]:
    """Sets of strings that the map mixes among each other."""
    return _components(table.any(0).tobytes(), table.shape[1])


@functools.lru_cache(1024)
def _components(pattern: bytes, size: int) -> tuple[np.ndarray, ...]:
    linked = np.frombuffer(pattern, bool).reshape(size, size)
    linked = linked | linked.T
    label = np.arange(size)
    while True:
        new = np.minimum(np.where(linked, label, size).min(1), label)
        new = new[new]
        if np.array_equal(new, label):
            break
        label = new
    return tuple(np.flatnonzero(label == k) for k in np.unique(label))
