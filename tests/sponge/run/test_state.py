"""Changes after compilation take effect, or raise an error: of systems, settings, functions, attributes."""

import gc
import subprocess
import sys
import textwrap
import warnings
import weakref

import numpy as np
import pytest

from tests.twins.molecules import pair
from triskele import sponge
from triskele.sponge import cv
from triskele.sponge.errors import BrokenSimulationError, StaleSimulationError, UnitsWarning
from triskele.sponge.virtual_sites import TwoParticleAverage


def molecule():
    """Five atoms, one of them massless, with something of every kind."""
    x = [[0, 0, 0], [0.15, 0, 0], [0.2, 0.14, 0], [0.35, 0.14, 0.02], [0.075, 0, 0]]
    system = sponge.System(
        sponge.Topology.of_particles(5, bonds=[[0, 1], [1, 2], [2, 3]]),
        [12.0, 12.0, 12.0, 12.0, 0.0],
        box=[3.0] * 3,
        positions=x,
        constraints=sponge.Constraints([[2, 3]], [0.1513]),
        exclusions=[[0, 1], [0, 4], [1, 4]],
        virtual_sites=[TwoParticleAverage(4, (0, 1), (0.5, 0.5))],
    )
    system.add(sponge.harmonic_bond([[0, 1], [1, 2]], k=1000.0, r0=0.15))
    system.add(sponge.harmonic_angle([[0, 1, 2]], k=300.0, theta0=1.9))
    system.add(
        sponge.Nonbonded(
            [0.1, -0.1, 0.1, -0.1, 0.0], np.full(5, 0.2), np.full(5, 0.1), method="reaction_field", cutoff=0.9
        )
    )
    system.add(sponge.umbrella(cv.distance(0, 2), center=0.2, k=100.0))
    return system


@pytest.fixture
def sim():
    bias = sponge.Metadynamics(cv.distance(0, 3), sigma=0.02, height=0.1, every=10, grid=(0.0, 1.4), temperature=300)
    return sponge.Simulation(
        molecule(),
        sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001),
        sampling=[bias],
        barostat=sponge.MonteCarloBarostat(1.0),
    )


def _fill(array, value=0.123):
    def change(sim):
        array(sim)[...] = value

    return change


