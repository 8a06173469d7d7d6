"""OpenMM's objects in memory: its System as the XML that it writes, its Topology as ours."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from typing import Any

import numpy as np

from ..box import as_box
from ..quantities import number_in
from ..system import System
from ..topology import Topology
from .openmm_xml import load_openmm

__all__ = ["load_objects", "topology_of"]


def load_objects(
    system: Any, topology: Any = None, positions: Any = None, velocities: Any = None, box: Any = None
) -> System:
    """Take an ``openmm.System`` with what belongs to it: a topology of OpenMM or ours, and quantities or numbers."""
    from openmm import XmlSerializer

    if topology is not None and not isinstance(topology, Topology):
        topology = topology_of(topology)
    nm, speed = (
        None if values is None else np.asarray(number_in(unit, values, f"load: {name}"), np.float64)
        for name, unit, values in (("positions", "nm", positions), ("velocities", "nm/ps", velocities))
    )
    box = None if box is None else as_box(box, "load: box")
    root = ET.fromstring(XmlSerializer.serialize(system))
    return load_openmm("openmm.System", topology, nm, speed, box, root=root)


def topology_of(topology: Any) -> Topology:
    """Return a topology of ``openmm.app`` as ours."""
    atoms, residues = list(topology.atoms()), list(topology.residues())
    return Topology(
        np.array([a.name for a in atoms], str),
        np.array([a.element.atomic_number if a.element else 0 for a in atoms], int),
        np.array([a.residue.index for a in atoms], int),
        np.array([r.name for r in residues], str),
        np.array([f"{r.id}{r.insertionCode.strip()}" for r in residues], str),
        np.array([r.chain.index for r in residues], int),
        np.array([c.id for c in topology.chains()], str),
        np.array([(b[0].index, b[1].index) for b in topology.bonds()], int),
    )
