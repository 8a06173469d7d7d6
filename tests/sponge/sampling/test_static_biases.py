"""Umbrellas and other biases that do not change during a run."""

import numpy as np
import pytest

from triskele import core, sponge
from triskele.sponge import cv, units
from triskele.sponge.testing import example_system

X = cv.function(lambda x: x[0, 0], [0], name="x")
PHI = cv.torsion(0, 1, 2, 3, name="phi")


@pytest.mark.slow
def test_umbrella_moves_the_mean():
    """A harmonic bias on a free particle: mean and variance of its coordinate, and the slope by the center."""
    system = sponge.System(
        sponge.Topology.of_particles(1), [10.0], positions=[[0.0, 0.0, 0.0]], remove_com_motion=False
    )
    system.add(sponge.FunctionPotential(lambda x: 20.0 * np.sum(x * x)))
    bias = system.add(sponge.umbrella(X, center=1.0, k=60.0))
    sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=5.0, timestep=0.005), seed=1)
    record = sponge.Variables({"x": X}, every=20)
    sim.run(200_000, report=record)
    x = record["x"]
    # 20 x^2 + 30 (x - 1)^2 = 50 (x - 0.6)^2 + ...
    assert x.mean() == pytest.approx(0.6, abs=0.02)
    assert x.var() == pytest.approx(units.GAS_CONSTANT * 3.0, rel=0.08)
    slope = core.grad(lambda p: bias.energy(p, np.array([[0.3, 0, 0]]), None))(bias.params)
    assert slope["center"][0] == pytest.approx(-60.0 * (0.3 - 1.0)) and slope["k"][0] == pytest.approx(0.5 * 0.7**2)


def test_umbrella_goes_the_short_way_around():
    bias = sponge.umbrella(PHI, center=3.0, k=10.0)
    x = example_system().positions
    phi = float(PHI(x))
    d = (phi - 3.0 + np.pi) % (2 * np.pi) - np.pi
    assert float(bias.energy(bias.params, x, None)) == pytest.approx(5.0 * d * d)


def test_copies_of_systems_have_biases_of_their_own():
    """By way of pickle, with functions that have no name."""
    system = example_system(
        sponge.umbrella(PHI, 0.3, 5.0),
        sponge.BiasPotential(lambda s, k: k * s, cv.function(lambda x: x[0, 0] ** 2, [3]), {"k": 2.0}),
    )
    twin = system.copy()
    assert twin.energy() == system.energy()
    twin["bias"].params["k"][...] = 3.0
    assert system["bias"].params["k"] == 2.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: sponge.umbrella(PHI, [0.0, 1.0], 3.0),
            r"center must have shape \(\) or \(1,\), got \(2,\) \(a number or one for each",
        ),
        (lambda: sponge.umbrella(PHI, 120.0, 3.0), "center of .* must be from -6.28 to 6.28, got 120"),
        (lambda: sponge.umbrella(PHI, np.nan, 3.0), "parameter center must be finite"),
        (lambda: sponge.umbrella([], 0.0, 3.0), "at least one collective variable"),
        (
            lambda: sponge.BiasPotential(lambda s, k: k * s, [PHI, X], {"k": 1.0}),
            "must take 2 variables and the parameters k",
        ),
        (lambda: sponge.BiasPotential(3.0, PHI), "must be a function"),
    ],
)
def test_bad_biases(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
