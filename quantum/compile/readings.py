"""Circuits that measure: which measurements only end them, and which decide what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..gates.instruction import BARRIER, MEASURE, REPEAT, Instruction
from ..noise.readout import ReadoutError

__all__ = ["Reading", "read", "split", "writes_bits"]


class Reading(NamedTuple):
    """A measurement that ends a circuit: qubit, classical bit, and the assignment matrices of the errors in reading
    it.
    """

    qubit: int
    clbit: int
    matrix: np.ndarray | None


class Wiring(NamedTuple):
    """How the shots of a circuit are read."""

    writes: bool  # the circuit writes classical bits, which are then its shots; otherwise all qubits are
    ends: bool  # measurements at the end of the circuit write all classical bits
    readings: list[Reading]  # measurements that end the circuit
    num_clbits: int
    errors: dict[int, np.ndarray]  # (2, 2) assignment matrices by qubit, where nothing in the circuit measures it


def wiring(instructions: Sequence[Instruction], num_clbits: int, readout: dict[int, ReadoutError]) -> Wiring:
    """Return how shots of these instructions are read, with the errors `readout` of qubits."""
    errors = {q: e.matrix for q, e in readout.items()}
    if not writes_bits(instructions):
        return Wiring(False, True, [], num_clbits, errors)
    body, readings = split(instructions)
    errors |= {r.qubit: r.matrix for r in readings if r.matrix is not None}
    return Wiring(True, not writes_bits(body), readings, num_clbits, errors)


def writes_bits(circuit: Any) -> bool:
    """Return True if the circuit writes a classical bit: only then do results count classical bits and not qubits."""
    return any(i.clbits for i in circuit)


def split(circuit: Any) -> tuple[list[Instruction], list[Reading]]:
    """Instructions without the measurements that end the circuit, and these.

    A measurement ends it if nothing acts on its qubit, reads its bit or writes it afterwards (but for errors in
    reading).
    """
    body: list[Instruction] = []
    readings: list[Reading] = []
    used: set[int] = set()  # qubits
    known: set[int] = set()  # bits
    errors: dict[int, np.ndarray] = {}
    late: dict[int, list[Instruction]] = {}
    for i in reversed(tuple(circuit)):
        if isinstance(i.gate, ReadoutError) and i.condition is None and i.clbits[0] not in known:
            c = i.clbits[0]
            errors[c] = errors[c] @ i.gate.matrix if c in errors else i.gate.matrix
            late.setdefault(c, []).append(i)
            continue
        if i.gate is MEASURE and i.condition is None and i.qubits[0] not in used and i.clbits[0] not in known:
            q, c = i.qubits[0], i.clbits[0]
            readings.append(Reading(q, c, errors.pop(c, None)))
            late.pop(c, None)
            used.add(q)
            known.add(c)
            continue
        if i.gate is REPEAT:  # what follows a loop is not to be done in it
            for rest in late.values():
                body += rest
            late, errors = {}, {}
        if i.gate is not BARRIER:
            used.update(i.qubits, i.controls)
            bits = {*i.clbits, *(i.condition.clbits if i.condition else ())}
            for c in bits & set(late):  # an error of a bit that something else wrote
                body += late.pop(c)
                errors.pop(c)
            known |= bits
        body.append(i)
    for rest in late.values():
        body += rest
    return body[::-1], readings[::-1]


def read(probabilities: np.ndarray, readings: Sequence[Reading]) -> np.ndarray:
    """Return the probabilities (2**k,) of readings, given those of the qubits; bit j belongs to reading j."""
    for j, reading in enumerate(readings):
        if reading.matrix is not None:
            probabilities = np.einsum("ab,hbl->hal", reading.matrix, probabilities.reshape(-1, 2, 1 << j)).reshape(-1)
    return probabilities
