"""What Python's control flow does in converted functions: Python as long as values are concrete, graph control flow when not."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core import tree
from triskele.core.errors import TracerError
from triskele.core.graph.graph import Graph, Spec, spec_of
from triskele.core.graph.trace import bind, evaluate, user_source
from triskele.core.tensor import Tensor
from triskele.core.transforms.autograph_rewrite import VALUE
from triskele.core.transforms.control_body import (
    common_inputs,
    concrete,
    leaf_names,
    promote,
    trace_body,
    with_outputs,
)
from triskele.core.transforms.control_cond import cond_p
from triskele.core.transforms.control_scan import scan
from triskele.core.transforms.control_while import CHECKPOINTS, _while

_NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


class Undefined:
    """Stands for a variable without a value: any use of it is an error that says why."""

    __slots__ = ("why",)

    def __init__(self, why: str):
        self.why = why

    def _fail(self, *args, **kwargs):
        raise UnboundLocalError(self.why)

    def __repr__(self):
        return f"<undefined: {self.why}>"

    __getattr__ = __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __setitem__ = __eq__ = __ne__ = __hash__ = _fail
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = _fail
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __matmul__ = __rmatmul__ = __and__ = __or__ = __xor__ = _fail
    __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = _fail
    __array__ = __array_ufunc__ = __array_function__ = _fail


def read(get: Callable[[], Any]) -> Any:
    """The value of a variable, or an `Undefined`."""
    try:
        return get()
    except (NameError, AttributeError) as error:
        return Undefined(str(error))


def _place(line):
    source = user_source()
    return f"{source.file}:{line}" if source else f"line {line}"


def known(x: Any) -> tuple[bool, Any]:
    """(whether Python can decide on `x`, what to decide on)."""
    if not isinstance(x, Tensor):
        return True, x
    value = concrete(x)
    return value is not None, value


def truth(x: Tensor, what: str, line: int) -> Tensor:
    """A traced condition as a boolean scalar, as Python's ``bool()`` would take it."""
    if x.size != 1:
        raise TypeError(
            f"{what}: the condition must have one element, got {x.spec}, at {_place(line)} (use .any() or .all(), or np.where to choose element by element)"
        )
    x = np.reshape(x, ()) if x.shape else x
    return x if x.dtype.kind == "b" else np.not_equal(x, 0)


def plain_test(x: Any, what: str, line: int) -> bool:
    """The condition of a statement that cannot be converted."""
    decided, value = known(x)
    if not decided:
        raise TracerError(
            f"{what}: a return, break or continue inside with, try or match cannot depend on traced values, at {_place(line)} "
            "(move it out of that block)"
        )
    return value


def assert_(test: Any, message: Callable[[], Any], line: int) -> None:
    decided, value = known(test)
    if not decided:
        raise TracerError(f"assert: the condition has no value yet when a function is compiled, at {_place(line)} (check arguments outside jit, or use jit(debug=True) to find NaN)")
    if not value:
        text = message()
        raise AssertionError(*([] if text is None else [text]))


# -- variables as trees of arrays -------------------------------------------------------------------------------------


class Variables:
    """Values of variables taken apart into arrays, which are traced, and everything else, which must not change."""

    def __init__(self, names: Sequence[str], values: Sequence[Any], numbers: bool = True):
        self.names, self.values = names, values
        self.leaves: list[Any] = []
        self.dynamic: list[bool] = []
        self.leaf_names: list[str] = []
        self.structures = []
        for n, v in zip(names, values, strict=True):
            flat, structure = ([v], None) if isinstance(v, Undefined) else tree.flatten(v)
            self.structures.append(structure)
            self.leaves += flat
            self.leaf_names += [n] if structure is None else leaf_names(v, n)
        kinds = (Tensor, *_NUMBERS) if numbers else (Tensor, np.ndarray)
        self.dynamic = [isinstance(x, kinds) for x in self.leaves]

    @property
    def arrays(self) -> list[Any]:
        return [x for x, d in zip(self.leaves, self.dynamic, strict=True) if d]

    def rebuild(self, arrays: Sequence[Any]) -> list[Any]:
        """The variables' values with other arrays."""
        it = iter(arrays)
        leaves = iter([next(it) if d else x for x, d in zip(self.leaves, self.dynamic, strict=True)])
        return [next(leaves) if s is None else tree.unflatten(s, leaves) for s in self.structures]


def _same(a, b):
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, (str, bytes, *_NUMBERS)) and not isinstance(a, np.ndarray) and a == b


# -- if -----------------------------------------------------------------------------------------------------------------


def if_(test, then, other, get, put, names, line):
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
    line = user_source().line
    return _branches(truth(test, "conditional expression", line), then, other, lambda: [], lambda values: None, (), line, "conditional expression", True)[1]


