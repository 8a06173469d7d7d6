"""Systems handed to OpenMM, MDTraj and ASE are the same systems: energies, forces, names, cells."""

import numpy as np
import pytest

from tests.sponge.reference import DATA, load_reference, pure_energies
from triskele import sponge
from triskele.sponge import units
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.potentials.nonbonded.nonbonded import Nonbonded
from triskele.sponge.potentials.pairs.mixing import LJTable


def reference_system(name):
    reference = load_reference(name)
    return load_openmm(reference.xml, positions=reference.positions, box=reference.box)


def context_of(omm, system):
    mm = pytest.importorskip("openmm")
    context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(system.positions)
    return context


def assert_same_energies(system, rel=1e-9):
    """Every force of OpenMM has the energy of our potential of that name; 1-4 pairs are in "nonbonded"."""
    pytest.importorskip("openmm")
    omm = system.to_openmm()
    ours, theirs = pure_energies(system), {}
    for k, force in enumerate(omm.getForces()):
        force.setForceGroup(k)
    context = context_of(omm, system)
    for k, force in enumerate(omm.getForces()):
        energy = context.getState(getEnergy=True, groups=1 << k).getPotentialEnergy()._value
        theirs[force.getName()] = theirs.get(force.getName(), 0.0) + energy
    theirs.pop("CMMotionRemover", None)
    for name in set(ours) - set(theirs):
        ours["nonbonded"] += ours.pop(name)
    assert theirs == pytest.approx(ours, rel=rel, abs=1e-8)
    return omm, context


