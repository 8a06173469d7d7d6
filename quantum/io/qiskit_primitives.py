"""Qiskit's primitives, version 2: programs written for them run on our simulators.

A primitive unified bloc (PUB) is a circuit with arrays of parameter values, and of observables for the estimator, which
are broadcast against each other. A circuit with linear parameters is converted once and bound many times.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from triskele.core.extend import check, optional

from ..circuit import Circuit
from ..errors import CircuitError, SimulatorError
from ..expectation.expectation import Expectation
from ..gates.instruction import MEASURE
from ..operators.pauli import PauliSum
from ..simulators.registry import find
from ..simulators.run import run
from .qiskit import from_qiskit

_primitives = optional.need("qiskit.primitives", "Sampler", "quantum")
_containers = optional.need("qiskit.primitives.containers", "Sampler", "quantum")

__all__ = ["Estimator", "Sampler"]


class Sampler(_primitives.BaseSamplerV2):  # type: ignore[name-defined]
    """Samples of the classical registers of Qiskit's circuits.

    Mid-circuit measurements and conditions run shot by shot.

    Parameters
    ----------
    default_shots : int
        Number of shots where neither `run` nor the PUB names one.
    seed : int
        Seed of the samples. Each call of `run` continues the stream of random numbers.
    simulator : str
        One of `quantum.run`.

    Raises
    ------
    SimulatorError
        If an argument is invalid.

    Examples
    --------
    >>> from qiskit import QuantumCircuit
    >>> from triskele import quantum
    >>> bell = QuantumCircuit(2)
    >>> _ = bell.h(0), bell.cx(0, 1), bell.measure_all()
    >>> counts = quantum.io.Sampler(seed=1).run([bell], shots=1000).result()[0].data.meas.get_counts()
    >>> sorted(counts)
    ['00', '11']
    """

    def __init__(self, *, default_shots: int = 1024, seed: int = 0, simulator: str = "statevector"):
        self.default_shots = check.integer(default_shots, "Sampler: default_shots", 1, error=SimulatorError)
        self.simulator = simulator
        find(simulator)
        self._seeds = np.random.default_rng(check.integer(seed, "Sampler: seed", 0, error=SimulatorError))

    def __repr__(self) -> str:
        return f"<Sampler: {self.simulator}, {self.default_shots} shots>"

    def run(self, pubs: Iterable[Any], *, shots: int | None = None) -> Any:
        """Start a job that samples all PUBs.

        Parameters
        ----------
        pubs : iterable
            Circuits, or tuples ``(circuit, parameter values, shots)``, of which the end may be left out.
        shots : int, optional
            Number of shots of PUBs that name none.

        Returns
        -------
        qiskit.primitives.PrimitiveJob
            ``job.result()[k].data`` has a `BitArray` for each classical register.
        """
        found = [_containers.SamplerPub.coerce(pub, self.default_shots if shots is None else shots) for pub in pubs]
        return _submit(self._of, found)

    def _of(self, pub):
        circuit = pub.circuit
        rows = [
            self._bits(ours, theta, pub.shots)
            for ours, thetas in _bound(circuit, pub.parameter_values)
            for theta in thetas
        ]
        bits = np.array(rows, bool).reshape((*pub.shape, pub.shots, circuit.num_clbits))
        registers = {}
        for register in circuit.cregs:
            columns = [circuit.find_bit(bit).index for bit in register]
            registers[register.name] = _containers.BitArray.from_bool_array(bits[..., columns], "little")
        data = _containers.DataBin(**registers, shape=pub.shape)
        return _containers.SamplerPubResult(data, metadata={"shots": pub.shots, "circuit_metadata": circuit.metadata})

    def _bits(self, circuit, theta, shots):
        if not any(i.gate is MEASURE for i in circuit):
            return np.zeros((shots, circuit.num_clbits), bool)
        seed = int(self._seeds.integers(2**63))
        return run(circuit, theta, simulator=self.simulator, shots=shots, seed=seed).sample(shots).array


class Estimator(_primitives.BaseEstimatorV2):  # type: ignore[name-defined]
    """Expectation values of observables after Qiskit's circuits.

    Parameters
    ----------
    default_precision : float
        Precision where neither `run` nor the PUB names one: 0 for exact values, else each group of Pauli strings that
        can be measured together is measured ``ceil(1 / precision**2)`` times.
    seed : int
        Seed of the measurements. Each call of `run` continues the stream of random numbers.
    simulator : str
        One of `quantum.Expectation`.

    Raises
    ------
    SimulatorError
        If an argument is invalid.

    Examples
    --------
    >>> from qiskit import QuantumCircuit
    >>> from triskele import quantum
    >>> bell = QuantumCircuit(2)
    >>> _ = bell.h(0), bell.cx(0, 1)
    >>> result = quantum.io.Estimator().run([(bell, ["XX", "YY", "IZ"])]).result()
    >>> result[0].data.evs.round(12).tolist()
    [1.0, -1.0, 0.0]
    """

    def __init__(self, *, default_precision: float = 0.0, seed: int = 0, simulator: str = "statevector"):
        self.default_precision = check.number(
            default_precision, "Estimator: default_precision", 0, error=SimulatorError
        )
        self.simulator = simulator
        find(simulator)
        self._seeds = np.random.default_rng(check.integer(seed, "Estimator: seed", 0, error=SimulatorError))

    def __repr__(self) -> str:
        return f"<Estimator: {self.simulator}, precision {self.default_precision:g}>"

    def run(self, pubs: Iterable[Any], *, precision: float | None = None) -> Any:
        """Start a job that estimates all PUBs.

        Parameters
        ----------
        pubs : iterable
            Tuples ``(circuit, observables, parameter values, precision)``, of which the end may be left out.
        precision : float, optional
            Precision of PUBs that name none.

        Returns
        -------
        qiskit.primitives.PrimitiveJob
            ``job.result()[k].data`` has ``evs`` and, of measured values, their standard errors ``stds``.
        """
        precision = self.default_precision if precision is None else precision
        return _submit(self._of, [_containers.EstimatorPub.coerce(pub, precision) for pub in pubs])

    def _of(self, pub):
        observables, parameters = np.asarray(pub.observables), pub.parameter_values
        numbers: dict[Any, int] = {}
        which = np.array([numbers.setdefault(tuple(sorted(o.items())), len(numbers)) for o in observables.ravel()], int)
        operators = [_pauli_sum(terms) for terms in numbers]
        points = np.broadcast_to(np.arange(parameters.size).reshape(parameters.shape), pub.shape)
        which = np.broadcast_to(which.reshape(observables.shape), pub.shape)
        values, errors = np.zeros(pub.shape), np.zeros(pub.shape)
        first = 0
        for circuit, thetas in _bound(pub.circuit, parameters):
            here = (points >= first) & (points < first + len(thetas))
            values[here], errors[here] = self._estimates(
                circuit, thetas, operators, points[here] - first, which[here], pub.precision
            )
            first += len(thetas)
        data = _containers.DataBin(evs=values, stds=errors, shape=pub.shape)
        return _containers.PubResult(
            data, metadata={"target_precision": pub.precision, "circuit_metadata": pub.circuit.metadata}
        )

    def _estimates(self, circuit, thetas, operators, points, which, precision):
        """Values and standard errors of ``operators[which[k]]`` at ``thetas[points[k]]``."""
        if precision:
            shots = math.ceil(1.0 / precision**2)
            found = [
                run(circuit, thetas[p], simulator=self.simulator).expectation(
                    operators[k], shots, int(self._seeds.integers(2**63))
                )
                for p, k in zip(points, which, strict=True)
            ]
            return [f.value for f in found], [f.error for f in found]
        if not len(points):
            return 0.0, 0.0
        if len(thetas) * len(operators) <= 4 * len(points):
            return Expectation(circuit, operators, simulator=self.simulator)(thetas)[points, which], 0.0
        values = np.zeros(len(points))
        for k in np.unique(which):
            energy, rows = Expectation(circuit, operators[k], simulator=self.simulator), points[which == k]
            values[which == k] = energy(thetas[rows])
        return values, 0.0


def _submit(f, pubs):
    """A job that applies `f` to each PUB."""
    job = _primitives.PrimitiveJob(
        lambda: _containers.PrimitiveResult([f(pub) for pub in pubs], metadata={"version": 2})
    )
    job._submit()
    return job


def _bound(circuit: Any, values: Any) -> list[tuple[Circuit, np.ndarray]]:
    """Circuits, each with angles (B, P) to run it with, which follow one another as the flat parameter values do."""
    try:
        ours = from_qiskit(circuit)
    except CircuitError:  # parameters that are not linear
        return [(from_qiskit(bound), np.zeros((1, 0))) for bound in np.ravel(values.bind_all(circuit))]
    given = {parameter.name: parameter for parameter in circuit.parameters}
    order = [given[name] for name in ours.parameters]
    return [(ours, np.reshape(values.as_array(order), (values.size, len(order))))]


_FACTORS = {
    "I": (("", 1.0),),
    "X": (("X", 1.0),),
    "Y": (("Y", 1.0),),
    "Z": (("Z", 1.0),),
    "0": (("", 0.5), ("Z", 0.5)),
    "1": (("", 0.5), ("Z", -0.5)),
    "+": (("", 0.5), ("X", 0.5)),
    "-": (("", 0.5), ("X", -0.5)),
    "r": (("", 0.5), ("Y", 0.5)),
    "l": (("", 0.5), ("Y", -0.5)),
}
"""Pauli letters and projectors of Qiskit's observables as sums of Pauli letters."""


def _pauli_sum(terms: Iterable[tuple[str, float]]) -> PauliSum:
    """The operator of pairs (text, coefficient); the last letter of a text belongs to qubit 0."""
    found = []
    for text, coefficient in terms:
        products = [("", float(coefficient))]
        for qubit, letter in enumerate(reversed(text)):
            products = [
                (f"{word} {factor}{qubit}" if factor else word, c * weight)
                for word, c in products
                for factor, weight in _FACTORS[letter]
            ]
        found += [(word.strip(), c) for word, c in products]
    return PauliSum(found)
