"""Small runs of programs of all kinds, whose kernels ``triskele warmup`` compiles ahead of time."""

import numpy as np

__all__ = ["WORK"]


def training() -> None:
    """A network with a convolution, trained in both precisions: matrix products, reductions, random numbers."""
    from . import jit, nn, optim, random, value_and_grad

    optimizer = optim.Adam(1e-3)

    @jit
    def step(net, state, images, labels):
        loss = lambda net: nn.cross_entropy(net["mlp"](net["conv"](images).reshape(len(images), -1)), labels)
        value, grads = value_and_grad(loss)(net)
        return value, *optimizer.step(net, grads, state)

    for dtype in (np.float32, np.float64):
        net = {
            "conv": nn.Conv2d(random.key(0), 1, 2, 3, dtype=dtype),
            "mlp": nn.MLP.init(random.key(1), [128, 16, 3], dtype=dtype),
        }
        step(net, optimizer.init(net), np.ones((64, 8, 8, 1), dtype), np.zeros(64, np.int64))


def linear_algebra() -> None:
    """Factorizations, Fourier transforms, sorting: native kernels behind NumPy's functions."""
    from . import grad, jit

    for n in (6, 300):
        a = np.eye(n) * 3.0 + 0.1
        jit(lambda a: np.linalg.solve(a, np.fft.fft(a).real) @ np.linalg.inv(a))(a)
        jit(grad(lambda a: np.sum(np.linalg.cholesky(a @ a.T)) + np.sum(np.sort(a.ravel())) + np.cumsum(a)[-1]))(a)


WORK = (training, linear_algebra)
