"""Derivatives at kinks: those of even powers are right, and masked ones count for nothing."""

import numpy as np
import pytest
from scipy import special

from triskele import core

A = np.array([[2.0, 1.0], [1.0, 3.0]])
ZERO = np.zeros(2)
WAYS = {
    "hessian": core.hessian,
    "compiled": lambda f: core.jit(core.hessian(f)),
    "of compiled": lambda f: core.hessian(core.jit(f)),
    "forward twice": lambda f: core.jacfwd(core.jacfwd(f)),
    "reverse twice": lambda f: core.jacrev(core.jacrev(f)),
    "forward of reverse": lambda f: core.jacfwd(core.jacrev(f)),
    "reverse of forward": lambda f: core.jacrev(core.jacfwd(f)),
}
SMOOTH = {
    "norm": (lambda x: np.linalg.norm(A @ x) ** 2, ZERO, 2 * A.T @ A),
    "norm to a float": (lambda x: np.linalg.norm(x) ** 2.0, ZERO, 2 * np.eye(2)),
    "square of a norm": (lambda x: np.square(np.linalg.norm(x)), ZERO, 2 * np.eye(2)),
    "norm times itself": (lambda x: (lambda r: r * r)(np.linalg.norm(x)), ZERO, 2 * np.eye(2)),
    "fourth power": (lambda x: np.linalg.norm(x) ** 4 + x @ x, ZERO, 2 * np.eye(2)),
    "norms of rows": (lambda x: np.sum(np.linalg.norm(x.reshape(2, 1), axis=1) ** 2), ZERO, 2 * np.eye(2)),
    "abs": (lambda x: np.sum(np.abs(x) ** 2), ZERO, 2 * np.eye(2)),
    "fabs": (lambda x: np.sum(np.fabs(x) ** 2), ZERO, 2 * np.eye(2)),
    "hypot": (lambda x: np.hypot(x[0], x[1]) ** 2, ZERO, 2 * np.eye(2)),
    "complex": (lambda x: np.abs(x[0] + 1j * x[1]) ** 2, ZERO, 2 * np.eye(2)),
    "maximum": (lambda x: np.maximum(x, -x) ** 2, 0.0, 2.0),
    "std": (lambda x: np.std(x) ** 2, np.ones(2), np.array([[0.5, -0.5], [-0.5, 0.5]])),
}
KINKED = {
    "abs": (lambda x: np.sum(np.abs(x)), np.array([0.0, 2.0])),
    "norm": (np.linalg.norm, ZERO),
    "hypot": (lambda x: np.hypot(x[0], x[1]), ZERO),
    "std": (np.std, np.ones(2)),
}


@pytest.mark.parametrize("way", WAYS)
def test_even_powers_have_no_kink(way):
    for name, (f, x, want) in SMOOTH.items():
        np.testing.assert_allclose(WAYS[way](f)(x), want, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("way", WAYS)
def test_kinks_that_nothing_depends_on_are_left_out(way):
    def f(x):
        return np.sum(np.where([True, False], np.linalg.norm(x.reshape(2, 2), axis=1), 0))

    want = np.zeros((4, 4))
    want[:2, :2] = np.array([[4.0, -2.0], [-2.0, 1.0]]) / 5**1.5
    np.testing.assert_allclose(WAYS[way](f)(np.array([1.0, 2.0, 0.0, 0.0])), want, atol=1e-15)


def test_first_derivatives_at_kinks_are_zero():
    for f, x, *_ in (*SMOOTH.values(), *KINKED.values()):
        assert np.array_equal(core.grad(f)(x), np.where(np.equal(x, 2), 1, 0)), f
    assert core.grad(lambda t: core.jvp(np.abs, (0.0,), (t,))[1])(1.0) == 0  # linear in the tangent


def test_squares_of_values_assigned_since():
    def f(x):
        r = np.abs(x)
        r[0] = 3 * x[1]
        y = -x
        x[1] = 7.0
        return np.sum(r**2) + np.sum(np.maximum(x, y))

    x = np.array([0.5, 2.0])
    np.testing.assert_allclose(core.grad(lambda x: f(x + 0))(x), [1.0, 18 * 2 + 2 * 2])


def test_logarithms_of_sums_of_nothing():
    inf = np.inf
    both = core.grad(np.logaddexp, argnums=(0, 1))
    assert [both(*x) for x in ((-inf, -inf), (inf, inf), (inf, 1.0), (-inf, 1.0))] == [
        (0, 0),
        (0.5, 0.5),
        (1, 0),
        (0, 1),
    ]
    assert core.hessian(lambda x: np.logaddexp(x, 1.0))(1.0) == pytest.approx(0.25)
    for how in (lambda f: f, core.jit):
        assert how(core.grad(lambda x: special.logsumexp(x)))(np.array([-inf, -inf])).tolist() == [0, 0]
        assert how(core.grad(lambda x: special.logsumexp(x)))(np.array([-inf, 1.0])).tolist() == [0, 1]
