"""Ligands in force fields of OpenFF: parameters and energies of OpenFF's programs, and combinations with AMBER's."""

import gzip
import io
import json
import shutil

import numpy as np
import openmm
import pytest
from openmm import app

from tests.sponge.build.openff import difference, ours
from tests.sponge.reference import DATA
from triskele import sponge
from triskele.sponge.build import join, ligand
from triskele.sponge.errors import FileFormatError, MissingParameterError

Chem = pytest.importorskip("rdkit.Chem")

REFERENCE = json.loads(gzip.decompress((DATA / "openff" / "reference.json.gz").read_bytes()))
ACETATE = [-0.199957, 0.901743, -0.861157, -0.861157, 0.006843, 0.006843, 0.006843]
METHANE = [-0.4, 0.1, 0.1, 0.1, 0.1]
EVERY = """<Bonds version="0.3"><Bond smirks="[*:1]~[*:2]" length="1.1*angstrom"
k="600*kilocalories_per_mole/angstrom**2"/></Bonds><Angles version="0.3"><Angle smirks="[*:1]~[*:2]~[*:3]"
angle="110*degrees" k="100*kilocalories_per_mole/radian**2"/></Angles><vdW version="0.3"><Atom smirks="[*:1]"
sigma="3*angstrom" epsilon="0.1*kilocalories_per_mole"/></vdW>"""


def read(text, tmp_path, molecule="C", **options):
    """A ligand in a force field of these sections."""
    path = tmp_path / "own.offxml"
    path.write_text(f'<SMIRNOFF version="0.3" aromaticity_model="OEAroModel_MDL">{text}</SMIRNOFF>')
    return ligand(molecule, path, **options)


def reference_energy(system, positions):
    context = openmm.Context(system, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(positions)
    return context.getState(getEnergy=True).getPotentialEnergy()._value


@pytest.mark.parametrize("name", REFERENCE)
def test_parameters_and_energies_are_those_of_openff(name, tmp_path):
    for case in REFERENCE[name]:
        path = tmp_path / "molecule.sdf"
        path.write_text(case["block"])
        made = ligand(path, name, charges=case["charges"])
        expected = {
            section: {tuple(atoms): values for atoms, values in terms} for section, terms in case["parameters"].items()
        }
        assert difference(ours(made), expected) < 1e-14, case["smiles"]
        system = sponge.create_system(made.structure, made)
        assert system.energy(case["positions"]) == pytest.approx(case["energy"], rel=1e-8)
        assert len(system.constraints) == (
            0 if "unconstrained" in name else made.structure.topology.elements.tolist().count(1)
        )


@pytest.fixture(scope="module")
def peptide():
    return sponge.read_pdb(DATA / "ala2_vacuum" / "ala2_vacuum.pdb")


@pytest.fixture(scope="module")
def ethanol():
    charges = [-0.1, 0.13, -0.6, 0.04, 0.04, 0.04, 0.02, 0.02, 0.41]
    return ligand("CCO", charges=charges, name="ETH")


def test_protein_water_and_ligand_have_the_energy_of_openmm(peptide, ethanol):
    water = sponge.build.water_box("tip3p", n=3)
    apart = lambda s, shift: sponge.Structure(s.topology, s.positions - s.positions.mean(0) + shift)
    structure = join(peptide, apart(ethanol.structure, [1.5, 0, 0]), apart(water, [0, 1.5, 0]))
    files = ["amber14/protein.ff14SB", "amber14/tip3p", ethanol]
    system = sponge.create_system(structure, files, rigid_water=True)
    theirs = sponge.build.modeller.openmm_field(files, app)
    topology, positions = sponge.build.modeller.to_openmm(structure, app)
    expected = reference_energy(theirs.createSystem(topology, nonbondedMethod=app.NoCutoff), positions)
    assert system.energy() == pytest.approx(expected, rel=1e-7)
    assert len(system.constraints) == 3 * 3 + 6  # rigid waters, and the hydrogens of ethanol

    apart_energy = sum(sponge.create_system(s, files).energy() for s in (peptide, ethanol.structure))
    alone = sponge.create_system(join(peptide, apart(ethanol.structure, [500.0, 0, 0])), files)
    assert alone.energy() == pytest.approx(apart_energy, abs=1e-3)


def test_force_fields_of_other_scales_are_refused(ethanol):
    """Those of OPLS, here of ionic liquids, are 0.5 and 0.5."""
    with pytest.raises(
        FileFormatError, match=r"scales of 1-4 pairs must agree .* got 0\.833333 and 0\.5 after 0\.5 and 0\.5"
    ):
        sponge.ForceField("clp/il", ethanol)


def test_two_ligands_of_one_name_are_refused(ethanol):
    with pytest.raises(FileFormatError, match="'ETH' must be defined once"):
        sponge.ForceField(ethanol, ligand("C", charges=METHANE, name="ETH"))


def test_ligand_in_a_box_of_water_with_ions(ethanol):
    files = ["amber14/protein.ff14SB", "amber14/tip3p", ethanol]
    full = sponge.build.solvate(ethanol.structure, files, size=[2.4, 2.4, 2.4], ionic_strength=0.15)
    system = sponge.create_system(full, files, cutoff=0.9, switch=0.8)
    assert system.topology.residue_names[0] == "ETH" and system.n > 900
    assert np.isfinite(system.energy())


@pytest.mark.slow
def test_complex_in_water_runs(peptide, ethanol):
    moved = sponge.Structure(ethanol.structure.topology, ethanol.structure.positions + peptide.positions.max(0) + 0.2)
    files = ["amber14/protein.ff14SB", "amber14/tip3p", ethanol]
    full = sponge.build.solvate(join(peptide, moved), files, padding=0.9)
    system = sponge.create_system(full, files, cutoff=0.9, switch=0.8, constraints="h-bonds")
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1)
    sim.minimize()
    rows: list[dict] = []
    sim.run(time="10 ps", report=rows.append)
    assert abs(np.mean([row["temperature"] for row in rows[50:]]) - 300) < 15
    lengths = np.linalg.norm(np.diff(sim.positions[system.topology.bonds], axis=1)[:, 0], axis=1)
    assert lengths.max() < 0.2


