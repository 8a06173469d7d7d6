"""Molecules whose integrals are stored: H2, H4, LiH, BeH2, H2O in STO-3G, computed with PySCF by
`quantum/data/make_molecules.py`.
"""

from __future__ import annotations

import functools
import gzip
import json
from importlib.resources import files
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..errors import OperatorError
from .molecule import Molecule

__all__ = ["lengths", "load", "names"]


def names() -> list[str]:
    """Names that `load` knows.

    Examples
    --------
    >>> from triskele import quantum
    >>> 'LiH' in quantum.molecules.names()
    True
    """
    return list(_table())


def lengths(name: str) -> list[float]:
    """Bond lengths, in angstrom, at which a molecule is stored, rising: the points of a potential curve.

    Raises
    ------
    OperatorError
        If the molecule is not stored.

    Examples
    --------
    >>> from triskele.quantum.chemistry.molecules import lengths
    >>> 1.6 in lengths("LiH")
    True
    """
    return sorted(entry["length"] for entry in _entries(name))


def load(name: str, length: float | None = None) -> Molecule:
    """Return a stored molecule with its Hartree-Fock, MP2, CCSD and FCI energies. PySCF is not needed.

    Parameters
    ----------
    name : str
        "H2", "H4" (a chain), "LiH", "BeH2" or "H2O".
    length : float, optional
        Bond length in angstrom, one of `lengths(name)`. Defaults to 0.735, 1.0, 1.5, 1.3 and 0.9584, respectively.

    Raises
    ------
    OperatorError
        If the molecule is not stored at this length.

    Examples
    --------
    >>> from triskele.quantum.chemistry.molecules import load
    >>> molecule = load("LiH")
    >>> molecule
    Molecule(LiH, 4 electrons in 6 orbitals)
    >>> round(molecule.hf_energy, 6), round(molecule.fci_energy, 6)
    (-7.863358, -7.882362)
    """
    entries = _entries(name)
    found = [
        e for e in entries if length is None and e["default"] or length is not None and abs(e["length"] - length) < 1e-9
    ]
    if not found:
        raise OperatorError(
            f"load: {name} is stored at bond lengths {lengths(name)}, got {length!r} (Molecule(...) computes others)"
        )
    e = found[0]
    n = e["orbitals"]
    pairs = np.zeros((n * (n + 1) // 2,) * 2)
    pairs[np.tril_indices(len(pairs))] = e["two_body"]
    pairs = pairs + np.tril(pairs, -1).T
    index = np.zeros((n, n), int)
    index[np.tril_indices(n)] = np.arange(len(pairs))
    index = np.maximum(index, index.T)
    one_body = np.zeros((n, n))
    one_body[np.tril_indices(n)] = e["one_body"]
    one_body = one_body + np.tril(one_body, -1).T
    return Molecule.from_integrals(
        one_body,
        pairs[index[:, :, None, None], index[None, None]],
        e["constant"],
        e["electrons"],
        geometry=tuple((s, tuple(r)) for s, r in e["geometry"]),
        basis="sto-3g",
        energies=e["energies"],
    )


def _entries(name: str) -> list[dict[str, Any]]:
    return _table()[
        check.choice(
            name, _table(), "load: a stored molecule", error=OperatorError, hint="Molecule(...) computes others"
        )
    ]


@functools.cache
def _table() -> dict[str, list[dict[str, Any]]]:
    return json.loads(gzip.decompress((files("triskele.quantum") / "data/molecules.json.gz").read_bytes()))
