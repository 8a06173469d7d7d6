"""Trajectories of some of the atoms: equal to those of all atoms, continued only with the same atoms, and small."""

import numpy as np
import pytest

from triskele import sponge
from triskele.sponge.errors import ReporterError

KINDS = ("DCD", "PDB", "XTC", "NetCDF", "TRR", "GRO", "H5MD")


def simulation():
    """A peptide in water."""
    system = sponge.load(*sponge.example_files("alanine-dipeptide-water"), constraints="h-bonds")
    return sponge.Simulation(system, sponge.LangevinMiddle(300, 1.0, 0.002), seed=1)


def name_of(kind):
    """The end of the names of files of a kind."""
    return {"NetCDF": "nc"}.get(kind, kind.lower())


def frames(path, topology):
    """Positions of all frames of a file of any kind."""
    if path.suffix == ".h5md":
        with pytest.importorskip("h5py").File(path) as file:
            assert len(file["particles/all/mass"]) == topology.n
            assert np.array_equal(file["particles/all/species"], topology.elements)
            return file["particles/all/position/value"][:]
    return sponge.load_trajectory(path, top=topology).positions


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Files of all atoms, and of those that a selection finds."""
    pytest.importorskip("h5py")
    folder, sim = tmp_path_factory.mktemp("atoms"), simulation()
    kinds = [(getattr(sponge, kind), name_of(kind)) for kind in KINDS]
    sim.run(
        20,
        report=[
            *(kind(folder / f"all.{name}", 5) for kind, name in kinds),
            *(kind(folder / f"some.{name}", 5, atoms="protein or within 0.3 of protein") for kind, name in kinds),
            *(kind(folder / f"peptide.{name}", 5, atoms=range(22)) for kind, name in kinds),
        ],
    )
    return sim.system, folder


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_some_atoms_are_those_of_all(files, kind):
    system, folder = files
    chosen = system.select("protein or within 0.3 of protein")
    assert 22 < len(chosen) < 100
    everything = frames(folder / f"all.{name_of(kind)}", system.topology)
    some = frames(folder / f"some.{name_of(kind)}", system.topology.take(chosen))
    assert some.shape == (4, len(chosen), 3) and np.array_equal(some, everything[:, chosen])


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "H5MD"])
def test_a_file_of_the_solute_is_small(files, kind):
    _, folder = files
    sizes = [(folder / f"{which}.{name_of(kind)}").stat().st_size for which in ("all", "peptide")]
    assert sizes[0] > 20 * sizes[1]


def test_names_of_a_pdb_file_are_those_of_the_atoms(files):
    system, folder = files
    topology = sponge.load_trajectory(folder / "peptide.pdb").topology
    assert np.array_equal(topology.names, system.topology.names[:22])
    assert len(topology.bonds) == 21


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_is_continued_only_with_the_same_atoms(tmp_path, kind):
    pytest.importorskip("h5py")
    sim, make = simulation(), getattr(sponge, kind)
    path = tmp_path / "a.file"
    sim.run(4, report=make(path, 2, atoms="protein"))
    others = [None, np.arange(23), *([np.arange(1, 23)] if kind not in ("XTC", "TRR") else [])]
    for atoms in others:
        with pytest.raises(ReporterError, match="atoms"):
            sim.run(2, report=make(path, 2, atoms=atoms))
    sim.run(4, report=make(path, 2, atoms=sim.system.topology.residue_index < 3))
    again = simulation()
    again.run(8, report=make(tmp_path / "b.file", 2, atoms=range(22)))
    if kind != "H5MD":
        assert path.read_bytes() == (tmp_path / "b.file").read_bytes()


@pytest.mark.parametrize(
    "atoms, message",
    [
        ("nucleic", "DCD: atoms must select at least one atom, got none by 'nucleic'"),
        ("protien", "select: character 1 of 'protien' must begin a selection"),
        ([], "DCD: atoms must be a list of at least one number"),
        ([0, 0], "take: atoms must be given once each"),
        ([0, 99999], "DCD: atoms must be 0 to"),
        ([True, False], "DCD: a mask of atoms must have shape"),
        ([0.5], "DCD: atoms must be a list of at least one number"),
    ],
)
def test_wrong_atoms_end_the_run_before_its_first_step(tmp_path, atoms, message):
    sim = simulation()
    with pytest.raises(ValueError, match=message):
        sim.run(10, report=sponge.DCD(tmp_path / "a.dcd", 5, atoms=atoms))
    assert sim.step == 0 and not (tmp_path / "a.dcd").exists()
