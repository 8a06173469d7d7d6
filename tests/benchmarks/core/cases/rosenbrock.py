"""Rosenbrock's function: gradient in 1,000 and dense Hessian in 100 dimensions."""

import numpy

from tests.benchmarks.case import Case


def data(n):
    return (numpy.linspace(-1.0, 1.5, n),)


def function(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


gradient = Case("rosenbrock_gradient", lambda: data(1000), flops=12e3, bytes=16e3)
gradient.program("triskele", "jax", "torch", "autograd")(lambda tool: tool.grad(function))

hessian = Case("rosenbrock_hessian", lambda: data(100), flops=1e4, bytes=8e4)
hessian.program("triskele", "jax", "torch", "autograd")(lambda tool: tool.hessian(function))


@gradient.program("numpy")
def by_hand(tool):
    def slope(x):
        steep = 200 * (x[1:] - x[:-1] ** 2)
        g = numpy.zeros_like(x)
        g[1:] = steep
        g[:-1] -= 2 * steep * x[:-1] + 2 * (1 - x[:-1])
        return g

    return slope


@gradient.by_hand("numba")
def gradient_loop(x):
    import numba

    @numba.njit
    def slope(x):
        g = numpy.empty_like(x)
        g[0] = 0.0
        for i in range(x.size - 1):
            steep = 200 * (x[i + 1] - x[i] ** 2)
            g[i] -= 2 * steep * x[i] + 2 * (1 - x[i])
            g[i + 1] = steep
        return g

    return lambda: slope(x)


@hessian.by_hand("numba")
def hessian_loop(x):
    import numba

    @numba.njit
    def curvature(x):
        n = x.size
        h = numpy.zeros((n, n))
        for i in range(n - 1):
            h[i, i] += 1200 * x[i] ** 2 - 400 * x[i + 1] + 2
            h[i + 1, i + 1] += 200
            h[i, i + 1] = h[i + 1, i] = -400 * x[i]
        return h

    return lambda: curvature(x)
