"""The tools compared. Those that follow NumPy's names share one source per case through the attributes below.

np             the array namespace
grad, value_and_grad, hessian    transforms of a function of its first argument
scan           scan(f, carry, xs) -> (carry, ys), as jax.lax.scan
special        the namespace with erf
prepare        makes `run()` from `function(tool)` and the data: conversion and compilation set up, nothing computed
"""

from types import SimpleNamespace

import numpy


class Triskele:
    modules = ("triskele.core",)
    lazy = ("llvmlite.binding", "scipy.linalg")  # loaded by the first compilation: its time, but not its working memory

    def prepare(self, function, data):
        import scipy.special

        from triskele import core

        self.np, self.special = numpy, scipy.special
        self.grad, self.value_and_grad, self.hessian, self.scan = (
            core.grad,
            core.value_and_grad,
            core.hessian,
            core.scan,
        )
        self.jacfwd = core.jacfwd
        compiled = core.jit(function(self))
        return lambda: compiled(*data)


class Jax:
    modules = ("jax", "jaxlib")

    def prepare(self, function, data):
        import jax

        self.np, self.special = jax.numpy, jax.scipy.special
        self.grad, self.value_and_grad, self.hessian, self.scan = (
            jax.grad,
            jax.value_and_grad,
            jax.hessian,
            jax.lax.scan,
        )
        self.jacfwd = jax.jacfwd
        compiled = jax.jit(function(self))
        data = jax.tree.map(jax.numpy.asarray, data)
        return lambda: jax.block_until_ready(compiled(*data))


class Torch:
    """PyTorch, eager, for programs whose functions it has under NumPy's names."""

    modules = ("torch",)

    def prepare(self, function, data):
        import torch

        def pad(x, widths):
            return torch.nn.functional.pad(x, [w for pair in reversed(widths) for w in pair])

        def clamp(name):
            exact = getattr(torch, name)
            side = "max" if name == "minimum" else "min"
            return lambda a, b: (
                exact(a, b)
                if torch.is_tensor(a) and torch.is_tensor(b)
                else (torch.clamp(b, **{side: a}) if torch.is_tensor(b) else torch.clamp(a, **{side: b}))
            )

        differing = {"pad": pad, "max": torch.amax, "minimum": clamp("minimum"), "maximum": clamp("maximum")}
        self.np = SimpleNamespace(**{**vars(torch), **differing})
        self.special, self.torch = torch.special, torch
        run = function(self)
        data = tree_map(torch.from_numpy, data)
        return lambda: run(*data)

    def value_and_grad(self, f):
        def both(x, *rest):
            x = tree_map(lambda a: a.detach().requires_grad_(), x)
            flat = []
            tree_map(flat.append, x)
            value = f(x, *rest)
            gradients = iter(self.torch.autograd.grad(value, flat))
            return value.detach(), tree_map(lambda _: next(gradients), x)

        return both

    def grad(self, f):
        both = self.value_and_grad(f)
        return lambda *args: both(*args)[1]

    def hessian(self, f):
        return self.torch.func.hessian(f)

    def scan(self, f, carry, xs):
        return unrolled(f, carry, xs, self.np.stack)


class Autograd:
    modules = ("autograd",)

    def prepare(self, function, data):
        import autograd
        import autograd.numpy
        import autograd.scipy.special

        self.np, self.special = autograd.numpy, autograd.scipy.special
        self.grad, self.value_and_grad, self.hessian = autograd.grad, autograd.value_and_grad, autograd.hessian
        eager = function(self)
        return lambda: eager(*data)

    def scan(self, f, carry, xs):
        return unrolled(f, carry, xs, self.np.stack)


class NumPy:
    modules = ("numpy",)

    def prepare(self, function, data):
        import scipy.special

        self.np, self.special = numpy, scipy.special
        plain = function(self)
        return lambda: plain(*data)

    def scan(self, f, carry, xs):
        return unrolled(f, carry, xs, numpy.stack)


TOOLS = {
    "triskele": Triskele(),
    "jax": Jax(),
    "torch": Torch(),
    "autograd": Autograd(),
    "numpy": NumPy(),
    "numba": SimpleNamespace(modules=("numba",)),
}


def unrolled(f, carry, xs, stack):
    """The scan of tools that run step by step."""
    outputs = []
    for x in zip(*xs) if isinstance(xs, tuple) else xs:
        carry, y = f(carry, x)
        outputs.append(y)
    if outputs[0] is None:
        return carry, None
    if isinstance(outputs[0], tuple):
        return carry, tuple(stack(column) for column in zip(*outputs))
    return carry, stack(outputs)


def tree_map(f, tree):
    """f at every array of nested dicts, lists and tuples; Python numbers stay what they are."""
    if isinstance(tree, dict):
        return {key: tree_map(f, tree[key]) for key in sorted(tree)}
    if isinstance(tree, (list, tuple)):
        return type(tree)([tree_map(f, item) for item in tree])
    return f(tree) if hasattr(tree, "shape") and tree.shape != () or hasattr(tree, "detach") else tree


def leaves(tree):
    """Every array of nested dicts (by sorted key), lists and tuples, as NumPy arrays on the host."""
    if isinstance(tree, dict):
        return [leaf for key in sorted(tree) for leaf in leaves(tree[key])]
    if isinstance(tree, (list, tuple)):
        return [leaf for item in tree for leaf in leaves(item)]
    if tree is None:
        return []
    if hasattr(tree, "detach"):
        tree = tree.detach().numpy()
    return [numpy.asarray(tree)]
