"""Value transforms: equal to rlax's, inverse to each other, differentiable."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from triskele import core
from triskele.reinforce import value_transforms

REFERENCE = json.loads((Path(__file__).parents[1] / "data/reinforce/rl_targets_rlax.json").read_text())
numbers = st.floats(-1e6, 1e6)


def test_signed_hyperbolic_is_rlaxs():
    case = REFERENCE["signed_hyperbolic"]
    assert_allclose(value_transforms.signed_hyperbolic(np.array(case["x"])), case["out"], rtol=2e-6, atol=1e-7)
    # rlax's inverse loses digits in float32: 1e-3 of the small numbers
    assert_allclose(value_transforms.signed_parabolic(np.array(case["out"])), case["inv"], rtol=1e-3, atol=1e-7)


@given(numbers)
def test_signed_parabolic_is_the_inverse(x):
    assert_allclose(
        value_transforms.signed_parabolic(value_transforms.signed_hyperbolic(x)), x, rtol=1e-12, atol=1e-300
    )


@given(numbers)
def test_signed_hyperbolic_is_its_formula(x):
    wanted = np.sign(x) * (np.sqrt(abs(x) + 1) - 1) + 1e-3 * x
    # the formula loses digits near 0
    assert_allclose(value_transforms.signed_hyperbolic(x), wanted, rtol=1e-9, atol=1e-15)


def test_small_numbers_keep_their_digits_in_float32():
    x = np.array([1e-6, -1e-3, 0.1], np.float32)
    back = value_transforms.signed_parabolic(value_transforms.signed_hyperbolic(x))
    assert back.dtype == np.float32
    assert_allclose(back, x, rtol=5e-7)


def test_two_hot_is_rlaxs():
    case = REFERENCE["transform_to_2hot"]
    found = value_transforms.two_hot(np.array(case["x"]), -5.0, 5.0, 11)
    assert_allclose(found, case["out"], atol=2e-5)


@given(st.lists(st.floats(-5, 5), min_size=1, max_size=5))
def test_two_hot_has_its_number_as_mean(x):
    weights = value_transforms.two_hot(np.array(x), -5.0, 5.0, 21)
    assert_allclose(weights.sum(-1), 1, rtol=1e-12)
    assert (weights >= 0).all() and ((weights > 0).sum(-1) <= 2).all()
    assert_allclose(value_transforms.from_two_hot(weights, -5.0, 5.0), x, atol=1e-12)


def test_two_hot_cuts_what_is_out_of_range():
    assert_allclose(value_transforms.two_hot(np.array([-9.0, 9.0]), -1.0, 1.0, 3), [[1, 0, 0], [0, 0, 1]])


def test_projection_is_rlaxs():
    case = REFERENCE["categorical_l2_project"]
    found = value_transforms.project(np.array(case["z_p"]), np.array(case["probs"]), np.array(case["z_q"]))
    assert_allclose(found, case["out"], atol=2e-7)


def test_projection_onto_uneven_numbers_keeps_the_mean(rng):
    onto = np.array([-2.0, -1.5, 0.0, 3.0])
    support, weights = rng.uniform(-2, 3, (4, 6)), rng.dirichlet(np.ones(6), 4)
    found = value_transforms.project(support, weights, onto)
    assert_allclose(found.sum(-1), 1, rtol=1e-12)
    assert_allclose((found * onto).sum(-1), (support * weights).sum(-1), rtol=1e-12, atol=1e-12)


def test_derivatives(rng):
    x = np.array([-300.0, -0.2, 0.3, 2.0])
    core.check_grads(value_transforms.signed_hyperbolic, (x,))
    core.check_grads(value_transforms.signed_parabolic, (x[1:],))
    assert_allclose(core.grad(value_transforms.signed_hyperbolic)(0.0), 0.5 + 1e-3)  # (sqrt(a + 1) - 1)' = 1/2 at 0
    logits = rng.standard_normal((3, 5))
    core.check_grads(lambda z: value_transforms.from_two_hot(core.nn.softmax(z), -1.0, 1.0), (logits,))
    core.check_grads(
        lambda w: value_transforms.project(np.linspace(-2, 2, 5) * 0.9, w, np.array([-1.0, 0.0, 2.0])), (logits[0],)
    )


def test_compiled_and_batched(rng):
    x = rng.uniform(-3, 3, 8)
    f = lambda x: value_transforms.two_hot(value_transforms.signed_hyperbolic(x), -1.0, 1.0, 7)
    assert_allclose(core.jit(f)(x), f(x), atol=1e-14)
    assert_allclose(core.vmap(f)(x), f(x), atol=1e-14)


def test_bad_input():
    with pytest.raises(ValueError, match="two_hot: there must be at least 2 bins and low < high, got 1 bins"):
        value_transforms.two_hot(1.0, 0.0, 1.0, 1)
    with pytest.raises(ValueError, match="low < high"):
        value_transforms.from_two_hot(np.ones(3), 1.0, 1.0)
    with pytest.raises(ValueError, match="onto must be at least 2 rising numbers"):
        value_transforms.project(np.zeros(2), np.ones(2), np.array([1.0, 0.0]))
    with pytest.raises(ValueError, match="weights must have shape .*, got .* .the shape of support"):
        value_transforms.project(np.zeros(2), np.ones(3), np.array([0.0, 1.0]))
