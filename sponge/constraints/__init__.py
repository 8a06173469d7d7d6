"""Constraints: SETTLE for rigid waters, Newton for stars of hydrogens, a sparse factor for everything else."""
