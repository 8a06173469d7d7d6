"""Loops and branches against the same loops in Python, in values and derivatives of every kind."""

import warnings
from collections import namedtuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import triskele.core.ops  # noqa: F401
from triskele.core.errors import TreeError
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.checkpoint import stop_gradient
from triskele.core.transforms.control.operators import cond, fori_loop, scan, switch, while_loop
from triskele.core.transforms.control.reverse import advance, reversible_steps
from triskele.core.transforms.forward import jvp
from triskele.core.transforms.grad import grad, value_and_grad, vjp
from triskele.core.transforms.jacobian import hessian, jacfwd, jacrev
from triskele.core.transforms.vmap import vmap


def staged(f, *args):
    """`f` as a graph, run on `args`: what a compiled function does, in NumPy."""
    graph, captured = make_graph(lambda *a: [f(*a)], [spec_of(a) for a in args])
    assert not captured
    return evaluate(graph, *args)[0]


def primitives(f, *args):
    """Names of all primitives in the graph of `f`, bodies included."""
    found = []

    def walk(graph):
        for e in graph.equations:
            found.append(e.primitive.name)
            for v in e.params.values():
                for g in v if isinstance(v, tuple) else (v,):
                    if hasattr(g, "equations"):
                        walk(g)

    walk(make_graph(lambda *a: [f(*a)], [spec_of(a) for a in args])[0])
    return found


# -- the twins: plain Python
# --------------------------------------------------------------------------------------------


def rnn(w, xs, h0, loop):
    """A recurrent network with outputs at every step."""

    def step(h, x):
        h = np.tanh(w @ h + x)
        return h, np.sum(h**2)

    h, ys = loop(step, h0, xs)
    return np.sum(ys) + h[0]


def python_loop(step, carry, xs):
    ys = []
    for i in range(len(xs)):
        carry, y = step(carry, xs[i])
        ys.append(y)
    return carry, np.stack(ys)


def scans():
    return {
        "plain": scan,
        "checkpoint": lambda f, h, xs: scan(f, h, xs, checkpoint=True),
        "pieces of 3": lambda f, h, xs: scan(f, h, xs, checkpoint=3),
    }


@pytest.fixture
def network(rng):
    return rng.normal(size=(3, 3)) / 2, rng.normal(size=(7, 3)), rng.normal(size=3)


@pytest.mark.parametrize("loop", scans().values(), ids=scans().keys())
@pytest.mark.parametrize("argument", [0, 1, 2], ids=["constant", "xs", "carry"])
def test_scan_has_the_derivatives_of_the_loop(network, rng, loop, argument):
    x = network[argument]

    def of(loop):
        return lambda v: rnn(*[v if k == argument else a for k, a in enumerate(network)], loop)

    f, twin = of(loop), of(python_loop)
    t = rng.normal(size=x.shape)
    assert_allclose(f(x), twin(x), rtol=1e-14)
    assert_allclose(grad(f)(x), grad(twin)(x), rtol=1e-12)
    assert_allclose(jvp(f, (x,), (t,))[1], np.sum(grad(twin)(x) * t), rtol=1e-12)
    assert_allclose(hessian(f)(x), hessian(twin)(x), rtol=1e-10, atol=1e-13)
    second = [grad(lambda v, g=g: np.sum(grad(g)(v) ** 2))(x) for g in (f, twin)]
    assert_allclose(*second, rtol=1e-10, atol=1e-13)
    batch = rng.normal(size=(4, *x.shape))
    assert_allclose(vmap(f)(batch), [twin(b) for b in batch], rtol=1e-13)
    assert_allclose(vmap(grad(f))(batch), [grad(twin)(b) for b in batch], rtol=1e-12)
    assert_allclose(
        grad(lambda b: np.sum(vmap(f)(b) ** 2))(batch),
        grad(lambda b: np.sum(np.stack([twin(b[i]) for i in range(4)]) ** 2))(batch),
        rtol=1e-12,
    )
    assert_allclose(staged(grad(f), x), grad(twin)(x), rtol=1e-12)


def test_nothing_is_unrolled(network):
    w, xs, h = network
    for f in (
        grad(lambda w: rnn(w, xs, h, scan)),
        hessian(lambda w: rnn(w, xs, h, scan)),
        vmap(grad(lambda w: rnn(w, xs, h, scan))),
    ):
        x = np.stack([w, w]) if "vmap" in f.__name__ else w
        found = primitives(f, x)
        assert "scan" in found and found.count("tanh") < 5


