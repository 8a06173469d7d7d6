"""Replica exchange: every state keeps its distribution, exchanges are as frequent as theory says, and REST2 scales what
it should.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from scipy import optimize, stats

from triskele import core, sponge
from triskele.sponge import units
from triskele.sponge.analysis import statistical_inefficiency
from triskele.sponge.barostats.barostat import Barostat
from triskele.sponge.engine.flags import STEP
from triskele.sponge.engine.program import Phase
from triskele.sponge.errors import BoxError, CheckpointError
from triskele.sponge.integrators.temperature import temperature as temperature_of
from triskele.sponge.sampling.replica_exchange import ReplicaExchange

DATA = Path(__file__).resolve().parents[2] / "data" / "sponge"
ATOMS = 8
LANGEVIN = sponge.LangevinMiddle(temperature=300, friction=20.0, timestep=0.01)


def wells(k=400.0, n=ATOMS):
    """Atoms on springs: the energy at temperature T follows a gamma distribution with the mean 3/2 n RT."""
    system = sponge.System(
        sponge.Topology.of_particles(n), np.full(n, 12.0), positions=np.zeros((n, 3)), remove_com_motion=False
    )
    system.add(sponge.PositionRestraint(range(n), k=k, reference=np.zeros((n, 3))))
    return system


@pytest.fixture(scope="module")
def tempered():
    """An exchange of three temperatures."""
    rex = ReplicaExchange(wells(), LANGEVIN, [300.0, 390.0, 507.0], every=30, seed=2)
    rex.run(300)
    kept = len(rex.steps)
    speeds = {k: [] for k in range(3)}
    rex.run(36_000, replica_report=lambda k: sponge.Callback(60, lambda sim: speeds[k].append(sim.kinetic_energy)))
    return rex, rex.energies[kept:], speeds


def expected_acceptance(beta, shape, scale, draws=400_000):
    """Mean of min(1, exp(change of beta times change of energy)) for energies from two gamma distributions."""
    rng = np.random.default_rng(0)
    energies = [rng.gamma(shape, s, draws) for s in scale]
    return np.minimum(1, np.exp((beta[0] - beta[1]) * (energies[0] - energies[1]))).mean()


def test_energies_of_every_state_have_the_distribution_of_its_temperature(tempered):
    rex, energies, speeds = tempered
    for k, thermal in enumerate(units.GAS_CONSTANT * rex.temperatures):
        u = energies[:, k]
        independent = u[:: int(np.ceil(statistical_inefficiency(u)))]
        assert len(independent) > 200
        assert stats.kstest(independent, stats.gamma(1.5 * ATOMS, scale=thermal).cdf).pvalue > 1e-3
        kinetic = np.array(speeds[k])
        error = np.sqrt(statistical_inefficiency(kinetic) * 1.5 * ATOMS / len(kinetic)) * thermal
        assert abs(kinetic.mean() - 1.5 * ATOMS * thermal) < 4 * error


def test_ratio_of_energy_distributions_has_the_slope_of_the_difference_of_temperatures(tempered):
    # Shirts, J. Chem. Theory Comput. 9, 909 (2013): ln P_2(E)/P_1(E) is linear in E; the slope by maximum likelihood
    rex, energies, _ = tempered
    beta = 1 / (units.GAS_CONSTANT * rex.temperatures)
    for i in (0, 1):
        a, b = (x[:: int(np.ceil(statistical_inefficiency(x)))] for x in energies[:, [i, i + 1]].T)
        middle = np.mean(np.r_[a, b])

        def loss(p, a=a - middle, b=b - middle):
            return np.logaddexp(0, p[0] + p[1] * a).sum() + np.logaddexp(0, -p[0] - p[1] * b).sum()

        fit = optimize.minimize(loss, [0.0, 0.0], method="BFGS")
        assert abs(fit.x[1] - (beta[i] - beta[i + 1])) < 4 * np.sqrt(fit.hess_inv[1, 1])


def test_exchanges_are_accepted_as_often_as_predicted(tempered):
    rex, _, _ = tempered
    thermal = units.GAS_CONSTANT * rex.temperatures
    for i in (0, 1):
        expected = expected_acceptance(1 / thermal[[i, i + 1]], 1.5 * ATOMS, thermal[[i, i + 1]])
        assert abs(rex.acceptance[i] - expected) < 5 * np.sqrt(expected * (1 - expected) / rex.attempted[i])
    assert np.abs(np.diff(rex.attempted)).max() <= 1 and rex.attempted.sum() == len(rex.steps)


def test_mbar_of_all_temperatures_gives_free_energies_and_means(tempered):
    rex, energies, _ = tempered
    discard = len(rex.steps) - len(energies)
    result = rex.mbar(discard)
    thermal = units.GAS_CONSTANT * rex.temperatures
    exact = 1.5 * ATOMS * np.log(thermal[0] / thermal)  # of harmonic wells: Z is proportional to T^(3n/2)
    assert np.all(np.abs(result.free_energies - exact)[1:] < 4 * result.errors[1:]) and np.all(result.errors[1:] < 0.3)
    u = energies.T
    for target in (300.0, 350.0, 507.0):
        value, error = result.mean(u, u / (units.GAS_CONSTANT * target))
        assert abs(value - 1.5 * ATOMS * units.GAS_CONSTANT * target) < 4 * error < 4.0
    alone = len(energies)
    assert result.effective_samples() > 1.3 * alone  # more than those of the first temperature


def test_two_hamiltonians_keep_their_distributions():
    k = np.array([300.0, 450.0, 700.0])
    rex = ReplicaExchange([wells(x) for x in k], LANGEVIN, every=20, seed=4)
    square = {i: [] for i in range(3)}
    rex.run(
        12_000, replica_report=lambda i: sponge.Callback(40, lambda sim: square[i].append(np.sum(sim.positions**2)))
    )
    thermal = units.GAS_CONSTANT * 300
    for i in range(3):
        r2 = np.array(square[i][5:])
        error = np.sqrt(statistical_inefficiency(r2) / len(r2)) * r2.std()
        assert abs(r2.mean() - 3 * ATOMS * thermal / k[i]) < 4 * error
    for i in (0, 1):  # of the sum of squares, whose distribution is that of energies at temperatures 1/k
        expected = expected_acceptance(0.5 * k[[i, i + 1]] / thermal, 1.5 * ATOMS, 2 * thermal / k[[i, i + 1]])
        assert abs(rex.acceptance[i] - expected) < 5 * np.sqrt(expected * (1 - expected) / rex.attempted[i])
    assert np.isnan(rex.cross_energies[:2]).tolist() == [[False, False, True], [True, False, False]]
    with pytest.raises(ValueError, match="must differ by their temperature only"):
        rex.mbar()


@dataclass(frozen=True)
class IdealGas(Barostat):
    """Draws the volume of an ideal gas from its distribution: gamma, with the mean (n + 1) RT / P."""

    pressure: float
    temperature: float | None = None
    coupling: str = "isotropic"
    every: int = 1

    def plan(self, engine, integrator, step):
        def draw():
            rng = np.random.default_rng([engine.seed, int(engine.flags[STEP])])
            engine.box[:] = np.eye(3) * rng.gamma(engine.n + 1, self._thermal(integrator) / self._targets()[0]) ** (
                1 / 3
            )
            engine.box_changed()

        return [*step, Phase(call=draw, name="barostat")]


def test_pressure_counts_with_the_volume():
    n = 6
    gas = sponge.System(
        sponge.Topology.of_particles(n), np.full(n, 12.0), 1.0, np.zeros((n, 3)), remove_com_motion=False
    )
    rex = ReplicaExchange(gas, LANGEVIN, [300.0, 600.0], every=1, barostat=IdealGas(pressure=1000.0), seed=1)
    rex.run(1000)
    thermal = units.GAS_CONSTANT * rex.temperatures
    assert rex.volumes.mean(0) == pytest.approx((n + 1) * thermal / (1000 * units.bar), rel=0.06)
    expected = expected_acceptance(1 / thermal, n + 1, thermal)
    assert abs(rex.acceptance[0] - expected) < 5 * np.sqrt(expected * (1 - expected) / 1000) < 0.1
    result = rex.mbar()
    # Z is proportional to (RT/P)^(n + 1)
    assert abs(result.free_energies[1] + (n + 1) * np.log(2)) < 4 * result.errors[1]


def test_demux_follows_walkers():
    rex = ReplicaExchange(wells(), LANGEVIN, [300.0, 330.0, 360.0, 390.0], every=10, seed=3)
    frames = {k: [] for k in range(4)}
    steps = {k: [] for k in range(4)}

    def look(k, sim):
        frames[k].append(sim.positions)
        steps[k].append(sim.step)

    rex.run(400, replica_report=lambda k: sponge.Callback(1, lambda sim: look(k, sim)))
    by_state = np.array([frames[k] for k in range(4)])
    by_walker = rex.demux(by_state, steps[0])
    assert rex.accepted.sum() > 50
    jump = [np.abs(np.diff(x, axis=1)).max() for x in (by_state, by_walker)]
    assert jump[1] < 0.4 * jump[0]  # a walker moves by its velocities alone
    assert np.array_equal(np.sort(rex.walkers, axis=1), np.tile(np.arange(4), (40, 1)))
    with pytest.raises(ValueError, match=r"frames must have shape \[4, 2, ...\], got \(3, 2\)"):
        rex.demux(np.zeros((3, 2)), [1, 2])
    with pytest.raises(ValueError, match="steps must be 0 to 400"):
        rex.demux(np.zeros((4, 1)), [401])


def test_round_trips_count_ways_up_and_down_again():
    rex = ReplicaExchange(wells(), LANGEVIN, [300.0, 330.0, 360.0], every=10)
    # walker 0: bottom, top, bottom, top, bottom; walker 1 begins at the top: bottom, then top
    rex._log["walkers"] = [np.array(x) for x in ([0, 2, 1], [2, 0, 1], [1, 2, 0], [0, 2, 1], [2, 1, 0])]
    rex._order = np.array([0, 2, 1])
    assert rex.round_trips.tolist() == [2, 0, 0]


def test_an_exchange_resumes_bit_for_bit(tmp_path):
    def make(seed=7):
        return ReplicaExchange(wells(), LANGEVIN, [300.0, 330.0, 360.0], every=10, seed=seed)

    whole = make()
    whole.run(95, checkpoint=sponge.Checkpoint(tmp_path / "a.chk", 35))
    resumed = make()
    resumed.load(tmp_path / "a.chk")
    resumed.run(25)
    assert all(np.array_equal(whole[k].positions, resumed[k].positions) for k in range(3))
    for name in ("steps", "energies", "walkers", "attempted", "accepted", "volumes", "round_trips"):
        assert np.array_equal(getattr(whole, name), getattr(resumed, name)), name
    with pytest.raises(CheckpointError, match=r"these differ: seed \(7 in the checkpoint, 8 here\)"):
        make(seed=8).load(tmp_path / "a.chk")


def test_other_seeds_exchange_otherwise():
    first, second = (ReplicaExchange(wells(), LANGEVIN, [300.0, 330.0, 360.0], every=5, seed=s) for s in (1, 2))
    first.run(200)
    second.run(200)
    assert not np.array_equal(first.walkers, second.walkers)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"temperatures": None}, "states must differ"),
        ({"temperatures": [300.0]}, "at least 2 states"),
        ({"temperatures": [300.0, -1.0]}, "temperatures must be positive"),
        ({"seed": -1}, "seed must be an integer"),
        ({"every": 0}, "every must be an integer"),
        ({"system": [wells(), wells(n=3)]}, "system 1 differs from the first"),
        ({"system": [wells()] * 3}, "one system for each temperature, got 3 and 2"),
        ({"barostat": sponge.MonteCarloBarostat(pressure=1.0, temperature=300)}, "its own must be left out"),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        ReplicaExchange(**{"system": wells(), "integrator": LANGEVIN, "temperatures": [300.0, 330.0], **arguments})


def test_what_has_no_temperature_or_box_is_refused():
    with pytest.raises(TypeError, match="integrator must be one with a temperature"):
        ReplicaExchange(wells(), sponge.VelocityVerlet(timestep=0.001), [300.0, 330.0])
    with pytest.raises(BoxError, match="replica 0: .*must have a periodic box"):
        ReplicaExchange(wells(), LANGEVIN, [300.0, 330.0], barostat=sponge.MonteCarloBarostat(pressure=1.0)).run(10)


# -- REST2 -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def peptide():
    """Alanine dipeptide in water, of which the first 22 atoms are the solute."""
    folder = DATA / "ala2_explicit_pme"
    return sponge.load(
        folder / "alanine-dipeptide.prmtop.gz", folder / "alanine-dipeptide.crd.gz", constraints="h-bonds"
    )


def test_at_the_reference_temperature_nothing_changes(peptide):
    same = sponge.rest2(peptide, range(22), 300.0, 300.0)
    assert same.energy_terms() == peptide.energy_terms() and same.fingerprint() == peptide.fingerprint()


def test_energies_within_the_solute_go_with_lambda_and_those_with_water_with_its_root(peptide):
    before = peptide.energy_terms()

    def only(inside):
        """The nonbonded energy of some atoms, the others having neither charge nor Lennard-Jones."""
        part = peptide.copy()
        for name in ("charges", "epsilons"):
            part.nonbonded.params[name] = np.where(inside, part.nonbonded.params[name], 0.0)
        return part.energy_terms()["nonbonded"]

    solute = np.arange(peptide.n) < 22
    pp, ww = only(solute), only(~solute)
    pw = before["nonbonded"] - pp - ww
    for temperature in (375.0, 600.0):
        factor = 300.0 / temperature
        after = sponge.rest2(peptide, solute, temperature, 300.0).energy_terms()
        assert after["nonbonded"] == pytest.approx(factor * pp + np.sqrt(factor) * pw + ww, rel=1e-9)
        for name in after:
            if name != "nonbonded":  # water has bonds and angles alone, which stay
                expected = factor if name in ("torsion", "pair14") else 1.0
                assert after[name] == pytest.approx(expected * before[name], rel=1e-12), name
    assert {"torsion", "pair14"} < set(before)
    assert peptide.energy_terms() == before  # a copy


def test_terms_half_inside_tables_and_maps_are_scaled():
    rng = np.random.default_rng(0)
    n = 6
    system = sponge.System(
        sponge.Topology.of_particles(n),
        np.ones(n),
        positions=rng.normal(size=(n, 3)) + np.arange(n)[:, None] * [0.4, 0, 0],
    )
    system.add(
        sponge.periodic_torsion(
            [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5]], periodicity=[1, 2, 3], phase=0.3, k=[4.0, 5.0, 6.0]
        )
    )
    chains = np.arange(4) + np.arange(3)[:, None]
    system.add(sponge.CMAP(rng.normal(size=(2, 8, 8)), chains[:2], chains[1:], [0, 0]))
    sigma, epsilon = np.array([[0.3, 0.32], [0.32, 0.35]]), np.array([[0.6, 0.7], [0.7, 0.8]])
    system.add(
        sponge.Nonbonded(
            rng.normal(size=n),
            method="none",
            mixing=sponge.LJTable.from_sigma_epsilon([0, 1, 0, 1, 0, 1], sigma, epsilon),
        )
    )
    factor = 300.0 / 450.0
    hot = sponge.rest2(system, [0, 1, 2, 3, 4], 450.0, 300.0)
    assert hot["torsion"].params["k"] == pytest.approx([4 * factor, 5 * factor, 6 * np.sqrt(factor)])
    both = sponge.rest2(system, range(n), 450.0, 300.0)
    assert both["cmap"].params["maps"].shape == (1, 8, 8)
    x = system.positions
    for name in ("cmap", "nonbonded", "torsion"):
        assert both.energy_terms()[name] == pytest.approx(factor * system.energy_terms()[name], rel=1e-12)
    parts = [
        sponge.rest2(system, [0, 1, 2, 3, 4], t, 300.0).energy_terms(x)["nonbonded"]
        for t in (300.0, 300 / 0.81, 300 / 0.64, 300 / 0.49)
    ]
    quadratic = np.polyfit([1.0, 0.9, 0.8], parts[:3], 2)  # in the root of lambda
    assert np.polyval(quadratic, 0.7) == pytest.approx(parts[3], rel=1e-9)
    maps = hot["cmap"].params["maps"]  # one term within the solute, one across
    assert len(maps) == 2 and maps[hot["cmap"].types[0]] == pytest.approx(maps[hot["cmap"].types[1]] * np.sqrt(factor))


def test_damping_of_drude_particles_goes_with_their_charges(rng):
    """Each term is a quadratic in the root of lambda, by how many of its atoms are the solute's."""
    pairs = np.arange(8).reshape(4, 2)
    x = np.repeat(rng.uniform(0, 0.6, (4, 3)), 2, axis=0) + rng.normal(0, 0.01, (8, 3))
    dipole = np.tile([-1.7, 1.7], 4)
    product = np.array([[0, 0.9, -0.9], [0.9, 0, 0], [-0.9, 0, 0]])
    system = sponge.System(sponge.Topology.of_particles(8), np.tile([16.0, 0.4], 4), positions=x, exclusions=pairs)
    system.add(sponge.Nonbonded(-dipole, np.full(8, 0.3), np.zeros(8), method="none"))
    system.add(sponge.thole_damping(dipole=dipole, screening=np.full(8, 5.0), mixing="product"))
    system.add(sponge.tang_toennies(product=product, b=45.0, c=np.ones((3, 3)), types=[0, 1, 2, 0, 1, 2, 0, 1]))
    system.add(sponge.thole_screening([[0, 2], [1, 3], [3, 5], [5, 7]], charge_product=2.9, damping=20.0))
    names, solute, factor = ("nonbonded", "thole_damping", "tang_toennies", "thole"), np.arange(4), 0.49

    def terms(of, atoms):
        """Energies between these atoms alone."""
        part = of.copy()
        cut = [(i, j) for i in range(8) for j in range(i) if not {i, j} <= set(atoms)]
        part.exclusions = np.concatenate([part.exclusions, np.array(cut, int).reshape(-1, 2)])
        kept = np.isin(part["thole"].atoms, atoms).all(1)
        part["thole"].params["charge_product"] = np.where(kept, 2.9, 0.0)
        found = part.energy_terms()
        return np.array([found[name] for name in names])

    whole, pp, ww = terms(system, range(8)), terms(system, solute), terms(system, np.arange(4, 8))
    found = sponge.rest2(system, solute, 300 / factor, 300.0).energy_terms()
    expected = factor * pp + np.sqrt(factor) * (whole - pp - ww) + ww
    assert np.all(np.abs(whole - pp - ww) > 1e-3) and np.all(np.abs(pp) > 1e-3)
    assert [found[name] for name in names] == pytest.approx(expected, rel=1e-10)


