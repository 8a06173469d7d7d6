"""Triskele: molecular dynamics, quantum circuits and reinforcement learning on one differentiable NumPy core.

The packages are `triskele.core`, `triskele.sponge`, `triskele.quantum` and `triskele.reinforce`; importing this one loads
none of them.
"""

__all__ = ["__version__"]

__version__ = "0.13.0"  # the one place: pyproject.toml reads it from here
