"""Collective variables: functions of a few atoms' positions, differentiated by the core and compiled into the step
loop.

>>> from triskele.sponge import cv
>>> phi = cv.torsion(4, 6, 8, 14)
>>> phi.atoms
array([ 4,  6,  8, 14])

A variable is called with all positions, ``phi(positions, box)``. It enters biases (`sponge.BiasPotential`,
`sponge.umbrella`), sampling methods (`sponge.Metadynamics`, `sponge.OPES`, `sponge.ABF`, `sponge.SteeredMD`,
`sponge.UmbrellaSampling`) and records (`sponge.Variables`).
"""

from .functions import angle, coordination, distance, function, radius_of_gyration, rmsd, torsion
from .path import path, variable_path
from .variable import CollectiveVariable, VariableError

__all__ = [
    "CollectiveVariable",
    "VariableError",
    "angle",
    "coordination",
    "distance",
    "function",
    "path",
    "radius_of_gyration",
    "rmsd",
    "torsion",
    "variable_path",
]
