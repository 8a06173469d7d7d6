"""Scripts of OpenMM's force-field files: rules of ours in their place, against OpenMM, which runs them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import FileFormatError, MissingParameterError

mm = pytest.importorskip("openmm")
app = pytest.importorskip("openmm.app")

from tests.sponge.differential.compare import differences  # noqa: E402
from tests.sponge.differential.forcefields import random_positions  # noqa: E402

DATA = Path(app.__file__).parent / "data"
FILES = ["amber14/GLYCAM_06j-1.xml", "amber19/lipid21.xml", "charmm36_2024.xml", "charmm_polar_2023.xml"]
# a residue of four atoms and a patch; types are called as in CHARMM's files
FIELD = """<ForceField>
 <AtomTypes>
  <Type name="ONE-C1" class="C" element="C" mass="12.0"/><Type name="ONE-O1" class="O" element="O" mass="16.0"/>
  <Type name="ONE-H1" class="H" element="H" mass="1.0"/><Type name="END-N1" class="N" element="N" mass="14.0"/>
 </AtomTypes>
 <Residues>
  <Residue name="ONE">
   <Atom name="C1" type="ONE-C1" charge="0.2"/><Atom name="O1" type="ONE-O1" charge="-0.4"/>
   <Atom name="H1" type="ONE-H1" charge="0.2"/>
   <Bond atomName1="C1" atomName2="O1"/><Bond atomName1="C1" atomName2="H1"/><ExternalBond atomName="C1"/>
   <AllowPatch name="END_0"/>
  </Residue>
 </Residues>
 <Patches><Patch name="END_0">
  <AddAtom name="N1" type="END-N1" charge="0.1"/><AddBond atomName1="O1" atomName2="N1"/>
 </Patch></Patches>
 <NonbondedForce coulomb14scale="1.0" lj14scale="1.0"><UseAttributeFromResidue name="charge"/>
  <Atom class="C" sigma="0.3" epsilon="0.4"/><Atom class="H" sigma="0.1" epsilon="0.1"/>
  <Atom class="O" sigma="0.25" epsilon="0.3"/><Atom class="N" sigma="0.26" epsilon="0.2"/>
 </NonbondedForce>
 <Script>{}</Script>
</ForceField>
"""


@cache
def scripts_of(file):
    """(tag, text) of the scripts of a file of OpenMM's, as the XML has them."""
    text = (DATA / file).read_text()
    return re.findall(r"<(Script|InitializationScript)>(.*?)</\1>", text[text.index("<Script>") :], re.DOTALL)


def with_tables(text, **tables):
    """A script with other tables; those that are not given are empty."""
    for name in re.findall(r"^(\w+) = \{\n", text, re.MULTILINE):
        new = f"{name} = {tables.get(name, {})!r}"
        text = re.sub(rf"^{name} = \{{\n.*?^\}}", lambda _, new=new: new, text, count=1, flags=re.DOTALL | re.MULTILINE)
    return text


def topology_of(field, templates, bonds=(), names=None):
    """Residues of OpenMM's templates, with names of their own where given; bonds are (residue, atom, residue, atom)."""
    topology = app.Topology()
    chain, residues = topology.addChain(), []
    for template, name in zip(templates, names or templates):
        residue, data = topology.addResidue(name, chain), field._templates[template]
        atoms = [topology.addAtom(a.name, a.element, residue) for a in data.atoms]
        for i, j in data.bonds:
            topology.addBond(atoms[i], atoms[j])
        residues.append({a.name: a for a in atoms})
    for i, one, j, other in bonds:
        topology.addBond(residues[i][one], residues[j][other])
    return topology


def ours(topology):
    atoms, residues = list(topology.atoms()), list(topology.residues())
    return sponge.Topology(
        [a.name for a in atoms],
        [a.element.atomic_number if a.element else 0 for a in atoms],
        [a.residue.index for a in atoms],
        [r.name for r in residues],
        [r.id for r in residues],
        [r.chain.index for r in residues],
        [c.id for c in topology.chains()],
        np.array([[a.index, b.index] for a, b in topology.bonds()]).reshape(-1, 2),
    )


def assert_same(topology, x, theirs, field, box=None, rtol=1e-9):
    """Terms and forces of both; the atoms have the names of OpenMM's templates, which tell equivalent ones apart."""
    if not any("self.matched" in script for script in theirs._scripts):
        theirs.registerScript(
            "known = templateForResidue; self.matched = {a: known[a.residue].atoms["
            "data.atomTemplateIndexes[a]].name for a in data.atoms if a.residue in known}"
        )
    options = {} if box is None else {"nonbondedMethod": app.PME, "nonbondedCutoff": 0.7}
    reference = theirs.createSystem(topology, removeCMMotion=False, **options)
    for atom, name in theirs.matched.items():
        atom.name = name
    mine = {} if box is None else {"cutoff": 0.7}
    system = sponge.create_system(ours(topology), x, box, field, **mine)
    groups = dict.fromkeys("LennardJones LennardJones14 DrudeForce drude drude_anisotropy thole".split(), "pairs")
    assert differences(system, reference, x, box, rtol=rtol, atol=1e-9, groups=groups) == []
    return system


