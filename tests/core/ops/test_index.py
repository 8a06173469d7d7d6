"""Indexing: what NumPy reads and writes, traced values read and write."""

import numpy as np
import pytest

from tests.twins.traced import assert_as_numpy, assert_same
from triskele.core import numpy as cnp
from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.ops.index import index_add, index_max, index_min, index_mul, index_update
from triskele.core.testing import check_grads
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.vmap import vmap

SHAPE = (4, 5, 3)
MASK = np.arange(60).reshape(SHAPE) % 7 == 3
INDICES = [
    np.s_[1],
    np.s_[-1, 2],
    np.s_[2, 3, 1],
    np.s_[1:3],
    np.s_[::-1],
    np.s_[3:0:-2, ::2],
    np.s_[0:0],
    np.s_[10:],
    np.s_[..., 0],
    np.s_[...],
    np.s_[None],
    np.s_[None, 1, :, None],
    np.s_[:, None, ..., None],
    np.s_[()],
    np.s_[[0, 1]],
    np.s_[[-1, 0, -1]],
    np.s_[[]],
    np.s_[[[0, 1], [2, -1]]],
    np.s_[:, [[0, 1], [2, -1]]],
    np.s_[..., [2, 0]],
    np.s_[[0, 1], [2, 3]],
    np.s_[[[0], [1]], [2, 3]],
    np.s_[:, [0, 1], [0, 2]],
    np.s_[[0, 1], :, [0, 2]],
    np.s_[1, :, [0, 2]],
    np.s_[[0, 1], 1],
    np.s_[[0, 1], 1, :],
    np.s_[:, 1, [0, 2]],
    np.s_[[0, 1], None, 1],
    np.s_[:, None, [0, 1]],
    np.s_[1:3, [0, 1], ::2],
    np.s_[np.array([0, 1])[:, None], 1:3, np.array([0, 2])],
    np.s_[np.uint8(2)],
    np.s_[np.array(1), np.array([1, 2])],
    np.s_[MASK],
    np.s_[MASK[..., 0]],
    np.s_[:, MASK[0]],
    np.s_[MASK[:, 0, 0], 1],
    np.s_[MASK[:, 0, 0], :, [0, 0]][:2],
    np.s_[[True, False, True, True]],
    np.s_[True],
    np.s_[False],
    np.s_[None, True, 1],
]


def name(idx):
    return repr(idx).replace("array", "").replace("\n", "").replace(" ", "")[:60]


@pytest.mark.parametrize("idx", INDICES, ids=name)
def test_reading(idx, rng):
    assert_as_numpy(lambda x: x[idx], rng.normal(size=SHAPE), rtol=0)


@pytest.mark.parametrize("idx", INDICES, ids=name)
def test_writing(idx, rng):
    x = rng.normal(size=SHAPE)
    v = rng.normal(size=x[idx].shape)

    def write(x, v):
        y = x.copy()
        y[idx] = v
        return y

    # NumPy lets the last of equal positions stay: so do we
    distinct = np.unique(np.arange(60).reshape(SHAPE)[idx]).size == v.size
    assert_as_numpy(write, x, v, rtol=0, grads=distinct, batch=bool(v.size))


@pytest.mark.parametrize("idx", INDICES, ids=name)
def test_adding(idx, rng):
    x = rng.normal(size=SHAPE)
    v = rng.normal(size=x[idx].shape)
    expected = x.copy()
    np.add.at(expected, idx, v)
    assert_same(index_add(x, idx, v), expected, 1e-14, "index_add")
    check_grads(lambda x, v: index_add(x, idx, v), (x, v), order=1)


def test_the_last_of_equal_positions_has_the_derivative():
    def f(v):
        x = np.zeros_like(v, shape=3)
        x[[0, 1, 0]] = v
        return np.sum(x * np.array([10.0, 20.0, 30.0]))

    assert grad(f)(np.ones(3)).tolist() == [0, 20, 10]


@pytest.mark.parametrize(
    "function, ufunc", [(index_mul, np.multiply), (index_min, np.minimum), (index_max, np.maximum)]
)
def test_combining_forms(function, ufunc, rng):
    x, v, idx = rng.normal(size=(5, 2)), rng.normal(size=(3, 2)), np.array([3, 0, 3])
    expected = x.copy()
    ufunc.at(expected, idx, v)
    assert_same(function(x, idx, v), expected, 1e-14, function.__name__)
    check_grads(lambda x: function(x, idx, v), (x,))
    check_grads(lambda x, v: function(x, np.array([3, 0, 1]), v), (x, v))
    assert_same(function(x, np.s_[1:4, 0], 0.5)[1:4, 0], ufunc(x[1:4, 0], 0.5), 0, "slice")
    assert_same(index_update(x, 1, 0.5)[1], np.array([0.5, 0.5]), 0, "update")


