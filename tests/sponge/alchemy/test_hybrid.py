"""Hybrids: ends are the two systems, derivatives are differences, and mappings that cannot be are refused."""

import numpy as np
import pytest

from tests.data.sponge.alchemy import systems
from tests.sponge.alchemy.test_alchemy import with_table
from triskele import core, sponge
from triskele.sponge import alchemy
from triskele.sponge.potentials.expressions.expression import ExpressionTerm
from triskele.sponge.testing import check_potential
from triskele.sponge.virtual_sites.sites import OutOfPlane

NAMES = ("electrostatics", "insertion", "deletion", "mixing")
STAGES = alchemy.Schedule(
    insertion=[0, 0.5, 1, 1, 1, 1, 1],
    electrostatics=[0, 0, 0, 0.5, 1, 1, 1],
    mixing=[0, 0, 0, 0.5, 1, 1, 1],
    deletion=[0, 0, 0, 0, 0, 0.5, 1],
)


def molecule(kind):
    """A chain of atoms, of which the old and the new molecule share the first four, among 59 others."""
    rng = np.random.default_rng(4)
    n, box = 59, np.array([[1.6, 0, 0], [0.3, 1.5, 0], [-0.2, 0.4, 1.7]])
    lattice = np.stack(np.meshgrid(*[np.arange(4)] * 3), axis=-1).reshape(-1, 3)[:n] / 4
    rest = {
        "positions": lattice @ box + rng.normal(scale=0.02, size=(n, 3)),
        "charges": rng.normal(size=n),
        "sigmas": rng.uniform(0.2, 0.3, n),
        "epsilons": rng.uniform(0.1, 1, n),
    }
    m = {"old": 6, "new": 7}[kind]
    own = np.random.default_rng(m)
    shape = (
        np.array(
            [
                [0, 0, 0],
                [0.15, 0, 0],
                [0.2, 0.14, 0],
                [0.35, 0.14, 0.05],
                [0.41, 0.27, 0],
                [0.55, 0.27, 0.04],
                [0.6, 0.4, 0.0],
            ]
        )[:m]
        + 0.6
    )
    bonds = [[k, k + 1] for k in range(m - 1)]
    near = [[k, k + d] for d in (1, 2, 3) for k in range(m - d)]
    system = sponge.System(
        sponge.Topology.of_particles(m + n, bonds=bonds),
        np.full(m + n, 12.0),
        box,
        np.concatenate([shape, rest["positions"]]),
        exclusions=near,
    )
    charges, sigmas, epsilons = own.normal(0, 0.3, m), own.uniform(0.2, 0.3, m), own.uniform(0.1, 0.5, m)
    sigmas[1], epsilons[1] = 0.25, 0.3  # the same in both
    charges -= charges.mean()
    system.add(
        sponge.Nonbonded(
            np.r_[charges, rest["charges"]],
            np.r_[sigmas, rest["sigmas"]],
            np.r_[epsilons, rest["epsilons"]],
            cutoff=0.7,
            switch=0.6,
            alpha=6.5,
            grid=(24, 24, 24),
        )
    )
    system.add(sponge.harmonic_bond(bonds, k=[2000.0, *own.uniform(1000, 3000, m - 2)], r0=0.15))
    ends = [[k, k + 3] for k in range(m - 3)]
    system.add(sponge.pair14(ends, charge_product=0.1, sigma=0.25, epsilon=own.uniform(0.1, 0.3, m - 3)))
    return system


@pytest.fixture(scope="module")
def both():
    return alchemy.hybrid(molecule("old"), molecule("new"), {k: k for k in range(4)})


