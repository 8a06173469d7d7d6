"""GROMACS files: what is written reads back as the same system, and GROMACS, OpenMM and ParmEd compute its energies."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import erfc

from tests.sponge.differential import gmx
from tests.sponge.reference import DATA, openmm_energies
from tests.sponge.write.random_systems import TRICLINIC, assert_same, energies, like, random_system, reference_system
from triskele import sponge
from triskele.sponge.potentials.bonded import gromacs as own_terms
from triskele.sponge.potentials.pairs.mixing import LJTable
from triskele.sponge.units import COULOMB
from triskele.sponge.virtual_sites import sites as virtual_sites

FILES = DATA / "amber"
GROMACS_COULOMB = 138.935458  # printed digits of GROMACS's constant, of CODATA 2018 as ours


def peptide(name):
    """Four residues in the box of their file."""
    top, gro = {"charmm27": ("charmm27", "peptide_charmm27"), "amber99": ("amber99sb-ildn", "peptide_amber")}[name]
    return sponge.load(DATA / "parmed" / f"{top}.top.gz", DATA / "parmed" / f"{gro}.gro.gz", cutoff=1.0)


SYSTEMS = {
    "peptide in water": lambda: sponge.load(*sponge.example_files("alanine-dipeptide-water")),
    "CHARMM27 with cross terms": lambda: peptide("charmm27"),
    "CHARMM with 1-4 pairs of its own": lambda: sponge.load(
        FILES / "chamber.prmtop.gz", FILES / "chamber.rst7.gz", cutoff=1.0
    ),
    "Amber ff99SB-ILDN": lambda: peptide("amber99"),
    "ff19SB with cross terms": lambda: sponge.load(FILES / "bpti19.prmtop.gz", FILES / "bpti19.rst7.gz"),
    "changed pair of types": lambda: sponge.load(
        FILES / "nbfix.prmtop.gz", sponge.example_files("alanine-dipeptide")[1]
    ),
    "TIP4P": lambda: reference_system("openmmtools/FourSiteWaterBox"),
    "toluene": lambda: reference_system("openmmtools/TolueneVacuum"),
}


@pytest.mark.parametrize("name", SYSTEMS)
def test_same_system_is_read(name, tmp_path):
    system = SYSTEMS[name]()
    files = sponge.write_gromacs(system, tmp_path / "x.top")
    again = like(files, system)
    np.testing.assert_allclose(again.positions, system.positions, rtol=0, atol=5.1e-16 + 2e-16 * 10)
    assert again.box is None or np.allclose(again.box, system.box, rtol=0, atol=2e-15)
    assert again.topology.names.tolist() == system.topology.names.tolist()
    assert_same(again, system)


@settings(max_examples=12)
@given(st.integers(0, 2**32 - 1))
def test_random_molecules(tmp_path_factory, seed):
    rng = np.random.default_rng(seed)
    system = random_system(rng, charmm=rng.random() < 0.5, box=TRICLINIC if rng.random() < 0.5 else None)
    if rng.random() < 0.3:
        system.exclusions = system.exclusions[rng.random(len(system.exclusions)) < 0.8]
    folder = tmp_path_factory.mktemp("random")
    again = like(sponge.write_gromacs(system, folder / "x.top"), system)
    np.testing.assert_allclose(again.velocities, system.velocities, rtol=0, atol=1e-15)
    assert_same(again, system)


def own_system(rng):
    """Every term of GROMACS's own, and pairs with a repulsion or an attraction alone."""
    n = 12
    bonds, angles, chains = ([[*range(i, i + k)] for i in range(n - k + 1)] for k in (2, 3, 4))
    positions = np.cumsum(rng.normal(0, 0.05, (n, 3)) + [0.1, 0, 0], axis=0)
    system = sponge.System(
        sponge.Topology.of_particles(n, bonds=bonds), np.full(n, 12.0), None, positions, exclusions=bonds
    )
    types = np.arange(n) % 3
    a, b = rng.uniform(1e-7, 1e-6, (3, 3)), rng.uniform(1e-4, 1e-3, (3, 3))
    b[0, 1] = b[1, 0] = 0.0
    system.add(sponge.Nonbonded(rng.normal(size=n), mixing=LJTable(types, a + a.T, b + b.T), method="none"))
    examples = [potential for potentials, _ in own_terms.example() for potential in potentials]
    for potential in [*examples, sponge.ryckaert_bellemans(chains, c0=1.0, c1=2.0, c2=-3.0, c3=0.5, c4=0.2, c5=-0.1)]:
        system.add(potential)
    system.add(sponge.urey_bradley([[0, 5]], k=1e3, r0=0.4))
    system.add(sponge.harmonic_angle(angles[:2], k=300.0, theta0=2.0))
    return system


