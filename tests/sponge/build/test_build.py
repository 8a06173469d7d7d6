"""Building: water boxes, virtual sites, hydrogens, solvent and ions."""

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial import cKDTree

from tests.sponge.reference import DATA
from tests.twins.molecules import without
from triskele.sponge import box as boxes
from triskele.sponge import build, units
from triskele.sponge.build.water_box import WATER_MODELS
from triskele.sponge.errors import BoxError, MissingTemplateError
from triskele.sponge.forcefield import create_system
from triskele.sponge.load.pdb import read_pdb
from triskele.sponge.load.structure import Structure
from triskele.sponge.topology import Topology

BPTI = DATA / "bpti_ff14sb_vacuum" / "bpti.pdb"
PROTEIN = "amber14/protein.ff14SB"


def nearest_contact(structure):
    """Smallest distance between atoms of different residues, over images."""
    t, images = structure.topology, np.array(list(np.ndindex(3, 3, 3))) - 1
    copies = (structure.positions[None] + (images @ structure.box)[:, None]).reshape(-1, 3)
    tree, home = cKDTree(copies), len(structure.positions)
    distance, other = tree.query(structure.positions, k=6)
    middle = 13 * home
    apart = (t.residue_index[other % home] != t.residue_index[:, None]) | (
        np.abs(other - middle - np.arange(home)[:, None]) > 5 * home
    )
    return distance[apart].min()


# -- water -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", WATER_MODELS)
def test_water_has_the_geometry_of_its_force_field(model):
    water = build.water_box(model, n=60)
    system = create_system(water.topology, water.positions, water.box, WATER_MODELS[model], cutoff=0.5)
    i, j = system.constraints.pairs.T
    np.testing.assert_allclose(
        np.linalg.norm(water.positions[i] - water.positions[j], axis=1), system.constraints.distances, rtol=1e-12
    )
    assert len(system.constraints) == 180
    np.testing.assert_allclose(system.positions, water.positions, atol=1e-12)  # virtual sites are in place already
    assert boxes.volume(water.box) == pytest.approx(system.masses.sum() * units.DENSITY / 0.997, rel=1e-9)


