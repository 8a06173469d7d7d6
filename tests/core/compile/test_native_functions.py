"""Functions of complex numbers, of bits, of integers and special functions in compiled programs."""

import mpmath
import numpy as np
import pytest
import scipy.special

from triskele import core
from triskele.core.testing import check_grads

COMPLEX = [
    np.exp,
    np.exp2,
    np.expm1,
    np.log,
    np.log2,
    np.log10,
    np.sqrt,
    np.sin,
    np.cos,
    np.tan,
    np.sinh,
    np.cosh,
    np.tanh,
    np.arcsin,
    np.arccos,
    np.arctan,
    np.arcsinh,
    np.arccosh,
    np.arctanh,
    np.abs,
    np.rint,
    np.square,
    np.reciprocal,
]


@pytest.fixture
def plane(rng):
    """Numbers of every angle: near 0, near the unit circle and far out."""
    turn = np.exp(1j * rng.uniform(-np.pi, np.pi, 900))
    return np.concatenate([10.0 ** rng.uniform(-8, 2, 600), 1 + 0.01 * rng.normal(size=300)]) * turn


@pytest.mark.parametrize("f", COMPLEX, ids=lambda f: f.__name__)
def test_functions_of_complex_numbers(f, plane, no_python):
    want, short = f(plane), f(plane.astype(np.complex64).astype(complex))
    no_python(f.__name__)
    compiled = core.jit(lambda z: f(z))
    # as in NumPy, the angle of exp2 is rounded
    ulp = 4 + 2 * np.abs(plane) if f is np.exp2 else 4
    np.testing.assert_array_less(np.abs(compiled(plane) - want), ulp * np.finfo(float).eps * np.abs(want) + 1e-300)
    single = np.abs(short) < 1e30
    got = compiled(plane.astype(np.complex64))
    assert got.dtype == (np.float32 if f is np.abs else np.complex64)
    bound = (ulp * np.finfo(np.float32).eps * np.abs(short) + 1e-37)[single]
    assert np.all(np.abs(got - short)[single] <= bound)


def test_log1p_of_small_complex_numbers_keeps_its_digits():
    z = np.array([1e-9 + 1e-8j, -1e-12 + 1e-6j, 1e-20 - 1e-20j, -0.3 + 0.2j])
    with mpmath.workdps(40):
        want = np.array([complex(mpmath.log(1 + mpmath.mpc(v))) for v in z])
    np.testing.assert_allclose(core.jit(np.log1p)(z).real, want.real, rtol=1e-14)
    np.testing.assert_allclose(core.jit(np.log1p)(z).imag, want.imag, rtol=1e-14)


@pytest.mark.parametrize(
    "f", [np.sqrt, np.log, np.arcsin, np.arccos, np.arctanh, np.arctan, np.arccosh], ids=lambda f: f.__name__
)
def test_both_sides_of_branch_cuts(f):
    z = np.array(
        [complex(x, y) for x in (-2.0, 2.0, -0.5, 0.0) for y in (0.0, -0.0)]
        + [complex(0.0, 2.0), complex(-0.0, 2.0), complex(0.0, -2.0)]
    )
    with np.errstate(all="ignore"):
        want = f(z)
    got = core.jit(lambda z: f(z))(z)
    np.testing.assert_allclose(got, want, rtol=1e-15)
    np.testing.assert_array_equal(np.signbit(got.imag), np.signbit(want.imag))


def test_no_overflow_before_the_result_overflows():
    z = np.array([1e200 + 1e200j, 1e-200 + 1e-200j, 3e307 - 2e307j, 1e-310 + 2e-310j, 1e300j])
    for f in (np.abs, np.sqrt, np.log):
        np.testing.assert_allclose(core.jit(lambda z, f=f: f(z))(z), f(z), rtol=1e-15)
    steep = np.array([709.9 + 1.57j, -744 + 1j, 709.8 + 0.9j])
    for f in (np.exp, np.sinh, np.cosh):
        with np.errstate(over="ignore"):
            want = f(steep)
        got = core.jit(lambda z, f=f: f(z))(steep)
        np.testing.assert_allclose(got.real, want.real, rtol=1e-13)
        np.testing.assert_allclose(got.imag, want.imag, rtol=1e-13)


def test_infinity_and_nan_of_complex_square_roots():
    z = np.array([complex(a, b) for a in (np.inf, -np.inf, 1.0, np.nan) for b in (np.inf, -np.inf, 2.0, -2.0)])
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(core.jit(np.sqrt)(z), np.sqrt(z))


