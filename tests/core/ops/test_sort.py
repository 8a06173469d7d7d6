"""Sorting, searching, order statistics and counting against NumPy."""

import numpy as np
import pytest

from tests.twins.traced import assert_as_numpy, assert_same
from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.ops.sort import top_k
from triskele.core.testing import check_grads
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.jacobian import hessian
from triskele.core.transforms.vmap import vmap

TABLE = np.array([-1.1, -0.3, 0.4, 1.2])
PLACES = np.array([3, 0, 1, 1, 3, 0, 2, 3])

CASES = {
    "sort": lambda x: np.sort(x),
    "sort_axis": lambda x: np.sort(x, axis=0),
    "sort_flat": lambda x: np.sort(x, axis=None),
    "argsort": lambda x: np.argsort(x, axis=0),
    "argsort_method": lambda x: x.argsort(stable=True),
    "lexsort": lambda x: np.lexsort((x, np.round(x))),
    "partition": lambda x: np.partition(np.sort(x), 2),
    "median": lambda x: np.median(x),
    "median_axis": lambda x: np.median(x, axis=1, keepdims=True),
    "quantile": lambda x: np.quantile(x, [0.1, 0.5], axis=0),
    "quantile_axes": lambda x: np.quantile(x, 0.3, axis=(0, 1), keepdims=True),
    "percentile": lambda x: np.percentile(x, 30, axis=1, method="lower"),
    **{
        f"quantile_{m}": lambda x, m=m: np.quantile(x, [[0.2], [0.7]], axis=1, method=m)
        for m in (
            "hazen",
            "weibull",
            "median_unbiased",
            "normal_unbiased",
            "interpolated_inverted_cdf",
            "higher",
            "midpoint",
            "nearest",
        )
    },
    "nanmedian": lambda x: np.nanmedian(np.where(x > 1, np.nan, x), axis=1),
    "nanquantile": lambda x: np.nanquantile(np.where(x > 1, np.nan, x), [0.2, 0.4], axis=0),
    "searchsorted": lambda x: np.searchsorted(TABLE, x),
    "searchsorted_right": lambda x: np.sort(x[0]).searchsorted(x[1], side="right"),
    "searchsorted_sorter": lambda x: np.searchsorted(x[0], x[1], sorter=np.argsort(x[0])),
    "digitize": lambda x: np.digitize(x, TABLE),
    "digitize_falling": lambda x: np.digitize(x, TABLE[::-1], right=True),
    "isin": lambda x: np.isin(x, x[0, :2], invert=True),
    "bincount": lambda x: np.bincount(PLACES, x.ravel()[:8], minlength=6),
    "histogram": lambda x: np.histogram(x, 5, (-1, 1)),
    "histogram_weights": lambda x: np.histogram(x, TABLE, weights=x * x, density=True),
    "interp": lambda x: np.interp(x, TABLE, [1.0, 2.0, 0.0, 5.0]),
    "interp_ends": lambda x: np.interp(x, TABLE, [1.0, 2.0, 0.0, 5.0], left=-9.0, right=7.0),
    "interp_values": lambda x: np.interp([-2.0, 0.1, 0.7], TABLE, x[0, :4]),
    "interp_period": lambda x: np.interp(x, [0.1, 0.9, 0.3], [1.0, 2.0, 5.0], period=1.0),
    "take": lambda x: np.take(x, [3, 7]),
    "take_axis": lambda x: x.take(PLACES.reshape(2, 4), axis=1),
    "take_wrap": lambda x: np.take(x, [7, -9], axis=1, mode="wrap"),
    "take_clip": lambda x: np.take(x, [7, -9], axis=1, mode="clip"),
    "take_along_axis": lambda x: np.take_along_axis(x, PLACES.reshape(4, 2), axis=1),
    "take_along_flat": lambda x: np.take_along_axis(x, PLACES, axis=None),
    "choose": lambda x: np.choose(PLACES[:5] % 4, x),
    "compress": lambda x: np.compress([True, False, True], x, axis=1),
    "compress_method": lambda x: x.compress([False, True]),
    "extract": lambda x: np.extract(np.eye(4, 5) > 0, x),
    "ravel_multi_index": lambda x: np.ravel_multi_index((np.argmax(x, axis=0), np.arange(5)), x.shape),
    "unravel_index": lambda x: np.unravel_index(np.argmax(x), x.shape),
    "top_k": lambda x: top_k(x, 2, axis=0),
    "convolve": lambda x: [np.convolve(x[0], x[1, :3], m) for m in ("full", "same", "valid")],
    "correlate": lambda x: [np.correlate(x[0, :2], x[1], m) for m in ("full", "same", "valid")],
    "correlate_complex": lambda x: np.correlate(x[0], x[1, :2] + 1j * x[2, :2], "same"),
    "polynomials": lambda x: (
        np.polyval(x[0], x),
        np.polyder(x[0], 2),
        np.polyint(x[0], 2, [1.0, 2.0]),
        np.polyadd(x[0], x[1, :2]),
        np.polysub(x[0], x[1]),
        np.polymul(x[0], x[1]),
        np.poly(x[0]),
    ),
}
NOT_SMOOTH = {"quantile_higher", "quantile_nearest", "isin"}


