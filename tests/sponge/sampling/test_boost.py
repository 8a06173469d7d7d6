"""Accelerated dynamics (AMD, GaMD): OpenMM's boosts, derivatives, known populations, the protocol of GaMD, restarts."""

import math

import numpy as np
import pytest

from tests.sponge.engine.test_energy_split import derivatives, total
from tests.sponge.engine.test_energy_split import peptide as charmm_peptide
from tests.sponge.sampling.test_sampling_agreement import EXACT, KT, PHI, chain, langevin
from triskele import core, sponge
from triskele.sponge import analysis, cv, units
from triskele.sponge.engine.engine import Engine
from triskele.sponge.sampling.boost_kernels import gaussian_parameters
from triskele.sponge.sampling.reweighting import PoorOverlapWarning

RT = units.GAS_CONSTANT * 300.0
X = cv.function(lambda x: x[0, 0], [0], name="x")
DIHEDRALS = 1  # force group


def peptide():
    return sponge.load(*sponge.example_files("alanine-dipeptide"))


def engine_of(system, method):
    method.check(system, langevin())
    engine = Engine(system, "double", sampling=[method])
    engine.compute()
    return engine


# -- against OpenMM ----------------------------------------------------------------------------------------------------


def in_openmm(system, make):
    """What OpenMM computes: energies, that of the torsions, both with boosts; forces of the torsions, and those that an
    integrator moves atoms with.
    """
    openmm = pytest.importorskip("openmm")
    amd = pytest.importorskip("openmm.amd")
    model = system.to_openmm()
    for force in model.getForces():
        force.setForceGroup(DIHEDRALS if force.getName() == "torsion" else 0)
    integrator = make(amd)
    context = openmm.Context(model, integrator, openmm.Platform.getPlatformByName("Reference"))
    context.setPositions(system.positions)
    context.setVelocities(np.zeros((system.n, 3)))
    total, torsions = (
        context.getState(energy=True, groups=groups).getPotentialEnergy() for groups in (-1, 1 << DIHEDRALS)
    )
    plain = context.getState(forces=True, groups=1 << DIHEDRALS).getForces(asNumpy=True)._value
    names = {"AMDIntegrator": (total,), "AMDForceGroupIntegrator": (torsions,), "DualAMDIntegrator": (total, torsions)}
    given = names[type(integrator).__name__]
    boost = (integrator.getEffectiveEnergy(*given) - given[0])._value
    integrator.step(1)  # of 1 ps, from rest: m v is the force
    forces = system.masses[:, None] * context.getState(velocities=True).getVelocities(asNumpy=True)._value
    return total._value, boost, plain, forces


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-8 * np.abs(expected).max(), rtol=0)


@pytest.mark.parametrize(
    ("boosts", "make"),
    [
        ({"total": (20.0, 35.0)}, lambda amd: amd.AMDIntegrator(1.0, 35.0, 20.0)),
        ({"total": (-200.0, 35.0)}, lambda amd: amd.AMDIntegrator(1.0, 35.0, -200.0)),
        ({"torsion": (60.0, 12.0)}, lambda amd: amd.AMDForceGroupIntegrator(1.0, DIHEDRALS, 12.0, 60.0)),
    ],
)
def test_single_boosts_are_those_of_openmm(boosts, make):
    system = peptide()
    engine = engine_of(system, sponge.AMD(**boosts))
    _, boost, _, forces = in_openmm(system, make)
    assert engine.energies()["amd"] == pytest.approx(boost, rel=1e-8, abs=1e-8)
    assert_close(engine.forces, forces)


def test_the_dual_boost_has_the_energy_of_openmm_and_its_derivatives():
    """OpenMM leaves the boost of the total energy out of the forces of the torsions; here forces are derivatives."""
    system = peptide()
    engine = engine_of(system, sponge.AMD(total=(20.0, 35.0), torsion=(60.0, 12.0)))
    total, boost, torsions, forces = in_openmm(
        system, lambda amd: amd.DualAMDIntegrator(1.0, DIHEDRALS, 35.0, 20.0, 12.0, 60.0)
    )
    assert engine.energies()["amd"] == pytest.approx(boost, rel=1e-8)
    assert_close(engine.forces, forces + ((35.0 / (35.0 + 20.0 - total)) ** 2 - 1.0) * torsions)


# -- derivatives -------------------------------------------------------------------------------------------------------

TORSIONS = ("torsion", "improper", "cmap")


