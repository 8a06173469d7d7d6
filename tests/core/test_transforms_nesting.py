"""Every transform inside every other, around linear algebra, custom operators, FFTs, indexing, random numbers and
loops.

A nest of transforms of f: R^3 -> R is built such that it is again R^3 -> R: derivatives along V, values at x and 2x.
What it must give is then a sum of directional derivatives of f, which one oracle computes: forward mode inside forward
mode.
"""

import dataclasses
import functools
import itertools
import math
from collections import namedtuple

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from triskele import core
from triskele.core.scipy import linalg

X = np.array([0.7, -0.4, 0.5])
V = np.array([0.2, 0.5, -0.3])
A = np.array([[3.0, 0.4, 0.1], [0.2, 4.0, -0.5], [0.3, 0.6, 5.0]])

# -- functions R^3 -> R
# ------------------------------------------------------------------------------------------------------


def solving(x):
    m = A + np.outer(x, np.sin(x))
    return np.sum(np.linalg.solve(m, x)) + np.linalg.slogdet(m)[1]


def factoring(x):
    m = A @ A.T + np.outer(x, x)
    return np.linalg.cholesky(m)[2, 0] + np.sum(np.linalg.eigh(m)[0] ** 1.5) + np.sum(linalg.expm(0.1 * m))


def transforming(x):
    spectrum = np.fft.fft(np.concatenate([x, x**2]))
    return (
        np.sum(np.abs(spectrum) ** 2)
        + np.real(np.fft.ifft(spectrum * 1j)[1])
        + np.sum(np.fft.irfft(np.fft.rfft(x, 4), 4) ** 3)
    )


def indexing(x):
    table = np.zeros_like(x, shape=(3, 3))
    table[1] = x
    table[:, 2] += x[::-1] ** 2
    table[[0, 2], [1, 1]] *= 3 + x[[0, 0]]
    table[x > 0] = table[1] * np.sin(x[0])
    i = np.argmax(x)
    return np.sum(table**2) + x[i] * table[i, 2] + np.sum(np.take_along_axis(table, np.argsort(table, axis=1), 1)[:, 0])


def drawing(x):
    keys = core.random.split(core.random.key(3), 2)
    noise = core.random.normal(keys[0], (3,))
    return np.sum(np.tanh(x * noise)) + np.sum(core.random.uniform(keys[1], (2, 3), low=0.0, high=1.0) @ x**2)


def looping(x):
    def step(c, r):
        return np.tanh(c + r * x), np.sum(c * r)

    carry, ys = core.scan(step, 0.5 * x, np.stack([x, 2 * x]))
    grown = core.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(c[1]) + x[0]), (0, carry))[1]
    return core.cond(x[0] > 0, lambda y: np.sum(y * y), lambda y: y[0], grown) + np.sum(ys)


@core.custom_vjp
def by_hand(x):
    return np.sin(x) * x


by_hand.defvjp(lambda x: (np.sin(x) * x, x), lambda x, ct: (ct * (np.cos(x) * x + np.sin(x)),))


@core.custom_jvp
def pushed(x, y):
    return x * np.exp(y)


pushed.defjvps(lambda t, out, x, y: t * np.exp(y), lambda t, out, x, y: t * out)


@core.elementwise
def morse(r, depth):
    return depth * (1 - math.exp(-r)) ** 2


@core.custom_op(out=lambda x: core.spec(x.shape, x.dtype), mode="python")
def cubes(x):
    return x**3


@cubes.vjp
def _(ct, out, x):
    return ct * 3 * x**2


@cubes.batch
def _(size, is_batched, x):
    return cubes(x)


def by_rule(x):
    return np.sum(by_hand(x) * pushed(x, 0.3 * x[::-1])) + np.sum(morse(x, 1.5 + x[0]))


def by_kernel(x):
    return np.sum(cubes(x) * x[::-1])


