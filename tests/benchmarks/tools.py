"""The tools compared. Those that follow NumPy's names share one source per case through the attributes below.

np             the array namespace
grad, value_and_grad, hessian    transforms of a function of its first argument
scan           scan(f, carry, xs) -> (carry, ys), as jax.lax.scan
special        the namespace with erf
prepare        makes `run()` from `function(tool)` and the data: conversion and compilation set up, nothing computed
"""

import importlib.util
from types import SimpleNamespace

import numpy


class Triskele:
    modules = ("triskele.core",)

    def prepare(self, function, data):
        import scipy.special
        from triskele import core

        self.np, self.special = numpy, scipy.special
        self.grad, self.value_and_grad, self.hessian, self.scan = core.grad, core.value_and_grad, core.hessian, core.scan
        compiled = core.jit(function(self))
        return lambda: compiled(*data)


class Jax:
    modules = ("jax", "jaxlib")

    def prepare(self, function, data):
        import jax

        self.np, self.special = jax.numpy, jax.scipy.special
        self.grad, self.value_and_grad, self.hessian, self.scan = jax.grad, jax.value_and_grad, jax.hessian, jax.lax.scan
        compiled = jax.jit(function(self))
        data = jax.tree.map(jax.numpy.asarray, data)
        return lambda: jax.block_until_ready(compiled(*data))


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
        outputs = []
        for x in xs:
            carry, y = f(carry, x)
            outputs.append(y)
        return carry, outputs if outputs[0] is None else self.np.stack(outputs)


class NumPy:
    modules = ("numpy",)

    def prepare(self, function, data):
        import scipy.special

        self.np, self.special = numpy, scipy.special
        plain = function(self)
        return lambda: plain(*data)


TOOLS = {
    "triskele": Triskele(),
    "jax": Jax(),
    "torch": SimpleNamespace(modules=("torch",)),
    "autograd": Autograd(),
    "numpy": NumPy(),
    "numba": SimpleNamespace(modules=("numba",)),
}


def available(name):
    """Whether all modules of a tool can be found; nothing heavy is imported."""
    try:
        return all(importlib.util.find_spec(m) is not None for m in TOOLS[name].modules)
    except ModuleNotFoundError:
        return False


def torch_backward(loss, parameters):
    """The loss and the gradient of every parameter, as torch users compute it: (value, [gradients])."""
    import torch

    value = loss()
    return value.detach(), torch.autograd.grad(value, parameters)


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


