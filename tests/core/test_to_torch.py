"""Functions of the core in PyTorch: values and gradients against PyTorch's own functions and finite differences."""

import numpy as np
import pytest

from triskele import core

torch = pytest.importorskip("torch")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
]  # inside of PyTorch
gradcheck, gradgradcheck = torch.autograd.gradcheck, torch.autograd.gradgradcheck


def layer(w, x):
    return np.tanh(x @ w)


@pytest.fixture
def inputs():
    torch.manual_seed(0)
    return (
        torch.randn(3, 2, dtype=torch.float64, requires_grad=True),
        torch.randn(4, 3, dtype=torch.float64, requires_grad=True),
    )


@pytest.mark.parametrize("f", [layer, core.jit(layer)])
def test_values_and_derivatives(f, inputs):
    w, x = inputs
    ours = core.to_torch(f)
    torch.testing.assert_close(ours(w, x), torch.tanh(x @ w))
    assert gradcheck(ours, inputs, check_forward_ad=True)
    assert gradgradcheck(ours, inputs)


@pytest.mark.parametrize(
    "f", [lambda z: z * z * np.exp(z), lambda z: np.sum(np.abs(z) ** 2), lambda z: np.conj(z) * np.real(z)]
)
def test_complex_gradients_follow_torch(f):
    z = torch.tensor([0.3 + 1j, -0.5 + 0.2j], requires_grad=True, dtype=torch.complex128)
    assert gradcheck(core.to_torch(f), (z,), check_forward_ad=True)
    assert gradgradcheck(core.to_torch(f), (z,))


def test_torch_func():
    ours = core.to_torch(lambda v: np.sum(np.sin(v) ** 3))
    v = torch.linspace(-1, 2, 12, dtype=torch.float64).reshape(3, 4)

    def theirs(v):
        return (torch.sin(v) ** 3).sum()

    for transform in (
        torch.func.grad,
        torch.func.hessian,
        lambda f: torch.func.jacrev(torch.func.jacrev(f)),
        torch.func.vmap,
        lambda f: torch.func.vmap(torch.func.grad(f)),
    ):
        torch.testing.assert_close(transform(ours)(v), transform(theirs)(v))


def test_trees_and_other_arguments():
    f = core.to_torch(lambda p, n, name="a": {"y": n * p[name], "k": np.argmax(p[name]), "z": [np.sum(p["b"])]})
    p = {"a": torch.ones(3, requires_grad=True), "b": torch.ones(2, requires_grad=True)}
    out = f(p, 3.0, name="a")
    (out["y"].sum() + out["z"][0]).backward()
    assert p["a"].grad.tolist() == [3, 3, 3]
    assert p["b"].grad.tolist() == [1, 1]
    assert not out["k"].requires_grad
    assert out["y"].dtype == torch.float32


def test_part_of_the_gradients_and_repeated_backward(inputs):
    w, x = inputs
    y = core.to_torch(layer)(w, x).sum()
    want = torch.autograd.grad(torch.tanh(x @ w).sum(), (w, x))
    for _ in range(2):
        torch.testing.assert_close(torch.autograd.grad(y, x, retain_graph=True)[0], want[1])
        torch.testing.assert_close(torch.autograd.grad(y, (w, x), retain_graph=True), want)


def test_module_trains():
    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.zeros(2, 1))

        def forward(self, x):
            return core.to_torch(core.jit(lambda w, x: x @ w))(self.w, x)

    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    module = Module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    for _ in range(60):
        optimizer.zero_grad()
        ((module(x) - torch.tensor([[1.0], [2.0]])) ** 2).mean().backward()
        optimizer.step()
    torch.testing.assert_close(module.w.detach(), torch.tensor([[1.0], [2.0]]), atol=1e-4, rtol=0)


@pytest.mark.parametrize(
    "x",
    [
        torch.ones(2, 3).T,
        torch.empty(0, 3),
        torch.tensor(3),
        torch.tensor([True]),
        torch.tensor(2.0, dtype=torch.float16),
        torch.tensor([1 + 2j]).conj(),
    ],
)
def test_any_layout_and_dtype(x):
    out = core.to_torch(lambda v: v)(x)
    assert torch.equal(out, x)
    assert out.dtype == x.dtype
    assert not x.numel() or out.data_ptr() != x.data_ptr()
    if not x.is_conj():
        np.testing.assert_array_equal(core.jit(lambda v: v)(x), x.numpy())


@pytest.mark.parametrize(
    "x, message",
    [
        (torch.ones(2, dtype=torch.bfloat16), "bfloat16"),
        (torch.ones(2, device="meta"), "CPU's memory"),
        (torch.ones(2, 2).to_sparse(), "to_dense"),
    ],
)
def test_refusals(x, message):
    for f in (core.to_torch(np.sum), core.jit(np.sum), core.grad(np.sum)):
        with pytest.raises(TypeError, match=message):
            f(x)


def test_gradients_are_not_lost_in_silence():
    x = torch.ones(2, requires_grad=True)
    for f in (core.jit(np.sum), core.grad(np.sum), core.vmap(np.sum), core.grad(lambda a: np.sum(a * x))):
        with pytest.raises(TypeError, match="core.to_torch"):
            f(np.ones(2) if f.__name__ == "grad(<lambda>)" else x)


def test_results_must_be_arrays():
    with pytest.raises(TypeError, match="to_torch of <lambda>: the function must return arrays"):
        core.to_torch(lambda x: "text")(torch.ones(1))


# Dynamo looks at `grad` of tensors that are not leaves, and its import is of deprecated modules
@pytest.mark.filterwarnings("ignore")
def test_torch_compile_leaves_the_function_out(inputs):
    ours = core.to_torch(layer)

    def loss(w, x):
        return (torch.sin(ours(2 * w, torch.relu(x))) ** 2).sum()

    compiled = torch.compile(loss, backend="eager")
    for scale in (1, 2):
        w, x = (scale * v for v in inputs)
        torch.testing.assert_close(compiled(w, x), loss(w, x))
        expected, found = (torch.autograd.grad(f(w, x), (w, x)) for f in (loss, compiled))
        torch.testing.assert_close(found, expected)
