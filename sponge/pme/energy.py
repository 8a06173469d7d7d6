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
from .parameters import ORDER

__all__ = [
    "coulomb_influence",
    "dipole_reciprocal_energy",
    "dispersion_influence",
    "dispersion_reciprocal_energy",
    "ewald_energy",
    "mesh_factor",
    "multipole_matrix",
    "reciprocal_energy",
    "smooth_coulomb",
    "spline_moduli",
]


def reciprocal_energy(
    charges: Any,  # (n,) e
    positions: Any,  # (n, 3) nm, wrapped or unwrapped
    box: Any,  # (3, 3) nm, vectors in rows
    alpha: float,  # splitting parameter, 1/nm
    grid: tuple[int, int, int],  # points along each box vector
    order: int = ORDER,  # of the B-splines, one of `ORDERS`
) -> Any:
    """Return the energy (kJ/mol) of smooth particle mesh Ewald: reciprocal sum, self energy, neutralizing background.

    Nothing is taken off for excluded pairs. U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 4.1 to 4.8;
    background: eq. 2.5 of J. Kolafa and J. W. Perram, Mol. Simul. 9, 351 (1992).
    """
    influence = coulomb_influence(box, alpha, grid)
    return _mesh_energy(influence, charges, positions, box, grid, order) + _coulomb_constants(
        charges, np.linalg.det(box), alpha
    )


def coulomb_influence(box: Any, alpha: float, grid: tuple[int, int, int]) -> Any:
    """Return the influence function of charges on the half spectrum (nx, ny, nz // 2 + 1), without the splines' moduli.

    It is twice the energy of a wave of unit amplitude, in kJ/mol, and 0 for the mean. U. Essmann et al., J. Chem. Phys.
    103, 8577 (1995), eq. 4.7.

    >>> coulomb_influence(2 * np.eye(3), 3.0, (8, 8, 8)).shape
    (8, 8, 5)
    """
    volume, mx, my, mz = _reciprocal_vectors(box, grid)
    square = mx * mx + my * my + mz * mz
    zero = _zero(grid)
    safe = square + zero
    return np.exp(-((np.pi / alpha) ** 2) * safe) * (1 - zero) / safe * (COULOMB / (np.pi * volume))


def dipole_reciprocal_energy(
    charges: Any, dipoles: Any, positions: Any, box: Any, alpha: float, grid: tuple[int, int, int], order: int = ORDER
) -> Any:
    """Return the energy of smooth PME of charges and dipoles (n, 3) in e nm, as `reciprocal_energy` does for charges.

    Second derivatives by positions need order 5 or 6. A. Toukmaji, C. Sagui, J. Board, T. Darden, J. Chem. Phys. 113,
    10913 (2000).

    >>> charges, positions, box = np.array([1.0, -1.0]), np.array([[0.1, 0.2, 0.3], [0.4, 0.2, 0.3]]), 2 * np.eye(3)
    >>> with_dipoles = dipole_reciprocal_energy(charges, np.zeros((2, 3)), positions, box, 3.0, (20, 20, 20))
    >>> bool(np.isclose(with_dipoles, reciprocal_energy(charges, positions, box, 3.0, (20, 20, 20))))
    True
    """
    influence = coulomb_influence(box, alpha, grid)
    own = -2 * alpha**3 / (3 * np.sqrt(np.pi)) * COULOMB * np.sum(dipoles * dipoles)
    constants = _coulomb_constants(charges, np.linalg.det(box), alpha) + own
    return _mesh_energy(influence, charges, positions, box, grid, order, dipoles) + constants


