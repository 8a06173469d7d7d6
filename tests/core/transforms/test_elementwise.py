"""core.elementwise: scalar functions applied to arrays, against NumPy, closed forms and finite differences."""

import math

import numba
import numpy as np
import pytest

from triskele.core.compile.jit import jit
from triskele.core.errors import TracerError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.elementwise import Elementwise, elementwise
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad
from triskele.core.transforms.jacobian import hessian, jacfwd
from triskele.core.transforms.scalar_numba import source
from triskele.core.transforms.vmap import vmap

R = np.linspace(0.7, 3.0, 6)
SCALE = 2.0


def helper(x):
    return math.exp(-x) * SCALE


@elementwise
def morse(r, depth, width, r0=1.0):
    """Morse potential."""
    return depth * (1 - math.exp(-width * (r - r0))) ** 2


@elementwise
def truncated(r, epsilon, sigma, cutoff):
    if r > cutoff:
        return 0.0
    s6 = (sigma / r) ** 6
    return 4 * epsilon * (s6 * s6 - s6)


def numpy_morse(r, depth, width, r0=1.0):
    return depth * (1 - np.exp(-width * (r - r0))) ** 2


def numpy_truncated(r, epsilon, sigma, cutoff):
    return np.where(r > cutoff, 0.0, 4 * epsilon * ((sigma / r) ** 12 - (sigma / r) ** 6))


def as_graph(f, *args):
    graph, _ = make_graph(lambda *xs: [f(*xs)], [spec_of(a) for a in args])
    return lambda *xs: evaluate(graph, *xs)[0]


def test_values_broadcasting_keywords_and_documentation():
    np.testing.assert_allclose(morse(R, 5.0, 1.2), numpy_morse(R, 5.0, 1.2))
    np.testing.assert_allclose(morse(R, width=1.2, depth=5.0, r0=0.9), numpy_morse(R, 5.0, 1.2, 0.9))
    np.testing.assert_allclose(
        morse(R[:, None], 5.0, R[None, :], R[:3, None, None]),
        numpy_morse(R[:, None], 5.0, R[None, :], R[:3, None, None]),
    )
    assert (
        morse.__doc__ == "Morse potential."
        and morse.__name__ == "morse"
        and morse.names == ("r", "depth", "width", "r0")
    )
    assert np.shape(morse(1.5, 5.0, 1.2)) == ()
    assert morse(R.astype(np.float32), 5.0, 1.2).dtype == np.float32
    assert morse(1, 2, 3).dtype == np.float64


def test_branches_become_selections():
    np.testing.assert_allclose(truncated(R, 1.0, 1.0, 2.0), numpy_truncated(R, 1.0, 1.0, 2.0))

    @elementwise
    def clamp(x, low, high):
        return min(max(x, low), high)

    np.testing.assert_array_equal(clamp(np.arange(5.0), 1.0, 3.0), np.clip(np.arange(5.0), 1, 3))

    @elementwise
    def logic(x, y):
        if 0 < x < 2 and not (y > 1 or x == y):
            return x + y
        elif x > 3:
            return abs(y)
        return x * y if y else -1.0

    x, y = np.meshgrid(np.linspace(-1, 4, 11), np.linspace(-2, 2, 9))
    want = np.where(
        (0 < x) & (x < 2) & ~((y > 1) | (x == y)), x + y, np.where(x > 3, np.abs(y), np.where(y != 0, x * y, -1.0))
    )
    np.testing.assert_array_equal(logic(x, y), want)


def test_loops_over_fixed_ranges_and_helper_functions():
    @elementwise
    def series(x):
        total, term = 0.0, 1.0
        for n in range(1, 20):
            total += term
            term = term * x / n
        return total + helper(x)

    np.testing.assert_allclose(series(R), np.exp(R) + 2 * np.exp(-R))


def every(x):
    return (
        math.sqrt(x)
        + math.log(x)
        + math.log(x, 3)
        + math.log1p(x)
        + math.sin(x) * math.cos(x)
        + math.tanh(x)
        + math.atan2(x, 2.0)
        + math.fabs(-x)
        + math.pow(x, 1.5)
        + math.hypot(x, 3.0)
        + math.pi
        + math.sqrt(2.0)
    )


def test_functions_of_math():
    compiled = elementwise(every)
    np.testing.assert_allclose(compiled(R), [every(x) for x in R], rtol=1e-14)
    assert compiled(R.astype(np.float32)).dtype == np.float32  # numbers computed by math stay weak


