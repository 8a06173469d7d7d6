"""Marked atoms: another program's energies, derivatives against differences, limits, and what is refused."""

import contextlib
import json
import re

import numpy as np
import pytest
from scipy import integrate

from tests.data.sponge.alchemy import systems
from triskele import core, sponge
from triskele.sponge import alchemy
from triskele.sponge.errors import BoxError, BrokenSimulationError
from triskele.sponge.potentials.bonded.gromacs import lennard_jones_pair
from triskele.sponge.potentials.expressions.compound import ExpressionCompound
from triskele.sponge.testing import check_potential, example_system, examples
from triskele.sponge.virtual_sites.sites import TwoParticleAverage

REFERENCE = json.loads((systems.HERE / "reference.json").read_text())
CASES = {
    "pme": {},
    "pme, Gapsys": {"annihilate": ["electrostatics", "sterics"], "soft_core": alchemy.Gapsys()},
    "vacuum": {
        "annihilate": ["electrostatics", "sterics"],
        "soft_core": alchemy.Beutler(alpha=0.4, a=2, b=1.5, c=4, beta=0.3, d=2, e=1.5, f=2),
    },
    "reaction field": {"annihilate": [], "soft_core": alchemy.Beutler(beta=0.2, d=1.5)},
    "tail": {},
}
OPTIONS = {"reaction field": {"method": "reaction_field", "dielectric": 78.3}, "tail": {"dispersion_correction": True}}
TOLERANCE = {"tail": 2e-8}  # OpenMM integrates the tails of custom forces numerically
BOTH = ("electrostatics", "sterics")


def changed(method, **options):
    system = fluid(method)
    system.nonbonded.update(**options)
    return system


def fluid(method="pme", switch=None, mixing="lorentz_berthelot", periodic=True):
    """A chain of five atoms among 59 others, with 1-4 pairs, bonds and a restraint."""
    rng = np.random.default_rng(4)
    n, box = 64, np.array([[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]])
    lattice = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3) / 4
    bonds = [[0, 1], [1, 2], [2, 3], [3, 4]]
    system = sponge.System(
        sponge.Topology.of_particles(n, bonds=bonds),
        np.full(n, 12.0),
        box if periodic else None,
        lattice @ box + rng.normal(scale=0.02, size=(n, 3)),
        exclusions=[*bonds, [0, 2], [1, 3], [2, 4], [0, 3], [1, 4], [5, 6]],
    )
    charges = rng.normal(size=n)
    charges[:5] -= charges[:5].mean()
    system.add(
        sponge.Nonbonded(
            charges,
            rng.uniform(0.2, 0.3, n),
            rng.uniform(0.1, 1, n),
            method=method,
            cutoff=0.7,
            switch=switch,
            tolerance=1e-6,
            mixing=mixing,
        )
    )
    system.add(sponge.pair14([[0, 3], [1, 4]], charge_product=[0.1, -0.2], sigma=[0.25, 0.2], epsilon=[0.3, 0.2]))
    system.add(sponge.harmonic_bond(bonds, k=1000.0, r0=0.4))
    system.add(sponge.distance_restraint([[0, 40]], k=10.0, lower=0.3, upper=0.3))
    return system


KINDS = [
    ({"switch": 0.6}, {}),
    ({"mixing": "geometric"}, {"annihilate": [], "soft_core": alchemy.Beutler(c=4, a=2, b=1.5)}),
    ({}, {"annihilate": BOTH, "soft_core": alchemy.Gapsys()}),
    ({"method": "none", "periodic": False}, {"annihilate": BOTH, "soft_core": alchemy.Beutler(beta=0.3, d=1.5, e=1.2)}),
    ({"method": "none", "periodic": False}, {"annihilate": [], "soft_core": alchemy.Gapsys()}),
    ({"method": "reaction_field", "switch": 0.6}, {"annihilate": ["sterics"], "soft_core": alchemy.Beutler(beta=0.2)}),
    ({"method": "cutoff", "periodic": False, "switch": 0.6}, {}),
]
ALL = alchemy.Schedule(
    electrostatics=[1, 0.8, 0.5, 0.1, 0, 0],
    sterics=[1, 1, 0.9, 0.6, 0.3, 0],
    bonded=[1, 0.9, 0.8, 0.7, 0.6, 0],
    restraints=[0, 0.1, 0.2, 0.3, 0.4, 1],
)


