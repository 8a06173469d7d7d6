"""Fourier transforms: three primitives (complex, real to half spectrum and back) and NumPy's functions on them.

The transposes stay within the three. The transform matrix is symmetric, so that `fft` is its own transpose. A half
spectrum stands for a whole one: what it leaves out counts twice in `irfft`, hence the weights 1 (zero and Nyquist
frequency) and 2 in the rules.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np

from ..dtypes import is_bfloat16
from ..graph.graph import Spec
from ..graph.primitive import Primitive
from ..graph.trace import bind
from ..tensor import implements
from .complex import complex_dtype, real_dtype
from .define import as_value, named, refuse_out
from .shape import part

__all__ = [
    "fft",
    "fft2",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifft2",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfft2",
    "irfftn",
    "rfft",
    "rfft2",
    "rfftn",
]

# the norm under which the opposite transform has the same factor
_SWAPPED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


@cache
def _scipy_fft():
    import scipy.fft

    return scipy.fft


def _flops(in_specs, out_specs, *, axes, **params):
    big = max(in_specs[0], out_specs[0], key=lambda s: s.size)
    whole = in_specs[0].dtype.kind == out_specs[0].dtype.kind
    return (5 if whole else 2.5) * big.size * math.log2(max(2, math.prod(big.shape[a] for a in axes)))


def _batched(p):
    def rule(args, batch_axes, size, *, axes, **params):
        (x,), (at,) = args, batch_axes
        return bind(p, x, axes=tuple(a + (a >= at) for a in axes), **params), at

    p.defbatch(rule)


# -- complex to complex
# -------------------------------------------------------------------------------------------------


def _fft_impl(x, *, axes, inverse, norm):
    f = _scipy_fft()
    if len(axes) == 1:
        return (f.ifft if inverse else f.fft)(x, axis=axes[0], norm=norm)
    return (f.ifftn if inverse else f.fftn)(x, axes=axes, norm=norm)


def _samples(rng):
    z = rng.normal(size=(2, 4, 3)) + 1j * rng.normal(size=(2, 4, 3))
    return [
        ((x,), {"axes": axes, "inverse": inverse, "norm": norm})
        for x, axes, inverse, norm in (
            (z, (1,), False, "backward"),
            (z, (0, 2), True, "backward"),
            (z.real, (2,), False, "ortho"),
            (z, (1, 2), True, "forward"),
        )
    ]


fft_p = Primitive(
    "fft", _fft_impl, lambda x, **params: Spec(x.shape, complex_dtype(x.dtype)), flops=_flops, samples=_samples
)
fft_p.defjvp("same")


@fft_p.defvjp_all
def _(ct, out, args, needed, **params):
    g = bind(fft_p, ct, **params)
    return [g if np.iscomplexobj(args[0]) else np.real(g)]


_batched(fft_p)

# -- real to half spectrum and back
# -----------------------------------------------------------------------------------------


def _rfft_impl(x, *, axes, norm):
    f = _scipy_fft()
    return f.rfft(x, axis=axes[0], norm=norm) if len(axes) == 1 else f.rfftn(x, axes=axes, norm=norm)


def _rfft_spec(x, *, axes, norm):
    shape = list(x.shape)
    shape[axes[-1]] = shape[axes[-1]] // 2 + 1
    return Spec(tuple(shape), complex_dtype(x.dtype))


def _irfft_impl(x, *, axes, n, norm):
    f = _scipy_fft()
    if len(axes) == 1:
        return f.irfft(x, n, axis=axes[0], norm=norm)
    return f.irfftn(x, [x.shape[a] for a in axes[:-1]] + [n], axes=axes, norm=norm)


def _irfft_spec(x, *, axes, n, norm):
    shape = list(x.shape)
    shape[axes[-1]] = n
    return Spec(tuple(shape), real_dtype(x.dtype))


def _weights(n, axis, rank, dtype):
    """Return the multiplicity of each frequency of the half spectrum of length-`n` data in the full spectrum."""
    w = np.full(n // 2 + 1, 2, real_dtype(dtype))
    w[0] = 1
    if n % 2 == 0:
        w[-1] = 1
    return w.reshape([-1 if a == axis else 1 for a in range(rank)])


def _real_samples(rng):
    return [
        ((rng.normal(size=(2, 4, 5)),), {"axes": axes, "norm": norm})
        for axes, norm in (((2,), "backward"), ((1,), "ortho"), ((2, 1), "forward"))
    ]


def _half_samples(rng):
    z = rng.normal(size=(2, 3, 4)) + 1j * rng.normal(size=(2, 3, 4))
    return [
        ((z,), {"axes": axes, "n": n, "norm": norm})
        for axes, n, norm in (((2,), 6, "backward"), ((1,), 5, "ortho"), ((2, 1), 4, "forward"))
    ]


rfft_p = Primitive("rfft", _rfft_impl, _rfft_spec, flops=_flops, samples=_real_samples)
irfft_p = Primitive("irfft", _irfft_impl, _irfft_spec, flops=_flops, samples=_half_samples)
rfft_p.defjvp("same")
irfft_p.defjvp("same")


@rfft_p.defvjp_all
def _(ct, out, args, needed, *, axes, norm):
    n, rank = np.shape(args[0])[axes[-1]], np.ndim(args[0])
    return [
        bind(
            irfft_p,
            np.conjugate(ct) / _weights(n, axes[-1], rank, np.result_type(ct)),
            axes=axes,
            n=n,
            norm=_SWAPPED[norm],
        )
    ]


@irfft_p.defvjp_all
def _(ct, out, args, needed, *, axes, n, norm):
    return [
        np.conjugate(bind(rfft_p, ct, axes=axes, norm=_SWAPPED[norm]))
        * _weights(n, axes[-1], np.ndim(ct), np.result_type(ct))
    ]


_batched(rfft_p)
_batched(irfft_p)

# -- NumPy's functions
# --------------------------------------------------------------------------------------------------


def _prepare(where, x, axes, norm, real=False):
    """The array in a floating type, non-negative axes, a valid norm."""
    x = as_value(x)
    dtype = np.result_type(x)
    if real and dtype.kind == "c":
        raise TypeError(f"{where}: expected real input, got {dtype}")
    if is_bfloat16(dtype):
        raise TypeError(
            f"{where}: expected float16, float32, float64 or complex numbers, got {dtype} (convert with "
            "astype(np.float32))"
        )
    if dtype.kind in "iub" or dtype == np.float16:
        x = np.astype(x, np.float32 if dtype == np.float16 else float)
    norm = norm or "backward"
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    rank = np.ndim(x)
    return x, tuple(np.lib.array_utils.normalize_axis_index(a, rank) for a in axes), norm


def _fit(where, x, lengths, axes):
    """Crop, or pad with zeros, to `lengths` (None: as it is) along `axes`."""
    for n, axis in zip(lengths, axes, strict=True):
        have = np.shape(x)[axis]
        if (have if n is None else n) < 1:
            raise ValueError(f"{where}: invalid number of data points ({have if n is None else n}) specified")
        if n is None or n == have:
            continue
        if n < have:
            x = part(x, axis, 0, n)
        else:
            shape = list(np.shape(x))
            shape[axis] = n - have
            x = np.concatenate([x, np.zeros(shape, np.result_type(x))], axis=axis)
    return x


def _axes_and_lengths(where, x, s, axes):
    rank = np.ndim(x)
    if s is None:
        axes = tuple(range(rank)) if axes is None else tuple(axes)
        return axes, (None,) * len(axes)
    axes = tuple(range(rank - len(s), rank)) if axes is None else tuple(axes)
    if len(s) != len(axes):
        raise ValueError(f"{where}: shape and axes must have the same length, got {s} and {axes}")
    return axes, tuple(None if n in (None, -1) else n for n in s)


def _whole(where, a, s, axes, norm, inverse):
    x, axes, norm = _prepare(where, a, axes, norm)
    x = _fit(where, x, s, axes)
    return (
        bind(fft_p, x, axes=axes, inverse=inverse, norm=norm)
        if axes
        else np.astype(x, complex_dtype(np.result_type(x)))
    )


def _to_half(where, a, s, axes, norm):
    x, axes, norm = _prepare(where, a, axes, norm, real=True)
    return bind(rfft_p, _fit(where, x, s, axes), axes=axes, norm=norm)


def _from_half(where, a, s, axes, norm):
    x, axes, norm = _prepare(where, a, axes, norm)
    n = 2 * (np.shape(x)[axes[-1]] - 1) if s[-1] is None else s[-1]
    if n < 1:
        raise ValueError(f"{where}: invalid number of data points ({n}) specified")
    x = _fit(where, x, (*s[:-1], n // 2 + 1), axes)
    out = bind(
        irfft_p, x if np.iscomplexobj(x) else np.astype(x, complex_dtype(np.result_type(x))), axes=axes, n=n, norm=norm
    )
    return np.astype(out, np.float16) if np.result_type(as_value(a)) == np.float16 else out  # as NumPy does


def _transform(name, one, default=None):
    """NumPy's function `name`: of one axis (`one`), or of several (`default` ones)."""
    inverse = name.startswith("i")

    def call(a, s, axes, norm):
        if "r" in name.removesuffix("fft2").removesuffix("fftn").removesuffix("fft"):
            return (_from_half if inverse else _to_half)(name, a, s, axes, norm)
        return _whole(name, a, s, axes, norm, inverse)

    if one:

        def f(a, n=None, axis=-1, norm=None, out=None):
            refuse_out(name, out)
            return call(a, (n,), (axis,), norm)
    else:

        def f(a, s=None, axes=default, norm=None, out=None):
            refuse_out(name, out)
            axes, s = _axes_and_lengths(name, a, s, axes)
            return call(a, s, axes, norm)

    return implements(getattr(np.fft, name), array=name in ("fftn", "ifftn"))(named(f, name, f"``numpy.fft.{name}``."))


