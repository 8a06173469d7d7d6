"""Sections of a force field whose terms are found among all atoms: custom forces between particles.

Each becomes the force that OpenMM's ForceField makes of it, as the XML of a System has it, and is read as such.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Iterable
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import FileFormatError
from ..load.openmm_terms import OpenMMTerms
from ..load.openmm_xml import read_force
from ..topology import Topology, graph_distances
from .assign import Assignment
from .atom_values import AtomSection
from .ffxml import ForceField
from .nonbonded import columns
from .topology_terms import bonded_angles, neighbor_lists

__all__ = ["add_atom_sections"]

_KINDS = {"SingleParticle": "0", "ParticlePair": "1", "ParticlePairNoExclusions": "2"}
_MODES = {"SinglePermutation": "0", "UniqueCentralParticle": "1"}


def add_atom_sections(
    system: Any, field: ForceField, assignment: Assignment, graph: np.ndarray, cutoff: float | None
) -> None:
    """Add the forces of all such sections to a system, with `cutoff` in nm, or None for all pairs.

    Exclusions are counted by the bonds `graph` (m, 2), which are those of the topology and of virtual sites.
    """
    terms = OpenMMTerms("create_system", system.n, read_force)
    terms.exclude("the NonbondedForce", system.exclusions)
    for section in field.sections_of_atoms:
        force = _force(section.element, system, cutoff)
        match section.element.tag:
            case "CustomNonbondedForce":
                _pairs(force, section, graph, system.n)
            case "CustomGBForce":
                _born(force, section)
            case "CustomManyParticleForce":
                _sets(force, section, graph, system.n)
            case _:
                _hydrogen_bonds(force, section, field, assignment, system.topology)
        if section.parameters:
            _particles(force, section, columns(section.atoms, section.parameters, field, assignment))
        elif section.element.tag != "CustomHbondForce":
            _append(force, "Particles", ({} for _ in range(system.n)))
        read_force(terms, force, "create_system")
    terms.add_to(system)


def _force(section: ET.Element, system: Any, cutoff: float | None) -> ET.Element:
    """The force with what all such forces have: the method, global parameters and functions."""
    method = "0" if cutoff is None else "1" if system.box is None else "2"
    force = ET.Element("Force", type=section.tag, method=method, cutoff=repr(cutoff or 1.0))
    if "energy" in section.attrib:
        force.set("energy", section.attrib["energy"])
    _append(
        force,
        "GlobalParameters",
        ({"name": e.attrib["name"], "default": e.attrib["defaultValue"]} for e in section.iterfind("GlobalParameter")),
    )
    for per in ("Particle", "Donor", "Acceptor"):
        names = [{"name": e.attrib["name"]} for e in section.iterfind(f"Per{per}Parameter")]
        if names:
            _append(force, f"Per{per}Parameters", names)
    functions = ET.SubElement(force, "Functions")
    for e in section.iterfind("Function"):
        given = {k: v for k, v in e.attrib.items() if k != "type"}
        given["periodic"] = str(int(e.get("periodic", "false").lower() in ("true", "yes", "1")))
        function = ET.SubElement(functions, "Function", given, type=f"{e.get('type', 'Continuous1D')}Function")
        _append(function, "Values", ({"v": v} for v in (e.text or "").split()))
    return force


def _append(parent: ET.Element, tag: str, rows: Iterable[dict[str, str]]) -> None:
    section = ET.SubElement(parent, tag)
    for row in rows:
        ET.SubElement(section, tag[:-1], row)


def _particles(force: ET.Element, section: AtomSection, values: dict[str, np.ndarray]) -> None:
    kinds = values.pop("filterType", np.empty(0))
    n = len(next(iter(values.values()), kinds))
    rows = [{f"param{k + 1}": repr(float(v[i])) for k, v in enumerate(values.values())} for i in range(n)]
    rows = [row | {"type": str(int(kind))} for row, kind in zip(rows, kinds)] if len(kinds) else rows
    _append(force, "Particles", rows)


def _within(bonds: np.ndarray, n: int, section: AtomSection) -> np.ndarray:
    """Pairs of atoms that are no further apart than the bonds of the section's cut-off."""
    apart = graph_distances(bonds, n, int(section.element.attrib["bondCutoff"]))
    return np.concatenate([np.empty((0, 2), np.int32), *apart])


