"""Windows in formulas of single elements: what a window sees, and which windows see an element.

Index values are those of the compiler's scalar builder `b`; `place` is (image, *positions, channel).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

__all__ = ["LONGEST", "elements", "row_number", "seeing"]

LONGEST = 64  # elements of a window up to which it is written out


def _check_length(counts):
    if math.prod(counts) > LONGEST:
        raise NotImplementedError("windows this long are not written out")


def _all(b, conditions):
    out = None
    for c in conditions:
        out = c if out is None else b.logical_and(out, c)
    return out


def row_number(b: Any, taps: list[Any], window: tuple[int, ...]) -> Any:
    """Number of a position of the window, in row order."""
    total = b.index(0)
    for t, k in zip(taps, window, strict=True):
        total = b.add(b.mul(total, b.index(k)), t)
    return total


def elements(
    b: Any,
    place: list[Any],
    shape: tuple[int, ...],
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...] | None = None,
) -> Iterator[tuple[list[Any], list[Any], Any]]:
    """(position in the window, positions in the data, inside) of each element of the window at `place`.

    One outside the data is replaced by the nearest inside; without gaps, and with a padding smaller than the window,
    the position in the window is that one's. `inside` is None where that is known.
    """
    _check_length(window)
    axes = []
    for i, n, k, s, d, (low, high) in zip(
        place[1:-1], shape[1:-1], window, stride, dilation or (1,) * len(window), padding, strict=True
    ):
        first = b.sub(b.mul(i, b.index(s)), b.index(low))
        seen = []
        for t in range(k):
            at = b.add(first, b.index(t * d))
            inside = []
            if low:
                inside.append(b.cmp(">=", at, b.index(0)))
            if high:
                inside.append(b.cmp("<", at, b.index(n)))
            near = b.max(b.min(at, b.index(n - 1)), b.index(0)) if inside else at
            tap = b.sub(near, first) if inside and dilation is None else b.index(t)
            seen.append((tap, near, inside))
        axes.append(seen)
    for chosen in itertools.product(*axes):
        yield ([t for t, *_ in chosen], [at for _, at, _ in chosen], _all(b, [c for *_, cs in chosen for c in cs]))


def seeing(
    b: Any,
    place: list[Any],
    outs: tuple[int, ...],
    *,
    window: tuple[int, ...],
    stride: tuple[int, ...],
    padding: tuple[tuple[int, int], ...],
    dilation: tuple[int, ...] | None = None,
) -> Iterator[tuple[list[Any], list[Any], Any]]:
    """(position in the window, window, inside) for each window of `outs` that may see the element `place`."""
    gaps = dilation or (1,) * len(window)
    _check_length([-(-k // s) if d == 1 else k for k, s, d in zip(window, stride, gaps, strict=True)])
    axes = []
    for i, n, k, s, d, (low, _) in zip(place[1:-1], outs, window, stride, gaps, padding, strict=True):
        at = b.add(i, b.index(low))
        found = []
        if d == 1 < s:  # no element of the window that is not one
            last, rest = b.floordiv(at, b.index(s)), b.mod(at, b.index(s))
            for j in range(-(-k // s)):
                t = b.add(rest, b.index(j * s))
                found.append((b.min(t, b.index(k - 1)), b.sub(last, b.index(j)), [b.cmp("<", t, b.index(k))]))
        else:
            for t in range(k):
                from_first = b.sub(at, b.index(t * d))
                found.append(
                    (
                        b.index(t),
                        b.floordiv(from_first, b.index(s)),
                        [b.cmp("==", b.mod(from_first, b.index(s)), b.index(0))],
                    )
                )
        axes.append(
            [
                (
                    t,
                    b.max(b.min(q, b.index(n - 1)), b.index(0)),
                    [*inside, b.cmp(">=", q, b.index(0)), b.cmp("<", q, b.index(n))],
                )
                for t, q, inside in found
            ]
        )
    for chosen in itertools.product(*axes):
        yield ([t for t, *_ in chosen], [q for _, q, _ in chosen], _all(b, [c for *_, cs in chosen for c in cs]))
