"""The quantum approximate optimization algorithm."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Reports, check, dataframe, html_facts, plots

from ..circuit import Circuit
from ..errors import CircuitError, OperatorError
from ..expectation.expectation import Expectation
from ..gates.families import pauli_rotation
from ..operators.pauli import PauliSum
from ..optimizers.journal import Journal, describe
from ..optimizers.minimize import Steps, descend, find
from .start import start

__all__ = ["QAOA", "QAOAResult", "check_cost", "cost_values", "qaoa_ansatz"]


@dataclass(frozen=True)
class QAOAResult:
    """Result of a `QAOA`.

    Attributes
    ----------
    bits : (n,) uint8 array
        The assignment of least cost among the samples of the final state.
    cost : float
        Cost of `bits`.
    energy : float
        Mean cost of the final state.
    theta : (2 p,) float64 array
        gamma, beta of the first layer, of the second, ...
    depths : (p,) float64 array
        Mean cost that was reached with 1, 2, ... layers; only the last one when `initial` was given.
    history : (steps + 1,) float64 array
        Mean cost at the start of the last depth and after each step.
    evaluations : int
    converged : bool
    message : str
    ansatz : Circuit
    """

    bits: np.ndarray
    cost: float
    energy: float
    theta: np.ndarray
    depths: np.ndarray
    history: np.ndarray
    evaluations: int
    converged: bool
    message: str
    ansatz: Circuit

    def to_dataframe(self) -> Any:
        """Return the history as a pandas DataFrame: ``energy`` by ``step``."""
        return dataframe({"energy": self.history}, "step")

    def plot(self, ax: Any = None, *, reference: float | None = None, **line: Any) -> Any:
        """Draw the mean cost over the steps.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        reference : float, optional
            A value to compare with, such as the exact one: a dashed line.
        **line
            Options of the line.

        Returns
        -------
        matplotlib Axes
        """
        with plots.axes(ax, xlabel="step", ylabel="mean cost") as ax:
            plots.curves(ax, None, {"mean cost": self.history}, reference=reference, **line)
        return ax

    def _repr_html_(self) -> str:
        return html_facts(
            "QAOAResult",
            {
                "bits": "".join(map(str, self.bits)),
                "cost": f"{self.cost:.6g}",
                "mean cost": f"{self.energy:.6g}",
                "layers": len(self.theta) // 2,
                "steps": len(self.history) - 1,
                "converged": self.converged,
                "evaluations": self.evaluations,
                "message": self.message,
            },
        )

    def __repr__(self) -> str:
        end = "converged" if self.converged else "NOT converged"
        return (
            f"<QAOAResult: cost {self.cost:.6g} for {''.join(map(str, self.bits))}, mean cost {self.energy:.6g}, "
            f"{end}, {self.evaluations} evaluations>"
        )


def qaoa_ansatz(cost: PauliSum, layers: int, num_qubits: int | None = None) -> Circuit:
    """Alternating evolution ``exp(-i beta sum X) exp(-i gamma cost)`` from the uniform superposition [1]_.

    Parameters
    ----------
    cost : PauliSum
        Cost operator: a sum of products of Z of any length.
    layers : int
    num_qubits : int, optional
        Number of qubits. Defaults to the number that the cost acts on.

    Returns
    -------
    Circuit
        With parameters `gamma0`, `beta0`, `gamma1`, ...

    References
    ----------
    .. [1] Farhi, Goldstone, Gutmann, "A quantum approximate optimization algorithm", arXiv:1411.4028 (2014).

    Examples
    --------
    >>> from triskele import quantum
    >>> quantum.qaoa_ansatz(quantum.maxcut([(0, 1), (1, 2)]), layers=2).parameters
    ('gamma0', 'beta0', 'gamma1', 'beta1')
    """
    check_cost("qaoa_ansatz", cost)
    check.integer(layers, "qaoa_ansatz: layers", 1, error=CircuitError)
    n = cost.num_qubits if num_qubits is None else num_qubits
    circuit = Circuit(n)
    for q in range(n):
        circuit.h(q)
    for layer in range(layers):
        for string, coefficient in cost:
            qubits = [int(letter[1:]) for letter in string.split()]
            if qubits:
                circuit.append(pauli_rotation("Z" * len(qubits)), qubits, ({f"gamma{layer}": 2.0 * coefficient.real},))
        for q in range(n):
            circuit.rx({f"beta{layer}": 2.0}, q)
    return circuit


class QAOA:
    """Low-cost assignments of bits, from alternating evolutions with optimized times.

    Angles for p layers start from those for p - 1 by linear interpolation (INTERP [1]_), those for one layer from the
    best point of a grid; so a run with p layers optimizes all smaller depths first.

    Parameters
    ----------
    cost : PauliSum
        Sum of products of Z to minimize, such as the result of `quantum.maxcut`. Z is +1 for bit 0 and -1 for bit 1.
    layers : int
    initial : (2 p,) array, dict by name, or "random", optional
        Angles from which to optimize at full depth instead.
    optimizer : str or object
        See `quantum.minimize`.
    max_steps : int, optional
        Overrides the optimizer's own limit, for each depth.
    samples : int
        Number of samples of the final state among which `bits` is chosen.
    dtype : complex128 or complex64
    seed : int

    Raises
    ------
    OperatorError, CircuitError, ParameterError, OptimizerError
        If the cost is not diagonal and real, or another argument is invalid.

    References
    ----------
    .. [1] Zhou, Wang, Choi, Pichler, Lukin, "Quantum approximate optimization algorithm: performance, mechanism, and
       implementation on near-term devices", Phys. Rev. X 10, 021067 (2020), appendix B. doi:10.1103/PhysRevX.10.021067

    Examples
    --------
    >>> from triskele import quantum
    >>> ring = quantum.maxcut([(0, 1), (1, 2), (2, 3), (3, 0)])
    >>> result = quantum.QAOA(ring, layers=2).run()
    >>> round(result.energy, 4), result.cost
    (-4.0, -4.0)
    """

    def __init__(
        self,
        cost: PauliSum,
        layers: int = 1,
        *,
        initial: Any = None,
        optimizer: Any = "bfgs",
        max_steps: int | None = None,
        samples: int = 1000,
        dtype: Any = np.complex128,
        seed: int = 0,
    ):
        self.ansatz = qaoa_ansatz(cost, layers)
        self.cost, self.layers, self.samples, self.dtype, self.seed = cost, int(layers), samples, dtype, seed
        check.integer(samples, "QAOA: samples", 1, error=CircuitError)
        self.initial = None if initial is None else start("QAOA", self.ansatz, initial, seed)
        self.optimizer = find(optimizer, max_steps, seed)
        self.energy = Expectation(self.ansatz, cost, dtype=dtype)

    def __repr__(self) -> str:
        return f"<QAOA: {self.ansatz.num_qubits} qubits, {len(self.cost)} terms, layers={self.layers}>"

    def run(
        self, *, report: Reports = None, progress: bool | None = None, checkpoint: str | os.PathLike | None = None
    ) -> QAOAResult:
        """Optimize the angles and draw samples.

        Parameters
        ----------
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``energy`` and ``layers``; see `core.report`. A
            reporter that raises StopIteration ends the run, with its reason as the message.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the values so far, written about once a second and at the end. If it exists, the run resumes from
            it bit for bit.

        Returns
        -------
        QAOAResult

        Raises
        ------
        CheckpointError
            If the checkpoint belongs to another run; the message names what differs.
        """
        from ..simulators.run import run

        depths, evaluations = [], 0
        theta = np.zeros(0) if self.initial is None else self.initial
        journal = Journal(
            "QAOA.run",
            checkpoint,
            {
                **describe(self.energy),
                "theta": theta.tolist(),
                "seed": self.seed,
                "layers": self.layers,
                "optimizer": repr(self.optimizer),
            },
        )
        with Steps("QAOA.run", report, progress, journal) as steps:
            for p in range(1 if self.initial is None else self.layers, self.layers + 1):
                energy = (
                    self.energy
                    if p == self.layers
                    else Expectation(qaoa_ansatz(self.cost, p), self.cost, dtype=self.dtype)
                )
                if not theta.size:
                    theta, evaluations = self._grid(energy)
                elif theta.size < 2 * p:
                    theta = np.stack([_interpolate(theta[0::2]), _interpolate(theta[1::2])], 1).ravel()
                found = descend(energy, theta, self.optimizer, steps, name="energy", layers=p)
                theta, evaluations = found.theta, evaluations + found.evaluations
                depths.append(found.value)
                if steps.stopped:
                    break
        ansatz = self.ansatz if p == self.layers else qaoa_ansatz(self.cost, p)
        samples = run(ansatz, theta, dtype=self.dtype).sample(self.samples, seed=self.seed).array
        costs = cost_values(self.cost, samples)
        best = int(np.argmin(costs))
        return QAOAResult(
            samples[best],
            float(costs[best]),
            found.value,
            theta,
            np.array(depths),
            found.history,
            evaluations,
            found.converged,
            found.message,
            ansatz,
        )

    def _grid(self, energy: Expectation) -> tuple[np.ndarray, int]:
        """The best of 8 x 8 points for one layer.

        (gamma, beta) and (-gamma, -beta) are equivalent: gamma > 0 is enough.
        """
        coefficients = np.array([c.real for string, c in self.cost if string])
        degree = 2 * len(coefficients) / self.cost.num_qubits
        # of the order of the best gamma on random graphs
        scale = 1.0 / (2 * np.sqrt(np.mean(coefficients**2)) * np.sqrt(max(degree, 1.0)))
        points = [
            np.array([gamma, beta])
            for gamma in scale * np.linspace(0.25, 2.0, 8)
            for beta in np.pi / 4 * np.linspace(-0.9, 0.9, 8)
        ]
        return min(points, key=lambda point: float(energy(point))), len(points)


def _interpolate(angles: np.ndarray) -> np.ndarray:
    """Angles for p + 1 layers from those for p (INTERP)."""
    p = len(angles)
    i = np.arange(p + 1)
    padded = np.concatenate([[0.0], angles, [0.0]])
    return i / p * padded[:-1] + (p - i) / p * padded[1:]


def check_cost(where: str, cost: Any) -> None:
    """Raise an OperatorError unless `cost` is a real sum of products of Z."""
    check.kind(cost, PauliSum, f"{where}: the cost", error=OperatorError)
    if np.any(cost.x):
        off = next(string for string, _ in cost if "X" in string or "Y" in string)
        raise OperatorError(f"{where}: the cost must be made of Z alone, got the term {off!r}")
    if not cost.is_hermitian:
        raise OperatorError(f"{where}: the cost must have real coefficients")
    if not np.any(cost.z):
        raise OperatorError(f"{where}: the cost must have a term that is not constant, got {str(cost)!r}")


def cost_values(cost: PauliSum, bits: np.ndarray) -> np.ndarray:
    """Costs of assignments, (shots,), for `bits` of shape (shots, n)."""
    signs = 1.0 - 2.0 * bits
    total = np.zeros(len(bits))
    for string, coefficient in cost:
        total += coefficient.real * np.prod(signs[:, [int(letter[1:]) for letter in string.split()]], axis=1)
    return total
