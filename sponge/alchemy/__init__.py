"""Alchemical free energies: marked atoms whose interactions depend on lambdas.

`decouple` makes a system with marked atoms, a `Schedule` lists the lambdas of a row of states, and `energies` gives the
potential energy in all of them from one evaluation.
"""

from .decouple import decouple, derivatives, energies, set_lambdas
from .schedule import Schedule
from .soft_core import Beutler, Gapsys

__all__ = ["Beutler", "Gapsys", "Schedule", "decouple", "derivatives", "energies", "set_lambdas"]