fft, ifft, rfft, irfft = [_transform(n, True) for n in ("fft", "ifft", "rfft", "irfft")]
fft2, ifft2, rfft2, irfft2 = [_transform(n, False, (-2, -1)) for n in ("fft2", "ifft2", "rfft2", "irfft2")]
fftn, ifftn, rfftn, irfftn = [_transform(n, False) for n in ("fftn", "ifftn", "rfftn", "irfftn")]


@implements(np.fft.hfft)
def hfft(a, n=None, axis=-1, norm=None, out=None):
    """``numpy.fft.hfft``: the transform of data with Hermitian symmetry."""
    refuse_out("hfft", out)
    return _from_half("hfft", np.conjugate(as_value(a)), (n,), (axis,), _SWAPPED.get(norm or "backward", norm))


@implements(np.fft.ihfft)
def ihfft(a, n=None, axis=-1, norm=None, out=None):
    """``numpy.fft.ihfft``: the inverse of `hfft`."""
    refuse_out("ihfft", out)
    return np.conjugate(_to_half("ihfft", a, (n,), (axis,), _SWAPPED.get(norm or "backward", norm)))


def _shift(x, axes, sign):
    """Every axis rolled by half its length, rounded down; `sign` -1: back."""
    x = as_value(x)
    axes = tuple(range(np.ndim(x))) if axes is None else (axes,) if isinstance(axes, (int, np.integer)) else tuple(axes)
    return np.roll(x, [sign * (np.shape(x)[a] // 2) for a in axes], axes)


@implements(np.fft.fftshift)
def fftshift(x, axes=None):
    """``numpy.fft.fftshift``: the zero frequency to the middle."""
    return _shift(x, axes, 1)


@implements(np.fft.ifftshift)
def ifftshift(x, axes=None):
    """``numpy.fft.ifftshift``: the inverse of `fftshift`."""
    return _shift(x, axes, -1)
