"""Linear algebra: NumPy's and SciPy's values, derivatives in both modes to second order, batches, errors."""

import numpy as np
import pytest

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched, check_derivatives
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.grad import grad, vjp


def traced(f, *args):
    """Values of `f` computed with Tensors, as a tuple; the graph must have said their shapes and dtypes."""

    def flat(*xs):
        out = f(*xs)
        return list(out) if isinstance(out, tuple) else [out]

    graph, _ = make_graph(flat, [spec_of(a) for a in args])
    outs = evaluate(graph, *args)
    for o, spec in zip(outs, graph.out_specs, strict=True):
        assert spec.shape == np.shape(o) and spec.dtype == np.result_type(o), (spec, np.shape(o), np.result_type(o))
    return tuple(outs)


def general(rng, *shape, dtype=float):
    x = rng.normal(size=shape) * 0.5
    if np.dtype(dtype).kind == "c":
        x = x + 0.5j * rng.normal(size=shape)
    return (x + 2 * np.eye(*shape[-2:])).astype(dtype)


def hermitian(rng, *shape, dtype=float):
    x = general(rng, *shape, dtype=dtype)
    return x + np.conj(np.swapaxes(x, -1, -2)) + np.diag(np.arange(shape[-1]))


def positive(rng, *shape, dtype=float):
    x = general(rng, *shape, dtype=dtype)
    return x @ np.conj(np.swapaxes(x, -1, -2)) + np.eye(shape[-1])


DTYPES = (float, complex)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("f", [np.linalg.inv, np.linalg.det, lambda a: np.linalg.matrix_power(a, 5), lambda a: np.linalg.matrix_power(a, -2)])
def test_functions_of_a_square_matrix(rng, f, dtype):
    for shape in ((3, 3), (2, 3, 3)):
        a = general(rng, *shape, dtype=dtype)
        np.testing.assert_allclose(traced(f, a)[0], f(a), rtol=1e-11)
        check_derivatives(f, a)
    check_batched(f, general(rng, 3, 3, dtype=dtype), rtol=1e-11)


@pytest.mark.parametrize("dtype", DTYPES)
def test_slogdet(rng, dtype):
    a = general(rng, 2, 3, 3, dtype=dtype)
    sign, log = traced(np.linalg.slogdet, a)
    np.testing.assert_allclose(sign * np.exp(log), np.linalg.det(a), rtol=1e-12)
    check_derivatives(lambda x: tuple(np.linalg.slogdet(x)), a)
    check_batched(lambda x: tuple(np.linalg.slogdet(x)), a[0])


def test_gradient_of_det_at_a_singular_matrix():
    np.testing.assert_allclose(grad(np.linalg.det)(np.array([[1.0, 2.0], [2.0, 4.0]])), [[4, -2], [-2, 1]], atol=1e-14)
    np.testing.assert_allclose(grad(np.linalg.det)(np.zeros((3, 3))), np.zeros((3, 3)))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape_a", "shape_b"), [((3, 3), (3,)), ((3, 3), (3, 2)), ((2, 3, 3), (3, 2)), ((3, 3), (4, 3, 2)), ((4, 1, 3, 3), (2, 3, 2)), ((2, 3, 3), (3,))])
def test_solve(rng, shape_a, shape_b, dtype):
    a, b = general(rng, *shape_a, dtype=dtype), rng.normal(size=shape_b)
    np.testing.assert_allclose(traced(np.linalg.solve, a, b)[0], np.linalg.solve(a, b), rtol=1e-12)
    check_derivatives(np.linalg.solve, a, b)
    if len(shape_a) == len(shape_b) == 2:
        check_batched(np.linalg.solve, a, b)


def test_integers_become_float64():
    a = np.array([[2, 1], [1, 3]])
    assert traced(np.linalg.inv, a)[0].dtype == float
    np.testing.assert_allclose(traced(np.linalg.solve, a, np.array([1, 2]))[0], [0.2, 0.6])


@pytest.mark.parametrize("dtype", DTYPES)
def test_cholesky(rng, dtype):
    a = positive(rng, 2, 3, 3, dtype=dtype)
    np.testing.assert_allclose(traced(np.linalg.cholesky, a)[0], np.linalg.cholesky(a), rtol=1e-12)
    np.testing.assert_allclose(traced(lambda x: np.linalg.cholesky(x, upper=True), a)[0], np.linalg.cholesky(a, upper=True), rtol=1e-12, atol=1e-14)
    check_derivatives(lambda x: np.linalg.cholesky(x @ np.conj(np.swapaxes(x, -1, -2)) + 2 * np.eye(3)), general(rng, 2, 3, 3, dtype=dtype))
    check_batched(lambda x: np.linalg.cholesky(x @ x.T + np.eye(3)), rng.normal(size=(3, 3)))


def test_gradient_of_cholesky_is_symmetric(rng):
    a = positive(rng, 3, 3)
    g = grad(lambda x: 2 * np.sum(np.log(np.diagonal(np.linalg.cholesky(x)))))(a)
    np.testing.assert_allclose(g, np.linalg.inv(a), rtol=1e-10)


def test_cholesky_reads_one_triangle(rng):
    a = positive(rng, 3, 3)
    np.testing.assert_allclose(traced(np.linalg.cholesky, np.tril(a))[0], np.linalg.cholesky(a), rtol=1e-12)


@pytest.mark.parametrize(
    ("f", "a", "error", "message"),
    [
        (np.linalg.inv, np.zeros((2, 2)), np.linalg.LinAlgError, "Singular"), (np.linalg.cholesky, -np.eye(2), np.linalg.LinAlgError, "positive definite"),
        (np.linalg.inv, np.zeros((2, 3)), np.linalg.LinAlgError, "square"), (np.linalg.det, np.zeros(3), np.linalg.LinAlgError, "two-dimensional"),
        (lambda a: np.linalg.solve(a, np.ones(3)), np.eye(2), ValueError, "as many rows"), (np.linalg.inv, np.eye(2, dtype=np.float16), TypeError, "float16"),
    ],
)  # fmt: skip
def test_errors_are_numpys(f, a, error, message):
    with pytest.raises(error, match=message):
        vjp(f, a)