def test_charges_that_cannot_be_scaled_are_named():
    for potential in (
        sponge.InducedDipoles([1.0, -1.0], [0.0, 1e-3], method="none"),
        sponge.ChargeEquilibration([100.0, 200.0], [500.0, 500.0], 0.05),
    ):
        system = sponge.System(sponge.Topology.of_particles(2), np.ones(2), positions=[[0, 0, 0], [0.4, 0, 0]])
        system.add(potential)
        with pytest.raises(ValueError, match=f"cannot be scaled in {type(potential).__name__} '{potential.name}'"):
            sponge.rest2(system, [0], 400.0, 300.0)


def test_solute_tempering_gives_the_same_numbers_on_any_number_of_threads(peptide):
    found, before = [], core.get_threads()
    try:
        for threads in (1, 2, 8):  # replicas one after the other, side by side, and each with several threads
            core.set_threads(threads)
            ladder = [sponge.rest2(peptide, range(22), t, 300.0) for t in (300.0, 306.0, 312.0)]
            rex = ReplicaExchange(ladder, sponge.LangevinMiddle(300, 1.0, 0.002), every=20, seed=1)
            rex.run(70)
            found.append((rex.accepted, rex.cross_energies, rex.each(lambda sim: sim.positions)))
    finally:
        core.set_threads(before)
    assert found[0][0].sum() > 0
    for accepted, energies, positions in found[1:]:
        assert np.array_equal(accepted, found[0][0]) and np.array_equal(energies, found[0][1], equal_nan=True)
        assert np.array_equal(positions, found[0][2])


