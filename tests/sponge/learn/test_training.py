"""Data sets and training: files, splits, reference energies, batches, learning, restarts, bad input."""

import numpy as np
import pytest

from triskele import core
from triskele.sponge import learn, units
from triskele.sponge.errors import CheckpointError, FileFormatError

BOND, STIFFNESS = 0.12, 2e4  # nm, kJ/mol/nm^2


def triatomics(frames=40, seed=0, box=None):
    """Bent molecules with harmonic bonds, and their exact forces."""
    rng = np.random.default_rng(seed)
    x = np.array([[-0.1, 0.06, 0], [0, 0, 0], [0.1, 0.06, 0]]) + 0.008 * rng.normal(size=(frames, 3, 3))
    forces, energies = np.zeros_like(x), np.zeros(frames)
    for i, j in ((0, 1), (1, 2)):
        d = x[:, i] - x[:, j]
        r = np.linalg.norm(d, axis=1)
        energies += 0.5 * STIFFNESS * (r - BOND) ** 2
        f = -STIFFNESS * ((r - BOND) / r)[:, None] * d
        forces[:, i] += f
        forces[:, j] -= f
    return learn.Dataset([[1, 8, 1]] * frames, x, energies - 100.0, forces, [box] * frames)


def network(**options):
    return learn.PaiNN.init(
        core.random.key(1), ["H", "O"], **{"cutoff": 0.3, "features": 12, "layers": 2, "radial": 8, **options}
    )


@pytest.mark.parametrize("box", [None, [[1.0, 0, 0], [0.2, 1.0, 0], [0, 0.3, 1.1]]])
def test_extended_xyz_there_and_back(tmp_path, box):
    pytest.importorskip("ase")
    data = triatomics(5, box=box)
    data.write(tmp_path / "data.xyz")
    back = learn.read_dataset(tmp_path / "data.xyz")
    assert len(back) == 5 and all(np.array_equal(a, b) for a, b in zip(back.elements, data.elements))
    np.testing.assert_allclose(back.positions, data.positions, atol=1e-8)
    np.testing.assert_allclose(back.energies, data.energies, rtol=1e-6)
    np.testing.assert_allclose(back.forces, data.forces, atol=1e-4)
    assert box is None or np.allclose(back.boxes[0], box)


def test_databases_of_ase_and_units(tmp_path):
    """1 eV and 1 eV/Å."""
    pytest.importorskip("ase")
    from ase import Atoms
    from ase.calculators.singlepoint import SinglePointCalculator
    from ase.db import connect

    with connect(tmp_path / "data.db") as database:
        for _ in range(3):
            atoms = Atoms("OH", [[0, 0, 0], [0, 0, 1.0]])
            atoms.calc = SinglePointCalculator(atoms, energy=1.0, forces=[[0, 0, -1], [0, 0, 1]])
            database.write(atoms)
    data = learn.read_dataset(tmp_path / "data.db")
    assert len(data) == 3 and data.positions[0][1, 2] == pytest.approx(0.1)
    assert data.energies[0] == pytest.approx(96.4853, abs=1e-3) and data.forces[0][1, 2] == pytest.approx(units.eV * 10)


def test_splits_have_no_frame_in_common_and_come_again():
    data = triatomics(30)
    parts, again = data.split(0.5, 10, 5, seed=3), data.split(0.5, 10, 5, seed=3)
    energies = np.concatenate([p.energies for p in parts])
    assert [len(p) for p in parts] == [15, 10, 5] and len(set(energies)) == 30
    assert all(np.array_equal(a.energies, b.energies) for a, b in zip(parts, again))
    with pytest.raises(ValueError, match="30 together, got"):
        data.split(20, 11)


def test_reference_energies_are_those_of_the_atoms():
    rng = np.random.default_rng(0)
    frames = [rng.choice([1, 6, 8], n) for n in rng.integers(2, 9, 20)]
    truth = {1: -31.0, 6: -400.0, 8: -900.0}
    data = learn.Dataset(
        frames,
        [rng.random((len(z), 3)) for z in frames],
        [sum(truth[int(e)] for e in z) for z in frames],
        [np.zeros((len(z), 3)) for z in frames],
    )
    assert data.reference_energies() == pytest.approx(truth)


def test_small_cells_see_their_own_images():
    """One atom in a cell smaller than the cut-off: the energy of a larger cell, atom by atom."""
    pytest.importorskip("ase")
    net = network(cutoff=0.5, dtype=np.float64)
    box = np.diag([0.31, 0.35, 0.33])
    one = learn.Dataset([[8]], np.zeros((1, 1, 3)), [0.0], np.zeros((1, 1, 3)), [box])
    cells = np.stack(np.meshgrid(*[np.arange(4)] * 3, indexing="ij"), -1).reshape(-1, 3)
    many = learn.Dataset([[8] * 64], [cells @ box], [0.0], np.zeros((1, 64, 3)), [4 * box])
    assert 64 * learn.evaluate(net, one).energies[0] == pytest.approx(learn.evaluate(net, many).energies[0], rel=1e-9)


