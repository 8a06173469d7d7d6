"""Kernels of the energy split: sums of rows by class, and the factors of forces."""

from __future__ import annotations

from triskele.core.extend import kernel

from .flags import STATUS, STATUS_INFO

__all__ = ["add_energies", "clear", "scale"]


@kernel(nogil=True)
def clear(chunk, energies, own, flags):
    """Begin a sum, and hand on what tasks with flags of their own have reported."""
    if own[STATUS]:
        flags[STATUS], flags[STATUS_INFO] = own[STATUS], own[STATUS_INFO]
        own[STATUS] = 0
    for k in range(len(energies)):
        energies[k] = 0.0


@kernel(nogil=True)
def add_energies(chunk, at, rows, energies):  # rows [m, 10]
    total = 0.0
    for k in range(len(rows)):
        total += rows[k, 0]
    energies[at] += total


@kernel(nogil=True)
def scale(chunk, starts, scales, above, below, forces):
    """Multiply by scales[above] / scales[below]; by scales[above] alone if `below` is negative."""
    factor = scales[above] / (scales[below] if below >= 0 else 1.0)
    for i in range(starts[chunk], starts[chunk + 1]):
        for a in range(3):
            forces[i, a] *= factor