CHANGES = {
    # potentials
    "added": lambda sim: sim.system.add(sponge.harmonic_bond([[0, 2]], k=1.0, r0=0.1)),
    "removed": lambda sim: sim.system.remove("angle"),
    "appended to the list": lambda sim: sim.system.potentials.append(
        sponge.harmonic_bond([[0, 2]], name="more", k=1.0, r0=0.1)
    ),
    "list replaced": lambda sim: setattr(sim.system, "potentials", sim.system.potentials[:2]),
    "order": lambda sim: sim.system.potentials.reverse(),
    "renamed": lambda sim: setattr(sim.system["bond"], "name", "springs"),
    "params in place": _fill(lambda sim: sim.system["bond"].params["r0"]),
    "one parameter": lambda sim: sim.system["bond"].params["k"].__setitem__(1, 5.0),
    "params replaced": lambda sim: sim.system["bond"].params.update(r0=np.full(2, 0.2)),
    "set_params": lambda sim: sim.system.set_params({"angle": {"k": [5.0]}}),
    "atoms of a term": lambda sim: sim.system["bond"].atoms.__setitem__((0, 1), 3),
    "nonbonded.update": lambda sim: sim.system.nonbonded.update(cutoff=0.8),
    "nonbonded attribute": lambda sim: setattr(sim.system.nonbonded, "dielectric", 2.0),
    "charges": _fill(lambda sim: sim.system.nonbonded.params["charges"]),
    "center of a bias": _fill(lambda sim: sim.system["umbrella"].params["center"]),
    "variables of a bias": lambda sim: sim.system["umbrella"].cvs.__setitem__(0, cv.distance(1, 2)),
    "atoms of a variable": lambda sim: sim.system["umbrella"].cvs[0].atoms.__setitem__(0, 1),
    # system
    "masses in place": _fill(lambda sim: sim.system.masses[:4], 2.0),
    "masses": lambda sim: setattr(sim.system, "masses", [1.0, 1.0, 1.0, 1.0, 0.0]),
    "constraint lengths": _fill(lambda sim: sim.system.constraints.distances),
    "constraints": lambda sim: setattr(sim.system, "constraints", sponge.Constraints()),
    "exclusions": lambda sim: setattr(sim.system, "exclusions", [[0, 1]]),
    "virtual sites": lambda sim: setattr(sim.system, "virtual_sites", [TwoParticleAverage(4, (0, 1), (0.4, 0.6))]),
    "weights of a site": _fill(lambda sim: sim.system.virtual_sites[0].weights, [0.3, 0.7]),
    "center of mass": lambda sim: setattr(sim.system, "remove_com_motion", False),
    "system.positions": lambda sim: setattr(sim.system, "positions", sim.system.positions + 0.1),
    "system.positions in place": _fill(lambda sim: sim.system.positions[0]),
    "system.velocities": lambda sim: setattr(sim.system, "velocities", np.ones((5, 3))),
    "system.box": lambda sim: setattr(sim.system, "box", 4.0),
    "no box": lambda sim: setattr(sim.system, "box", None),
    # arrays inside of settings
    "grid of a method": lambda sim: sim.sampling[0].grid.__setitem__(0, (0.0, 2.0, 200)),
    "sigma of a method": lambda sim: sim.sampling[0].sigma.__setitem__(0, 0.5),
    "behind a frozen field": lambda sim: object.__setattr__(sim.integrator, "friction", 50.0),
    "behind a barostat": lambda sim: object.__setattr__(sim.barostat, "pressure", 50.0),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_after_compilation_is_noticed(sim, what, tmp_path):
    CHANGES[what](sim)
    for use in (sim.energies, lambda: sim.run(1), sim.minimize, lambda: sim.save(tmp_path / "x.chk")):
        with pytest.raises(StaleSimulationError, match=r"but these differ: .+ \(make a new Simulation"):
            use()
    assert sim.step == 0


REFUSED = {
    "integrator": lambda sim: setattr(sim, "integrator", sponge.VelocityVerlet(0.002)),
    "barostat": lambda sim: setattr(sim, "barostat", None),
    "system": lambda sim: setattr(sim, "system", molecule()),
    "seed": lambda sim: setattr(sim, "seed", 3),
    "sampling": lambda sim: setattr(sim, "sampling", []),
    "sampling.append": lambda sim: sim.sampling.append(None),
    "precision": lambda sim: setattr(sim, "precision", "double"),
    "step": lambda sim: setattr(sim, "step", 0),
    "time": lambda sim: setattr(sim, "time", 0.0),
    "timestep": lambda sim: setattr(sim, "timestep", 0.002),
    "temperature": lambda sim: setattr(sim, "temperature", 310),
    "a typing error": lambda sim: setattr(sim, "postions", sim.positions),
    "timestep of the integrator": lambda sim: setattr(sim.integrator, "timestep", 0.002),
    "temperature of the integrator": lambda sim: setattr(sim.integrator, "temperature", 310),
    "a new attribute of the integrator": lambda sim: setattr(sim.integrator, "temprature", 310),
    "pressure": lambda sim: setattr(sim.barostat, "pressure", 2.0),
    "height of hills": lambda sim: setattr(sim.sampling[0], "height", 2.0),
    "hills of a typing error": lambda sim: setattr(sim.sampling[0], "heigth", 2.0),
    "typing error in the system": lambda sim: setattr(sim.system, "position", 0),
    "typing error in a potential": lambda sim: setattr(sim.system.nonbonded, "cutof", 0.8),
    "the nonbonded potential": lambda sim: setattr(sim.system, "nonbonded", None),
    "number of atoms": lambda sim: setattr(sim.system, "n", 3),
    "a potential by index": lambda sim: sim.system.__setitem__("bond", None),
    "one position": lambda sim: sim.positions.__setitem__(0, 0.0),
    "one velocity": lambda sim: sim.velocities.__setitem__(0, 0.0),
    "an edge of the box": lambda sim: sim.box.__setitem__((0, 0), 2.0),
    "positions of other atoms": lambda sim: setattr(sim, "positions", np.zeros((4, 3))),
    "positions that are nowhere": lambda sim: setattr(sim, "positions", np.full((5, 3), np.nan)),
    "system.positions of other atoms": lambda sim: setattr(sim.system, "positions", np.zeros((4, 3))),
    "system.velocities that are nowhere": lambda sim: setattr(sim.system, "velocities", np.full((5, 3), np.inf)),
    "masses of other atoms": lambda sim: setattr(sim.system, "masses", [1.0]),
    "constraints as a list": lambda sim: setattr(sim.system, "constraints", [[0, 1]]),
    "potentials that are none": lambda sim: setattr(sim.system, "potentials", ["bond"]),
    "virtual sites that are none": lambda sim: setattr(sim.system, "virtual_sites", [(0, 1)]),
    "topology of other atoms": lambda sim: setattr(sim.system, "topology", sponge.Topology.of_particles(2)),
    "a box of two edges": lambda sim: setattr(sim.system, "box", [1.0, 2.0]),
    "a reporter's typing error": lambda sim: setattr(sponge.Log(10), "evry", 20),
    "a reporter's half step": lambda sim: setattr(sponge.DCD("a.dcd", 10), "every", 2.5),
    "a reporter's no step": lambda sim: setattr(sponge.Log(10), "every", 0),
}


@pytest.mark.parametrize("what", REFUSED)
def test_assignments_that_would_do_nothing_are_refused(sim, what):
    with pytest.raises((AttributeError, TypeError, ValueError)):
        REFUSED[what](sim)
    sim.energies()  # and nothing has changed


def test_what_is_wrong_inside_of_a_system_is_noticed_when_it_computes():
    for change, error in (
        (lambda s: s["bond"].params.update(kk=np.ones(2)), "params must keep their names and shapes, got 'kk'"),
        (lambda s: s["bond"].params.pop("k"), "got 'k' of shape nothing"),
        (lambda s: s["bond"].params.update(k=3.0), r"'k' of shape \(\) in place of \(2,\)"),
        (lambda s: setattr(s["angle"], "name", "bond"), "names of potentials must differ, got 'bond' twice"),
        (lambda s: s.positions.__setitem__(1, np.nan), "positions must be finite"),
    ):
        system = molecule()
        before = system.energy()
        change(system)
        with pytest.raises(ValueError, match=error):
            system.energy()
        assert np.isfinite(before)
    system = molecule()
    system["bond"].params["k"] = [1, 2]  # whole numbers in a list are as good
    assert system.energy_terms()["bond"] == pytest.approx(0.5 * 2 * (np.hypot(0.05, 0.14) - 0.15) ** 2)


MISTAKES = {
    "method of nonbonded": lambda s: setattr(s.nonbonded, "method", "pne"),
    "switch beyond the cut-off": lambda s: setattr(s.nonbonded, "switch", 2.0),
    "negative cut-off": lambda s: setattr(s.nonbonded, "cutoff", -0.8),
    "tolerance": lambda s: setattr(s.nonbonded, "tolerance", -1.0),
    "added twice": lambda s: s.add(s["bond"]),
    "a class for a potential": lambda s: s.add(sponge.harmonic_bond),
    "negative mass": lambda s: s.masses.__setitem__(0, -1.0),
    "mass that is no number": lambda s: s.masses.__setitem__(0, np.nan),
    "a truth value for a time step": lambda s: sponge.LangevinMiddle(300, 1.0, True),
    "temperature in words": lambda s: sponge.LangevinMiddle("300", 1.0, 0.001),
    "constraints that hold nothing": lambda s: sponge.LangevinMiddle(300, 1.0, 0.001, constraint_tolerance=5.0),
    "pressure in words": lambda s: sponge.MonteCarloBarostat("1"),
    "truth for a number": lambda s: sponge.MonteCarloBarostat(1.0, every=True),
    "temperature of a barostat": lambda s: sponge.MonteCarloBarostat(1.0, temperature="300"),
    "a number for a barostat": lambda s: sponge.Simulation(s, sponge.VelocityVerlet(0.001), barostat=1.0),
    "a class for a barostat": lambda s: sponge.Simulation(
        s, sponge.VelocityVerlet(0.001), barostat=sponge.MonteCarloBarostat
    ),
    "a class for a method": lambda s: sponge.Simulation(s, sponge.VelocityVerlet(0.001), sampling=sponge.Metadynamics),
    "a class for a reporter": lambda s: sponge.Simulation(s, sponge.VelocityVerlet(0.001)).run(1, report=sponge.Log),
    "a class among reporters": lambda s: sponge.Simulation(s, sponge.VelocityVerlet(0.001)).run(1, report=[sponge.Log]),
    "a barostat without a box": lambda s: sponge.Simulation(
        pair(), sponge.LangevinMiddle(300, 1.0, 0.001), barostat=sponge.MonteCarloBarostat(1.0)
    ).run(1),
    "a box below the cut-off": lambda s: (lambda sim: (setattr(sim, "box", 1.2), sim.run(1)))(
        sponge.Simulation(s, sponge.VelocityVerlet(0.001))
    ),
    "a length of no constraint": lambda s: (
        s.constraints.distances.__setitem__(0, np.nan),
        sponge.Simulation(s, sponge.VelocityVerlet(0.001)).run(1),
    ),
}


@pytest.mark.parametrize("what", MISTAKES)
def test_mistakes_are_told(what):
    system = molecule()
    with pytest.raises((ValueError, TypeError, RuntimeError), match=":"):
        MISTAKES[what](system)
        system.energy()
    assert system["bond"].name == "bond"


def test_a_changed_system_is_computed_as_it_is():
    system = pair()
    bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.2))
    assert system.energy() == pytest.approx(5.0)
    bond.params["r0"][:] = 0.3
    assert system.energy() == pytest.approx(0.0)
    system.positions[1, 0] = 0.4
    assert system.energy() == pytest.approx(5.0) and system.forces()[1, 0] == pytest.approx(-100.0)
    system.box = [3, 3, 3]
    assert np.array_equal(system.box, 3 * np.eye(3))  # not three rows of one vector
    system.remove("bond")
    assert system.energy() == 0.0


