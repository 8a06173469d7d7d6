"""Alchemical free energies: marked atoms whose interactions depend on lambdas.

`decouple` makes a system with marked atoms, a `Schedule` lists the lambdas of a row of states, and `energies` gives the
potential energy in all of them from one evaluation. Runs record these energies: `States` in one state, `LambdaExchange`
in all of them with exchanges of neighbors, `ExpandedEnsemble` in one simulation that walks through them.
"""

from .decouple import decouple, derivatives, energies, set_lambdas
from .exchange import LambdaExchange
from .schedule import Schedule
from .soft_core import Beutler, Gapsys
from .states import ExpandedEnsemble, States

__all__ = [
    "Beutler", "ExpandedEnsemble", "Gapsys", "LambdaExchange", "Schedule", "States", "decouple", "derivatives",
    "energies", "set_lambdas",
]
