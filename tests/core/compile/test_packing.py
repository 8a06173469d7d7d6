"""Weights of a loop: brought into the form of the products once, and the same results as without a loop."""

import numpy as np
import pytest

from triskele.core import get_threads, jit, set_threads, value_and_grad
from triskele.core.transforms.control.operators import scan


def loss(w, h, xs):
    def step(h, x):
        h = np.tanh(x + h @ w)
        return h, h @ w[:, :20] + (h @ w.T)[:, :20]

    h, ys = scan(step, h, xs)
    return np.sum(h) + np.sum(ys**2)


def unrolled(w, h, xs):
    total = 0.0
    for x in xs:
        h = np.tanh(x + h @ w)
        total = total + np.sum((h @ w[:, :20] + (h @ w.T)[:, :20]) ** 2)
    return np.sum(h) + total


@pytest.fixture
def data(rng):
    return rng.normal(size=(70, 70)) / 8, rng.normal(size=(24, 70)), rng.normal(size=(6, 24, 70))


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5), (np.complex128, 1e-12)])
def test_value_is_that_of_the_steps_one_by_one(data, dtype, tolerance):
    w, h, xs = (x.astype(dtype) for x in data)
    np.testing.assert_allclose(jit(loss)(w, h, xs), unrolled(w, h, xs), rtol=tolerance)


def test_gradient_is_that_of_the_steps_one_by_one(data):
    w, h, xs = data
    got, expected = jit(value_and_grad(loss))(w, h, xs), value_and_grad(unrolled)(w, h, xs)
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-12)
    np.testing.assert_allclose(got[1], expected[1], rtol=1e-10, atol=1e-10)


def test_each_matrix_is_packed_once_before_the_loop(data):
    source = jit(loss).lower(*data).source
    main = source[source.index("define i32 @main") :]
    # w, its first columns, w.T
    assert main.count("call void @tsk.pack.f64") == source.count("call void @tsk.pack.f64") == 3


def test_a_loop_of_few_steps_packs_nothing(data):
    w, h, xs = data
    assert "call void @tsk.pack" not in jit(loss).lower(w, h, xs[:2]).source


def test_weights_that_change_from_step_to_step_are_not_packed(data):
    _, h, xs = data

    def products(h, ws):
        return scan(lambda h, w: (np.tanh(h @ w), None), h, ws)[0]

    ws = np.stack([xs[:, 0].T @ xs[:, 0] / 70] * 6)
    assert "call void @tsk.pack" not in jit(products).lower(h, ws).source


def test_results_do_not_depend_on_threads(data):
    w, h, xs = np.tile(data[0], (4, 4)), np.tile(data[1], (1, 4)), np.tile(data[2], (1, 1, 4))
    before, f = get_threads(), jit(value_and_grad(loss))
    try:
        results = []
        for n in (1, 2):
            set_threads(n)
            results.append(f(w, h, xs))
    finally:
        set_threads(before)
    np.testing.assert_array_equal(results[0][1], results[1][1])
