"""Fusion: how many loop nests there are, and what never becomes an array."""

import functools

import numpy as np
import pytest

from triskele import core
from triskele.core.compile.fuse import Group


def steps(f, *args):
    """Loop nests and other steps of the compiled function, and its memory."""
    program = core.jit(f)._entry(args, {}).function.program
    unit = program.emitted.module.units[-1]
    nests = [s for s in unit.fusion.steps if isinstance(s, Group)]
    return nests, [s.eqn.primitive.name for s in unit.fusion.steps if not isinstance(s, Group)], program


def test_elementwise_chain_is_one_nest_without_memory(rng):
    nests, others, program = steps(
        lambda x, y: np.tanh(np.sin(x) * y + 2) / (1 + x * x), rng.normal(size=100), rng.normal(size=100)
    )
    assert (len(nests), others, program.scratch) == (1, [], 0)


def test_several_results_and_reductions_share_a_nest(rng):
    nests, others, program = steps(lambda x: (np.exp(x), np.sum(np.exp(x)), np.max(x)), rng.normal(size=1000))
    assert len(nests) == 1 and others == []


def test_pair_differences_are_never_stored(rng):
    """Energy and gradient of all pairs: memory grows with n, not with n * n."""
    n = 300

    def energy(x):
        d = x[:, None, :] - x[None, :, :]
        return np.sum(1 / np.sqrt(np.sum(d * d, axis=-1) + 0.1))

    _, _, program = steps(core.value_and_grad(energy), rng.normal(size=(n, 3)))
    assert program.scratch < 8 * n * n


def test_large_products_are_left_to_blas_without_copies(rng):
    a, b = rng.normal(size=(64, 40)), rng.normal(size=(64, 50))
    nests, others, program = steps(lambda a, b: a.T @ b, a, b)
    assert (len(nests), others, program.scratch) == (0, ["product"], 0)


@pytest.mark.parametrize("shape", [((40, 50), (50,)), ((50,), (50, 40)), ((3, 3), (3, 3))], ids=str)
def test_small_products_are_loops(shape, rng):
    nests, others, _ = steps(lambda a, b: np.tanh(a @ b), *[rng.normal(size=s) for s in shape])
    assert others == []


def test_costly_values_with_several_readers_are_computed_once(rng):
    """exp is needed whole before its sum is known: stored rather than evaluated for each of the shifted reads."""

    def f(x):
        e = np.exp(np.sin(x))
        return e[1:] * e[:-1] + e[2:].sum()

    _, _, program = steps(f, rng.normal(size=500))
    assert program.emitted.text.count("call double @tsk.exp.f64") <= 4


def test_reshapes_are_views(rng):
    nests, others, program = steps(
        lambda a, b: np.reshape(np.reshape(a, (30, 40)) @ b, (10, 3, 20)),
        rng.normal(size=(5, 6, 40)),
        rng.normal(size=(40, 20)),
    )
    assert (nests, program.scratch) == ([], 0)


def test_unknown_operations_are_called_back(rng):
    a = rng.normal(size=(4, 4))
    nests, others, _ = steps(lambda a: np.linalg.svd(a + a.T)[1] * 2, a)
    assert any(name.startswith("svd") for name in others) and len(nests) == 2


def test_lower_shows_what_was_done(rng):
    lowered = core.jit(lambda x, w: np.sum(np.tanh(x @ w), axis=0)).lower(
        rng.normal(size=(30, 40)), rng.normal(size=(40, 50))
    )
    text = str(lowered)
    assert (
        "product" in lowered.kernels
        and "store" in lowered.kernels
        and "arena" in lowered.memory
        and "define i32 @main" in lowered.source
    )
    assert "tanh" in lowered.graph and "ms" in text and lowered.flops > 2 * 30 * 40 * 50


def test_nests_over_the_same_rows_run_block_by_block(rng):
    """A product with a matrix and one with its transpose read the matrix once: its rows are still in cache."""
    x, w = rng.normal(size=(4000, 100)), rng.normal(size=100)
    f = core.jit(core.value_and_grad(lambda w, x: np.sum(np.log1p(np.exp(x @ w)))))
    assert "blocks of" in f.lower(w, x).kernels
    p = 1 / (1 + np.exp(-(x @ w)))
    value, slope = f(w, x)
    np.testing.assert_allclose(slope, x.T @ p, rtol=1e-11)
    np.testing.assert_allclose(value, np.sum(np.log1p(np.exp(x @ w))), rtol=1e-12)


