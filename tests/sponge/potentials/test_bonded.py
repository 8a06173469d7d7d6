"""Bonded terms: against another program, against analytic results, at the edges of their geometry, and over threads."""

import numpy as np
import pytest

from tests.shipped import subclasses
from tests.sponge.reference import load_reference
from triskele import core, sponge
from triskele.sponge.engine.engine import Engine
from triskele.sponge.errors import BrokenSimulationError
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.potential import Potential
from triskele.sponge.testing import check_potential, example_system, examples

EXAMPLES = {name: (system, potential) for name, system, potential in examples()}
FORCES = {
    "bond": "HarmonicBondForce",
    "angle": "HarmonicAngleForce",
    "torsion": "PeriodicTorsionForce",
    "cmap": "CMAPTorsionForce",
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow if n.startswith(("edip", "induced_dipoles-2", "nonbonded")) else ())
        for n in EXAMPLES
    ],
)
def test_every_potential_is_what_it_claims_to_be(name):
    system, potential = EXAMPLES[name]
    check_potential(system[potential], system)


# ------------------------------------------------------------------------------------------------------------ reference
@pytest.mark.parametrize("name", ["ala2_vacuum", "bpti_ff14sb_vacuum", "bpti_ff19sb_vacuum", "dhfr_pme"])
def test_energies_and_forces_of_openmm(name):
    reference = load_reference(name)
    system = load_openmm(reference.xml, positions=reference.positions, box=reference.box)
    compared = 0
    for term, force in FORCES.items():
        if term not in system:
            continue
        engine = Engine(system, "double", names=[term])
        engine.compute()
        assert engine.energies()[term] == pytest.approx(reference.energies[force], rel=1e-9)
        expected = reference.forces.get(f"force_{force}", reference.forces.get(force))
        if expected is not None:
            error = np.sqrt(np.sum((engine.forces - expected) ** 2) / np.sum(np.square(expected, dtype=np.float64)))
            assert error < (1e-9 if expected.dtype == np.float64 else 2e-7)
        compared += 1
    assert compared >= 3


def _openmm_force(kind, mm, chains, values, maps):
    if kind == "harmonic_bond":
        force = mm.HarmonicBondForce()
        for atoms, v in zip(chains, values, strict=True):
            force.addBond(*map(int, atoms[:2]), 0.2, v[0])
        return force, sponge.harmonic_bond(chains[:, :2], k=values[:, 0], r0=0.2)
    if kind == "harmonic_angle":
        force = mm.HarmonicAngleForce()
        for atoms, v in zip(chains, values, strict=True):
            force.addAngle(*map(int, atoms[:3]), 1.7, v[0])
        return force, sponge.harmonic_angle(chains[:, :3], k=values[:, 0], theta0=1.7)
    if kind == "periodic_torsion":
        force = mm.PeriodicTorsionForce()
        for k, (atoms, v) in enumerate(zip(chains, values, strict=True)):
            force.addTorsion(*map(int, atoms), 1 + k % 6, v[1], v[0])
        return force, sponge.periodic_torsion(
            chains, k=values[:, 0], periodicity=1 + np.arange(len(chains)) % 6, phase=values[:, 1]
        )
    if kind == "ryckaert_bellemans":
        force = mm.RBTorsionForce()
        for atoms, v in zip(chains, values, strict=True):
            force.addTorsion(*map(int, atoms), *v)
        return force, sponge.ryckaert_bellemans(chains, **{f"c{k}": values[:, k] for k in range(6)})
    force = mm.CMAPTorsionForce()
    for m in maps:
        force.addMap(len(m), m.T.ravel().tolist())
    types = np.arange(len(chains) - 1) % len(maps)
    for t, a, b in zip(types, chains[:-1], chains[1:], strict=True):
        force.addTorsion(int(t), *map(int, a), *map(int, b))
    return force, sponge.CMAP(maps, chains[:-1], chains[1:], types)


