"""Implicit differentiation against closed forms and finite differences, with solvers that cannot be differentiated."""

import numpy as np
import pytest
import scipy.optimize
import scipy.sparse.linalg

from triskele.core.compile.jit import jit
from triskele.core.errors import MissingRuleError, TreeError
from triskele.core.transforms.control.operators import while_loop
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad
from triskele.core.transforms.implicit import custom_linear_solve, root
from triskele.core.transforms.jacobian import hessian, jacfwd, jacrev
from triskele.core.transforms.vmap import vmap

A = np.array([[4.0, 1.0, 0.5], [1.0, 3.0, 0.2], [0.5, 0.2, 2.0]])
B = np.array([1.0, -2.0, 0.5])


def newton(g, x0):
    """A solver made of core functions."""
    return while_loop(lambda x: np.abs(g(x)) > 1e-13 * np.abs(x), lambda x: x - g(x) / jvp(g, (x,), (1.0,))[1], x0)


def scipy_root(g, x0):
    return scipy.optimize.root(g, x0, tol=1e-14)


def cube_root(mode):
    return root(lambda x, a: x**3 - a, scipy_root if mode == "python" else newton, mode=mode)


@pytest.mark.parametrize("mode", [None, "python"])
def test_scalar_root_to_third_order(mode):
    f = cube_root(mode)
    np.testing.assert_allclose(f(1.0, 8.0), 2.0, rtol=1e-12)
    np.testing.assert_allclose(grad(f, argnums=1)(1.0, 8.0), 1 / 12, rtol=1e-12)
    np.testing.assert_allclose(jvp(lambda a: f(1.0, a), (8.0,), (3.0,))[1], 1 / 4, rtol=1e-12)
    g = lambda a: f(1.0, a)
    np.testing.assert_allclose(grad(grad(g))(8.0), -2 / 9 * 8 ** (-5 / 3), rtol=1e-11)
    np.testing.assert_allclose(jacfwd(jacfwd(g))(8.0), -2 / 9 * 8 ** (-5 / 3), rtol=1e-11)
    np.testing.assert_allclose(grad(grad(grad(g)))(8.0), 10 / 27 * 8 ** (-8 / 3), rtol=1e-10)
    assert grad(f)(1.0, 8.0) == 0.0  # the guess


@pytest.mark.parametrize("mode", [None, "python"])
def test_under_jit_and_vmap(mode):
    f = cube_root(mode)
    a = np.array([1.0, 8.0, 27.0])
    np.testing.assert_allclose(jit(f)(1.0, 8.0), 2.0, rtol=1e-12)
    np.testing.assert_allclose(jit(grad(f, argnums=1))(1.0, 8.0), 1 / 12, rtol=1e-12)
    np.testing.assert_allclose(grad(jit(f), argnums=1)(1.0, 8.0), 1 / 12, rtol=1e-12)
    np.testing.assert_allclose(vmap(f, in_axes=(None, 0))(1.0, a), [1, 2, 3], rtol=1e-12)
    np.testing.assert_allclose(vmap(grad(f, argnums=1), in_axes=(None, 0))(1.0, a), a ** (-2 / 3) / 3, rtol=1e-12)
    np.testing.assert_allclose(jit(vmap(grad(f, argnums=1), in_axes=(None, 0)))(1.0, a), a ** (-2 / 3) / 3, rtol=1e-12)
    np.testing.assert_allclose(
        grad(lambda a: np.sum(vmap(f, in_axes=(None, 0))(1.0, a)))(a), a ** (-2 / 3) / 3, rtol=1e-12
    )


def equations(x, p):
    return {"u": x["u"] ** 2 + p["k"] * np.sum(x["v"]) - 3.0, "v": np.exp(x["v"]) * p["w"] - x["u"]}


def on_vectors(solve):
    """A solver of trees made of one of vectors."""

    def solver(g, x0):
        unpack = lambda z: {"u": z[0], "v": z[1:]}
        z = solve(
            lambda z: np.concatenate([[g(unpack(z))["u"]], g(unpack(z))["v"]]), np.concatenate([[x0["u"]], x0["v"]])
        )
        return unpack(z)

    return solver


@pytest.mark.parametrize("linear_solve", [None, "gmres"])
def test_systems_in_trees(linear_solve):
    def by_gmres(matvec, b):
        """Eager only; conjugate gradients on trees would do the same."""
        leaves = [np.reshape(x, -1) for x in b]
        shapes, ends = [np.shape(x) for x in b], np.cumsum([len(x) for x in leaves])[:-1]
        unpack = lambda z: [np.reshape(p, s) for p, s in zip(np.split(z, ends), shapes, strict=True)]
        n = sum(len(x) for x in leaves)
        op = scipy.sparse.linalg.LinearOperator(
            (n, n),
            matvec=lambda z: np.concatenate([np.reshape(x, -1) for x in matvec(unpack(np.ravel(z)))]),
            dtype=float,
        )
        return unpack(scipy.sparse.linalg.gmres(op, np.concatenate(leaves), rtol=1e-14)[0])

    solver = on_vectors(lambda g, z: scipy.optimize.fsolve(g, z, xtol=1e-12))
    f = root(equations, solver, mode="python", linear_solve=None if linear_solve is None else by_gmres)
    p = {"k": 0.3, "w": np.array([1.0, 2.0])}
    x0 = {"u": 1.0, "v": np.zeros(2)}
    loss = lambda p: f(x0, p)["u"] + np.sum(f(x0, p)["v"] ** 2)
    g = grad(loss)(p)
    h = 1e-6
    np.testing.assert_allclose(g["k"], (loss({**p, "k": 0.3 + h}) - loss({**p, "k": 0.3 - h})) / (2 * h), rtol=1e-7)
    e = np.array([0.0, h])
    np.testing.assert_allclose(
        g["w"][1], (loss({**p, "w": p["w"] + e}) - loss({**p, "w": p["w"] - e})) / (2 * h), rtol=1e-7
    )
    t = jvp(loss, (p,), ({"k": 1.0, "w": np.ones(2)},))[1]
    np.testing.assert_allclose(t, g["k"] + np.sum(g["w"]), rtol=1e-10)


