"""PyTorch's functions and modules in the core: values and derivatives against NumPy, the core and PyTorch."""

import numpy as np
import pytest

from triskele import core
from triskele.core import optim

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]  # inside of PyTorch
RNG = np.random.default_rng(0)
W, X = RNG.normal(size=(3, 2)), RNG.normal(size=(4, 3))


def theirs(w, x):
    return torch.tanh(x @ w) * w.sum() ** 2


def ours(w, x):
    return np.tanh(x @ w) * np.sum(w) ** 2


@pytest.mark.parametrize(
    "transform",
    [
        lambda f: f,
        lambda f: core.grad(lambda w, x: np.sum(f(w, x) ** 3), (0, 1)),
        lambda f: core.jit(core.value_and_grad(lambda w, x: np.sum(np.sin(f(2 * w, x))))),
        lambda f: core.jacrev(f),
        lambda f: core.jacfwd(f, 1),
        lambda f: core.hessian(lambda w, x: np.sum(f(w, x) ** 2)),
        lambda f: core.jit(core.vmap(core.grad(lambda w, x: np.sum(f(w, x))), in_axes=(None, 1), out_axes=1)),
        lambda f: core.grad(
            lambda w, x: np.sum(core.grad(lambda w: np.sum(core.hessian(lambda w: np.sum(f(w, x)))(w)))(w))
        ),
    ],
    ids=["value", "grad", "jit", "jacrev", "jacfwd", "hessian", "vmap", "fourth"],
)
def test_transforms(transform):
    x = X[:, :, None] if "vmap" in transform.__code__.co_names else X
    expected, found = (
        transform(f)(W, np.moveaxis(x, -1, 1) if x.ndim == 3 else x) for f in (ours, core.from_torch(theirs))
    )
    for a, b in zip(core.tree.leaves(expected), core.tree.leaves(found), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-10, atol=1e-12)


def test_complex_derivatives_are_those_of_the_core():
    z = RNG.normal(size=3) + 1j * RNG.normal(size=3)
    pairs = [
        (lambda z: torch.exp(z) * z.conj(), lambda z: np.exp(z) * np.conj(z)),
        (lambda z: z.abs() ** 2 + z.real, lambda z: np.abs(z) ** 2 + np.real(z)),
    ]
    for f, g in pairs:
        loss = lambda h: lambda z: np.sum(np.abs(h(z)) ** 2) + np.sum(np.imag(h(z)))
        np.testing.assert_allclose(core.grad(loss(core.from_torch(f)))(z), core.grad(loss(g))(z), rtol=1e-12)
        core.check_grads(core.from_torch(f), (z,), order=2)


def test_trees_options_and_integers():
    def f(data, *, power=1, kind="sum"):
        rows = data["x"][data["rows"]]
        assert kind == "sum"
        return {"value": rows.sum() ** power, "count": len(rows), "parts": (rows, data["x"] * 0)}

    ours = core.from_torch(f)
    data = {"x": np.arange(4.0), "rows": np.array([1, 3, 3])}
    out = ours(data, power=2, kind="sum")
    assert out["value"] == 49 and out["count"] == 3 and out["parts"][0].tolist() == [1, 3, 3]
    loss = lambda x: ours({**data, "x": x}, power=2)["value"]
    assert core.jit(core.grad(loss))(data["x"]).tolist() == [0, 14, 0, 28]
    same = core.from_torch(lambda x: x)(data["x"])
    same[0] = 9
    assert data["x"][0] == 0


def test_functions_that_look_at_values_and_those_of_equal_names():
    up, down = core.from_torch(lambda x: x * 2 if x.sum() > 0 else -x), core.from_torch(lambda x: x - 3)
    both = core.jit(lambda x: up(x) + down(x))
    np.testing.assert_allclose(both(np.ones(2)), 0)
    np.testing.assert_allclose(both(-np.ones(2)), -3)


def test_module_trains_with_optimizers_of_the_core():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1)).double()
    net = core.from_torch(module)
    assert list(net.params) == ["0.weight", "0.bias", "2.weight", "2.bias"]
    x = RNG.normal(size=(32, 2))
    y = x[:, :1] * x[:, 1:]
    loss = lambda params, x, y: np.mean((net(params, x) - y) ** 2)
    grads = core.grad(loss)(net.params, x, y)
    torch.mean((module(torch.tensor(x)) - torch.tensor(y)) ** 2).backward()
    for name, p in module.named_parameters():
        np.testing.assert_allclose(grads[name], p.grad, rtol=1e-10)
    before = module[0].weight.detach().clone()
    found = optim.LBFGS(max_steps=30).minimize(loss, net.params, x, y)
    assert found.value < 0.1 * loss(net.params, x, y)
    torch.testing.assert_close(module[0].weight.detach(), before)


def test_there_and_back():
    f = core.from_torch(core.to_torch(lambda x: np.sum(np.sin(x) ** 2)))
    core.check_grads(f, (RNG.normal(size=4),), order=2)


def test_errors_name_the_function():
    with pytest.raises(TypeError, match="from_torch of f: expected an array of numbers that NumPy has a type for"):

        def f(x):
            return x.bfloat16()

        core.from_torch(f)(np.ones(2))
    with pytest.raises(TypeError, match="from_torch: f must be a function"):
        core.from_torch(3)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad])
def test_derivatives_do_not_depend_on_modes_of_pytorch(mode):
    x = np.linspace(0.1, 0.9, 3)
    f = core.from_torch(lambda x: torch.sin(x).sum())
    with mode():
        found = core.grad(f)(x), core.jit(core.grad(f))(x), core.hessian(f)(x), core.jacfwd(f)(x)
    for y, expected in zip(found, (np.cos(x), np.cos(x), np.diag(-np.sin(x)), np.cos(x)), strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-14, atol=1e-15)
    module = torch.nn.Linear(3, 1, dtype=torch.float64)
    net = core.from_torch(module)
    with mode():
        found = core.grad(lambda p: np.sum(net(p, x) ** 2))(net.params)
    (module(torch.tensor(x)) ** 2).sum().backward()
    np.testing.assert_allclose(found["weight"], module.weight.grad, rtol=1e-14)
