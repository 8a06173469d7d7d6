"""`cond` and `switch`: one of several branches.

The primitive ``cond`` takes ``(index, *operands)`` with parameter ``branches``, a tuple of Graphs that all take the
operands; `index` is a bool (False: ``branches[0]``, True: ``branches[1]``) or an integer within range.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import tree
from ...dtypes import kind_of
from ...graph.graph import Graph, Spec, spec_of
from ...graph.primitive import Primitive
from ...graph.trace import bind, evaluate, make_graph, user_source
from ...ops.constant import zeros_of
from ...ops.define import move_batch_axis
from ..checkpoint import stop_gradient
from ..partial import batch_graph, depends, forward_backward, jvp_graph, tangent_spec, zeros
from .body import common_inputs, concrete, function_name, promote, trace_body, with_outputs

__all__ = ["check_boolean", "cond", "cond_p", "guarded", "hides_zeros", "pick", "switch"]


def cond(pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any) -> Any:
    """``true_fun(*operands)`` where `pred` is true, else ``false_fun(*operands)``; only that one is computed.

    Parameters
    ----------
    pred : bool scalar
    true_fun, false_fun : callable
        Must return trees of one structure with the same shapes and dtypes. They may use outside values.
    *operands : trees of arrays

    Raises
    ------
    TypeError
        If `pred` is not a boolean scalar, or the branches' results differ.

    Notes
    -----
    Under `vmap` with a predicate that differs between examples both branches are computed and selected from; the
    derivative of the one not taken is zero even where it is infinite or NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import cond
    >>> bool(cond(True, np.sin, np.cos, 0.0) == np.sin(0.0))
    True
    """
    check_boolean("cond: the predicate", pred)
    known = concrete(pred)
    if known is not None:
        return true_fun(*operands) if known else false_fun(*operands)
    return _branch("cond", pred, (false_fun, true_fun), operands)


def check_boolean(what: str, value: Any) -> Any:
    """Return a boolean scalar, or raise TypeError if `value` is anything else."""
    spec = spec_of(value)
    if spec.shape != () or spec.dtype.kind != "b":
        hint = "use .any() or .all()" if spec.shape else "compare it with something"
        raise TypeError(f"{what} must be a boolean scalar, got {spec} ({hint}), at {user_source()}")
    return value


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """``branches[index](*operands)``; an `index` out of range is moved to the nearest branch. See `cond`.

    Parameters
    ----------
    index : int
        Number of the branch. It may be traced.
    branches : sequence of callable
        Their results have the same structure, shapes and dtypes.
    *operands : trees
        Arguments of the branch.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import switch
    >>> float(switch(1, [np.sin, np.cos], 0.0))
    1.0
    """
    branches = tuple(branches)
    spec = spec_of(index)
    if spec.shape != () or spec.dtype.kind not in "iu":
        raise TypeError(f"switch: the index must be an integer scalar, got {spec}, at {user_source()}")
    if not branches:
        raise ValueError(f"switch: at least one branch is needed, at {user_source()}")
    known = concrete(index)
    if known is not None:
        return branches[min(max(int(known), 0), len(branches) - 1)](*operands)
    if len(branches) == 1:
        return branches[0](*operands)
    return _branch("switch", np.minimum(np.maximum(index, 0), len(branches) - 1), branches, operands)


def _branch(where, index, functions, operands):
    leaves, structure = tree.flatten(operands)
    bodies = [trace_body(f, structure, [spec_of(x) for x in leaves], where, stage=True) for f in functions]
    first = bodies[0]
    for f, b in zip(functions[1:], bodies[1:], strict=True):
        if b.structure != first.structure:
            raise TypeError(
                f"{where}: the branches must return trees of one structure, got {first.structure} from "
                f"{function_name(functions[0])} "
                f"and {b.structure} from {function_name(f)}, at {user_source()}"
            )
    specs = []
    for k, name in enumerate(first.names):
        found = [b.graph.outputs[k].spec for b in bodies]
        both = promote(found)
        if both is None:
            listed = ", ".join(f"{s} from {function_name(f)}" for s, f in zip(found, functions, strict=True))
            raise TypeError(
                f"{where}: the branches must return the same shapes and dtypes, got "
                f"{listed}{' at leaf ' + name if name else ''} "
                f"(np.broadcast_to or astype make them agree), at {user_source()}"
            )
        specs.append(both)
    graphs, captured = common_inputs(bodies, len(leaves))
    out = bind(cond_p, index, *leaves, *captured, branches=tuple(with_outputs(g, specs) for g in graphs))
    return tree.unflatten(first.structure, out)


# -- the primitive ----------------------------------------------------------------------------------------------------


def _spec(index, *operands, branches):
    return tuple(v.spec for v in branches[0].outputs)


cond_p = Primitive(
    "cond",
    lambda index, *operands, branches: tuple(evaluate(branches[int(index)], *operands)),
    _spec,
    multiple=True,
    kind="control",
    flops=0,
)
cond_p.depends = lambda hits, *, branches: _any(depends(b, hits[1:]) for b in branches)


def _any(rows):
    return [any(column) for column in zip(*rows, strict=True)]


@cond_p.defjvp_all
def _(tangents, out, args, *, branches):
    index, *operands = args
    moving = [t is not None for t in tangents[1:]]
    wanted = _any(depends(b, moving) for b in branches)
    found = bind(
        cond_p,
        index,
        *operands,
        *[t for t in tangents[1:] if t is not None],
        branches=tuple(jvp_graph(b, moving, wanted) for b in branches),
    )
    t_out = iter(found[len(wanted) :])
    return tuple([next(t_out) if w else None for w in wanted])


def _slots(halves, n_outputs):
    """One list of residual types for all branches, and each branch's places in it: equal types share a place."""
    slots: list[Spec] = []
    places: list[list[int]] = []
    for h in halves:
        free, mine = list(range(len(slots))), []
        for v in h.forward.outputs[n_outputs:]:
            place = next((i for i in free if slots[i] == v.spec), None)
            if place is None:
                place = len(slots)
                slots.append(v.spec)
            else:
                free.remove(place)
            mine.append(place)
        places.append(mine)
    return slots, places


