"""Monte Carlo trajectories: noise and measurements drawn at random, shot by shot."""

from .simulator import simulate

__all__ = ["simulate"]
