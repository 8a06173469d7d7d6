"""Trajectories written in every format and read back, and small files of GROMACS and AMBER with the same frames."""

import struct
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from tests.sponge.reference import DATA
from triskele import sponge
from triskele.sponge.box import from_lengths_angles
from triskele.sponge.errors import FileFormatError, ReporterError
from triskele.sponge.trr_codec import decode_frame, encode_frame, frame_length

FILES = DATA / "formats"
BOX = from_lengths_angles([3.0, 3.2, 3.4], np.radians([70.0, 80.0, 65.0]))
EVERY = 5


def simulation(box=BOX, n=12):
    """Dimers on springs, at 300 K, under a barostat if there is a box."""
    x = np.random.default_rng(0).uniform(0, 2, (n, 3))
    x[1::2] = x[::2] + [0.16, 0, 0]
    pairs = np.arange(n).reshape(-1, 2)
    system = sponge.System(sponge.Topology.of_particles(n, "C", 6, pairs), np.full(n, 12.0), box, x)
    system.add(sponge.harmonic_bond(pairs, k=1000.0, r0=0.15))
    barostat = None if box is None else sponge.StochasticCellRescaling(pressure=1.0)
    return sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1, barostat=barostat)


def reporters(folder):
    """A reporter of each format, with the most that it writes."""
    return {
        "nc": sponge.NetCDF(folder / "a.nc", EVERY),
        "trr": sponge.TRR(folder / "a.trr", EVERY, velocities=True),
        "gro": sponge.GRO(folder / "a.gro", EVERY, velocities=True),
        "h5md": sponge.H5MD(folder / "a.h5md", EVERY, double=True),
    }


def single(x):
    return np.asarray(x, np.float32).astype(np.float64)


@pytest.fixture(scope="module", params=[BOX, None], ids=["triclinic", "no box"])
def run(request, tmp_path_factory):
    """The folder with the files, and positions, velocities, boxes and times as they were."""
    pytest.importorskip("h5py")
    folder, sim, seen = tmp_path_factory.mktemp("run"), simulation(request.param), []
    look = sponge.Callback(EVERY, lambda sim: seen.append((sim.positions, sim.velocities, sim.box, sim.time)))
    sim.run(20, report=[look, *reporters(folder).values()])
    return folder, *zip(*seen)


@pytest.mark.parametrize(
    "kind, rounded, of_box",
    [
        ("nc", lambda x: single(10 * x) * 0.1, 1e-14),
        ("trr", single, 1e-6),
        ("gro", lambda x: np.char.mod("%.3f", x).astype(float), 5.1e-6),
        ("h5md", np.array, 0),
    ],
)
def test_frames_are_read_as_they_were_written(run, kind, rounded, of_box):
    folder, positions, _, boxes, times = run
    trajectory = sponge.load_trajectory(folder / f"a.{kind}")
    assert np.array_equal(trajectory.positions, rounded(np.array(positions)))
    np.testing.assert_allclose(trajectory.times, times, rtol=1e-7)
    if boxes[0] is None:
        assert trajectory.boxes is None
    else:
        np.testing.assert_allclose(trajectory.boxes, boxes, atol=of_box)


@pytest.mark.parametrize("kind", ["nc", "trr", "gro"])
def test_what_follows_the_last_checkpoint_is_cut_off(tmp_path, kind):
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    simulation().run(20, report=reporters(tmp_path / "one")[kind])
    killed = simulation()
    killed.run(12, report=reporters(tmp_path / "two")[kind])
    killed.save(tmp_path / "run.chk")
    killed.run(6, report=reporters(tmp_path / "two")[kind])
    with open(tmp_path / "two" / f"a.{kind}", "ab") as file:
        file.write(b"a part of a frame")
    resumed = simulation()
    resumed.load(tmp_path / "run.chk")
    resumed.run(8, report=reporters(tmp_path / "two")[kind])
    assert (tmp_path / "one" / f"a.{kind}").read_bytes() == (tmp_path / "two" / f"a.{kind}").read_bytes()


@pytest.mark.parametrize("kind", [sponge.TRR, sponge.GRO])
def test_a_file_is_not_continued_with_other_parts(tmp_path, kind):
    sim = simulation()
    sim.run(5, report=kind(tmp_path / "a.file", EVERY))
    with pytest.raises(ReporterError, match="with or without velocities"):
        sim.run(5, report=kind(tmp_path / "a.file", EVERY, velocities=True))


# -- files of other programs -------------------------------------------------------------------------------------------


