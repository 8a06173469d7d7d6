"""Selections of atoms: by words, numbers and distances, and the errors of texts that are none."""

import itertools

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.box import as_box, displacement


@pytest.fixture(scope="module")
def peptide():
    return sponge.load(*sponge.example_files("alanine-dipeptide-water"))


def small():
    """Two residues of a chain A, one of them with an insertion code, a sodium ion, a ligand and a water in chain B."""
    return sponge.Topology(
        names="N CA C O CB N CA C O NA C1 O1 O H1 H2".split(),
        elements=[7, 6, 6, 8, 6, 7, 6, 6, 8, 11, 6, 8, 8, 1, 1],
        residue_index=[0] * 5 + [1] * 4 + [2] + [3] * 2 + [4] * 3,
        residue_names=["ALA", "GLY", "NA", "LIG", "HOH"],
        residue_ids=["5", "5A", "-1", "7", "8"],
        chain_index=[0, 0, 1, 1, 1],
        chain_ids=["A", "B"],
        bonds=[[0, 1], [1, 2], [2, 3], [1, 4], [2, 5], [5, 6], [6, 7], [7, 8], [10, 11], [12, 13], [12, 14]],
    )


@pytest.mark.parametrize(
    "text, atoms",
    [
        ("all", range(15)),
        ("none", []),
        ("protein", range(9)),
        ("backbone", [0, 1, 2, 3, 5, 6, 7, 8]),
        ("water", [12, 13, 14]),
        ("ion", [9]),
        ("ligand", [10, 11]),
        ("protein or ligand", [*range(9), 10, 11]),
        ("nucleic", []),
        ("name C*", [1, 2, 4, 6, 7, 10]),
        ("name C? and not protein", [10]),
        ("name [HO]* and chainID B", [11, 12, 13, 14]),
        ("resname ALA GLY", range(9)),
        ("segid A and element O", [3, 8]),
        ("resid 5", range(5)),
        ("resid 5A", range(5, 9)),
        ("resid 5:7", [*range(9), 10, 11]),
        ("resid 5 to 5A", range(9)),
        ("resnum 5", range(9)),
        ("resid -1", [9]),
        ("resid -5--1 7", [9, 10, 11]),
        ("resid -1 - 5", [*range(5), 9]),
        ("resid 9:5", []),
        ("index 0:2 14", [0, 1, 2, 14]),
        ("bynum 1:3 15", [0, 1, 2, 14]),
        ("not name CA and resid 5", [0, 2, 3, 4]),
        ("not (name CA and resid 5)", [0, *range(2, 15)]),
        ("ion or protein and name CA", [1, 6]),  # from the left
        ("ion or (protein and name CA)", [1, 6, 9]),
        ("byres name CB or ion", [*range(5), 9]),
        ("byres (name CB) or ion", [*range(5), 9]),
        ("(byres name CB) and name N", [0]),
        ("same residue as index 5", range(5, 9)),
        ("same resname as index 5", range(5, 9)),
        ("same name as index 5", [0, 5]),
        ("same segment as ligand", range(9, 15)),
        ("same fragment as index 8", range(9)),
        ("bonded name CB", [1]),
        ("name \\all", []),
    ],
)
def test_words(text, atoms):
    found = small().select(text)
    assert found.dtype.kind == "i" and found.tolist() == list(atoms)


def test_a_residue_without_a_number_is_in_no_range():
    topology = sponge.Topology(["X"], [0], [0], ["X"], ["one"], [0], ["A"])
    assert topology.select("resid -999999:999999").tolist() == []


@pytest.mark.parametrize("box", [None, [1.0, 1.2, 0.9], [[1.0, 0, 0], [0.4, 1.1, 0], [-0.3, 0.5, 0.8]]])
@pytest.mark.parametrize("cutoff", [0.0, 0.15, 0.37])
def test_distances_are_those_of_nearest_images(box, cutoff):
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 3, (40, 3))
    topology = sponge.Topology.of_particles(40)
    delta = x[:, None] - x[:3]
    if box is not None:
        edges = as_box(box)
        shifts = np.array(list(itertools.product([-1, 0, 1], repeat=3))) @ edges
        delta = displacement(delta, edges)[:, :, None] + shifts
        delta = delta.reshape(40, -1, 3)
    near = (np.linalg.norm(delta, axis=2) <= cutoff).any(1)
    near[:3] = True
    assert topology.select(f"within {cutoff} of index 0:2", x, box).tolist() == np.flatnonzero(near).tolist()
    assert topology.select(f"around {cutoff} index 0:2", x, box).tolist() == (3 + np.flatnonzero(near[3:])).tolist()


