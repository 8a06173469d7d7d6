"""The inverse of an instruction."""

from __future__ import annotations

import functools

import numpy as np

from ..errors import CircuitError
from .base import Gate, find
from .function import Adjoint
from .instruction import BARRIER, Instruction
from .primitives import Factor, embed

__all__ = ["inverse"]


def inverse(instruction: Instruction) -> Instruction:
    """Return the inverse of a gate or barrier; raise CircuitError for anything else, or under a condition."""
    gate = instruction.gate
    if gate is BARRIER:
        return instruction
    if not instruction.is_unitary:
        raise CircuitError(
            f"inverse: {gate.name} on qubits {list(instruction.qubits)} cannot be undone (only gates without a "
            f"condition can)"
        )
    if isinstance(gate.adjoint, str):
        return instruction._replace(gate=find(gate.adjoint))
    if gate.adjoint is not None:
        return instruction._replace(params=tuple(gate.adjoint(*instruction.params)))
    if gate.factors is not None and _negates(gate):
        return instruction._replace(params=tuple(-p for p in instruction.params))
    other = gate.kept("inverse", lambda: _inverse_gate(gate))
    other.kept("inverse", lambda: gate)
    return instruction._replace(gate=other)


@functools.lru_cache(1024)
def _negates(gate: Gate) -> bool:
    """Return True if negated parameters give the inverse: all factors commute and have no constants."""
    factors = gate.factors or ()
    if any(f.constant for f in factors):
        return False
    if all(set(getattr(f.primitive, "paulis", "Z")) == {"Z"} or not f.qubits for f in factors):
        return True  # all diagonal, and possibly many
    g = [embed(f.primitive.generator, f.qubits, gate.num_qubits) for f in factors]
    return all(np.allclose(a @ b, b @ a, atol=1e-14) for i, a in enumerate(g) for b in g[:i])


def _inverse_gate(gate: Gate) -> Gate:
    if isinstance(gate.function, Adjoint):
        return gate.function.gate
    name = gate.name.removesuffix("_dg") if gate.name.endswith("_dg") else gate.name + "_dg"
    label = gate.label.removesuffix("†") if gate.label.endswith("†") else gate.label + "†"
    if gate.constant is not None:
        matrix = np.ascontiguousarray(gate.constant.conj().T)
        matrix.flags.writeable = False
        return Gate(name, gate.num_qubits, constant=matrix, label=label)
    if gate.function is not None:
        return Gate(name, gate.num_qubits, gate.num_params, function=Adjoint(gate, gate.function), label=label)
    factors = tuple(
        Factor(f.primitive, f.qubits, tuple(-c for c in f.coefficients), -f.constant)
        for f in reversed(gate.factors or ())
    )
    return Gate(name, gate.num_qubits, gate.num_params, factors=factors, label=label)
