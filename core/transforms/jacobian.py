"""Jacobians, Hessians and Hessian-vector products, made of the other transforms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import tree
from ..foreign import flatten
from ..graph.trace import traceable
from .forward import jvp
from .grad import P, check_inexact, grad, replaced, select_arguments, split_aux, vjp
from .results import own_tree
from .vmap import vmap

__all__ = ["hessian", "hvp", "jacfwd", "jacrev"]


def _basis(leaves):
    """All unit tangents of a list of arrays: for each leaf an array (total, *shape)."""
    sizes = [math.prod(np.shape(x)) for x in leaves]
    total, start, out = sum(sizes), 0, []
    for x, n in zip(leaves, sizes, strict=True):
        b = np.zeros((total, n), np.result_type(x))
        b[start : start + n] = np.eye(n)
        out.append(b.reshape(total, *np.shape(x)))
        start += n
    return out, sizes


def _split(columns, leaves, sizes, axis):
    """Cut the axis of all unit vectors of an array into one piece per leaf, each reshaped to the leaf's shape."""
    pieces, start = [], 0
    shape = np.shape(columns)
    for x, n in zip(leaves, sizes, strict=True):
        index = (slice(None),) * axis + (slice(start, start + n),)
        pieces.append(np.reshape(columns[index], shape[:axis] + tuple(np.shape(x)) + shape[axis + 1 :]))
        start += n
    return pieces


def _partial(f, args, kwargs, argnums, has_aux, where):
    nums = select_arguments(args, argnums, where)
    chosen = tuple(args[n] for n in nums)
    leaves, structure = flatten(chosen, where)
    check_inexact(leaves, where)

    def flat(*tensors):
        out = traceable(f)(*replaced(args, nums, tree.unflatten(structure, tensors)), **kwargs)
        return split_aux(out, f) if has_aux else (out, None)

    flat.__name__ = getattr(f, "__name__", type(f).__name__)
    return leaves, structure, flat


def jacfwd(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Jacobian of `f` by forward mode: one pass per input element, all in one batch. Right for few inputs.

    Returns a function whose result has, for each output leaf of shape O and input leaf of shape I, an array of shape
    ``O + I`` (a tree of the input's structure inside a tree of the output's). With `has_aux`, ``(jacobian, aux)``.

    Parameters
    ----------
    f : callable
        Function of trees of arrays.
    argnums : int or sequence of int, default 0
        Position or positions of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if `f` returns ``(value, aux)``, of which only the value is differentiated.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import jacfwd
    >>> jacfwd(lambda x: x**2)(np.array([1.0, 3.0]))
    array([[2., 0.],
           [0., 6.]])
    """

    def jacobian(*args, **kwargs):
        where = f"jacfwd of {getattr(f, '__name__', f)}"
        leaves, structure, flat = _partial(f, args, kwargs, argnums, has_aux, where)
        basis, sizes = _basis(leaves)

        def push(*tangents):
            (_, t, aux) = jvp(flat, leaves, tangents, has_aux=True)
            return t, aux

        columns, aux = vmap(push, out_axes=(-1, None if not has_aux else 0))(*basis)
        if has_aux:
            aux = own_tree(tree.map(lambda a: a[0], aux))

        def spread(c):
            parts = tree.unflatten(structure, _split(c, leaves, sizes, np.ndim(c) - 1))
            return parts[0] if isinstance(argnums, (int, np.integer)) else parts

        result = own_tree(tree.map(spread, columns))
        return (result, aux) if has_aux else result

    jacobian.__name__ = f"jacfwd({getattr(f, '__name__', 'f')})"
    return jacobian


def jacrev(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Jacobian of `f` by reverse mode: one pull-back per output element, all in one batch. Right for few outputs.

    Same result as `jacfwd`.

    Parameters
    ----------
    f : callable
        Function of trees of arrays.
    argnums : int or sequence of int, default 0
        Position or positions of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if `f` returns ``(value, aux)``, of which only the value is differentiated.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import jacrev
    >>> jacrev(np.sum)(np.ones(3))
    array([1., 1., 1.])
    """

    def jacobian(*args, **kwargs):
        where = f"jacrev of {getattr(f, '__name__', f)}"
        leaves, structure, flat = _partial(f, args, kwargs, argnums, has_aux, where)
        out, pullback, aux = vjp(flat, *leaves, has_aux=True)
        outs, out_structure = tree.flatten(out)
        check_inexact(outs, f"{where}: output")
        basis, sizes = _basis(outs)
        rows = vmap(lambda *cts: pullback(tree.unflatten(out_structure, cts)))(*basis)
        by_input = [_split(r, outs, sizes, 0) for r in rows]

        def gather(k):
            parts = tree.unflatten(structure, [pieces[k] for pieces in by_input])
            return parts[0] if isinstance(argnums, (int, np.integer)) else parts

        result = own_tree(tree.unflatten(out_structure, [gather(k) for k in range(len(outs))]))
        return (result, aux) if has_aux else result

    jacobian.__name__ = f"jacrev({getattr(f, '__name__', 'f')})"
    return jacobian


def hessian(f: Callable[P, Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[P, Any]:
    """Hessian of the scalar function `f`: forward over reverse mode.

    Parameters
    ----------
    f : callable
        Function of trees of arrays that returns a scalar.
    argnums : int or sequence of int, default 0
        Position or positions of the arguments to differentiate with respect to.
    has_aux : bool, default False
        True if `f` returns ``(value, aux)``, of which only the value is differentiated.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import hessian
    >>> hessian(lambda x: np.sum(x**3))(np.array([1.0, 2.0]))
    array([[ 6.,  0.],
           [ 0., 12.]])
    """
    return jacfwd(grad(f, argnums, has_aux), argnums, has_aux)


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> Any:
    """Hessian-vector product of the scalar function `f` at `primals`, without forming the Hessian.

    Parameters
    ----------
    f : callable
        Function of trees of arrays that returns a scalar.
    primals : sequence of trees
        The arguments of `f`.
    tangents : sequence of trees
        The vector, in trees like the primals.

    Returns
    -------
    tree like the first primal, or a tuple of trees when there are several primals.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import hvp
    >>> hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    array([ 6., 12.])
    """
    argnums = 0 if len(primals) == 1 else tuple(range(len(primals)))
    return jvp(grad(f, argnums), primals, tangents)[1]
