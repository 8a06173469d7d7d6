"""Properties of every optimizer: descent, precision, state on disk, batching, fusion, and settings that are refused."""

import dataclasses
import re

import numpy as np
import pytest

from tests.shipped import subclasses
from triskele import core
from triskele.core import optim
from triskele.core.errors import TreeError
from triskele.core.optim.base import Optimizer

OPTIMIZERS = {
    "SGD": optim.SGD(0.1),
    "momentum": optim.SGD(0.1, momentum=0.9, nesterov=True, l2=0.01),
    "ASGD": optim.ASGD(0.1),
    "Adam": optim.Adam(0.1),
    "AdamW": optim.AdamW(0.1, weight_decay=0.01),
    "Adamax": optim.Adamax(0.1),
    "NAdam": optim.NAdam(0.1),
    "RAdam": optim.RAdam(0.1),
    "Adagrad": optim.Adagrad(0.1),
    "Adadelta": optim.Adadelta(),
    "RMSprop": optim.RMSprop(0.1),
    "FTRL": optim.FTRL(0.1, l1=0.01, l2=0.01),
    "ProximalAdagrad": optim.ProximalAdagrad(0.1, l1=0.01, l2=0.01),
    "LAMB": optim.LAMB(0.1, weight_decay=0.01),
    "LARS": optim.LARS(0.1, trust=0.1, l2=0.01),
    "Lion": optim.Lion(0.1, weight_decay=0.01),
    "Rprop": optim.Rprop(0.1),
}
ELSEWHERE = {"KFAC", "THOR"}  # need more than gradients: test_kfac.py, test_thor.py
REAL_ONLY = ("FTRL", "ProximalAdagrad", "Lion", "Rprop")
every = pytest.mark.parametrize("opt", OPTIMIZERS.values(), ids=OPTIMIZERS)


def test_every_optimizer_is_here():
    every = {name for name in subclasses(Optimizer, "triskele.core.optim") if not name.startswith("_")}
    assert every == {type(opt).__name__ for opt in OPTIMIZERS.values()} | ELSEWHERE


def quadratic(params):
    return sum(np.sum(np.abs(x) ** 2) for x in core.tree.leaves(params))


def after(opt, params, n=1, compiled=False):
    """Parameters and state after some steps down the quadratic."""
    step = core.jit(opt.step) if compiled else opt.step
    state = opt.init(params)
    for _ in range(n):
        params, state = step(params, core.grad(quadratic)(params), state)
    return params, state


@every
def test_the_first_step_descends(opt):
    params = {"w": np.array([[1.0, -2.0], [0.5, 3.0]]), "b": np.array([0.7, -0.3])}
    assert quadratic(after(opt, params)[0]) < quadratic(params)
    assert quadratic(after(opt, params, 30)[0]) < quadratic(after(opt, params)[0])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_complex_parameters_descend_or_are_refused(name):
    opt, params = OPTIMIZERS[name], {"z": np.array([1 + 2j, -0.5j])}
    if name in REAL_ONLY:
        with pytest.raises(TypeError, match=f"{name}: parameters must be real, got complex128 at `z`"):
            opt.init(params)
        return
    found, state = after(opt, params, 10)
    assert abs(found["z"][0]) < abs(params["z"][0]) and abs(found["z"][1]) < abs(params["z"][1])
    assert found["z"].dtype == np.complex128
    magnitudes = getattr(state, "second", None) or {"z": np.ones(2)}
    assert magnitudes["z"].dtype == np.float64


@pytest.mark.parametrize("name", sorted(set(OPTIMIZERS) - set(REAL_ONLY)))
def test_the_real_axis_of_complex_parameters_is_the_real_case(name):
    real = np.array([1.0, -2.0, 0.3])
    found, _ = after(OPTIMIZERS[name], real + 0j, 5)
    np.testing.assert_allclose(found, after(OPTIMIZERS[name], real, 5)[0], rtol=1e-13)


@every
def test_float32_stays_float32_whatever_the_rate(opt):
    opt = optim.scaled(dataclasses.replace(opt, learning_rate=optim.warmup(10, 0.1)), np.float64(0.5))
    params = {"w": np.ones((4, 3), np.float32), "b": np.ones(3)}
    for compiled in (False, True):
        found, state = after(opt, params, 2, compiled)
        assert found["w"].dtype == np.float32 and found["b"].dtype == np.float64
        assert {x.dtype for x in core.tree.leaves(state) if np.shape(x) == (4, 3)} <= {np.dtype(np.float32)}
    program = core.jit(opt.step).lower(params, params, opt.init(params)).graph
    assert "float64[4,3]" not in program


@every
def test_a_step_is_one_loop_and_norms_are_one_more(opt):
    p = np.ones((64, 64), np.float32)
    steps = core.jit(opt.step).lower(p, p, opt.init(p)).kernels
    assert len(re.findall(r"^  for 4096\b", steps, re.M)) == (2 if type(opt).__name__ in ("LAMB", "LARS") else 1)
    assert "64 x 64" not in steps and "for 64" not in steps


@every
def test_one_program_serves_all_steps(opt):
    traces = []

    @core.jit
    def step(params, grads, state, scale):
        traces.append(1)
        return optim.scaled(opt, scale).step(params, grads, state)

    params = np.ones(3)
    state = opt.init(params)
    for scale in (1.0, 0.5, 0.25):
        params, state = step(params, params, state, np.float64(scale))
    assert len(traces) == 1