def test_products_for_weights_are_made_once_after_the_loop(rng):
    w, xs = rng.normal(size=(4, 4)), rng.normal(size=(6, 2, 4))

    def f(w, loop):
        return np.sum(loop(lambda h, x: (np.tanh(h @ w + x @ w), h[0, 0] * w[1, 2]), xs[0], xs)[0])

    graph, _ = make_graph(lambda w: [grad(f)(w, scan)], [spec_of(w)])
    *_, backward = [e for e in graph.equations if e.primitive.name == "scan"]
    inside = [e for e in backward.params["body"].equations if e.primitive.name == "dot_general"]
    after = [e for e in graph.equations if e.primitive.name == "dot_general"]
    assert len(inside) == 1 and len(after) == 2  # the cotangent of h stays; those of w are sums over all steps
    for transform in (
        grad,
        lambda f: hessian(f, argnums=0),
        lambda f: lambda w, loop: vmap(lambda w: grad(f)(w, loop))(np.stack([w, -w])),
    ):
        assert_allclose(transform(f)(w, scan), transform(f)(w, python_loop), rtol=1e-11, atol=1e-13)


def test_scan_backwards_with_trees():
    Point = namedtuple("Point", "x v")

    def step(p, force):
        p = Point(p.x + 0.1 * p.v, p.v + 0.1 * force["f"])
        return p, {"x": p.x, "none": None}

    f = {"f": np.arange(4.0)}
    p, ys = scan(step, Point(np.zeros(2), np.ones(2)), f, reverse=True)
    x, v, expected = np.zeros(2), np.ones(2), [None] * 4
    for i in (3, 2, 1, 0):
        x, v = x + 0.1 * v, v + 0.1 * i
        expected[i] = x
    assert_allclose(p.v, v)
    assert_allclose(ys["x"], expected)
    assert ys["none"] is None
    g = grad(lambda f: np.sum(scan(step, Point(np.zeros(2), np.ones(2)), f, reverse=True)[0].x))(f)
    # the force at i acts on the velocity, which moves x in the i steps that are left
    assert_allclose(g["f"], 2 * 0.01 * np.arange(4.0))


@pytest.mark.parametrize("length", [0, 1, 2])
def test_scan_of_few_steps(length):
    xs = np.arange(1.0, length + 1)
    assert_allclose(
        grad(lambda a: scan(lambda c, x: (c * a + x, c), 1.0, xs)[0])(0.5), {0: 0.0, 1: 1.0, 2: 2 * 0.5 + 1}[length]
    )
    carry, ys = scan(lambda c, x: (c + x, c), 0.0, xs)
    assert ys.shape == (length,) and carry == xs.sum()


def test_scan_keeps_the_callers_arrays(rng):
    init = np.zeros(3)

    def step(carry, x):
        carry += x
        return carry, carry

    carry, ys = scan(step, init, np.ones((4, 3)))
    assert_array_equal(init, 0)
    assert_array_equal(carry, 4)
    assert_array_equal(ys[:, 0], [1, 2, 3, 4])


def test_integer_carries_and_indexing_in_loops(rng):
    x = rng.normal(size=5)

    def f(x):
        return fori_loop(0, 5, lambda i, s: (s[0] * x[i] + x[(i + 1) % 5], s[1] + i), (1.0, 0))[0]

    def twin(x):
        s = 1.0
        for i in range(5):
            s = s * x[i] + x[(i + 1) % 5]
        return s

    assert_allclose(f(x), twin(x))
    assert_allclose(grad(f)(x), grad(twin)(x))
    assert_allclose(jacfwd(f)(x), grad(twin)(x))
    assert_allclose(hessian(f)(x), hessian(twin)(x))


def test_numbers_adapt_to_the_body():
    x = np.float32(2)
    value, slope = value_and_grad(lambda x: fori_loop(0, 3, lambda i, c: c * x, 1))(x)
    assert (value, slope) == (8, 12)
    assert value.dtype == slope.dtype == np.float32


# -- while -------------------------------------------------------------------------------------------------------------


def power(x, n, **kwargs):
    """A number of steps that is data."""
    return while_loop(lambda s: s[1] < n, lambda s: (s[0] * np.sin(x) + x, s[1] + 1), (1.0, 0), **kwargs)[0]


def power_twin(x, n):
    s = 1.0
    for _ in range(n):
        s = s * np.sin(x) + x
    return s


