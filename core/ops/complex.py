"""Parts of complex numbers. Cotangents are transposed, not conjugated (see transforms.grad)."""

from __future__ import annotations

import numpy as np

from ..graph.graph import spec_of
from ..graph.trace import bind, view
from ..tensor import Tensor, implements
from ..views import is_scalar
from .define import ONE, as_value, elementwise

__all__ = ["complex_dtype", "join_parts", "real_dtype"]


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the parts of complex numbers of `dtype`; real dtypes are their own."""
    return dtype if dtype.kind != "c" else np.dtype(f"f{dtype.itemsize // 2}")


def complex_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of complex numbers with parts of `dtype`."""
    return np.result_type(dtype, np.complex64)


def _part_loop(x):
    return x.dtype, real_dtype(x.dtype)


# the gradient of the imaginary part of x + iy is -i (df/dx - i df/dy), and tangents keep the real part of the product
_real = elementwise("real", impl=np.real, loop=_part_loop, d=(ONE,), emit="real")
_imag = elementwise("imag", impl=np.imag, loop=_part_loop, d=(lambda out, x: -1j,), emit="imag")
conjugate = elementwise("conjugate", np.conjugate, d=(ONE,), emit="conj")
conjugate.primitive.defvjp(lambda ct, out, x: np.conjugate(ct))
conjugate.primitive.defjvp(lambda t, out, x: np.conjugate(t))


def _join_loop(x, y):
    if "c" in (x.dtype.kind, y.dtype.kind):
        raise TypeError(f"complex: the parts must be real, got {x} and {y}")
    part = np.result_type(x.dtype, y.dtype, np.float32 if {x.dtype.itemsize, y.dtype.itemsize} == {4} else np.float64)
    return part, part, complex_dtype(part)


def _join(x, y):
    dtype = complex_dtype(_join_loop(spec_of(x), spec_of(y))[0])
    out = np.empty(np.broadcast_shapes(np.shape(x), np.shape(y)), dtype)
    out.real, out.imag = x, y
    return out[()]


join_parts = elementwise(
    "complex",
    impl=_join,
    loop=_join_loop,
    d=(ONE, lambda out, x, y: 1j),
    emit="complex",
    domain=((-2, 2), (-2, 2)),
    doc="The complex number with real part `x` and imaginary part `y`.",
)

for _p in (_real.primitive, _imag.primitive, conjugate.primitive):
    _p.samples = lambda rng: [((rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3)),), {})]


def _with_part(x, parts):
    """The complex numbers with these parts, in the dtype of `x`."""
    new = join_parts(*parts)
    return new if new.dtype == x.dtype else new.astype(x.dtype)


_real.primitive.defview(lambda x, new: _with_part(x, (new, _imag(x))))
_imag.primitive.defview(lambda x, new: _with_part(x, (_real(x), new)))


def _part_view(p, x):
    return view(p, x) if np.ndim(x) else bind(p, x)


@implements(np.real, view=True)
def real(val):
    """``numpy.real``."""
    val = as_value(val)
    return _part_view(_real.primitive, val) if np.result_type(val).kind == "c" else val


@implements(np.imag, view=True)
def imag(val):
    """``numpy.imag``."""
    val = as_value(val)
    if np.result_type(val).kind == "c":
        return _part_view(_imag.primitive, val)
    zeros = np.broadcast_to(np.zeros_like(val), np.shape(val))  # read-only
    return zeros[()] if is_scalar(val) else zeros


def _set_part(part):
    def assign(x, value):
        if x.dtype.kind != "c" and part is imag:
            raise TypeError("array does not have imaginary part to set")
        part(x)[...] = value

    return assign


Tensor.real = property(real, _set_part(real))  # type: ignore[attr-defined]
Tensor.imag = property(imag, _set_part(imag))  # type: ignore[attr-defined]
for _name in ("conj", "conjugate"):
    implements(method=_name, view=True)(lambda x: np.conjugate(x) if x.dtype.kind == "c" else x)


@implements(np.angle)
def angle(z, deg=False):
    """``numpy.angle``; its derivative at 0 is 0."""
    z = as_value(z)
    found = np.arctan2(np.imag(z) if np.result_type(z).kind == "c" else 0, np.real(z))
    return np.rad2deg(found) if deg else found


@implements(np.iscomplex)
def iscomplex(x):
    """``numpy.iscomplex``: elementwise."""
    return np.not_equal(np.imag(x), 0)


@implements(np.isreal)
def isreal(x):
    """``numpy.isreal``: elementwise."""
    return np.equal(np.imag(x), 0)


@implements(np.real_if_close, view=True, array=True)
def real_if_close(a, tol=100):
    """``numpy.real_if_close`` would have a dtype that depends on values: refused."""
    if np.result_type(a).kind != "c":
        return a
    raise TypeError("real_if_close: the result's dtype would depend on traced values (use np.real)")
