"""Broken simulations: the message names step, term and atom, and the last good state is on the disk and in memory."""

import re

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import BrokenSimulationError

TOPOLOGY = sponge.Topology(
    np.array(["N", "CA", "C", "CE1"]),
    [7, 6, 6, 6],
    [0, 0, 0, 1],
    ["ALA", "HIS"],
    ["66", "67"],
    [0, 0],
    ["A"],
    [[0, 1], [1, 2], [2, 3]],
)


@sponge.bond_potential
def cusp(r, k):
    """Springs that have no force, and no energy, at all beyond 0.6 nm: a square root of a negative number."""
    return k * (0.6 - r) ** 0.5


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def chain(speed=0.0, **options):
    """Four atoms on springs; the last one flies away with `speed` nm/ps."""
    x = np.array([[0, 0, 0], [0.15, 0, 0], [0.3, 0, 0], [0.45, 0, 0]])
    system = sponge.System(TOPOLOGY, [12.0] * 4, positions=x, remove_com_motion=False)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2]], k=1000.0, r0=0.15))
    system.add(cusp([[2, 3]], k=[1e-6]))
    v = np.zeros((4, 3))
    v[3, 0] = speed
    return sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), velocities=v, **options)


@pytest.mark.parametrize("speed, step", [(10.0, 46), (0.5, 901), (0.05, 9001)])
def test_nan_is_found_in_its_step_term_and_atom(speed, step):
    sim = chain(speed)  # the bond between the last two is longer than 0.6 nm after 0.45 nm
    with pytest.raises(
        BrokenSimulationError, match=r"atom \d .*: NaN force from term 'cusp' at step \d+ \(the state at step"
    ) as caught:
        sim.run(20_000)
    message = str(caught.value)
    assert re.search(r"atom (2 \(ALA 66 C\)|3 \(HIS 67 CE1\))", message)
    assert "time steps are 0.001 ps" in message
    found = int(re.search(r"force from term 'cusp' at step (\d+)", message)[1])
    assert abs(found - step) <= max(2, 0.01 * step)  # the other springs carry a little along
    good = int(re.search(r"the state at step (\d+) was saved to 'run.last_good.chk'", message)[1])
    assert found - 200 <= good < found
    assert sim.step == good and np.isfinite(sim.positions).all()
    other = chain(0.0)
    other.load("run.last_good.chk")
    assert other.step == good and np.array_equal(other.velocities, sim.velocities)


def test_files_of_reporters_are_closed_and_checkpoints_kept(folder):
    sim = chain(0.48)  # breaks after 0.94 ps
    with pytest.raises(BrokenSimulationError, match="was saved to 'a.last_good.chk'"):
        sim.run(20_000, report=[sponge.CSV("a.csv", 100), sponge.Checkpoint("a.chk", 400)])
    assert (folder / "a.csv").read_text().splitlines()[-1].startswith("900,")
    other = chain()
    other.load("a.chk")
    assert other.step == 800


def test_a_time_step_that_is_too_large_is_named_when_it_explodes():
    x = np.array([[0, 0, 0], [0.15, 0, 0], [0.3, 0, 0], [0.5, 0, 0]])
    system = sponge.System(TOPOLOGY, [12.0] * 4, positions=x)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=1e6, r0=0.15))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.01))
    with pytest.raises(
        BrokenSimulationError, match=r"atom \d \(.*\): force of .* kJ/mol/nm from term 'bond' at step \d+"
    ):
        sim.run(1000)


def test_a_callback_that_breaks_the_state_is_refused():
    sim = chain()

    def spoil(sim):
        x = sim.positions.copy()
        x[2] = np.nan
        sim.positions = x

    with pytest.raises(ValueError, match=r"positions must be finite, got \[nan nan nan\] for atom 2 \(ALA 66 C\)"):
        sim.run(10, report=sponge.Callback(5, spoil))
    assert np.isfinite(sim.positions).all()


def test_what_a_callback_did_is_not_undone_by_looking_for_the_cause():
    sim = chain()

    def push(sim):
        if sim.step == 50:
            v = sim.velocities.copy()
            v[3, 0] = 10.0
            sim.velocities = v

    with pytest.raises(BrokenSimulationError, match="NaN force from term 'cusp' at step 9[456] "):
        sim.run(200, report=sponge.Callback(10, push))


def test_atoms_that_are_moved_behind_its_back():
    sim = chain()

    def spoil(sim):
        sim._engine.velocities[1, 2] = np.nan

    with pytest.raises(
        BrokenSimulationError, match=r"atom \d \(.*\): position or velocity out of bounds at step \d+, which does not"
    ):
        sim.run(100, report=sponge.Callback(10, spoil))


def test_forces_that_are_broken_from_the_start():
    sim = chain()
    x = sim.positions.copy()
    x[3] += [1.0, 0, 0]
    sim.positions = x
    with pytest.raises(BrokenSimulationError, match="NaN force from term 'cusp' at step 1 "):
        sim.run(10)
    assert sim.step == 0


def test_a_sound_run_is_left_alone(folder):
    sim = chain(0.01)
    sim.run(1000)
    assert sim.step == 1000 and not list(folder.iterdir())
