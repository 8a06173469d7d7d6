"""Systems for OpenMM, MDTraj and ASE."""

from .mdtraj_ase import to_ase, to_mdtraj
from .openmm import to_openmm

__all__ = ["to_ase", "to_mdtraj", "to_openmm"]