def _branches(test, then, other, get, put, names, line, what, returns=False):
    """Both branches as one `cond`: (values of the variables afterwards, value returned)."""
    place = f"{what} at {_place(line)}"
    before = Variables(names, get(), numbers=False)
    operands = before.arrays
    args = tree.structure(tuple(operands))
    ends = []

    def run(branch):
        def traced(*tensors):
            put(before.rebuild(tensors))
            value = branch()
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
        branches = tuple(with_outputs(Graph(g.inputs, g.equations, [pair[k] for pair in chosen], g.name), specs) for k, g in enumerate(graphs))
        outs = _choose(test, [*operands, *captured], branches)
    else:
        outs = []
    values = build(outs)
    return (before.values, values[0]) if returns else (values, None)


def _choose(test, args, branches):
    """`cond`, or for scalars that are cheap on both sides a `select` of them."""
    if all(_is_light(b) for b in branches):
        found = [evaluate(b, *args) for b in branches]
        return [np.where(test, new, old) for old, new in zip(*found, strict=True)]
    return bind(cond_p, test, *args, branches=branches)


def _is_light(graph):
    # numbers stay with `cond`, which keeps them numbers in NumPy's promotion
    if len(graph.equations) > 4 or any(v.spec.shape or (v.spec.weak and v.spec.dtype.kind != "b") for v in graph.outputs):
        return False
    return all(e.primitive.kind == "elementwise" and not any(v.spec.shape for v in (*e.inputs, *e.outputs)) for e in graph.equations)


def _merge(ends, graphs, test, place):
    """How the variables after two branches follow from both: (build(outs) -> values, pairs of atoms to choose from, their specs)."""
    old, new = ends
    chosen, specs, plan = [], [], []
    leaves = [iter(zip(e.leaves, e.dynamic, _atoms(e, g), strict=True)) for e, g in zip(ends, graphs, strict=True)]
    names = iter(old.leaf_names)
    for variable, a, b, sa, sb in zip(old.names, old.values, new.values, old.structures, new.structures, strict=True):
        undefined = [isinstance(a, Undefined), isinstance(b, Undefined)]
        if any(undefined):
            own = [[next(it) for _ in range(1 if s is None else s.size)] for it, s in zip(leaves, (sa, sb), strict=True)]
            for _ in own[0]:
                next(names)
            if variable == VALUE and not all(undefined):  # only read when the flag that guards it is set
                side = undefined.index(False)
                s = (sa, sb)[side]
                for _, d, atom in own[side]:
                    if not d:
                        raise TypeError(f"{place}: a value returned from inside a loop must consist of arrays and numbers")
                    zero = _zero(atom.spec)
                    chosen.append((atom, zero) if side == 0 else (zero, atom))
                    specs.append(atom.spec)
                plan.append((s, [None] * s.size))
            elif all(undefined):
                plan.append((None, [a]))
            else:
                plan.append((None, [Undefined(f"{variable} has a value after only one branch of the {place} (assign it before, or in both)")]))
            continue
        if sa != sb:
            raise TypeError(f"{place}: {variable} must have the same structure after both branches, got {sb} where the condition holds and {sa} where not"
                            f"{' (one branch returns, the other does not)' if variable == 'the value returned' else ''}")
        places = []
        for _ in range(sa.size):
            (x, dx, ax), (y, dy, ay), leaf = next(leaves[0]), next(leaves[1]), next(names)
            if _same(x, y):
                places.append((x,))
            elif dx and dy:
                if x is False and y is True:
                    places.append((test,))
                    continue
                both = promote([ax.spec, ay.spec])
                if both is None:
                    raise TypeError(f"{place}: {leaf} must have the same shape and dtype after both branches, got {ay.spec} where the condition holds and {ax.spec} where not")
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
    """The graph's outputs beside the leaves they belong to."""
    it = iter(graph.outputs)
    return [next(it) if d else None for d in variables.dynamic]


def _zero(spec: Spec):
    from triskele.core.graph.graph import Const

    return Const(spec.dtype.type(0).item() if spec.weak else np.zeros(spec.shape, spec.dtype), spec)


class Range:
    """``range`` with traced bounds."""

    def __init__(self, start, stop, step):
        self.start, self.stop, self.step = start, stop, step


# -- loops --------------------------------------------------------------------------------------------------------------


def while_(test, body, get, put, names, line):
    while True:
        go = test()
        decided, value = known(go)
        if not decided:
            break
        if not value:
            return
        body()
    _loop("while", lambda: truth(test(), "while", line), body, get, put, names, line)


