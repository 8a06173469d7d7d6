"""Potentials from Python functions: scalar functions of distances and angles, functions of positions, ASE
calculators.
"""

import math
import pickle

import numpy as np
import pytest

from tests.sponge.reference import load_reference
from triskele import core, sponge
from triskele.sponge.engine.engine import Engine
from triskele.sponge.errors import BoxError
from triskele.sponge.testing import check_potential, example_system


@sponge.bond_potential
def morse(r, depth, width, r0):
    return depth * (1 - math.exp(-width * (r - r0))) ** 2


@sponge.angle_potential
def cosine_angle(theta, k, theta0=1.9):
    return 0.5 * k * (math.cos(theta) - math.cos(theta0)) ** 2


@sponge.torsion_potential
def branching(phi, k):
    return k * (1 - math.cos(2 * phi)) if phi > 0 else k * math.sin(phi) ** 2


@sponge.pair_potential
def buckingham(r, a, b, c):
    return a * math.exp(-b * r) - c / r**6


@sponge.pair_potential
def lennard_jones(r, sigma, epsilon):
    ratio = (sigma / r) ** 6
    return 4 * epsilon * (ratio * ratio - ratio)


CHAINS = np.arange(4) + np.arange(9)[:, None]


@pytest.mark.parametrize(
    "potential",
    [
        morse(CHAINS[:, :2], depth=400.0, width=15.0, r0=np.linspace(0.1, 0.2, 9)),
        cosine_angle(CHAINS[:, :3], k=300.0),
        branching(CHAINS, k=7.0),
    ],
    ids=lambda p: p.name,
)
def test_terms_from_functions(potential):
    for box in (None, [[0.9, 0, 0], [0.2, 0.8, 0], [-0.1, 0.3, 0.9]]):
        check_potential(potential, example_system(box=box))


def test_a_wrong_energy_is_found_out():
    system = example_system(morse([[0, 1]], depth=400.0, width=15.0, r0=0.1))

    class Broken(type(system["morse"])):
        def energy(self, params, positions, box):
            return super().energy(params, positions, box) + 1e-3 * positions[0, 0]

    broken = Broken([[0, 1]], depth=400.0, width=15.0, r0=0.1, name="broken")
    with pytest.raises(AssertionError, match="broken: energy of the plan"):
        check_potential(broken, system)


def test_external_field_is_not_invariant():
    field = sponge.FunctionPotential(lambda positions, k: k * np.sum(positions[:, 2]), {"k": 2.0}, name="field")
    system = example_system()
    check_potential(field, system, invariant=False)
    with pytest.raises(AssertionError, match="field: sum of forces"):
        check_potential(field, system)


# ---------------------------------------------------------------------------------------------------------------- pairs
def test_lennard_jones_of_another_program():
    reference = load_reference("lj_4000_cut")
    n = len(reference.positions)
    system = sponge.System(
        sponge.Topology.of_particles(n), np.full(n, 39.9), box=reference.box, positions=reference.positions
    )
    system.add(lennard_jones(sigma=0.34, epsilon=0.99607, cutoff=0.85))
    expected, forces = reference.energies["NonbondedForce"], reference.forces["total"]
    for precision, tolerance in (("double", 1e-9), ("mixed", 2e-5)):
        engine = Engine(system, precision)
        engine.compute()
        assert sum(engine.energies().values()) == pytest.approx(expected, rel=tolerance)
        assert np.linalg.norm(engine.forces - forces) < tolerance * np.linalg.norm(forces)


@pytest.mark.parametrize("options", [{"shift": True}, {"switch": 0.7}], ids=str)
def test_two_atoms_across_the_cutoff(options):
    potential = buckingham(a=1e5, b=35.0, c=2e-3, cutoff=1.0, **options)
    system = sponge.System(sponge.Topology.of_particles(2), [1.0, 1.0])
    system.add(potential)

    def energy(r):
        return system.energy([[0, 0, 0], [0, r, 0]])

    plain = lambda r: 1e5 * math.exp(-35 * r) - 2e-3 / r**6
    x = (
        np.clip((0.8 - options.get("switch", 1.0)) / (1 - options.get("switch", 0.0)), 0, 1)
        if "switch" in options
        else 0.0
    )
    expected = (plain(0.8) - (plain(1.0) if options.get("shift") else 0.0)) * (1 - x**3 * (10 - 15 * x + 6 * x * x))
    assert energy(0.8) == pytest.approx(expected, rel=1e-12)
    assert energy(1.0 + 1e-9) == 0.0
    if options:
        assert abs(energy(1.0 - 1e-9)) < 1e-8 * abs(plain(1.0)) + 1e-10


