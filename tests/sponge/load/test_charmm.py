"""CHARMM systems: 1-4 pairs by connectivity, coordinates in CHARMM's own format, and what is refused."""

import gzip

import numpy as np
import pytest

from tests.sponge.differential import psf
from tests.sponge.reference import DATA, openmm_energies, pure_energies, unpacked
from triskele import sponge
from triskele.sponge.errors import FileFormatError

pytest.importorskip("parmed")
FILES = DATA / "parmed"
GRO = FILES / "peptide_charmm27.gro.gz"


@pytest.fixture
def files(tmp_path):
    return [unpacked(f"parmed/peptide.{suffix}.gz", tmp_path) for suffix in ("psf", "prm", "rtf")]


@pytest.mark.parametrize("seed", range(25))
def test_random_systems(seed, tmp_path):
    pytest.importorskip("openmm")
    assert psf.case(seed, tmp_path) == []


def test_peptide(files):
    app = pytest.importorskip("openmm.app")
    system = sponge.load(*files, GRO, method="cutoff")
    system.nonbonded.update(method="none")
    expected = openmm_energies(
        app.CharmmPsfFile(str(files[0])).createSystem(app.CharmmParameterSet(*map(str, files[1:]))), system.positions
    )
    ours = pure_energies(system)
    assert sum(ours.values()) == pytest.approx(sum(expected.values()), rel=1e-9)
    assert ours["nonbonded"] + ours["pair14"] == pytest.approx(expected["NonbondedForce"], rel=1e-9)
    with pytest.raises(TypeError, match="parameter files"):
        sponge.load(files[0])


def test_pairs_without_a_torsion(files):
    """Atoms three bonds apart interact by their 1-4 parameters even if the file lists no torsion at all."""
    whole = sponge.load(*files, GRO, method="cutoff")
    head, rest = files[0].read_text().split("     195 !NPHI: dihedrals\n")
    files[0].write_text(f"{head}       0 !NPHI: dihedrals\n\n       9 !NIMPHI{rest.split('       9 !NIMPHI')[1]}")
    system = sponge.load(*files, GRO, method="cutoff")
    assert "torsion" not in system and system["pair14"].atoms.tolist() == whole["pair14"].atoms.tolist()
    assert system.energy_terms()["pair14"] == pytest.approx(whole.energy_terms()["pair14"], rel=1e-12)


def test_scale_of_pairs(files):
    whole = sponge.load(*files, GRO, method="cutoff")
    files[1].write_text(files[1].read_text().replace("e14fac 1.0", "e14fac 0.5"))
    system = sponge.load(*files, GRO, method="cutoff")
    assert system["pair14"].params["charge_product"] == pytest.approx(0.5 * whole["pair14"].params["charge_product"])


@pytest.mark.parametrize(
    "file, old, new, message",
    [
        (1, "nbxmod  5", "nbxmod  3", "nbxmod must be 5"),
        (1, "nbxmod  5", "nbxmod  x", "must be numbers"),
        (0, "PSF CHEQ", "PSF DRUDE CHEQ", "DRUDE"),
        (0, "       0 !NNB\n", "       1 !NNB\n       9\n", "explicit exclusions"),
        (0, "0         0 !NUMLP", "1         3 !NUMLP", "lone pairs"),
        (0, "12.0110", "-12.011", "masses must be finite and >= 0, got -12.011 for atom 5"),
    ],
)
def test_refusals(file, old, new, message, files):
    text = files[file].read_text()
    assert old in text
    files[file].write_text(text.replace(old, new, 1))
    with pytest.raises(FileFormatError, match=message):
        sponge.load(*files, GRO, method="cutoff")


def write_crd(path, positions, extended):
    width, form = (20, "{:10d}{:10d}  {:8s}  {:8s}") if extended else (10, "{:5d}{:5d} {:4s} {:4s}")
    rows = [
        form.format(i + 1, 1, "ALA", "CA") + "".join(f"{10 * v:{width}.5f}" for v in x) + " SEG  1      0.00000"
        for i, x in enumerate(positions)
    ]
    count = f"{len(positions):10d}  EXT" if extended else f"{len(positions):5d}"
    path.write_text("* PEPTIDE\n*\n" + "\n".join([count, *rows]) + "\n")
    return path


@pytest.mark.parametrize("extended", [False, True])
def test_coordinates_of_charmm(extended, files, tmp_path):
    positions = sponge.load(*files, GRO, method="cutoff").positions
    path = write_crd(tmp_path / "x.crd", positions, extended)
    assert sponge.load(*files, path).positions == pytest.approx(positions, abs=1e-6)
    text = path.read_text()
    for cut in (15, 40, 2000, len(text) - 60):
        path.write_text(text[:cut])
        with pytest.raises(FileFormatError):
            sponge.load(*files, path)
    first = 40 if extended else 20
    lines = text.split("\n")
    lines[5] = f"{lines[5][:first]}abc{lines[5][first + 3 :]}"
    path.write_text("\n".join(lines))
    with pytest.raises(FileFormatError, match="line 6"):
        sponge.load(*files, path)
    packed = tmp_path / "y.crd.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    assert sponge.load(*files, packed).n == 73


def test_crd_of_amber_stays_one(tmp_path):
    """Also under a title with an asterisk."""
    folder = DATA / "ala2_vacuum"
    text = (folder / "alanine-dipeptide.crd").read_text()
    path = tmp_path / "x.crd"
    path.write_text("* title\n" + text.split("\n", 1)[1])
    prmtop = folder / "alanine-dipeptide.prmtop"
    expected = sponge.load(prmtop, folder / "alanine-dipeptide.crd").positions
    assert np.array_equal(sponge.load(prmtop, path).positions, expected)
