"""Every function of arrays in every dtype: the result has NumPy's dtype and value, traced eagerly and compiled.

All cases of one function are one program, so that each costs one compilation.
"""

import operator
import warnings

import numpy as np
import pytest
import scipy.special

from triskele import core
from triskele.core.tensor import FUNCTIONS, UFUNCS

DTYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16"]
TOLERANCE = {2: 4e-3, 4: 2e-5, 8: 1e-11}
NUMBERS = (True, 2, 1.5, 1j)


def sample(dtype, shape=(7,)):
    dtype, rng = np.dtype(dtype), np.random.default_rng(3)
    if dtype.kind == "b":
        return rng.random(shape) > 0.4
    if dtype.kind in "iu":
        return rng.integers(-5 if dtype.kind == "i" else 0, 7, shape).astype(dtype)
    x = 2 * rng.normal(size=shape)
    return (x + 1j * rng.normal(size=shape) if dtype.kind == "c" else x).astype(dtype)


def ends(dtype):
    """Both ends of the range of integers; numbers of many magnitudes for floating point."""
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return np.array([1, 0, 1, 1, 0, 0, 1], bool)
    if dtype.kind in "iu":
        low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
        return np.array([high, low, high // 2 + 1, 1, high - 1, low + 1, 5], dtype)
    x = np.array(
        [1.5, -2000, 6e-5, 700, 0, -2.25, 1e-3] if dtype == np.float16 else [1.5, -2e8, 3e-9, 1e7, 0, -2.25, 1e-3]
    )
    return (x + 1j * np.array([0, 1, -1e6, 2, -3, 1e-4, 0.5]) if dtype.kind == "c" else x).astype(dtype)


def difference(got, want, exact=False):
    got, want = np.asarray(got), np.asarray(want)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype}{got.shape}, NumPy {want.dtype}{want.shape}"
    if want.dtype.kind in "biu" or exact:
        same = np.array_equal(got, want, equal_nan=want.dtype.kind not in "biu")
    else:
        tolerance = TOLERANCE[want.real.dtype.itemsize]
        same = np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)
    return "" if same else f"{got.ravel()[:4]}, NumPy {want.ravel()[:4]}"


def label(case):
    return ", ".join(x.dtype.name if isinstance(x, (np.ndarray, np.generic)) else repr(x) for x in case)


def as_tuple(x):
    return tuple(x) if isinstance(x, (tuple, list)) else (x,)


def check(f, cases, refused=(), exact=False):
    """Compare `f` of every case that NumPy takes; Tensors may refuse the dtype kinds in `refused`, and nothing else."""
    taken = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for case in cases:
            try:
                want = as_tuple(f(*case))
            except (TypeError, ValueError, OverflowError, np.exceptions.AxisError):
                continue
            if not any(getattr(x, "dtype", np.dtype(float)).kind in refused for x in case):
                taken.append((case, want))
        arrays = [{k: x for k, x in enumerate(case) if isinstance(x, (np.ndarray, np.generic))} for case, _ in taken]

        def program(arrays):
            return [
                as_tuple(f(*[given.get(k, x) for k, x in enumerate(case)]))
                for (case, _), given in zip(taken, arrays, strict=True)
            ]

        eager = core.vmap(program)([{k: np.asarray(x)[None] for k, x in given.items()} for given in arrays])
        eager = [[np.asarray(x)[0] for x in got] for got in eager]
        compiled = core.jit(program)(arrays)
    wrong = {
        f"{form} {label(case)}: {d}"
        for form, results in (("eager", eager), ("jit", compiled))
        for (case, want), got in zip(taken, results, strict=True)
        for g, w in zip(got, want, strict=True)
        if (d := difference(g, w, exact))
    }
    assert taken and not wrong, "\n".join(sorted(wrong))


