"""Control flow of converted functions at run time: Python as long as values are concrete, graph control flow
when not.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ... import tree
from ...errors import TracerError
from ...graph.graph import Graph, spec_of
from ...graph.trace import bind, evaluate
from ...tensor import Tensor
from ..control.body import common_inputs, promote, trace_body, with_outputs
from ..control.cond import cond_p
from .assign import AssignedInto
from .failures import undecided
from .syntax import VALUE
from .variables import Undefined, Variables, known, place_of, same, truth, user_line, zero_of

__all__ = ["and_", "if_"]


def plain_test(x: Any, what: str, line: int) -> bool:
    """The condition of a statement that cannot be converted."""
    decided, value = known(x)
    if not decided:
        raise TracerError(
            f"{what}: a return, break or continue inside with, try or match cannot depend on traced values, at "
            f"{place_of(line)} "
            "(move it out of that block)"
        )
    return value


# -- if ----------------------------------------------------------------------------------------------------------------


def if_(test, then, other, get, put, names, line):
    """Run an ``if`` statement: in Python if the test is known, else as branches of the graph."""
    decided, value = known(test)
    if decided:
        then() if value else other()
        return
    put(_branches(truth(test, "if", line), then, other, get, put, names, line, "if")[0])


def if_return(test, then, other, get, put, names, line):
    decided, value = known(test)
    if decided:
        return then() if value else other()
    return _branches(truth(test, "if", line), then, other, get, put, names, line, "if", returns=True)[1]


def if_expression(test, then, other):
    decided, value = known(test)
    if decided:
        return then() if value else other()
    line = user_line()
    return _branches(
        truth(test, "conditional expression", line),
        then,
        other,
        lambda: [],
        lambda values: None,
        (),
        line,
        "conditional expression",
        True,
    )[1]


def _branches(test, then, other, get, put, names, line, what, returns=False):
    """Both branches as one `cond`: (values of the variables afterwards, value returned)."""
    place = f"{what} at {place_of(line)}"
    into = AssignedInto(get)
    before = Variables(names, get(), numbers=False)
    operands = before.arrays
    args = tree.structure(tuple(operands))
    ends = []

    def run(branch):
        def traced(*tensors):
            put(before.rebuild(tensors))
            undecided.branches += 1
            undecided.returns += returns
            try:
                value = into.run(branch, get)
            finally:
                undecided.branches -= 1
                undecided.returns -= returns
            after = Variables(["the value returned"] if returns else names, [value] if returns else get())
            ends.append(after)
            return after.arrays

        body = trace_body(traced, args, [spec_of(x) for x in operands], place, stage=True)
        put(before.rebuild(operands))
        return body

    bodies = [run(other), run(then)]
    graphs, captured = common_inputs(bodies, len(operands))
    build, chosen, specs = _merge(ends, graphs, test, place)
    if chosen:
        branches = tuple(
            with_outputs(Graph(g.inputs, g.equations, [pair[k] for pair in chosen], g.name), specs)
            for k, g in enumerate(graphs)
        )
        outs = _choose(test, [*operands, *captured], branches)
    else:
        outs = []
    values = build(outs)
    return (before.values, values[0]) if returns else (into.settle(values, place), None)


def _choose(test, args, branches):
    """`cond`, or for scalars that are cheap on both sides a `select` of them."""
    if all(_is_light(b) for b in branches):
        found = [evaluate(b, *args) for b in branches]
        return [np.where(test, new, old) for old, new in zip(*found, strict=True)]
    return bind(cond_p, test, *args, branches=branches)


def _is_light(graph):
    # numbers stay with `cond`, which keeps them numbers in NumPy's promotion
    if len(graph.equations) > 4 or any(
        v.spec.shape or (v.spec.weak and v.spec.dtype.kind != "b") for v in graph.outputs
    ):
        return False
    return all(
        e.primitive.kind == "elementwise" and not any(v.spec.shape for v in (*e.inputs, *e.outputs))
        for e in graph.equations
    )


def _merge(ends, graphs, test, place):
    """Merge the variables of two branches: (build(outs) -> values, pairs of atoms to choose from,
    their specs).
    """
    old, new = ends
    chosen, specs = [], []
    plan: list[tuple[Any, list[Any]]] = []
    leaves = [iter(zip(e.leaves, e.dynamic, _atoms(e, g), strict=True)) for e, g in zip(ends, graphs, strict=True)]
    names = iter(old.leaf_names)
    for variable, a, b, sa, sb in zip(old.names, old.values, new.values, old.structures, new.structures, strict=True):
        undefined = [isinstance(a, Undefined), isinstance(b, Undefined)]
        if any(undefined):
            own = [
                [next(it) for _ in range(1 if s is None else s.size)] for it, s in zip(leaves, (sa, sb), strict=True)
            ]
            for _ in own[0]:
                next(names)
            if variable == VALUE and not all(undefined):  # only read when the flag that guards it is set
                side = undefined.index(False)
                s = (sa, sb)[side]
                for _, d, atom in own[side]:
                    if not d:
                        raise TypeError(
                            f"{place}: a value returned from inside a loop must consist of arrays and numbers"
                        )
                    zero = zero_of(atom.spec)
                    chosen.append((atom, zero) if side == 0 else (zero, atom))
                    specs.append(atom.spec)
                plan.append((s, [None] * s.size))
            elif all(undefined):
                plan.append((None, [a]))
            else:
                plan.append(
                    (
                        None,
                        [
                            Undefined(
                                f"{variable} has a value after only one branch of the {place} (assign it "
                                f"before, or in both)"
                            )
                        ],
                    )
                )
            continue
        if sa != sb:
            raise TypeError(
                f"{place}: {variable} must have the same structure after both branches, got {sb} where the "
                f"condition holds and {sa} where not"
                f"{' (one branch returns, the other does not)' if variable == 'the value returned' else ''}"
            )
        places = []
        for _ in range(sa.size):
            (x, dx, ax), (y, dy, ay), leaf = next(leaves[0]), next(leaves[1]), next(names)
            if same(x, y):
                places.append((x,))
            elif dx and dy:
                if x is False and y is True:
                    places.append((test,))
                    continue
                both = promote([ax.spec, ay.spec])
                if both is None:
                    raise TypeError(
                        f"{place}: {leaf} must have the same shape and dtype after both branches, got "
                        f"{ay.spec} where the condition holds and {ax.spec} where not"
                    )
                chosen.append((ax, ay))
                specs.append(both)
                places.append(None)
            else:
                why = f"{leaf} is {y!r:.60} or {x!r:.60} depending on the {place}, and is not an array"
                places.append((Undefined(why),))
        plan.append((sa, places))

    def build(outs):
        it = iter(outs)
        values = []
        for s, places in plan:
            flat = [next(it) if p is None else p[0] if isinstance(p, tuple) else p for p in places]
            values.append(flat[0] if s is None else tree.unflatten(s, flat))
        return values

    return build, chosen, specs


def _atoms(variables, graph):
    """Pair the graph's outputs with the leaves they belong to."""
    it = iter(graph.outputs)
    return [next(it) if d else None for d in variables.dynamic]