@pytest.fixture(params=range(len(KINDS)))
def soft(request):
    plain, options = KINDS[request.param]
    return alchemy.decouple(fluid(**plain), range(5), bonded=["bond"], restraints=["distance_restraint"], **options)


@pytest.mark.parametrize("case", CASES)
def test_energies_and_derivatives_are_those_of_openmmtools(case):
    vacuum = case == "vacuum"
    lambdas = [REFERENCE["vacuum lambdas"]] * 2 if vacuum else [REFERENCE[name] for name in BOTH]
    schedule = alchemy.Schedule(*lambdas)
    assert len(REFERENCE[case]) == 12 and len(schedule) == 11
    for name, expected in REFERENCE[case].items():
        energies, by_charge, by_steric = np.array(expected, float)
        plain = systems.system(name, water=not vacuum, **OPTIONS.get(case, {}))
        soft = alchemy.decouple(plain, range(len(systems.molecule(name)["charges"])), **CASES[case])
        rtol = TOLERANCE.get(case, 1e-8)
        scale = rtol * np.abs(energies).max()
        own = alchemy.energies(soft, schedule)
        if case == "tail":
            # the factory's tail among marked atoms is not that of the plain system; it does not depend on lambda
            assert own[0] == pytest.approx(plain.energy(), rel=1e-11)
            energies += own[0] - energies[0]
        np.testing.assert_allclose(own, energies, rtol=rtol, atol=scale)
        found = alchemy.derivatives(soft, schedule)
        np.testing.assert_allclose(found["sterics"], by_steric, rtol=rtol, atol=scale)
        known = np.isfinite(by_charge)
        # the reference is a difference of energies that have rounding errors themselves
        np.testing.assert_allclose(found["electrostatics"][known], by_charge[known], rtol=10 * rtol, atol=scale)


@pytest.mark.parametrize("soft", [0, 3, 4, 5, 6], indirect=True)
def test_potentials_keep_their_contract(soft):
    alchemy.set_lambdas(soft, electrostatics=0.6, sterics=0.35, bonded=0.4, restraints=0.3)
    for potential in soft.potentials if soft.box is None else soft.potentials[:1]:
        check_potential(potential, soft, order=1 if soft.potentials[0].ewald else 2)


def test_one_pass_gives_the_energy_and_derivatives_of_each_state(soft):
    energies, slopes = alchemy.energies(soft, ALL), alchemy.derivatives(soft, ALL)
    for k in range(len(ALL)):
        alchemy.set_lambdas(soft, **ALL[k])
        assert soft.energy() == pytest.approx(energies[k], rel=1e-10)
    if soft.potentials[0].ewald and soft.potentials[0].annihilate:
        return  # other kinds show the same
    alchemy.set_lambdas(soft, **ALL[3])
    found = core.grad(soft.energy_function())(soft.params(), soft.positions)
    for name in ALL.names:
        total = sum(float(values[name]) for values in found.values() if name in values)
        assert slopes[name][3] == pytest.approx(total, rel=1e-8, abs=1e-8)


def test_derivatives_are_differences_of_energies(soft):
    h = 1e-3
    for name in ALL.names:
        points = alchemy.Schedule(
            **{other: 0.5 + h * np.arange(-3, 4) if other == name else [0.7] * 7 for other in ALL.names}
        )
        u = alchemy.energies(soft, points)
        slope = (45 * (u[4] - u[2]) - 9 * (u[5] - u[1]) + (u[6] - u[0])) / (60 * h)
        assert alchemy.derivatives(soft, points)[name][3] == pytest.approx(slope, rel=1e-8, abs=1e-9 * abs(u[3]))