def test_filling_up_changes_nothing():
    """Frames of several sizes in batches: each frame as if it were alone."""
    small, data = triatomics(3), triatomics(4, seed=1)
    mixed = learn.Dataset(
        [*data.elements, [1, 8]],
        [*data.positions, small.positions[0][:2]],
        [*data.energies, -70.0],
        [*data.forces, np.zeros((2, 3))],
    )
    net = network(dtype=np.float64)
    together, alone = learn.evaluate(net, mixed, batch=3), learn.evaluate(net, mixed[4:], batch=1)
    assert together.energies[4] == pytest.approx(alone.energies[0], rel=1e-12)
    np.testing.assert_allclose(together.forces[4], alone.forces[0], atol=1e-10)


def test_training_learns_and_resumes_bit_for_bit(tmp_path):
    data, options = triatomics(40), {"epochs": 12, "batch": 8, "rate": 5e-3, "progress": False}
    whole = learn.train(network(), data, **options)
    errors = whole.history["validation/force_rmse"]
    assert errors[-1] < 0.5 * errors[0]
    assert whole.best == 1 + int(np.argmin(whole.history["validation/loss"]))

    class Killed(Exception):
        pass

    def explode(run):
        if run.epoch == 5:
            raise Killed

    path = tmp_path / "train.safetensors"
    with pytest.raises(Killed):
        learn.train(network(), data, checkpoint=path, callbacks=[core.train.Lambda(epoch_begin=explode)], **options)
    resumed = learn.train(network(), data, checkpoint=path, callbacks=[core.train.Lambda()], **options)
    assert resumed.history.records == whole.history.records
    for a, b in zip(core.tree.leaves(resumed.network), core.tree.leaves(whole.network), strict=True):
        assert np.array_equal(a, b)
    options["callbacks"] = [core.train.Lambda()]
    with pytest.raises(CheckpointError, match=r"train\..*must belong to this training, but these differ: batch"):
        learn.train(network(), data, checkpoint=path, **{**options, "batch": 4})
    path.write_bytes(b"broken")
    with pytest.raises(CheckpointError, match=r"train\..*must be a training state"):
        learn.train(network(), data, checkpoint=path, **options)


def test_training_stops_early_and_draws_its_history():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    found = learn.train(network(), triatomics(40), 30, batch=8, rate=1e-9, patience=2, progress=False)
    assert found.stopped.startswith("validation/loss")
    assert len(found.history) - found.best <= 2 or len(found.history) == 30
    ax = found.history.plot()
    assert [len(line.get_xdata()) for line in ax.lines] == [len(found.history)] * 2
    pyplot.close(ax.figure)


def test_a_loss_that_is_not_finite_ends_the_training():
    data = triatomics(16)
    with pytest.raises(FloatingPointError, match="train: the loss must stay finite"):
        learn.train(network(), data, 3, rate=lambda count: 1e30, progress=False)


def test_batches_are_even_and_hold_each_frame_once():
    data = triatomics(17)
    batches = learn.Batches(data, network(), 8)
    found = [batch.energies[batch.frame > 0] for batch in batches.source(seed=1)]
    assert batches.size == 6 and len(batches) == len(found) == 3
    np.testing.assert_array_equal(np.sort(np.concatenate(found)), np.sort(data.energies))


def test_bad_data_and_options_are_named(tmp_path):
    data = triatomics(6)
    forces = [f.copy() for f in data.forces]
    forces[3][1, 2] = np.nan
    with pytest.raises(ValueError, match=r"frame 3: forces must be finite, got .*nan.* for atom 1 \(O\)"):
        learn.Dataset(data.elements, data.positions, data.energies, forces)
    with pytest.raises(ValueError, match="frame 0: forces must have shape"):
        learn.Dataset([[1, 1]], np.zeros((1, 2, 3)), [0.0], np.zeros((1, 3, 3)))
    with pytest.raises(ValueError, match=r"frame 0: the network knows H, got atom 1, which is O"):
        learn.train(learn.PaiNN.init(core.random.key(0), ["H"]), data, 1, progress=False)
    together = learn.Dataset([[1, 1]], [[[0, 0, 0], [0, 0, 1e-4]]], [0.0], np.zeros((1, 2, 3)))
    with pytest.raises(ValueError, match="must not be in one place"):
        learn.evaluate(network(), together)
    for options in (
        {"epochs": 0},
        {"epochs": 1, "batch": 0},
        {"epochs": 1, "validation": 1.5},
        {"epochs": 1, "force_weight": -1.0},
    ):
        with pytest.raises(ValueError, match="train: "):
            learn.train(network(), data, **{"progress": False, **options})
    with pytest.raises(FileNotFoundError):
        learn.read_dataset(tmp_path / "none.xyz")
    (tmp_path / "bad.xyz").write_text("2\nProperties=species:S:1:pos:R:3\nO 0 0 0\n")
    with pytest.raises(FileFormatError, match="cannot be read"):
        learn.read_dataset(tmp_path / "bad.xyz")
    (tmp_path / "no.xyz").write_text("1\nProperties=species:S:1:pos:R:3 energy=1.0\nO 0 0 0\n")
    with pytest.raises(FileFormatError, match="frame 0: there must be forces"):
        learn.read_dataset(tmp_path / "no.xyz")
