"""Virtual sites: OpenMM's definitions, forces and virials as derivatives of the plain formulas, bad input."""

import numpy as np
import pytest

from tests.shipped import subclasses
from tests.twins.molecules import Formula
from triskele import core, sponge
from triskele.sponge.engine.engine import Engine
from triskele.sponge.system import System
from triskele.sponge.topology import Topology
from triskele.sponge.virtual_sites import (
    LocalCoordinates,
    OutOfPlane,
    ThreeParticleAverage,
    TwoParticleAverage,
    VirtualSite,
    WeightedAverage,
    place_all,
)

KINDS = {
    "two": lambda at: TwoParticleAverage(sites=at, parents=(at - 3, at - 1), weights=(0.3, 0.7)),
    "three": lambda at: ThreeParticleAverage(sites=at, parents=(at - 2, at - 3, at - 1), weights=(0.5, -0.1, 0.6)),
    "average": lambda at: WeightedAverage(sites=at, parents=(at - 1, at - 3, at - 2), weights=(0.25, 0.25, 0.5)),
    "one atom": lambda at: WeightedAverage(sites=at, parents=(at - 2,), weights=(1.0,)),
    "out of plane": lambda at: OutOfPlane(
        sites=at, parents=(at - 3, at - 2, at - 1), weight12=0.2, weight13=-0.3, weight_cross=5.0
    ),
    "frame": lambda at: LocalCoordinates(
        sites=at,
        parents=(at - 3, at - 2, at - 1),
        origin_weights=(0.2, 0.3, 0.5),
        x_weights=(-1.0, 0.4, 0.6),
        y_weights=(-0.5, 1.0, -0.5),
        local=(0.01, -0.02, 0.05),
    ),
    "frame at an atom": lambda at: LocalCoordinates(
        sites=at,
        parents=(at - 1, at - 2, at - 3),
        origin_weights=(1, 0, 0),
        x_weights=(-1, 1, 0),
        y_weights=(-1, 0, 1),
        local=(0, 0, 0.07),
    ),
}


def tripods(names, rng):
    """Three atoms with a site of each of the named kinds."""
    n = 4 * len(names)
    masses = np.tile([12.0, 1.0, 16.0, 0.0], len(names))
    positions = rng.uniform(0, 2, (len(names), 1, 3)) + 0.1 * np.eye(4, 3) + 0.02 * rng.normal(size=(len(names), 4, 3))
    return System(
        Topology.of_particles(n),
        masses,
        box=[3.0, 3.5, 4.0],
        positions=positions.reshape(-1, 3),
        virtual_sites=[KINDS[name](4 * k + 3) for k, name in enumerate(names)],
    )


def test_every_kind_of_site_is_here():
    every = subclasses(VirtualSite, "triskele.sponge.virtual_sites")
    assert set(every.values()) == {type(make(3)) for make in KINDS.values()}


