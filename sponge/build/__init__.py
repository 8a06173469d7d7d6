"""Building of systems: small molecules, water boxes and other liquids, crystals, hydrogens and missing atoms, virtual
sites, solvent, ions.

`add_hydrogens` and `solvate` use OpenMM's Modeller, and PDBFixer for missing heavy atoms; install both with
``pip install "triskele[md]"``. `ligand` uses RDKit, `small_molecule` RDKit and AmberTools.
"""

from .crystal import crystal
from .hydrogens import add_hydrogens
from .immerse import immerse
from .join import join
from .ligand import Ligand, ligand
from .pack import pack
from .prepare import prepare
from .small_molecule import small_molecule
from .solvate import solvate
from .virtual_sites import add_virtual_sites
from .water_box import water_box

__all__ = [
    "Ligand",
    "add_hydrogens",
    "add_virtual_sites",
    "crystal",
    "immerse",
    "join",
    "ligand",
    "pack",
    "prepare",
    "small_molecule",
    "solvate",
    "water_box",
]
