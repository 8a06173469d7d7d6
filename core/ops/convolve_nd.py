"""Convolutions over any number of axes: three primitives, each the transpose of the others in one argument.

Data are (batch, *axes, channels), kernels (*window, channels in / groups, channels out); as in neural networks the
kernel is not reversed. With y = conv(x, k): `conv_input(y, k)` is the transpose in x and `conv_kernel(x, y)` that in k.
Patches are gathered into a matrix, some images at a time so that it stays in the cache, and multiplied.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from .define import as_value

__all__ = [
    "conv_general",
    "conv_input_p",
    "conv_kernel_p",
    "conv_p",
    "out_length",
    "pad_widths",
    "padded",
    "patches",
    "spread",
    "taps",
    "unpadded",
]

_CACHE = 1 << 19  # bytes of the matrix of patches: half of a usual second-level cache


def out_length(n: int, k: int, stride: int, pad: tuple[int, int], dilation: int) -> int:
    """Number of positions of a window."""
    return max(0, (n + sum(pad) - dilation * (k - 1) - 1) // stride + 1)


def padded(x: np.ndarray, pads: tuple[tuple[int, int], ...], value: Any = 0) -> np.ndarray:
    """`x` (batch, *axes, channels) with `value` around it; negative widths crop."""
    if not any(a or b for a, b in pads):
        return x
    if any(a < 0 or b < 0 for a, b in pads):
        x = x[
            (slice(None), *[slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(x.shape[1:-1], pads, strict=True)])
        ]
        pads = tuple((max(0, a), max(0, b)) for a, b in pads)
    shape = (x.shape[0], *[n + a + b for n, (a, b) in zip(x.shape[1:-1], pads, strict=True)], x.shape[-1])
    out = np.zeros(shape, x.dtype) if value == 0 else np.full(shape, value, x.dtype)
    out[(slice(None), *[slice(a, a + n) for n, (a, _) in zip(x.shape[1:-1], pads, strict=True)])] = x
    return out


def unpadded(x: np.ndarray, pads: tuple[tuple[int, int], ...], shape: tuple[int, ...]) -> np.ndarray:
    """The transpose of `padded` with value 0."""
    if any(a < 0 or b < 0 for a, b in pads):
        x = padded(x, tuple((max(0, -a), max(0, -b)) for a, b in pads))
    return x[(slice(None), *[slice(max(0, a), max(0, a) + n) for n, (a, _) in zip(shape[1:-1], pads, strict=True)])]


def patches(
    x: np.ndarray, window: tuple[int, ...], stride: tuple[int, ...], dilation: tuple[int, ...], outs: tuple[int, ...]
) -> np.ndarray:
    """View (batch, *outs, *window, channels) of padded data."""
    b, *axes, c = x.strides
    strides = (
        b,
        *[s * st for s, st in zip(axes, stride, strict=True)],
        *[s * d for s, d in zip(axes, dilation, strict=True)],
        c,
    )
    return np.lib.stride_tricks.as_strided(x, (x.shape[0], *outs, *window, x.shape[-1]), strides, writeable=False)


def taps(window, stride, dilation, outs):
    """Each position of the window with the slices of the padded data that it sees."""
    for k in itertools.product(*map(range, window)):
        yield (
            k,
            (
                slice(None),
                *[
                    slice(i * d, i * d + (n - 1) * s + 1, s)
                    for i, d, n, s in zip(k, dilation, outs, stride, strict=True)
                ],
            ),
        )


def _chunks(view):
    """Ranges of images whose patches fit the cache."""
    n = max(1, _CACHE // max(1, math.prod(view.shape[1:]) * view.itemsize))
    return [(i, min(i + n, view.shape[0])) for i in range(0, view.shape[0], n)]


def _groups(groups, *arrays):
    """The channel slices of each group."""
    for g in range(groups):
        yield [slice(g * (n // groups), (g + 1) * (n // groups)) for n in arrays]


def _outs(x_shape, window, stride, padding, dilation):
    return tuple(
        out_length(n, k, s, p, d)
        for n, k, s, p, d in zip(x_shape[1:-1], window, stride, padding, dilation, strict=True)
    )


# -- implementations ---------------------------------------------------------------------------------------------------


def _conv(x, k, *, stride, padding, dilation, groups):
    window, outs = k.shape[:-2], _outs(x.shape, k.shape[:-2], stride, padding, dilation)
    x = padded(x, padding)
    out = np.empty((x.shape[0], *outs, k.shape[-1]), x.dtype)
    if not out.size or not k.size:
        return np.zeros(out.shape, x.dtype)
    if k.shape[-2] == 1 and groups > 1:
        return _conv_depthwise(x, k, out, stride, dilation, groups)
    for cx, co in _groups(groups, x.shape[-1], k.shape[-1]):
        _conv_group(x[..., cx], k[..., co], out[..., co] if groups > 1 else out, window, stride, dilation, outs)
    return out


def _conv_group(x, k, out, window, stride, dilation, outs):
    kernel = k.reshape(-1, k.shape[-1])
    if len(window) == 2 and stride[0] == 1 and window[0] > 1 and out.flags.c_contiguous:
        _conv_by_rows(x, kernel.reshape(window[0], -1, k.shape[-1]), out, window, stride, dilation, outs)
        return
    view = patches(x, window, stride, dilation, outs)
    for i, j in _chunks(view):
        matrix = view[i:j].reshape(-1, kernel.shape[0])
        if out.flags.c_contiguous:
            np.matmul(matrix, kernel, out=out[i:j].reshape(-1, kernel.shape[1]))
        else:
            out[i:j] = np.matmul(matrix, kernel).reshape(j - i, *outs, -1)


def _row_patches(x, channels_out, window, stride, dilation, outs):
    """For some images at a time: their range, and matrices of patches one row high, one for each row of the window.

    Each element is copied once per column of the window, not once per element of it: rows below one another share them.
    """
    view = patches(x, (1, window[1]), stride, dilation, (x.shape[1], outs[1]))
    per_image = max(math.prod(view.shape[1:]), math.prod(outs) * channels_out)
    n = min(x.shape[0], max(1, _CACHE // (per_image * x.itemsize)))
    buffer = np.empty((n, *view.shape[1:]), x.dtype)
    rows = buffer.reshape(n, x.shape[1] * outs[1], -1)
    for i in range(0, x.shape[0], n):
        m = min(n, x.shape[0] - i)
        np.copyto(buffer[:m], view[i : i + m])
        yield slice(i, i + m), [rows[:m, k * dilation[0] * outs[1] :][:, : outs[0] * outs[1]] for k in range(window[0])]


def _conv_by_rows(x, kernel, out, window, stride, dilation, outs):
    out = out.reshape(out.shape[0], -1, out.shape[-1])
    for images, parts in _row_patches(x, out.shape[-1], window, stride, dilation, outs):
        total = out[images]
        np.matmul(parts[0], kernel[0], out=total)
        for part, k in zip(parts[1:], kernel[1:], strict=True):
            total += np.matmul(part, k)


def _conv_depthwise(x, k, out, stride, dilation, groups):
    """One input channel per group: sums of products of whole arrays, position by position of the window."""
    out = out.reshape(*out.shape[:-1], groups, -1)
    out[...] = 0
    k = k.reshape(*k.shape[:-2], groups, -1)
    for at, where in taps(k.shape[:-2], stride, dilation, out.shape[1:-2]):
        out += x[where][..., None] * k[at]
    return out.reshape(*out.shape[:-2], -1)


def _conv_input(y, k, *, shape, stride, padding, dilation, groups):
    if all(s == 1 for s in stride):
        # with stride 1: the convolution with the kernel reversed, channels in and out exchanged
        window = k.shape[:-2]
        flipped = k[(slice(None, None, -1),) * len(window)]
        r = len(window)
        flipped = flipped.reshape(*window, k.shape[-2], groups, -1).transpose(*range(r), r + 2, r + 1, r)
        flipped = flipped.reshape(*window, k.shape[-1] // groups, -1)
        widths = [(d * (n - 1) - a, d * (n - 1) - b) for d, n, (a, b) in zip(dilation, window, padding, strict=True)]
        return _conv(y, flipped, stride=stride, padding=tuple(widths), dilation=dilation, groups=groups)
    return _scatter(y, k, shape, stride, padding, dilation, groups)


def _scatter(y, k, shape, stride, padding, dilation, groups):
    window, outs = k.shape[:-2], y.shape[1:-1]
    full = tuple(
        max(n + a + b, d * (w - 1) + (o - 1) * s + 1)
        for n, (a, b), d, w, o, s in zip(shape[1:-1], padding, dilation, window, outs, stride, strict=True)
    )
    total = np.zeros((shape[0], *full, shape[-1]), y.dtype)
    for cx, co in _groups(groups, shape[-1], y.shape[-1]):
        for at, where in taps(window, stride, dilation, outs):
            total[where][..., cx] += np.matmul(y[..., co], k[at][:, co].T)
    return np.ascontiguousarray(unpadded(total, padding, shape))


def _conv_kernel(x, y, *, window, stride, padding, dilation, groups):
    x = padded(x, padding)
    outs = y.shape[1:-1]
    out = np.zeros((*window, x.shape[-1] // groups, y.shape[-1]), y.dtype)
    if not out.size or not y.size:
        return out
    if x.shape[-1] == groups > 1:
        many = y.reshape(*y.shape[:-1], groups, -1)
        for at, where in taps(window, stride, dilation, outs):
            out[at][0] = (x[where][..., None] * many).sum(tuple(range(y.ndim - 1))).reshape(-1)
        return out
    for cx, co in _groups(groups, x.shape[-1], y.shape[-1]):
        depth = math.prod(window) * (cx.stop - cx.start)
        total = np.zeros((depth, co.stop - co.start), y.dtype)
        if len(window) == 2 and stride[0] == 1 and window[0] > 1:
            each = total.reshape(window[0], -1, total.shape[1])
            for images, parts in _row_patches(x[..., cx], total.shape[1], window, stride, dilation, outs):
                pixels = y[images, ..., co].reshape(parts[0].shape[0], -1, total.shape[1])
                for part, sums in zip(parts, each, strict=True):
                    sums += np.matmul(part.transpose(0, 2, 1), pixels).sum(0)
            out[..., co] = total.reshape(*window, -1, total.shape[1])
            continue
        view = patches(x[..., cx], window, stride, dilation, outs)
        for i, j in _chunks(view):
            total += np.matmul(view[i:j].reshape(-1, depth).T, y[i:j, ..., co].reshape(-1, total.shape[1]))
        out[..., co] = total.reshape(*window, -1, total.shape[1])
    return out


# -- primitives --------------------------------------------------------------------------------------------------------


def _conv_spec(x, k, *, stride, padding, dilation, groups):
    if x.shape[-1] != k.shape[-2] * groups:
        raise ValueError(
            f"conv_general: x must have {k.shape[-2]} x groups {groups} channels, got {x} for the kernel {k}"
        )
    return Spec((x.shape[0], *_outs(x.shape, k.shape[:-2], stride, padding, dilation), k.shape[-1]), x.dtype)


def _products(kernel_size, pixels, groups):
    return 2.0 * kernel_size * pixels


def _sample_params(rank):
    return [
        {"stride": (1,) * rank, "padding": ((0, 0),) * rank, "dilation": (1,) * rank, "groups": 1},
        {"stride": (2,) * rank, "padding": ((1, 2),) * rank, "dilation": (1,) * rank, "groups": 2},
        {"stride": (1,) * rank, "padding": ((2, 1),) * rank, "dilation": (2,) * rank, "groups": 4},
    ]


def _conv_samples(rng):
    out = []
    for rank in (1, 2):
        for params in _sample_params(rank):
            x, k = rng.normal(size=(2, *(5, 6)[:rank], 4)), rng.normal(size=(*(3, 2)[:rank], 4 // params["groups"], 4))
            out.append(((x, k), params))
    return out


def _input_samples(rng):
    return [((rng.normal(size=_conv(x, k, **p).shape), k), {**p, "shape": x.shape}) for (x, k), p in _conv_samples(rng)]


def _kernel_samples(rng):
    return [
        ((x, rng.normal(size=_conv(x, k, **p).shape)), {**p, "window": k.shape[:-2]})
        for (x, k), p in _conv_samples(rng)
    ]


conv_p = Primitive(
    "conv",
    _conv,
    _conv_spec,
    kind="conv",
    samples=_conv_samples,
    flops=lambda i, o, **p: _products(math.prod(i[1].shape[:-1]), o[0].size, p["groups"]),
)
conv_input_p = Primitive(
    "conv_input",
    _conv_input,
    lambda y, k, *, shape, **params: Spec(shape, y.dtype),
    kind="conv",
    samples=_input_samples,
    flops=lambda i, o, **p: _products(math.prod(i[1].shape[:-1]), i[0].size, p["groups"]),
)
conv_kernel_p = Primitive(
    "conv_kernel",
    _conv_kernel,
    lambda x, y, *, window, groups, **params: Spec((*window, x.shape[-1] // groups, y.shape[-1]), y.dtype),
    kind="conv",
    samples=_kernel_samples,
    flops=lambda i, o, **p: _products(math.prod(o[0].shape[:-1]), i[1].size, p["groups"]),
)
for _p in (conv_p, conv_input_p, conv_kernel_p):
    _p.defjvp("same", "same")
conv_p.defvjp(
    lambda ct, out, x, k, **p: bind(conv_input_p, ct, k, shape=np.shape(x), **p),
    lambda ct, out, x, k, **p: bind(conv_kernel_p, x, ct, window=np.shape(k)[:-2], **p),
)
conv_input_p.defvjp(
    lambda ct, out, y, k, *, shape, **p: bind(conv_p, ct, k, **p),
    lambda ct, out, y, k, *, shape, **p: bind(conv_kernel_p, ct, y, window=np.shape(k)[:-2], **p),
)
conv_kernel_p.defvjp(
    lambda ct, out, x, y, *, window, **p: bind(conv_input_p, y, ct, shape=np.shape(x), **p),
    lambda ct, out, x, y, *, window, **p: bind(conv_p, x, ct, **p),
)


# Batching: a batch of data is more images; a batch of kernels is more channels out, or more groups.


def _into(x, axis, at):
    """Merge batch dimension `axis` into dimension `at` (counted without it), before it."""
    x = np.moveaxis(x, axis, at)
    shape = np.shape(x)
    return np.reshape(x, (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :]))


def _out_of(x, size, at):
    """The inverse of `_into`; the batch dimension is left in front of dimension `at`."""
    shape = np.shape(x)
    return np.reshape(x, (*shape[:at], size, shape[at] // size, *shape[at + 1 :])), at


def _given(x, axis, size):
    return (np.broadcast_to(x, (size, *np.shape(x))), 0) if axis is None else (x, axis)


@conv_p.defbatch
def _(args, axes, size, **p):
    (x, k), (ax, ak) = args, axes
    rank = np.ndim(k) - 2 - (ak is not None)
    if ak is None:
        return _out_of(bind(conv_p, _into(x, ax, 0), k, **p), size, 0)
    if ax is None and p["groups"] == 1:
        return _out_of(bind(conv_p, x, _into(k, ak, rank + 1), **p), size, rank + 1)
    x, ax = _given(x, ax, size)
    p["groups"] *= size
    return _out_of(bind(conv_p, _into(x, ax, rank + 1), _into(k, ak, rank + 1), **p), size, rank + 1)


@conv_input_p.defbatch
def _(args, axes, size, *, shape, **p):
    (y, k), (ay, ak) = args, axes
    rank = len(shape) - 2
    if ak is None:
        return _out_of(bind(conv_input_p, _into(y, ay, 0), k, shape=(shape[0] * size, *shape[1:]), **p), size, 0)
    y, ay = _given(y, ay, size)
    p["groups"] *= size
    shape = (*shape[:-1], shape[-1] * size)
    return _out_of(bind(conv_input_p, _into(y, ay, rank + 1), _into(k, ak, rank + 1), shape=shape, **p), size, rank + 1)


@conv_kernel_p.defbatch
def _(args, axes, size, *, window, **p):
    (x, ax), (y, ay) = [_given(v, a, size) for v, a in zip(args, axes, strict=True)]
    rank = len(window)
    p["groups"] *= size
    return _out_of(
        bind(conv_kernel_p, _into(x, ax, rank + 1), _into(y, ay, rank + 1), window=window, **p), size, rank + 1
    )


# -- the public function
# ----------------------------------------------------------------------------------------------------


def spread(where: str, what: str, value: Any, rank: int) -> tuple[int, ...]:
    """A number for each axis."""
    value = (value,) * rank if isinstance(value, (int, np.integer)) else tuple(value)
    if len(value) != rank or any(int(v) != v or v < 1 for v in value):
        raise ValueError(f"{where}: {what} must be positive integers, one per axis ({rank}), got {value}")
    return tuple(map(int, value))


def pad_widths(
    where: str,
    padding: Any,
    shape: tuple[int, ...],
    window: tuple[int, ...],
    stride: tuple[int, ...],
    dilation: tuple[int, ...],
) -> tuple[tuple[int, int], ...]:
    """The zeros before and after each axis: none for "valid", enough for ceil(n / stride) positions for "same"."""
    if padding == "valid":
        return ((0, 0),) * len(window)
    if padding == "same":
        total = [
            max(0, (-(-n // s) - 1) * s + d * (k - 1) + 1 - n)
            for n, k, s, d in zip(shape, window, stride, dilation, strict=True)
        ]
        return tuple((t // 2, t - t // 2) for t in total)
    if isinstance(padding, str):
        raise ValueError(f"{where}: padding must be 'same', 'valid', a number or (low, high) per axis, got {padding!r}")
    padding = (padding,) * len(window) if isinstance(padding, (int, np.integer)) else tuple(padding)
    widths = tuple((int(p), int(p)) if isinstance(p, (int, np.integer)) else (int(p[0]), int(p[1])) for p in padding)
    if len(widths) != len(window) or any(w < 0 for pair in widths for w in pair):
        raise ValueError(
            f"{where}: padding must be (low, high) of non-negative integers for each of {len(window)} axes, got "
            f"{padding}"
        )
    return widths


def conv_general(
    x: Any,  # (..., *axes, channels_in)
    kernel: Any,  # (*window, channels_in / groups, channels_out), one window axis for each spatial axis of `x`
    *,
    stride: Any = 1,  # like `dilation`, int or tuple of int
    padding: Any = "valid",  # or "same", int, or (low, high) for each axis: zeros around `x`
    dilation: Any = 1,
    groups: int = 1,  # of channels, each convolved with its own kernels
    dimensions: tuple[str, str, str] | None = None,  # other orders in x, kernel, result: ("NCHW", "OIHW", "NCHW")
) -> Any:
    """Return the convolution of `x` with `kernel` over any number of axes, (..., *positions, channels_out).

    In `dimensions`, N are images (exactly one dimension of `x`), C channels, I and O channels in and out of the kernel,
    and other letters axes.
    """
    x, kernel = as_value(x), as_value(kernel)
    if dimensions is not None:
        return _with_dimensions(x, kernel, dimensions, stride=stride, padding=padding, dilation=dilation, groups=groups)
    rank = np.ndim(kernel) - 2
    if rank < 1 or np.ndim(x) < rank + 1:
        raise ValueError(
            "conv_general: x must be (..., *axes, channels) and the kernel (*window, channels in, channels out), got "
            f"shapes {np.shape(x)} and {np.shape(kernel)}"
        )
    window, channels = np.shape(kernel)[:-2], np.shape(x)[-1]
    if groups < 1 or channels != np.shape(kernel)[-2] * groups or np.shape(kernel)[-1] % groups:
        raise ValueError(
            f"conv_general: channels in and out must be {groups} group(s) of the kernel's, got shapes {np.shape(x)} "
            f"and {np.shape(kernel)}"
        )
    stride, dilation = (
        spread("conv_general", "stride", stride, rank),
        spread("conv_general", "dilation", dilation, rank),
    )
    head, axes = np.shape(x)[: -rank - 1], np.shape(x)[-rank - 1 : -1]
    widths = pad_widths("conv_general", padding, axes, window, stride, dilation)
    dtype = np.result_type(x, kernel)
    if dtype.kind in "iub":
        dtype = np.dtype(float)
    x, kernel = [v if np.result_type(v) == dtype else np.astype(v, dtype) for v in (x, kernel)]
    images = x if len(head) == 1 else np.reshape(x, (math.prod(head), *axes, channels))
    y = bind(conv_p, images, kernel, stride=stride, padding=widths, dilation=dilation, groups=int(groups))
    return y if len(head) == 1 else np.reshape(y, (*head, *np.shape(y)[1:]))


def _with_dimensions(x, kernel, dimensions, **options):
    letters_x, letters_k, letters_y = dimensions
    axes = [c for c in letters_x if c not in "NC"]
    wanted = ({*"NC", *axes}, {*"OI", *axes}, {*"NC", *axes})
    if any(set(d) != w or len(d) != len(w) for d, w in zip(dimensions, wanted, strict=True)) or (
        len(letters_x),
        len(letters_k),
    ) != (np.ndim(x), np.ndim(kernel)):
        raise ValueError(
            "conv_general: dimensions must name N, C and the axes of x, O, I and the same axes of the kernel, got "
            f"{dimensions} for shapes {np.shape(x)} and {np.shape(kernel)}"
        )
    x = np.transpose(x, [letters_x.index(c) for c in ["N", *axes, "C"]])
    kernel = np.transpose(kernel, [letters_k.index(c) for c in [*axes, "I", "O"]])
    y = conv_general(x, kernel, **options)
    return np.transpose(y, [["N", *axes, "C"].index(c) for c in letters_y])
