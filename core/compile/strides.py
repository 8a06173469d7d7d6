"""Arrays that other arrays are parts or rearrangements of: an offset and strides into a buffer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

__all__ = ["contiguous", "merged", "reshaped", "sliced", "transposed", "whole"]


class View(NamedTuple):
    """Element `i` lies at ``offset + sum(i * strides)`` in the C-contiguous array `base`; all counted in elements."""

    base: Any
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides of a C-contiguous array."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= n
    return tuple(strides[::-1])


def whole(atom: Any) -> View:
    """Return the view of all elements of an atom."""
    return View(atom, 0, atom.spec.shape, contiguous(atom.spec.shape))


def merged(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, int] | None:
    """Size and stride of the one axis that these are together, or None."""
    size, stride = 1, 0
    for n, s in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if size == 1:
            stride = s
        elif s != size * stride:
            return None
        size *= n
    return size, stride


def reshaped(view: View, shape: Sequence[int]) -> View | None:
    """`view` in another shape, or None where that needs a copy."""
    old = [(n, s) for n, s in zip(view.shape, view.strides, strict=True) if n != 1]
    strides = []
    for n in reversed(shape):
        if n == 1:
            strides.append(0)
            continue
        size, stride = 1, None
        while size < n and old:  # axes that become one
            m, s = old.pop()
            if stride is None:
                stride = s
            elif s != size * stride:
                return None
            if n % (size * m) and size * m % n:
                return None
            if size * m > n:  # an axis that becomes several
                inner = n // size
                if n % size or m % inner:
                    return None
                old.append((m // inner, s * inner))
                m = inner
            size *= m
        if size != n:
            return None
        strides.append(stride)
    return View(view.base, view.offset, tuple(shape), tuple(strides[::-1]))


def sliced(view: View, index: Sequence[Any]) -> View:
    """The part that the slice primitive's `index` takes."""
    offset, shape, strides = view.offset, [], []
    for entry, s in zip(index, view.strides, strict=True):
        if isinstance(entry, int):
            offset += entry * s
        else:
            start, step, size = entry
            offset += start * s
            shape.append(size)
            strides.append(step * s)
    return View(view.base, offset, tuple(shape), tuple(strides))


def transposed(view: View, axes: Sequence[int]) -> View:
    """Return a view with its axes in another order."""
    return View(view.base, view.offset, tuple(view.shape[a] for a in axes), tuple(view.strides[a] for a in axes))
