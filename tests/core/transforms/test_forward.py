"""Forward mode against reverse mode, known derivatives, and its own promises."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import triskele.core.ops  # noqa: F401
from triskele.core.errors import EscapedTensorError, TreeError
from triskele.core.transforms.forward import jvp, linearize
from triskele.core.transforms.grad import grad, vjp
from triskele.core.transforms.vmap import vmap


def network(p, x):
    return {"y": np.tanh(p["w"] @ x + p["b"]), "s": np.sum(x * x)}


@pytest.fixture
def point(rng):
    return {"w": rng.normal(size=(2, 3)), "b": rng.normal(size=2)}, rng.normal(size=3)


@pytest.fixture
def direction(rng):
    return {"w": rng.normal(size=(2, 3)), "b": rng.normal(size=2)}, rng.normal(size=3)


def test_value_and_tangent(point, direction):
    (p, x), (dp, dx) = point, direction
    value, t = jvp(network, point, direction)
    h = np.tanh(p["w"] @ x + p["b"])
    assert_allclose(value["y"], h)
    assert_allclose(t["y"], (1 - h**2) * (dp["w"] @ x + p["w"] @ dx + dp["b"]), rtol=1e-13)
    assert_allclose(t["s"], 2 * x @ dx)


def test_agrees_with_reverse_mode(point, direction, rng):
    _, t = jvp(network, point, direction)
    _, pull = vjp(network, *point)
    ct = {"y": rng.normal(size=2), "s": 0.7}
    gp, gx = pull(ct)
    forward = ct["y"] @ t["y"] + ct["s"] * t["s"]
    backward = np.sum(gp["w"] * direction[0]["w"]) + gp["b"] @ direction[0]["b"] + gx @ direction[1]
    assert_allclose(forward, backward, rtol=1e-13)


def test_linear_in_the_direction(point, direction):
    out, push = linearize(network, *point)
    _, once = jvp(network, point, direction)
    again = push(*direction)
    assert_allclose(out["y"], network(*point)["y"])
    for k in once:
        assert_allclose(again[k], once[k], rtol=1e-13)
    double = push({k: 2 * v for k, v in direction[0].items()}, 2 * direction[1])
    assert_allclose(double["y"], 2 * once["y"], rtol=1e-13)
    assert_allclose(vmap(lambda d: push(direction[0], d)["y"])(np.stack([direction[1]] * 2)), [once["y"]] * 2)


def test_costs_no_tape():
    """Nothing is kept: what the function lets go of is gone before it returns."""
    import tracemalloc

    def f(x):
        for _ in range(100):
            x = np.sin(x)
        return x

    x = np.ones(10_000)
    tracemalloc.start()
    jvp(f, (x,), (x,))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12 * x.nbytes


def test_zero_tangents_of_integers_and_constants():
    value, t = jvp(lambda x: (np.floor(x), 3, np.argmax(x), x > 0), (np.ones(2),), (np.ones(2),))
    assert_allclose(t[0], 0)
    assert t[1] == 0 and t[2] == 0
    assert_allclose(value[0], 1)


def test_auxiliary_results():
    value, t, aux = jvp(lambda x: (x**2, {"x": x, "text": "t"}), (3.0,), (1.0,), has_aux=True)
    assert (value, t, aux["x"], aux["text"]) == (9, 6, 3, "t")


def test_mixed_orders():
    f = lambda x: np.exp(np.sin(x))
    second = lambda x: f(x) * (np.cos(x) ** 2 - np.sin(x))
    slope = lambda x: jvp(f, (x,), (1.0,))[1]
    for d in (grad(slope), lambda x: jvp(slope, (x,), (1.0,))[1], lambda x: jvp(grad(f), (x,), (1.0,))[1]):
        assert_allclose(d(0.4), second(0.4), rtol=1e-13)
    # perturbations of different calls do not mix
    assert jvp(lambda x: x * jvp(lambda y: x + y, (1.0,), (1.0,))[1], (1.0,), (1.0,))[1] == 1.0


def test_complex_directions():
    z, d = 0.3 + 0.4j, 0.5 - 1j
    assert_allclose(jvp(np.exp, (z,), (d,))[1], np.exp(z) * d)
    assert_allclose(jvp(np.conj, (z,), (d,))[1], np.conj(d))
    assert_allclose(jvp(np.abs, (z,), (d,))[1], np.real(np.conj(z) * d) / np.abs(z))


def test_errors():
    with pytest.raises(TreeError, match="one structure"):
        jvp(np.sin, (1.0,), ((1.0, 2.0),))
    with pytest.raises(ValueError, match=r"shape of its primal, \(3,\), got \(2,\)"):
        jvp(np.sin, (np.ones(3),), (np.ones(2),))
    with pytest.raises(TypeError, match="float or complex"):
        jvp(np.sin, (1,), (1.0,))
    kept = []
    jvp(lambda x: kept.append(x) or x, (1.0,), (1.0,))
    with pytest.raises(EscapedTensorError, match="after its transform had ended"):
        kept[0] + 1