# -- linear systems ----------------------------------------------------------------------------------------------------


def by_iteration(matvec, b):
    """Richardson's iteration for a positive definite system with eigenvalues below 5."""
    return while_loop(
        lambda x: np.max(np.abs(b - matvec(x))) > 1e-13 * np.max(np.abs(b)),
        lambda x: x + (b - matvec(x)) / 3.0,
        np.zeros_like(b),
    )


def outside(matvec, b):
    """SciPy's conjugate gradients: cannot be traced."""
    op = scipy.sparse.linalg.LinearOperator((len(b), len(b)), matvec=matvec, dtype=float)
    return scipy.sparse.linalg.cg(op, b, rtol=1e-14, atol=0.0)[0]


@pytest.mark.parametrize("solve", [by_iteration, outside])
def test_linear_solve_differentiates_the_matrix_and_the_right_hand_side(solve):
    f = lambda a, b: custom_linear_solve(lambda x: a @ x, b, solve, symmetric=True)
    reference = lambda a, b: np.linalg.solve(a, b)
    np.testing.assert_allclose(f(A, B), reference(A, B), rtol=1e-11)
    weights = np.array([1.0, 2.0, 3.0])
    ours = grad(lambda a, b: weights @ f(a, b) ** 2, argnums=(0, 1))(A, B)
    theirs = grad(lambda a, b: weights @ reference(a, b) ** 2, argnums=(0, 1))(A, B)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)
    direction = A @ A
    np.testing.assert_allclose(
        jvp(f, (A, B), (direction, B))[1], jvp(reference, (A, B), (direction, B))[1], rtol=1e-9, atol=1e-12
    )
    s = lambda s: np.sum(f(s * A, B) ** 2)
    np.testing.assert_allclose(grad(grad(s))(1.0), 6 * s(1.0), rtol=1e-9)  # s(t) = s(1) / t**2


def test_linear_solve_under_jit_and_vmap():
    f = lambda a, b: np.sum(custom_linear_solve(lambda x: a @ x, b, by_iteration, symmetric=True) ** 2)
    reference = lambda a, b: np.sum(np.linalg.solve(a, b) ** 2)
    np.testing.assert_allclose(jit(grad(f))(A, B), grad(reference)(A, B), rtol=1e-9)
    np.testing.assert_allclose(jit(f)(A, B), reference(A, B), rtol=1e-11)
    batch = np.stack([B, 2 * B])
    np.testing.assert_allclose(
        vmap(grad(f), in_axes=(None, 0))(A, batch), vmap(grad(reference), in_axes=(None, 0))(A, batch), rtol=1e-9
    )
    np.testing.assert_allclose(hessian(f, argnums=1)(A, B), hessian(reference, argnums=1)(A, B), rtol=1e-9)
    np.testing.assert_allclose(jacrev(grad(f))(A, B), jacrev(grad(reference))(A, B), rtol=1e-7, atol=1e-10)


def test_unsymmetric_systems_need_a_transposed_solver():
    m = A + np.array([[0, 1.0, 0], [0, 0, 0.3], [0, 0, 0]])
    f = lambda a, b, t: custom_linear_solve(lambda x: a @ x, b, by_iteration, t)
    ours = grad(lambda a: np.sum(f(a, B, by_iteration) ** 2))(m)
    np.testing.assert_allclose(ours, grad(lambda a: np.sum(np.linalg.solve(a, B) ** 2))(m), rtol=1e-9)
    np.testing.assert_allclose(jvp(lambda b: f(m, b, None), (B,), (B,))[1], np.linalg.solve(m, B), rtol=1e-10)
    with pytest.raises(MissingRuleError, match="custom_linear_solve: reverse mode needs transpose_solve"):
        grad(lambda a: np.sum(f(a, B, None)))(m)


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors():
    no_root = root(lambda x, a: x**2 + a, scipy_root, mode="python")
    with pytest.raises(RuntimeError, match="the solver must converge, got"):
        no_root(1.0, 1.0)
    with pytest.raises(TypeError, match="the guess must be of float or complex dtype, got int64"):
        cube_root("python")(1, 8.0)
    with pytest.raises(ValueError, match="mode must be None or 'python', got 'c'"):
        root(lambda x: x, newton, mode="c")
    with pytest.raises(TreeError, match="the solver must return a tree like the guess"):
        root(lambda x, a: x - a, lambda g, x0: (x0, x0))(1.0, 2.0)
    with pytest.raises(ValueError, match="f must return a tree like x"):
        grad(root(lambda x, a: np.stack([x, a]), lambda g, x0: x0), argnums=1)(1.0, 2.0)
    with pytest.raises(ValueError, match="matvec must return the shapes of b"):
        custom_linear_solve(lambda x: x[:2], B, by_iteration)
    with pytest.raises(ValueError, match="solve must return a tree like b"):
        custom_linear_solve(lambda x: x, B, lambda matvec, b: b[:2])
