"""Why a residue fits no template: the nearest one, and what differs."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..elements import SYMBOLS
from ..residues import standard_residue
from .templates import Graph

__all__ = ["describe", "explain"]


def describe(topology, residue: int) -> str:
    """A residue as errors name it."""
    chain = topology.chain_ids[topology.chain_index[residue]]
    return f"residue {topology.residue_ids[residue]} {topology.residue_names[residue]} (chain {chain or '-'})"


def explain(topology, missing: list[tuple[np.ndarray, Graph]], forcefield) -> str:
    """Message for residues without a template, given as (numbers of like residues, their graph), the first kind
    first.
    """
    # what the force field does not know may be what keeps a neighbor from fitting
    missing = sorted(missing, key=lambda kind: _is_known(kind[1], forcefield))
    (residue, *_), graph = missing[0]
    head = f"create_system: no template for {describe(topology, residue)}"
    if not forcefield.templates:
        return f"{head}: the force field ({', '.join(forcefield.names)}) has no residue templates at all"
    whole = [t for t in forcefield.templates.values() if _is_part(graph, t)]  # of a side chain that was cut short
    nearest = min(whole or forcefield.templates.values(), key=lambda t: _distance(t, graph))
    differences = [d for d in (_atoms(nearest, graph), _bonds(nearest, graph), _external(nearest, graph)) if d]
    if not differences:
        differences = ["the same atoms and numbers of bonds, bound in another order"]
    hint = _hint(graph, nearest, forcefield)
    return (
        f"{head}: the nearest is {nearest.name}; the residue has {'; '.join(differences)} "
        f"({hint}){_others(topology, missing)}"
    )


def _is_known(graph, forcefield):
    """Return True if the force field, or the table of standard residues, has the residue's name."""
    return any(t.name[-3:] == graph.name[-3:] for t in forcefield.templates.values()) or bool(
        standard_residue(graph.name)
    )


def _is_part(graph, template):
    """Return True if the heavy atoms of a residue, OXT apart, are some of those of a template of its name."""
    heavy = [{name for name, e in zip(g.names, g.elements) if e > 1 and name != "OXT"} for g in (graph, template)]
    return template.name[-3:] == graph.name[-3:] and heavy[0] < heavy[1]


def _others(topology, missing):
    """The other residues without a template, by number."""
    rest = np.sort(np.concatenate([residues for residues, _ in missing])[1:])
    if not len(rest):
        return ""
    listed = ", ".join(f"{topology.residue_ids[r]} {topology.residue_names[r]}" for r in rest[:5])
    return f"; {len(rest)} more have none: {listed}{', ...' if len(rest) > 5 else ''}"


def _counts(graph):
    return Counter(graph.elements.tolist())


def _bond_kinds(graph):
    return Counter(tuple(sorted(b)) for b in graph.elements[graph.bonds].tolist())


def _distance(template, graph):
    """Return a sort key for the distance of a template from a residue: heavy atoms and external bonds count most."""
    atoms = _difference(_counts(template), _counts(graph))
    heavy = sum(abs(n) for e, n in atoms.items() if e > 1)
    names = len(set(template.names) ^ set(graph.names))
    bonds = sum(abs(n) for n in _difference(_bond_kinds(template), _bond_kinds(graph)).values())
    ends = [Counter({n: int(e) for n, e in zip(g.names, g.external) if e}) for g in (template, graph)]
    if all(name in template.names for name in ends[1]):
        links = sum(abs(n) for n in _difference(*ends).values())
    else:
        links = abs(int(template.external.sum() - graph.external.sum()))
    same = template.name[-3:] == graph.name[-3:]  # NALA and CALA are ALA
    return (
        heavy + links + (0 if same else 2),
        sum(abs(n) for n in atoms.values()),
        names,
        bonds,
        template.name != graph.name,
    )


def _difference(wanted, got):
    return {k: got[k] - wanted[k] for k in {**wanted, **got} if got[k] != wanted[k]}


def _amount(n, what, names):
    listed = f" ({', '.join(names)})" if names and len(names) <= 6 else ""
    what += "s" if what == "virtual site" and abs(n) > 1 else ""
    return f"{abs(n)} {what} {'too many' if n > 0 else 'too few'}{listed}"


