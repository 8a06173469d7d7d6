"""Settings that a run changes: it is the chain of runs with constants, bit for bit, and resumes like any other."""

import numpy as np
import pytest

from tests.shipped import subclasses
from triskele import sponge
from triskele.sponge import alchemy, units
from triskele.sponge.integrators.integrator import Integrator
from triskele.sponge.run.equilibrate import solute_atoms

DT = 0.002
BATHS = [
    sponge.LangevinMiddle(300, 1.0, DT),
    sponge.NoseHoover(300, 0.1, DT),
    sponge.Bussi(300, 0.1, DT),
    sponge.Brownian(300, 50.0, DT),
    sponge.RESPA(DT, 2, ["bond"], 300, 1.0),
    sponge.DrudeLangevin(300, 1.0, DT),
]


def held(integrator=None, k=1000.0, n=20, **options):
    """Dimers, each atom of which is held by a spring."""
    x = np.random.default_rng(0).uniform(0, 2, (n, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(n).reshape(-1, 2)
    system = sponge.System(sponge.Topology.of_particles(n, "C", 6, pairs), np.full(n, 12.0), positions=x)
    system.add(sponge.harmonic_bond(pairs, k=1000.0, r0=0.15))
    system.add(sponge.PositionRestraint(np.arange(n), k, x, name="restraint"))
    system.add(sponge.distance_restraint(pairs, k=10.0, lower=0.1, upper=0.15))
    return sponge.Simulation(system, integrator or BATHS[0], seed=1, **options)


def test_all_baths_are_here():
    found = subclasses(Integrator, "triskele.sponge.integrators")
    assert {type(i).__name__ for i in BATHS} == {n for n, c in found.items() if "temperature" in c.__dataclass_fields__}


@pytest.mark.parametrize("integrator", BATHS, ids=lambda i: type(i).__name__)
def test_steps_are_a_chain_of_runs_with_constants(integrator):
    changing, chain = held(integrator), held(integrator)
    changing.run(400, change={"temperature": [(0, 300), ("0.4 ps", 400.0)], "restraint/k": [(0, 1000), (0.4, 500)]})
    chain.run(200)
    chain.run(200, change={"temperature": 400.0, "restraint/k": 500.0})
    assert np.array_equal(changing.positions, chain.positions)
    assert changing.integrator == chain.integrator and changing.integrator.temperature == 400.0
    assert (changing.system["restraint"].params["k"] == 500).all()


@pytest.mark.parametrize("name", ["bond/k", "distance_restraint/upper", "restraint/reference"])
def test_parameters_are_those_of_a_new_simulation(name):
    """Whether the compiled step reads them in place, or is made anew."""
    potential, key = name.split("/")
    sim = held()
    value = sim.system[potential].params[key] * 1.1
    sim.run(30, change={name: sponge.ramp(sim.system[potential].params[key], value)})
    assert np.array_equal(sim.system[potential].params[key], value)
    again = sponge.Simulation(sim.system, BATHS[0], state=sim.state())
    assert sim.energies() == pytest.approx(again.energies(), rel=1e-14)
    assert sim.energies()["potential"] == pytest.approx(float(sim.system.energy(sim.positions)), rel=1e-12)


def test_lambdas_and_charges_are_those_of_a_new_simulation():
    system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    soft = alchemy.decouple(system, range(22), annihilate=["electrostatics", "sterics"])
    sim = sponge.Simulation(soft, BATHS[0], seed=1, precision="double")
    charges = soft["nonbonded"].params["charges"]
    change = {"nonbonded/sterics": sponge.ramp(1, 0.4), "nonbonded/electrostatics": sponge.ramp(1, 0, over="0.02 ps")}
    sim.run(20, change={**change, "nonbonded/charges": sponge.ramp(charges, 0.9 * charges)})
    again = sponge.Simulation(soft, BATHS[0], state=sim.state(), precision="double")
    assert soft["nonbonded"].params["sterics"] == 0.4
    assert sim.energies()["nonbonded"] == pytest.approx(again.energies()["nonbonded"], rel=1e-10)


def test_slow_change_of_a_spring_keeps_energy_over_frequency():
    """The adiabatic invariant of a harmonic oscillator."""
    system = sponge.System(sponge.Topology.of_particles(1), [12.0], positions=[[0.1, 0, 0]], remove_com_motion=False)
    system.add(sponge.PositionRestraint([0], 400.0, np.zeros((1, 3)), name="spring"))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.002), velocities=np.zeros((1, 3)))
    before = sim.energies()["total"]
    sim.run(time="200 ps", change={"spring/k": sponge.ramp(400, 1600)})
    assert sim.energies()["total"] == pytest.approx(2 * before, rel=2e-3)


def test_a_heated_ensemble_has_the_last_temperature():
    """Oscillators follow a slow ramp of their bath: the variance of each is RT/k at the end."""
    n = 3000
    system = sponge.System(
        sponge.Topology.of_particles(n), np.full(n, 12.0), positions=np.zeros((n, 3)), remove_com_motion=False
    )
    system.add(sponge.PositionRestraint(np.arange(n), 1000.0, np.zeros((n, 3)), name="spring"))
    sim = sponge.Simulation(system, sponge.LangevinMiddle(100, 5.0, 0.004), seed=3)
    sim.run(time="20 ps", change={"temperature": sponge.ramp(100, 400, over="18 ps")})
    expected = units.GAS_CONSTANT * 400 / 1000
    assert np.var(sim.positions) == pytest.approx(expected, rel=4 * np.sqrt(2 / (3 * n)))
    assert sim.temperature == pytest.approx(400, rel=4 * np.sqrt(2 / (3 * n)))