def test_complex_powers(rng):
    z, w = (rng.normal(size=200) + 1j * rng.normal(size=200) for _ in range(2))
    np.testing.assert_allclose(core.jit(lambda z, w: z**w)(z, w), z**w, rtol=1e-13)
    for n in (0.0, 1.0, 2.0, 3.0, -2.0, 0.5):
        np.testing.assert_allclose(core.jit(lambda z, w: z**w)(z, np.full(200, n)), z**n, rtol=1e-14)
    zero, exponents = np.zeros(4, complex), np.array([0, 1, 2.5, 1 + 1j])
    np.testing.assert_array_equal(core.jit(lambda z, w: z**w)(zero, exponents), zero**exponents)


def test_gradients_of_complex_functions(rng):
    z = rng.uniform(0.3, 2, 4) + 1j * rng.normal(size=4)
    check_grads(core.jit(lambda z: np.sum(np.abs(np.exp(z) * np.tanh(z) + np.log(z)) ** 2)), (z,))


EDGES = np.array(
    [0.0, -0.0, 1, -1, 5e-324, -5e-324, 1e308, np.inf, -np.inf, np.nan, np.finfo(float).max, 2.2e-308, 3.7]
)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_number_line_as_it_is_stored(dtype, rng):
    with np.errstate(all="ignore"):
        x, y = (a.ravel().astype(dtype) for a in np.meshgrid(EDGES, EDGES))
        n = np.arange(-2300, 2300, 7)
        wide = (rng.normal(size=n.size) * 2.0 ** rng.integers(-1000, 1000, n.size)).astype(dtype)
        for f, args in (
            (np.nextafter, (x, y)),
            (np.spacing, (x,)),
            (np.frexp, (wide,)),
            (np.ldexp, (wide, n)),
            (np.ldexp, (x, np.int8(3))),
        ):
            want, got = f(*args), core.jit(lambda *a, f=f: f(*a))(*args)
            np.testing.assert_array_equal(got, want)
            np.testing.assert_array_equal(np.signbit(np.asarray(got)), np.signbit(np.asarray(want)))


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.int8, np.uint8])
def test_integers(dtype, rng):
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    a, b = (
        np.concatenate([[0, 0, 5, low, low, low, high], rng.integers(low, high, 200, dtype)]).astype(dtype)
        for _ in range(2)
    )
    b[:7] = [0, 7, 0, 0, 1, low, high]
    for f in (np.gcd, np.lcm):
        np.testing.assert_array_equal(core.jit(lambda a, b, f=f: f(a, b))(a, b), f(a, b))
    np.testing.assert_array_equal(core.jit(np.bitwise_count)(a), np.bitwise_count(a))
    n = np.arange(a.size).astype(dtype) % 70
    np.testing.assert_array_equal(core.jit(lambda a, n: a**n)(a, n), a**n)


def test_a_negative_power_of_an_integer_is_an_error():
    with pytest.raises(ValueError, match="negative integer powers"):
        core.jit(lambda x, n: x**n)(np.array([2, 3]), np.array([1, -1]))


def test_logaddexp2():
    x, y = np.array([[0, 1.0], [np.inf, np.inf], [-np.inf, -np.inf], [-np.inf, 3], [5, 5], [1000, 1], [np.nan, 1]]).T
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(core.jit(np.logaddexp2)(x, y), np.logaddexp2(x, y), rtol=1e-15)


# largest error in ulp against mpmath
SPECIAL = [
    (
        "gammaln",
        np.concatenate([np.linspace(0.01, 12, 300), np.geomspace(1e-300, 1e300, 60), 1 + np.linspace(-1e-5, 1e-5, 7)]),
        mpmath.loggamma,
        4,
    ),
    (
        "psi",
        np.concatenate(
            [
                np.linspace(0.01, 12, 300),
                np.geomspace(1e-12, 1e12, 60),
                1.4616321449683622 + np.linspace(-1e-6, 1e-6, 7),
            ]
        ),
        mpmath.digamma,
        4,
    ),
    ("erfinv", np.concatenate([np.linspace(-0.999, 0.999, 101), 1 - np.geomspace(1e-15, 0.1, 30)]), mpmath.erfinv, 4),
]


@pytest.mark.parametrize("name, x, reference, ulp", SPECIAL, ids=[s[0] for s in SPECIAL])
def test_special_functions(name, x, reference, ulp, no_python):
    f = getattr(scipy.special, name)
    narrow = x[np.abs(x) < 1e36]
    short = f(narrow.astype(np.float32).astype(float))
    no_python(name)
    compiled = core.jit(lambda x: f(x))
    with mpmath.workdps(40):
        for value, v in zip(compiled(x), x, strict=True):
            want = mpmath.re(reference(mpmath.mpf(float(v))))
            assert abs(mpmath.mpf(float(value)) - want) <= ulp * np.spacing(abs(float(want))), v
    ok = np.isfinite(short) & (np.abs(short) < 1e38) & (np.abs(short) > 1e-37)
    np.testing.assert_allclose(compiled(narrow.astype(np.float32))[ok], short[ok], rtol=1e-7)


