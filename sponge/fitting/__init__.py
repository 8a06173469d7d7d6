"""Force-field parameters fitted to reference data, with averages from reweighting or from differentiated
trajectories.
"""

from .parameters import Parameters
from .sampling import Reweighting, Trajectories, sample

__all__ = ["Parameters", "Reweighting", "Trajectories", "sample"]
