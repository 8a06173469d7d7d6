"""What a call costs: functions so small that the work is nothing."""

import math

import numpy

from tests.benchmarks.case import Case


def wave(np):
    return lambda x: np.sin(x) * np.exp(-0.1 * x * x) + np.tanh(x) ** 2


def second(tool):
    return tool.grad(tool.grad(wave(tool.np)))


small = Case("call_overhead", lambda: (numpy.linspace(0, 1, 4),))
small.program("triskele", "jax", "torch", "autograd", "numpy")(lambda tool: lambda x: tool.np.tanh(x) * 2.0 + 1.0)

first_derivative = Case("scalar_gradient", lambda: (1.3,))
first_derivative.program("triskele", "jax", "autograd")(lambda tool: tool.grad(wave(tool.np)))

second_derivative = Case("scalar_second_derivative", lambda: (1.3,))
second_derivative.program("triskele", "jax", "autograd")(second)

eager = Case("scalar_gradient_eager", lambda: (1.3,))
eager.program("autograd")(lambda tool: tool.grad(wave(tool.np)))


@eager.by_hand("triskele")
def without_jit(x):
    from triskele import core

    slope = core.grad(wave(numpy))
    return lambda: slope(x)


@eager.by_hand("jax")
def jax_without_jit(x):
    import jax

    slope = jax.grad(wave(jax.numpy))
    return lambda: jax.block_until_ready(slope(x))


def torch_derivative(order):
    def build(x):
        import torch

        f, x = wave(torch), torch.tensor(x, dtype=torch.float64, requires_grad=True)

        def run():
            value = f(x)
            for left in reversed(range(order)):
                (value,) = torch.autograd.grad(value, x, create_graph=left > 0)
            return value

        return run

    return build


first_derivative.by_hand("torch")(torch_derivative(1))
eager.by_hand("torch")(torch_derivative(1))
second_derivative.by_hand("torch")(torch_derivative(2))


@small.by_hand("numba")
def small_loop(x):
    import numba

    @numba.njit
    def f(x):
        out = numpy.empty_like(x)
        for i in range(x.size):
            out[i] = math.tanh(x[i]) * 2.0 + 1.0
        return out

    return lambda: f(x)


@first_derivative.by_hand("numba")
def slope(x):
    import numba

    @numba.njit
    def f(x):
        t = math.tanh(x)
        return (math.cos(x) - 0.2 * x * math.sin(x)) * math.exp(-0.1 * x * x) + 2 * t * (1 - t * t)

    return lambda: f(x)
