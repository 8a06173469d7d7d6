"""Reductions and running totals against NumPy in every way of tracing, with derivatives where they are delicate."""

import numpy as np
import pytest

from tests.twins.traced import assert_as_numpy, assert_same
from triskele.core.compile.jit import jit
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.testing import check_grads
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.vmap import vmap

REDUCTIONS = [np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std, np.ptp, np.any, np.all, np.argmax, np.argmin,
              np.count_nonzero, np.average,
              np.median, np.amax, np.amin]  # fmt: skip
NAN_REDUCTIONS = [
    np.nansum,
    np.nanprod,
    np.nanmax,
    np.nanmin,
    np.nanmean,
    np.nanvar,
    np.nanstd,
    np.nanmedian,
    np.nanargmax,
    np.nanargmin,
]


@pytest.mark.parametrize(
    "f, axis",
    [
        (f, axis)
        for f in REDUCTIONS + NAN_REDUCTIONS
        for axis in (None, 0, -1, (0, 2))
        if axis != (0, 2) or "arg" not in f.__name__
    ],
    ids=lambda v: getattr(v, "__name__", str(v)),
)
def test_as_numpy(f, axis, rng):
    x = rng.normal(size=(3, 4, 2))
    for keepdims in (False, True):
        assert_as_numpy(lambda x, keepdims=keepdims: f(x, axis=axis, keepdims=keepdims), x, grads=not keepdims)
    if f in NAN_REDUCTIONS:
        x[0, 1, 1] = x[2, 0, 0] = np.nan
        assert_as_numpy(lambda x: f(x, axis=axis), x, grads=False)


@pytest.mark.parametrize(
    "dtype", [np.bool_, np.int8, np.uint32, np.int64, np.float32, np.complex64], ids=lambda d: d.__name__
)
def test_result_types(dtype, rng):
    x = (rng.normal(size=(3, 4)) * 3).astype(dtype)
    ordered = x.dtype.kind != "c"

    def f(x):
        out = [
            np.sum(x),
            np.prod(x, axis=0),
            np.mean(x),
            np.var(x, axis=1),
            np.std(x),
            np.any(x),
            np.all(x, axis=0),
            np.cumsum(x, axis=0),
            np.cumprod(x),
            np.sum(x, dtype=np.float32 if ordered else np.complex64),
            np.mean(x, dtype=np.complex128),
            np.count_nonzero(x),
        ]
        return out + [np.max(x), np.min(x, axis=0), np.argmax(x), np.sort(x), np.median(x)] if ordered else out

    graph, _ = make_graph(f, [spec_of(x)])
    assert_same(evaluate(graph, x), f(x), 1e-5, "in a graph")
    assert [s.dtype for s in graph.out_specs] == [np.result_type(o) for o in f(x)]


