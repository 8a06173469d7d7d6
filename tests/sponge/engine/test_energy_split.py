"""The energy split: parts against direct sums, scaled forces against derivatives of what they belong to, and dynamics
with them.
"""

import numpy as np
import pytest

from tests.sponge.reference import DATA, load_reference
from triskele import core, sponge
from triskele.sponge.barostats.molecules import Molecules
from triskele.sponge.box import displacement
from triskele.sponge.engine.energy_split import EnergySplit, enhanced_terms, solute_mask
from triskele.sponge.engine.engine import Engine
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.neighbors.pairs import find_pairs
from triskele.sponge.potentials.crystals import eam, stillinger_weber
from triskele.sponge.potentials.nonbonded.energy import excluded, pair_energies, reciprocal
from triskele.sponge.run.sampling_method import Sampling
from triskele.sponge.testing import example_system
from triskele.sponge.units import GAS_CONSTANT, kcal_per_mol

DEFAULT = ("torsion", "improper", "cmap", "pair14")
LANGEVIN = sponge.LangevinMiddle(temperature=300, friction=2.0, timestep=0.001)


def peptide():
    """A peptide of CHARMM27 in a leaning box with PME: 73 atoms with torsions, impropers, CMAP and 1-4 pairs."""
    system = sponge.load(*[DATA / "amber" / f"chamber.{suffix}.gz" for suffix in ("prmtop", "rst7")], cutoff=0.8)
    system.positions = system.positions + np.random.default_rng(5).normal(scale=0.005, size=(system.n, 3))
    return system


HEAD = np.arange(73) < 40  # torsions and CMAP reach across the boundary


class Scaled(Sampling):
    """Forces with given factors."""

    name = "scaled"

    def __init__(self, solute, scales=(1.0, 1.0), terms=None, reciprocal=False):
        self.solute, self.terms, self.reciprocal, self._scales = solute, terms, reciprocal, scales

    def split(self, engine):
        mask = solute_mask(engine.system, self.solute)
        split = EnergySplit(
            engine,
            mask,
            self.terms if self.terms == "all" else enhanced_terms(engine.system, self.terms),
            self.reciprocal,
        )
        split.scales[:] = self._scales
        return split

    def plan(self, engine):
        return sponge.Plan()


def pure_parts(system, mask, terms=DEFAULT, with_reciprocal=False):
    """U_pp and U_pw as a function of positions and box, by sums over the pairs of now and over terms of the
    potentials.
    """
    nonbonded = system.nonbonded
    form, params = nonbonded.form(system.box), nonbonded.params
    pairs = find_pairs(system.positions, system.box, form.cutoff, nonbonded.exclusions)
    excluded_pairs = nonbonded.exclusions.astype(np.int64)

    def charges(of):
        return params | {"charges": params["charges"] * of, "epsilons": params["epsilons"] * of}

    def energy(positions, box):
        found = []
        for kind, all_or_any in ((2, np.all), (1, np.any)):
            i, j = pairs[mask[pairs].sum(1) == kind].T
            r2 = np.sum(displacement(positions[i] - positions[j], box) ** 2, axis=-1)
            e = np.sum(pair_energies(form, params, i, j, None, r2))
            for p in system.potentials:
                if p.name in terms:
                    inside = mask[p.atoms]
                    part = p.subset(all_or_any(inside, 1) & (np.all(inside, 1) == (kind == 2)))
                    e = e + part.energy(part.params, positions, box)
            if with_reciprocal:
                own, rest = (reciprocal(form, charges(m), positions, box) for m in (mask, ~mask))
                e = e + (own if kind == 2 else reciprocal(form, params, positions, box) - own - rest)
                e = e + excluded(form, params, positions, box, excluded_pairs[mask[excluded_pairs].sum(1) == kind])
            found.append(e)
        return found[0], found[1]

    return energy


def total(system):
    return lambda positions, box: sum(p.energy(p.params, positions, box) for p in system.potentials)