@pytest.mark.parametrize("end, kind", [(0.0, "old"), (1.0, "new")])
def test_ends_are_the_systems_and_dummies_that_keep_to_themselves(both, end, kind):
    soft, plain = both.copy(), molecule(kind)
    alchemy.set_lambdas(soft, **dict.fromkeys(NAMES, end))
    present = np.r_[0:65] if kind == "old" else np.r_[0:4, 65:68, 6:65]
    x = np.zeros((plain.n, 3))
    x[:] = soft.positions[present]
    forces, expected = soft.forces()[present], plain.forces(x)
    bonded = [p.name for p in soft.potentials if "new atoms" in p.name or p.name in ("bond", "pair14")]
    # dummies pull at the shared atoms that they are bonded to, but at no other
    shared = np.r_[0:4]
    free = np.setdiff1d(np.arange(plain.n), shared)
    np.testing.assert_allclose(forces[free], expected[free], atol=1e-8 * np.abs(expected).max())
    assert len(bonded) == 4
    # what is left of the dummies: Lennard-Jones of two that are no neighbors, 1-4 pairs and bonds
    gone = np.setdiff1d(np.arange(soft.n), present)
    moved = soft.positions.copy()
    away = soft.energy(moved)
    moved[gone] += 0.05
    for p in list(soft.potentials):
        if isinstance(p, sponge.harmonic_bond | sponge.pair14):
            away -= p.energy(p.params, soft.positions, soft.box) - p.energy(p.params, moved, soft.box)
    assert soft.energy(moved) == pytest.approx(float(away), rel=1e-10)


def test_energies_of_shared_atoms_alone_are_those_of_the_systems():
    """With a mapping of all atoms there are no dummies: the ends are the systems themselves."""
    old, new = molecule("old"), molecule("old")
    rng = np.random.default_rng(1)
    new.nonbonded.params["charges"][:6] = (q := rng.normal(size=6)) - q.mean()
    new.nonbonded.params["sigmas"][:6] = rng.uniform(0.2, 0.3, 6)
    new["bond"].params["k"][:] *= 1.3
    for soft_core in (None, alchemy.Gapsys()):
        soft = alchemy.hybrid(old, new, {k: k for k in range(6)}, soft_core=soft_core)
        ends = alchemy.Schedule(electrostatics=[0, 1], mixing=[0, 1])
        np.testing.assert_allclose(alchemy.energies(soft, ends), [old.energy(), new.energy()], rtol=1e-10)
        for end, system in ((0.0, old), (1.0, new)):
            alchemy.set_lambdas(soft, electrostatics=end, mixing=end)
            np.testing.assert_allclose(soft.forces(), system.forces(), atol=1e-9 * np.abs(system.forces()).max())
            np.testing.assert_allclose(soft.virial(), system.virial(), atol=1e-9 * np.abs(system.virial()).max())


def test_a_molecule_in_vacuum_turns_into_another():
    old, new = (systems.system(name, water=False) for name in ("methanol", "ethanol"))
    for system in (old, new):  # of hydroxyl hydrogens: derivatives by a root exist
        system.nonbonded.params["epsilons"][system.nonbonded.params["epsilons"] == 0] = 0.05
    soft = alchemy.hybrid(old, new, {0: 0, 1: 1})
    assert soft.box is None and soft.potentials[0].old.tolist() == [2, 3, 4, 5]
    energies, slopes = alchemy.energies(soft, STAGES), alchemy.derivatives(soft, STAGES)
    pairs14 = {name: soft[f"pair14{of}"] for name, of in (("old", ""), ("new", " of new atoms"))}
    bonded = {name: p.energy(p.params, soft.positions, None) for name, p in pairs14.items()}
    present = np.r_[0, 1, 6:13]  # the ethanol
    for end, plain, x, of, gone in (
        (0, old, old.positions, "new", np.r_[6:13]),
        (-1, new, soft.positions[present], "old", np.r_[2:6]),
    ):
        dummies = bonded[of] + _lennard_jones(soft, gone, "new_" if of == "new" else "")
        assert energies[end] == pytest.approx(plain.energy(x) + float(dummies), rel=1e-10)
    for k in (0, 3, 5):
        alchemy.set_lambdas(soft, **STAGES[k])
        assert soft.energy() == pytest.approx(energies[k], rel=1e-10)
    exact = core.grad(soft.energy_function())(soft.params(), soft.positions)["nonbonded"]
    for name in STAGES.names:
        assert slopes[name][5] == pytest.approx(float(exact[name]), rel=1e-9, abs=1e-9)
    check_potential(soft.potentials[0], soft)


def _lennard_jones(soft, atoms, which):
    """Energy of pairs among some atoms that are not excluded."""
    p, total = soft.potentials[0], 0.0
    sigma, epsilon = p.params[f"{which}sigmas"], p.params[f"{which}epsilons"]
    left_out = {tuple(sorted(pair)) for pair in soft.exclusions.tolist()}
    for i in atoms:
        for j in atoms[atoms > i]:
            if (i, j) not in left_out:
                x = (0.5 * (sigma[i] + sigma[j]) / np.linalg.norm(soft.positions[i] - soft.positions[j])) ** 6
                total += 4 * np.sqrt(epsilon[i] * epsilon[j]) * x * (x - 1)
    return total


