"""Reporters: what they write is read back by other programs, runs continue their files, and faults are told."""

import io
import os
import re
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import sponge
from triskele.core.show import progress
from triskele.sponge.box import from_lengths_angles
from triskele.sponge.errors import ReporterError
from triskele.sponge.report import bar

BOX = from_lengths_angles([3.0, 3.2, 3.4], np.radians([70.0, 80.0, 65.0]))


def simulation(box=BOX, n=6, seed=1):
    """Dimers on springs, at 300 K."""
    x = np.random.default_rng(0).uniform(0, 2, (n, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(n).reshape(-1, 2)
    system = sponge.System(sponge.Topology.of_particles(n, "C", 6, pairs), np.full(n, 12.0), box, x)
    system.add(sponge.harmonic_bond(pairs, k=1000.0, r0=0.15))
    return sponge.Simulation(system, sponge.LangevinMiddle(temperature=300, friction=1.0, timestep=0.002), seed=seed)


class Frames(sponge.Reporter):
    """Keeps what a trajectory should hold."""

    def __init__(self, every):
        super().__init__(every)
        self.steps, self.times, self.positions, self.boxes = [], [], [], []

    def report(self, sim, step):
        self.steps.append(step)
        self.times.append(sim.time)
        self.positions.append(sim.positions)
        self.boxes.append(sim.box)


def read_trajectory(path):
    mdtraj = pytest.importorskip("mdtraj")
    atoms = {"dcd": mdtraj.formats.DCDTrajectoryFile, "xtc": mdtraj.formats.XTCTrajectoryFile}[path.suffix[1:]]
    with atoms(str(path)) as file:
        return file.read()


# -- formats -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("box", [BOX, None], ids=["triclinic", "no box"])
def test_dcd_read_by_mdtraj(tmp_path, box):
    sim, seen = simulation(box), Frames(10)
    sim.run(50, report=[seen, sponge.DCD(tmp_path / "a.dcd", 10)])
    xyz, lengths, angles = read_trajectory(tmp_path / "a.dcd")
    assert xyz / 10 == pytest.approx(np.array(seen.positions), abs=1e-6)
    if box is not None:
        assert lengths == pytest.approx(np.broadcast_to([30, 32, 34], (5, 3)), rel=1e-6)
        assert angles == pytest.approx(np.broadcast_to([70, 80, 65], (5, 3)), rel=1e-6)


def test_dcd_header_tells_steps_and_frames(tmp_path):
    sim = simulation()
    sim.run(15)
    sim.run(25, report=[sponge.DCD(tmp_path / "a.dcd", 10)])
    control = np.frombuffer((tmp_path / "a.dcd").read_bytes()[8:88], np.int32)
    assert control[:4].tolist() == [3, 20, 10, 40]  # frames, first step, steps between frames, last step
    assert control[9:10].view(np.float32)[0] * 0.04888821 == pytest.approx(0.002)


@pytest.mark.parametrize("box", [BOX, None], ids=["triclinic", "no box"])
def test_xtc_read_by_mdtraj(tmp_path, box):
    pytest.importorskip("mdtraj")
    sim, seen = simulation(box, n=20), Frames(5)
    sim.run(20, report=[seen, sponge.XTC(tmp_path / "a.xtc", 5)])
    xyz, time, step, found = read_trajectory(tmp_path / "a.xtc")
    assert xyz == pytest.approx(np.array(seen.positions), abs=5.1e-4)  # of 0.001 nm
    assert step.tolist() == [5, 10, 15, 20] and time == pytest.approx(seen.times)
    assert found is None if box is None else found == pytest.approx(np.array(seen.boxes), abs=1e-6)


@pytest.mark.parametrize("double", [True, False])
def test_h5md_holds_what_the_standard_says(tmp_path, double):
    h5py = pytest.importorskip("h5py")
    sim, seen = simulation(), Frames(5)
    sim.run(20, report=[seen, sponge.H5MD(tmp_path / "a.h5", 5, velocities=True, double=double)])
    with h5py.File(tmp_path / "a.h5") as file:
        assert file["h5md"].attrs["version"].tolist() == [1, 1]
        particles = file["particles/all"]
        same = np.array_equal if double else lambda a, b: np.allclose(a, b, atol=1e-6)
        assert same(particles["position/value"], np.array(seen.positions))
        assert (
            particles["position/step"][:].tolist() == seen.steps
            and particles["position/time"][:].tolist() == seen.times
        )
        assert particles["position/value"].attrs["unit"] == "nm" and particles["velocity/value"].shape == (4, 6, 3)
        assert np.array_equal(particles["box/edges/value"], np.array(seen.boxes))
        assert particles["box"].attrs["boundary"].tolist() == [b"periodic"] * 3
        assert particles["species"][:].tolist() == [6] * 6
        assert file["observables/potential/value"][-1] == sim.energies()["potential"]


def test_csv_reads_back_to_the_last_bit(tmp_path):
    sim = simulation()
    sim.run(30, report=[sponge.CSV(tmp_path / "a.csv", 10)])
    lines = (tmp_path / "a.csv").read_text().splitlines()
    assert lines[0] == (
        "step,time [ps],bond [kJ/mol],potential [kJ/mol],kinetic [kJ/mol],total [kJ/mol],temperature "
        "[K],"
        "pressure [bar],volume [nm^3],density [g/cm^3]"
    )
    assert [int(line.split(",")[0]) for line in lines[1:]] == [10, 20, 30]
    assert [float(x) for x in lines[-1].split(",")[2:]] == list(sim.energies().values())


def test_pdb_read_by_mdtraj(tmp_path):
    mdtraj = pytest.importorskip("mdtraj")
    sim, seen = simulation(), Frames(10)
    sim.run(30, report=[seen, sponge.PDB(tmp_path / "a.pdb", 10)])
    found = mdtraj.load(tmp_path / "a.pdb")
    assert found.xyz == pytest.approx(np.array(seen.positions), abs=5.1e-5)
    assert found.unitcell_vectors[0] == pytest.approx(BOX, abs=1e-3)
    assert (tmp_path / "a.pdb").read_text().count("MODEL ") == 3


def test_pdb_refuses_what_does_not_fit_its_columns(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = simulation(None)
    sim.positions = sim.positions + 1000.0
    with pytest.raises(ValueError, match=r"fit the format's columns .* for atom 0 \(C 1 C\)"):
        sim.run(10, report=[sponge.PDB("a.pdb", 10)])


def test_log_prints_a_table(capsys):
    sim = simulation()
    sim.run(30, report=[sponge.Log(10)])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == [
        "step",
        "time",
        "potential",
        "kinetic",
        "total",
        "temp.",
        "pressure",
        "density",
        "box",
        "ns/day",
        "left",
    ]
    assert [line.split()[0] for line in lines[2:]] == ["10", "20", "30"]
    assert float(lines[-1].split()[2]) == pytest.approx(sim.energies()["potential"], abs=0.01)
    assert len({len(line) for line in lines[2:]}) == 1


def test_log_shows_progress_on_the_side(capsys):
    simulation().run(400, report=[sponge.Log(100)], progress=True)
    seen = capsys.readouterr()
    assert [line.split()[0] for line in seen.out.replace("\r", "").splitlines()[2:] if line.strip()][-1] == "400"
    assert "100" in seen.err and "ns/day" in seen.err


def test_callbacks_see_and_may_change_the_state():
    sim, seen = simulation(), []

    def rescale(sim):
        seen.append(sim.step)
        sim.velocities = 0.0 * sim.velocities

    sim.run(25, report=sponge.Callback(10, rescale))
    assert seen == [10, 20]
    with pytest.raises(TypeError, match="function must be a function, got int 3"):
        sponge.Callback(10, 3)


def test_a_callback_cannot_run_the_run_it_belongs_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = simulation()
    with pytest.raises(RuntimeError, match="must not be called by a reporter of a running simulation"):
        sim.run(10, report=sponge.Callback(5, lambda sim: sim.run(5)))
    sim.run(5)
    assert sim.step == 10


def test_steps_beyond_32_bits(tmp_path):
    pytest.importorskip("mdtraj")
    sim = simulation()
    sim._engine.flags[0] = 3_000_000_000
    sim.run(
        20,
        report=[
            sponge.DCD(tmp_path / "a.dcd", 10),
            sponge.XTC(tmp_path / "a.xtc", 10),
            sponge.CSV(tmp_path / "a.csv", 10),
        ],
    )
    assert len(read_trajectory(tmp_path / "a.dcd")[0]) == 2
    assert read_trajectory(tmp_path / "a.xtc")[1] == pytest.approx([6e6, 6e6])
    assert (tmp_path / "a.csv").read_text().splitlines()[-1].startswith("3000000020,6000000.04,")


@pytest.mark.parametrize("every", [0, -5, 2.5, True, "10"])
def test_every_must_be_a_whole_number(every):
    with pytest.raises(ValueError, match="integer >= 1"):
        sponge.CSV("a.csv", every)


def test_a_missing_package_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "h5py", None)
    with pytest.raises(ImportError, match=r'H5MD: needs h5py \(pip install "triskele\[md\]", or in'):
        sponge.H5MD("a.h5", 10)


# -- going on ----------------------------------------------------------------------------------------------------------


def all_files(folder):
    pytest.importorskip("mdtraj")
    pytest.importorskip("h5py")
    return [
        sponge.CSV(folder / "a.csv", 5),
        sponge.DCD(folder / "a.dcd", 5),
        sponge.XTC(folder / "a.xtc", 5),
        sponge.PDB(folder / "a.pdb", 5),
        sponge.NetCDF(folder / "a.nc", 5),
        sponge.TRR(folder / "a.trr", 5, velocities=True),
        sponge.GRO(folder / "a.gro", 5, velocities=True),
        sponge.H5MD(folder / "a.h5", 5),
    ]


def contents(folder):
    import h5py

    found = {name: (folder / f"a.{name}").read_bytes() for name in ("csv", "dcd", "xtc", "pdb", "nc", "trr", "gro")}
    with h5py.File(folder / "a.h5") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[:].tobytes()}) if isinstance(item, h5py.Dataset) and item.shape else None
            )
        )
    return found