def multipole_matrix(positions: Any, box: Any, alpha: float, grid: tuple[int, int, int], order: int = ORDER) -> Any:
    """Return the second derivatives (4 n, 4 n) of `dipole_reciprocal_energy` by charges and dipoles.

    Units are kJ/mol, e and nm. Rows and columns are charge and dipole (x, y, z) of the first atom, of the second, etc.

    >>> multipole_matrix(np.array([[0.1, 0.2, 0.3], [0.4, 0.2, 0.3]]), 2 * np.eye(3), 3.0, (20, 20, 20)).shape
    (8, 8)
    """
    influence = coulomb_influence(box, alpha, grid)
    n = len(positions)
    atoms, sources = np.repeat(np.arange(n), 4), np.tile(np.eye(4), (n, 1))
    transforms = _transforms(sources[:, 0], positions[atoms], box, grid, order, sources[:, 1:], np.arange(4 * n))
    weighted = np.reshape(2 * _half_weights(grid, order) * influence, (-1,))
    real, imag = (np.reshape(f(transforms), (4 * n, -1)) for f in (np.real, np.imag))
    charge = sources[:, 0]
    own = 2 * alpha / np.sqrt(np.pi) * charge + 4 * alpha**3 / (3 * np.sqrt(np.pi)) * (1 - charge)
    background = np.pi / (alpha**2 * np.linalg.det(box)) * charge[:, None] * charge
    return (
        (real * weighted) @ np.transpose(real)
        + (imag * weighted) @ np.transpose(imag)
        - COULOMB * (np.diag(own) + background)
    )


def dispersion_reciprocal_energy(
    coefficients: Any, positions: Any, box: Any, alpha: float, grid: tuple[int, int, int], order: int = ORDER
) -> Any:
    """Return the energy of particle mesh Ewald for -c_i c_j / r^6: reciprocal sum and self energy, in kJ/mol.

    `coefficients` (n,) are the square roots of each atom's C6, 2 sigma^3 sqrt(epsilon), in (kJ/mol)^(1/2) nm^3: pairs
    mix geometrically. U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 5.1 to 5.5.
    """
    influence = dispersion_influence(box, alpha, grid)
    return _mesh_energy(influence, coefficients, positions, box, grid, order) + alpha**6 / 12 * np.sum(coefficients**2)


def dispersion_influence(box: Any, alpha: float, grid: tuple[int, int, int]) -> Any:
    """Return the influence function of dispersion on the half spectrum, as `coulomb_influence` does for charges.

    U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), eq. 5.1 to 5.5; here the mean is not 0.

    >>> bool(np.all(dispersion_influence(2 * np.eye(3), 3.0, (8, 8, 8)) < 0))
    True
    """
    volume, mx, my, mz = _reciprocal_vectors(box, grid)
    zero = _zero(grid)
    square = mx * mx + my * my + mz * mz
    safe = square + zero
    b = np.pi / alpha * np.sqrt(safe)
    shape = 2 * np.sqrt(np.pi) * b**3 * special.erfc(b) + (1 - 2 * b * b) * np.exp(-b * b)
    return np.where(zero > 0, 1.0, shape) * (-(np.pi**1.5) * alpha**3 / 3 / volume)


