"""Gaps in chains, where residues are missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..box import displacement
from ..load.structure import Structure

__all__ = ["end_chains_at_gaps", "gaps"]

_LINKS = (("C", "N", "CA"), ("O3'", "P", "C3'"))  # atoms that join residues, and one that both have
_BOUND = 0.25  # nm, where the links of 0.13 (C-N) and 0.16 (O-P) end and gaps begin


def gaps(structure: Structure) -> np.ndarray:
    """Residues of proteins and nucleic acids, (m,) int, that are not bound to the next one of their chain.

    Readers know no bonds of unknown residues, so ends as close as a bond count as bound.
    """
    t, n = structure.topology, len(structure.topology.residue_names)
    joined = np.zeros(n, bool)
    ends = np.sort(t.residue_index[t.bonds], axis=1)
    joined[ends[ends[:, 1] == ends[:, 0] + 1, 0]] = True
    place = {name: np.full(n, -1) for link in _LINKS for name in link}
    for name, atoms in place.items():
        found = np.flatnonzero(t.names == name)
        atoms[t.residue_index[found]] = found
    open_ends = np.zeros(n, bool)
    for last, first, both in _LINKS:
        some = np.flatnonzero(
            (np.minimum(place[last], place[both])[:-1] >= 0) & (np.minimum(place[first], place[both])[1:] >= 0)
        )
        apart = structure.positions[place[last][some]] - structure.positions[place[first][some + 1]]
        open_ends[some] |= np.linalg.norm(displacement(apart, structure.box), axis=1) > _BOUND
    open_ends[:-1] &= t.chain_index[1:] == t.chain_index[:-1]
    return np.flatnonzero(open_ends & ~joined)


def end_chains_at_gaps(structure: Structure) -> Structure:
    """Let chains end where they have gaps: programs that join all residues of a chain would bind these over the gap."""
    t = structure.topology
    new = np.zeros(len(t.residue_names), np.int64)
    new[gaps(structure) + 1] = 1
    chains = t.chain_index + np.cumsum(new)
    first = np.flatnonzero(np.r_[True, np.diff(chains) != 0])
    apart = replace(t, chain_index=chains, chain_ids=t.chain_ids[t.chain_index[first]])
    return Structure(apart, structure.positions, structure.box)
