"""Circuits of Clifford gates, measurements and Pauli channels, on any number of qubits."""

from __future__ import annotations

from typing import Any

import numpy as np

from triskele.core.random import key

from ...circuit import Circuit
from ...compile.program import all_values
from ...compile.readings import writes_bits
from ...errors import SimulatorError
from ...shots.sampling import check_seed, check_shots
from ..result import CountsResult
from . import tableau_kernels as kernels
from .result import StabilizerResult, _unpacked, zero_tableau
from .tableau_program import TableauProgram, lower, run

__all__ = ["simulate"]


def simulate(
    circuit: Circuit,
    theta: Any = None,
    data: Any = None,
    *,
    dtype: Any = None,
    initial: Any = None,
    shots: int | None = None,
    seed: int | None = None,
) -> StabilizerResult | CountsResult:
    """Simulate with the arguments of `quantum.run`, without amplitudes, so that `dtype` means nothing (tableau:
    Aaronson and Gottesman, Phys. Rev. A 70 (2004) 052328; frames for many shots: Gidney, Quantum 5 (2021) 497).

    Gates may be any whose matrix maps Pauli strings to Pauli strings, rotations by multiples of pi/2 among them.
    Circuits with measurements, resets, conditions or Pauli channels need shots; measurements at the end do not, if the
    state is wanted. `initial` is the result of another stabilizer simulation. Where noise leaves no one state and the
    circuit writes no classical bits, the result counts its qubits.
    """
    if shots is None:
        from ..statevector.simulator import without_measurements

        circuit = without_measurements(circuit)
    names = circuit.parameters, circuit.data
    values = all_values(*names, theta, data).tolist()
    named = dict(zip(names[0] + names[1], values, strict=True))
    program, framed = lower(circuit, named)
    tableau = _start(circuit.num_qubits, initial)
    if not (program.kind != kernels.GATE).any() and framed:
        run(program, *tableau)
        return StabilizerResult(*tableau, shots, seed)
    if shots is None:
        raise SimulatorError("stabilizer: a circuit with noise needs shots (run(..., shots=1000))")
    shots, words, first = check_shots(shots, "run"), key(check_seed(seed, "run")), 0
    if not writes_bits(circuit):
        first, n = circuit.num_clbits, circuit.num_qubits
        circuit = circuit.copy().measure(range(n), range(first, first + n))
        program, framed = lower(circuit, named)
    if not framed or initial is not None:
        return CountsResult(_one_by_one(program, circuit, tableau, shots, words)[:, first:])
    log = run(program, *tableau, np.zeros(circuit.num_clbits, np.uint8))
    per = -(-shots // 64)
    bits = np.zeros((circuit.num_clbits, per), np.uint64)
    kernels.run_frames(program, log, words[0], words[1], *np.zeros((2, circuit.num_qubits, per), np.uint64), bits)
    return CountsResult(np.ascontiguousarray(_unpacked(bits, shots).T)[:, first:])


def _start(n: int, initial: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    if initial is None:
        return zero_tableau(n)
    if not isinstance(initial, StabilizerResult) or initial.num_qubits != n:
        raise SimulatorError(
            f"stabilizer: initial must be the result of a stabilizer simulation of {n} qubits, got {initial!r}"
        )
    return initial.tableau()


def _one_by_one(
    program: TableauProgram, circuit: Circuit, start: tuple[np.ndarray, ...], shots: int, words: np.ndarray
) -> np.ndarray:
    """Every shot with a tableau of its own: (shots, num_clbits) uint8."""
    out = np.zeros((shots, circuit.num_clbits), np.uint8)
    for shot in range(shots):
        x, z, signs = (a.copy() for a in start)
        kernels.run_tableau(program, x, z, signs, out[shot], words[0], words[1], shot, True)
    return out