def test_a_simulation_goes_on_when_its_state_is_put_into_the_system(sim):
    sim.run(20)
    sim.system.positions, sim.system.velocities, sim.system.box = sim.positions, sim.velocities, sim.box
    before = sim.energies()
    sim.run(20)
    other = sponge.Simulation(
        molecule(),
        sim.integrator,
        sampling=[
            sponge.Metadynamics(cv.distance(0, 3), sigma=0.02, height=0.1, every=10, grid=(0.0, 1.4), temperature=300)
        ],
        barostat=sim.barostat,
    )
    other.run(20)
    assert other.energies() == before  # meshes are planned for the box of the beginning
    other.run(20)
    assert np.array_equal(sim.positions, other.positions)


def test_positions_that_were_given_do_not_depend_on_the_system():
    system = pair()
    system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.3))
    sims = []
    for r in (0.3, 0.35):
        sims.append(sponge.Simulation(system, sponge.VelocityVerlet(0.001), positions=[[0, 0, 0], [r, 0, 0]]))
        system.positions = [[0, 0, 0], [r + 1, 0, 0]]
    for sim, r in zip(sims, (0.3, 0.35), strict=True):
        sim.run(5)  # a StaleSimulationError here if the system's own positions counted
        assert np.linalg.norm(np.diff(sim.positions, axis=0)) == pytest.approx(r, abs=0.06)


