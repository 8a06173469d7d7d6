"""Pair kernels against sums over pairs in plain NumPy: every combination of formulas, both precisions, any threads."""

import numpy as np
import pytest

from tests.twins import pair_forces as twin
from triskele import core
from triskele.sponge.box import as_box
from triskele.sponge.engine.engine import Engine
from triskele.sponge.neighbors import shared_list
from triskele.sponge.potential import Potential
from triskele.sponge.potentials.nonbonded.forms import PairForm, ewald_root, pair_gradients, plan_pairs
from triskele.sponge.system import System
from triskele.sponge.topology import Topology

CUTOFF, ALPHA = 0.9, 3.1
BOXES = {
    "cube": as_box(2.2),
    "triclinic": as_box([[2.3, 0, 0], [0.7, 2.2, 0], [-0.9, 0.8, 2.1]]),
    "none": None,
}


class Pairs(Potential):
    """Nothing but the pairs of one form."""

    def __init__(self, form, **values):
        self.name, self.params, self.form, self.values = "pairs", {}, form, values

    def plan(self, engine):
        return plan_pairs(engine, self.form, **self.values)


def liquid(box, n=300, seed=0):
    """Atoms no closer than 0.2 nm, two thirds of them without Lennard-Jones, some of their pairs excluded."""
    rng = np.random.default_rng(seed)
    cell = np.diag([2.2] * 3) if box is None else box
    m = int(np.ceil(n ** (1 / 3)))
    grid = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)[:n] / m
    positions = (grid + rng.uniform(-0.02, 0.02, (n, 3))) @ cell + rng.integers(-3, 4, (n, 3)) @ (
        0 * cell if box is None else cell
    )
    has_lj = np.arange(n) % 3 == 0
    exclusions = np.array([(a, b) for a in range(0, n - 2, 3) for b in (a + 1, a + 2)])
    return (
        positions,
        exclusions,
        {
            "charges": rng.uniform(-1, 1, n),
            "sigmas": rng.uniform(0.2, 0.35, n) * np.where(has_lj, 1, 0.3),
            "epsilons": rng.uniform(0.3, 1.0, n) * has_lj,
            "types": rng.integers(0, 3, n),
        },
    )


def computed(form, box, positions, exclusions, values, precision="double", groups=None):
    system = System(
        Topology.of_particles(len(positions)),
        np.ones(len(positions)),
        box=box,
        positions=positions,
        exclusions=exclusions,
    )
    system.add(Pairs(form, **values))
    engine = Engine(system, precision, groups=groups)
    engine.compute(energy=False)
    forces = engine.forces.copy()
    engine.compute()
    assert np.allclose(
        engine.forces, forces, rtol=2e-5 if precision == "mixed" else 1e-12, atol=np.abs(forces).max() * 1e-6
    )
    return engine, engine.energies()["pairs"], forces, engine.virial()


def expected(form, box, positions, exclusions, values):
    i, j, d = twin.all_pairs(positions, box, form.cutoff, exclusions)
    r = np.linalg.norm(d, axis=1)
    lj = (values["types"], *form.table) if form.mixing == "table" else (values["sigmas"], values["epsilons"])
    u, f = twin.lennard_jones(r, form.mixing, lj, i, j, form.switch, form.cutoff)
    v, g = twin.coulomb(r, form.coulomb, values["charges"][i] * values["charges"][j], form.alpha, form.k_rf, form.c_rf)
    return twin.sum_pairs(len(positions), i, j, d, u + v, f + g)


def table(seed=1):
    rng = np.random.default_rng(seed)
    a, b = rng.uniform(1e-7, 1e-6, (3, 3)), rng.uniform(1e-4, 1e-3, (3, 3))
    return a + a.T, b + b.T


FORMS = [
    ("lorentz_berthelot", "ewald", {"alpha": ALPHA}),
    ("lorentz_berthelot", "reaction_field", {"k_rf": 0.65, "c_rf": 1.7}),
    ("lorentz_berthelot", "cutoff", {"switch": 0.7}), ("lorentz_berthelot", "none", {}),
    ("geometric", "ewald", {"alpha": ALPHA, "switch": 0.75}), ("geometric", "none", {"switch": 0.75}),
    ("table", "ewald", {"alpha": ALPHA}), ("table", "none", {"switch": 0.7}),
]  # fmt: skip