class Killed(Exception):
    """The end of a process."""


CHANGE = {"temperature": sponge.ramp(50, 300), "restraint/k": lambda time: 1000 - 500 * time, "bond/k": 900.0}


@pytest.mark.parametrize("integrator", BATHS[:4], ids=lambda i: type(i).__name__)
@pytest.mark.parametrize("every", [7, 100])  # also where nothing changes
def test_a_killed_run_resumes_bit_for_bit(tmp_path, integrator, every):
    def stop(record):
        if record["step"] >= 310:
            raise Killed

    whole, killed, resumed = held(integrator), held(integrator), held(integrator)
    whole.run(500, change=CHANGE)
    path = tmp_path / "run.chk"
    with pytest.raises(Killed):
        killed.run(500, change=CHANGE, checkpoint=sponge.Checkpoint(path, every), report=stop)
    resumed.run(500, change=CHANGE, checkpoint=sponge.Checkpoint(path, every))
    assert np.array_equal(whole.positions, resumed.positions)
    assert np.array_equal(whole.velocities, resumed.velocities)
    resumed.load(path)  # settings of the checkpoint, not those of now
    assert resumed.integrator.temperature == pytest.approx(50 + 250 * (resumed.step // 100 * 100) / 500)


def test_what_comes_after_a_run_with_changes(tmp_path):
    sim = held()
    sim.run(100, change={"restraint/k": sponge.ramp(1000, 0)})
    sim.run(10)  # is not taken for a change of the user's
    sim.save(tmp_path / "run.chk")
    other = held()
    other.load(tmp_path / "run.chk")
    assert (other.system["restraint"].params["k"] == 0).all()
    sim.system["restraint"].params["k"][:] = 5.0
    with pytest.raises(sponge.errors.StaleSimulationError, match="restraint"):
        sim.run(1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"temprature": 300}, r"nothing 'temprature' to change \(did you mean 'temperature'\?"),
        ({"timestep": 0.001}, "nothing 'timestep' to change"),
        ({"restraint/K": 1.0}, "no parameter 'restraint/K'"),
        ({"restraints/k": 1.0}, "there is no potential 'restraints'"),
        ({"pressure": 1.0}, "nothing 'pressure' to change"),
        ({"temperature": sponge.ramp(300, -1)}, "temperature must be a positive number"),
        ({"temperature": lambda time: 1 / time if time else np.nan}, "'temperature' must be finite, got nan"),
        ({"restraint/k": np.ones(3)}, r"'restraint/k' must be a number or have shape \(20,\), got shape \(3,\)"),
        ({"restraint/width": sponge.ramp(0, -1)}, "width must be >= 0, got -1.0"),
        ({"restraint/width": [(0, 0), ("1 ps", -2)]}, "width must be >= 0, got -2.0"),
        ({"temperature": "300 K"}, "'temperature' must be a number or an array of numbers, got '300 K'"),
        ({"temperature": [("1 ps", 300)]}, "pairs of time and value, the first at 0"),
        ("temperature", "change must be a dictionary"),
    ],
)
def test_a_run_that_cannot_be_ends_before_its_first_step(change, message):
    sim = held()
    with pytest.raises((ValueError, TypeError, KeyError), match=message):
        sim.run(10, change=change)
    assert sim.step == 0 and sim.integrator.temperature == 300
    assert not sim.system["restraint"].params["width"].any()


def test_a_function_that_leaves_what_can_be_ends_the_run():
    sim = held()
    with pytest.raises(ValueError, match="width must be >= 0, got -0.1"):
        sim.run(60, change={"restraint/width": lambda time: -0.1 if 0.05 < time < 0.07 else 0.0})
    assert sim.step < 30 and not sim.system["restraint"].params["width"].any()


def test_methods_that_were_made_for_a_temperature_keep_it():
    sim = held(sampling=[sponge.ABF(sponge.cv.distance(0, 1), grid=(0.1, 0.3, 10))])
    with pytest.raises(ValueError, match="temperature must stay as it is with"):
        sim.run(10, change={"temperature": 310.0})


# -- equilibration -----------------------------------------------------------------------------------------------------


def test_equilibration_heats_and_releases(tmp_path):
    def simulation():
        system = sponge.load(*sponge.example_files("alanine-dipeptide"), constraints="h-bonds")
        return sponge.Simulation(system, BATHS[0], seed=1)

    sim, again = simulation(), simulation()
    sim.equilibrate(restrain="protein and not element H", heat="1 ps", release="1 ps", checkpoint=tmp_path / "first")
    assert sim.step == 0 and len(sim.system.potentials) == len(again.system.potentials)
    assert sim.temperature > 150
    (tmp_path / "first.release").unlink()  # killed while it was heating
    again.equilibrate(heat="1 ps", release="1 ps", checkpoint=tmp_path / "first")
    assert np.array_equal(sim.positions, again.positions) and np.array_equal(sim.velocities, again.velocities)
    sim.run(10)
    with pytest.raises(ValueError, match="needs an integrator with a temperature, got VelocityVerlet"):
        sponge.Simulation(sim.system, sponge.VelocityVerlet(DT), state=sim.state()).equilibrate()


def test_solutes_are_neither_water_nor_ions():
    system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
    heavy = np.flatnonzero(system.topology.elements[:22] > 1)
    assert np.array_equal(solute_atoms(system.topology), heavy)
