"""Rounds of a Python loop that record the same operations, as a loop of the graph.

The rounds run in Python, one after the other, and what each of them records is kept apart. Rounds with the same
operations on the same variables, which differ by constants at most, become one `scan`; so do rounds that repeat in
groups, such as nine equal ones and one that also appends to a list. All others stay copies. Numbers, conditions on
them, lists, dictionaries and generators are therefore what they are in Python.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import tree
from ...graph.graph import Const, Graph, Var, spec_of
from ...graph.simplify import param_key
from ...graph.trace import GraphTrace, asked_by, bind, recording
from ...tensor import Tensor
from ...views import Link, own_array, sharing
from ..control.body import concrete, trace_body
from ..control.scan import constants_first, scan_p
from .pure import OnlyCopies, rehearsed
from .variables import Undefined

__all__ = ["roll"]

PERIOD = 32  # rounds of a group at most
SAVED = 2  # copies that a scan must save


def roll(once: Callable[[], bool], functions: Sequence[Callable], get: Callable, put: Callable, place: str) -> None:
    """Run ``while once(): pass`` with rounds alike as loops of the graph; `functions` are what it runs.

    Raise an exception, and restore variables and objects, if the loop may mean something else than copies of its body.
    """
    given = get()
    trace = GraphTrace()
    inner: dict[int, tuple[Tensor, Tensor, Any]] = {}  # by what is outside: it, what stands for it, the input

    def stand_in(x):
        if concrete(x) is not None:
            return x
        if id(x) not in inner:
            t = trace.input(spec_of(x))
            inner[id(x)] = x, t._handle(), t.value
        return inner[id(x)][1]

    with rehearsed(*functions, containers=True) as containers:
        try:
            with recording(trace, loop=True):
                put([x if isinstance(x, Undefined) else _replaced(x, stand_in, containers) for x in given])
                rounds = _Rounds(trace)
                rounds.begin(get)
                while once():
                    rounds.begin(get)
                rounds.begin(get)
                left = [x if isinstance(x, Undefined) else _replaced(x, lambda t: t, containers) for x in get()]
            outside = _Outside(trace, list(inner.values()), rounds, [*left, *[c for c, _ in containers.values()]])
            outside.play(place)
        except BaseException:
            for x, before in containers.values():
                x.clear()
                x.extend(before) if type(x) is list else x.update(before)
            put(given)
            raise
        put([x if isinstance(x, Undefined) else _replaced(x, outside.of, {}) for x in left])
        for x, _ in containers.values():
            _replaced(x, outside.of, {})


def _replaced(x, new, seen):
    """`x` with ``new(t)`` for each Tensor in it. Lists and dictionaries are changed in place; `seen` keeps copies."""
    if isinstance(x, Tensor):
        return new(x)
    if type(x) in (list, dict):
        if id(x) not in seen:
            seen[id(x)] = x, x.copy()
        for k in range(len(x)) if type(x) is list else list(x):
            if (value := _replaced(x[k], new, seen)) is not x[k]:
                x[k] = value
        return x
    if isinstance(x, tuple):
        items = [_replaced(i, new, seen) for i in x]
        if all(a is b for a, b in zip(items, x, strict=True)):
            return x
        return tuple(items) if type(x) is tuple else type(x)(*items)
    leaves, structure = tree.flatten(x)
    if not any(isinstance(i, Tensor) for i in leaves):
        return x
    return tree.unflatten(structure, [new(i) if isinstance(i, Tensor) else i for i in leaves])


def _tensors(x):
    """The Tensors in a value of a variable."""
    return (
        [] if isinstance(x, Undefined) else [t for t in tree.leaves(x) if isinstance(t, Tensor) and concrete(t) is None]
    )


class _Rounds:
    """What each round records, and the traced values of the variables before it and at the end."""

    def __init__(self, trace: GraphTrace):
        self.trace = trace
        self.starts: list[int] = []
        self.states: list[list[Any]] = []

    def begin(self, get: Callable) -> None:
        self.states.append([self.trace.atom(t) for x in get() for t in _tensors(x)])
        self.starts.append(len(self.trace.equations))

    def equations(self, r: int) -> list[Any]:
        return self.trace.equations[self.starts[r] : self.starts[r + 1]]


class _Outside:
    """Runs rounds that have been recorded on the values around the loop."""

    def __init__(self, trace: GraphTrace, inner: list[Any], rounds: _Rounds, left: list[Any]):
        self.trace, self.rounds, self.inner = trace, rounds, inner
        self.env: dict[Any, Any] = {var: x for x, _, var in inner}
        self.env.update(zip(trace._captured_vars.values(), trace.captured, strict=True))
        self.stands_for = {id(t): x for x, t, _ in inner}
        self.survivors = {id(t): t for x in left for t in _tensors(x) if t.level == trace.level}
        captured = {t._identity() for t in trace.captured}
        self.written = [(x, t) for x, t, var in inner if trace.atom(t) is not var]
        if any(sharing(x) or x._identity() in captured for x, _ in self.written):
            raise OnlyCopies("an array with views or several names is assigned into")
        self.wanted = {trace.atom(t) for t in [*self.survivors.values(), *[t for _, t in self.written]]}
        self.wanted -= set(rounds.states[-1])
        self.made: dict[int, Tensor] = {}
        n = len(rounds.starts) - 1
        for r in range(n):
            self._code(r)  # finds what later rounds read
        coded = [self._code(r) for r in range(n)]
        self.codes, self.holes = [c for c, _ in coded], [h for _, h in coded]
        numbers: dict[Any, int] = {}
        self.kinds = [numbers.setdefault(c, len(numbers)) for c in self.codes]

    def _code(self, r):
        """What a round does, apart from its constants, and these."""
        begin = {a: k for k, a in reversed(list(enumerate(self.rounds.states[r]))) if type(a) is Var}
        local: dict[Any, int] = {}
        holes: list[Any] = []

        def read(a):
            if type(a) is Const:
                holes.append(a)
                return "constant", a.spec
            if a in local:
                return "local", local[a]
            if a in begin:
                return "state", begin[a]
            if a not in self.env:
                self.wanted.add(a)
            return "outside", a

        lines: list[Any] = [tuple([a.spec for a in self.rounds.states[r]])]
        for e in self.rounds.equations(r):
            inputs = tuple([read(a) for a in e.inputs])
            lines.append((e.primitive, inputs, _param_code(e.params), tuple([o.spec for o in e.outputs])))
            for o in e.outputs:
                local[o] = len(local)
        after = tuple([read(a) for a in self.rounds.states[r + 1]])
        kept = tuple([k for v, k in local.items() if v in self.wanted])
        return (tuple(lines), after, kept), holes

    def play(self, place: str) -> None:
        """Run all rounds, and give what is left of them its values outside."""
        state = [self.env.get(a, a) for a in self.rounds.states[0]]
        groups = _groups(self.kinds)
        if len(groups) == len(self.kinds):
            raise OnlyCopies("its rounds differ")
        for first, period, count in groups:
            n = period * count
            state, kept = self._group(first, period, count, state, self.holes[first : first + n], place)
            for r in range(first, first + n):
                made = [o for e in self.rounds.equations(r) for o in e.outputs]
                self.env.update(zip([made[k] for k in self.codes[r][2]], kept[r - first], strict=True))
        self.env.update(zip(self.rounds.states[-1], state, strict=True))
        for x, t in self.written:
            x._become(self._value(t))
        for t in self.survivors.values():
            self._link(t)

    def of(self, t: Tensor) -> Any:
        """The Tensor outside for one that the loop leaves."""
        return self.made.get(id(t), t)

    def _value(self, t):
        atom = self.trace.atom(t)
        return atom.value if type(atom) is Const else self.env[atom]

    def _link(self, t):
        if id(t) in self.made:
            return
        if id(t) in self.stands_for:
            self.made[id(t)] = self.stands_for[id(t)]
            return
        value = self._value(t)
        if not isinstance(value, Tensor):
            self.made[id(t)] = value
            return
        made = self.made[id(t)] = value._handle()
        if t._link is None:
            return
        parent = t._link.parent
        while parent is not None and parent.level == self.trace.level and id(parent) not in self.survivors:
            parent = parent._link.parent
        if parent is None:
            if any(id(o) in self.survivors for o in sharing(t) if o._link.parent is not None):
                raise OnlyCopies("two views of one array outlive it")
            own_array(made)
            return
        if parent.level == self.trace.level:
            self._link(parent)
            parent = self.made[id(parent)]
        if isinstance(parent, Tensor) and parent.level == made.level:
            family = (parent if parent._link is not None else own_array(parent))._link.family
            made._link = Link(parent, None, None, family)  # it becomes unreadable if the array is written to
            family.members.append(weakref.ref(made))

    def _group(self, first, period, count, state, holes, place):
        """`count` repetitions of rounds: (state afterwards, what is kept of each round)."""
        if count == 1:
            kept = []
            for r in range(first, first + period):
                state, some = self._round(r, state, holes[r - first])
                kept.append(some)
            return state, kept
        places = [(j, h) for j in range(period) for h in range(len(holes[j]))]
        columns = [[holes[i * period + j][h] for i in range(count)] for j, h in places]
        moving = [k for k, column in enumerate(columns) if not all(_same(column[0], c) for c in column)]
        xs = [_stacked(columns[k]) for k in moving]
        n = len(state)
        specs = [*map(spec_of, state), *[_spec_of(columns[k][0]) for k in moving]]

        def step(*leaves):
            own = [list(h) for h in holes[:period]]
            for k, x in zip(moving, leaves[n:], strict=True):
                own[places[k][0]][places[k][1]] = x
            now, kept = list(leaves[:n]), []
            for start, p, c in _groups(self.kinds[first : first + period]):
                now, some = self._group(first + start, p, c, now, own[start : start + p * c], place)
                kept += some
            return [*now, *[x for some in kept for x in some]]

        body = trace_body(step, tree.structure((0,) * len(specs)), specs, place)
        out = bind(
            scan_p,
            *body.captured,
            *state,
            *xs,
            body=constants_first(body.graph, len(specs)),
            n_consts=len(body.captured),
            n_carry=n,
            length=count,
            reverse=False,
        )
        ys = iter(out[n:])
        columns = [[next(ys) for _ in self.codes[first + j][2]] for j in range(period)]
        return list(out[:n]), [[y[i]._handle() for y in columns[j]] for i in range(count) for j in range(period)]

    def _round(self, r, state, holes):
        holes = iter(holes)
        local: list[Any] = []

        def read(code):
            kind, which = code
            if kind == "constant":
                x = next(holes)
                return x.value if type(x) is Const else x
            return local[which] if kind == "local" else state[which] if kind == "state" else self.env[which]

        (lines, after, kept), equations = self.codes[r], self.rounds.equations(r)
        for e, (primitive, inputs, _, _) in zip(equations, lines[1:], strict=True):
            with asked_by(e.source):
                out = bind(primitive, *[read(c) for c in inputs], **e.params)
            local += out if primitive.multiple else [out]
        return [read(c) for c in after], [local[k] for k in kept]


def _groups(kinds):
    """Cut a sequence into repetitions: (first, period, count) that cover it."""
    found, p = [], 0
    while p < len(kinds):
        best = p, 1, 1
        for q in range(1, min(PERIOD, (len(kinds) - p) // 2) + 1):
            m = 1
            while kinds[p : p + q] == kinds[p + m * q : p + (m + 1) * q]:
                m += 1
            if q * (m - 1) > max(SAVED - 1, best[1] * (best[2] - 1)):
                best = p, q, m
        found.append(best)
        p += best[1] * best[2]
    return found


def _param_code(x):
    """A parameter as a key that is equal for graphs which compute the same."""
    if isinstance(x, Graph):
        numbers = {v: k for k, v in enumerate(x.inputs)}

        def read(a):
            return numbers[a] if type(a) is Var else (a.spec, param_key(np.asarray(a.value)))

        lines: list[Any] = [tuple([v.spec for v in x.inputs])]
        for e in x.equations:
            lines.append(
                (
                    e.primitive,
                    tuple([read(a) for a in e.inputs]),
                    _param_code(e.params),
                    tuple([o.spec for o in e.outputs]),
                )
            )
            for o in e.outputs:
                numbers[o] = len(numbers)
        return (*lines, tuple([read(a) for a in x.outputs]))
    if isinstance(x, dict):
        return tuple([(k, _param_code(v)) for k, v in sorted(x.items())])
    if type(x) in (tuple, list):
        return tuple(map(_param_code, x))
    return param_key(x)


def _same(a, b):
    if a is b:
        return True
    return type(a) is Const and type(b) is Const and np.asarray(a.value).tobytes() == np.asarray(b.value).tobytes()


def _spec_of(x):
    return x.spec if type(x) is Const else spec_of(x)


def _stacked(column):
    """Constants of the rounds as one array."""
    return np.stack([np.asarray(x.value, x.spec.dtype) if type(x) is Const else x for x in column])
