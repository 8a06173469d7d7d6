"""Noise channels, and models that say where in a circuit they act."""

from triskele.quantum.noise.channel import Channel
from triskele.quantum.noise.channels import (
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
from triskele.quantum.noise.model import NoiseModel
from triskele.quantum.noise.readout import ReadoutError

__all__ = [
    "Channel", "NoiseModel", "ReadoutError", "amplitude_damping", "bit_flip", "bit_phase_flip", "depolarizing", "generalized_amplitude_damping", "kraus",
    "pauli_channel", "pauli_depolarizing", "phase_damping", "phase_flip", "register_channel", "thermal_relaxation",
]  # fmt: skip