def test_gromacs_wrote_the_same_frames_in_four_files():
    """Two frames of two waters of GROMACS's test data, whose positions are multiples of 0.001 nm."""
    pytest.importorskip("h5py")
    text = sponge.load_trajectory(FILES / "spc2-traj.gro")
    assert text[1].positions[[0, 5]].tolist() == [[0.569, 9.275, 1.165], [1.496, 1.521, 2.623]]
    assert text.times.tolist() == [0, 1] and np.array_equal(text[1].box, np.diag([4.01, 3.03, 9.01]))
    assert text.topology.elements.tolist() == [8, 1, 1, 8, 1, 1]
    assert text.topology.bonds.tolist() == [[0, 1], [0, 2], [3, 4], [3, 5]]
    for name in ("spc2-traj.trr", "spc2-traj-double.trr", "spc2-traj.h5md"):
        trajectory = sponge.load_trajectory(FILES / name, top=FILES / "spc2-traj.gro")
        assert np.array_equal(trajectory.positions, single(text.positions))
        np.testing.assert_allclose(trajectory.boxes, text.boxes, rtol=1e-7)
        assert trajectory.times.tolist() == [0, 1]


def test_a_file_of_cpptraj():
    """84 atoms without times, in 3 frames: numbers as ncdump prints them, in angstrom."""
    trajectory = sponge.load_trajectory(FILES / "cpptraj_traj.nc")
    assert (len(trajectory), trajectory.n, trajectory.times) == (3, 84, None)
    np.testing.assert_allclose(np.diag(trajectory[1].box) * 10, [72.6120181, 77.1957993, 79.965521], rtol=1e-8)


# -- TRR ---------------------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(x=st.integers(1, 20).flatmap(lambda n: arrays(np.float32, (2, n, 3), elements=st.floats(width=32))))
def test_trr_frames_of_any_numbers(x):
    frame = encode_frame(x[0], BOX, 7, 1.5, x[1])
    assert frame_length(frame[:100]) == (len(frame), x.shape[1])
    positions, box, time = decode_frame(frame)
    assert positions.tobytes() == x[0].astype(">f4").tobytes() and np.array_equal(box, np.float32(BOX)) and time == 1.5
    assert frame.endswith(x[1].astype(">f4").tobytes())


def test_trr_frames_without_positions_are_left_out(tmp_path):
    x = np.random.default_rng(0).normal(size=(4, 3))
    velocities_only = bytearray(encode_frame(x, BOX, 1, 1.0, x))
    struct.pack_into(">i", velocities_only, 24 + 4 * 7, 0)
    del velocities_only[-2 * x.size * 4 : -x.size * 4]
    frames = [encode_frame(x + k, None, k, float(k)) for k in (0, 2)]
    (tmp_path / "a.trr").write_bytes(frames[0] + bytes(velocities_only) + frames[1] + frames[1][:-1])
    trajectory = sponge.load_trajectory(tmp_path / "a.trr")
    assert trajectory.times.tolist() == [0, 2] and trajectory.boxes is None
    assert np.array_equal(trajectory[1].positions, single(x + 2))


@pytest.mark.parametrize(
    "at, value, message",
    [
        (0, 1995, "TRR frame 1 must begin with 1993 and GMX_trn_file, got 1995"),
        (24 + 4 * 2, 40, "frame 1 must have parts of one precision for a positive number of atoms, got"),
        (24 + 4 * 5, 4, "frame 1 must have parts of one precision"),
        (24 + 4 * 7, -48, "frame 1 must have parts of one precision"),
        (24 + 4 * 10, 5, "frame 1 must have parts of one precision"),
        (84, 0x7FC00000, "frame 1 .*lengths must be positive and finite"),
    ],
)
def test_damage_of_trr_files_is_named_by_its_frame(tmp_path, at, value, message):
    frames = [bytearray(encode_frame(np.ones((4, 3)), BOX, k, float(k))) for k in range(2)]
    struct.pack_into(">i", frames[1], at, value)
    (tmp_path / "a.trr").write_bytes(b"".join(frames))
    with pytest.raises(FileFormatError, match=rf"a.trr: .*{message}"):
        list(sponge.load_trajectory(tmp_path / "a.trr"))


# -- GRO ---------------------------------------------------------------------------------------------------------------


def test_write_gro_and_load(tmp_path):
    system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
    velocities = np.random.default_rng(0).normal(size=(system.n, 3))
    path = tmp_path / "a.gro"
    sponge.write_gro(path, system.topology, system.positions, system.box, velocities)
    found = sponge.load.gro.read_gro(path)
    assert np.abs(found["positions"] - system.positions).max() < 5.01e-4
    assert np.abs(found["velocities"] - velocities).max() < 5.01e-5
    trajectory = sponge.load_trajectory(path)
    ours, theirs = trajectory.topology, system.topology
    for name in ("names", "elements", "residue_names", "residue_ids"):
        assert np.array_equal(getattr(ours, name), getattr(theirs, name))
    assert np.array_equal(ours.bonds, np.unique(np.sort(theirs.bonds), axis=0))
    again = sponge.Structure(ours, trajectory[0].positions, trajectory[0].box)
    sponge.write_gro(tmp_path / "b.gro", again)
    sponge.write_gro(tmp_path / "c.gro", again, np.stack([again.positions, again.positions + 1]))
    assert np.array_equal(sponge.load_trajectory(tmp_path / "b.gro")[0].positions, again.positions)
    assert len(sponge.load_trajectory(tmp_path / "c.gro")) == 2