@pytest.mark.parametrize(
    ("numbers", "boosted"),
    [
        ([(3200.0, 300.0), (700.0, 80.0)], (True, True)),
        ([(3200.0, 0.002), (700.0, 0.008)], (True, True)),
        ([(-np.inf, 0.0), (700.0, 0.008)], (False, True)),
        ([(3200.0, 0.002), (-np.inf, 0.0)], (True, False)),
    ],
)
def test_forces_and_virial_are_derivatives(numbers, boosted):
    """A peptide in a leaning box with PME and CMAP, whose energy has many parts; both forms of the boost."""
    system, harmonic = charmm_peptide(), numbers[0][1] < 1
    if harmonic:
        sigmas = [0.1 if b else None for b in boosted]  # kJ/mol
        method = sponge.GaMD(*sigmas, collect=10, equilibrate=0)
        method._numbers[:] = numbers
    else:
        method = sponge.AMD(*numbers)
    engine = engine_of(system, method)
    energy = total(system)

    def boosted_energy(positions, box):
        whole = energy(positions, box)
        parts = whole, sum(system[name].energy(system[name].params, positions, box) for name in TORSIONS)
        for v, (threshold, strength) in zip(parts, numbers, strict=True):
            if np.isfinite(threshold):
                below = threshold - v
                whole = whole + (0.5 * strength * below**2 if harmonic else below**2 / (strength + below))
        return whole

    value, forces, virial = derivatives(boosted_energy, system)
    assert engine.energies()[method.name] > 50  # kJ/mol
    assert sum(engine.energies().values()) == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(engine.forces, forces, atol=1e-9 * np.abs(forces).max())
    np.testing.assert_allclose(engine.virial(), virial, atol=1e-8 * np.abs(virial).max())


def test_forces_can_vanish():
    """At a factor of 0, which happens at the lowest energy with k0 = 1."""
    system = chain()
    method = sponge.GaMD(torsion=1.0, collect=10, equilibrate=0)
    engine = engine_of(system, method)
    plain, (_, v) = engine.forces.copy(), engine.split.energies
    method._numbers[1] = v + 4.0, 0.25
    engine.compute()
    torsion = Engine(system, "double", names=["torsion"])
    torsion.compute()
    np.testing.assert_allclose(engine.forces, plain - torsion.forces, atol=1e-10)


def test_without_a_boost_it_is_plain_dynamics():
    found = []
    for sampling in ([], [sponge.AMD(torsion=(-10.0, 1.0))], [sponge.AMD((-1e3, 1.0), (-10.0, 1.0))]):
        sim = sponge.Simulation(peptide(), langevin_of(0.001), seed=1, sampling=sampling, precision="double")
        sim.run(20)
        found.append(sim.positions)
    np.testing.assert_allclose(found[1], found[0], atol=1e-11)
    np.testing.assert_allclose(found[2], found[0], atol=1e-11)


# -- populations -------------------------------------------------------------------------------------------------------


def langevin_of(timestep):
    return sponge.LangevinMiddle(300, 5.0, timestep)


def well(x):
    return 15.0 * ((x / 0.3) ** 2 - 1.0) ** 2 + 10.0 * x


def particle(method, seed=1, integrator=None):
    system = sponge.System(sponge.Topology.of_particles(1), [10.0], positions=[[-0.3, 0, 0]], remove_com_motion=False)
    system.add(sponge.FunctionPotential(lambda x: well(x[0, 0]) + 500.0 * (x[0, 1] ** 2 + x[0, 2] ** 2), name="well"))
    return sponge.Simulation(system, integrator or langevin_of(0.005), seed=seed, sampling=[method])


FINE = np.linspace(-1.0, 1.0, 20_001)
IN_WELL = np.exp(-well(FINE) / RT)
RIGHT = IN_WELL[FINE > 0].sum() / IN_WELL.sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [
        sponge.AMD(total=(20.0, 8.0)),
        sponge.GaMD(total=3.0, collect=50_000, equilibrate=50_000, prepare=5000),
        sponge.GaMD(total=4.0, collect=50_000, equilibrate=50_000, threshold="upper"),
    ],
)
def test_a_double_well_by_the_total_energy(method):
    """A barrier of six RT, which plain dynamics crosses some five times, and the populations of both wells."""
    sim, place = particle(method), sponge.Variables({"x": X}, every=10)
    sim.run(100_000)
    sim.run(400_000, report=place)
    x = place["x"]
    assert np.count_nonzero(np.diff(np.sign(x[np.abs(x) > 0.2]))) > 30
    found = analysis.mean((x > 0).astype(float), method.weights(place.steps))
    assert abs(found.value - RIGHT) < 3.5 * found.error < 0.1


