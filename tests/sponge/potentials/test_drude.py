"""Polarizable systems: Drude oscillators and Thole's screening against OpenMM, and the dynamics with two baths."""

import gzip
from importlib.resources import files

import numpy as np
import pytest
from scipy import special

from triskele import core, sponge
from triskele.core.extend import threads
from triskele.sponge import alchemy, build
from triskele.sponge.errors import BoxError, BrokenSimulationError, FileFormatError, MissingParameterError
from triskele.sponge.integrators.temperature import degrees_of_freedom, drude_kinetic_energy, kinetic_energy
from triskele.sponge.testing import Trial, check_integrator, spring_system
from triskele.sponge.units import COULOMB, GAS_CONSTANT

SWM4 = "drude/swm4ndp"


def water(n=8, seed=0, spread=0.005, **options):
    """Waters in vacuum, whose Drude particles are off their atoms."""
    box = build.water_box("swm4ndp", n=n)
    system = sponge.create_system(box.topology, box.positions, options.pop("box", None), SWM4, **options)
    drude = system.drude_pairs[:, 0]
    system.positions[drude] += np.random.default_rng(seed).normal(0, spread, (len(drude), 3))
    return system


def pairs_alone(n=1, k=None, mass=16.0, drude_mass=0.4, alpha=0.001):
    """Pairs of a Drude particle and an atom that nothing else acts on, but a spring to the origin with `k`."""
    rows = np.arange(2 * n).reshape(n, 2)[:, ::-1]
    system = sponge.System(
        sponge.Topology.of_particles(2 * n),
        np.tile([mass, drude_mass], n),
        positions=np.zeros((2 * n, 3)),
        remove_com_motion=False,
    )
    system.add(sponge.drude_spring(rows, charge=-1.7, polarizability=alpha))
    if k is not None:
        system.add(sponge.PositionRestraint(np.arange(0, 2 * n, 2), k, np.zeros((n, 3))))
    return system


# -------------------------------------------------------------------------------------------------- energies and forces
def assert_like_openmm(system, omm, rel=1e-12):
    """Same energy and forces on everything that has mass."""
    mm = pytest.importorskip("openmm")
    context = mm.Context(omm, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(system.positions)
    context.computeVirtualSites()
    state = context.getState(energy=True, forces=True, positions=True)
    x, forces = (np.array(v._value) for v in (state.getPositions(asNumpy=True), state.getForces(asNumpy=True)))
    own, real = system.forces(x), system.masses > 0
    assert system.energy(x) == pytest.approx(state.getPotentialEnergy()._value, rel=rel)
    np.testing.assert_allclose(own[real], forces[real], atol=10 * rel * np.abs(forces).max())


@pytest.mark.parametrize("seed", range(3))
def test_random_oscillators_are_those_of_openmm(seed):
    """Isotropic ones, and ones with one and two axes; screened pairs between them."""
    mm = pytest.importorskip("openmm")
    rng = np.random.default_rng(seed)
    n, m = 60, 20
    x, order = rng.uniform(0, 1, (n, 3)), rng.permutation(n)
    force, rows, values, screened, thole = mm.DrudeForce(), [], [], [], []
    for k in range(m):
        drude, atom, others = order[2 * k], order[2 * k + 1], rng.choice(order[2 * m :], 3, replace=False)
        x[drude] = x[atom] + rng.normal(0, 0.01, 3)
        rows.append([drude, atom, others[0] if k % 2 else -1, *(others[1:] if k % 3 else (-1, -1))])
        values.append([-rng.uniform(1, 3), rng.uniform(5e-4, 2e-3), *rng.uniform(0.7, 1.3, 2)])
        force.addParticle(*map(int, rows[-1]), *values[-1])
    for i, j in zip(*np.triu_indices(m, 1)):
        if rng.random() < 0.2:
            screened.append((i, j))
            thole.append(rng.uniform(0.3, 3))
            force.addScreenedPair(int(i), int(j), thole[-1])
    omm = mm.System()
    for _ in range(n):
        omm.addParticle(1.0)
    omm.addForce(force)
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), positions=x)
    values = np.array(values)
    for potential in sponge.drude_oscillators(rows, values[:, 0], values[:, 1], values[:, 2:], screened, thole):
        system.add(potential)
    assert_like_openmm(system, omm)
    assert_like_openmm(system, system.to_openmm())


