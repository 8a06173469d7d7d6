"""Reciprocal-space electrostatics and dispersion.

Pure functions, differentiable to second order in their first three arguments:

- ``reciprocal_energy(charges, positions, box, alpha, grid, order=5)``: smooth PME;
- ``dispersion_reciprocal_energy(coefficients, positions, box, alpha, grid, order=5)``: the same for -c_i c_j / r^6;
- ``ewald_energy(charges, positions, box, alpha, counts)``: plain Ewald.

All include self energy and, for charges, the neutralising background; none knows of excluded pairs.
"""

from triskele.sponge.pme.energy import dispersion_reciprocal_energy, ewald_energy, reciprocal_energy, spline_moduli

__all__ = ["dispersion_reciprocal_energy", "ewald_energy", "reciprocal_energy", "spline_moduli"]
