"""An operator of your own: a Numba kernel with a derivative, inside code that the core differentiates and compiles.

A tridiagonal system is solved by Thomas's algorithm, which NumPy cannot express without a Python loop. Its adjoint is
the same algorithm on the transposed system, so the rule is three lines. With it, the conductivity of a rod is recovered
from the temperatures measured along it: gradients run through the solver, and a whole step's residuals and Jacobian are
one `core.jit` function.

    python examples/core/custom_operator.py [--output custom_operator.png]

Expected: the largest relative error of the conductivity is below 1e-8.
"""

import argparse

import numba
import numpy as np

from triskele import core

N = 60


@core.custom_op(out=lambda lower, diagonal, upper, b: b, batch="sequential")
@numba.njit
def tridiagonal_solve(lower, diagonal, upper, b, x):
    """Solve the system with `lower` and `upper` (n - 1,) next to the `diagonal` (n,); no pivoting."""
    n = b.size
    c = np.empty(n)
    beta = diagonal[0]
    x[0] = b[0] / beta
    for i in range(1, n):
        c[i] = upper[i - 1] / beta
        beta = diagonal[i] - lower[i - 1] * c[i]
        x[i] = (b[i] - lower[i - 1] * x[i - 1]) / beta
    for i in range(n - 2, -1, -1):
        x[i] -= c[i + 1] * x[i + 1]


@tridiagonal_solve.vjp
def _(ct, x, lower, diagonal, upper, b):
    w = tridiagonal_solve(upper, diagonal, lower, ct)  # the transposed system
    return -w[1:] * x[:-1], -w * x, -w[:-1] * x[1:], w


def temperature(log_conductivity):
    """Steady heat flow in a rod heated everywhere, its ends at zero; conductivities between neighboring points, [N +
    1].
    """
    k = np.exp(log_conductivity)
    return tridiagonal_solve(-k[1:-1], k[:-1] + k[1:], -k[1:-1], np.full(N, 1.0 / N))


def main(output):
    at = np.linspace(0, 1, N + 1)[:, None]
    basis = np.concatenate([np.cos(np.pi * at * np.arange(5)), np.sin(np.pi * at * np.arange(1, 5))], axis=1)
    truth = np.array([0.2, 0, 0, 0.3, 0, 0, 0.5, 0, 0.1])
    measured = temperature(basis @ truth)

    def residual(p):
        return temperature(basis @ p) - measured

    core.check_grads(lambda p: np.sum(residual(p) ** 2), (np.zeros(9),), order=2)
    # Gauss and Newton's method, with the Jacobian by reverse mode through the kernel
    step = core.jit(lambda p: (residual(p), core.jacrev(residual)(p)))
    p = np.zeros(9)
    for _ in range(20):
        r, jacobian = step(p)
        p = p - np.linalg.lstsq(jacobian, r, rcond=None)[0]
    error = np.max(np.abs(np.exp(basis @ (p - truth)) - 1))
    print(f"largest residual {np.max(np.abs(residual(p))):.1e}, largest relative error of the conductivity {error:.1e}")
    draw(output, at[:, 0], np.exp(basis @ truth), np.exp(basis @ p), measured)
    return error


def draw(output, at, truth, found, measured):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.5), layout="constrained")
    left.plot(np.arange(1, N + 1) / (N + 1), measured, color="tab:blue")
    left.set(xlabel="place along the rod", ylabel="temperature", title="measured")
    right.plot(at, truth, color="tab:red", lw=4, alpha=0.3, label="true")
    right.plot(at, found, "k--", lw=1, label="recovered")
    right.set(xlabel="place along the rod", ylabel="conductivity", title="recovered through the solver")
    right.legend(frameon=False)
    figure.savefig(output, dpi=150)
    print(f"picture: {output}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--output", default="custom_operator.png", help="where the picture goes")
    raise SystemExit(0 if main(parser.parse_args().output) < 1e-8 else 1)
