"""Vector math: one function of 10,000 elements, so that the time over 10,000 is the cost of an element."""

import math

import numpy

from tests.benchmarks.case import Case

RANGES = {"exp": (-10, 10), "log": (0.01, 100), "sin": (-10, 10), "tanh": (-4, 4), "erf": (-3, 3), "pow": (0.1, 10)}
LOOP = {"exp": math.exp, "log": math.log, "sin": math.sin, "tanh": math.tanh, "erf": math.erf, "pow": math.pow}


def elements(name, dtype, n=10_000):
    rng = numpy.random.default_rng(3)
    x = rng.uniform(*RANGES[name], n).astype(dtype)
    return (x, rng.uniform(-3, 3, n).astype(dtype)) if name == "pow" else (x,)


def function(name):
    if name == "pow":
        return lambda tool: lambda x, y: x**y
    if name == "erf":
        return lambda tool: lambda x: tool.special.erf(x)
    return lambda tool: getattr(tool.np, name)


def loop(name):
    def build(*arrays):
        import numba

        scalar = LOOP[name]
        if name == "pow":

            @numba.njit
            def run(x, y):
                out = numpy.empty_like(x)
                for i in range(x.size):
                    out[i] = x[i] ** y[i]
                return out
        else:

            @numba.njit
            def run(x):
                out = numpy.empty_like(x)
                for i in range(x.size):
                    out[i] = scalar(x[i])
                return out

        return lambda: run(*arrays)

    return build


for name in RANGES:
    for dtype, size, tolerance in (("float32", 4, 2e-6), ("float64", 8, 1e-14)):
        arrays = 3 if name == "pow" else 2
        case = Case(
            f"{name}_{dtype}",
            lambda name=name, dtype=dtype: elements(name, dtype),
            dtype,
            tolerance,
            flops=20e4,
            bytes=size * arrays * 1e4,
        )
        case.program("triskele", "jax", "torch", "autograd", "numpy")(function(name))
        case.by_hand("numba")(loop(name))