def test_changes_that_a_reporter_makes_are_noticed():
    system = pair()
    bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.3))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001))

    def stronger(sim):
        bond.params["k"][:] = 2000.0

    with pytest.raises(StaleSimulationError, match="bond: params: k"):
        sim.run(10, report=[sponge.Callback(5, stronger)])


def test_replicas_notice():
    system = pair()
    bond = system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.3))
    integrator = sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001)
    rex = sponge.ReplicaExchange(system, integrator, [300, 310], every=10)
    rex.run(20)
    for change in (
        lambda: rex.temperatures.__setitem__(0, 500.0),
        lambda: setattr(rex, "temperatures", [1, 2]),
        lambda: setattr(rex, "evry", 3),
    ):
        with pytest.raises((ValueError, AttributeError)):
            change()
    windows = sponge.UmbrellaSampling(system, cv.distance(0, 1), [0.2, 0.3], k=2000.0, integrator=integrator)
    with pytest.raises(ValueError, match="read-only"):
        windows.centers[:] = 1.0
    bond.params["k"][:] = 2000.0
    for replicas in (rex, windows):
        with pytest.raises(StaleSimulationError, match="replica 0"):
            replicas.run(10)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sponge.SITS(temperatures=[300.0, 320.0]),
        lambda: sponge.AMD(total=(-1000.0, 100.0)),
        lambda: sponge.Metadynamics(cv.distance(0, 1), 0.01, height=0.1, every=10, grid=(0.1, 0.5, 100)),
    ],
    ids=["SITS", "AMD", "Metadynamics"],
)
def test_a_method_that_a_simulation_refused_is_free_for_the_next(make):
    method, bath = make(), sponge.LangevinMiddle(300, 1.0, 0.001)
    with pytest.raises(ValueError, match="positions"):
        sponge.Simulation(molecule(), bath, sampling=[method], positions=np.zeros((2, 3)))
    sponge.Simulation(molecule(), bath, sampling=[method]).run(5)
    with pytest.raises(ValueError, match="belongs to one simulation"):
        sponge.Simulation(molecule(), bath, sampling=[method])


# -- what cannot be meant
# -----------------------------------------------------------------------------------------------


