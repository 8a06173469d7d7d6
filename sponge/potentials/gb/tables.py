"""Constants of the generalized Born models: necks between atoms, standard radii and screening factors.

Sources, all as in AmberTools' sander (igb 1, 2, 5, 7, 8):
HCT: G. D. Hawkins, C. J. Cramer, D. G. Truhlar, J. Phys. Chem. 100, 19824 (1996); V. Tsui, D. A. Case, Biopolymers 56,
275 (2001). OBC: A. Onufriev, D. Bashford, D. A. Case, Proteins 55, 383 (2004), table 1.
GBn: J. Mongan, C. Simmerling, J. A. McCammon, D. A. Case, A. Onufriev, J. Chem. Theory Comput. 3, 156 (2007).
GBn2: H. Nguyen, D. R. Roe, C. Simmerling, J. Chem. Theory Comput. 9, 2020 (2013).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

__all__ = ["MODELS", "Model", "neck_tables", "standard_parameters"]


@dataclass(frozen=True)
class Model:
    """Constants of a model."""

    offset: float = 0.009  # nm, by which radii are reduced
    # alpha, beta, gamma in 1/B = 1/rho - tanh(alpha psi - beta psi^2 + gamma psi^3) / R; None (HCT): 1/rho - psi/rho
    rescaling: tuple[float, float, float] | None = None
    neck: float = 0.0  # weight of the integral over necks
    radii: str = "mbondi"  # the set of radii that the model was fitted with


MODELS = {
    "hct": Model(),
    "obc1": Model(rescaling=(0.8, 0.0, 2.909125), radii="mbondi2"),
    "obc2": Model(rescaling=(1.0, 0.8, 4.85), radii="mbondi2"),
    "gbn": Model(rescaling=(1.09511284, 1.907992938, 2.50798245), neck=0.361825, radii="bondi"),
    "gbn2": Model(offset=0.0195141, rescaling=(1.0, 0.8, 4.851), neck=0.826836, radii="mbondi3"),
}

NECK_CUTOFF = 0.68  # nm between the surfaces of two atoms: beyond, no water molecule fits between them only in part

# Screening factors by atomic number: HCT and OBC; GBn; GBn2; GBn2 for nucleic acids. 0: any other element.
_SCREENING = {
    1: (0.85, 1.09085413633, 1.425952, 1.696538),
    6: (0.72, 0.48435382330, 1.058554, 1.268902),
    7: (0.79, 0.700147318409, 0.733599, 1.4259728),
    8: (0.85, 1.06557401132, 1.061039, 0.1840098),
    9: (0.88, 0.5, 0.5, 0.5),
    15: (0.86, 0.5, 0.5, 1.5450597),
    16: (0.96, 0.602256336067, -0.703469, 0.05),
    0: (0.8, 0.5, 0.5, 0.5),
}
# alpha, beta, gamma of GBn2 by atomic number, for proteins and for nucleic acids
_RESCALING = {
    1: (0.788440, 0.798699, 0.437334),
    6: (0.733756, 0.506378, 0.205844),
    7: (0.503364, 0.316828, 0.192915),
    8: (0.867814, 0.876635, 0.387882),
    16: (0.867814, 0.876635, 0.387882),
}
_RESCALING_NUCLEIC = {
    1: (0.537050, 0.362861, 0.116704),
    6: (0.331670, 0.196842, 0.093422),
    7: (0.686311, 0.463189, 0.138722),
    8: (0.606344, 0.463006, 0.142262),
    15: (0.418365, 0.290054, 0.1064245),
    16: (0.606344, 0.463006, 0.142262),
}
# Names of nucleotides: AMBER's with their ends (DA, DA5, DA3, DAN, RA5, ...) and those of CHARMM and others
_NUCLEIC = re.compile(r"(R?[ACGU]|D[ACGT])[35N]?|ADE|GUA|CYT|URA|THY|DAD|DGU|DCY")
# Bondi's radii in nm (J. Phys. Chem. 68, 441 (1964)), hydrogen apart
_RADII = {6: 0.17, 7: 0.155, 8: 0.15, 9: 0.15, 14: 0.21, 15: 0.185, 16: 0.18, 17: 0.17}


def standard_parameters(topology, model: str) -> dict[str, np.ndarray]:
    """Return keyword arguments (n,) of `GB` for a name in `MODELS`: radii (nm), scales, for "gbn2" alpha, beta, gamma.

    Radii are bondi, mbondi, mbondi2 or mbondi3, as the model wants.
    """
    kind, elements = MODELS[model].radii, topology.elements
    n = topology.n
    partners: list[list[int]] = [[] for _ in range(n)]
    for i, j in topology.bonds:
        partners[i].append(int(j))
        partners[j].append(int(i))
    # the atom that a hydrogen is bound to
    partner = np.array([p[0] if p else -1 for p in partners], np.int64).reshape(n)
    radii = np.array([_RADII.get(int(z), 0.15) for z in elements])
    bound = np.where(partner >= 0, elements[partner], 0)
    hydrogen = elements == 1
    radii[hydrogen] = 0.12
    if kind == "mbondi":
        radii[hydrogen & np.isin(bound, (6, 7))] = 0.13
        radii[hydrogen & np.isin(bound, (8, 16))] = 0.08
    elif kind in ("mbondi2", "mbondi3"):
        radii[hydrogen & (bound == 7)] = 0.13
    residues = np.asarray(topology.residue_names)[topology.residue_index]
    if kind == "mbondi3":
        for i in np.flatnonzero(elements == 8):
            if (
                len(partners[i]) == 1
                and elements[partner[i]] == 6
                and len(partners[partner[i]]) == 3
                and sum(elements[j] == 8 for j in partners[partner[i]]) > 1
            ):
                radii[i] = 0.14  # carboxylate
        names = np.asarray(topology.names)
        arginine = (residues == "ARG") & (np.char.startswith(names, "HH") | np.char.startswith(names, "HE"))
        radii[arginine] = 0.117
    acids = np.array([_NUCLEIC.fullmatch(str(name)) is not None for name in topology.residue_names], bool)
    nucleic = acids[topology.residue_index]
    column = {"gbn": 1, "gbn2": 2}.get(model, 0)
    scales = np.array(
        [
            _SCREENING.get(int(z), _SCREENING[0])[3 if model == "gbn2" and acid else column]
            for z, acid in zip(elements, nucleic)
        ]
    )
    found = {"radii": radii, "scales": scales}
    if model == "gbn2":
        default = MODELS[model].rescaling
        abc = np.array(
            [(_RESCALING_NUCLEIC if acid else _RESCALING).get(int(z), default) for z, acid in zip(elements, nucleic)]
        )
        found |= dict(zip(("alpha", "beta", "gamma"), abc.reshape(-1, 3).T.copy()))
    return found


@cache
def neck_tables() -> tuple[np.ndarray, np.ndarray]:
    """Position d0 (nm) and height m0 (1/nm) of the neck integral, [21, 21] by the two radii, 0.1 to 0.2 nm.

    The integral of an atom with radius R_i next to one with R_j is m0[i, j] / (1 + x^2 + 0.3 x^6), x = (r - d0[i, j]) /
    0.1 nm.
    """
    table = np.loadtxt((files("triskele.sponge") / "data" / "gb_necks.txt").read_text().splitlines())
    d0, m0 = table[:21].T / 10, table[21:].T * 10
    d0.flags.writeable = m0.flags.writeable = False
    return d0, m0