def test_softmax_in_blocks_of_rows(rng):
    x = rng.normal(size=(40, 30, 200))

    def softmax(x):
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    np.testing.assert_allclose(core.jit(softmax)(x), softmax(x), rtol=1e-14)
    assert "blocks of" in core.jit(softmax).lower(x).kernels


def test_long_chains_are_cut(rng):
    """The time LLVM takes grows faster than the code: no nest computes hundreds of functions."""

    def f(x):
        return functools.reduce(lambda x, _: np.sin(x) * 1.01 + 0.1, range(200), x)  # a loop would stay one

    x = rng.normal(size=50)
    nests, _, program = steps(f, x)
    assert 5 < len(nests) < 50 and max(n.cost for n in nests) < 1000
    np.testing.assert_allclose(core.jit(f)(x), f(x), rtol=1e-9)


def residual(layers):
    """Value and gradient of a residual network, and its arguments."""
    rng = np.random.default_rng(3)

    def loss(weights, x):
        for w in weights:
            y = x - np.mean(x, axis=1, keepdims=True)
            x = x + (y / np.sqrt(np.mean(y * y, axis=1, keepdims=True) + 1e-5)) @ w
        return np.sum(x * x)

    weights = [rng.normal(size=(64, 64)) / 8 for _ in range(layers)]
    return core.value_and_grad(loss), (weights, rng.normal(size=(256, 64)))


def test_the_sums_of_residual_networks_are_stored():
    """No nest reads the results of all layers before it: one did for each of them."""
    f, args = residual(12)
    nests, _, _ = steps(f, *args)
    large = [[v for v in nest.reads if v.spec.size == 256 * 64] for nest in nests]
    assert max(map(len, large)) <= 4
    value, gradient = core.jit(f)(*args)
    expected, slopes = f(*args)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for g, s in zip(gradient, slopes, strict=True):
        np.testing.assert_allclose(g, s, rtol=1e-9, atol=1e-9)


def test_equal_nests_of_an_unrolled_program_are_compiled_once():
    def f(x):
        return np.sum(functools.reduce(lambda y, _: np.sin(y) * 1.01 + 0.1, range(400), x))

    x = np.linspace(0.0, 1.0, 100)
    step = core.jit(core.value_and_grad(f))
    value, gradient = step(x)
    lowered = step.lower(x)
    assert lowered.source.count("define internal i64 @main.k") * 3 < lowered.kernels.count("  for ")
    y, slope = x, np.ones(100)
    for _ in range(400):
        y, slope = np.sin(y) * 1.01 + 0.1, slope * np.cos(y) * 1.01
    np.testing.assert_allclose(value, np.sum(y), rtol=1e-12)
    np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-300)


def test_results_take_the_place_of_what_they_are_made_of(rng):
    """Each product is followed by a nest; two arrays are enough for any number of them."""
    w, x = rng.normal(size=(60, 60)) / 8, rng.normal(size=(500, 60))

    def f(w, x):
        for _ in range(4):
            x = np.tanh(x @ w) + 1
        return np.sum(x * x)

    _, _, program = steps(f, w, x)
    assert program.scratch < 2.2 * x.nbytes
    np.testing.assert_allclose(core.jit(f)(w, x), f(w, x), rtol=1e-12)


def test_a_value_that_is_read_again_keeps_its_place(rng):
    w, x = rng.normal(size=(60, 60)) / 8, rng.normal(size=(500, 60))

    def f(w, x):
        y = x @ w
        z = np.exp(y)
        return np.sum(z @ w) + np.sum(y[::-1] @ w @ w) + np.sum(z[:, ::-1] @ w)

    np.testing.assert_allclose(core.jit(f)(w, x), f(w, x), rtol=1e-11)


def test_a_value_that_several_results_of_a_nest_read_is_not_overwritten_by_one_of_them(rng):
    """The nest's buffers are promised to LLVM as apart, which then moves loads beyond stores."""

    def f(x, w):
        y = x @ w
        return np.tanh(y) @ w, (y * y) @ w, np.exp(-y) @ w

    x, w = rng.normal(size=(14, 7)), rng.normal(size=(7, 7))
    program = core.jit(f)._entry((x, w), {}).function.program
    unit = program.emitted.module.units[-1]
    (nest,) = [s for s in unit.fusion.steps if isinstance(s, Group)]
    (read,) = nest.reads
    assert len(nest.roots) == 3
    assert unit.plan.places[read] not in [unit.plan.places[r.var] for r in nest.roots]
    for found, expected in zip(core.jit(f)(x, w), f(x, w), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
