"""Derivatives of simulation observables with respect to force-field parameters."""

from . import observables
from .energy import explicit_energy
from .reweight import Ensemble, PoorOverlapError
from .self_consistent import self_consistent
from .trajectory import trajectory

__all__ = ["Ensemble", "PoorOverlapError", "explicit_energy", "observables", "self_consistent", "trajectory"]