def openmm_field(structure, *names):
    """OpenMM's force field and topology of a structure."""
    app = pytest.importorskip("openmm.app")
    from triskele.sponge.build.modeller import to_openmm

    return app.ForceField(*names), to_openmm(structure, app)[0]


def test_water_is_that_of_openmm(tmp_path):
    mm = pytest.importorskip("openmm")
    system = water()
    field, topology = openmm_field(build.water_box("swm4ndp", n=8), "swm4ndp.xml")
    omm = field.createSystem(topology, rigidWater=True)
    assert system.masses.tolist() == [omm.getParticleMass(i)._value for i in range(system.n)]
    assert len(system.constraints) == omm.getNumConstraints() == 24
    assert_like_openmm(system, omm)
    (tmp_path / "system.xml").write_text(mm.XmlSerializer.serialize(omm))
    loaded = sponge.load(tmp_path / "system.xml")
    loaded.positions = system.positions
    assert_like_openmm(loaded, omm)
    np.testing.assert_array_equal(np.sort(loaded.drude_pairs, 0), np.sort(system.drude_pairs, 0))
    assert len(loaded.topology.residue_names) == 8  # Drude particles belong to their molecules


def test_water_in_a_box_is_that_of_openmm():
    box = build.water_box("swm4ndp", n=64)
    system = water(64, box=box.box, cutoff=0.6, tolerance=1e-6)
    assert_like_openmm(system, system.to_openmm(), rel=1e-8)


def test_a_peptide_of_the_polarizable_charmm_field_is_that_of_openmm():
    """Lone pairs, anisotropic oxygens, NBFIX, CMAP and patched ends; the drawing of extra particles too."""
    from pathlib import Path

    app = pytest.importorskip("openmm.app")
    path = Path(app.__file__).parent / "data" / "charmm_polar_2019.xml"
    field = sponge.ForceField(path)
    bare = build.add_hydrogens(
        sponge.read_pdb(sponge.example_files("chignolin")[0]), forcefield="amber14/protein.ff14SB"
    )
    full = build.add_virtual_sites(bare, field)
    assert full.topology.n > 1.8 * bare.topology.n
    system = sponge.create_system(full, field, method="none")
    drude, atom = system.drude_pairs.T
    np.testing.assert_array_equal(system.positions[drude], system.positions[atom])
    assert "drude_anisotropy" in system
    system.positions[drude] += np.random.default_rng(0).normal(0, 0.005, (len(drude), 3))
    reference, topology = openmm_field(full, str(path))
    assert_like_openmm(system, reference.createSystem(topology, rigidWater=True))


def test_damping_between_molecules(rng):
    """Thole's and the Coulomb energy are the screened one; Tang and Toennies' is an incomplete gamma function."""
    x = np.array([[0, 0, 0], [0.004, 0.002, 0], [0.1, 0.2, 0.1], [0.103, 0.2, 0.099]])
    system = sponge.System(sponge.Topology.of_particles(4), [16.0, 0.4] * 2, positions=x, exclusions=[[0, 1], [2, 3]])
    dipole, alpha = np.array([1.7, -1.7, 1.9, -1.9]), np.array([1.0, 1.0, 1.3, 1.3]) * 1e-3
    cross = np.array([[0, 2], [0, 3], [1, 2], [1, 3]])
    system.add(sponge.Nonbonded(dipole, np.full(4, 0.1), np.zeros(4), method="none"))
    system.add(sponge.thole_damping(dipole=dipole, screening=np.sqrt(2.6) / alpha ** (1 / 6), mixing="product"))
    i, j = cross.T
    expected = sponge.System(system.topology, system.masses, positions=x)
    expected.add(
        sponge.thole_screening(
            cross, charge_product=dipole[i] * dipole[j], damping=2.6 / (alpha[i] * alpha[j]) ** (1 / 6)
        )
    )
    assert system.energy() == pytest.approx(expected.energy(), rel=1e-12)
    product = np.zeros((4, 4))
    product[i, j] = product[j, i] = 0.4 * dipole[j]  # charges of the first two atoms, and the dipole of the others
    series = sponge.tang_toennies(product=product, b=45.0, c=1.0, types=range(4))
    system.add(series)
    r = np.linalg.norm(x[i] - x[j], axis=1)
    damped = -COULOMB * product[i, j] / r * (1 - special.gammainc(5, 45.0 * r))
    assert system.energy_terms()["tang_toennies"] == pytest.approx(damped.sum(), rel=1e-10)
    system.box = 2.0
    with pytest.raises(BoxError, match="'thole_damping': cutoff must be given in a periodic box"):
        system.energy()