CASES = {
    "sum_where": lambda x: np.sum(x, axis=0, where=np.arange(4) % 2 == 0, initial=2.0),
    "prod_where": lambda x: np.prod(x, where=np.arange(4) != 1),
    "max_where": lambda x: np.max(x, axis=1, where=np.arange(4) != 1, initial=-9.0),
    "min_initial": lambda x: x.min(initial=-1.0),
    "mean_where": lambda x: np.mean(x, axis=0, where=np.arange(12).reshape(3, 4) != 5),
    "var_ddof": lambda x: np.var(x, axis=0, ddof=1),
    "var_correction": lambda x: np.var(x, correction=1),
    "std_where": lambda x: x.std(where=np.arange(4) < 3),
    "any_where": lambda x: np.any(x > 1, where=x < 1.5),
    "average_weights": lambda x: np.average(x, axis=1, weights=x[0] ** 2 + 1, returned=True),
    "average_full": lambda x: np.average(x, weights=x**2),
    "add_reduce": lambda x: np.add.reduce(x),
    "multiply_reduce": lambda x: np.multiply.reduce(x, axis=1, keepdims=True),
    "maximum_reduce": lambda x: np.maximum.reduce(x, axis=None),
    "logical_or_reduce": lambda x: np.logical_or.reduce(x > 2, axis=1),
    "outer": lambda x: np.multiply.outer(x[0], x[:, 0]),
    "no_axes": lambda x: np.sum(x, axis=()),
    "cumsum": lambda x: np.cumsum(x),
    "cumsum_axis": lambda x: x.cumsum(axis=-1),
    "cumprod": lambda x: np.cumprod(x, axis=0),
    "add_accumulate": lambda x: np.add.accumulate(x),
    "maximum_accumulate": lambda x: np.maximum.accumulate(x, axis=1),
    "minimum_accumulate": lambda x: np.minimum.accumulate(x),
    "cumulative_sum": lambda x: np.cumulative_sum(x, axis=1, include_initial=True),
    "cumulative_prod": lambda x: np.cumulative_prod(x, axis=0),
    "nancumsum": lambda x: np.nancumsum(x, axis=0),
    "nancumprod": lambda x: np.nancumprod(x),
    "diff": lambda x: np.diff(x, n=2),
    "diff_ends": lambda x: np.diff(x, axis=0, prepend=0.0, append=x[:1]),
    "ediff1d": lambda x: np.ediff1d(x, to_begin=1.0, to_end=[3.0]),
    "trapezoid": lambda x: np.trapezoid(x, dx=0.2, axis=0),
    "trapezoid_x": lambda x: np.trapezoid(x, [0.0, 1.0, 3.0, 3.5]),
    "gradient": lambda x: np.gradient(x),
    "gradient_2": lambda x: np.gradient(x, 0.3, axis=1, edge_order=2),
    "gradient_uneven": lambda x: np.gradient(x, np.array([0.0, 1.0, 3.0, 3.5]), axis=1, edge_order=2),
    "gradient_uneven_1": lambda x: np.gradient(x, [0.0, 1.0, 3.0], axis=0),
    "cov": lambda x: np.cov(x),
    "cov_columns": lambda x: np.cov(x, rowvar=False, bias=True),
    "cov_two": lambda x: np.cov(x[0], x[1]),
    "cov_weights": lambda x: np.cov(x, aweights=np.arange(1.0, 5)),
    "cov_frequencies": lambda x: np.cov(x, fweights=np.arange(1, 5)),
    "corrcoef": lambda x: np.corrcoef(x),
    "ptp": lambda x: np.ptp(x, axis=0),
    "vecdot": lambda x: np.vecdot(x, x + 1),
    "allclose": lambda x: (np.allclose(x, x), np.array_equal(x, x), np.array_equiv(x, x[:1])),
}


@pytest.mark.parametrize("name", CASES)
def test_further_forms(name, rng):
    assert_as_numpy(CASES[name], rng.normal(size=(3, 4)), batch=name != "allclose")


# -- derivatives where a formula would divide by zero, or has a choice
# -------------------------------------------------------


@pytest.mark.parametrize(
    "x", [[2.0, 3.0, 0.5], [2.0, 0.0, 0.5, 1.5, 3.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0], [3.0], [0.0]], ids=str
)
@pytest.mark.parametrize(
    "f", [np.prod, np.cumprod, lambda x: np.prod(np.stack([x, 1 - x]), axis=1)], ids=["prod", "cumprod", "prod_axis"]
)
def test_products_with_zeros_to_third_order(f, x):
    check_grads(f, (np.array(x),), order=3)


def test_product_of_many_axes_with_zeros(rng):
    x = rng.normal(size=(3, 2, 4))
    x[0, 1, 2] = x[1] = 0
    check_grads(lambda x: np.prod(x, axis=(0, 2)), (x,), order=2)
    check_grads(lambda x: np.cumprod(x, axis=2), (x,), order=2)


def test_ties_share_the_derivative():
    x = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    assert grad(lambda x: np.sum(np.max(x, axis=1)))(x).tolist() == [[0, 0.5, 0.5], [1 / 3] * 3]
    assert grad(np.min)(x).tolist() == [[1, 0, 0], [0, 0, 0]]
    assert jvp(lambda x: np.max(x, axis=1), (x,), (np.array([[9.0, 1, 2], [1, 2, 3]]),))[1].tolist() == [1.5, 2]