class TestOpenMM:
    @pytest.mark.parametrize(
        "name",
        [
            "ala2_explicit_pme_switch",
            "ala2_explicit_rf",
            "ala2_explicit_ljpme",
            "ala2_explicit_ewald",
            "bpti_ff19sb_vacuum",
            "ala2_hct",
            "ala2_obc2_salt",
            "ala2_gbn",
            "openmmtools/WaterCluster",
            "lj_4000_switch",
        ],
    )
    def test_energies_of_reference_systems(self, name):
        system = reference_system(name)
        # OpenMM integrates the correction of a switched tail numerically
        omm, _ = assert_same_energies(system, rel=1e-9 if "switch" not in name else 1e-7)
        assert omm.getNumConstraints() == len(system.constraints)
        assert [omm.getParticleMass(i)._value for i in range(system.n)] == system.masses.tolist()

    def test_there_and_back(self):
        """Written by OpenMM and read again, it is the system that it was."""
        mm = pytest.importorskip("openmm")
        system = reference_system("openmmtools/FourSiteWaterBox")
        text = mm.XmlSerializer.serialize(system.to_openmm())
        path = DATA / "openmmtools" / "FourSiteWaterBox"
        assert path.is_dir()
        again = load_from_text(text, system.positions, system.box)
        assert pure_energies(again) == pytest.approx(pure_energies(system), rel=1e-12)
        assert again.constraints.distances.tolist() == system.constraints.distances.tolist()
        assert [type(s) for s in again.virtual_sites] == [type(s) for s in system.virtual_sites]

    def test_bonded_terms_and_restraints(self, rng):
        n = 8
        box = np.array([[2.0, 0, 0], [0.3, 2.1, 0], [-0.4, 0.5, 2.2]])
        system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box, rng.uniform(-1, 3, (n, 3)))
        pairs, triples, chains = (
            np.array([[0, 1], [2, 5]]),
            np.array([[0, 1, 2], [3, 4, 5]]),
            np.array([[0, 1, 2, 3], [4, 5, 6, 7]]),
        )  # fmt: skip
        for potential in (
            sponge.harmonic_bond(pairs, k=[100.0, 200.0], r0=0.1),
            sponge.urey_bradley(pairs, k=50.0, r0=0.2),
            sponge.harmonic_angle(triples, k=[30.0, 40.0], theta0=[1.0, 2.0]),
            sponge.periodic_torsion(chains, k=[3.0, 4.0], periodicity=[2, 3], phase=[0.3, -1.0]),
            sponge.periodic_torsion(chains, k=[3.0, 4.0], periodicity=[0, 1], phase=[0.3, 2.0]),
            sponge.harmonic_improper(chains, k=20.0, phi0=[3.0, -0.5]),
            sponge.ryckaert_bellemans(chains, c0=1.0, c1=[2.0, 3.0], c2=0.5, c3=-0.3, c4=0.2, c5=0.1),
            sponge.pair14(pairs, charge_product=[0.1, -0.2], sigma=0.1, epsilon=0.5),
            sponge.distance_restraint(pairs, k=10.0, lower=0.2, upper=[0.3, 0.4]),
            sponge.angle_restraint(triples, k=10.0, lower=0.5, upper=[0.6, 0.7]),
            sponge.torsion_restraint(chains, k=10.0, phi0=[3.0, -2.0], width=0.2),
            sponge.PositionRestraint([1, 3], [30.0, 40.0], [[0.1, 0.2, 0.3], [1.0, 2.0, 0.5]], [0.0, 0.1]),
        ):
            system.add(potential)
        names, ours = [p.name for p in system.potentials], pure_energies(system)
        omm = system.to_openmm()
        for k, force in enumerate(omm.getForces()):
            force.setForceGroup(k)
        context = context_of(omm, system)
        theirs = {
            name: context.getState(getEnergy=True, groups=1 << k).getPotentialEnergy()._value
            for k, name in enumerate(names)
        }
        assert theirs == pytest.approx(ours, rel=1e-9)

    @pytest.mark.parametrize(
        "method, options, message",
        [
            ("cutoff", {"modifier": "potential-shift"}, "no modifier 'potential-shift'"),
            ("reaction_field", {"excluded_field": True}, "no excluded_field"),
        ],
    )
    def test_options_that_openmm_does_not_have(self, method, options, message):
        system = sponge.System(sponge.Topology.of_particles(2), np.ones(2), 2.0, np.eye(3)[:2])
        system.add(sponge.Nonbonded([0.0, 0.0], [0.3, 0.3], [1.0, 1.0], method, **options))
        with pytest.raises(ValueError, match=message):
            system.to_openmm()

    @pytest.mark.parametrize("box", [None, np.diag([2.0, 2.1, 2.2])])
    def test_restraint_by_axis(self, box, rng):
        system = sponge.System(sponge.Topology.of_particles(2), np.ones(2), box, rng.uniform(-1, 3, (2, 3)))
        system.add(sponge.PositionRestraint([0, 1], [[0, 0, 30.0], [4, 5, 6]], [[0.1, 0.2, 0.3], [1.0, 2.0, 0.5]]))
        assert_same_energies(system, rel=1e-12)
        if box is not None:
            system.box = np.array([[2.0, 0, 0], [0.3, 2.1, 0], [-0.4, 0.5, 2.2]])
            with pytest.raises(ValueError, match="'position_restraint' .* needs a rectangular box"):
                system.to_openmm()

    @pytest.mark.parametrize("method", ["none", "cutoff"])
    @pytest.mark.parametrize("mixing", ["geometric", "table"])
    def test_mixing_rules(self, method, mixing, rng):
        """OpenMM's integral of the tail is numerical."""
        n = 30
        grid = np.stack(np.meshgrid(*[np.arange(4)] * 3), -1).reshape(-1, 3)[:n]
        system = sponge.System(
            sponge.Topology.of_particles(n),
            np.ones(n),
            2.4,
            0.6 * grid + rng.uniform(-0.1, 0.1, (n, 3)),
            exclusions=[[0, 1], [4, 9]],
        )
        sigma, epsilon, types = rng.uniform(0.2, 0.4, 3), rng.uniform(0.2, 1, 3), np.arange(n) % 3
        if mixing == "table":
            values = {
                "mixing": LJTable.from_sigma_epsilon(
                    types, 0.4 * np.sqrt(sigma[:, None] * sigma) + 0.1, np.sqrt(epsilon[:, None] * epsilon)
                )
            }
        else:
            values = {"mixing": "geometric", "sigmas": sigma[types], "epsilons": epsilon[types]}
        system.add(Nonbonded(np.zeros(n), method=method, cutoff=1.0, switch=0.8, **values))
        assert_same_energies(system, rel=1e-7 if method == "cutoff" else 1e-9)

    def test_without_a_counterpart(self):
        pytest.importorskip("openmm")
        system = sponge.System(sponge.Topology.of_particles(2), [1.0, 1.0], 4.0, np.array([[0, 0, 0], [0.3, 0, 0]]))
        system.add(sponge.FunctionPotential(lambda positions: np.sum(positions**2), name="mine"))
        with pytest.raises(ValueError, match="'mine' has no counterpart in OpenMM"):
            system.to_openmm()
        system.remove("mine")
        for options, message in (
            ({"method": "cutoff"}, "reaction_field"),
            ({"method": "pme", "order": 4}, "order 5"),
            ({"method": "ewald", "wave_vectors": (5, 5, 5)}, "tolerance"),
        ):
            system.add(Nonbonded([1.0, -1.0], [0.3, 0.3], [1.0, 1.0], **options))
            with pytest.raises(ValueError, match=message):
                system.to_openmm()
            system.remove("nonbonded")


