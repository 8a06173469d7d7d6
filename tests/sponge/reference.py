"""Reference systems of tests/data/sponge: what another program computed for them (its README says how)."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

DATA = Path(__file__).resolve().parents[1] / "data" / "sponge"
NAMES = sorted(str(path.parent.relative_to(DATA)) for path in DATA.rglob("ref.json"))


@dataclass(frozen=True)
class Reference:
    """One folder of tests/data/sponge."""

    name: str
    folder: Path
    positions: np.ndarray  # [n, 3] nm
    box: np.ndarray | None  # [3, 3] nm, rows are the vectors
    energies: dict  # kJ/mol, by term
    forces: dict  # kJ/mol/nm [n, 3]: "total" in float64, single terms in float32
    settings: dict  # of the nonbonded force: cutoff_nm, alpha_per_nm, grid, ...

    @property
    def xml(self):
        """The system as OpenMM wrote it."""
        return self.folder / "system.xml.gz"


def load_reference(name):
    """Read the reference system of this name, such as ``"ala2_vacuum"`` or ``"openmmtools/Diatom"``."""
    folder = DATA / name
    text = json.loads((folder / "ref.json").read_text())
    with np.load(folder / "ref.npz") as file:
        arrays = dict(file)
    positions, box = arrays.pop("positions"), arrays.pop("box", None)
    return Reference(name, folder, positions, box, text["energies_kJ_per_mol"], arrays, text.get("nonbonded", {}))


def unpacked(path, folder):
    """A gzipped data file, written out into `folder` (tmp_path) without its .gz."""
    target = Path(folder) / Path(path).name.removesuffix(".gz")
    target.write_bytes(gzip.decompress((DATA / path).read_bytes()))
    return target


def pure_energies(system):
    """Energies of all terms by their definitions."""
    return {p.name: float(p.energy(p.params, system.positions, system.box)) for p in system.potentials}


def openmm_energies(omm_system, positions, box=None):
    """Energies of all forces by name, from OpenMM's reference platform."""
    mm = pytest.importorskip("openmm")
    for k, force in enumerate(omm_system.getForces()):
        force.setForceGroup(k)
    if box is not None:
        omm_system.setDefaultPeriodicBoxVectors(*box)
    context = mm.Context(omm_system, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    names = [force.getName() for force in omm_system.getForces()]
    found: dict = {}
    for k, name in enumerate(names):
        found[name] = found.get(name, 0.0) + context.getState(getEnergy=True, groups=1 << k).getPotentialEnergy()._value
    return found
