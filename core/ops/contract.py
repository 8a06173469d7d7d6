"""Products of arrays that sum over shared dimensions: one primitive, `dot_general`, and NumPy's functions on it.

``dot_general(l, r, contract=(cl, cr), batch=(bl, br))`` sums over the paired dimensions `contract` and runs along the
paired dimensions `batch`; the result's dimensions are batch, free ones of `l`, free ones of `r`. Both operands have one
dtype. matmul, dot, einsum … are this primitive between transpositions, which cost nothing.
"""

from __future__ import annotations

import math
import operator
from functools import lru_cache
from typing import Any

import numpy as np

from ..dtypes import is_narrow
from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import Tensor, implements
from .define import as_value, refuse_out

__all__ = [
    "dot_general",
    "drop_ones",
    "kron",
    "matmul",
    "matvec",
    "multi_dot",
    "one_dtype",
    "pair_product",
    "vecdot",
    "vecmat",
]


def _free(rank, *taken):
    return tuple(d for d in range(rank) if not any(d in t for t in taken))


@lru_cache(maxsize=4096)
def _plan(l_rank, r_rank, contract, batch):
    """Layout of the operands of ``np.matmul``: orders of dimensions and where each group ends."""
    (cl, cr), (bl, br) = contract, batch
    fl, fr = _free(l_rank, cl, bl), _free(r_rank, cr, br)
    if not batch[0] and len(cl) == 1 and l_rank <= 2 and r_rank <= 2:
        return "dot", l_rank == 2 and cl[0] == 0, r_rank == 2 and cr[0] == 1
    # the contracted dimensions in the order of the operand of higher rank, whose reshape is then more often a view
    order = sorted(range(len(cl)), key=(cl if l_rank >= r_rank else cr).__getitem__)
    cl, cr = tuple(cl[k] for k in order), tuple(cr[k] for k in order)
    if not cl:
        return "outer", bl + fl, br + fr, len(bl), len(fl), len(fr)
    # free dimensions of r that lie before the contracted ones: left as outer loops of matmul, not copied behind them
    outer = tuple(d for d in fr if d < min(cr)) if not bl and len(fl) and max(cr) < r_rank - 1 else ()
    inner = fr[len(outer) :]
    return "matmul", bl + fl + cl, br + outer + cr + inner, len(bl), len(fl), len(outer), len(cr)


def _dot_general(l, r, *, contract, batch):
    if is_narrow(l.dtype):
        wide = _dot_general(np.astype(l, np.float32), np.astype(r, np.float32), contract=contract, batch=batch)
        return np.astype(np.asarray(wide), l.dtype)[()]
    plan = _plan(l.ndim, r.ndim, contract, batch)
    if plan[0] == "dot":
        return np.dot(l.T if plan[1] else l, r.T if plan[2] else r)
    if plan[0] == "outer":
        _, l_order, r_order, b, m, n = plan
        l, r = l.transpose(l_order), r.transpose(r_order)
        return np.multiply(l.reshape(l.shape + (1,) * n), r.reshape(r.shape[:b] + (1,) * m + r.shape[b:]))
    _, l_order, r_order, b, m, outer, k = plan
    l, r = l.transpose(l_order), r.transpose(r_order)
    free_l, free_r = l.shape[b : b + m], r.shape[b + outer + k :]
    depth = math.prod(l.shape[b + m :])
    head = r.shape[: b + outer]
    if not free_l and not free_r and b and l.dtype.kind != "c":
        return np.vecdot(l.reshape(*head, depth), r.reshape(*head, depth))
    l = l.reshape(*l.shape[:b], math.prod(free_l), depth)
    r = r.reshape(*head, depth, math.prod(free_r))
    out = np.matmul(l, r)
    if outer:
        out = np.moveaxis(out, -2, 0)
        head = head[outer:]
        free_r = r.shape[:outer] + free_r
    return out.reshape((*head, *free_l, *free_r))[()]


def _dot_general_spec(l, r, *, contract, batch):
    (cl, cr), (bl, br) = contract, batch
    for dl, dr in zip(cl + bl, cr + br, strict=True):
        if l.shape[dl] != r.shape[dr]:
            raise ValueError(
                f"dot_general: paired dimensions must be equal, got {l.shape[dl]} (dimension {dl} of {l}) and "
                f"{r.shape[dr]} (dimension {dr} of {r})"
            )
    if l.dtype != r.dtype:
        raise TypeError(f"dot_general: both operands must have one dtype, got {l.dtype} and {r.dtype}")
    shape = [l.shape[d] for d in bl + _free(l.ndim, cl, bl)] + [r.shape[d] for d in _free(r.ndim, cr, br)]
    return Spec(tuple(shape), l.dtype)


