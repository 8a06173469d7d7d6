"""Quantities of openmm.unit in place of numbers: the same numbers, and other dimensions refused by name."""

import numpy as np
import pytest
from openmm import Vec3, unit

from triskele import sponge


@pytest.mark.parametrize(
    "make, given, plain",
    [
        (sponge.LangevinMiddle, (300 * unit.kelvin, 1 / unit.picosecond, 2 * unit.femtoseconds), (300, 1.0, 0.002)),
        (sponge.LangevinMiddle, (300 * unit.kelvin, 1e12 / unit.second, 0.002), (300, 1.0, 0.002)),
        (sponge.Bussi, (300 * unit.kelvin, 100 * unit.femtoseconds, 2 * unit.femtoseconds), (300, 0.1, 0.002)),
        (sponge.VelocityVerlet, (1 * unit.femtosecond,), (0.001,)),
        (sponge.MonteCarloBarostat, (1 * unit.atmosphere, 300 * unit.kelvin), (1.01325, 300)),
        (sponge.MonteCarloBarostat, ([1, 2] * unit.bar, None, "semi-isotropic"), ((1, 2), None, "semi-isotropic")),
        (
            sponge.StochasticCellRescaling,
            (1 * unit.bar, None, 2e3 * unit.femtoseconds, 4.5e-10 / unit.pascal),
            (1, None, 2.0, 4.5e-5),
        ),
    ],
)
def test_integrators_and_barostats(make, given, plain):
    ours, want = vars(make(*given)), vars(make(*plain))
    assert ours.keys() == want.keys()
    for name, value in want.items():
        found = ours[name]
        assert found == (value if value is None or isinstance(value, str) else pytest.approx(value)), name


def test_systems_and_runs():
    files = sponge.example_files("alanine-dipeptide-water")
    system = sponge.load(*files, method="pme", cutoff=9 * unit.angstrom, constraints="h-bonds")
    nonbonded = next(p for p in system.potentials if isinstance(p, sponge.Nonbonded))
    assert nonbonded.cutoff == pytest.approx(0.9)
    angstrom = [Vec3(*row) for row in 10 * system.positions] * unit.angstrom
    assert system.energy(angstrom) == pytest.approx(system.energy(), rel=1e-9)
    box = [Vec3(*row) * unit.nanometer for row in system.box]  # as OpenMM's states and topologies give it
    assert system.energy(box=box) == pytest.approx(system.energy(), rel=1e-9)
    sim = sponge.Simulation(
        system,
        sponge.VelocityVerlet(2 * unit.femtoseconds),
        positions=angstrom,
        velocities=np.zeros((system.n, 3)) * unit.angstrom / unit.femtosecond,
    )
    np.testing.assert_allclose(sim.positions, system.positions, atol=1e-9)
    sim.velocities = np.ones((system.n, 3)) * unit.angstrom / unit.picosecond
    np.testing.assert_allclose(sim.velocities, 0.1)
    sim.run(time=4 * unit.femtoseconds)
    assert sim.step == 2
    np.testing.assert_allclose(sponge.units.ladder(300 * unit.kelvin, 600 * unit.kelvin, 3, "linear"), [300, 450, 600])


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: sponge.LangevinMiddle(300 * unit.nanometer, 1.0, 0.002), "LangevinMiddle: temperature .* in K .*nano"),
        (lambda: sponge.LangevinMiddle(300, 1 * unit.picosecond, 0.002), "LangevinMiddle: friction .* in 1/ps"),
        (lambda: sponge.VelocityVerlet(1 * unit.kelvin), "VelocityVerlet: timestep .* in ps"),
        (lambda: sponge.MonteCarloBarostat(1 * unit.kelvin), "MonteCarloBarostat: pressure .* in bar"),
        (lambda: sponge.units.parse_time(1 * unit.nanometer), "time .* in ps"),
        (lambda: sponge.Nonbonded([0], [0.3], [0.1], cutoff=1 * unit.picosecond), "nonbonded: cutoff .* in nm"),
        (lambda: sponge.box.as_box(3 * unit.kelvin), "box .* in nm"),
        (
            lambda: sponge.System(sponge.Topology.of_particles(1), [12.0], positions=[[0, 0, 0]] * unit.picosecond),
            "system: positions .* in nm",
        ),
    ],
)
def test_other_dimensions_are_refused_by_name(call, message):
    with pytest.raises(TypeError, match=message):
        call()
