"""Simplification: fewer equations, the same numbers, NaN and signed zeros included."""

import numpy as np
import pytest

from triskele.core.graph.graph import Const, Spec, spec_of
from triskele.core.graph.simplify import simplify
from triskele.core.graph.trace import evaluate, make_graph


def graphs(f, *args):
    graph, _ = make_graph(lambda *a: [f(*a)], [spec_of(a) for a in args])
    return graph, simplify(graph)


X = np.array([1.5, -0.0, 0.0, np.nan, np.inf, -2.0])


@pytest.mark.parametrize(
    "f, left",
    [
        (lambda x: x * 1, 0),
        (lambda x: x / 1, 0),
        (lambda x: x - 0.0, 0),
        (lambda x: np.negative(-x), 0),
        (lambda x: np.where(np.array(True), x, x + 1), 0),
        (lambda x: np.transpose(np.transpose(np.reshape(x, (2, 3)))), 1),
        (lambda x: np.reshape(np.reshape(x, (2, 3)), (6,)), 0),
        (lambda x: np.sin(x) + np.sin(x), 2),
        (lambda x: x * (2 * np.cos(0.0) + np.array(3.0)), 1),
        (lambda x: x.astype(np.float64), 0),
        (lambda x: x / 4, 1),
        (lambda x: x + np.broadcast_to(np.float64(0.5), (6,)), 1),
    ],
)
def test_equations_that_are_left(f, left):
    graph, small = graphs(f, X)
    assert len(small.equations) == left
    with np.errstate(invalid="ignore"):
        (got,), (want,) = evaluate(small, X), evaluate(graph, X)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


@pytest.mark.parametrize(
    "f",
    [lambda x: x + 0.0, lambda x: 0.0 - x, lambda x: x * 0.0, lambda x: x - x],
    ids=["x + 0.0", "0.0 - x", "x * 0.0", "x - x"],
)
def test_what_would_change_signs_or_nan_stays(f):
    _, small = graphs(f, X)
    assert len(small.equations) == 1


def test_dead_code_is_dropped():
    graph, small = graphs(lambda x: (np.exp(x), x + 1)[1], X)
    assert [e.primitive.name for e in small.equations] == ["add"]


def test_random_programs_keep_their_values(rng):
    x = rng.normal(size=(3, 4))
    graph, small = graphs(lambda x: np.sum((x * 1 + np.zeros((3, 4)) + x.T.T * np.ones(4)) ** 2.0 / 2, axis=0), x)
    np.testing.assert_allclose(evaluate(small, x)[0], evaluate(graph, x)[0], rtol=1e-15)
    assert len(small.equations) < len(graph.equations)


def test_large_constants_are_not_made():
    _, small = graphs(lambda x: x * np.broadcast_to(np.float64(2.0), (1000, 6)), X)
    assert all(a.spec.size == 1 for e in small.equations for a in e.inputs if isinstance(a, Const))


def test_dtypes_survive():
    _, small = graphs(lambda x: x * 1.0, np.arange(3))
    assert small.out_specs == [Spec((3,), np.dtype(float))]
