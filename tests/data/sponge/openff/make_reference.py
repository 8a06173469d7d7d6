"""Write reference.json.gz: ``python -m tests.data.sponge.openff.make_reference``, where openff-toolkit (0.18.0) and
openff-interchange (0.4.11) are installed.
"""

import gzip
import json
import tempfile
from pathlib import Path

import numpy as np
from openff.toolkit import ForceField, Molecule
from openff.units import Quantity

from tests.sponge.build.openff import energy, theirs, unpacked, with_charges

SMILES = [
    "CC(=O)Nc1ccc(O)cc1",
    "C[NH2+]CC(=O)[O-]",
    "CS(=O)(=O)c1ccc(cc1)[N+](=O)[O-]",
    "COP(=O)(OC)SC",
    "C1CC1C#CC2CCC2",
    "Clc1nc2occc2s1",
    "N#CC(F)(Br)I",
    "CN=C(N)NC=C=O",
]


def main():
    """Write the file."""
    found = {}
    for name in ("openff-2.2.1", "openff_unconstrained-2.2.1"):
        with tempfile.TemporaryDirectory() as folder:
            forcefield = ForceField(unpacked(name, Path(folder)))
        found[name] = [_reference(forcefield, smiles) for smiles in SMILES]
    with gzip.GzipFile(Path(__file__).with_name("reference.json.gz"), "wb", mtime=0) as file:
        file.write(json.dumps(found).encode())


def _reference(forcefield, smiles):
    from rdkit import Chem

    m, charges = with_charges(smiles)
    positions = 0.1 * np.asarray(m.GetConformer().GetPositions())
    molecule = Molecule.from_rdkit(m, allow_undefined_stereo=True)
    molecule.partial_charges = Quantity(np.array(charges), "elementary_charge")
    parameters = {
        section: [[list(atoms), values] for atoms, values in terms.items()]
        for section, terms in theirs(forcefield, molecule).items()
    }
    return {
        "smiles": smiles,
        "block": Chem.MolToMolBlock(m, kekulize=True),
        "charges": charges,
        "positions": positions.tolist(),
        "parameters": parameters,
        "energy": energy(forcefield, molecule, positions),
    }


if __name__ == "__main__":
    main()
