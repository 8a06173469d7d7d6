"""State vectors: kernels on rows of vectors, the engine that runs schedules with them, and the simulator."""

from .simulator import simulate

__all__ = ["simulate"]
