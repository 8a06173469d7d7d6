"""Systems that come with the package, for first steps, examples and tests."""

from __future__ import annotations

from pathlib import Path

from triskele.core.extend import check

__all__ = ["example_files"]

_FOLDER = Path(__file__).parents[1] / "data" / "systems"
_SYSTEMS = {
    "alanine-dipeptide": ("alanine-dipeptide-vacuum.prmtop", "alanine-dipeptide-vacuum.crd"),
    "alanine-dipeptide-water": ("alanine-dipeptide.prmtop.gz", "alanine-dipeptide.crd.gz"),
    "chignolin": ("chignolin.pdb",),
}


def example_files(name: str) -> tuple[Path, ...]:
    """Return the files of a system that comes with the package, for `load`.

    Parameters
    ----------
    name : str
        "alanine-dipeptide" (22 atoms, ff96), "alanine-dipeptide-water" (the same in 749 TIP3P waters), or "chignolin"
        (10 residues of the crystal structure 5AWL, without hydrogens).

    Returns
    -------
    tuple of Path
        AMBER topology and coordinates, or one PDB file.

    Raises
    ------
    ValueError
        If no system has that name.

    Examples
    --------
    >>> from triskele import sponge
    >>> system = sponge.load(*sponge.example_files("alanine-dipeptide"))
    >>> len(system.masses)
    22
    """
    check.choice(name, _SYSTEMS, "example_files: a system")
    return tuple(_FOLDER / file for file in _SYSTEMS[name])
