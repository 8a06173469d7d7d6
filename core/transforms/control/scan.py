"""`scan`: a loop with a carry, of known length, over the leading axes of arrays.

The primitive ``scan`` takes ``(*consts, *carry, *xs)`` with parameters ``body`` (a Graph that takes consts, carry and
one slice of each of xs, and returns the new carry and one slice of each of ys), ``n_consts``, ``n_carry``, ``length``
and ``reverse`` (from the last slice to the first; the i-th slice of ys still belongs to the i-th of xs). It returns
``(*carry, *ys)``.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ... import tree
from ...dtypes import kind_of
from ...graph.graph import Graph, Spec, spec_of
from ...graph.primitive import Primitive
from ...graph.trace import bind, evaluate, make_graph, traceable, user_source
from ...ops.constant import zeros_of
from ...ops.define import move_batch_axis
from ..checkpoint import checkpoint_p
from ..partial import batch_graph, depends, forward_backward, jvp_graph, split_invariant, tangent_spec, zeros
from .body import (
    carry_body,
    carry_error,
    cast,
    check_structure,
    eager,
    function_name,
    leaf_names,
    promote,
    runner,
    trace_body,
)
from .sums import take_out_products

__all__ = [
    "RUN_AGAIN",
    "check_carry",
    "constants_first",
    "interleave",
    "moving_carry",
    "scan",
    "scan_p",
    "segments",
    "spread",
]


def scan(
    f: Callable[..., Any],
    init: Any,
    xs: Any = None,
    length: int | None = None,
    reverse: bool = False,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Loop ``carry, y = f(carry, x)`` over the leading axis of `xs`.

    Parameters
    ----------
    f : callable
        ``f(carry, x) -> (carry, y)``; the carry keeps its structure, shapes and dtypes. May use outside values.
    init : tree
        First carry.
    xs : tree of arrays (length, ...), or None
    length : int, optional
        Needed when `xs` has no arrays.
    reverse : bool
        From the last slice to the first.
    checkpoint : bool or int
        Reverse mode keeps the carries of every `checkpoint`-th step only (True: of about sqrt(length) steps) and
        computes the steps between again: memory of 2 sqrt(length) steps rather than of all, for one more forward pass.

    Returns
    -------
    carry : tree
        The last one.
    ys : tree of arrays (length, ...)

    Raises
    ------
    TypeError
        If the carry changes its shapes or dtypes (Python numbers in `init` adapt to what the body makes of them).
    ValueError
        If lengths differ or are missing.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import scan
    >>> scan(lambda total, x: (total + x, total + x), 0.0, np.arange(4.0))
    (np.float64(6.0), array([0., 1., 3., 6.]))
    """
    init_leaves, carry_structure = tree.flatten(init)
    x_leaves, x_structure = tree.flatten(xs)
    length = _length(xs, x_leaves, length)
    where = f"scan of {function_name(f)}"
    names = leaf_names(init)
    if eager(init_leaves + x_leaves):
        return _run(where, f, init_leaves, carry_structure, x_leaves, x_structure, length, reverse, names)
    init_leaves = [x if spec_of(x).weak or hasattr(x, "shape") else np.asarray(x) for x in init_leaves]
    n_carry = len(init_leaves)
    x_specs = [Spec(s.shape[1:], s.dtype) for s in map(spec_of, x_leaves)]
    both = tree.structure((init, xs))
    y_structure = None

    def step(carry, x):
        nonlocal y_structure
        out = traceable(f)(carry, x)
        if type(out) is not tuple or len(out) != 2:
            raise TypeError(
                f"{where}: the body must return a pair (carry, y), got {type(out).__name__}, at {user_source()}"
            )
        check_structure(where, "the carry", carry_structure, tree.structure(out[0]))
        y_structure = tree.structure(out[1])
        return out

    body, specs = carry_body(
        where,
        lambda c: trace_body(step, both, [*c, *x_specs], where),
        [spec_of(x) for x in init_leaves],
        names,
        n_carry,
    )
    graph = constants_first(body.graph, n_carry + len(x_leaves))
    args = [*body.captured, *[cast(x, s) for x, s in zip(init_leaves, specs, strict=True)], *x_leaves]
    params = {
        "body": graph,
        "n_consts": len(body.captured),
        "n_carry": n_carry,
        "length": length,
        "reverse": bool(reverse),
    }
    out = segments(args, segment_length(length, checkpoint), **params)
    return tree.unflatten(carry_structure, out[:n_carry]), tree.unflatten(y_structure, out[n_carry:])


