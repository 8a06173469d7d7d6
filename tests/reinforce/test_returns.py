"""Returns and advantages: equal to rlax's, right at both kinds of ends, equal to their definitions, differentiable."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from triskele import core
from triskele.reinforce import returns

REFERENCE = json.loads((Path(__file__).parents[1] / "data/reinforce/rl_targets_rlax.json").read_text())
X = {k: np.array(v) for k, v in REFERENCE["inputs"].items()}
V = X["v"]
ENDS = X["discount"] == 0
CLOSE = {"rtol": 2e-5, "atol": 2e-6}  # the reference is float32


def test_lambda_returns_are_rlaxs():
    found = returns.lambda_returns(X["r"], V[1:], ENDS, discount=0.99, lam=0.95)
    assert_allclose(found, REFERENCE["lambda_returns"], **CLOSE)


def test_advantages_are_rlaxs():
    found = returns.gae(X["r"], V[:-1], V[1:], ENDS, discount=0.99, lam=0.95)
    assert_allclose(found, REFERENCE["gae_truncated_generalized_advantage_estimation"], **CLOSE)


def test_discounted_returns_are_rlaxs():
    found = returns.discounted(X["r"], ENDS, next_values=V[1:], discount=0.99)
    assert_allclose(found, REFERENCE["discounted_returns"], **CLOSE)


def test_n_step_returns_are_rlaxs():
    found = returns.n_step(X["r"], V[1:], ENDS, n=3, discount=0.99)
    assert_allclose(found, REFERENCE["n_step_bootstrapped_returns_n3"], **CLOSE)


def test_v_trace_is_rlaxs():
    found = returns.v_trace(X["r"], V[:-1], V[1:], X["rho"], ENDS, discount=0.99, lam=0.95)
    assert_allclose(found.targets - V[:-1], REFERENCE["vtrace"]["errors"], **CLOSE)
    assert_allclose(found.advantages, REFERENCE["vtrace"]["pg_advantage"], **CLOSE)
    assert_allclose(found.q_values, REFERENCE["vtrace"]["q_estimate"], **CLOSE)


# -- by their definitions
# ---------------------------------------------------------------------------------------------------


@st.composite
def trajectories(draw):
    """Time-major arrays of some environments, with ends of both kinds anywhere."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    t, n = 6, 3
    kind = rng.integers(0, 6, (t, n))  # one in six terminated, one in six truncated
    return {
        "rewards": rng.standard_normal((t, n)),
        "values": rng.standard_normal((t, n)),
        "next_values": rng.standard_normal((t, n)),
        "ratios": rng.uniform(0.2, 2, (t, n)),
        "terminated": kind == 0,
        "truncated": kind == 1,
    }


def n_step_by_hand(x, t, e, n, discount):
    total, factor = 0.0, 1.0
    for k in range(t, len(x["rewards"])):
        total += factor * x["rewards"][k, e]
        factor *= discount
        if x["terminated"][k, e]:
            return total
        if x["truncated"][k, e] or k == t + n - 1 or k == len(x["rewards"]) - 1:
            return total + factor * x["next_values"][k, e]


@settings(max_examples=20, deadline=None)
@given(trajectories(), st.sampled_from([1, 2, 4]))
def test_n_step_returns_by_hand(x, n):
    found = returns.n_step(x["rewards"], x["next_values"], x["terminated"], x["truncated"], n=n, discount=0.9)
    wanted = [[n_step_by_hand(x, t, e, n, 0.9) for e in range(3)] for t in range(6)]
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(trajectories())
def test_lambda_returns_are_the_mean_of_n_step_returns(x):
    """(1 - lambda) sum of lambda**(n - 1) times the n-step return; where a return can get no longer it has the rest of
    the weight.
    """
    lam, longest = 0.7, 6
    found = returns.lambda_returns(
        x["rewards"], x["next_values"], x["terminated"], x["truncated"], discount=0.9, lam=lam
    )
    wanted = np.zeros((6, 3))
    for t in range(6):
        for e in range(3):
            g = [n_step_by_hand(x, t, e, n, 0.9) for n in range(1, longest + 1)]
            wanted[t, e] = (1 - lam) * sum(lam**k * v for k, v in enumerate(g[:-1])) + lam ** (longest - 1) * g[-1]
    assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(trajectories())
