"""The memory plan: where every stored value of a graph lives.

Inputs and results are the caller's buffers. Everything else shares one arena by live range: a value takes the best
fitting gap among those alive with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from triskele.core.compile.fuse import Fusion, Group
from triskele.core.graph.graph import Var

ALIGNMENT = 64  # bytes: a cache line, and the widest vector


class Place(NamedTuple):
    """Where a value lives: `kind` is "input", "output" or "arena"; `at` its number, or its offset in bytes."""

    kind: str
    at: int


class Plan:
    """Places of the stored values of a graph.

    Attributes
    ----------
    places : dict
        By Var (bases only, see `Fusion.base`), or by whatever else was given in `extra`.
    copies : list of (int, Var or Const)
        Results that nobody computes in place: copied at the end.
    size : int, bytes
        Of the arena.
    """

    def __init__(self, fusion: Fusion, steps: list[Any], extra: dict[Any, dict[Any, int]]):
        """`extra[step]`: further buffers (key: bytes) that live during that step only."""
        graph = fusion.graph
        self.places: dict[Any, Place] = {v: Place("input", k) for k, v in enumerate(graph.inputs)}
        self.copies: list[tuple[int, Any]] = []
        for k, o in enumerate(graph.outputs):
            base = fusion.base(o) if isinstance(o, Var) else None
            if base is None or base in self.places:
                self.copies.append((k, o))
            else:
                self.places[base] = Place("output", k)
        self.size = 0
        self._allocate(fusion, steps, extra)

    def _allocate(self, fusion, steps, extra):
        first: dict[Any, int] = {}
        last: dict[Any, int] = {}
        sizes: dict[Any, int] = {}
        for t, step in enumerate(steps):
            written, read = values_of(step)
            for v in written:
                first.setdefault(v, t)
                last[v] = t
                sizes[v] = v.spec.nbytes
            for v in read:
                last[fusion.base(v)] = t
            for key, size in extra.get(step, {}).items():
                first[key] = last[key] = t
                sizes[key] = size
        for _, o in self.copies:
            if isinstance(o, Var):
                last[fusion.base(o)] = len(steps)
        starting: dict[int, list[Any]] = {}
        for key, t in first.items():
            starting.setdefault(t, []).append(key)
        live: list[tuple[int, int, int]] = []  # (offset, end, last step), by offset
        for t in range(len(steps)):
            live = [r for r in live if r[2] >= t]
            for key in starting.get(t, ()):
                if key in self.places:
                    continue
                size = -(-max(sizes[key], 1) // ALIGNMENT) * ALIGNMENT
                offset = self._gap(live, size)
                live.append((offset, offset + size, last[key]))
                live.sort()
                self.places[key] = Place("arena", offset)
                self.size = max(self.size, offset + size)

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
    return list(step.eqn.outputs), [a for a in step.eqn.inputs if isinstance(a, Var)]