@pytest.mark.parametrize("index", [2, 5])
def test_states_keep_their_energies_where_atoms_overlap(index):
    plain, options = KINDS[index]
    soft = alchemy.decouple(fluid(**plain), range(5), **options)
    soft.positions[7] = soft.positions[2] + [0.003, 0, 0]
    states = alchemy.Schedule(electrostatics=[0, 0, 0.5, 1], sterics=[0, 0.5, 0.999999, 1])
    energies, slopes = alchemy.energies(soft, states), alchemy.derivatives(soft, states)
    assert energies[3] > 1e18 > energies[2] > 1e9 > abs(energies[:2]).max()
    for k in range(4):
        alchemy.set_lambdas(soft, **states[k])
        assert soft.energy() == pytest.approx(energies[k], rel=1e-10)
        assert alchemy.derivatives(soft, states)["sterics"][k] == pytest.approx(slopes["sterics"][k], rel=1e-10)
    soft.positions[7] = soft.positions[2]
    with pytest.raises(BrokenSimulationError, match=r"alchemy.energies: .* 'nonbonded': .* are 0 nm apart"):
        alchemy.energies(soft, states)


def test_boxes_are_taken_as_the_system_takes_them():
    soft, states = alchemy.decouple(fluid("reaction_field"), range(5)), alchemy.Schedule(sterics=[0, 1])
    for box in (1.7, [1.7, 1.7, 1.8], np.diag([1.7, 1.6, 1.8]).tolist()):
        assert alchemy.energies(soft, states, box=box)[1] == pytest.approx(soft.energy(box=box), rel=1e-10)
    for function in (alchemy.energies, alchemy.derivatives):
        with pytest.raises(BoxError, match=rf"alchemy.{function.__name__}: box: .* got shape \(2,\)"):
            function(soft, states, box=[1.7, 1.7])
    open_ = alchemy.decouple(fluid("none", periodic=False), range(5))
    with pytest.raises(ValueError, match="a box was given, but the system is not periodic"):
        alchemy.energies(open_, states, box=1.7)


@pytest.mark.parametrize("plain, options", KINDS)
def test_full_interactions_are_those_of_the_plain_system(plain, options):
    system = fluid(**plain)
    soft = alchemy.decouple(system, range(5), **options)
    assert soft.energy() == pytest.approx(system.energy(), rel=1e-12)
    np.testing.assert_allclose(soft.forces(), system.forces(), atol=1e-10 * np.abs(system.forces()).max())
    np.testing.assert_allclose(soft.virial(), system.virial(), atol=1e-10 * np.abs(system.virial()).max())


@pytest.mark.parametrize("plain, options", KINDS)
def test_without_interactions_the_molecule_keeps_only_itself(plain, options):
    system = fluid(**plain)
    rest = system.copy()
    rest.nonbonded.params["charges"][:5] = rest.nonbonded.params["epsilons"][:5] = 0.0
    rest.remove("pair14")
    gone = alchemy.decouple(system, range(5), **options | {"annihilate": BOTH})
    alchemy.set_lambdas(gone, electrostatics=0.0, sterics=0.0)
    assert gone.energy() == pytest.approx(rest.energy(), rel=1e-12)
    alone = alchemy.decouple(system, range(5), **options | {"annihilate": []})
    alchemy.set_lambdas(alone, electrostatics=0.0, sterics=0.0)
    alone.remove("distance_restraint")
    moved = system.positions.copy()
    moved[:5] += [0.31, -0.27, 0.44]
    assert alone.energy(moved) == pytest.approx(alone.energy(), rel=1e-12)


