"""Trajectories of files, MDTraj and MDAnalysis: compared with what these programs read, in our units."""

import struct
import warnings

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import analysis
from triskele.sponge.errors import FileFormatError

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of their imports
    import mdtraj

    pytest.importorskip("MDAnalysis")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.filterwarnings("ignore::DeprecationWarning:MDAnalysis", "ignore::UserWarning:MDAnalysis"),
]
FRAMES, EVERY = 6, 5


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A system in water, the folder with its trajectory in three formats, and positions and boxes as they were."""
    folder = tmp_path_factory.mktemp("run")
    system = sponge.load(
        *sponge.example_files("alanine-dipeptide-water"), method="pme", cutoff=0.9, constraints="h-bonds"
    )

    def simulation():
        return sponge.Simulation(
            system,
            sponge.LangevinMiddle(300, 1.0, 0.002),
            seed=1,
            barostat=sponge.StochasticCellRescaling(pressure=1.0),
        )

    simulation().run(
        steps=FRAMES * EVERY,
        report=[
            sponge.DCD(folder / "run.dcd", every=EVERY),
            sponge.XTC(folder / "run.xtc", every=EVERY),
            sponge.PDB(folder / "run.pdb", every=EVERY),
        ],
    )
    again, seen = simulation(), []
    for _ in range(FRAMES):
        again.run(steps=EVERY)
        seen.append((again.positions.copy(), again.box.copy()))
    return system, folder, np.array([x for x, _ in seen]), np.array([b for _, b in seen])


@pytest.mark.parametrize("kind, tolerance", [("dcd", 1e-6), ("xtc", 6e-4), ("pdb", 6e-5)])
def test_files(run, kind, tolerance):
    system, folder, positions, boxes = run
    trajectory = sponge.load_trajectory(folder / f"run.{kind}", top=system)
    assert (len(trajectory), trajectory.n) == (FRAMES, system.n)
    np.testing.assert_allclose(trajectory.positions, positions, atol=tolerance)
    np.testing.assert_allclose(trajectory.boxes, boxes, atol=1e-4)
    times = 0.002 * EVERY * np.arange(1, FRAMES + 1)
    if kind == "pdb":
        assert trajectory.times is None
    else:
        np.testing.assert_allclose(trajectory.times, times, rtol=1e-5)
    assert [frame.positions.shape for frame in trajectory[1::2]] == [(system.n, 3)] * 3
    np.testing.assert_array_equal(trajectory[-1].positions, trajectory[::-1][0].positions)
    np.testing.assert_array_equal(trajectory[1:][::2][1].positions, trajectory[3].positions)
    assert trajectory.topology is system.topology


def same(ours, positions, boxes, times, topology):
    """Compare a trajectory with arrays of another program in nm and ps."""
    np.testing.assert_allclose(ours.positions, positions, atol=1e-5)
    np.testing.assert_allclose(ours.boxes, boxes, atol=1e-5)
    np.testing.assert_allclose(ours.times, times, rtol=1e-5)
    np.testing.assert_array_equal(ours.topology.names, topology.names)
    np.testing.assert_array_equal(ours.topology.elements, topology.elements)
    np.testing.assert_array_equal(ours.topology.residue_names, topology.residue_names)
    assert {tuple(sorted(b)) for b in ours.topology.bonds.tolist()} == {
        tuple(sorted(b)) for b in topology.bonds.tolist()
    }


def test_objects_of_mdtraj_and_mdanalysis(run):
    system, folder, positions, boxes = run
    times = 0.002 * EVERY * np.arange(1, FRAMES + 1)
    theirs = mdtraj.load(str(folder / "run.xtc"), top=system.to_mdtraj().topology)
    same(sponge.load_trajectory(theirs), theirs.xyz, theirs.unitcell_vectors, times, system.topology)
    universe = system.to_mdanalysis()
    universe.load_new(str(folder / "run.dcd"))
    universe.trajectory[2]
    same(sponge.load_trajectory(universe), positions, boxes, times, system.topology)
    assert universe.trajectory.frame == 2
    protein = universe.select_atoms("not resname WAT")
    part = sponge.load_trajectory(protein)
    np.testing.assert_allclose(part.positions, positions[:, protein.indices], atol=1e-5)
    assert part.topology.names.tolist() == protein.names.tolist()


def test_to_mdanalysis(run):
    system, _, positions, _ = run
    universe = system.to_mdanalysis(positions)
    assert len(universe.trajectory) == FRAMES
    np.testing.assert_allclose(universe.trajectory[3].positions, 10 * positions[3], atol=1e-4)
    np.testing.assert_allclose(universe.trajectory[3].triclinic_dimensions, 10 * system.box, atol=1e-4)
    np.testing.assert_allclose(universe.atoms.masses, system.masses)
    assert len(universe.bonds) == len(system.topology.bonds)
    assert len(universe.select_atoms("name CA")) == 1


def test_analysis_takes_them_all(run):
    system, folder, positions, boxes = run
    mdt = mdtraj.load(str(folder / "run.dcd"), top=system.to_mdtraj().topology)
    universe = system.to_mdanalysis()
    universe.load_new(str(folder / "run.dcd"))
    oxygen = system.topology.names == "O"
    expected = analysis.rdf(positions, boxes, oxygen, r_max=0.8).g
    for source in (folder / "run.dcd", str(folder / "run.dcd"), mdt, universe):
        np.testing.assert_allclose(analysis.rdf(source, first=oxygen, r_max=0.8).g, expected, atol=0.05)
    solute = np.arange(22)
    expected = analysis.rmsd(positions, positions[0], solute).value
    for source in (folder / "run.dcd", mdt, universe):
        np.testing.assert_allclose(analysis.rmsd(source, positions[0], solute).value, expected, atol=1e-5)
    expected = analysis.msd(positions, 0.002 * EVERY, oxygen)
    found = analysis.msd(universe, atoms=oxygen)
    np.testing.assert_allclose(found.time, expected.time, rtol=1e-5)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-2, atol=1e-6)
    angles = analysis.ramachandran(universe)
    np.testing.assert_allclose(angles.phi, analysis.ramachandran(positions, system.topology).phi, atol=1e-4)
    np.testing.assert_allclose(
        analysis.density(system.masses, folder / "run.dcd").value,
        analysis.density(system.masses, boxes).value,
        rtol=1e-5,
    )


def test_what_is_missing_is_named(run):
    system, folder, positions, _ = run
    with pytest.raises(ValueError, match="msd: interval is needed"):
        analysis.msd(folder / "run.pdb")
    with pytest.raises(ValueError, match="ramachandran: a topology is needed"):
        analysis.ramachandran(folder / "run.dcd")
    with pytest.raises(FileFormatError, match=f"top must have the {system.n} atoms of the trajectory, got 22"):
        sponge.load_trajectory(folder / "run.dcd", top=sponge.load(*sponge.example_files("alanine-dipeptide")))
    with pytest.raises(IndexError, match="6 frames, got frame 6"):
        sponge.load_trajectory(folder / "run.dcd")[6]
    with pytest.raises(TypeError, match="got 1.0"):
        sponge.load_trajectory(folder / "run.dcd")[1.0]
    (folder / "run.abc").touch()
    with pytest.raises(FileFormatError, match="run.abc: a trajectory must be of a type that .* MDAnalysis reads"):
        sponge.load_trajectory(folder / "run.abc")
    with pytest.raises(FileNotFoundError):
        sponge.load_trajectory("run.abc")
    with pytest.raises(TypeError, match="expected a path"):
        sponge.load_trajectory(positions)
    with pytest.raises(FileNotFoundError):
        sponge.load_trajectory("no such.dcd")


def dcd(order="<", n=2, frames=3, delta=0.02, cell=None, xplor=False, **control):
    """A DCD file written by hand."""

    def record(data):
        return struct.pack(order + "i", len(data)) + data + struct.pack(order + "i", len(data))

    words = np.zeros(20, order + "i4")
    words[[0, 1, 2, 10, 19]] = frames, 10, 5, cell is not None, 0 if xplor else 24
    for place, value in control.items():
        words[int(place[1:])] = value
    words[9:11] = (
        np.frombuffer(np.array([delta], order + "f8").tobytes(), order + "i4")
        if xplor
        else (*np.frombuffer(np.array([delta], order + "f4").tobytes(), order + "i4"), words[10])
    )
    out = record(b"CORD" + words.tobytes()) + record(struct.pack(order + "i", 0)) + record(struct.pack(order + "i", n))
    for k in range(frames):
        out += b"" if cell is None else record(np.array(cell, order + "f8").tobytes())
        out += b"".join(record((10.0 * k + d + np.arange(n)).astype(order + "f4").tobytes()) for d in range(3))
    return out


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("xplor", [False, True])
def test_dcd_of_other_programs(tmp_path, order, xplor):
    path = tmp_path / "a.dcd"
    path.write_bytes(dcd(order, xplor=xplor))
    trajectory = sponge.load_trajectory(path)
    np.testing.assert_allclose(trajectory[2].positions, [[2.0, 2.1, 2.2], [2.1, 2.2, 2.3]])
    assert trajectory.boxes is None
    np.testing.assert_allclose(trajectory.times, 0.04888821 * 0.02 * np.array([10, 15, 20]))


def test_dcd_with_cosines_without_times_and_growing(tmp_path):
    path = tmp_path / "a.dcd"
    path.write_bytes(dcd(cell=[20, 0.0, 30, 0.0, 0.0, 40], delta=1.0)[:-4])  # the last frame is being written
    trajectory = sponge.load_trajectory(path)
    assert len(trajectory) == 2
    assert trajectory.times is None
    np.testing.assert_allclose(trajectory.boxes[1], np.diag([2, 3, 4]))


@pytest.mark.parametrize(
    "data, message",
    [
        (b"", "word CORD"),
        (b"nothing of the kind", "word CORD"),
        (dcd()[:50], "truncated"),
        (dcd(frames=0), "one frame"),
        (dcd(c8=1), "fixed atoms"),
        (dcd(c11=1), "fourth dimension"),
        (dcd(n=0), "number of atoms"),
        (dcd()[:-30] + b"\1" * 30, "damaged"),
        (dcd(cell=[-1.0, 90, 3, 90, 90, 4]), "positive"),
    ],
)
def test_damaged_dcd(tmp_path, data, message):
    path = tmp_path / "a.dcd"
    path.write_bytes(data)
    with pytest.raises(FileFormatError, match=message):
        list(sponge.load_trajectory(path))


def test_damaged_xtc_and_models_that_differ(tmp_path, run):
    _, folder, _, _ = run
    broken = tmp_path / "a.xtc"
    broken.write_bytes(b"not an XTC file at all, but long enough to be one" * 4)
    with pytest.raises(FileFormatError, match="XTC"):
        sponge.load_trajectory(broken)
    lines = (folder / "run.pdb").read_text().splitlines()
    second = [k for k, line in enumerate(lines) if line.startswith("MODEL")][1]
    del lines[second + 1]
    (tmp_path / "a.pdb").write_text("\n".join(lines))
    with pytest.raises(FileFormatError, match="model 1 of a trajectory must have"):
        sponge.load_trajectory(tmp_path / "a.pdb").positions  # noqa: B018  reads the frames
