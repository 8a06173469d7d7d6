"""Attention against the formula that holds all scores, at lengths around the blocks of the kernel."""

import numpy as np
import pytest

from triskele import core
from triskele.core import nn


def formula(q, k, v, causal=False, mask=None, scale=None):
    """Softmax of all scores, in NumPy operations; every query must see a key."""
    group = q.shape[-2] // k.shape[-2]
    k, v = np.repeat(k, group, axis=-2), np.repeat(v, group, axis=-2)
    scores = np.einsum("...thd,...shd->...hts", q, k) * (q.shape[-1] ** -0.5 if scale is None else scale)
    if causal:
        scores = np.where(np.tri(*scores.shape[-2:], scores.shape[-1] - scores.shape[-2], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return np.einsum("...hts,...shd->...thd", nn.softmax(scores), v)


def arrays(rng, lead, queries, keys, heads, key_heads, depth, width, dtype=np.float64):
    shapes = (*lead, queries, heads, depth), (*lead, keys, key_heads, depth), (*lead, keys, key_heads, width)
    return [rng.normal(size=s).astype(dtype) for s in shapes]


CASES = {
    "one block": (((2,), 7, 7, 2, 2, 4, 4), {}),
    "causal": (((), 130, 130, 2, 2, 16, 16), {"causal": True}),
    "more keys, groups": (((2, 1), 50, 405, 4, 2, 5, 3), {"causal": True}),
    "wide values": (((1,), 97, 193, 1, 1, 33, 70), {"scale": 0.3}),
    "mask": (((2,), 49, 200, 2, 1, 8, 8), {"mask": "bool"}),
    "bias": (((2,), 49, 200, 2, 2, 8, 8), {"mask": "bias", "causal": True}),
}


def options(rng, lead, queries, keys, heads, more):
    mask = more.get("mask")
    if mask == "bool":
        mask = rng.random((queries, keys)) < 0.5
        mask[:, 0] = True
    elif mask == "bias":
        mask = rng.normal(size=(*lead, heads, 1, keys))
    return {**more, "mask": mask}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients_are_those_of_the_formula(rng, name, dtype):
    sizes, more = CASES[name]
    more = options(rng, *sizes[:4], more)
    exact = arrays(rng, *sizes)
    ct = rng.normal(size=(*exact[0].shape[:-1], sizes[-1]))
    x = [a.astype(dtype) for a in exact]
    tolerance = {"rtol": 0, "atol": 2e-5 if dtype == np.float32 else 1e-12}
    want = formula(*exact, **more)

    def loss(f, ct, *x):
        return np.sum(f(*x, **more) * ct)

    slopes = core.grad(lambda *x: loss(formula, ct, *x), argnums=(0, 1, 2))(*exact)
    compiled = core.jit(lambda *x: nn.attention(*x, **more))
    gradient = core.jit(core.grad(lambda *x: loss(nn.attention, ct.astype(dtype), *x), argnums=(0, 1, 2)))
    assert "host call" not in gradient.lower(*x).kernels
    for y in (nn.attention(*x, **more), compiled(*x)):
        assert y.dtype == dtype
        np.testing.assert_allclose(y, want, **tolerance)
    for g, wanted in zip(gradient(*x), slopes, strict=True):
        np.testing.assert_allclose(g, wanted, **tolerance)


def test_derivatives_of_masks_and_of_second_order(rng):
    q, k, v = arrays(rng, (2,), 5, 6, 2, 1, 3, 2)
    bias = rng.normal(size=(1, 2, 1, 6))
    core.check_grads(lambda q, k, v, bias: nn.attention(q, k, v, mask=bias, causal=True), (q, k, v, bias), order=2)
    many = core.vmap(lambda q, bias: nn.attention(q, k[0], v[0], mask=bias))(q, np.stack([bias[0]] * 2))
    want = nn.attention(q, np.stack([k[0]] * 2), np.stack([v[0]] * 2), mask=bias)
    np.testing.assert_allclose(many, want, atol=1e-14)


def test_queries_that_see_nothing_give_zeros(rng):
    q, k, v = arrays(rng, (), 60, 50, 1, 1, 8, 8)
    mask = np.ones((60, 50), bool)
    mask[20] = False
    for m in (mask, np.where(mask, 0, -np.inf)):
        gradient = core.grad(lambda q, m=m: np.sum(nn.attention(q, k, v, causal=True, mask=m) ** 2))
        for run in (lambda f: f, core.jit):
            y, g = run(lambda q, m=m: nn.attention(q, k, v, causal=True, mask=m))(q), run(gradient)(q)
            empty = [*range(10), 20]  # the last query sees all 50 keys, the first ten see none
            assert not y[empty].any() and not g[empty].any()
            assert np.isfinite(y).all() and np.isfinite(g).all()
            np.testing.assert_allclose(y[30:], formula(q[30:], k, v, True), atol=1e-12)


def test_hidden_scores_do_not_count_and_visible_nans_show(rng):
    q, k, v = arrays(rng, (), 40, 40, 1, 1, 8, 8)
    k[5] = np.nan
    hidden = np.ones((40, 40), bool)
    hidden[:30, 5] = False
    for run in (lambda f: f, core.jit):
        y = run(lambda q: nn.attention(q, k, v, mask=hidden))(q)
        assert np.isfinite(y[:30]).all() and np.isnan(y[30:]).all()


def test_memory_is_linear_in_the_length():
    def scratch(n):
        x = np.zeros((n, 2, 16), np.float32)
        memory = core.jit(core.grad(lambda q: np.sum(nn.attention(q, q, q, causal=True)))).lower(x).memory
        return int(memory.split()[1])

    assert scratch(8192) < 2.2 * scratch(4096)
    assert scratch(8192) < 8192 * 2 * 16 * 4 * 32


def test_results_do_not_depend_on_the_number_of_threads(rng):
    x = arrays(rng, (1,), 500, 500, 2, 1, 16, 16, np.float32)
    gradient = core.jit(core.grad(lambda *x: np.sum(nn.attention(*x, causal=True) ** 2), argnums=(0, 1, 2)))
    before, found = core.get_threads(), []
    try:
        for n in (1, 2, 5):
            core.set_threads(n)
            found.append(gradient(*x))
    finally:
        core.set_threads(before)
    for other in found[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize(
    ("shapes", "more", "error", "message"),
    [
        (((5, 2, 3), (5, 2, 4), (5, 2, 4)), {}, ValueError, "q must be"),
        (((5, 3, 4), (5, 2, 4), (5, 2, 4)), {}, ValueError, "heads of k must divide those of q, got 2 and 3"),
        (((5, 2, 4), (5, 2, 4), (5, 2, 4)), {"scale": np.inf}, ValueError, "scale must be finite"),
        (((5, 2, 4), (5, 2, 4), (5, 2, 4)), {"mask": np.ones((4, 5), bool)}, ValueError, "mask must broadcast"),
        (((5, 2, 4), (5, 2, 4), (5, 2, 4)), {"mask": np.ones((5, 5), int)}, TypeError, "mask must be bool or floating"),
    ],
)
def test_bad_input_is_named(shapes, more, error, message):
    with pytest.raises(error, match=message):
        nn.attention(*map(np.zeros, shapes), **more)
