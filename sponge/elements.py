"""Chemical elements: symbols and atomic numbers."""

from __future__ import annotations

__all__ = ["NUMBERS", "SYMBOLS", "is_metal"]

SYMBOLS = (
    "",
    *(
        "H He Li Be B C N O F Ne Na Mg Al Si P S Cl Ar K Ca Sc Ti V Cr Mn Fe Co Ni Cu Zn Ga Ge As Se Br Kr Rb "
        "Sr Y Zr Nb Mo Tc Ru Rh Pd Ag Cd In Sn Sb Te I Xe Cs Ba La Ce Pr Nd Pm Sm Eu Gd Tb Dy Ho Er Tm Yb Lu "
        "Hf Ta W Re Os Ir Pt Au Hg Tl Pb Bi Po At Rn Fr Ra Ac Th Pa U Np Pu Am Cm Bk Cf Es Fm Md No "
        "Lr"
    ).split(),
)
"""Symbol of each atomic number; "" for 0, a particle that is not an atom."""

NUMBERS = {symbol.upper(): number for number, symbol in enumerate(SYMBOLS) if symbol}
"""Atomic number of each symbol in capitals."""

_NONMETALS = frozenset(
    NUMBERS[s.upper()] for s in "H He B C N O F Ne Si P S Cl Ar Ge As Se Br Kr Te I Xe At Rn".split()
)


def is_metal(number: int) -> bool:
    """Return True if an element is a metal, whose bonds in structure files are coordination, not covalent."""
    return number > 0 and number not in _NONMETALS