def with_table(system, *exceptions):
    """The same with a table of pairs, in which `exceptions` (i, j) have a well twice as deep as the rules say."""
    new, p = system.copy(), system.nonbonded
    sigma, epsilon = p.params["sigmas"], p.params["epsilons"]
    sizes, wells = 0.5 * (sigma[:, None] + sigma), np.sqrt(epsilon[:, None] * epsilon)
    for i, j in exceptions:
        wells[i, j] = wells[j, i] = 2 * wells[i, j]
    table = sponge.LJTable.from_sigma_epsilon(np.arange(system.n), sizes, wells)
    made = sponge.Nonbonded(
        p.params["charges"],
        mixing=table,
        method=p.method,
        cutoff=p.cutoff,
        switch=p.switch,
        tolerance=p.tolerance,
        alpha=p.alpha,
        grid=p.grid,
    )
    new.potentials[new.potentials.index(new.nonbonded)] = made
    return new


@pytest.mark.parametrize("options", [{}, {"annihilate": BOTH, "soft_core": alchemy.Gapsys()}])
def test_exceptions_from_mixing_rules_hold_between_other_atoms(options):
    plain = fluid(switch=0.6)
    ruled, excepted = alchemy.decouple(plain, range(5), **options), with_table(plain, (20, 21), (40, 20))
    soft = alchemy.decouple(excepted, range(5), **options)
    states = alchemy.Schedule(electrostatics=[1, 0.5, 0, 0], sterics=[1, 1, 0.6, 0])
    energies, difference = alchemy.energies(soft, states), excepted.energy() - plain.energy()
    assert abs(difference) > 1e-3
    np.testing.assert_allclose(energies, alchemy.energies(ruled, states) + difference, rtol=1e-10)
    np.testing.assert_allclose(soft.forces(), excepted.forces(), atol=1e-10 * np.abs(excepted.forces()).max())
    for name in BOTH:
        np.testing.assert_allclose(
            alchemy.derivatives(soft, states)[name], alchemy.derivatives(ruled, states)[name], rtol=1e-8, atol=1e-8
        )
    alchemy.set_lambdas(soft, electrostatics=0.6, sterics=0.35)
    check_potential(soft.potentials[0], soft, order=1)
    with pytest.raises(ValueError, match="but atom 4 .* and atom 30 .* have a pair of their own in the table"):
        alchemy.decouple(with_table(plain, (30, 4)), range(5))


def _tail(form, u, n):
    """Energy of a pair beyond the cut-off times the volume, by quadrature."""

    def lost(r):
        x = (r - form.switch) / (form.cutoff - form.switch)
        return x**3 * (10 - 15 * x + 6 * x * x)

    total = integrate.quad(lambda r: u(r) * r * r, form.cutoff, np.inf, epsabs=1e-15, epsrel=1e-12)[0]
    if form.switch is not None:
        total += integrate.quad(lambda r: lost(r) * u(r) * r * r, form.switch, form.cutoff, epsabs=1e-15)[0]
    return 4 * np.pi * n / (n + 1) * total


@pytest.mark.parametrize("switch", [None, 0.55])
@pytest.mark.parametrize("soft_core", [alchemy.Beutler(), alchemy.Beutler(a=2, c=4), alchemy.Gapsys()])
def test_energy_beyond_the_cutoff_is_the_integral_of_the_soft_core(soft_core, switch):
    n, volume = 8, 1.6**3
    positions = 0.8 * np.stack(np.meshgrid(*[np.arange(2)] * 3), -1).reshape(-1, 3)  # no pair within the cut-off
    system = sponge.System(sponge.Topology.of_particles(n), np.full(n, 12.0), 1.6, positions)
    system.add(
        sponge.Nonbonded(
            np.zeros(n), np.full(n, 0.3), np.full(n, 0.5), method="reaction_field", cutoff=0.7, switch=switch
        )
    )
    soft = alchemy.decouple(system, [3], soft_core=soft_core)
    form = system.nonbonded.form(system.box)
    for lam in (1.0, 0.4):
        alchemy.set_lambdas(soft, sterics=lam)
        pair = _tail(form, lambda r, lam=lam: float(soft_core.lennard_jones(np.float64(r * r), 0.3, 0.5, lam)), n)
        plain = _tail(form, lambda r: 2.0 * ((0.3 / r) ** 12 - (0.3 / r) ** 6), n)
        assert soft.energy() == pytest.approx((7 * pair + (28 + 1) * plain) / volume, rel=1e-9)


