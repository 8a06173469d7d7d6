"""Small molecules with parameters of GAFF; energies compared with OpenMM's reading of the same files."""

import shutil

import numpy as np
import openmm
import pytest
from openmm import app

from triskele import sponge

Chem = pytest.importorskip("rdkit.Chem")

pytestmark = [pytest.mark.peer, pytest.mark.skipif(shutil.which("antechamber") is None, reason="needs AmberTools")]


@pytest.mark.parametrize(
    "smiles, formula, charge",
    [("CCO", {6: 2, 1: 6, 8: 1}, 0), ("CC(=O)[O-]", {6: 2, 1: 3, 8: 2}, -1), ("c1ccccc1Cl", {6: 6, 1: 5, 17: 1}, 0)],
)
def test_energy_is_that_of_openmm(tmp_path, smiles, formula, charge):
    system = sponge.build.small_molecule(smiles, name="MOL", folder=tmp_path)
    numbers, counts = np.unique(system.topology.elements, return_counts=True)
    assert dict(zip(numbers.tolist(), counts.tolist(), strict=True)) == formula
    assert set(system.topology.residue_names) == {"MOL"}
    nonbonded = next(p for p in system.potentials if isinstance(p, sponge.Nonbonded))
    assert nonbonded.params["charges"].sum() == pytest.approx(charge, abs=5e-3)  # of rounded charges

    top = app.AmberPrmtopFile(str(tmp_path / "MOL.prmtop"))
    crd = app.AmberInpcrdFile(str(tmp_path / "MOL.inpcrd"))
    context = openmm.Context(
        top.createSystem(), openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(crd.positions)
    theirs = context.getState(getEnergy=True).getPotentialEnergy()._value
    assert system.energy() == pytest.approx(theirs, rel=1e-6)


def test_files_of_molecules(tmp_path):
    from rdkit.Chem import AllChem

    m = Chem.AddHs(Chem.MolFromSmiles("CO"))
    AllChem.EmbedMolecule(m, randomSeed=1)
    path = tmp_path / "methanol.sdf"
    path.write_text(Chem.MolToMolBlock(m) + "$$$$\n")
    system = sponge.build.small_molecule(path, charges="gas")
    np.testing.assert_allclose(system.positions, 0.1 * m.GetConformer().GetPositions(), atol=1e-4)
    assert sponge.build.small_molecule(str(path), charges="gas").energy() == system.energy()

    path.write_text(2 * (Chem.MolToMolBlock(m) + "$$$$\n"))
    with pytest.raises(ValueError, match="must hold one molecule, got 2"):
        sponge.build.small_molecule(path)
    path.write_text(Chem.MolToMolBlock(Chem.RemoveHs(m)))
    with pytest.raises(ValueError, match="all hydrogens, 4 are missing"):
        sponge.build.small_molecule(path)
    path.write_text(Chem.MolToMolBlock(Chem.MolFromSmiles("CO")))
    with pytest.raises(ValueError, match="three-dimensional"):
        sponge.build.small_molecule(path)
    path.write_text("no molecule")
    with pytest.raises(ValueError, match="RDKit cannot read"):
        sponge.build.small_molecule(path)


@pytest.mark.parametrize(
    "smiles, message",
    [
        ("CX", "cannot read the SMILES"),
        ("", "cannot read the SMILES"),
        ("[Na+].[Cl-]", "no parameters for Na"),
        ("C.C", "one molecule, got 2"),
        ("[CH3]", "unpaired"),
        ("C[Si](C)(C)C", "no parameters for Si"),
    ],
)
def test_molecules_that_gaff_does_not_have(smiles, message):
    with pytest.raises(ValueError, match=message):
        sponge.build.small_molecule(smiles)


def test_options():
    for option in ({"name": "../x"}, {"name": "LONG"}, {"forcefield": "opls"}, {"charges": "am1"}):
        with pytest.raises(ValueError, match=f"small_molecule: {next(iter(option))} must"):
            sponge.build.small_molecule("C", **option)