def load_from_text(text, positions, box):
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "system.xml"
        path.write_text(text)
        return load_openmm(path, positions=positions, box=box)


class TestMDTraj:
    def test_topology_and_positions(self):
        pytest.importorskip("mdtraj")
        system = sponge.load(
            DATA / "ala2_explicit_pme" / "alanine-dipeptide.prmtop.gz",
            DATA / "ala2_explicit_pme" / "alanine-dipeptide.crd.gz",
        )
        trajectory = system.to_mdtraj()
        t = trajectory.topology
        assert (t.n_atoms, t.n_residues, t.n_bonds) == (2269, 752, len(system.topology.bonds))
        assert [a.name for a in t.atoms] == system.topology.names.tolist()
        assert t.residue(1).name == "ALA" and t.residue(1).resSeq == 2 and t.atom(4).element.symbol == "C"
        assert len(t.select("water")) == 3 * 749
        assert trajectory.xyz[0] == pytest.approx(system.positions, abs=1e-6)
        assert trajectory.unitcell_vectors[0] == pytest.approx(system.box, abs=1e-6)

    def test_frames(self, rng):
        mdtraj = pytest.importorskip("mdtraj")
        system = sponge.load(
            DATA / "ala2_vacuum" / "alanine-dipeptide.prmtop", DATA / "ala2_vacuum" / "alanine-dipeptide.crd"
        )
        frames = system.positions + rng.normal(0, 0.01, (5, 1, 3)) * np.ones((1, 22, 1))
        trajectory = system.to_mdtraj(frames)
        assert trajectory.n_frames == 5 and trajectory.unitcell_vectors is None
        assert mdtraj.compute_phi(trajectory)[0].tolist() == [[4, 6, 8, 14]]
        with pytest.raises(ValueError, match="positions must have shape"):
            system.to_mdtraj(np.zeros((5, 3)))

    def test_virtual_sites_and_particles(self):
        pytest.importorskip("mdtraj")
        system = reference_system("water_tip4pew")
        assert system.to_mdtraj().topology.atom(3).element.symbol == "VS"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
