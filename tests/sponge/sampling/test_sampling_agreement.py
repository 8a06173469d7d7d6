"""All sampling methods against an exactly known distribution, and against each other.

Four atoms in a chain, bonds and angles harmonic: with V(phi) the only term that knows phi, p(phi) ~ exp(-V(phi) / RT)
exactly. Two wells 14 kJ/mol deep, 5.6 RT at 300 K, of different depth.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import analysis, cv, units

T0 = 300.0
KT = units.GAS_CONSTANT * T0
PHI = cv.torsion(0, 1, 2, 3)
RIGHT = {"right": analysis.Rectangle(phi=(0.0, np.pi))}
EVERY = 50


def chain():
    x = np.array([[0.1, 0.1, 0.0], [0.0, 0.0, 0.0], [0.15, 0.0, 0.0], [0.25, 0.0, -0.1]])
    system = sponge.System(sponge.Topology.of_particles(4), np.full(4, 20.0), positions=x)
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=5e4, r0=0.15))
    system.add(sponge.harmonic_angle([[0, 1, 2], [1, 2, 3]], k=300.0, theta0=2.0))
    system.add(
        sponge.periodic_torsion([[0, 1, 2, 3], [0, 1, 2, 3]], periodicity=[2, 1], phase=[0.0, np.pi / 2], k=[7.0, 1.0])
    )
    return system


def potential(phi):
    return 7.0 * (1 + np.cos(2 * phi)) + 1.0 * (1 + np.cos(phi - np.pi / 2))


PHI_FINE = np.linspace(-np.pi, np.pi, 20_001)[:-1]
BOLTZMANN = np.exp(-potential(PHI_FINE) / KT)
EXACT = BOLTZMANN[PHI_FINE > 0].sum() / BOLTZMANN.sum()


def langevin():
    return sponge.LangevinMiddle(temperature=T0, friction=5.0, timestep=0.003)


def record(replicas, steps):
    """Step numbers, and phi [m, replicas]."""
    records = {}

    def report(k):
        records[k] = sponge.Variables({"phi": PHI}, every=EVERY)
        return records[k]

    replicas.run(steps, replica_report=report)
    return records[0].steps, np.stack([records[k]["phi"] for k in range(replicas.n)], 1)


def right(phi, weights=None):
    return analysis.populations(phi, np.zeros_like(phi), RIGHT, weights)["right"]


def assert_agrees(value, error):
    """Close to the exact population by its own error bar, and the error bar is of use."""
    assert 0 < error < 0.06
    assert abs(value - EXACT) < 3.5 * error


def test_plain_dynamics_at_high_temperature_is_right():
    # nothing of the methods: the model and the integrator sample what they should
    hot = sponge.LangevinMiddle(temperature=900.0, friction=5.0, timestep=0.003)
    angles = sponge.Variables({"phi": PHI}, every=EVERY)
    sponge.Simulation(chain(), hot, seed=1).run(400_000, report=angles)
    found = right(angles["phi"])
    density = np.exp(-potential(PHI_FINE) / (units.GAS_CONSTANT * 900))
    assert abs(found.value - density[PHI_FINE > 0].sum() / density.sum()) < 3.5 * found.error < 0.15


def test_integrated_tempering():
    methods = []

    def make(k):
        methods.append(sponge.SITS(temperatures=units.ladder(290, 1500, 30)))
        return sponge.Simulation(chain(), langevin(), seed=k, sampling=methods[k])

    walkers = sponge.MultipleWalkers(make, 2, every=5000)
    walkers.run(60_000)
    for method in methods:
        method.produce()
    steps, phi = record(walkers, 300_000)
    found = right(phi, np.stack([m.weights(steps) for m in methods], 1))
    assert_agrees(found.value, found.error)


def test_metadynamics():
    bias = sponge.Metadynamics(PHI, sigma=0.3, height=0.5, every=200, bias_factor=6, record=EVERY)
    sponge.Simulation(chain(), langevin(), seed=3, sampling=[bias]).run(600_000)
    late = len(bias.steps) // 4
    found = right(bias.values[late:, 0], bias.weights()[late:])
    assert_agrees(found.value, found.error)
    # and the bias itself, filled up, is the potential upside down
    surface = bias.free_energy()
    assert np.abs(surface.from_bias - (potential(surface.axes[0]) - potential(surface.axes[0]).min())).max() < 2.5


@pytest.mark.slow
def test_umbrella_sampling():
    pytest.importorskip("pymbar")
    centers = np.linspace(-np.pi, np.pi, 18, endpoint=False)
    windows = sponge.UmbrellaSampling(chain(), PHI, centers, 60.0, langevin(), record=EVERY, every=2000, seed=4)
    windows.equilibrate(4000)
    windows.run(20_000)
    value, error = windows.mbar().mean(np.concatenate(windows.samples)[:, 0] > 0)
    assert_agrees(value, error)


@pytest.mark.slow
def test_replica_exchange():
    rex = sponge.ReplicaExchange(chain(), langevin(), units.ladder(T0, 1200, 4), every=EVERY, seed=5)
    rex.run(5000)
    _, phi = record(rex, 250_000)
    found = right(phi[:, 0])
    assert_agrees(found.value, found.error)
    assert found.inefficiency > 1


# -- alanine dipeptide
# --------------------------------------------------------------------------------------------------

DATA = Path(__file__).parents[2] / "data" / "sponge" / "ala2_vacuum"


def run_example(name):
    """The module of an example."""
    import importlib.util

    spec = importlib.util.spec_from_file_location(
        name, Path(__file__).parents[3] / "examples" / "sponge" / f"{name}.py"
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_populations_fit_the_relaxed_map():
    # The wells of the relaxed potential energy (same force field, bonds free) in which the regions lie; C7ax 8.1 kJ/mol
    # up
    kept = json.loads((DATA / "populations.json").read_text())
    relaxed = np.load(DATA.parent / "ala2_phi_psi_map" / "map.npz")
    phi = np.radians(relaxed["grid_deg"])
    density = np.exp(-(relaxed["vacuum"] - relaxed["vacuum"].min()) / KT)
    for name, (low, high) in kept["regions_phi_degrees"].items():
        inside = analysis.Rectangle(phi=(np.radians(low), np.radians(high)))(phi, np.zeros_like(phi))
        harmonic = density[inside].sum() / density.sum()
        assert abs(np.log(harmonic / kept["population"][name])) < 1.0  # within 1 kT: entropy is left out of the map


@pytest.mark.slow
def test_alanine_dipeptide_in_vacuum_by_four_methods():
    pytest.importorskip("pymbar")
    example = run_example("alanine_vacuum")
    kept = json.loads((DATA / "populations.json").read_text())
    wells = np.radians([[-145, 157], [-76, 83], [61, -68]])
    for method in (example.tempering, example.metadynamics, example.umbrella, example.exchange):
        surface, found, visits, _ = method(12.0)
        for name, value in kept["population"].items():
            if visits[name] < example.FEWEST:  # of C7ax, by tempering
                continue
            error = np.hypot(found[name].error, kept["standard_error"][name])
            assert 0 < error < 0.05
            assert abs(found[name].value - value) < 3.5 * error, (method.__name__, name)
        # C5, C7eq and C7ax are the deepest minima
        deepest = np.array([[m.phi, m.psi] for m in surface.minima()[:3]])
        apart = np.abs(np.angle(np.exp(1j * (deepest[:, None] - wells)))).max(-1)
        assert np.all(apart.min(0) < np.radians(15)), method.__name__


def assert_populations(found, error, name):
    """The reference's, which is that of tempering, metadynamics, umbrella sampling and exchange, within errors."""
    kept = json.loads((DATA / "populations.json").read_text())
    joint = np.hypot(error, kept["standard_error"][name])
    assert 0 < error < max(0.2, kept["population"][name])
    assert abs(found - kept["population"][name]) < 3.5 * joint, name


