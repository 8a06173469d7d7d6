"""`core.to_torch`: a function of the core as a function of PyTorch tensors.

The function runs as one `torch.autograd.Function`. Its backward pass is the pull-back of the core, applied through
another such Function, so that derivatives of every order, `torch.func` and `torch.vmap` see ordinary operations. Values
are shared through NumPy arrays of the same memory; nothing is copied but results.

PyTorch's gradient of a real loss is conjugate to the core's (and JAX's), for complex arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import check, tree
from ..foreign import as_plain
from ..imports import optional
from ..transforms.results import own
from ..transforms.vmap import vmap
from .flat import Flat, name_of

__all__ = ["to_torch"]


def to_torch(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` as a function of PyTorch tensors, with gradients.

    Parameters
    ----------
    f : callable
        Any differentiable function of the core: a function of NumPy arrays, one made by `core.jit`, an expectation
        value of a circuit, the energy of a force field.

    Returns
    -------
    callable
        Takes the arguments of `f`, trees with tensors in the CPU's memory in place of arrays (other leaves go to `f` as
        they are), and returns the results of `f` as tensors. Tensors have the dtypes that `f` computes with. It can be
        called in ``nn.Module.forward``, differentiated to any order by ``backward``, ``torch.autograd.grad`` and
        ``torch.func``, and batched by ``torch.vmap``. ``torch.compile`` leaves it out: it breaks the graph there.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    TypeError
        When called, for tensors on other devices, of dtypes that NumPy does not have (bfloat16), and for results that
        are not arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import torch  # doctest: +SKIP
    >>> from triskele.core import to_torch
    >>> layer = to_torch(lambda w, x: np.tanh(x @ w))  # doctest: +SKIP
    >>> w = torch.zeros(3, 2, requires_grad=True)  # doctest: +SKIP
    >>> layer(w, torch.ones(4, 3)).sum().backward()  # doctest: +SKIP
    >>> w.grad[0, 0]  # doctest: +SKIP
    tensor(4.)
    """
    check.kind(f, Callable, "to_torch: f")
    torch = optional.need("torch", "to_torch", "interop")
    where = f"to_torch of {name_of(f)}"

    def call(*args, **kwargs):
        leaves, structure = tree.flatten((args, kwargs))
        arrays = [k for k, x in enumerate(leaves) if isinstance(x, torch.Tensor)]
        tensors = [_checked(leaves[k], where) for k in arrays]
        flat = Flat.of(f, where, leaves, arrays, structure)
        outs = _apply(flat, tensors)
        return tree.unflatten(flat.structure, outs)

    def function(*args, **kwargs):
        if torch.compiler.is_compiling():  # compiled code runs up to here, and again after it
            return torch.compiler.disable(call)(*args, **kwargs)
        return call(*args, **kwargs)

    functools.update_wrapper(function, f, ("__name__", "__doc__", "__module__"), ())
    return function


def _checked(x, where):
    if x.device.type != "cpu":
        raise TypeError(f"{where}: expected tensors in the CPU's memory, got one on {x.device} (pass x.cpu())")
    return x


def _apply(flat: Flat, tensors: Sequence[Any]) -> list[Any]:
    """Results of `flat` as tensors that know their derivatives."""
    return list(_function().apply(_Call(flat), *tensors))


class _Call:
    """One call of a function."""

    def __init__(self, flat: Flat, known: Callable[..., list[Any]] | None = None):
        import torch

        # known: the function in a cheaper form, which the forward pass of another call has left; keeps: the forward
        # pass must keep what a backward pass needs, which is `pull`, the pull-back to the arguments at `live`
        self.flat, self.known, self.keeps = flat, known, torch.is_grad_enabled()
        self.live: tuple[int, ...] = ()
        self.pull: Callable[..., list[Any]] | None = None

    def run(self, arrays: Sequence[Any], live: tuple[int, ...]) -> list[Any]:
        """The results as arrays that nothing else refers to."""
        if self.known is not None:
            return own(self.known(*arrays))
        if not (self.keeps and live):
            return own(self.flat(*arrays))
        outs, self.pull = self.flat.value_and_pull(arrays, live)
        self.live = live
        return outs

    def back(self, live: tuple[int, ...], count: int) -> _Call:
        """The call that pulls cotangents back to the arguments at `live`; it takes the arguments before them."""
        known = None
        if self.pull is not None and set(live) <= set(self.live):
            pull, chosen = self.pull, [self.live.index(k) for k in live]

            def known(*values):
                found = pull(*values[count:])
                return [found[k] for k in chosen]

        return _Call(self.flat.pulling(live, count), known)


def _floating(t):
    return t.is_floating_point() or t.is_complex()


def _conjugate(tensors):
    return [t.conj().resolve_conj() if t.is_complex() else t for t in tensors]


@functools.cache
def _function():
    import torch

    class CoreFunction(torch.autograd.Function):
        """Function of tensors, ``CoreFunction.apply(call, *tensors)``."""

        @staticmethod
        def forward(call, *tensors):
            arrays = [as_plain(t.detach().resolve_conj().resolve_neg(), call.flat.where) for t in tensors]
            live = tuple(k for k, t in enumerate(tensors) if t.requires_grad)
            return tuple([torch.from_numpy(np.asarray(x)) for x in call.run(arrays, live)])

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.call = inputs[0]
            ctx.save_for_backward(*inputs[1:])
            ctx.save_for_forward(*inputs[1:])
            ctx.mark_non_differentiable(*[o for o in output if not _floating(o)])
            ctx.results = [(o.shape, o.dtype) for o in output]

        @staticmethod
        def backward(ctx, *cts):
            tensors = ctx.saved_tensors
            live = tuple(k for k, t in enumerate(tensors) if ctx.needs_input_grad[k + 1] and _floating(t))
            full = [
                torch.zeros(shape, dtype=dtype) if ct is None else ct
                for ct, (shape, dtype) in zip(cts, ctx.results, strict=True)
            ]
            found = CoreFunction.apply(ctx.call.back(live, len(tensors)), *tensors, *_conjugate(full))
            grads = dict(zip(live, _conjugate(found), strict=True))
            return (None, *[grads.get(k) for k in range(len(tensors))])

        @staticmethod
        def jvp(ctx, _, *tangents):
            tensors = ctx.saved_tensors
            live = tuple(k for k, t in enumerate(tangents) if t is not None and _floating(tensors[k]))
            push = _Call(ctx.call.flat.pushing(live, len(tensors)))
            return CoreFunction.apply(push, *tensors, *[tangents[k] for k in live])

        @staticmethod
        def vmap(_info, in_dims, call, *tensors):
            batched = vmap(call.flat, in_axes=tuple(in_dims[1:]))
            outs = CoreFunction.apply(_Call(Flat(batched, call.flat.where)), *tensors)
            return outs, (0,) * len(outs)

    return CoreFunction
