"""Optimizers for circuits.

A new one is a frozen dataclass with `max_steps` and a method `minimize`, see `Optimizer`.
"""

from .first_order import FirstOrder
from .minimize import Minimum, Optimizer, minimize
from .natural_gradient import NaturalGradient
from .rotosolve import Rotosolve
from .scipy_methods import SciPy
from .spsa import SPSA

__all__ = ["SPSA", "FirstOrder", "Minimum", "NaturalGradient", "Optimizer", "Rotosolve", "SciPy", "minimize"]