SCIPY = {
    name.removeprefix("scipy.special.")
    for name in FUNCTIONS
    if isinstance(name, str) and name.startswith("scipy.special.")
}
ELEMENTWISE = {
    f.__name__: f for f in UFUNCS if isinstance(f, np.ufunc) and f.signature is None and f.__module__ != "scipy.special"
}
ELEMENTWISE |= {
    f"special.{n}": f for n in SCIPY if isinstance(f := getattr(scipy.special, n, None), np.ufunc) and f.nin < 3
}


@pytest.mark.parametrize("name", sorted(ELEMENTWISE))
def test_elementwise(name):
    f = ELEMENTWISE[name]
    dtypes = ["?", "i1", "i8", "u1", "f2", "f4", "f8"] if name.startswith("special.") else DTYPES
    if f.nin == 1:
        cases = [(sample(d),) for d in dtypes]
    else:
        cases = [(sample(a), sample(b)) for a in dtypes for b in dtypes]
        if not name.startswith("special."):
            cases += [pair for d in dtypes for n in NUMBERS for pair in ((sample(d), n), (n, sample(d)))]
    check(lambda *args: f(*args), cases)


@pytest.mark.parametrize(
    "name",
    [
        "add",
        "sub",
        "mul",
        "truediv",
        "floordiv",
        "mod",
        "pow",
        "and_",
        "lshift",
        "lt",
        "eq",
        "neg",
        "pos",
        "abs",
        "invert",
    ],
)
def test_operators(name):
    f = getattr(operator, name)
    unary = name in ("neg", "pos", "abs", "invert")
    arrays = [sample(d) for d in DTYPES] + [sample(d)[0] for d in DTYPES]
    numbers = (True, 0, 1, 2, 3, 5, -1, -2, 0.5, 2.0, 1j)
    cases = (
        [(a,) for a in arrays]
        if unary
        else [(a, n) for a in arrays for n in numbers] + [(n, a) for a in arrays for n in NUMBERS]
    )
    check(f, cases)


REDUCTIONS = [
    "sum", "prod", "mean", "var", "std", "max", "min", "ptp", "any", "all", "argmax", "argmin", "cumsum", "cumprod",
    "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "median", "nanmedian", "count_nonzero",
    "average", "nancumsum", "nancumprod",
]  # fmt: skip
ORDERED = ("max", "min", "ptp", "argmax", "argmin", "nanmax", "nanmin")


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name):
    f = getattr(np, name)
    refused = "c" if name in ORDERED else ""
    check(lambda x: f(x), [(sample(d),) for d in DTYPES] + [(sample(d)[0],) for d in DTYPES], refused)
    check(lambda x: f(x, axis=0), [(sample(d, (3, 4)),) for d in DTYPES], refused)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min"])
def test_initial_values(name):
    f = getattr(np, name)
    initials = (2, 1.5, True, np.float32(2.5), np.int8(3))
    for where in (True, np.arange(7) > 3):
        cases = [(sample(d), n) for d in DTYPES for n in initials]
        check(lambda x, initial, where=where: f(x, initial=initial, where=where), cases, "c" if name in ORDERED else "")
    with pytest.raises(TypeError, match="initial must be real"):
        core.jit(lambda x: f(x, initial=1j))(sample("f8"))


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "var", "std", "cumsum", "cumprod"])
def test_dtype_arguments(name):
    f = getattr(np, name)
    for dtype in ("i1", "i8", "f2", "f4", "f8", "c8"):
        check(lambda x: f(x, dtype=dtype), [(sample(d),) for d in DTYPES])  # noqa: B023


