"""Optimisers for circuits. A new one is a frozen dataclass with `max_steps` and a method `minimize`, see `Optimizer`."""

from triskele.quantum.optimizers.first_order import FirstOrder
from triskele.quantum.optimizers.minimize import Minimum, Optimizer, minimize
from triskele.quantum.optimizers.natural_gradient import NaturalGradient
from triskele.quantum.optimizers.rotosolve import Rotosolve
from triskele.quantum.optimizers.scipy_methods import SciPy
from triskele.quantum.optimizers.spsa import SPSA

__all__ = ["SPSA", "FirstOrder", "Minimum", "NaturalGradient", "Optimizer", "Rotosolve", "SciPy", "minimize"]