def test_ties_of_index_max_share_the_derivative():
    g = grad(lambda v: np.sum(index_max(np.zeros(2), np.array([0, 0, 1]), v)))
    assert g(np.array([2.0, 2.0, 1.0])).tolist() == [0.5, 0.5, 1]


def test_factors_at_repeated_positions_have_no_derivative_rather_than_a_wrong_one():
    with pytest.raises(NotImplementedError, match="positions may repeat"):
        grad(lambda v: np.sum(index_mul(np.ones(2), np.array([0, 0]), v)))(np.array([2.0, 3.0]))


# -- positions and masks that are traced
# ----------------------------------------------------------------------------------


def test_traced_positions(rng):
    x = rng.normal(size=(4, 5))
    for f in (
        lambda x, i: x[i],
        lambda x, i: x[:, i],
        lambda x, i: x[i, i],
        lambda x, i: x[i, 1],
        lambda x, i: np.take(x, i, axis=1),
        lambda x, i: index_add(x, i, 1.0),
        lambda x, i: np.roll(x, i),
    ):
        for i in (np.int64(2), np.int64(-1)):
            assert_same(jit(f)(x, i), f(x, i), 0, "jit")
            assert_same(
                vmap(f)(np.stack([x, x + 1]), np.array([i, 0])), np.stack([f(x, i), f(x + 1, np.int64(0))]), 0, "vmap"
            )
    i = np.array([[0, -1], [2, 2]])
    for f in (lambda x, i: x[i], lambda x, i: x[:, i], lambda x, i: x[i, 1:3], lambda x, i: x[i, i]):
        assert_same(jit(f)(x, i), f(x, i), 0, "jit")
        assert_same(vmap(f)(np.stack([x, x + 1]), np.stack([i, i.T])), np.stack([f(x, i), f(x + 1, i.T)]), 0, "vmap")
        slope = grad(lambda x, i, f=f: np.sum(f(x, i) ** 2))
        assert_same(jit(slope)(x, i), slope(x, i), 1e-14, "jit of grad")


def test_a_plain_array_at_a_traced_position(rng):
    x = rng.normal(size=(4, 5))
    assert_same(vmap(lambda i: cnp.take(x, i, axis=0))(np.array([2, -1])), x[[2, -1]], 0, "vmap")
    with pytest.raises(TracerError, match=r"core\.numpy\.take"):
        vmap(lambda i: x[i])(np.array([2, -1]))


def test_traced_positions_out_of_bounds_are_an_error_in_compiled_code_too(rng):
    read = jit(lambda x, i: x[i] * 2)
    assert read(np.arange(3.0), np.int64(-3)) == 0
    for i in (3, -4):
        with pytest.raises(IndexError):
            read(np.arange(3.0), np.int64(i))


def test_writing_by_a_traced_mask(rng):
    x = rng.normal(size=(4, 5))

    def f(x):
        x[x > 0.5] = 7.0
        x[x[:, 0] < 0] = np.arange(5.0)
        return x

    assert_same(jit(lambda x: f(x.copy()))(x), f(x.copy()), 0, "jit")


def test_reading_by_a_traced_mask_says_what_to_do():
    with pytest.raises(TracerError, match="np.where"):
        jit(lambda x: x[x > 0])(np.arange(3.0))
    with pytest.raises(TracerError, match="np.where"):
        jit(lambda x: np.nonzero(x))(np.arange(3.0))


# -- assignment --------------------------------------------------------------------------------------------------------


def test_in_place_operations(rng):
    def f(x):
        x = x.copy()
        x[1:] += 2 * x[:-1]
        x[0, :2] *= 3
        x[[0, 2], 1] -= x[1, 1]
        x[:, ::2] /= 2
        y = x
        y += 1  # another name of the same array
        z = x[0]
        z += 100  # a view of the first row
        return x

    x = rng.normal(size=(4, 5))
    assert_same(vjp(f, x)[0], f(x), 1e-15, "in place")
    check_grads(lambda x: f(x), (x,), order=1)


