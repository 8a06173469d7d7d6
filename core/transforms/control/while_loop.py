"""`while_loop` and `fori_loop`: loops whose length may depend on data.

The primitive ``while`` takes ``(*cond_consts, *body_consts, *carry)`` with parameters ``cond`` (a Graph of cond_consts
and carry that returns one bool), ``body`` (a Graph of body_consts and carry that returns the carry), ``n_cond_consts``,
``n_body_consts`` and ``checkpoints`` (for reverse mode only). It returns the carry. ``carry[0]`` is always the number
of steps done, an int64 that the body increments: rules rely on it, a compiler need not know.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import tree
from ...graph.graph import Graph, Spec, Var, spec_of
from ...graph.primitive import Primitive
from ...graph.trace import bind, evaluate, make_graph, traceable, user_source
from ...ops.constant import zeros_of
from ...ops.define import move_batch_axis
from ...tensor import Tensor
from ..partial import batch_graph, jvp_graph, tape_of
from ..vmap import BatchTensor
from .body import carry_body, cast, check_structure, concrete, eager, function_name, leaf_names, runner, trace_body
from .cond import check_boolean, cond_p, guarded, hides_zeros, pick
from .reverse import backward_loop
from .scan import RUN_AGAIN, check_carry, constants_first, interleave, moving_carry, scan, segments, spread

__all__ = ["CHECKPOINTS", "fori_loop", "while_loop", "while_p"]

COUNTER = Spec((), np.dtype(np.int64))
CHECKPOINTS = 64


def while_loop(
    cond_fun: Callable[[Any], Any],
    body_fun: Callable[[Any], Any],
    init: Any,
    *,
    max_steps: int | None = None,
    checkpoints: int = CHECKPOINTS,
) -> Any:
    """Repeat ``carry = body_fun(carry)`` while ``cond_fun(carry)``; differentiable in both modes, to any order.

    Parameters
    ----------
    cond_fun : callable
        ``cond_fun(carry) -> bool scalar``.
    body_fun : callable
        ``body_fun(carry) -> carry`` of the same structure, shapes and dtypes. Both may use outside values.
    init : tree
        First carry; Python numbers adapt to what the body makes of them.
    max_steps : int, optional
        Greatest number of steps.
    checkpoints : int
        So many states are kept for reverse mode in compiled programs, where the number of steps n is unknown
        beforehand. For ``n <= checkpoints`` each step is run again once; the number of repetitions grows like
        ``n ** (1 / checkpoints)``: with 64, two for 2,000 steps, three for 45,000.

    Returns
    -------
    tree
        The last carry.

    Raises
    ------
    TypeError
        If the condition is not a boolean scalar, or the carry changes its shapes or dtypes.

    Notes
    -----
    Under `vmap` the loop runs until all examples are done; those that are done before keep their carry.

    Examples
    --------
    >>> from triskele.core import while_loop
    >>> while_loop(lambda x: x < 100, lambda x: 2 * x, 3)
    192
    """
    where = f"while_loop of {function_name(body_fun)}"
    leaves, structure = tree.flatten(init)
    names = leaf_names(init)
    if operator.index(checkpoints) < 1:
        raise ValueError(f"while_loop: at least one checkpoint is needed, got {checkpoints}")
    if eager(leaves):
        return _run(where, cond_fun, body_fun, init, leaves, structure, names, max_steps)
    return _while(where, cond_fun, body_fun, leaves, structure, names, max_steps, checkpoints)


def fori_loop(lower: Any, upper: Any, body_fun: Callable[[Any, Any], Any], init: Any) -> Any:
    """``for i in range(lower, upper): carry = body_fun(i, carry)``.

    With bounds known beforehand this is a `scan`, else a `while_loop`.

    Parameters
    ----------
    lower, upper : int
        First index, and the one behind the last. Either may be traced.
    body_fun : callable
        ``body_fun(i, carry)`` returns the next carry, with the same structure, shapes and dtypes.
    init : tree
        The first carry.

    Examples
    --------
    >>> from triskele.core import fori_loop
    >>> fori_loop(0, 5, lambda i, total: total + i, 0)
    10
    """
    bounds = []
    for b in (lower, upper):
        spec = spec_of(b)
        if spec.shape != () or spec.dtype.kind not in "iu":
            raise TypeError(f"fori_loop: bounds must be integers, got {spec}, at {user_source()}")
        known = concrete(b)
        bounds.append(b if known is None else int(known))
    lower, upper = bounds
    where = f"fori_loop of {function_name(body_fun)}"
    leaves, structure = tree.flatten(init)
    if not isinstance(lower, Tensor) and not isinstance(upper, Tensor):
        if eager(leaves):
            carry = tree.unflatten(structure, [np.array(x) if type(x) is np.ndarray else x for x in leaves])
            for i in range(lower, upper):
                carry = body_fun(i, carry)
                if i == lower:
                    check_carry(where, leaves, structure, carry, leaf_names(init))
            return carry

        def step(state, _):
            i, carry = state
            return (i + 1, traceable(body_fun)(i, carry)), None

        step.__name__ = function_name(body_fun)
        return scan(step, (np.int64(lower), init), length=max(upper - lower, 0))[0][1]

    def body(state):
        i, carry = state
        new = traceable(body_fun)(i, carry)
        check_structure(where, "the carry", structure, tree.structure(new))
        return i + 1, new

    names = ["[i]", *leaf_names(init)]
    first = cast(lower, COUNTER)
    leaves, both = tree.flatten((first, init))
    return _while(where, lambda state: np.less(state[0], upper), body, leaves, both, names, None, CHECKPOINTS)[1]


def _run(where, cond_fun, body_fun, init, leaves, structure, names, max_steps):
    """The loop in Python on plain arrays."""
    carry = tree.unflatten(structure, [np.array(x) if type(x) is np.ndarray else x for x in leaves])
    steps = 0
    while (max_steps is None or steps < max_steps) and check_boolean("while_loop: the condition", cond_fun(carry)):
        carry = body_fun(carry)
        if not steps:
            check_carry(where, leaves, structure, carry, names)
        steps += 1
    return carry


def _while(where, cond_fun, body_fun, leaves, structure, names, max_steps, checkpoints):
    leaves = [x if spec_of(x).weak or hasattr(x, "shape") else np.asarray(x) for x in leaves]
    state = tree.structure((0, tree.unflatten(structure, leaves)))

    def step(count, carry):
        new = traceable(body_fun)(carry)
        check_structure(where, "the carry", structure, tree.structure(new))
        return count + 1, new

    def test(count, carry):
        go = check_boolean("while_loop: the condition", traceable(cond_fun)(carry))
        return go if max_steps is None else np.logical_and(go, count < max_steps)

    n = 1 + len(leaves)
    body, specs = carry_body(
        where, lambda c: trace_body(step, state, c, where), [COUNTER, *map(spec_of, leaves)], ["steps", *names], n
    )
    again = trace_body(test, state, specs, where)
    args = [*again.captured, *body.captured, np.int64(0), *[cast(x, s) for x, s in zip(leaves, specs[1:], strict=True)]]
    out = bind(
        while_p,
        *args,
        cond=constants_first(again.graph, n),
        body=constants_first(body.graph, n),
        n_cond_consts=len(again.captured),
        n_body_consts=len(body.captured),
        checkpoints=checkpoints,
    )
    return tree.unflatten(structure, out[1:])


# -- the primitive ----------------------------------------------------------------------------------------------------


def _impl(*args, cond, body, n_cond_consts, n_body_consts, checkpoints):
    n = n_cond_consts + n_body_consts
    cond_consts, body_consts, carry = args[:n_cond_consts], args[n_cond_consts:n], args[n:]
    test, step = functools.partial(evaluate, cond), functools.partial(evaluate, body)
    steps = 0
    while test(*cond_consts, *carry)[0]:
        if steps == RUN_AGAIN:
            test, step = runner(cond), runner(body)
        carry = step(*body_consts, *carry)
        steps += 1
    return tuple(carry)


while_p = Primitive(
    "while",
    _impl,
    lambda *specs, cond, body, n_cond_consts, n_body_consts, checkpoints: tuple(body.out_specs),
    multiple=True,
    kind="control",
    flops=0,
)
while_p.depends = lambda hits, *, cond, body, n_cond_consts, n_body_consts, checkpoints: moving_carry(
    body, hits[n_cond_consts : n_cond_consts + n_body_consts], hits[n_cond_consts + n_body_consts :], []
)


@while_p.defjvp_all
def _(tangents, out, args, *, cond, body, n_cond_consts, n_body_consts, checkpoints):
    n = n_cond_consts + n_body_consts
    hits = [t is not None for t in tangents]
    carry = moving_carry(body, hits[n_cond_consts:n], hits[n:], [])
    moving = [*hits[n_cond_consts:n], *carry]
    graph = jvp_graph(body, moving, carry)
    own = args[n_cond_consts:]
    tangents = [
        zeros_of(x) if m and t is None else t if m else None
        for x, t, m in zip(own, tangents[n_cond_consts:], moving, strict=True)
    ]
    inputs = interleave(list(graph.inputs[: len(own)]), spread(graph.inputs[len(own) :], moving), n_body_consts)
    outputs = list(graph.outputs)
    # the condition sees the tangents in the carry and does not read them
    cond = Graph(
        [
            *cond.inputs,
            *[
                Var(v.spec)
                for v, m in zip(
                    graph.inputs[len(own) + sum(moving[:n_body_consts]) :], [m for m in carry if m], strict=True
                )
            ],
        ],
        cond.equations,
        cond.outputs,
        cond.name,
    )
    found = bind(
        while_p,
        *args[:n_cond_consts],
        *interleave(list(own), tangents, n_body_consts),
        cond=cond,
        body=Graph(inputs, graph.equations, outputs, graph.name),
        n_cond_consts=n_cond_consts,
        n_body_consts=n_body_consts + sum(moving[:n_body_consts]),
        checkpoints=checkpoints,
    )
    return tuple(spread(found[len(carry) :], carry))


@while_p.defbatch
def _(args, axes, size, *, cond, body, n_cond_consts, n_body_consts, checkpoints):
    n = n_cond_consts + n_body_consts
    batched = [a is not None for a in axes]
    carry = batched[n:]
    while True:
        _, out = batch_graph(body, [*batched[n_cond_consts:n], *carry], size)
        test, (several,) = batch_graph(cond, [*batched[:n_cond_consts], *carry], size)
        new = [a or b for a, b in zip(carry, out, strict=True)]
        if several:  # examples end at different times: every one needs its own state; the counter counts for all
            new = [k > 0 for k in range(len(carry))]
        if new == carry:
            break
        carry = new
    graph, _ = batch_graph(body, [*batched[n_cond_consts:n], *carry], size, carry)
    moved = [
        move_batch_axis(x, a, size) if b else x for x, a, b in zip(args, axes, [*batched[:n], *carry], strict=True)
    ]
    if several:

        def step(*a):
            old = a[n:]
            go = evaluate(test, *a[:n_cond_consts], *old)[0]
            own = [guarded(go, x) for x in old] if hides_zeros(graph) else old
            new = evaluate(graph, *a[n_cond_consts:n], old[0], *own[1:])
            return [new[0], *[pick(go, x, y) for x, y in zip(new[1:], old[1:], strict=True)]]

        specs = [*test.in_specs[:n_cond_consts], *graph.in_specs]
        graph = make_graph(step, specs, graph.name)[0]
        any_left = make_graph(lambda *a: [np.any(evaluate(test, *a)[0])], test.in_specs, test.name)[0]
        moved = [*moved[:n_cond_consts], *moved]
        n_body_consts += n_cond_consts
    found = bind(
        while_p,
        *moved,
        cond=any_left if several else test,
        body=graph,
        n_cond_consts=n_cond_consts,
        n_body_consts=n_body_consts,
        checkpoints=checkpoints,
    )
    return found, tuple([0 if c else None for c in carry])


@while_p.deftaped
def _(args, needed, *, cond, body, n_cond_consts, n_body_consts, checkpoints):
    n = n_cond_consts + n_body_consts
    out = bind(
        while_p,
        *args,
        cond=cond,
        body=body,
        n_cond_consts=n_cond_consts,
        n_body_consts=n_body_consts,
        checkpoints=checkpoints,
    )
    steps = out[0]

    def pull(cts):
        if isinstance(steps, Tensor):
            consts, step = _guarded(args, cond, body, n_cond_consts, n_body_consts)
            return backward_loop(step, steps, consts, args[n:], needed[:n], needed[n:], cts, checkpoints)
        # the number of steps is known by now: a scan of that length
        if any(_is_batched(a) for a in args):
            consts, step = _guarded(args, cond, body, n_cond_consts, n_body_consts)
        else:
            consts, step = args[n_cond_consts:n], body
        count = int(steps)
        segment = 0 if count <= KEPT else int(np.sqrt(count))
        skipped = n - len(consts)
        _, pullback = tape_of(
            lambda *a: segments(
                list(a), segment, body=step, n_consts=len(consts), n_carry=len(args) - n, length=count, reverse=False
            ),
            args[skipped:],
            needed[skipped:],
        )
        return [*[None] * skipped, *pullback(cts)]

    return out, pull


# steps of a loop that runs eagerly whose values are all kept for the backward pass; beyond, of sqrt(steps) steps
KEPT = 4096


def _is_batched(x):
    while isinstance(x, Tensor):
        if type(x) is BatchTensor and x.axis is not None:
            return True
        x = x.value
    return False


def _guarded(args, cond, body, n_cond_consts, n_body_consts):
    """A step that leaves the carry as it is once the condition is false: examples of a batch end at different times."""
    n = n_cond_consts + n_body_consts
    identity = make_graph(lambda *a: a[n_body_consts:], body.in_specs, body.name)[0]

    def step(*a):
        go = evaluate(cond, *a[:n_cond_consts], *a[n:])[0]
        return bind(cond_p, go, *a[n_cond_consts:], branches=(identity, body))

    return args[:n], make_graph(step, [*cond.in_specs[:n_cond_consts], *body.in_specs], body.name)[0]