def test_mixing_rules_by_hand():
    @sponge.pair_potential
    def form(r, mean, root, product, table, same):
        return (mean + 10 * root + 100 * product + 1000 * table + 1e4 * same) / r

    potential = form(
        mean=[1.0, 3.0],
        root=[4.0, 9.0],
        product=[2.0, -5.0],
        table=[[1.0, 7.0], [7.0, 2.0]],
        same=3.0,
        types=[0, 1],
        mixing={"mean": "arithmetic", "root": "geometric", "product": "product"},
    )
    system = sponge.System(sponge.Topology.of_particles(2), [1.0, 1.0], positions=[[0, 0, 0], [2.0, 0, 0]])
    system.add(potential)
    expected = (2 + 10 * 6 - 100 * 10 + 1000 * 7 + 1e4 * 3) / 2
    assert system.energy() == pytest.approx(expected, rel=1e-13)
    assert potential.energy(potential.params, system.positions, None) == pytest.approx(expected, rel=1e-13)


def test_exclusions_are_left_out():
    system = example_system(buckingham(a=10.0, b=5.0, c=1e-6), n=4, exclusions=[[0, 1], [2, 1], [3, 0]])
    x = system.positions
    expected = sum(
        10 * np.exp(-5 * r) - 1e-6 / r**6 for r in (np.linalg.norm(x[i] - x[j]) for i, j in ((0, 2), (1, 3), (2, 3)))
    )
    assert system.energy() == pytest.approx(expected, rel=1e-12)


def test_parameters_are_fitted_by_gradient():
    system = example_system(lennard_jones(sigma=np.full(6, 0.1), epsilon=0.5, mixing="arithmetic"), n=6)
    potential = system["lennard_jones"]
    gradient = core.grad(lambda p: potential.energy(p, system.positions, None))(potential.params)
    assert gradient["sigma"].shape == (6,) and gradient["epsilon"].shape == ()
    assert gradient["epsilon"] == pytest.approx(potential.energy(potential.params, system.positions, None) / 0.5)


def test_modules_may_be_imported_inside():
    @sponge.pair_potential
    def yukawa(r, a):
        import math
        from math import sqrt

        return a * math.exp(-r) / sqrt(r * r)

    system = example_system(yukawa(a=2.0), n=2)
    r = np.linalg.norm(system.positions[0] - system.positions[1])
    assert system.energy() == pytest.approx(2 * np.exp(-r) / r, rel=1e-13)


def test_names_of_arguments_are_free():
    @sponge.pair_potential
    def odd(r2, i, j, c, params, simd, np):
        return i * r2 + j * c / r2 + params * simd - np

    system = example_system(odd(i=1.0, j=2.0, c=3.0, params=4.0, simd=5.0, np=6.0), n=3)
    x = system.positions
    r = np.array([np.linalg.norm(x[i] - x[j]) for i, j in ((0, 1), (0, 2), (1, 2))])
    assert system.energy() == pytest.approx(np.sum(r + 6 / r + 14), rel=1e-13)

    @sponge.bond_potential
    def odd_bond(v0, at, value, kernel):
        return at * v0 + value / v0 + kernel

    bonds = example_system(odd_bond([[0, 1], [0, 2], [1, 2]], at=1.0, value=6.0, kernel=14.0), n=3)
    assert bonds.energy() == pytest.approx(system.energy(), rel=1e-13)


def test_derivatives_by_many_parameters():
    @sponge.pair_potential
    def five(r, a, b, c, d, e):
        return a * b * math.exp(-d * r) - c / r**6 + e * r

    n = 40
    ramp = np.linspace(0.5, 1.5, n)
    potential = five(
        a=ramp,
        b=1 + ramp,
        c=1e-5,
        d=1 + ramp,
        e=ramp,
        cutoff=0.5,
        mixing={"a": "product", "b": "geometric", "d": "arithmetic", "e": "product"},
    )
    check_potential(potential, example_system(n=n, box=[1.1, 1.2, 1.3], exclusions=[[0, 1], [4, 9]]), order=1)


