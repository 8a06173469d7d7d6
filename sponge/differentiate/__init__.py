"""Derivatives of what simulations give by the parameters they are made with."""

from . import observables
from .energy import explicit_energy
from .parameters import Parameters
from .reweight import Ensemble, PoorOverlapError
from .sampling import Reweighting, Trajectories, sample
from .trajectory import trajectory

__all__ = ["Ensemble", "Parameters", "PoorOverlapError", "Reweighting", "Trajectories", "explicit_energy",
           "observables", "sample",
           "trajectory"]