def _length(xs, leaves, length):
    sizes: dict[int, str] = {}
    for name, x in zip(leaf_names(xs), leaves, strict=True):
        shape = np.shape(x)
        if not shape:
            raise ValueError(
                "scan: arrays in xs must have a leading axis to loop over, got a "
                f"scalar{' at ' + name if name else ''}, at {user_source()}"
            )
        sizes.setdefault(shape[0], name or "xs")
    if length is not None:
        sizes.setdefault(operator.index(length), "length")
    if not sizes:
        raise ValueError(f"scan: length= is needed when xs has no arrays, at {user_source()}")
    if len(sizes) > 1:
        raise ValueError(
            f"scan: all leading axes must have one length, got {', '.join(f'{n} ({w})' for n, w in sizes.items())}, at "
            f"{user_source()}"
        )
    (n,) = sizes
    if n < 0:
        raise ValueError(f"scan: the length must not be negative, got {n}, at {user_source()}")
    return n


def _run(where, f, init, carry_structure, xs, x_structure, length, reverse, names):
    """The loop in Python on plain arrays."""
    carry = tree.unflatten(carry_structure, [np.array(x) if type(x) is np.ndarray else x for x in init])
    ys = y_structure = None
    for step in range(length):
        i = length - 1 - step if reverse else step
        out = f(carry, tree.unflatten(x_structure, [x[i] for x in xs]))
        if type(out) is not tuple or len(out) != 2:
            raise TypeError(
                f"{where}: the body must return a pair (carry, y), got {type(out).__name__}, at {user_source()}"
            )
        carry, y = out
        leaves, structure = tree.flatten(y)
        if ys is None:
            check_carry(where, init, carry_structure, carry, names)
            y_structure = structure
            ys = [np.empty((length, *np.shape(v)), spec_of(v).dtype) for v in leaves]
        for buffer, v in zip(ys, leaves, strict=True):
            buffer[i] = v
    if ys is None:  # no step was made: only tracing tells the types of ys
        x_specs = [Spec(s.shape[1:], s.dtype) for s in map(spec_of, xs)]
        both = tree.Structure(tuple, 2, (carry_structure, x_structure))
        body = trace_body(lambda c, x: f(c, x)[1], both, [*map(spec_of, init), *x_specs], where)
        y_structure, ys = body.structure, [np.empty((0, *s.shape), s.dtype) for s in body.graph.out_specs]
    return carry, tree.unflatten(y_structure, ys)


def check_carry(where: str, init: list[Any], structure: tree.Structure, carry: Any, names: list[str]) -> None:
    """Raise unless `carry`, after one step in Python, has the types of `init`."""
    leaves, got = tree.flatten(carry)
    check_structure(where, "the carry", structure, got)
    for before, after, name in zip(init, leaves, names, strict=True):
        a, b = spec_of(before), spec_of(after)
        if a != b and promote([a, b]) is None and not (a.weak and a.shape == b.shape):
            raise carry_error(where, name, a, b)


def constants_first(graph: Graph, n_args: int) -> Graph:
    """Captured values, which `make_graph` puts last, as the first inputs."""
    return Graph(graph.inputs[n_args:] + graph.inputs[:n_args], graph.equations, graph.outputs, graph.name)


# -- checkpoints ------------------------------------------------------------------------------------------------------