# ------------------------------------------------------------------------------------------------------------ functions
def _spring_to(positions, k, box=None):
    return 0.5 * k * np.sum(positions[0] ** 2) + (0.0 if box is None else np.sum(box))


def test_function_of_positions_and_box():
    system = example_system(sponge.FunctionPotential(_spring_to, {"k": 3.0}))
    assert system.energy() == pytest.approx(1.5 * np.sum(system.positions[0] ** 2))
    np.testing.assert_allclose(system.forces()[0], -3 * system.positions[0])
    boxed = example_system(sponge.FunctionPotential(_spring_to, {"k": 3.0}), box=[1.0, 2.0, 3.0])
    assert boxed.energy() == pytest.approx(system.energy() + 6)


def test_systems_with_functions_can_be_copied():
    @sponge.bond_potential
    def local(r, k):
        return k * r**4

    system = example_system(
        local([[0, 1]], k=2.0),
        sponge.FunctionPotential(lambda x: np.sum(x**4), name="lambda"),
        sponge.FunctionPotential(_spring_to, {"k": 1.0}),
    )
    copy = system.copy()
    assert copy.energy() == pytest.approx(system.energy(), rel=1e-14)
    assert pickle.loads(pickle.dumps(morse([[0, 1]], depth=1.0, width=1.0, r0=1.0))).params["width"] == [1.0]


def test_copies_keep_their_function_when_the_name_is_defined_again():
    def define(power):
        @sponge.bond_potential
        def form(r, k):
            return k * r**power

        return form

    systems = [example_system(define(power)([[0, 1]], k=2.0)) for power in (2, 3)]
    r = np.linalg.norm(systems[0].positions[0] - systems[0].positions[1])
    assert [s.copy().energy() for s in systems] == pytest.approx([2 * r**2, 2 * r**3])


def test_local_functions_cannot_go_to_other_processes(monkeypatch):
    @sponge.bond_potential
    def local(r, k):
        return k * r

    for potential in (local([[0, 1]], k=2.0), sponge.FunctionPotential(lambda x: np.sum(x))):
        data = pickle.dumps(potential)
        with monkeypatch.context() as m:
            m.setattr("os.getpid", lambda: -1)
            with pytest.raises(ValueError, match="cannot be imported here"):
                pickle.loads(data)


