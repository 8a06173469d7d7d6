"""Reciprocal-space energies as plain NumPy code that the core can trace: the definition of what the kernels compute.

All are differentiable to second order in charges, positions and box. The grid indices of the atoms are constants of a
derivative: splines of order p have p - 2 continuous derivatives, so that from order 4 on nothing is lost.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special

from triskele import core

from ..units import COULOMB

__all__ = ["dispersion_reciprocal_energy", "ewald_energy", "reciprocal_energy", "spline_moduli"]


def reciprocal_energy(charges: Any, positions: Any, box: Any, alpha: float, grid: tuple[int, int, int],
                      order: int = 5) -> Any:
    """Smooth particle mesh Ewald: reciprocal sum, self energy and neutralizing background.

    Parameters
    ----------
    charges : (n,) array, e
        Partial charges.
    positions : (n, 3) array, nm
        May be wrapped or unwrapped.
    box : (3, 3) array
        Rows are the box vectors, in nm.
    alpha : float
        Splitting parameter in 1/nm.
    grid : tuple of three int
        Points along each box vector.
    order : int
        Order of the B-splines, 4 to 6.

    Returns
    -------
    scalar
        Energy in kJ/mol, without anything for excluded pairs.

    References
    ----------
    U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), equations 4.1 to 4.8; background: equation 2.5 of
    J. Kolafa and J. W. Perram, Mol. Simul. 9, 351 (1992).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.sponge.pme import reciprocal_energy
    >>> charges, positions = np.array([1.0, -1.0]), np.array([[0.1, 0.2, 0.3], [0.4, 0.2, 0.3]])
    >>> potential = core.grad(reciprocal_energy)(charges, positions, 2 * np.eye(3), 3.0, (20, 20, 20))
    >>> potential.shape
    (2,)
    """
    volume, mx, my, mz = _reciprocal_vectors(box, grid)
    square = mx * mx + my * my + mz * mz
    zero = _zero(grid)
    safe = square + zero
    influence = np.exp(-(np.pi / alpha) ** 2 * safe) * (1 - zero) / safe * (COULOMB / (np.pi * volume))
    return _mesh_energy(influence, charges, positions, box, grid, order) + _coulomb_constants(charges, volume, alpha)


def dispersion_reciprocal_energy(coefficients: Any, positions: Any, box: Any, alpha: float, grid: tuple[int, int, int],
                                 order: int = 5) -> Any:
    """Particle mesh Ewald for -c_i c_j / r^6: reciprocal sum and self energy.

    Parameters
    ----------
    coefficients : (n,) array
        Square root of each atom's C6, 2 sigma^3 sqrt(epsilon), in (kJ/mol)^(1/2) nm^3: pairs mix geometrically.
    positions, box, alpha, grid, order
        As for `reciprocal_energy`.

    Returns
    -------
    scalar
        Energy in kJ/mol.

    References
    ----------
    U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), equations 5.1 to 5.5.
    """
    volume, mx, my, mz = _reciprocal_vectors(box, grid)
    zero = _zero(grid)
    square = mx * mx + my * my + mz * mz
    safe = square + zero
    b = np.pi / alpha * np.sqrt(safe)
    shape = 2 * np.sqrt(np.pi) * b**3 * special.erfc(b) + (1 - 2 * b * b) * np.exp(-b * b)
    influence = np.where(zero > 0, 1.0, shape) * (-(np.pi**1.5) * alpha**3 / 3 / volume)
    return _mesh_energy(influence, coefficients, positions, box, grid, order) + alpha**6 / 12 * np.sum(coefficients**2)


def ewald_energy(charges: Any, positions: Any, box: Any, alpha: float, counts: tuple[int, int, int]) -> Any:
    """Plain Ewald sum: reciprocal sum over |n_a| < counts[a], self energy and neutralizing background.

    Parameters
    ----------
    charges, positions, box, alpha
        As for `reciprocal_energy`.
    counts : tuple of three int
        Wave vectors on each side along each axis, zero included.

    Returns
    -------
    scalar
        Energy in kJ/mol, without anything for excluded pairs.

    References
    ----------
    M. P. Allen and D. J. Tildesley, Computer Simulation of Liquids, 2nd ed., section 6.2.
    """
    inverse = np.linalg.inv(box)
    fractional = positions @ inverse
    nx, ny, nz = (np.arange(first, n) for first, n in zip((0, 1 - counts[1], 1 - counts[2]), counts))
    cx, sx = _waves(fractional[:, 0], nx)
    cy, sy = _waves(fractional[:, 1], ny)
    cz, sz = _waves(fractional[:, 2], nz)
    n = len(ny) * len(nx)
    cx, sx = cx * charges[:, None], sx * charges[:, None]
    cxy = np.reshape(cx[:, :, None] * cy[:, None, :] - sx[:, :, None] * sy[:, None, :], (-1, n))
    sxy = np.reshape(cx[:, :, None] * sy[:, None, :] + sx[:, :, None] * cy[:, None, :], (-1, n))
    real = np.transpose(cxy) @ cz - np.transpose(sxy) @ sz
    imag = np.transpose(cxy) @ sz + np.transpose(sxy) @ cz
    volume = np.linalg.det(box)
    vectors = np.stack(np.meshgrid(nx, ny, nz, indexing="ij"), -1).reshape(-1, 3)
    m = vectors @ np.transpose(inverse)
    square = np.sum(m * m, axis=1)
    zero = 1.0 * ~vectors.any(1)
    weight = np.where(vectors[:, 0] > 0, 1.0, 0.5) * (1 - zero)  # of a vector and its negative
    safe = square + zero
    influence = weight * np.exp(-(np.pi / alpha) ** 2 * safe) / safe * (COULOMB / (np.pi * volume))
    energy = np.sum(influence * np.reshape(real**2 + imag**2, (-1,)))
    return energy + _coulomb_constants(charges, volume, alpha)


def spline_moduli(n: int, order: int) -> np.ndarray:
    """|sum_k M(k + 1) exp(2 pi i m k / n)|^2 for m = 0 ... n - 1: the inverse of |b|^2 in Essmann's equation 4.4.

    Splines of odd order vanish at m = n/2; there the mean of the neighbors is taken, as OpenMM does.
    """
    values = np.zeros(n)
    weights = _spline_weights(np.zeros(1), order)
    for k in range(order):
        values[k % n] += weights[k][0]
    moduli = np.abs(np.fft.fft(values)) ** 2
    return np.where(moduli < 1e-7, (np.roll(moduli, 1) + np.roll(moduli, -1)) / 2, moduli)


def _mesh_energy(influence, charges, positions, box, grid, order):
    """Half the sum of influence * |transform of the spread charges|^2."""
    u = positions @ np.linalg.inv(box)
    u = (u - np.floor(u)) * np.array(grid, float)
    base = np.minimum(np.floor(u), np.array(grid) - 1.0)
    fraction = u - base
    first = base.astype(np.int64)
    weights, index = [], []
    for d in range(3):
        weights.append(np.stack(_spline_weights(fraction[:, d], order), 1))
        index.append((first[:, d, None] + np.arange(order)) % grid[d])
    wx, wy, wz = weights
    spread = (charges[:, None] * wx)[:, :, None, None] * wy[:, None, :, None] * wz[:, None, None, :]
    ix, iy, iz = index
    at = (ix[:, :, None, None] * grid[1] + iy[:, None, :, None]) * grid[2] + iz[:, None, None, :]
    mesh = core.index_add(np.zeros(grid[0] * grid[1] * grid[2]), np.reshape(at, (-1,)), np.reshape(spread, (-1,)))
    transform = np.fft.rfftn(np.reshape(mesh, grid))
    power = np.real(transform) ** 2 + np.imag(transform) ** 2
    bx, by, bz = (spline_moduli(n, order) for n in grid)
    twice = np.full(grid[2] // 2 + 1, 2.0)  # the half spectrum stands for the whole
    twice[0] = 1
    if grid[2] % 2 == 0:
        twice[-1] = 1
    factor = 0.5 * twice / bz[: grid[2] // 2 + 1] / by[:, None] / bx[:, None, None]
    return np.sum(factor * influence * power)


def _spline_weights(fraction, order):
    """Weights of the grid points first, first + 1, ...: Essmann's equation 4.1, by raising the order."""
    weights = [1 - fraction, fraction]
    for k in range(3, order + 1):
        old = [0.0, *weights, 0.0]
        weights = [((fraction + (k - 1 - j)) * old[j] + ((j + 1) - fraction) * old[j + 1]) / (k - 1) for j in range(k)]
    return weights


def _reciprocal_vectors(box, grid):
    """Volume, and the components of the reciprocal vectors m on the half spectrum."""
    inverse = np.linalg.inv(box)
    nx, ny, nz = _frequencies(grid)
    x, y, z = (inverse[a, 0] * nx + inverse[a, 1] * ny + inverse[a, 2] * nz for a in range(3))
    return np.linalg.det(box), x, y, z


def _frequencies(grid):
    nx, ny = (np.fft.fftfreq(n, 1 / n) for n in grid[:2])
    return nx[:, None, None], ny[None, :, None], np.arange(grid[2] // 2 + 1.0)[None, None, :]


def _zero(grid):
    """1 at m = 0, else 0."""
    zero = np.zeros((grid[0], grid[1], grid[2] // 2 + 1))
    zero[0, 0, 0] = 1
    return zero


def _waves(x, n):
    phase = 2 * np.pi * x[:, None] * n
    return np.cos(phase), np.sin(phase)


def _coulomb_constants(charges, volume, alpha):
    own = -alpha / np.sqrt(np.pi) * np.sum(charges**2)
    background = -np.pi / (2 * alpha**2) * np.sum(charges) ** 2 / volume
    return COULOMB * (own + background)