def segment_length(length: int, checkpoint: bool | int) -> int:
    """Steps between two checkpoints; 0: no checkpoints."""
    if checkpoint is True:
        return math.isqrt(length) if length > 3 else 0
    n = operator.index(checkpoint)
    if n < 0:
        raise ValueError(f"scan: checkpoint must be a number of steps, True or False, got {checkpoint}")
    return n if n < length else 0


def segments(
    args: list[Any], segment: int, *, body: Graph, n_consts: int, n_carry: int, length: int, reverse: bool
) -> tuple[Any, ...]:
    """The scan as a scan of pieces of `segment` steps that are computed again in reverse mode (0: as it is)."""
    params = {"body": body, "n_consts": n_consts, "n_carry": n_carry, "reverse": reverse}
    if not segment:
        return bind(scan_p, *args, length=length, **params)
    count, rest = divmod(length, segment)
    consts, carry, xs = args[:n_consts], args[n_consts : n_consts + n_carry], args[n_consts + n_carry :]
    cut = rest if reverse else count * segment  # the shorter piece is the last to be run

    def piece(n):
        specs = body.in_specs[: n_consts + n_carry] + [
            Spec((n, *s.shape), s.dtype) for s in body.in_specs[n_consts + n_carry :]
        ]
        return make_graph(lambda *a: bind(scan_p, *a, length=n, **params), specs, body.name)[0]

    whole = piece(segment)
    outer = make_graph(lambda *a: bind(checkpoint_p, *a, graph=whole), whole.in_specs, body.name)[0]
    main = [x[cut:] if reverse else x[:cut] for x in xs] if rest else xs
    main = [np.reshape(x, (count, segment, *np.shape(x)[1:])) for x in main]
    out = bind(
        scan_p, *consts, *carry, *main, body=outer, n_consts=n_consts, n_carry=n_carry, length=count, reverse=reverse
    )
    carry, ys = list(out[:n_carry]), [np.reshape(y, (count * segment, *np.shape(y)[2:])) for y in out[n_carry:]]
    if rest:
        out = bind(checkpoint_p, *consts, *carry, *[x[:cut] if reverse else x[cut:] for x in xs], graph=piece(rest))
        carry = list(out[:n_carry])
        ys = [np.concatenate([y, z] if not reverse else [z, y]) for y, z in zip(ys, out[n_carry:], strict=True)]
    return (*carry, *ys)


# -- the primitive ----------------------------------------------------------------------------------------------------


RUN_AGAIN = 16  # number of steps from which it pays to write the body out as Python source


def _impl(*args, body, n_consts, n_carry, length, reverse):
    n = n_consts + n_carry
    consts, carry, xs = args[:n_consts], args[n_consts:n], args[n:]
    ys = [np.empty((length, *s.shape), s.dtype) for s in body.out_specs[n_carry:]]
    step = runner(body) if length > RUN_AGAIN else functools.partial(evaluate, body)
    for i in range(length - 1, -1, -1) if reverse else range(length):
        out = step(*consts, *carry, *[x[i] for x in xs])
        carry = out[:n_carry]
        for buffer, y in zip(ys, out[n_carry:], strict=True):
            buffer[i] = y
    return (*carry, *ys)


def _spec(*specs, body, n_consts, n_carry, length, reverse):
    outs = body.out_specs
    return tuple(outs[:n_carry]) + tuple(Spec((length, *s.shape), s.dtype) for s in outs[n_carry:])


scan_p = Primitive("scan", _impl, _spec, multiple=True, kind="control", flops=0)


def moving_carry(body: Graph, consts: list[bool], carry: list[bool], xs: list[bool]) -> list[bool]:
    """Return which carries depend on marked inputs, in some iteration."""
    while True:
        found = [a or b for a, b in zip(carry, depends(body, [*consts, *carry, *xs]), strict=False)]
        if found == carry:
            return carry
        carry = found