def test_terms_of_gromacs(rng, tmp_path):
    system = own_system(rng)
    again = sponge.load(*sponge.write_gromacs(system, tmp_path / "x.top"))
    expected = energies(system)
    expected["bond"] = expected.pop("urey_bradley")  # a spring without an angle is a bond that excludes nothing
    expected["pair14"] = expected.pop("lennard_jones_pair")
    again.positions = system.positions
    assert energies(again) == pytest.approx(expected, rel=1e-12)


def test_virtual_sites(rng, tmp_path):
    n, parents = 4, [0, 1, 2, 3]
    kinds = [
        virtual_sites.TwoParticleAverage([4], [parents[:2]], [0.3, 0.7]),
        virtual_sites.ThreeParticleAverage([5], [parents[:3]], [0.5, 0.7, -0.2]),
        virtual_sites.WeightedAverage([6], [parents], [0.1, 0.2, 0.3, 0.4]),
        virtual_sites.OutOfPlane([7], [parents[:3]], 0.3, 0.4, 2.0),
        virtual_sites.LocalCoordinates([8], [parents[:3]], [1, 0, 0], [-1, 0.6, 0.4], [-1, 0, 1], [0.12, 0, 0]),
        virtual_sites.LocalCoordinates([9], [parents[:3]], [1, 0, 0], [-1, 1, 0], [0, -1, 1], [0.1, 0.05, 0]),
        virtual_sites.LocalCoordinates([10], [parents], [1, 0, 0, 0], [0.7, -1, 0.3, 0], [0.4, -1, 0, 0.6], [0, 0, 1]),
    ]  # fmt: skip
    positions = virtual_sites.place_all(kinds, rng.uniform(0, 0.4, (11, 3)))
    masses = [12.0] * n + [0.0] * 7
    topology = sponge.Topology.of_particles(11, bonds=[[0, 1], [1, 2], [2, 3]])
    system = sponge.System(topology, masses, None, positions, virtual_sites=kinds)
    system.add(sponge.Nonbonded(rng.normal(size=11), np.full(11, 0.3), np.full(11, 0.5), method="none"))
    again = sponge.load(*sponge.write_gromacs(system, tmp_path / "x.top"))
    moved = rng.uniform(0, 0.4, (11, 3))
    np.testing.assert_allclose(
        virtual_sites.place_all(again.virtual_sites, moved),
        virtual_sites.place_all(kinds, moved), rtol=1e-13, atol=1e-14,
    )  # fmt: skip
    frame = virtual_sites.LocalCoordinates([8], [parents[:3]], [0.5, 0.5, 0], [-1, 1, 0], [-1, 0, 1], [0.1, 0.1, 0.1])
    system.virtual_sites = [*kinds[:4], frame, *kinds[5:]]
    with pytest.raises(ValueError, match=r"this frame of LocalCoordinates, got atom 8"):
        sponge.write_gromacs(system, tmp_path / "x.top")


def test_molecules_that_are_alike_are_written_once(tmp_path):
    files = sponge.write_gromacs(SYSTEMS["peptide in water"](), tmp_path / "x.top")
    text = files[0].read_text()
    assert text.count("[ moleculetype ]") == 2 and text.endswith("[ molecules ]\nChain_A 1\nWAT 749\n")
    assert "1 2 3\n2 3\n" in text  # [ settles ] exclude nothing, to GROMACS