# -- charges -----------------------------------------------------------------------------------------------------------


def test_charges_of_files(tmp_path):
    m = Chem.AddHs(Chem.MolFromSmiles("C"))
    from rdkit.Chem import AllChem

    AllChem.EmbedMolecule(m, randomSeed=1)
    for atom, q in zip(m.GetAtoms(), METHANE):
        atom.SetDoubleProp("PartialCharge", q)
    np.testing.assert_allclose(ligand(m, charges="stored").charges, METHANE)
    Chem.CreateAtomDoublePropertyList(m, "PartialCharge")
    path = tmp_path / "methane.sdf"
    with Chem.SDWriter(str(path)) as writer:
        writer.write(m)
    np.testing.assert_allclose(ligand(path, charges="stored").charges, METHANE)

    x = m.GetConformer().GetPositions()
    atoms = "\n".join(
        f"{k + 1} {'CHHHH'[k]}{k} {x[k, 0]:.4f} {x[k, 1]:.4f} {x[k, 2]:.4f} {'C.3' if k == 0 else 'H'} 1 MOL {q}"
        for k, q in enumerate(METHANE)
    )
    bonds = "\n".join(f"{k} 1 {k + 1} 1" for k in range(1, 5))
    path = tmp_path / "methane.mol2"
    path.write_text(
        f"@<TRIPOS>MOLECULE\nmethane\n5 4\nSMALL\nUSER_CHARGES\n\n@<TRIPOS>ATOM\n{atoms}\n@<TRIPOS>BOND\n{bonds}\n"
    )
    made = ligand(path, charges="stored")
    np.testing.assert_allclose(made.charges, METHANE)
    assert made.structure.topology.names.tolist() == ["C0", "H1", "H2", "H3", "H4"]
    np.testing.assert_allclose(made.structure.positions, 0.1 * x, atol=1e-4)
    with pytest.raises(ValueError, match="must have charges for charges='stored'"):
        ligand("C", charges="stored")


