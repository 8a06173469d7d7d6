"""AMBER files: what is written reads back as the same system, and OpenMM and ParmEd compute its energies."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.sponge.write.random_systems import TRICLINIC, assert_same, energies, like, random_system
from tests.sponge.write.test_gromacs import SYSTEMS, assert_openmm_agrees
from triskele import sponge
from triskele.sponge.potentials.pairs.mixing import LJTable
from triskele.sponge.virtual_sites.sites import TwoParticleAverage

# 1-4 pairs share the coefficients of other pairs, which files with nine digits, the source of these, have a little else
ROUNDED = {"peptide in water": 1e-9, "toluene": 2e-8, "ff19SB with cross terms": 1e-10, "Amber ff99SB-ILDN": 1e-11}


@pytest.mark.parametrize("name", SYSTEMS)
def test_same_system_is_read(name, tmp_path):
    system = SYSTEMS[name]()
    if name == "toluene":
        system.constraints = sponge.Constraints()
    files = sponge.write_amber(system, tmp_path / "x.prmtop")
    again = like(files, system)
    np.testing.assert_allclose(again.positions, system.positions, rtol=0, atol=5.1e-9)
    assert again.box is None or np.allclose(again.box, system.box, rtol=0, atol=1e-8)
    assert_same(again, system, rel=ROUNDED.get(name, 1e-12))


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_random_molecules(tmp_path_factory, seed):
    """With 1-4 pairs as AMBER scales them, or CHARMM's, in several chains and boxes."""
    rng = np.random.default_rng(seed)
    system = random_system(rng, charmm=rng.random() < 0.5, box=TRICLINIC if rng.random() < 0.5 else None)
    folder = tmp_path_factory.mktemp("random")
    again = like(sponge.write_amber(system, folder / "x.prmtop"), system)
    np.testing.assert_allclose(again.velocities, system.velocities, rtol=0, atol=2e-7)
    assert again.box is None or np.allclose(again.box, system.box, rtol=0, atol=1e-8)
    assert again.topology.names.tolist() == [name[:4] for name in system.topology.names]
    assert again.topology.chain_ids[again.topology.chain_index].tolist() == (
        system.topology.chain_ids[system.topology.chain_index].tolist()
    )
    assert_same(again, system, rel=1e-12)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SYSTEMS)
def test_energies_of_openmm(name, tmp_path):
    app = pytest.importorskip("openmm.app")
    mm = pytest.importorskip("openmm")
    system = SYSTEMS[name]()
    if name == "toluene":
        system.constraints = sponge.Constraints()
    box = None if system.box is None else [mm.Vec3(*row) for row in system.box] * mm.unit.nanometer
    top, _ = sponge.write_amber(system, tmp_path / "x.prmtop")
    made = app.AmberPrmtopFile(str(top), periodicBoxVectors=box).createSystem(
        nonbondedMethod=app.NoCutoff if box is None else app.PME,
        nonbondedCutoff=system.nonbonded.cutoff,
        constraints=None,
        rigidWater=True,
    )
    if name == "TIP4P":  # the length that holds the site is a bond there
        for k in range(made.getForce(0).getNumBonds()):
            made.getForce(0).setBondParameters(k, *made.getForce(0).getBondParameters(k)[:3], 0.0)
    assert_openmm_agrees(made, system, rel=1e-8)


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["peptide in water", "ff19SB with cross terms", "changed pair of types"])
def test_energies_of_parmed(name, tmp_path):
    parmed, app = pytest.importorskip("parmed"), pytest.importorskip("openmm.app")
    system = SYSTEMS[name]()
    files = sponge.write_amber(system, tmp_path / "x.prmtop")
    read = parmed.load_file(str(files[0]), xyz=str(files[1]))
    made = read.createSystem(
        nonbondedMethod=app.NoCutoff if system.box is None else app.PME,
        nonbondedCutoff=system.nonbonded.cutoff,
        rigidWater=False,
    )
    for k in range(made.getForce(0).getNumBonds()):  # constrained bonds are bonds there
        i, j, length, constant = made.getForce(0).getBondParameters(k)
        if len(system.constraints) and constant._value == pytest.approx(553 * 2 * 418.4):
            made.getForce(0).setBondParameters(k, i, j, length, 0.0)
    assert_openmm_agrees(made, system, rel=1e-8)


