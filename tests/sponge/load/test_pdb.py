"""PDB and mmCIF files: atoms, bonds, alternate locations, models, wide numbers, and what happens to broken files."""

import dataclasses
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sponge.reference import DATA, unpacked
from triskele import sponge
from triskele.sponge.errors import FileFormatError
from triskele.sponge.load import pdb
from triskele.sponge.load.mmcif import read_mmcif
from triskele.sponge.load.pdb import read_pdb, write_pdb
from triskele.sponge.load.whole import make_whole
from triskele.sponge.topology import Topology

BPTI = DATA / "bpti_ff14sb_vacuum" / "bpti.pdb"


def line(
    name,
    residue="ALA",
    number=1,
    xyz=(0.0, 0.0, 0.0),
    *,
    record="ATOM",
    serial=1,
    altloc="",
    chain="A",
    code="",
    occupancy=1.0,
    element=None,
):
    """One atom's record."""
    element = name[0] if element is None else element
    field = name if len(name) == 4 else f" {name}"
    x, y, z = xyz
    return (
        f"{record:<6}{serial:>5} {field:<4}{altloc:1}{residue:>3} {chain:1}{number:>4}{code:1}   "
        f"{x:8.3f}{y:8.3f}{z:8.3f}"
        f"{occupancy:6.2f}{0:6.2f}          {element:>2}"
    )


@pytest.fixture
def read(tmp_path):
    """Write lines to a file and read it."""

    def read(*lines, **options):
        path = tmp_path / "it.pdb"
        path.write_text("\n".join(lines) + "\n")
        return read_pdb(path, **options)

    return read


def bond_names(structure):
    t = structure.topology
    return {frozenset(t.names[b].tolist()) for b in t.bonds}


# -- whole files -------------------------------------------------------------------------------------------------------


def test_protein():
    s = read_pdb(BPTI)
    assert s.topology.n == 892 and len(s.topology.residue_names) == 58 and s.box is None
    assert s.topology.describe(0) == "atom 0 (ARG 1 N)"
    np.testing.assert_allclose(s.positions[0], [0.4481, 1.1293, 0.0204])
    disulfides = [b for b in s.topology.bonds if np.all(s.topology.elements[b] == 16)]
    ids = s.topology.residue_ids[s.topology.residue_index[np.array(disulfides)]]
    assert sorted(map(sorted, ids.tolist())) == [["14", "38"], ["30", "51"], ["5", "55"]]  # the bridges of BPTI
    assert len(np.unique(s.topology.molecules)) == 1


def test_solvated_protein():
    s = read_pdb(DATA / "dhfr_pme" / "5dfr_solv-cube_equil.pdb.gz")
    assert s.topology.n == 23558
    np.testing.assert_allclose(np.diag(s.box), 6.223)
    molecules = np.bincount(s.topology.molecules)
    assert sorted(np.bincount(molecules).nonzero()[0]) == [3, 2489]
    assert np.sum(molecules == 3) == 7023


@pytest.mark.parametrize(
    "file",
    [BPTI, DATA / "dhfr_pme" / "5dfr_solv-cube_equil.pdb.gz", DATA / "ala2_explicit_pme" / "ala2_explicit_pme.pdb.gz"],
    ids=["bpti", "dhfr", "ala2"],
)
def test_same_bonds_and_elements_as_openmm(file, tmp_path):
    app = pytest.importorskip("openmm.app")
    path = unpacked(file, tmp_path) if file.suffix == ".gz" else file
    other, mine = app.PDBFile(str(path)), read_pdb(path)
    bonds = {tuple(sorted((a.index, b.index))) for a, b in other.topology.bonds()}
    assert bonds == {tuple(b) for b in mine.topology.bonds.tolist()}
    assert [a.element.atomic_number for a in other.topology.atoms()] == mine.topology.elements.tolist()


def test_what_is_written_reads_back(tmp_path):
    s = read_pdb(BPTI)
    box = np.array([[3.0, 0, 0], [0.5, 4.0, 0], [-0.7, 1.1, 5.0]])
    write_pdb(tmp_path / "out.pdb", s.topology, s.positions, box)
    again = read_pdb(tmp_path / "out.pdb")
    for name in (
        "names",
        "elements",
        "residue_index",
        "residue_names",
        "residue_ids",
        "chain_index",
        "chain_ids",
        "bonds",
    ):
        np.testing.assert_array_equal(getattr(again.topology, name), getattr(s.topology, name))
    np.testing.assert_allclose(again.positions, s.positions, atol=5.1e-5)
    np.testing.assert_allclose(again.box, box, atol=2e-3)


