"""Schedules against PyTorch's rates for 100 steps (tests/data/core), formulas, and inside compiled code."""

from pathlib import Path

import numpy as np
import pytest

from triskele import core
from triskele.core import optim

REFERENCE = np.load(Path(__file__).parents[2] / "data" / "core" / "optimizers.npz")
SCHEDULES = {
    "one_cycle": optim.one_cycle(0.5, 100),
    "one_cycle_linear": optim.one_cycle(0.5, 100, rise=0.25, start=0.05, end=0.001, linear=True),
    "cosine_restarts": optim.cosine_restarts(0.5, 14, factor=2, end=0.1),
    "cosine_restarts_even": optim.cosine_restarts(0.5, 9),
    "polynomial_decay": optim.polynomial_decay(0.5, 80, power=2.5),
}


@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_equal_pytorch_s(name):
    rate, counts = SCHEDULES[name], np.arange(100)
    np.testing.assert_allclose([rate(n) for n in counts], REFERENCE[name], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(rate(counts), REFERENCE[name], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(core.jit(core.vmap(rate))(counts), REFERENCE[name], rtol=1e-12, atol=1e-14)


def test_rates_after_the_end_are_constant():
    assert optim.one_cycle(0.5, 100)(1000) == pytest.approx(0.5 / 25e4, rel=1e-12)
    assert optim.polynomial_decay(0.5, 10, end=0.1)(1000) == 0.1


@pytest.mark.parametrize("steps", range(1, 12))
def test_one_cycle_is_finite_however_short(steps):
    for rise in (0.0, 0.3, 1 / steps if steps > 1 else 0.5, 0.99):
        rates = optim.one_cycle(1.0, steps, rise=rise)(np.arange(steps + 2))
        assert np.isfinite(rates).all() and rates.max() <= 1 and rates[steps - 1] == pytest.approx(4e-6)


@pytest.mark.parametrize("factor", [1, 1.5, 2, 3, 10])
def test_every_restart_is_at_the_peak(factor):
    rate, begin = optim.cosine_restarts(1.0, 64, factor=factor), 0.0
    for k in range(6):
        assert rate(begin) == pytest.approx(1.0)
        begin += 64 * factor**k
        assert rate(begin - 1) < 1e-2


def test_inverse_root_is_equation_3_of_vaswani():
    width, warmup = 512, 4000
    rate = optim.inverse_root((width * warmup) ** -0.5, warmup)
    for step in (1, 10, 3999, 4000, 4001, 100_000):
        assert rate(step - 1) == pytest.approx(width**-0.5 * min(step**-0.5, step * warmup**-1.5), rel=1e-12)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: optim.one_cycle(0.1, 0), "one_cycle: steps must be a positive number, got 0"),
        (lambda: optim.one_cycle(-0.1, 10), "one_cycle: peak must be a number >= 0, got -0.1"),
        (lambda: optim.cosine_decay(-0.1, 10), "cosine_decay: start must be a number >= 0, got -0.1"),
        (lambda: optim.one_cycle(0.1, 10, rise=1.0), "one_cycle: rise must be a number >= 0 and < 1, got 1.0"),
        (lambda: optim.cosine_decay(0.1, -5), "cosine_decay: steps must be a positive number, got -5"),
        (lambda: optim.cosine_restarts(0.1, 10, factor=0.5), "cosine_restarts: factor must be a number >= 1, got 0.5"),
        (lambda: optim.polynomial_decay(0.1, 0), "polynomial_decay: steps must be a positive number, got 0"),
        (lambda: optim.inverse_root(0.1, 0), "inverse_root: warmup must be a positive number, got 0"),
        (lambda: optim.exponential_decay(0.1, 0.5, 0), "exponential_decay: every must be a positive number, got 0"),
        (lambda: optim.warmup(-1, 0.1), "warmup: steps must be a number >= 0, got -1"),
    ],
)
def test_lengths_that_cannot_be_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()
