"""ADBench's problems: our derivatives, eager and compiled, against hand-derived ones computed in C++."""

import numpy as np
import pytest

from tests.twins import adbench
from tests.twins.adbench import golden
from triskele import core

TOLERANCE = 1e-8  # ADBench's own


@pytest.fixture(params=["eager", "jit"])
def run(request):
    """The transformed function as it is, or compiled."""
    return core.jit if request.param == "jit" else lambda f: f


def assert_near(found, expected):
    found = np.concatenate([np.ravel(part) for part in found])
    assert found.shape == expected.shape
    np.testing.assert_array_less(np.abs(found - expected) / np.maximum(1, np.abs(expected)), TOLERANCE)


@pytest.mark.parametrize("name", ["test", "d2_K5", "d10_K25"])
def test_gmm_gradient(run, name):
    alphas, means, icf, points, prior = adbench.read_gmm(name if name == "test" else f"gmm_{name}")

    def posterior(parameters):
        return adbench.gmm(*parameters, points, prior)

    value, gradient = run(core.value_and_grad(posterior))((alphas, means, icf))
    assert_near([value], golden(f"gmm_{name}_F"))
    assert_near(gradient, golden(f"gmm_{name}_J"))


def test_ba_sparse_jacobian(run):
    cameras, points, weights, features = adbench.read_ba("test")

    def rows(cameras, points, weights):
        """Both rows of every observation's block: an error depends on its own camera, point and weight only."""
        errors, pullback = core.vjp(lambda *args: adbench.ba(*args, features), cameras, points, weights)
        ones, zeros = np.ones_like(weights), np.zeros_like(weights)
        return errors, pullback((ones, zeros)), pullback((zeros, ones))

    errors, first, second = run(rows)(cameras, points, weights)
    assert_near([np.stack(errors, axis=1), 1 - weights**2], golden("ba_test_F"))
    blocks = [np.concatenate([camera, point, weight[:, None]], axis=1) for camera, point, weight in (first, second)]
    assert_near([np.stack(blocks, axis=1), -2 * weights], golden("ba_test_J"))


def test_lstm_gradient(run):
    main, extra, state, sequence = adbench.read_lstm("lstm_l2_c1024")

    def loss(parameters):
        return adbench.lstm(*parameters, state, sequence, core.scan)

    value, gradient = run(core.value_and_grad(loss))((main, extra))
    assert_near([value], golden("lstm_l2_c1024_F"))
    assert_near(gradient, golden("lstm_l2_c1024_J"))


@pytest.mark.parametrize("mode", ["jacfwd", "jacrev"])
def test_hand_jacobian(run, mode):
    theta, _, model = adbench.read_hand("simple1")

    def errors(theta):
        return np.ravel(adbench.hand(theta, None, *model).T)

    assert_near([run(errors)(theta)], golden("hand_simple1_F"))
    jacobian = run(getattr(core, mode)(errors))(theta)
    assert_near([jacobian.T], golden("hand_simple1_J"))


def test_complicated_hand_jacobian(run):
    theta, us, model = adbench.read_hand("complicated1", complicated=True)

    def errors(shift_and_theta):
        """One shift moves the barycentric coordinates of all points: the sparse columns come as two dense ones."""
        return np.ravel(adbench.hand(shift_and_theta[2:], us + shift_and_theta[:2], *model).T)

    at = np.concatenate([np.zeros(2), theta])
    assert_near([run(errors)(at)], golden("hand_complicated1_F"))
    assert_near([run(core.jacfwd(errors))(at).T], golden("hand_complicated1_J"))


def test_plain_numpy_objectives_equal_the_golden_ones():
    """The twins themselves, without any derivative: a failure here is not the core's."""

    def scan(step, carry, xs):
        gains = []
        for x in zip(*xs):
            carry, gain = step(carry, x)
            gains.append(gain)
        return carry, np.array(gains)

    assert_near([adbench.gmm(*adbench.read_gmm("gmm_d10_K25"))], golden("gmm_d10_K25_F"))
    assert_near([adbench.lstm(*adbench.read_lstm("lstm_l2_c1024"), scan)], golden("lstm_l2_c1024_F"))
    for name, kept in (("test", 10), ("ba1_n49_m7776_p31843", 32)):
        errors = np.stack(adbench.ba(*adbench.read_ba(name)), axis=1)
        assert_near([errors[:kept]], golden(f"ba_{name}_F")[: 2 * kept])
    for name in ("simple1", "complicated1"):
        theta, us, model = adbench.read_hand(name, complicated=name == "complicated1")
        assert_near([adbench.hand(theta, us, *model).T], golden(f"hand_{name}_F"))