def test_library_charges_go_before_others_if_they_cover_all_atoms(tmp_path):
    text = (
        EVERY
        + """<LibraryCharges version="0.3">
        <LibraryCharge smirks="[#6:1]" charge1="0.5*elementary_charge"/>
        <LibraryCharge smirks="[#6X4:1]-[#1:2]" charge1="-0.8*elementary_charge" charge2="0.2*elementary_charge"/>
        </LibraryCharges>"""
    )
    np.testing.assert_allclose(read(text, tmp_path).charges, [-0.8, 0.2, 0.2, 0.2, 0.2])
    with pytest.raises(MissingParameterError, match="must have charges for the molecule, got none"):
        read(text, tmp_path, "N")
    with pytest.raises(
        ValueError, match=r"sum of the charges of <LibraryCharges> in .* formal charge .* 0, got 0\.4000"
    ):
        read(text.replace("0.2*", "0.3*"), tmp_path)


def test_charge_increments_are_added_to_formal_charges(tmp_path):
    text = (
        EVERY
        + """<ChargeIncrementModel version="0.4" partial_charge_method="formal_charge">
        <ChargeIncrement smirks="[#7:1]-[#1:2]" charge_increment1="-0.1*elementary_charge"/></ChargeIncrementModel>"""
    )
    np.testing.assert_allclose(read(text, tmp_path, "[NH4+]").charges, [0.6, 0.1, 0.1, 0.1, 0.1])


@pytest.mark.peer
@pytest.mark.skipif(shutil.which("antechamber") is None, reason="needs AmberTools")
def test_am1bcc_charges_are_those_of_openff_and_sum_to_the_formal_charge():
    """Numbers of openff-toolkit 0.18.0 with AmberTools 26 and RDKit 2026.9."""
    made = ligand("CC(=O)[O-]")
    np.testing.assert_allclose(made.charges, ACETATE, atol=2e-4)
    assert made.charges.sum() == pytest.approx(-1, abs=1e-12)


# -- what is refused ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "molecule, message",
    [
        ("CX", "cannot read the SMILES"),
        ("C.C", "expected one molecule, got 2"),
        ("[CH3]", "unpaired electrons"),
        ("CC(F)Cl", r"stereochemistry must be given, got none for atom C1"),
        ("CC=CC", r"got none for the double bond C1 = C2"),
        (Chem.MolFromSmiles("C"), "must have all hydrogens, 4 are missing"),
    ],
    ids=str,
)
def test_molecules_that_are_refused(molecule, message):
    with pytest.raises(ValueError, match=message):
        ligand(molecule, charges=METHANE)


def test_arguments_that_are_refused():
    for options, message in (
        ({"name": "LONG"}, "name must have one to three"),
        ({"charges": METHANE[:3]}, "must be 5 finite numbers"),
        ({"charges": [0.1] * 5}, r"formal charge of the molecule, 0, got 0\.5000 e"),
        ({"charges": "bcc"}, "charges must be 'stored'"),
        ({"seed": -1}, "seed must be"),
    ):
        with pytest.raises(ValueError, match=message):
            ligand("C", **options)
    with pytest.raises(
        FileNotFoundError, match=r"or one of openff-2\.2\.1, openff_unconstrained-2\.2\.1, got 'openff-9'"
    ):
        ligand("C", "openff-9")
    with pytest.raises(TypeError, match="a SMILES or a path, got int"):
        ligand(3)


def test_missing_parameters_name_atoms_and_section(tmp_path):
    with pytest.raises(
        MissingParameterError, match=r"openff-2\.2\.1: <Bonds> must have .* none for C1 - Si1, and 3 more"
    ):
        ligand("C[Si](C)(C)C", charges=[0.0] * 17)
    with pytest.raises(MissingParameterError, match=r"<vdW> must have parameters .* none for C1, and 4 more"):
        read('<Electrostatics version="0.3"/>', tmp_path, charges=METHANE)