def test_a_new_molecule_alone_takes_the_place_of_the_old_one():
    old, new = systems.system("methanol"), systems.system("ethanol", water=False)
    old.add(sponge.PositionRestraint([6], 500.0, [[0.3, 0.4, 0.5]]))
    soft = alchemy.hybrid(old, new, {0: 0, 1: 1})
    alchemy.set_lambdas(soft, electrostatics=0, insertion=0, deletion=0, mixing=0)
    water = np.arange(6, old.n)
    expected = old.forces()
    np.testing.assert_allclose(soft.forces()[water], expected[water], atol=1e-9 * np.abs(expected).max())
    alchemy.set_lambdas(soft, electrostatics=1, insertion=1, deletion=1, mixing=1)
    whole = systems.molecule("ethanol")
    order = np.r_[0, 1, old.n : soft.n, 6 : old.n]  # the ethanol, then the water
    params = soft.potentials[0].params
    assert params["new_charges"][order[:9]] == pytest.approx(whole["charges"])
    plain = sponge.System(
        sponge.Topology.of_particles(len(order)),
        np.full(len(order), 12.0),
        old.box,
        soft.positions[order],
        exclusions=[*whole["exclusions"], *(old.exclusions[old.exclusions.min(axis=1) > 5] + 3)],
    )
    plain.add(
        sponge.Nonbonded(
            params["new_charges"][order],
            params["new_sigmas"][order],
            params["new_epsilons"][order],
            cutoff=0.75,
            switch=0.65,
            alpha=4.0,
            grid=(24, 24, 24),
            dispersion_correction=False,
        )
    )
    plain.add(sponge.PositionRestraint([9], 500.0, [[0.3, 0.4, 0.5]]))
    expected = plain.forces()
    np.testing.assert_allclose(soft.forces()[order][9:], expected[9:], atol=1e-9 * np.abs(expected).max())


def test_one_pass_gives_all_states_and_derivatives(both):
    soft = both.copy()
    energies = alchemy.energies(soft, STAGES)
    for k in range(len(STAGES)):
        alchemy.set_lambdas(soft, **STAGES[k])
        assert soft.energy() == pytest.approx(energies[k], rel=1e-10)
    h = 1e-3
    for name in NAMES:
        points = alchemy.Schedule(
            **{other: 0.5 + h * np.arange(-3, 4) if other == name else [0.6] * 7 for other in NAMES}
        )
        u = alchemy.energies(soft, points)
        slope = (45 * (u[4] - u[2]) - 9 * (u[5] - u[1]) + (u[6] - u[0])) / (60 * h)
        assert alchemy.derivatives(soft, points)[name][3] == pytest.approx(slope, rel=1e-8, abs=1e-9 * abs(u[3]))


@pytest.mark.slow
def test_the_potential_keeps_its_contract(both):
    soft = both.copy()
    alchemy.set_lambdas(soft, electrostatics=0.4, insertion=0.7, deletion=0.6, mixing=0.3)
    check_potential(soft.potentials[0], soft, order=1)


@pytest.mark.slow
def test_a_hybrid_runs_and_resumes(both, tmp_path):
    def run():
        states = alchemy.States(STAGES, state=3, record=5)
        return states, sponge.Simulation(both, sponge.LangevinMiddle(300, 5.0, 0.0002), sampling=[states], seed=1)

    states, sim = run()
    sim.minimize(max_steps=20)
    sim.run(10)
    sim.save(tmp_path / "a.chk")
    sim.run(10)
    other, again = run()
    again.load(tmp_path / "a.chk")
    again.run(10)
    assert np.array_equal(sim.positions, again.positions) and np.array_equal(states.energies, other.energies)
    assert np.isfinite(states.energies).all() and len(states.energies) == 4
    rex = alchemy.LambdaExchange(both, STAGES, sponge.LangevinMiddle(300, 5.0, 0.0001), every=4, record=2, seed=1)
    rex.run(8)
    assert [x.shape for x in rex.samples] == [(4, 7)] * 7 and np.isfinite(rex.cross_energies[:, 1:-1]).all()


