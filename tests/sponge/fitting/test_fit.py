"""Fits: parameters that are known are found again, by every way; what cannot be fitted is said to be so."""

import numpy as np
import pytest

from tests.reporting import stop_at
from tests.sponge.reference import load_reference
from triskele import sponge
from triskele.sponge import differentiate, fitting, targets
from triskele.sponge.errors import CheckpointError
from triskele.sponge.load.openmm_xml import load_openmm

T = 300.0
RT = sponge.units.GAS_CONSTANT * T
BATH = sponge.LangevinMiddle(temperature=T, friction=5.0, timestep=0.01)


def springs(k=100.0, n=40):
    """Atoms, each tied to its place."""
    x = np.random.default_rng(0).normal(size=(n, 3))
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), positions=x, remove_com_motion=False)
    system.add(
        sponge.FunctionPotential(lambda positions, k: 0.5 * k * np.sum((positions - x) ** 2), {"k": k}, name="springs")
    )
    return system, lambda positions, box: np.mean((positions - x) ** 2)


def diatomics(count=3):
    """Bonds of two types, stretched at random."""
    rng = np.random.default_rng(1)
    system = sponge.System(
        sponge.Topology.of_particles(4), np.full(4, 12.0), positions=np.arange(12.0).reshape(4, 3) * 0.06
    )
    system.add(sponge.harmonic_bond([[0, 1], [1, 2], [2, 3]], k=[800.0, 1500.0, 800.0], r0=[0.11, 0.13, 0.11]))
    return system, system.positions + rng.normal(size=(count, 4, 3)) * 0.02


# -------------------------------------------------------------------------------------------------- energies and forces
@pytest.mark.parametrize("given", [("energies",), ("forces",), ("energies", "forces")])
def test_bonds_from_energies_and_forces(given):
    """Exact data, the offset of the energies unknown: parameters come back to rounding."""
    system, frames = diatomics(12)
    data = {"energies": [system.energy(x) + 123.0 for x in frames], "forces": [system.forces(x) for x in frames]}
    wrong = system.copy()
    wrong.set_params({"bond": {"k": [1000.0, 1000.0001, 1000.0], "r0": [0.12, 0.121, 0.12]}})
    found = sponge.fit(wrong, [targets.energies_forces(frames, **{k: data[k] for k in given})], ["bond/k", "bond/r0"])
    assert found.parameters["bond/k"] == pytest.approx([800, 1500], rel=1e-6)
    assert found.parameters["bond/r0"] == pytest.approx([0.11, 0.13], rel=1e-7)
    assert found.system["bond"].params["k"] == pytest.approx([800, 1500, 800], rel=1e-6)
    assert wrong["bond"].params["k"][0] == 1000
    assert found.converged and "bond/k" in str(found)


def test_errors_are_those_of_linear_regression():
    """Noisy energies of one bond, in k alone: the standard error is known."""
    rng = np.random.default_rng(0)
    system = sponge.System(sponge.Topology.of_particles(2), [12.0, 12.0], positions=[[0, 0, 0], [0.16, 0, 0]])
    system.add(sponge.harmonic_bond([[0, 1]], k=1000.0, r0=0.15))
    r = np.linspace(0.1, 0.2, 200)
    frames = np.zeros((200, 2, 3))
    frames[:, 1, 0] = r
    f, noise = 0.5 * (r - 0.15) ** 2, 0.05
    found = sponge.fit(
        system,
        [targets.energies_forces(frames, 900 * f + noise * rng.normal(size=200), offset=False)],
        {"bond/k": "free"},
    )
    assert found.errors["bond/k"] == pytest.approx(noise / np.sqrt(np.sum(f * f)), rel=0.15)
    assert abs(found.parameters["bond/k"] - 900) < 4 * found.errors["bond/k"]


def test_charges_and_torsions_of_a_peptide():
    """Alanine dipeptide: a scale of all charges, and torsions, from forces; zeros stay zeros."""
    reference = load_reference("ala2_vacuum")
    system = load_openmm(reference.xml, positions=reference.positions, box=reference.box)
    torsion = next(p for p in system.potentials if "torsion" in p.name)
    frames = system.positions + np.random.default_rng(0).normal(size=(3, system.n, 3)) * 0.01
    forces = [system.forces(x) for x in frames]
    charges, k = system.nonbonded.params["charges"], torsion.params["k"]
    start = {"scale": 0.9, "torsions": 1.3 * np.ones(2)}

    def params(theta):
        half = np.arange(len(k)) % 2
        return {
            system.nonbonded.name: {"charges": theta["scale"] * charges},
            torsion.name: {"k": theta["torsions"][half] * k},
        }

    found = sponge.fit(system, [targets.energies_forces(frames, forces=forces)], (start, params))
    assert found.parameters["scale"] == pytest.approx(1, rel=1e-6)
    assert found.parameters["torsions"] == pytest.approx([1, 1], rel=1e-5)


