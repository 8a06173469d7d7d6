"""Constraints: each solver against SHAKE and RATTLE, sorting into kinds, and what happens when they cannot hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.molecules import MOLECULES, length_errors, mixture
from tests.twins.shake import rattle, shake
from triskele import sponge
from triskele.sponge.constraints.choose import Constraints
from triskele.sponge.constraints.clusters import constraint_clusters
from triskele.sponge.constraints.partition import partition
from triskele.sponge.constraints.solver import Solver
from triskele.sponge.engine.engine import Engine
from triskele.sponge.engine.flags import STATUS
from triskele.sponge.errors import ConstraintError
from triskele.sponge.system import System
from triskele.sponge.topology import Topology
from triskele.sponge.virtual_sites import TwoParticleAverage

EVERYTHING = [*MOLECULES] * 5


def solved(system, move, tolerance=1e-10, inverse_dt=0.0):
    """Positions and velocities after a move."""
    engine = Engine(system)
    solver = Solver(engine)
    solver.old[:] = engine.positions
    engine.positions += move
    run(engine, solver.positions(np.array([inverse_dt]), tolerance))
    return engine.positions.copy(), engine.velocities.copy()


def run(engine, tasks):
    for task in tasks:
        task.run()
        if engine.flags[STATUS]:
            engine.handlers[int(engine.flags[STATUS])](engine)


def small_move(system, rng, size=0.003):
    return rng.normal(size=system.positions.shape) * size / np.sqrt(system.masses)[:, None]


@pytest.mark.parametrize("names", [[name] * 9 for name in MOLECULES] + [EVERYTHING], ids=[*MOLECULES, "everything"])
def test_positions_and_velocities_are_those_of_shake(names, rng):
    system = mixture(names, rng)
    move = small_move(system, rng)
    held = system.constraints
    wanted = shake(system.positions, system.positions + move, held.pairs, held.distances, 1 / system.masses)
    positions, velocities = solved(system, move, 1e-12, inverse_dt=500.0)
    np.testing.assert_allclose(positions, wanted, atol=2e-12)
    np.testing.assert_allclose(velocities, system.velocities + 500 * (wanted - system.positions - move), atol=1e-9)

    engine = Engine(system)
    run(engine, Solver(engine).velocities())
    np.testing.assert_allclose(
        engine.velocities, rattle(system.positions, system.velocities, held.pairs, 1 / system.masses), atol=1e-10
    )


def test_many_molecules_in_many_chunks(rng):
    system = mixture([*MOLECULES] * 60, rng)
    engine = Engine(system)
    assert engine.atom_chunks > 2
    positions, _ = solved(system, small_move(system, rng), 1e-8)
    assert np.abs(length_errors(system, positions)).max() < 1e-8


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from(sorted(MOLECULES)), min_size=1, max_size=20),
    st.integers(0, 2**32 - 1),
    st.floats(1e-5, 0.004),
)
def test_lengths_hold_and_momentum_stays(names, seed, size):
    rng = np.random.default_rng(seed)
    system = mixture(names, rng)
    move = small_move(system, rng, size)
    positions, _ = solved(system, move, 1e-9)
    assert np.abs(length_errors(system, positions)).max(initial=0) < 1e-9
    momentum = system.masses @ (positions - system.positions - move)
    np.testing.assert_allclose(momentum, 0, atol=1e-12)


def test_constraint_forces_do_no_work(rng):
    """What is taken from the velocities is orthogonal to what is left, weighted with masses."""
    system = mixture(EVERYTHING, rng)
    engine = Engine(system)
    run(engine, Solver(engine).velocities())
    taken = system.velocities - engine.velocities
    assert abs(np.einsum("i,ia,ia->", system.masses, taken, engine.velocities)) < 1e-9
    once = engine.velocities.copy()
    run(engine, Solver(engine).velocities())
    np.testing.assert_allclose(engine.velocities, once, atol=1e-12)


def test_turning_a_water_by_a_radian_still_gives_a_water(rng):
    system = mixture(["water"] * 8, rng)
    spin = np.cross(rng.normal(size=3), system.positions - system.positions.mean(0))
    positions, _ = solved(system, 0.3 * spin / np.abs(spin).max() * 0.1)
    assert np.abs(length_errors(system, positions)).max() < 1e-12


def test_kinds(rng):
    parts = partition(mixture(EVERYTHING, rng))
    assert len(parts.waters) == 5
    assert np.bincount((parts.stars[:, 1:] >= 0).sum(1)).tolist() == [0, 5, 5, 5]
    assert sorted(len(c) for c in parts.rest) == [3] * 5 + [4] * 5 + [6] * 5 + [7] * 5


def test_waters_of_two_kinds(rng):
    """Other lengths or masses are other parameters, in the same run of the kernel."""
    system = mixture(["water"] * 10, rng)
    heavy = system.copy()
    heavy.masses[15:] *= 2
    heavy.masses[16::3] *= 1.7
    heavy.masses[17::3] = heavy.masses[16::3]
    move = small_move(heavy, rng)
    held = heavy.constraints
    np.testing.assert_allclose(
        solved(heavy, move)[0],
        shake(heavy.positions, heavy.positions + move, held.pairs, held.distances, 1 / heavy.masses),
        atol=1e-12,
    )


def test_asymmetric_water_goes_to_the_general_solver(rng):
    system = mixture(["water"] * 2, rng)
    system.masses[1] = 2.0
    parts = partition(system)
    assert len(parts.waters) == 1 and len(parts.rest) == 1


def test_repeated_constraints_count_once(rng):
    system = mixture(["XH"], rng)
    system.constraints = Constraints([(0, 1), (1, 0)], np.repeat(system.constraints.distances, 2))
    assert len(partition(system).pairs) == 1


@pytest.mark.parametrize(
    "pairs, lengths, masses, message",
    [
        (
            [(0, 1), (1, 0)],
            [0.1, 0.11],
            [1, 1, 1],
            r"constraint 1 of atom 1 .*: length must be that of constraint 0, 0.1, got 0.11",
        ),
        ([(2, 2)], [0.1], [1, 1, 1], "must tie two atoms, got one"),
        ([(0, 1)], [-0.1], [1, 1, 1], "length must be positive and finite, got -0.1"),
        ([(0, 1)], [np.nan], [1, 1, 1], "length must be positive and finite, got nan"),
        (
            [(1, 2), (1, 0), (0, 1), (2, 0)],
            [0.1, 0.12, 0.12, 0.5],
            [1, 1, 1],
            r"constraint 3 of atom 2 .* and atom 0 .*: length must be at most that of constraints [01] and [01] "
            "together, which close a triangle with it, 0.22, got 0.5",
        ),
        ([(0, 1)], [0.1], [0, 1, 1], r"both atoms must have mass, got masses \[0.0, 1.0\]"),
    ],
)
def test_impossible_constraints(pairs, lengths, masses, message):
    system = System(Topology.of_particles(3), masses, constraints=Constraints(pairs, lengths))
    with pytest.raises(ConstraintError, match=message):
        partition(system)


def test_constraints_on_massless_atoms_are_refused_when_an_engine_is_made():
    system = System(Topology.of_particles(2, "HOH"), [0, 1], constraints=Constraints([(0, 1)], [0.1]))
    with pytest.raises(ConstraintError, match=r"must have mass.*atom 0 \(HOH 1"):
        Engine(system)


@pytest.mark.parametrize("name", ["water", "XH", "XH3", "chain"])
def test_no_solution_names_the_atoms(name, rng):
    system = mixture([name] * 3, rng)
    move = np.zeros_like(system.positions)
    atom = len(system.masses) // 3 + 1  # of the second molecule
    move[atom] = [1.0, -2.0, 1.5]
    with pytest.raises(
        ConstraintError, match=r"step 0: constraints of atom \d+ .* with atom \d+ .* take a smaller step"
    ):
        solved(system, move)
    with pytest.raises(ConstraintError, match="no solution"):
        solved(system, move * np.nan)


def test_a_run_ends_with_the_error(rng, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where the last good state goes
    system = mixture(["XH"] * 3, rng)
    system.velocities[1] = [900.0, 0, 0]
    sim = sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.002))
    with pytest.raises(ConstraintError, match="atom 0 .* with atom 1|atom 1 .* with atom 0"):
        sim.run(1)


def test_clusters_hold_what_must_stay_together(rng):
    system = mixture(["water", "atom", "XH2", "atom", "atom"], rng)  # 3 + 1 + 3 + 1 + 1 atoms
    system.masses[8] = 0
    system.virtual_sites = [TwoParticleAverage(sites=8, parents=(3, 7), weights=(0.5, 0.5))]
    assert constraint_clusters(system).tolist() == [0, 0, 0, 1, 2, 2, 2, 1, 1]


def test_chunks_of_atoms_never_cut_a_cluster(rng):
    system = mixture([*MOLECULES] * 80, rng)
    starts, cluster = Engine(system).atom_starts, constraint_clusters(system)
    assert len(starts) > 3
    assert all(cluster[i - 1] != cluster[i] for i in starts[1:-1])