def test_models_are_written_and_chosen_by_number(tmp_path):
    t = Topology.of_particles(2, "AR", 18)
    frames = np.arange(18.0).reshape(3, 2, 3) / 10
    write_pdb(tmp_path / "m.pdb", t, frames)
    np.testing.assert_allclose(read_pdb(tmp_path / "m.pdb").positions, frames[0])
    np.testing.assert_allclose(read_pdb(tmp_path / "m.pdb", model=3).positions, frames[2])
    with pytest.raises(FileFormatError, match="must be a model 4, got 1, 2, 3"):
        read_pdb(tmp_path / "m.pdb", model=4)


def test_open_file_takes_models():
    t = Topology.of_particles(1, "AR", 18)
    out = io.StringIO()
    write_pdb(out, t, np.zeros((1, 3)))
    assert out.getvalue().startswith("HETATM    1 AR ") and out.getvalue().endswith("END\n")


# -- numbers beyond the columns
# --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "text"),
    [(99999, "99999"), (100000, "A0000"), (100035, "A000Z"), (43770015, "ZZZZZ"), (43770016, "a0000")],
)
def test_hybrid36_of_its_definition(number, text):
    assert pdb._encode36(number, 5) == text
    assert pdb._decode36(text.strip(), 5) == number


@given(st.integers(0, 87440031), st.just(5))
@settings(max_examples=200, deadline=None)
def test_hybrid36_is_undone(number, width):
    text = pdb._encode36(number, width)
    assert len(text) == width and pdb._decode36(text.strip(), 5) == number


def test_numbers_in_base_16_are_read():
    assert pdb._decode36("186a0", 5) == 100000


def test_more_than_99999_atoms(tmp_path):
    n = 100_002  # residues go beyond 9,999 as well
    t = Topology.of_particles(n, "AR", 18, bonds=[[0, n - 1], [n - 2, n - 1]])
    write_pdb(tmp_path / "big.pdb", t, np.random.default_rng(0).uniform(0, 20, (n, 3)))
    again = read_pdb(tmp_path / "big.pdb")
    np.testing.assert_array_equal(again.topology.bonds, t.bonds)
    assert again.topology.residue_ids[-1] == "100002"


# -- alternate locations, chains, insertion codes
# --------------------------------------------------------------------------


SERINE = [
    line("N"),
    line("CA", xyz=(1.46, 0, 0)),
    line("CB", xyz=(2, 1, 0), altloc="A", occupancy=0.4),
    line("CB", xyz=(2, -1, 0), altloc="B", occupancy=0.6),
    line("OG", xyz=(3, 1, 0), altloc="A", occupancy=0.4),
    line("OG", xyz=(3, -1, 0), altloc="B", occupancy=0.6),
]


@pytest.mark.parametrize(("altloc", "y"), [("highest", -0.1), ("first", 0.1), ("A", 0.1), ("B", -0.1)])
def test_one_alternate_location_for_all_atoms_of_a_residue(read, altloc, y):
    s = read(*SERINE, altloc=altloc)
    assert s.topology.names.tolist() == ["N", "CA", "CB", "OG"]
    assert s.positions[2:, 1].tolist() == [y, y]


def test_atom_that_the_chosen_location_lacks_is_kept(read):
    s = read(*SERINE[:4], SERINE[4])  # OG in location A only; B is chosen
    assert s.topology.names.tolist() == ["N", "CA", "CB", "OG"]


def test_two_kinds_of_residue_in_one_place(read):
    s = read(
        line("N", "SER", altloc="A", occupancy=0.3),
        line("OG", "SER", altloc="A", occupancy=0.3),
        line("N", "THR", altloc="B", occupancy=0.7),
        line("CG2", "THR", altloc="B", occupancy=0.7),
    )
    assert s.topology.residue_names.tolist() == ["THR"] and s.topology.names.tolist() == ["N", "CG2"]


def test_chains_end_at_ter_and_at_new_letters(read):
    s = read(line("O", "HOH", 1), "TER", line("O", "HOH", 2), line("O", "HOH", 3, chain="B"))
    assert s.topology.chain_ids.tolist() == ["A", "A", "B"]


