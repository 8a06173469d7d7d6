"""Simulation: the same run however it is cut into pieces and whoever looks on; observables; Ctrl-C."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest

from triskele import core, sponge
from triskele.core.extend import Task
from triskele.core.kernels.njit import kernel
from triskele.sponge import cv, units
from triskele.sponge.engine.engine import Runner
from triskele.sponge.engine.flags import STEP
from triskele.sponge.engine.program import Phase
from triskele.sponge.errors import BoxError
from triskele.sponge.testing import example_system

DATA = Path(__file__).resolve().parents[2] / "data" / "sponge"


def springs(integrator=None, n=10, box=None, **options):
    """Dimers on springs."""
    x = np.random.default_rng(0).uniform(0, 2, (n, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(n).reshape(-1, 2)
    system = sponge.System(sponge.Topology.of_particles(n, "C", 6, pairs), np.full(n, 12.0), box, x)
    system.add(sponge.harmonic_bond(pairs, k=1000.0, r0=0.15))
    integrator = integrator or sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)
    return sponge.Simulation(system, integrator, **options)


@pytest.fixture(scope="module")
def peptide():
    """Alanine dipeptide in 749 rigid waters."""
    folder = DATA / "ala2_explicit_pme"
    return sponge.load(
        folder / "alanine-dipeptide.prmtop.gz", folder / "alanine-dipeptide.crd.gz", constraints="h-bonds"
    )


def solvated(peptide, **options):
    return sponge.Simulation(
        peptide, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=3, **options
    )


# -- one run, however it is looked at
# -----------------------------------------------------------------------------------


def test_pieces_and_onlookers_leave_a_run_bit_for_bit_the_same(peptide, tmp_path):
    whole = solvated(peptide)
    whole.run(60)
    pieces = solvated(peptide)
    for steps in (1, 0, 13, 30, 16):
        pieces.run(steps)
    watched = solvated(peptide)
    seen = []
    watched.run(
        60,
        report=[
            sponge.CSV(tmp_path / "a.csv", 7),
            sponge.DCD(tmp_path / "a.dcd", 5),
            sponge.Log(11),
            sponge.Callback(3, lambda sim: seen.append(sim.energies()["potential"])),
        ],
    )
    for other in (pieces, watched):
        assert other.step == 60 and other.time == pytest.approx(0.12)
        assert np.array_equal(other.positions, whole.positions) and np.array_equal(other.velocities, whole.velocities)
    assert len(seen) == 20


@pytest.mark.parametrize(
    "integrator",
    [
        sponge.VelocityVerlet(timestep=0.002),
        sponge.NoseHoover(temperature=300, relaxation_time=0.1, timestep=0.002),
        sponge.Bussi(temperature=300, relaxation_time=0.1, timestep=0.002),
        sponge.Brownian(temperature=300, friction=50.0, timestep=0.002),
        sponge.RESPA(timestep=0.002, inner=2, fast=["bond"]),
    ],
    ids=lambda i: type(i).__name__,
)
def test_every_integrator_runs_the_same_in_pieces_and_under_observation(integrator):
    whole, pieces = springs(integrator), springs(integrator)
    for sim in (whole, pieces):
        sim.thermalize(300, seed=5)
    whole.run(40)
    pieces.run(13, report=sponge.Callback(5, lambda sim: sim.energies()))
    pieces.energies()
    pieces.run(27)
    assert np.array_equal(whole.positions, pieces.positions)


@pytest.mark.parametrize(
    "integrator",
    [
        sponge.LangevinMiddle(temperature=1500, friction=1.0, timestep=0.002),
        sponge.VelocityVerlet(timestep=0.002),
        sponge.RESPA(timestep=0.004, inner=2, fast=["bond", "angle", "torsion", "pair14", "nonbonded/direct"]),
    ],
    ids=lambda i: type(i).__name__,
)
def test_energies_at_every_step_leave_the_neighbor_lists_to_the_run(peptide, integrator):
    """Steps so hot that lists are built every few steps, at times before they are due."""
    alone, watched = (sponge.Simulation(peptide, integrator, seed=3) for _ in range(2))
    for sim in (alone, watched):
        sim.thermalize(1500)
    alone.run(70)
    seen = []
    watched.run(70, report=sponge.Callback(1, lambda sim: seen.append(sim.energies()["potential"])))
    assert np.array_equal(watched.positions, alone.positions) and np.array_equal(watched.velocities, alone.velocities)
    assert seen[-1] == pytest.approx(peptide.energy(watched.positions), rel=1e-5)


def test_energies_need_no_engine_of_their_own(peptide):
    sim, count = solvated(peptide), lambda: sum(type(one) is sponge.Engine for one in gc.get_objects())
    sim.run(5)
    gc.collect()  # engines of earlier tests
    before = count()
    found = sim.energies()
    assert count() == before
    for name, energy in peptide.energy_terms(sim.positions).items():
        assert found[name] == pytest.approx(energy, rel=1e-5, abs=0.01)


def test_the_number_of_threads_changes_nothing(peptide):
    before, ends = core.get_threads(), []
    try:
        for threads in (1, 2, 3):
            core.set_threads(threads)
            sim = solvated(peptide)
            sim.run(20)
            ends.append(sim.positions)
    finally:
        core.set_threads(before)
    assert np.array_equal(ends[0], ends[1]) and np.array_equal(ends[0], ends[2])


def test_seeds_make_runs_differ_and_repeat():
    def end(seed):
        sim = springs(seed=seed)
        sim.run(10)
        return sim.positions

    assert np.array_equal(end(1), end(1)) and not np.allclose(end(1), end(2))


def test_plans_rebuilt_by_a_phase_in_python_are_used_at_once():
    # a barostat computes energies in a smaller box, where the neighbor list may have to grow
    engine = springs()._engine
    made = []

    def phases():
        count = np.zeros(1)
        made.append(count)
        return [
            Phase(call=lambda: engine.replan() if engine.flags[STEP] == 3 and len(made) == 1 else None),
            Phase([Task(count_up, count)]),
        ]

    Runner(engine, phases).run(10)
    assert [count[0] for count in made] == [3, 7] and engine.flags[STEP] == 10


@kernel(nogil=True)
def count_up(chunk, count):
    count[0] += 1


# -- observables -------------------------------------------------------------------------------------------------------


def test_energies_are_those_of_the_system(peptide):
    sim = solvated(peptide, precision="double")
    sim.run(10)
    found = sim.energies()
    terms = peptide.energy_terms(sim.positions)
    assert {name: found[name] for name in terms} == pytest.approx(terms, rel=1e-12)
    assert found["potential"] == pytest.approx(sum(terms.values()), rel=1e-12)
    assert found["total"] == found["potential"] + found["kinetic"]
    assert found["kinetic"] == pytest.approx(0.5 * np.sum(peptide.masses[:, None] * sim.velocities**2))
    assert found["density"] == pytest.approx(peptide.density)
    assert sim.degrees_of_freedom == 3 * peptide.n - len(peptide.constraints) - 3
    assert (
        found["temperature"]
        == sim.temperature
        == pytest.approx(2 * found["kinetic"] / sim.degrees_of_freedom / units.GAS_CONSTANT)
    )


def test_pressure_is_the_derivative_by_the_volume_of_molecules_that_stay_rigid(peptide):
    peptide = peptide.copy()
    peptide.nonbonded.update(switch=0.8, tolerance=1e-6)  # so that pairs that come within the cut-off make no jump
    sim = solvated(peptide, precision="double", velocities=np.zeros((peptide.n, 3)))
    molecule = peptide.topology.molecules
    mass = np.bincount(molecule, peptide.masses)
    center = np.stack([np.bincount(molecule, peptide.masses * x) for x in sim.positions.T], 1) / mass[:, None]

    def energy(scale):
        return peptide.energy(sim.positions + (scale - 1) * center[molecule], sim.box * scale)

    h, volume = 1e-5, sim.energies()["volume"]
    slope = (energy(1 + h) - energy(1 - h)) / (volume * ((1 + h) ** 3 - (1 - h) ** 3))
    assert sim.energies()["pressure"] == pytest.approx(-slope * units.BAR_PER_PRESSURE, rel=1e-4, abs=1.0)


def test_molecules_broken_at_the_faces_of_the_box_are_put_together(peptide, tmp_path):
    """As in many .gro files and trajectories: pressures, constraints and an RMSD take molecules as wholes."""
    x, sides = peptide.positions - peptide.positions[8], np.diag(peptide.box)
    broken = x - sides * np.floor(x / sides)
    whole, mended = solvated(peptide, positions=x), solvated(peptide, positions=broken)
    rmsd = cv.rmsd(range(22), x)
    assert rmsd(broken) > 1 and rmsd(mended.positions) < 1e-6
    assert mended.energies()["pressure"] == pytest.approx(whole.energies()["pressure"], abs=10)
    mended.run(5)
    mended.positions, mended.box = broken * 1.1, peptide.box * 1.1  # in either order
    other = solvated(peptide)
    other.box, other.positions = peptide.box * 1.1, broken * 1.1
    np.testing.assert_array_equal(mended.positions, other.positions)
    assert rmsd(mended.positions) < 0.1

    lines = [
        f"{r + 1:5d}MOL  {name:>5s}{i:5d}" + "".join(f"{c:10.5f}" for c in row)
        for i, (r, name, row) in enumerate(
            zip(peptide.topology.residue_index, peptide.topology.names, broken, strict=True), 1
        )
    ]
    ends = "".join(f"{side:10.5f}" for side in sides)
    (tmp_path / "broken.gro").write_text("\n".join(["", str(peptide.n), *lines, ends, ""]))
    folder = DATA / "ala2_explicit_pme"
    system = sponge.load(folder / "alanine-dipeptide.prmtop.gz", tmp_path / "broken.gro", constraints="h-bonds")
    assert rmsd(system.positions) < 1e-4


def test_molecules_without_ends_stay_as_they_are():
    ring = np.array([[k, (k + 1) % 4] for k in range(4)])
    system = sponge.System(
        sponge.Topology.of_particles(4, "C", 6, ring), np.full(4, 12.0), 2.0, [[0.5 * k, 0.0, 0.0] for k in range(4)]
    )
    system.add(sponge.harmonic_bond(ring, k=1000.0, r0=0.5))
    np.testing.assert_array_equal(sponge.Simulation(system, sponge.VelocityVerlet(0.001)).positions, system.positions)


def test_pressure_of_an_ideal_gas():
    system = sponge.System(
        sponge.Topology.of_particles(500, "AR", 18),
        np.full(500, 40.0),
        10.0,
        np.zeros((500, 3)),
        remove_com_motion=False,
    )
    sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002))
    expected = 500 * units.GAS_CONSTANT * sim.temperature / 1000 * units.BAR_PER_PRESSURE
    assert sim.energies()["pressure"] == pytest.approx(expected, rel=1e-12)
    assert sim.temperature == pytest.approx(300, rel=5 * np.sqrt(2 / 1500))


def test_first_velocities():
    given = np.ones((10, 3))
    assert np.array_equal(springs(velocities=given).velocities, given)
    assert not springs(sponge.VelocityVerlet(timestep=0.001)).velocities.any()
    drawn = springs()
    assert drawn.temperature > 0 and 12 * drawn.velocities.sum(0) == pytest.approx(np.zeros(3), abs=1e-9)
    drawn.system.velocities = given
    assert np.array_equal(sponge.Simulation(drawn.system, drawn.integrator).velocities, given)
    with pytest.raises(ValueError, match="a temperature is needed, because VelocityVerlet has none"):
        springs(sponge.VelocityVerlet(timestep=0.001)).thermalize()


def test_minimize_finds_the_minimum_and_draws_velocities_again():
    sim = springs()
    before = sim.velocities
    end = sim.minimize(tolerance=1e-4)
    assert end.converged and sim.energies()["potential"] == pytest.approx(0, abs=1e-8)
    assert np.array_equal(sim.velocities, before)  # the same seed
    given = springs(velocities=np.ones((10, 3)))
    given.minimize()
    assert np.array_equal(given.velocities, np.ones((10, 3)))


def test_states_are_copies():
    sim = springs(box=3.0)
    state = sim.state()
    with pytest.raises(ValueError, match="read-only"):  # which would move no atom
        sim.positions[:] = 0
    state.box[:] = state.positions[:] = 0
    sim.run(5)
    assert sim.step == 5 and state.step == 0 and sim.box[0, 0] == 3.0
    assert not np.array_equal(state.positions, sim.positions)
    assert sim.box is not None and springs().box is None


# -- arguments ---------------------------------------------------------------------------------------------------------


def test_time_in_place_of_steps():
    sim = springs()
    sim.run(time="0.1 ps")
    sim.run(time=0.02)
    assert sim.step == 60


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({}, "either a number of steps or a time"),
        ({"steps": 1, "time": 1.0}, "either a number"),
        ({"steps": -1}, "integer >= 0, got -1"),
        ({"steps": 1.5}, r"integer >= 0, got 1.5 \(a time is given as time='1 ns'\)"),
        ({"time": "1 hour"}, "time: must be a number with one of"),
        ({"time": "-1 ps"}, "time must be a number >= 0"),
        ({"time": "0.3 fs"}, "less than half of a time step"),
    ],
)
def test_run_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        springs().run(**arguments)


@pytest.mark.parametrize(
    "options, error, message",
    [
        ({"seed": -1}, ValueError, "seed must be an integer from 0"),
        ({"seed": 1.0}, ValueError, "seed must be"),
        ({"precision": "half"}, ValueError, "must be 'mixed' or 'double'"),
        ({"positions": np.zeros((3, 3))}, ValueError, r"shape \(10, 3\)"),
        ({"velocities": np.full((10, 3), np.inf)}, ValueError, "velocities must be finite, got .* for atom 0"),
        ({"barostat": sponge.MonteCarloBarostat(pressure=1.0)}, BoxError, "must have a periodic box"),
    ],
)
def test_simulation_refuses(options, error, message):
    with pytest.raises(error, match=message):
        springs(**options).run(1)


def test_simulation_needs_a_system_positions_and_an_integrator():
    sim = springs()
    with pytest.raises(TypeError, match="system must be a System, got str"):
        sponge.Simulation("dhfr.prmtop", sim.integrator)
    with pytest.raises(TypeError, match="integrator must be an Integrator, got float"):
        sponge.Simulation(sim.system, 0.002)
    with pytest.raises(ValueError, match="a system that is not periodic cannot have a box"):
        sim.box = 3.0
    sim.system.positions = None
    with pytest.raises(ValueError, match="positions are needed"):
        sponge.Simulation(sim.system, sim.integrator)


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_ctrl_c_ends_a_run_after_a_whole_step_with_files_closed(tmp_path):
    script = textwrap.dedent("""
        import numpy as np
        from triskele import sponge
        from tests.sponge.run.test_simulation import springs

        sim = springs()
        sim.run(1000)
        seen = []

        class Watch(sponge.Reporter):
            def report(self, sim, step):
                seen.append(step)
            def close(self):
                seen.append("closed")

        print("running", flush=True)
        try:
            sim.run(10**12, report=[Watch(100_000), sponge.DCD("a.dcd", 100_000)])
        except KeyboardInterrupt as stop:
            print(stop)
        assert seen[-1] == "closed"
        step = sim.step
        again = springs()
        again.run(step)
        assert np.array_equal(sim.positions, again.positions)
        sim.run(10)
        assert sim.step == step + 10
        print("well")
    """)
    root = Path(__file__).resolve().parents[3]
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{root / '.src'}:{root}"},
    )
    try:
        assert process.stdout.readline() == "running\n"
        time.sleep(1.0)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 0, err
    assert out.startswith("run: stopped after step ") and out.endswith("well\n")
    assert (tmp_path / "a.dcd").stat().st_size % 4 == 0


def test_plan_lists_the_phases_of_a_step_in_order():
    system = example_system(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.001))
    plan = sim.plan()
    lines = str(plan).split("\n")
    assert len(lines) == len(plan.phases)
    names = [phase.name for phase in plan.phases]
    assert names[-1] == "guard"
    assert "forces 0" in names
    for k, (phase, line) in enumerate(zip(plan.phases, lines, strict=True)):
        assert line.startswith(f"{k}: {phase.name} [")
        assert all(f"{task.kernel.__name__} ({task.chunks})" in line for task in phase.tasks)
    assert "every 100 steps" in lines[-1]
    sim.run(3)
    assert str(sim.plan()) == str(plan)


@pytest.mark.parametrize("given", [None, [[0.2, 0.0, 0.0]]], ids=["at rest", "moving"])
def test_the_first_step_has_the_forces_of_the_start(given):
    """Of velocity Verlet, whose steps begin with them: positions and velocities of the system, nothing set before."""
    system = sponge.System(
        sponge.Topology.of_particles(1), [10.0], positions=[[0.3, 0.0, 0.0]], remove_com_motion=False
    )
    system.velocities = None if given is None else np.array(given)
    system.add(sponge.FunctionPotential(lambda x: 50.0 * np.sum(x**2)))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001))
    sim.run(1)
    v = 0.0 if given is None else 0.2
    x = 0.3 + 0.001 * v - 0.5e-6 * 10.0 * 0.3
    assert sim.positions[0, 0] == pytest.approx(x, rel=1e-12)
    assert sim.velocities[0, 0] == pytest.approx(v - 0.5e-3 * 10.0 * (0.3 + x), rel=1e-12)


def test_a_state_brings_its_box():
    system = sponge.create_system(sponge.build.water_box("tip3p", n=27), "amber14/tip3p", cutoff=0.3)
    bath = sponge.LangevinMiddle(300.0, 1.0, 0.001)
    sim = sponge.Simulation(system, bath, seed=1)
    sim.box = 1.02 * np.diag(system.box)
    state = sim.state()
    other = sponge.Simulation(system, bath, seed=2, state=state)
    for name in ("positions", "velocities", "box"):
        np.testing.assert_array_equal(getattr(other, name), getattr(state, name))
    assert other.step == 0 and other.energies()["potential"] == sim.energies()["potential"]
    other.run(1)
    with pytest.warns(UserWarning, match=r"positions must belong to the box of the system, .* \(give state=state"):
        sponge.Simulation(system, bath, positions=state.positions)
    with pytest.raises(TypeError, match="state must be a State, without positions"):
        sponge.Simulation(system, bath, positions=system.positions, state=state)
    system.box = state.box
    sponge.Simulation(system, bath, positions=state.positions)  # without a warning