@given(st.integers(1, 300), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_water_of_any_number_does_not_overlap(n, seed):
    water = build.water_box(n=n, seed=seed)
    assert water.topology.n == 3 * n
    assert nearest_contact(water) > 0.1  # nm; hydrogens of lattice neighbors at the worst


@pytest.mark.parametrize(
    "size", [2.0, [2.0, 2.5, 1.5], [[2.5, 0, 0], [0.8, 2.4, 0], [-0.8, 0.9, 2.3]]], ids=["cube", "edges", "triclinic"]
)
def test_water_fills_a_given_box_at_its_density(size):
    water = build.water_box("spce", size=size, density=0.9)
    mass = water.topology.n / 3 * (15.99943 + 2 * 1.007947)
    assert mass * units.DENSITY / boxes.volume(water.box) == pytest.approx(0.9, rel=5e-3)
    assert nearest_contact(water) > 0.1


def test_water_depends_on_the_seed_alone():
    a, b, c = (build.water_box(n=20, seed=s) for s in (3, 3, 4))
    np.testing.assert_array_equal(a.positions, b.positions)
    assert np.any(a.positions != c.positions)


def test_orientations_are_uniform():
    """Mean and variance of the dipole's components: 0 and 1/3."""
    water = build.water_box(n=3000)
    o, h1, h2 = water.positions.reshape(-1, 3, 3).transpose(1, 0, 2)
    dipole = h1 + h2 - 2 * o
    dipole /= np.linalg.norm(dipole, axis=1, keepdims=True)
    assert np.all(np.abs(dipole.mean(axis=0)) < 5 * (1 / 3 / 3000) ** 0.5)
    np.testing.assert_allclose(dipole.T @ dipole / 3000, np.eye(3) / 3, atol=0.03)


@pytest.mark.parametrize(
    ("options", "message", "error"),
    [
        ({}, "n or a size must be given", ValueError),
        ({"n": 0}, "n must be an integer >= 1, got 0", ValueError),
        ({"n": 10, "model": "tip9p"}, "model must be one of tip3p,.* got 'tip9p'", ValueError),
        ({"size": 0.2}, "must hold a molecule", ValueError),
        ({"n": 100, "size": 1.0}, "molecules must have room, got 100", ValueError),
        ({"n": 10, "density": -1}, "density must be a positive number", ValueError),
        ({"size": [1, 2]}, "three lengths", BoxError),
    ],
)
def test_bad_requests_for_water(options, message, error):
    with pytest.raises(error, match=message):
        build.water_box(**options)


# -- virtual sites -----------------------------------------------------------------------------------------------------


def test_sites_are_added_to_water_and_placed():
    water = build.water_box("opc", n=8)
    t, atoms = water.topology, water.topology.elements > 0
    place = np.cumsum(atoms) - 1
    bare = Structure(
        Topology(
            t.names[atoms],
            t.elements[atoms],
            t.residue_index[atoms],
            t.residue_names,
            t.residue_ids,
            t.chain_index,
            t.chain_ids,
            place[t.bonds],
        ),
        water.positions[atoms],
        water.box,
    )
    full = build.add_virtual_sites(bare, "amber14/opc")
    for name in ("names", "elements", "residue_index", "bonds"):
        np.testing.assert_array_equal(getattr(full.topology, name), getattr(t, name))
    system = create_system(full.topology, full.positions, full.box, "amber14/opc", cutoff=0.3)
    np.testing.assert_allclose(system.positions, water.positions, atol=1e-6)
    assert build.add_virtual_sites(full, "amber14/opc") is full


# -- through OpenMM ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def heavy():
    """BPTI without hydrogens."""
    s = read_pdb(BPTI)
    return without(s, s.topology.elements == 1)


def test_hydrogens_are_added(heavy):
    pytest.importorskip("openmm")
    full = build.add_hydrogens(heavy)
    system = create_system(full.topology, full.positions, None, PROTEIN)
    assert system.n == 892
    assert system.nonbonded.params["charges"].sum() == pytest.approx(6)  # BPTI at neutral pH
    kept = full.topology.elements > 1
    np.testing.assert_array_equal(full.positions[kept], heavy.positions)
    assert full.topology.residue_ids.tolist() == heavy.topology.residue_ids.tolist()


def test_protonation_follows_ph_and_names(heavy):
    pytest.importorskip("openmm")
    t = heavy.topology
    acid = build.add_hydrogens(heavy, ph=1.0)
    assert create_system(acid.topology, forcefield=PROTEIN).nonbonded.params["charges"].sum() > 9
    names = t.residue_names.copy()
    names[2] = "ASH"
    assert t.residue_names[2] == "ASP"
    named = Structure(
        Topology(t.names, t.elements, t.residue_index, names, t.residue_ids, t.chain_index, t.chain_ids, t.bonds),
        heavy.positions,
    )
    full = build.add_hydrogens(named)
    assert create_system(full.topology, forcefield=PROTEIN).nonbonded.params["charges"].sum() == pytest.approx(7)


def test_missing_atoms_are_added(heavy):
    pytest.importorskip("pdbfixer")
    t = heavy.topology
    full = build.add_hydrogens(without(heavy, (t.names == "OXT") | (t.names == "NZ")), missing_atoms=True)
    create_system(full.topology, full.positions, None, PROTEIN)
    assert full.topology.n == 892


def of_residues(structure, residues):
    """The first residues of a structure."""
    t = structure.topology
    n = int(np.searchsorted(t.residue_index, residues))
    return Structure(
        Topology(
            t.names[:n],
            t.elements[:n],
            t.residue_index[:n],
            t.residue_names[:residues],
            t.residue_ids[:residues],
            t.chain_index[:residues],
            t.chain_ids,
            t.bonds[(t.bonds < n).all(1)],
        ),
        structure.positions[:n],
    )


def test_acids_at_the_ends_of_chains_keep_their_charge(heavy):
    """AMBER's force fields have no neutral ASP with a terminal carboxylate."""
    pytest.importorskip("pdbfixer")
    short = of_residues(heavy, 3)  # Arg-Pro-Asp
    with pytest.warns(UserWarning, match=r"3 ASP \(chain A\) kept the charge at pH 2"):
        acid = build.add_hydrogens(short, ph=2.0, missing_atoms=True)
    assert create_system(acid, PROTEIN).nonbonded.params["charges"].sum() == pytest.approx(0)  # + of N and ARG, 2 -


def test_selenomethionine_is_replaced_when_asked(heavy):
    pytest.importorskip("pdbfixer")
    t = heavy.topology
    met = int(np.flatnonzero(t.residue_names == "MET")[0])
    names, kinds, elements = t.names.copy(), t.residue_names.copy(), t.elements.copy()
    sulfur = (t.residue_index == met) & (t.elements == 16)
    names[sulfur], elements[sulfur], kinds[met] = "SE", 34, "MSE"
    apart = ~(t.residue_index[t.bonds] == met).any(1)  # files do not give its bonds
    seleno = Structure(
        Topology(names, elements, t.residue_index, kinds, t.residue_ids, t.chain_index, t.chain_ids, t.bonds[apart]),
        heavy.positions,
    )
    with pytest.raises(MissingTemplateError, match=r"no template for residue 52 MSE .*replace_nonstandard=True"):
        create_system(build.add_hydrogens(seleno), PROTEIN)
    full = build.add_hydrogens(seleno, replace_nonstandard=True)
    assert create_system(full, PROTEIN).n == 892 and full.topology.residue_names[met] == "MET"


@pytest.mark.slow
def test_water_of_charmm_is_found_by_its_atoms(heavy):
    app = pytest.importorskip("openmm.app")
    folder = Path(app.__file__).parent / "data"
    field = [str(folder / "charmm36.xml"), str(folder / "charmm36/water.xml")]
    solute = build.add_hydrogens(of_residues(heavy, 3), forcefield=None, ph=7.0, missing_atoms=True)
    full = build.solvate(solute, field, padding=0.5)
    system = create_system(full, field, cutoff=0.6, constraints="h-bonds")
    i, j = system.constraints.pairs[system.topology.elements[system.constraints.pairs].max(1) == 1].T
    lengths = np.linalg.norm(full.positions[i] - full.positions[j], axis=1)
    assert len(lengths) > 100
    np.testing.assert_allclose(lengths, 0.15139, atol=1e-5)  # H-H of TIP3P, in place at once


@pytest.mark.slow
@pytest.mark.parametrize(("water", "shape"), [("tip3p", "cube"), ("opc", "dodecahedron")])
def test_solvent_and_ions(heavy, water, shape):
    pytest.importorskip("openmm")
    sources = [PROTEIN, f"amber14/{water}"]
    solute = build.add_hydrogens(heavy)
    full = build.solvate(solute, sources, padding=0.6, shape=shape, ionic_strength=0.15)
    system = create_system(full.topology, full.positions, full.box, sources, constraints="h-bonds")
    assert system.nonbonded.params["charges"].sum() == pytest.approx(0, abs=1e-9)
    i, j = system.constraints.pairs[
        system.topology.residue_names[system.topology.residue_index[system.constraints.pairs[:, 0]]] == "HOH"
    ].T
    lengths = np.linalg.norm(system.positions[i] - system.positions[j], axis=1)
    fixed = {tuple(p): d for p, d in zip(system.constraints.pairs.tolist(), system.constraints.distances)}
    np.testing.assert_allclose(lengths, [fixed[p] for p in zip(i.tolist(), j.tolist())], rtol=1e-9)
    np.testing.assert_allclose(system.positions, full.positions, atol=1e-9)  # virtual sites are in place
    kinds = {n: int(np.sum(full.topology.residue_names == n)) for n in ("HOH", "NA", "CL")}
    assert kinds["CL"] - kinds["NA"] == 6
    concentration = kinds["NA"] / (kinds["HOH"] * 0.018)  # mol/l; water is 55.4 mol/l
    assert concentration == pytest.approx(0.15, abs=0.05)
    np.testing.assert_allclose(full.box, boxes.as_box(full.box))
    again = build.solvate(solute, sources, padding=0.6, shape=shape, ionic_strength=0.15)
    np.testing.assert_array_equal(full.positions, again.positions)


def test_solvate_says_what_is_missing(heavy):
    pytest.importorskip("openmm")
    with pytest.raises(ValueError, match="must have a water model, got amber14/protein.ff14SB"):
        build.solvate(heavy, PROTEIN, padding=0.5)
    with pytest.raises(MissingTemplateError, match="residue 1 ARG .* no hydrogens"):
        build.solvate(heavy, [PROTEIN, "amber14/tip3p"], padding=0.5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "padding or size must be given"),
        ({"padding": 1.0, "size": 3.0}, "got both"),
        ({"padding": 1, "shape": "ball"}, "got 'ball'"),
        ({"padding": 1, "ionic_strength": -1}, "must be a number >= 0"),
    ],
)
def test_bad_requests_for_solvent(heavy, options, message):
    with pytest.raises(ValueError, match=message):
        build.solvate(heavy, [PROTEIN, "amber14/tip3p"], **options)