def test_crystal_waters_get_their_particles():
    three = build.water_box("tip3p", n=5)
    full = build.add_virtual_sites(three, SWM4)
    assert full.topology.names[:5].tolist() == ["O", "H1", "H2", "M", "OD"]
    system = sponge.create_system(full.topology, full.positions, None, SWM4)
    np.testing.assert_array_equal(system.positions[system.drude_pairs[:, 0]], system.positions[::5])


def test_molecules_broken_by_the_box_keep_their_drude_particles():
    box = build.water_box("swm4ndp", n=27)
    whole = sponge.create_system(box, SWM4, cutoff=0.4)
    broken = box.positions - np.round(box.positions / box.box[0, 0] - 0.5) * box.box[0, 0]
    shifted = sponge.create_system(box.topology, broken, box.box, SWM4, cutoff=0.4)
    drude, atom = shifted.drude_pairs.T
    np.testing.assert_allclose(shifted.positions[drude], shifted.positions[atom], atol=1e-12)
    assert shifted.energy() == pytest.approx(whole.energy(), rel=1e-9)


def test_dipoles_follow_a_field():
    """In a field F, the Drude particle goes to q F/k, and the dipole moment is the polarizability times the field."""
    alpha, strength = 0.001, 50.0  # nm^3, kJ/mol/nm/e
    system = pairs_alone(alpha=alpha, k=1e6)
    field = sponge.FunctionPotential(lambda x: -strength * (1.7 * x[0, 2] - 1.7 * x[1, 2]), name="field")
    system.add(field)
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.0005))
    sim.minimize(tolerance=1e-7)
    moment = 1.7 * (sim.positions[0] - sim.positions[1])
    np.testing.assert_allclose(moment, [0, 0, alpha * strength / COULOMB], rtol=1e-6, atol=1e-12)


def test_particles_on_their_atoms_are_fixed_charges():
    """The limit of no polarizability: energies are those of the sums of charges, springs and screening apart."""
    system = water(spread=0.0)
    plain = sponge.System(system.topology, system.masses, positions=system.positions, exclusions=system.exclusions)
    charges, (drude, atom) = system.nonbonded.params["charges"].copy(), system.drude_pairs.T
    charges[atom] += charges[drude]
    charges[drude] = 0.0
    sigmas, epsilons = (system.nonbonded.params[name] for name in ("sigmas", "epsilons"))
    plain.add(sponge.Nonbonded(charges, sigmas, epsilons, method="none"))
    assert system.energy_terms()["drude"] == 0.0
    assert system.energy() == pytest.approx(plain.energy(), rel=1e-12)


# ------------------------------------------------------------------------------------------------------------- dynamics
def test_two_baths_are_exact_for_pairs_alone():
    """Velocities and positions of centers and of displacements, each at the temperature of its bath."""
    n, k, mass = 1500, 2000.0, np.array([16.0, 0.4])
    system = pairs_alone(n)
    system.add(
        sponge.FunctionPotential(
            lambda x, k: 0.5 * k * ((16.0 * x[::2] + 0.4 * x[1::2]) ** 2).sum() / 16.4**2, {"k": k}, name="center"
        )
    )
    trial = Trial(sponge.DrudeLangevin(300.0, 10.0, 0.001, drude_temperature=2.0, hard_wall=None), system, seed=3)
    trial.run(600)
    x, v = [], []
    for _ in range(8):
        engine = trial.run(100).engine
        x.append(engine.positions.reshape(n, 2, 3).copy())
        v.append(engine.velocities.reshape(n, 2, 3).copy())
    x, v = np.concatenate(x), np.concatenate(v)
    spring = COULOMB * 1.7**2 / 0.001
    for values, expected in (
        (0.5 * k * np.einsum("p,npa->na", mass / 16.4, x) ** 2, 150.0),
        (0.5 * 16.4 * np.einsum("p,npa->na", mass / 16.4, v) ** 2, 150.0),
        (0.5 * spring * (x[:, 1] - x[:, 0]) ** 2, 1.0),
        (0.5 * (16.0 * 0.4 / 16.4) * (v[:, 1] - v[:, 0]) ** 2, 1.0),
    ):
        samples = values.ravel() / GAS_CONSTANT
        error = samples.std() / np.sqrt(samples.size / 2)  # snapshots of centers are correlated
        assert abs(samples.mean() - expected) < 4.5 * error + 3e-3 * expected  # (w dt)^2/12 of the springs is 1e-3


