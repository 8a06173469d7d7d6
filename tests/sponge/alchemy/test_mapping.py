"""Mappings: what RDKit finds is accepted, and mappings that change rings, centers or hybridization are refused."""

import builtins

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import alchemy

ARMS = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1.0]]) * 0.08


def graph(elements, bonds, positions=None):
    """A molecule by atomic numbers and bonds."""
    n = len(elements)
    topology = sponge.Topology(
        np.array([f"A{k}" for k in range(n)]), elements, np.zeros(n, int), ["MOL"], ["1"], [0], ["A"], bonds
    )
    if positions is None:
        positions = np.random.default_rng(n).normal(size=(n, 3))
    return sponge.System(topology, np.full(n, 12.0), None, positions)


def chain(n, ring=False):
    return graph([6] * n, [[k, k + 1] for k in range(n - 1)] + ([[0, n - 1]] if ring else []))


def center(arms, order=(1, 2, 3, 4)):
    """Four atoms around a carbon; `order` says where they stand."""
    return graph([6, *arms], [[0, k] for k in range(1, 5)], np.concatenate([[[0, 0, 0]], ARMS[np.array(order) - 1]]))


def smiles(text, seed=1):
    chem = pytest.importorskip("rdkit.Chem")
    place = pytest.importorskip("rdkit.Chem.AllChem")
    m = chem.AddHs(chem.MolFromSmiles(text))
    assert place.EmbedMolecule(m, randomSeed=seed) == 0
    return graph(
        [x.GetAtomicNum() for x in m.GetAtoms()],
        [[x.GetBeginAtomIdx(), x.GetEndAtomIdx()] for x in m.GetBonds()],
        m.GetConformer().GetPositions() / 10,
    )


def same(n):
    return {k: k for k in range(n)}


@pytest.mark.parametrize(
    "old, new, pairs, message",
    [
        (chain(4), chain(4), {0: 0, 1: 0}, "different atoms of the new system, 0 to 3"),
        (chain(4), chain(4), {4: 0}, "different atoms of the old system"),
        (chain(4), chain(4), {}, "different atoms of the old system"),
        (chain(4), chain(4), {0: 0, 2: 2}, r"by bonds, but atom 0 \(MOL 1 A0\) and atom 2 \(MOL 1 A2\) of the old"),
        (chain(5), chain(5), {0: 0, 1: 1, 2: 3}, "connected by bonds.*of the new"),
        (chain(5), chain(5, ring=True), same(5), r"A0\) and atom 4 \(MOL 1 A4\) are bonded in the new .*ring of 5"),
        (chain(6, ring=True), chain(6), same(6), "bonded in the old molecule alone, in a ring of 6"),
        (chain(5, ring=True), chain(6, ring=True), same(5), "break or form bonds.*old molecule alone, in a ring of 5"),
        (chain(5, ring=True), chain(6, ring=True), same(4), "resize rings.*A4.* of the old .* 2 times, in a ring of 5"),
        (chain(6, ring=True), chain(4), {0: 0}, "resize rings.*in a ring of 6"),
        (center((1, 9, 17, 35)), center((1, 9, 17, 35), (2, 1, 3, 4)), same(5), "mirror image of atom 0"),
        (center((1, 9, 17, 35)), center((1, 1, 17, 35), (2, 1, 3, 4)), {0: 0, 1: 1, 3: 3, 4: 4}, "mirror image"),
    ],
)
def test_mappings_that_change_too_much_are_refused_by_name(old, new, pairs, message):
    with pytest.raises(ValueError, match=message):
        alchemy.check_mapping(old, new, pairs)