@pytest.mark.parametrize("kind", ["harmonic_bond", "harmonic_angle", "periodic_torsion", "ryckaert_bellemans", "cmap"])
def test_forces_of_openmm_in_a_leaning_box(kind):
    mm = pytest.importorskip("openmm")
    rng = np.random.default_rng(7)
    n, box = 30, np.array([[1.1, 0, 0], [0.3, 1.0, 0], [-0.25, 0.4, 1.2]])
    x = rng.uniform(0, 1, (n, 3)) @ box
    chains = np.array([rng.permutation(n)[:4] for _ in range(40)])
    force, potential = _openmm_force(kind, mm, chains, rng.normal(size=(40, 6)) * 10, rng.normal(size=(3, 12, 12)) * 5)
    force.setUsesPeriodicBoundaryConditions(True)
    theirs = mm.System()
    for _ in range(n):
        theirs.addParticle(1.0)
    theirs.setDefaultPeriodicBoxVectors(*box)
    theirs.addForce(force)
    context = mm.Context(theirs, mm.VerletIntegrator(0.001), mm.Platform.getPlatformByName("Reference"))
    context.setPositions(x)
    state = context.getState(getEnergy=True, getForces=True)
    forces = state.getForces(asNumpy=True)._value
    ours = _particles(x, potential, box=box)
    assert ours.energy() == pytest.approx(state.getPotentialEnergy()._value, rel=1e-9)
    np.testing.assert_allclose(ours.forces(), forces, rtol=1e-7, atol=1e-9 * np.abs(forces).max())


# ------------------------------------------------------------------------------------------------------------- analytic
def _particles(positions, *potentials, box=None):
    system = sponge.System(
        sponge.Topology.of_particles(len(positions)), np.ones(len(positions)), positions=positions, box=box
    )
    for potential in potentials:
        system.add(potential)
    return system


def test_two_atoms_on_a_spring():
    system = _particles([[0, 0, 0], [0.3, 0, 0]], sponge.harmonic_bond([[0, 1]], k=100.0, r0=0.2))
    assert system.energy() == pytest.approx(0.5 * 100 * 0.1**2)
    np.testing.assert_allclose(system.forces(), [[10, 0, 0], [-10, 0, 0]], atol=1e-12)
    np.testing.assert_allclose(system.virial(), np.diag([-10 * 0.3, 0, 0]), atol=1e-12)


def _torsion_at(phi):
    """Four atoms with this torsion angle: seen along the middle bond (z), the last is turned clockwise from the
    first.
    """
    return np.array([[0.1, 0, -0.03], [0, 0, 0], [0, 0, 0.15], [0.1 * np.cos(phi), 0.1 * np.sin(phi), 0.2]])


@pytest.mark.parametrize("phi", [-3.0, -1.1, 0.0, 0.4, 1.5, 2.9, np.pi])
def test_torsion_energy_of_a_known_angle(phi):
    torsion = sponge.periodic_torsion([[0, 1, 2, 3]] * 2, k=[15.0, 5.0], periodicity=[2, 3], phase=[0.4, -0.6])
    x = _torsion_at(phi)
    assert torsion.coordinates(x)[0] == pytest.approx(phi, abs=1e-12)
    expected = 15 * (1 + np.cos(2 * phi - 0.4)) + 5 * (1 + np.cos(3 * phi + 0.6))
    assert _particles(x, torsion).energy() == pytest.approx(expected, rel=1e-13)


def test_right_angle_and_water_angle():
    for theta in (np.pi / 2, np.radians(104.52)):
        x = np.array([[0.1, 0, 0], [0, 0, 0], [0.12 * np.cos(theta), 0.12 * np.sin(theta), 0]])
        angle = sponge.harmonic_angle([[0, 1, 2]], k=400.0, theta0=1.8)
        assert _particles(x, angle).energy() == pytest.approx(200 * (theta - 1.8) ** 2, rel=1e-13)