def _excluded(force: ET.Element, pairs: np.ndarray) -> None:
    _append(force, "Exclusions", ({"p1": str(i), "p2": str(j)} for i, j in pairs.tolist()))


def _pairs(force: ET.Element, section: AtomSection, graph: np.ndarray, n: int) -> None:
    _append(force, "ComputedValues", (dict(e.attrib) for e in section.element.iterfind("ComputedValue")))
    _excluded(force, _within(graph, n, section))


def _born(force: ET.Element, section: AtomSection) -> None:
    for tag in ("ComputedValue", "EnergyTerm"):
        _append(
            force,
            f"{tag}s",
            (
                {"expression": e.text or "", "type": _KINDS[e.attrib["type"]]}
                | {k: v for k, v in e.attrib.items() if k == "name"}
                for e in section.element.iterfind(tag)
            ),
        )


def _sets(force: ET.Element, section: AtomSection, graph: np.ndarray, n: int) -> None:
    mode = check.choice(
        section.element.attrib["permutationMode"],
        _MODES,
        "permutationMode of <CustomManyParticleForce>",
        error=FileFormatError,
    )
    force.set("particlesPerSet", section.element.attrib["particlesPerSet"])
    force.set("permutationMode", _MODES[mode])
    _append(force, "TypeFilters", (dict(e.attrib) for e in section.element.iterfind("TypeFilter")))
    _excluded(force, _within(graph, n, section))


def _hydrogen_bonds(
    force: ET.Element, section: AtomSection, field: ForceField, assignment: Assignment, topology: Topology
) -> None:
    element = section.element
    starts, near = neighbor_lists(topology.bonds, topology.n)
    candidates = {1: np.arange(topology.n)[:, None], 2: topology.bonds.astype(np.int64), 3: bonded_angles(starts, near)}
    found = {}
    for tag in ("Donor", "Acceptor"):
        size = check.choice(
            int(element.attrib[f"particlesPer{tag}"]),
            candidates,
            f"particlesPer{tag} of <CustomHbondForce>",
            error=FileFormatError,
        )
        names = [e.attrib["name"] for e in element.iterfind(f"Per{tag}Parameter")]
        entries = [
            (keys, [e.attrib[name] for name in names])
            for e in element.iterfind(tag)
            if (keys := field.keys(e, size, numbered=True)) is not None
        ]
        found[tag] = [
            (atoms, values)
            for row in candidates[size].tolist()
            for keys, values in entries
            if (atoms := _fitting(row, keys, assignment))
        ]
        _append(
            force,
            f"{tag}s",
            (
                {f"p{k + 1}": str(a) for k, a in enumerate([*atoms, -1, -1][:3])}
                | {f"param{k + 1}": v for k, v in enumerate(values)}
                for atoms, values in found[tag]
            ),
        )
    close = _within(topology.bonds, topology.n, section)
    near_of = {i: {i} for i in range(topology.n)}
    for i, j in close.tolist():
        near_of[i].add(j)
        near_of[j].add(i)
    reach = [set().union(*(near_of[a] for a in atoms)) for atoms, _ in found["Donor"]]
    _append(
        force,
        "Exclusions",
        (
            {"donor": str(d), "acceptor": str(a)}
            for d, atoms_near in enumerate(reach)
            for a, (atoms, _) in enumerate(found["Acceptor"])
            if atoms_near.intersection(atoms)
        ),
    )


def _fitting(atoms: list[int], keys: tuple, assignment: Assignment) -> list[int] | None:
    """The atoms in the order in which the keys fit them; of angles either, as they are. None if neither fits."""
    types = [assignment.types[assignment.atom_type[a]] for a in atoms]
    if all(key in t.keys for key, t in zip(keys, types)):
        return atoms
    if all(key in t.keys for key, t in zip(keys, types[::-1])):
        return atoms[::-1] if len(atoms) == 2 else atoms
    return None