def _depends(hits, *, body, n_consts, n_carry, length, reverse):
    n = n_consts + n_carry
    carry = moving_carry(body, hits[:n_consts], hits[n_consts:n], hits[n:])
    return [
        a or b
        for a, b in zip(
            [*carry, *[False] * len(body.outputs)], depends(body, [*hits[:n_consts], *carry, *hits[n:]]), strict=False
        )
    ]


scan_p.depends = _depends


@scan_p.defjvp_all
def _(tangents, out, args, *, body, n_consts, n_carry, length, reverse):
    n = n_consts + n_carry
    hits = [t is not None for t in tangents]
    carry = moving_carry(body, hits[:n_consts], hits[n_consts:n], hits[n:])
    moving = [*hits[:n_consts], *carry, *hits[n:]]
    wanted = [*carry, *depends(body, moving)[n_carry:]]
    graph = jvp_graph(body, moving, wanted)
    tangents = [zeros_of(x) if m and t is None else t for x, t, m in zip(args, tangents, moving, strict=True)]
    inputs, t_inputs = list(graph.inputs[: len(args)]), spread(graph.inputs[len(args) :], moving)
    outputs, t_outputs = list(graph.outputs[: len(wanted)]), spread(graph.outputs[len(wanted) :], wanted)
    both = interleave(inputs, t_inputs, n_consts, n), interleave(outputs, t_outputs, n_carry)
    found = bind(
        scan_p,
        *interleave(list(args), tangents, n_consts, n),
        body=Graph(both[0], graph.equations, both[1], graph.name),
        n_consts=n_consts + sum(moving[:n_consts]),
        n_carry=n_carry + sum(carry),
        length=length,
        reverse=reverse,
    )
    found = found[n_carry : n_carry + sum(carry)] + found[n_carry + sum(carry) + len(wanted) - n_carry :]
    return tuple(spread(found, wanted))


def spread(values: Any, places: list[bool]) -> list[Any]:
    """Put `values` where `places` is true, None elsewhere."""
    it = iter(values)
    return [next(it) if p else None for p in places]


def interleave(values: list[Any], tangents: list[Any], *cuts: int) -> list[Any]:
    """Cut both lists at `cuts`; each piece of values is followed by the tangents of that piece that are not None."""
    out, start = [], 0
    for end in (*cuts, len(values)):
        out += values[start:end] + [t for t in tangents[start:end] if t is not None]
        start = end
    return out