def test_derivatives_to_third_order():
    def closed(n, r, d, w, r0):
        e = np.exp(-w * (r - r0))
        return d * (-2 * (-w) ** n * e + (-2 * w) ** n * e * e)

    f = lambda r: morse(r, 5.0, 1.2, 0.9)
    g = f
    for n in (1, 2, 3):
        g = grad(g)
        np.testing.assert_allclose(g(1.7), closed(n, 1.7, 5.0, 1.2, 0.9))
        np.testing.assert_allclose(morse.partial(*["r"] * n)(R, 5.0, 1.2, 0.9), closed(n, R, 5.0, 1.2, 0.9))
    np.testing.assert_allclose(jvp(f, (R,), (np.ones(6),))[1], closed(1, R, 5.0, 1.2, 0.9))
    np.testing.assert_allclose(vmap(hessian(f))(R), closed(2, R, 5.0, 1.2, 0.9))
    # a broadcast parameter collects from all elements
    np.testing.assert_allclose(grad(lambda d: np.sum(morse(R, d, 1.2)))(5.0), np.sum(numpy_morse(R, 1.0, 1.2)))
    np.testing.assert_allclose(morse.partial("depth", "r")(R, 5.0, 1.2, 0.9), closed(1, R, 1.0, 1.2, 0.9))
    np.testing.assert_array_equal(morse.partial("depth", "depth")(R, 5.0, 1.2), np.zeros(6))


def test_derivative_of_a_branch_not_taken_does_not_appear():
    @elementwise
    def root(x):
        return math.sqrt(x) if x > 0 else 0.0

    x = np.array([-1.0, 0.0, 4.0])
    np.testing.assert_array_equal(root(x), [0, 0, 2])
    np.testing.assert_array_equal(grad(lambda x: np.sum(root(x)))(x), [0, 0, 0.25])
    np.testing.assert_array_equal(jvp(root, (x,), (np.ones(3),))[1], [0, 0, 0.25])
    np.testing.assert_array_equal(root.partial("x")(x), [0, 0, 0.25])


def with_override():
    @elementwise
    def f(r, k):
        return k * math.sin(r)

    @f.derivative("r")
    def _(r, k):
        return 10 * k * math.cos(r)

    return f


def test_an_overridden_derivative_is_used_in_every_transform():
    f = with_override()
    np.testing.assert_allclose(f(R, 2.0), 2 * np.sin(R))
    np.testing.assert_allclose(grad(lambda r: np.sum(f(r, 2.0)))(R), 20 * np.cos(R))
    np.testing.assert_allclose(grad(lambda k: np.sum(f(R, k)))(2.0), np.sum(np.sin(R)))
    np.testing.assert_allclose(jvp(f, (R, 2.0), (np.ones(6), 1.0))[1], 20 * np.cos(R) + np.sin(R))
    np.testing.assert_allclose(vmap(grad(grad(f)), in_axes=(0, None))(R, 2.0), -20 * np.sin(R))
    np.testing.assert_allclose(jacfwd(jacfwd(f))(0.3, 2.0), -20 * np.sin(0.3))
    recorded = as_graph(lambda r: np.sum(f(r, 2.0)), R)
    np.testing.assert_allclose(recorded(R), np.sum(2 * np.sin(R)))
    np.testing.assert_allclose(grad(recorded)(R), 20 * np.cos(R))
    np.testing.assert_allclose(f.partial("r")(R, 2.0), 20 * np.cos(R))
    assert grad(f)(np.float32(1), np.float32(2)).dtype == np.float32


def test_an_override_is_seen_through_a_calling_function():
    f = with_override()

    @elementwise
    def twice(r, k):
        return 2 * f(r, k) + r

    np.testing.assert_allclose(twice(R, 2.0), 4 * np.sin(R) + R)
    np.testing.assert_allclose(grad(lambda r: np.sum(twice(r, 2.0)))(R), 40 * np.cos(R) + 1)
    np.testing.assert_allclose(twice.partial("r")(R, 2.0), 40 * np.cos(R) + 1)
    np.testing.assert_allclose(vmap(twice, (0, None))(R, R), 2 * R * np.sin(R)[:, None] + R[:, None])
    # the graph for other compilers holds arithmetic only
    assert {e.primitive.name for e in twice.graph().equations} == {"sin", "multiply", "add"}


