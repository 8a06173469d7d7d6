"""`core.from_torch`: a function of PyTorch tensors, or a module, as a function of the core.

The function is an operator that Python runs, also from compiled programs. Its rule for reverse mode is another such
operator, made from PyTorch's backward pass as a function of tensors: derivatives of every order, and forward mode,
follow. PyTorch's gradient of a real loss is conjugate to the core's, for complex arguments.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import check, tree
from ..foreign import as_plain, flatten
from ..graph.graph import Spec
from ..imports import optional
from ..tensor import Tensor
from ..transforms.custom_op import CustomOp, custom_op
from .flat import name_of

__all__ = ["from_torch"]

_count = itertools.count()  # operators have names of their own


def from_torch(f: Callable[..., Any]) -> Any:
    """Return a function of PyTorch tensors, or a module, as a function of arrays that the core differentiates.

    Parameters
    ----------
    f : callable or torch.nn.Module
        A function that returns a tensor, or a tree of them. It must be pure, as the backward pass runs it again: put
        modules with dropout or batch normalization into ``eval()`` mode.

    Returns
    -------
    callable
        Takes the arguments of `f`, trees with arrays in place of tensors (strings and concrete Python numbers go to `f`
        as they are), and returns arrays. That of a module takes the parameters first, a dictionary of which its
        attribute ``params`` holds copies. It works in `core.grad`, `core.vmap`, `core.jit` and derivatives of every
        order, as a call back into Python.

    Raises
    ------
    ImportError
        If PyTorch is not installed.
    TypeError
        When called, for results that are not tensors in the CPU's memory of a dtype that NumPy has.

    Examples
    --------
    >>> import numpy as np
    >>> import torch  # doctest: +SKIP
    >>> from triskele import core
    >>> f = core.from_torch(lambda x: torch.special.gammaln(x).sum())  # doctest: +SKIP
    >>> core.jit(core.grad(f))(np.array([1.0, 2.0])).round(4)  # doctest: +SKIP
    array([-0.5772,  0.4228])
    >>> net = core.from_torch(torch.nn.Linear(3, 1))  # doctest: +SKIP
    >>> loss = lambda params, x: np.mean(net(params, x) ** 2)  # doctest: +SKIP
    >>> sorted(core.grad(loss)(net.params, np.ones((5, 3), np.float32)))  # doctest: +SKIP
    ['bias', 'weight']
    """
    check.kind(f, Callable, "from_torch: f")
    torch = optional.need("torch", "from_torch", "interop")
    where, run = f"from_torch of {name_of(f)}", f
    if isinstance(f, torch.nn.Module):
        run = lambda params, *args, **kwargs: torch.func.functional_call(f, params, args, kwargs)
    prepared = functools.cache(lambda form: _Prepared(run, form, where))

    def function(*args, **kwargs):
        leaves, structure = flatten((args, kwargs), where)
        arrays = tuple([k for k, x in enumerate(leaves) if isinstance(x, (Tensor, np.ndarray, np.generic))])
        rest = tuple([None if k in arrays else x for k, x in enumerate(leaves)])
        call = prepared(_Form(structure, arrays, rest))
        outs = call.operator(*[leaves[k] for k in arrays])
        return tree.unflatten(call.structure, outs)

    functools.update_wrapper(function, f, ("__name__", "__doc__", "__module__"), ())
    if isinstance(f, torch.nn.Module):
        function.params = {name: p.detach().numpy().copy() for name, p in f.named_parameters()}  # type: ignore[attr-defined]
    return function


class _Form(NamedTuple):
    """Arguments without their arrays."""

    structure: tree.Structure
    arrays: tuple[int, ...]
    rest: tuple[Any, ...]


class _Prepared:
    """A function at arguments of one form, as an operator of arrays with a list of results."""

    def __init__(self, run: Callable[..., Any], form: _Form, where: str):
        import torch

        self.structure: Any = None  # of the results, known once the function has run

        def flat(*tensors):
            leaves = list(form.rest)
            for k, x in zip(form.arrays, tensors, strict=True):
                leaves[k] = x
            args, kwargs = tree.unflatten(form.structure, leaves)
            outs, self.structure = tree.flatten(run(*args, **kwargs))
            return [torch.as_tensor(o) for o in outs]

        self.operator = _operator(flat, functools.cache(lambda *specs: _shapes(flat, specs, where)), where)


def _shapes(flat, specs, where):
    """Shapes and dtypes of results: from tensors without values, or where the function needs some, from ones."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    def found(make):
        outs = flat(*[make(s.shape, dtype=torch.from_numpy(np.empty(0, s.dtype)).dtype) for s in specs])
        return [Spec(tuple(o.shape), as_plain(torch.empty(0, dtype=o.dtype), where).dtype) for o in outs]

    with torch.no_grad():
        try:
            with FakeTensorMode(allow_non_fake_inputs=True):
                return found(torch.empty)
        except Exception:  # whatever the function needs values for  # noqa: BLE001
            return found(torch.ones)


def _operator(flat: Callable[..., Sequence[Any]], out: Callable[..., list[Spec]], where: str) -> CustomOp:
    """A function of tensors with a list of results as an operator of the core."""
    import torch

    def run(*arrays):
        with torch.inference_mode(False), torch.no_grad():  # inference tensors have no derivatives in a backward pass
            outs = flat(*[torch.from_numpy(np.array(a)) for a in arrays])
        return [as_plain(t.detach().resolve_conj().resolve_neg(), where) for t in outs]

    op = custom_op(run, out=out, mode="python", batch="sequential", name=f"{where} ({next(_count)})")

    @functools.cache
    def pulling(live, count):
        return _operator(_pulled(flat, live, count), lambda *specs: [specs[k] for k in live], where)

    @op.vjp
    def _(cts, outs, *xs):
        live = tuple([k for k, x in enumerate(xs) if np.result_type(x).kind in "fc"])
        cts = [ct for ct, o in zip(cts, outs, strict=True) if np.result_type(o).kind in "fc"]
        found = dict(zip(live, pulling(live, len(xs))(*xs, *cts), strict=True))
        return [found.get(k) for k in range(len(xs))]

    return op


def _pulled(flat, live, count):
    """``(*xs, *cotangents) -> cotangents`` of the arguments at `live`, of `count`, as a function of tensors."""
    import torch

    def pulled(*values):
        again = torch.is_grad_enabled()  # inside of another backward pass
        xs, cts = list(values[:count]), values[count:]
        with torch.enable_grad():
            for k in live:
                xs[k] = xs[k] if xs[k].requires_grad else xs[k].detach().requires_grad_()
            outs = [o for o in flat(*xs) if o.is_floating_point() or o.is_complex()]
            pairs = [(o, ct.conj()) for o, ct in zip(outs, cts, strict=True) if o.requires_grad]
            if not pairs:
                return [torch.zeros_like(xs[k]) for k in live]
            found = torch.autograd.grad(
                [o for o, _ in pairs],
                [xs[k] for k in live],
                [ct for _, ct in pairs],
                create_graph=again,
                materialize_grads=True,
            )
            return [g.conj() for g in found]

    return pulled
