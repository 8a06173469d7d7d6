"""The virtual sites and Drude particles of a force field's templates, added to a structure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..forcefield.assign import residue_graphs
from ..forcefield.create import as_forcefield
from ..forcefield.drude import drude_particles
from ..forcefield.ffxml import ForceField
from ..forcefield.templates import Graph, Template, match
from ..load.structure import Structure
from ..system import System
from ..topology import Topology

__all__ = ["add_virtual_sites"]


def add_virtual_sites(structure: Structure, forcefield: Any) -> Structure:
    """Add the virtual sites and Drude particles that templates have and the structure lacks, as for crystal waters
    under a four-site model.

    Parameters
    ----------
    structure : Structure
    forcefield : ForceField, str, path or sequence of these names

    Returns
    -------
    Structure
        The new particles follow the atoms of their residue. Drude particles stand at their atoms, sites at the first
        atom of the residue until `create_system` places them.

    Examples
    --------
    >>> from triskele import sponge
    >>> from triskele.sponge.build import add_virtual_sites
    >>> field = ["amber19/protein.ff19SB", "amber14/opc"]
    >>> full = add_virtual_sites(sponge.read_pdb("crystal.pdb"), field)  # doctest: +SKIP
    """
    check.kind(structure, (Structure, System), "add_virtual_sites: structure", hint="read a file with sponge.read_pdb")
    field = as_forcefield(forcefield)
    t = structure.topology
    bare = [_Bare(field, template) for template in field.templates.values()]
    extra: list[list[tuple[str, int]]] = [[] for _ in t.residue_names]  # names, and the atoms where they stand
    starts = np.searchsorted(t.residue_index, np.arange(len(extra)))
    for residues, graph in residue_graphs(t):
        patched = (_Bare(field, template) for template in field.patches.templates(field, graph))
        for candidate in (*(b for b in bare if b.graph.signature == graph.signature), *patched):
            found = candidate.particles(graph)
            if found is not None:
                for r in residues:
                    extra[r] = [(name, int(starts[r]) + atom) for name, atom in found]
                break
    ends = np.searchsorted(t.residue_index, np.arange(len(extra)), side="right")
    at = np.array([ends[r] for r, found in enumerate(extra) for _ in found], np.int64)
    if not len(at):
        return structure
    owner = np.array([r for r, found in enumerate(extra) for _ in found], np.int64)
    places = np.array([place for found in extra for _, place in found], np.int64)
    shift = np.arange(t.n) + np.searchsorted(at, np.arange(t.n), side="right")
    names = np.insert(t.names.astype(object), at, [name for found in extra for name, _ in found]).astype(str)
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
    return replace(
        structure, topology=topology, positions=np.insert(structure.positions, at, structure.positions[places], axis=0)
    )


class _Bare:
    """A template without its virtual sites and Drude particles, and these."""

    def __init__(self, field: ForceField, template: Template):
        owners = {place: others[0] for place, others, _ in drude_particles(field, template)}
        self.extra = [(place, owners.get(place)) for place in sorted({*owners, *(s.index for s in template.sites)})]
        self.template = template
        self.kept = np.setdiff1d(np.arange(len(template.names)), [place for place, _ in self.extra])
        where = np.full(len(template.names), -1)
        where[self.kept] = np.arange(len(self.kept))
        self.graph = Template(
            template.name,
            tuple(template.names[k] for k in self.kept),
            template.elements[self.kept],
            where[template.bonds],
            template.external[self.kept],
        )

    def particles(self, graph: Graph) -> list[tuple[str, int]] | None:
        """Names of the particles that a residue lacks, and the atoms where they stand; None if it is another one."""
        places = match(self.graph, graph)
        if places is None:
            return None
        atom = {int(self.kept[place]): k for k, place in enumerate(places)}
        return [(self.template.names[place], 0 if owner is None else atom[owner]) for place, owner in self.extra]
