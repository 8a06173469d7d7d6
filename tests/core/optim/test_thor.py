"""THOR against K-FAC, its rule for refreshing layers, and split factors against whole ones."""

import functools

import numpy as np
import pytest

from triskele import core
from triskele.core import nn, optim, random, tree
from triskele.core.optim.curvature import Curvature
from triskele.core.optim.kronecker import block_inverse, precondition, split
from triskele.core.optim.thor import THORState

RNG = np.random.default_rng(11)
X, LABELS = RNG.normal(size=(40, 24)), RNG.integers(0, 3, 40)
NET = nn.MLP.init(random.key(0), [24, 20, 3], dtype=np.float64)


def loss(net, batch):
    return nn.cross_entropy(net(batch[0]), batch[1])


def states(opt, steps, batches=lambda _: (X, LABELS)):
    """Networks, states and infos of some steps, beginning with the initial ones."""
    net, state = NET, opt.init(loss, NET, batches(0))
    found = [(net, state, {})]
    step = core.jit(functools.partial(opt.step, loss))
    for k in range(steps):
        found.append(step(*found[-1][:1], batches(k), found[-1][1], random.fold_in(random.key(0), k)))
    return found


def test_without_thresholds_thor_is_k_fac():
    thor = optim.THOR(0.3, 0.8, damping=0.1, w1=0.0, w2=0.0, check_every=1, decay=0.7, split_loss=0.0)
    kfac = optim.KFAC(0.3, 0.8, damping=0.1, adaptive_damping=False, inverse_every=1, decay=0.7)
    a, b = states(thor, 6)[-1][0], states(kfac, 6)[-1][0]
    for x, y in zip(tree.leaves(a), tree.leaves(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-9)


def test_blocks_are_refreshed_above_w1_and_frozen_below_w2():
    opt = optim.THOR(0.1, w1=0.1, w2=0.01, check_every=2, damping=0.1)

    def batches(k):
        pick = np.random.default_rng(k).integers(0, 40, 20)
        return X[pick], LABELS[pick]

    found = states(opt, 40, batches)
    last, frozen, seen = np.zeros(2), np.zeros(2, bool), set()
    for k, ((_, before, _), (_, after, info)) in enumerate(zip(found, found[1:], strict=False)):
        refreshed = after.refreshes - before.refreshes
        for block, size in enumerate((25 * 20, 21 * 3)):
            traces = [np.sum(np.trace(f, axis1=-2, axis2=-1)) for f in after.factors[block]]
            trace = traces[0] * traces[1] + 0.1 * size
            change = abs(trace - last[block]) / last[block] if k else np.inf
            live = k % 2 == 0 and not frozen[block]
            assert refreshed[block] == (live and change > 0.1)
            same = all(np.array_equal(a, b) for a, b in zip(before.inverses[block], after.inverses[block], strict=True))
            assert same != refreshed[block]
            last[block] = trace if refreshed[block] else last[block]
            frozen[block] |= live and change < 0.01
            seen.add((bool(refreshed[block]), bool(frozen[block]), live))
        np.testing.assert_array_equal(after.frozen, frozen)
        assert (info["refreshed"], info["frozen"]) == (np.sum(refreshed), np.sum(frozen))
    assert {(True, False, True), (False, False, True), (False, True, True), (False, True, False)} <= seen


def test_frozen_blocks_stay_and_the_rest_is_gradient_descent_with_momentum():
    opt = optim.THOR(0.1, 0.9, w1=1e6, w2=1e6, check_every=1)  # inverted once, frozen at the second check
    found = states(opt, 5)
    (_, _, _), (_, first, _), *_, (before, old, _), (after, new, info) = found
    assert info["frozen"] == 2 and new.checks == 2 and list(new.refreshes) == [1, 1]
    for a, b in zip(tree.leaves(first.inverses), tree.leaves(new.inverses), strict=True):
        np.testing.assert_array_equal(a, b)
    grads = core.grad(loss)(before, (X, LABELS))
    for k, layer in enumerate(("0", "1")):
        left, right = first.inverses[k]
        gradient = np.vstack([grads.layers[k].weight, grads.layers[k].bias])
        velocity, moved = [
            [np.vstack([t.layers[k].weight, t.layers[k].bias]) for t in pair]
            for pair in ((old.velocity, new.velocity), (before, after))
        ]
        np.testing.assert_allclose(velocity[1], 0.9 * velocity[0] + left @ gradient @ right, atol=1e-12, err_msg=layer)
        np.testing.assert_allclose(moved[1], moved[0] - 0.1 * velocity[1], atol=1e-12)


@pytest.mark.parametrize("n", [32, 40])
def test_split_factors_invert_and_multiply_block_by_block(n):
    blocks = [RNG.normal(size=(m, m)) for m in (16, 16, 8)[: -(-n // 16)]]
    blocks = [b @ b.T / len(b) for b in blocks]
    whole = np.zeros((n, n))
    for k, b in enumerate(blocks):
        whole[16 * k : 16 * k + len(b), 16 * k : 16 * k + len(b)] = b
    other = np.diag([1.0, 2.0])
    damping = np.float64(0.1)
    for shape in ((n, 2), (2, n)):
        turn = slice(None) if shape[0] == n else slice(None, None, -1)
        weight = RNG.normal(size=shape)
        curvature = Curvature("test", lambda w, x: nn.mean_squared_error(x @ w, x @ w), weight, np.ones((3, shape[0])))
        a, b = (
            precondition(curvature, [block_inverse((factor, other)[turn], shape, damping)], [weight])[0]
            for factor in (whole, split(whole, 16))
        )
        np.testing.assert_allclose(a, b, atol=1e-12)


def test_factors_are_split_where_the_largest_eigenvalue_is_kept():
    """Two groups of inputs that are never active together make two blocks."""
    x = np.zeros((40, 32))
    x[:20, :16], x[20:, 16:] = RNG.normal(size=(20, 16)), RNG.normal(size=(20, 16))
    net = nn.Linear.init(random.key(0), 32, 3, bias=False, dtype=np.float64)
    shapes = [[f.shape for f in optim.THOR(0.1, split_loss=s).init(loss, net, (x, LABELS)).factors[0]] for s in (0, 1)]
    assert shapes[0] == [(2, 16, 16), (3, 3)]
    dense = optim.THOR(0.1, split_loss=0.0).init(loss, net, (RNG.normal(size=(40, 32)), LABELS))
    assert dense.factors[0][0].shape == (32, 32)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"w1": 0.1, "w2": 0.2}, "w2 must not be above w1"),
        ({"damping": 0.0}, "damping must be a positive"),
        ({"check_every": 0}, "check_every must be an integer >= 1"),
        ({"split_loss": 2.0}, "split_loss must be"),
    ],
)
def test_bad_settings_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        optim.THOR(0.1, **options)


def test_another_network_is_refused():
    opt = optim.THOR(0.1)
    state = opt.init(loss, NET, (X, LABELS))
    assert isinstance(state, THORState)
    with pytest.raises(ValueError, match="THOR: the state must belong to these parameters"):
        opt.step(loss, nn.Linear.init(random.key(0), 24, 3, dtype=np.float64), (X, LABELS), state, random.key(0))