@pytest.mark.slow
def test_alanine_dipeptide_by_opes():
    example = run_example("alanine_vacuum")
    bias = sponge.OPES([example.PHI, example.PSI], barrier=45.0, every=500, record=100)
    sponge.Simulation(example.load(), example.langevin(), seed=1, sampling=[bias]).run(3_000_000)
    late = len(bias.steps) // 5
    _, found, visits, _ = example.weighted(*bias.values[late:, :, None].transpose(1, 0, 2), bias.weights()[late:, None])
    assert visits["C7ax"] > example.FEWEST
    for name in example.REGIONS:
        assert_populations(found[name].value, found[name].error, name)


@pytest.mark.slow
def test_alanine_dipeptide_by_adaptive_biasing_force():
    """Populations from the surfaces of four runs, with errors from their scatter."""
    example, shares = run_example("alanine_vacuum"), []
    for seed in range(4):
        abf = sponge.ABF([example.PHI, example.PSI], 45, friction=2.0)
        sponge.Simulation(example.load(), example.langevin(), seed=seed, sampling=[abf]).run(1_500_000)
        phi, psi = np.meshgrid(*abf.centers, indexing="ij")
        p = np.exp(-np.nan_to_num(abf.free_energy(), nan=np.inf) / KT)
        shares.append([p[region(phi, psi)].sum() / p.sum() for region in example.REGIONS.values()])
    for name, value in zip(example.REGIONS, np.transpose(shares), strict=True):
        assert_populations(value.mean(), value.std(ddof=1) / 2, name)


@pytest.mark.slow
def test_alanine_dipeptide_by_gaussian_accelerated_dynamics():
    example = run_example("alanine_vacuum")
    kcal = units.kcal_per_mol
    gamd = sponge.GaMD(total=3 * kcal, torsion=2 * kcal, collect=100_000, equilibrate=200_000, every=100)
    sim = sponge.Simulation(example.load(), example.langevin(), seed=5, sampling=[gamd])
    sim.run(300_000)
    angles = sponge.Variables({"phi": example.PHI, "psi": example.PSI}, every=100)
    sim.run(8_000_000, report=angles)
    phi, psi, weights = angles["phi"], angles["psi"], gamd.weights(angles.steps)
    _, found, visits, _ = example.weighted(phi[:, None], psi[:, None], weights[:, None])
    assert visits["C7ax"] > 4
    for name in example.REGIONS:
        assert_populations(found[name].value, found[name].error, name)
    # the expansion scatters less, but ends at second order: C5 is off by 0.7 kJ/mol, which no error bar shows
    bins = np.floor((phi + np.pi) * (72 / (2 * np.pi))).astype(int)
    expanded = analysis.populations(phi, psi, example.REGIONS, gamd.cumulant_weights(bins, angles.steps))
    kept = json.loads((DATA / "populations.json").read_text())["population"]
    for name in ("C5", "C7ax"):
        of_region, of_c7eq = expanded[name], expanded["C7eq"]
        shift = KT * np.log(of_region.value / of_c7eq.value * kept["C7eq"] / kept[name])
        assert abs(shift) < 1.0 + 3.5 * KT * np.hypot(of_region.error / of_region.value, of_c7eq.error / of_c7eq.value)