def _dot_general_flops(in_specs, out_specs, *, contract, batch):
    depth = math.prod(in_specs[0].shape[d] for d in contract[0])
    return (8 if out_specs[0].dtype.kind == "c" else 2) * out_specs[0].size * depth


def _dot_general_samples(rng):
    def normal(*shape):
        return rng.normal(size=shape)

    def case(l, r, contract, batch=((), ())):
        return (l, r), {"contract": contract, "batch": batch}

    return [
        case(normal(2, 3), normal(3, 4), ((1,), (0,))),
        case(normal(3, 2), normal(4, 3), ((0,), (1,))),
        case(normal(3), normal(3), ((0,), (0,))),
        case(normal(2, 3), normal(3), ((1,), (0,))),
        case(normal(5, 2, 3), normal(5, 3, 4), ((2,), (1,)), ((0,), (0,))),
        case(normal(5, 3), normal(5, 3), ((1,), (1,)), ((0,), (0,))),
        case(normal(2, 3), normal(5, 3, 4), ((1,), (1,))),
        case(normal(2, 3, 4), normal(4, 5, 3), ((1, 2), (2, 0))),
        case(normal(2, 3), normal(3, 2), ((0, 1), (1, 0))),
        case(normal(2, 3), normal(4, 2), ((), ()), ((0,), (1,))),
        case(normal(2, 3) + 1j * normal(2, 3), normal(2, 3) - 1j * normal(2, 3), ((1,), (1,)), ((0,), (0,))),
    ]


dot_general = Primitive(
    "dot_general",
    _dot_general,
    _dot_general_spec,
    kind="contract",
    flops=_dot_general_flops,
    samples=_dot_general_samples,
)
dot_general.defjvp("same", "same")


@lru_cache(maxsize=4096)
def _vjp_plan(rank, other_rank, contract, own_batch, other_contract, other_batch, left):
    """Parameters of the product that gives an operand's cotangent, and the transposition that follows it.

    ``left``: whether the operand was the left one. Of the two orders of the factors, the one that needs no
    transposition.
    """
    b = len(own_batch)
    own_free, other_free = _free(rank, contract, own_batch), _free(other_rank, other_contract, other_batch)
    at_own = (
        tuple(range(b, b + len(own_free)))
        if left
        else tuple(range(b + len(other_free), b + len(other_free) + len(own_free)))
    )
    at_other = tuple(d for d in range(b, b + len(own_free) + len(other_free)) if d not in at_own)
    # the product has batch dimensions, then own free ones (from ct), then own contracted ones in the other's order
    from_other = tuple(contract[other_contract.index(d)] for d in sorted(other_contract))
    batch = (tuple(range(b)), other_batch)
    layout = own_batch + own_free + from_other
    swapped = own_batch + from_other + own_free
    if swapped == tuple(range(rank)) and layout != swapped:
        return True, (other_free, at_other), batch[::-1], None
    order = tuple(layout.index(d) for d in range(rank))
    return False, (at_other, other_free), batch, None if order == tuple(range(rank)) else order


def _cotangent(ct, own, other, contract, own_batch, other_contract, other_batch, left):
    swap, pairs, batch, order = _vjp_plan(own.ndim, other.ndim, contract, own_batch, other_contract, other_batch, left)
    if np.ndim(ct) == 0:  # everything was summed
        g = ct * other
        order = tuple([other_contract[contract.index(d)] for d in range(own.ndim)])
        return g if order == tuple(range(own.ndim)) else np.transpose(g, order)
    g = bind(dot_general, *((other, ct) if swap else (ct, other)), contract=pairs, batch=batch)
    return g if order is None else np.transpose(g, order)


dot_general.defvjp(
    lambda ct, out, l, r, *, contract, batch: _cotangent(ct, l, r, contract[0], batch[0], contract[1], batch[1], True),
    lambda ct, out, l, r, *, contract, batch: _cotangent(ct, r, l, contract[1], batch[1], contract[0], batch[0], False),
)


@dot_general.defbatch
def _(args, axes, size, *, contract, batch):
    """Both batched: one more batch dimension.

    One batched: one more free dimension, so that many products become one.
    """
    l, r = args
    axl, axr = axes

    def shift(dims, ax):
        return dims if ax is None else tuple(d + (d >= ax) for d in dims)

    contract = shift(contract[0], axl), shift(contract[1], axr)
    batch = shift(batch[0], axl), shift(batch[1], axr)
    if axl is not None and axr is not None:
        return bind(dot_general, l, r, contract=contract, batch=((axl, *batch[0]), (axr, *batch[1]))), 0
    out = bind(dot_general, l, r, contract=contract, batch=batch)
    free_l = _free(np.ndim(l), contract[0], batch[0])
    if axl is not None:
        return out, len(batch[0]) + free_l.index(axl)
    return out, len(batch[0]) + len(free_l) + _free(np.ndim(r), contract[1], batch[1]).index(axr)