def test_ryckaert_bellemans_equals_its_fourier_series():
    # cos^3(psi) = (3 cos(psi) + cos(3 psi))/4 with psi = phi - pi
    x = _torsion_at(0.7)
    rb = sponge.ryckaert_bellemans([[0, 1, 2, 3]], c0=0.0, c1=0.0, c2=0.0, c3=4.0, c4=0.0, c5=0.0)
    series = sponge.periodic_torsion([[0, 1, 2, 3]] * 2, k=[3.0, 1.0], periodicity=[1, 3], phase=[np.pi, np.pi])
    assert _particles(x, rb).energy() == pytest.approx(_particles(x, series).energy() - 4.0, rel=1e-12)


def test_cmap_of_a_trigonometric_surface():
    # A periodic cubic spline through n values of cos is exact to O(n^-4).
    n = 72
    grid = 2 * np.pi * np.arange(n) / n
    maps = (3 * np.cos(grid)[:, None] * np.sin(2 * grid)[None, :] + 1)[None]
    phi, psi = np.array([[0, 1, 2, 3]]), np.array([[1, 2, 3, 4]])
    cmap = sponge.CMAP(maps, phi, psi, [0])
    x = np.random.default_rng(2).normal(size=(5, 3))
    a, b = sponge.periodic_torsion(np.concatenate([phi, psi]), k=1.0, periodicity=1, phase=0.0).coordinates(x)
    assert _particles(x, cmap).energy() == pytest.approx(3 * np.cos(a) * np.sin(2 * b) + 1, abs=2e-5)
    # psi = phi: along the diagonal
    knot = sponge.CMAP(np.random.default_rng(4).normal(size=(1, 24, 24)), phi, phi, [0])
    at = _torsion_at(2 * np.pi * 5 / 24)
    assert _particles(at, knot).energy() == pytest.approx(knot.params["maps"][0, 5, 5], rel=1e-10)


# ------------------------------------------------------------------------------------------------------ edges of
# geometry
def test_straight_angle():
    x = np.array([[-0.1, 0, 0], [0, 0, 0], [0.13, 0, 0]])
    linear = _particles(x, sponge.harmonic_angle([[0, 1, 2]], k=500.0, theta0=np.pi))
    assert linear.energy() == pytest.approx(0.0, abs=1e-20)
    np.testing.assert_array_equal(linear.forces(), 0.0)
    bent = x + [[0, 1e-9, 0], [0, 0, 0], [0, 0, 0]]
    assert np.all(np.isfinite(linear.forces(bent)))
    np.testing.assert_allclose(linear.forces(bent)[0], [0, -500.0 * 1e-9 / 0.1**2, 0], rtol=1e-6, atol=1e-12)
    folded = np.array([[0.1, 0, 0], [0, 0, 0], [0.13, 0, 0]])
    assert linear.energy(folded) == pytest.approx(250 * np.pi**2)
    assert np.all(np.isfinite(linear.forces(folded)))


@pytest.mark.parametrize("gap", [1e-3, 1e-5, 1e-7])
def test_nearly_straight_angles_keep_their_digits(gap):
    x = np.array([[-0.1, gap * 0.1, 0], [0, 0, 0], [0.1, 0, 0]])
    system = _particles(x, sponge.harmonic_angle([[0, 1, 2]], k=2.0, theta0=2.0))
    assert system.energy() == pytest.approx((np.pi - np.arctan(gap) - 2.0) ** 2, rel=1e-12)
    pull = 2.0 * (np.pi - np.arctan(gap) - 2.0) / np.hypot(0.1, 0.1 * gap)
    assert np.linalg.norm(system.forces()[0]) == pytest.approx(pull, rel=1e-9)


def test_atoms_at_the_same_place():
    x = np.zeros((2, 3))
    bond = _particles(x, sponge.harmonic_bond([[0, 1]], k=100.0, r0=0.0))
    assert bond.energy() == 0.0
    np.testing.assert_array_equal(bond.forces(), 0.0)
    np.testing.assert_array_equal(core.grad(lambda y: bond["bond"].energy(bond["bond"].params, y, None))(x), 0.0)


def test_torsion_without_an_angle_is_named():
    straight = np.array([[0, 0, 0], [0.1, 0, 0], [0.2, 0, 0], [0.3, 0.1, 0]])
    system = _particles(straight, sponge.periodic_torsion([[0, 1, 2, 3]], k=1.0, periodicity=1, phase=0.0))
    with pytest.raises(BrokenSimulationError, match="from term 'torsion'"):
        system.forces()