def test_insertion_codes_make_residues(read):
    s = read(line("CA", number=52), line("CA", number=52, code="A"), line("CA", number=53))
    assert s.topology.residue_ids.tolist() == ["52", "52A", "53"]


# -- elements ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "residue", "element"),
    [
        (" CA ", "ALA", 6),
        ("CA  ", "CA", 20),
        ("HG11", "VAL", 1),
        ("1HB ", "ALA", 1),
        (" OXT", "ALA", 8),
        ("ZN  ", "ZN", 30),
        ("CL  ", "CL", 17),
        ("CL1 ", "LIG", 17),
        (" C1 ", "LIG", 6),
        ("NA  ", "NA+", 11),
        (" SOD", "SOD", 11),
        ("CLA ", "CLA", 17),
        (" M  ", "HOH", 0),
        (" MW ", "SOL", 0),
        (" SE ", "MSE", 16),
    ],
)
def test_elements_from_names(name, residue, element):
    assert pdb.element_of("", name, residue) == element


def test_element_columns_go_before_names(read):
    assert read(line("CA", "LIG", element="Ca")).topology.elements.tolist() == [20]


# -- bonds -------------------------------------------------------------------------------------------------------------


def test_residues_are_joined_unless_far_apart(read):
    def pair(distance):
        return read(line("C", number=1), line("N", number=2, xyz=(distance, 0, 0)))

    assert len(pair(1.4).topology.bonds) == 1
    assert len(pair(9.0).topology.bonds) == 0


def test_residues_are_joined_across_the_box(read):
    s = read(
        "CRYST1   20.000   20.000   20.000  90.00  90.00  90.00 P 1           1",
        line("C", number=1),
        line("N", number=2, xyz=(18.7, 0, 0)),
    )
    assert len(s.topology.bonds) == 1


def test_old_names_of_hydrogens(read):
    s = read(
        line("N"),
        line("CA", xyz=(1.46, 0, 0)),
        line("HN", xyz=(-0.5, 0.9, 0)),
        line("1HA1", xyz=(1.8, 1.0, 0), element="H"),
    )
    assert bond_names(s) == {frozenset(("N", "CA")), frozenset(("N", "HN")), frozenset(("CA", "1HA1"))}


def test_conect_records(read):
    s = read(
        line("C1", "LIG", record="HETATM", serial=7),
        line("C2", "LIG", record="HETATM", serial=8),
        line("C3", "LIG", record="HETATM", serial=9),
        "CONECT    7    8    9",
        "CONECT    8    7",
        "CONECT    8    7",
    )
    assert s.topology.bonds.tolist() == [[0, 1], [0, 2]]


def test_metals_are_not_bound_to_other_residues(read):
    s = read(
        line("NE2", "HIS", serial=1), line("ZN", "ZN", 2, record="HETATM", serial=2, element="ZN"), "CONECT    1    2"
    )
    assert len(s.topology.bonds) == 0


@pytest.mark.parametrize(("distance", "bonds"), [(2.04, 1), (3.4, 0)])
def test_disulfides_by_distance(read, distance, bonds):
    s = read(line("SG", "CYS", 1), line("SG", "CYS", 9, (distance, 0, 0)))
    assert len(s.topology.bonds) == bonds


def test_no_disulfide_of_a_sulfur_with_hydrogen(read):
    s = read(line("SG", "CYS", 1), line("HG", "CYS", 1, (-1.3, 0, 0)), line("SG", "CYS", 9, (2.1, 0, 0)))
    assert bond_names(s) == {frozenset(("SG", "HG"))}


# -- box ---------------------------------------------------------------------------------------------------------------


def test_triclinic_box(read):
    s = read("CRYST1   50.000   50.000   50.000  70.53 109.47  70.53 P 1           1", line("CA"))
    np.testing.assert_allclose(np.linalg.norm(s.box, axis=1), 5.0, atol=1e-3)  # a truncated octahedron
    np.testing.assert_allclose(np.linalg.det(s.box), 125 * 4 / 9 * 3**0.5, rtol=1e-3)