root = core.root(
    lambda y, a: y**3 + y - a, lambda g, y0: core.fori_loop(0, 8, lambda i, y: y - g(y) / (3 * y * y + 1), y0)
)


def implicit(x):
    return np.sum(root(np.ones(3), x) ** 2)


def smooth(x):
    return np.prod(np.cos(x)) * np.exp(x @ A @ x / 9) + np.var(x) * np.hypot(x[0], x[1])


FUNCTIONS = [solving, factoring, transforming, indexing, drawing, looping, by_rule, by_kernel, implicit, smooth]

# -- transforms: what they make of f, and of the sum of terms (factor, scale s, order n) that stands for n-th
# derivatives at s x ----


def along(terms):
    return [(c * s, s, n + 1) for c, s, n in terms]


def twice(terms):
    return terms + [(c, 2 * s, n) for c, s, n in terms]


TRANSFORMS = {
    "grad": (lambda f: lambda x: V @ core.grad(f)(x), along),
    "jvp": (lambda f: lambda x: core.jvp(f, (x,), (V,))[1], along),
    "jacfwd": (lambda f: lambda x: V @ core.jacfwd(f)(x), along),
    "jacrev": (lambda f: lambda x: V @ core.jacrev(f)(x), along),
    "linearize": (lambda f: lambda x: core.linearize(f, x)[1](V), along),
    "hvp": (lambda f: lambda x: V @ core.hvp(f, (x,), (V,)), lambda terms: along(along(terms))),
    "hessian": (lambda f: lambda x: V @ core.hessian(f)(x) @ V, lambda terms: along(along(terms))),
    "vmap": (lambda f: lambda x: np.sum(core.vmap(f)(np.stack([x, 2 * x]))), twice),
    "jit": (core.jit, lambda terms: terms),
    "checkpoint": (core.checkpoint, lambda terms: terms),
}


@functools.cache
def derivative(f, scale, order):
    """Directional derivative of f along V at ``scale * X``."""

    def along_line(t):
        return f(scale * X + t * V)

    for _ in range(order):
        along_line = (lambda g: lambda t: core.jvp(g, (t,), (1.0,))[1])(along_line)
    return along_line(0.0)


def check(f, names):
    built, terms = f, [(1.0, 1, 0)]
    for name in names:  # the innermost first
        wrap, rule = TRANSFORMS[name]
        built, terms = wrap(built), rule(terms)
    expected = sum(c * derivative(f, s, n) for c, s, n in terms)
    size = sum(abs(c * derivative(f, s, n)) for c, s, n in terms)
    found = built(X)
    assert np.shape(found) == ()
    assert_allclose(found, expected, rtol=0, atol=1e-9 * (1 + size))


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_the_oracle_agrees_with_differences(f):
    core.check_grads(f, (X,), order=2, rtol=1e-4)


SECOND = {"hvp", "hessian"}
PAIRS = list(itertools.product(TRANSFORMS, repeat=2))
TRIPLES = [names for names in itertools.product(TRANSFORMS, repeat=3) if sum(n in SECOND for n in names) < 2]


@pytest.mark.parametrize("k", range(len(FUNCTIONS)), ids=[f.__name__ for f in FUNCTIONS])
def test_pairs(k):
    for names in PAIRS[k % 3 :: 3]:
        check(FUNCTIONS[k], names)


@pytest.mark.parametrize("k", range(len(FUNCTIONS)), ids=[f.__name__ for f in FUNCTIONS])
def test_triples(k):
    for names in TRIPLES[k::83]:
        check(FUNCTIONS[k], names)


def test_hvp_of_a_batched_gradient_of_a_loop():
    def powers(x):
        return np.sum(core.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, np.sin(c[1]) + x[0]), (0, x))[1])

    check(powers, ("hvp", "grad", "vmap"))


# -- closures, trees, argnums, has_aux
# -----------------------------------------------------------------------------------------