def test_distances_longer_than_the_box_reach_everything():
    x = np.random.default_rng(2).uniform(0, 1, (9, 3))
    assert len(sponge.Topology.of_particles(9).select("within 2.5 of index 4", x, [1.0, 1.0, 1.0])) == 9
    assert len(sponge.Topology.of_particles(9).select("within 2.5 of none", x, [1.0, 1.0, 1.0])) == 0


def test_a_system_selects_by_its_own_positions(peptide):
    near = peptide.select("byres (water and within 0.3 of protein)")
    assert len(near) and len(near) % 3 == 0 and near.min() >= 22
    assert np.array_equal(near, peptide.topology.select("byres water and around 0.3 protein", peptide.positions))
    assert np.array_equal(peptide.select("protein or ligand"), np.arange(22))


@pytest.mark.parametrize(
    "text, message",
    [
        ("protien", r"character 1 of 'protien' must begin a selection, got 'protien' \(did you mean 'protein'\?"),
        ("not", "character 4 of 'not' must begin a selection, got the end of the text"),
        ("", "character 1 of '' must begin a selection, got the end"),
        ("name", "character 5 of 'name' must be a name, got the end of the text"),
        ("name and protein", "character 6 of .* must be a name, got 'and'"),
        ("(protein", r"character 9 of .* must be '\)', got the end"),
        ("protein)", r"character 8 of .* must be 'and', 'or' or the end, got '\)'"),
        ("protein water", "character 9 of .* must be 'and', 'or' or the end, got 'water'"),
        ("within 0.5 protein", "character 12 of .* must be 'of', got 'protein'"),
        ("within x of protein", "character 8 of .* must be a distance in nm, got 'x'"),
        ("around -1 protein", "character 8 of .* must be a distance in nm, got '-1'"),
        ("around nan protein", "character 8 of .* must be a distance in nm, got 'nan'"),
        ("around", "character 7 of .* must be a distance in nm, got the end"),
        ("same resi as protein", r"must be a property of atoms, got 'resi' \(did you mean 'resid'"),
        ("same residue protein", "character 14 of .* must be 'as', got 'protein'"),
        ("resid 1:3 4 x 5", "character 13 of .* must be a number or a range such as 5:10, got 'x'"),
        ("index 5A", "character 7 of .* must be a number or a range"),
        ("index 1.5", "character 7 of .* must be a number or a range"),
    ],
)
def test_errors_name_the_word_and_its_place(peptide, text, message):
    with pytest.raises(ValueError, match=f"select: .*{message}"):
        peptide.select(text)


def test_words_of_distances_need_positions(peptide):
    with pytest.raises(ValueError, match="character 13 of .* cannot be used without positions .*, got 'within'"):
        peptide.topology.select("protein and within 0.5 of ion")
    with pytest.raises(TypeError, match="select: selection must be a str"):
        peptide.select(["protein"])


def test_take_keeps_residues_chains_and_bonds():
    part = small().take([2, 12, 5, 6, 14])
    assert part.names.tolist() == ["C", "O", "N", "CA", "H2"]
    assert part.residue_names[part.residue_index].tolist() == ["ALA", "HOH", "GLY", "GLY", "HOH"]
    assert part.residue_ids.tolist() == ["5", "5A", "8"] and part.chain_ids.tolist() == ["A", "B"]
    assert sorted(map(sorted, part.bonds.tolist())) == [[0, 2], [1, 4], [2, 3]]
    with pytest.raises(ValueError, match="take: atoms must be given once each"):
        small().take([1, 1])
    with pytest.raises(ValueError, match="take: atoms must be 0 to 14, got 3 to 15"):
        small().take([3, 15])