def test_scripts_are_known_by_their_code_and_others_refused(tmp_path):
    known = [found for file in FILES for found in scripts_of(file)]
    assert len(known) == 7
    path = tmp_path / "field.xml"
    for tag, text in known:
        read = lambda text, tag=tag: (
            path.write_text(f"<ForceField><Residues/><{tag}>{text}</{tag}></ForceField>") and sponge.ForceField(path)
        )
        if len(text) < 50_000:  # the large one is read below
            read(text.replace("\n", "  \n"))
        for changed in (text + "\nimport os\n", text.replace("for ", "for_ ", 1), text.replace(" = ", " += ", 1)):
            if len(changed) < 50_000 and changed != text:
                with pytest.raises(FileFormatError, match=f"<{tag}> cannot be read: its Python code is not run here"):
                    read(changed)


@pytest.mark.parametrize("file", ["charmm36_2024.xml", "charmm_polar_2023.xml"])
def test_impropers_by_name(tmp_path, file):
    """Residues and patches define them, across residues too; parameters have wildcards, and both kinds occur."""
    first = ((0, "C1"), (0, "O1"), (0, "H1"), (1, "C1"))
    text = with_tables(
        scripts_of(file)[0][1],
        residue_order={"ONE": 0},
        patch_order={"END": 0},
        residue_impropers={
            "ONE": (
                first,
                ((0, "H1"), (0, "O1"), (-1, "C1"), (0, "C1")),
                ((0, "C1"), (0, "H1"), (0, "O1"), (-1, "C1")),
                ((0, "O1"), (0, "H1"), (1, "C1"), (2, "C1")),
            )
        },
        patch_impropers={"END": (((0, "C1"), (-1, "C1"), (0, "H1"), (0, "O1")),)},
        delete_impropers={"END": (first,)},
        periodic_improper_types={("C", None, None, "C"): (2, 0.3, 7.0), ("C", "O", None, "C"): (1, 0.2, 5.0)},
        harmonic_improper_types={("H", "O", "C", "C"): ((9.0, 0.5),), (None, "C", None, "O"): ((11.0, -3.0),)},
    )
    path = tmp_path / "field.xml"
    path.write_text(FIELD.format(text))
    theirs = app.ForceField(str(path))
    topology = app.Topology()
    chain, centers = topology.addChain(), []
    for inside in ("C1 O1 H1", "C1 O1 H1 N1"):
        residue = topology.addResidue("ONE", chain)
        atoms = {n: topology.addAtom(n, app.Element.getBySymbol(n[0]), residue) for n in inside.split()}
        for one, other in (("C1", "O1"), ("C1", "H1"), ("O1", "N1"))[: len(atoms) - 1]:
            topology.addBond(atoms[one], atoms[other])
        centers.append(atoms["C1"])
    topology.addBond(*centers)
    x = random_positions(np.random.default_rng(0), topology)
    system = assert_same(topology, x, theirs, sponge.ForceField(path))
    assert (len(system["torsion"].atoms), len(system["improper"].atoms)) == (2, 2)
    text = with_tables(scripts_of(file)[0][1], residue_order={"ONE": 0}, residue_impropers={"ONE": (first,)})
    path.write_text(FIELD.format(text))
    with pytest.raises(MissingParameterError, match="one kind, got none for classes C, O, H, C"):
        sponge.create_system(ours(topology), forcefield=path)


def test_lipids_with_pairs_that_are_scaled_by_types():
    theirs, field = app.ForceField("amber19/lipid21.xml"), sponge.ForceField(DATA / "amber19/lipid21.xml")
    rng = np.random.default_rng(0)
    for names in (["POPC", "CHL1"], ["SDPC", "DAPE"]):  # rings, and several double bonds
        topology = topology_of(theirs, names)
        system = assert_same(topology, random_positions(rng, topology), theirs, field)
    field.scaled_pairs.clear()
    plain = sponge.create_system(ours(topology), system.positions, forcefield=field)["pair14"].params["epsilon"]
    ratio = system["pair14"].params["epsilon"] / plain
    assert set(np.round(ratio[plain > 0], 9)) == {1.0, 0.333333333}