def test_baths_of_one_temperature_are_a_canonical_ensemble():
    """Rigid water, whose constraints mix both motions: with equal temperatures, both are that of the baths."""
    system = water(12)
    system.add(sponge.PositionRestraint(np.arange(0, system.n, 5), 500.0, system.positions[::5]))
    sim = sponge.Simulation(
        system, sponge.DrudeLangevin(300.0, 20.0, 0.0005, drude_temperature=300.0, hard_wall=None), seed=2
    )
    sim.minimize(tolerance=100)
    sim.run(1000)
    found = []
    for _ in range(400):
        sim.run(20)
        found.append([sim.temperature, sim.drude_temperature])
    error = 300 * np.sqrt(2 / np.array([degrees_of_freedom(system), 36]) / 100)
    np.testing.assert_array_less(np.abs(np.mean(found, 0) - 300), 4 * error)


def test_an_integrator_like_others():
    check_integrator(lambda dt: sponge.DrudeLangevin(300.0, 5.0, dt), order=None)


def test_without_drude_particles_it_is_langevin_middle():
    system = spring_system(units=2)
    one = Trial(sponge.DrudeLangevin(300.0, 5.0, 0.001), system, seed=4).run(40).engine
    other = Trial(sponge.LangevinMiddle(300.0, 5.0, 0.001), system, seed=4).run(40).engine
    np.testing.assert_allclose(one.positions, other.positions, atol=1e-13)


def test_runs_are_the_same_on_any_number_of_threads_and_resume_bit_for_bit(tmp_path):
    box = build.water_box("swm4ndp", n=216)
    system = sponge.create_system(box, SWM4, cutoff=0.7)
    before, found = threads.get_threads(), []

    def simulation():
        return sponge.Simulation(system, sponge.DrudeLangevin(300.0, 5.0, 0.0005), seed=5)

    try:
        for n in (1, 2):
            threads.set_threads(n)
            sim = simulation()
            sim.run(30)
            found.append(sim.positions)
    finally:
        threads.set_threads(before)
    sim, other = simulation(), simulation()
    sim.run(30, report=sponge.Checkpoint(tmp_path / "state.chk", 20))
    other.load(tmp_path / "state.chk")
    other.run(10)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(sim.positions, other.positions)


def test_the_wall_reflects():
    """Center of mass and energy of a pair that meets the wall stay, and no pair gets beyond it."""
    system = pairs_alone(n=50, alpha=0.005)
    rng = np.random.default_rng(0)
    system.positions[1::2] += rng.normal(0, 0.005, (50, 3))
    system.velocities = rng.normal(0, 5.0, (100, 3))
    drift = sponge.DrudeLangevin(300.0, 1e-30, 0.0002, drude_friction=1e-30, hard_wall=0.02)
    free = Trial(sponge.DrudeLangevin(300.0, 1e-30, 0.0002, drude_friction=1e-30, hard_wall=None), system)
    trial = Trial(drift, system)
    farthest, energies = 0.0, []
    for _ in range(100):
        x = trial.run(2).engine.positions
        farthest = max(farthest, np.linalg.norm(x[1::2] - x[::2], axis=1).max())
        energies.append(trial.engine.system.energy(x) + kinetic_energy(system.masses, trial.engine.velocities))
    free.run(200)
    assert np.linalg.norm(free.engine.positions[1::2] - free.engine.positions[::2], axis=1).max() > 0.025
    assert 0.019 < farthest <= 0.02 + 1e-12
    assert np.ptp(energies) < 0.02 * np.mean(energies)
    centers = [np.einsum("p,npa->na", system.masses[:2], t.engine.positions.reshape(50, 2, 3)) for t in (trial, free)]
    np.testing.assert_allclose(*centers, atol=1e-10)


