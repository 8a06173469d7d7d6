"""Recomputation instead of storage: the same numbers, less memory; and `stop_gradient`."""

import tracemalloc

import numpy as np
import pytest
from numpy.testing import assert_allclose

import triskele.core.ops  # noqa: F401
from triskele.core import tree
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.checkpoint import checkpoint, stop_gradient
from triskele.core.transforms.control.operators import scan, while_loop
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad
from triskele.core.transforms.jacobian import hessian
from triskele.core.transforms.vmap import vmap


def layer(p, x):
    return {"y": np.tanh(p["w"] @ x["y"] + p["b"]), "n": x["n"] + 1}


def network(p, x, wrap):
    state = {"y": x, "n": 0}
    for _ in range(3):
        state = wrap(layer)(p, state)
    return np.sum(state["y"] ** 2) * state["n"]


@pytest.fixture
def weights(rng):
    return {"w": rng.normal(size=(3, 3)), "b": rng.normal(size=3)}


@pytest.mark.parametrize(
    "transform",
    [
        grad,
        lambda f: lambda p: jvp(f, (p,), (p,))[1],
        lambda f: grad(lambda p: np.sum(grad(f)(p)["w"] ** 2)),
        lambda f: lambda p: hessian(f)(p)["w"],
        lambda f: lambda p: vmap(grad(f))({k: np.stack([v, 2 * v]) for k, v in p.items()})["b"],
    ],
    ids=["grad", "jvp", "grad of grad", "hessian", "vmap of grad"],
)
def test_every_transform_gives_the_same_numbers(weights, rng, transform):
    x = rng.normal(size=3)
    plain = tree.leaves(transform(lambda p: network(p, x, lambda f: f))(weights))
    again = tree.leaves(transform(lambda p: network(p, x, checkpoint))(weights))

    def flat(w, b):
        return tree.leaves(transform(lambda p: network(p, x, checkpoint))({"w": w, "b": b}))

    graph, _ = make_graph(flat, [spec_of(weights["w"]), spec_of(weights["b"])])
    recorded = evaluate(graph, weights["w"], weights["b"])
    for a, b, c in zip(plain, again, recorded, strict=True):
        assert_allclose(b, a, rtol=1e-12)
        assert_allclose(c, a, rtol=1e-12)


def test_the_inside_runs_again_in_the_backward_pass():
    graph, _ = make_graph(
        lambda x: [grad(lambda x: np.sum(checkpoint(lambda x: np.exp(np.sin(x)))(x)))(x)], [spec_of(np.ones(3))]
    )
    outside = [e.primitive.name for e in graph.equations]
    # the forward call is dead: only its derivative is wanted
    assert outside.count("checkpoint") == 1 and "exp" not in outside
    (inner,) = [e.params["graph"] for e in graph.equations if e.primitive.name == "checkpoint"]
    assert {"exp", "sin", "cos"} <= {e.primitive.name for e in inner.equations}


def test_closed_over_values_have_derivatives():
    assert grad(lambda a: checkpoint(lambda x: a * x * a)(3.0))(2.0) == 12.0


def test_stop_gradient():
    assert grad(lambda x: x * stop_gradient(x))(3.0) == 3.0
    assert jvp(lambda x: x * stop_gradient(x), (3.0,), (1.0,))[1] == 3.0
    assert grad(lambda x: np.sum(stop_gradient({"a": x})["a"]))(3.0) == 0.0
    assert_allclose(vmap(grad(lambda x: x * stop_gradient(x)))(np.arange(3.0)), np.arange(3.0))
    assert stop_gradient((1, "text"))[0] == 1


def peak(f):
    tracemalloc.start()
    f()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most


def test_memory_of_long_loops_grows_like_the_square_root():
    x = np.full(200, 0.5)

    def loss(x, n, **kwargs):
        return np.sum(scan(lambda c, _: (np.sin(c * x), None), x, length=n, **kwargs)[0])

    all_steps = [peak(lambda n=n: grad(loss)(x, n)) for n in (400, 1600)]
    pieces = [peak(lambda n=n: grad(lambda x: loss(x, n, checkpoint=True))(x)) for n in (400, 1600)]
    assert all_steps[1] > 3 * all_steps[0]
    assert pieces[1] < 2.6 * pieces[0]
    assert pieces[1] < all_steps[1] / 4
    assert_allclose(grad(lambda x: loss(x, 90, checkpoint=True))(x), grad(lambda x: loss(x, 90))(x))


def test_memory_of_a_loop_of_unknown_length_does_not_grow():
    graph, _ = make_graph(
        lambda x, n: [
            grad(
                lambda x: np.sum(
                    while_loop(lambda s: s[1] < n, lambda s: (np.sin(s[0] * 1.5), s[1] + 1), (x, 0), checkpoints=8)[0]
                )
            )(x)
        ],
        [spec_of(np.ones(300)), spec_of(1)],
    )
    x = np.full(300, 0.5)
    few, many = [peak(lambda n=n: evaluate(graph, x, n)) for n in (16, 128)]
    assert many < 1.2 * few
