"""State vectors: kernels on rows of vectors, the engine that runs schedules with them, and the simulator."""

from triskele.quantum.simulators.statevector.simulator import simulate

__all__ = ["simulate"]
