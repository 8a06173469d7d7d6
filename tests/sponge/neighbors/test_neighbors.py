"""The neighbor list holds every pair within the cut-off, once: random boxes, densities, edges, motion, threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins.pair_forces import all_pairs
from triskele import core, sponge
from triskele.sponge.box import as_box, largest_cutoff
from triskele.sponge.engine.engine import Engine, Runner
from triskele.sponge.errors import BoxError
from triskele.sponge.neighbors import arrays, buffer, shared_list
from triskele.sponge.neighbors.state import AGE, BUILDS, EARLY, INNER, OUTER
from triskele.sponge.system import System
from triskele.sponge.topology import Topology


def make_engine(positions, box=None, exclusions=(), **options):
    n = len(positions)
    system = System(Topology.of_particles(n), np.full(n, 40.0), box=box, positions=positions)
    system.exclusions = np.asarray(exclusions, np.int32).reshape(-1, 2)
    return Engine(system, **options)


class Run:
    """A list with the phases that keep it, run by hand."""

    def __init__(self, engine, cutoff, **schedule):
        self.engine = engine
        self.list = shared_list(engine, cutoff)

    def step(self):
        if not hasattr(self, "runner"):
            self.runner = Runner(self.engine, lambda: self.list.before)
        self.runner.run(1)
        return self.list


def found_pairs(neighbors, cutoff, kind=0):
    """Pairs of the list closer than the cut-off in canonical order."""
    i, j, shift = neighbors.listed_pairs(kind)
    d = neighbors.engine.positions[i] - neighbors.engine.positions[j] + shift
    near = np.sum(d * d, axis=1) < cutoff**2
    return canonical(i[near], j[near], d[near])


def canonical(i, j, d):
    """Pairs in a fixed order and direction, as rows i, j, difference."""
    i, j, d = np.asarray(i), np.asarray(j), np.asarray(d).reshape(-1, 3)
    x, y, z = np.round(d, 4).T
    # of a pair of an atom with its own image, either direction is the same pair
    backward = (x < 0) | ((x == 0) & ((y < 0) | ((y == 0) & (z < 0))))
    flip = (i > j) | ((i == j) & backward)
    rows = np.concatenate(
        [np.minimum(i, j)[:, None], np.maximum(i, j)[:, None], np.where(flip[:, None], -d, d)], axis=1
    )
    return rows[np.lexsort(np.round(rows, 4).T[::-1])]


def assert_same(found, expected):
    assert found.shape == expected.shape
    assert np.allclose(found, expected, rtol=0, atol=1e-8)


def assert_complete(neighbors, box, cutoff, exclusions=()):
    # pairs at the cut-off to rounding may be on either side: compare with a slightly smaller radius
    expected = canonical(*all_pairs(neighbors.engine.positions, box, cutoff - 1e-5, exclusions))
    found = found_pairs(neighbors, cutoff - 1e-5)
    assert_same(found, expected)


boxes = st.one_of(
    st.none(),
    st.tuples(*[st.floats(1.2, 4.0)] * 3).map(lambda edges: as_box(edges)),
    st.tuples(*[st.floats(1.2, 3.0)] * 3, *[st.floats(-0.5, 0.5)] * 3).map(
        lambda x: as_box([[x[0], 0, 0], [x[3] * x[0], x[1], 0], [x[4] * x[0], x[5] * x[1], x[2]]])
    ),
)


@settings(max_examples=36, deadline=None)
@given(
    boxes,
    st.integers(1, 300),
    st.sampled_from(["uniform", "clustered", "far", "edges"]),
    st.sampled_from(["mixed", "double"]),
    st.floats(0.3, 1.0),
    st.integers(0, 2**31),
)
def test_every_pair_is_listed_once(box, n, kind, precision, fraction, seed):
    rng = np.random.default_rng(seed)
    cell = np.diag([3.0, 3.0, 3.0]) if box is None else box
    positions = rng.random((n, 3)) @ cell
    if kind == "clustered":
        positions = 0.5 * np.diag(cell) + 0.1 * rng.standard_normal((n, 3))
    if kind == "far" and box is not None:
        positions += rng.integers(-20, 21, (n, 3)) @ cell
    if kind == "edges":
        positions = rng.integers(0, 3, (n, 3)) * 0.5 @ cell + 1e-3 * (np.arange(n) // 27)[:, None]
    cutoff = fraction * (largest_cutoff(box) if box is not None else 1.0) * (1 - 1e-9)
    exclusions = np.unique(np.sort(rng.integers(0, n, (n, 2)), axis=1), axis=0)
    exclusions = exclusions[exclusions[:, 0] < exclusions[:, 1]]
    run = Run(make_engine(positions, box, exclusions, precision=precision), cutoff)
    assert_complete(run.step(), box, cutoff, exclusions)


def test_a_few_thousand_atoms_in_a_truncated_octahedron():
    rng = np.random.default_rng(0)
    a = 4.0
    box = as_box(a * np.array([[1, 0, 0], [1 / 3, np.sqrt(8) / 3, 0], [-1 / 3, np.sqrt(2) / 3, np.sqrt(6) / 3]]))
    positions = rng.random((3000, 3)) @ box
    run = Run(make_engine(positions, box), 0.9)
    neighbors = run.step()
    i, j, shift = neighbors.listed_pairs()
    d = positions[i] - positions[j] + shift
    found = np.sum(np.sum(d * d, axis=1) < 0.9**2)
    from scipy.spatial import cKDTree  # images as points of their own

    images = np.array(np.meshgrid(*[[-1, 0, 1]] * 3)).reshape(3, -1).T @ box
    everything = cKDTree((positions[None] + images[:, None]).reshape(-1, 3))
    expected = (cKDTree(positions).count_neighbors(everything, 0.9) - len(positions)) // 2
    assert found == expected
    assert len(set(zip(i, j, map(tuple, np.round(shift, 3))))) == len(i)


@pytest.mark.slow
def test_moving_atoms_never_lose_a_pair():
    """Without a schedule the list is rebuilt before any atom has gone half the buffer."""
    rng = np.random.default_rng(1)
    box = as_box(2.5)
    run = Run(make_engine(rng.random((400, 3)) * 2.5, box), 0.8)
    for _ in range(20):
        assert_complete(run.step(), box, 0.8)
        run.engine.positions += 0.01 * rng.standard_normal((400, 3))
    builds = run.list.state[BUILDS]
    assert 3 < builds < 15  # rebuilt when needed, and only then


def test_hot_atoms_bring_the_next_build_forward():
    rng = np.random.default_rng(2)
    engine = make_engine(rng.random((500, 3)) * 3.0, as_box(3.0))
    run = Run(engine, 0.8)
    run.list.geometry[OUTER], run.list.geometry[INNER] = 0.9, 0.85
    run.list.geometry[12], run.list.geometry[13], run.list.geometry[11] = 100, 10, 0.001
    run.list._thermal[:] = 0.05  # as of a low temperature
    run.step()
    engine.positions[7] += 0.02
    run.step()
    assert run.list.state[EARLY] == 0
    engine.positions[7] += 0.5
    run.step()
    assert run.list.state[EARLY] == 1 and run.list.state[AGE] == 0
    assert_complete(run.list, engine.box, 0.8)


def test_builds_and_prunings_follow_the_schedule():
    rng = np.random.default_rng(3)
    engine = make_engine(rng.random((500, 3)) * 3.0, as_box(3.0))
    run = Run(engine, 0.8)
    run.list.geometry[OUTER], run.list.geometry[INNER] = 1.0, 0.82
    run.list.geometry[12], run.list.geometry[13], run.list.geometry[11] = 20, 5, 0.001
    for _ in range(41):
        run.step()
    assert run.list.state[BUILDS] == 3


@pytest.mark.parametrize(("moved", "grid"), [(0.05, 0.0), (2.0, 0.0), (2.0, 0.25)], ids=["near", "far", "equal z"])
def test_the_order_of_atoms_is_that_of_their_positions_alone(moved, grid):
    """A list that sorts what it sorted before is the list of an engine that sorts for the first time."""
    rng = np.random.default_rng(6)
    positions, box = rng.random((9000, 3)) * 4.5, as_box(4.5)
    run = Run(make_engine(positions, box), 0.7)
    run.step()
    positions = positions + rng.normal(0, moved, positions.shape)
    positions = np.round(positions / grid) * grid if grid else positions
    run.engine.positions[:] = positions
    run.list.state[AGE] = 10**6
    run.engine.flags[run.list.word] = 1
    run.step()
    first = Run(make_engine(positions, box), 0.7)
    first.step()
    assert np.array_equal(run.list.atoms, first.list.atoms) and np.array_equal(run.list.xs, first.list.xs)
    assert run.list.state[BUILDS] == 2


def test_results_do_not_depend_on_threads():
    rng = np.random.default_rng(4)
    positions, box = rng.random((6000, 3)) * 4.0, as_box(4.0)
    before = core.get_threads()
    lists = []
    try:
        for threads in (1, 2, 5):
            core.set_threads(threads)
            run = Run(make_engine(positions, box), 0.7)
            run.step()
            part = run.list.lists[0]
            lists.append(
                (run.list.atoms.copy(), run.list.xs.copy(), part.n_entries.copy(), part.pairs.copy(), part.masks.copy())
            )
    finally:
        core.set_threads(before)
    for other in lists[1:]:
        assert all(np.array_equal(a, b) for a, b in zip(lists[0], other))


@pytest.mark.slow
def test_full_arrays_grow():
    rng = np.random.default_rng(5)
    engine = make_engine(rng.random((1200, 3)) * 2.5, as_box(2.5))
    run = Run(engine, 1.2)
    run.list._sizes = {"pairs": 16, "entries": 4, "masks": 2, "touched": 8}
    run.list._scratch_size = 8
    run.list._allocate()
    engine.replan = lambda: setattr(engine, "version", engine.version + 1)
    run.step()
    assert_complete(run.list, engine.box, 1.2)


def test_lists_that_grow_leave_no_other_list_empty():
    """The second of two lists overflows when the first is through; the forces of that very step have both."""
    rng = np.random.default_rng(0)
    system = System(Topology.of_particles(600), np.ones(600), 2.0, rng.uniform(0, 2, (600, 3)), np.zeros((600, 3)))

    @sponge.pair_potential
    def soft(r, a):
        return a * (1 - r) ** 2

    for cutoff in (0.4, 0.7):
        system.add(soft(a=1.0, cutoff=cutoff, name=f"soft {cutoff}"))
    expected = system.forces()
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 1e-9, 1e-9), precision="double")
    engine = sim._engine
    second = engine.neighbor_lists[0.7]
    second._sizes = {"pairs": 400, "entries": 40, "masks": 40, "touched": 150}
    second._allocate()
    engine.replan()
    sim.run(1)
    assert engine.version > 1
    np.testing.assert_allclose(engine.forces, expected, atol=1e-9)


def test_lists_that_grow_in_another_box_leave_the_mesh_as_it_is():
    water = sponge.build.water_box("tip3p", n=216)
    system = sponge.create_system(water, forcefield="amber14/tip3p", cutoff=0.6)
    engine = sponge.Engine(system, "double")
    chosen = system.nonbonded.form(system.box).grid
    smaller = 0.85 * system.box
    assert system.nonbonded.form(smaller).grid != chosen
    energies = []
    for grown in (False, True):
        if grown:
            engine.replan()
        engine.compute(0.85 * system.positions, smaller)
        assert engine.plans["nonbonded"].coulomb.grid == chosen
        energies.append(sum(engine.energies().values()))
    assert energies[1] == pytest.approx(energies[0], rel=1e-12)


def test_windows_of_more_clusters_than_16_bits_can_number(monkeypatch):
    monkeypatch.setattr(arrays, "_SHORT", 10)
    rng = np.random.default_rng(9)
    positions, box = rng.random((400, 3)) * 2.5, as_box(2.5)
    exclusions = np.stack([np.arange(0, 400, 2), np.arange(1, 400, 2)], 1)
    run = Run(make_engine(positions, box, exclusions), 0.8)
    assert_complete(run.step(), box, 0.8, exclusions)
    assert run.list.lists[0].pairs.dtype == np.int32


def test_groups_split_the_list_into_three():
    rng = np.random.default_rng(6)
    positions, box = rng.random((500, 3)) * 3.0, as_box(3.0)
    groups = (rng.random(500) < 0.3).astype(np.int8)
    run = Run(make_engine(positions, box, groups=groups), 0.8)
    run.step()
    i, j, d = all_pairs(positions, box, 0.8 - 1e-5)
    for kind in range(3):
        chosen = groups[i] + groups[j] == kind
        assert_same(found_pairs(run.list, 0.8 - 1e-5, kind), canonical(i[chosen], j[chosen], d[chosen]))
    atoms = run.list.atoms.reshape(-1, 4)
    for cluster in atoms[: run.list.state[0]]:
        assert len(set(groups[cluster[cluster >= 0]])) == 1


def test_small_boxes_are_refused():
    engine = make_engine(np.random.default_rng(7).random((50, 3)), as_box(1.0))
    with pytest.raises(BoxError, match="twice the cut-off of 0.6"):
        Run(engine, 0.6).step()


def test_lost_atoms_do_not_stop_the_list():
    engine = make_engine(np.random.default_rng(8).random((100, 3)) * 3, as_box(3.0))
    engine.positions[3], engine.positions[4, 1] = np.nan, 1e300
    run = Run(engine, 0.8)
    run.step()
    i, j, _ = run.list.listed_pairs()
    assert len(i) > 0


def test_drift_of_missed_pairs():
    """Closed form of Pall and Hess against direct integration over start and end distances."""
    from scipy.integrate import dblquad

    cutoff, width, sigma, slope, curvature, density = 1.0, 0.03, 0.02, 5.0, 40.0, np.array([100.0])
    got = buffer.drift(width, np.array([[sigma**2]]), np.array([[slope]]), np.array([[0.0]]), cutoff, density)
    normal = lambda x: np.exp(-0.5 * (x / sigma) ** 2) / (sigma * np.sqrt(2 * np.pi))
    inner = dblquad(lambda u, v: slope * u * normal(u + v + width), 0, 0.3, 0, 0.3)[0]
    assert got == pytest.approx(0.5 * 100 * 4 * np.pi * (cutoff + width + sigma) ** 2 * inner, rel=1e-6)
    inner = dblquad(lambda u, v: 0.5 * curvature * u * u * normal(u + v + width), 0, 0.3, 0, 0.3)[0]
    got = buffer.drift(width, np.array([[sigma**2]]), np.array([[0.0]]), np.array([[curvature]]), cutoff, density)
    assert got == pytest.approx(0.5 * 100 * 4 * np.pi * (cutoff + width + sigma) ** 2 * inner, rel=1e-6)
