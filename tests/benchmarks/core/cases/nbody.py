"""Gravity: energy of 256 softened bodies and its gradient, all pairs."""

import math

import numpy

from tests.benchmarks.case import Case

SOFTENING = 0.05


def data(n=256):
    rng = numpy.random.default_rng(2)
    return rng.standard_normal((n, 3)), rng.uniform(0.5, 1.5, n)


case = Case("nbody_gradient", data, flops=20 * 256**2, bytes=8 * 256 * 7)


@case.program("triskele", "jax", "torch", "autograd")
def energy_and_gradient(tool):
    np = tool.np

    def energy(x, mass):
        d = x[:, None, :] - x[None, :, :]
        r2 = np.sum(d * d, axis=-1) + SOFTENING**2
        return -0.5 * np.sum(mass[:, None] * mass[None, :] / np.sqrt(r2))

    return tool.value_and_grad(energy)


@case.program("numpy")
def by_hand(tool):
    def both(x, mass, np=numpy):
        d = x[:, None, :] - x[None, :, :]
        r2 = np.einsum("ijk,ijk->ij", d, d) + SOFTENING**2
        pair = np.outer(mass, mass) / np.sqrt(r2)
        return -0.5 * pair.sum(), np.einsum("ij,ijk->ik", pair / r2, d)

    return both


@case.by_hand("numba")
def pair_loop(x, mass):
    import numba

    @numba.njit(fastmath={"contract", "arcp", "nsz", "reassoc"}, error_model="numpy")
    def both(x, mass):
        n = len(mass)
        gradient = numpy.empty_like(x)
        energy = 0.0
        for i in range(n):
            gx, gy, gz, e = 0.0, 0.0, 0.0, 0.0
            for j in range(n):
                dx, dy, dz = x[i, 0] - x[j, 0], x[i, 1] - x[j, 1], x[i, 2] - x[j, 2]
                inverse = 1 / (dx * dx + dy * dy + dz * dz + SOFTENING**2)
                pair = mass[j] * math.sqrt(inverse)
                e += pair
                pair *= inverse
                gx += pair * dx
                gy += pair * dy
                gz += pair * dz
            energy -= 0.5 * mass[i] * e
            gradient[i, 0], gradient[i, 1], gradient[i, 2] = mass[i] * gx, mass[i] * gy, mass[i] * gz
        return energy, gradient

    return lambda: both(x, mass)