ARGON = Structure(Topology.of_particles(1, "AR", 18), np.zeros((1, 3)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda s: build.add_hydrogens(s, [PROTEIN]),
            TypeError,
            r"ph must be a number, got list \['amber14/protein.ff14SB'\] \(a force field is named by forcefield=...\)",
        ),
        (lambda s: build.add_hydrogens(s, np.nan), ValueError, "ph must be a finite number, got nan"),
        (lambda s: build.add_hydrogens(s, missing_atoms="no"), TypeError, "missing_atoms must be True or False, got"),
        (lambda s: build.solvate(s, PROTEIN, padding=1, neutralize=0), TypeError, "neutralize must be True or False"),
        (
            lambda s: build.add_hydrogens("a.pdb"),
            TypeError,
            "must be a Structure or a System, got str 'a.pdb' .read a file with",
        ),
        (lambda s: build.add_hydrogens(s, forcefield=3), TypeError, "forcefield must be names or paths, got int"),
        (lambda s: build.solvate(s, [3], padding=1), TypeError, "forcefield must be names or paths, got int"),
        (lambda s: build.solvate(s, PROTEIN, padding="1"), ValueError, "padding must be a positive number .nm., got"),
        (lambda s: build.solvate(s, PROTEIN, padding=1, positive="Xx"), ValueError, "one of Cs.*, got 'Xx'"),
        (lambda s: build.solvate(s, PROTEIN, padding=1, seed=[1]), ValueError, "seed must be an integer >= 0, got"),
        (lambda s: build.add_virtual_sites(s, 3), TypeError, "must be names, paths or a ForceField, got int"),
        (lambda s: build.pack([ARGON], density=1.0), TypeError, "must be pairs of a Structure and a number, got"),
        (
            lambda s: build.pack([("a.pdb", 3)], density=1.0),
            TypeError,
            "molecule must be a Structure or a System, got str",
        ),
        (lambda s: build.pack([(ARGON, 3)], size="1"), BoxError, "pack: lengths must be numbers in nm, got '1'"),
        (lambda s: build.immerse(s), TypeError, "system must be a System, got Structure"),
        (lambda s: build.water_box(["tip3p"], n=8), ValueError, r"model must be one of .* got \['tip3p'\]"),
        (lambda s: build.water_box(n=8, seed=-1), ValueError, "seed must be an integer >= 0, got -1"),
        (lambda s: build.crystal(29, "fcc", 0.36), ValueError, "elements must be symbols such as 'Cu', got 29"),
        (lambda s: build.crystal("Cu", "fcc", 0.36, repeat=2.5), ValueError, "repeat must be an integer >= 1, got 2.5"),
        (lambda s: build.crystal("Cu", "fcc", 0.36, repeat=[1, 2]), ValueError, "one number of cells, or three, got 2"),
        (lambda s: build.crystal("Cu", "fcc", 0.36, masses="x"), ValueError, "masses must be a number"),
        (lambda s: build.small_molecule(s), TypeError, "must be a SMILES or a path, got Structure"),
    ],
)
def test_arguments_of_other_types_are_named(heavy, call, error, message):
    pytest.importorskip("openmm")
    with pytest.raises(error, match=message):
        call(heavy)


def test_without_openmm_the_error_names_the_extra(heavy, monkeypatch):
    for name in ("openmm", "openmm.app", "pdbfixer"):
        monkeypatch.setitem(sys.modules, name, None)
    for call in (lambda: build.add_hydrogens(heavy), lambda: build.solvate(heavy, PROTEIN, padding=1)):
        with pytest.raises(ImportError, match=r'pip install "triskele\[md\]"'):
            call()