def test_terms_across_the_boundary_of_a_triclinic_box():
    box = np.array([[1.0, 0, 0], [0.3, 0.9, 0], [-0.2, 0.4, 1.1]])
    system, name = EXAMPLES["harmonic_bond-0-bond"]
    free = _particles(system.positions, system[name])
    torn = system.positions + np.random.default_rng(0).integers(-2, 3, (12, 3)) @ box
    periodic = _particles(torn, system[name], box=box)
    assert periodic.energy() == pytest.approx(free.energy(), rel=1e-12)
    np.testing.assert_allclose(periodic.forces(), free.forces(), rtol=1e-9, atol=1e-8)


# ----------------------------------------------------------------------------------------------------------- many terms
def _forces(system, threads):
    core.set_threads(threads)
    engine = Engine(system, "double")
    engine.compute()
    return engine.forces.copy(), engine.energies()


def test_forces_do_not_depend_on_threads():
    n = 20_000
    pairs = np.stack([np.arange(n - 1), np.arange(1, n)], axis=1)
    chains = np.arange(4) + np.arange(n - 3)[:, None]
    system = example_system(
        sponge.harmonic_bond(pairs, k=1e4, r0=0.1),
        sponge.harmonic_angle(chains[:, :3], k=100.0, theta0=1.9),
        sponge.periodic_torsion(chains, k=3.0, periodicity=3, phase=0.1),
        n=n,
    )
    before = core.get_threads()
    try:
        one, two = _forces(system, 1), _forces(system, 2)
    finally:
        core.set_threads(before)
    np.testing.assert_array_equal(one[0], two[0])
    assert one[1] == two[1]
    potentials = system.potentials
    pure = sum(p.energy(p.params, system.positions, None) for p in potentials)
    assert sum(one[1].values()) == pytest.approx(pure, rel=1e-12)
    gradient = core.grad(lambda x: sum(p.energy(p.params, x, None) for p in potentials))(system.positions)
    np.testing.assert_allclose(-one[0], gradient, rtol=1e-9, atol=1e-9 * np.abs(gradient).max())


@pytest.mark.parametrize("m", [1, 7, 8, 9, 4095, 8193])
def test_any_number_of_terms_between_any_atoms(m):
    # pairs far apart in number: chunks of terms whose ranges of atoms overlap
    rng = np.random.default_rng(m)
    n = 500
    i = rng.integers(0, n, m)
    pairs = np.stack([i, (i + rng.integers(1, n, m)) % n], axis=1)
    k = rng.uniform(1, 2, m)
    system = example_system(sponge.harmonic_bond(pairs, k=k, r0=0.1), n=n)
    x = system.positions
    d = x[pairs[:, 0]] - x[pairs[:, 1]]
    r = np.linalg.norm(d, axis=1)
    expected = np.zeros((n, 3))
    f = (-k * (r - 0.1) / r)[:, None] * d
    np.add.at(expected, pairs[:, 0], f)
    np.add.at(expected, pairs[:, 1], -f)
    np.testing.assert_allclose(system.forces(), expected, rtol=1e-10, atol=1e-9 * np.abs(expected).max())
    assert system.energy() == pytest.approx(0.5 * np.sum(k * (r - 0.1) ** 2), rel=1e-12)


def test_no_terms():
    system = example_system(
        sponge.harmonic_bond(np.empty((0, 2), int), k=1.0, r0=0.1), sponge.harmonic_angle([], k=1.0, theta0=1.0)
    )
    assert system.energy() == 0.0


def test_parameters_can_be_set():
    system = _particles([[0, 0, 0], [0.3, 0, 0]], sponge.harmonic_bond([[0, 1]], k=100.0, r0=0.2))
    system.energy()
    system.set_params({"bond": {"r0": [0.3]}})
    assert system.energy() == pytest.approx(0.0, abs=1e-20)


