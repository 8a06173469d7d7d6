"""Logistic regression: value and gradient of the loss on 10,000 x 100 examples."""

import numpy

from tests.benchmarks.case import Case


def data(n=10_000, d=100):
    rng = numpy.random.default_rng(0)
    x = rng.standard_normal((n, d))
    return 0.1 * rng.standard_normal(d), x, (x @ rng.standard_normal(d) > 0).astype(float)


case = Case("logistic_regression", data, flops=4e6 + 40 * 1e4, bytes=8e6)


@case.program("triskele", "jax", "torch", "autograd")
def value_and_gradient(tool):
    np = tool.np

    def loss(w, x, y):
        z = np.matmul(x, w)
        return np.mean(np.log1p(np.exp(-np.abs(z))) + np.maximum(z, 0.0) - y * z)

    return tool.value_and_grad(loss)


@case.program("numpy")
def by_hand(tool):
    def both(w, x, y, np=numpy):
        z = x @ w
        e = np.exp(-np.abs(z))
        value = np.mean(np.log1p(e) + np.maximum(z, 0.0) - y * z)
        return value, x.T @ (np.where(z > 0, 1.0, e) / (1 + e) - y) / len(y)

    return both
