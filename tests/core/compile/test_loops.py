"""Loops: what is the same in every step is done once; results, errors and loops of no steps stay as they were."""

import numpy as np
import pytest

from triskele import core
from triskele.core.errors import IndexOutOfBoundsError


def body_of(f, *args, name="scan"):
    """The body of the only loop of the compiled program, and its parameters."""
    graph = core.jit(f)._entry(args, {}).function.program.emitted.graph
    (eqn,) = [e for e in graph.equations if e.primitive.name == name]
    return eqn.params["body"], eqn.params, [e.primitive.name for e in graph.equations]


def test_unchanged_carries_become_constants(rng):
    w, x = rng.normal(size=(30, 30)) / 6, rng.normal(size=30)

    def f(w, x):
        return core.scan(lambda c, _: ((np.tanh(c[1] @ c[0]), c[1]), c[0][0]), (x, w), None, length=7)

    body, params, _ = body_of(f, w, x)
    assert (params["n_consts"], params["n_carry"]) == (1, 1)
    (h, same), first = core.jit(f)(w, x)
    want, firsts = x, []
    for _ in range(7):
        firsts.append(want[0])
        want = np.tanh(w @ want)
    np.testing.assert_allclose(h, want, rtol=1e-12)
    np.testing.assert_allclose(first, firsts, rtol=1e-12)
    np.testing.assert_array_equal(same, w)


def test_dear_constants_are_computed_once_and_cheap_ones_where_they_are_read(rng):
    w, x = rng.normal(size=(20, 20)) / 5, rng.normal(size=20)

    def f(w, x):
        def step(c, _):
            h, w, x = c
            return (np.cos(np.linalg.inv(np.exp(w) + 9 * np.eye(20)) @ h + 2 * x), w, x), None

        return core.scan(step, (x, w, x), None, length=5)[0][0]

    body, _, outside = body_of(f, w, x)
    inside = [e.primitive.name for e in body.equations]
    assert "inv" not in inside and "exp" not in inside and "multiply" in inside
    assert {"inv", "exp"} <= set(outside)
    want = x
    for _ in range(5):
        want = np.cos(np.linalg.inv(np.exp(w) + 9 * np.eye(20)) @ want + 2 * x)
    np.testing.assert_allclose(core.jit(f)(w, x), want, rtol=1e-10)


def test_from_the_inner_of_two_loops_to_the_front_of_both(rng):
    x = rng.normal(size=10)

    def f(x, a):
        def inner(c, _):
            return (np.sin(c[0]) + np.exp(c[1]), c[1]), None

        return core.scan(lambda c, _: (core.scan(inner, c, None, length=3)[0], None), (x, a), None, length=4)[0][0]

    *_, outside = body_of(f, x, 0.3)
    assert "exp" in outside
    want = x
    for _ in range(12):
        want = np.sin(want) + np.exp(0.3)
    np.testing.assert_allclose(core.jit(f)(x, 0.3), want, rtol=1e-12)


def test_while_loops(rng):
    x, w = rng.normal(size=8), rng.normal(size=(8, 8))

    def f(x, w, n):
        return core.while_loop(
            lambda c: c[2] < n, lambda c: (np.cos(c[0]) / np.sum(np.exp(c[1])), c[1], c[2] + 1), (x, w, 0)
        )

    body, params, outside = body_of(f, x, w, 3, name="while")
    assert "exp" in outside and (8, 8) not in [o.spec.shape for o in body.outputs]
    for n in (0, 1, 4):
        want = x
        for _ in range(n):
            want = np.cos(want) / np.sum(np.exp(w))
        got = core.jit(f)(x, w, n)
        np.testing.assert_allclose(got[0], want, rtol=1e-13)
        np.testing.assert_array_equal(got[1], w)
        assert got[2] == n


def test_a_loop_of_no_steps_meets_no_wrong_index(rng):
    table = rng.normal(size=5)

    def f(table, i, n):
        def step(c):
            total, k, table, i = c
            return total + np.exp(table[i]), k + 1, table, i

        return core.while_loop(lambda c: c[1] < n, step, (0.0, 0, table, i))[0]

    f = core.jit(f)
    assert f(table, 9, 0) == 0
    np.testing.assert_allclose(f(table, 2, 3), 3 * np.exp(table[2]))
    with pytest.raises(IndexOutOfBoundsError):
        f(table, 9, 1)


def test_derivatives_of_loops_with_constants(rng):
    w, x = rng.normal(size=(6, 6)) / 3, rng.normal(size=6)

    def f(w, x):
        return np.sum(
            core.scan(lambda c, _: ((np.tanh(np.exp(c[1]) @ c[0] / 9), c[1]), None), (x, w), None, length=5)[0][0] ** 2
        )

    for got, want in zip(core.jit(core.grad(f, argnums=(0, 1)))(w, x), core.grad(f, argnums=(0, 1))(w, x), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-10, atol=1e-14)
