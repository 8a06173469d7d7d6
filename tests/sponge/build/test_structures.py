"""What reads or builds a structure can be handed on as it is."""

import io

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import build


@pytest.fixture(scope="module")
def water():
    return build.water_box("tip3p", n=27)


def test_a_structure_makes_the_system_that_its_parts_make(water):
    whole = sponge.create_system(water, "amber14/tip3p", cutoff=0.4)
    parts = sponge.create_system(water.topology, water.positions, water.box, "amber14/tip3p", cutoff=0.4)
    named = sponge.create_system(water, forcefield="amber14/tip3p", cutoff=0.4)
    assert whole.energy() == parts.energy() == named.energy()


def test_a_structure_is_where_a_simulation_starts(water):
    system = sponge.create_system(water, "amber14/tip3p", cutoff=0.4)
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001), positions=water)
    np.testing.assert_array_equal(sim.positions, system.positions)
    with pytest.raises(TypeError, match=r"system must be a System, got Structure.* \(sponge.create_system"):
        sponge.Simulation(water, sponge.VelocityVerlet(timestep=0.001))


def test_a_structure_is_written_and_read_back(water, tmp_path):
    sponge.write_pdb(tmp_path / "water.pdb", water)
    again = sponge.read_pdb(tmp_path / "water.pdb")
    np.testing.assert_allclose(again.positions, water.positions, atol=6e-5)
    np.testing.assert_allclose(again.box, water.box, atol=1e-4)
    with pytest.raises(TypeError, match="positions must be given with a topology"):
        sponge.write_pdb(io.StringIO(), water.topology)
