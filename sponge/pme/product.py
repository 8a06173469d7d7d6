"""Hessian-vector products of the reciprocal-space energies by positions and charges."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import fft

from . import product_kernels as kernels
from .energy import mesh_factor
from .mesh import spline_polynomials

__all__ = ["reciprocal_product"]


def reciprocal_product(influence: Callable[..., np.ndarray], charges: np.ndarray, positions: np.ndarray,
                       v: np.ndarray, box: np.ndarray, alpha: float, grid: tuple[int, int, int], order: int,
                       changes: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The Hessian of a mesh energy by positions and charges times `v` and `changes`.

    With Q the spread charges, the energy is a quadratic form of Q, so that its gradient is a field phi = A Q. Along v
    the mesh changes by Q', and the gradient of an atom, the sum of phi over the slopes of its spline, by the sums of A
    Q' over these slopes and of phi over their own derivatives along v: four transforms for any v.

    Parameters
    ----------
    influence : callable
        `coulomb_influence` or `dispersion_influence`.
    charges : (n,) array
        Charges in e, or square roots of C6.
    positions, v : (n, 3) float64, nm
        Positions, and the vector.
    box : (3, 3) array, nm
        Box vectors in rows.
    alpha : float
        Splitting parameter, 1/nm.
    grid : tuple of three int
        Points along each box vector.
    order : int
        Order of the splines.
    changes : (n,) array, optional
        Part of the vector that belongs to the charges. Defaults to zero, without derivatives by charges.

    Returns
    -------
    by_position : (n, 3) float64
        In kJ/mol/nm^2 times the unit of `v`.
    by_charge : (2, n) float64
        The energy's derivatives by the charges, and their derivatives along the vector; (2, 0) without `changes`. The
        mesh's own part: without self energies and background.

    References
    ----------
    U. Essmann et al., J. Chem. Phys. 103, 8577 (1995), equations 4.1 to 4.9, differentiated.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
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
