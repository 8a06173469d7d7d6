"""Loops of converted functions: Python's while values are concrete, loops of the graph from the first traced condition
on.
"""

from __future__ import annotations

import functools
from collections.abc import Sized

import numpy as np

from ... import tree
from ...errors import TracerError
from ...graph.graph import spec_of
from ...graph.trace import user_source
from ...tensor import Tensor
from ..control.body import concrete, trace_body
from ..control.scan import scan
from ..control.while_loop import CHECKPOINTS, _while
from .assign import AssignedInto
from .long import Items, in_rounds, record
from .run import and_, if_
from .syntax import VALUE
from .variables import NUMBERS, Undefined, Variables, known, place_of, same, truth, zero_of

__all__ = ["Range"]


class Range:
    """``range`` with traced bounds."""

    def __init__(self, start, stop, step):
        self.start, self.stop, self.step = start, stop, step

    def __iter__(self):
        raise TracerError(
            f"range: its bounds are traced, so it can only be the iterable of a `for` statement, at {user_source()} "
            "(np.arange of a fixed length with a mask, or core.fori_loop, say the same)"
        )


def while_(test, body, get, put, names, line):
    def once():
        """One round; False at the end."""
        decided, value = known(test())
        if not decided:
            _loop("while", lambda: truth(test(), "while", line), body, get, put, names, line)
        elif value:
            body()
            return True
        return False

    in_rounds(once, Items(()), None, (test, body), get, put, f"while at {place_of(line)}")


def forgotten(name):
    """Return what a variable has at the start of a round that assigns it before it reads it."""
    return Undefined(f"{name} has no value in this round")


