"""Checkpoints: a resumed run equals the uninterrupted one bit for bit; damaged and foreign files are refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import sponge
from triskele.sponge.errors import CheckpointError
from triskele.sponge.neighbors.state import EVERY, OUTER
from triskele.sponge.run.checkpoint_file import differences, read_checkpoint, write_checkpoint

ROOT = Path(__file__).resolve().parents[3]


def springs(integrator=None, k=1000.0, n=10, box=None, remove=True, **options):
    """Dimers on springs."""
    x = np.random.default_rng(0).uniform(0, 2, (n, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(n).reshape(-1, 2)
    system = sponge.System(
        sponge.Topology.of_particles(n, "C", 6, pairs), np.full(n, 12.0), box, x, remove_com_motion=remove
    )
    system.add(sponge.harmonic_bond(pairs, k=k, r0=0.15))
    integrator = integrator or sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002)
    return sponge.Simulation(system, integrator, **{"seed": 1, **options})


# -- the same run ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "integrator",
    [
        sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
        sponge.VelocityVerlet(timestep=0.002),
        sponge.NoseHoover(temperature=300, relaxation_time=0.1, timestep=0.002),
        sponge.Bussi(temperature=300, relaxation_time=0.1, timestep=0.002),
        sponge.Brownian(temperature=300, friction=50.0, timestep=0.002),
        sponge.RESPA(timestep=0.002, inner=2, fast=["bond"]),
    ],
    ids=lambda i: type(i).__name__,
)
def test_every_integrator_resumes_bit_for_bit(tmp_path, integrator):
    def make():
        sim = springs(integrator)
        sim.thermalize(300, seed=5)
        return sim

    whole = make()
    whole.run(50, report=sponge.Checkpoint(tmp_path / "a.chk", 20))  # the last one is that of step 40
    resumed = make()
    resumed.load(tmp_path / "a.chk")
    resumed.run(10)
    assert resumed.step == 50
    assert np.array_equal(resumed.positions, whole.positions) and np.array_equal(resumed.velocities, whole.velocities)


def argon(temperature, integrator=None):
    """A gas of 500 atoms whose velocities have a temperature."""
    lattice = np.stack(np.unravel_index(np.arange(500), (8, 8, 8)), 1) * 0.45
    system = sponge.System(sponge.Topology.of_particles(500, "AR", 18), np.full(500, 39.948), 3.6, lattice)
    system.add(
        sponge.Nonbonded(np.zeros(500), np.full(500, 0.34), np.full(500, 1.0), cutoff=0.9, method="reaction_field")
    )
    sim = sponge.Simulation(system, integrator or sponge.VelocityVerlet(timestep=0.002))
    if temperature:
        sim.thermalize(temperature)
    return sim


def buffer_per_step(sim):
    """Width of the buffer of a neighbor list over the number of steps for which it is kept."""
    sim.run(1)
    (neighbors,) = sim._engine.neighbor_lists.values()
    return (neighbors.geometry[OUTER] - neighbors.cutoff) / neighbors.geometry[EVERY]


def test_lists_allow_for_the_motion_of_atoms_without_a_thermostat():
    hot = argon(3000)
    bath = sponge.Simulation(hot.system, sponge.LangevinMiddle(hot.temperature, 1.0, 0.002), velocities=hot.velocities)
    at_rest = buffer_per_step(argon(None))
    assert buffer_per_step(argon(120)) < at_rest < buffer_per_step(hot) == buffer_per_step(bath)
    assert buffer_per_step(argon(10)) == at_rest  # which forces may heat
    for heated in (argon(300), argon(300, sponge.LangevinMiddle(300, 1e-3, 0.002))):
        first = buffer_per_step(heated)
        heated.velocities = hot.velocities
        assert first < buffer_per_step(heated) == pytest.approx(buffer_per_step(hot), rel=1e-2)


def test_lists_are_scheduled_again_for_a_denser_box():
    sim, dense = argon(300), argon(300)
    sim.box = 6.0 * np.eye(3)
    thin = buffer_per_step(sim)
    sim.box = 3.6 * np.eye(3)
    assert thin < buffer_per_step(sim) == pytest.approx(buffer_per_step(dense), rel=1e-4)


def test_a_run_without_a_thermostat_resumes_with_the_lists_it_had(tmp_path):
    whole = argon(600)  # on a lattice: as atoms find their places, its temperature changes
    whole.run(120, report=sponge.Checkpoint(tmp_path / "a.chk", 70))
    resumed = argon(None)
    resumed.load(tmp_path / "a.chk")
    resumed.run(50)
    np.testing.assert_array_equal(resumed.positions, whole.positions)
    assert buffer_per_step(resumed) == buffer_per_step(whole)


def test_a_checkpoint_of_the_beginning_forgets_the_lists_of_the_present_run(tmp_path):
    whole = argon(300)
    whole.save(tmp_path / "a.chk")
    whole.run(60)
    resumed = argon(3000)
    resumed.run(10)
    resumed.load(tmp_path / "a.chk")
    resumed.run(60)
    np.testing.assert_array_equal(resumed.positions, whole.positions)


def test_lists_that_have_grown_are_those_of_a_resumed_run(tmp_path):
    """In the run that resumes, the lists overflow once more: they must not be built a second time for it."""
    water = sponge.build.water_box("tip4pew", n=216)
    system = sponge.create_system(water, "amber14/tip4pew", cutoff=0.7, method="reaction_field")
    whole, resumed = (sponge.Simulation(system, sponge.LangevinMiddle(300, 5.0, 0.0005), seed=5) for _ in range(2))
    for sim in (whole, resumed):
        (neighbors,) = sim._engine.neighbor_lists.values()
        neighbors._sizes["pairs"] //= 4
        neighbors._allocate()
        sim._engine.replan()
    started = resumed._engine.version
    whole.run(14, report=sponge.Checkpoint(tmp_path / "a.chk", 10))
    resumed.load(tmp_path / "a.chk")
    resumed.run(4)
    assert resumed._engine.version > started
    np.testing.assert_array_equal(resumed.positions, whole.positions)


def solvated_peptide(integrator, barostat):
    folder = ROOT / "tests/data/sponge/ala2_explicit_pme"
    system = sponge.load(
        folder / "alanine-dipeptide.prmtop.gz", folder / "alanine-dipeptide.crd.gz", constraints="h-bonds"
    )
    return sponge.Simulation(system, integrator, barostat=barostat, seed=1)


@pytest.mark.parametrize(
    "integrator, barostat",
    [
        (sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), None),
        (
            sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002),
            sponge.MonteCarloBarostat(pressure=1.0, every=15),
        ),
        (
            sponge.Bussi(temperature=300, relaxation_time=0.1, timestep=0.002),
            sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=2.0, every=15),
        ),
        (sponge.RESPA(timestep=0.002, inner=2, fast=["bond", "angle", "torsion", "pair14"]), None),
    ],
    ids=["Langevin", "Monte Carlo", "cell rescaling", "RESPA"],
)
def test_saving_changes_no_step(tmp_path, integrator, barostat):
    """At any interval, and a run that is resumed from any of the files is that run, too."""
    plain, often, resumed = (solvated_peptide(integrator, barostat) for _ in range(3))
    plain.run(101)
    for at in (7, 20, 33, 47, 60):
        often.run(at - often.step)
        often.save(tmp_path / f"{at}.chk")
    often.run(101 - often.step, report=sponge.Checkpoint(tmp_path / "a.chk", 9))
    np.testing.assert_array_equal(often.positions, plain.positions)
    for name in ("60.chk", "33.chk", "a.chk"):
        resumed.load(tmp_path / name)
        resumed.run(101 - resumed.step)
        np.testing.assert_array_equal(resumed.positions, plain.positions)
        np.testing.assert_array_equal(resumed.velocities, plain.velocities)


SCRIPT = """
import sys
from pathlib import Path
from triskele import sponge

