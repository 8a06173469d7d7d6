"""Optimizers against PyTorch's trajectories (tests/data/nn), schedules and clipping against their formulas."""

from pathlib import Path

import numpy as np
import pytest

from triskele import core
from triskele.core import optim
from triskele.core.errors import TreeError

REFERENCE = np.load(Path(__file__).parents[2] / "data" / "nn" / "torch_reference.npz")


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize(
    "name, opt",
    [
        ("sgd", optim.SGD(0.1)),
        ("momentum", optim.SGD(0.1, momentum=0.9)),
        ("nesterov", optim.SGD(0.1, momentum=0.9, nesterov=True)),
        ("rmsprop", optim.RMSprop(0.1)),
        ("adam", optim.Adam(0.1)),
        ("adamw", optim.AdamW(0.1, weight_decay=0.2)),
    ],
)
def test_trajectory(name, opt, compiled):
    step = core.jit(opt.step) if compiled else opt.step
    params = {"w": REFERENCE["start"][:2], "b": [REFERENCE["start"][2:]]}
    state = opt.init(params)
    for g in REFERENCE["gradients"]:
        params, state = step(params, {"w": g[:2], "b": [g[2:]]}, state)
    np.testing.assert_allclose(np.concatenate([params["w"], params["b"][0]]), REFERENCE[f"optim_{name}"], rtol=1e-10)
    assert state.count == len(REFERENCE["gradients"])


def test_the_precision_of_the_parameters_is_kept():
    opt = optim.Adam(optim.warmup(10, 1e-2))
    params = {"a": np.ones(3, np.float32), "b": np.ones(2)}
    params, state = opt.step(params, params, opt.init(params))
    assert params["a"].dtype == state.first["a"].dtype == np.float32 and params["b"].dtype == np.float64


def test_lbfgs_finds_the_minimum_of_rosenbrock():
    def rosenbrock(p):
        x = np.concatenate([p["head"], p["tail"]])
        return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    result = optim.LBFGS().minimize(rosenbrock, {"head": np.full(4, -1.0), "tail": np.zeros(6)})
    assert result.converged and result.value < 1e-12
    np.testing.assert_allclose(result.params["tail"], 1, atol=1e-6)


def test_schedules():
    cosine = optim.cosine_decay(1.0, 100, end=0.1)
    np.testing.assert_allclose([cosine(0), cosine(50), cosine(100), cosine(500)], [1, 0.55, 0.1, 0.1])
    np.testing.assert_allclose(optim.exponential_decay(2.0, 0.5, every=10)(20), 0.5)
    warm = optim.warmup(10, optim.piecewise_constant([1.0, 0.1], [5]))
    np.testing.assert_allclose([warm(0), warm(5), warm(10), warm(15)], [0, 0.5, 1, 0.1])
    assert optim.warmup(0, 0.5)(0) == 0.5  # without a division by zero
    with pytest.raises(ValueError, match="one value more"):
        optim.piecewise_constant([1.0], [5])


def test_clipping():
    grads = {"a": np.array([3.0, 0.0]), "b": np.array([4.0])}
    assert optim.global_norm(grads) == 5
    clipped = optim.clip_by_global_norm(grads, 1.0)
    np.testing.assert_allclose(clipped["a"], [0.6, 0])
    assert optim.global_norm(optim.clip_by_global_norm(grads, 10.0)) == 5
    np.testing.assert_allclose(optim.clip_by_value(grads, 3.5)["b"], [3.5])


def test_mistakes_are_named():
    opt = optim.SGD(0.1)
    params = {"w": np.zeros(3)}
    with pytest.raises(ValueError, match=r"SGD: a gradient must have the shape of its parameter, \(3,\), got \(2,\)"):
        opt.step(params, {"w": np.zeros(2)}, opt.init(params))
    with pytest.raises(TreeError, match="one structure"):
        opt.step(params, [np.zeros(3)], opt.init(params))