def test_chains_and_files_of_odd_names(tmp_path):
    system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    object.__setattr__(system.topology, "chain_ids", np.array([" "]))
    again = sponge.load(*sponge.write_gromacs(system, tmp_path / "[x] y;z.top"))
    assert_same(again, system)


def test_no_bonds_many_atoms_and_charge(tmp_path):
    n = 100_001
    grid = np.stack(np.unravel_index(np.arange(n), (50, 50, 41)), axis=1) * 0.4
    system = sponge.System(sponge.Topology.of_particles(n, "NA", 11), np.full(n, 22.99), 20.5, grid)
    system.add(sponge.Nonbonded(np.full(n, 1.0), np.full(n, 0.3), np.full(n, 0.4)))
    top, gro = sponge.write_gromacs(system, tmp_path / "x.top")
    assert top.read_text().endswith("[ molecules ]\nNA 100001\n")
    line = gro.read_text().split("\n")[100_001]
    assert line.startswith("    0NA      NA    0") and [float(x) for x in line[20:].split()] == grid[-2].tolist()


class TestRefusals:
    def system(self):
        return sponge.load(*sponge.example_files("alanine-dipeptide"))

    def assert_refused(self, system, path, message):
        with pytest.raises(ValueError, match=message):
            sponge.write_gromacs(system, path)
        assert not path.exists()

    def test_potentials_without_a_form(self, tmp_path):
        system = self.system()
        system.add(sponge.PositionRestraint([4], k=10.0, reference=np.zeros((1, 3))))
        self.assert_refused(
            system, tmp_path / "x.top", r"none for this term of PositionRestraint 'position_restraint'.*remove"
        )
        solvated = sponge.load(*sponge.example_files("alanine-dipeptide"), implicit_solvent="obc2")
        self.assert_refused(solvated, tmp_path / "x.top", "of GB 'gb'")

    def test_second_nonbonded(self, tmp_path):
        system = self.system()
        system.add(sponge.Nonbonded(np.zeros(22), np.full(22, 0.3), np.full(22, 0.1), method="none"))
        self.assert_refused(system, tmp_path / "x.top", "Nonbonded 'nonbonded 2'")

    def test_torsions_of_no_whole_number(self, tmp_path):
        system = self.system()
        system["torsion"].params["periodicity"][3] = 1.5
        self.assert_refused(system, tmp_path / "x.top", "a periodicity of 1.5 of periodic_torsion 'torsion'")

    def test_names_and_places(self, tmp_path):
        system = self.system()
        self.assert_refused(system, tmp_path / "x.gro", "the suffix .* must be .*top")
        system.positions[3, 1] = -1000.0
        self.assert_refused(system, tmp_path / "x.top", r"\(-1000 to 10000 nm\), got .*atom 3")
        system.positions = None
        self.assert_refused(system, tmp_path / "x.top", "positions must be given")
        names = system.topology.names.copy()
        names[2] = "C 1"
        object.__setattr__(system.topology, "names", names.astype(str))
        with pytest.raises(ValueError, match="without blanks and semicolons, got 'C 1'"):
            sponge.write_gromacs(system, tmp_path / "x.top", np.zeros((22, 3)))