def test_the_cell_of_a_crystal_is_not_taken_for_a_box_of_solvent(read):
    water = sponge.build.water_box("tip3p", n=8)
    cell = read("CRYST1   30.000   30.000   30.000  90.00  90.00  90.00 P 21 21 21    4", line("CA"))
    plain = read("CRYST1   30.000   30.000   30.000  90.00  90.00  90.00 P 1           1", line("CA"))
    assert (cell.space_group, plain.space_group, read(line("CA")).space_group) == ("P 21 21 21", "P 1", None)
    crystal = dataclasses.replace(water, space_group="P 21 21 21")
    with pytest.warns(UserWarning, match="the box must be filled, got the cell of a crystal of space group P 21 21 21"):
        system = sponge.create_system(crystal, "amber14/tip3p", cutoff=0.2)
    assert system.nonbonded.method == "pme"
    assert sponge.create_system(crystal, "amber14/tip3p", cutoff=0.2, method="pme").box is not None
    assert sponge.create_system(dataclasses.replace(crystal, box=None), "amber14/tip3p").nonbonded.method == "none"


def test_unit_cell_of_nmr_structures_is_no_box(read):
    assert read("CRYST1    1.000    1.000    1.000  90.00  90.00  90.00 P 1           1", line("CA")).box is None


# -- molecules across the faces of the box
# ---------------------------------------------------------------------------------


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=30, deadline=None)
def test_molecules_are_made_whole(seed):
    """Random trees of bonds in a triclinic box: bonds come out short, and atoms are moved by whole box vectors
    alone.
    """
    random = np.random.default_rng(seed)
    n, box = 40, np.array([[2.0, 0, 0], [0.7, 1.8, 0], [-0.6, 0.5, 2.2]])
    bonds = np.array([[random.integers(0, k), k] for k in range(1, n) if random.random() > 0.1]).reshape(-1, 2)
    whole = random.uniform(0, 2, (n, 3))
    for i, j in bonds:
        whole[j] = whole[i] + random.uniform(-0.2, 0.2, 3)
    first = np.setdiff1d(np.arange(n), bonds[:, 1])
    moved = whole + np.where(np.isin(np.arange(n), first)[:, None], 0, random.integers(-1, 2, (n, 3))) @ box
    np.testing.assert_allclose(make_whole(moved, bonds, box), whole, atol=1e-9)
    assert make_whole(whole, bonds, box) is whole


def test_whole_without_bonds_or_box():
    positions = np.random.default_rng(0).uniform(0, 9, (5, 3))
    assert make_whole(positions, np.empty((0, 2), int), np.eye(3)) is positions
    assert make_whole(positions, np.array([[0, 1]]), None) is positions


# -- broken files ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([line("N"), line("CA")[:50]], "line 2: .* up to column 54, got 50 columns"),
        (
            [line("N"), line("CA").replace("   0.000   0.000", "     nan   0.000", 1)],
            "line 2: x must be a finite number, got 'nan'",
        ),
        (
            [line("N"), line("CA")[:38] + "  ******" + line("CA")[46:]],
            r"line 2: y must be a finite number, got '\*\*\*\*\*\*'",
        ),
        ([line("N"), line("CA"), line("CA", xyz=(9, 9, 9))], r"line 3: .* CA of ALA 1 \(chain A\) again after line 2"),
        ([line("N", element="Qq")], "line 1: the element must be known, got Qq for atom N of ALA"),
        ([line("  ", element="C")], "line 1: an atom must have a name"),
        (["REMARK nothing"], "must hold ATOM or HETATM records, got none in 1 lines"),
        (["CRYST1   50.000   50.000   ", line("CA")], "line 1: CRYST1 must hold three lengths"),
        (["CRYST1   50.000   50.000   50.000  90.00  90.00 190.00 P 1", line("CA")], "line 1: CRYST1"),
        (["MODEL      one", line("CA")], "line 1: MODEL must have a number, got 'one'"),
        (["ATOM 1 CA ALA A 1 0.0 0.0 0.0"], "line 1: an atom's record must"),
        ([line("CA"), "CONECT  x1y    2"], "line 2: CONECT must hold atom numbers"),
        (
            [line("C1", "LIG"), line("C2", "LIG", serial=1), "CONECT    1    1"],
            "must name one atom each, got number 1 for 2 atoms",
        ),
    ],
    ids=lambda x: None if isinstance(x, list) else x[:30],
)
def test_broken_files_name_file_and_line(read, lines, message):
    with pytest.raises(FileFormatError, match=r"it\.pdb.*" + message):
        read(*lines)


