"""Structures put together, such as a protein and its ligand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triskele.core.extend import check

from ..load.structure import Structure
from ..system import System
from ..topology import Topology

__all__ = ["join", "joined"]


def join(*structures: Structure | System) -> Structure:
    """Put structures together where they are, such as a protein and the ligand in its pocket.

    Parameters
    ----------
    *structures : Structure or System
        Their atoms and chains follow each other. The box is that of the first.

    Returns
    -------
    Structure

    Raises
    ------
    TypeError
        If something else is given.

    Examples
    --------
    >>> from triskele.sponge import build
    >>> water = build.water_box("tip3p", n=1)
    >>> build.join(water, water).topology.n
    6
    """
    hint = "the structure of a ligand is its .structure"
    first, *_ = [check.kind(s, (Structure, System), "join: structures", hint=hint) for s in structures or (None,)]
    return Structure(
        joined([s.topology for s in structures]),
        np.concatenate([np.asarray(s.positions) for s in structures]),
        first.box,
        getattr(first, "space_group", None),
    )


def joined(topologies: Sequence[Topology]) -> Topology:
    """Return one topology of the atoms of several."""
    atoms, residues, chains = (
        np.cumsum([0, *counts])[:-1]
        for counts in zip(*((t.n, len(t.residue_names), len(t.chain_ids)) for t in topologies))
    )
    every = lambda name: np.concatenate([getattr(t, name) for t in topologies])
    return Topology(
        every("names"),
        every("elements"),
        np.concatenate([t.residue_index + first for t, first in zip(topologies, residues)]),
        every("residue_names"),
        every("residue_ids"),
        np.concatenate([t.chain_index + first for t, first in zip(topologies, chains)]),
        every("chain_ids"),
        np.concatenate([t.bonds.reshape(-1, 2) + first for t, first in zip(topologies, atoms)]),
    )
