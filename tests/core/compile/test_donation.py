"""Donated arguments: the same numbers, in the same memory, and nothing overwritten that others still see."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core
from triskele.core import nn, optim, tree
from triskele.core.errors import IndexOutOfBoundsError

RNG = np.random.default_rng(0)


def arrays(*shapes):
    return [RNG.normal(size=s) for s in shapes]


def assert_same(a, b):
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "optimizer",
    [
        optim.SGD(0.1),
        optim.SGD(0.1, momentum=0.9, nesterov=True),
        optim.Adam(0.01),
        optim.AdamW(0.01),
        optim.RMSprop(0.01),
    ],
    ids=repr,
)
def test_optimizers_step_in_place(optimizer):
    params, grads = (
        dict(zip("ab", arrays((40, 30), (30,)), strict=True)),
        dict(zip("ab", arrays((40, 30), (30,)), strict=True)),
    )
    plain, in_place = core.jit(optimizer.step), core.jit(optimizer.step, donate=(0, 2))
    a = b = params, optimizer.init(params)
    b = tree.map(np.array, b)
    for _ in range(3):
        before = b[0]
        a, b = plain(a[0], grads, a[1]), in_place(b[0], grads, b[1])
        assert b[0]["a"] is before["a"] and b[0]["b"] is before["b"]
        assert_same(a, b)


def test_layers_are_updated_after_their_last_use():
    net = nn.MLP.init(core.random.key(0), [16, 16, 16, 16])
    x, y = RNG.normal(size=(2, 8, 16)).astype(np.float32)

    def step(net, x, y):
        value, grads = core.value_and_grad(lambda net: np.mean((net(x) - y) ** 2))(net)
        return tree.map(lambda p, g: p - np.float32(0.1) * g, net, grads), value

    a, b = net, tree.map(np.array, net)
    plain, in_place = core.jit(step), core.jit(step, donate=0)
    for _ in range(3):
        (a, u), (b, v) = plain(a, x, y), in_place(b, x, y)
        assert u == v
        assert_same(a, b)


def test_every_result_is_right_where_memory_cannot_be_shared():
    @core.jit
    def plain(x, y):
        return y, x, x[::-1] + y, np.sum(x) + y

    in_place = core.jit(plain, donate=(0, 1))
    (x,) = arrays((50,))
    y = np.arange(50.0)
    expected = plain(x, y)
    found = in_place(x.copy(), y.copy())
    assert_same(expected, found)
    assert len({id(o) for o in found}) == 4 and not np.shares_memory(found[0], found[3])


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(["sum", "reverse", "scale", "same", "product", "transpose"]), min_size=1, max_size=5),
    st.integers(0, 3),
)
def test_random_functions(kinds, seed):
    def f(a, b):
        made = {
            "sum": lambda: a + b,
            "reverse": lambda: a[::-1] - b,
            "scale": lambda: 2 * b,
            "same": lambda: a,
            "product": lambda: b + a @ b,
            "transpose": lambda: b.T + a,
        }
        return [made[k]() for k in kinds]

    a, b = np.random.default_rng(seed).normal(size=(2, 20, 20))
    assert_same(core.jit(f)(a, b), core.jit(f, donate=(0, 1))(a.copy(), b.copy()))


def test_shared_memory_is_refused_by_name():
    f = core.jit(lambda p, q: (tree.map(lambda a: a + 1, p), q + 1), donate=0)
    x, y = arrays((10,), (5,))
    with pytest.raises(ValueError, match=r"jit of <lambda>: .* share memory .*`\[0\].w` and `\[1\]`"):
        f({"w": x}, x)
    with pytest.raises(ValueError, match=r"`\[0\].v` and `\[0\].w`"):
        f({"w": x, "v": x[2:7]}, y)
    for _ in range(2):
        f({"w": np.ones(10)}, y)  # the generated code looks, too
    with pytest.raises(ValueError, match="share memory"):
        f({"w": x}, x)
    f({"w": np.ones(10)}, x)
    g = core.jit(lambda p, q, r: (p + 1, q + r), donate=0)
    assert_same(g(np.ones(10), x, x), (np.full(10, 2.0), 2 * x))  # others may


def test_borrowed_and_read_only_arrays_are_copied():
    f = core.jit(lambda x: x + 1, donate=0)
    whole, frozen = np.zeros((2, 5)), np.zeros(5)
    frozen.flags.writeable = False
    for _ in range(2):
        for x in (whole[0], frozen, np.zeros((5, 2))[:, 0], np.broadcast_to(0.0, (5,))):
            np.testing.assert_array_equal(f(x), np.ones(5))
            assert not x.any()


def test_a_call_that_raises_leaves_its_arguments_alone():
    @core.custom_op(mode="python", out=lambda x: core.spec(x.shape, x.dtype))
    def picky(x):
        if x[0] > 1e6:
            raise ArithmeticError("too large")
        return x

    def late(p, q, i):  # both are checked after p could have been overwritten
        new = p - 0.5
        return new, q + picky(new * q), q[i]

    f = core.jit(late, donate=(0, 1))
    p, q = arrays((200,), (200,))
    for _ in range(2):
        p, q, _ = f(p, q, 3)
    for error, i, first in ((IndexOutOfBoundsError, 200, 1.0), (ArithmeticError, 3, 1e9)):
        p[0] = q[0] = first
        kept = p.copy(), q.copy()
        with pytest.raises(error):
            f(p, q, i)
        assert_same((p, q), kept)


def test_transforms_leave_donated_arguments_alone():
    f = core.jit(lambda x: (x * x * x, np.sum(x)), donate=0)
    (x,) = arrays((30,))
    kept = x.copy()
    np.testing.assert_allclose(core.grad(lambda x: np.sum(f(x)[0]))(x), 3 * x * x)
    np.testing.assert_allclose(core.vmap(f)(x[:, None])[0], x[:, None] ** 3)
    np.testing.assert_allclose(core.jit(lambda x: f(x)[0])(x), x**3)
    core.profile(f, x, seconds=0.001)
    assert_same(x, kept)


def test_static_arguments_keep_their_positions():
    f = core.jit(lambda n, x, y: (x + n, y), static_argnames="n", donate=1)
    x, y = np.zeros(4), np.zeros(4)
    assert f(2, x, y)[0] is x
    np.testing.assert_array_equal(y, 0)


def test_positions_that_make_no_sense():
    with pytest.raises(ValueError, match="0 or more, got -1"):
        core.jit(np.sin, donate=-1)
    with pytest.raises(TypeError, match="positions of arguments, got 'x'"):
        core.jit(np.sin, donate="x")
    with pytest.raises(ValueError, match=r"jit of f: donate .* got 2 for a call with 0, 1"):

        def f(x, y):
            return x + y

        core.jit(f, donate=2)(np.ones(2), np.ones(2))
    with pytest.raises(ValueError, match="got 1 for a call with 0 .*keywords"):
        core.jit(f, donate=1)(np.ones(2), y=np.ones(2))
    with pytest.raises(ValueError, match="must not donate"):
        core.jit(f, donate=0).program(np.ones(2), np.ones(2))