def derivatives(function, system):
    """Value, forces, and virial W_ab = -dU/d(strain_ab) at the positions and box of a system."""

    def strained(strain, positions):
        unit = np.eye(3)
        return function(positions @ (unit + strain), system.box @ (unit + strain))

    value, (by_strain, gradient) = core.value_and_grad(strained, (0, 1))(np.zeros((3, 3)), system.positions)
    return float(value), -np.asarray(gradient), -np.asarray(by_strain).T


def assert_close(found, expected, tolerance):
    scale = max(np.abs(expected).max(), 1.0)
    assert np.abs(np.asarray(found) - expected).max() <= tolerance * scale


class TestParts:
    @pytest.mark.parametrize("method, reciprocal", [("pme", False), ("pme", True), ("ljpme", True)])
    def test_of_a_peptide(self, method, reciprocal):
        """Energies, forces with any factors, and the virial, in terms of parts summed directly."""
        system, (pp, pw) = peptide(), (0.4, 1.3)
        system.nonbonded.update(method=method)
        engine = Engine(system, "double", sampling=[Scaled(HEAD, (pp, pw), reciprocal=reciprocal)])
        engine.compute()
        parts = pure_parts(system, HEAD, with_reciprocal=reciprocal)
        expected = [float(e) for e in parts(system.positions, system.box)]
        assert engine.split.energies == pytest.approx(expected, rel=1e-10)
        energy = total(system)
        assert sum(engine.energies().values()) == pytest.approx(float(energy(system.positions, system.box)), rel=1e-10)

        def scaled(positions, box):
            u_pp, u_pw = parts(positions, box)
            return energy(positions, box) + (pp - 1) * u_pp + (pw - 1) * u_pw

        _, forces, virial = derivatives(scaled, system)
        assert_close(engine.forces, forces, 1e-9)
        assert_close(engine.virial(), virial, 1e-8)
        again = engine.forces.copy()
        engine.split.energies[:] = np.nan
        engine.compute(energy=False)  # the parts are there at every evaluation
        assert engine.split.energies == pytest.approx(expected, rel=1e-10)
        assert_close(engine.forces, again, 1e-11)

    def test_mixed_precision(self):
        system = peptide()
        engine = Engine(system, "mixed", sampling=[Scaled(HEAD)])
        for energy in (True, False):
            engine.compute(energy=energy)
            expected = [float(e) for e in pure_parts(system, HEAD)(system.positions, system.box)]
            assert engine.split.energies == pytest.approx(expected, rel=2e-5, abs=0.02)

    def test_of_alanine_dipeptide_in_water(self):
        reference = load_reference("ala2_explicit_pme")
        system = load_openmm(reference.xml, positions=reference.positions, box=reference.box)
        engine = Engine(system, "double", sampling=[Scaled(range(22))])
        engine.compute()
        expected = pure_parts(system, np.arange(system.n) < 22)(system.positions, system.box)
        assert engine.split.energies == pytest.approx([float(e) for e in expected], rel=1e-10)
        assert_close(engine.forces, reference.forces["total"], 3e-4)  # its mesh is another

    def test_terms_by_name(self):
        system = peptide()
        engine = Engine(system, "double", sampling=[Scaled(HEAD, terms=["bond", "cmap"])])
        engine.compute()
        expected = pure_parts(system, HEAD, ("bond", "cmap"))(system.positions, system.box)
        assert engine.split.energies == pytest.approx([float(e) for e in expected], rel=1e-10)

    def test_everything(self):
        """Also what acts from outside, functions, the reciprocal sum and the dispersion correction."""
        system = peptide()
        system.add(sponge.PositionRestraint([3, 5], k=900.0, reference=system.positions[[3, 5]] + 0.05))
        system.add(sponge.FunctionPotential(lambda positions: np.sum(positions**2), name="harmonic"))
        engine = Engine(system, "double", sampling=[Scaled(None, (0.5, 1.0), terms="all")])
        engine.compute(energy=False)
        engine.compute(system.positions + 0.001, energy=False)
        plain = Engine(system, "double")
        plain.compute(system.positions + 0.001)
        assert engine.split.energies == pytest.approx([sum(plain.energies().values()), 0.0], rel=1e-12)
        assert_close(engine.forces, 0.5 * plain.forces, 1e-12)
        engine.compute()
        assert_close(engine.virial(), 0.5 * plain.virial(), 1e-10)

    @pytest.mark.parametrize("make", [eam.example, stillinger_weber.example])
    def test_potentials_of_many_bodies(self, make):
        """They are one part of the energy as a whole, also after atoms have moved so far that lists are rebuilt."""
        potentials, options = make()[-1]
        system = example_system(*potentials, **options)
        mask, names = np.arange(system.n) < 5, [p.name for p in potentials]
        engine, plain = Engine(system, "double", sampling=[Scaled(mask, (0.5, 1.0), names)]), Engine(system, "double")
        for shift in (0.0, 0.4):
            x = system.positions + shift * mask[:, None]
            engine.compute(x, energy=False)
            plain.compute(x)
            assert engine.split.energies == pytest.approx([sum(plain.energies().values()), 0.0], rel=1e-12)
            assert_close(engine.forces, 0.5 * plain.forces, 1e-12)

    def test_all_pairs_without_cutoff_need_a_whole_system(self):
        system = load_openmm(load_reference("ala2_obc2").xml, positions=load_reference("ala2_obc2").positions)
        names = [p.name for p in system.potentials]
        engine, plain = Engine(system, sampling=[Scaled(range(22), terms=names)]), Engine(system)
        for e in (engine, plain):
            e.compute(energy=e is plain)
        assert engine.split.energies[0] == pytest.approx(sum(plain.energies().values()), rel=1e-12)
        with pytest.raises(ValueError, match="all pairs without cut-off.*give it a cut-off"):
            Engine(system, sampling=[Scaled(range(10))])


