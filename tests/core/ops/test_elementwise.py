"""Elementwise functions: values and promotion are NumPy's, derivatives are right at special points too."""

import warnings

import numpy as np
import pytest

from tests.twins.traced import assert_as_numpy, assert_same
from triskele.core.compile.jit import jit
from triskele.core.graph.graph import spec_of
from triskele.core.graph.primitive import PRIMITIVES
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.tensor import UFUNCS
from triskele.core.testing import check_grads
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp

NUMPY_UFUNCS = {
    u.__name__: u for u in vars(np).values() if isinstance(u, np.ufunc) and u.signature is None and u is not np.isnat
}
DTYPES = [np.bool_, np.int8, np.uint16, np.int64, np.float32, np.float64, np.complex64, np.complex128]


def outputs(result):
    return list(result) if isinstance(result, tuple) else [result]


def test_every_ufunc_is_traced():
    assert not [name for name, u in NUMPY_UFUNCS.items() if u not in UFUNCS]


@pytest.mark.parametrize("name", sorted(NUMPY_UFUNCS))
def test_promotion_is_numpys(name):
    """Arrays of every dtype, with arrays and with Python numbers: result dtype, or refusal, as NumPy."""
    ufunc = NUMPY_UFUNCS[name]
    partners = (
        [()]
        if ufunc.nin == 1
        else [(np.ones(2, d),) for d in (np.int8, np.float32, np.complex64)] + [(2,), (0.5,), (True,)]
    )
    for dtype in DTYPES:
        for rest in partners:
            args = (np.ones(2, dtype), *rest)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    expected = ufunc(*args)
                except (TypeError, ValueError):  # ValueError: negative integer powers
                    with pytest.raises((TypeError, ValueError)):
                        make_graph(lambda x, rest=rest: outputs(ufunc(x, *rest)), [spec_of(args[0])])
                    continue
                graph, _ = make_graph(lambda x, rest=rest: outputs(ufunc(x, *rest)), [spec_of(args[0])])
                found = evaluate(graph, args[0])
            assert_same(found, outputs(expected), 1e-6, f"{name} of {[spec_of(a) for a in args]}")
            assert [s.dtype for s in graph.out_specs] == [np.result_type(o) for o in found], name


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, np.inf, -np.inf, np.nan])


@pytest.mark.parametrize("name", sorted(NUMPY_UFUNCS))
def test_edge_values_are_numpys(name):
    """Zeros of both signs, infinities and NaN, as seen through a graph."""
    ufunc = NUMPY_UFUNCS[name]
    args = np.meshgrid(*[EDGES] * ufunc.nin) if ufunc.nin > 1 else [EDGES]
    with np.errstate(all="ignore"):
        try:
            expected = ufunc(*args)
        except TypeError:
            return
        graph, _ = make_graph(lambda *xs: outputs(ufunc(*xs)), [spec_of(a) for a in args])
        found = evaluate(graph, *args)
    for a, b in zip(found, outputs(expected)):
        np.testing.assert_array_equal(a, b)
        if b.dtype.kind == "f":
            np.testing.assert_array_equal(np.signbit(a)[~np.isnan(b)], np.signbit(b)[~np.isnan(b)])


