"""Words of `Engine.flags`, the int64 array that the kernels of a step share."""

from __future__ import annotations

__all__ = ["ENERGY", "FORCES_STALE", "NOT_CONVERGED", "N_FLAGS", "REBUILD", "STATUS", "STATUS_INFO", "STEP"]

STEP = 0  # number of the step being made
STATUS = 1  # 0, or the code of what went wrong in a kernel: the loop stops after that phase
STATUS_INFO = 2  # an atom, a size, ... that goes with it
ENERGY = 3  # energies and virials are wanted besides forces
REBUILD = 4  # neighbor lists must be rebuilt
FORCES_STALE = 5  # atoms have been moved from outside: integrators that begin with forces compute them first
N_FLAGS = 16

# A status: constraints cannot be fulfilled; the information is an atom.
NOT_CONVERGED = 100
