"""Kernels of `SplitPME`: energies and forces of a solute from the potentials of all charges and of the solute's
alone.
"""

from __future__ import annotations

import numpy as np

from triskele.core.extend import kernel

__all__ = ["add_part", "cross_energy", "cross_virial"]


@kernel(nogil=True)
def cross_energy(chunk, solute, charges, own, slots, field, solute_rows, row):
    """U_pw = sum over the solute of q dU/dq - 2 U_pp, of which dU/dq = phi + own[0] q + own[1]; own [2]."""
    total = 0.0
    for k in range(len(solute)):
        q = charges[solute[k]]
        total += q * (np.float64(field[4 * np.int64(slots[solute[k]]) + 3]) + own[0] * q + own[1])
    for k in range(len(solute_rows)):
        total -= 2.0 * solute_rows[k, 0]
    row[0, 0] = total


@kernel(nogil=True)
def cross_virial(chunk, rows, solute_rows, solvent_rows, row):
    """The virial of all charges without those of solute and solvent alone."""
    for a in range(1, 10):
        row[0, a] = 0.0
        for k in range(len(rows)):
            row[0, a] += rows[k, a]
        for k in range(len(solute_rows)):
            row[0, a] -= solute_rows[k, a]
        for k in range(len(solvent_rows)):
            row[0, a] -= solvent_rows[k, a]


@kernel(nogil=True)
def add_part(chunk, starts, kind, inside, slots, field, solute_slots, solute_field, forces):
    """Add the forces of a class: of the solute's field on the solute (2), of the rest on the solvent (0), of the others
    (1).
    """
    for i in range(starts[chunk], starts[chunk + 1]):
        if kind == (0 if inside[i] else 2):
            continue
        at, of = 4 * np.int64(slots[i]), 4 * np.int64(solute_slots[i])
        for a in range(3):
            f = np.float64(solute_field[of + a])
            if kind != (2 if inside[i] else 1):
                f = np.float64(field[at + a]) - f
            forces[i, a] += f
