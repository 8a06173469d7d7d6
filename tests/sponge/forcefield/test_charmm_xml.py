"""Patches, custom terms and CHARMM36 in OpenMM's XML, against OpenMM's own ForceField."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import FileFormatError

mm = pytest.importorskip("openmm")
app = pytest.importorskip("openmm.app")

from tests.sponge.differential.compare import evaluate  # noqa: E402

DATA = Path(app.__file__).parent / "data"
FIELD = """<ForceField>
 <AtomTypes>
  <Type name="C" class="C" element="C" mass="12.0"/><Type name="H" class="H" element="H" mass="1.0"/>
  <Type name="O" class="O" element="O" mass="16.0"/>
 </AtomTypes>
 <Residues>
  <Residue name="ONE">
   <Atom name="C1" type="C" charge="0.2"/><Atom name="H1" type="H" charge="-0.2"/><Bond atomName1="C1" atomName2="H1"/>
   <ExternalBond atomName="C1"/><AllowPatch name="END"/>
  </Residue>
 </Residues>
 <Patches>
  <Patch name="END">
   <ChangeAtom name="C1" type="C" charge="0.1"/><AddAtom name="O1" type="O" charge="0.1"/>
   <AddBond atomName1="C1" atomName2="O1"/><ApplyToResidue name="TWO"/>
  </Patch>
 </Patches>
 <CustomBondForce energy="scale*k*(r-r0)^4"><GlobalParameter name="scale" defaultValue="2.5"/>
  <PerBondParameter name="r0"/><PerBondParameter name="k"/>
  <Bond class1="C" class2="H" r0="0.1" k="9"/><Bond class1="C" class2="C" r0="0.15" k="8"/>
  <Bond class1="C" class2="O" r0="0.12" k="7"/>
 </CustomBondForce>
 <CustomAngleForce energy="k*(1-cos(theta))"><PerAngleParameter name="k"/><Angle class1="" class2="C" class3="" k="3"/>
 </CustomAngleForce>
 <AmoebaUreyBradleyForce><UreyBradley class1="H" class2="C" class3="C" d="0.2" k="50"/></AmoebaUreyBradleyForce>
 <CustomTorsionForce energy="k*(theta-t0)^2"><PerTorsionParameter name="k"/><PerTorsionParameter name="t0"/>
  <Proper class1="" class2="C" class3="C" class4="" k="2" t0="0.3"/>
  <Improper class1="C" class2="" class3="" class4="" k="1.5" t0="0.1"/>
 </CustomTorsionForce>
 <NonbondedForce coulomb14scale="1.0" lj14scale="1.0"><UseAttributeFromResidue name="charge"/>
  <Atom class="C" sigma="0.3" epsilon="0.4"/><Atom class="H" sigma="0.1" epsilon="0.1"/>
  <Atom class="O" sigma="0.25" epsilon="0.3"/>
 </NonbondedForce>
</ForceField>
"""


def assert_same(topology, positions, files, rtol=1e-10):
    theirs = app.ForceField(*map(str, files)).createSystem(
        topology, nonbondedMethod=app.NoCutoff, rigidWater=False, removeCMMotion=False
    )
    x = np.array(positions.value_in_unit(mm.unit.nanometer))
    found = evaluate(theirs, x)
    atoms = list(topology.atoms())
    residues = list(topology.residues())
    ours = sponge.create_system(
        sponge.Topology(
            np.array([a.name for a in atoms]),
            np.array([a.element.atomic_number for a in atoms]),
            np.array([a.residue.index for a in atoms]),
            np.array([r.name for r in residues]),
            np.array([r.id for r in residues]),
            np.zeros(len(residues), int),
            ["A"],
            np.array([[b[0].index, b[1].index] for b in topology.bonds()]),
        ),
        forcefield=sponge.ForceField(*files),
        positions=x,
        method="none",
        rigid_water=False,
    )
    size = sum(map(abs, found.energies.values()))
    assert ours.energy(x) == pytest.approx(sum(found.energies.values()), abs=rtol * size)
    np.testing.assert_allclose(ours.forces(x), found.forces, rtol=0, atol=rtol * np.abs(found.forces).max())


def test_patched_residues_and_custom_terms(tmp_path):
    (tmp_path / "field.xml").write_text(FIELD)
    topology = app.Topology()
    chain, atoms = topology.addChain(), {}
    for name, inside in (("ONE", "C1 H1"), ("ONE", "C1 H1 O1")):
        residue = topology.addResidue(name, chain)
        for atom in inside.split():
            atoms[residue.index, atom] = topology.addAtom(atom, app.Element.getBySymbol(atom[0]), residue)
            if atom != "C1":
                topology.addBond(atoms[residue.index, "C1"], atoms[residue.index, atom])
    topology.addBond(atoms[0, "C1"], atoms[1, "C1"])
    x = np.array([[0, 0, 0], [0.1, 0.02, 0], [0, 0.15, 0.01], [0.08, 0.2, 0.05], [-0.09, 0.2, 0.06]])
    assert_same(topology, x * mm.unit.nanometer, [tmp_path / "field.xml"])


def test_scripts_are_refused_unless_they_say_a_version(tmp_path):
    script = FIELD.replace("</ForceField>", "<InitializationScript>import os</InitializationScript></ForceField>")
    (tmp_path / "field.xml").write_text(script)
    with pytest.raises(FileFormatError, match="InitializationScript.*Python code is not run here"):
        sponge.ForceField(tmp_path / "field.xml")


def test_files_that_are_refused():
    with pytest.raises(FileFormatError, match="<Script> cannot be read.*none of the scripts that are known"):
        sponge.ForceField(DATA / "charmm_polar_2013.xml")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["test", "POPC", "DPPC"])
def test_charmm36(name):
    pdb = app.PDBFile(str(DATA / f"{name}.pdb"))
    model = app.Modeller(pdb.topology, pdb.positions)
    files = [DATA / "charmm36.xml", DATA / "charmm36/water.xml"]
    model.deleteWater()
    if name == "test":
        model.addHydrogens(app.ForceField(*map(str, files)), platform=mm.Platform.getPlatformByName("Reference"))
    assert_same(model.topology, model.positions, files)
