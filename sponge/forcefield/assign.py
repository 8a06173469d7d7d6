"""Assignment of templates to residues, and of types to atoms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..errors import MissingTemplateError
from ..topology import Topology
from .diagnose import describe, explain
from .ffxml import AtomType, ForceField
from .templates import Graph, Template, match

__all__ = ["Assignment", "assign_templates", "residue_graphs"]


@dataclass(eq=False)
class Assignment:
    """Templates of residues, and what follows for the atoms."""

    template_atom: np.ndarray  # int [n], place in the template
    types: list[AtomType]  # those in use
    atom_type: np.ndarray  # int [n]
    # residues of one template: atoms int [count, size] in the template's order
    groups: list[tuple[Template, np.ndarray]]


def assign_templates(topology: Topology, forcefield: ForceField) -> Assignment:
    """Find the template of each residue by elements and bonds; names decide between templates that both fit.

    A residue that no template fits, or several with different parameters, raises MissingTemplateError.
    """
    if np.any(np.diff(topology.residue_index) < 0):
        raise ValueError("create_system: atoms of a residue must follow each other, got a topology with mixed residues")
    kinds = residue_graphs(topology)
    by_signature: dict[tuple, list[Template]] = {}
    for template in forcefield.templates.values():
        by_signature.setdefault(template.signature, []).append(template)

    starts = np.searchsorted(topology.residue_index, np.arange(len(topology.residue_names) + 1))
    types: dict[str, int] = {}
    template_atom = np.empty(topology.n, np.int64)
    atom_type = np.empty(topology.n, np.int64)
    groups, missing = [], []
    for residues, graph in kinds:
        found = _choose(graph, by_signature.get(graph.signature, ()), residues[0], topology, forcefield)
        if found is None and forcefield.patches.steps:
            patched = list(forcefield.patches.templates(forcefield, graph))
            found = _choose(graph, patched, residues[0], topology, forcefield)
        if found is None:
            missing.append((residues, graph))
            continue
        template, places = found
        atoms = starts[residues][:, None] + np.arange(len(graph.names))
        template_atom[atoms] = places
        atom_type[atoms] = np.array([types.setdefault(t, len(types)) for t in template.types], np.int64)[places]
        groups.append((template, atoms[:, np.argsort(places)]))
    if missing:
        raise MissingTemplateError(explain(topology, missing, forcefield))
    return Assignment(template_atom, [forcefield.types[t] for t in types], atom_type, groups)


def _choose(graph, candidates, residue, topology, field):
    """The template that fits and its atoms; None if none does."""
    found = [(template, places) for template in candidates if (places := match(template, graph)) is not None]
    names = [graph.name, *(end + graph.name for end in "NC" if {graph.name, end + graph.name} <= field.named_first)]
    named = sorted((f for f in found if f[0].name in names), key=lambda f: names.index(f[0].name))
    if found and not named and any(not _same(found[0], other, field) for other in found[1:]):
        raise MissingTemplateError(
            f"create_system: a residue must fit one template, got {', '.join(t.name for t, _ in found)} for "
            f"{describe(topology, residue)}, which differ in their parameters (call the residue by the name of the one "
            f"that is meant)"
        )
    return next(iter(named or found), None)


def _same(a, b, field):
    """Return True if two matches give all atoms the same types and parameters.

    The parts of one patch, such as the two sides of a disulfide, may have types of different names.
    """
    (ta, pa), (tb, pb) = a, b
    parts = ta.name == tb.name and [[p.partition(":")[0] for p in t.patches] for t in (ta, tb)]
    alike = parts and parts[0] == parts[1]

    def same(one, other):
        return one == other or (
            alike and not field.typed & {one, other} and replace(field.types[one], name=other) == field.types[other]
        )

    return (
        all(same(ta.types[i], tb.types[j]) and ta.attributes[i] == tb.attributes[j] for i, j in zip(pa, pb))
        and len(ta.sites) == len(tb.sites)
        and len(ta.constraints) == len(tb.constraints)
    )


def residue_graphs(topology) -> list[tuple[np.ndarray, Graph]]:
    """Residues that are alike in names, elements and bonds, in the order of the first of each kind, with their
    graph.
    """
    residues = len(topology.residue_names)
    starts = np.searchsorted(topology.residue_index, np.arange(residues + 1))
    sizes = np.diff(starts)
    bonds = np.unique(np.sort(topology.bonds, axis=1), axis=0) if len(topology.bonds) else topology.bonds
    side = topology.residue_index[bonds]
    inner = side[:, 0] == side[:, 1]
    external = np.bincount(bonds[~inner].ravel(), minlength=topology.n)
    owner, bonds = side[inner, 0], bonds[inner]
    bonds, owner = bonds[np.argsort(owner, kind="stable")], np.sort(owner)
    bond_starts = np.searchsorted(owner, np.arange(residues + 1))
    local = bonds - starts[owner][:, None]
    name = np.unique(topology.names, return_inverse=True)[1]
    kind = np.unique(topology.residue_names, return_inverse=True)[1]

    shape = sizes * (local.size + 1) + np.diff(bond_starts)
    found = []
    for s in np.unique(shape[sizes > 0]):
        rows = np.flatnonzero((shape == s) & (sizes > 0))
        atoms = starts[rows][:, None] + np.arange(sizes[rows[0]])
        pairs = bond_starts[rows][:, None] + np.arange(bond_starts[rows[0] + 1] - bond_starts[rows[0]])
        key = np.concatenate(
            [
                kind[rows][:, None],
                name[atoms],
                topology.elements[atoms],
                external[atoms],
                local[pairs].reshape(len(rows), -1),
            ],
            axis=1,
        )
        _, first, inverse = np.unique(key, axis=0, return_index=True, return_inverse=True)
        members = np.split(np.argsort(inverse, kind="stable"), np.cumsum(np.bincount(inverse))[:-1])
        for k, m in zip(first, members):
            graph = Graph(
                str(topology.residue_names[rows[k]]),
                tuple(topology.names[atoms[k]].tolist()),
                topology.elements[atoms[k]].astype(np.int64),
                local[pairs[k]].astype(np.int64),
                external[atoms[k]],
            )
            found.append((rows[m], graph))
    return sorted(found, key=lambda entry: entry[0][0])
