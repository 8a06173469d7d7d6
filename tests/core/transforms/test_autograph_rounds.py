"""Loops whose rounds run in Python and record the same operations: loops of the program, with Python's results."""

import numpy as np
import pytest

from triskele.core import grad, jit, tree
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import make_graph, traceable
from triskele.core.transforms.autograph.long import copies

X = np.linspace(0.1, 0.7, 5)


def bend(x, y):
    """Some 30 operations."""
    for k in range(5):
        x = np.sin(x) + 0.1 * y * np.roll(x, 1) - 0.01 * k
    return x


def generator(x):
    a, b = x, 1 + x
    for _ in range(12):
        a, b = (0.5 * c + np.sin(bend(a, b)) for c in (a, b))
    return a * b


def appended(x):
    seen = []
    for k in range(12):
        x = bend(x, x * k)
        seen.append(np.sum(x))
    return np.stack(seen), x


def sometimes_appended(x):
    seen, steps = [], 25
    for k in range(steps):
        x = bend(x, x + 1)
        if k % 5 == 0:
            seen.append(np.sum(x))
    return np.stack(seen), x


def dictionary(x):
    state = {"x": x, "v": x + 1}
    for _ in range(12):
        state["v"] = state["v"] - 0.1 * bend(state["x"], x)
        state = {**state, "x": state["x"] + 0.1 * state["v"]}
    return state


def known_by_two_names(x):
    state = {"x": x}
    other = state
    for _ in range(12):
        state["x"] = bend(state["x"], x)
    return other["x"]


def counted_while(x):
    k = 0
    while k < 12:
        x = bend(x, k * x)
        k += 1
    return x + k


def skipped(x):
    for k in range(24):
        if k % 3 == 1:
            continue
        x = bend(x, x)
    return x


def masked(x):
    total = 0.0
    for k in range(12):
        y = bend(x, x)
        if x[k % 5] > 0.3:
            continue
        error = y - 0.5
        total += error @ error
    return total


def in_place(x):
    y, k = np.tile(x, 3), 0
    while k < 12:
        y[3:8] += 0.1 * bend(x, x)
        y[0] *= 0.5
        k += 1
    return y


def rotated(x):
    a, b, c = x, x + 1, x + 2
    for _ in range(12):
        a, b, c = b, c, bend(a, c)
    return a, b, c


@pytest.mark.parametrize(
    "f",
    [
        generator,
        appended,
        sometimes_appended,
        dictionary,
        known_by_two_names,
        counted_while,
        skipped,
        masked,
        in_place,
        rotated,
    ],
)
def test_loops_stay_loops_with_the_values_and_derivatives_of_copies(f):
    graph = make_graph(lambda x: tree.flatten(traceable(f)(x))[0], [spec_of(X)])[0]
    assert any(e.primitive.name == "scan" for e in graph.equations)
    got, want = tree.flatten(jit(f)(X)), tree.flatten(f(X.copy()))
    assert got[1] == want[1]
    for a, b in zip(got[0], want[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)

    def total(x):
        return sum([np.sum(r) for r in tree.leaves(f(x))])

    v, h = np.array([1.0, -2.0, 0.5, 0.3, 1.5]), 1e-6
    slope = (total(X + h * v) - total(X - h * v)) / (2 * h)
    np.testing.assert_allclose(jit(grad(total))(X) @ v, slope, rtol=1e-6, atol=1e-8)


def test_views_of_an_array_that_is_assigned_into_see_it():
    def f(x):
        y = x * 1
        view = y[1:]
        total = 0.0
        for _ in range(20):
            y[:] = bend(y, x)
            total = total + np.sum(view)
        return total, view

    for a, b in zip(jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_other_names_of_an_array_that_is_assigned_into_see_it():
    def f(x):
        y = x * 1
        same, k = y, 0
        while k < 20:
            y += 0.1 * bend(y, x)
            k = k + 1
        return same * 2, y

    for a, b in zip(jit(f)(X), f(X), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_a_list_that_grows_while_it_is_looped_over():
    def f(x):
        queue = [x]
        for y in queue:
            x = bend(y, X)
            if len(queue) < 15:
                queue.append(x)
        return x

    np.testing.assert_allclose(jit(f)(X), f(X), rtol=1e-12)


def test_numbers_that_differ_from_round_to_round_keep_their_kind():
    def f(x):
        for k in [0.5, 1.5, -2.0, 0.25, 3.0, 1.0, 2.5, -1.0] * 3:
            x = bend(x * k, x)  # a Python number: float32 stays float32
        return x

    x = X.astype(np.float32)
    got = jit(f)(x)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, f(x), rtol=1e-4)


def test_the_reason_why_a_loop_is_copied_is_known():
    def f(x):
        for _ in range(20):
            x = np.concatenate([bend(x, x), x[:1]])
        return x

    with copies() as found:
        make_graph(lambda x: [traceable(f)(x)], [spec_of(X)])
    ((place, why),) = found.items()
    assert place.startswith("for at ") and "test_autograph_rounds.py" in place and why == "its rounds differ"
