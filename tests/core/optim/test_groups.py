"""Groups by path: each part is stepped as its own optimizer would step it alone, and empty rules are named."""

import numpy as np
import pytest

from triskele import core
from triskele.core import nn, optim, random
from triskele.core.errors import TreeError

NET = nn.MLP.init(random.key(0), [4, 8, 2])
RULES = [("layers[0].*", optim.Frozen()), (lambda path, leaf: leaf.ndim < 2, optim.Adam(1e-2))]
GROUPS = optim.Groups(RULES, default=optim.SGD(optim.cosine_decay(0.1, 10), momentum=0.9, l2=0.1))


def loss(net, x):
    return np.mean(net(x) ** 2)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_each_part_has_its_own_optimizer(compiled):
    x = np.random.default_rng(1).normal(size=(16, 4)).astype(np.float32)
    step = lambda net, state: GROUPS.step(net, core.grad(loss)(net, x), state)
    step = core.jit(step) if compiled else step
    net, state = NET, GROUPS.init(NET)
    bias, weight = NET.layers[1].bias, NET.layers[1].weight
    adam, sgd = RULES[1][1], GROUPS.default
    bias_state, weight_state = adam.init(bias), sgd.init(weight)
    for _ in range(4):
        grads = core.grad(loss)(net, x)
        net, state = step(net, state)
        bias, bias_state = adam.step(bias, grads.layers[1].bias, bias_state)
        weight, weight_state = sgd.step(weight, grads.layers[1].weight, weight_state)
        np.testing.assert_allclose(net.layers[1].bias, bias, rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(net.layers[1].weight, weight, rtol=1e-5, atol=1e-7)
    for name in ("weight", "bias"):
        assert np.array_equal(getattr(net.layers[0], name), getattr(NET.layers[0], name))
    assert not core.tree.leaves(state[0]) and list(state[1].first) == ["layers[1].bias"]


def test_a_frozen_part_costs_no_gradient():
    x = np.ones((16, 4), np.float32)
    frozen = optim.Groups([("layers[0].*", optim.Frozen())], default=optim.SGD(0.1))
    flops = [
        core.jit(lambda net, state, o=o: o.step(net, core.grad(loss)(net, x), state)).lower(NET, o.init(NET)).flops
        for o in (frozen, optim.SGD(0.1))
    ]
    assert flops[0] < 0.7 * flops[1]


def test_scaling_reaches_every_group():
    params = {"a": np.ones(2), "b": np.ones(2), "c": np.ones(2)}
    opt = optim.Groups([("a", optim.SGD(0.1)), ("b", optim.Frozen())], default=optim.SGD(optim.warmup(0, 0.2)))
    step = core.jit(lambda scale: optim.scaled(opt, scale).step(params, params, opt.init(params))[0])
    found = step(0.5)
    np.testing.assert_allclose([found["a"], found["b"], found["c"]], [[0.95] * 2, [1.0] * 2, [0.9] * 2])


def test_groups_nest_and_their_state_survives_a_file(tmp_path):
    inner = optim.Groups([("*.bias", optim.Lion())], default=optim.Adam())
    opt = optim.Groups([("layers[1].*", inner)], default=optim.SGD(0.1, momentum=0.9))
    net, state = opt.step(NET, NET, opt.init(NET))
    core.save(tmp_path / "state", state)
    back = core.load(tmp_path / "state", like=opt.init(NET))
    assert core.tree.structure(back) == core.tree.structure(state)
    assert all(np.array_equal(a, b) for a, b in zip(core.tree.leaves(back), core.tree.leaves(state), strict=True))


def test_a_star_is_the_only_wildcard():
    params = {"layers": [{"w": np.ones(1)}, {"w": np.ones(1)}], "head.w": np.ones(1)}
    opt = optim.Groups([("layers[1].w", optim.SGD(0.5)), ("head?w*", optim.SGD(0.5))], default=optim.SGD(0.0))
    with pytest.raises(ValueError, match=r"Groups: rule 1, 'head\?w\*', must match a parameter, got none"):
        opt.init(params)
    opt = optim.Groups([("layers[1].w", optim.SGD(0.5))], default=optim.SGD(0.0))
    found, _ = opt.step(params, params, opt.init(params))
    assert [p[0] for p in core.tree.leaves(found)] == [1.0, 1.0, 0.5]


@pytest.mark.parametrize(
    "rules, message",
    [
        (
            [("layers[0].wieght", optim.Frozen())],
            r"rule 0, 'layers\[0\].wieght', must match a parameter, got none \(did you mean 'layers\[0\].weight'",
        ),
        (
            [("*.bias", optim.Adam()), ("layers[0].bias", optim.SGD(0.1))],
            r"rule 1, 'layers\[0\].bias', must match a parameter, got only parameters of earlier rules",
        ),
        ([(lambda path, leaf: leaf.ndim > 5, optim.Frozen())], r"rule 0, <lambda>, must match a parameter, got none"),
    ],
)
def test_rules_without_parameters_are_named(rules, message):
    with pytest.raises(ValueError, match=f"Groups: {message}"):
        optim.Groups(rules, default=optim.Adam()).init(NET)


def test_mistakes_are_named():
    with pytest.raises(TypeError, match="every rule must be a pair"):
        optim.Groups([optim.Adam()], default=optim.Adam())
    with pytest.raises(TypeError, match="an optimizer must be an object with methods init and step, got 0.1"):
        optim.Groups([("*", 0.1)], default=optim.Adam())
    with pytest.raises(TreeError, match="parameters and gradients must have one structure"):
        GROUPS.step(NET, {"layers": []}, GROUPS.init(NET))
    with pytest.raises(TreeError, match="the state must have an entry for each of 2 rules and the default, got 2"):
        GROUPS.step(NET, NET, GROUPS.init(NET)[:2])
    with pytest.raises(TypeError, match="scaled: the optimizer must be a dataclass with a learning_rate .* got LBFGS"):
        optim.scaled(optim.LBFGS(), 0.5)
    same_path = {"a.b": np.ones(1), "a": {"b": np.ones(1)}}
    with pytest.raises(ValueError, match="every parameter must have a path of its own"):
        optim.Groups([("a.b", optim.Frozen())], default=optim.Adam()).init(same_path)
