"""Derivatives of what simulations give by the parameters they are made with."""

from triskele.sponge.differentiate import observables
from triskele.sponge.differentiate.energy import explicit_energy
from triskele.sponge.differentiate.parameters import Parameters
from triskele.sponge.differentiate.reweight import Ensemble, PoorOverlapError
from triskele.sponge.differentiate.sampling import Reweighting, Trajectories, sample
from triskele.sponge.differentiate.trajectory import trajectory

__all__ = ["Ensemble", "Parameters", "PoorOverlapError", "Reweighting", "Trajectories", "explicit_energy", "observables", "sample",
           "trajectory"]