@pytest.mark.parametrize("name", ["gammaln", "psi", "erfinv", "erfcinv", "ndtri"])
def test_special_functions_at_their_ends(name):
    x = np.array([0.0, -0.0, 1, 2, -1, -2, -3.5, np.inf, -np.inf, np.nan, 1e300, 0.5, 171.0, -0.5, 1e-300, 1.5])
    f = getattr(scipy.special, name)
    np.testing.assert_allclose(core.jit(lambda x: f(x))(x), f(x), rtol=1e-14)


def test_gradients_of_special_functions():
    check_grads(
        core.jit(lambda x: np.sum(scipy.special.gammaln(x) + scipy.special.psi(x + 1) ** 2)),
        (np.array([0.3, 1.7, 9.0]),),
    )
    check_grads(
        core.jit(lambda p: np.sum(scipy.special.ndtri(p) * scipy.special.erfinv(p))), (np.array([0.3, 0.6, 0.9]),)
    )


def test_losses():
    d, r = np.meshgrid([0.0, 1.0, -1.0, 2.0, 0.1], [0.0, 1.0, -3.0, 1e-9, 50.0])
    for f in (scipy.special.huber, scipy.special.pseudo_huber):
        np.testing.assert_allclose(core.jit(lambda d, r, f=f: f(d, r))(d, r), f(d, r), rtol=1e-6)
    x = np.array([0.0, 1e-8, 1.0, -3.0, 100.0])
    np.testing.assert_allclose(core.jit(lambda x: scipy.special.cosm1(x))(x), scipy.special.cosm1(x), rtol=1e-14)


def test_inverse_cosines_at_infinity():
    parts = (-np.inf, -1.0, 0.0, 0.7, np.inf, np.nan)
    z = np.array([complex(a, b) for a in parts for b in (-np.inf, -0.3, 0.4, np.inf)])
    for f in (np.arccos, np.arccosh):
        with np.errstate(invalid="ignore"):
            got, want = core.jit(lambda z, f=f: f(z))(z), f(z)
        np.testing.assert_allclose(got.real, want.real, rtol=1e-14)
        np.testing.assert_allclose(got.imag, want.imag, rtol=1e-14)


POINTS = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 4.0, -2e-5, 1e12, np.inf, -np.inf, np.nan]


def grid(dtype):
    """Every pair of `POINTS` as a complex number."""
    parts = np.array(POINTS, np.finfo(dtype).dtype)
    z = np.empty((len(parts), len(parts)), dtype)
    z.real, z.imag = parts[:, None], parts
    return z.ravel()


def assert_same(got, want, zeros=True):
    """Equal to rounding, with the same infinities, NaN and, with `zeros`, signs of zero."""
    assert got.dtype == want.dtype
    tolerance = 1e-10 if want.dtype.itemsize == 16 or want.dtype == float else 1e-4
    for g, w in ((got.real, want.real), (got.imag, want.imag)):
        np.testing.assert_allclose(g, w, rtol=tolerance, atol=1e-36)
        if zeros:
            np.testing.assert_array_equal(np.signbit(g)[w == 0], np.signbit(w)[w == 0])


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("f", [*COMPLEX, np.log1p, np.sign, np.conj, np.negative, np.angle], ids=lambda f: f.__name__)
def test_complex_functions_at_special_values(f, dtype):
    z = grid(dtype)
    with np.errstate(all="ignore"):
        want = f(z)
    assert_same(core.jit(lambda z: f(z))(z), want)


@pytest.mark.parametrize(
    "f", [np.add, np.multiply, np.divide, np.power, np.maximum, np.fmax, np.fmin], ids=lambda f: f.__name__
)
def test_complex_operations_at_special_values(f):
    z, w = (
        a.ravel()
        for a in np.meshgrid(
            grid(complex), [0, 1, 2.5, -1j, 1 + 2j, np.inf, 1j * np.inf, complex(0, np.nan), complex(np.nan, 1)]
        )
    )
    with np.errstate(all="ignore"):
        want = f(z, w)
    assert_same(core.jit(lambda z, w: f(z, w))(z, w), want, zeros=False)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: 2**z,
        lambda z: 2.5**z,
        lambda z: 1j**z,
        lambda z: 2 ** (1j * z),
        lambda z: np.power(3, z),
        lambda z: np.exp(1j * z) * 2**z,
        lambda z: np.logspace(0, z, 3),
        lambda z: scipy.special.xlogy(z, 1j),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_constant_bases_of_complex_powers(f, dtype, rng):
    """A constant argument of a called function is not optimized out of it alone."""
    z = (rng.normal(size=50) + 1j * rng.normal(size=50)).astype(dtype)
    want = f(z)
    np.testing.assert_allclose(core.jit(f)(z), want, rtol=1e-13 if np.dtype(dtype).itemsize == 16 else 1e-5)
    core.jit(core.value_and_grad(lambda z: np.sum(np.abs(f(z)))))(z)