@pytest.mark.parametrize("box", BOXES)
@pytest.mark.parametrize("mixing, coulomb, options", FORMS[:1] + FORMS[6:7])
def test_boxes(mixing, coulomb, options, box):
    check(mixing, coulomb, options, BOXES[box], "double", 1e-11)


@pytest.mark.parametrize("mixing, coulomb, options", FORMS)
def test_double_precision(mixing, coulomb, options):
    check(mixing, coulomb, options, BOXES["triclinic"], "double", 1e-11)


@pytest.mark.parametrize("mixing, coulomb, options", FORMS)
def test_mixed_precision(mixing, coulomb, options):
    check(mixing, coulomb, options, BOXES["triclinic"], "mixed", 1.2e-5)


def check(mixing, coulomb, options, box, precision, tolerance):
    if mixing == "table":
        options = options | {"table": table()}
    form = PairForm(mixing, coulomb, CUTOFF, precision == "double", **options)
    positions, exclusions, values = liquid(box)
    _, energy, forces, virial = computed(form, box, positions, exclusions, values, precision)
    u, f, w = expected(form, box, positions, exclusions, values)
    scale = np.sqrt(np.mean(f**2))
    assert np.sqrt(np.mean((forces - f) ** 2)) <= tolerance * scale
    assert energy == pytest.approx(u, abs=tolerance * np.abs(f * positions).sum() / 10)
    assert np.allclose(virial, w, rtol=0, atol=tolerance * np.abs(f).sum())


def test_dispersion_mesh_correction():
    """LJ-PME: the direct part takes back what the mesh adds, and is shifted to vanish at the cut-off."""
    beta = 2.5
    form = PairForm("lorentz_berthelot", "ewald", CUTOFF, True, alpha=ALPHA, dispersion_alpha=beta)
    positions, exclusions, values = liquid(BOXES["cube"])
    _, energy, forces, _ = computed(form, BOXES["cube"], positions, exclusions, values)
    i, j, d = twin.all_pairs(positions, BOXES["cube"], CUTOFF, exclusions)
    r = np.linalg.norm(d, axis=1)
    s, e = values["sigmas"], values["epsilons"]

    def correction(r):
        x = (beta * r) ** 2
        c6 = 4 * np.sqrt(e[i] * e[j]) * (s[i] * s[j]) ** 3
        return c6 / r**6 * (1 - np.exp(-x) * (1 + x + x**2 / 2))

    u, f = twin.lennard_jones(r, form.mixing, (s, e), i, j)
    at_cutoff, _ = twin.lennard_jones(np.full_like(r, CUTOFF), form.mixing, (s, e), i, j)
    v, g = twin.coulomb(r, "ewald", values["charges"][i] * values["charges"][j], ALPHA)
    h = 1e-5
    slope = (correction(r + h) - correction(r - h)) / (2 * h)
    u, f, _ = twin.sum_pairs(
        len(positions), i, j, d, u + v + correction(r) - at_cutoff - correction(CUTOFF), f + g - slope
    )
    assert energy == pytest.approx(u, rel=1e-10)
    assert np.allclose(forces, f, rtol=1e-7, atol=1e-7 * np.abs(f).max())


def test_ewald_root_is_accurate_for_any_tolerance():
    from scipy.special import erf

    for tolerance in (1e-3, 5e-4, 1e-5, 1e-8):
        alpha = np.sqrt(-np.log(2 * tolerance)) / CUTOFF
        r = np.linspace(0.05, CUTOFF, 500)
        z = alpha * r
        exact = erf(z) / z**3 - 2 / np.sqrt(np.pi) * np.exp(-z * z) / z**2
        got = np.polynomial.polynomial.polyval(r * r, ewald_root(alpha, CUTOFF)) ** 4 / (2 * alpha**3)
        assert np.abs(got - exact).max() < 1.2e-6


