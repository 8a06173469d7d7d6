"""Noise channels, and models that say where in a circuit they act."""

from .channel import Channel
from .channels import (
    amplitude_damping,
    bit_flip,
    bit_phase_flip,
    depolarizing,
    generalized_amplitude_damping,
    kraus,
    pauli_channel,
    pauli_depolarizing,
    phase_damping,
    phase_flip,
    register_channel,
    thermal_relaxation,
)
from .model import NoiseModel
from .readout import ReadoutError

__all__ = [
    "Channel",
    "NoiseModel",
    "ReadoutError",
    "amplitude_damping",
    "bit_flip",
    "bit_phase_flip",
    "depolarizing",
    "generalized_amplitude_damping",
    "kraus",
    "pauli_channel",
    "pauli_depolarizing",
    "phase_damping",
    "phase_flip",
    "register_channel",
    "thermal_relaxation",
]
