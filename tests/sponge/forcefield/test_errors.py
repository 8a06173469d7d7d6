"""Errors of force fields: residues without a template, terms without parameters, broken files."""

import re

import numpy as np
import pytest

from tests.sponge.reference import DATA
from tests.twins.molecules import without
from triskele.sponge.errors import FileFormatError, MissingParameterError, MissingTemplateError
from triskele.sponge.forcefield import ForceField, create_system, shipped
from triskele.sponge.load.pdb import read_pdb
from triskele.sponge.load.structure import Structure
from triskele.sponge.topology import Topology

PROTEIN = "amber14/protein.ff14SB"


@pytest.fixture(scope="module")
def bpti():
    return read_pdb(DATA / "bpti_ff14sb_vacuum" / "bpti.pdb")


# -- residues without a template
# -------------------------------------------------------------------------------------------


def assert_fails(structure, *parts, forcefield=PROTEIN, error=MissingTemplateError):
    with pytest.raises(error) as caught:
        create_system(structure.topology, structure.positions, structure.box, forcefield)
    for part in parts:
        assert re.search(part, str(caught.value)), str(caught.value)


def test_missing_heavy_atom(bpti):
    t = bpti.topology
    broken = without(bpti, (t.residue_ids[t.residue_index] == "3") & (t.names == "OD1"))
    assert_fails(
        broken,
        r"no template for residue 3 ASP \(chain A\)",
        "nearest is ASP",
        r"1 O too few \(OD1\)",
        "missing_atoms=True",
    )


def test_side_chain_cut_short(bpti):
    t = bpti.topology
    inside = t.residue_ids[t.residue_index] == "15"  # Lys
    broken = without(bpti, inside & ~np.isin(t.names, ["N", "CA", "C", "O", "CB", "CG", "H", "HA", "HB2", "HB3"]))
    assert_fails(broken, "no template for residue 15 LYS", "nearest is LYS", "2 C too few", "missing_atoms=True")


def test_missing_hydrogens(bpti):
    assert_fails(
        without(bpti, bpti.topology.elements == 1),
        r"residue 1 ARG \(chain A\)",
        "nearest is NARG",
        "15 H too few",
        "add_hydrogens",
    )


def test_missing_terminal_oxygen(bpti):
    assert_fails(
        without(bpti, bpti.topology.names == "OXT"),
        r"residue 58 ALA \(chain A\)",
        "nearest is ALA",
        "end the chain with OXT",
    )


def test_missing_bond(bpti):
    t = bpti.topology
    drop = [set(t.names[b]) == {"CA", "CB"} and t.residue_ids[t.residue_index[b[0]]] == "3" for b in t.bonds]
    broken = Structure(
        Topology(
            t.names,
            t.elements,
            t.residue_index,
            t.residue_names,
            t.residue_ids,
            t.chain_index,
            t.chain_ids,
            t.bonds[~np.array(drop)],
        ),
        bpti.positions,
    )
    assert_fails(broken, "residue 3 ASP", "nearest is ASP", "lacks bond CA-CB")


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("cutof", r"an option must be one of .*, got 'cutof' \(did you mean 'cutoff'\?\)"),
        ("constraint", "an option must be one of .*, got 'constraint' .did you mean 'constraints'"),
        ("kappa", "no option 'kappa' .?it needs an implicit solvent"),
    ],
)
def test_options_that_are_not_known(bpti, option, hint):
    with pytest.raises(TypeError, match=f"create_system: {hint}"):
        create_system(bpti, PROTEIN, **{option: 1.0})


def test_a_misspelt_force_field(bpti):
    with pytest.raises(TypeError, match=r"create_system: an option must be .*, got 'forcefields' .*mean 'forcefield'"):
        create_system(bpti, forcefields=PROTEIN)


