"""All molecules of FreeSolv against OpenFF's toolkit and Interchange, where these are installed."""

import importlib.util
import logging

import numpy as np
import pytest

from tests.sponge.build.openff import difference, energy, ours, theirs, unpacked, with_charges
from tests.sponge.reference import DATA
from triskele import sponge

pytest.importorskip("rdkit.Chem")
pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(
        importlib.util.find_spec("openff") is None, reason="needs openff-toolkit and openff-interchange"
    ),
]

SMILES = (DATA / "openff" / "freesolv.smi").read_text().split()


@pytest.mark.parametrize("name", ["openff-2.2.1", "openff_unconstrained-2.2.1"])
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(8))
def test_parameters_and_energies_are_those_of_openff(name, part, tmp_path):
    from openff.toolkit import ForceField, Molecule
    from openff.units import Quantity

    logging.disable(logging.WARNING)
    forcefield = ForceField(unpacked(name, tmp_path))
    for smiles in SMILES[part::8]:
        m, charges = with_charges(smiles)
        ligand = sponge.build.ligand(m, name, charges=charges)
        molecule = Molecule.from_rdkit(m, allow_undefined_stereo=True)
        assert difference(ours(ligand), theirs(forcefield, molecule)) < 1e-14, smiles
        molecule.partial_charges = Quantity(np.array(charges), "elementary_charge")
        positions = ligand.structure.positions
        expected = energy(forcefield, molecule, positions)
        found = sponge.create_system(ligand.structure, ligand).energy()
        assert found == pytest.approx(expected, rel=1e-8, abs=1e-6), smiles
