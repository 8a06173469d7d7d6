"""Structures from experiments that are made ready: what is missing is added, gaps stay gaps, and the result runs."""

from pathlib import Path

import numpy as np
import pytest

from triskele import sponge
from triskele.command import main
from triskele.sponge.build.gaps import gaps

pytest.importorskip("pdbfixer")
BPTI = Path(__file__).parents[2] / "data" / "sponge" / "bpti_ff14sb_vacuum" / "bpti.pdb"


@pytest.fixture(scope="module")
def crystal():
    """Residues 13 to 27 of BPTI as a crystallographer deposits them: a gap, a cut side chain, no hydrogens."""
    full = sponge.read_pdb(BPTI)
    t, numbers = full.topology, full.topology.residue_ids.astype(int)
    seen = np.isin(numbers, [*range(13, 20), *range(23, 28)])[t.residue_index] & (t.elements != 1)
    cut = (numbers[t.residue_index] == 15) & np.isin(t.names, ("CD", "CE", "NZ"))
    chosen = np.flatnonzero(seen & ~cut)
    return sponge.Structure(t.take(chosen), full.positions[chosen])


def test_chains_end_at_gaps(crystal):
    assert crystal.topology.residue_ids[gaps(crystal)].tolist() == ["19"]
    t = sponge.build.add_hydrogens(crystal, missing_atoms=True).topology
    ends = t.residue_index[t.bonds]
    between = ends[ends[:, 0] != ends[:, 1]]
    numbers = t.residue_ids.astype(int)[between]
    assert (np.abs(np.diff(numbers, axis=1)) == 1).all()
    assert t.residue_ids[t.residue_index[t.names == "OXT"]].tolist() == ["19", "27"]


def test_a_file_is_prepared_and_runs(crystal, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sponge.write_pdb("piece.pdb", crystal)
    prepare = ["md", "prepare", "piece.pdb", "--padding", "0.6", "--shape", "cube"]
    assert main(prepare) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "ended a chain at the gap between ILE 19 (chain A) and TYR 23 (chain A)" in lines
    assert "added CD, CE, NZ to LYS 15 (chain A)" in lines
    assert lines[-1] == "run it with: triskele md run piece.toml"
    ready = sponge.read_pdb("piece-prepared.pdb")
    counts = dict(zip(*np.unique(ready.topology.residue_names, return_counts=True), strict=True))
    system = sponge.create_system(ready, ["amber14/protein.ff14SB", "amber14/tip3p"], method="pme", cutoff=0.8)
    assert counts["HOH"] > 300 and abs(system.nonbonded.params["charges"].sum()) < 1e-6
    assert main(prepare) == 2  # nothing is overwritten
    assert "piece-prepared.pdb exists already" in capsys.readouterr().err


def test_what_is_removed_is_told(crystal):
    _, report = sponge.build.prepare(crystal, remove="resid 23:27", padding=0.5, shape="cube", ionic_strength=0.0)
    assert report[0] == "removed 39 atoms of 2 ALA, 1 ASN, 1 LYS, 1 TYR"
    assert not any("gap" in line for line in report)