def test_overlapping_atoms_are_named():
    system = sponge.System(
        sponge.Topology.of_particles(4), [12.0] * 4, positions=[[0, 0, 0], [0.5, 0, 0], [0, 0.6, 0], [0.5, 0, 0]]
    )
    system.add(sponge.Nonbonded([0.1, -0.1, 0.1, -0.1], np.full(4, 0.2), np.full(4, 0.1), method="none"))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001))
    for compute in (system.energy, system.energy_terms, sim.energies):
        with pytest.raises(
            BrokenSimulationError, match=r"from term 'nonbonded': atom 1 \(X 2 X\) and atom 3 \(X 4 X\) are 0 nm apart"
        ):
            compute()
    with pytest.raises(BrokenSimulationError, match=r"forces must be finite, got .* from term 'nonbonded': atom 1"):
        system.forces()
    assert not np.isfinite(system.energy_function()({}, system.positions))  # as NumPy would
    sim.minimize()
    assert np.isfinite(sim.energies()["potential"])


def test_energies_that_a_function_makes_infinite_are_named():
    system = pair()
    system.add(sponge.FunctionPotential(lambda x: np.log(np.sum(x[0])), name="logarithm"))
    with pytest.raises(BrokenSimulationError, match="got -inf from term 'logarithm'"):
        system.energy()


def test_steps_in_fs_and_pressures_in_pascal_are_noticed():
    system = molecule()
    system.topology = sponge.Topology.of_particles(5, "C", 6, [[0, 1], [1, 2], [2, 3]])
    with pytest.warns(UnitsWarning, match=r"the time step looks like fs: 2 ps are 2000 fs \(time steps are in ps\)"):
        sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 2.0))
    with pytest.warns(UnitsWarning, match=r"the pressure looks like Pa, got 101325.0 bar \(pressures are in bar\)"):
        sponge.Simulation(
            system, sponge.LangevinMiddle(300, 1.0, 0.002), barostat=sponge.MonteCarloBarostat(pressure=101325.0)
        )


def test_angstrom_are_noticed():
    good = molecule()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        good.energy()
    with pytest.warns(
        UnitsWarning, match="positions look like angstrom: bonds are 10 times as long .* 1.5 nm apart instead of 0.15"
    ):
        sponge.Simulation(good, sponge.VelocityVerlet(0.001), positions=10 * good.positions)
    good.box = None
    good.nonbonded.update(method="none")
    with pytest.warns(UnitsWarning, match="positions look like angstrom"):
        good.energy(10 * good.positions)
    x = np.stack(np.meshgrid(*[np.arange(6)] * 3), -1).reshape(-1, 3) * 0.31
    n = len(x)
    water = sponge.System(sponge.Topology.of_particles(n), np.full(n, 18.0), box=18.6, positions=x)
    with pytest.warns(UnitsWarning, match=r"the box looks like angstrom: it is 12 times as wide .* 0.001 g/cm\^3"):
        sponge.Simulation(water, sponge.VelocityVerlet(0.001))


# -- memory ------------------------------------------------------------------------------------------------------------


def _resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def _round(k):
    system = molecule()
    strength = 1.0 + k  # a value of its own in each round: nothing may be kept by it
    system.add(sponge.FunctionPotential(lambda x: strength * np.sum((x[0] - x[3]) ** 2)))
    bias = sponge.Metadynamics(cv.distance(0, 3), sigma=0.02, height=0.1, every=10, grid=(0.0, 1.4), temperature=300)
    sim = sponge.Simulation(
        system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001), seed=k, sampling=[bias]
    )
    sim.run(20)
    assert np.isfinite(sim.energies()["total"])
    return [weakref.ref(x) for x in (system, sim, bias, sim._engine)]


def test_simulations_go_with_their_names():
    refs = [r for k in range(3) for r in _round(k)]
    gc.collect()
    assert [r() for r in refs] == [None] * len(refs)


@pytest.mark.slow
def test_memory_stays_flat():
    """Simulations made, run and deleted, in a process of their own; each tenth has code that is the first's."""
    script = textwrap.dedent("""
        import gc
        from tests.sponge.run.test_state import _resident, _round

        def look():
            gc.collect()
            return len(gc.get_objects()), _resident()

        for k in range(80):  # until the heap has its size
            _round(k % 10)
        before = look()
        for k in range(100):
            _round(k % 10)
        after = look()
        print(after[0] - before[0], after[1] - before[1])
    """)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    objects, memory = map(int, done.stdout.split())
    assert objects < 50  # one for each round would be too many
    assert memory < 100 * 50_000, f"{memory / 100:.0f} bytes a round"
