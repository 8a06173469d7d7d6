"""The memory plan: where every stored value of a graph lives.

Inputs and results are the caller's buffers. Everything else shares one arena by live range: a value takes the best
fitting gap among those alive with it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from ..graph.graph import Var
from .fuse import Fusion, Group
from .row_blocks import RowBlocks

__all__ = ["Plan"]

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Place(NamedTuple):
    """The storage of a value: `kind` is "input", "output" or "arena"; `at` its number, or its offset in bytes."""

    kind: str
    at: int


class Plan:
    """Places of the stored values of a graph."""

    def __init__(
        self,
        fusion: Fusion,
        steps: list[Any],
        extra: dict[Any, dict[Any, int]],
        in_place: dict[int, int],
        updated: Callable[[Any], Any],
        settled: int = 0,
    ):
        """`extra[step]`: further buffers (key: bytes) that live during that step only. `in_place`: {output: input}
        where the caller gives the input's own buffer as the output if the plan says that it is overwritten.
        `updated(step)`:
        the operand whose place the step's result may take. No step before `settled` overwrites an input.
        """
        self.fusion, self.steps, self.updated = fusion, steps, updated
        graph = fusion.graph
        # by Var (bases only, see `Fusion.base`), or by the keys in `extra`
        self.places: dict[Any, Place] = {v: Place("input", k) for k, v in enumerate(graph.inputs)}
        self.copies: list[tuple[int, Any]] = []  # (k, Var or Const): results that are copied at the end
        self.overwritten: set[int] = set()  # outputs that are computed, or left, in the buffer of their input
        self._find_ranges(extra)
        for k, o in enumerate(graph.outputs):
            base = fusion.base(o) if isinstance(o, Var) else None
            donor = graph.inputs[in_place[k]] if k in in_place else None
            if base is not None and base is donor:
                self.overwritten.add(k)
                continue
            if base is None or base in self.places:
                self.copies.append((k, o))
                continue
            self.places[base] = Place("output", k)
            if donor is not None and self.first[base] >= settled and self._can_overwrite(base, donor):
                self.overwritten.add(k)
        for _, o in self.copies:
            if isinstance(o, Var):
                self.last[fusion.base(o)] = len(steps)
        self.size = 0  # bytes of the arena
        self._allocate()

    def _find_ranges(self, extra):
        """The steps that make a value and that read it last."""
        self.first: dict[Any, int] = {}
        self.last: dict[Any, int] = {}
        self.sizes: dict[Any, int] = {}
        for t, step in enumerate(self.steps):
            written, read = values_of(step)
            for v in written:
                self.first.setdefault(v, t)
                self.last[v] = t
                self.sizes[v] = v.spec.nbytes
            for v in read:
                self.last[self.fusion.base(v)] = t
            for key, size in extra.get(step, {}).items():
                self.first[key] = self.last[key] = t
                self.sizes[key] = size

    def _can_overwrite(self, new: Var, old: Var) -> bool:
        """Return True if `new` may be computed in the buffer of `old`, which dies at that step."""
        t = self.first[new]
        if (
            self.last.get(old, -1) != t
            or old.spec.nbytes != new.spec.nbytes
            or any(isinstance(o, Var) and self.fusion.base(o) is old for o in self.fusion.graph.outputs)
        ):
            return False
        step = self.steps[t]
        if isinstance(step, RowBlocks):
            return False
        if isinstance(step, Group):
            return not step.again and self.fusion.reads_in_place(step, new, old)
        operand = self.updated(step)
        return (
            isinstance(operand, Var)
            and self.fusion.base(operand) is old
            and sum(isinstance(a, Var) and self.fusion.base(a) is old for a in step.eqn.inputs) == 1
        )

    @cached_property
    def alive(self) -> list[int]:
        """By step: bytes of the values in the arena that are kept while it runs."""
        change = [0] * (len(self.steps) + 2)
        for key, place in self.places.items():
            if place.kind == "arena":
                change[self.first[key]] += self.sizes[key]
                change[self.last[key] + 1] -= self.sizes[key]
        return list(itertools.accumulate(change))[: len(self.steps)]

    @cached_property
    def _read_last(self):
        """By step: the values that are read there and nowhere later."""
        found: dict[int, list[Var]] = {}
        for t, step in enumerate(self.steps):
            for v in dict.fromkeys(map(self.fusion.base, values_of(step)[1])):
                if self.last[v] == t:
                    found.setdefault(t, []).append(v)
        return found

    def _allocate(self):
        starting: dict[int, list[Any]] = {}
        for key, t in self.first.items():
            starting.setdefault(t, []).append(key)
        live: list[tuple[int, int, int]] = []  # (offset, end, last step), by offset
        for t, step in enumerate(self.steps):
            live = [r for r in live if r[2] >= t]
            dying = [v for v in self._read_last.get(t, ()) if v in self.places and self.places[v].kind == "arena"]
            for key in starting.get(t, ()):
                if key in self.places:
                    continue
                size = -(-max(self.sizes[key], 1) // ALIGNMENT) * ALIGNMENT
                offset = self._inherited(step, key, dying, live)
                if offset is None:
                    offset = self._gap(live, size)
                live.append((offset, offset + size, self.last[key]))
                live.sort()
                self.places[key] = Place("arena", offset)
                self.size = max(self.size, offset + size)

    def _inherited(self, step, key, dying, live):
        """The place of one of the operands that die here, which `key` then overwrites; it is no longer among them."""
        if isinstance(step, RowBlocks) or not isinstance(key, Var):
            return None
        old = next((v for v in dying if self._can_overwrite(key, v)), None)
        if old is None:
            return None
        dying.remove(old)
        at = self.places[old].at
        live.remove(next(r for r in live if r[0] == at))
        return at

    @staticmethod
    def _gap(live, size):
        best, best_waste, end = None, None, 0
        for start, stop, _ in live:
            free = start - end
            if free >= size and (best_waste is None or free - size < best_waste):
                best, best_waste = end, free - size
            end = max(end, stop)
        return end if best is None else best


def values_of(step: Any) -> tuple[list[Var], list[Var]]:
    """Values a step writes and reads."""
    if isinstance(step, Group):
        return [r.var for r in step.roots], list(step.reads)
    if isinstance(step, RowBlocks):
        return [r.var for g in step.groups for r in g.roots], [v for g in step.groups for v in g.reads]
    return list(step.eqn.outputs), [a for a in step.eqn.inputs if isinstance(a, Var)]
