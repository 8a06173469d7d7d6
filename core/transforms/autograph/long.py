"""Loops in Python while a graph is recorded: loops of the graph, where that surely means what copies of the body do.

Copies are made of loops that record few operations in all. The others go two ways. A loop over a known ``range`` of
which only arrays are carried along is recorded once, with a traced counter (`record`). What that does not suit runs
in Python, and rounds that turn out to be alike are put together (`in_rounds`, `rounds`).

The first and the last round over a range are recorded as they are, so that what is wrong there (an index, a dtype) is
found as NumPy finds it, and Python numbers that the body leaves behind are numbers. The rounds between become a `scan`
whose counter is a traced Python integer. That is not done if the body needs the number itself (``layers[i]``,
``x[:i]``), keeps numbers or objects from round to round, computes integers that may not fit into 64 bits, or might do
more than compute (see `pure`).
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ... import tree
from ...graph.graph import Const, Graph, spec_of
from ...graph.trace import is_recording, make_graph, recorded
from ...tensor import Tensor
from ..control.body import concrete
from .pure import OnlyCopies, rehearsed
from .rounds import roll
from .variables import Undefined, Variables

__all__ = ["Items", "copies", "in_rounds", "record"]

OPERATIONS = 300  # of all rounds together, up to which a loop is copied
LEAST = 5  # rounds of a loop that is worth its two copies
_FITS = 2**62
_NESTED = 2**31  # what integers inside nested loops and branches are taken to be at most


class _Copies(threading.local):
    found: dict[str, str] | None = None  # why loops of many operations were copied, by place


_copies = _Copies()


@contextmanager
def copies() -> Iterator[dict[str, str]]:
    """Context that gives the loops of many operations that are copied in it, and why."""
    before, _copies.found = _copies.found, {}
    try:
        yield _copies.found
    finally:
        _copies.found = before


class Items:
    """The items of a loop, which can be given again; a range stays one."""

    def __init__(self, iterable: Iterable[Any]):
        self.rest: Any = iterable if isinstance(iterable, range) else iter(iterable)
        self.marked = self.rest

    def next(self) -> tuple[Any, ...]:
        """Return a tuple of the next item; an empty one at the end."""
        if type(self.rest) is range:
            found, self.rest = tuple(self.rest[:1]), self.rest[1:]
            return found
        for item in self.rest:
            return (item,)
        return ()

    def mark(self) -> None:
        """Remember the place for `rewind`. Items are made now: rows of traced arrays belong to the trace at hand."""
        if type(self.rest) in _MAKING:
            self.rest = iter(list(self.rest))
        elif type(self.rest) not in _PLACED:
            raise OnlyCopies("its items come from an iterator")
        self.marked = copy.copy(self.rest)

    def rewind(self) -> None:
        self.rest = self.marked


_PLACED: tuple[type, ...] = (range, type(iter([])), type(iter(())))  # iterators that can be copied
_MAKING: tuple[type, ...] = (enumerate, zip, reversed, type(reversed([])))


def in_rounds(
    once: Callable[[], bool],
    items: Items,
    length: int | None,
    functions: Sequence[Callable],
    get: Callable,
    put: Callable,
    place: str,
    record: Callable[[range], None] | None = None,
) -> None:
    """``while once(): pass`` with `length` rounds, if that is known, as a loop of the graph where it is long.

    `functions` are what a round runs, and `items` what it takes its items from. ``record(numbers)`` records the rounds
    of a range of numbers as a loop with a traced counter.
    """
    begun, rounds = recorded(), 0
    while not rounds or not is_recording() or (recorded() - begun) / rounds * (length or rounds) <= OPERATIONS:
        if not once():
            return
        rounds += 1
    if record is not None and len(items.rest) >= LEAST and _carries_traced(get()):
        values = get()
        try:
            record(items.rest[:-1])
            items.rest, length = items.rest[-1:], rounds + 1
        except Exception:  # noqa: BLE001  of any class, as user code raises it where it needs a number and gets a traced value
            put(values)
    if length is None or length - rounds > 1:
        try:
            items.mark()
            return roll(once, functions, get, put, place)
        except Exception as error:  # noqa: BLE001  if it is the user's, the copies raise it as well
            items.rewind()
            if _copies.found is not None:
                _copies.found[place] = str(error).partition("\n")[0]
    while once():
        pass


def _carries_traced(values):
    return any(_traced(x) for v in values if not isinstance(v, Undefined) for x in tree.leaves(v))


def _traced(x):
    return isinstance(x, Tensor) and concrete(x) is None


def record(
    numbers: range,
    loop: Callable,
    body: Callable,
    get: Callable,
    put: Callable,
    names: Sequence[str],
    fresh: Sequence[str],
) -> None:
    """Record ``for i in numbers: body(i)`` as a loop of the graph, with ``loop(body, get, put, names, length)``.

    `fresh` are the variables that the body assigns before it reads them. Raise an exception if the loop cannot be
    recorded, or may mean something else than copies of the body.
    """
    kept = [n not in fresh for n in names]
    values = []
    for v, keep in zip(get(), kept, strict=True):
        if keep and not (
            type(v) is float or (not isinstance(v, Undefined) and all(_traced(x) for x in tree.leaves(v)))
        ):
            raise OnlyCopies("it carries numbers or objects along")
        values.append(v if keep else Undefined("assigned before it is read"))
    k = 0

    def read():
        return [k, *get()]

    def write(state):
        nonlocal k
        k = state[0]
        put(state[1:])

    def step():
        nonlocal k
        body(numbers.start + k * numbers.step)
        k = k + 1
        put([v if keep else Undefined("assigned before it is read") for v, keep in zip(get(), kept, strict=True)])

    put(values)
    before = Variables(("its counter", *names), read())
    with rehearsed(body):
        graph = _trace(before, step, read, write)
        _check_integers(graph, {graph.inputs[0]: len(numbers)})
        write(before.values)
        loop(step, read, write, before.names, len(numbers))


def _trace(before, step, read, write):
    """The graph of one round."""

    def once(*arrays):
        write(before.rebuild(arrays))
        step()
        return Variables(before.names, read()).arrays

    return make_graph(once, [spec_of(x) for x in before.arrays], "for", stage=True, loop=True)[0]


_BOUNDS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "subtract": lambda a, b: a + b,
    "multiply": lambda a, b: a * b,
    "maximum": max,
    "minimum": max,
    "negative": lambda a: a,
    "absolute": lambda a: a,
    "convert": lambda a: a,
    "select": lambda _, a, b: max(a, b),
    "square": lambda a: a * a,
}
_DIVISIONS = ("floor_divide", "remainder")


def _check_integers(graph: Graph, bounds: dict[Any, int]) -> None:
    """Raise unless all Python integers computed from those in `bounds` fit into 64 bits and are divided by nonzero
    constants only.
    """

    def bound(atom):
        return (
            abs(int(atom.value))
            if type(atom) is Const and atom.spec.weak and atom.spec.dtype.kind in "bi"
            else bounds.get(atom)
        )

    for e in graph.equations:
        inner = [g for p in e.params.values() for g in (p if isinstance(p, tuple) else (p,)) if isinstance(g, Graph)]
        if not any(a in bounds for a in e.inputs if type(a) is not Const):
            continue
        for g in inner:
            _check_integers(g, {v: _NESTED for v in g.inputs if _is_integer(v.spec)})
        if (
            e.primitive.name in _DIVISIONS
            and (type(e.inputs[1]) is not Const or not np.all(e.inputs[1].value))
            and _is_integer(e.outputs[0].spec)
        ):
            raise OnlyCopies("its integers may not fit into 64 bits")
        for out in e.outputs:
            if not _is_integer(out.spec):
                continue
            if inner:
                bounds[out] = _FITS - 1
                continue
            known = [bound(a) if _is_integer(a.spec) or a.spec.dtype.kind == "b" else 0 for a in e.inputs]
            if e.primitive.name in _DIVISIONS:
                most = None if None in known else max(known)
            elif e.primitive.name == "integer_power" and e.params["exponent"] >= 0:
                most = None if None in known else known[0] ** e.params["exponent"]
            elif e.primitive.name in _BOUNDS:
                known[:1] = [0] if e.primitive.name == "select" else known[:1]
                most = None if None in known else _BOUNDS[e.primitive.name](*known)
            else:
                raise OnlyCopies("its integers may not fit into 64 bits")
            if most is not None and most >= _FITS:
                raise OnlyCopies("its integers may not fit into 64 bits")
            if most is not None:
                bounds[out] = most


def _is_integer(spec):
    return spec.weak and spec.dtype.kind == "i"