def surrounded(kind, first=0, k=900.0):
    """A molecule among atoms with a map and a restraint, numbered from the `first` of them."""
    system = molecule(kind)
    first += {"old": 6, "new": 7}[kind]
    maps = np.random.default_rng(5).normal(size=(1, 8, 8))
    system.add(sponge.CMAP(maps, [np.arange(4) + first], [np.arange(1, 5) + first], [0]))
    system.add(sponge.PositionRestraint([first + 9], k, [[0.3, 0.4, 0.5]]))
    return system


def test_maps_and_restraints_of_other_atoms_stay(both):
    soft, old = alchemy.hybrid(surrounded("old"), surrounded("new"), {k: k for k in range(4)}), surrounded("old")
    expected = sum(p.energy(p.params, old.positions, old.box) for p in (old["cmap"], old["position_restraint"]))
    assert soft.energy() - both.energy() == pytest.approx(float(expected), rel=1e-9)
    for before, after, message in [
        (surrounded("old", -1), surrounded("new"), "'cmap' of the old system is not a sum of bonded terms"),
        (surrounded("old"), surrounded("new", 1), "'cmap' must be the same in both systems"),
        (surrounded("old"), surrounded("new", k=1.0), "'position_restraint' must be the same in both systems"),
        (surrounded("old"), molecule("new"), "'cmap' must be the same in both systems"),
    ]:
        with pytest.raises(ValueError, match=message):
            alchemy.hybrid(before, after, {k: k for k in range(4)})


def test_exceptions_from_mixing_rules_hold_between_other_atoms(both):
    shared = {k: k for k in range(4)}
    soft = alchemy.hybrid(with_table(molecule("old"), (30, 40)), with_table(molecule("new"), (31, 41)), shared)
    difference = with_table(molecule("old"), (30, 40)).energy() - molecule("old").energy()
    expected = alchemy.energies(both, STAGES) + difference
    np.testing.assert_allclose(alchemy.energies(soft, STAGES), expected, rtol=1e-10)
    assert soft.energy() == pytest.approx(expected[0], rel=1e-10)
    with pytest.raises(ValueError, match="must have the same table"):
        alchemy.hybrid(with_table(molecule("old"), (30, 40)), with_table(molecule("new"), (31, 40)), shared)
    with pytest.raises(ValueError, match="must have the same table"):
        alchemy.hybrid(molecule("old"), with_table(molecule("new"), (31, 41)), shared)


SHAPE = np.array([[0, 0, 0], [0.15, 0, 0], [0.2, 0.14, 0], [0.35, 0.14, 0.05], [0.16, 0.1, 0.07]])
FOUR = {k: k for k in range(4)}


def chain(site=None, term=None, held=(), mixing="lorentz_berthelot", seed=1):
    """Four atoms in vacuum, with a virtual site, a term of the bonds or constraints."""
    rng, n = np.random.default_rng(seed), 4 if site is None else 5
    bonds, of_site = [[0, 1], [1, 2], [2, 3]], [[0, 4], [1, 4], [2, 4]]
    system = sponge.System(
        sponge.Topology.of_particles(n, bonds=bonds),
        [12.0, 12.0, 12.0, 12.0, 0.0][:n],
        positions=SHAPE[:n],
        exclusions=[*bonds, [0, 2], [1, 3], *(of_site if site else [])],
        constraints=sponge.Constraints(held, [0.15] * len(held)),
        virtual_sites=[site] if site else [],
    )
    charges = rng.normal(size=n)
    system.add(
        sponge.Nonbonded(
            charges - charges.mean(), rng.uniform(0.2, 0.3, n), rng.uniform(0.1, 0.5, n), method="none", mixing=mixing
        )
    )
    if term is not None:
        system.add(term)
    return system


