"""`core.to_jax`: a function of the core as a function of JAX arrays.

The function runs in `jax.pure_callback` inside a `jax.custom_vjp`, whose backward rule is the pull-back of the core as
another such function: derivatives of every order, `jax.jit` and `jax.vmap` work. Shapes and dtypes of the results
come from a graph of the function, which is recorded at each call, under `jax.jit` at its first.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import check, tree
from ..foreign import as_plain
from ..graph.graph import Spec
from ..graph.trace import make_graph
from ..imports import optional
from ..transforms.vmap import vmap
from .flat import Flat, name_of

__all__ = ["to_jax"]


def to_jax(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return `f` as a function of JAX arrays, with gradients.

    Parameters
    ----------
    f : callable
        Any differentiable function of the core: a function of NumPy arrays, one made by `core.jit`, an expectation
        value of a circuit, the energy of a force field. It must be pure: JAX may call it again or not at all.

    Returns
    -------
    callable
        Takes the arguments of `f`, trees with JAX arrays in place of arrays (Python numbers, strings and functions go
        to `f` as they are), and returns the results of `f` as JAX arrays, in single precision unless ``jax_enable_x64``
        is set. It works under ``jax.jit``, ``jax.vmap``, ``jax.grad`` and other reverse-mode derivatives of any order;
        forward mode (``jax.jvp``, ``jax.hessian``) is not available, as for every ``jax.custom_vjp``.

    Raises
    ------
    ImportError
        If JAX is not installed.
    TypeError
        When called, for dtypes that NumPy does not have (bfloat16), and for results that are not arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import jax  # doctest: +SKIP
    >>> from triskele.core import to_jax
    >>> norm = to_jax(lambda x: np.sqrt(np.sum(x**2)))  # doctest: +SKIP
    >>> jax.jit(jax.grad(norm))(jax.numpy.array([3.0, 4.0]))  # doctest: +SKIP
    Array([0.6, 0.8], dtype=float32)
    """
    check.kind(f, Callable, "to_jax: f")
    jax = optional.need("jax", "to_jax", "interop")
    where = f"to_jax of {name_of(f)}"

    def function(*args, **kwargs):
        leaves, structure = tree.flatten((args, kwargs))
        arrays = [k for k, x in enumerate(leaves) if isinstance(x, (jax.Array, np.ndarray, np.generic))]
        call = Flat.of(f, where, leaves, arrays, structure)
        outs = _call(call, [jax.numpy.asarray(leaves[k]) for k in arrays])
        return tree.unflatten(call.structure, outs)

    functools.update_wrapper(function, f, ("__name__", "__doc__", "__module__"), ())
    return function


def _call(flat: Flat, xs: Sequence[Any]) -> tuple[Any, ...]:
    """The results of `flat` as JAX arrays that know their derivatives."""
    import jax

    for x in xs:
        if x.dtype.kind not in "biufc":
            raise TypeError(
                f"{flat.where}: expected arrays of numbers that NumPy has a type for, got {x.dtype} "
                "(convert it to float32 or float64)"
            )
    specs = [Spec(x.shape, np.dtype(x.dtype)) for x in xs]
    graph, _ = make_graph(flat, specs)
    results = [jax.ShapeDtypeStruct(s.shape, jax.dtypes.canonicalize_dtype(s.dtype)) for s in graph.out_specs]
    live = [k for k, s in enumerate(specs) if s.dtype.kind in "fc"]

    def host(*values):
        arrays = [as_plain(v, flat.where) for v in values]
        outs = _batched(flat, [a.ndim - len(s.shape) for a, s in zip(arrays, specs, strict=True)])(*arrays)
        return tuple([np.asarray(o, r.dtype) for o, r in zip(outs, results, strict=True)])

    @jax.custom_vjp
    def function(*xs):
        return jax.pure_callback(host, tuple(results), *xs, vmap_method="expand_dims")

    def bwd(xs, cts):
        full = [ct if r.dtype.kind in "fc" else np.zeros(r.shape, r.dtype) for ct, r in zip(cts, results, strict=True)]
        found = dict(zip(live, _call(flat.pulling(live, len(xs)), [*xs, *map(jax.numpy.asarray, full)]), strict=True))
        return tuple([found.get(k) for k in range(len(xs))])

    function.defvjp(lambda *xs: (function(*xs), xs), bwd)
    return function(*xs)


def _batched(flat, extra):
    """`flat` over the leading axes that `jax.vmap` has added; those of size one are of arguments without a batch."""
    depth = max(extra, default=0)
    if not depth:
        return flat

    def over(f):
        def run(*arrays):
            size = max(a.shape[0] for a in arrays)
            axes = tuple([None if a.shape[0] == 1 < size else 0 for a in arrays])
            return vmap(f, in_axes=axes)(*[a[0] if ax is None else a for a, ax in zip(arrays, axes, strict=True)])

        return run

    for _ in range(depth):
        flat = over(flat)
    return flat
