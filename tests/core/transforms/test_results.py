"""Every array in the result of a transform is writeable and shares memory with nothing: inputs, constants, other
leaves.
"""

import numpy as np
import pytest

from triskele import core
from triskele.core import tree

W = np.arange(1.0, 4.0)
FROZEN = np.arange(1.0, 4.0)
FROZEN.flags.writeable = False

FUNCTIONS = {
    "sum of leaves": lambda p: np.sum(np.tanh(p["a"] + p["b"])),
    "sum": lambda p: np.sum(p["a"]) + np.sum(p["b"][0] * W),
    "constant": lambda p: np.sum(p["a"] * W) + np.sum(FROZEN * p["b"]),
    "unused": lambda p: np.sum(p["a"]),
    "reshaped": lambda p: np.sum(np.reshape(p["a"], (3, 1)) * p["b"][None]),
    "broadcast": lambda p: np.sum(np.broadcast_to(p["a"], (2, 3))) + p["b"].T @ W,
}
ARRAYS = {
    "identity": lambda p: p,
    "same twice": lambda p: (p["a"], p["a"], p["b"]),
    "views": lambda p: (p["a"][1:], p["a"].reshape(3, 1), p["b"][::-1], p["b"][None]),
    "constants": lambda p: (W, FROZEN, W[1:], p["a"] * 1, np.broadcast_to(p["b"][:1], (3,))),
    "computed twice": lambda p: [p["a"] * 2, p["a"] * 2],
    "sum": lambda p: p["a"] + p["b"],
}


def check(result, inputs=()):
    leaves = [x for x in tree.leaves(result) if isinstance(x, np.ndarray)]
    for k, x in enumerate(leaves):
        assert x.flags.writeable
        for other in (*leaves[:k], *tree.leaves(inputs), W, FROZEN):
            assert not np.shares_memory(x, other)
    return result


def arguments():
    return {"a": np.array([0.1, 0.2, 0.3]), "b": np.array([0.4, 0.5, 0.6])}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("wrap", [lambda f: f, core.jit], ids=["eager", "jit"])
def test_derivatives(name, wrap):
    f, p = FUNCTIONS[name], arguments()
    check(wrap(core.grad(f))(p), p)
    check(wrap(core.value_and_grad(lambda p: (f(p), (p["a"], W, p["a"])), has_aux=True))(p), p)
    check(wrap(core.hessian(f))(p), p)
    check(wrap(lambda p: core.hvp(f, (p,), (p,)))(p), p)
    check(wrap(core.vmap(core.grad(f)))(tree.map(lambda x: np.stack([x, x]), p)), p)


@pytest.mark.parametrize("name", ARRAYS)
@pytest.mark.parametrize("wrap", [lambda f: f, core.jit], ids=["eager", "jit"])
def test_values(name, wrap):
    f, p = ARRAYS[name], arguments()
    t = tree.map(np.ones_like, p)
    check(wrap(lambda p, t: core.jvp(f, (p,), (t,)))(p, t), (p, t))
    check(wrap(core.jacfwd(f))(p), p)
    check(wrap(core.jacrev(f))(p), p)
    batch = tree.map(lambda x: np.stack([x, x]), p)
    check(wrap(core.vmap(f))(batch), batch)
    if name != "constants":
        check(wrap(core.vmap(f, out_axes=-1))(batch), batch)
    out, pull = core.vjp(f, p)
    check(out, p)
    first, second = pull(out), pull(out)
    check((first, second), (p, out))
    value, push = core.linearize(f, p)
    check((value, push(t), push(t)), (p, t))


@pytest.mark.parametrize("name", ARRAYS)
def test_compiled(name):
    p = arguments()
    f = core.jit(ARRAYS[name])
    check((f(p), f(p)), p)


def test_custom_rules_that_return_one_array_twice():
    @core.custom_vjp
    def add(a, b):
        return a + b

    add.defvjp(lambda a, b: (a + b, (a, b)), lambda kept, ct: (ct, ct))
    p = arguments()
    check(core.grad(lambda p: np.sum(add(p["a"], p["b"]) * W))(p), p)

    @core.custom_vjp
    def scaled(a):
        return a * W

    scaled.defvjp(lambda a: (a * W, W), lambda kept, ct: (kept,))
    _, pull = core.vjp(scaled, p["a"])
    check((pull(W), pull(W)), p)


def test_a_result_may_be_changed_between_pullbacks():
    out, pull = core.vjp(lambda x: np.exp(x), np.zeros(3))
    out *= 7.0
    (first,) = pull(np.ones(3))
    first *= 5.0
    np.testing.assert_array_equal(pull(np.ones(3))[0], np.ones(3))
