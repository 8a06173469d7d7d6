"""Terms of a force field whose energy is an expression, and Urey-Bradley springs."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..topology import Topology
from .assign import Assignment
from .bonded import find_impropers, find_terms
from .tables import CustomTerms, TermTable

__all__ = ["add_custom", "add_urey_bradley"]


def add_custom(
    system: Any,
    terms: CustomTerms,
    atoms: np.ndarray,
    candidates: np.ndarray,
    assignment: Assignment,
    topology: Topology,
) -> None:
    """Add the terms that the bonds, angles or torsions `atoms` [m, k] and the `candidates` for impropers have."""
    from ..potentials.expressions.expression import ExpressionTerm

    index = find_terms(terms.kind, atoms, terms.table, assignment, topology, needed=False)
    rows, values = [atoms[index >= 0]], [terms.table.values[k] for k in index[index >= 0]]
    if len(terms.impropers):
        found, improper = find_impropers(candidates, terms.impropers, assignment, topology)
        rows, values = [*rows, found], values + [terms.impropers.values[k][1] for k in improper]
    if values:
        columns = dict(zip(terms.parameters, np.array(values, np.float64).reshape(len(values), -1).T))
        system.add(ExpressionTerm(terms.kind, terms.energy, np.concatenate(rows), columns | terms.constants))


def add_urey_bradley(
    system: Any, table: TermTable, angles: np.ndarray, assignment: Assignment, topology: Topology
) -> None:
    """Add springs between the outer atoms of angles; the file has half of the force constant."""
    from ..potentials.bonded.urey_bradley import urey_bradley

    index = find_terms("angle", angles, table, assignment, topology, needed=False)
    ends = angles[index >= 0][:, [0, 2]]
    if len(ends):
        r0, k = np.array([table.values[n] for n in index[index >= 0]]).T
        system.add(urey_bradley(ends, k=2 * k, r0=r0))