@pytest.mark.parametrize("name", KINDS)
def test_places_as_openmm(name, rng):
    openmm = pytest.importorskip("openmm")
    ours = tripods([name], rng)
    theirs, kind = openmm.System(), ours.virtual_sites[0]
    for mass in ours.masses:
        theirs.addParticle(mass)
    parents = kind.parents[0].tolist()
    if isinstance(kind, TwoParticleAverage):
        site = openmm.TwoParticleAverageSite(*parents, *kind.weights[0])
    elif isinstance(kind, ThreeParticleAverage):
        site = openmm.ThreeParticleAverageSite(*parents, *kind.weights[0])
    elif isinstance(kind, WeightedAverage) and len(parents) == 1:
        site = openmm.TwoParticleAverageSite(parents[0], 0, 1.0, 0.0)
    elif isinstance(kind, WeightedAverage):
        site = openmm.ThreeParticleAverageSite(*parents, *kind.weights[0])
    elif isinstance(kind, OutOfPlane):
        site = openmm.OutOfPlaneSite(*parents, kind.weight12[0], kind.weight13[0], kind.weight_cross[0])
    else:
        site = openmm.LocalCoordinatesSite(
            parents,
            *(w[0].tolist() for w in (kind.origin_weights, kind.x_weights, kind.y_weights)),
            openmm.Vec3(*kind.local[0]),
        )
    theirs.setVirtualSite(3, site)
    context = openmm.Context(theirs, openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(ours.positions)
    context.computeVirtualSites()
    wanted = context.getState(getPositions=True).getPositions(asNumpy=True)._value
    np.testing.assert_allclose(kind.place(ours.positions), wanted, atol=1e-14)


def test_averages_in_openmm(rng):
    """Averages of one, two and four atoms become sites of OpenMM at the same places."""
    openmm = pytest.importorskip("openmm")
    sites = [
        WeightedAverage(4 + k, [[*range(n)]], np.arange(1, n + 1) / np.sum(np.arange(1, n + 1)))
        for k, n in enumerate((1, 2, 4))
    ]
    ours = System(
        Topology.of_particles(7), [12.0] * 4 + [0.0] * 3, positions=rng.uniform(0, 1, (7, 3)), virtual_sites=sites
    )
    context = openmm.Context(
        ours.to_openmm(), openmm.VerletIntegrator(0.001), openmm.Platform.getPlatformByName("Reference")
    )
    context.setPositions(ours.positions)
    context.computeVirtualSites()
    placed = context.getState(getPositions=True).getPositions(asNumpy=True)._value
    np.testing.assert_allclose(place_all(sites, ours.positions), placed, atol=1e-14)


def energy_of(name, place):
    """Something that pulls at every particle, sites included, and feels the box; with sites placed by the formulas or
    not.
    """

    def energy(p, x, box):
        x = place(x)
        return (
            p["c"] * np.sin(2 * np.pi * x / np.stack([box[0, 0], box[1, 1], box[2, 2]])) * np.cos(3 * x[:, ::-1])
        ).sum()

    return energy


@pytest.mark.parametrize("names", [[name] for name in KINDS] + [[*KINDS] * 3], ids=[*KINDS, "all"])
def test_forces_and_virial_are_derivatives_through_the_formula(names, rng):
    system = tripods(names, rng)
    c = rng.normal(size=(system.n, 3))
    system.add(Formula("pull", energy_of("pull", lambda x: x), c=c))
    whole = energy_of("pull", lambda x: place_all(system.virtual_sites, x))

    def strained(strain, x):
        unit = np.eye(3)
        return whole({"c": c}, x @ (unit + strain), system.box @ (unit + strain))

    value, (by_strain, by_position) = core.value_and_grad(strained, (0, 1))(np.zeros((3, 3)), system.positions)
    assert np.isclose(system.energy(), value, rtol=1e-12)
    np.testing.assert_allclose(system.forces(), -by_position, atol=1e-11)
    np.testing.assert_allclose(system.virial(), -by_strain.T, atol=1e-10)
    assert not system.forces()[system.masses == 0].any()


def test_sites_in_many_chunks(rng):
    system = tripods([*KINDS] * 100, rng)
    engine = Engine(system)
    assert engine.atom_chunks > 2
    engine.compute()
    np.testing.assert_allclose(engine.positions, place_all(system.virtual_sites, system.positions), atol=1e-14)


def test_energy_is_conserved_with_sites(rng):
    """Forces of sites reach the parents in every step, and sites are in place after it."""
    system = tripods([*KINDS] * 2, rng)
    system.box, system.remove_com_motion = None, False
    held = system.positions.copy()
    system.add(Formula("bonds", lambda p, x, box: 500 * ((x - held)[system.masses > 0] ** 2).sum()))
    system.add(Formula("pull", lambda p, x, box: (p["c"] * np.sin(9 * x)).sum(), c=rng.normal(size=(system.n, 3))))
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.0002), velocities=np.zeros((system.n, 3)))
    sim.run(100)
    early = sim.energies()["total"]
    sim.run(1000)
    assert abs(sim.energies()["total"] - early) < 2e-3
    assert sim.energies()["kinetic"] > 0.1
    np.testing.assert_allclose(sim.positions, place_all(system.virtual_sites, sim.positions), atol=1e-14)
    assert not sim.velocities[system.masses == 0].any()


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TwoParticleAverage(2, (0, 1), (0.5, 0.6)), "weights must sum to 1"),
        (lambda: TwoParticleAverage(2, (0, 1, 3), (0.5, 0.5)), r"parents must have shape \(1, 2\), got \(1, 3\)"),
        (lambda: ThreeParticleAverage(2, (0, 1, 2), (0.5, 0.3, 0.2)), "site 2 must not be its own parent"),
        (lambda: OutOfPlane(3, (0, 1, 2), np.nan, 0, 0), "weight12 must be finite, got nan"),
        (
            lambda: LocalCoordinates(3, (0, 1, 2), (1, 0, 0), (1, 0, 0), (-1, 0, 1), (0, 0, 0)),
            "x_weights must sum to 0",
        ),
        (
            lambda: LocalCoordinates(3, (0, 1, 2), (1, 0, 0), (-1, 1, 0), (-1, 0, 1), (0, 0)),
            r"local must have shape \(1, 3\)",
        ),
    ],
)
def test_bad_definitions(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "masses, sites, message",
    [
        ([1, 1, 1], [(2, (0, 1))], "virtual site atom 2 .*: mass must be 0, got 1"),
        ([1, 1, 0], [(2, (0, 5))], "atoms must be 0 to 2, got 0 to 5"),
        ([1, 1, 0], [(2, (0, 1)), (2, (1, 0))], "must be placed by one rule, got 2"),
        ([1, 1, 0, 0], [(2, (0, 1)), (3, (0, 2))], "atom 2 .*: must not be the parent of another site"),
    ],
)
def test_sites_that_do_not_fit_the_system(masses, sites, message):
    system = System(
        Topology.of_particles(len(masses)),
        masses,
        virtual_sites=[TwoParticleAverage(s, p, (0.5, 0.5)) for s, p in sites],
    )
    with pytest.raises(ValueError, match=message):
        system.check()