def test_gap_in_the_chain(bpti):
    t = bpti.topology
    gap = without(bpti, np.isin(t.residue_ids[t.residue_index], ["3", "4"]))
    assert_fails(gap, "residue 2 PRO", r"bond to other residues \(at N\) instead of 2 \(at N, C\)", "has a gap here")


def test_residue_that_is_not_known(tmp_path):
    path = tmp_path / "lig.pdb"
    path.write_text(
        "HETATM    1  C1  LIG B  37       0.000   0.000   0.000  1.00  0.00           C\n"
        "HETATM    2  O1  LIG B  37       1.200   0.000   0.000  1.00  0.00           O\n"
    )
    assert_fails(read_pdb(path), r"residue 37 LIG \(chain B\)", "CONECT", "residue.xml")


def test_water_without_its_site(bpti):
    t = Topology(["O", "H1", "H2"], [8, 1, 1], [0, 0, 0], ["HOH"], ["9"], [0], ["W"], [[0, 1], [0, 2]])
    assert_fails(
        Structure(t, np.zeros((3, 3))),
        r"residue 9 HOH \(chain W\)",
        r"1 virtual site too few \(M\)",
        "add_virtual_sites",
        forcefield="amber14/opc",
    )


# -- files -------------------------------------------------------------------------------------------------------------

DIATOMIC = """<ForceField>
 <AtomTypes><Type name="a" class="A" element="C" mass="12.0"/><Type name="b" class="B" element="O" mass="16.0"/></AtomTypes>
 <Residues><Residue name="CMO"><Atom name="C" type="a" charge="0.1"/><Atom name="O" type="b" charge="-0.1"/><Bond from="0" to="1"/></Residue></Residues>
 <HarmonicBondForce>{bond}</HarmonicBondForce>
 <NonbondedForce coulomb14scale="0.8333333333333334" lj14scale="0.5"><UseAttributeFromResidue name="charge"/>
  <Atom class="A" sigma="0.3" epsilon="0.4"/>{atom}</NonbondedForce>{more}
</ForceField>"""  # noqa: E501
BOND = '<Bond class1="B" class2="A" length="0.11" k="1000"/>'
ATOM = '<Atom type="b" sigma="0.29" epsilon="0.5"/>'
CO = Topology(["C", "O"], [6, 8], [0, 0], ["CMO"], ["1"], [0], ["A"], [[0, 1]])


@pytest.fixture
def write(tmp_path):
    def write(bond=BOND, atom=ATOM, more="", text=DIATOMIC):
        path = tmp_path / "own.xml"
        path.write_text(text.format(bond=bond, atom=atom, more=more))
        return path

    return write


def test_file_of_ones_own(write):
    system = create_system(CO, [[0, 0, 0], [0.12, 0, 0]], None, write())
    assert system["bond"].params["r0"] == 0.11
    assert system.nonbonded.params["charges"].tolist() == [0.1, -0.1]
    assert system.exclusions.tolist() == [[0, 1]]


def test_missing_bond_names_atoms_and_types(write):
    with pytest.raises(
        MissingParameterError, match=r"every bond, got none for atom 0 \(CMO 1 C\) - atom 1 \(CMO 1 O\) of types a, b"
    ):
        create_system(CO, forcefield=write(bond=""))


def test_constraints_need_lengths(write):
    path = write(text=DIATOMIC.replace("<HarmonicBondForce>{bond}</HarmonicBondForce>", ""))
    assert "bond" not in create_system(CO, forcefield=path)  # a force field without bonds at all
    with pytest.raises(MissingParameterError, match="every bond"):
        create_system(CO, forcefield=path, constraints="all-bonds")


