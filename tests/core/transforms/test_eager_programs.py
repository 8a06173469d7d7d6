"""Eager transforms take the programs that `jit` takes: functions that NumPy cannot redirect, writes into plain
arrays.
"""

import functools
import math
from math import tanh

import numpy as np
import pytest
import scipy.linalg
from scipy import special
from scipy.special import erf, logsumexp

from triskele import core


def arrays(x):
    return np.array([x[0], 2 * x[1], 1.0]) * np.asarray([x[2], 1.0, x[0]])


def zeros(x):
    out = np.zeros(3)
    for k in range(3):
        out[k] = x[k] ** 2
    out += x
    out[1:] *= x[0]
    return out


def full(x):
    return np.full(3, x[0]) * np.full((3,), x[1], dtype=float)


def numbers(x):
    return np.stack(
        [math.sin(x[0]), math.exp(x[1]), math.sqrt(x[2]), math.log(x[2], 2), math.atan2(x[0], x[1]), tanh(x[0])]
    )


def apply(f, *args):
    return f(*args)


def by_value(x):
    s = math.sin
    return (
        apply(erf, x)
        + apply(logsumexp, x)
        + apply(special.softmax, x)
        + s(x[0])
        + apply(math.cos, x[1])
        + apply(np.array, [x[0], x[1], 1.0])
    )


def mapped(x):
    return np.stack(list(map(math.sin, x))) + np.stack([f(x[0]) for f in (math.sin, tanh, special.erf)])


def reduced(x):
    return functools.reduce(np.add, [x, x]) + max(x[0], x[1])


def helper(v):
    return math.tanh(v)


def helped(x):
    def inner(v):
        return np.array([helper(v), 1.0, v])

    return inner(x[1]) * float(x[0])


class Model:
    weight = 2.0

    def __call__(self, x):
        return self.forward(x)

    def forward(self, x):
        return np.array([self.weight * x[0], x[1], math.sin(x[2])])


def matrix(x):
    a = np.eye(3)
    a[0, 1] = x[0]
    return scipy.linalg.expm(0.1 * a) @ x


def zero_d(x):
    t = np.zeros(())
    t[...] = x.sum()
    t[()] += 1.0
    return t * x


PROGRAMS = [
    arrays,
    zeros,
    full,
    numbers,
    by_value,
    mapped,
    reduced,
    helped,
    Model(),
    matrix,
    zero_d,
    lambda x: np.array([x[0], math.sin(x[1]), 1.0]),
]


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: getattr(f, "__name__", type(f).__name__))
def test_as_numpy_and_jit(f):
    x = np.array([0.3, 0.5, 0.7])
    wanted = f(x)
    assert not isinstance(core.vjp(f, x)[0], core.Tensor)
    np.testing.assert_allclose(core.jit(f)(x), wanted, rtol=1e-12)
    np.testing.assert_allclose(core.vjp(f, x)[0], wanted, rtol=1e-12)
    np.testing.assert_allclose(core.jvp(f, (x,), (x,))[0], wanted, rtol=1e-12)
    np.testing.assert_allclose(core.vmap(f)(x[None])[0], wanted, rtol=1e-12)
    np.testing.assert_allclose(core.jacrev(f)(x), core.jacfwd(f)(x), rtol=1e-12)
    core.check_grads(lambda x: np.sum(f(x) ** 2), (x,), order=1)


def test_functions_that_need_nothing_run_unchanged():
    seen = []

    def f(x):
        seen.append(f.__code__)
        return np.sum(np.tanh(x) * x.T)

    core.grad(f)(np.ones(2))
    assert seen == [f.__code__]


def test_one_wrapper_around_several_functions():
    """The wrapper's code is one, what it calls is not."""

    def wrapped(g):
        return lambda x: 2 * g(x)

    x = np.array([0.3, 0.5, 0.7])
    for g in (np.sin, arrays, zeros):
        np.testing.assert_allclose(core.vjp(wrapped(g), x)[0], 2 * g(x))
        np.testing.assert_allclose(core.jit(wrapped(g))(x), 2 * g(x))


def test_inside_and_outside_of_jit():
    def outer(x):
        def inner(v):
            return np.sum(arrays(v)) if v[0] > 0 else np.sum(zeros(v))

        return core.grad(inner)(x)

    x = np.array([0.3, 0.5, 0.7])
    np.testing.assert_allclose(core.jit(outer)(x), outer(x))
    np.testing.assert_allclose(core.vjp(core.jit(outer), x)[0], outer(x))
    np.testing.assert_allclose(core.jacfwd(outer)(x), core.jacrev(core.jit(outer))(x))


def test_an_array_with_another_name_is_refused():
    def f(x):
        out = np.zeros(3)
        same = out
        out[0] = x[0]
        return same * x

    with pytest.raises(core.errors.TracerError, match="a local variable is all that refers to it"):
        core.grad(lambda x: np.sum(f(x)))(np.ones(3))


def test_arrays_made_in_other_ways_can_be_written_into():
    def pair(x):
        a, b = np.zeros(3), np.ones(3)
        a[0] = x
        return (a * b).sum()

    def nested(x):
        (a, _), [b, c] = (np.zeros(3), 1), [np.ones(3), 2]
        a[0], b[1] = x, c * x
        return a.sum() + b.sum()

    def annotated(x):
        a: np.ndarray = np.zeros(3)
        a[0] = x
        return a.sum()

    def computed(x):
        a = 0 * np.arange(3.0)
        a[0] = x
        a[1] += 2 * x
        return a.sum()

    for f, slope in ((pair, 1), (nested, 3), (annotated, 1), (computed, 3)):
        assert core.grad(f)(2.0) == core.jit(core.grad(f))(2.0) == slope
        assert core.vmap(f)(np.array([2.0, 3.0])).tolist() == [f(2.0), f(3.0)]


def test_errors_do_not_show_all_values():
    kept = {"a": np.zeros(300)}

    def f(x):
        kept["a"][:] = x
        return x.sum()

    with pytest.raises(core.errors.TracerError) as error:
        core.grad(f)(np.arange(300.0))
    assert len(str(error.value.__cause__ or error.value)) < 600