def test_foreign_file(tmp_path):
    path = tmp_path / "it.pdb"
    path.write_bytes(np.random.default_rng(0).bytes(5000))
    with pytest.raises(FileFormatError, match="must hold ATOM or HETATM"):
        read_pdb(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 2000.0, -101.0])
def test_positions_that_do_not_fit_are_not_written(tmp_path, bad):
    positions = np.zeros((2, 3))
    positions[1, 2] = bad
    with pytest.raises(ValueError, match=r"fit the format's columns.*atom 1 \(AR 2 AR\)"):
        write_pdb(tmp_path / "x.pdb", Topology.of_particles(2, "AR", 18), positions)
    assert not (tmp_path / "x.pdb").exists()


@given(st.integers(0, 80 * 40))
@settings(max_examples=60, deadline=None)
def test_a_file_cut_anywhere_is_read_or_refused(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("cut") / "cut.pdb"
    path.write_bytes(BPTI.read_bytes()[:length])
    try:
        structure = read_pdb(path)
    except FileFormatError:
        return
    assert np.all(np.isfinite(structure.positions)) and structure.topology.n <= 40


@given(
    st.lists(
        st.tuples(st.integers(0, 100 * 80), st.sampled_from("0123456789 -.ABCZna*\n\x00\xff")), min_size=1, max_size=4
    )
)
@settings(max_examples=80, deadline=None)
def test_a_damaged_file_is_read_or_refused(tmp_path_factory, damage):
    data = bytearray(b"".join(BPTI.read_bytes().splitlines(True)[:100]))
    for place, character in damage:
        data[place % len(data)] = ord(character)
    path = tmp_path_factory.mktemp("bad") / "bad.pdb"
    path.write_bytes(data)
    try:
        structure = read_pdb(path)
    except FileFormatError as error:
        assert "bad.pdb" in str(error)
        return
    assert np.all(np.isfinite(structure.positions))


# -- mmCIF -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def bpti_cif(tmp_path_factory):
    gemmi = pytest.importorskip("gemmi")
    structure = gemmi.read_structure(str(BPTI))
    structure.setup_entities()
    path = tmp_path_factory.mktemp("cif") / "bpti.cif"
    structure.make_mmcif_document().write_file(str(path))
    return path


def test_mmcif_and_pdb_hold_the_same(bpti_cif):
    a, b = read_mmcif(bpti_cif), read_pdb(BPTI)
    for name in ("names", "elements", "residue_index", "residue_names", "residue_ids", "bonds"):
        np.testing.assert_array_equal(getattr(a.topology, name), getattr(b.topology, name))
    np.testing.assert_allclose(a.positions, b.positions, atol=1e-9)


def test_mmcif_with_components_and_links(tmp_path):
    pytest.importorskip("gemmi")
    path = tmp_path / "lig.cif"
    path.write_text("""data_lig
loop_
_chem_comp_bond.comp_id
_chem_comp_bond.atom_id_1
_chem_comp_bond.atom_id_2
LIG C1 "C2'"
loop_
_atom_site.group_PDB
_atom_site.id
_atom_site.type_symbol
_atom_site.label_atom_id
_atom_site.label_alt_id
_atom_site.label_comp_id
_atom_site.label_asym_id
_atom_site.label_seq_id
_atom_site.Cartn_x
_atom_site.Cartn_y
_atom_site.Cartn_z
_atom_site.occupancy
_atom_site.auth_seq_id
_atom_site.auth_asym_id
HETATM 1 C C1 . LIG A . 0 0 0 1 1 A
HETATM 2 C "C2'" . LIG A . 1.5 0 0 1 1 A
""")
    s = read_mmcif(path)
    assert s.topology.bonds.tolist() == [[0, 1]]
    path.write_text(path.read_text().replace("1.5 0 0", "? 0 0"))
    with pytest.raises(FileFormatError, match="finite coordinates"):
        read_mmcif(path)


def test_cut_mmcif_names_the_line(bpti_cif, tmp_path):
    path = tmp_path / "cut.cif"
    path.write_text(bpti_cif.read_text()[:20000])
    with pytest.raises(FileFormatError, match=r"cut\.cif:\d+"):
        read_mmcif(path)
