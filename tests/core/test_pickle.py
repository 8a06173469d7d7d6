"""Compiled functions, operators of the user and models, pickled and copied."""

import copy
import math
import pickle

import numpy as np
import pytest

from triskele import core
from triskele.core import data, nn, optim, random, train


def energy(x, k):
    return 0.5 * k * np.sum(x**2)


def loss(net, x):
    return (net(x) ** 2).mean()


@core.jit
def decorated(x, k):
    return 0.5 * k * np.sum(x**2)


@core.elementwise
def bump(x):
    return math.exp(-x * x)


@core.custom_vjp
def clipped(x):
    return np.sin(x)


clipped.defvjp(lambda x: (np.sin(x), x), lambda x, ct: (np.clip(ct, -1, 1) * np.cos(x),))


@core.custom_op(out=lambda x: core.spec(x.shape, x.dtype), mode="python")
def doubled(x):
    return x * 2


class Spring:
    def __init__(self, k):
        self.k = k
        self.compiled = core.jit(self.energy)

    def energy(self, x):
        return energy(x, self.k)


def again(thing):
    return pickle.loads(pickle.dumps(thing))


@pytest.mark.parametrize("thing", [decorated, bump, clipped, doubled], ids=repr)
def test_decorated_functions_are_pickled_by_name(thing):
    assert again(thing) is thing
    assert copy.deepcopy(thing) is copy.copy(thing) is thing


def test_other_compiled_functions_are_pickled_with_their_function():
    compiled = core.jit(energy, static_argnames="k")
    found = again(compiled)
    assert found(np.array([1.0, 2.0]), 3.0) == 7.5
    assert found(np.array([1.0, 2.0]), k=1.0) == 2.5
    for local in (core.jit(lambda x: x), core.jit(core.grad(energy))):
        with pytest.raises((pickle.PicklingError, AttributeError), match="<lambda>|grad_f"):
            pickle.dumps(local)


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
def test_methods_belong_to_the_copy(copied):
    spring = Spring(1.0)
    assert spring.compiled(np.array([2.0])) == 2.0
    other = copied(spring)
    other.k = 3.0
    assert other.compiled(np.array([2.0])) == 6.0 and spring.compiled(np.array([2.0])) == 2.0
    assert copied(spring.compiled)(np.array([2.0])) == 2.0


@pytest.mark.parametrize("copied", [again, copy.deepcopy])
def test_steps_and_models_continue_as_they_are(copied):
    x = np.random.default_rng(0).normal(size=(64, 3)).astype(np.float32)
    step = train.step(loss, optim.Adam(1e-2), clip=1.0)
    state, _ = step(step.init(nn.MLP.init(random.key(0), [3, 4, 1])), x)
    expected, other = step(state, x), copied(step)(copied(state), x)
    for a, b in zip(core.tree.leaves(expected), core.tree.leaves(other), strict=True):
        np.testing.assert_array_equal(a, b)
    source = data.arrays(x, x[:, :1]).shuffle(0).batch(16)
    model = train.Model(nn.MLP.init(random.key(1), [3, 4, 1]), nn.mean_squared_error, metrics=["mae"])
    model.fit(source, 2, progress=False)
    twin = copied(model)
    histories = [m.fit(source, 2, progress=False) for m in (model, twin)]
    np.testing.assert_array_equal(histories[0]["loss"], histories[1]["loss"])
    np.testing.assert_array_equal(model.predict(x), twin.predict(x))