def _inverse(r, k):
    return k / r


def test_bad_input_is_refused_by_name():
    system = fluid()
    for change, message in [
        (lambda: alchemy.decouple(system, range(4)), "marked atom 3 .* is bonded to atom 4 .* not marked"),
        (lambda: alchemy.decouple(system, [5]), "atom 5 .* is excluded from interacting to atom 6"),
        (lambda: alchemy.decouple(system, []), "at least one atom"),
        (lambda: alchemy.decouple(system, range(5), annihilate=["charges"]), "annihilate must name some of"),
        (lambda: alchemy.decouple(system, range(5), bonded=["nonbonded"]), "cannot be scaled as a whole"),
        (lambda: alchemy.decouple(system, range(5), bonded=["pair14"]), "1-4 pairs 'pair14' .* or pass annihilate="),
        (lambda: alchemy.decouple(system, range(5), bonded=["bond"], restraints=["bond"]), "'bond' .* in both"),
        (lambda: alchemy.decouple(system, range(5), soft_core=alchemy.Beutler(beta=0.2)), "must have beta = 0"),
        (lambda: alchemy.decouple(fluid("ljpme"), range(5)), "got method 'ljpme'"),
        (
            lambda: alchemy.decouple(changed("reaction_field", excluded_field=True), range(5)),
            "need a reaction field without excluded_field",
        ),
        (
            lambda: alchemy.decouple(changed("cutoff", modifier="potential-shift"), range(5)),
            "need the modifier 'potential-switch', got 'potential-shift'",
        ),
        (lambda: alchemy.Beutler(b=0.5), "b must be at least 1, got 0.5"),
        (lambda: alchemy.Schedule(sterics=[1, 0.5, 0.6, 0]), "turns at state 2, from 0.5 to 0.6"),
        (lambda: alchemy.Schedule(sterics=[1, 1.5]), "between 0 and 1, got 1.5 in state 1"),
        (lambda: alchemy.Schedule(sterics=[1, 0.5], electrostatics=[1, 0.5, 0]), "3 of electrostatics, 2 of sterics"),
        (lambda: alchemy.Schedule(sterics=[1, 0.5, 0.5]), "states 1 and 2 are the same"),
        (lambda: alchemy.energies(system, alchemy.Schedule(sterics=[1, 0])), "must have marked atoms"),
        (lambda: alchemy.set_lambdas(alchemy.decouple(system, range(5)), steric=0.5), "did you mean 'sterics'"),
        (lambda: alchemy.set_lambdas(alchemy.decouple(system, range(5)), bonded=0.5), "no potential .* 'bonded'"),
        (lambda: alchemy.set_lambdas(alchemy.decouple(system, range(5)), sterics="1"), "sterics must be a number from"),
        (lambda: alchemy.set_lambdas(alchemy.decouple(system, range(5)), sterics=[0.1, 0.2]), "sterics must be a num"),
    ]:
        with pytest.raises(ValueError, match=message):
            change()
    kept = alchemy.decouple(system, range(5), annihilate=(), bonded=["pair14"])
    assert kept["pair14 of marked atoms"].key == "bonded"
    with pytest.raises(TypeError, match="soft_core must be a Beutler or Gapsys, got 'beutler'"):
        alchemy.decouple(system, range(5), soft_core="beutler")
    system.add(sponge.pair_potential(_inverse)(k=1.0, cutoff=0.7))
    with pytest.raises(ValueError, match="acts on all pairs of atoms"):
        alchemy.decouple(system, range(5))


# Potentials of given terms are those with `atoms`. Others act in full at all lambdas, because users add them for that.
IN_FULL = ("BiasPotential", "FunctionPotential", "ExpressionCombination", "ExpressionVolume")


