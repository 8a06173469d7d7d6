"""Monte Carlo trajectories: noise and measurements drawn at random, shot by shot."""

from triskele.quantum.simulators.trajectories.simulator import simulate

__all__ = ["simulate"]