def test_virtual_sites_of_both_molecules_follow_their_atoms():
    def off_plane(cross):
        return OutOfPlane(4, [0, 1, 2], 0.3, 0.4, cross)

    ends = alchemy.Schedule(**{name: [0, 1] for name in NAMES})
    for old, new in ((chain(), chain(off_plane(5.0), seed=2)), (chain(off_plane(5.0), seed=2), chain())):
        soft = alchemy.hybrid(old, new, FOUR)
        soft.positions[4] += 0.1  # sites stand where their atoms are
        np.testing.assert_allclose(alchemy.energies(soft, ends), [old.energy(), new.energy()], rtol=1e-10)
        for end, plain in ((0.0, old), (1.0, new)):
            alchemy.set_lambdas(soft, **dict.fromkeys(NAMES, end))
            np.testing.assert_allclose(soft.forces()[:4], plain.forces()[:4], rtol=1e-9, atol=1e-9)
        sim = sponge.Simulation(soft, sponge.LangevinMiddle(300, 1.0, 0.0005), seed=1)
        sim.run(5)
        np.testing.assert_allclose(sim.positions, soft.virtual_sites[0].place(sim.positions), atol=1e-12)
    five, plain = FOUR | {4: 4}, chain(off_plane(5.0))
    plain.virtual_sites = []
    assert len(alchemy.hybrid(*[chain(off_plane(5.0))] * 2, five).virtual_sites) == 1
    for other, how in ((chain(off_plane(4.0)), "placed by another rule"), (plain, "a virtual site in the old system")):
        with pytest.raises(ValueError, match=rf"atom 4 \(.*\) is {how}"):
            alchemy.hybrid(chain(off_plane(5.0)), other, five)


def test_constraints_of_shared_atoms_are_those_of_both():
    both = alchemy.hybrid(chain(held=[[1, 0]]), chain(held=[[0, 1]], seed=2), FOUR)
    assert both.constraints.pairs.tolist() == [[0, 1]]
    one, none = chain(held=[[0, 1]]), chain(term=sponge.harmonic_bond([[0, 1]], k=1e5, r0=0.2))
    for old, new, where in ((one, none, "old"), (none, one, "new")):
        with pytest.raises(ValueError, match=rf"atom 0 .* and atom 1 .* constrained in the {where} system alone"):
            alchemy.hybrid(old, new, FOUR)


def test_terms_are_shared_if_their_functions_are():
    def term(expression, **params):
        return ExpressionTerm("bond", expression, [[0, 1], [1, 2]], params)

    square = term("k*(r-r0)^2", k=900.0, r0=[0.1, 0.2])
    ends = alchemy.Schedule(electrostatics=[0, 1], mixing=[0, 1])
    for new in (
        term("k*(r-r0)^4", k=900.0, r0=[0.1, 0.2]),
        term("r0*(r-k)^2", k=900.0, r0=[0.1, 0.2]),
        sponge.harmonic_bond([[0, 1], [1, 2]], k=900.0, r0=[0.1, 0.2], name="bond_expression"),
    ):
        old, other = chain(term=square), chain(term=new)
        energies = alchemy.energies(alchemy.hybrid(old, other, FOUR), ends)
        np.testing.assert_allclose(energies, [old.energy(), other.energy()], rtol=1e-10)
    same = alchemy.hybrid(old, chain(term=term("k*(r-r0)^2", r0=[0.1, 0.2], k=[900.0, 900.0])), FOUR)
    assert [p.name for p in same.potentials] == ["nonbonded", "bond_expression"]


def test_mappings_that_cannot_be_are_refused(both):
    old, new = molecule("old"), molecule("new")
    ring = molecule("new")
    ring.topology = sponge.Topology.of_particles(ring.n, bonds=[*ring.topology.bonds.tolist(), [0, 3]])
    water = systems.system("methanol")
    for make, message in [
        (lambda: alchemy.hybrid(old, new, {0: 0, 1: 0}), "different atoms of the new system"),
        (lambda: alchemy.hybrid(old, new, {90: 0}), "different atoms of the old system, 0 to 64"),
        (lambda: alchemy.hybrid(old, new, {0: 3, 1: 2, 2: 1, 3: 6}), "connected by bonds"),
        (lambda: alchemy.hybrid(old, ring, {k: k for k in range(4)}), "bonded in the new molecule alone"),
        (lambda: alchemy.hybrid(old, water, {0: 0}), "the same other atoms"),
        (lambda: alchemy.hybrid(chain(), chain(mixing="geometric"), FOUR), "same mixing rule, got 'lorentz_berthelot'"),
        (
            lambda: alchemy.hybrid(*[systems.system("methanol", method="cutoff")] * 2, {0: 0}),
            "or 'none' for a molecule alone",
        ),
        (
            lambda: sponge.Simulation(
                both,
                sponge.LangevinMiddle(300, 1.0, 0.001),
                sampling=[alchemy.States(alchemy.Schedule(insertion=[0, 1], deletion=[0, 1]))],
            ),
            "charges without Lennard-Jones",
        ),
        (lambda: alchemy.set_lambdas(both, sterics=0.5), "no potential of the system scales with the lambda"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