def test_a_solute_that_is_none_is_refused(peptide):
    for solute, message in (
        ([], "at least one atom"),
        ([0, 9999], "atoms must be 0 to"),
        (np.zeros(5, bool), "one boolean for each"),
    ):
        with pytest.raises(ValueError, match=message):
            sponge.rest2(peptide, solute, 400.0, 300.0)
    with pytest.raises(ValueError, match="temperature must be a positive number"):
        sponge.rest2(peptide, [0], 0.0, 300.0)


# -- velocities ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("several", [False, True], ids=["one system", "a system for each state"])
def test_exchanged_velocities_have_the_temperature_of_the_state_they_come_to(several):
    """Free particles always exchange. Hardly any friction: the thermostat cannot mend what the exchange does."""
    n, temperatures = 400, np.array([300.0, 600.0, 1000.0])
    free = sponge.System(
        sponge.Topology.of_particles(n), np.full(n, 40.0), positions=np.zeros((n, 3)), remove_com_motion=False
    )
    rex = ReplicaExchange(
        [free, free.copy(), free.copy()] if several else free,
        sponge.LangevinMiddle(temperature=300, friction=1e-4, timestep=0.001),
        temperatures,
        every=1,
        seed=1,
    )
    before = {}
    for _ in range(4):  # of the first two and of the last two by turns
        order = rex._order.copy()
        rex.run(1, replica_report=lambda k: sponge.Callback(1, lambda sim: before.update({k: sim.velocities.copy()})))
        came_from = [int(np.flatnonzero(order == walker)[0]) for walker in rex._order]
        for k, other in enumerate(came_from):
            scale = np.sqrt(temperatures[k] / temperatures[other])
            np.testing.assert_allclose(rex[k].velocities, before[other] * scale, rtol=1e-12)
            error = 4 * np.sqrt(2 / (3 * n))  # of a chi-squared number with 3 n degrees of freedom
            assert temperature_of(free, rex[k].velocities) == pytest.approx(temperatures[k], rel=error)
    assert np.all(rex.acceptance == 1) and rex.attempted.tolist() == [2, 2]
