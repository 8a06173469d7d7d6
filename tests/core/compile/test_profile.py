"""Times of operations: which operations there are, where they come from, and that the times add up."""

import inspect

import numpy as np
import pytest

from triskele import core
from triskele.core import nn, optim, random, train


def times(f, *args):
    return core.profile(f, *args, seconds=0.005)


def line_of(f, text):
    lines, start = inspect.getsourcelines(f)
    return start + next(k for k, line in enumerate(lines) if text in line)


def two_steps(w, x):
    y = np.tanh(x @ w)
    z = np.linalg.eigvals(y[:20]).real
    return np.exp(z)


def test_operations_have_lines_and_counts_and_add_up():
    found = times(two_steps, np.ones((30, 20)), np.ones((40, 30)))
    assert {o.name.split(",")[0] for o in found.operations} >= {"product", "tanh", "exp"}
    assert all(o.calls == 1 and o.seconds >= 0 for o in found.operations)
    where = {o.name.split(",")[0]: int(o.place.split(":")[1]) for o in found.operations}
    assert (where["tanh"], where["exp"]) == (line_of(two_steps, "tanh"), line_of(two_steps, "np.exp"))
    assert sum(o.seconds for o in found.operations) + found.overhead == pytest.approx(found.seconds)
    assert sum(found.lines().values()) == pytest.approx(found.seconds - found.overhead)
    assert "tanh" in str(found) and "overhead" in str(found)
    frame = found.to_dataframe()
    assert frame["seconds"].sum() == pytest.approx(found.seconds) and frame["name"].iloc[-1] == "overhead"


def test_bodies_of_loops_and_branches_count_their_rounds():
    def powers(x, n):
        x = core.fori_loop(0, 7, lambda k, y: np.tanh(y @ x), x)
        x = core.while_loop(lambda y: y.sum() < n, lambda y: y + 1.0, x)
        return core.cond(x[0, 0] > 0, np.exp, np.sqrt, x)

    found = times(powers, np.full((16, 16), 0.01), 16 * 16 * 5.0)
    calls = {o.name: o.calls for o in found.operations}
    assert calls["product"] == calls["tanh"] == 7
    assert calls["add"] in (5, 12)  # of the loop on numbers, which also counts its rounds
    assert (calls["exp"], calls["sqrt"]) == (1, 0)
    assert {o.name for o in found.operations if o.kind == "control"} == {"scan", "while", "cond"}


def test_layers_and_derivatives_name_the_lines_of_the_forward_pass():
    net = nn.Sequential(
        [
            nn.Conv2d(random.key(0), 1, 4, 3),
            nn.relu,
            lambda x: x.reshape(len(x), -1),
            nn.Linear.init(random.key(1), 256, 10),
        ]
    )
    model = train.Model(net, nn.cross_entropy, optim.Adam(1e-3))
    batch = np.ones((16, 8, 8, 1), np.float32), np.arange(16) % 10
    found = times(model.compiled, model.state, model.totals()[0], batch)
    places = {o.name: o.place.split(":")[0] for o in found.operations}
    assert places["conv_kernel"] == "nn/convolution.py"
    assert any(p.startswith("optim/adam.py") for p in places.values())


def test_python_is_marked_and_results_do_not_change():
    x = np.random.default_rng(0).normal(size=(50, 3))
    f = core.jit(lambda x: np.linalg.eigvals(x.T @ x).real)
    before = f(x)
    found = times(f, x)
    np.testing.assert_array_equal(f(x), before)
    assert any(o.kind == "python" for o in found.operations) and "(Python)" in str(found)


def test_static_arguments_keywords_and_bad_input():
    @core.jit(static_argnames="kind")
    def f(x, *, scale, kind):
        return scale * (np.sin(x) if kind == "sin" else np.cos(x))

    found = core.profile(f, np.ones(100), scale=2.0, kind="cos", seconds=0.001)
    assert "cos" in found.operations[0].name
    with pytest.raises(TypeError, match="core.profile: expected a function, got float"):
        core.profile(1.0)
    with pytest.raises(ValueError, match="core.profile: seconds"):
        core.profile(np.sin, 1.0, seconds=0)
