"""Reverse mode: known derivatives, finite differences, trees, complex numbers, errors."""

import dataclasses

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_derivatives
from triskele.core.errors import EscapedTensorError, TracerError
from triskele.core.transforms.grad import grad, value_and_grad, vjp
from triskele.core.transforms.jacobian import hessian, hvp, jacfwd, jacrev

FUNCTIONS = {
    "polynomial": (lambda x: x**3 - 2 * x, lambda x: 3 * x**2 - 2),
    "quotient": (
        lambda x: np.sin(x) / (1 + x**2),
        lambda x: np.cos(x) / (1 + x**2) - 2 * x * np.sin(x) / (1 + x**2) ** 2,
    ),
    "composition": (
        lambda x: np.exp(-np.sqrt(1 + x * x)),
        lambda x: -x / np.sqrt(1 + x * x) * np.exp(-np.sqrt(1 + x * x)),
    ),
    "many uses": (lambda x: x * x * x * x + x + x, lambda x: 4 * x**3 + 2),
    "constant": (lambda x: 0 * x + 3.0, lambda x: 0.0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_known_derivatives(name):
    f, df = FUNCTIONS[name]
    for x in (0.3, -1.2, np.float64(2.0)):
        value, slope = value_and_grad(f)(x)
        assert value == f(x)
        assert_allclose(slope, df(x), rtol=1e-13)


def test_finite_differences(rng):
    w, x = rng.normal(size=(3, 4)), rng.normal(size=4)
    check_derivatives(lambda w, x: np.tanh(w @ x) * np.sum(w, axis=1), w, x)
    check_derivatives(lambda x: np.stack([x, x[::-1]])[:, 1:] * np.reshape(x[:3], (1, 3)), x)
    check_derivatives(lambda x: np.where(x > 0, np.exp(x), x**2).sum(), x)


def test_float32_stays_float32(rng):
    x = rng.normal(size=3).astype(np.float32)
    value, g = value_and_grad(lambda x: np.sum(np.sin(x) * 2.0))(x)
    assert value.dtype == g.dtype == np.float32
    assert_allclose(g, 2 * np.cos(x), rtol=1e-6)


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: np.ndarray
    name: str = dataclasses.field(default="layer", metadata={"static": True})


def test_trees_go_through(rng):
    p = {"layers": [Layer(rng.normal(size=(2, 3)), np.zeros(2)), (1.5, None)]}

    def f(p, x):
        layer, (scale, _) = p["layers"]
        return scale * np.sum(layer.w @ x + layer.b)

    x = rng.normal(size=3)
    g = grad(f)(p, x)
    layer, (scale, none) = g["layers"]
    assert none is None and type(layer) is Layer and layer.name == "layer"
    assert_allclose(layer.w, 1.5 * np.stack([x, x]))
    assert_allclose(layer.b, [1.5, 1.5])
    assert_allclose(scale, np.sum(p["layers"][0].w @ x))
    both = grad(f, argnums=(1, 0))(p, x)
    assert_allclose(both[0], 1.5 * p["layers"][0].w.sum(0))
    assert_allclose(both[1]["layers"][0].w, layer.w)


def test_auxiliary_results():
    (value, aux), g = value_and_grad(lambda x: (x**2, {"twice": 2 * x, "text": "t"}), has_aux=True)(3.0)
    assert (value, g) == (9, 6) and aux == {"twice": 6, "text": "t"}
    g, aux = grad(lambda x: (x**2, x), has_aux=True)(3.0)
    assert (g, aux) == (6, 3)


def test_higher_orders():
    f = np.sin
    expected = [np.cos, lambda x: -np.sin(x), lambda x: -np.cos(x), np.sin, np.cos]
    for d in expected:
        f = grad(f)
        assert_allclose(f(0.7), d(0.7), rtol=1e-13)


def test_derivatives_inside_derivatives_do_not_mix():
    # d/dx (x * d/dy (x + y)) = 1, the classical trap of confused perturbations
    assert grad(lambda x: x * grad(lambda y: x + y)(1.0))(1.0) == 1.0
    assert grad(lambda x: x * grad(lambda y: x * y)(2.0))(3.0) == 6.0


def test_pullbacks_can_be_used_again(rng):
    x = rng.normal(size=3)
    out, pull = vjp(lambda x: (np.sin(x), x[0]), x)
    for _ in range(2):
        assert_allclose(pull((np.ones(3), 0.0))[0], np.cos(x))
        assert_allclose(pull((np.zeros(3), 2.0))[0], [2, 0, 0])


def test_complex_derivatives():
    z = 0.4 + 0.3j
    assert_allclose(vjp(np.exp, z)[1](1 + 0j)[0], np.exp(z))  # holomorphic: f'(z)
    # real function of z = x + iy: df/dx - i df/dy
    assert_allclose(grad(lambda z: np.abs(z) ** 2)(z), 2 * np.conj(z))
    assert_allclose(grad(lambda z: np.real(z * z))(z), 2 * z)
    check_derivatives(lambda z: np.sin(z) * np.conj(z) / (1 + z * z), z)
    check_derivatives(lambda x, z: np.real(x * z) + np.abs(z), np.float64(0.7), z)


def test_assignment_is_part_of_the_derivative(rng):
    x = rng.normal(size=4)

    def f(x):
        y = x * 1.0
        y[1] = x[0] * x[2]
        y[2:] *= 3.0
        y += x
        return np.sum(y**2)

    def twin(x):
        y = np.stack([x[0], x[0] * x[2], 3 * x[2], 3 * x[3]]) + x
        return np.sum(y**2)

    before = x.copy()
    assert_allclose(grad(f)(x), grad(twin)(x), rtol=1e-13)
    assert_array_equal(x, before)


def test_jacobians_and_hessians(rng):
    x, a = rng.normal(size=3), rng.normal(size=(2, 3))
    f = lambda x: np.tanh(a @ x)
    expected = (1 - np.tanh(a @ x) ** 2)[:, None] * a
    assert_allclose(jacfwd(f)(x), expected, rtol=1e-13)
    assert_allclose(jacrev(f)(x), expected, rtol=1e-13)
    q = rng.normal(size=(3, 3))
    assert_allclose(hessian(lambda x: x @ q @ x)(x), q + q.T, rtol=1e-13)
    v = rng.normal(size=3)
    assert_allclose(hvp(lambda x: x @ q @ x, (x,), (v,)), (q + q.T) @ v, rtol=1e-13)


def test_a_gradient_takes_no_more_than_its_paths():
    """The tape visits each operation once however many paths lead through it."""
    calls = []

    def f(x):
        for _ in range(40):  # 2**40 paths
            x = x + np.sin(x)
            calls.append(1)
        return x

    assert np.isfinite(grad(f)(0.1)) and len(calls) == 40


# -- errors ------------------------------------------------------------------------------------------------------------


def test_wrong_inputs():
    with pytest.raises(
        TypeError,
        match=r"grad of <lambda>: derivatives are taken with respect to float or complex "
        r"values, got int64.*write 3\.0",
    ):
        grad(lambda x: x**2)(3)
    with pytest.raises(TypeError, match="astype"):
        grad(np.sum)(np.arange(3))
    with pytest.raises(ValueError, match="argnums must name positional arguments, got 2 for 1"):
        grad(np.sin, argnums=2)(1.0)


def test_wrong_outputs():
    with pytest.raises(TypeError, match=r"one real scalar, got shape \(3,\) \(use jacrev"):
        grad(np.sin)(np.ones(3))
    with pytest.raises(TypeError, match="real scalar, got complex128"):
        grad(lambda x: x * 1j)(1.0)
    with pytest.raises(TypeError, match=r"pair \(value, aux\), got"):
        grad(np.sin, has_aux=True)(1.0)
    _, pull = vjp(np.sin, np.ones(3))
    with pytest.raises(ValueError, match=r"shape of its output, \(3,\), got \(2,\)"):
        pull(np.ones(2))


def test_values_that_escape():
    kept = []
    grad(lambda x: kept.append(x) or x * 2)(1.0)
    with pytest.raises(EscapedTensorError, match=r"after its transform had ended.*test_grad\.py"):
        np.sin(kept[0])


def test_conversion_to_python_numbers():
    with pytest.raises(TracerError, match="use NumPy's functions rather than math's"):
        grad(eval("lambda x: float(x)"))(1.0)  # without source, its calls cannot be rewritten
    assert grad(lambda x: x if x > 0 else -x)(-2.0) == -1.0
