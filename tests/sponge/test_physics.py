"""What simulations find, against published properties of water and of the Lennard-Jones fluid.

Long runs are marked slow. Statistical tests use fixed seeds; their tolerances are the published ones, several standard
errors of these runs wide.
"""

import json

import numpy as np
import pytest

from tests.sponge.reference import DATA, load_reference
from triskele import sponge
from triskele.sponge import analysis, units


def water(name):
    """500 rigid waters with PME at 0.9 nm and tail correction."""
    reference = load_reference(name)
    system = sponge.load(reference.xml)
    system.positions = reference.positions
    return system


def series(sim, time, every, *names):
    """Energies (by name) every so many steps of a run."""
    rows = []
    sim.run(time=time, report=[sponge.Callback(every, lambda sim: rows.append([sim.energies()[n] for n in names]))])
    return np.array(rows).T


@pytest.mark.slow
@pytest.mark.parametrize("name, expected, tolerance", [("water_tip3p", 0.983, 0.005), ("water_spce", 0.997, 0.003)])
def test_density_of_water_at_one_bar(name, expected, tolerance):
    """TIP3P with PME 0.983 and SPC/E 0.997 g/cm^3 at 298 K and 1 bar."""
    sim = sponge.Simulation(
        water(name),
        sponge.LangevinMiddle(temperature=298.15, friction=1.0, timestep=0.002),
        barostat=sponge.MonteCarloBarostat(pressure=1.0, temperature=298.15),
        seed=1,
    )
    sim.minimize(max_steps=100)
    sim.run(time="60 ps")
    (density,) = series(sim, "300 ps", 50, "density")
    found = analysis.mean(density)
    assert found.error < 0.7 * tolerance
    assert abs(found.value - expected) < tolerance


@pytest.mark.slow
def test_diffusion_of_tip3p():
    """5.6e-5 cm^2/s at 298 K in a box of this size (10 %)."""
    sim = sponge.Simulation(
        water("water_tip3p"), sponge.Bussi(temperature=298.15, relaxation_time=1.0, timestep=0.002), seed=1
    )
    sim.minimize(max_steps=100)
    sim.run(time="40 ps")
    frames = []
    sim.run(time="200 ps", report=[sponge.Callback(100, lambda sim: frames.append(sim.positions[::3].copy()))])
    found = analysis.diffusion_coefficient(np.array(frames), 0.2, fit=(2.0, 20.0))
    assert found.value * 1e-2 == pytest.approx(5.6e-5, rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("rigid, timestep", [(True, 0.002), (False, 0.001)])
def test_energy_is_conserved_in_mixed_precision(rigid, timestep):
    """At most 1e-3 kT per nanosecond and degree of freedom."""
    system = water("water_tip3p" if rigid else "water_tip3p_flexible")
    sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=2.0, timestep=timestep), seed=3)
    sim.minimize(max_steps=100)
    sim.run(time="20 ps")
    sim = sponge.Simulation(
        system, sponge.VelocityVerlet(timestep=timestep), positions=sim.positions, velocities=sim.velocities, seed=3
    )
    (total,) = series(sim, "400 ps", 100, "total")
    drift = analysis.energy_drift(100 * timestep * np.arange(len(total)), total, sim.degrees_of_freedom, 300)
    print(f"drift {drift.value:.2e} +- {drift.error:.1e} kT/ns per degree of freedom")
    assert abs(drift.value) < 1e-3 + 2 * drift.error
    assert drift.error < 1e-3


def lennard_jones_fluid(density, cells=6, cutoff=3.0):
    """500 to 900 atoms on a lattice in reduced units, where sigma, epsilon and mass are 1 nm, 1 kJ/mol and 1 dalton."""
    n = 4 * cells**3
    edge = (n / density) ** (1 / 3)
    basis = np.array([[0, 0, 0], [0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    grid = np.stack(np.meshgrid(*[np.arange(cells)] * 3, indexing="ij"), -1).reshape(-1, 1, 3)
    system = sponge.System(
        sponge.Topology.of_particles(n), np.ones(n), box=edge, positions=(grid + basis).reshape(-1, 3) * edge / cells
    )
    system.add(sponge.Nonbonded(np.zeros(n), np.ones(n), np.ones(n), method="cutoff", cutoff=cutoff))
    return system


@pytest.mark.slow
@pytest.mark.parametrize("density", [0.776, 0.86])
def test_lennard_jones_equation_of_state(density):
    """Energy and pressure of NIST's Monte Carlo at T* = 0.85 with cut-off 3 sigma and tail corrections."""
    table = json.loads((DATA / "nist" / "LJ_EOS_and_water_literature.json").read_text())["NIST_LJ_MC_NVT"]["T*=0.85"]
    k = table["rho"].index(density)
    temperature = 0.85 / units.GAS_CONSTANT
    sim = sponge.Simulation(
        lennard_jones_fluid(density),
        sponge.LangevinMiddle(temperature=temperature, friction=0.5, timestep=0.005),
        seed=2,
    )
    sim.run(4000)
    energy, pressure = series(sim, 0.005 * 20_000, 40, "potential", "pressure")
    energy, pressure = analysis.mean(energy / sim.system.n), analysis.mean(pressure / units.BAR_PER_PRESSURE)
    assert abs(energy.value - table["U_per_N"][k]) < 4 * energy.error + 0.003
    assert abs(pressure.value - table["p"][k]) < 4 * pressure.error + 0.01
