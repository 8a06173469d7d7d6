"""Functions of the core in JAX: values and gradients against JAX's own functions and finite differences."""

import numpy as np
import pytest

from triskele import core

jax = pytest.importorskip("jax")
pytestmark = pytest.mark.peer
jnp = jax.numpy


@pytest.fixture(autouse=True)
def _double_precision():
    with jax.enable_x64(True):
        yield


def layer(w, x):
    return np.tanh(x @ w)


def theirs(w, x):
    return jnp.tanh(x @ w)


def inputs():
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.normal(size=(3, 2))), jnp.asarray(rng.normal(size=(4, 3)))


@pytest.mark.parametrize("f", [layer, core.jit(layer)])
def test_values_and_derivatives(f):
    from jax.test_util import check_grads

    ours, (w, x) = core.to_jax(f), inputs()
    for g in (ours, jax.jit(ours)):
        np.testing.assert_allclose(g(w, x), theirs(w, x))
        check_grads(g, (w, x), order=2, modes=["rev"])


def test_complex_gradients():
    z = jnp.array([0.3 + 1j, -0.5 + 0.2j])
    np.testing.assert_allclose(
        jax.grad(core.to_jax(lambda z: np.sum(np.abs(z) ** 4)))(z), jax.grad(lambda z: jnp.sum(jnp.abs(z) ** 4))(z)
    )


@pytest.mark.parametrize("axes", [(0, None), (None, 0), (0, 0)])
@pytest.mark.parametrize("batch", [1, 5])
def test_batches(axes, batch):
    w, x = (v if ax is None else jnp.stack([v + k for k in range(batch)]) for v, ax in zip(inputs(), axes, strict=True))
    ours = core.to_jax(layer)
    np.testing.assert_allclose(jax.vmap(ours, axes)(w, x), jax.vmap(theirs, axes)(w, x))
    slopes = [jax.jit(jax.vmap(jax.grad(lambda w, x, f=f: f(w, x).sum()), axes))(w, x) for f in (ours, theirs)]
    np.testing.assert_allclose(*slopes, atol=1e-12)


def test_batches_of_batches():
    w, x = inputs()
    many = jnp.stack([w, 2 * w]), jnp.stack([x, x + 1, x + 2])
    ours, want = (jax.vmap(jax.vmap(f, (None, 0)), (0, None))(*many) for f in (core.to_jax(layer), theirs))
    np.testing.assert_allclose(ours, want)


def test_trees_integers_and_other_arguments():
    f = core.to_jax(lambda p, n, name="a": {"y": n * p[name], "k": np.argmax(p[name]), "z": [np.sum(p["b"])]})
    p = {"a": jnp.array([1.0, 3.0]), "b": jnp.arange(3)}
    out = f(p, 3, name="a")
    assert out["y"].tolist() == [3, 9]
    assert (int(out["k"]), int(out["z"][0])) == (1, 3)
    assert jax.grad(lambda p: f(p, 3)["y"].sum(), allow_int=True)(p)["a"].tolist() == [3, 3]


def test_single_precision_is_the_default():
    with jax.enable_x64(False):
        assert core.to_jax(lambda x: np.asarray(x, float))(jnp.ones(2)).dtype == np.float32


def test_refusals():
    with pytest.raises(TypeError, match="core.to_jax"):
        jax.jit(core.jit(np.sum))(jnp.ones(2))
    with pytest.raises(TypeError, match="bfloat16"):
        core.to_jax(np.sum)(jnp.ones(2, jnp.bfloat16))
    with pytest.raises(TypeError, match="bfloat16"):
        core.jit(np.sum)(jnp.ones(2, jnp.bfloat16))
    with pytest.raises(TypeError, match="must return arrays"):
        core.to_jax(lambda x: "text")(jnp.ones(1))


def test_arrays_of_jax_as_arguments():
    x = jnp.arange(3.0)
    doubled = core.jit(lambda v: 2 * v)(x)
    assert type(doubled) is np.ndarray
    assert doubled.flags.writeable
    np.testing.assert_array_equal(core.grad(lambda v: np.sum(v**2))(x), doubled)
