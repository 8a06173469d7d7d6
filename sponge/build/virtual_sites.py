"""The virtual sites of a force field's templates, added to a structure."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..forcefield.assign import residue_graphs
from ..forcefield.create import as_forcefield
from ..forcefield.templates import Template, match
from ..load.structure import Structure
from ..topology import Topology

__all__ = ["add_virtual_sites"]


def add_virtual_sites(structure: Structure, forcefield: Any) -> Structure:
    """Add the virtual sites that templates have and the structure lacks, as for crystal waters under a four-site model.

    Parameters
    ----------
    structure : Structure
    forcefield : ForceField, str, path or sequence of these names

    Returns
    -------
    Structure
        Sites follow the atoms of their residue; they stand at its first atom until `create_system` places them.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.build import add_virtual_sites
    >>> field = ["amber19/protein.ff19SB", "amber14/opc"]
    >>> full = add_virtual_sites(sponge.read_pdb("crystal.pdb"), field)  # doctest: +SKIP
    """
    field = as_forcefield(forcefield)
    t = structure.topology
    bare: dict[Any, list] = {}
    for template in field.templates.values():
        if template.sites:
            atoms = ~np.isin(np.arange(len(template.names)), [site.index for site in template.sites])
            where = np.cumsum(atoms) - 1
            graph = Template(
                template.name,
                tuple(np.array(template.names)[atoms].tolist()),
                template.elements[atoms],
                where[template.bonds],
                template.external[atoms],
            )
            bare.setdefault(graph.signature, []).append((graph, np.array(template.names)[~atoms].tolist()))
    extra: list[tuple[str, ...] | list[str]] = [()] * len(t.residue_names)
    for residues, graph in residue_graphs(t):
        found = next((names for other, names in bare.get(graph.signature, ()) if match(other, graph) is not None), ())
        for r in residues if found else ():
            extra[r] = found
    ends = np.searchsorted(t.residue_index, np.arange(len(extra)), side="right")
    at = np.array([ends[r] for r, names in enumerate(extra) for _ in names], np.int64)
    owner = np.array([r for r, names in enumerate(extra) for _ in names], np.int64)
    if not len(at):
        return structure
    first = np.searchsorted(t.residue_index, owner)
    shift = np.arange(t.n) + np.searchsorted(at, np.arange(t.n), side="right")
    names = np.insert(t.names.astype(object), at, [name for names in extra for name in names]).astype(str)
    topology = Topology(
        names,
        np.insert(t.elements, at, 0),
        np.insert(t.residue_index, at, owner),
        t.residue_names,
        t.residue_ids,
        t.chain_index,
        t.chain_ids,
        shift[t.bonds],
    )
    return Structure(topology, np.insert(structure.positions, at, structure.positions[first], axis=0), structure.box)