def gro(*rows, title="some, t= 1.5 step= 3", box="3.0 3.0 3.0\n"):
    return "\n".join([title, f"{len(rows)}", *rows, box])


ROW = "    1AR      AR    1"


@pytest.mark.parametrize(
    "text, positions, box",
    [
        (gro(ROW + "   0.100   0.200  -0.300"), [0.1, 0.2, -0.3], 3.0),
        (gro(ROW + "  0.123456789 -1.123456789 99.123456789"), [0.123456789, -1.123456789, 99.123456789], 3.0),
        (gro(ROW + "   0.1   0.2-999.3"), [0.1, 0.2, -999.3], 3.0),
        (gro(ROW + "   0.100   0.200  -0.300", box="40000.0000040000.0000040000.00000"), [0.1, 0.2, -0.3], 40000.0),
        (gro(ROW + "   0.100   0.200  -0.300", box="0 0 0\n\n\n"), [0.1, 0.2, -0.3], None),
        (gro(ROW + "   0.100   0.200  -0.300").replace("\n", "\r\n"), [0.1, 0.2, -0.3], 3.0),
    ],
)
def test_gro_files_of_any_precision(tmp_path, text, positions, box):
    (tmp_path / "a.gro").write_bytes(text.encode())
    (frame,) = sponge.load_trajectory(tmp_path / "a.gro")
    assert frame.positions.tolist() == [positions] and frame.time == 1.5
    assert frame.box is None if box is None else np.array_equal(frame.box, box * np.eye(3))


def test_gro_frames_that_are_being_written_are_left_out(tmp_path):
    row = ROW + "   0.100   0.200  -0.300"
    frame = gro(row, row, box="   3.00000   3.00000   3.00000   0.00000   0.00000   1.00000   0.0   1.0   0.5\n")
    for missing in (1, 5, 30, 60, 100, len(frame) - 3):
        (tmp_path / "a.gro").write_text((2 * frame)[:-missing])
        assert len(sponge.load_trajectory(tmp_path / "a.gro")) == (2 if missing == 1 else 1)


@pytest.mark.parametrize(
    "text, message",
    [
        ("", "must have a title and a number of atoms"),
        ("title\nmany\n", "line 2 must hold the number of atoms, got 'many'"),
        (gro(), "there must be atoms, got none"),
        (gro(ROW), "line 3: must hold numbers in columns"),
        (gro(ROW + "   0.100     nan  -0.300"), "line 3: must hold numbers in columns"),
        (gro(ROW + "   0.100   0.200  -0.300", box="1 2\n"), "line 4: the box must be 3 or 9 numbers, got '1 2'"),
        (
            gro(ROW + "   0.100   0.200  -0.300") + gro(ROW + "   0.100", ROW + "   0.200"),
            "frame 1 must have the 1 atoms of the first, got 2",
        ),
    ],
)
def test_damaged_gro_files_are_refused(tmp_path, text, message):
    (tmp_path / "a.gro").write_text(text)
    with pytest.raises(FileFormatError, match=rf"a.gro.* {message}"):
        list(sponge.load_trajectory(tmp_path / "a.gro"))


def of_names(names, residue="AR", number="1"):
    return sponge.Topology(names, [0], [0], [residue], [number], [0], ["A"])


@pytest.mark.parametrize(
    "topology, position, message",
    [
        (of_names(["AR"]), 9999.9996, r"positions must .* \(-1000 to 10000 nm\), got .* for atom 0 \(AR 1 AR\)"),
        (of_names(["AR"]), np.nan, "positions must be finite"),
        (of_names(["ARGON1"]), 0.0, "atoms must have names of up to five letters"),
        (of_names(["AR"], residue="ARGON1"), 0.0, "residues must have numbers, and names"),
        (of_names(["AR"], number="A"), 0.0, "residues must have numbers, and names"),
    ],
)
def test_what_does_not_fit_the_columns_of_gro_files(tmp_path, topology, position, message):
    with pytest.raises(ValueError, match=message):
        sponge.write_gro(tmp_path / "a.gro", topology, [[position, 0.0, 0.0]])
    with pytest.raises(TypeError, match="positions must be given"):
        sponge.write_gro(tmp_path / "a.gro", topology)
    assert not (tmp_path / "a.gro").exists()


# -- H5MD --------------------------------------------------------------------------------------------------------------


