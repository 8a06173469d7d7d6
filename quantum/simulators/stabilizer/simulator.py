"""Circuits of Clifford gates, measurements and Pauli channels, on any number of qubits."""

from __future__ import annotations

import numpy as np

from triskele.core.random import key
from triskele.quantum.circuit import Circuit
from triskele.quantum.errors import SimulatorError
from triskele.quantum.sampling import check_seed, check_shots
from triskele.quantum.simulators.result import CountsResult
from triskele.quantum.simulators.stabilizer import kernels
from triskele.quantum.simulators.stabilizer.program import lower
from triskele.quantum.simulators.stabilizer.result import StabilizerResult, _unpacked, zero_tableau

__all__ = ["run"]


def run(circuit: Circuit, values: dict[str, float], shots: int | None = None, seed: int | None = None) -> StabilizerResult | CountsResult:
    """Simulate a Clifford circuit.

    Parameters
    ----------
    circuit : Circuit
        Of Clifford gates (found by their matrices: rotations by multiples of pi/2 are among them), measurements, resets, conditions
        and Pauli channels.
    values : dict of str to float
        Of all parameters by name.
    shots, seed : int, optional
        Needed where the circuit is more than gates.

    Returns
    -------
    StabilizerResult, or CountsResult if the circuit is more than gates

    Raises
    ------
    SimulatorError
        If an instruction is no Clifford one (it is named), or shots are missing.

    References
    ----------
    Aaronson, Gottesman, Phys. Rev. A 70 (2004) 052328 (tableau); Gidney, Quantum 5 (2021) 497 (frames for many shots).
    """
    program, framed = lower(circuit, values)
    x, z, signs = zero_tableau(circuit.num_qubits)
    if not (program.kind != kernels.GATE).any():
        _run(program, x, z, signs)
        return StabilizerResult(x, z, signs, shots, seed)
    if shots is None:
        raise SimulatorError("run: a circuit with measurements, resets or noise needs shots (run(..., shots=1000))")
    shots = check_shots(shots, "run")
    words = key(check_seed(seed, "run"))
    if not framed:
        return CountsResult(_one_by_one(program, circuit, shots, words))
    log = _run(program, x, z, signs, np.zeros(circuit.num_clbits, np.uint8))
    per = -(-shots // 64)
    bits = np.zeros((circuit.num_clbits, per), np.uint64)
    kernels.run_frames(program, log, words[0], words[1], *np.zeros((2, circuit.num_qubits, per), np.uint64), bits)
    return CountsResult(np.ascontiguousarray(_unpacked(bits, shots).T))


def run_gates(circuit: Circuit, x: np.ndarray, z: np.ndarray, signs: np.ndarray) -> None:
    """Apply a circuit of gates to a tableau in place."""
    _run(lower(circuit, {})[0], x, z, signs)


def _run(program, x, z, signs, bits=np.zeros(0, np.uint8)) -> np.ndarray:  # noqa: B008 - never written without measurements
    return kernels.run_tableau(program, x, z, signs, bits, np.uint32(0), np.uint32(0), 0, False)


def _one_by_one(program, circuit: Circuit, shots: int, words: np.ndarray) -> np.ndarray:
    """Every shot with a tableau of its own: (shots, num_clbits) uint8."""
    out = np.zeros((shots, circuit.num_clbits), np.uint8)
    start = zero_tableau(circuit.num_qubits)
    for shot in range(shots):
        x, z, signs = (a.copy() for a in start)
        kernels.run_tableau(program, x, z, signs, out[shot], words[0], words[1], shot, True)
    return out