@pytest.mark.parametrize(
    "text, message",
    [
        ("<GBSA version='0.3'/>", "a section of <SMIRNOFF> must be .* got 'GBSA'"),
        ("<VirtualSites version='0.3'/>", "a section of <SMIRNOFF> must be .* got 'VirtualSites'"),
        ("<Bonds version='0.5'/>", "version of <Bonds> must be '0.3' or '0.4', got '0.5'"),
        ("<Bonds/>", "<Bonds> must have a version"),
        ("<vdW version='0.4' periodic_method='Ewald3D'/>", "periodic_method of <vdW> must be 'cutoff'"),
        ("<vdW version='0.3' combining_rules='geometric'/>", "combining_rules of <vdW> must be 'Lorentz-Berthelot'"),
        ("<vdW version='0.3' scale13='0.5'/>", "scale13 of <vdW> must be 0.0, got 0.5"),
        ("<Bonds version='0.3'><Angle/></Bonds>", "an element must be 'Bond', got 'Angle'"),
        (
            "<Bonds version='0.3'><Bond smirks='[*:1]~[*:2]' k='1' parity='2'/></Bonds>",
            "attribute parity='2' of <Bond>",
        ),
        (
            "<Bonds version='0.3'><Bond smirks='[*:1]~[*:2]' k_bondorder1='1'/></Bonds>",
            "k_bondorder1='1' of <Bond> is not",
        ),
        ("<Bonds version='0.3'><Bond smirks='[*:1]~' k='1'/></Bonds>", "RDKit cannot read it"),
        ("<Bonds version='0.3'><Bond smirks='[*:1]~[*]' k='1'/></Bonds>", r"must tag atoms from 1 to 2, got \[1\]"),
        ("<Bonds version='0.3'><Bond smirks='[*:1]~[*:2]' length='1*angstrom'/></Bonds>", "k must be given"),
        ("<Bonds version='0.3'><Bond smirks='[*:1]~[*:2]' length='1*degree'/></Bonds>", "length must be a length"),
        (
            "<ProperTorsions version='0.3'><Proper smirks='[*:1]~[*:2]~[*:3]~[*:4]' periodicity2='1' phase2='0*degree' "
            "k2='1*kilojoule_per_mole' idivf2='1'/></ProperTorsions>",
            "terms must be numbered from 1 on without a gap",
        ),
        (
            "<LibraryCharges version='0.3'><LibraryCharge smirks='[#6:1]-[#1:2]' charge1='1*elementary_charge'/>"
            "</LibraryCharges>",
            "charge must be given for each of 2 tagged atoms, got charge1",
        ),
    ],
)
def test_sections_that_are_refused_by_name(text, message, tmp_path):
    with pytest.raises(FileFormatError, match=r"own\.offxml: .*" + message):
        read(text, tmp_path, charges=METHANE)


def test_pdb_file_of_a_complex(peptide, ethanol, tmp_path):
    moved = sponge.Structure(ethanol.structure.topology, ethanol.structure.positions + peptide.positions.max(0))
    both = join(peptide, moved)
    sponge.write_pdb(tmp_path / "complex.pdb", both.topology, both.positions)
    system = sponge.create_system(sponge.read_pdb(tmp_path / "complex.pdb"), ["amber14/protein.ff14SB", ethanol])
    expected = sponge.create_system(both, ["amber14/protein.ff14SB", ethanol]).energy()
    assert system.energy(both.positions) == pytest.approx(expected, rel=1e-12)


def test_xml_of_a_ligand_is_a_file_for_openmm(ethanol):
    theirs = app.ForceField(io.StringIO(ethanol.xml.decode()))
    topology, positions = sponge.build.modeller.to_openmm(ethanol.structure, app)
    expected = reference_energy(theirs.createSystem(topology, nonbondedMethod=app.NoCutoff), positions)
    assert sponge.create_system(ethanol.structure, ethanol).energy() == pytest.approx(expected, rel=1e-7)