@pytest.mark.peer
@pytest.mark.skipif(gmx.GMX is None, reason="needs gmx_d")
@pytest.mark.parametrize("name", SYSTEMS)
def test_energies_of_gromacs(name, tmp_path):
    """Bonds, angles, torsions, cross terms, Lennard-Jones and Coulomb energies of gmx_d at the written positions."""
    system = SYSTEMS[name]()
    system.nonbonded.update(dispersion_correction=False, switch=None)  # a mean of C6 that GROMACS takes in another way
    if system.box is None:
        system.positions = system.positions - system.positions.mean(0) + 10
    top, gro = sponge.write_gromacs(system, tmp_path / "x.top")
    settings = "".join(f"{key} = {value}\n" for key, value in gmx._RUN.items())
    (tmp_path / "run.mdp").write_text(settings if system.box is None else mdp(system))
    if system.box is None:
        gro = gmx.write_gro(tmp_path / "g.gro", system.positions)
    gmx.run(tmp_path, *f"grompp -f run.mdp -c {gro.name} -p x.top -o run.tpr -maxwarn 20".split())
    gmx.run(tmp_path, *"mdrun -s run.tpr -deffnm run -nt 1".split())
    gmx.run(tmp_path, *"energy -f run.edr -dp -o e.xvg".split(), answer="\n".join(map(str, range(1, 30))) + "\n\n")
    theirs = dict(zip(*gmx._table(tmp_path / "e.xvg")))
    ours = system.energy_terms()
    sums = {}
    for source, groups in ((ours, gmx.OURS), (theirs, gmx.GROUPS | {"Coul. recip.": "pairs"})):
        for term, energy in source.items():
            group = groups.get(re.sub(r" \d+$", "", term), "total")
            sums.setdefault(group, {}).setdefault(id(source), []).append(energy)
    sums.pop("total")
    for group, parts in sums.items():
        mine, other = (sum(parts.get(id(source), [0.0])) for source in (ours, theirs))
        assert mine == pytest.approx(other, rel=1e-9 if group != "pairs" else 1e-6, abs=1e-7), group
    assert GROMACS_COULOMB == pytest.approx(COULOMB, rel=4e-9)


def mdp(system):
    """Settings with the cut-off, mesh and splitting parameter of the system."""
    form, cut = system.nonbonded.form(system.box), system.nonbonded.cutoff
    grid = "\n".join(f"fourier-n{axis} = {n}" for axis, n in zip("xyz", form.grid))
    return f"""integrator = md
nsteps = 0
nstenergy = 1
nstcalcenergy = 1
continuation = yes
verlet-buffer-tolerance = -1
vdw-modifier = none
coulomb-modifier = none
coulombtype = PME
rcoulomb = {cut}
rvdw = {cut}
rlist = {cut}
ewald-rtol = {erfc(form.alpha * cut):.17g}
pme-order = 5
{grid}
"""


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SYSTEMS)
def test_energies_of_openmm(name, tmp_path):
    app = pytest.importorskip("openmm.app")
    mm = pytest.importorskip("openmm")
    system = SYSTEMS[name]()
    box = None if system.box is None else [mm.Vec3(*row) for row in system.box] * mm.unit.nanometer
    top, _ = sponge.write_gromacs(system, tmp_path / "x.top")
    method = app.NoCutoff if system.box is None else app.PME
    made = app.GromacsTopFile(str(top), periodicBoxVectors=box).createSystem(
        nonbondedMethod=method, nonbondedCutoff=system.nonbonded.cutoff, constraints=None, rigidWater=True
    )
    assert_openmm_agrees(made, system)


def assert_openmm_agrees(made, system, rel=1e-9):
    """Energies by kind of an OpenMM system, given the mesh of ours."""
    form, nonbonded = system.nonbonded.form(system.box), system.nonbonded
    for force in made.getForces():
        kind = type(force).__name__
        if kind == "NonbondedForce" and form.grid is not None:
            force.setPMEParameters(form.alpha, *form.grid)
            force.setUseDispersionCorrection(form.dispersion)
            if nonbonded.switch is not None:
                force.setUseSwitchingFunction(True)
                force.setSwitchingDistance(nonbonded.switch)
        force.setName(kind)
    theirs, ours = openmm_energies(made, system.positions, system.box), energies(system)
    groups = {
        ("HarmonicBondForce",): ("bond", "urey_bradley"),
        ("HarmonicAngleForce",): ("angle",),
        ("PeriodicTorsionForce", "CustomTorsionForce", "RBTorsionForce"): ("torsion", "improper", "ryckaert_bellemans"),
        ("CMAPTorsionForce",): ("cmap",),
        ("NonbondedForce", "CustomNonbondedForce", "CustomBondForce"): ("nonbonded", "pair14"),
    }
    for names, terms in groups.items():
        expected = sum(ours.get(t, 0.0) for t in terms)
        assert sum(theirs.get(n, 0.0) for n in names) == pytest.approx(expected, rel=rel, abs=1e-5), terms