def test_compiled_and_fused_into_its_neighbors():
    f = with_override()
    loss = lambda r: np.sum(truncated(r, 1.0, 1.0, 2.0) + 2 * f(r, 3.0) * morse(r, 5.0, 1.2))
    np.testing.assert_allclose(jit(loss)(R), loss(R), rtol=1e-13)
    np.testing.assert_allclose(jit(grad(loss))(R), grad(loss)(R), rtol=1e-12)
    np.testing.assert_allclose(grad(jit(loss))(R), grad(loss)(R), rtol=1e-12)
    np.testing.assert_allclose(
        jit(vmap(grad(loss)))(np.stack([R, R + 1])), vmap(grad(loss))(np.stack([R, R + 1])), rtol=1e-12
    )
    np.testing.assert_allclose(
        jit(vmap(hessian(lambda r: f(r, 3.0) + morse(r, 5.0, 1.2))))(R),
        vmap(hessian(lambda r: f(r, 3.0) + morse(r, 5.0, 1.2)))(R),
        rtol=1e-12,
    )
    assert jit(lambda r: f(r, np.float32(3)))(R.astype(np.float32)).dtype == np.float32


def test_scalar_graph_is_straight_line_and_shares_what_paths_have_in_common():
    graph = truncated.graph()
    assert [s.shape for s in graph.in_specs] == [()] * 4 and graph.out_specs[0].dtype == np.float64
    names = [e.primitive.name for e in graph.equations]
    assert names.count("select") == 1 and names.count("integer_power") == 1
    assert truncated.graph(np.float32).out_specs[0].dtype == np.float32


# -- inside Numba ------------------------------------------------------------------------------------------------------


def test_numba_form_and_its_partials():
    energy, force = morse.numba, morse.partial("r").numba

    @numba.njit
    def kernel(r, out, slope):
        for i in range(r.size):
            out[i] = energy(r[i], 5.0, 1.2, 0.9)
            slope[i] = force(r[i], 5.0, 1.2, 0.9)

    out, slope = np.empty(6), np.empty(6)
    kernel(R, out, slope)
    np.testing.assert_allclose(out, morse(R, 5.0, 1.2, 0.9), rtol=1e-14)
    np.testing.assert_allclose(slope, morse.partial("r")(R, 5.0, 1.2, 0.9), rtol=1e-13)
    np.testing.assert_allclose([truncated.numba(r, 1.0, 1.0, 2.0) for r in R], truncated(R, 1.0, 1.0, 2.0), rtol=1e-13)


def test_numba_form_computes_in_the_precision_of_its_arguments():
    text = source(morse.graph(np.float32), "morse", morse.names)
    assert "float64" not in text
    f = morse.numba
    args = [np.float32(v) for v in (1.5, 5.0, 1.2, 0.9)]
    f(*args)
    assert f.nopython_signatures[-1].return_type == numba.float32


# -- errors ------------------------------------------------------------------------------------------------------------


def test_errors():
    with pytest.raises(TypeError, match="elementwise: expected a function, got int"):
        elementwise(3)
    with pytest.raises(TypeError, match="arguments must be plain ones"):
        elementwise(lambda *xs: xs)
    with pytest.raises(TypeError, match="must return one scalar, got tuple"):
        elementwise(lambda x: (x, x))(1.0)
    with pytest.raises(TypeError, match="elementwise morse: missing a required argument: 'width'"):
        morse(R, 1.0)
    with pytest.raises(ValueError, match="must be one of r, depth, width, r0, got 's'"):
        morse.derivative("s")
    with pytest.raises(TypeError, match="same 4 arguments, got 1"):
        morse.derivative("r")(lambda r: r)
    with pytest.raises(ValueError, match=r"morse: operands could not be broadcast together with shapes \(6,\) \(2,\)"):
        morse(R, np.ones(2), 1.0)

    @elementwise
    def newton(x):
        while x > 1:
            x = x / 2
        return x

    with pytest.raises(TracerError, match="elementwise newton: there must be at most 512 ways through the function"):
        newton(R)

    @elementwise
    def factorial(x):
        return math.factorial(x)

    with pytest.raises(TypeError, match="math.factorial: no elementwise form"):
        factorial(R)
    with pytest.raises(TypeError, match="derivatives are taken with respect to float or complex"):
        morse.partial("r")(1, 2.0, 3.0)


def test_made_of_a_compiled_function():
    f = elementwise(numba.njit(lambda x: math.exp(x) + 1))
    assert isinstance(f, Elementwise)
    np.testing.assert_allclose(f(R), np.exp(R) + 1)
