"""Reference systems of tests/data/sponge: what another program computed for them (its README says how)."""

import gzip
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DATA = Path(__file__).resolve().parents[1] / "data" / "sponge"
NAMES = sorted(str(path.parent.relative_to(DATA)) for path in DATA.rglob("ref.json"))


@dataclass(frozen=True)
class Reference:
    """One folder of tests/data/sponge."""

    name: str
    folder: Path
    positions: np.ndarray  # [n, 3] nm
    box: np.ndarray | None  # [3, 3] nm, rows are the vectors
    energies: dict  # kJ/mol, by term
    forces: dict  # kJ/mol/nm [n, 3]: "total" in float64, single terms in float32
    settings: dict  # of the nonbonded force: cutoff_nm, alpha_per_nm, grid, ...

    @property
    def xml(self):
        """The system as OpenMM wrote it."""
        return self.folder / "system.xml.gz"


def load_reference(name):
    """Read the reference system of this name, such as ``"ala2_vacuum"`` or ``"openmmtools/Diatom"``."""
    folder = DATA / name
    text = json.loads((folder / "ref.json").read_text())
    with np.load(folder / "ref.npz") as file:
        arrays = dict(file)
    positions, box = arrays.pop("positions"), arrays.pop("box", None)
    return Reference(name, folder, positions, box, text["energies_kJ_per_mol"], arrays, text.get("nonbonded", {}))


def unpacked(path, folder):
    """A gzipped data file, written out into `folder` (tmp_path) without its .gz."""
    target = Path(folder) / Path(path).name.removesuffix(".gz")
    target.write_bytes(gzip.decompress((DATA / path).read_bytes()))
    return target
