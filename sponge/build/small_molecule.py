"""Small molecules from SMILES or a file, with parameters of GAFF: RDKit, and antechamber and LEaP of AmberTools."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Literal

from triskele.core.extend import check, optional

from ..load import load
from ..system import System
from . import ambertools
from .molecules import place, read_molecule

__all__ = ["small_molecule"]

_ELEMENTS = frozenset("H C N O F P S Cl Br I".split())  # those of GAFF


def small_molecule(
    molecule: str | os.PathLike,
    *,
    name: str = "LIG",
    forcefield: Literal["gaff", "gaff2"] = "gaff2",
    charges: Literal["bcc", "gas"] = "bcc",
    seed: int = 0,
    folder: str | os.PathLike | None = None,
    **options: Any,
) -> System:
    """Make a system of an organic molecule from a SMILES, a file or a molecule of RDKit.

    RDKit reads the molecule, and places the atoms of a SMILES; antechamber assigns atom types and charges, and LEaP
    writes the AMBER files that are loaded.

    Parameters
    ----------
    molecule : str, path or RDKit molecule
        A SMILES; the path of an SDF, MOL or mol2 file with one molecule, all hydrogens and three-dimensional
        coordinates; or a molecule of RDKit with all hydrogens.
    name : str
        Name of the residue, one to three letters or digits.
    forcefield : {"gaff", "gaff2"}
        General AMBER force field [1]_.
    charges : {"bcc", "gas"}
        AM1-BCC charges [2]_, which take from a second to minutes, or Gasteiger charges.
    seed : int
        Seed of the placement of a SMILES.
    folder : path, optional
        Folder for the files: ``NAME.prmtop``, ``NAME.inpcrd``, ``NAME.mol2``, ``NAME.frcmod``. Not kept by default.
    **options
        Options of `sponge.load` for AMBER files, such as constraints and implicit_solvent.

    Returns
    -------
    System
        Without a box.

    Raises
    ------
    ImportError
        If RDKit or AmberTools is not installed.
    ValueError
        If the SMILES or the file cannot be read, or is not one whole molecule of H, C, N, O, F, P, S, Cl, Br and I
        without unpaired electrons.
    RuntimeError
        If a program of AmberTools fails.

    References
    ----------
    .. [1] Wang, Wolf, Caldwell, Kollman, Case, J. Comput. Chem. 25 (2004) 1157. doi:10.1002/jcc.20035
    .. [2] Jakalian, Jack, Bayly, J. Comput. Chem. 23 (2002) 1623. doi:10.1002/jcc.10128

    Examples
    --------
    >>> from triskele import sponge
    >>> ethanol = sponge.build.small_molecule("CCO")  # doctest: +SKIP
    >>> ethanol.n  # doctest: +SKIP
    9
    """
    check.integer(seed, "small_molecule: seed", 0)
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9]{1,3}", name):
        raise ValueError(f"small_molecule: name must have one to three letters or digits, got {name!r}")
    for what, value, allowed in (("forcefield", forcefield, ("gaff", "gaff2")), ("charges", charges, ("bcc", "gas"))):
        check.choice(value, allowed, f"small_molecule: {what}")
    m = read_molecule(molecule, "small_molecule")
    symbols = {a.GetSymbol() for a in m.GetAtoms()}
    if not symbols <= _ELEMENTS:
        raise ValueError(f"small_molecule: GAFF has no parameters for {', '.join(sorted(symbols - _ELEMENTS))}")
    place(m, molecule, "small_molecule", seed)
    chem = optional.need("rdkit.Chem", "small_molecule", "ligand")
    programs = {each: ambertools.program(each, "small_molecule") for each in ("antechamber", "parmchk2", "tleap")}
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "in.sdf").write_text(chem.MolToMolBlock(m))
        ambertools.run(
            "small_molecule",
            work,
            programs["antechamber"],
            "-i",
            "in.sdf",
            "-fi",
            "mdl",
            "-o",
            f"{name}.mol2",
            "-fo",
            "mol2",
            "-c",
            charges,
            "-at",
            forcefield,
            "-rn",
            name,
            "-nc",
            str(chem.GetFormalCharge(m)),
            "-pf",
            "y",
        )
        mol2, frcmod = f"{name}.mol2", f"{name}.frcmod"
        ambertools.run(
            "small_molecule", work, programs["parmchk2"], "-i", mol2, "-f", "mol2", "-o", frcmod, "-s", forcefield
        )
        (work / "leap.in").write_text(
            f"source leaprc.{forcefield}\nloadamberparams {name}.frcmod\n"
            f"m = loadmol2 {name}.mol2\nsaveamberparm m {name}.prmtop {name}.inpcrd\nquit\n"
        )
        ambertools.run("small_molecule", work, programs["tleap"], "-f", "leap.in", makes=f"{name}.prmtop")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for suffix in ("prmtop", "inpcrd", "mol2", "frcmod"):
                shutil.copy(work / f"{name}.{suffix}", folder)
        return load(work / f"{name}.prmtop", work / f"{name}.inpcrd", **options)
