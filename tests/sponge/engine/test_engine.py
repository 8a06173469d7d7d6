"""Tasks, phases and the native loop: what runs when, on how many threads, and what happens when a kernel fails."""

from typing import NamedTuple

import numpy as np
import pytest

from triskele import core, sponge
from triskele.core.extend import Task
from triskele.core.kernels.njit import kernel
from triskele.sponge.engine.engine import Engine, Runner
from triskele.sponge.engine.flags import ENERGY, N_FLAGS, STATUS, STATUS_INFO, STEP
from triskele.sponge.engine.plan import Plan
from triskele.sponge.engine.program import Phase, Program
from triskele.sponge.potential import Potential


@kernel(nogil=True)
def scale_rows(chunk, x, factor, offset):  # x [chunks, m]
    for k in range(x.shape[1]):
        x[chunk, k] = factor * x[chunk, k] + offset


class Scaling(NamedTuple):
    x: np.ndarray  # [chunks, m]
    factor: float


@kernel(nogil=True)
def scale_together(chunk, scaling, offset):
    scale_rows(chunk, scaling.x, scaling.factor, offset)


@kernel(nogil=True)
def count(chunk, calls):  # [chunks]
    calls[chunk] += 1


@kernel(nogil=True)
def fail_at(chunk, flags, step):
    if flags[STEP] == step:
        flags[STATUS] = 99
        flags[STATUS_INFO] = 7


def flags():
    return np.zeros(N_FLAGS, np.int64)


def test_a_kernel_gets_its_arrays_and_numbers():
    x = np.arange(12.0).reshape(3, 4)
    Program([Phase([Task(scale_rows, x, 2.0, 1, chunks=3)])], flags()).run(1)
    np.testing.assert_array_equal(x, 2 * np.arange(12.0).reshape(3, 4) + 1)


def test_a_named_tuple_is_passed_as_its_parts():
    x = np.arange(12.0).reshape(3, 4)
    task = Task(scale_together, Scaling(x, 2.0), 1, chunks=3)
    Program([Phase([task])], flags()).run(1)
    np.testing.assert_array_equal(x, 2 * np.arange(12.0).reshape(3, 4) + 1)
    task.run()
    np.testing.assert_array_equal(x, 4 * np.arange(12.0).reshape(3, 4) + 3)
    with pytest.raises(TypeError, match="argument 1 must be a C-contiguous array"):
        Task(scale_together, Scaling(x.T, 2.0), 1)


@pytest.mark.parametrize("threads", [1, 2])
def test_every_chunk_of_every_task_runs_once_a_step(threads):
    before = core.get_threads()
    core.set_threads(threads)
    try:
        calls = [np.zeros(n, np.int64) for n in (7, 1, 30)]
        tasks = [Task(count, c, chunks=c.size) for c in calls]
        assert Program([Phase(tasks)], flags()).run(100) == -1
    finally:
        core.set_threads(before)
    for c in calls:
        np.testing.assert_array_equal(c, 100)


def test_tasks_in_sequence_run_one_after_the_other_in_each_chunk():
    x = np.ones((5, 2))
    Program(
        [Phase([Task(scale_rows, x, 3.0, 0.0, chunks=5), Task(scale_rows, x, 1.0, 1.0, chunks=5)], "sequence")], flags()
    ).run(2)
    np.testing.assert_array_equal(x, (1 * 3 + 1) * 3 + 1)


def test_tasks_in_sequence_must_have_the_same_chunks():
    x = np.ones((5, 2))
    with pytest.raises(ValueError, match="same number of chunks"):
        Phase([Task(count, np.zeros(2, np.int64), chunks=2), Task(scale_rows, x, 1.0, 1.0, chunks=5)], "sequence")


def test_phases_by_interval_by_flag_and_of_python():
    often, flagged, seen, f = np.zeros(1, np.int64), np.zeros(1, np.int64), [], flags()
    program = Program(
        [
            Phase([Task(count, often)], every=3),
            Phase([Task(count, flagged)], flag=ENERGY),
            Phase(call=lambda: seen.append(int(f[STEP])), every=4),
        ],
        f,
    )
    program.run(5)
    f[ENERGY] = 1
    program.run(5)
    assert f[STEP] == 10
    assert often[0] == 4  # steps 0, 3, 6, 9
    assert flagged[0] == 5
    assert seen == [0, 4, 8]


def test_a_failing_phase_stops_the_loop_and_is_repeated():
    f, after = flags(), np.zeros(1, np.int64)
    program = Program([Phase([Task(fail_at, f, 3)]), Phase([Task(count, after)])], f)
    assert program.run(10) == 0
    assert (f[STEP], f[STATUS_INFO], after[0]) == (3, 7, 3)
    f[STATUS] = 0
    assert program.run(7) == 0  # the cause is still there
    program.restart()


@pytest.mark.parametrize("argument", [[1.0], "text", None, np.zeros((4, 4))[:, ::2]])
def test_other_arguments_are_refused(argument):
    with pytest.raises(TypeError, match="task count"):
        Task(count, argument)


class Grown(Potential):
    """A potential whose kernel asks for more room once, as a neighbor list does."""

    name = "grown"

    def __init__(self):
        self.params, self.room, self.plans = {}, 1, 0

    def energy(self, params, positions, box):
        return 0.0 * np.sum(positions)

    def plan(self, engine):
        self.plans += 1
        self.used = np.zeros(self.room, np.int64)
        engine.on_status(99, self.grow)
        return Plan(
            before=[
                Phase([Task(count, np.zeros(1, np.int64))], redo=True),
                Phase([Task(overflow, engine.flags, self.used)]),
            ]
        )

    def grow(self, engine):
        self.room = 4
        return True