def test_exclusions_only_system():
    """Three atoms, all pairs excluded: nothing is left."""
    positions = np.random.default_rng(0).random((3, 3))
    form = PairForm("lorentz_berthelot", "ewald", CUTOFF, False, alpha=ALPHA)
    values = {"charges": np.ones(3), "sigmas": np.full(3, 0.3), "epsilons": np.ones(3)}
    _, energy, forces, _ = computed(form, as_box(2.0), positions, np.array([(0, 1), (0, 2), (1, 2)]), values, "mixed")
    assert energy == 0 and not forces.any()


def test_threads_and_repeated_runs_give_the_same_bits():
    positions, exclusions, values = liquid(BOXES["cube"], 4000 // 8)
    box = as_box(2.2)
    form = PairForm("lorentz_berthelot", "ewald", CUTOFF, False, alpha=ALPHA)
    before, results = core.get_threads(), []
    big = np.concatenate([positions + 2.2 * np.array([a, b, c]) for a in range(2) for b in range(2) for c in range(2)])
    values = {k: np.tile(v, 8) for k, v in values.items()}
    try:
        for threads in (1, 2, 7):
            core.set_threads(threads)
            _, energy, forces, virial = computed(form, as_box(4.4), big, [], values, "mixed")
            results.append((energy, forces, virial))
    finally:
        core.set_threads(before)
    engine = Engine(System(Topology.of_particles(4000), np.ones(4000), box=box * 2, positions=big))
    assert len(shared_list(engine, 0.9).lists[0].n_entries) > 1
    for energy, forces, virial in results[1:]:
        assert (
            energy == results[0][0] and np.array_equal(forces, results[0][1]) and np.array_equal(virial, results[0][2])
        )


def test_groups_add_up():
    positions, exclusions, values = liquid(BOXES["triclinic"])
    groups = (np.arange(len(positions)) < 40).astype(np.int8)
    form = PairForm("lorentz_berthelot", "ewald", CUTOFF, True, alpha=ALPHA)
    _, whole, forces, _ = computed(form, BOXES["triclinic"], positions, exclusions, values)
    engine, split, split_forces, _ = computed(form, BOXES["triclinic"], positions, exclusions, values, groups=groups)
    assert split == pytest.approx(whole, rel=1e-12)
    assert np.allclose(split_forces, forces, rtol=1e-9, atol=1e-9 * np.abs(forces).max())
    i, j, d = twin.all_pairs(positions, BOXES["triclinic"], CUTOFF, exclusions)
    r = np.linalg.norm(d, axis=1)
    u, _ = twin.lennard_jones(r, form.mixing, (values["sigmas"], values["epsilons"]), i, j)
    v, _ = twin.coulomb(r, "ewald", values["charges"][i] * values["charges"][j], ALPHA)
    for kind, (_, rows) in enumerate(engine.plans["pairs"].parts):
        assert rows[:, 0].sum() == pytest.approx(np.sum((u + v)[groups[i] + groups[j] == kind]), rel=1e-10)


@pytest.mark.parametrize("mixing, coulomb, options", FORMS[:6])
def test_parameter_gradients_are_differences_of_energies(mixing, coulomb, options):
    box = BOXES["cube"]
    positions, exclusions, values = liquid(box, 90)
    values["epsilons"] += 0.1
    form = PairForm(mixing, coulomb, CUTOFF, True, **options)
    engine, *_ = computed(form, box, positions, exclusions, values)
    gradients = pair_gradients(engine, form, engine.plans["pairs"], **values)
    for name in ("charges", "sigmas", "epsilons") if coulomb != "none" else ("sigmas", "epsilons"):
        for atom in (0, 7, 50):
            energies, h = [], 1e-5
            for sign in (1, -1):
                moved = {k: v.copy() for k, v in values.items()}
                moved[name][atom] += sign * h
                energies.append(expected(form, box, positions, exclusions, moved)[0])
            assert gradients[name][atom] == pytest.approx((energies[0] - energies[1]) / (2 * h), rel=1e-5, abs=1e-5)
