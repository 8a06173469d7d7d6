"""Derivatives by central differences, and the comparison of a function's derivatives with them."""

import numpy as np

from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import vjp
from triskele.core.transforms.vmap import vmap


def _unit(rng, x):
    """A random direction of `x`'s shape and kind (complex for complex)."""
    d = rng.normal(size=np.shape(x))
    return (d + 1j * rng.normal(size=np.shape(x)) if np.iscomplexobj(x) else d).astype(np.result_type(x))


def _pair(ct, t):
    """The real pairing of a cotangent with a tangent (transposed, not conjugated: `triskele.core`'s convention)."""
    return float(sum(np.real(np.sum(np.asarray(c) * np.asarray(d))) for c, d in zip(ct, t, strict=True)))


def check_derivatives(f, *args, order=2, step=1e-5, rtol=1e-6, seed=0):
    """Compare jvp and vjp of ``f(*args) -> array or tuple of arrays`` with central differences, and with each other.

    With `order` 2 the function ``(x, direction) -> jvp`` and the vjp's pull-back are themselves compared in the same
    way.
    """
    rng = np.random.default_rng(seed)

    def flat(*xs):
        out = f(*xs)
        return tuple(out) if isinstance(out, (tuple, list)) else (out,)

    directions = tuple(_unit(rng, x) for x in args)
    plus = flat(*[x + step * d for x, d in zip(args, directions, strict=True)])
    minus = flat(*[x - step * d for x, d in zip(args, directions, strict=True)])
    expected = [(p - m) / (2 * step) for p, m in zip(plus, minus, strict=True)]
    out, tangents = jvp(flat, args, directions)
    for o, value, t, e in zip(out, flat(*args), tangents, expected, strict=True):
        np.testing.assert_allclose(o, value, rtol=1e-12, atol=1e-13)
        assert np.shape(t) == np.shape(o) and np.result_type(t) == np.result_type(o)
        np.testing.assert_allclose(t, e, rtol=rtol, atol=rtol * (1 + np.max(np.abs(e), initial=0)))
    out, pull = vjp(flat, *args)
    cts = tuple(_unit(rng, o) for o in out)
    found = pull(cts)
    for g, x in zip(found, args, strict=True):
        assert np.shape(g) == np.shape(x) and np.result_type(g) == np.result_type(x)
    ahead, back = _pair(cts, tangents), _pair(found, directions)
    scale = sum(np.sum(np.abs(np.asarray(c) * np.asarray(t))) for c, t in zip(cts, tangents, strict=True))
    np.testing.assert_allclose(back, ahead, rtol=1e-9, atol=1e-9 * (1 + scale))
    if order > 1:
        check_derivatives(
            lambda *xs: jvp(flat, xs, directions)[1], *args, order=order - 1, step=step, rtol=rtol, seed=seed + 1
        )
        check_derivatives(
            lambda *xs: vjp(flat, *xs)[1](cts), *args, order=order - 1, step=step, rtol=rtol, seed=seed + 1
        )


def check_batched(f, *args, size=3, seed=0, rtol=1e-12):
    """Compare ``vmap(f)`` with a loop, for every choice of batched arguments and for batch axes first and last."""
    rng = np.random.default_rng(seed)
    batches = [np.stack([x + 0.01 * _unit(rng, x) for _ in range(size)]) for x in args]
    for mask in range(1, 2 ** len(args)):
        chosen = [bool(mask >> i & 1) for i in range(len(args))]
        expected = [f(*[b[k] if c else x for b, x, c in zip(batches, args, chosen, strict=True)]) for k in range(size)]
        for last in (False, True):
            axes = tuple((np.ndim(x) if last else 0) if c else None for x, c in zip(args, chosen, strict=True))
            inputs = [
                np.moveaxis(b, 0, ax) if c else x for b, x, c, ax in zip(batches, args, chosen, axes, strict=True)
            ]
            got = vmap(f, in_axes=axes)(*inputs)
            if isinstance(got, tuple):
                for g, e in zip(got, zip(*expected, strict=True), strict=True):
                    np.testing.assert_allclose(g, np.stack(e), rtol=rtol, atol=rtol)
            else:
                np.testing.assert_allclose(got, np.stack(expected), rtol=rtol, atol=rtol)
