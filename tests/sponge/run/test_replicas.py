"""Replicas: the same numbers on threads and over MPI ranks, resumable as a set, and failures that name the replica."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from triskele import core, sponge
from triskele.sponge.errors import BrokenSimulationError, CheckpointError, ReporterError
from triskele.sponge.run.sampling_method import Sampling
from triskele.sponge.sampling.ranks import Ranks
from triskele.sponge.sampling.replicas import replica_seed

ROOT = Path(__file__).resolve().parents[3]
MPIEXEC = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}")
LANGEVIN = sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)


def springs(k=0, stiffness=1000.0, integrator=LANGEVIN, **options):
    """Five dimers on springs, with a seed of the replica's own."""
    x = np.random.default_rng(0).uniform(0, 2, (10, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(10).reshape(-1, 2)
    system = sponge.System(sponge.Topology.of_particles(10, "C", 6, pairs), np.full(10, 12.0), positions=x)
    system.add(sponge.harmonic_bond(pairs, k=stiffness, r0=0.15))
    return sponge.Simulation(system, integrator, seed=k, **options)


class Mean(Sampling):
    """A method that does nothing but learn the mean of what all walkers say."""

    def __init__(self, rate=1.0):
        self.name, self.rate = "mean", rate
        self._learned, self._heard = np.zeros(1), []

    def plan(self, engine):
        self._positions = engine.positions
        return sponge.Plan()

    def news(self):
        return {"x": self._positions[0, :1] * self.rate}

    def receive(self, news):
        self._heard.append([float(walker["x"][0]) for walker in news])
        self._learned[0] = sum(walker["x"][0] for walker in news)

    def state(self):
        return {"learned": self._learned.copy()}

    def restore(self, state):
        self._learned[:] = state["learned"]


# -- one process -------------------------------------------------------------------------------------------------------


def test_a_reporter_of_one_replica_ends_the_run_of_all():
    def stop(record):
        if record["step"] >= 60:
            raise StopIteration("enough")

    replicas = sponge.Replicas(springs, 2, every=50)
    replicas.run(1000, replica_report=lambda k: stop if k else None, report=[].append)
    assert replicas.step == 100 and replicas.stopped == "replica 1: enough"
    replicas.run(20)
    assert replicas.step == 120 and replicas.stopped is None


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_replicas_are_the_simulations_that_they_would_be_alone(threads):
    before = core.get_threads()
    core.set_threads(threads)
    try:
        replicas = sponge.Replicas(springs, 3, every=7)
        replicas.run(40)
        replicas.run(time="0.02 ps")
        assert core.get_threads() == threads
    finally:
        core.set_threads(before)
    assert replicas.step == 50 and len(replicas) == 3 and replicas.root
    for k in range(3):
        alone = springs(k)
        alone.run(50)
        assert np.array_equal(replicas[k].positions, alone.positions) and np.array_equal(
            replicas[k].velocities, alone.velocities
        )


def test_each_gathers_what_a_function_returns_in_the_order_of_the_replicas():
    replicas = sponge.Replicas(springs, 4)
    energies = replicas.each(lambda sim: sim.minimize(tolerance=0.1).energy)
    assert energies == [sim.energies()["potential"] for sim in (replicas[k] for k in range(4))]


def test_reports_of_every_replica(tmp_path):
    seen = {k: [] for k in range(3)}
    replicas = sponge.Replicas(springs, 3, every=20)
    replicas.run(
        50,
        replica_report=lambda k: [
            sponge.CSV(tmp_path / f"{k}.csv", 10),
            sponge.Callback(25, lambda sim: seen[k].append(sim.step)),
        ],
    )
    assert seen == {k: [25, 50] for k in range(3)}
    assert [len((tmp_path / f"{k}.csv").read_text().splitlines()) for k in range(3)] == [6, 6, 6]
    with pytest.raises(ValueError, match=r"different files, got .*same.csv' twice"):
        replicas.run(10, replica_report=lambda k: sponge.CSV(tmp_path / "same.csv", 5))
    with pytest.raises(TypeError, match=r"replica 0: .*use run\(..., checkpoint=...\)"):
        replicas.run(10, replica_report=lambda k: sponge.Checkpoint(tmp_path / "a.chk", 5))
    with pytest.raises(TypeError, match="replica_report must be a function of the replica's number"):
        replicas.run(10, replica_report=[])


def test_seeds_of_replicas_are_apart():
    seeds = {replica_seed(seed, k) for seed in range(10) for k in range(10)}
    assert len(seeds) == 100 and all(0 <= s < 2**64 for s in seeds)


# -- checkpoints -------------------------------------------------------------------------------------------------------


def test_a_set_of_checkpoints_resumes_bit_for_bit(tmp_path):
    def make(k):
        return springs(k, integrator=sponge.NoseHoover(temperature=300, relaxation_time=0.1, timestep=0.002))

    whole = sponge.Replicas(make, 3, every=10)
    whole.run(
        50,
        checkpoint=sponge.Checkpoint(tmp_path / "a.chk", 15),
        replica_report=lambda k: sponge.CSV(tmp_path / f"whole{k}.csv", 5),
    )
    assert sorted(p.name for p in tmp_path.glob("*.chk")) == ["a.45.0.chk", "a.45.1.chk", "a.45.2.chk", "a.chk"]
    resumed = sponge.Replicas(make, 3, every=10)
    resumed.load(tmp_path / "a.chk")
    assert resumed.step == 45
    resumed.run(5, replica_report=lambda k: sponge.CSV(tmp_path / f"whole{k}.csv", 5))
    for k in range(3):
        assert np.array_equal(resumed[k].positions, whole[k].positions) and np.array_equal(
            resumed[k].velocities, whole[k].velocities
        )
        assert [line.split(",")[0] for line in (tmp_path / f"whole{k}.csv").read_text().splitlines()[1:]] == [
            str(s) for s in range(5, 51, 5)
        ]


def test_sets_of_one_step_do_not_mix(tmp_path):
    replicas = sponge.Replicas(springs, 2)
    for _ in range(3):  # what changed in between is not known by the number of the step
        replicas.save(tmp_path / "a.chk")
        assert len(list(tmp_path.iterdir())) == 3
        replicas.each(lambda sim: sim.minimize())
        replicas.load(tmp_path / "a.chk")


def test_sets_that_do_not_fit_are_refused(tmp_path):
    replicas = sponge.Replicas(springs, 2)
    replicas.run(10)
    replicas.save(tmp_path / "a.chk")
    with pytest.raises(CheckpointError, match=r"these differ: number of replicas \(2 in the checkpoint, 3 here\)"):
        sponge.Replicas(springs, 3).load(tmp_path / "a.chk")
    with pytest.raises(CheckpointError, match="replica 0: .*these differ: potentials bond: params: k"):
        sponge.Replicas(lambda k: springs(k, 900.0), 2).load(tmp_path / "a.chk")
    with pytest.raises(CheckpointError, match="must be that of several replicas"):
        replicas.load(tmp_path / "a.10.1.chk")
    later = sponge.Replicas(springs, 2)
    later.run(20)
    later[1].save(tmp_path / "a.10.1.chk")
    with pytest.raises(CheckpointError, match=r"replica 1: .*must be of one step, got 10, and 20 in '.*a\.10\.1\.chk'"):
        replicas.load(tmp_path / "a.chk")
    (tmp_path / "a.10.1.chk").unlink()
    with pytest.raises(CheckpointError, match=r"replica 1: .*a\.10\.1\.chk' that belongs to it is missing"):
        replicas.load(tmp_path / "a.chk")


def test_ctrl_c_ends_at_a_meeting_and_the_run_goes_on_as_if_nothing_had_happened():
    replicas = sponge.Replicas(springs, 3, every=20)

    def interrupt(sim):
        if sim.step == 30:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt, match="stopped after step"):
        replicas.run(2000, replica_report=lambda k: sponge.Callback(10, interrupt) if k == 1 else [])
    assert (
        replicas.step < 2000
        and replicas.step % 20 == 0
        and {sim.step for sim in (replicas[k] for k in range(3))} == {replicas.step}
    )
    replicas.run(200)
    whole = sponge.Replicas(springs, 3, every=20)
    whole.run(replicas.step)
    assert all(np.array_equal(whole[k].positions, replicas[k].positions) for k in range(3))


# -- failures ----------------------------------------------------------------------------------------------------------


def test_a_replica_that_breaks_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    replicas = sponge.Replicas(lambda k: springs(k, 1e9 if k == 2 else 1000.0), 4, every=100)
    with pytest.raises(
        BrokenSimulationError, match=r"replica 2: .*force .* from term 'bond'.*run\.replica2\.last_good\.chk"
    ):
        replicas.run(1000)
    assert (tmp_path / "run.replica2.last_good.chk").exists()
    with pytest.raises(RuntimeError, match="replicas must have made the same number of steps"):
        replicas.run(10)


def test_a_reporter_that_fails_is_named_and_others_are_closed(tmp_path):
    closed = []

    class Report(sponge.Reporter):
        def __init__(self, k):
            super().__init__(10)
            self.k = k

        def report(self, sim, step):
            if self.k == 1 and step == 20:
                raise ReporterError("no space left")

        def close(self):
            closed.append(self.k)

    with pytest.raises(ReporterError, match="replica 1: no space left"):
        sponge.Replicas(springs, 3).run(100, replica_report=Report)
    assert sorted(closed) == [0, 1, 2]


def test_what_make_returns_is_checked():
    with pytest.raises(TypeError, match="replica 1: Replicas: what make returns must be a Simulation, got int"):
        sponge.Replicas(lambda k: springs() if k == 0 else 3, 2)
    one = springs()
    with pytest.raises(ValueError, match="replica 1: Replicas: make must return a new Simulation"):
        sponge.Replicas(lambda k: one, 2)
    for n in (0, 1.5, True):
        with pytest.raises(ValueError, match="n must be an integer >= 1"):
            sponge.Replicas(springs, n)
    with pytest.raises(IndexError, match="replica 5 must be one of 0 to 1"):
        sponge.Replicas(springs, 2)[5]


def test_more_ranks_than_replicas_are_refused():
    class Comm:
        def Get_rank(self):
            return 0

        def Get_size(self):
            return 4

    with pytest.raises(ValueError, match="at least as many replicas as MPI ranks, got 3 replicas on 4 ranks"):
        Ranks(3, Comm())


# -- walkers -----------------------------------------------------------------------------------------------------------


def test_walkers_hear_all_news_in_their_order():
    walkers = sponge.MultipleWalkers(lambda k: springs(k, sampling=Mean()), 3, every=10)
    walkers.run(35)
    heard = [walkers[k].sampling[0]._heard for k in range(3)]
    assert heard[0] == heard[1] == heard[2] and np.shape(heard[0]) == (3, 3)
    alone = springs(2, sampling=Mean())
    alone.run(10)
    assert heard[0][0][2] == alone.positions[0, 0]


def test_walkers_that_cannot_share_are_refused():
    class Deaf(Mean):
        news = Sampling.news

    with pytest.raises(ValueError, match="must have sampling methods, got none"):
        sponge.MultipleWalkers(springs, 2)
    with pytest.raises(ValueError, match="Deaf cannot be shared"):
        sponge.MultipleWalkers(lambda k: springs(k, sampling=Deaf()), 2)
    with pytest.raises(
        ValueError, match=r"those of walker 1 differ from those of walker 0: mean rate \(2.0 in 1, 1.0 in 0\)"
    ):
        sponge.MultipleWalkers(lambda k: springs(k, sampling=Mean(k + 1.0)), 2)

    class Frozen(Mean):
        _movable = True

    mean, frozen = Mean(), Frozen()
    with pytest.raises(ValueError, match="belongs to one simulation"):
        sponge.MultipleWalkers(lambda k: springs(k, sampling=mean), 2)
    with pytest.raises(ValueError, match="new sampling methods for each walker"):
        sponge.MultipleWalkers(lambda k: springs(k, sampling=frozen), 2)


# -- MPI ---------------------------------------------------------------------------------------------------------------


def record(name, mode):
    """Run three kinds of replicas, and save their numbers; a checkpoint is written, or resumed."""
    if mode == "break":
        sponge.Replicas(lambda k: springs(k, 1e9 if k == 3 else 1000.0), 4, every=50).run(200)
    rex = sponge.ReplicaExchange(springs().system, LANGEVIN, sponge.units.ladder(300, 360, 4), every=10, seed=5)
    hamiltonians = [springs(stiffness=k).system for k in (1000.0, 950.0, 900.0, 850.0)]
    other = sponge.ReplicaExchange(hamiltonians, LANGEVIN, every=10, seed=6)
    walkers = sponge.MultipleWalkers(lambda k: springs(k, sampling=Mean()), 4, every=10)
    for replicas in (rex, other, walkers):
        replicas.run(60)
    if mode == "save":
        rex.save(f"{name}.chk")
    else:
        rex.load(mode)
    rex.run(60)
    final = [
        np.array(r.each(lambda sim: np.concatenate([sim.positions, sim.velocities]))) for r in (rex, other, walkers)
    ]
    heard = np.array(walkers.each(lambda sim: sim.sampling[0]._heard))
    if rex.root:
        np.savez(
            f"{name}.npz", *final, rex.energies, other.cross_energies, rex.walkers, other.accepted, rex.accepted, heard
        )


def launch(tmp_path, ranks, name, mode="save"):
    """The same on so many ranks."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / '.src'}{os.pathsep}{Path(__file__).parent}"}
    command = [
        MPIEXEC,
        "-n",
        str(ranks),
        sys.executable,
        "-c",
        f"from test_replicas import record; record({name!r}, {mode!r})",
    ]
    return subprocess.run(command, cwd=tmp_path, env=environment, timeout=500, capture_output=True, text=True)


needs_mpi = pytest.mark.skipif(MPIEXEC is None, reason="no mpiexec")


@pytest.mark.slow
@needs_mpi
def test_numbers_are_the_same_on_any_number_of_ranks(tmp_path, monkeypatch):
    pytest.importorskip("mpi4py")
    monkeypatch.chdir(tmp_path)
    record("on1", "save")
    for ranks in (2, 4):
        done = launch(tmp_path, ranks, f"on{ranks}")
        assert done.returncode == 0, done.stderr
    record("resumed", "on2.chk")  # what two ranks have saved
    with np.load("on1.npz") as one:
        assert len(one.files) == 9 and one["arr_7"].sum() > 0 and one["arr_6"].sum() > 0
        for name in ("on2", "on4", "resumed"):
            with np.load(f"{name}.npz") as other:
                for key in one.files:
                    assert np.array_equal(one[key], other[key], equal_nan=True), (name, key)


@pytest.mark.slow
@needs_mpi
def test_a_replica_that_breaks_ends_all_ranks(tmp_path):
    pytest.importorskip("mpi4py")
    done = launch(tmp_path, 2, "broken", "break")
    assert done.returncode != 0
    # the launcher may end a rank before it has said so
    assert 1 <= done.stderr.count("BrokenSimulationError: replica 3 (rank 1):") <= 2
