"""Nonbonded: lattice sums and integrals done otherwise, another program's energies, kernels against the pure energy."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate

from tests.sponge.reference import NAMES, load_reference, openmm_energies
from triskele import core, sponge
from triskele.sponge import box as boxes
from triskele.sponge.errors import BoxError
from triskele.sponge.load.openmm_xml import load_openmm
from triskele.sponge.neighbors.pairs import find_pairs
from triskele.sponge.pme.parameters import grid_size, splitting
from triskele.sponge.potentials.nonbonded import energy as nonbonded_energy
from triskele.sponge.potentials.nonbonded import exclusion_kernels
from triskele.sponge.potentials.nonbonded.nonbonded import Nonbonded
from triskele.sponge.potentials.pairs.formulas import removed
from triskele.sponge.potentials.pairs.mixing import LJTable
from triskele.sponge.units import COULOMB

MADELUNG = 1.747564594633182  # of rock salt, with respect to the nearest neighbor


def system_of(nonbonded, positions, box=None, exclusions=()):
    n = len(positions)
    system = sponge.System(sponge.Topology.of_particles(n), np.ones(n), box, positions, exclusions=exclusions)
    system.add(nonbonded)
    return system


def energy_of(nonbonded, positions, box=None, **params):
    return float(nonbonded.energy(nonbonded.params | params, positions, box))


def fluid(n, seed, edge, lean=0.0):
    """Positions not closer than 0.8 lattice spacings, anywhere in space, and a box that leans by `lean`."""
    rng = np.random.default_rng(seed)
    m = math.ceil(n ** (1 / 3))
    lattice = np.stack(np.meshgrid(*[np.arange(m)] * 3, indexing="ij"), -1).reshape(-1, 3)
    cell = np.array([[1.0, 0, 0], [lean, 1, 0], [-lean, 0.7 * lean, 1]]) * edge
    s = (lattice[rng.permutation(len(lattice))[:n]] + rng.uniform(-0.1, 0.1, (n, 3))) / m + rng.integers(-2, 3, (n, 3))
    return s @ cell, boxes.as_box(cell)


def random_fluid(n, seed, edge=2.2, lean=0.0, table=False, neutral=True, **options):
    """A system with random parameters, some atoms without Lennard-Jones, and random exclusions between neighbors."""
    rng = np.random.default_rng(seed)
    positions, box = fluid(n, seed, edge, lean)
    charges = rng.normal(0, 0.5, n)
    if neutral:
        charges -= charges.mean()
    if table:
        a, b = rng.uniform(1e-7, 3e-6, (3, 3)), rng.uniform(1e-4, 2e-3, (3, 3))
        options["mixing"] = LJTable(rng.integers(0, 3, n), a + a.T, b + b.T)
        nonbonded = Nonbonded(charges, **options)
    else:
        nonbonded = Nonbonded(
            charges, rng.uniform(0.15, 0.3, n), rng.uniform(0, 0.8, n) * (rng.random(n) < 0.7), **options
        )
    periodic = None if options["method"] == "none" else box
    near = (
        find_pairs(positions, periodic, 0.4, np.empty((0, 2), np.int32))
        if periodic is not None
        else np.array([[0, 1], [2, 5]])
    )
    return system_of(nonbonded, positions, periodic, near[rng.random(len(near)) < 0.5])


# ------------------------------------------------------------------------------------------------ sums done otherwise
@pytest.mark.parametrize("method", ["ewald", "pme"])
def test_rock_salt_has_madelungs_energy(method):
    a = 0.564
    sites = np.array([[x, y, z] for x in range(4) for y in range(4) for z in range(4)])
    charges = np.where(sites.sum(1) % 2, -1.0, 1.0)
    tolerance = 1e-9 if method == "ewald" else 1e-7  # the mesh of 1e-9 takes 4 GB
    salt = Nonbonded(charges, np.full(64, 0.1), np.zeros(64), method, cutoff=0.5, tolerance=tolerance)
    expected = -64 / 2 * COULOMB * MADELUNG / (a / 2)
    assert energy_of(salt, 0.5 * a * sites, 2 * a * np.eye(3)) == pytest.approx(
        expected, rel=1e-7 if method == "ewald" else 1e-6
    )


def test_ewald_energy_does_not_depend_on_how_it_is_split():
    """Nor on which triclinic cell the lattice is described by; a net charge included, against its background."""
    system = random_fluid(40, 1, lean=0.3, method="ewald", tolerance=1e-10, neutral=False)
    x, box = system.positions, system.box
    found = []
    for cutoff in (0.7, 0.9):
        system.nonbonded.update(cutoff=cutoff, alpha=splitting(cutoff, 1e-12), wave_vectors=(25, 25, 25))
        off = dict(sigmas=np.full(40, 1e-3), epsilons=np.zeros(40))
        found.append(energy_of(system.nonbonded, x, box, **off))
        system.nonbonded.update(method="pme", grid=(60, 60, 60), order=6)
        found.append(energy_of(system.nonbonded, x, box, **off))
        system.nonbonded.update(method="ewald")
    assert found[2] == pytest.approx(found[0], rel=1e-8)
    assert found[1::2] == pytest.approx(2 * [found[0]], rel=3e-5)


def test_ljpme_is_the_lattice_sum_of_dispersion():
    """With geometric mixing nothing depends on alpha or the cut-off but the shift of the pair energies."""
    n, edge = 8, 1.6
    x, box = fluid(n, 3, edge)
    sigma, epsilon = np.linspace(0.2, 0.3, n), np.linspace(0.2, 0.9, n)
    found = []
    for alpha in (5.5, 6.0):
        lj = Nonbonded(
            np.zeros(n),
            sigma,
            epsilon,
            "ljpme",
            cutoff=0.79,
            lj_alpha=alpha,
            lj_grid=(80, 80, 80),
            grid=(8, 8, 8),
            order=6,
            mixing="geometric",
        )
        found.append(energy_of(lj, x, box) + shift(lj, x, box))
    shells = np.stack(np.meshgrid(*[np.arange(-12, 13)] * 3, indexing="ij"), -1).reshape(-1, 3) @ box
    c = 2 * np.sqrt(epsilon) * sigma**3
    direct = 0.0
    for i in range(n):
        for j in range(n):
            r2 = np.sum((x[i] - x[j] + shells) ** 2, axis=1)
            r2 = r2[r2 > 1e-9]
            direct -= 0.5 * c[i] * c[j] * np.sum(r2**-3)
            near = r2[r2 < 0.79**2]
            direct += 0.5 * (c[i] * c[j]) ** 2 / (4 * np.sqrt(epsilon[i] * epsilon[j])) * np.sum(near**-6)
    # the mesh's part, and what is subtracted from it, are 300 times the sum; beyond 12 cells lie some 2e-5 of it
    assert found[0] == pytest.approx(found[1], rel=1e-4)
    assert found[0] == pytest.approx(direct, rel=1e-4)


def shift(lj, x, box):
    """Return the energy that LJ-PME removes from each pair within the cut-off."""
    i, j = find_pairs(x, box, lj.cutoff, np.empty((0, 2))).T
    s, e = lj.params["sigmas"], lj.params["epsilons"]
    sigma6, epsilon4 = (s[i] * s[j]) ** 3, 4 * np.sqrt(e[i] * e[j])
    q = sigma6 / lj.cutoff**6
    z = (lj.lj_alpha * lj.cutoff) ** 2
    return np.sum(epsilon4 * q * (q - 1) + epsilon4 * q * (1 - np.exp(-z) * (1 + z + z * z / 2)))


@pytest.mark.parametrize(
    "switch, modifier",
    [(None, "potential-switch"), (0.6, "potential-switch"), (0.6, "force-switch"), (None, "potential-shift")],
)
@pytest.mark.parametrize("mixing", ["lorentz_berthelot", "geometric", "table"])
def test_tail_correction_is_the_integral_over_what_is_cut_away(mixing, switch, modifier):
    rng = np.random.default_rng(0)
    n, rc = 6, 0.8
    sigma, epsilon = rng.uniform(0.2, 0.35, n), rng.uniform(0, 1, n)
    s = np.add.outer(sigma, sigma) / 2 if mixing != "geometric" else np.sqrt(np.outer(sigma, sigma))
    e = np.sqrt(np.outer(epsilon, epsilon))
    options = dict(method="cutoff", cutoff=rc, switch=switch, modifier=modifier)
    if mixing == "table":
        lj = Nonbonded(np.zeros(n), mixing=LJTable.from_sigma_epsilon(np.arange(n), s, e), **options)
    else:
        lj = Nonbonded(np.zeros(n), sigma, epsilon, mixing=mixing, **options)

    def lost(r, i, j):
        x = 0.0 if switch is None or r > rc else (r - switch) / (rc - switch)
        kept = 1 - 10 * x**3 + 15 * x**4 - 6 * x**5 if r < rc else 0.0
        q = (s[i, j] / r) ** 6
        if modifier != "potential-switch" and r < rc:
            lost12, lost6 = (removed(r, n, switch, rc) * s[i, j] ** n for n in (12, 6))
            return 4 * e[i, j] * (lost12 - lost6) * r * r
        return (1 - kept) * 4 * e[i, j] * q * (q - 1) * r * r

    pairs = [(i, j) for i in range(n) for j in range(i + 1)]
    integral = sum(integrate.quad(lost, rc, np.inf, args=p, epsrel=1e-12)[0] for p in pairs)
    if switch is not None:
        integral += sum(integrate.quad(lost, switch, rc, args=p, epsrel=1e-12)[0] for p in pairs)
    if modifier != "potential-switch":
        integral += sum(integrate.quad(lost, 0, switch or rc, args=p, epsrel=1e-12)[0] for p in pairs)
    expected = 2 * np.pi * n * n * integral / len(pairs)
    found = nonbonded_energy.long_range_dispersion(lj.form(2 * np.eye(3)), lj.params, lj.types)
    assert found == pytest.approx(expected, rel=1e-9)


def test_switch_and_reaction_field_end_smoothly():
    """Energy and force of a pair vanish at the cut-off with a switch; the reaction field of a conductor does the
    same.
    """
    box = 4 * np.eye(3)
    options = dict(method="cutoff", cutoff=0.9, dispersion_correction=False)
    lj = Nonbonded([0, 0], [0.3, 0.3], [1, 1], switch=0.7, **options)
    by_force = Nonbonded([0, 0], [0.3, 0.3], [1, 1], switch=0.7, modifier="force-switch", **options)
    shifted = Nonbonded([0, 0], [0.3, 0.3], [1, 1], modifier="potential-shift", **options)
    field = Nonbonded([1, -1], [0.3, 0.3], [0, 0], "reaction_field", cutoff=0.9, dielectric=1e12)
    at = lambda nonbonded: lambda r: nonbonded.energy(nonbonded.params, np.array([[0.0, 0, 0], [1.0, 0, 0]]) * r, box)
    for nonbonded in (lj, by_force, field):
        assert at(nonbonded)(0.9 - 1e-9) == pytest.approx(0, abs=1e-9)
        assert core.grad(at(nonbonded))(np.array(0.9 - 1e-9)) == pytest.approx(0, abs=1e-5)
        assert at(nonbonded)(0.9 + 1e-9) == 0
    plain = Nonbonded([0, 0], [0.3, 0.3], [1, 1], **options)
    for one in (by_force, shifted):  # below the switch, all but a constant
        assert core.grad(at(one))(np.array(0.69)) == pytest.approx(
            float(core.grad(at(plain))(np.array(0.69))), rel=1e-12
        )
    assert at(shifted)(0.69) == pytest.approx(at(plain)(0.69) - at(plain)(0.9 - 1e-12), rel=1e-9)
    assert at(lj)(0.69) == pytest.approx(float(at(plain)(0.69)), rel=1e-14)


@pytest.mark.parametrize("start", [0.6, None])
def test_modifiers_are_openmms_custom_force(start):
    """The same formula as an expression: r^-12 and r^-6 less what the force switch or the shift takes."""
    mm = pytest.importorskip("openmm")
    x, box = fluid(60, 3, 2.0)
    rng = np.random.default_rng(3)
    sigma, epsilon, rc = rng.uniform(0.2, 0.3, 60), rng.uniform(0.1, 1, 60), 0.8
    powers = []
    for n in (12, 6):
        if start is None:
            powers.append(f"p{n} = r^-{n} - {rc**-n!r}")
            continue
        d = rc - start
        a = -n * ((n + 4) * rc - (n + 1) * start) / (rc ** (n + 2) * d**2)
        b = n * ((n + 3) * rc - (n + 1) * start) / (rc ** (n + 2) * d**3)
        c = rc**-n - a / 3 * d**3 - b / 4 * d**4
        powers.append(f"p{n} = r^-{n} - ({a / 3!r})*x^3 - ({b / 4!r})*x^4 - ({c!r})")
    force = mm.CustomNonbondedForce(
        f"4*sqrt(epsilon1*epsilon2)*(s^12*p12 - s^6*p6); {'; '.join(powers)}; s = (sigma1 + sigma2)/2; "
        f"x = max(r - {start or rc}, 0)"
    )
    omm = mm.System()
    for name in ("sigma", "epsilon"):
        force.addPerParticleParameter(name)
    for row in zip(sigma, epsilon):
        omm.addParticle(1.0)
        force.addParticle(row)
    force.setNonbondedMethod(force.CutoffPeriodic)
    force.setCutoffDistance(rc)
    omm.addForce(force)
    modifier = "potential-shift" if start is None else "force-switch"
    options = dict(cutoff=rc, switch=start, modifier=modifier, dispersion_correction=False)
    ours = Nonbonded(np.zeros(60), sigma, epsilon, "cutoff", **options)
    assert energy_of(ours, x, box) == pytest.approx(openmm_energies(omm, x, box)["CustomNonbondedForce"], rel=1e-12)


def test_half_the_box_as_cut_off_counts_each_pair_once():
    x, box = fluid(30, 5, 1.8)
    rng = np.random.default_rng(5)
    nonbonded = Nonbonded(
        rng.normal(0, 1, 30), np.full(30, 0.25), np.full(30, 0.5), "cutoff", cutoff=0.9, dispersion_correction=False
    )
    images = np.stack(np.meshgrid(*[np.arange(-6, 7)] * 3, indexing="ij"), -1).reshape(-1, 3) @ box
    q = nonbonded.params["charges"]
    expected = 0.0
    for i in range(30):
        for j in range(i):
            r = np.linalg.norm(x[i] - x[j] + images, axis=1)
            r = r[r < 0.9]
            expected += np.sum(COULOMB * q[i] * q[j] / r + 2 * ((0.25 / r) ** 12 - (0.25 / r) ** 6))
    assert energy_of(nonbonded, x, box) == pytest.approx(expected, rel=1e-12)
    system = system_of(nonbonded, x, box)
    assert system.energy() == pytest.approx(expected, rel=1e-11)


# --------------------------------------------------------------------------------------------------- other programs
@pytest.mark.parametrize("name", [n for n in NAMES if load_reference(n).settings and n != "dhfr_pme"])
def test_pure_energy_of_reference_systems(name):
    reference = load_reference(name)
    system = load_openmm(reference.xml, positions=reference.positions, box=reference.box)
    nonbonded, box = system.nonbonded, system.box
    if nonbonded.method in ("pme", "ljpme"):
        alpha = splitting(nonbonded.cutoff, nonbonded.tolerance)
        nonbonded.update(
            grid=grid_size(box, alpha, nonbonded.tolerance), lj_grid=grid_size(box, alpha, nonbonded.tolerance, True)
        )
    e = reference.energies
    expected = e["NonbondedForce"] if "NonbondedForce" in e else e["Nonbonded_direct"] + e["PME_reciprocal"]
    found = energy_of(nonbonded, reference.positions, box)
    if "pair14" in system:
        found += float(system["pair14"].energy(system["pair14"].params, reference.positions, box))
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-9)


# ---------------------------------------------------------------------------------------------------------- kernels
# Each form is compiled once, so that not all combinations are tried.
FORMS = [
    dict(method="pme", tolerance=1e-4),
    dict(method="ewald", tolerance=1e-4),
    dict(method="ljpme", tolerance=1e-4),
    dict(method="reaction_field", mixing="geometric", switch=0.55),
    dict(method="cutoff", table=True, switch=0.55),
    dict(method="reaction_field", mixing="geometric", switch=0.55, excluded_field=True, dielectric=np.inf),
    dict(method="reaction_field", switch=0.55, modifier="force-switch"),
    dict(method="cutoff", table=True, switch=0.55, modifier="force-switch"),
    dict(method="cutoff", mixing="geometric", modifier="potential-shift"),
    dict(method="none"),
    dict(method="none", mixing="geometric"),
    dict(method="none", table=True),
]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(FORMS), st.integers(6, 120), st.integers(0, 10**6), st.sampled_from([0.0, 0.45]), st.booleans())
def test_kernels_are_the_pure_energy(form, n, seed, lean, neutral):
    """Energy, forces and virial in double precision: any method, box, mixing; charged; wrapped or not."""
    system = random_fluid(n, seed, lean=lean, neutral=neutral, cutoff=0.7, **form)
    p, x, box = system.nonbonded, system.positions, system.box
    unit = np.eye(3)
    strained = lambda e, y: p.energy(p.params, y @ (unit + e), None if box is None else box @ (unit + e))
    value, (by_strain, by_position) = core.value_and_grad(strained, (0, 1))(np.zeros((3, 3)), x)
    # sums of terms much larger than their total: errors are measured by those
    scale = abs(float(value)) + COULOMB * 3 * np.sum(p.params["charges"] ** 2)
    assert system.energy() == pytest.approx(float(value), abs=2e-10 * scale)
    assert system.forces() == pytest.approx(-by_position, abs=1e-9 * (np.abs(by_position).max() + 1))
    assert system.virial() == pytest.approx(-by_strain.T, abs=1e-9 * (np.abs(by_strain).max() + scale))


@pytest.mark.parametrize("method", ["pme", "reaction_field"])
def test_mixed_precision_is_single_precision(method):
    system = random_fluid(100, 7, method=method, cutoff=0.9)
    forces = system.forces()
    error = system.forces(precision="mixed") - forces
    assert np.sqrt(np.mean(error**2)) < 3e-5 * np.sqrt(np.mean(forces**2))


def test_a_table_made_of_sigmas_is_the_mixing_rule():
    rng = np.random.default_rng(2)
    kinds = rng.integers(0, 3, 50)
    sigma, epsilon = np.array([0.2, 0.25, 0.3]), np.array([0.3, 0.0, 0.9])
    x, box = fluid(50, 2, 2.0)
    s, e = np.add.outer(sigma, sigma) / 2, np.sqrt(np.outer(epsilon, epsilon))
    options = dict(method="cutoff", cutoff=0.9, switch=0.8)
    by_rule = system_of(Nonbonded(np.zeros(50), sigma[kinds], epsilon[kinds], **options), x, box)
    by_table = system_of(Nonbonded(np.zeros(50), mixing=LJTable.from_sigma_epsilon(kinds, s, e), **options), x, box)
    assert by_table.energy() == pytest.approx(by_rule.energy(), rel=1e-12)
    assert by_table.forces() == pytest.approx(by_rule.forces(), rel=1e-9, abs=1e-9)
    # and one pair of types of its own
    t = by_table.nonbonded.params
    t["b"][0, 2] = t["b"][2, 0] = 0
    assert by_table.energy() > by_rule.energy()


@settings(max_examples=30, deadline=None)
@given(st.integers(2, 150), st.integers(0, 10**6), st.floats(0.0, 0.49), st.floats(0.2, 1.1), st.booleans())
def test_pairs_are_all_pairs(n, seed, lean, cutoff, periodic):
    """Cells or not, triclinic or not: those of a search over all pairs and images, each once, less the excluded
    ones.
    """
    x, box = fluid(n, seed, 2.5, lean)
    exclusions = np.array([[0, 1]], np.int32)
    found = find_pairs(x, box if periodic else None, cutoff, exclusions)
    d = boxes.displacement(x[:, None] - x[None], box if periodic else None)
    near = np.triu(np.sum(d * d, axis=-1) < cutoff**2, 1)
    near[0, 1] = False
    assert sorted(map(tuple, found)) == list(zip(*map(list, np.nonzero(near))))


def test_polynomials_of_the_exclusion_correction():
    """Against the closed forms, where these do not cancel, and the first terms of the series at 0."""
    y = np.linspace(0.5, 4, 50)
    p, slope, d, d_slope = (np.polyval(c, y) for c in exclusion_kernels.polynomials())
    erf = np.array([math.erf(math.sqrt(v)) for v in y])
    exact = erf / np.sqrt(y)
    assert p == pytest.approx(exact, rel=1e-10)
    assert slope == pytest.approx((2 / np.sqrt(np.pi) * np.exp(-y) - exact) / (2 * y), rel=1e-10)
    cubic = (1 - np.exp(-y) * (1 + y + y * y / 2)) / y**3
    assert d == pytest.approx(cubic, rel=3e-10)
    assert d_slope == pytest.approx((0.5 * np.exp(-y) - 3 * cubic) / y, rel=3e-10)
    at_zero = exclusion_kernels.polynomials()[:, -1]
    assert at_zero == pytest.approx([2 / math.sqrt(math.pi), -2 / 3 / math.sqrt(math.pi), 1 / 6, -1 / 8], rel=1e-10)


def test_excluded_atoms_may_sit_on_one_another():
    """As a Drude particle on its core: their correction is finite, and so are forces."""
    x = np.array([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5], [1.1, 0.7, 0.4]])
    nonbonded = Nonbonded([1.0, -0.5, -0.5], [0.2, 0.1, 0.3], [0.1, 0.0, 0.2], "pme", cutoff=0.9)
    system = system_of(nonbonded, x, 2 * np.eye(3), [[0, 1]])
    assert np.isfinite(system.energy()) and np.all(np.isfinite(system.forces()))
    assert system.energy() == pytest.approx(energy_of(nonbonded, x, system.box), rel=1e-9)
    assert np.all(np.isfinite(core.grad(lambda x: nonbonded.energy(nonbonded.params, x, system.box))(x)))


def test_far_exclusions_leave_the_polynomials():
    """Excluded pairs of chains that cross the box."""
    x = np.array([[0.1, 0.1, 0.1], [1.0, 1.0, 0.9], [0.2, 1.4, 0.3], [1.9, 0.1, 0.1]])
    for method in ("pme", "ljpme"):
        nonbonded = Nonbonded(
            [1.0, -0.7, 0.3, -0.6], [0.2, 0.3, 0.3, 0.2], [0.1, 0.5, 0.2, 0.3], method, cutoff=0.9, tolerance=1e-6
        )
        system = system_of(nonbonded, x, 2 * np.eye(3), [[0, 1], [1, 2], [0, 3]])
        assert system.energy() == pytest.approx(energy_of(nonbonded, x, system.box), rel=1e-9)
        exact = -core.grad(lambda x: nonbonded.energy(nonbonded.params, x, system.box))(x)  # noqa: B023
        assert system.forces() == pytest.approx(exact, rel=1e-8, abs=1e-8 * np.abs(exact).max())


# ------------------------------------------------------------------------------------------------------ derivatives
@pytest.mark.parametrize(
    "method, options",
    [
        ("none", {}),
        ("cutoff", dict(switch=0.5)),
        ("cutoff", dict(table=True)),
        ("reaction_field", {}),
        ("ewald", dict(wave_vectors=(5, 5, 5))),
        pytest.param("pme", {}, marks=pytest.mark.slow),
        pytest.param("ljpme", {}, marks=pytest.mark.slow),
    ],
)
def test_derivatives_of_every_order_agree_with_differences(method, options):
    system = random_fluid(7, 11, edge=1.5, method=method, cutoff=0.7, tolerance=1e-2, **options)
    p = system.nonbonded
    if "epsilons" in p.params:
        p.params["epsilons"] += 0.1
    args = (p.params, system.positions) + (() if system.box is None else (system.box,))
    f = (lambda params, x: p.energy(params, x, None)) if system.box is None else p.energy
    core.check_grads(f, args, order=2, eps=1e-7, rtol=1e-4)


def test_an_atom_without_lennard_jones_has_no_derivative_by_its_depth():
    nonbonded = Nonbonded([0, 0], [0.3, 0.3], [0.0, 1.0], "none")
    x = np.array([[0.0, 0, 0], [0.3, 0, 0]])
    found = core.grad(nonbonded.energy)(nonbonded.params, x, None)
    assert found["epsilons"][0] == 0 and np.all(np.isfinite(found["epsilons"]))


# ----------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize(
    "options, message",
    [
        (dict(method="p3m"), "method must be one of pme, ewald, ljpme, reaction_field, cutoff, none, got 'p3m'"),
        (dict(cutoff=-1.0), r"cutoff must be a positive number \(nm\), got -1.0"),
        (dict(switch=1.2), "switch must lie between 0 and the cut-off 0.9 nm, got 1.2"),
        (dict(method="ljpme", switch=0.8), "takes no switch"),
        (dict(excluded_field=True), "excluded_field goes with method 'reaction_field', got 'pme'"),
        (
            dict(modifier="shift"),
            "modifier must be 'potential-switch', 'force-switch' or 'potential-shift', got 'shift'",
        ),
        (dict(modifier="force-switch"), "'force-switch' needs a switch .* got 'force-switch' and switch None"),
        (dict(modifier="potential-shift", switch=0.8), "'potential-shift' takes none, got .* and switch 0.8"),
        (dict(modifier="potential-shift", method="ljpme"), "'ljpme' takes no modifier, got 'potential-shift'"),
        (dict(tolerance=0.7), "tolerance must lie between 0 and 0.5, got 0.7"),
        (dict(order=3), "order must be 4, 5 or 6, got 3"),
        (dict(dielectric=0.0), "dielectric must be positive"),
        (dict(grid=(3, 8, 8)), "grid must be three numbers, for a grid at least the order"),
        (dict(alpha=-1.0), "alpha must be a positive number"),
    ],
)
def test_options_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        Nonbonded([0.0], [0.3], [1.0]).update(**options)


def test_an_unknown_option_names_the_known_ones():
    with pytest.raises(TypeError, match=r"no option 'cutof' \(did you mean 'cutoff'\?"):
        Nonbonded([0.0], [0.3], [1.0]).update(cutof=1.0)


def test_a_failed_update_changes_nothing():
    nonbonded = Nonbonded([0.0], [0.3], [1.0])
    with pytest.raises(ValueError, match="cutoff"):
        nonbonded.update(method="none", cutoff=-1)
    assert (nonbonded.method, nonbonded.cutoff) == ("pme", 0.9)


@pytest.mark.parametrize(
    "charges, sigmas, epsilons, message",
    [
        ([0.0, 1.0], [0.3], [1.0, 1.0], r"sigmas must have shape \[2\], got \(1,\)"),
        ([0.0, 1.0], None, None, "sigmas must be given"),
    ],
)
def test_parameters_that_do_not_fit(charges, sigmas, epsilons, message):
    with pytest.raises(ValueError, match=message):
        Nonbonded(charges, sigmas, epsilons)


def test_systems_that_do_not_fit():
    x = np.array([[0.0, 0, 0], [0.3, 0, 0]])
    good = dict(charges=[0.0, 0.0], sigmas=[0.3, 0.3], epsilons=[1.0, 1.0])
    with pytest.raises(BoxError, match="half the smallest box edge 1.5 nm, got 0.9 nm"):
        system_of(Nonbonded(**good), x, [2.0, 1.5, 2.0])
    with pytest.raises(BoxError, match="method 'pme' needs a periodic box"):
        system_of(Nonbonded(**good), x)
    with pytest.raises(ValueError, match="epsilons must be >= 0, got -1.0 for atom 1"):
        system_of(Nonbonded(**good | dict(epsilons=[1.0, -1.0]), method="none"), x)
    with pytest.raises(ValueError, match="charges must be finite, got nan for atom 0"):
        system_of(Nonbonded(**good | dict(charges=[np.nan, 0.0]), method="none"), x)
    with pytest.raises(ValueError, match="for each of 3 atoms, got 2"):
        system_of(Nonbonded(**good, method="none"), np.zeros((3, 3)))
    with pytest.raises(BoxError, match="half the smallest box edge"):
        nonbonded = Nonbonded(**good)
        nonbonded.energy(nonbonded.params, x, np.eye(3))