@pytest.mark.parametrize("name", CASES)
def test_as_numpy(name, rng):
    assert_as_numpy(
        CASES[name], rng.permutation(np.linspace(-1.63, 1.71, 20)).reshape(4, 5), grads=name not in NOT_SMOOTH
    )


@pytest.mark.parametrize(
    "f",
    [
        np.unique,
        np.nonzero,
        np.argwhere,
        np.flatnonzero,
        lambda x: np.where(x > 0),
        lambda x: x[x > 0],
        lambda x: np.unique_counts(x).counts,
    ],
    ids=["unique", "nonzero", "argwhere", "flatnonzero", "where", "mask", "unique_counts"],
)
def test_shapes_that_depend_on_values_need_values(f, rng):
    x = rng.integers(-2, 3, (3, 4)).astype(float)
    assert_same(vjp(lambda x: tuple(np.atleast_1d(f(x))), x)[0], tuple(np.atleast_1d(f(x))), 0, "on a tape")
    with pytest.raises(TracerError, match=r"np\.where|compare neighbors"):
        jit(f)(x)


def test_sorting_is_stable_and_its_derivative_follows_the_elements():
    x = np.array([2.0, 1.0, 2.0, 0.0])
    assert vjp(np.argsort, x)[0].tolist() == [3, 1, 0, 2]
    assert grad(lambda x: np.sum(np.sort(x) * np.arange(4.0)))(x).tolist() == [2, 1, 3, 0]
    check_grads(lambda x: np.sort(x) ** 2, (np.array([0.3, -1.0, 0.7]),), order=2)


def test_sort_in_place():
    def f(x):
        x = x.copy()
        x.sort(axis=0)
        return x

    assert_as_numpy(f, np.array([[3.0, 1.0], [2.0, 5.0]]))


def test_top_k_takes_the_first_of_equal_elements():
    values, places = top_k(np.array([1.0, 3.0, 2.0, 3.0]), 2)
    assert values.tolist() == [3, 3] and places.tolist() == [1, 3]
    with pytest.raises(ValueError, match=r"k must lie in 0 \.\.\. 4, the size of axis 0"):
        top_k(np.ones(4), 5)


def test_nan_spoils_a_quantile_and_sorts_last():
    x = np.array([[1.0, np.nan, 3.0], [1.0, 2.0, 3.0]])
    assert_as_numpy(lambda x: (np.median(x, axis=1), np.sort(x), np.argsort(x)), x, grads=False)


def test_table_of_its_own_for_each_example(rng):
    tables, x = np.sort(rng.normal(size=(3, 4))), rng.normal(size=(3, 2))
    found = vmap(lambda t, v: np.searchsorted(t, v))(tables, x)
    assert_same(found, np.stack([np.searchsorted(t, v) for t, v in zip(tables, x)]), 0, "vmap")


def test_traced_positions_of_bincount_need_a_number_of_bins():
    count = jit(lambda i, w: np.bincount(i, w, minlength=4))
    assert count(np.array([0, 3, 3]), np.array([1.0, 2.0, 3.0])).tolist() == [1, 0, 0, 5]
    with pytest.raises(IndexError):
        count(np.array([0, 4, 3]), np.ones(3))
    with pytest.raises(TypeError, match="give minlength"):
        jit(np.bincount)(np.array([0, 1]))