def for_(iterable, body, more, get, put, names, line):
    if isinstance(iterable, Range):
        count = np.maximum(0, -((iterable.start - iterable.stop) // iterable.step))
        return _counted(count, lambda k: iterable.start + k * iterable.step, body, more, get, put, names, line)
    if isinstance(iterable, Tensor) and concrete(iterable) is None and iterable.ndim:
        if more is None:
            return _loop("for", None, body, get, put, names, line, xs=iterable)
        return _counted(iterable.shape[0], lambda k: iterable[k], body, more, get, put, names, line)
    for k, item in enumerate(iterable):
        if more is not None:
            go = more()
            decided, value = known(go)
            if not decided:
                if isinstance(iterable, range):
                    rest = iterable[k:]
                    return _counted(len(rest), lambda i, rest=rest: rest.start + i * rest.step, body, more, get, put, names, line)
                if_(go, lambda item=item: body(item), lambda: None, get, put, names, line)
                continue
            if not value:
                return None
        body(item)
    return None


def _counted(count, item, body, more, get, put, names, line):
    """``for k in range(count): body(item(k))`` as a graph's loop."""
    k = np.int64(0)

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


def _loop(what, test, body, get, put, names, line, xs=None):
    """A loop of the graph whose carry are the variables assigned in it: `test` for a while loop, else over `xs`."""
    place = f"{what} at {_place(line)}"
    before = Variables(names, get())
    if VALUE in names and isinstance(before.values[names.index(VALUE)], Undefined):
        before = _with_value(before, body, get, put, names, place, xs)

    def check(after):
        for n, s, t, old, new in zip(names, before.structures, after.structures, before.values, after.values, strict=True):
            if s is not None and s != t:
                got = "undefined" if t is None else t
                raise TypeError(f"{place}: {n} must keep its structure from step to step, it was {s} ({old!r:.60}) and became {got} ({new!r:.60})")
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
                elif was or not _same(old, new):
                    raise TypeError(f"{place}: {leaf} is no array and must stay the same in a traced loop, it was {old!r:.60} and became {new!r:.60}")
        return found

    def step(arrays, *item):
        put(before.rebuild(arrays))
        body(*item)
        return check(Variables(names, get()))

    arrays = before.arrays
    labels = [n for n, d in zip(before.leaf_names, before.dynamic, strict=True) if d]
    try:
        if test is None:
            out = scan(lambda carry, x: (step(carry, x), None), arrays, xs)[0]
        else:
            def condition(values):
                put(before.rebuild(values))
                return test()

            flat, structure = tree.flatten(arrays)
            out = _while(place, condition, step, flat, structure, labels, None, CHECKPOINTS)
    finally:
        put(before.values)
    after = before.rebuild(out)
    put([Undefined(f"{n} is assigned in the {place} only, which may make no step (give it a value before)") if isinstance(v, Undefined) else v
         for n, v in zip(names, after, strict=True)])


def _with_value(before, body, get, put, names, place, xs):
    """The variables with zeros for a value returned from inside the loop, which is not there before the loop has run."""
    found = []

    def once(*arrays):
        put(before.rebuild(arrays))
        body(*([] if xs is None else [xs[0]]))
        found.append(get()[names.index(VALUE)])
        return [x for x in tree.leaves(found[0]) if isinstance(x, (Tensor, *_NUMBERS))]

    arrays = before.arrays
    graph = trace_body(once, tree.structure(tuple(arrays)), [spec_of(x) for x in arrays], place).graph
    put(before.values)
    if isinstance(found[0], Undefined):
        return before
    leaves, structure = tree.flatten(found[0])
    if len(leaves) != len(graph.outputs):
        raise TypeError(f"{place}: a value returned from inside a loop must consist of arrays and numbers, got {found[0]!r:.60}")
    zeros = [_zero(v.spec).value for v in graph.outputs]
    values = [tree.unflatten(structure, zeros) if n == VALUE else v for n, v in zip(names, before.values, strict=True)]
    return Variables(names, values)


# -- expressions --------------------------------------------------------------------------------------------------------


def not_(x):
    decided, value = known(x)
    return not value if decided else np.logical_not(x)


def and_(first, *rest):
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
    line = user_source().line
    what = "and" if both else "or"
    test = truth(first, what, line)

    def second():
        value = later()
        boolean = first.dtype.kind == "b" and getattr(value, "dtype", np.dtype(type(value)) if isinstance(value, bool) else None) == np.dtype(bool)
        if isinstance(value, Tensor) and boolean:
            return truth(value, what, line)
        return bool(value) if boolean and not isinstance(value, Tensor) else value

    own = test if first.dtype.kind == "b" else first
    branches = (second, lambda: own) if both else (lambda: own, second)
    return _branches(test, *branches, lambda: [], lambda values: None, (), line, what, returns=True)[1]


_COMPARE = {
    "Eq": operator.eq, "NotEq": operator.ne, "Lt": operator.lt, "LtE": operator.le, "Gt": operator.gt, "GtE": operator.ge,
    "Is": operator.is_, "IsNot": operator.is_not, "In": lambda a, b: a in b, "NotIn": lambda a, b: a not in b,
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