def for_(iterable, body, more, get, put, names, line, fresh):
    if isinstance(iterable, Range):
        count = np.maximum(0, -((iterable.start - iterable.stop) // iterable.step))
        return _counted(count, lambda k: iterable.start + k * iterable.step, body, more, get, put, names, line)
    if isinstance(iterable, Tensor) and concrete(iterable) is None and iterable.ndim and iterable.shape[0]:
        if more is None:
            return _loop("for", None, body, get, put, names, line, xs=iterable)
        return _counted(iterable.shape[0], lambda k: iterable[k], body, more, get, put, names, line)
    items = Items(iterable)

    def once():
        """One round; False at the end."""
        found = items.next()
        if not found:
            return False
        if more is not None:
            go = more()
            decided, value = known(go)
            if not decided and isinstance(iterable, range):
                rest = range(found[0], iterable.stop, iterable.step)
                _counted(len(rest), lambda i: rest.start + i * rest.step, body, more, get, put, names, line)
                return False
            if not decided:
                if_(go, lambda: body(found[0]), lambda: None, get, put, names, line)
                return True
            if not value:
                return False
        body(found[0])
        return True

    def loop(body, get, put, names, length):
        _loop("for", None, body, get, put, names, line, length=length)

    functions = (body,) if more is None else (body, more)
    length = len(iterable) if isinstance(iterable, Sized) else None
    return in_rounds(
        once,
        items,
        length,
        functions,
        get,
        put,
        f"for at {place_of(line)}",
        functools.partial(record, loop=loop, body=body, get=get, put=put, names=names, fresh=fresh)
        if isinstance(iterable, range) and more is None
        else None,
    )


def rows(iterable):
    """Return the items of a loop that collects values in a list: it runs in Python, since a range and an array have
    known lengths.
    """
    return (
        list(iterable) if isinstance(iterable, range) or (isinstance(iterable, Tensor) and iterable.ndim) else iterable
    )


def _counted(count, item, body, more, get, put, names, line):
    """``for k in range(count): body(item(k))`` as a graph's loop."""
    k = 0  # Python's, as what it counts

    def read_all():
        return [k, *get()]

    def write_all(values):
        nonlocal k
        k = values[0]
        put(values[1:])

    def step():
        nonlocal k
        body(item(k))
        k = k + 1

    def test():
        go = np.less(k, count)
        return go if more is None else and_(go, more)

    decided, value = known(test())
    if decided and not value:
        return
    _loop("for", lambda: truth(test(), "for", line), step, read_all, write_all, ("its counter", *names), line)


def _loop(what, test, body, get, put, names, line, xs=None, length=None):
    """A loop of the graph whose carry are the variables assigned in it: `test` for a while loop, else over `xs`, or of
    `length` rounds.
    """
    place = f"{what} at {place_of(line)}"
    into = AssignedInto(get)
    before = Variables(names, get())
    if VALUE in names and isinstance(before.values[names.index(VALUE)], Undefined):
        before = _with_value(before, body, get, put, names, place, xs)

    def check(after):
        for n, s, t, old, new in zip(
            names, before.structures, after.structures, before.values, after.values, strict=True
        ):
            if s is not None and s != t:
                got = "undefined" if t is None else t
                raise TypeError(
                    f"{place}: {n} must keep its structure from step to step, it was {s} ({old!r:.60}) and "
                    f"became {got} ({new!r:.60})"
                )
        found = []
        flat = iter(zip(after.leaves, after.dynamic, strict=True))
        own = iter(zip(before.leaves, before.dynamic, before.leaf_names, strict=True))
        for s, t in zip(before.structures, after.structures, strict=True):
            mine = [next(flat) for _ in range(1 if t is None else t.size)]
            if s is None:
                next(own)
                continue
            for (new, dynamic), (old, was, leaf) in zip(mine, [next(own) for _ in range(s.size)], strict=True):
                if was and dynamic:
                    found.append(new)
                elif was or not same(old, new):
                    raise TypeError(
                        f"{place}: {leaf} is not an array and must stay the same in a traced loop, it was "
                        f"{old!r:.60} and became {new!r:.60}"
                    )
        return found

    def step(arrays, *item):
        put(before.rebuild(arrays))
        rows = [x.value for x in item]
        into.run(lambda: body(*item), get)
        if any(x.value is not v for x, v in zip(item, rows, strict=True)):
            raise TracerError(
                f"{place}: the loop variable is a row of a traced array and cannot be assigned into here "
                "(loop over range(len(a)) and assign a[i, ...])"
            )
        return check(Variables(names, get()))

    arrays = before.arrays
    labels = [n for n, d in zip(before.leaf_names, before.dynamic, strict=True) if d]
    try:
        if test is None:
            out = scan(lambda carry, x: (step(carry, *([] if xs is None else [x])), None), arrays, xs, length)[0]
        else:

            def condition(values):
                put(before.rebuild(values))
                return into.during(test)

            flat, structure = tree.flatten(arrays)
            out = _while(place, condition, step, flat, structure, labels, None, CHECKPOINTS)
    finally:
        put(before.values)
    after = into.settle(before.rebuild(out), place)
    put(
        [
            Undefined(f"{n} is assigned in the {place} only, which may make no step (give it a value before)")
            if isinstance(v, Undefined)
            else v
            for n, v in zip(names, after, strict=True)
        ]
    )


def _with_value(before, body, get, put, names, place, xs):
    """The variables with zeros for a value returned from inside the loop, which is not there before the loop has
    run.
    """
    found = []

    def once(*arrays):
        put(before.rebuild(arrays))
        body(*([] if xs is None else [xs[0]]))
        found.append(get()[names.index(VALUE)])
        return [x for x in tree.leaves(found[0]) if isinstance(x, (Tensor, *NUMBERS))]

    arrays = before.arrays
    graph = trace_body(once, tree.structure(tuple(arrays)), [spec_of(x) for x in arrays], place).graph
    put(before.values)
    if isinstance(found[0], Undefined):
        return before
    leaves, structure = tree.flatten(found[0])
    if len(leaves) != len(graph.outputs):
        raise TypeError(
            f"{place}: a value returned from inside a loop must consist of arrays and numbers, got {found[0]!r:.60}"
        )
    zeros = [zero_of(v.spec).value for v in graph.outputs]
    values = [tree.unflatten(structure, zeros) if n == VALUE else v for n, v in zip(names, before.values, strict=True)]
    return Variables(names, values)
