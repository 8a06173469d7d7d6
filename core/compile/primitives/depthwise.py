"""Depthwise convolutions: an element is a sum over a short window of one channel, a formula that fuses.

They are bound by memory, not by arithmetic: written as formulas, what comes before and after them costs no pass over
the data of its own. `lower` makes these primitives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph.graph import Spec
from ...graph.primitive import Primitive
from ...ops.convolve_nd import conv_input_p, conv_p, padded, patches
from ...ops.windows import LONGEST, elements, seeing

__all__ = ["depthwise", "depthwise_input", "depthwise_terms", "is_depthwise"]


def is_depthwise(channels_in: int, window: tuple[int, ...], groups: int) -> bool:
    """Return True for groups of one channel in and a window that is short enough to be written out."""
    return groups == channels_in > 1 and math.prod(window) <= LONGEST


def _times(b, total, x, k, inside):
    x = x if inside is None else b.select(inside, x, b.const(0, x.dtype))
    term = b.mul(x, k)
    return term if total is None else b.add(total, term)


def _pull(b, place, loads, in_specs, out_spec, *, groups, **params):
    x, k = in_specs
    *_, channel = place
    source, total = b.floordiv(channel, b.index(out_spec.shape[-1] // groups)), None
    for taps, at, inside in elements(b, place, x.shape, window=k.shape[:-2], **params):
        total = _times(b, total, loads[0]([place[0], *at, source]), loads[1]([*taps, b.index(0), channel]), inside)
    return total


def _input_pull(b, place, loads, in_specs, *_, groups, **params):
    y, k = in_specs
    del params["shape"]
    several, total = y.shape[-1] // groups, None
    for taps, at, inside in seeing(b, place, y.shape[1:-1], window=k.shape[:-2], **params):
        for i in range(several):
            channel = b.add(b.mul(place[-1], b.index(several)), b.index(i))
            total = _times(b, total, loads[0]([place[0], *at, channel]), loads[1]([*taps, b.index(0), channel]), inside)
    return total


def _flops(in_specs: Any, out_specs: Any, **_: Any) -> float:
    return 2.0 * math.prod(in_specs[1].shape[:-2]) * max(in_specs[0].size, out_specs[0].size)


depthwise = Primitive(
    "depthwise",
    conv_p.impl,
    lambda *specs, **params: conv_p.spec(*specs, **params),
    kind="pull",
    pull=_pull,
    flops=_flops,
    differentiable=False,
)
depthwise_input = Primitive(
    "depthwise_input",
    conv_input_p.impl,
    lambda y, *_, shape, **__: Spec(shape, y.dtype),
    kind="pull",
    pull=_input_pull,
    flops=_flops,
    differentiable=False,
)


# The gradient of the kernel: products of each result with each element of its window, to be summed over the results.


def _terms(x, y, *, window, stride, padding, dilation, groups):
    seen = patches(padded(x, padding), window, stride, dilation, y.shape[1:-1])
    return np.repeat(seen, y.shape[-1] // groups, -1) * np.expand_dims(y, tuple(range(-len(window) - 1, -1)))


def _terms_pull(b, place, loads, in_specs, *_, window, stride, padding, dilation, groups):
    x, y = in_specs
    rank, (*_, channel) = len(window), place
    inside, at = None, []
    for i, t, n, s, d, (low, high) in zip(
        place[1 : rank + 1], place[rank + 1 : -1], x.shape[1:-1], stride, dilation, padding, strict=True
    ):
        here = b.sub(b.add(b.mul(i, b.index(s)), b.mul(t, b.index(d))), b.index(low))
        for test in ([b.cmp(">=", here, b.index(0))] if low else []) + ([b.cmp("<", here, b.index(n))] if high else []):
            inside = test if inside is None else b.logical_and(inside, test)
        at.append(b.max(b.min(here, b.index(n - 1)), b.index(0)) if low or high else here)
    source = b.floordiv(channel, b.index(y.shape[-1] // groups))
    return _times(b, None, loads[0]([place[0], *at, source]), loads[1]([*place[: rank + 1], channel]), inside)


depthwise_terms = Primitive(
    "depthwise_terms",
    _terms,
    lambda _, y, *, window, **__: Spec((*y.shape[:-1], *window, y.shape[-1]), y.dtype),
    kind="pull",
    pull=_terms_pull,
    flops=1.0,
    differentiable=False,
)