# --------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (
            lambda: sponge.harmonic_bond([[0, 0]], k=1.0, r0=1.0),
            ValueError,
            r"different and >= 0, got \[0, 0\] in term 0",
        ),
        (lambda: sponge.harmonic_bond([[0, -1]], k=1.0, r0=1.0), ValueError, "different and >= 0"),
        (lambda: sponge.harmonic_bond([[0, 1, 2]], k=1.0, r0=1.0), ValueError, r"shape \[m, 2\]"),
        (lambda: sponge.harmonic_bond([[0.0, 1.0]], k=1.0, r0=1.0), ValueError, "integers"),
        (lambda: sponge.harmonic_bond([[0, 1]], k=1.0), TypeError, "parameter r0 is missing"),
        (lambda: sponge.harmonic_bond([[0, 1]], k=1.0, r0=1.0, r1=2.0), TypeError, "got r1"),
        (lambda: sponge.harmonic_bond([[0, 1]], k=[1.0, 2.0], r0=1.0), ValueError, "one for each of 1 terms"),
        (
            lambda: example_system(sponge.harmonic_bond([[0, 99]], k=1.0, r0=1.0)),
            ValueError,
            r"below 12, got \[0, 99\]",
        ),
        (
            lambda: example_system(sponge.harmonic_bond([[0, 1]], k=np.nan, r0=1.0)),
            ValueError,
            "k must be finite, got nan",
        ),
        (lambda: sponge.CMAP(np.zeros((24, 24)), [[0, 1, 2, 3]], [[1, 2, 3, 4]], [0]), ValueError, r"\[maps, n, n\]"),
        (
            lambda: sponge.CMAP(np.zeros((1, 24, 24)), [[0, 1, 2, 3]], [[1, 2, 3, 4]], [1]),
            ValueError,
            "types must be 0 to 0",
        ),
        (
            lambda: example_system(sponge.harmonic_angle([[0, 1, 2]], k=100.0, theta0=109.5)),
            ValueError,
            "theta0 must be in radians, five turns at most, got 109.5",
        ),
        (
            lambda: example_system(sponge.periodic_torsion([[0, 1, 2, 3]], k=1.0, periodicity=2, phase=180.0)),
            ValueError,
            "phase must be in radians",
        ),
        (lambda: sponge.PositionRestraint([1], 1.0, [[0, 0]]), ValueError, r"reference must have shape \(1, 3\)"),
        (
            lambda: example_system(sponge.PositionRestraint([1], 1.0, [[0, 0, 0]], width=-1.0)),
            ValueError,
            "width must be >= 0",
        ),
        (
            lambda: example_system(sponge.PositionRestraint([1], np.ones((1, 3)), [[0, 0, 0]], width=0.1)),
            ValueError,
            "width must be 0 where k has an entry for each axis, got 0.1 nm",
        ),
    ],
)
def test_errors(make, error, match):
    with pytest.raises(error, match=match):
        make()


# ------------------------------------------------------------------------------------------------- found by existing
# Potentials without an example in their file, and where `check_potential` runs over them.
ELSEWHERE = {
    "ASEPotential": "needs a calculator: test_user_potentials.py",
    "AlchemicalNonbonded": "made by `decouple`: test_alchemy.py",
    "Boresch": "restrains two molecules: test_alchemy_boresch.py",
    "HybridNonbonded": "made by `hybrid`: test_alchemy_hybrid.py",
    "NetworkCharges": "needs a network: test_network_charges.py",
    "NeuralPotential": "needs a network: test_learn.py",
    "Scaled": "made by `decouple`: test_alchemy.py",
    "Springs": "part of the checks of integrators: test_integrators.py",
    **dict.fromkeys(["EnvironmentPotential", "PairPotential", "TermPotential"], "a base class"),
}


def test_every_potential_has_an_example():
    """What has none, the walk over examples would pass over in silence."""
    with_example = {type(system[name]).__name__ for system, name in EXAMPLES.values()}
    assert set(subclasses(Potential, "triskele.sponge")) == with_example | set(ELSEWHERE)
    assert not with_example & set(ELSEWHERE)