def test_a_particle_that_runs_away_is_named():
    system = pairs_alone()
    system.velocities = np.array([[0.0, 0, 0], [900.0, 0, 0]])
    sim = sponge.Simulation(system, sponge.DrudeLangevin(300.0, 5.0, 0.001))
    with pytest.raises(BrokenSimulationError, match=r"atom 1 .*Drude particle.*hard_wall=0.02 nm at step 0"):
        sim.run(10)


def test_temperatures_of_atoms_and_of_displacements():
    system = water(27)
    sim = sponge.Simulation(system, sponge.DrudeLangevin(300.0, 5.0, 0.0005), seed=1)
    assert sim.drude_temperature == pytest.approx(0.0, abs=1e-9)  # drawn velocities are those of atoms
    assert sim.degrees_of_freedom == 3 * 4 * 27 - 27 * 3 - 27 * 3 - 3
    sim.run(20)
    found = sim.energies()
    relative = drude_kinetic_energy(system.drude_pairs, system.masses, sim.velocities)
    assert (
        found["drude_temperature"]
        == sim.drude_temperature
        == pytest.approx(2 * relative / (81 * GAS_CONSTANT), rel=1e-12)
    )
    assert found["temperature"] == pytest.approx(
        2 * (found["kinetic"] - relative) / (sim.degrees_of_freedom * GAS_CONSTANT), rel=1e-12
    )
    plain = sponge.Simulation(spring_system(), sponge.VelocityVerlet(0.001))
    assert np.isnan(plain.drude_temperature)
    assert "drude_temperature" not in plain.energies()


# ------------------------------------------------------------------------------------------------------------ bad input
def edited(tmp_path, old, new):
    text = gzip.decompress((files("triskele.sponge") / "data/drude/swm4ndp.xml.gz").read_bytes()).decode()
    assert old in text
    (tmp_path / "field.xml").write_text(text.replace(old, new))
    return tmp_path / "field.xml"


@pytest.mark.parametrize(
    ("old", "new", "error", "message"),
    [
        ('thole="1.3"', 'thole="1.3" hyper="2"', FileFormatError, "DrudeForce.*hyper"),
        ('thole="1.3"', "", FileFormatError, "must give charge, polarizability and thole, got no thole for swm4ndp-OD"),
        (' type2="swm4ndp-O"', "", FileFormatError, "own type and that of its atom"),
        (
            'type2="swm4ndp-O" charge',
            'type2="swm4ndp-H" charge',
            MissingParameterError,
            "particle OD of residue template HOH must find one atom of type 'swm4ndp-H', got H1, H2",
        ),
        ('polarizability="0.000978253"', 'polarizability="-1"', ValueError, "polarizabilities must be > 0"),
    ],
)
def test_force_fields_that_are_refused(tmp_path, old, new, error, message):
    box = build.water_box("swm4ndp", n=2)
    with pytest.raises(error, match=message):
        sponge.create_system(box.topology, box.positions, None, edited(tmp_path, old, new))