def test_advantages_are_lambda_returns_minus_values(x):
    ends = x["terminated"], x["truncated"]
    # true where the values before a step are those after the step before it, as they are within an episode
    x["values"][1:] = x["next_values"][:-1]
    advantages = returns.gae(x["rewards"], x["values"], x["next_values"], *ends, discount=0.9, lam=0.7)
    targets = returns.lambda_returns(x["rewards"], x["next_values"], *ends, discount=0.9, lam=0.7)
    assert_allclose(advantages, targets - x["values"], rtol=1e-12, atol=1e-12)


@settings(max_examples=20, deadline=None)
@given(trajectories())
def test_v_trace_of_the_own_policy_gives_lambda_returns(x):
    ends = x["terminated"], x["truncated"]
    x["values"][1:] = x["next_values"][:-1]
    found = returns.v_trace(x["rewards"], x["values"], x["next_values"], np.ones((6, 3)), *ends, discount=0.9, lam=0.7)
    assert_allclose(
        found.targets,
        returns.lambda_returns(x["rewards"], x["next_values"], *ends, discount=0.9, lam=0.7),
        rtol=1e-12,
        atol=1e-12,
    )


def test_a_truncated_episode_counts_on_and_a_terminated_one_does_not():
    rewards, values = np.ones(3), np.full(3, 10.0)
    at_1 = np.array([False, True, False])
    assert_allclose(returns.discounted(rewards, at_1, next_values=values, discount=0.5), [1.5, 1, 6])
    assert_allclose(returns.discounted(rewards, ~at_1 & False, at_1, next_values=values, discount=0.5), [4, 6, 6])


# -- as part of programs
# ----------------------------------------------------------------------------------------------------


def test_derivatives(rng):
    """Of everything that a loss could have in it; the same inside a compiled function."""
    r, v, w, ratios = rng.standard_normal((4, 5, 2))
    ratios = np.exp(0.3 * ratios)
    ends, cuts = np.zeros((5, 2), bool), np.zeros((5, 2), bool)
    ends[1, 0], cuts[2, 1] = True, True
    for f in (
        lambda r, v, w, q: returns.gae(r, v, w, ends, cuts),
        lambda r, v, w, q: returns.lambda_returns(r, w, ends, cuts),
        lambda r, v, w, q: returns.n_step(r, w, ends, cuts, n=2),
        lambda r, v, w, q: returns.discounted(r, ends, cuts, next_values=w),
        lambda r, v, w, q: sum(returns.v_trace(r, v, w, q, ends, cuts, clip_targets=1.2)),
    ):
        core.check_grads(f, (r, v, w, ratios), order=1)
        assert_allclose(core.jit(f)(r, v, w, ratios), f(r, v, w, ratios), rtol=1e-12, atol=1e-12)


def test_float32_stays_float32(rng):
    r, v, w = rng.standard_normal((3, 4, 2)).astype(np.float32)
    never = np.zeros((4, 2), bool)
    assert returns.gae(r, v, w, never).dtype == np.float32
    assert returns.n_step(r, w, never, n=2).dtype == np.float32
    assert returns.lambda_returns(r, w, never).dtype == np.float32
    assert all(x.dtype == np.float32 for x in returns.v_trace(r, v, w, np.ones_like(r), never))


def test_nan_stays_visible():
    assert np.isnan(returns.discounted(np.array([1.0, np.nan]), np.zeros(2, bool))).all()


def test_bad_input():
    r, never = np.zeros(3), np.zeros(3, bool)
    with pytest.raises(ValueError, match=r"gae: values must have the shape of rewards, \(3,\), got \(4,\)"):
        returns.gae(r, np.zeros(4), r, never)
    with pytest.raises(ValueError, match="rewards must be an array of at least one step"):
        returns.discounted(np.zeros(0), np.zeros(0, bool))
    with pytest.raises(ValueError, match="n must be an integer >= 1, got 0"):
        returns.n_step(r, r, never, n=0)
    with pytest.raises(ValueError, match="discount must be between 0 and 1, got 1.5"):
        returns.lambda_returns(r, r, never, discount=1.5)