class TestEffectiveEnergy:
    """SITS with frozen n_k moves atoms in U_eff, and in nothing else."""

    LADDER = np.linspace(280.0, 600.0, 12)

    def sits(self, system, cross=0.5, **options):
        """With n_k that give all temperatures the same weight at about the present energy."""
        sits = sponge.SITS(HEAD, self.LADDER, temperature=300.0, cross=cross, **options)
        engine = Engine(system, "double", sampling=[Scaled(HEAD, terms=options.get("terms"))])
        engine.compute()
        sits.log_n = (engine.split.energies @ [1, cross] + 5) / (GAS_CONSTANT * self.LADDER)
        return sits.produce()

    def effective(self, system, sits, cross):
        energy, parts = total(system), pure_parts(system, HEAD)
        beta, betas, log_n = 1 / (GAS_CONSTANT * 300.0), 1 / (GAS_CONSTANT * self.LADDER), sits.log_n

        def bias(e):
            x = log_n - betas * e
            largest = core.stop_gradient(np.max(x))
            return -e - (largest + np.log(np.sum(np.exp(x - largest)))) / beta

        def function(positions, box):
            u_pp, u_pw = parts(positions, box)
            return energy(positions, box) + bias(u_pp + cross * u_pw)

        return function, bias

    @pytest.mark.parametrize("cross", [0.0, 0.5, 1.0])
    def test_forces_and_virial_are_its_derivatives(self, cross):
        system = peptide()
        sits = self.sits(system, cross)
        sim = sponge.Simulation(system, LANGEVIN, sampling=[sits], precision="double")
        engine = sim._engine
        engine.compute()
        function, bias = self.effective(system, sits, cross)
        value, forces, virial = derivatives(function, system)
        assert sum(engine.energies().values()) == pytest.approx(value, rel=1e-10)
        assert_close(engine.forces, forces, 1e-9)
        assert_close(engine.virial(), virial, 1e-8)
        f = 1 + float(core.grad(bias)(engine.split.energies @ [1, cross]))
        assert self.LADDER[0] / 300 < 1 / f < self.LADDER[-1] / 300 and abs(f - 1) > 0.01
        assert engine.split.scales == pytest.approx([f, 1 + cross * (f - 1)], rel=1e-12)
        assert sim.energies()["potential"] == pytest.approx(value, rel=1e-10)

    def test_forces_against_finite_differences(self):
        system = peptide()
        engine = sponge.Simulation(system, LANGEVIN, sampling=[self.sits(system)], precision="double")._engine
        direction = np.random.default_rng(1).normal(size=(system.n, 3))

        def energy(h):
            engine.compute(system.positions + h * direction)
            return sum(engine.energies().values())

        h = 1e-5
        slope = (8 * (energy(h) - energy(-h)) - (energy(2 * h) - energy(-2 * h))) / (12 * h)
        engine.compute(system.positions)
        assert -np.sum(engine.forces * direction) == pytest.approx(slope, rel=1e-5)

    def test_an_offset_of_the_energy_changes_nothing(self):
        """n_k that have learned of the offset undo it, whatever its size; without them exp(-beta E) would overflow."""
        found = []
        for offset in (0.0, 100 * kcal_per_mol, -100 * kcal_per_mol, 1e6):
            system = peptide()
            system.add(
                sponge.FunctionPotential(lambda positions, c: c + 0.0 * positions[0, 0], {"c": offset}, name="offset")
            )
            sits = self.sits(system, terms=[*DEFAULT, "offset"])
            sim = sponge.Simulation(system, LANGEVIN, sampling=[sits], precision="double")
            sim._engine.compute()
            found.append((sim._engine.split.scales.copy(), sim._engine.forces.copy()))
            assert np.isfinite(sim.energies()["sits"])
        for scales, forces in found[1:]:
            assert scales == pytest.approx(found[0][0], rel=1e-9)
            assert_close(forces, found[0][1], 1e-9)

    def test_constant_energy(self):
        system = peptide()
        sim = sponge.Simulation(system, LANGEVIN, precision="double")
        sim.minimize(max_steps=200)
        sim.run(400)
        system.positions = sim.positions
        sim = sponge.Simulation(
            system, sponge.VelocityVerlet(timestep=0.0005), sampling=[self.sits(system)], precision="double"
        )
        sim.thermalize(300.0, seed=2)
        start, factors, totals = sim.energies()["total"], [], []
        for _ in range(20):
            sim.run(50)
            factors.append(sim._engine.split.scales[0])
            totals.append(sim.energies()["total"])
        assert np.ptp(factors) > 0.003  # the bias did work
        assert np.abs(np.array(totals) - start).max() < 0.01 * sim.kinetic_energy


