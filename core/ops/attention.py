"""Scaled dot-product attention and its gradient: two primitives whose memory is linear in the lengths.

q is (batch, queries, heads, depth), k and v are (batch, keys, key heads, depth or width); consecutive heads share a key
head. A mask is added to the scores and broadcasts to (batch, heads, queries, keys). `causal` hides key j from query i
where j > i + keys - queries. With s the scores, the results are ``softmax(s) @ v`` and ``log(sum(exp(s)))``, +inf for a
query that sees no key, whose result is 0. Derivatives of the gradient hold all weights at once.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from .define import move_batch_axis

__all__ = ["attention_grad_p", "attention_p", "plain_attention"]

_BLOCK = 1 << 20  # scores that the NumPy implementation holds at a time


# -- formulas, for arrays (batch, key heads, group, rows, columns) of NumPy and of transforms --------------------------


def _heads(x, key_heads):
    b, n, heads, size = np.shape(x)
    return np.transpose(np.reshape(x, (b, n, key_heads, heads // key_heads, size)), (0, 2, 3, 1, 4))


def _rows(x):
    b, key_heads, group, n, size = np.shape(x)
    return np.reshape(np.transpose(x, (0, 3, 1, 2, 4)), (b, n, key_heads * group, size))


def _mt(x):
    return np.swapaxes(x, -1, -2)


def _total(x):
    return np.sum(x, axis=-1, keepdims=True)


def _shared(x):
    """Sum over the heads that share a key head."""
    return np.sum(x, axis=2, keepdims=True)


def _scores(q, k, mask, causal, scale, first=0, queries=None):
    """Scores of some queries, `first` and on of `queries`."""
    s = (q @ _mt(k)) * np.asarray(scale, np.result_type(q))
    rows, columns = np.shape(s)[-2:]
    if mask is not None:
        s = np.where(mask == -np.inf, -np.inf, s + mask)
    if causal:
        s = np.where(np.tri(rows, columns, columns - (queries or rows) + first, dtype=bool), s, -np.inf)
    return s


def _grouped_mask(mask, key_heads):
    b, heads, rows, columns = np.shape(mask)
    return np.reshape(
        mask, (b, 1, 1, rows, columns) if heads == 1 else (b, key_heads, heads // key_heads, rows, columns)
    )


def _forward(q, k, v, mask, causal, scale, first=0, queries=None):
    s = _scores(q, k, mask, causal, scale, first, queries)
    top = np.max(s, axis=-1, keepdims=True)
    base = np.where(top == -np.inf, 0, top)
    e = np.exp(s - base)
    total = _total(e)
    empty = total == 0
    some = np.where(empty, 1, total)
    return (e @ v) / some, np.where(empty, np.inf, base + np.log(some))


def _backward(q, k, v, mask, out, lse, ct, causal, scale, first=0, queries=None):
    p = np.exp(_scores(q, k, mask, causal, scale, first, queries) - lse)
    ds = p * (ct @ _mt(v) - _total(ct * out)) * np.asarray(scale, np.result_type(q))
    return ds @ k, _shared(_mt(ds) @ q), _shared(_mt(p) @ ct)


def _parted(q, k, v, mask):
    key_heads = np.shape(k)[2]
    return (*(_heads(x, key_heads) for x in (q, k, v)), None if mask is None else _grouped_mask(mask, key_heads))


def _lifted(lse, key_heads):
    """Numbers (batch, heads, queries) as columns of the formulas' arrays."""
    b, heads, n = np.shape(lse)
    return np.reshape(lse, (b, key_heads, heads // key_heads, n, 1))


def _lowered(x):
    b, key_heads, group, n, _ = np.shape(x)
    return np.reshape(x, (b, key_heads * group, n))


def plain_attention(q: Any, k: Any, v: Any, mask: Any = None, *, causal: bool, scale: float) -> tuple[Any, Any]:
    """The results of `attention_p` by formulas that hold all scores."""
    q, k, v, mask = _parted(q, k, v, mask)
    out, lse = _forward(q, k, v, mask, causal, scale)
    return _rows(out), _lowered(lse)


# -- implementations: some queries at a time ---------------------------------------------------------------------------


def _strips(q, k, mask):
    """Ranges of queries with few scores, and the part of the mask that they read."""
    step = max(1, _BLOCK // max(1, math.prod(q.shape[:3]) * k.shape[3]))
    for i in range(0, q.shape[3], step):
        yield slice(i, i + step), mask if mask is None or mask.shape[3] == 1 else mask[..., i : i + step, :]


def _attention(q, k, v, mask=None, *, causal, scale):
    q, k, v, mask = _parted(q, k, v, mask)
    out, lse = np.empty((*q.shape[:4], v.shape[4]), q.dtype), np.empty((*q.shape[:4], 1), q.dtype)
    for at, part in _strips(q, k, mask):
        out[..., at, :], lse[..., at, :] = _forward(q[..., at, :], k, v, part, causal, scale, at.start, q.shape[3])
    return _rows(out), _lowered(lse)


def _attention_grad(q, k, v, out, lse, ct, mask=None, *, causal, scale):
    key_heads = k.shape[2]
    q, k, v, mask = _parted(q, k, v, mask)
    out, ct, lse = _heads(out, key_heads), _heads(ct, key_heads), _lifted(lse, key_heads)
    dq, dk, dv = np.empty_like(q), np.zeros_like(k), np.zeros_like(v)
    for at, part in _strips(q, k, mask):
        some_q, some_out, some_lse, some_ct = (x[..., at, :] for x in (q, out, lse, ct))
        dq[..., at, :], more_k, more_v = _backward(
            some_q, k, v, part, some_out, some_lse, some_ct, causal, scale, at.start, q.shape[3]
        )
        dk += more_k
        dv += more_v
    return _rows(dq), _rows(dk), _rows(dv)


# -- primitives --------------------------------------------------------------------------------------------------------


def _spec(q, _, v, *__, **___):
    b, n, heads, _depth = q.shape
    return Spec((b, n, heads, v.shape[3]), q.dtype), Spec((b, heads, n), q.dtype)


def _products(i, count):
    (b, n, heads, depth), (_, keys, _, width) = i[0].shape, i[2].shape
    return 2.0 * b * n * heads * keys * (count[0] * depth + count[1] * width)


def _samples(rng):
    cases = [((1, 5, 2, 3), (1, 6, 1, 3), (1, 6, 1, 4), None, False),
             ((2, 3, 4, 2), (2, 3, 2, 2), (2, 3, 2, 2), None, True),
             ((2, 4, 2, 3), (2, 5, 2, 3), (2, 5, 2, 2), (1, 2, 4, 5), True)]  # fmt: skip
    return [
        (tuple(rng.normal(size=s) for s in shapes if s is not None), {"causal": causal, "scale": 0.7})
        for *shapes, causal in cases
    ]


def _grad_samples(rng):
    made = []
    for (q, k, v, *mask), params in _samples(rng):
        out, lse = _attention(q, k, v, *mask, **params)
        made.append(((q, k, v, out, lse, rng.normal(size=out.shape), *mask), params))
    return made


attention_p = Primitive(
    "attention", _attention, _spec, multiple=True, samples=_samples, flops=lambda i, *_, **__: _products(i, (1, 1))
)
attention_grad_p = Primitive(
    "attention_grad",
    _attention_grad,
    lambda q, k, v, *_, **__: (q, k, v),
    multiple=True,
    samples=_grad_samples,
    flops=lambda i, *_, **__: _products(i, (3, 2)),
)


def _of_mask(ds, mask):
    """The cotangent of a mask that was broadcast."""
    b, key_heads, group, n, keys = np.shape(ds)
    ds = np.reshape(ds, (b, key_heads * group, n, keys))
    axes = tuple(d for d, size in enumerate(np.shape(mask)) if size == 1 < np.shape(ds)[d])
    return np.sum(ds, axis=axes, keepdims=True) if axes else ds


@attention_p.defvjp_all
def _(ct, out, args, needed, *, causal, scale):
    q, k, v, *mask = args
    given = np.zeros_like(out[0]) if ct[0] is None else ct[0]
    found = list(bind(attention_grad_p, q, k, v, *out, given, *mask, causal=causal, scale=scale))
    if ct[1] is not None or any(needed[3:]):  # by the formulas: they hold all weights
        heads = np.shape(k)[2]
        q, k, v, bias = _parted(q, k, v, *(mask or [None]))
        o, given, lse = _heads(out[0], heads), _heads(given, heads), _lifted(out[1], heads)
        p = np.exp(_scores(q, k, bias, causal, scale) - lse)
        more = p * _lifted(ct[1], heads) if ct[1] is not None else None
        if more is not None:
            scaled = more * np.asarray(scale, np.result_type(q))
            found[0] = found[0] + _rows(scaled @ k)
            found[1] = found[1] + _rows(_shared(_mt(scaled) @ q))
        if any(needed[3:]):
            ds = p * (given @ _mt(v) - _total(given * o))
            found.append(_of_mask(ds if more is None else ds + more, mask[0]))
    return [x if wanted else None for x, wanted in zip(found, needed, strict=False)]


def _tangent(t, like):
    return np.zeros_like(like) if t is None else t


@attention_p.defjvp_all
def _(tangents, out, args, *, causal, scale):
    heads = np.shape(args[1])[2]
    q, k, v, mask = _parted(*args[:3], *(args[3:] or [None]))
    tq, tk, tv = (_heads(_tangent(t, x), heads) for t, x in zip(tangents[:3], args[:3], strict=True))
    p = np.exp(_scores(q, k, mask, causal, scale) - _lifted(out[1], heads))
    ds = (tq @ _mt(k) + q @ _mt(tk)) * np.asarray(scale, np.result_type(q))
    if tangents[3:] and tangents[3] is not None:
        ds = ds + _grouped_mask(tangents[3], heads)
    weighted = p * ds
    t = _total(weighted)
    return _rows(weighted @ v - t * _heads(out[0], heads) + p @ tv), _lowered(t)


@attention_grad_p.defjvp_all
def _(tangents, _out, args, *, causal, scale):
    heads, unit = np.shape(args[1])[2], np.asarray(scale, np.result_type(args[0]))
    filled = [_tangent(t, x) for t, x in zip(tangents, args, strict=True)]
    (q, k, v, mask), (tq, tk, tv, tmask) = (_parted(*x[:3], *(x[6:] or [None])) for x in (args, filled))
    (o, lse, ct), (to, tlse, tct) = (
        (_heads(x[3], heads), _lifted(x[4], heads), _heads(x[5], heads)) for x in (args, filled)
    )
    p = np.exp(_scores(q, k, mask, causal, scale) - lse)
    ts = (tq @ _mt(k) + q @ _mt(tk)) * unit
    tp = p * ((ts if tmask is None else ts + tmask) - tlse)
    slope = ct @ _mt(v) - _total(ct * o)
    ds = p * slope * unit
    tds = (tp * slope + p * (tct @ _mt(v) + ct @ _mt(tv) - _total(tct * o + ct * to))) * unit
    return (
        _rows(tds @ k + ds @ tk),
        _rows(_shared(_mt(tds) @ q + _mt(ds) @ tq)),
        _rows(_shared(_mt(tp) @ ct + _mt(p) @ tct)),
    )


@attention_grad_p.defvjp_all
def _(cts, _out, args, needed, *, causal, scale):
    heads, unit = np.shape(args[1])[2], np.asarray(scale, np.result_type(args[0]))
    q, k, v, mask = _parted(*args[:3], *(args[6:] or [None]))
    o, lse, ct = _heads(args[3], heads), _lifted(args[4], heads), _heads(args[5], heads)
    a, b, c = (_heads(_tangent(t, x), heads) for t, x in zip(cts, args[:3], strict=True))
    p = np.exp(_scores(q, k, mask, causal, scale) - lse)
    slope = ct @ _mt(v) - _total(ct * o)
    ds = p * slope * unit
    of_ds = (a @ _mt(k) + q @ _mt(b)) * unit
    of_slope = of_ds * p
    of_scores = p * (ct @ _mt(c) + of_ds * slope)
    of_offset = -_total(of_slope)
    scaled = of_scores * unit
    found = [_rows(scaled @ k + ds @ b), _rows(_shared(_mt(scaled) @ q + _mt(ds) @ a)),
             _rows(_shared(_mt(of_slope) @ ct)), _rows(of_offset * ct), _lowered(-_total(of_scores)),
             _rows(p @ c + of_slope @ v + of_offset * o)]  # fmt: skip
    if mask is not None:
        found.append(_of_mask(of_scores, args[6]))
    return [x if wanted else None for x, wanted in zip(found, needed, strict=True)]


def _batched(p, mask_at):
    """More members of the batch."""

    def rule(args, axes, size, **params):
        batch = np.shape(args[0])[0 if axes[0] is None else 1 if axes[0] == 0 else 0]
        moved = []
        for k, (x, axis) in enumerate(zip(args, axes, strict=True)):
            if k == mask_at and axis is None and np.shape(x)[0] == 1:
                moved.append(x)
                continue
            x = move_batch_axis(x, axis, size)
            if k == mask_at:
                x = np.broadcast_to(x, (size, batch, *np.shape(x)[2:]))
            moved.append(np.reshape(x, (size * batch, *np.shape(x)[2:])))
        outs = bind(p, *moved, **params)
        return tuple(np.reshape(y, (size, batch, *np.shape(y)[1:])) for y in outs), (0,) * len(outs)

    p.defbatch(rule)


_batched(attention_p, 3)
_batched(attention_grad_p, 6)
