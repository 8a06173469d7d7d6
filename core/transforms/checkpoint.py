"""`checkpoint`: recompute in the backward pass instead of keeping; `stop_gradient`.

The primitive ``checkpoint`` takes ``(*inputs)`` of its parameter ``graph`` and returns the graph's outputs. A compiler
must not merge what is inside with equal computations outside, or the memory it saves is spent again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from .. import tree
from ..graph.graph import spec_of
from ..graph.primitive import Primitive
from ..graph.trace import bind, evaluate, traceable
from ..ops.define import move_batch_axis
from .control.body import eager, function_name, trace_body
from .partial import batch_graph, depends, jvp_graph, vjp_graph

__all__ = ["checkpoint", "checkpoint_p", "stop_gradient"]

P = ParamSpec("P")
R = TypeVar("R")


def checkpoint(f: Callable[P, R]) -> Callable[P, R]:
    """`f` whose inner values are not kept for the backward pass but computed again there.

    Takes and returns trees; all orders of derivative, `jit` and `vmap` work as for `f`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import checkpoint, grad
    >>> float(grad(checkpoint(np.sin))(0.0))
    1.0
    """

    def checkpointed(*args, **kwargs):
        leaves, structure = tree.flatten((args, kwargs))
        if eager(leaves):
            return f(*args, **kwargs)
        arrays = [
            hasattr(x, "dtype") or isinstance(x, (int, float, complex)) and not isinstance(x, bool) for x in leaves
        ]
        traced = [x for x, a in zip(leaves, arrays, strict=True) if a]

        def call(*tensors):
            it = iter(tensors)
            full_args, full_kwargs = tree.unflatten(
                structure, [next(it) if a else x for x, a in zip(leaves, arrays, strict=True)]
            )
            return traceable(f)(*full_args, **full_kwargs)

        body = trace_body(
            call,
            tree.structure(tuple(traced)),
            [spec_of(x) for x in traced],
            f"checkpoint of {function_name(f)}",
            stage=True,
        )
        return tree.unflatten(body.structure, bind(checkpoint_p, *traced, *body.captured, graph=body.graph))

    checkpointed.__name__ = f"checkpoint({function_name(f)})"
    checkpointed.__wrapped__ = f  # type: ignore[attr-defined]
    return checkpointed


checkpoint_p = Primitive(
    "checkpoint",
    lambda *args, graph: tuple(evaluate(graph, *args)),
    lambda *specs, graph: tuple(graph.out_specs),
    multiple=True,
    kind="control",
    flops=0,
)
checkpoint_p.depends = lambda hits, *, graph: depends(graph, hits)


@checkpoint_p.defjvp_all
def _(tangents, out, args, *, graph):
    moving = [t is not None for t in tangents]
    wanted = depends(graph, moving)
    both = bind(checkpoint_p, *args, *[t for t in tangents if t is not None], graph=jvp_graph(graph, moving, wanted))
    found = iter(both[len(wanted) :])
    return tuple([next(found) if w else None for w in wanted])


@checkpoint_p.defvjp_all
def _(ct, out, args, needed, *, graph):
    back, halves = vjp_graph(graph, needed, [c is not None for c in ct])
    found = bind(checkpoint_p, *args, *[ct[k] for k in halves.cts], graph=back)
    result = [None] * len(args)
    for i, g in zip(halves.pulled, found, strict=True):
        result[i] = g
    return result


@checkpoint_p.defbatch
def _(args, axes, size, *, graph):
    batched = [a is not None for a in axes]
    new, out = batch_graph(graph, batched, size)
    args = [move_batch_axis(x, a, size) if b else x for x, a, b in zip(args, axes, batched, strict=True)]
    return bind(checkpoint_p, *args, graph=new), tuple([0 if b else None for b in out])


_stop = Primitive(
    "stop_gradient",
    lambda x: x,
    lambda x: x,
    kind="elementwise",
    flops=0,
    emit=lambda b, x: x,
    differentiable=False,
    samples=lambda rng: [((rng.normal(size=3),), {})],
)
_stop.loop = lambda x: (x.dtype, x.dtype)
_stop.defbatch(lambda args, axes, size: (bind(_stop, *args), axes[0]))


def stop_gradient(x: R) -> R:
    """`x` (a tree) as a constant for derivatives: its tangents and cotangents are zero.

    Examples
    --------
    >>> from triskele.core import grad, stop_gradient
    >>> float(grad(lambda x: x * stop_gradient(x))(3.0))
    3.0
    """
    return tree.map(lambda leaf: bind(_stop, leaf), x)
