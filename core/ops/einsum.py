"""``numpy.einsum``: subscripts are parsed here, the work is done by `dot_general`, sums, products and diagonals."""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import Any

import numpy as np

from ..tensor import implements, separate
from .contract import drop_ones, one_dtype, pair_product
from .define import refuse_out

__all__ = ["einsum"]


@implements(np.einsum, view=True)
def einsum(*operands, out=None, optimize=False, dtype=None, order="K", casting="safe"):
    """``numpy.einsum``, string or list subscripts; three and more operands are contracted pair by pair, cheapest
    first.
    """
    refuse_out("einsum", out)
    subscripts, operands = _split(operands)
    operands = one_dtype(*operands)
    if dtype is not None:
        operands = [np.astype(x, np.dtype(dtype)) for x in operands]
    is_view = len(operands) == 1 and dtype is None
    names, result, sizes, path = _plan(subscripts, tuple([tuple(x.shape) for x in operands]), _given_path(optimize))
    names, result = [list(n) for n in names], list(result)
    plain = [_diagonals(x, own) for x, own in zip(operands, names, strict=True)]
    pairs = [drop_ones(x, own, sizes) for x, own in plain]
    operands, names = [x for x, _ in pairs], [own for _, own in pairs]
    for pair in path:
        positions = sorted(pair, reverse=True)
        taken = [(operands.pop(k), names.pop(k)) for k in positions][::-1]
        x, own = taken[0]
        for k, (y, other) in enumerate(taken[1:], 2):
            later = set(result).union(*names, *[n for _, n in taken[k:]])
            x, own = _sum_out(x, own, later.union(other))
            y, other = _sum_out(y, other, later.union(own))
            last = not names and k == len(taken)
            x, own = _product(x, own, y, other, result if last else None, later)
        operands.append(x)
        names.append(own)
    x, own = _sum_out(operands[0], names[0], set(result))
    out = x if own == result else np.transpose(x, tuple(map(own.index, result)))
    return out if is_view else separate(out)


def _product(x, own, y, other, result, later):
    shared = [c for c in own if c in other]
    if result is None:
        batch = [c for c in shared if c in later]
        result = batch + [c for c in own if c not in shared] + [c for c in other if c not in shared]
    return pair_product(x, own, y, other, result), result


def _sum_out(x, own, kept):
    """Sum the dimensions that nothing else names."""
    gone = tuple(i for i, c in enumerate(own) if c not in kept)
    if not gone:
        return x, own
    return np.sum(x, axis=gone, dtype=np.result_type(x)), [c for c in own if c in kept]


def _diagonals(x, own):
    """Take diagonals until no name is repeated within the operand."""
    while len(set(own)) < len(own):
        c = next(c for c in own if own.count(c) > 1)
        i = own.index(c)
        j = own.index(c, i + 1)
        x = np.diagonal(x, axis1=i, axis2=j)
        own = [n for k, n in enumerate(own) if k not in (i, j)] + [c]
    return x, own


# -- subscripts --------------------------------------------------------------------------------------------------------


def _split(operands):
    """Subscripts (a string, or lists of numbers as tuples) and operands."""
    if not operands:
        raise ValueError("einsum: must specify the einstein sum subscripts string and at least one operand")
    if isinstance(operands[0], str):
        return operands[0], operands[1:]
    ends = len(operands) % 2
    lists = operands[1::2] + ((operands[-1],) if ends else ())
    return (bool(ends), *[tuple(t) for t in lists]), operands[: len(operands) - ends : 2]


@lru_cache(maxsize=1024)
def _plan(subscripts, shapes, given):
    """Names of the dimensions of each operand and of the result, (names, sizes) of all, and the order of products."""
    terms, result = _terms(subscripts)
    if len(terms) != len(shapes):
        raise ValueError(
            f"einsum: the number of terms must equal the number of operands, got {len(terms)} and {len(shapes)}"
        )
    names, result = _name_ellipses(terms, result, [len(s) for s in shapes])
    sizes = _sizes(names, shapes)
    return (
        names,
        result,
        (list(sizes), list(sizes.values())),
        given if given is not None else _path(names, result, sizes),
    )