def test_two_runs_write_what_one_run_writes(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    simulation().run(30, report=all_files(tmp_path / "one"))
    sim = simulation()
    reporters = all_files(tmp_path / "two")
    sim.run(10, report=reporters)
    sim.run(7, report=reporters)
    sim.run(13, report=all_files(tmp_path / "two"))
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


def test_a_resumed_run_cuts_off_what_came_after_the_checkpoint(tmp_path, monkeypatch):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    monkeypatch.chdir(tmp_path)
    simulation().run(40, report=[sponge.Checkpoint("one.chk", 20), *all_files(tmp_path / "one")])
    sim = simulation()
    # three frames too many for a resume
    sim.run(37, report=[*all_files(tmp_path / "two"), sponge.Checkpoint("two.chk", 20)])
    with open(tmp_path / "two" / "a.dcd", "ab") as file:
        file.write(b"half a frame")
    resumed = simulation(seed=1)
    resumed.load("two.chk")
    assert resumed.step == 20 and resumed.resumed_from == "two.chk"
    resumed.run(20, report=[*all_files(tmp_path / "two"), sponge.Checkpoint("two.chk", 20)])
    assert contents(tmp_path / "one") == contents(tmp_path / "two")


@settings(max_examples=8, deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(1, 25), st.booleans()), min_size=1, max_size=5))
def test_runs_cut_and_killed_anywhere_write_what_one_run_writes(tmp_path_factory, cuts):
    folder = tmp_path_factory.mktemp("cuts")
    (folder / "one").mkdir()
    (folder / "two").mkdir()
    chk = folder / "a.chk"
    sim = simulation()
    sim.save(chk)
    for steps, killed in cuts:
        sim.run(steps, report=[*all_files(folder / "two"), sponge.Checkpoint(chk, 7)])
        if killed:  # what is in memory is lost
            sim = simulation()
            sim.load(chk)
            if sim.step < 7:  # the checkpoint of the beginning knows of no files
                for path in (folder / "two").iterdir():
                    path.unlink()
    sim.run(30, report=[*all_files(folder / "two"), sponge.Checkpoint(chk, 7)])
    simulation().run(sim.step, report=[*all_files(folder / "one"), sponge.Checkpoint(folder / "b.chk", 7)])
    assert contents(folder / "one") == contents(folder / "two")