# -- NumPy's products --------------------------------------------------------------------------------------------------


def one_dtype(*xs):
    """Convert operands to their common dtype."""
    xs = [x if isinstance(x, (Tensor, np.ndarray)) else np.asarray(as_value(x)) for x in xs]
    dtype = xs[0].dtype
    if any(x.dtype != dtype for x in xs):
        dtype = np.result_type(*[x.dtype for x in xs])
        xs = [np.astype(x, dtype) if x.dtype != dtype else x for x in xs]
    return xs


def _no_batch(l, r, cl, cr):
    return bind(dot_general, l, r, contract=((cl,), (cr,)), batch=((), ()))


def _keywords(name, x, dtype, keywords):
    """The keywords of ufuncs that can be honored."""
    for k in ("order", "subok"):
        keywords.pop(k, None)
    if keywords:
        raise TypeError(f"{name}: keyword(s) {sorted(keywords)} are not supported for traced values")
    return x if dtype is None else np.astype(x, np.dtype(dtype))


def _loop_product(name, l, r, l_core, r_core, core):
    """A product over the last `l_core` / `r_core` dimensions, broadcast over those before; `core` are their labels."""
    l, r = one_dtype(l, r)
    shape_l, shape_r = l.shape, r.shape
    if len(shape_l) < l_core or len(shape_r) < r_core:
        raise ValueError(
            f"{name}: operands must have at least {l_core} and {r_core} dimension(s), got shapes {shape_l} and "
            f"{shape_r}"
        )
    head_l, head_r = shape_l[: len(shape_l) - l_core], shape_r[: len(shape_r) - r_core]
    try:
        rank = len(np.broadcast_shapes(head_l, head_r))
    except ValueError:
        raise ValueError(f"{name}: leading dimensions must broadcast, got shapes {shape_l} and {shape_r}") from None
    names = [f"loop{i}" for i in range(rank)]
    out = names + [c for c in core[0] + core[1] if not (c in core[0] and c in core[1])]
    l, names_l = drop_ones(l, names[rank - len(head_l) :] + core[0], (names, head_r))
    r, names_r = drop_ones(r, names[rank - len(head_r) :] + core[1], (names, head_l))
    k = "k"
    if l.shape[names_l.index(k)] != r.shape[names_r.index(k)]:
        raise ValueError(
            f"{name}: the summed dimensions must be equal, got {l.shape[names_l.index(k)]} and "
            f"{r.shape[names_r.index(k)]} (shapes {shape_l} and {shape_r})"
        )
    return pair_product(l, names_l, r, names_r, out)


def drop_ones(x, labels, other):
    """Take out dimensions of length 1 that broadcast against longer ones of the other operand."""
    names, head = other
    long = {n for n, size in zip(names[len(names) - len(head) :], head, strict=True) if size != 1}
    shape = np.shape(x)
    gone = [i for i, c in enumerate(labels) if shape[i] == 1 and c in long]
    if not gone:
        return x, labels
    return np.reshape(x, tuple(n for i, n in enumerate(shape) if i not in gone)), [
        c for i, c in enumerate(labels) if i not in gone
    ]


@implements(np.matmul, np.linalg.matmul, operators=("__matmul__", "__rmatmul__", "__imatmul__"))
def matmul(x1, x2, /, *, dtype=None, **keywords):
    """``numpy.matmul``: product of matrices (last two dimensions), or with vectors; leading dimensions broadcast."""
    l, r = one_dtype(x1, x2)
    rank_l, rank_r = l.ndim, r.ndim
    if 0 in (rank_l, rank_r):
        raise ValueError(
            f"matmul: operands must have at least one dimension, got shapes {l.shape} and {r.shape} (use * for scalars)"
        )
    if rank_r <= 2:
        at_r = rank_r - 2 if rank_r == 2 else 0
        if l.shape[-1] != r.shape[at_r]:
            raise ValueError(
                f"matmul: the summed dimensions must be equal, got {l.shape[-1]} and {r.shape[at_r]} (shapes {l.shape} "
                f"and {r.shape})"
            )
        out = _no_batch(l, r, rank_l - 1, at_r)
    else:
        out = _loop_product("matmul", l, r, min(rank_l, 2), 2, (["i", "k"] if rank_l > 1 else ["k"], ["k", "j"]))
    return _keywords("matmul", out, dtype, keywords) if keywords or dtype is not None else out