def test_potentials_whose_pairs_would_stay_are_refused():
    """Every kind of potential scales, has terms of given atoms, acts in full on purpose, or is refused."""
    for name, example, key in examples():
        if isinstance(example[key], sponge.Nonbonded):
            continue
        plain = example_system(example[key], n=example.n, box=example.box)
        method = "none" if plain.box is None else "cutoff"
        plain.add(sponge.Nonbonded(*np.zeros((3, plain.n)), method=method, cutoff=0.3))
        try:
            alchemy.decouple(plain, range(6), annihilate=())
        except ValueError as error:
            assert re.search("acts on (all pairs of atoms|marked atoms and others together)", str(error)), name
        else:
            assert type(example[key]).__name__ in IN_FULL or np.ndim(getattr(example[key], "atoms", None)) > 0, name


@pytest.mark.parametrize("groups", [None, [([0, 1], [1, 1]), ([6, 7], [1, 1]), ([2, 3], [1, 1])]])
def test_compound_terms_between_marked_atoms_and_others_must_be_restraints(groups):
    system = fluid()
    own, others = ([[0, 2]], [[0, 2], [0, 1]]) if groups else ([[0, 1], [6, 7]], [[0, 1], [1, 7]])
    system.add(ExpressionCompound("5*distance(p1,p2)", own, {}, groups=groups))
    alchemy.decouple(system, range(5))
    system.add(ExpressionCompound("5*distance(p1,p2)", others, {}, groups=groups, name="hydrogen bonds"))
    with pytest.raises(ValueError, match="'hydrogen bonds' acts on marked atoms and others together in 1 of 2 terms"):
        alchemy.decouple(system, range(5))
    soft = alchemy.decouple(system, range(5), restraints=["hydrogen bonds"])
    assert soft.energy() == pytest.approx(system.energy(), rel=1e-9)
    alchemy.set_lambdas(soft, restraints=0.0)
    assert soft.energy_terms()["hydrogen bonds"] == 0.0 != system.energy_terms()["hydrogen bonds"]


def test_terms_that_would_stay_between_marked_atoms_are_refused():
    for potential, kind, other in (
        (sponge.thole_screening([[0, 2]], charge_product=1.0, damping=20.0), "electrostatics", "sterics"),
        (lennard_jones_pair([[0, 3]], c6=1e-3, c12=1e-6), "sterics", "electrostatics"),
    ):
        system = fluid()
        system.add(potential)
        with pytest.raises(ValueError, match=f"would stay between marked atoms, where annihilate removes {kind}"):
            alchemy.decouple(system, range(5), annihilate=[kind])
        alchemy.decouple(system, range(5), annihilate=[other])
        system.nonbonded.params["charges"][:] = 0.0
        alchemy.decouple(system, range(10, 20), annihilate=[kind])


def test_potentials_of_some_atoms_must_be_of_marked_ones_or_of_others():
    ase, lj = pytest.importorskip("ase"), pytest.importorskip("ase.calculators.lj")
    for atoms, refused in ((range(5), False), (range(7, 12), False), (range(3, 8), True)):
        system = fluid()
        system.add(sponge.ASEPotential(lj.LennardJones(), ase.Atoms("C5"), atoms))
        with (
            pytest.raises(ValueError, match="ASEPotential 'ase' acts on marked atoms and others together")
            if refused
            else contextlib.nullcontext()
        ):
            alchemy.decouple(system, range(5))


def test_marked_atoms_cannot_cut_constraints_or_virtual_sites():
    plain = fluid()
    plain.constraints = sponge.Constraints([[10, 11]], [0.1])
    with pytest.raises(ValueError, match="atom 10 .* is constrained to atom 11"):
        alchemy.decouple(plain, [10])
    plain = fluid()
    plain.masses[20] = 0.0
    plain.virtual_sites = [TwoParticleAverage([20], [[21, 22]], [[0.5, 0.5]])]
    with pytest.raises(ValueError, match="atom 21 .* is tied as a virtual site to atom 20"):
        alchemy.decouple(plain, [21])