# -- expressions -------------------------------------------------------------------------------------------------------


def not_(x):
    decided, value = known(x)
    return not value if decided else np.logical_not(x)


def and_(first, *rest):
    """Evaluate ``first and ...``, where the operands after the first are functions."""
    return _logical(first, rest, True)


def or_(first, *rest):
    return _logical(first, rest, False)


def _logical(value, rest, both):
    for later in rest:
        decided, now = known(value)
        if decided:
            if bool(now) != both:
                return value
            value = later()
        else:
            value = _lazy(value, later, both)
    return value


def _lazy(first, later, both):
    """``first and later()`` where `first` is traced; the second is computed only if needed, unless it is cheap."""
    line = user_line()
    what = "and" if both else "or"
    test = truth(first, what, line)

    def second():
        value = later()
        boolean = first.dtype.kind == "b" and getattr(
            value, "dtype", np.dtype(type(value)) if isinstance(value, bool) else None
        ) == np.dtype(bool)
        if isinstance(value, Tensor) and boolean:
            return truth(value, what, line)
        return bool(value) if boolean and not isinstance(value, Tensor) else value

    own = test if first.dtype.kind == "b" else first
    branches = (second, lambda: own) if both else (lambda: own, second)
    return _branches(test, *branches, lambda: [], lambda values: None, (), line, what, returns=True)[1]


_COMPARE = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
    "Is": operator.is_,
    "IsNot": operator.is_not,
    "In": lambda a, b: a in b,
    "NotIn": lambda a, b: a not in b,
}


def chain(ops, left, *later):
    """``left < b < c``: each is computed once, and no further than needed."""
    result = True
    for op, get in zip(ops, later, strict=True):
        right = get()
        this = _COMPARE[op](left, right)
        decided, value = known(this)
        if result is True:
            result = this
        else:
            result = np.logical_and(result, this)
        if decided and not value:
            return result if isinstance(result, Tensor) else this
        left = right
    return result