def test_functions_that_write_in_place(rng):
    def f(x):
        a, b, c, d = x.copy(), x.copy(), x.copy(), x.copy()
        np.put(a, [0, 3, 7], [1.0, 2.0])
        np.put_along_axis(b, np.array([[0], [1], [2], [0]]), 2 * x[:, :1], axis=1)
        np.add.at(c, (np.array([0, 1, 0]), 1), 2.5)
        np.fill_diagonal(d, x[0])
        e = np.zeros_like(x)
        e.fill(2.0)
        e.flat[3:5] = x[0, :2]
        np.copyto(e, x, where=np.eye(4, 5) > 0)
        return a, b, c, d, e

    assert_as_numpy(f, rng.normal(size=(4, 5)))


def test_assignment_leaves_the_argument_of_the_caller_alone(rng):
    x = rng.normal(size=3)
    before = x.copy()

    def f(x):
        x[0] = 5.0
        return np.sum(x**2)

    assert grad(f)(x)[0] == 0
    assert np.array_equal(x, before)


def test_assigned_values_are_converted():
    found = vjp(lambda x: index_update(np.zeros(2, np.float32), 0, x), 0.1)[0]
    assert found.dtype == np.float32
    with pytest.raises(TypeError, match="complex value cannot be assigned into float64"):
        vjp(lambda x: index_update(x, 0, 1j), np.ones(2))


# -- cost --------------------------------------------------------------------------------------------------------------


def test_many_reads_make_sparse_cotangents():
    """The gradient of n reads touches n elements, not n arrays: in eager code one buffer, in graphs a chain of
    updates.
    """
    n = 300

    def f(x):
        total = 0.0
        for i in range(n):
            total = total + x[i] * x[-1 - i]
        return total

    x = np.arange(float(n))
    assert grad(f)(x).tolist() == (2 * x[::-1]).tolist()
    graph, _ = make_graph(lambda x: [grad(f)(x)], [spec_of(x)])
    kinds = {e.primitive.name for e in graph.equations}
    assert "pad" not in kinds and "slice_update" in kinds
    assert evaluate(graph, x)[0].tolist() == (2 * x[::-1]).tolist()


# -- errors ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "idx, message",
    [
        (np.s_[4], "index 4 is out of bounds for axis 0 with size 4"),
        (np.s_[:, [0, 5]], "index 5 is out of bounds for axis 1 with size 5"),
        (np.s_[[-5]], "index -5 is out of bounds for axis 0 with size 4"),
        (np.s_[0, 0, 0, 0], "array is 3-dimensional, but 4 were indexed"),
        (np.s_[..., ...], "single ellipsis"),
        (np.s_[1.0], "only integers"),
        (np.s_["a"], "only integers"),
        (np.s_[np.array([0.5])], "arrays used as indices|only integers"),
        (np.s_[[True, False]], "size of axis is 4 but size of corresponding boolean axis is 2"),
        (np.s_[[0, 1], [0, 1, 2]], r"could not be broadcast together with shapes \(2,\) \(3,\)"),
    ],
    ids=name,
)
def test_errors_are_numpys(idx, message, rng):
    x = rng.normal(size=SHAPE)
    with pytest.raises(IndexError):
        x[idx]
    with pytest.raises(IndexError, match=message):
        vjp(lambda x: x[idx], x)


@pytest.mark.parametrize(
    "idx, v", [(np.s_[0], np.ones(4)), (np.s_[[0, 1]], np.ones((3, 5, 3))), (np.s_[0, 0, 0], np.ones(2))]
)
def test_values_of_wrong_shape(idx, v, rng):
    x = rng.normal(size=SHAPE)
    with pytest.raises(ValueError, match="could not broadcast|shape mismatch|setting an array element"):
        x[idx] = v
    with pytest.raises(ValueError, match="broadcast"):
        vjp(lambda x: index_update(x, idx, v), x)


@pytest.mark.parametrize(
    "start",
    [
        np.zeros_like,
        lambda x: np.ones_like(x) * 2 - 1,
        lambda x: np.full_like(x, 3.0)[::-1],
        lambda x: np.empty_like(x) * 0,
    ],
)
def test_arrays_that_begin_as_constants_can_be_assigned_into(start):
    """Under every transform, also after arithmetic on the constant."""

    def f(x):
        z = start(x)
        for i in range(2):
            z[i + 1] = x[i] * 2
        return z

    assert_as_numpy(f, np.array([1.0, 2.0, 3.0]))
