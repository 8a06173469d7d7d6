"""`vmap` against a loop over the examples."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

import triskele.core.ops  # noqa: F401
from tests.twins.derivatives import check_batched
from triskele.core.errors import TracerError, TreeError
from triskele.core.transforms.grad import grad
from triskele.core.transforms.vmap import vmap


def test_like_a_loop(rng):
    check_batched(lambda w, x: np.tanh(w @ x), rng.normal(size=(2, 3)), rng.normal(size=3))
    check_batched(lambda x, y: np.where(x > 0, x, y)[::-1] * np.sum(y), rng.normal(size=3), rng.normal(size=3))


def test_axes(rng):
    a, b = rng.normal(size=(3, 5, 2)), rng.normal(size=(2, 4))
    out = vmap(lambda a, b: a @ b, in_axes=(1, None), out_axes=2)(a, b)
    assert_allclose(out, np.stack([a[:, i] @ b for i in range(5)], axis=2))
    assert_allclose(vmap(lambda a: a.sum(), in_axes=-1)(a), a.sum((0, 1)))
    assert_allclose(vmap(lambda a: a, in_axes=0, out_axes=-1)(a), np.moveaxis(a, 0, -1))


def test_trees_and_keywords(rng):
    p = {"w": rng.normal(size=(4, 3)), "scale": np.float64(2.0)}
    out = vmap(lambda p, x: {"y": p["w"] * p["scale"] + x}, in_axes=({"w": 0, "scale": None}, None))(p, 1.0)
    assert_allclose(out["y"], p["w"] * 2 + 1)
    assert_allclose(vmap(lambda x, *, y: x + y)(np.arange(3.0), y=np.arange(3.0)), 2 * np.arange(3.0))


def test_results_without_batch_are_stretched_or_shared():
    out = vmap(lambda x: (x, 3.0), out_axes=(0, None))(np.arange(2.0))
    assert out[1] == 3.0
    assert_allclose(vmap(lambda x: 3.0)(np.arange(2.0)), [3, 3])


def test_nested(rng):
    a, b = rng.normal(size=(3, 4)), rng.normal(size=(5, 4))
    assert_allclose(vmap(vmap(np.dot, in_axes=(None, 0)), in_axes=(0, None))(a, b), a @ b.T, rtol=1e-13)
    assert_allclose(vmap(lambda x: vmap(lambda y: x * y)(b[:, 0]))(a[:, 0]), np.outer(a[:, 0], b[:, 0]))


def test_with_derivatives(rng):
    w, x = rng.normal(size=3), rng.normal(size=(4, 3))
    f = lambda w, x: np.tanh(w @ x)
    each = (1 - np.tanh(x @ w) ** 2)[:, None] * x
    assert_allclose(vmap(grad(f), in_axes=(None, 0))(w, x), each, rtol=1e-13)
    assert_allclose(grad(lambda w: np.sum(vmap(f, in_axes=(None, 0))(w, x)))(w), each.sum(0), rtol=1e-13)


def test_assignment_per_example(rng):
    x = rng.normal(size=(4, 3))

    def f(x):
        y = np.zeros_like(x)
        y[0] = x[1]
        y[1:] += 2 * x[:2]
        return y

    assert_allclose(vmap(f)(x), [f(r) for r in x])


def test_errors():
    with pytest.raises(ValueError, match=r"one size, got 3 .* 2 "):
        vmap(np.add)(np.ones(3), np.ones(2))
    with pytest.raises(ValueError, match=r"must have a batch axis 1, got shape \(3,\)"):
        vmap(np.sin, in_axes=1)(np.ones(3))
    with pytest.raises(ValueError, match="at least one argument must have a batch axis"):
        vmap(np.sin, in_axes=None)(1.0)
    with pytest.raises(ValueError, match="one entry per positional argument, got 3 for 1"):
        vmap(np.sin, in_axes=(0, 0, 0))(np.ones(3))
    with pytest.raises(TreeError, match="in_axes"):
        vmap(lambda p: p["a"], in_axes=({"a": 0, "b": 0},))({"a": np.ones(3)})
    with pytest.raises(ValueError, match="differs from example to example"):
        vmap(np.sin, out_axes=None)(np.ones(3))
    with pytest.raises(TracerError, match="3 values, one for each example of vmap"):
        vmap(lambda x: x if x > 0 else -x)(np.ones(3))
