"""Alchemical free energies: marked atoms whose interactions depend on lambdas.

`decouple` makes a system with marked atoms, `hybrid` one in which a molecule turns into another; `mapping` finds the
atoms that both molecules share. A `Schedule` lists the lambdas of a row of states, and `energies` gives the potential
energy in all of them from one evaluation. Runs record these energies: `States` in one state, `LambdaExchange` in all
of them with exchanges of neighbors, `ExpandedEnsemble` in one simulation that walks through them. `Boresch` holds a
ligand that is decoupled in its place.

`Solvation` and `Relative` do all this, from files to a free energy of hydration or to the difference of two molecules
in two environments. `free_energy_difference` estimates free energies from such records by MBAR, BAR and thermodynamic
integration; `convergence` and `cycle_closure` check them; `finite_size` corrects those of charges.
"""

from .boresch import Boresch
from .cycles import CycleClosure, cycle_closure
from .decouple import decouple, derivatives, energies, set_lambdas
from .difference import Convergence, FreeEnergyDifference, convergence, free_energy_difference
from .estimators import bar, thermodynamic_integration
from .exchange import LambdaExchange
from .finite_size import FiniteSize, finite_size
from .hybrid import hybrid
from .mapping import check_mapping, mapping
from .relative import Relative, RelativeFreeEnergy
from .schedule import Schedule
from .soft_core import Beutler, Gapsys
from .solvation import Solvation
from .states import ExpandedEnsemble, States

__all__ = [
    "Beutler",
    "Boresch",
    "Convergence",
    "CycleClosure",
    "ExpandedEnsemble",
    "FiniteSize",
    "FreeEnergyDifference",
    "Gapsys",
    "LambdaExchange",
    "Relative",
    "RelativeFreeEnergy",
    "Schedule",
    "Solvation",
    "States",
    "bar",
    "check_mapping",
    "convergence",
    "cycle_closure",
    "decouple",
    "derivatives",
    "energies",
    "finite_size",
    "free_energy_difference",
    "hybrid",
    "mapping",
    "set_lambdas",
    "thermodynamic_integration",
]