def test_mappings_that_keep_rings_and_centers_are_accepted():
    alchemy.check_mapping(
        graph([0] * 7, [*chain(6, ring=True).topology.bonds.tolist(), [0, 6]]),
        graph([0] * 6, chain(6, ring=True).topology.bonds),
        same(6),
    )
    alchemy.check_mapping(center((1, 9, 17, 35)), center((1, 9, 17, 35), (2, 3, 1, 4)), same(5))  # turned
    alchemy.check_mapping(center((1, 1, 17, 17)), center((1, 1, 17, 17), (2, 1, 3, 4)), same(5))  # no stereocenter
    alchemy.check_mapping(center((1, 9, 17, 35)), center((1, 9, 17, 35), (2, 1, 3, 4)), {0: 0, 3: 3, 4: 4})
    pair = graph([6] * 4, [[0, 1], [2, 3]])
    alchemy.check_mapping(pair, pair, {0: 0, 1: 1, 2: 2})  # two molecules at a time
    dipeptide = sponge.load(*sponge.example_files("alanine-dipeptide"))
    alchemy.check_mapping(dipeptide, dipeptide, same(22))
    mirror = dipeptide.copy()
    mirror.positions = mirror.positions * [-1, 1, 1]
    with pytest.raises(ValueError, match="handedness.*CA"):
        alchemy.check_mapping(dipeptide, mirror, same(22))


def test_the_search_names_the_extra_that_it_needs(monkeypatch):
    real = builtins.__import__
    monkeypatch.setattr(
        "triskele.core.imports.optional.import_module",
        lambda name: real("no_such_package") if name.startswith("rdkit") else real(name),
    )
    with pytest.raises(ImportError, match=r"mapping: needs rdkit \(pip install \"triskele\[ligand\]\""):
        alchemy.mapping(chain(4), chain(4))
    two = graph([6, 6], np.empty((0, 2), int))
    with pytest.raises(ValueError, match="the new system must be one molecule"):
        alchemy.mapping(chain(4), two)
    with pytest.raises(ValueError, match="element of atom 0 .* must be known, got atomic number 0"):
        alchemy.mapping(graph([0, 6], [[0, 1]]), chain(4))


@pytest.mark.parametrize(
    "old, new, heavy, hydrogens",
    [
        ("C", "C", 1, 4),
        ("C", "CO", 1, 3),
        ("CO", "CC", 2, 4),
        ("Cc1ccccc1", "Oc1ccccc1", 7, 6),
        ("c1ccccc1", "c1ccccc1CC", 6, 5),
        ("C1CCCC1C", "C1CCCCC1C", 1, 3),
        ("CCCCO", "CC(C)CO", 4, 7),
        ("C[C@H](F)Cl", "C[C@@H](F)Cl", 4, 4),
        ("C[C@H](F)CC", "C[C@H](Cl)CC", 5, 9),
        ("CC(=O)C", "CC(O)C", 1, 3),
        ("c1ccccc1C", "c1ccc2ccccc2c1C", 1, 3),
    ],
)
def test_what_is_found_is_accepted_and_large(old, new, heavy, hydrogens):
    a, b = smiles(old), smiles(new, seed=2)
    for first, second in ((a, b), (b, a)):
        found = alchemy.mapping(first, second)
        alchemy.check_mapping(first, second, found)
        kinds = first.topology.elements[list(found)]
        assert (int((kinds > 1).sum()), int((kinds == 1).sum())) == (heavy, hydrogens)


def test_elements_can_be_kept():
    a, b = smiles("CCO"), smiles("CCN")
    assert len(alchemy.mapping(a, b)) == 9 and len(alchemy.mapping(a, b, elements=False)) == 7
    a, b = smiles("C[C@H](F)Cl"), smiles("C[C@@H](F)Cl")  # with fluorine on chlorine they are alike, otherwise not
    found = alchemy.mapping(a, b, elements=False)
    alchemy.check_mapping(a, b, found)
    assert found[1] == 1 and len(found) < a.n
    with pytest.raises(ValueError, match="share a heavy atom"):
        alchemy.mapping(smiles("O"), smiles("C"), elements=False)


def test_a_molecule_maps_to_itself():
    for text in ("CCO", "C[C@H](N)C(=O)O", "c1ccncc1C", "C1CCC2CCCCC2C1", "CC(C)(C)C"):
        a = smiles(text)
        found = alchemy.mapping(a, a)
        assert found == same(a.n)
