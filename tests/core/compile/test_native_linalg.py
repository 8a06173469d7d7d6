"""Linear algebra in compiled programs against NumPy and SciPy: small matrices by loops, others by LAPACK."""

import numpy as np
import pytest
import scipy.linalg

from triskele import core
from triskele.core.testing import check_grads

DTYPES = "fdFD"
SIZES = [1, 2, 3, 5, 16, 17, 40]
NAMES = ("cholesky", "triangular_solve", "solve", "inv", "det", "slogdet", "eigh", "eigvalsh")


def matrix(rng, dtype, *shape):
    n = shape[-1]
    a = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype in "FD" else 0)
    return (a / (2 * np.sqrt(n)) + np.eye(n)).astype(dtype)


def assert_near(got, want, n):
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape and got.dtype == want.dtype
    np.testing.assert_allclose(got, want, rtol=0, atol=200 * n * np.finfo(want.dtype).eps * np.max(np.abs(want)))


@pytest.mark.parametrize("head", [(), (3,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_general_matrices(dtype, head, rng, no_python):
    inputs = [(matrix(rng, dtype, *head, n, n), rng.normal(size=(*head, n, 3)).astype(dtype)) for n in SIZES]
    wants = [(np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a)) for a, b in inputs]
    no_python(*NAMES)
    f = core.jit(lambda a, b: (np.linalg.solve(a, b), np.linalg.inv(a), np.linalg.det(a), *np.linalg.slogdet(a)))
    for (a, b), want in zip(inputs, wants, strict=True):
        for g, w in zip(f(a, b), want, strict=True):
            assert_near(g, w, a.shape[-1])


@pytest.mark.parametrize("head", [(), (3,)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_hermitian_matrices(dtype, head, rng, no_python):
    inputs = []
    for n in SIZES:
        a = matrix(rng, dtype, *head, n, n)
        inputs.append(a @ np.conj(a.swapaxes(-1, -2)))
    wants = [(np.linalg.cholesky(h), np.linalg.eigvalsh(h)) for h in inputs]
    no_python(*NAMES)
    f = core.jit(lambda h: (np.linalg.cholesky(h), np.linalg.eigvalsh(h), *np.linalg.eigh(h)))
    for h, (factor, values) in zip(inputs, wants, strict=True):
        n = h.shape[-1]
        got = f(h)
        assert_near(got[0], factor, n)
        assert_near(got[1], values, n)
        assert_near(got[2], values, n)
        assert_near(h @ got[3], got[3] * got[2][..., None, :].astype(h.dtype), n)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("lower", [False, True])
def test_triangular_systems(lower, trans, unit, rng, no_python):
    no_python("triangular_solve")
    for dtype in DTYPES:
        for n in (1, 3, 16, 30):
            a, b = matrix(rng, dtype, n, n), rng.normal(size=(n, 4)).astype(dtype)
            solve = lambda a, b: scipy.linalg.solve_triangular(a, b, trans=trans, lower=lower, unit_diagonal=unit)
            assert_near(core.jit(solve)(a, b), solve(a, b), n)


@pytest.mark.parametrize("n", [3, 30])
def test_what_has_no_solution_is_numpys_error(n):
    zero, negative = np.zeros((2, n, n)), -np.eye(n)
    with pytest.raises(np.linalg.LinAlgError, match="not positive definite"):
        core.jit(np.linalg.cholesky)(negative)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        core.jit(np.linalg.inv)(zero)
    with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
        core.jit(np.linalg.solve)(zero, np.ones((2, n, 1)))
    with pytest.raises(np.linalg.LinAlgError, match="singular matrix"):
        core.jit(lambda a, b: scipy.linalg.solve_triangular(a, b, lower=True))(zero[0], np.ones(n))
    assert np.all(core.jit(np.linalg.det)(zero) == 0)
    sign, logarithm = core.jit(lambda a: tuple(np.linalg.slogdet(a)))(zero)
    assert np.all(sign == 0) and np.all(logarithm == -np.inf)


@pytest.mark.parametrize("n", [3, 30])
def test_nan_goes_through(n):
    a = np.eye(n)
    a[-1, 0] = np.nan
    assert np.isnan(core.jit(np.linalg.det)(a))
    assert np.any(np.isnan(core.jit(np.linalg.inv)(a)))
    np.testing.assert_array_equal(np.isnan(core.jit(np.linalg.cholesky)(a)), np.isnan(np.linalg.cholesky(a)))


@pytest.mark.parametrize(
    "f",
    [
        lambda a, b: np.sum(np.linalg.solve(a, b) ** 2),
        lambda a, b: np.linalg.det(a) * b[0],
        lambda a, b: np.sum(np.sin(np.linalg.inv(a))) * b[0],
        lambda a, b: np.sum(np.linalg.cholesky(a @ a.T + np.eye(4)) ** 3) * b[0],
    ],
    ids=["solve", "det", "inv", "cholesky"],
)
def test_gradients_under_jit(f, rng):
    check_grads(core.jit(f), (matrix(rng, "d", 4, 4), rng.normal(size=4)))


def test_in_the_body_of_a_loop(rng, no_python):
    a, b = matrix(rng, "d", 5, 5), rng.normal(size=5)
    want = b
    for _ in range(4):
        want = np.linalg.solve(a, want)
    no_python("solve")
    got, _ = core.jit(lambda a, b: core.scan(lambda x, _: (np.linalg.solve(a, x), None), b, None, length=4))(a, b)
    np.testing.assert_allclose(got, want, rtol=1e-12)