FUNCTIONS_OF_ONE = {
    "angle": np.angle,
    "real": np.real,
    "imag": np.imag,
    "sinc": np.sinc,
    "i0": np.i0,
    "round": np.round,
    "vander": np.vander,
    "cov": np.cov,
    "corrcoef": np.corrcoef,
    "poly": np.poly,
    "modf": np.modf,
    "trapezoid": np.trapezoid,
    "gradient": np.gradient,
    "diff": np.diff,
    "ediff1d": np.ediff1d,
    "unwrap": np.unwrap,
    "nan_to_num": np.nan_to_num,
    "ones_like": np.ones_like,
    "fft": np.fft.fft,
    "rfft": np.fft.rfft,
    "norm": np.linalg.norm,
    "round_to_2": lambda x: np.round(x, 2),
    "clip": lambda x: np.clip(x, 1, 2),
    "clip_from": lambda x: np.clip(x, 1.5, None),
    "percentile": lambda x: np.percentile(x, 30),
    "nanquantile": lambda x: np.nanquantile(x, 0.3),
    "nanpercentile": lambda x: np.nanpercentile(x, 30),
    "where_number": lambda x: np.where(x, x, 2.5),
    "where_bool": lambda x: np.where(x, True, x),
    "convolve": lambda x: np.convolve(x, x[:3]),
    "convolve_same": lambda x: np.convolve(x, x[:4], "same"),
    "correlate": lambda x: np.correlate(x, x[:3], "full"),
    "dot": lambda x: np.dot(x, x),
    "vdot": lambda x: np.vdot(x, x),
    "inner": lambda x: np.inner(x, x),
    "outer": lambda x: np.outer(x, x),
    "kron": lambda x: np.kron(x, x),
    "einsum": lambda x: np.einsum("i,j->ij", x, x),
    "linspace": lambda x: np.linspace(x[0], x[1], 3),
    "logspace": lambda x: np.logspace(0, x[1], 3),
    "geomspace": lambda x: np.geomspace(1.0, np.abs(x[0]) + 1, 3),
    "interp": lambda x: np.interp(x, [0, 1, 2], [3, 4, 5]),
    "average": lambda x: np.average(x, weights=np.arange(7) + 1),
    "weights": lambda x: np.average(np.arange(7), weights=np.real(x) + 9),
    "polyval": lambda x: np.polyval(x, x),
    "concatenate": lambda x: np.concatenate([x, [1.5]]),
    "append": lambda x: np.append(x, 2),
    "full_like": lambda x: np.full_like(x, 2),
    "float_power": lambda x: np.float_power(x, 2),
    "divmod": lambda x: divmod(x, 3),
    "mean_of_truth": lambda x: np.mean(x > 0),
    "solve": lambda x: np.linalg.solve(np.eye(2, dtype=x.dtype), x[:2]),
    "matmul": lambda x: x @ x,
    "sum_of_powers": lambda x: x**3 + x**3,
    "select": lambda x: np.select([x > 0], [x], 5),
    "bitwise_count": lambda x: np.bitwise_count(x),
    "softmax": lambda x: core.scipy.special.softmax(x),
    "sort": np.sort,
    "isin": lambda x: np.isin(x, [1, 2]),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS_OF_ONE))
def test_functions(name):
    check(FUNCTIONS_OF_ONE[name], [(sample(d),) for d in DTYPES], "c" if name == "interp" else "")