ORDERS = {
    "grad": grad,
    "jvp": lambda f: lambda x: jvp(f, (x,), (1.0,))[1],
    "grad of grad": lambda f: grad(grad(f)),
    "jvp of grad": lambda f: lambda x: jvp(grad(f), (x,), (1.0,))[1],
    "grad of jvp": lambda f: grad(lambda x: jvp(f, (x,), (1.0,))[1]),
    "third": lambda f: grad(grad(grad(f))),
}


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("n", [0, 1, 5])
def test_while_has_the_derivatives_of_the_loop(order, n):
    d = ORDERS[order]
    assert_allclose(d(lambda x: power(x, n))(0.7), d(lambda x: power_twin(x, n))(0.7), rtol=1e-11)


@pytest.mark.parametrize("order", ["grad", "jvp", "grad of grad", "jvp of grad"])
def test_while_recorded_with_an_unknown_number_of_steps(order):
    graph, _ = make_graph(
        lambda x, n: [ORDERS[order](lambda x: power(x, n, checkpoints=3))(x)], [spec_of(0.5), spec_of(1)]
    )
    for n in (0, 1, 2, 7):
        assert_allclose(evaluate(graph, 0.7, n)[0], ORDERS[order](lambda x, n=n: power_twin(x, n))(0.7), rtol=1e-11)


@pytest.mark.parametrize("slots", [1, 2, 3, 64])
def test_reverse_mode_in_any_number_of_slots(slots):
    graph, _ = make_graph(lambda x, n: [grad(lambda x: power(x, n, checkpoints=slots))(x)], [spec_of(0.5), spec_of(1)])
    for n in (0, 1, 2, 3, 4, 11, 30):
        assert_allclose(evaluate(graph, 0.7, n)[0], grad(power_twin)(0.7, n), rtol=1e-12)


@pytest.mark.parametrize(("steps", "slots"), [(50, 50), (66, 64), (500, 20), (2000, 10), (300, 3)])
def test_the_schedule_repeats_no_step_more_than_the_binomial_bound(steps, slots):
    table = reversible_steps(slots)
    runs, keep, last = np.zeros(steps, int), [0], steps - 1
    while last >= 0:
        begin = keep[-1]
        if begin == last:
            keep.pop()
            last -= 1
            continue
        target = last if len(keep) == slots else begin + int(advance(table, slots - len(keep) + 1, last - begin + 1))
        runs[begin:target] += 1
        if target == last:
            last -= 1
        else:
            keep.append(target)
        assert len(keep) <= slots
    assert runs.max() <= np.argmax(table[slots] >= steps)


def newton(a):
    return while_loop(lambda x: np.abs(x * x - a) > 1e-12 * a, lambda x: 0.5 * (x + a / x), a)


def test_while_until_converged_in_batches():
    a = np.array([0.3, 1.3, 2.0, 9.0])
    n = np.array([0, 1, 5, 7])
    assert_allclose(vmap(newton)(a), np.sqrt(a))
    assert_allclose(vmap(grad(newton))(a), 0.5 / np.sqrt(a))
    expected = [grad(power_twin)(x, k) for x, k in zip(a, n, strict=True)]
    assert_allclose(vmap(power)(a, n), [power_twin(x, k) for x, k in zip(a, n, strict=True)])
    assert_allclose(vmap(grad(power))(a, n), expected)
    assert_allclose(grad(lambda a: np.sum(vmap(power)(a, n)))(a), expected)
    assert_allclose(vmap(lambda x, k: jvp(lambda x: power(x, k), (x,), (1.0,))[1])(a, n), expected)
    assert_allclose(staged(lambda a, n: vmap(grad(power))(a, n), a, n), expected)
    graph, _ = make_graph(lambda x, k: [grad(power)(x, k)], [spec_of(0.5), spec_of(1)])
    assert_allclose(vmap(lambda x, k: evaluate(graph, x, k)[0])(a, n), expected)
    assert_allclose(vmap(hessian(power))(a, n), [grad(grad(power_twin))(x, k) for x, k in zip(a, n, strict=True)])


