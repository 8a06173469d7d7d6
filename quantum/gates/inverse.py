"""The inverse of an instruction."""

from __future__ import annotations

import numpy as np

from triskele.quantum.errors import CircuitError
from triskele.quantum.gates.base import Gate, find
from triskele.quantum.instruction import BARRIER, Instruction

__all__ = ["inverse"]


def inverse(instruction: Instruction) -> Instruction:
    """The instruction that undoes this one.

    Raises
    ------
    CircuitError
        If it is a measurement, reset, channel, or has a classical condition.
    """
    gate = instruction.gate
    if gate is BARRIER:
        return instruction
    if not instruction.is_unitary:
        raise CircuitError(f"inverse: {gate.name} on qubits {list(instruction.qubits)} cannot be undone (only gates can)")
    if isinstance(gate.adjoint, str):
        return instruction._replace(gate=find(gate.adjoint))
    if gate.adjoint is not None:
        return instruction._replace(params=tuple(gate.adjoint(*instruction.params)))
    if gate.constant is not None:
        name = gate.name.removesuffix("_dg") if gate.name.endswith("_dg") else gate.name + "_dg"
        matrix = np.ascontiguousarray(gate.constant.conj().T)
        return instruction._replace(gate=Gate(name, gate.num_qubits, constant=matrix, label=gate.label + "†"))
    if gate.factors is not None and all(not f.constant for f in gate.factors):  # factors that commute: fsim, rotations
        return instruction._replace(params=tuple(-p for p in instruction.params))
    raise CircuitError(f"inverse: {gate.name} does not say what its inverse is (give Gate(adjoint=...))")