def oscillators(**options):
    """The potentials of two Drude particles, with some arguments wrong."""
    return sponge.drude_oscillators(
        **{
            "particles": [[1, 0, -1, -1, -1], [3, 2, -1, -1, -1]],
            "charges": [-1.5, -1.5],
            "polarizabilities": 1e-3,
            **options,
        }
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda s: s.add(sponge.drude_spring([[1, 6], [2, 6]], charge=-1.0, polarizability=1e-3)), "in 2 pairs"),
        (lambda s: s.add(sponge.drude_spring([[1, 6]], charge=-1.0, polarizability=0.0)), "polarizability must be > 0"),
        (lambda s: s.add(sponge.drude_spring([[1, 6]], charge=0.0, polarizability=1e-3)), "charge must not be 0"),
        (lambda s: s.add(sponge.thole_screening([[1, 6]], charge_product=1.0, damping=-9.0)), "damping must be >= 0"),
        (lambda s: s.add(sponge.DrudeAnisotropy([[4, 0, 1, 99]], k=1.0)), "atoms must be 0 to 39"),
        (lambda s: oscillators(particles=np.arange(10).reshape(5, 2)), r"must have shape \[m, 5\], got \(5, 2\)"),
        (lambda s: oscillators(charges=[-1.5]), r"charges must .* one for each of 2 particles, got shape \(1,"),
        (lambda s: oscillators(anisotropies=np.ones((3, 2))), r"anisotropies must have shape \(2, 2\), got \(3, 2\)"),
        (lambda s: oscillators(screened=[[0, -1]], thole=2.6), "screened must be 0 to 1, got -1 to 0"),
        (lambda s: oscillators(screened=[[0, 1, 1]], thole=2.6), r"screened must have shape \[m, 2\], got \(1, 3\)"),
        (lambda s: oscillators(screened=[[0, 1]]), "thole must be a number, or one for each of 1 screened pairs"),
        (lambda s: sponge.DrudeAnisotropy([[4, 0, 1, 1]], k=1.0), "must be different"),
        (lambda s: sponge.Simulation(s, sponge.LangevinMiddle(300, 1.0, 0.001)), "LangevinMiddle.*DrudeLangevin"),
        (lambda s: sponge.DrudeLangevin(300, 5.0, 0.001, drude_temperature=-1.0), "drude_temperature must be"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make(water())


def test_an_atom_has_one_drude_particle_whatever_potentials_there_are():
    system = water(2)
    system.masses[1] = 16.0
    with pytest.raises(ValueError, match=r"one Drude particle at most.*got atom 0 .*O\) in 2 pairs"):
        system.add(sponge.drude_spring([[1, 0]], charge=-1.0, polarizability=1e-3))


def test_a_solute_has_the_drude_particles_of_its_atoms():
    system = water(8)
    system.nonbonded.update(method="cutoff", cutoff=0.6)

    def sits(system, atoms):
        return sponge.Simulation(
            system, sponge.DrudeLangevin(300, 5.0, 5e-4), sampling=[sponge.SITS(atoms, [300.0, 330.0])]
        )

    for method in (lambda system, atoms: sponge.rest2(system, atoms, 400.0, 300.0), sits):
        method(system, range(5))
        with pytest.raises(ValueError, match=r"an atom and its Drude particle or neither, got one of .* O\) and .* OD"):
            method(system, range(4))


def test_springs_do_not_go_with_a_lambda():
    """Their Drude particles would be atoms in the bath of atoms."""
    system, other = water(2), water(2)
    for options in ({"bonded": ["drude"]}, {"restraints": ["drude"]}):
        with pytest.raises(ValueError, match="springs of Drude particles must be the same in all states, got 'drude"):
            alchemy.decouple(system, range(5), **options)
    soft = alchemy.decouple(system, range(5))
    np.testing.assert_array_equal(soft.drude_pairs, system.drude_pairs)
    other["drude"].params["polarizability"][0] *= 1.1
    with pytest.raises(ValueError, match="the same in all states.* 'drude of the old molecule' .*the lambda 'mixing'"):
        alchemy.hybrid(system, other, {k: k for k in range(5)})


def test_hybrids_have_no_screening_between_shared_atoms_and_dummies():
    """Which would polarize each other where only one of them is there."""
    systems = []
    for ends in ([1], [1, 2]):
        n = 2 * (1 + len(ends))
        system = sponge.System(
            sponge.Topology.of_particles(n, bonds=[[0, 2 * k] for k in ends]),
            np.tile([16.0, 0.4], n // 2),
            positions=0.1 * np.arange(3 * n).reshape(n, 3) % 0.7,
            exclusions=[[i, j] for i in range(n) for j in range(i)],
        )
        charges = np.tile([1.5, -1.5], n // 2)
        system.add(sponge.Nonbonded(charges, np.full(n, 0.3), np.full(n, 0.1), method="none"))
        rows = [[2 * k + 1, 2 * k, -1, -1, -1] for k in range(n // 2)]
        for potential in sponge.drude_oscillators(
            rows, charges[1::2], np.full(n // 2, 1e-3), None, [[0, k] for k in ends], np.full(len(ends), 2.6)
        ):
            system.add(potential)
        systems.append(system)
    with pytest.raises(ValueError, match="'thole' screens dipoles of shared atoms and of atoms that only the new mole"):
        alchemy.hybrid(*systems, {k: k for k in range(4)})


def test_massless_particles_do_not_run():
    with pytest.raises(ValueError, match="must have mass, got none for .*OD"):
        sponge.Simulation(water(drude_mass=0.0), sponge.VelocityVerlet(0.001))
    with pytest.raises(ValueError, match="drude_mass must be below"):
        water(drude_mass=20.0)


# ----------------------------------------------------------------------------------------------------- self-consistency
def in_field(system, charges):
    """The system with a homogeneous field, as the parameter "strength" in kJ/mol/nm/e, acting on charges."""
    system.add(
        sponge.FunctionPotential(lambda x, strength: -(charges @ x) @ strength, {"strength": np.zeros(3)}, name="field")
    )
    return system


def test_polarizabilities_are_derivatives_of_the_self_consistent_energy():
    """A molecule with one Drude particle has its polarizability, in all directions and about any geometry."""
    system = water(1)
    system = in_field(system, system.nonbonded.params["charges"])
    energy = sponge.differentiate.self_consistent(system)

    def moment(strength):
        return -core.grad(energy)({"field": {"strength": strength}}, system.positions)["field"]["strength"]

    for strength in (np.zeros(3), np.array([100.0, -50.0, 20.0])):
        alpha = COULOMB * core.jacfwd(moment)(strength)
        np.testing.assert_allclose(alpha, 0.000978253 * np.eye(3), atol=1e-9)


@pytest.mark.slow
def test_derivatives_of_the_self_consistent_energy(rng):
    system = water(3)
    energy = sponge.differentiate.self_consistent(system, tolerance=1e-10)
    x, d, h = system.positions, rng.normal(size=system.positions.shape), 1e-5
    relaxed = energy.relaxed({}, x)
    drude, atom = system.drude_pairs.T
    assert np.abs(system.forces(relaxed)[drude]).max() < 1e-4 < np.abs(system.forces(x)[drude]).max()
    others = np.delete(np.arange(system.n), drude)
    np.testing.assert_array_equal(relaxed[others], x[others])
    assert energy({}, x) == pytest.approx(system.energy(relaxed), rel=1e-12)
    assert energy({}, x) < system.energy(x)
    slope = core.grad(energy, 1)
    along = (energy({}, x + h * d) - energy({}, x - h * d)) / (2 * h)
    assert np.sum(slope({}, x) * d) == pytest.approx(along, rel=1e-6)
    np.testing.assert_allclose(slope({}, x)[drude], 0.0, atol=1e-4)  # nothing depends on where they were
    alpha, one = system["drude"].params["polarizability"], np.array([1e-8, 0, 0])
    up, down = (energy({"drude": {"polarizability": alpha + s * one}}, x) for s in (1, -1))
    by_alpha = core.grad(energy)(system.params(), x)["drude"]["polarizability"][0]
    assert by_alpha == pytest.approx((up - down) / 2e-8, rel=1e-5)
    _, second = core.jvp(lambda x: slope({}, x), [x], [d])
    differences = (slope({}, x + h * d) - slope({}, x - h * d)) / (2 * h)
    np.testing.assert_allclose(second, differences, atol=1e-6 * np.abs(differences).max())


def test_dipoles_that_come_too_near_are_named():
    """Two polarizable atoms at half the distance where point dipoles diverge, with nothing to screen them."""
    system = pairs_alone(2)
    system.positions[2:] += [0.06, 0, 0]
    system.add(sponge.Nonbonded([1.7, -1.7, 1.7, -1.7], np.full(4, 0.1), np.zeros(4), method="none"))
    system.exclusions = [[0, 1], [2, 3]]
    energy = sponge.differentiate.self_consistent(system)
    with pytest.raises(RuntimeError, match=r"minimum of the energy.* on atom [13] .*after \d+ iterations"):
        energy({}, system.positions + 1e-4 * np.arange(12).reshape(4, 3))
    with pytest.raises(ValueError, match="springs among the potentials, got 0 of 0"):
        sponge.differentiate.self_consistent(spring_system())
    with pytest.raises(ValueError, match="springs among the potentials, got 0 of 2"):
        sponge.differentiate.self_consistent(system, ["nonbonded"])
