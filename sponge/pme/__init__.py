"""Reciprocal-space electrostatics and dispersion.

Pure functions, differentiable to second order in charges, dipoles, positions and box:

- ``reciprocal_energy(charges, positions, box, alpha, grid, order=5)``: smooth PME;
- ``dipole_reciprocal_energy(charges, dipoles, positions, box, alpha, grid, order=5)``: the same with point dipoles;
- ``multipole_matrix(positions, box, alpha, grid, order=5)``: its second derivatives by charges and dipoles;
- ``dispersion_reciprocal_energy(coefficients, positions, box, alpha, grid, order=5)``: the same for -c_i c_j / r^6;
- ``ewald_energy(charges, positions, box, alpha, counts)``: plain Ewald.

All include self energy and, for charges, the neutralizing background; none knows of excluded pairs.

Compiled forms for a potential's plan, with attributes ``before`` (tasks to run ahead of the stages), ``stages``,
``reduce``, ``rows`` and methods ``update_box()``, ``update_charges(charges)``, ``charge_gradient()``:

- ``PME(engine, charges, alpha, grid, order=5, *, dispersion=False, builds=None)``: `grid` from ``grid_size(wanted)``.
- ``Ewald(engine, charges, alpha, counts)``.
"""

from importlib import import_module as _import_module
from typing import Any as _Any

from .energy import (
    dipole_reciprocal_energy,
    dispersion_reciprocal_energy,
    ewald_energy,
    multipole_matrix,
    reciprocal_energy,
    spline_moduli,
)

__all__ = [
    "Ewald",
    "PME",
    "dipole_reciprocal_energy",
    "dispersion_reciprocal_energy",
    "ewald_energy",
    "grid_size",
    "multipole_matrix",
    "reciprocal_energy",
    "spline_moduli",
]

_ON_FIRST_USE = {"Ewald": "ewald", "PME": "mesh", "grid_size": "mesh"}  # what needs the compiler


def __getattr__(name: str) -> _Any:
    if name in _ON_FIRST_USE:
        return getattr(_import_module(f"{__name__}.{_ON_FIRST_USE[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