def _terms(subscripts):
    """Lists of names (strings; "..." for an ellipsis) of each operand and of the result (None: by the rule)."""
    if isinstance(subscripts, str):
        text = subscripts.replace(" ", "")
        left, arrow, right = text.partition("->")
        return [_letters(t, text) for t in left.split(",")], _letters(right, text) if arrow else None
    ends, *lists = subscripts
    terms = [["..." if n is Ellipsis else f"{int(n):03d}" for n in term] for term in lists]
    return (terms[:-1], terms[-1]) if ends else (terms, None)


def _letters(term, text):
    parts = term.split("...")
    if len(parts) > 2 or not all(p.isalpha() or not p for p in parts):
        raise ValueError(f"einsum: subscripts must be letters and at most one ellipsis per term, got {text!r}")
    return [*parts[0], *(["...", *parts[1]] if len(parts) == 2 else [])]


def _name_ellipses(terms, result, ranks):
    """Give the dimensions under an ellipsis names of their own, counted from the right as broadcasting does."""
    extra = 0
    for term, rank in zip(terms, ranks, strict=True):
        hidden = rank - len(term) + 1 if "..." in term else 0
        if hidden < 0 or ("..." not in term and len(term) != rank):
            raise ValueError(f"einsum: a term must have one name per dimension, got {term} for {rank} dimension(s)")
        extra = max(extra, hidden)
    dots = [f"...{k}" for k in range(extra, 0, -1)]

    def spell(term, hidden):
        at = term.index("...")
        return term[:at] + dots[extra - hidden :] + term[at + 1 :]

    names = [spell(t, rank - len(t) + 1) if "..." in t else list(t) for t, rank in zip(terms, ranks, strict=True)]
    if result is None:
        count = Counter(c for t in terms for c in t if c != "...")
        result = ["..."] * bool(extra) + sorted(c for c in count if count[c] == 1)
    result = spell(result, extra) if "..." in result else result
    known = {c for n in names for c in n}
    if len(set(result)) != len(result) or not set(result) <= known:
        raise ValueError(f"einsum: the output must name dimensions of the operands, each once, got {result}")
    if not set(dots) <= set(result):
        raise ValueError(
            "einsum: output subscripts must contain an ellipsis when an operand has one with dimensions under it"
        )
    return names, result


def _sizes(names, shapes):
    sizes: dict[str, int] = {}
    for own, shape in zip(names, shapes, strict=True):
        for c, n in zip(own, shape, strict=True):
            if n != 1 and sizes.get(c, 1) not in (1, n):
                raise ValueError(
                    f"einsum: dimensions named {c!r} must be equal, got {sizes[c]} and {n} (shapes "
                    f"{', '.join(map(str, shapes))})"
                )
            sizes[c] = max(sizes.get(c, 1), n) if n else 0
        if any(len({shape[i] for i, d in enumerate(own) if d == c}) > 1 for c in own):
            raise ValueError(
                f"einsum: dimensions of one operand with the same name must be equal, got names {own} for shape {shape}"
            )
    return sizes


# -- the order of products
# --------------------------------------------------------------------------------------------------


def _given_path(optimize: Any) -> tuple[tuple[int, ...], ...] | None:
    if isinstance(optimize, (list, tuple)) and optimize and optimize[0] == "einsum_path":
        return tuple(tuple(p) for p in optimize[1:])
    return None


def _path(names, result, size):
    """Positions of the operands to multiply at each step; a product goes to the end of the list (as NumPy's paths)."""
    terms = [frozenset(n) for n in names]
    path = []
    while len(terms) > 1:

        def cost(pair, terms=terms):
            i, j = pair
            others = frozenset(result).union(*[t for k, t in enumerate(terms) if k not in pair])
            both = terms[i] | terms[j]
            return math.prod(size[c] for c in both), math.prod(size[c] for c in both & others), pair

        i, j = min(((i, j) for j in range(len(terms)) for i in range(j)), key=cost)
        others = frozenset(result).union(*[t for k, t in enumerate(terms) if k not in (i, j)])
        terms = [t for k, t in enumerate(terms) if k not in (i, j)] + [(terms[i] | terms[j]) & others]
        path.append((i, j))
    return tuple(path)
