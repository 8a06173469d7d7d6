"""Makes molecules.json.gz, the stored molecules: `python -m triskele.quantum.data.make_molecules` (needs PySCF).

STO-3G integrals over restricted Hartree-Fock orbitals, one of each set that the symmetry of real orbitals makes equal
(rows of lower triangles), and energies in hartree: HF, MP2, CCSD of PySCF, FCI of `pyscf.fci`. The file in the
repository is from PySCF 2.14.0.
"""

import gzip
import json
from pathlib import Path

import numpy as np
from pyscf import fci

from ..chemistry.molecule import Molecule


def chain(symbols, length):
    """Atoms in a row along z."""
    return [(s, (0.0, 0.0, k * length)) for k, s in enumerate(symbols)]


def water(length):
    """H-O-H with the angle 104.5 degrees."""
    angle = np.deg2rad(104.5)
    return [
        ("O", (0.0, 0.0, 0.0)),
        ("H", (length, 0.0, 0.0)),
        ("H", (length * np.cos(angle), length * np.sin(angle), 0.0)),
    ]


# name: geometry of a bond length, default length, all lengths in angstrom
MOLECULES = {
    "H2": (lambda r: chain(["H", "H"], r), 0.735, [0.4, 0.5, 0.6, 0.7, 0.735, 0.8, 0.9, 1.1, 1.3, 1.6, 2.0, 2.5]),
    "H4": (lambda r: chain(["H"] * 4, r), 1.0, [1.0]),
    "LiH": (lambda r: chain(["Li", "H"], r), 1.5, [1.0, 1.2, 1.4, 1.5, 1.6, 1.8, 2.0, 2.3, 2.7, 3.2]),
    "BeH2": (lambda r: [("H", (0.0, 0.0, -r)), ("Be", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, r))], 1.3, [1.3]),
    "H2O": (water, 0.9584, [0.9584]),
}


def entry(geometry, length, default):
    """Everything that is stored of one geometry."""
    m = Molecule(geometry)
    n = m.num_orbitals
    rows, columns = np.tril_indices(n)
    pairs = m.two_body[rows, columns][:, rows, columns]
    energy, _ = fci.direct_spin1.FCI().kernel(m.one_body, m.two_body, n, m.num_electrons, ecore=m.constant, tol=1e-13)
    energies = {"hf": m.hf_energy, "mp2": m.mp2_energy, "ccsd": m.ccsd_energy, "fci": float(energy)}
    return {
        "length": length,
        "default": default,
        "geometry": geometry,
        "orbitals": n,
        "electrons": m.num_electrons,
        "constant": m.constant,
        "energies": energies,
        "one_body": m.one_body[rows, columns].tolist(),
        "two_body": pairs[np.tril_indices(len(pairs))].tolist(),
    }


if __name__ == "__main__":
    table = {
        name: [entry(geometry(r), r, r == default) for r in lengths]
        for name, (geometry, default, lengths) in MOLECULES.items()
    }
    packed = gzip.compress(json.dumps(table).encode(), 9, mtime=0)
    (Path(__file__).parent / "molecules.json.gz").write_bytes(packed)
    print(f"{len(packed)} bytes")