class TestDynamics:
    def run(self, sampling, steps=60, **options):
        sim = sponge.Simulation(peptide(), LANGEVIN, seed=3, sampling=sampling, **options)
        sim.run(steps)
        return sim.positions

    def single(self, solute):
        sits = sponge.SITS(solute, [300.0])
        sits.log_n = [17.3]
        return sits.produce()

    @pytest.mark.parametrize("precision, tolerance", [("mixed", 1e-6), ("double", 0.0)])
    def test_one_temperature_is_plain_dynamics(self, precision, tolerance):
        """Bit for bit in double precision. In mixed precision, loops with and without energies are compiled apart and
        may fuse other multiplications and additions, so that the last bits of forces in float32 differ.
        """
        plain = self.run([], precision=precision)
        for sampling in (self.single(None), Scaled(None, terms="all")):
            assert np.allclose(self.run([sampling], precision=precision), plain, rtol=0.0, atol=tolerance)

    def test_one_temperature_of_a_solute(self):
        assert np.array_equal(self.run([self.single(HEAD)]), self.run([Scaled(HEAD)]))
        # sums in another order
        assert_close(self.run([self.single(HEAD)], 20, precision="double"), self.run([], 20, precision="double"), 1e-9)

    def test_results_do_not_depend_on_the_number_of_threads(self):
        found, before = [], core.get_threads()
        try:
            for threads in (1, 2):
                core.set_threads(threads)
                found.append(self.run([Scaled(HEAD, (0.7, 0.9))]))
        finally:
            core.set_threads(before)
        assert np.array_equal(*found)

    def test_a_run_goes_on_from_a_checkpoint_bit_for_bit(self, tmp_path):
        def make():
            sits = sponge.SITS(HEAD, [290.0, 300.0, 350.0])
            sits.log_n = [1.0, 2.0, 3.0]
            return sponge.Simulation(peptide(), LANGEVIN, seed=3, sampling=[sits.produce()])

        sim = make()
        sim.run(30)
        sim.save(tmp_path / "run.chk")
        sim.run(30)
        again = make()
        again.load(tmp_path / "run.chk")
        again.run(30)
        assert np.array_equal(sim.positions, again.positions)

    def test_the_pressure_is_that_of_the_effective_energy(self):
        """-dU_eff/dV as the box is scaled with the centers of molecules."""
        system, scales = peptide(), np.array([0.5, 0.75])
        system.nonbonded.update(dispersion_correction=False)  # which adds the step at the cut-off
        engine = Engine(system, "double", sampling=[Scaled(HEAD, scales)])
        engine.compute()
        whole, parts, energy = Molecules(engine), pure_parts(system, HEAD), total(system)
        centers = whole.centers(system.positions)[whole.of]

        def effective(scale):
            positions, box = system.positions + (scale - 1) * centers, system.box * scale
            u_pp, u_pw = parts(positions, box)
            return energy(positions, box) + (scales[0] - 1) * u_pp + (scales[1] - 1) * u_pw

        slope = float(core.grad(effective)(1.0))
        assert whole.pressure().mean() == pytest.approx(-slope / (3 * np.linalg.det(system.box)), rel=1e-8)