def test_missing_nonbonded_type(write):
    with pytest.raises(MissingParameterError, match=r"none for type 'b' \(class 'B'; atom O of residue template CMO\)"):
        create_system(CO, forcefield=write(atom=""))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ("<Script>import os</Script>", "<Script> cannot be read: its Python code is not run here"),
        ("<AmoebaBondForce/>", "got <AmoebaBondForce>, a term that is not supported"),
        ("<Patches><Drude/></Patches>", "<Patches> must hold <Patch>, got <Drude>"),
        (
            '<HarmonicAngleForce><Angle class1="A" class2="B" class3="A" angle="2"/></HarmonicAngleForce>',
            "attribute 'k' is missing",
        ),
        (
            '<HarmonicAngleForce><Angle class1="A" class2="B" class3="A" angle="2" k="nan"/></HarmonicAngleForce>',
            "parameters must be finite, got k='nan'",
        ),
        (
            '<HarmonicBondForce><Bond class1="A" type1="a" class2="B" length="1" k="1"/></HarmonicBondForce>',
            "must give class1 or type1",
        ),
        ('<NonbondedForce coulomb14scale="0.5" lj14scale="0.5"/>', "scales of 1-4 pairs must agree"),
        ("<CMAPTorsionForce><Map>1 2 3</Map></CMAPTorsionForce>", "a CMAP must be square, got 3 values"),
        ("<Residues><Residue name='X'><Atom name='Q' type='zz'/></Residue></Residues>", "must be defined, got 'zz'"),
        ("<Residues><Residue name='CMO'><Atom name='Q' type='a'/></Residue></Residues>", "'CMO' must be defined once"),
        ("<AtomTypes><Type name='a' class='A' element='C' mass='13'/></AtomTypes>", "'a' must be defined once"),
        ("<AtomTypes><Type name='c' class='A' element='Zz' mass='13'/></AtomTypes>", "got 'Zz' for type 'c'"),
    ],
)
def test_bad_files_name_file_and_element(write, more, message):
    with pytest.raises(FileFormatError, match=r"(own\.xml.*|)" + message):
        ForceField(write(more=more))


def test_no_xml(tmp_path):
    path = tmp_path / "own.xml"
    path.write_text("<ForceField><AtomTypes>")
    with pytest.raises(FileFormatError, match=r"own\.xml: must be XML"):
        ForceField(path)
    path.write_text("<System/>")
    with pytest.raises(FileFormatError, match="outermost element .* got <System>"):
        ForceField(path)


def test_unknown_name_lists_the_known():
    with pytest.raises(FileNotFoundError, match="amber14/protein.ff14SB.*got 'amber99'"):
        ForceField("amber99")


def test_shipped_force_fields_are_whole():
    """All types of all templates have parameters, and charges of residues are whole numbers."""
    for name in shipped():
        field = ForceField(name)
        keys = {
            ("type", t.name)
            for t in field.types.values()
            if field.nonbonded.by_key.keys() & {("type", t.name), ("class", t.cls), None}
        }
        for t in field.templates.values():
            assert {("type", k) for k in t.types} <= keys, (name, t.name)
            if "charge" in field.nonbonded.from_residue and not re.fullmatch(
                r"[RD]?[ACGTU][35]|OHE", t.name
            ):  # ends of strands carry fractions
                total = sum(float(a["charge"]) for a in t.attributes)
                assert total == pytest.approx(round(total), abs=2e-4), (name, t.name)


def test_includes_are_read(tmp_path, write):
    write()
    (tmp_path / "all.xml").write_text(
        '<ForceField><Include file="own.xml"/><Include file="amber14/tip3p.xml"/></ForceField>'
    )
    assert {"CMO", "HOH"} <= set(ForceField(tmp_path / "all.xml").templates)


def test_override_level_decides(tmp_path, write):
    other = tmp_path / "other.xml"
    other.write_text(
        '<ForceField><Residues><Residue name="CMO" override="1"><Atom name="C" type="a" charge="1"/><Atom name="O" '
        'type="b" charge="-1"/>'
        '<Bond from="0" to="1"/></Residue></Residues></ForceField>'
    )
    for sources in ([write(), other], [other, write()]):
        assert create_system(CO, forcefield=sources).nonbonded.params["charges"].tolist() == [1, -1]
