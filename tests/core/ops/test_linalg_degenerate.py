"""Derivatives where eigenvalues or singular values coincide, and where matrices are singular: right, NaN or an
error.
"""

import numpy as np
import pytest

from triskele import core
from triskele.core.testing import check_grads

SKEW = np.linalg.qr(np.random.default_rng(5).normal(size=(4, 4)))[0]
WEIGHTS = np.random.default_rng(6).normal(size=(4, 4))
MATRICES = {  # the last one's eigenvalues coincide to rounding only
    "identity": np.eye(4),
    "pairs": np.diag([1.0, 1.0, 2.0, 2.0]),
    "triple": np.diag([1.0, 1.0, 1.0, 3.0]),
    "skew": (SKEW * [1.0, 1.0, 1.0, 2.0]) @ SKEW.T,
}


def matrix_function(h, weights):
    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum(weights * ((v * h(w)) @ np.conj(v.T)).real)

    return f


def corner():
    out = np.zeros((4, 4))
    out[0, 1] = 1
    return out


INVARIANT = {
    "square root": matrix_function(np.sqrt, WEIGHTS),
    "corner of the square root": matrix_function(np.sqrt, corner()),
    "exponential": matrix_function(np.exp, WEIGHTS),
    "the matrix": matrix_function(lambda w: w, WEIGHTS),
    "trace": lambda a: np.sum(np.exp(np.linalg.eigvalsh(a))),
    "determinant": lambda a: np.prod(np.linalg.eigh(a)[0]),
    "two of them": lambda a: matrix_function(np.sqrt, WEIGHTS)(a) + matrix_function(np.exp, corner())(a),
}


def slope(f, a, e, h=1e-4):
    return (8 * (f(a + h * e) - f(a - h * e)) - f(a + 2 * h * e) + f(a - 2 * h * e)) / (12 * h)


def assert_gradient(f, a, directions):
    for form in (core.grad(f), core.jit(core.grad(f))):
        g = form(a)
        for e in directions:
            np.testing.assert_allclose(np.sum(g * e).real, slope(f, a, e), rtol=1e-7, atol=1e-7)


def symmetric(rng, n=4, count=3):
    return [e + e.T for e in rng.normal(size=(count, n, n))]


@pytest.mark.parametrize("a", MATRICES.values(), ids=MATRICES)
@pytest.mark.parametrize("f", INVARIANT.values(), ids=INVARIANT)
def test_functions_that_do_not_depend_on_the_choice_of_vectors(f, a, rng):
    assert_gradient(f, (a + a.T) / 2, symmetric(rng))


def test_hermitian_matrices(rng):
    q = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))[0]
    a = (q * [1.0, 1.0, 1.0, 2.0]) @ np.conj(q.T)
    e = rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4))
    assert_gradient(matrix_function(np.sqrt, WEIGHTS + WEIGHTS.T), (a + np.conj(a.T)) / 2, [e + np.conj(e.T)])


@pytest.mark.parametrize("a", [MATRICES["pairs"], MATRICES["triple"], MATRICES["skew"]])
def test_projectors_on_eigenspaces(a, rng):
    n = np.sum(np.linalg.eigvalsh(a) < 1.5)

    def f(a):
        v = np.linalg.eigh(a)[1][:, :n]
        return np.sum(WEIGHTS * (v @ v.T))

    assert_gradient(f, (a + a.T) / 2, symmetric(rng))


@pytest.mark.parametrize(
    "f",
    [
        lambda a: np.linalg.eigh(a)[1][0, 1],
        lambda a: np.sum(WEIGHTS * np.linalg.eigh(a)[1] ** 2),
        matrix_function(np.log, corner()),  # log(1) = 0: the vectors' cotangent says nothing
        lambda a: (
            np.sum(np.arange(4) * np.linalg.eigh(a)[0])
            + matrix_function(np.sqrt, WEIGHTS)(a) * 0
            + np.sum(WEIGHTS * np.linalg.eigh(a)[1])
        ),
    ],
    ids=["a component", "squares", "logarithm", "a sum"],
)
def test_the_rest_is_nan(f):
    for form in (core.grad(f), core.jit(core.grad(f))):
        assert np.isnan(form(np.eye(4))).any()
    e = np.ones((4, 4))
    assert np.isnan(core.jvp(f, (np.eye(4),), (e,))[1])


