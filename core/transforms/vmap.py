"""`vmap`: a function of one example becomes a function of a batch, by each primitive's batching rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .. import tree
from ..errors import EscapedTensorError, MissingRuleError, TracerError
from ..foreign import as_plain
from ..graph.graph import spec_of
from ..graph.trace import Trace, bind, describe, traceable, user_source
from ..ops.define import move_batch_axis
from ..tensor import Tensor
from ..views import in_c_order
from .grad import check_arrays
from .results import own

__all__ = ["BatchTensor", "BatchTrace", "vmap"]


class BatchTensor(Tensor):
    """A batch of values that the function sees as one; `axis` is where the batch lies in `value`."""

    __slots__ = ("axis",)
    _content = ("value", "axis")

    def __init__(self, trace, value, axis):
        self._trace = trace
        self.level = trace.level
        self.value = value
        self.axis = axis
        self._link = self._made = None

    @property
    def spec(self):  # type: ignore[override]
        spec = spec_of(self.value)
        if self.axis is None:
            return spec
        return spec._replace(shape=spec.shape[: self.axis] + spec.shape[self.axis + 1 :])

    def _take(self, other):
        self.value, self.axis = other.value, other.axis

    def _handle(self):
        return BatchTensor(self._trace, self.value, self.axis)

    def _identity(self):
        return (id(self._trace), id(self.value), self.axis)

    def __repr__(self):
        return f"Tensor({self.spec}, batched)"

    def _in_c_order(self):
        return in_c_order(self.value, self.axis)

    def _concrete(self, what):
        if self.axis is None:
            return self.value
        raise TracerError(
            f"{what}: {self!r} has {self._trace.size} values, one for each example of vmap, at {user_source()} (use "
            "np.where, core.cond or core.while_loop)"
        )


class BatchTrace(Trace):
    """Applies operations to whole batches."""

    __slots__ = ("size",)

    def __init__(self, size):
        super().__init__()
        self.size = size

    def lift(self, value):
        return BatchTensor(self, value, None)

    def process(self, primitive, args, params):
        if not self.alive:
            raise EscapedTensorError(
                f"{primitive.name}: a batched value was used after vmap had ended (return it instead of storing it), "
                f"at {user_source()}"
            )
        values, axes = [], []
        for a in args:
            if type(a) is BatchTensor and a._trace is self:
                values.append(a.value)
                axes.append(a.axis)
            else:
                values.append(a)
                axes.append(None)
        if all(ax is None for ax in axes):
            # stays traced, so that what began as zeros_like(x) can be assigned into
            out = bind(primitive, *values, **params)
            return tuple([self.lift(o) for o in out]) if primitive.multiple else self.lift(out)
        if primitive.batch is None:
            raise MissingRuleError(
                f"{primitive.name}({describe(args)}): no batching rule, so it cannot be used under vmap (define one "
                "with .batch)"
            )
        out, axis = primitive.batch(values, axes, self.size, **params)
        if primitive.multiple:
            return tuple([BatchTensor(self, o, ax) if ax is not None else o for o, ax in zip(out, axis, strict=True)])
        return BatchTensor(self, out, axis) if axis is not None else out


def vmap(f: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0) -> Callable[..., Any]:
    """Vectorize `f` over a batch axis.

    Parameters
    ----------
    f : callable
        Written for one example.
    in_axes : int, None, or sequence of them (or of trees of them), one per positional argument
        Where each argument has its batch axis; None: it has none and is shared.
    out_axes : int, None or tree prefix of the output
        Where the batch axis goes in the results; None: the result must not depend on the batch.

    Returns
    -------
    callable
        Takes and returns batches. Keyword arguments are batched along their first axis.

    Raises
    ------
    ValueError
        If the batch sizes differ or an axis does not exist.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import vmap
    >>> vmap(np.dot, in_axes=(0, None))(np.eye(3), np.arange(3.0))
    array([0., 1., 2.])
    """
    name = getattr(f, "__name__", type(f).__name__)

    def batched(*args, **kwargs):
        leaves, structure = tree.flatten((args, kwargs))
        prefix = in_axes if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)
        if len(prefix) != len(args):
            raise ValueError(
                f"vmap of {name}: in_axes must have one entry per positional argument, got {len(prefix)} for "
                f"{len(args)}"
            )
        axes = tree.broadcast_prefix(tuple(prefix), args, f"vmap of {name}: in_axes")
        axes += [0] * (len(leaves) - len(axes))
        sizes: dict[int, str] = {}
        for i, (x, ax) in enumerate(zip(leaves, axes, strict=True)):
            if ax is None:
                continue
            if not isinstance(ax, (int, np.integer)):
                raise TypeError(f"vmap of {name}: in_axes must be integers or None, got {ax!r}")
            leaves[i] = x = as_plain(x, f"vmap of {name}")
            check_arrays([x], f"vmap of {name}: batched arguments must be", "in_axes=None passes anything")
            shape = np.shape(x)
            if not -len(shape) <= ax < len(shape):
                raise ValueError(
                    f"vmap of {name}: argument leaf {i} must have a batch axis {ax}, got shape {shape} (in_axes=None "
                    "shares it)"
                )
            axes[i] = ax % len(shape)
            sizes.setdefault(shape[ax], f"leaf {i} of shape {shape}, axis {ax}")
        if not sizes:
            raise ValueError(f"vmap of {name}: at least one argument must have a batch axis, got in_axes={in_axes!r}")
        if len(sizes) > 1:
            raise ValueError(
                f"vmap of {name}: all batch axes must have one size, got "
                + "; ".join(f"{n} ({w})" for n, w in sizes.items())
            )
        (size,) = sizes
        trace = BatchTrace(size)
        with trace:
            tensors = [
                x if ax is None else BatchTensor(trace, x._handle() if isinstance(x, Tensor) else np.asarray(x), ax)
                for x, ax in zip(leaves, axes, strict=True)
            ]
            call_args, call_kwargs = tree.unflatten(structure, tensors)
            out = traceable(f)(*call_args, **call_kwargs)
            outs, out_structure = tree.flatten(out)
            check_arrays(outs, f"vmap of {name}: the function must return")
            outs = [(o.value, o.axis) if type(o) is BatchTensor and o._trace is trace else (o, None) for o in outs]
        ends = tree.broadcast_prefix(out_axes, out, f"vmap of {name}: out_axes")
        found = [_finish(x, at, ax, size, name) for (x, at), ax in zip(outs, ends, strict=True)]
        del tensors, call_args, call_kwargs, out, outs  # which refer to them
        return tree.unflatten(out_structure, own(found))

    batched.__name__ = f"vmap({name})"
    batched.__wrapped__ = f  # type: ignore[attr-defined]
    return batched


def _finish(x, axis, out_axis, size, name):
    if out_axis is None:
        if axis is not None:
            raise ValueError(
                f"vmap of {name}: out_axes=None was asked for a result that differs from example to example"
            )
        return x
    rank = np.ndim(x) + (axis is None)
    if not isinstance(out_axis, (int, np.integer)):
        raise TypeError(f"vmap of {name}: out_axes must be integers or None, got {out_axis!r}")
    if not -rank <= out_axis < rank:
        raise ValueError(
            f"vmap of {name}: out_axes must be within the {rank} axes of the batched result, got {out_axis}"
        )
    return move_batch_axis(x, axis, size, out_axis % rank)