def test_examples_that_are_done_do_not_spoil_the_derivative():
    # one more step at x = 0 would divide by zero
    def f(x):
        return while_loop(lambda s: s[1] > 0, lambda s: (s[0] + np.sqrt(s[1]), s[1] - 1.0), (0.0, x))[0]

    x = np.array([1.0, 3.0])
    expected = [0.5, 0.5 * (3**-0.5 + 2**-0.5 + 1)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert_allclose(vmap(grad(f))(x), expected)
        assert_allclose(grad(lambda x: np.sum(vmap(f)(x)))(x), expected)


def test_max_steps_ends_the_loop():
    assert while_loop(lambda x: True, lambda x: x + 1, 0, max_steps=4) == 4
    assert grad(lambda x: while_loop(lambda s: True, lambda s: s * x, 1.0, max_steps=3))(2.0) == 12


def test_fori_loop_with_unknown_bounds():
    f = lambda x, lo, hi: fori_loop(lo, hi, lambda i, c: c * x + i, 1.0)
    twin = lambda x, lo, hi: fori_loop(lo, hi, lambda i, c: c * x + i, 1.0)
    graph, _ = make_graph(lambda x, lo, hi: [f(x, lo, hi), grad(f)(x, lo, hi)], [spec_of(0.5), spec_of(1), spec_of(1)])
    for lo, hi in ((0, 3), (2, 6), (4, 4), (5, 2)):
        value, slope = evaluate(graph, 0.7, lo, hi)
        assert_allclose(value, twin(0.7, lo, hi))
        assert_allclose(slope, grad(twin)(0.7, lo, hi))


# -- cond --------------------------------------------------------------------------------------------------------------


def piecewise(x):
    return cond(x > 0, lambda x: x * np.sin(x), lambda x: 3 * x * x, x)


def test_cond_in_every_mode():
    x = np.array([1.0, -1.0])
    first, second = np.array([np.sin(1) + np.cos(1), -6]), np.array([2 * np.cos(1) - np.sin(1), 6])
    assert_allclose([grad(piecewise)(v) for v in x], first)
    assert_allclose(vmap(piecewise)(x), [np.sin(1), 3])
    assert_allclose(vmap(grad(piecewise))(x), first)
    assert_allclose(vmap(grad(grad(piecewise)))(x), second)
    assert_allclose(grad(lambda x: np.sum(vmap(piecewise)(x)))(x), first)
    for k in (0, 1):
        assert_allclose(staged(grad(piecewise), x[k]), first[k])
        assert_allclose(staged(grad(grad(piecewise)), x[k]), second[k])
        assert_allclose(staged(lambda x: jvp(grad(piecewise), (x,), (1.0,))[1], x[k]), second[k])
        assert_allclose(
            staged(lambda x, p: vmap(lambda x: cond(p, np.sin, np.cos, x))(x), x, bool(k)),
            np.sin(x) if k else np.cos(x),
        )


def test_cond_shares_and_separates_residuals(rng):
    w = rng.normal(size=(3, 3))

    def f(x, p):
        return np.sum(cond(p, lambda x: np.tanh(w @ np.exp(x)), lambda x: np.sin(x) * np.sum(np.cosh(x)), x))

    x = rng.normal(size=3)
    for p in (True, False):
        assert_allclose(staged(lambda x, p: grad(f)(x, p), x, p), grad(f)(x, p), rtol=1e-12)
        assert_allclose(staged(lambda x, p: hessian(f)(x, p), x, p), hessian(f)(x, p), rtol=1e-12)


def test_the_branch_not_taken_gives_no_nan():
    f = lambda x: cond(x > 0, lambda: np.sqrt(x), lambda: 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert_allclose(vmap(grad(f))(np.array([0.25, -1.0, 0.0])), [1, 0, 0])
    with warnings.catch_warnings():  # and is not computed where one predicate holds for all
        warnings.simplefilter("error")
        assert staged(grad(f), -1.0) == 0


def test_nor_does_a_loop_inside_the_branch_not_taken():
    f = lambda x, w: cond(x > 0, lambda: scan(lambda c, _: (c + np.sqrt(c) * w, None), x, length=2)[0], lambda: 0.0 * x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        x = np.array([1.0, -1.0])
        for argument in (0, 1):
            g = grad(lambda x, w: np.sum(vmap(lambda x: f(x, w))(x)), argument)(x, 1.0)
            assert_allclose(g, [grad(f)(1.0, 1.0), 0] if argument == 0 else grad(f, 1)(1.0, 1.0))


def test_switch_takes_the_nearest_branch():
    branches = [np.sin, np.cos, np.exp]
    for i in (-3, 0, 1, 2, 9):
        expected = branches[min(max(i, 0), 2)](0.3)
        assert switch(i, branches, 0.3) == expected
        assert_allclose(staged(lambda x, i: switch(i, branches, x), 0.3, i), expected)
    assert_allclose(
        vmap(lambda i, x: grad(lambda x: switch(i, branches, x))(x))(np.arange(3), np.full(3, 0.3)),
        [np.cos(0.3), -np.sin(0.3), np.exp(0.3)],
    )


def test_loops_in_branches_in_loops():
    def f(x):
        def outer(i, total):
            return total + cond(
                total > 2, lambda t: fori_loop(0, 3, lambda k, c: c * np.cos(x), t), lambda t: t * t + x, total
            )

        return fori_loop(0, 4, outer, x)

    def twin(x):
        total = x
        for _ in range(4):
            if total > 2:
                t = total
                for _ in range(3):
                    t = t * np.cos(x)
            else:
                t = total * total + x
            total = total + t
        return total

    for x in (0.3, 0.9, 1.7):
        assert_allclose(f(x), twin(x))
        for d in (grad, lambda f: grad(grad(f)), hessian, jacfwd, jacrev):
            assert_allclose(d(f)(x), d(twin)(x), rtol=1e-11)
            assert_allclose(staged(d(f), x), d(twin)(x), rtol=1e-11)
    batch = np.array([0.3, 0.9, 1.7])
    assert_allclose(vmap(grad(f))(batch), [grad(twin)(x) for x in batch], rtol=1e-11)


# -- what is wrong is told
# ---------------------------------------------------------------------------------------------------


def assert_raises_at_both(error, match, f, *args):
    """The same error with plain arrays and with traced ones, the latter naming this file."""
    with pytest.raises(error, match=match):
        f(*args)
    with pytest.raises(error, match=match) as caught:
        vjp(lambda *a: f(*a), *args)
    assert "test_control.py" in str(caught.value)


def test_carries_of_an_inner_loop_that_depend_on_nothing_differentiated():
    """The reverse mode of a scan asks for cotangents of carries that move, a loop in its body reports all its own."""

    def end(m):
        def until(carry, target):
            carry = while_loop(lambda c: c[1] < target, lambda c: (c[0] * m, c[1] + c[2], stop_gradient(c[0])), carry)
            return carry, carry[0]

        return scan(until, (1.0, 0.0, 0.3), np.arange(1.0, 4.0))[1][-1]

    assert grad(end)(1.1) == staged(grad(end), 1.1) == jvp(end, (1.1,), (1.0,))[1] == pytest.approx(4 * 1.1**3)


def test_carry_that_changes_shape():
    assert_raises_at_both(
        TypeError,
        r"scan of .*leaf \['h'\] was float64\[3\] and became float64\[4\]",
        lambda x: scan(lambda c, _: ({"h": np.concatenate([c["h"], c["h"][:1]])}, None), {"h": x}, length=2),
        np.ones(3),
    )
    assert_raises_at_both(
        TypeError,
        r"while_loop of .*float32\[3\] and became float64\[3\].*astype",
        lambda x: while_loop(lambda c: np.sum(c) < 9, lambda c: c + np.ones(3), x),
        np.ones(3, np.float32),
    )


def test_carry_that_changes_structure():
    assert_raises_at_both(
        TreeError, "the carry must have the structure", lambda x: scan(lambda c, _: ((c, c), None), x, length=2), 1.0
    )
    with pytest.raises(TypeError, match=r"must return a pair \(carry, y\), got float"):
        scan(lambda c, _: c, 1.0, length=2)


def test_lengths():
    with pytest.raises(ValueError, match="length= is needed"):
        scan(lambda c, _: (c, None), 0.0)
    with pytest.raises(ValueError, match=r"one length, got 3 .* 2 .*"):
        scan(lambda c, _: (c, None), 0.0, (np.ones(3), np.ones(2)))
    with pytest.raises(ValueError, match="leading axis"):
        scan(lambda c, _: (c, None), 0.0, 3.0)


def test_predicates():
    for bad in (np.ones(2) > 0, 1, 0.5):
        with pytest.raises(TypeError, match="cond: the predicate must be a boolean scalar"):
            cond(bad, lambda: 1, lambda: 2)
    assert_raises_at_both(
        TypeError,
        r"while_loop: the condition must be a boolean scalar.*any\(\)",
        lambda x: while_loop(lambda c: c > 0, lambda c: c - 1, x),
        np.ones(2),
    )
    with pytest.raises(TypeError, match="switch: the index must be an integer"):
        switch(1.5, [np.sin], 1.0)
    with pytest.raises(TypeError, match="fori_loop: bounds must be integers"):
        fori_loop(0, 3.0, lambda i, c: c, 0)


def test_branches_that_differ():
    with pytest.raises(
        TypeError,
        match=r"cond: the branches must return the same shapes and dtypes, got float64\[3\] "
        r"from .* and float64\[2\].*leaf \['a'\]|float64\[3\] from .*, float64\[2\] "
        r"from",
    ):
        staged(lambda x: cond(np.sum(x) > 0, lambda: {"a": x[:2]}, lambda: {"a": x})["a"], np.ones(3))
    with pytest.raises(TypeError, match="trees of one structure"):
        staged(lambda x: cond(np.sum(x) > 0, lambda: (x, x), lambda: x), np.ones(3))