folder = Path({root!r}) / "tests/data/sponge/ala2_explicit_pme"
files = folder / "alanine-dipeptide.prmtop.gz", folder / "alanine-dipeptide.crd.gz"
system = sponge.load(*files, constraints="h-bonds")
system.nonbonded.update(tolerance=1e-4)
sim = sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=3,
                        barostat=sponge.MonteCarloBarostat(pressure=1.0, every=5))
report = [sponge.DCD("a.dcd", 2), sponge.CSV("a.csv", 4), sponge.Checkpoint("a.chk", 20)]
if sys.argv[1] == "resume":
    sim.load("a.chk")
print("step", sim.step, flush=True)
sim.run(int(sys.argv[2]) - sim.step, report=report)
sim.save("end.chk")
"""


def start(folder, *arguments):
    folder.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT.format(root=str(ROOT)), *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT / ".src")},
    )


def finish(process):
    process.communicate(timeout=300)
    assert process.returncode == 0


@pytest.mark.slow
def test_a_run_killed_at_any_moment_resumes_bit_for_bit(tmp_path):
    # Langevin dynamics, constraints, a mesh, and a barostat that changes the box
    finish(start(tmp_path / "whole", "new", "200"))
    killed = start(tmp_path / "killed", "new", "100000")
    checkpoint, deadline = tmp_path / "killed" / "a.chk", time.monotonic() + 200
    while not checkpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    middle, meta = read_checkpoint(checkpoint)
    assert 20 <= meta["step"] < 200
    finish(start(tmp_path / "killed", "resume", "200"))
    whole, resumed = ({p.name: p for p in (tmp_path / name).iterdir()} for name in ("whole", "killed"))
    (a, _), (b, _) = read_checkpoint(whole["end.chk"]), read_checkpoint(resumed["end.chk"])
    assert set(a) == set(b) and all(np.array_equal(a[name], b[name]) for name in a)
    assert not np.array_equal(a["box"], middle["box"])  # the barostat was at work
    for name in ("a.dcd", "a.csv"):
        assert whole[name].read_bytes() == resumed[name].read_bytes()


@pytest.mark.parametrize(
    "barostat",
    [
        sponge.StochasticCellRescaling(pressure=1.0, relaxation_time=2.0, every=5),
        sponge.MonteCarloBarostat(pressure=1.0, every=5),
    ],
    ids=lambda b: type(b).__name__,
)
def test_neighbor_lists_do_not_remember_in_which_box_a_run_was_resumed(tmp_path, barostat):
    folder = ROOT / "tests/data/sponge/ala2_explicit_pme"

    def make():
        system = sponge.load(
            folder / "alanine-dipeptide.prmtop.gz", folder / "alanine-dipeptide.crd.gz", constraints="h-bonds"
        )
        return sponge.Simulation(
            system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), barostat=barostat
        )

    whole = make()
    whole.run(80, report=sponge.Checkpoint(tmp_path / "a.chk", 50))
    resumed = make()
    resumed.load(tmp_path / "a.chk")
    resumed.run(30)
    assert np.array_equal(resumed.positions, whole.positions) and np.array_equal(resumed.box, whole.box)


def test_a_state_goes_back_in_the_same_simulation(tmp_path):
    sim = springs()
    sim.run(10)
    sim.save(tmp_path / "a.chk")
    sim.run(15)
    end = sim.positions
    sim.load(tmp_path / "a.chk")
    assert sim.step == 10
    sim.run(15)
    assert np.array_equal(sim.positions, end)


# -- other settings ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, message",
    [
        ({"k": 1001.0}, r"differ: potentials bond: params: k \(other values\)$"),
        ({"n": 12}, r"atoms \(10 in the checkpoint, 12 here\), masses \(other values\)"),
        ({"box": 3.0}, r"first box \(none in the checkpoint, #\w+ here\)$"),
        ({"remove": False}, r"removal of center-of-mass motion \(True in the checkpoint, False here\)"),
        ({"seed": 2}, r"differ: seed \(1 in the checkpoint, 2 here\)$"),
        ({"precision": "double"}, r"differ: precision \(mixed in the checkpoint, double here\)$"),
        (
            {"integrator": sponge.LangevinMiddle(temperature=310, friction=1.0, timestep=0.002)},
            r"differ: integrator temperature \(300 in the checkpoint, 310 here\)$",
        ),
        (
            {"integrator": sponge.VelocityVerlet(timestep=0.002)},
            r"integrator class \(LangevinMiddle in the checkpoint, VelocityVerlet here\)",
        ),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(tmp_path, change, message):
    springs().save(tmp_path / "a.chk")
    other = springs(**change)
    with pytest.raises(CheckpointError, match="must belong to the same system and settings, but these differ: "):
        other.load(tmp_path / "a.chk")
    with pytest.raises(CheckpointError, match=message):
        other.load(tmp_path / "a.chk")


def test_an_equal_run_is_not_refused(tmp_path):
    saved = springs(k=np.full(5, 1000.0))
    saved.run(5)
    saved.save(tmp_path / "a.chk")
    equal = springs(integrator=sponge.LangevinMiddle(friction=1, temperature=300.0, timestep=0.002))
    equal.load(tmp_path / "a.chk")
    assert equal.step == 5 and np.array_equal(equal.positions, saved.positions)


def test_the_function_of_a_potential_counts(tmp_path):
    def make(power):
        potential = sponge.bond_potential((lambda r, k: k * r**2) if power == 2 else (lambda r, k: k * r**3))
        system = sponge.System(sponge.Topology.of_particles(2), [1.0, 1.0], positions=[[0, 0, 0], [0.1, 0, 0]])
        system.add(potential([[0, 1]], k=[1.0]))
        return sponge.Simulation(system, sponge.VelocityVerlet(timestep=0.001))

    make(2).save(tmp_path / "a.chk")
    make(2).load(tmp_path / "a.chk")
    with pytest.raises(CheckpointError, match="differ"):
        make(3).load(tmp_path / "a.chk")


def test_differences_in_words():
    a = {"x": 1, "y": {"class": "A", "z": "#12"}, "only": 2, "same": None}
    b = {"x": 2, "y": {"class": "A", "z": "#34"}, "new": 3, "same": None}
    assert differences(a, b) == [
        "x (1 in the checkpoint, 2 here)",
        "y z (other values)",
        "only (only in the checkpoint)",
        "new (only here)",
    ]


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def checkpoint(tmp_path):
    path = tmp_path / "a.chk"
    springs().save(path)
    return path


def test_arrays_and_numbers_come_back(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "store/k": np.array(3), "empty": np.zeros((0, 3))}
    write_checkpoint(tmp_path / "a.chk", arrays, {"step": 7, "time": 0.1 + 0.2})
    found, meta = read_checkpoint(tmp_path / "a.chk")
    assert meta == {"step": 7, "time": 0.1 + 0.2} and set(found) == set(arrays)
    assert all(np.array_equal(found[name], arrays[name]) and found[name].shape == arrays[name].shape for name in arrays)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda data: b"", "got another or a damaged one"),
        (lambda data: b"PK" + data, "got another or a damaged one"),
        (lambda data: data[:30], "the file is cut off"),
        (lambda data: data[:-1], "it was cut off"),
        (lambda data: data + b"x", "something was appended"),
        (lambda data: data[:-1] + bytes([data[-1] ^ 1]), "the checksum does not fit"),
        (lambda data: b"TRISKELE SPONGE\0" + data, "got a file of release 0.5 or older"),
    ],
)
def test_damaged_files_are_refused(checkpoint, spoil, message):
    checkpoint.write_bytes(spoil(checkpoint.read_bytes()))
    sim = springs()
    with pytest.raises(CheckpointError, match=f"checkpoint '.*a.chk': .*{message}"):
        sim.load(checkpoint)
    assert sim.step == 0 and sim.resumed_from is None


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        springs().load(tmp_path / "none.chk")


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_flipped_bit_goes_unseen(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("bits") / "a.chk"
    write_checkpoint(path, {"x": np.arange(5.0)}, {"step": 1})
    content = bytearray(path.read_bytes())
    content[data.draw(st.integers(0, len(content) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    with pytest.raises(CheckpointError):
        read_checkpoint(path)


def test_a_checkpoint_that_cannot_be_written_leaves_nothing(tmp_path, monkeypatch):
    sim = springs()
    with pytest.raises(FileNotFoundError):
        sim.save(tmp_path / "none" / "a.chk")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("no")))
    with pytest.raises(OSError, match="no"):
        sim.save(tmp_path / "a.chk")
    assert not list(tmp_path.iterdir())
