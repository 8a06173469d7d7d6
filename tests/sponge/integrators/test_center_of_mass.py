"""The motion of the center of mass: removed where momentum is conserved, and left alone elsewhere."""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import cv
from triskele.sponge.integrators.temperature import degrees_of_freedom
from triskele.sponge.potentials.expressions.expression import ExpressionExternal


def held_atoms(**options):
    """Two atoms, each on a spring of 1000 kJ/mol/nm^2 to a place of its own."""
    system = sponge.System(sponge.Topology.of_particles(2), [40.0, 40.0], positions=[[0, 0, 0], [1.0, 0, 0]], **options)
    system.add(sponge.PositionRestraint([0, 1], k=1000.0, reference=system.positions))
    return system


def test_restrained_atoms_oscillate_freely_about_their_places():
    """Both atoms in phase: all of the motion is that of the center of mass, x(t) = a cos(w t)."""
    system = held_atoms()
    start = system.positions + [0.1, -0.05, 0.02]
    sim = sponge.Simulation(system, sponge.VelocityVerlet(0.0001), positions=start, velocities=np.zeros((2, 3)))
    sim.run(5000)
    expected = system.positions + np.array([0.1, -0.05, 0.02]) * np.cos(5.0 * sim.time)  # w = sqrt(1000/40)/ps
    np.testing.assert_allclose(sim.positions, expected, atol=2e-6)
    assert sim.degrees_of_freedom == 6


def _coordinate(x):
    return x[0, 2]


def _trap(x):
    return 50.0 * np.sum(x * x)


def _bond(x):
    return 50.0 * np.sum((x[1] - x[0]) ** 2)


def _floor(x):
    return 50.0 * np.sum(np.maximum(-5.0 - x[:, 2], 0.0) ** 2)


@pytest.mark.parametrize(
    "add, conserved",
    [
        (lambda: sponge.FunctionPotential(_bond), True),
        (lambda: sponge.FunctionPotential(_trap), False),
        (lambda: sponge.FunctionPotential(_floor), False),  # which no atom touches at first
        (lambda: sponge.umbrella(cv.distance(0, 1), center=1.0, k=100.0), True),
        (lambda: sponge.umbrella(cv.function(_coordinate, [0]), center=0.0, k=100.0), False),
        (lambda: ExpressionExternal("k*z", [0], {"k": 1.0}), False),
    ],
    ids=["pair", "trap", "floor", "distance", "coordinate", "field"],
)
def test_the_center_of_mass_is_held_where_momentum_is_conserved(add, conserved):
    system = sponge.System(sponge.Topology.of_particles(3), [40.0] * 3, positions=[[0, 0, 0], [1.0, 0, 0], [0, 0.9, 0]])
    system.add(add())
    sim = sponge.Simulation(system, sponge.Bussi(300.0, 0.1, 0.001))
    assert degrees_of_freedom(system) == sim.degrees_of_freedom == (6 if conserved else 9)
    assert ("center of mass" in [phase.name for phase in sim.plan().phases]) == conserved


def test_a_sampling_method_in_space_leaves_the_center_of_mass_alone():
    system = sponge.System(sponge.Topology.of_particles(2), [40.0] * 2, positions=[[0, 0, 0], [1.0, 0, 0]])
    for variable, freedom in ((cv.distance(0, 1), 3), (cv.function(_coordinate, [0]), 6)):
        bias = sponge.Metadynamics(variable, sigma=0.1, height=1.0, every=10, grid=(-1.0, 3.0, 100), temperature=300.0)
        sim = sponge.Simulation(system, sponge.VelocityVerlet(0.001), sampling=[bias])
        assert sim.degrees_of_freedom == freedom


def test_atoms_that_never_move_hold_the_center_of_mass_themselves():
    system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    system.masses[:11] = 0
    assert sponge.Simulation(system, sponge.LangevinMiddle(300.0, 1.0, 0.001)).degrees_of_freedom == 33
    system.remove_com_motion = True
    with pytest.warns(UserWarning, match=r"momentum must be conserved .*, got 11 atoms that never move"):
        sponge.Simulation(system, sponge.LangevinMiddle(300.0, 1.0, 0.001))


def test_removal_that_was_asked_for_warns_of_restraints():
    with pytest.warns(UserWarning, match="got 'position_restraint': kinetic energies"):
        assert (
            sponge.Simulation(held_atoms(remove_com_motion=True), sponge.VelocityVerlet(0.001)).degrees_of_freedom == 3
        )