def _atoms(template, graph):
    parts = []
    for element, n in sorted(_difference(_counts(template), _counts(graph)).items(), reverse=True):
        side, other = (graph, template) if n > 0 else (template, graph)
        names = [name for name, e in zip(side.names, side.elements) if e == element and name not in other.names]
        parts.append(_amount(n, SYMBOLS[element] or "virtual site", names if len(names) == abs(n) else []))
    return ", ".join(parts)


def _bonds(template, graph):
    shared = set(template.names) & set(graph.names)
    named = [{tuple(sorted((g.names[i], g.names[j]))) for i, j in g.bonds.tolist()} for g in (template, graph)]
    within = [{b for b in side if set(b) <= shared} for side in named]
    parts = []
    if len(shared) > 1 and len(shared) >= 0.5 * len(graph.names):
        for verb, bonds in (("lacks bond", within[0] - within[1]), ("has extra bond", within[1] - within[0])):
            if bonds:
                listed = sorted("-".join(b) for b in bonds)
                more = f" and {len(listed) - 6} more" if len(listed) > 6 else ""
                parts.append(f"{verb}{'s' if len(listed) > 1 else ''} {', '.join(listed[:6])}{more}")
    if not parts and len(template.bonds) != len(graph.bonds) and not _difference(_counts(template), _counts(graph)):
        parts.append(f"{len(graph.bonds)} bonds instead of {len(template.bonds)}")
    if not parts and not len(graph.bonds) and len(graph.names) > 1:
        parts.append("no bonds")
    return ", ".join(parts)


def _external(template, graph):
    wanted, got = int(template.external.sum()), int(graph.external.sum())
    if wanted == got:
        return ""
    at = ", ".join(n for n, e in zip(graph.names, graph.external) if e) or "none"
    should = ", ".join(n for n, e in zip(template.names, template.external) if e) or "none"
    return f"{got} bond{'s' if got != 1 else ''} to other residues (at {at}) instead of {wanted} (at {should})"


def _hint(graph, nearest, forcefield):
    """Return advice for the most likely cause."""
    difference = _difference(_counts(nearest), _counts(graph))
    known = _is_known(graph, forcefield)
    heavy = {e: n for e, n in difference.items() if e > 1}
    if not known and graph.name == "MSE":
        return "make it MET with sponge.build.add_hydrogens(..., replace_nonstandard=True), or load its parameters"
    if not known and _loose(graph):
        return (
            "the file gives no bonds for it: PDB files need CONECT records; then load its parameters, "
            "forcefield=[..., 'residue.xml']"
        )
    if not known:
        return "load its parameters: forcefield=[..., 'residue.xml'], or take the residue out"
    if set(difference) == {0} and difference[0] < 0:
        return "the model has virtual sites: add them with sponge.build.add_virtual_sites"
    if set(difference) == {0}:
        return "the force field's model has no such sites: load another, or take them out of the file"
    if 1 not in graph.elements and difference.get(1, 0) < 0 and not any(n < 0 for n in heavy.values()):
        return "it has no hydrogens: add them with sponge.build.add_hydrogens"
    if any(n < 0 for n in heavy.values()):
        return "atoms are missing in the file: complete it with sponge.build.add_hydrogens(..., missing_atoms=True)"
    if not difference and int(graph.external.sum()) < int(nearest.external.sum()):
        return (
            "the chain ends or has a gap here, or the partner is beyond 0.25 nm: fill the gap, or end the chain with "
            "OXT, as sponge.build.add_hydrogens(..., missing_atoms=True) does, or with a cap"
        )
    if not difference and int(graph.external.sum()) > int(nearest.external.sum()):
        return "it is bound to more residues than the force field knows: see CONECT records and disulfides"
    if set(difference) == {1}:
        return "hydrogens do not fit: place them again with sponge.build.add_hydrogens"
    return "is the right force field loaded, and is the residue complete?"


def _loose(graph):
    """Return True if some atom has no bond."""
    return len(graph.names) > 1 and len(set(graph.bonds.ravel().tolist())) < int(np.sum(graph.elements > 0))