@pytest.mark.parametrize(
    "method",
    [sponge.AMD(torsion=(20.0, 6.0), every=50), sponge.GaMD(torsion=2.5, collect=20_000, equilibrate=50_000, every=50)],
)
def test_a_torsion_by_its_own_energy(method):
    """The boost is a function of the torsion: within a bin of it cumulants are exact."""
    sim = sponge.Simulation(chain(), langevin(), seed=3, sampling=[method])
    sim.run(70_000)
    place = sponge.Variables({"phi": PHI}, every=50)
    sim.run(150_000, report=place)
    phi = place["phi"]
    bins = np.floor((phi + math.pi) / (2 * math.pi) * 72).astype(int)
    for weights in (method.weights(place.steps), method.cumulant_weights(bins, place.steps)):
        found = analysis.mean((phi > 0).astype(float), weights)
        assert abs(found.value - EXACT) < 3.5 * found.error < 0.3
    profile = analysis.profile(phi, weights, temperature=300.0, bins=72, period=(-math.pi, math.pi))
    right = (profile.x > 0) & np.isfinite(profile.error)
    exact = 7.0 * (1 + np.cos(2 * profile.x)) + 1.0 * (1 + np.cos(profile.x - np.pi / 2))
    for side in (right, ~right & np.isfinite(profile.error)):
        difference = (profile.value - exact)[side & (exact < 10)]
        assert np.sqrt(np.mean((difference - difference.mean()) ** 2)) < 0.35 * KT


# -- parameters and protocol -------------------------------------------------------------------------------------------


def of_the_paper(upper, sigma0, highest, lowest, mean, deviation):
    """Threshold and k0 by the program in the appendix of Miao et al."""
    span = highest - lowest
    if upper:
        k0 = (1 - sigma0 / deviation) * span / (mean - lowest)
        k0 = k0 if 0 < k0 <= 1 else 1.0
        return lowest + span / k0, k0
    return highest, min(1.0, sigma0 / deviation * span / (highest - mean))


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize(("sigma0", "mean"), [(4.0, 40.0), (9.0, 50.0), (12.0, 50.0), (1.0, 10.0), (1.0, 90.0)])
def test_parameters_are_those_of_the_paper(upper, sigma0, mean):
    given = sigma0, 100.0, -20.0, mean, 10.0
    threshold, k0 = of_the_paper(upper, *given)
    assert gaussian_parameters(int(upper), *given) == pytest.approx((threshold, k0 / 120.0), rel=1e-14)
    if k0 < 1:  # the boost then has no more than sigma0, to first order
        assert k0 / 120.0 * (threshold - mean) * 10.0 <= sigma0 * (1 + 1e-12)


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("integrator", [langevin_of(0.005), sponge.VelocityVerlet(0.005)])
def test_the_stages_of_a_run(upper, integrator):
    """Every boost of a run from the energies of the states before it, in NumPy."""
    method = sponge.GaMD(
        total=3.0,
        torsion=2.0,
        collect=60,
        equilibrate=40,
        prepare=10,
        every=1,
        terms=["well"],
        threshold="upper" if upper else "lower",
        temperature=300.0,
    )
    sim = particle(method, integrator=integrator)
    sim.thermalize(300.0, seed=1)
    assert method.stage == "collect"
    sim.run(80)
    assert method.stage == "equilibrate" and not method.produced.any()
    sim.run(40)
    assert method.stage == "produce" and method.produced.sum() == 20
    np.testing.assert_array_equal(np.diff(method.steps), 1)
    used = np.r_[10:60, 70:100]
    for c, sigma0 in enumerate((3.0, 2.0)):
        v = method.energies[:, c]
        for n in range(120):
            seen = v[used[used < n]]
            expected = 0.0
            if n >= 60:
                threshold, k0 = of_the_paper(upper, sigma0, seen.max(), seen.min(), seen.mean(), seen.std())
                expected = 0.5 * k0 / np.ptp(seen) * max(threshold - v[n], 0.0) ** 2
            assert method.boosts[n, c] == pytest.approx(expected, rel=1e-9, abs=1e-12)
        assert method.thresholds[c] == pytest.approx(threshold) and method.k0[c] == pytest.approx(k0)
        assert method.statistics["deviation"][c] == pytest.approx(v[used].std())


@pytest.mark.parametrize("integrator", [langevin_of(0.003), sponge.Bussi(300, 0.1, 0.003)])
@pytest.mark.parametrize("halfway", [31, 177, 333])
def test_a_run_resumes_bit_for_bit(tmp_path, integrator, halfway):
    methods = [sponge.GaMD(total=3.0, torsion=2.0, collect=100, equilibrate=100, every=3) for _ in range(2)]
    whole, again = (sponge.Simulation(chain(), integrator, seed=2, sampling=[m]) for m in methods)
    whole.run(halfway)
    whole.save(tmp_path / "run.chk")
    whole.run(400 - halfway)
    again.load(tmp_path / "run.chk")
    again.run(400 - halfway)
    np.testing.assert_array_equal(again.positions, whole.positions)
    for key in ("steps", "energies", "boosts", "thresholds", "k0", "produced"):
        np.testing.assert_array_equal(getattr(methods[1], key), getattr(methods[0], key))


