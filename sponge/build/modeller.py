"""Structures to and from OpenMM's Modeller."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np

from triskele.core.extend import optional

from ..forcefield.sources import Source, read_source
from ..load.openmm_objects import topology_of
from ..load.structure import Structure
from ..residues import standard_residue

__all__ = ["from_openmm", "openmm_app", "openmm_field", "seeded", "to_openmm"]


def openmm_app(where):
    """Import ``openmm.app``; `where` begins the error if OpenMM is missing."""
    return optional.need("openmm.app", where, "md")


def openmm_field(forcefield, app):
    """Return OpenMM's force field of these names, paths or ligands."""
    sources = [forcefield] if isinstance(forcefield, (str, Path, Source)) else forcefield
    return app.ForceField(*(io.StringIO(read_source(s).decode()) for s in sources))


class seeded:
    """Seed Python's own random numbers, which OpenMM draws from, and restore their state afterwards."""

    def __init__(self, seed):
        self.seed = seed

    def __enter__(self):
        self.state = random.getstate()
        random.seed(self.seed)

    def __exit__(self, *error):
        random.setstate(self.state)


def to_openmm(structure, app):
    """OpenMM's topology, under its names of standard residues and atoms, and positions."""
    import openmm
    from openmm import unit

    t = structure.topology
    topology = app.Topology()
    chains = [topology.addChain(str(c)) for c in t.chain_ids]
    entries = [standard_residue(str(name)) for name in t.residue_names]
    residues = [
        topology.addResidue(e[0] if e else str(name), chains[c], *_number_and_code(str(number)))
        for name, e, c, number in zip(t.residue_names, entries, t.chain_index, t.residue_ids)
    ]
    atoms = []
    for name, element, r in zip(t.names.tolist(), t.elements.tolist(), t.residue_index.tolist()):
        entry = entries[r]
        known = entry is None or any(name in bond for bond in entry[1])
        atoms.append(
            topology.addAtom(
                name if known else entry[2].get(name, name),
                app.Element.getByAtomicNumber(element) if element else None,
                residues[r],
            )
        )
    for i, j in t.bonds.tolist():
        topology.addBond(atoms[i], atoms[j])
    if structure.box is not None:
        topology.setPeriodicBoxVectors([openmm.Vec3(*row) for row in structure.box] * unit.nanometer)
    return topology, [openmm.Vec3(*row) for row in structure.positions] * unit.nanometer


def _number_and_code(text):
    return (text[:-1], text[-1]) if len(text) > 1 and text[-1].isalpha() else (text, "")


def from_openmm(topology, positions, box):
    """Return OpenMM's topology and positions (a quantity) as a Structure; `box` is (3, 3) in nm, or None."""
    from openmm import unit

    return Structure(topology_of(topology), np.array(positions.value_in_unit(unit.nanometer)), box)