@every
def test_the_state_survives_a_file(opt, tmp_path):
    params, state = after(opt, {"w": np.linspace(-1, 1, 6).reshape(2, 3)}, 3)
    core.save(tmp_path / "state", state)
    back = core.load(tmp_path / "state", like=opt.init(params))
    for a, b in zip(core.tree.leaves(state), core.tree.leaves(back), strict=True):
        assert np.array_equal(a, b) and np.result_type(a) == np.result_type(b)
    grads = core.grad(quadratic)(params)
    assert np.array_equal(opt.step(params, grads, back)[0]["w"], opt.step(params, grads, state)[0]["w"])


@every
def test_rates_can_be_batched(opt):
    rates, params = np.array([0.01, 0.1]), np.array([1.0, -2.0])
    several = core.vmap(lambda rate: after(dataclasses.replace(opt, learning_rate=rate), params, 3)[0])(rates)
    for rate, found in zip(rates, several, strict=True):
        np.testing.assert_allclose(found, after(dataclasses.replace(opt, learning_rate=rate), params, 3)[0], rtol=1e-12)


@every
def test_a_scaled_rate_is_a_smaller_rate(opt):
    params, rate = {"w": np.array([1.0, -2.0, 0.3])}, 0.1
    opt = dataclasses.replace(opt, learning_rate=rate)
    state = opt.init(params)
    step = core.jit(lambda scale: optim.scaled(opt, scale).step(params, params, state))
    for scale in (1.0, 0.5):
        same = dataclasses.replace(opt, learning_rate=rate * scale)
        np.testing.assert_allclose(step(scale)[0]["w"], same.step(params, params, state)[0]["w"], rtol=1e-14)
    assert np.array_equal(
        optim.scaled(opt, 1.0).step(params, params, state)[0]["w"], opt.step(params, params, state)[0]["w"]
    )


@every
def test_a_rate_of_zero_changes_nothing(opt):
    opt = dataclasses.replace(opt, learning_rate=optim.warmup(5, 0.1))
    params = np.array([1.0, 0.0, -2.0])
    found, _ = after(opt, params)
    np.testing.assert_allclose(found, params, rtol=1e-15)
    assert np.isfinite(after(opt, params, 3)[0]).all()


def test_ftrl_keeps_its_parameters_when_the_rate_changes():
    """A form that stores the algorithm's z would divide all parameters by ten."""
    params, state = after(optim.FTRL(0.5), np.array([1.0, -2.0]), 20)
    found, _ = optim.FTRL(0.05).step(params, np.zeros(2), state)
    np.testing.assert_allclose(found, params, rtol=1e-14)


def test_integer_parameters_are_named_by_path():
    net = {"layers": [{"weight": np.ones(2), "index": np.arange(2)}]}
    with pytest.raises(TypeError, match=r"Adam: parameters must be float or complex, got int64 at `layers\[0\].index`"):
        optim.Adam().init(net)
    with pytest.raises(TypeError, match=r"SGD: .* got int64 at `layers\[0\].index`"):
        optim.SGD(0.1).step(net, net, optim.SGD(0.1).init(np.ones(1)))


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: optim.SGD(-0.1), r"SGD: learning_rate must be a number >= 0, got -0.1"),
        (lambda: optim.Adam(np.nan), r"Adam: learning_rate must be a number >= 0, got nan"),
        (lambda: optim.Adam("0.1"), r"Adam: learning_rate must be a number >= 0, got '0.1'"),
        (lambda: optim.Adam(b1=1.0), r"Adam: b1 must be a number >= 0 and < 1, got 1.0"),
        (lambda: optim.Lion(b2=-0.1), r"Lion: b2 must be a number >= 0, got -0.1"),
        (lambda: optim.SGD(0.1, momentum=1.1), r"SGD: momentum must be a number >= 0 and < 1, got 1.1"),
        (lambda: optim.SGD(0.1, nesterov=0.9), r"SGD: nesterov must be True or False, got float 0.9"),
        (lambda: optim.AdamW(weight_decay=-1), r"AdamW: weight_decay must be a number >= 0, got -1"),
        (lambda: optim.FTRL(0.1, beta=0), r"FTRL: beta must be a positive number, got 0"),
        (
            lambda: optim.ProximalAdagrad(0.1, initial=0.0),
            r"ProximalAdagrad: initial must be a positive number, got 0.0",
        ),
        (
            lambda: optim.Rprop(shrink=1.5),
            r"Rprop: shrink and grow must satisfy 0 < shrink < 1 < grow, got 1.5 and 1.2",
        ),
        (lambda: optim.Rprop(smallest=2), r"Rprop: smallest and largest must satisfy smallest <= 1 <= largest, got 2"),
        (lambda: optim.clip_by_global_norm(np.ones(2), 0.0), r"clip_by_global_norm: limit must be a positive number"),
    ],
)
def test_settings_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_trees_that_differ_are_named():
    opt, params = optim.Lion(), {"layers": [np.zeros(3)]}
    with pytest.raises(ValueError, match=r"Lion: a gradient must have the shape .* \(3,\), got .* at `layers\[0\]`"):
        opt.step(params, {"layers": [np.zeros(2)]}, opt.init(params))
    with pytest.raises(ValueError, match=r"Lion: the state must have the shape .* \(3,\), got \(1,\) at"):
        opt.step(params, params, opt.init({"layers": [np.zeros(1)]}))
    with pytest.raises(TreeError, match="one structure"):
        opt.step(params, params, opt.init({"layers": np.zeros(3)}))