@pytest.mark.parametrize(
    "f, error, message",
    [
        (lambda x: np.take(x, [9]), IndexError, "index 9 is out of bounds for axis 0 with size 3"),
        (lambda x: np.take(x, np.array([0.5])), TypeError, "Cannot cast array data"),
        (lambda x: np.take_along_axis(x, np.array([[0]]), axis=0), ValueError, "same number of dimensions|dimensions"),
        (lambda x: np.quantile(x, 1.5), ValueError, r"range \[0, 1\]"),
        (lambda x: np.quantile(x, 0.5, method="best"), ValueError, "best"),
        (lambda x: np.searchsorted(x, 1.0, side="middle"), ValueError, "side"),
        (lambda x: np.interp(1.0, x, x[:2]), ValueError, "same length"),
        (lambda x: np.partition(x, 7), ValueError, r"kth\(=7\) out of bounds \(3\)"),
        (lambda x: np.select([], []), ValueError, "empty condition list"),
    ],
)
def test_errors_are_numpys(f, error, message):
    x = np.array([1.0, 2.0, 3.0])
    with pytest.raises(error):
        f(x)
    with pytest.raises(error, match=message):
        vjp(f, x)


# -- corners where a wrong number would go unseen
# -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "f",
    [np.unique, np.unique_values, lambda x: np.unique_all(x).values, lambda x: np.trim_zeros(np.abs(x) - 1.0)],
    ids=["unique", "unique_values", "unique_all", "trim_zeros"],
)
def test_values_picked_by_value_keep_their_derivative(f):
    x = np.array([1.0, 3.0, 0.5, 3.0, -1.0])
    assert_same(vjp(f, x)[0], f(x), 0, "on a tape")
    slope = grad(lambda x: np.sum(f(x) ** 2))(x)
    assert slope[2] != 0
    assert np.isclose(np.sum(slope), np.sum(2 * f(x) * jvp(f, (x,), (np.ones(5),))[1]))


def test_second_derivative_beside_positions_found_by_value():
    x = np.array([1.0, -2.0, 3.0])
    assert_same(hessian(lambda x: np.sum(x[np.nonzero(x > 0)] ** 3))(x), np.diag([6.0, 0.0, 18.0]), 1e-14, "x > 0")


@pytest.mark.parametrize(
    "x", [[1.0, 2.0, np.inf], [1.0, np.inf, np.inf, np.inf], [-np.inf, 0.0, np.inf], [np.inf, np.nan, 1.0]]
)
def test_infinite_elements_have_medians(x):
    x = np.array(x)
    assert_same(vjp(np.median, x)[0], np.median(x), 0, "median")
    assert_same(vjp(np.nanmedian, x)[0], np.nanmedian(x), 0, "nanmedian")


def test_bins_that_do_not_increase():
    x = np.array([0.0, 1.0, 2.0])
    for bins in ([1.0, 1.0], [2.0, 1.0], [2.0, 2.0, 0.0]):
        assert_same(vjp(lambda x, bins=bins: np.digitize(x, bins), x)[0], np.digitize(x, bins), 0, str(bins))
    with pytest.raises(ValueError, match="monotonically"):
        vjp(lambda x: np.digitize(x, np.array([1.0, 3.0, 2.0])), x)
    assert_same(
        vjp(lambda x: np.histogram(x, 3), np.full(3, 2.0))[0], np.histogram(np.full(3, 2.0), 3), 0, "equal values"
    )


def test_bincount_counts_no_negative_positions():
    with pytest.raises(IndexError):
        jit(lambda i: np.bincount(i, minlength=3))(np.array([0, -1]))


def test_place_takes_values_in_turn():
    def place(x, mask, values):
        x = x.copy()
        np.place(x, mask, values)
        return x

    x, mask = np.array([1.0, 2.0, 3.0, 4.0]), np.array([False, True, True, True])
    for values in (np.array([7.0, 8.0]), np.array([5.0, 6.0, 7.0, 8.0]), 9.0):
        assert_same(vjp(lambda x, v=values: place(x, mask, v), x)[0], place(x, mask, values), 0, str(values))
    assert jit(lambda x: place(x, x > 2, -1.0))(x).tolist() == [1, 2, -1, -1]
    with pytest.raises(TracerError, match=r"np\.where"):
        jit(lambda x: place(x, x > 2, np.array([7.0, 8.0])))(x)