def test_closures_over_traced_values_of_every_level():
    def f(x):
        def g(y):
            def h(z):
                return x * y**2 * np.sin(z) + core.fori_loop(0, 2, lambda i, c: c * x * z, y)

            return core.grad(h)(x) + core.jvp(h, (y,), (x,))[1] + core.vmap(h)(np.stack([x, y])) @ V[:2]

        return core.jit(core.grad(g))(x * 2) + core.jacfwd(g)(x)

    core.check_grads(f, (0.6,), order=2)
    assert_allclose(core.jit(f)(0.6), f(0.6), rtol=1e-12)
    assert_allclose(core.jit(core.hessian(f))(0.6), core.hessian(f)(0.6), rtol=1e-10)
    assert_allclose(core.vmap(core.grad(f))(X), [core.grad(f)(x) for x in X], rtol=1e-12)


def test_batches_and_loops_close_over_differentiated_values():
    def f(w):
        rows = core.vmap(lambda x: core.scan(lambda c, v: (np.tanh(c * w[0] + v * x), c), w[1], w)[0])(X)
        return np.sum(core.cond(w[0] > 0, lambda: rows * w, lambda: rows))

    core.check_grads(f, (X,), order=2)
    assert_allclose(core.jit(core.grad(f))(X), core.grad(f)(X), rtol=1e-12)


def test_perturbations_are_not_confused():
    assert core.grad(lambda x: x * core.grad(lambda y: x + y)(2.0))(1.0) == 1.0
    assert core.jvp(lambda x: x * core.jvp(lambda y: x * y, (3.0,), (1.0,))[1], (2.0,), (1.0,))[1] == 4.0
    assert core.grad(lambda x: core.vmap(lambda y: x * y)(np.arange(3.0)) @ np.ones(3))(1.0) == 3.0


Point = namedtuple("Point", "x y")


@dataclasses.dataclass
class Layer:
    w: np.ndarray
    b: object
    name: str = dataclasses.field(default="dense", metadata={"static": True})


PARAMS = {"layers": [Layer(X, 0.5), Layer(2 * X, None)], "at": Point(1.0, (V, np.float64(2.0)))}


def of_tree(p, scale=1.0):
    first, second = p["layers"]
    assert second.b is None and first.name == "dense"
    return scale * np.sum(np.tanh(first.w * p["at"].x + first.b) * second.w) * p["at"].y[1] + p["at"].y[0] @ second.w


def assert_same_tree(a, b):
    assert core.tree.structure(a) == core.tree.structure(b)
    for x, y in zip(core.tree.leaves(a), core.tree.leaves(b), strict=True):
        assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_trees_pass_through_all_transforms():
    gradient = core.grad(of_tree)(PARAMS)
    assert (
        isinstance(gradient["layers"][0], Layer)
        and isinstance(gradient["at"], Point)
        and gradient["layers"][1].b is None
    )
    core.check_grads(of_tree, (PARAMS,), order=2)
    assert_same_tree(core.jit(core.grad(of_tree))(PARAMS), gradient)
    assert_same_tree(core.jacrev(of_tree)(PARAMS), gradient)
    assert_same_tree(core.jacfwd(of_tree)(PARAMS), gradient)
    assert_same_tree(core.vjp(of_tree, PARAMS)[1](1.0)[0], gradient)
    assert_same_tree(core.grad(core.checkpoint(of_tree))(PARAMS), gradient)
    many = core.tree.map(lambda x: np.stack([x, 2 * x]), PARAMS)
    assert_same_tree(core.tree.map(lambda x: x[0], core.vmap(core.grad(of_tree))(many)), gradient)
    slope = core.jvp(of_tree, (PARAMS,), (PARAMS,))[1]
    assert_allclose(
        slope, sum(np.sum(g * p) for g, p in zip(core.tree.leaves(gradient), core.tree.leaves(PARAMS), strict=True))
    )
    assert_allclose(core.linearize(of_tree, PARAMS)[1](PARAMS), slope)
    second = core.hvp(of_tree, (PARAMS,), (PARAMS,))
    assert_same_tree(second, core.jvp(core.grad(of_tree), (PARAMS,), (PARAMS,))[1])


