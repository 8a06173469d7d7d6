"""Conformance kit for simulators. The test suite runs it over everything registered."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import gates
from ..circuit import Circuit
from ..errors import ParameterError, SimulatorError
from ..gates.primitives import embed
from ..operators.pauli import PauliSum
from ..shots.sampling import Estimate
from ..simulators.run import run

__all__ = ["check_simulator"]

_SHOTS = 2000


def check_simulator(name: str, *, seed: int = 0, atol: float = 1e-10) -> None:
    """Check that a simulator agrees with the matrices of gates, or rejects the circuit.

    Every registered gate after a layer of others, and random circuits of the gates that it takes, have the right
    probabilities and expectation values; samples have these probabilities and are the same for the same seed; missing
    values and zero shots are errors. A gate that the simulator does not take must be refused with a SimulatorError.

    Parameters
    ----------
    name : str
        As in `quantum.run`.
    seed : int
        Seed of random circuits and samples.
    atol : float
        Tolerance of probabilities and expectation values.

    Raises
    ------
    SimulatorError
        If a check fails; the message says which.

    Examples
    --------
    >>> from triskele import quantum
    >>> quantum.check_simulator("density_matrix")
    """
    rng = np.random.default_rng(seed)
    # angles are multiples of pi/2, which Clifford simulators take too
    known = [
        (g, tuple((rng.integers(1, 4, g.num_params) * np.pi / 2).tolist()))
        for g in map(gates.find, gates.names())
        if g.num_qubits <= 3
    ]
    taken = [each for each in known if _takes(name, *each, rng, atol)]
    if not taken:
        raise SimulatorError(f"check_simulator: {name} supports no gate")
    for _ in range(5):
        circuit = Circuit(4)
        for _ in range(12):
            gate, params = taken[rng.integers(len(taken))]
            circuit.append(gate, rng.permutation(4)[: gate.num_qubits].tolist(), params)
        try:
            _compare(name, circuit, rng, atol, "a random circuit")
        except _Refused as refused:
            raise SimulatorError(
                f"check_simulator: {name} takes each gate of a circuit, but not the circuit: {refused}"
            ) from refused
    _sampling(name, seed)
    _errors(name)


def _takes(name: str, gate: Any, params: tuple[float, ...], rng: np.random.Generator, atol: float) -> bool:
    circuit = Circuit(4)
    for first in ("h", "x"):
        try:
            getattr(circuit, first)(0)
            run(circuit, simulator=name, shots=1, seed=0)
        except SimulatorError:
            circuit = Circuit(4)
    circuit.append(gate, rng.permutation(4)[: gate.num_qubits].tolist(), params)
    try:
        _compare(name, circuit, rng, atol, f"gate {gate.name}")
    except _Refused:
        return False
    return True


class _Refused(Exception):
    """The simulator does not take a circuit."""


def _compare(name: str, circuit: Circuit, rng: np.random.Generator, atol: float, what: str) -> None:
    n = circuit.num_qubits
    psi = np.zeros(1 << n, complex)
    psi[0] = 1.0
    for i in circuit:
        psi = embed(i.matrix(), (*i.qubits, *i.controls), n) @ psi
    try:
        result = run(circuit, simulator=name, shots=1, seed=0)
    except SimulatorError as error:
        raise _Refused(error) from error
    _equal(name, f"{what}: probabilities", result.probabilities(), np.abs(psi) ** 2, atol)
    letters = rng.choice(list("IXYZ"), (3, n))
    h = PauliSum([(" ".join(f"{p}{q}" for q, p in enumerate(row) if p != "I"), float(rng.normal())) for row in letters])
    found = result.expectation(h)
    found = found.value if isinstance(found, Estimate) else found
    _equal(name, f"{what}: expectation value of {h}", found, np.vdot(psi, h.matrix(n) @ psi).real, atol)


def _equal(name: str, what: str, found: Any, expected: Any, atol: float) -> None:
    error = np.abs(np.asarray(found, float) - expected).max()
    if not error <= atol:
        raise SimulatorError(f"check_simulator: {name}, {what}: off by {error:.3g}")


def _sampling(name: str, seed: int) -> None:
    circuit = Circuit(3).x(0)
    try:
        run(circuit.copy().h(1).cx(1, 2), simulator=name, shots=1, seed=0)
        circuit.h(1).cx(1, 2)
    except SimulatorError:
        pass
    result = run(circuit, simulator=name, shots=_SHOTS, seed=seed)
    p = result.probabilities()
    counts = np.bincount(result.sample().indices, minlength=8)
    likely = p > 1e-12
    if (
        counts.sum() != _SHOTS
        or counts[~likely].any()
        or (np.abs(counts - _SHOTS * p) > 6 * np.sqrt(_SHOTS * p * (1 - p)) + 1e-6).any()
    ):
        raise SimulatorError(
            f"check_simulator: {name}: {_SHOTS} samples {counts.tolist()} do not have the "
            f"probabilities {p.round(6).tolist()}"
        )
    again = run(circuit, simulator=name, shots=_SHOTS, seed=seed).sample().indices
    if not np.array_equal(again, result.sample().indices):
        raise SimulatorError(f"check_simulator: {name}: the same seed gave other samples")


def _errors(name: str) -> None:
    for what, circuit, options, wanted in (
        ("a missing value", Circuit(1).rx("a", 0), {"shots": 1}, (ParameterError, SimulatorError)),
        ("zero shots", Circuit(1).x(0), {"shots": 0}, SimulatorError),
        ("an initial state of another size", Circuit(1).x(0), {"shots": 1, "initial": np.ones(3)}, ValueError),
    ):
        try:
            run(circuit, simulator=name, seed=0, **options)
        except wanted:
            continue
        except Exception as error:
            raise SimulatorError(
                f"check_simulator: {name}: {what} must be an error that says so, got {error!r}"
            ) from error
        raise SimulatorError(f"check_simulator: {name}: {what} must raise an error, but does not")
