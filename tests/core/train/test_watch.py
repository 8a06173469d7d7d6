"""Watchpoints on networks that are made to go wrong."""

import warnings

import numpy as np
import pytest

from triskele.core import nn, optim, train
from triskele.core.train import TrainingWarning

X, Y = np.random.default_rng(0).normal(size=(16, 2)), np.ones((16, 1))


def findings(net, optimizer=None, *, x=X, y=Y, epochs=1, loss=nn.mean_squared_error, **options):
    watch = train.Watch(**options)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = train.Model(net, loss, optimizer or optim.SGD(1e-3))
        history = model.fit([(x, y)], epochs, callbacks=[watch])
    told = [str(w.message) for w in caught if w.category is TrainingWarning]
    assert told == [f"Watch: {f}" for f in watch.findings]
    return {(f.kind, f.path): f for f in watch.findings}, history


def deep(scale, layers=4):
    return nn.Sequential([nn.Linear(np.eye(2) * scale) for _ in range(layers)] + [nn.Linear(np.ones((2, 1)))])


def test_nothing_is_found_in_a_healthy_network():
    first = nn.Linear(np.array([[1.0, -1.0], [0.5, 2.0]]), np.zeros(2))
    net = nn.Sequential([first, nn.relu, nn.Linear(np.ones((2, 1)))])
    found, history = findings(net, epochs=4, stop=True)
    assert not found and len(history) == 4


def test_dead_units_are_counted():
    first = nn.Linear(np.ones((2, 4)), np.array([0.0, -99, -99, -99]))
    net = nn.Sequential([first, nn.relu, nn.Linear(np.ones((4, 1)))])
    found, history = findings(net, epochs=3, stop=["dead"])
    assert found["dead", "relu of layers[0].bias"].value == 0.75
    assert "3 of 4 units" in found["dead", "relu of layers[0].bias"].hint
    assert len(history) == 1 and history.stopped.startswith("Watch: dead: relu of layers[0].bias, 0.75 in epoch 1")
    assert not findings(net, dead=0.8)[0]


def test_weights_that_never_change():
    net = nn.Sequential([nn.Linear(np.eye(2)), lambda x: x * (1 + 0 * x), nn.Linear(np.ones((2, 1)))])
    found, _ = findings(net, optim.Groups([("layers[0].*", optim.SGD(0.0))], default=optim.SGD(0.01)), epochs=4)
    assert list(found) == [("frozen", "layers[0].weight")]
    assert (found["frozen", "layers[0].weight"].epoch, found["frozen", "layers[0].weight"].value) == (3, 2)
    assert not findings(net, optim.Groups([("layers[0].*", optim.Frozen())], default=optim.SGD(0.01)), epochs=4)[0]


def test_exploding_and_vanishing_gradients():
    found, _ = findings(deep(1e3), optim.SGD(1e-30))
    ((kind, path),) = [key for key in found if key[0] == "exploding"]
    assert path == "layers[4].weight"  # its input has passed all large layers, its cotangent none
    assert found[kind, path].value > 1e20 and "clip" in found[kind, path].hint
    net = nn.Sequential([nn.Linear(np.eye(2)), nn.Linear(1e-8 * np.eye(2)), nn.Linear(np.ones((2, 1)))])
    found, _ = findings(net, optim.SGD(1e-12))
    assert [path for kind, path in found if kind == "vanishing"] == ["layers[0].weight", "layers[2].weight"]
    value = found["vanishing", "layers[0].weight"].value  # of the linear network: x^T (prediction - target) w2^T w1^T
    slopes = 2 * np.mean(X * (1e-8 * X.sum(1, keepdims=True) - 1), axis=0)
    assert value == pytest.approx(1e-8 * np.sqrt(np.mean(slopes**2)), rel=1e-3)


def test_nan_names_the_operation_and_overflow_the_array():
    net = nn.Sequential([nn.Linear(np.eye(2)), np.sqrt, nn.Linear(np.ones((2, 1)))])
    found, history = findings(net, optim.SGD(0.0), x=-np.abs(X), epochs=2, stop=["nan"])
    assert len(history) == 1 and {kind for kind, _ in found} == {"nan"}
    assert any("StopOnNaN" in f.hint for f in found.values())
    found, _ = findings(net, optim.Frozen(), x=-np.abs(X))
    assert "sqrt" in found["nan", "layers[0].weight"].hint and "test_watch.py" in found["nan", "layers[0].weight"].hint
    big = nn.Sequential([nn.Linear(np.full((2, 1), 8e37, np.float32))])
    found, _ = findings(big, optim.SGD(0.0), x=np.zeros((4, 2), np.float32), y=np.zeros((4, 1), np.float32))
    assert found["overflow", "layers[0].weight"].value == np.float32(8e37)
    one = nn.Linear(np.full((2, 1), 8.0, np.float32))
    found, _ = findings(
        one,
        optim.SGD(0.0),
        x=np.full((4, 2), 1e37, np.float32),
        y=np.zeros((4, 1), np.float32),
        loss=lambda p, t: np.mean(p * np.float32(1e-36) + t),
    )
    assert found["overflow", "product of weight"].value == pytest.approx(1.6e38)


def test_findings_are_on_the_page(tmp_path):
    net = nn.Sequential([nn.Linear(np.ones((2, 4)), np.full(4, -99.0)), nn.relu, nn.Linear(np.ones((4, 1)))])
    page = tmp_path / "run.html"
    with pytest.warns(TrainingWarning, match="dead"):
        train.Model(net, nn.mean_squared_error, optim.SGD(1e-3)).fit(
            [(X, Y)], 1, callbacks=[train.Watch(), train.Report(page, profile=False)]
        )
    assert "relu of layers[0].bias" in page.read_text() and "Findings" in page.read_text()


def test_bad_options():
    with pytest.raises(ValueError, match=r"Watch: stop must have kinds of nan, .*, got 'deda' \(did you mean"):
        train.Watch(stop=["deda"])
    with pytest.raises(TypeError, match="a list of kinds, got the string 'dead'"):
        train.Watch(stop="dead")
    with pytest.raises(ValueError, match="Watch: exploding"):
        train.Watch(exploding=0)
