"""Changed frames of trajectories: compared with MDTraj, with the analyses of arrays, and with cases worked out."""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge import analysis
from triskele.sponge.trajectories.reader import Reader
from triskele.sponge.trajectories.trajectory import Trajectory


class Arrays(Reader):
    """Frames in memory."""

    def __init__(self, positions, box, topology=None):
        self.positions, self.box, self.topology = positions, box, topology
        self.frames, self.n = positions.shape[:2]
        self.reads = 0

    def read(self, k):
        self.reads += 1
        return self.positions[k].copy(), self.box, 0.5 * k


@pytest.fixture(scope="module")
def peptide():
    """A peptide in water that drifts and turns for eight frames, each atom wrapped into the box."""
    system = sponge.load(*sponge.example_files("alanine-dipeptide-water"))
    rng = np.random.default_rng(0)
    drift = np.cumsum(rng.normal(0, 0.2, (8, 1, 3)), axis=0)
    free = system.positions + drift + rng.normal(0, 0.01, (8, system.n, 3))
    inverse = np.linalg.inv(system.box)
    wrapped = free - np.floor(free @ inverse) @ system.box
    return system, wrapped, Trajectory(Arrays(wrapped, system.box, system.topology))


def test_take(peptide):
    system, wrapped, trajectory = peptide
    part = trajectory.take("protein")
    assert part.n == 22 and part.topology.n == 22 and len(part) == 8
    assert np.array_equal(part.positions, wrapped[:, :22]) and part.times.tolist() == trajectory.times.tolist()
    near = trajectory.take("byres water and around 0.3 protein")
    assert near.n == len(system.topology.select("byres water and around 0.3 protein", wrapped[0], system.box))
    assert np.array_equal(trajectory[2:5].take([3, 1])[1].positions, wrapped[3, [3, 1]])


def test_make_whole(peptide):
    mdtraj = pytest.importorskip("mdtraj")
    system, wrapped, trajectory = peptide
    whole = trajectory.make_whole()
    lengths = np.linalg.norm(np.diff(whole.positions[:, system.topology.bonds], axis=2)[:, :, 0], axis=2)
    assert lengths.max() < 0.25
    theirs = mdtraj.Trajectory(wrapped, system.to_mdtraj().topology)
    theirs.unitcell_vectors = np.repeat(system.box[None], 8, axis=0).astype(np.float32)
    theirs.make_molecules_whole(inplace=True, sorted_bonds=None)
    first = np.unique(system.topology.molecules, return_index=True)[1][system.topology.molecules]
    ours = whole.positions - whole.positions[:, first]
    np.testing.assert_allclose(ours, theirs.xyz - theirs.xyz[:, first], atol=2e-6)


def test_unwrap_is_that_of_arrays(peptide):
    system, wrapped, trajectory = peptide
    expected = analysis.unwrap(wrapped, system.box)
    unwrapped = trajectory.unwrap()
    np.testing.assert_allclose(unwrapped.positions, expected, atol=1e-12)
    for k in (5, 2, 2, 7):
        np.testing.assert_allclose(unwrapped[k].positions, expected[k], atol=1e-12)
    straight = np.arange(0, 3, 0.25)[:, None, None] * [1.0, 0.5, 0]
    found = Trajectory(Arrays(straight % 1.0, np.eye(3))).unwrap().positions
    np.testing.assert_allclose(found, straight, atol=1e-12)


def test_frames_are_read_once_in_their_order(peptide):
    _, wrapped, _ = peptide
    reader = Arrays(wrapped, np.eye(3) * 10)
    unwrapped = Trajectory(reader).unwrap()
    assert reader.reads == 0 and len(unwrapped) == 8
    assert len(list(unwrapped)) == 8 and reader.reads == 8


def test_center(peptide):
    system, _, trajectory = peptide
    centered = trajectory.make_whole().center("protein")
    middle = 0.5 * system.box.sum(0)
    np.testing.assert_allclose(centered.positions[:, :22].mean(1), np.broadcast_to(middle, (8, 3)), atol=1e-12)
    x = np.random.default_rng(0).normal(size=(3, 5, 3)) + 4
    assert np.abs(Trajectory(Arrays(x, None)).center().positions.mean(1)).max() < 1e-12


