"""Systems for OpenMM, MDTraj, MDAnalysis and ASE."""

from .mdtraj_ase import to_ase, to_mdanalysis, to_mdtraj
from .openmm import to_openmm

__all__ = ["to_ase", "to_mdanalysis", "to_mdtraj", "to_openmm"]