@scan_p.deftaped
def _(args, needed, *, body, n_consts, n_carry, length, reverse):
    n, n_out = n_consts + n_carry, len(body.outputs)
    needed = [x and kind_of(v.spec.dtype) in "fc" for x, v in zip(needed, body.inputs, strict=True)]
    carry = moving_carry(body, needed[:n_consts], needed[n_consts:n], needed[n:])
    constant = [True] * n_consts + [False] * (len(args) - n_consts)
    halves = forward_backward(
        body, [*needed[:n_consts], *carry, *needed[n:]], summed=constant, loop=(n_consts, n_carry)
    )
    # forward: residuals that are the same in every step are computed once, the others and the carries kept are stacked
    outside, fixed, inside = split_invariant(halves.forward, n_consts, n_out)
    kept_carry = [i for i in halves.kept if n_consts <= i < n]
    inside = Graph(
        inside.inputs, inside.equations, inside.outputs + [inside.inputs[i] for i in kept_carry], inside.name
    )
    results = bind(scan_p, *args, body=inside, n_consts=n_consts, n_carry=n_carry, length=length, reverse=reverse)
    out, stacked = results[:n_out], list(results[n_out:])
    fixed_values = evaluate(outside, *args[:n_consts])
    n_stacked = halves.n_residuals - len(fixed)

    consts = [i for i in halves.kept if i < n_consts]
    slices = [i for i in halves.kept if i >= n]
    cts_carry = [k for k in range(n_carry) if carry[k]]
    cts_y = [k for k in halves.cts if k >= n_carry]
    sums = [i for i in halves.pulled if i < n_consts]
    pulled_x = [i for i in halves.pulled if i >= n]

    def step(*a):
        it = iter(a)
        take = lambda keys: {k: next(it) for k in keys}
        same, same_in = take(range(len(fixed))), take(consts)
        ct, total = take(cts_carry), take(sums)
        each, each_carry, each_in, ct_y = take(range(n_stacked)), take(kept_carry), take(slices), take(cts_y)
        residuals, both = [], iter(each.values())
        for r in range(halves.n_residuals):
            residuals.append(same[fixed.index(r)] if r in fixed else next(both))
        read = {**same_in, **each_carry, **each_in}
        ct.update(ct_y)
        found = evaluate(
            halves.backward, *residuals, *[read[i] for i in halves.kept], *[ct[k] for k in halves.cts], *total.values()
        )
        found = dict(zip(halves.pulled, found, strict=True))
        back = [found.get(n_consts + k, zeros(tangent_spec(body.inputs[n_consts + k].spec))) for k in cts_carry]
        return [*back, *[found[i] for i in sums], *[found[i] for i in pulled_x]]

    def spec_in(i):
        return body.inputs[i].spec

    specs = [
        *outside.out_specs,
        *map(spec_in, consts),
        *[tangent_spec(spec_in(n_consts + k)) for k in cts_carry],
        *[tangent_spec(spec_in(i)) for i in sums],
        *inside.out_specs[n_out:],
        *map(spec_in, slices),
        *[tangent_spec(body.outputs[k].spec) for k in cts_y],
    ]
    back = make_graph(step, specs, halves.backward.name)[0]
    back, carried, products = take_out_products(back, len(fixed) + len(consts), len(cts_carry), len(sums))

    def pull(cts):
        cts = [
            zeros_of(o) if c is None and (k in cts_carry or k in cts_y) else c
            for k, (c, o) in enumerate(zip(cts, out, strict=True))
        ]
        totals = [zeros_of(args[i]) for i in sums]
        xs = [*stacked, *[args[i] for i in slices], *[cts[k] for k in cts_y]]
        found = bind(
            scan_p,
            *fixed_values,
            *[args[i] for i in consts],
            *[cts[k] for k in cts_carry],
            *[totals[s] for s in carried],
            *xs,
            body=back,
            n_consts=len(fixed) + len(consts),
            n_carry=len(cts_carry) + len(carried),
            length=length,
            reverse=not reverse,
        )
        back_carry, found = found[: len(cts_carry)], found[len(cts_carry) :]
        for s, g in zip(carried, found, strict=False):
            totals[s] = g
        ys = found[len(carried) :]
        begun = set(carried)
        for p in products:
            g = p.of(xs, ys)
            totals[p.total] = totals[p.total] + g if p.total in begun else g
            begun.add(p.total)
        result = [None] * len(args)
        for i, g in zip(
            [*[n_consts + k for k in cts_carry], *sums, *pulled_x],
            [*back_carry, *totals, *ys[: len(pulled_x)]],
            strict=True,
        ):
            result[i] = g
        return result

    return out, pull


@scan_p.defbatch
def _(args, axes, size, *, body, n_consts, n_carry, length, reverse):
    n = n_consts + n_carry
    batched = [a is not None for a in axes]
    while True:
        graph, out = batch_graph(body, batched, size)
        carry = [a or b for a, b in zip(batched[n_consts:n], out, strict=False)]
        if carry == batched[n_consts:n]:
            break
        batched[n_consts:n] = carry
    if out[:n_carry] != carry:
        graph, out = batch_graph(body, batched, size, [*carry, *out[n_carry:]])
    moved = [
        move_batch_axis(x, a, size, int(i >= n)) if b else x
        for i, (x, a, b) in enumerate(zip(args, axes, batched, strict=True))
    ]
    found = bind(scan_p, *moved, body=graph, n_consts=n_consts, n_carry=n_carry, length=length, reverse=reverse)
    return found, tuple([(int(k >= n_carry) if b else None) for k, b in enumerate(out)])
