"""Transforms in any order around programs with control flow, against finite differences and plain loops."""

import itertools

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_derivatives
from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.transforms.checkpoint import checkpoint
from triskele.core.transforms.control.operators import cond, fori_loop, scan, while_loop
from triskele.core.transforms.forward import jvp, linearize
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.jacobian import hessian, hvp, jacfwd, jacrev
from triskele.core.transforms.vmap import vmap


def straight(x):
    return np.sum(np.sin(x) * x[::-1]) + np.exp(-x[0])


def looped(x):
    return np.sum(fori_loop(0, 3, lambda i, c: np.sin(c) * x + c[i], x))


def scanned(x):
    carry, ys = scan(lambda c, v: (c * np.cos(v) + v, c * v), 1.0, x, checkpoint=2)
    return carry + np.sum(ys)


def searched(x):
    """The number of steps depends on x."""
    return np.sum(while_loop(lambda c: np.sum(c * c) > 0.5, lambda c: c * 0.8 - 0.01 * x, x))


def branched(x):
    return cond(x[0] > 0, lambda: np.sum(np.tanh(x)), lambda: np.prod(np.cosh(x)))


def python(x):
    s = x * 1.0
    k = 0
    while np.sum(s * s) > 0.5 and k < 20:
        if s[0] > 0:
            s = s * 0.7
        else:
            s = s * 0.8 + 0.01 * x
        k += 1
    return np.sum(s * np.sin(x)) * k


PROGRAMS = [straight, looped, scanned, searched, branched, python]
X = np.array([0.9, -0.6, 0.4])
V = np.array([0.3, 1.0, -0.7])

# each takes a function R^3 -> R to another one
OUTER = {
    "grad": lambda f: lambda x: np.sum(grad(f)(x) * V),
    "jvp": lambda f: lambda x: jvp(f, (x,), (V,))[1],
    "vjp": lambda f: lambda x: np.sum(vjp(f, x)[1](np.ones_like(x[0]))[0] * V),
    "linearize": lambda f: lambda x: linearize(f, x)[1](V),
    "vmap": lambda f: lambda x: np.sum(vmap(f)(np.stack([x, 0.5 * x])) * np.array([1.0, 2.0])),
    "jit": lambda f: jit(f),
    "checkpoint": lambda f: checkpoint(f),
}
PLAIN = {
    "vmap": lambda f: lambda x: f(x) + 2 * f(0.5 * x),
    "jit": lambda f: f,
    "checkpoint": lambda f: f,
}
PLAIN["grad"] = PLAIN["jvp"] = PLAIN["vjp"] = PLAIN["linearize"] = OUTER["grad"]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.parametrize(("outer", "inner"), list(itertools.product(OUTER, OUTER)), ids=lambda s: s)
def test_pairs_of_transforms(f, outer, inner):
    if f is python and "vmap" in (outer, inner) and "jit" not in (outer, inner):
        pytest.skip("Python decides for all examples at once only when it is recorded")
    if f is python and (outer, inner) == ("vmap", "jit"):
        pytest.skip("see test_python_control_flow_in_batches")
    with np.errstate(all="ignore"):
        found = OUTER[outer](OUTER[inner](f))(X)
    assert_allclose(found, PLAIN[outer](PLAIN[inner](f))(X), rtol=1e-9)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_first_and_second_derivatives_by_differences(f):
    check_derivatives(f, X, order=2, rtol=1e-5)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
def test_hessians_of_every_make_agree(f):
    h = hessian(f)(X)
    assert_allclose(h, h.T, rtol=1e-9, atol=1e-12)
    for other in (jacfwd(jacfwd(f)), jacrev(grad(f)), jit(hessian(f)), jit(jacrev(jacrev(f)))):
        assert_allclose(other(X), h, rtol=1e-9, atol=1e-12)
    assert_allclose(jit(lambda x, v: hvp(f, (x,), (v,)))(X, V), h @ V, rtol=1e-9)


def test_python_control_flow_in_batches():
    batch = np.stack([X, 0.5 * X, -X, 0.01 * X])
    expected = [python(x) for x in batch]
    slopes = [grad(python)(x) for x in batch]
    assert_allclose(jit(vmap(python))(batch), expected)
    assert_allclose(vmap(jit(python))(batch), expected)
    assert_allclose(jit(vmap(grad(python)))(batch), slopes)
    assert_allclose(vmap(jit(grad(python)))(batch), slopes)
    assert_allclose(grad(lambda b: np.sum(jit(vmap(python))(b)))(batch), slopes)


def test_collatz_compiled():
    @jit
    def collatz(n):
        k = 0
        while n > 1:
            n = np.where(n % 2 == 0, n // 2, 3 * n + 1)
            k = k + 1
        return k

    assert [collatz(27), collatz(27.0), collatz(np.float32(27)), collatz(1)] == [111, 111, 111, 0]
    assert_array_equal(vmap(collatz)(np.array([27, 1, 6])), [111, 0, 8])


def test_one_program_for_all_numbers_of_steps():
    @jit
    def slope(x, n):
        return grad(lambda x: while_loop(lambda s: s[1] < n, lambda s: (np.sin(s[0]) + x, s[1] + 1), (x, 0))[0])(x)

    def twin(x, n):
        s = x
        for _ in range(n):
            s = np.sin(s) + x
        return s

    for n in (0, 1, 10, 63, 64, 65, 300):
        assert_allclose(slope(0.3, n), grad(twin)(0.3, n), rtol=1e-11)


def test_ode_sensitivity():
    """d/dk of x(t) = exp(-k t), by Runge-Kutta in a scan, against the analytic derivatives of orders 1 and 2."""

    def x_end(k, steps=200, t=2.0):
        h = t / steps

        def step(x, _):
            f = lambda x: -k * x
            k1 = f(x)
            k2 = f(x + h / 2 * k1)
            k3 = f(x + h / 2 * k2)
            k4 = f(x + h * k3)
            return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return scan(step, 1.0, length=steps)[0]

    assert_allclose(x_end(0.8), np.exp(-1.6), rtol=1e-9)
    for first in (grad(x_end), jacfwd(x_end), jit(grad(x_end))):
        assert_allclose(first(0.8), -2 * np.exp(-1.6), rtol=1e-8)
    for second in (grad(grad(x_end)), hessian(x_end), jit(hessian(x_end))):
        assert_allclose(second(0.8), 4 * np.exp(-1.6), rtol=1e-8)


def test_arrays_of_an_outer_transform_do_not_take_values_of_an_inner_one():
    def outer(a):
        y = np.zeros_like(a)

        def inner(x):
            y[0] = x
            return (y * a).sum()

        return grad(inner)(a[0])

    with pytest.raises(TracerError, match="of an inner transform and cannot be put into"):
        grad(outer)(np.array([3.0, 2.0]))