def test_water_keeps_its_shape(tmp_path):
    """Constraints are bonds in the file, which hold rigid water when it is read."""
    system = SYSTEMS["peptide in water"]()
    again = like(sponge.write_amber(system, tmp_path / "x.prmtop"), system)
    np.testing.assert_allclose(np.sort(again.constraints.distances), np.sort(system.constraints.distances), rtol=1e-14)
    flexible = sponge.load(tmp_path / "x.prmtop", rigid_water=False)
    assert not len(flexible.constraints)
    assert np.isclose(flexible["bond"].params["k"], 2 * 553 * 418.4).sum() == len(system.constraints)
    four = SYSTEMS["TIP4P"]()
    sites = like(sponge.write_amber(four, tmp_path / "four.prmtop"), four).virtual_sites
    np.testing.assert_allclose(sites[0].weights, four.virtual_sites[0].weights, rtol=1e-13)


class TestRefusals:
    def system(self, **options):
        return sponge.load(*sponge.example_files("alanine-dipeptide"), **options)

    def assert_refused(self, system, tmp_path, message):
        with pytest.raises(ValueError, match=message):
            sponge.write_amber(system, tmp_path / "x.prmtop")
        assert not (tmp_path / "x.prmtop").exists()

    def test_terms(self, tmp_path):
        system = self.system()
        system.add(sponge.ryckaert_bellemans([[4, 6, 8, 14]], c0=1.0, c1=0.0, c2=0.0, c3=0.0, c4=0.0, c5=0.0))
        self.assert_refused(system, tmp_path, "none for this term of ryckaert_bellemans")

    def test_constraints_without_bonds(self, tmp_path):
        self.assert_refused(self.system(constraints="h-angles"), tmp_path, "must be those of bonds and of rigid water")

    def test_pairs_with_other_charges(self, tmp_path):
        system = self.system()
        system["pair14"].params["charge_product"][5] = 0.0
        self.assert_refused(system, tmp_path, "a product of charges other than that of the atoms, of atom")

    def test_pairs_far_apart(self, tmp_path):
        system = self.system()
        system.add(sponge.pair14([[0, 20]], charge_product=0.1, sigma=0.3, epsilon=0.4))
        self.assert_refused(system, tmp_path, "of pair14")

    def test_sites(self, tmp_path):
        topology = sponge.Topology.of_particles(3, bonds=[[0, 1]])
        site = TwoParticleAverage([2], [[0, 1]], [0.5, 0.5])
        system = sponge.System(topology, [12.0, 12.0, 0.0], None, np.eye(3), virtual_sites=[site])
        self.assert_refused(system, tmp_path, "must be those of four-site water.* got atom 2")

    def test_places(self, tmp_path):
        system = self.system()
        system.positions[3] = 2000.0
        self.assert_refused(system, tmp_path, "between -1000 and 10000 A")


def test_tables_and_types_that_share_everything_but_their_pairs(rng, tmp_path):
    """1-4 parameters that tell atoms of one Lennard-Jones type apart, as those of prolines' N from other N."""
    n = 9
    bonds = [[i, i + 1] for i in range(n - 1)]
    topology = sponge.Topology.of_particles(n, "C", 6, bonds)
    excluded = [[i, j] for i in range(n) for j in range(i + 1, min(i + 4, n))]
    positions = np.cumsum(rng.normal(0, 0.05, (n, 3)) + [0.12, 0, 0], axis=0)
    system = sponge.System(topology, np.full(n, 12.011), None, positions, exclusions=excluded)
    table = LJTable.from_sigma_epsilon([0, 1] * 4 + [0], [[0.3, 0.35], [0.35, 0.32]], [[0.5, 0.2], [0.2, 0.4]])
    system.add(sponge.Nonbonded(rng.normal(size=n), mixing=table, method="none"))
    pairs = [[i, i + 3] for i in range(n - 3)]
    system.add(sponge.pair14(pairs, charge_product=0.0, sigma=[0.3, 0.31, 0.3, 0.28, 0.3, 0.31], epsilon=0.2))
    with pytest.raises(ValueError, match="other than that of the atoms"):
        sponge.write_amber(system, tmp_path / "x.prmtop")
    charges = system.nonbonded.params["charges"]
    system["pair14"].params["charge_product"] = np.array([charges[i] * charges[j] / 1.2 for i, j in pairs])
    again = sponge.load(*sponge.write_amber(system, tmp_path / "x.prmtop"))
    again.positions = system.positions
    expected = energies(system) | {"torsion": 0.0}  # of pairs without a torsion of their own
    assert energies(again) == pytest.approx(expected, rel=1e-12)