def test_several_matrix_functions_of_one_factorization():
    """Their parts cannot be told apart: NaN, never a finite wrong number."""

    def f(a):
        w, v = np.linalg.eigh(a)
        return np.sum(WEIGHTS * ((v * np.sqrt(w)) @ v.T)) + np.sum(corner() * ((v * np.exp(w)) @ v.T))

    assert np.isnan(core.grad(f)(np.eye(4))).any()


def test_second_derivatives_of_vectors_are_nan():
    e = np.ones((4, 4))
    assert np.isnan(core.hvp(matrix_function(np.sqrt, corner()), (np.eye(4),), (e,))).any()


def test_vectors_of_other_eigenvalues_in_forward_mode(rng):
    a, e = np.diag([1.0, 1.0, 2.0, 5.0]), symmetric(rng)[0]
    f = lambda a: np.linalg.eigh(a)[1][:, 3] ** 2
    np.testing.assert_allclose(core.jvp(f, (a,), (e,))[1], slope(f, a, e), atol=1e-8)


POLAR = {"square": np.eye(4), "skew": SKEW, "tall": SKEW[:, :3] * [1, 1, 2], "wide": (SKEW[:, :3] * [1, 1, 2]).T}


@pytest.mark.parametrize("a", POLAR.values(), ids=POLAR)
def test_functions_of_singular_values_and_vectors(a, rng):
    weights = rng.normal(size=a.shape)
    for h in (lambda s: s**0, np.exp, lambda s: s**3):

        def f(a, h=h):
            u, s, vh = np.linalg.svd(a, full_matrices=False)
            return np.sum(weights * ((u * h(s)) @ vh))

        assert_gradient(f, a, rng.normal(size=(3, *a.shape)))
    assert_gradient(lambda a: np.linalg.norm(a, "nuc"), a, rng.normal(size=(3, *a.shape)))
    assert np.isnan(core.grad(lambda a: np.linalg.svd(a, full_matrices=False)[0][0, -1])(a)).any()


def test_vectors_of_vanishing_singular_values():
    a = np.diag([3.0, 2.0, 0.0, 0.0])[:, :3]
    assert np.isnan(core.grad(lambda a: np.sum(np.linalg.svd(a, full_matrices=False)[0] ** 3))(a)).any()


@pytest.mark.parametrize(
    "a",
    [np.diag([1.0, 0.0, 2.0]), np.diag([0.0, 0.0, 2.0]), np.zeros((3, 3)), np.outer([1.0, 2, 3], [1, -1, 4])],
    ids=range(4),
)
def test_hessian_of_the_determinant_at_singular_matrices(a):
    """det is a polynomial: the entries of its Hessian are ± entries of the matrix (Levi-Civita)."""
    signs = np.zeros((3, 3, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        signs[i, j, k], signs[i, k, j] = 1, -1
    want = np.einsum("ikm,jln,mn->ijkl", signs, signs, a)
    for form in (core.hessian(np.linalg.det), core.jit(core.hessian(np.linalg.det))):
        np.testing.assert_allclose(form(a), want, atol=1e-12)


def test_third_derivatives_of_the_determinant(rng):
    check_grads(np.linalg.det, (rng.normal(size=(3, 3)),), order=3)
    check_grads(
        lambda z: np.abs(np.linalg.det(z)) ** 2,
        (rng.normal(size=(2, 3, 3)) + 1j * rng.normal(size=(2, 3, 3)),),
        order=2,
    )


@pytest.mark.parametrize(
    "f", [np.linalg.inv, lambda a: np.linalg.slogdet(a)[1], lambda a: core.jacrev(core.hessian(np.linalg.det))(a)]
)
def test_derivatives_that_singular_matrices_do_not_have_say_so(f):
    for form in (core.grad(lambda a: np.sum(f(a))), core.jit(core.grad(lambda a: np.sum(f(a))))):
        with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
            form(np.diag([1.0, 0.0, 2.0]))