COMPOSED = {
    "sinc": np.sinc,
    "clip": lambda x: np.clip(x, -0.5, 1.0),
    "clip_one": lambda x: x.clip(max=0.3),
    "nan_to_num": lambda x: np.nan_to_num(x),
    "round": lambda x: (x.round(2), np.around(x, 1)),
    "round_tens": lambda x: np.round(10 * x, -1),
    "fix": np.fix,
    "modf": np.modf,
    "frexp": np.frexp,
    "divmod": lambda x: divmod(x, 0.3),
    "rdivmod": lambda x: divmod(2.0, x),
    "angle": lambda x: np.angle(x + 1j, deg=True),
    "where": lambda x: np.where(x > 0, x, 2 * x),
    "isclose": lambda x: np.isclose(x, x.round(8)),
    "real": lambda x: (x.real, x.imag, np.conj(x)),
    "isreal": lambda x: (np.isreal(x), np.iscomplex(x + 1j), np.isposinf(x), np.isneginf(x)),
    "abs": abs,
    "pos": lambda x: +x,
    "shift": lambda x: (np.sign(x).astype(int) << 3) >> 1,
    "unwrap": lambda x: np.unwrap(5 * x, axis=1),
    "i0": np.i0,
    "select": lambda x: np.select([x > 0.5, x > 0], [x, 2 * x], -1.0),
    "astype": lambda x: x.astype(np.float32) * x.astype(int),
    "piecewise": lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda t: -t, lambda t: t**2]),
    "ufunc_dtype": lambda x: np.add(x, 1, dtype=np.complex64),
    "matmul_free_power": lambda x: (x**2, x**-1, x**0, x**1, 2.0**x, np.abs(x) ** 2.5, np.square(x), np.reciprocal(x)),
}


@pytest.mark.parametrize("name", COMPOSED)
def test_composed(name, rng):
    smooth = name not in ("ufunc_dtype", "unwrap", "astype", "round", "round_tens", "rdivmod")
    x = rng.permutation(np.linspace(-2.037, 2.263, 12)).reshape(3, 4)  # away from kinks and steps
    assert_as_numpy(COMPOSED[name], x, rtol=1e-6 if name == "ufunc_dtype" else 1e-14, grads=smooth)


# -- derivatives at special points
# ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, x, slope",
    [
        (np.abs, 0.0, 0),
        (np.abs, -2.0, -1),
        (np.fabs, 0.0, 0),
        (lambda x: np.maximum(x, 0.0), 0.0, 0.5),
        (lambda x: np.minimum(x, x), 1.0, 1),
        (lambda x: np.fmax(x, np.nan), 1.0, 1),
        (lambda x: np.hypot(x, 0.0), 0.0, 0),
        (lambda x: np.arctan2(x, 0.0), 0.0, 0),
        (lambda x: np.arctan2(0.0, x), 0.0, 0),
        (lambda x: x**2.0, 0.0, 0),
        (lambda x: x**1.0, 0.0, 1),
        (lambda x: np.power(x, 0.0), 0.0, 0),
        (lambda x: np.power(0.0, x), 2.0, 0),
        (lambda x: x**3, 0.0, 0),
        (np.sinc, 0.0, 0),
        (lambda x: np.floor(x) * x, 2.5, 2),
        (np.sign, 0.0, 0),
        (lambda x: np.where(x > 0, np.sqrt(x), 0.0), 0.0, 0),
        (lambda x: np.where(x > 0, np.log(x), 0.0), 0.0, 0),
        (lambda x: np.logaddexp(x, -np.inf), 1.0, 1),
        (lambda x: np.clip(x, 0.0, 1.0), 2.0, 0),
        (lambda x: np.angle(x + 0j), 0.0, 0),
        (lambda x: np.mod(x, 2.0), 5.0, 1),
        (lambda x: np.mod(5.0, x), 2.0, -2),
        (lambda x: np.nan_to_num(x), np.nan, 0),
    ],
)
def test_slopes_at_special_points(f, x, slope):
    with np.errstate(all="ignore"):  # NumPy's own log(0)
        assert grad(f)(x) == slope
        assert jvp(f, (x,), (1.0,))[1] == slope
        assert jit(grad(f))(x) == slope


def test_second_derivatives_at_special_points():
    assert grad(grad(np.sinc))(0.0) == pytest.approx(-(np.pi**2) / 3)
    assert grad(grad(lambda x: np.where(x > -1, x * x, 0.0)))(0.0) == 2
    assert grad(grad(lambda x: x**2.0))(0.0) == 2
    assert grad(grad(grad(lambda x: np.power(x, 3))))(0.0) == 6