class TestASE:
    def test_atoms(self):
        ase_units = pytest.importorskip("ase.units")
        system = reference_system("water_tip3p")
        system.velocities = np.full((system.n, 3), 0.3)
        atoms = system.to_ase()
        assert atoms.get_chemical_formula().startswith("H1000O500")
        assert atoms.positions == pytest.approx(10 * system.positions)
        assert atoms.cell.array == pytest.approx(10 * system.box) and atoms.pbc.all()
        # kinetic energy does not depend on units of time
        kinetic = 0.5 * np.sum(system.masses[:, None] * system.velocities**2) / units.eV
        assert atoms.get_kinetic_energy() == pytest.approx(kinetic, rel=1e-6)
        assert ase_units.fs > 0

    @pytest.mark.parametrize("name", ["ala2_obc2", "water_tip3p_flexible"])
    def test_energy_forces_and_stress(self, name):
        pytest.importorskip("ase")
        system = reference_system(name)
        atoms = system.to_ase()
        atoms.calc = sponge.Calculator(system)
        assert atoms.get_potential_energy() * units.eV == pytest.approx(system.energy(), rel=1e-12)
        assert atoms.get_forces() * units.eV * 10 == pytest.approx(system.forces(), rel=1e-9, abs=1e-8)
        if system.box is not None:
            stress = atoms.get_stress(voigt=False)
            assert stress * 1000 * units.eV == pytest.approx(
                -0.5 * (system.virial() + system.virial().T) / sponge.box.volume(system.box), rel=1e-8, abs=1e-6
            )

    def test_stress_is_the_derivative_by_strain(self):
        pytest.importorskip("ase")
        system = reference_system("openmmtools/DiatomicFluid")
        system.nonbonded.update(switch=0.45)
        atoms = system.to_ase()
        atoms.calc = sponge.Calculator(system)
        stress, h = atoms.get_stress(voigt=False), 1e-5
        for a, b in ((0, 0), (1, 1), (0, 1)):
            energies = []
            for sign in (1, -1):
                strained = atoms.copy()
                strain = np.eye(3)
                strain[a, b] += sign * h / 2
                strain[b, a] += sign * h / 2
                strained.set_cell(atoms.cell.array @ strain, scale_atoms=True)
                strained.calc = atoms.calc
                energies.append(strained.get_potential_energy())
            slope = (energies[0] - energies[1]) / (2 * h) / atoms.get_volume()
            assert slope == pytest.approx(stress[a, b], rel=2e-5, abs=2e-7)

    def test_turned_cells(self, rng):
        """A rotated crystal has the same energy, and rotated forces."""
        pytest.importorskip("ase")
        from scipy.spatial.transform import Rotation

        system = reference_system("openmmtools/DiatomicFluid")
        atoms = system.to_ase()
        atoms.calc = sponge.Calculator(system)
        turned = atoms.copy()
        turn = Rotation.random(rng=rng).as_matrix()
        turned.set_cell(atoms.cell.array @ turn.T)
        turned.positions = atoms.positions @ turn.T
        turned.calc = sponge.Calculator(system)
        assert turned.get_potential_energy() == pytest.approx(atoms.get_potential_energy(), rel=1e-10)
        assert turned.get_forces() == pytest.approx(atoms.get_forces() @ turn.T, rel=1e-8, abs=1e-9)
        assert turned.get_stress(voigt=False) == pytest.approx(
            turn @ atoms.get_stress(voigt=False) @ turn.T, rel=1e-7, abs=1e-10
        )

    def test_dynamics_conserves_energy(self):
        """ASE's velocity Verlet with our forces: the drift falls with the square of the step."""
        verlet = pytest.importorskip("ase.md.verlet").VelocityVerlet
        ase_units = pytest.importorskip("ase.units")
        system = sponge.load(
            DATA / "ala2_vacuum" / "alanine-dipeptide.prmtop", DATA / "ala2_vacuum" / "alanine-dipeptide.crd"
        )
        noise = np.random.default_rng(5).normal(size=(22, 3)) * np.sqrt(
            units.GAS_CONSTANT * 300 / system.masses[:, None]
        )
        spread = []
        for step in (1.0, 0.5):
            system.velocities = noise
            atoms = system.to_ase()
            atoms.calc = sponge.Calculator(system)
            energies = []
            dynamics = verlet(atoms, timestep=step * ase_units.fs)
            dynamics.attach(lambda atoms=atoms, energies=energies: energies.append(atoms.get_total_energy()))
            dynamics.run(int(60 / step))
            spread.append(np.std(energies))
        assert spread[0] < 0.02
        assert spread[0] / spread[1] == pytest.approx(4, rel=0.3)

    def test_atoms_that_do_not_fit(self):
        pytest.importorskip("ase")
        system = reference_system("ala2_vacuum")
        atoms = system.to_ase()
        atoms.calc = sponge.Calculator(system)
        with pytest.raises(ValueError, match="the system has 22 atoms, got 21"):
            del atoms[0]
            atoms.calc = sponge.Calculator(system)
            atoms.get_potential_energy()
        with pytest.raises(ValueError, match=r"to_ase: positions must have shape \(22, 3\), got \(2, 22, 3\)"):
            sponge.exchange.to_ase(system, np.zeros((2, 22, 3)))
        periodic = system.to_ase()
        periodic.set_cell([30, 30, 30])
        periodic.set_pbc(True)
        periodic.calc = sponge.Calculator(system)
        with pytest.raises(ValueError, match="periodic in no directions"):
            periodic.get_potential_energy()