@kernel(nogil=True)
def overflow(chunk, flags, used):
    if used.size < 4:
        flags[STATUS] = 99
    used[0] += 1


def particles(n=3, **options):
    return sponge.System(sponge.Topology.of_particles(n), np.ones(n), positions=np.zeros((n, 3)), **options)


def test_plans_are_rebuilt_when_arrays_grow():
    system = particles()
    grown = system.add(Grown())
    engine = Engine(system)
    engine.compute()
    assert grown.plans == 2 and grown.used[0] == 1
    assert engine.version == 1


def test_a_status_that_nobody_handles_is_an_error():
    engine = Engine(particles())
    runner = Runner(engine, lambda: [Phase([Task(fail_at, engine.flags, 2)], name="trap")])
    with pytest.raises(RuntimeError, match="step 2, phase trap: status 99"):
        runner.run(5)


class Trap(Potential):
    """Harmonic trap around the origin: E = k/2 sum r^2."""

    name = "trap"

    def __init__(self, k):
        self.params = {"k": np.array(k)}

    def energy(self, params, positions, box):
        return 0.5 * params["k"] * np.sum(positions**2)


def test_a_pure_energy_is_enough_for_forces_and_virial():
    x = np.random.default_rng(0).normal(size=(4, 3))
    system = particles(4)
    system.add(Trap(3.0))
    assert system.energy(x) == pytest.approx(1.5 * np.sum(x**2), rel=1e-12)
    np.testing.assert_allclose(system.forces(x), -3 * x, rtol=1e-12)
    np.testing.assert_allclose(system.virial(x), -3 * np.einsum("ia,ib->ab", x, x), rtol=1e-12)


def test_changed_parameters_are_seen():
    system = particles(4)
    system.add(Trap(3.0))
    x = np.ones((4, 3))
    assert system.energy(x) == pytest.approx(18)
    system.set_params({"trap": {"k": 1.0}})
    assert system.energy(x) == pytest.approx(6)


def test_an_engine_can_share_the_state_of_another():
    system = particles(2)
    system.add(Trap(1.0))
    system.add(Trap(10.0))
    whole = Engine(system, "double")
    part = Engine(system, "double", names=["trap 2"], share=whole)
    whole.positions[:] = 1.0
    whole.compute()
    part.compute()
    np.testing.assert_allclose(whole.forces, -11.0)
    np.testing.assert_allclose(part.forces, -10.0)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s.energy(np.zeros((2, 3))), r"positions must have shape \(3, 3\), got \(2, 3\)"),
        (lambda s: s.energy(np.full((3, 3), np.nan)), r"positions must be finite.*atom 0 \(X 1 X\)"),
        (lambda s: s.energy(box=3.0), "not periodic"),
        (lambda s: s.energy(precision="half"), "'mixed' or 'double'"),
        (lambda s: s["angle"], "no potential 'angle'"),
        (lambda s: s.set_params({"trap": {"q": 1}}), "no parameter 'trap/q'"),
        (lambda s: s.set_params({"trap": {"k": np.ones(2)}}), r"must have shape \(\), got \(2,\)"),
    ],
)
def test_mistakes_are_named(change, message):
    system = particles()
    system.add(Trap(1.0))
    with pytest.raises((ValueError, KeyError), match=message):
        change(system)


def test_constraints_need_mass():
    system = sponge.System(
        sponge.Topology.of_particles(2),
        [1.0, 0.0],
        positions=np.eye(3)[:2],
        constraints=sponge.Constraints([[0, 1]], [0.1]),
    )
    with pytest.raises(sponge.errors.ConstraintError, match=r"got 0 for atom 1 \(X 2 X\)"):
        Engine(system)


def test_meshes_fit_a_box_that_has_grown():
    """Energies in a longer box, asked for directly or through ASE, are those of a system made in that box."""
    ase = pytest.importorskip("ase")
    rng, n = np.random.default_rng(3), 64
    places = 0.3 * np.stack(np.meshgrid(*3 * [np.arange(4.0)]), axis=-1).reshape(n, 3)

    def salt(box):
        system = sponge.System(
            sponge.Topology.of_particles(n),
            np.full(n, 12.0),
            box=box,
            positions=places + rng.normal(scale=0.01, size=(n, 3)),
        )
        system.add(
            sponge.Nonbonded(np.tile([1.0, -1.0], n // 2), np.full(n, 0.2), np.full(n, 0.1), method="pme", cutoff=0.5)
        )
        return system

    system, wide = salt([1.2, 1.2, 1.2]), [1.2, 1.2, 6.0]
    fresh = salt(wide)
    fresh.positions = system.positions
    small, expected = system.energy(), fresh.energy()
    assert system.energy(box=wide) == pytest.approx(expected, rel=1e-12)
    assert system.energy() == pytest.approx(small, abs=1.0)  # the finer mesh is kept
    atoms = ase.Atoms("C" * n, positions=10 * system.positions, cell=[12, 12, 12], pbc=True)
    atoms.calc = sponge.Calculator(system, precision="double")
    atoms.get_potential_energy()
    atoms.cell[2, 2] = 60
    assert atoms.get_potential_energy() * sponge.units.eV == pytest.approx(expected, rel=1e-12)
