"""Alchemical free energies: marked atoms whose interactions depend on lambdas.

`decouple` makes a system with marked atoms, `hybrid` one in which a molecule turns into another; `mapping` finds the
atoms that both molecules share. A `Schedule` lists the lambdas of a row of states, and `energies` gives the potential
energy in all of them from one evaluation. Runs record these energies: `States` in one state, `LambdaExchange` in all
of them with exchanges of neighbors, `ExpandedEnsemble` in one simulation that walks through them. `Boresch` holds a
ligand that is decoupled in its place.

`free_energy_difference` estimates free energies from such records by MBAR, BAR and thermodynamic integration;
`convergence` and `cycle_closure` check them.
"""

from .boresch import Boresch
from .cycles import CycleClosure, cycle_closure
from .decouple import decouple, derivatives, energies, set_lambdas
from .difference import Convergence, FreeEnergyDifference, convergence, free_energy_difference
from .estimators import bar, thermodynamic_integration
from .exchange import LambdaExchange
from .hybrid import hybrid
from .mapping import check_mapping, mapping
from .schedule import Schedule
from .soft_core import Beutler, Gapsys
from .solvation import Solvation
from .states import ExpandedEnsemble, States

__all__ = [
    "Beutler", "Boresch", "Convergence", "CycleClosure", "ExpandedEnsemble", "FreeEnergyDifference", "Gapsys",
    "LambdaExchange", "Schedule", "Solvation", "States", "bar", "check_mapping", "convergence", "cycle_closure",
    "decouple", "derivatives", "energies", "free_energy_difference", "hybrid", "mapping", "set_lambdas",
    "thermodynamic_integration",
]