def test_results_do_not_depend_on_the_number_of_threads():
    found, before = [], core.get_threads()
    try:
        for threads in (1, 2):
            core.set_threads(threads)
            method = sponge.GaMD(total=3.0, torsion=2.0, collect=20, equilibrate=20)
            sim = sponge.Simulation(charmm_peptide(), langevin_of(0.001), seed=2, sampling=[method])
            sim.run(60)
            found.append((sim.positions, method.energies))
    finally:
        core.set_threads(before)
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)


# -- weights -----------------------------------------------------------------------------------------------------------


def test_weights_of_recorded_states():
    method = sponge.AMD(torsion=(20.0, 6.0), every=5)
    sim, place = sponge.Simulation(chain(), langevin(), seed=1, sampling=[method]), sponge.Variables({"phi": PHI}, 10)
    sim.run(4000, report=place)  # the last of these states is the present one
    v = 7.0 * (1 + np.cos(2 * place["phi"])) + 1.0 + np.cos(place["phi"] - np.pi / 2)
    boost = np.where(v < 20.0, (20.0 - v) ** 2 / (26.0 - v), 0.0)
    expected = np.exp(boost / KT) / np.exp(boost / KT).sum()
    np.testing.assert_allclose(method.weights(place.steps), expected, rtol=1e-5)
    with pytest.raises(ValueError, match=r"steps must be among those recorded \(multiples of 5, .* got 3$"):
        method.weights([10, 3])
    with pytest.warns(PoorOverlapWarning, match="3 samples are worth"):
        method.weights([10, 20, 30])


def test_cumulants_by_hand():
    method = sponge.AMD(torsion=(20.0, 6.0))
    sponge.Simulation(chain(), langevin(), seed=1, sampling=[method]).run(600)
    u = method.boosts.sum(1) / KT
    bins = np.array([[0, 1]] * 10 + [[0, 2]] * 20 + [[3, 1]] * (len(u) - 30))
    weights = method.cumulant_weights(bins)
    ends = [(0, 10), (10, 30), (30, len(u))]
    expected = np.concatenate([np.full(b - a, np.exp(u[a:b].mean() + u[a:b].var() / 2)) for a, b in ends])
    np.testing.assert_allclose(weights, expected / expected.sum(), rtol=1e-12)
    with pytest.raises(ValueError, match=r"bins must be whole numbers \[m\] or \[m, d\] of 60 states, got float64"):
        method.cumulant_weights(np.zeros(60))


# -- bad use -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "total or torsion must be given"),
        ({"total": 3.0}, r"total must be \(threshold, alpha\) in kJ/mol, got 3.0"),
        ({"torsion": (3.0, 0.0)}, "alpha of torsion must be"),
        ({"torsion": (math.inf, 1.0)}, "threshold of torsion must be"),
        ({"torsion": (3.0, 1.0), "every": 0}, "every must be"),
        ({"torsion": (3.0, 1.0), "temperature": -1.0}, "temperature must be"),
    ],
)
def test_bad_options_of_amd_are_named(options, message):
    with pytest.raises(ValueError, match=f"AMD: {message}"):
        sponge.AMD(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"total": None}, "total or torsion must be given"),
        ({"total": 0.0}, "total must be"),
        ({"threshold": "middle"}, "threshold must be 'lower' or 'upper', got 'middle'"),
        ({"prepare": 99}, "collect must be"),
        ({"equilibrate": -1}, "equilibrate must be"),
    ],
)
def test_bad_options_of_gamd_are_named(options, message):
    with pytest.raises(ValueError, match=f"GaMD: {message}"):
        sponge.GaMD(**{"total": 3.0, "collect": 100, "equilibrate": 100, **options})


def test_bad_use_is_named():
    with pytest.raises(TypeError, match="terms must be a sequence of names of potentials, got the string"):
        sponge.AMD(torsion=(3.0, 1.0), terms="torsion")
    with pytest.raises(ValueError, match="the system must have torsions, got none"):
        particle(sponge.AMD(torsion=(3.0, 1.0)))
    with pytest.raises(ValueError, match="must not name potentials between all pairs of atoms, got 'nonbonded'"):
        sponge.Simulation(peptide(), langevin(), sampling=[sponge.AMD(torsion=(3.0, 1.0), terms=["nonbonded"])])
    with pytest.raises(ValueError, match="temperature must be given, as VelocityVerlet has none"):
        particle(sponge.AMD((3.0, 1.0)), integrator=sponge.VelocityVerlet(0.005))
    method = sponge.GaMD(3.0, collect=100, equilibrate=100)
    sim = particle(method)
    with pytest.raises(ValueError, match="belongs to one simulation"):
        particle(method)
    sim.run(50)
    with pytest.raises(ValueError, match="at least one state must have been recorded with a fixed boost, got none"):
        method.weights()