def test_zeros_and_ties():
    system, _ = diatomics()
    p = fitting.Parameters(system, {"bond/k": "free"})
    system["bond"].params["k"][:] = [0.0, 5.0, 5.0]
    q = fitting.Parameters(system, ["bond/k"])
    assert p.size == 2 and q.size == 1
    assert q.params(np.array([0.1]))["bond"]["k"] == pytest.approx([0, 5 * np.exp(0.1), 5 * np.exp(0.1)])
    assert p.params(np.array([0.1, 0.2]))["bond"]["k"] == pytest.approx([800 * 1.1, 1500 * 1.2, 800 * 1.1])


def test_products_of_pairs_and_charges_of_a_solvent_follow_the_charges():
    """In AMBER's force fields products of 1-4 pairs are those of the charges over 1.2."""
    system = sponge.load(*sponge.example_files("alanine-dipeptide"), implicit_solvent="obc2")
    u = np.random.default_rng(0).normal(0, 0.1, fitting.Parameters(system, ["nonbonded/charges"]).size)
    found = fitting.Parameters(system, ["nonbonded/charges"]).params(u)
    q, (i, j) = found["nonbonded"]["charges"], system["pair14"].atoms.T
    assert np.abs(q - system.nonbonded.params["charges"]).max() > 0.02
    np.testing.assert_allclose(found["pair14"]["charge_product"], q[i] * q[j] / 1.2, atol=1e-6)
    np.testing.assert_array_equal(found["gb"]["charges"], q)
    parameters = fitting.Parameters(system, ["nonbonded/charges", "pair14/charge_product"])
    apart = parameters.params(np.zeros(parameters.size))
    np.testing.assert_allclose(apart["pair14"]["charge_product"], system["pair14"].params["charge_product"], atol=1e-12)


# ---------------------------------------------------------------------------------------------------------------
# averages
def ways():
    yield fitting.Reweighting(BATH, steps=10_000, every=50, equilibrate=500)
    for method in ("reversible", "checkpoint"):
        yield fitting.Trajectories(BATH, steps=200, every=10, relax=100, replicas=4, equilibrate=200, method=method)


@pytest.mark.parametrize("by", list(ways()), ids=["reweighting", "reversible", "checkpoint"])
def test_spring_from_its_fluctuations(by):
    """<x^2> = RT / k: 4 % off at the start, found within the errors, which are small."""
    system, spread = springs(k=104.0)
    found = sponge.fit(
        system, [targets.observable(spread, RT / 100, error=0.01 * RT / 100)], ["springs/k"], by=by, rounds=4
    )
    k, error = found.parameters["springs/k"], found.errors["springs/k"]
    assert error < 6
    assert abs(k - 100) < 4 * error + 0.2
    assert found.reached["<lambda>"] == pytest.approx(RT / 100, rel=0.02)
    assert len(found.history) <= 4 and found.history[-1].loss < found.history[0].loss + 1e-9


@pytest.mark.parametrize(
    "by",
    [
        fitting.Reweighting(BATH, steps=1000, every=50, least=0.9),
        fitting.Trajectories(BATH, steps=40, every=10, relax=20, replicas=2, equilibrate=40),
    ],
    ids=["reweighting", "trajectories"],
)
def test_a_fit_to_averages_resumes_bit_for_bit(by, tmp_path):
    system, spread = springs(k=200.0)

    def run(**options):
        given = targets.observable(spread, RT / 100, error=1e-5 * RT / 100)
        return sponge.fit(system, [given], ["springs/k"], by=by, rounds=3, tolerance=1e-9, **options)

    whole = run()
    part = run(checkpoint=tmp_path / "a.chk", report=stop_at(1))
    assert len(part.history) == 1 < len(whole.history)
    for _ in range(2):  # resumed, and finished
        again = run(checkpoint=tmp_path / "a.chk")
        assert again.parameters == whole.parameters and again.errors == whole.errors
        assert [r.loss for r in again.history] == [r.loss for r in whole.history]
        np.testing.assert_array_equal(again.reached["<lambda>"], whole.reached["<lambda>"])
    with pytest.raises(CheckpointError, match=r"a\.chk.*these differ: parameters"):
        sponge.fit(
            springs(k=210.0)[0],
            [targets.observable(spread, RT / 100, error=1e-5 * RT / 100)],
            ["springs/k"],
            by=by,
            tolerance=1e-9,
            checkpoint=tmp_path / "a.chk",
        )


def test_averages_and_energies_together():
    """Two targets that disagree: the fit lies where the sum of squares is least."""
    system, spread = springs(k=100.0)
    frames = system.positions + np.random.default_rng(2).normal(size=(5, system.n, 3)) * 0.1
    weak = system.copy()
    weak.set_params({"springs": {"k": 90.0}})
    forces = targets.energies_forces(frames, forces=[weak.forces(x) for x in frames], force_error=1e-3)
    found = sponge.fit(system, [targets.observable(spread, RT / 100), forces], ["springs/k"], by=next(ways()), rounds=3)
    assert found.parameters["springs/k"] == pytest.approx(90.0, rel=1e-3)