def test_a_resumed_run_never_overwrites_files_of_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    simulation().run(10, report=[sponge.Checkpoint("run.chk", 10)])
    (tmp_path / "a.csv").write_text("precious")
    resumed = simulation()
    resumed.load("run.chk")
    for reporter in [sponge.CSV("a.csv", 5), *([sponge.H5MD("a.csv", 5)] if pytest.importorskip("h5py") else [])]:
        with pytest.raises(ReporterError, match="exists, but was not being written when 'run.chk' was saved"):
            resumed.run(5, report=reporter)
    assert (tmp_path / "a.csv").read_text() == "precious"


def test_a_file_that_lost_records_is_noticed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = simulation()
    sim.run(10, report=[sponge.DCD("a.dcd", 5)])
    os.truncate("a.dcd", 200)
    with pytest.raises(ReporterError, match="must hold the 580 bytes it held when the state was saved, got 200"):
        sim.run(10, report=[sponge.DCD("a.dcd", 5)])


def test_a_trajectory_is_not_continued_with_another_interval(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = simulation()
    sim.run(10, report=[sponge.DCD("a.dcd", 5)])
    with pytest.raises(ReporterError, match="steps between frames: the file has 5, this run 2"):
        sim.run(10, report=[sponge.DCD("a.dcd", 2)])


# -- faults ------------------------------------------------------------------------------------------------------------


def test_a_path_that_cannot_be_written_stops_the_run_before_it_begins(tmp_path):
    sim = simulation()
    for reporter in (sponge.CSV(tmp_path / "none" / "a.csv", 5), sponge.DCD(tmp_path, 5)):
        with pytest.raises(
            ReporterError, match=f"{type(reporter).__name__} .* cannot be written: (No such file|Is a directory)"
        ):
            sim.run(10, report=[sponge.CSV(tmp_path / "b.csv", 5), reporter])
    assert sim.step == 0


def test_two_reporters_cannot_share_a_file(tmp_path):
    with pytest.raises(ValueError, match="different files, got .*a.csv' twice"):
        simulation().run(10, report=[sponge.CSV(tmp_path / "a.csv", 5), sponge.DCD(f"{tmp_path}/./a.csv", 5)])
    with pytest.raises(TypeError, match="must be a function of a dictionary of numbers, .*, got str"):
        simulation().run(10, report=["a.csv"])


def test_a_reporter_that_raises_saves_the_state_and_closes_the_others(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sim = simulation()

    def fail(sim):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine") as caught:
        sim.run(50, report=[sponge.CSV("a.csv", 5), sponge.Callback(20, fail), sponge.Checkpoint("run.chk", 100)])
    assert caught.value.__notes__ == [
        "Callback: raised this at step 20; the state at step 20 was saved to 'run.last_good.chk'"
    ]
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 5
    resumed = simulation()
    resumed.load("run.last_good.chk")
    assert resumed.step == 20 and np.array_equal(resumed.positions, sim.positions)
    sim.run(30, report=[sponge.CSV("a.csv", 5)])
    resumed.run(30)
    assert np.array_equal(resumed.positions, sim.positions)
    assert len((tmp_path / "a.csv").read_text().splitlines()) == 11


@pytest.mark.parametrize("kind, ending", [("DCD", "dcd"), ("CSV", "csv"), ("PDB", "pdb")])
def test_a_full_disk_leaves_whole_records(tmp_path, monkeypatch, small_disk, kind, ending):
    monkeypatch.chdir(tmp_path)
    sim = simulation(n=300)
    sim.run(10)  # what is compiled is written elsewhere
    small_disk(20_000)
    with pytest.raises(
        ReporterError, match=rf"{kind} 'a.{ending}': step \d+ could not be written: File too large"
    ) as caught:
        sim.run(1000, report=[getattr(sponge, kind)(f"a.{ending}", 1)])
    small_disk(-1)
    assert "is in memory, but could not be saved" in caught.value.__notes__[0]
    other = simulation(n=300)
    other.run(10)
    other.run(sim.step - 11, report=[getattr(sponge, kind)(f"b.{ending}", 1)])
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()
    sim.run(3, report=[getattr(sponge, kind)(f"a.{ending}", 1)])  # room again: the run continues


def test_a_full_disk_leaves_whole_frames_in_hdf5(tmp_path, monkeypatch, small_disk):
    h5py = pytest.importorskip("h5py")
    monkeypatch.chdir(tmp_path)
    sim, seen = simulation(n=300), Frames(1)
    sim.run(10)
    small_disk(900_000)
    with pytest.raises(ReporterError, match=r"H5MD 'a.h5': step \d+ could not be written: File too large"):
        sim.run(1000, report=[sponge.H5MD("a.h5", 1, double=True), seen])
    small_disk(-1)
    with h5py.File("a.h5") as file:  # the frame that failed was not seen by the reporter behind
        assert file["particles/all/position/step"][:].tolist() == seen.steps
        assert np.array_equal(file["particles/all/position/value"], np.array(seen.positions))
        assert len(seen.steps) > 10
    sim.run(3, report=[sponge.H5MD("a.h5", 1, double=True)])  # room again: the run continues
    with h5py.File("a.h5") as file:
        assert file["particles/all/position/step"][-3:].tolist() == [sim.step - 2, sim.step - 1, sim.step]


@pytest.mark.slow
def test_a_full_disk_and_hdf5_do_not_break_the_interpreter(tmp_path):
    pytest.importorskip("h5py")
    code = """
import resource, signal
from tests.sponge.report.test_report import simulation
from triskele import sponge
sim = simulation(n=300)
sim.run(2)
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    sim.run(1000, report=sponge.H5MD("a.h5", 1))
except sponge.errors.ReporterError as error:
    print(error)
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "TRISKELE_QUIET": "1"}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert done.returncode == 0 and "could not be written: File too large" in done.stdout and not done.stderr


@pytest.mark.parametrize("kind", ["DCD", "CSV", "XTC", "PDB", "NetCDF", "H5MD", "Variables"])
@pytest.mark.parametrize("how", ["file deleted", "folder deleted", "replaced"])
def test_a_file_that_is_lost_during_a_run_is_named(tmp_path, kind, how):
    pytest.importorskip("mdtraj")
    pytest.importorskip("h5py")
    folder = tmp_path / "out"
    folder.mkdir()
    path = folder / "a.out"
    reporter = (
        sponge.Variables({"r": sponge.cv.distance(0, 1)}, 5, path)
        if kind == "Variables"
        else getattr(sponge, kind)(path, 5)
    )

    def lose(sim):
        if sim.step == 10:
            path.unlink()
            if how == "folder deleted":
                folder.rmdir()
            if how == "replaced":
                path.write_text("mine")

    sim = simulation()
    with pytest.raises(ReporterError, match=r"a.out': step 15 could not be written: .* during the run"):
        sim.run(100, report=[reporter, sponge.Callback(5, lose)])
    assert sim.step == 15
    if kind == "Variables":
        assert reporter.steps.tolist() == [5, 10]
    if how == "replaced":
        assert path.read_text() == "mine"


@pytest.mark.parametrize("kind", ["DCD", "CSV", "H5MD"])
def test_a_file_that_is_lost_after_its_last_frame_is_named(tmp_path, kind):
    pytest.importorskip("h5py")
    sim, path = simulation(), tmp_path / "a.out"
    with pytest.raises(ReporterError, match="a.out': was lost: No such file"):
        sim.run(10, report=[getattr(sponge, kind)(path, 5), sponge.Callback(10, lambda sim: path.unlink())])


def test_compressed_frames_that_do_not_fit_are_noticed(tmp_path, monkeypatch, small_disk):
    monkeypatch.chdir(tmp_path)
    sim = simulation(n=3000)
    sim.run(10)
    small_disk(2000)
    with pytest.raises(
        ReporterError,
        match=r"XTC 'a.xtc': step 15 could not be written: File too large",
    ):
        sim.run(10, report=sponge.XTC("a.xtc", 5))


def test_an_output_that_is_full_is_an_error_of_the_log(monkeypatch, tmp_path):
    if not os.path.exists("/dev/full"):
        pytest.skip("needs /dev/full")
    monkeypatch.chdir(tmp_path)

    class Full(io.StringIO):
        def flush(self):
            if "\n" in self.getvalue() and self.getvalue().count("\n") > 2:
                with open("/dev/full", "w") as full:
                    full.write("x" * 10_000)

    monkeypatch.setattr("sys.stdout", Full())
    with pytest.raises(ReporterError, match="Log: step 5 could not be printed: No space left"):
        simulation().run(10, report=[sponge.Log(5)])


def test_a_full_disk_during_a_checkpoint_keeps_the_old_one(tmp_path, monkeypatch, small_disk):
    monkeypatch.chdir(tmp_path)
    sim = simulation()
    sim.run(10, report=[sponge.Checkpoint("run.chk", 10)])
    small_disk(1000)
    with pytest.raises(OSError, match="File too large") as caught:
        sim.run(10, report=[sponge.Checkpoint("run.chk", 10)])
    small_disk(-1)
    assert "could not be saved to 'run.last_good.chk'" in caught.value.__notes__[0]
    assert [p.name for p in tmp_path.iterdir()] == ["run.chk"]
    resumed = simulation()
    resumed.load("run.chk")
    assert resumed.step == 10


def test_standard_output_that_is_closed_is_an_error_of_the_log(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    closed = io.StringIO()
    closed.close()
    sim = simulation()
    monkeypatch.setattr("sys.stdout", closed)
    with pytest.raises(ValueError, match="closed file"):
        sim.run(10, report=[sponge.Log(5)])


# -- logs --------------------------------------------------------------------------------------------------------------
def test_a_long_run_says_once_in_a_log_how_far_it_is(capsys, monkeypatch):
    monkeypatch.setattr(bar, "PATIENCE", 0.0)
    sim = simulation(n=30)
    for quiet, expected in (("1", 0), ("0", 1)):
        monkeypatch.setenv("TRISKELE_QUIET", quiet)
        sim.run(20, report=[sponge.Callback(5, lambda sim: None)])
        lines = re.findall(
            r"^triskele: run: step [\d,]+ of [\d,]+, \S+ ns/day, [\d:]+ left$", capsys.readouterr().err, re.M
        )
        assert len(lines) == expected
    sim.run(20, progress=False, report=[sponge.Callback(5, lambda sim: None)])
    assert not capsys.readouterr().err


def test_work_that_takes_long_is_said(capsys, monkeypatch):
    monkeypatch.setattr(progress, "PATIENCE", 0.01)
    monkeypatch.setenv("TRISKELE_QUIET", "0")
    with progress.said("solvate: placing water"):
        time.sleep(0.3)
    with progress.said("nothing"):
        pass
    assert capsys.readouterr().err == "triskele: solvate: placing water\n"
