"""Gaps in chains, where residues are missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..load.structure import Structure
from ..topology import Topology

__all__ = ["end_chains_at_gaps", "gaps"]

_LINKS = (("C", "N", "CA"), ("O3'", "P", "C3'"))  # atoms that join residues, and one that both have


def gaps(topology: Topology) -> np.ndarray:
    """Residues of proteins and nucleic acids, (m,) int, that are not bound to the next one of their chain."""
    of, n = topology.residue_index, len(topology.residue_names)
    joined = np.zeros(n + 1, bool)
    ends = np.sort(of[topology.bonds], axis=1)
    joined[ends[ends[:, 1] == ends[:, 0] + 1, 0]] = True
    with_atom = {
        name: np.isin(np.arange(n), of[topology.names == name]) for name in ("C", "N", "CA", "O3'", "P", "C3'")
    }
    open_ends = np.zeros(n, bool)
    for last, first, both in _LINKS:
        a, b = with_atom[last] & with_atom[both], with_atom[first] & with_atom[both]
        open_ends[:-1] |= a[:-1] & b[1:]
    open_ends[:-1] &= topology.chain_index[1:] == topology.chain_index[:-1]
    return np.flatnonzero(open_ends & ~joined[:n])


def end_chains_at_gaps(structure: Structure) -> Structure:
    """Let chains end where they have gaps: programs that join all residues of a chain would bind these over the gap."""
    t = structure.topology
    new = np.zeros(len(t.residue_names), np.int64)
    new[gaps(t) + 1] = 1
    chains = t.chain_index + np.cumsum(new)
    first = np.flatnonzero(np.r_[True, np.diff(chains) != 0])
    apart = replace(t, chain_index=chains, chain_ids=t.chain_ids[t.chain_index[first]])
    return Structure(apart, structure.positions, structure.box)