def vecdot(x1, x2, /, *, axis=-1, dtype=None, **keywords):
    """``numpy.vecdot``: scalar products along `axis`, the first vector conjugated."""
    x1, x2 = as_value(x1), as_value(x2)
    if axis != -1:
        x1, x2 = np.moveaxis(x1, axis, -1), np.moveaxis(x2, axis, -1)
    out = _loop_product("vecdot", np.conjugate(x1) if np.iscomplexobj(x1) else x1, x2, 1, 1, (["k"], ["k"]))
    return _keywords("vecdot", out, dtype, keywords)


def matvec(x1, x2, /, *, dtype=None, **keywords):
    """``numpy.matvec``: matrix times vector, broadcast over leading dimensions."""
    return _keywords("matvec", _loop_product("matvec", x1, x2, 2, 1, (["i", "k"], ["k"])), dtype, keywords)


def vecmat(x1, x2, /, *, dtype=None, **keywords):
    """``numpy.vecmat``: conjugated vector times matrix, broadcast over leading dimensions."""
    x1 = as_value(x1)
    x1 = np.conjugate(x1) if np.iscomplexobj(x1) else x1
    return _keywords("vecmat", _loop_product("vecmat", x1, x2, 1, 2, (["k"], ["k", "j"])), dtype, keywords)


implements(np.vecdot)(vecdot)
implements(np.linalg.vecdot)(vecdot)
if hasattr(np, "matvec"):  # NumPy 2.2
    implements(np.matvec)(matvec)
    implements(np.vecmat)(vecmat)


def _scalar_or(f, a, b):
    a, b = as_value(a), as_value(b)
    return np.multiply(a, b) if np.ndim(a) == 0 or np.ndim(b) == 0 else f(*one_dtype(a, b))


@implements(np.dot, method="dot")
def dot(a, b, out=None):
    """``numpy.dot``: sums over the last dimension of `a` and the last but one of `b`."""

    def product(a, b):
        at = max(np.ndim(b) - 2, 0)
        if np.shape(a)[-1] != np.shape(b)[at]:
            raise ValueError(
                f"shapes {np.shape(a)} and {np.shape(b)} not aligned: {np.shape(a)[-1]} (dim {np.ndim(a) - 1}) != "
                f"{np.shape(b)[at]} (dim {at})"
            )
        return _no_batch(a, b, np.ndim(a) - 1, at)

    refuse_out("dot", out)
    return _scalar_or(product, a, b)


@implements(np.inner)
def inner(a, b, /):
    """``numpy.inner``: sums over the last dimensions of both."""

    def product(a, b):
        if np.shape(a)[-1] != np.shape(b)[-1]:
            raise ValueError(
                f"shapes {np.shape(a)} and {np.shape(b)} not aligned: {np.shape(a)[-1]} (dim {np.ndim(a) - 1}) != "
                f"{np.shape(b)[-1]} (dim {np.ndim(b) - 1})"
            )
        return _no_batch(a, b, np.ndim(a) - 1, np.ndim(b) - 1)

    return _scalar_or(product, a, b)


@implements(np.vdot)
def vdot(a, b, /):
    """``numpy.vdot``: scalar product of flattened arrays, the first one conjugated."""
    a, b = np.reshape(as_value(a), (-1,)), np.reshape(as_value(b), (-1,))
    if np.shape(a) != np.shape(b):
        raise ValueError(f"vdot: both must have as many elements, got {np.shape(a)[0]} and {np.shape(b)[0]}")
    return dot(np.conjugate(a) if np.iscomplexobj(a) else a, b)


@implements(np.outer, np.linalg.outer)
def outer(a, b, out=None):
    """``numpy.outer``: all products of an element of `a` and one of `b` (both flattened)."""
    refuse_out("outer", out)
    return np.multiply(np.reshape(as_value(a), (-1, 1)), np.reshape(as_value(b), (1, -1)))


