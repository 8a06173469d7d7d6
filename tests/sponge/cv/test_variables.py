"""The reporter of collective variables: records that line up with steps, and that continue after a resume."""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv
from triskele.sponge.testing import example_system

PHI, R = cv.torsion(0, 1, 2, 3, name="phi"), cv.distance(0, 11)


def springs(x):
    return 500.0 * np.sum((np.sqrt(np.sum((x[1:] - x[:-1]) ** 2, axis=1)) - 0.15) ** 2)


def simulation(box=None, seed=1):
    system = example_system(sponge.FunctionPotential(springs), box=box)
    return sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.001), seed=seed)


@pytest.mark.parametrize("box", [None, 4.0])
def test_records_are_those_of_the_reported_positions(box):
    sim, frames = simulation(box), []
    record = sponge.Variables({"phi": PHI, "r": R}, every=10)
    sim.run(50, report=[record, sponge.Callback(10, lambda s: frames.append(s.positions))])
    assert record.steps.tolist() == [10, 20, 30, 40, 50] and len(record) == 5
    np.testing.assert_allclose(record["phi"], [float(PHI(x, sim.box)) for x in frames], rtol=1e-12)
    np.testing.assert_allclose(record["r"], [float(R(x, sim.box)) for x in frames], rtol=1e-12)
    sim.run(20, report=record)
    assert record.steps.tolist() == [10, 20, 30, 40, 50, 60, 70]
    with pytest.raises(KeyError, match="a variable must be 'phi' or 'r', got 'psi'"):
        record["psi"]


def test_resumed_records_equal_those_of_one_run(tmp_path):
    whole = sponge.Variables({"phi": PHI}, every=5, path=tmp_path / "whole.csv")
    sim = simulation()
    sim.run(20, report=[whole, sponge.Checkpoint(tmp_path / "run.chk", every=20)])
    sim.run(20, report=whole)

    record = sponge.Variables({"phi": PHI}, every=5, path=tmp_path / "part.csv")
    sim = simulation()
    sim.run(20, report=[record, sponge.Checkpoint(tmp_path / "part.chk", every=20)])
    sim.run(10, report=record)  # what comes after the checkpoint is lost with the process
    sim = simulation()
    sim.load(tmp_path / "part.chk")
    sim.run(20, report=record)
    assert record.steps.tolist() == whole.steps.tolist()
    assert np.array_equal(record["phi"], whole["phi"])

    fresh = sponge.Variables({"phi": PHI}, every=5, path=tmp_path / "part.csv")  # a new process has the file
    sim = simulation()
    sim.load(tmp_path / "part.chk")
    sim.run(20, report=fresh)
    assert np.array_equal(fresh["phi"], whole["phi"])
    assert (tmp_path / "part.csv").read_text() == (tmp_path / "whole.csv").read_text()
    assert (tmp_path / "part.csv").read_text().startswith("step,time [ps],phi\n5,")


def test_a_table_without_rows_is_gone_on_with(tmp_path):
    sim = simulation()
    for steps in (0, 4, 6):  # nothing is recorded before step 5
        record = sponge.Variables({"phi": PHI, "r": R}, every=5, path=tmp_path / "table.csv")
        sim.run(steps, report=record)
    assert record.steps.tolist() == [5, 10]
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 3


def test_bad_input():
    with pytest.raises(TypeError, match="must be a dict of names to collective variables"):
        sponge.Variables([PHI], every=10)
    with pytest.raises(ValueError, match="atoms of distance.* must be below 12, got 30"):
        simulation().run(10, report=sponge.Variables({"r": cv.distance(0, 30)}, every=10))


def test_undefined_variable_is_an_error_that_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    system = sponge.System(
        sponge.Topology.of_particles(4), np.ones(4), positions=np.outer(np.arange(4), [0.1, 0.2, 0.3])
    )
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), velocities=np.zeros((4, 3)))
    with pytest.raises(
        cv.VariableError, match="'phi' must be defined, which it is not where three atoms .* at step 10"
    ):
        sim.run(10, report=sponge.Variables({"phi": PHI}, every=10))