def argon(sigma, epsilon):
    n, edge = 27, 1.11
    x = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3) * edge / 3
    system = sponge.System(sponge.Topology.of_particles(n, "AR", 18), np.full(n, 39.948), edge, x)
    system.add(
        sponge.Nonbonded(np.zeros(n), np.full(n, sigma), np.full(n, epsilon), method="cutoff", cutoff=0.54, switch=0.4)
    )
    return system


@pytest.mark.slow
@pytest.mark.parametrize("way", ["reweighting", "reversible", "checkpoint"])
def test_lennard_jones_from_structure_and_pressure(way):
    """A drop of argon in a small box: epsilon and sigma come back within four errors, which are a few per cent and per
    mille.
    """
    bath = sponge.LangevinMiddle(temperature=150, friction=2.0, timestep=0.01)
    r = np.linspace(0.3, 0.5, 15)
    true = argon(0.34, 1.0)
    frames = fitting.sample(true, bath, 40_000, every=50, equilibrate=1000, seed=5)
    pressure = differentiate.observables.pressure(true, 150)
    known = differentiate.Ensemble(differentiate.explicit_energy(true), 150).add(
        true.params(), frames.positions, frames.boxes
    )
    g, p = known.average([differentiate.observables.rdf(r), pressure], true.params())
    by = (
        fitting.Reweighting(bath, steps=10_000, every=50, equilibrate=500)
        if way == "reweighting"
        else fitting.Trajectories(bath, steps=120, every=10, relax=60, replicas=12, equilibrate=300, method=way)
    )
    names = ["nonbonded/epsilons", "nonbonded/sigmas"]
    found = sponge.fit(
        argon(0.336, 1.04), [targets.rdf(r, g, error=0.03), targets.pressure(p, error=30.0)], names, by=by, rounds=5
    )
    for name, value, largest in zip(names, (1.0, 0.34), (0.15, 0.002)):
        assert found.errors[name] < largest
        assert abs(found.parameters[name] - value) < 4 * found.errors[name] + 1e-3 * value


# --------------------------------------------------------------------------------------------------------------- bad
# input
def test_bad_input():
    system, spread = springs()
    target, by = targets.observable(spread, RT / 100), next(ways())
    with pytest.raises(KeyError, match=r"no parameter 'springs/kk' \(did you mean 'springs/k'\? known: springs/k"):
        sponge.fit(system, [target], ["springs/kk"], by=by)
    with pytest.raises(KeyError, match="no potential 'spring'; there are springs"):
        sponge.fit(system, [target], ({"k": 1.0}, lambda theta: {"spring": {"k": theta["k"]}}), by=by)
    with pytest.raises(ValueError, match="what the function returns: 'springs/k' must have shape"):
        sponge.fit(system, [target], ({"k": np.ones(3)}, lambda theta: {"springs": {"k": theta["k"]}}), by=by)
    with pytest.raises(ValueError, match="by must say how averages are made"):
        sponge.fit(system, [target], ["springs/k"])
    with pytest.raises(TypeError, match="list of targets"):
        sponge.fit(system, [RT], ["springs/k"], by=by)
    with pytest.raises(ValueError, match="at least one parameter"):
        sponge.fit(system, [target], [], by=by)
    with pytest.raises(ValueError, match="must have a temperature"):
        sponge.fit(system, [target], ["springs/k"], by=fitting.Reweighting(sponge.VelocityVerlet(0.001), 100, 10))
    with pytest.raises(ValueError, match="relax must be"):
        sponge.fit(system, [target], ["springs/k"], by=fitting.Trajectories(BATH, 100, 10, relax=100))
    with pytest.raises(ValueError, match="errors must be positive"):
        targets.pressure(1.0, error=0.0)
    with pytest.raises(ValueError, match="forces must be finite and have shape"):
        targets.energies_forces(np.zeros((2, 3, 3)), forces=np.zeros((2, 3)))


def test_what_has_no_gradient():
    system, spread = springs(n=5)
    constant = targets.observable(lambda positions, box: 0 * positions[0, 0] + 3.0, 4.0, name="constant")
    by = fitting.Reweighting(BATH, steps=200, every=50)
    with pytest.raises(ValueError, match="target 'constant' must depend on the parameters"):
        sponge.fit(system, [constant], ["springs/k"], by=by)
    idle = {"k": 100.0, "nothing": 1.0}, lambda theta: {"springs": {"k": theta["k"]}}
    with pytest.raises(ValueError, match="number 1 of k, nothing has none"):
        sponge.fit(system, [targets.observable(spread, RT / 100)], idle, by=by)