@implements(np.tensordot, np.linalg.tensordot, array=True)
def tensordot(a, b, /, axes: Any = 2):
    """``numpy.tensordot``: sums over the paired `axes`, or over the last `axes` of `a` and the first of `b`."""
    a, b = one_dtype(a, b)
    rank_a, rank_b = np.ndim(a), np.ndim(b)
    if isinstance(axes, (int, np.integer)):
        axes_a, axes_b = range(rank_a - axes, rank_a), range(axes)
    else:
        axes_a, axes_b = [[x] if isinstance(x, (int, np.integer)) else x for x in axes]
    axes_a, axes_b = [
        tuple([operator.index(d) + rank * (d < 0) for d in ds]) for ds, rank in ((axes_a, rank_a), (axes_b, rank_b))
    ]
    shapes = np.shape(a), np.shape(b)
    for ds, rank in ((axes_a, rank_a), (axes_b, rank_b)):
        if any(not 0 <= d < rank for d in ds) or len(set(ds)) != len(ds):
            raise ValueError(
                f"tensordot: axes must be different dimensions of their operand, got {axes} for shapes {shapes[0]} and "
                f"{shapes[1]}"
            )
    if [shapes[0][d] for d in axes_a] != [shapes[1][d] for d in axes_b]:
        raise ValueError(
            f"shape-mismatch for sum: tensordot over axes {axes_a} and {axes_b} of shapes {shapes[0]} and {shapes[1]}"
        )
    if not rank_a or not rank_b:
        return np.multiply(a, b)
    return bind(dot_general, a, b, contract=(axes_a, axes_b), batch=((), ()))


@implements(np.kron)
def kron(a, b):
    """``numpy.kron``: the Kronecker product."""
    a, b = as_value(a), as_value(b)
    if not np.ndim(a) or not np.ndim(b):
        return np.multiply(a, b)
    rank = max(np.ndim(a), np.ndim(b))
    shape_a = (1,) * (rank - np.ndim(a)) + np.shape(a)
    shape_b = (1,) * (rank - np.ndim(b)) + np.shape(b)
    left = np.reshape(a, [n for m in shape_a for n in (m, 1)])
    right = np.reshape(b, [n for m in shape_b for n in (1, m)])
    return np.reshape(np.multiply(left, right), [m * n for m, n in zip(shape_a, shape_b, strict=True)])


@implements(np.linalg.multi_dot)
def multi_dot(arrays, *, out=None):
    """``numpy.linalg.multi_dot``: a chain of products in the cheapest order."""
    arrays = [as_value(a) for a in arrays]
    if len(arrays) < 2:
        raise ValueError("Expecting at least two arrays.")
    ranks = [np.ndim(a) for a in arrays]
    if any(n != 2 for n in ranks[1:-1]) or ranks[0] not in (1, 2) or ranks[-1] not in (1, 2):
        raise np.linalg.LinAlgError(
            f"multi_dot: operands must be matrices (the first and last may be vectors), got dimensions {ranks}"
        )
    first, last = np.shape(arrays[0]), np.shape(arrays[-1])
    inner = [np.shape(a)[1] for a in arrays[1:-1]]
    sizes = [1 if len(first) == 1 else first[0], first[-1], *inner, 1 if len(last) == 1 else last[1]]
    split = _chain(tuple(sizes))

    def product(i, j):
        return arrays[i] if i == j else dot(product(i, split[i, j]), product(split[i, j] + 1, j))

    return product(0, len(arrays) - 1)


@lru_cache(maxsize=256)
def _chain(sizes):
    """Find the splits of a matrix chain with the fewest multiplications (Cormen et al., ch. 15.2)."""
    n = len(sizes) - 1
    cost = {(i, i): 0 for i in range(n)}
    split = {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], split[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k) for k in range(i, j)
            )
    return split


def pair_product(l, names_l, r, names_r, out):
    """Product of two operands with named dimensions, in the order `out`; shared names not in `out` are summed."""
    shared = [c for c in names_l if c in names_r]
    batch = [c for c in out if c in shared]
    summed = [c for c in shared if c not in batch]
    if not summed:
        return np.multiply(_spread(l, names_l, out), _spread(r, names_r, out))
    free_l, free_r = [c for c in names_l if c not in shared], [c for c in names_r if c not in shared]
    if batch + free_r + free_l == out:  # the other order of the factors needs no transposition
        l, names_l, free_l, r, names_r, free_r = r, names_r, free_r, l, names_l, free_l
    g = bind(
        dot_general,
        l,
        r,
        contract=(tuple(map(names_l.index, summed)), tuple(map(names_r.index, summed))),
        batch=(tuple(map(names_l.index, batch)), tuple(map(names_r.index, batch))),
    )
    names = batch + free_l + free_r
    return g if names == out else np.transpose(g, tuple(map(names.index, out)))


def _spread(x, names, out):
    """`x` transposed to the order `out`, with dimensions of length 1 for the names it lacks."""
    present = [c for c in out if c in names]
    x = np.transpose(x, tuple(map(names.index, present))) if present != names else x
    return (
        np.reshape(x, tuple(np.shape(x)[present.index(c)] if c in names else 1 for c in out))
        if len(present) < len(out)
        else x
    )