@cond_p.deftaped
def _(args, needed, *, branches):
    index, *operands = args
    needed, n_out = needed[1:], len(branches[0].outputs)
    halves = [forward_backward(b, needed) for b in branches]
    slots, places = _slots(halves, n_out)
    forward = []
    for h, mine in zip(halves, places, strict=True):

        def run(*a, h=h, mine=mine):
            values = evaluate(h.forward, *a)
            kept = [zeros(s) for s in slots]
            for place, r in zip(mine, values[n_out:], strict=True):
                kept[place] = r
            return values[:n_out] + kept

        forward.append(make_graph(run, branches[0].in_specs, h.forward.name)[0])
    results = bind(cond_p, index, *operands, branches=tuple(forward))
    out, residuals = results[:n_out], results[n_out:]
    kept = sorted({i for h in halves for i in h.kept})
    cts_in = sorted({k for h in halves for k in h.cts})
    pulled = sorted({i for h in halves for i in h.pulled})
    specs = [
        *slots,
        *[branches[0].inputs[i].spec for i in kept],
        *[tangent_spec(branches[0].outputs[k].spec) for k in cts_in],
    ]
    backward = []
    for h, mine in zip(halves, places, strict=True):

        def back(*a, h=h, mine=mine):
            rest = dict(zip([("in", i) for i in kept] + [("ct", k) for k in cts_in], a[len(slots) :], strict=True))
            found = evaluate(
                h.backward, *[a[p] for p in mine], *[rest["in", i] for i in h.kept], *[rest["ct", k] for k in h.cts]
            )
            found = dict(zip(h.pulled, found, strict=True))
            return [found[i] if i in found else zeros(tangent_spec(branches[0].inputs[i].spec)) for i in pulled]

        backward.append(make_graph(back, specs, h.backward.name)[0])

    def pull(cts):
        full = [zeros_of(out[k]) if cts[k] is None else cts[k] for k in cts_in]
        found = bind(cond_p, index, *residuals, *[operands[i] for i in kept], *full, branches=tuple(backward))
        result = [None] * len(args)
        for i, g in zip(pulled, found, strict=True):
            result[i + 1] = g
        return result

    return out, pull


@cond_p.defbatch
def _(args, axes, size, *, branches):
    index, *operands = args
    batched = [a is not None for a in axes[1:]]
    operands = [move_batch_axis(x, a, size) if b else x for x, a, b in zip(operands, axes[1:], batched, strict=True)]
    made = [batch_graph(b, batched, size) for b in branches]
    if axes[0] is None:
        wanted = _any(out for _, out in made)
        graphs = [
            g if out == wanted else batch_graph(b, batched, size, wanted)[0]
            for b, (g, out) in zip(branches, made, strict=True)
        ]
        return bind(cond_p, index, *operands, branches=tuple(graphs)), tuple([0 if w else None for w in wanted])
    everywhere = [True] * len(branches[0].outputs)
    index = move_batch_axis(index, axes[0], size)
    outs = []
    for k, b in enumerate(branches):
        own, flags = operands, batched
        if hides_zeros(b):
            chosen = np.equal(index, bool(k)) if spec_of(index).dtype.kind == "b" else np.equal(index, k)
            own = [
                guarded(chosen, move_batch_axis(x, 0 if f else None, size))
                for x, f in zip(operands, batched, strict=True)
            ]
            flags = [True] * len(own)
        outs.append(evaluate(batch_graph(b, flags, size, everywhere)[0], *own))
    result = list(outs[0])
    for k in range(1, len(branches)):
        chosen = index if spec_of(index).dtype.kind == "b" else np.equal(index, k)
        result = [pick(chosen, new, old) for new, old in zip(outs[k], result, strict=True)]
    return tuple(result), (0,) * len(result)


def hides_zeros(graph: Graph) -> bool:
    """Return True if reverse mode may turn zero cotangents into NaN there (elsewhere zeros stay zero)."""
    return any(e.primitive.taped is not None or e.primitive.vjp_all is not None for e in graph.equations)


def guarded(chosen: Any, x: Any) -> Any:
    """`x` itself, with derivatives for the `chosen` examples only."""
    return pick(chosen, x, stop_gradient(x)) if kind_of(spec_of(x).dtype) in "fc" else x


def pick(chosen: Any, new: Any, old: Any) -> Any:
    """``new`` for the examples that are `chosen` (a vector over the leading axis), else ``old``."""
    return np.where(np.reshape(chosen, (-1, *(1,) * (np.ndim(new) - 1))), new, old)