def h5md(path, **change):
    """A file in angstrom and fs with equal intervals of time, and boxes of every second frame."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file.create_group("h5md")
        group = file.create_group("particles/solute")
        group["position/value"] = np.arange(4 * 2 * 3.0).reshape(4, 2, 3)
        group["position/value"].attrs["unit"] = change.get("unit", "Angstrom")
        group["position/step"] = [0, 10, 20, 30]
        group["position/time"] = 500.0
        group["position/time"].attrs.update(unit="fs", offset=1000.0)
        group.create_group("box").attrs["boundary"] = change.get("boundary", ["periodic"] * 3)
        group["box/edges/step"], group["box/edges/value"] = [0, 20], change.get("edges", [[30.0] * 3, [40.0] * 3])
        for name in change.get("groups", ()):
            group.copy(group, file["particles"], name)
        if change.get("shape"):
            del group["position/value"]
            group["position/value"] = np.zeros(change["shape"])
    return path


def test_h5md_files_with_other_units_and_intervals(tmp_path):
    trajectory = sponge.load_trajectory(h5md(tmp_path / "a.h5"))
    assert np.allclose(trajectory[3].positions, [[1.8, 1.9, 2.0], [2.1, 2.2, 2.3]])
    np.testing.assert_allclose(trajectory.times, [1.0, 1.5, 2.0, 2.5])
    np.testing.assert_allclose(trajectory.boxes[:, 0, 0], [3, 3, 4, 4])
    assert sponge.load_trajectory(h5md(tmp_path / "b.h5", boundary="none")).boxes is None


@pytest.mark.parametrize(
    "change, message",
    [
        ({"unit": "furlong"}, "the unit of /particles/solute/position/value must be one of nm, .* got 'furlong'"),
        ({"groups": ["other"]}, r"one group of particles with positions, got \['other', 'solute'\]"),
        ({"shape": (4, 6)}, r"position must have shape \(frames, n, 3\), got \(4, 6\)"),
        ({"edges": [[-1.0] * 3] * 2}, "frame 0 cannot be read: .*positive"),
    ],
)
def test_damaged_h5md_files_are_refused(tmp_path, change, message):
    with pytest.raises(FileFormatError, match=rf"a.h5md: .*{message}"):
        list(sponge.load_trajectory(h5md(tmp_path / "a.h5md", **change)))


def test_files_that_are_no_h5md(tmp_path):
    pytest.importorskip("h5py")
    (tmp_path / "a.h5md").write_bytes(b"nothing of the kind" * 100)
    with pytest.raises(FileFormatError, match="a.h5md: the file cannot be read"):
        sponge.load_trajectory(tmp_path / "a.h5md")
    with pytest.raises(FileNotFoundError):
        sponge.load_trajectory(tmp_path / "none.h5md")


# -- other formats -----------------------------------------------------------------------------------------------------


@pytest.mark.peer
@pytest.mark.filterwarnings("ignore:::MDAnalysis")
def test_other_formats_go_through_mdanalysis(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its import
        mda = pytest.importorskip("MDAnalysis")
    structure = sponge.read_pdb(sponge.example_files("chignolin")[0])
    (tmp_path / "a.xyz").write_text("1\nargon\nAR 1.0 2.0 3.0\n1\nargon\nAR 1.5 2.0 3.0\n")
    trajectory = sponge.load_trajectory(tmp_path / "a.xyz")
    assert trajectory.topology.names.tolist() == ["AR"] and trajectory.times is None
    assert np.allclose(trajectory[1].positions, [[0.15, 0.2, 0.3]])
    universe = mda.Universe.empty(structure.topology.n, trajectory=True)
    universe.atoms.positions = 10 * structure.positions
    with mda.Writer(str(tmp_path / "a.trz"), n_atoms=structure.topology.n) as file:
        for _ in range(2):
            file.write(universe.atoms)
    trajectory = sponge.load_trajectory(tmp_path / "a.trz", top=structure)
    assert len(trajectory) == 2 and trajectory.topology is structure.topology
    np.testing.assert_allclose(trajectory[1].positions, structure.positions, atol=1e-6)
    with pytest.raises(FileFormatError, match=r"(?s)a.trz: MDAnalysis must .* \(is top= needed"):
        sponge.load_trajectory(tmp_path / "a.trz")
    (tmp_path / "b.xyz").write_text("nothing of the kind")
    with pytest.raises(FileFormatError, match="b.xyz: MDAnalysis must be able to read the file"):
        sponge.load_trajectory(tmp_path / "b.xyz", top=structure)


def test_other_formats_without_mdanalysis(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "MDAnalysis", None)
    (tmp_path / "a.xyz").touch()
    with pytest.raises(ModuleNotFoundError, match=r'a.xyz: its type: needs MDAnalysis \(pip install "triskele\[md\]"'):
        sponge.load_trajectory(tmp_path / "a.xyz")