ROUNDED = {"nextafter", "nextafter_up", "spacing"}  # results a rounding error away are wrong
ORDER = {"interp_places", "interp_at", "interp_period", "gradient_places"}  # complex numbers have none
AT_ENDS = {
    "interp_table": lambda x: np.interp([-1, 0.5, 1.25, 5.5, 7], np.arange(7), x),
    "interp_places": lambda x: np.interp([-1, 0.5, 2, 100], np.sort(x), np.arange(7)),
    "interp_at": lambda x: np.interp(x, [-1.0, 0.5, 2, 100], [0.5, 3, 4, 5]),
    "interp_one": lambda x: np.interp([0.5, 2], [1], x[:1]),
    "interp_period": lambda x: np.interp(x[3:], np.arange(7), x, period=7),
    "isclose": lambda x: np.isclose(x, x[::-1]),
    "isclose_atol": lambda x: np.isclose(x, x[::-1], atol=2),
    "isclose_one": lambda x: np.isclose(x, x[::-1], rtol=0, atol=1),
    "isclose_rtol": lambda x: np.isclose(x, x[::-1], rtol=0.6, atol=x[3]),
    "isclose_to_number": lambda x: np.isclose(x, 2),
    "isclose_of_number": lambda x: np.isclose(2, x),
    "isclose_nan": lambda x: np.isclose(x, x, equal_nan=True),
    "allclose": lambda x: np.allclose(x[:1], x[4:5], atol=2),
    "gradient_step": lambda x: np.gradient(x, x[3]),
    "gradient_places": lambda x: np.gradient(np.arange(7.0), np.sort(x)),
    "gradient_own": lambda x: np.gradient(x, [0.5, 1, 3, 4, 6, 7, 9]),
    "gradient_whole": lambda x: np.gradient(x, [0, 1, 3, 4, 6, 7, 9], edge_order=2),
    "trapezoid_places": lambda x: np.trapezoid(np.arange(7.0), x),
    "trapezoid_step": lambda x: np.trapezoid(x, dx=0.5),
    "linspace_ends": lambda x: np.linspace(x[0], x[1], 5, endpoint=False),
    "linspace_arrays": lambda x: np.linspace(x, x[::-1], 3),
    "linspace_int": lambda x: np.linspace(x[6], 20, 4, dtype=int),
    "quantile_midpoint": lambda x: np.quantile(x, 0.4, method="midpoint"),
    "quantile_lower": lambda x: np.quantile(x, 0.4, method="lower"),
    "quantile_nearest": lambda x: np.quantile(x, [0.1, 0.4], method="nearest"),
    "median_even": lambda x: np.median(x[:6]),
    "nanmedian": lambda x: np.nanmedian(x),
    "average_weights": lambda x: np.average(np.arange(7), weights=np.abs(x)),
    "average_own": lambda x: np.average(x, weights=x),
    "cov_two": lambda x: np.cov(x, np.arange(7)),
    "var_ddof": lambda x: np.var(x, ddof=1),
    "polyval_half": lambda x: np.polyval(x[3:], 0.5),
    "polyval_two": lambda x: np.polyval([1, 2, 3], x),
    "polyint": np.polyint,
    "polyfit": lambda x: np.polyfit(np.arange(7), x, 2),
    "vander_three": lambda x: np.vander(x, 3),
    "det": lambda x: np.linalg.det(x[3:].reshape(2, 2)),
    "norm_one": lambda x: np.linalg.norm(x, 1),
    "norm_inf": lambda x: np.linalg.norm(x, np.inf),
    "norm_matrix": lambda x: np.linalg.norm(x[:4].reshape(2, 2), 1),
    "digitize": lambda x: np.digitize(x, [0, 1, 2.5, 100]),
    "digitize_in": lambda x: np.digitize([1.0, 300.0], np.sort(x)),
    "histogram": lambda x: np.histogram(x, bins=[0, 1, 2, 100])[0],
    "searchsorted": lambda x: np.searchsorted(np.sort(x), [-1, 300]),
    "searchsorted_in": lambda x: np.searchsorted([0.0, 1.5, 100.0], x),
    "isin_numbers": lambda x: np.isin([-1, 5, 300], x),
    "clip_beyond": lambda x: np.clip(x, -300, 300),
    "clip_fractions": lambda x: np.clip(x, -1.5, 2.5),
    "piecewise": lambda x: np.piecewise(x, [x > 1], [lambda t: t / 2, 0]),
    "unwrap_whole": lambda x: np.unwrap(x, period=5),
    "unwrap_even": lambda x: np.unwrap(x, period=6),
    "ediff1d_to": lambda x: np.ediff1d(x, to_end=3, to_begin=[1, 2]),
    "diff_before": lambda x: np.diff(x, prepend=0),
    "sum_of_floats": lambda x: np.sum(x, dtype=float),
    "ldexp": lambda x: np.ldexp(x, 3),
    "frexp": np.frexp,
    "nextafter": lambda x: np.nextafter(x, x[::-1]),
    "nextafter_up": lambda x: np.nextafter(x, np.array(np.inf, x.dtype)),
    "spacing": np.spacing,
    "heaviside": lambda x: np.heaviside(x, 0.5),
    "hypot": lambda x: np.hypot(x, x[::-1]),
    "arctan2": lambda x: np.arctan2(x, x[::-1]),
    "logaddexp": lambda x: np.logaddexp(x, x[::-1]),
    "divide": lambda x: np.divide(x, x[::-1]),
    "halves": lambda x: x * 0.5,
    "square_root": lambda x: x**0.5,
    "abs": np.abs,
    "mean_rows": lambda x: np.mean(np.stack([x, x]), axis=0),
    "pad_mean": lambda x: np.pad(x, 2, mode="mean"),
    "pad_ramp": lambda x: np.pad(x, 2, mode="linear_ramp"),
    "bincount": lambda x: np.bincount([0, 1, 1, 2, 0, 0, 1], weights=x),
    "round_to_tens": lambda x: np.round(x[[0, 3, 6]] // 2, -1),
    "round_to_hundreds": lambda x: np.round(x[[0, 3, 6]] // 2, -2),
    "rad2deg": np.rad2deg,
    "angle_degrees": lambda x: np.angle(x, deg=True),
}


@pytest.mark.parametrize("name", sorted(AT_ENDS))
def test_ends_of_the_range(name):
    cases = [(ends(d),) for d in DTYPES]
    check(AT_ENDS[name], cases, "c" if name in ORDER else "", exact=name in ROUNDED)


def test_interp_of_unsigned_tables_slopes_down():
    table = np.array([255, 127, 0], np.uint8)
    assert core.grad(lambda x: np.interp(x, np.arange(3.0), table))(0.5) == -128


def test_numbers_in_lists_have_the_dtype_they_have_alone():
    for dtype in DTYPES:
        x = sample(dtype)
        for f in (
            lambda x: np.array([x[0], x[1], 1.0]),
            lambda x: np.array([[x[0], True], [x[1], 2]]),
            lambda x: np.array([x[0], np.float32(2)]),
        ):
            assert not difference(core.jit(f)(x), f(x))


def test_unsigned_and_signed_integers_compare_as_numbers():
    x, y = np.array([0, 5, 2**63, 2**64 - 1], np.uint64), np.array([-1, 5, -(2**63), -1])
    for f in (np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal):
        np.testing.assert_array_equal(core.jit(lambda x, y: (f(x, y), f(y, x)))(x, y), (f(x, y), f(y, x)))  # noqa: B023


def test_integer_convolutions_are_exact():
    x = np.array([2**53 + 1, 3, -(2**40)])
    np.testing.assert_array_equal(core.jit(lambda x: np.convolve(x, x))(x), np.convolve(x, x))
    np.testing.assert_array_equal(core.jit(lambda x: np.correlate(x, x[1:], "full"))(x), np.correlate(x, x[1:], "full"))


def test_mean_of_float16_does_not_overflow():
    assert core.jit(np.mean)(np.full(100_000, 10, np.float16)) == 10


def test_integers_round_to_tens_and_hundreds():
    """Halves to even, in every integer dtype; what exceeds the dtype once rounded is undefined, and left out."""
    numbers = 0, 1, 5, 15, 25, 49, 50, 51, 95, 127, 150, 250, 251, 1050, 12_345, 32_500, 10**6 + 50, 2**53 + 55, 10**18
    cases = []
    for dtype in map(np.dtype, DTYPES[1:9]):
        info = np.iinfo(dtype)
        for decimals in (2, 0, -1, -2, -3, -4, -17, -25):
            fits = [
                n
                for m in (*numbers, info.max)
                for n in (m, -m)
                if info.min <= n <= info.max and info.min <= int(float(round(n, decimals))) <= info.max
            ]
            cases.append((np.array(fits, dtype), decimals))
    check(np.round, cases)
    check(lambda x, decimals: x.round(decimals), cases)