class TestErrors:
    @pytest.mark.parametrize(
        "solute, error, match",
        [
            ([], ValueError, "at least one atom"),
            (np.zeros(73, bool), ValueError, "at least one atom"),
            ([0, 73], ValueError, "atoms must be 0 to 72, got 0 to 73"),
            ([-1], ValueError, "atoms must be 0 to 72, got -1 to -1"),
            ([1, 4, 1], ValueError, "got 1 twice"),
            ([True, False], ValueError, "one boolean for each of 73 atoms, got 2"),
            ([0.5], TypeError, "atom indices"),
            ([[0, 1]], TypeError, "atom indices"),
            (3, TypeError, "atom indices"),
        ],
    )
    def test_solute(self, solute, error, match):
        with pytest.raises(error, match=match):
            solute_mask(peptide(), solute)

    def test_masks_and_indices_are_the_same(self):
        system = peptide()
        assert np.array_equal(solute_mask(system, range(40)), HEAD)
        assert np.array_equal(solute_mask(system, HEAD), HEAD)
        assert np.array_equal(solute_mask(system, list(HEAD)), HEAD)
        assert solute_mask(system, None).all()

    def test_terms(self):
        system = peptide()
        assert set(enhanced_terms(system, None)) == set(DEFAULT)
        with pytest.raises(ValueError, match="got 'dihedral'.*torsion"):
            enhanced_terms(system, ["dihedral"])
        with pytest.raises(TypeError, match="got the string 'torsion'"):
            enhanced_terms(system, "torsion")

    def test_two_splits(self):
        with pytest.raises(ValueError, match="only one sampling method"):
            Engine(peptide(), sampling=[Scaled(HEAD), Scaled(HEAD)])

    def test_respa(self):
        sim = sponge.Simulation(
            peptide(), sponge.RESPA(timestep=0.002, inner=2, fast=["bond"]), sampling=[Scaled(HEAD)]
        )
        with pytest.raises(ValueError, match="not RESPA"):
            sim.run(1)

    def test_failures_of_compiled_functions_are_reported(self):
        """They are told through flags that such tasks do not share with the engine."""
        engine = Engine(peptide(), sampling=[Scaled(HEAD)])
        engine.split.flags[1] = 9999
        with pytest.raises(RuntimeError, match="energy split: status 9999"):
            engine.compute()
        engine.compute()