def test_nearest_sinc_to_its_formula():
    """The series near 0 and the quotient beyond meet to the last digits."""
    x = np.linspace(-0.4, 0.4, 101)
    assert_same(vjp(np.sinc, x)[0], np.sinc(x), 4e-16, "sinc")
    check_grads(np.sinc, (x,), order=3)


# -- complex numbers: grad of a real f is df/dx - i df/dy; holomorphic ones have f'(z)
# ---------------------------------------------


@pytest.mark.parametrize(
    "f, z, expected",
    [
        (np.abs, 3 + 4j, 0.6 - 0.8j),
        (np.real, 1 + 2j, 1),
        (np.imag, 1 + 2j, -1j),
        (lambda z: np.abs(z) ** 2, 1 + 2j, 2 - 4j),
        (lambda z: np.real(z * z), 1 + 2j, 2 + 4j),
        (lambda z: np.real(np.conj(z) * (2 + 1j)), 1 + 2j, 2 - 1j),
        (np.abs, 0j, 0),
    ],
)
def test_gradients_of_complex_numbers(f, z, expected):
    assert grad(f)(z) == pytest.approx(expected)


@pytest.mark.parametrize(
    "f, slope",
    [
        (np.exp, np.exp),
        (np.sin, np.cos),
        (np.square, lambda z: 2 * z),
        (np.log, lambda z: 1 / z),
        (np.arctan, lambda z: 1 / (1 + z * z)),
    ],
)
def test_holomorphic_functions(f, slope):
    z = np.array([0.3 + 0.5j, -0.2 + 1.1j])
    assert_same(vjp(f, z)[1](np.ones(2, complex))[0], slope(z), 1e-14, "vjp")
    assert_same(jvp(f, (z,), (np.full(2, 1j),))[1], 1j * slope(z), 1e-14, "jvp")


@pytest.mark.parametrize(
    "f",
    [
        lambda z: z * np.conj(z),
        lambda z: np.sign(z),
        lambda z: np.angle(z),
        lambda z: np.real(z) + 1j * np.imag(z) ** 2,
        np.abs,
        lambda z: np.nan_to_num(z),
        lambda z: np.sqrt(z) ** 3,
        lambda z: z**2.5,
        lambda z: 2.0**z,
        lambda z: z / np.abs(z),
    ],
)
def test_functions_of_complex_numbers(f, rng):
    z = np.array([0.6 + 0.3j, -0.7 + 0.5j, 0.4 - 0.9j, -0.5 - 0.6j])  # away from the cut along the negative axis
    assert_as_numpy(f, z)
    check_grads(f, (z,), order=2)


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda x: x + np.ones(4), ValueError, r"operands could not be broadcast together with shapes \(3,\) \(4,\)"),
        (lambda x: np.add(x, 1, where=x > 0), TypeError, "np.where"),
        (lambda x: np.add(x, 1, out=np.zeros(3)), TypeError, "plain ndarray"),
        (lambda x: x + None, TypeError, "unsupported operand"),
        (lambda x: x & 1, TypeError, "not supported for the input types"),
        (lambda x: x.astype(int, casting="safe"), TypeError, "Cannot cast"),
        (lambda x: np.where(x > 0, x), ValueError, "either both or neither"),
        (lambda x: np.real_if_close(x + 1j), TypeError, "np.real"),
    ],
)
def test_errors(f, error, message):
    with pytest.raises(error, match=message):
        vjp(f, np.ones(3))


def test_lists_of_traced_values_beside_traced_arrays():
    f = lambda x: (x[:2] + [x[2], 1.0], np.where(x > 0, [x[0], 0.0, x[1]], x), x[[np.argmax(x), 0]])
    x = np.array([0.5, -1.0, 2.0])
    for found in (vjp(f, x)[0], jit(f)(x)):
        assert_same(found, f(x), 0, "lists")


def test_names_of_primitives_are_those_of_ufuncs():
    """What profiles and error messages show can be looked up in NumPy."""
    for name in ("add", "exp", "arctan2", "logaddexp", "copysign", "isnan"):
        assert PRIMITIVES[name].impl is not None and hasattr(np, name)
