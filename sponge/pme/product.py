"""Hessian-vector products of the reciprocal-space energies by positions and charges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import fft

from . import product_kernels as kernels
from .energy import mesh_factor
from .mesh import spline_polynomials

__all__ = ["reciprocal_product"]


def reciprocal_product(
    influence: Callable[..., np.ndarray],  # `coulomb_influence` or `dispersion_influence`
    charges: np.ndarray,  # (n,) e, or square roots of C6
    positions: np.ndarray,  # (n, 3) nm
    v: np.ndarray,  # (n, 3), the vector
    box: np.ndarray,  # (3, 3) nm, vectors in rows
    alpha: float,  # splitting parameter, 1/nm
    grid: tuple[int, int, int],  # points along each box vector
    order: int,  # of the splines
    changes: np.ndarray | None = None,  # (n,), the part of the vector that belongs to the charges
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Hessian of a mesh energy by positions and charges times `v` and `changes`: (n, 3) and (2, n) arrays.

    With Q the spread charges, the energy is a quadratic form of Q, so that its gradient is a field phi = A Q. Along v
    the mesh changes by Q', and the gradient of an atom, the sum of phi over the slopes of its spline, by the sums of A
    Q' over these slopes and of phi over their own derivatives along v: four transforms for any v. (U. Essmann et al.,
    J. Chem. Phys. 103, 8577 (1995), eq. 4.1 to 4.9, differentiated.)

    The first array is in kJ/mol/nm^2 times the unit of `v`. The second, (2, 0) without `changes`, has the derivatives
    of the mesh's own energy, without self energies and background, by the charges, and their derivatives along the
    vector.

    >>> from triskele.sponge.pme.energy import coulomb_influence, reciprocal_energy
    >>> q, x = np.array([1.0, -1.0]), np.array([[0.1, 0.2, 0.3], [0.4, 0.2, 0.3]])
    >>> v = np.array([[1.0, 0, 0], [0, 2, 0]])
    >>> box, options = 2 * np.eye(3), (3.0, (20, 20, 20), 5)
    >>> expected = core.hvp(lambda x: reciprocal_energy(q, x, box, *options), (x,), (v,))
    >>> np.allclose(reciprocal_product(coulomb_influence, q, x, v, box, *options)[0], expected)
    True
    """
    inverse = np.linalg.inv(box)
    per_grid = inverse * np.array(grid, float)  # from nm to points
    table = np.ascontiguousarray(spline_polynomials(order)[0])
    fractional, moves = positions @ inverse, v @ per_grid
    mesh, tangent, by_grid = np.zeros(grid), np.zeros(grid), np.zeros(positions.shape)
    charges = np.ascontiguousarray(charges, np.float64)
    by_charge = np.zeros((2, 0 if changes is None else len(charges)))
    changes = np.zeros(len(charges)) if changes is None else np.ascontiguousarray(changes, np.float64)
    kernels.spread_with_tangent(fractional, moves, charges, changes, table, mesh, tangent)
    # of the half spectrum; the energy counts each of its conjugate pairs once
    half = influence(box, alpha, grid) / mesh_factor(grid, order) * np.prod(grid)
    field, change = (fft.irfftn(half * fft.rfftn(m), grid) for m in (mesh, tangent))
    kernels.gather_product(fractional, moves, charges, changes, table, field, change, by_grid, by_charge)
    return by_grid @ per_grid.T, by_charge