def test_argnums_and_keywords():
    def f(a, b, c=1.0, *, d=2.0):
        return np.sum(a * b**2) * c + d * np.sum(b)

    expected = (2.0 * V**2, 4.0 * X * V + 3.0)
    for derive in (core.grad, lambda f, argnums: core.jit(core.grad(f, argnums)), core.jacfwd, core.jacrev):
        found = derive(f, argnums=(0, -2))(X, V, 2.0, d=3.0)
        assert isinstance(found, tuple)
        for a, b in zip(found, expected, strict=True):
            assert_allclose(a, b, rtol=1e-13)
        assert_allclose(derive(f, argnums=1)(X, V, 2.0, d=3.0), expected[1], rtol=1e-13)
    (aa, ab), (ba, bb) = core.hessian(f, argnums=(0, 1))(X, V)
    assert_array_equal(aa, np.zeros((3, 3)))
    assert_allclose(ab, np.diag(2 * V))
    assert_allclose(ba, np.diag(2 * V))
    assert_allclose(bb, np.diag(2 * X))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
def test_auxiliary_results(compiled):
    def f(x):
        return np.sum(x**3), {"square": x**2, "three": 3}

    wrap = core.jit if compiled else (lambda g: g)
    (value, aux), gradient = wrap(core.value_and_grad(f, has_aux=True))(X)
    assert_allclose(value, np.sum(X**3))
    assert_allclose(gradient, 3 * X**2)
    assert_allclose(aux["square"], X**2)
    assert aux["three"] == 3
    for derive in (core.grad, core.jacfwd, core.jacrev):
        found, aux = wrap(derive(f, has_aux=True))(X)
        assert_allclose(found, 3 * X**2)
        assert_allclose(aux["square"], X**2)
    assert_allclose(wrap(core.hessian(f, has_aux=True))(X)[0], np.diag(6 * X), atol=1e-14)
    outer = wrap(core.grad(lambda x: np.sum(core.grad(f, has_aux=True)(x)[1]["square"] * x)))
    assert_allclose(outer(X), 3 * X**2)


# -- cost --------------------------------------------------------------------------------------------------------------


def flops(f, *args):
    return core.jit(f).lower(*args).flops


@pytest.mark.parametrize(
    "f",
    [
        lambda x: np.sum(functools.reduce(lambda y, _: y + np.sin(y), range(50), x)),
        lambda x: np.sum(functools.reduce(lambda y, _: y * y + x, range(30), x)),
        lambda x: (
            np.prod([np.sum(x * k) for k in range(1, 9)])
            if isinstance(x, np.ndarray)
            else functools.reduce(lambda a, b: a * b, [np.sum(x * k) for k in range(1, 9)])
        ),
        lambda x: np.sum(functools.reduce(lambda y, _: y @ y / 40, range(6), np.outer(x, np.cos(x)))),
    ],
    ids=["many paths", "shared factors", "products of sums", "matrix powers"],
)
def test_a_gradient_costs_at_most_four_times_the_function(f):
    x = np.linspace(0.1, 1.0, 40)
    assert flops(core.grad(f), x) <= 4 * flops(f, x)


def test_reading_every_element_costs_a_step_each():
    """The cotangents of x[0], x[1], ... are added into one array, not each spread over zeros."""

    def operations(n):
        x = np.arange(float(n))
        calls = 0
        plain = np.zeros

        def counted(shape, *args, **kwargs):
            nonlocal calls
            calls += 1
            return plain(shape, *args, **kwargs)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(np, "zeros", counted)
            found = core.grad(lambda x: sum(x[i] ** 2 for i in range(n)))(x)
        assert_array_equal(found, 2 * x)
        return calls

    assert operations(100) == operations(10)