def test_compiled_slopes_of_extremes_that_rounding_could_hide():
    """The elements are products and sums, which two loops may round differently."""

    def rows(w, b, x):
        return np.sum(vmap(lambda z: np.max(z[None], axis=-1)[0])(x @ w + b))

    def both(w, b, x):
        z = x[:, :1] * w[0] + b * x[:, 1:]
        return np.max(z) - np.min(z)

    for f in (rows, both):
        slopes = grad(f, argnums=(0, 1))
        compiled = jit(slopes)
        for seed in range(40):
            rng = np.random.default_rng(seed)
            args = rng.normal(size=(2, 3)), rng.normal(size=3), rng.normal(size=(30, 2))
            for found, expected in zip(compiled(*args), slopes(*args), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_nan_leaves_no_trace_where_it_is_left_out():
    x = np.array([1.0, np.nan, 3.0])
    assert grad(np.nansum)(x).tolist() == [1, 0, 1]
    assert grad(np.nanmean)(x).tolist() == [0.5, 0, 0.5]
    assert grad(np.nanmax)(x).tolist() == [0, 0, 1]
    assert np.isnan(vjp(np.max, x)[0])


def test_running_extremes_of_equal_elements(rng):
    x = np.array([1.0, 3.0, 3.0, 2.0, 5.0])
    assert vjp(np.maximum.accumulate, x)[1](np.ones(5))[0].sum() == 5
    assert jit(np.maximum.accumulate)(x).tolist() == [1, 3, 3, 3, 5]


@pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0)])
def test_empty_arrays(shape):
    x = np.zeros(shape)
    assert_as_numpy(
        lambda x: (np.sum(x), np.prod(x, axis=0), np.any(x), np.all(x, axis=-1), np.cumsum(x), np.cumprod(x, axis=0)),
        x,
        grads=False,
    )
    assert grad(np.sum)(x).shape == grad(np.prod)(x).shape == shape


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda x: np.max(x[:0]), ValueError, "zero-size array to reduction operation maximum which has no identity"),
        (lambda x: np.argmin(x[:0]), ValueError, "attempt to get argmin of an empty sequence"),
        (lambda x: np.sum(x, axis=2), np.exceptions.AxisError, "axis 2 is out of bounds for array of dimension 2"),
        (lambda x: np.sum(x, axis=(0, 0)), ValueError, "duplicate"),
        (lambda x: np.max(x, where=x > 0), ValueError, "initial"),
        (lambda x: np.average(x, weights=np.ones(2)), TypeError, "Axis must be specified"),
        (lambda x: np.cumsum(x, axis=5), np.exceptions.AxisError, "axis 5"),
        (lambda x: np.cumulative_sum(x), ValueError, "axis"),
        (lambda x: np.diff(x, n=-1), ValueError, "non-negative"),
        (lambda x: np.gradient(x[:1], axis=0), ValueError, "too small"),
    ],
)
def test_errors_are_numpys(f, error, message):
    x = np.ones((3, 4))
    with pytest.raises(error):
        f(x)
    with pytest.raises(error, match=message):
        vjp(f, x)


@pytest.mark.parametrize("f", [np.max, np.min])
def test_empty_extremes_take_the_initial_value(f):
    x = np.zeros((0, 3), np.float32)
    for options in ({"axis": 0}, {"axis": 0, "keepdims": True}, {}):
        assert_as_numpy(lambda x, options=options: f(x, initial=2.5, **options), x, grads=False, batch=False)


def test_deviation_of_equal_elements_has_a_derivative():
    assert grad(np.std)(np.ones(3)).tolist() == [0, 0, 0]
    assert grad(lambda x: np.std(x[:1]))(np.ones(3)).tolist() == [0, 0, 0]
    assert vjp(lambda x: np.std(x, axis=1), np.ones((2, 3)))[1](np.ones(2))[0].tolist() == [[0] * 3] * 2