def test_ase_calculator():
    pytest.importorskip("ase")
    from ase import Atoms
    from ase.calculators.lj import LennardJones

    # sigma, epsilon in Å and eV; a cut-off beyond everything, at which the calculator shifts its energy
    sigma, epsilon = 3.4, 0.0104
    positions = np.array([[0, 0, 0], [0.38, 0, 0], [0.1, 0.37, 0], [0.05, 0.1, 0.41]])
    calculator = LennardJones(sigma=sigma, epsilon=epsilon, rc=50.0, smooth=False)
    ase = sponge.ASEPotential(calculator, Atoms("Ar4", positions=positions * 10))
    native = lennard_jones(sigma=0.34, epsilon=epsilon * sponge.units.eV)
    masses = np.full(4, 39.9)
    systems = [sponge.System(sponge.Topology.of_particles(4), masses, positions=positions) for _ in range(2)]
    systems[0].add(ase), systems[1].add(native)
    shift = 6 * 4 * epsilon * ((sigma / 50) ** 12 - (sigma / 50) ** 6) * sponge.units.eV
    assert systems[0].energy() == pytest.approx(systems[1].energy() - shift, rel=1e-9)
    np.testing.assert_allclose(systems[0].forces(), systems[1].forces(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(systems[0].virial(), systems[1].virial(), rtol=1e-9, atol=1e-9)
    gradient = core.grad(lambda x: ase.energy({}, x, None))(positions)
    np.testing.assert_allclose(gradient, -systems[0].forces(), rtol=1e-12)


def test_ase_calculator_with_stress():
    pytest.importorskip("ase")
    from ase import Atoms
    from ase.calculators.lj import LennardJones

    rng = np.random.default_rng(0)
    box, n = np.diag([1.9, 2.0, 2.1]), 27
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3) @ (box / 3) + rng.normal(
        scale=0.01, size=(n, 3)
    )
    calculator = LennardJones(sigma=3.4, epsilon=0.0104, rc=9.0, smooth=False)
    system = sponge.System(sponge.Topology.of_particles(n), np.full(n, 39.9), box=box, positions=grid)
    system.add(sponge.ASEPotential(calculator, Atoms("Ar27", positions=grid * 10, cell=box * 10, pbc=True)))
    native = sponge.System(sponge.Topology.of_particles(n), np.full(n, 39.9), box=box, positions=grid)
    native.add(lennard_jones(sigma=0.34, epsilon=0.0104 * sponge.units.eV, cutoff=0.9, shift=True))
    assert system.energy() == pytest.approx(native.energy(), rel=1e-8)
    np.testing.assert_allclose(system.virial(), native.virial(), rtol=1e-7, atol=1e-6)
    by_box, expected = (core.grad(s.energy_function(), 2)(s.params(), grid, box) for s in (system, native))
    np.testing.assert_allclose(by_box, expected, rtol=1e-7, atol=1e-6)
    with pytest.raises(ValueError, match="must name different atoms"):
        sponge.ASEPotential(calculator, Atoms("Ar2"), indices=[1, 1])


# --------------------------------------------------------------------------------------------------------------- errors
def _in_box(potential):
    return example_system(potential, n=3, box=[1.0, 1.0, 1.0])


@pytest.mark.parametrize(
    ("make", "error", "match"),
    [
        (lambda: buckingham(a=1.0, b=2.0), TypeError, "parameter c is missing"),
        (lambda: buckingham(a=1.0, b=2.0, c=1.0, d=1.0), TypeError, "must be a, b, c, got d"),
        (lambda: buckingham(a=[1.0, 2.0], b=2.0, c=1.0), ValueError, "mixing must say how a of two atoms combine"),
        (
            lambda: buckingham(a=[1.0, 2.0], b=2.0, c=1.0, mixing={"d": "product"}),
            TypeError,
            "mixing must name some of a, b, c",
        ),
        (
            lambda: buckingham(a=[-1.0, 2.0], b=2.0, c=1.0, mixing="geometric"),
            ValueError,
            ">= 0 for geometric mixing, got -1.0",
        ),
        (lambda: buckingham(a=np.eye(2), b=2.0, c=1.0), ValueError, "types must be given"),
        (lambda: buckingham(a=[[1.0, 2.0], [3.0, 4.0]], b=2.0, c=1.0, types=[0]), ValueError, "must be symmetric"),
        (lambda: buckingham(a=np.eye(2), b=2.0, c=1.0, types=[2]), ValueError, "types for a must be 0 to 1"),
        (
            lambda: buckingham(a=np.zeros((4097, 4097)), b=2.0, c=1.0, types=[2]),
            ValueError,
            "at most 4096 types, got 4097",
        ),
        (lambda: sponge.LJTable([0], *np.zeros((2, 4097, 4097))), ValueError, "at most 4096 types, got 4097"),
        (lambda: buckingham(a=1.0, b=2.0, c=1.0, cutoff=-1.0), ValueError, "cutoff must be a positive number"),
        (lambda: buckingham(a=1.0, b=2.0, c=1.0, shift=True), ValueError, "need a cutoff"),
        (lambda: buckingham(a=1.0, b=2.0, c=1.0, cutoff=1.0, switch=1.5), ValueError, "switch must lie between"),
        (lambda: _in_box(buckingham(a=1.0, b=2.0, c=1.0, cutoff=0.6)), BoxError, "half the smallest box edge"),
        (
            lambda: _in_box(buckingham(a=[1.0, 2.0], b=2.0, c=1.0, mixing="product")),
            ValueError,
            "each of 3 atoms, got 2",
        ),
        (lambda: _in_box(buckingham(a=np.nan, b=2.0, c=1.0)), ValueError, "a must be finite, got nan"),
        (lambda: sponge.pair_potential(lambda: 1.0), TypeError, "first argument must be the distance"),
        (lambda: sponge.pair_potential(lambda r, cutoff: r), TypeError, "must not be called 'cutoff'"),
        (lambda: sponge.bond_potential(lambda r, name: r), TypeError, "must not be called 'name'"),
        (lambda: sponge.FunctionPotential(lambda x, k: k), TypeError, "params must be those of the function"),
        (lambda: sponge.FunctionPotential(lambda x: 0.0, {"k": 1.0}), TypeError, "got k"),
    ],
)
def test_errors(make, error, match):
    with pytest.raises(error, match=match):
        make()