@pytest.mark.slow
def test_glycans_alone_and_on_proteins(tmp_path):
    files = [DATA / "amber14/protein.ff14SB.xml", DATA / "amber14/GLYCAM_06j-1.xml"]
    theirs, field = app.ForceField(*map(str, files)), sponge.ForceField(*files)
    rng = np.random.default_rng(0)
    for templates, names, bonds in (
        (["ROH", "4GB", "0LB"], None, [(0, "O1", 1, "C1"), (1, "O4", 2, "C1")]),
        (
            ["NNLN", "GLY", "CALA", "4YB", "0YB"],
            ["NLN", "GLY", "ALA", "4YB", "0YB"],
            [(0, "C", 1, "N"), (1, "C", 2, "N"), (0, "ND2", 3, "C1"), (3, "O4", 4, "C1")],
        ),
    ):
        topology = topology_of(theirs, templates, bonds, names)
        x = random_positions(rng, topology)
        system = assert_same(topology, x, theirs, field)
    with (tmp_path / "x.pdb").open("w") as file:
        app.PDBFile.writeFile(topology, 10 * x, file)
    loaded = sponge.load(tmp_path / "x.pdb", forcefield=field)
    assert loaded.energy(x) == pytest.approx(system.energy(x), rel=1e-12)


@pytest.mark.slow
def test_a_polarizable_peptide_with_anisotropies_by_name():
    path = DATA / "charmm_polar_2023.xml"
    theirs, field = app.ForceField(str(path)), sponge.ForceField(path)
    amber = app.ForceField("amber14/protein.ff14SB.xml")
    bare = topology_of(
        amber,
        ["NALA", "ASN", "PHE", "ASP", "HIE", "CARG"],
        [(k, "C", k + 1, "N") for k in range(5)],
        ["ALA", "ASN", "PHE", "ASP", "HIS", "ARG"],
    )
    rng = np.random.default_rng(2)
    model = app.Modeller(bare, random_positions(rng, bare))
    model.addExtraParticles(theirs)
    x = np.array(model.positions.value_in_unit(mm.unit.nanometer))
    system = assert_same(model.topology, x + rng.normal(0, 0.003, x.shape), theirs, field)
    assert {"improper", "cmap", "drude_anisotropy"} <= {p.name for p in system.potentials}


@pytest.mark.slow
def test_charmm36_of_2024():
    """A peptide with both ends and a disulfide, a lipid of OpenMM's bilayer, ions and water in a box."""
    files = [DATA / "charmm36_2024.xml", DATA / "charmm36_2024/water.xml"]
    theirs, field = app.ForceField(*map(str, files)), sponge.ForceField(*files)
    used = ("ALA", "CYS", "ASN", "HSE", "TRP", "ARG")  # OpenMM would patch every residue of the file
    theirs._templatePatches = {
        name: {p for p in patches if p[0].split("_")[0] in ("NTER", "CTER", "DISU")}
        for name, patches in theirs._templatePatches.items()
        if name in used
    }
    amber = app.ForceField("amber14/protein.ff14SB.xml")
    names = ["ALA", "CYX", "ASN", "HIS", "TRP", "CYX", "ARG"]
    peptide = topology_of(
        amber,
        ["NALA", "CYX", "ASN", "HIE", "TRP", "CYX", "CARG"],
        [*((k, "C", k + 1, "N") for k in range(6)), (1, "SG", 5, "SG")],
        names,
    )
    rng = np.random.default_rng(0)
    x = [random_positions(rng, peptide)]
    pdb = app.PDBFile(str(DATA / "POPC.pdb"))
    lipids = app.Modeller(pdb.topology, pdb.positions)
    residues = list(lipids.topology.residues())
    water = [r for r in residues if r.name == "HOH"]
    lipids.delete([r for r in residues if r.name != "HOH"][1:] + water[300:])
    x.append(np.array(lipids.positions.value_in_unit(mm.unit.nanometer)))
    ions = app.Topology()
    chain = ions.addChain()
    for name, element in (("SOD", "Na"), ("CLA", "Cl"), ("POT", "K")):
        ions.addAtom(name, app.Element.getBySymbol(element), ions.addResidue(name, chain))
    x.append(np.array([[0, 0, 0], [0.3, 0, 0], [0, 0.4, 0]]))
    model = app.Modeller(peptide, x[0] * mm.unit.nanometer)
    model.add(lipids.topology, lipids.positions)
    model.add(ions, x[2] * mm.unit.nanometer)
    for k in (1, 2):  # one behind the other
        x[k] += [x[k - 1].max(0)[0] + 0.4 - x[k].min(0)[0], 0, 0]
    x = np.concatenate(x)
    box = np.diag(np.ptp(x, axis=0) + 0.5)
    model.topology.setPeriodicBoxVectors(box * mm.unit.nanometer)
    system = assert_same(model.topology, x, theirs, field, box, rtol=1e-8)
    assert {"improper", "cmap", "urey_bradley"} <= {p.name for p in system.potentials}


def test_openmm_files_are_found_by_name():
    """Like OpenMM's own ForceField, ours looks for a name among the files that OpenMM installs."""
    by_name, by_path = (sponge.ForceField(name) for name in ("swm4ndp.xml", DATA / "swm4ndp.xml"))
    assert by_name.templates.keys() == by_path.templates.keys() and "HOH" in by_name.templates
    with pytest.raises(FileNotFoundError, match="must be a file, a force field of an installed OpenMM, or one of"):
        sponge.ForceField("charmm36_1066.xml")
