"""Derivatives of what simulations give by the parameters they are made with."""

from ..fitting.parameters import Parameters
from ..fitting.sampling import Reweighting, Trajectories, sample
from . import observables
from .energy import explicit_energy
from .reweight import Ensemble, PoorOverlapError
from .trajectory import trajectory

__all__ = ["Ensemble", "Parameters", "PoorOverlapError", "Reweighting", "Trajectories", "explicit_energy",
           "observables", "sample",
           "trajectory"]
