"""Fifty steps of each optimizer against PyTorch, optax (tests/data/core) and plain NumPy forms of the papers."""

from pathlib import Path

import numpy as np
import pytest

from triskele import core
from triskele.core import optim

REFERENCE = np.load(Path(__file__).parents[2] / "data" / "core" / "optimizers.npz")
START, GRADIENTS = REFERENCE["start"], REFERENCE["gradients"]
PEERS = {
    "sgd_l2": optim.SGD(0.01, momentum=0.9, nesterov=True, l2=0.1),
    "asgd": optim.ASGD(0.05, l2=0.01, start=20),
    "adagrad": optim.Adagrad(0.1, initial=0.2),
    "adadelta": optim.Adadelta(0.5, decay=0.8),
    "rmsprop": optim.RMSprop(0.1),
    "adam": optim.Adam(0.1),
    "adamw": optim.AdamW(0.1, weight_decay=0.2),
    "adamax": optim.Adamax(0.1),
    "nadam": optim.NAdam(0.1),
    "radam": optim.RAdam(0.1),
    "rprop": optim.Rprop(0.1, smallest=0.1, largest=2.0),
    "lamb": optim.LAMB(0.1, weight_decay=0.1),
    "lars": optim.LARS(1.0, trust=0.05),
    "lion": optim.Lion(0.1, weight_decay=0.1),
    "adam_one_cycle": optim.Adam(optim.one_cycle(0.1, 50)),
    "sgd_cycle_momentum": optim.SGD(optim.one_cycle(0.1, 50), optim.one_cycle_momentum(50), nesterov=True),
    "adamw_cycle_momentum": optim.AdamW(optim.one_cycle(0.1, 50), optim.one_cycle_momentum(50), weight_decay=0.2),
}


def tree_of(x):
    return {"w": x[:6].reshape(2, 3), "z": [x[6:]]}


def flat(t):
    return np.concatenate([np.ravel(t["w"]), t["z"][0]])


def trajectory(opt, compiled=False):
    """Parameters after each step."""
    step = core.jit(opt.step) if compiled else opt.step
    params, found = tree_of(START), []
    state = opt.init(params)
    for g in GRADIENTS:
        params, state = step(params, tree_of(g), state)
        found.append(flat(params))
    return found, state


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("name", PEERS)
def test_fifty_steps_equal_the_peer_s(name, compiled):
    found, state = trajectory(PEERS[name], compiled)
    for k in (1, 2, 10, 50):
        np.testing.assert_allclose(found[k - 1], REFERENCE[f"{name}_{k}"], rtol=1e-12, atol=1e-13)
    if name == "asgd":
        np.testing.assert_allclose(flat(state.moment), REFERENCE["asgd_average"], rtol=1e-12)


@pytest.mark.parametrize("l1, l2", [(0, 0), (0.5, 0), (0, 0.5), (2.0, 0.3)])
def test_ftrl_is_algorithm_1_of_mcmahan(l1, l2):
    alpha, beta = 0.3, 1.5
    opt = optim.FTRL(alpha, beta=beta, l1=l1, l2=l2)
    params = np.zeros(9)
    state = opt.init(params)
    w, z, n = np.zeros(9), np.zeros(9), np.zeros(9)
    for g in GRADIENTS:
        params, state = opt.step(params, g, state)
        sigma = (np.sqrt(n + g * g) - np.sqrt(n)) / alpha
        z, n = z + g - sigma * w, n + g * g
        w = np.where(np.abs(z) <= l1, 0, -(z - np.sign(z) * l1) / ((beta + np.sqrt(n)) / alpha + l2))
        np.testing.assert_allclose(params, w, rtol=1e-10, atol=1e-14)
        assert ((params == 0) == (w == 0)).all()


def test_ftrl_without_penalties_is_adagrad():
    found, _ = trajectory(optim.FTRL(0.3, beta=1.5))
    same, _ = trajectory(optim.Adagrad(0.3, epsilon=1.5))
    np.testing.assert_allclose(found, same, rtol=1e-12)


def test_proximal_adagrad_minimizes_its_proximal_objective():
    """Each step minimizes g p + l1 |p| + l2/2 p^2 + (p - p0)^2 / (2 rate / sqrt(s)): no change of p may lower it."""
    l1, l2, rate = 0.4, 0.7, 0.3
    opt = optim.ProximalAdagrad(rate, l1=l1, l2=l2)
    state = opt.init(START)
    for g in GRADIENTS[:3]:
        params, state = opt.step(START, g, state)
        root = np.sqrt(state.moment)
        cost = lambda p: g * p + l1 * abs(p) + l2 / 2 * p**2 + (p - START) ** 2 * root / (2 * rate)  # noqa: B023
        for change in (-1e-4, 1e-4):
            assert (cost(params) <= cost(params + change)).all()
    same, _ = trajectory(optim.Adagrad(0.1, initial=0.1, epsilon=0))
    np.testing.assert_allclose(trajectory(optim.ProximalAdagrad(0.1))[0], same, rtol=1e-12)


def test_lars_with_a_penalty_is_algorithm_1_of_you():
    opt, l2, trust = optim.LARS(0.5, momentum=0.8, trust=0.02, l2=0.1), 0.1, 0.02
    params, state, w, v = START, opt.init(START), START, 0
    for g in GRADIENTS:
        params, state = opt.step(params, g, state)
        norm = np.linalg.norm
        rate = trust * norm(w) / (norm(g) + l2 * norm(w)) if norm(g) > 0 else 1.0
        v = 0.8 * v + 0.5 * rate * (g + l2 * w)
        w = w - v
        np.testing.assert_allclose(params, w, rtol=1e-12)
