"""Circuits as layers of networks."""

import dataclasses

import numpy as np
import pytest

from triskele import core, quantum
from triskele.core import nn, optim, random
from triskele.quantum.errors import ParameterError


def circuit(n):
    """Angles from data, then trainable rotations around a ring of entanglers."""
    encoder = quantum.Circuit(n)
    for q in range(n):
        encoder.ry(f"x{q}", q)
    ansatz = quantum.Circuit(n)
    for layer in range(2):
        for q in range(n):
            ansatz.ry(f"y{layer}_{q}", q).rz(f"z{layer}_{q}", q)
        for q in range(n):
            ansatz.cx(q, (q + 1) % n)
    return encoder.as_encoder() + ansatz


@dataclasses.dataclass(frozen=True)
class Hybrid:
    first: nn.Linear
    middle: quantum.nn.Layer
    last: nn.Linear

    def __call__(self, x):
        return self.last(self.middle(np.tanh(self.first(x))))


def network():
    a, b, c = random.split(random.key(0), 3)
    z = [quantum.PauliSum(f"Z{q}") for q in range(3)]
    return Hybrid(
        nn.Linear.init(a, 2, 3, dtype=np.float64),
        quantum.nn.Layer.init(b, circuit(3), z),
        nn.Linear.init(c, 3, 1, dtype=np.float64),
    )


def test_shapes_and_values():
    layer = quantum.nn.Layer.init(random.key(1), circuit(2), [quantum.PauliSum("Z0"), quantum.PauliSum("X0 X1")])
    x = np.random.default_rng(0).normal(size=(3, 4, 2))
    out = layer(x)
    assert out.shape == (3, 4, 2) and out.dtype == np.float64
    np.testing.assert_allclose(out[1, 2], layer(x[1, 2]), atol=1e-15)
    np.testing.assert_allclose(out[1], layer.energy(layer.theta, x[1]), atol=1e-15)
    assert quantum.nn.Layer.init(random.key(1), circuit(2), quantum.PauliSum("Z0"))(x).shape == (3, 4, 1)


def test_gradients_through_the_whole_network():
    x = np.random.default_rng(0).normal(size=(4, 2))
    core.check_grads(lambda net: np.sum(net(x) ** 2), (network(),), order=1)
    core.check_grads(lambda x: network()(x), (x,), order=1)


def test_training_end_to_end():
    """A network with a circuit in the middle learns the sign of a product, which no linear model can."""
    points = np.random.default_rng(1).uniform(-1, 1, size=(64, 2))
    labels = np.sign(points[:, :1] * points[:, 1:])

    def loss(net):
        return np.mean((net(points) - labels) ** 2)

    net, rule, step = network(), optim.Adam(0.08), core.jit(core.value_and_grad(loss))
    state = rule.init(net)
    for _ in range(120):
        value, slopes = step(net)
        net, state = rule.step(net, slopes, state)
    assert value < 0.25
    assert np.mean(np.sign(net(points)) == labels) > 0.95
    assert all(leaf.dtype == np.float64 for leaf in core.tree.leaves(net))


def test_errors():
    with pytest.raises(ParameterError, match="must have data parameters"):
        quantum.nn.Layer.init(random.key(0), quantum.Circuit(1).rx("a", 0), quantum.PauliSum("Z0"))
    layer = quantum.nn.Layer.init(random.key(0), circuit(2), quantum.PauliSum("Z0"))
    with pytest.raises(ParameterError, match=r"shape \(..., 2\)"):
        layer(np.zeros((5, 3)))


def test_angles_of_another_circuit_are_not_loaded(tmp_path):
    encoder = quantum.Circuit(2).ry("x", 0).as_encoder()
    circuits = [encoder + quantum.Circuit(2).ry(a, 0).rx(b, 1) for a, b in ("ab", "ab", "ba")]
    layers = [quantum.nn.Layer.init(core.random.key(0), circuit, quantum.PauliSum("Z0")) for circuit in circuits]
    core.save(tmp_path / "layer", layers[0])
    np.testing.assert_array_equal(core.load(tmp_path / "layer", like=layers[1]).theta, layers[0].theta)
    with pytest.raises(core.errors.TreeError, match=r"parameters \['a', 'b'\], that of `like` \['b', 'a'\]"):
        core.load(tmp_path / "layer", like=layers[2])