def test_superpose(peptide):
    mdtraj = pytest.importorskip("mdtraj")
    _, _, trajectory = peptide
    whole = trajectory.make_whole().take("protein")
    fitted = whole.superpose(atoms="backbone")
    assert fitted.boxes is None and np.allclose(fitted[0].positions, whole[0].positions)
    atoms = whole.topology.select("backbone")
    expected = analysis.superpose(whole.positions, whole[0].positions, atoms)
    np.testing.assert_allclose(fitted.positions, expected, atol=1e-12)
    theirs = mdtraj.Trajectory(whole.positions, None)
    theirs.superpose(theirs, 0, atom_indices=atoms)
    np.testing.assert_allclose(fitted.positions, theirs.xyz, atol=1e-5)


def test_what_is_missing_is_named(peptide):
    _, wrapped, trajectory = peptide
    bare = Trajectory(Arrays(wrapped, None))
    for change in (bare.make_whole, lambda: bare.take("protein")):
        with pytest.raises(ValueError, match="a topology is needed"):
            change()
    with pytest.raises(ValueError, match="superpose: reference must have shape"):
        trajectory.superpose(np.zeros((3, 3)))
    with pytest.raises(ValueError, match="center: atoms must be 0 to"):
        trajectory.center([10**6])
    with pytest.raises(ValueError, match="take: atoms must be a list of at least one number"):
        trajectory.take("nucleic")


# -- molecules that are broken -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def at_a_face(peptide):
    """Two frames: the peptide in the middle of the box, and broken at its corner."""
    system, _, _ = peptide
    middle = system.positions + 0.5 * np.diag(system.box) - system.positions[:22].mean(0)
    frames = np.stack([middle, middle + 0.5 * np.diag(system.box)]) % np.diag(system.box)
    return system, Trajectory(Arrays(frames, system.box, system.topology))


BROKEN = r": molecules must be whole, but that of atom \d+ \((ACE 1|ALA 2|NME 3) .* is broken over the faces of the box"


@pytest.mark.parametrize(
    "analyze",
    [
        lambda t, x: analysis.rmsd(t, x, range(22)),
        lambda t, x: analysis.rmsd(t, x, range(22), fit=False),
        lambda t, x: analysis.rmsf(t, range(22)),
        lambda t, x: analysis.superpose(t, x, range(22)),
    ],
)
def test_analyses_warn_of_a_molecule_that_is_broken(at_a_face, analyze):
    system, trajectory = at_a_face
    with pytest.warns(UserWarning, match=BROKEN + r" in frame 1 \(use make_whole\(\)") as seen:
        analyze(trajectory, system.positions)
    assert len(seen) == 1 and seen[0].filename == __file__
    analyze(trajectory.make_whole(), system.positions)
    analyze(trajectory[:1], system.positions)


@pytest.mark.parametrize("change", [lambda t: t.superpose(atoms="protein"), lambda t: t.center("protein")])
def test_changes_warn_of_a_molecule_that_is_broken(at_a_face, change):
    _, trajectory = at_a_face
    changed = change(trajectory)
    with pytest.warns(UserWarning, match=BROKEN) as seen:
        list(changed[:]) + list(changed)
    assert len(seen) == 1
    list(change(trajectory.make_whole()))


def test_nothing_is_said_where_the_number_is_right(at_a_face):
    """One atom of each molecule; atoms on one side of the face; and frames without bonds or box."""
    system, trajectory = at_a_face
    x = trajectory[1].positions
    analysis.rmsd(trajectory, system.positions, system.topology.names == "CA")
    one_side = np.flatnonzero(np.all(x[:22] < 0.5 * np.diag(system.box), axis=1))
    assert 1 < len(one_side) < 22
    analysis.rmsd(trajectory[1:], system.positions, one_side)
    analysis.rmsd(trajectory.positions, system.positions)
    analysis.rmsd(Trajectory(Arrays(x[None], system.box)), system.positions)
    analysis.rmsd(Trajectory(Arrays(x[None], None, system.topology)), system.positions)