def ewald_energy(charges: Any, positions: Any, box: Any, alpha: float, counts: tuple[int, int, int]) -> Any:
    """Return the plain Ewald energy (kJ/mol): reciprocal sum over |n_a| < counts[a], self energy and background.

    Arguments are those of `reciprocal_energy`; nothing is taken off for excluded pairs. M. P. Allen and D. J.
    Tildesley, Computer Simulation of Liquids, 2nd ed., section 6.2.
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
    influence = weight * np.exp(-((np.pi / alpha) ** 2) * safe) / safe * (COULOMB / (np.pi * volume))
    energy = np.sum(influence * np.reshape(real**2 + imag**2, (-1,)))
    return energy + _coulomb_constants(charges, volume, alpha)


def smooth_coulomb(alpha: Any, r2: Any) -> tuple[Any, Any]:
    """erf(alpha r) / r and minus its derivative over r, smooth at 0."""
    x = alpha**2 * r2
    small = x < 0.5
    y, z = np.where(small, x, 0.5), np.where(small, 0.5, x)
    # integrals of t^(2 n) exp(-x t^2) from 0 to 1, n = 0 and 1: a series with positive terms, and the closed form
    term, series = 1 / 3 + 0 * y, 1 / 3 + 0 * y
    for k in range(1, 16):
        term = term * 2 * y / (2 * k + 3)
        series = series + term
    decay = np.exp(-x)
    f1 = np.where(small, decay * series, (0.5 * np.sqrt(np.pi / z) * special.erf(np.sqrt(z)) - np.exp(-z)) / (2 * z))
    return 2 * alpha / np.sqrt(np.pi) * (2 * x * f1 + decay), 4 * alpha**3 / np.sqrt(np.pi) * f1


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


def _mesh_energy(influence, charges, positions, box, grid, order, dipoles=None):
    """Half the sum of influence * |transform of the spread charges and dipoles|^2."""
    transform = _transforms(charges, positions, box, grid, order, dipoles)
    power = np.real(transform) ** 2 + np.imag(transform) ** 2
    return np.sum(_half_weights(grid, order) * influence * power)


def _half_weights(grid, order):
    """Half of one over the moduli of the splines, on the half spectrum that stands for the whole."""
    twice = np.full(grid[2] // 2 + 1, 2.0)
    twice[0] = 1
    if grid[2] % 2 == 0:
        twice[-1] = 1
    return 0.5 * twice / mesh_factor(grid, order)


def _transforms(charges, positions, box, grid, order, dipoles=None, mesh_of=None):
    """Transform of the mesh of spread charges and dipoles; of one mesh for each number in `mesh_of`."""
    inverse = np.linalg.inv(box)
    u = positions @ inverse
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
    if dipoles is not None:  # a dipole spreads the derivative of the weights along it
        dx, dy, dz = (np.stack(_spline_slopes(fraction[:, d], order), 1) for d in range(3))
        along = (dipoles @ inverse) * np.array(grid, float)  # by mesh coordinates
        mx, my, mz = along[:, 0, None], along[:, 1, None], along[:, 2, None]
        spread = (
            spread
            + (mx * dx)[:, :, None, None] * wy[:, None, :, None] * wz[:, None, None, :]
            + wx[:, :, None, None]
            * ((my * dy)[:, None, :, None] * wz[:, None, None, :] + wy[:, None, :, None] * (mz * dz)[:, None, None, :])
        )
    ix, iy, iz = index
    at = (ix[:, :, None, None] * grid[1] + iy[:, None, :, None]) * grid[2] + iz[:, None, None, :]
    points, shape = grid[0] * grid[1] * grid[2], tuple(grid)
    if mesh_of is not None:
        at, points, shape = at + points * mesh_of[:, None, None, None], points * len(mesh_of), (len(mesh_of), *grid)
    mesh = core.index_add(np.zeros(points), np.reshape(at, (-1,)), np.reshape(spread, (-1,)))
    return np.fft.rfftn(np.reshape(mesh, shape), axes=(-3, -2, -1))


def mesh_factor(grid: tuple[int, int, int], order: int) -> np.ndarray:
    """Products of the splines' moduli on the half spectrum [nx, ny, nz // 2 + 1]."""
    bx, by, bz = (spline_moduli(n, order) for n in grid)
    return bz[: grid[2] // 2 + 1] * by[:, None] * bx[:, None, None]


def _spline_weights(fraction, order):
    """Weights of the grid points first, first + 1, ...: Essmann's equation 4.1, by raising the order."""
    weights = [1 - fraction, fraction]
    for k in range(3, order + 1):
        old = [0.0, *weights, 0.0]
        weights = [((fraction + (k - 1 - j)) * old[j] + ((j + 1) - fraction) * old[j + 1]) / (k - 1) for j in range(k)]
    return weights


def _spline_slopes(fraction, order):
    """Derivatives of the weights by the fraction: differences of those of the order below."""
    lower = [0.0, *_spline_weights(fraction, order - 1), 0.0]
    return [lower[j] - lower[j + 1] for j in range(order)]


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
