"""Excited states by variational quantum deflation."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Reports, check, html_facts, plots

from ..circuit import Circuit
from ..errors import CircuitError, ParameterError
from ..expectation.expectation import Expectation
from ..operators.pauli import PauliSum
from ..optimizers.journal import Journal, describe
from ..optimizers.minimize import Minimum, Steps, descend, find
from ..simulators.run import run
from .start import check_ansatz, check_hamiltonian, random_angles, start

__all__ = ["VQD", "VQDResult"]


@dataclass(frozen=True)
class VQDResult:
    """Result of a `VQD`. States are in the order in which they were found, usually that of their energies.

    Attributes
    ----------
    energies : (k,) float64 array
    theta : (k, P) float64 array
        Angles of each state, in the order of `ansatz.parameters`.
    overlaps : (k, k) float64 array
        ``|<psi_i|psi_j>|**2``: how orthogonal the states are.
    histories : tuple of (steps + 1,) float64 arrays
        Energy and penalty of each state at the start and after each step.
    evaluations : int
    converged : bool
        True if the optimization of every state converged.
    message : str
        Reason for stopping of the last optimization.
    ansatz : Circuit
    """

    energies: np.ndarray
    theta: np.ndarray
    overlaps: np.ndarray
    histories: tuple[np.ndarray, ...]
    evaluations: int
    converged: bool
    message: str
    ansatz: Circuit

    def plot(self, ax: Any = None, *, reference: float | None = None, **line: Any) -> Any:
        """Draw the energy and penalty of each state over the steps.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Defaults to new axes.
        reference : float, optional
            A value to compare with, such as the exact one: a dashed line.
        **line
            Options of the lines.

        Returns
        -------
        matplotlib Axes
        """
        with plots.axes(ax, xlabel="step", ylabel="energy") as ax:
            plots.curves(ax, None, {f"state {k}": h for k, h in enumerate(self.histories)}, reference=reference, **line)
        return ax

    def _repr_html_(self) -> str:
        return html_facts(
            "VQDResult",
            {
                "energies": ", ".join(f"{e:.6f}" for e in self.energies),
                "converged": self.converged,
                "evaluations": self.evaluations,
                "message": self.message,
            },
        )

    def __repr__(self) -> str:
        end = "converged" if self.converged else "NOT converged"
        return (
            f"<VQDResult: energies {', '.join(f'{e:.6f}' for e in self.energies)}, {end}, {self.evaluations} "
            f"evaluations>"
        )


class VQD:
    """Energies of the lowest states, each the lowest that is orthogonal to those before [1]_.

    State k minimizes ``E(theta) + penalty * sum_j |<psi_j|psi(theta)>|**2`` over the states j that are found already.

    Parameters
    ----------
    hamiltonian : PauliSum or str
        Hermitian operator.
    ansatz : Circuit
        Circuit of gates that can reach the excited states, too.
    states : int
        Number of states, including the ground state.
    penalty : float, optional
        Weight of the overlaps, which must exceed the distance of the highest requested level from the ground state.
        Defaults to twice the sum of the absolute coefficients, which is always enough.
    initial : (P,) array, dict by name, or "random", optional
        Initial angles of the first run for the first state. Defaults to zeros. All other runs start from random angles.
    starts : int
        Number of runs from different angles for each state, of which the lowest is kept: the energy landscapes of
        excited states have more local minima.
    optimizer : str or object
        See `quantum.minimize`.
    max_steps : int, optional
        Overrides the optimizer's own limit.
    seed : int

    Raises
    ------
    CircuitError, OperatorError, ParameterError, OptimizerError
        If an argument is invalid or does not match the others.

    References
    ----------
    .. [1] Higgott, Wang, Brierley, "Variational quantum computation of excited states", Quantum 3, 156 (2019).
       doi:10.22331/q-2019-07-01-156

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import quantum
    >>> h = quantum.PauliSum("Z0 + 0.5 Z1 + 0.3 X0 X1")
    >>> ansatz = quantum.Circuit(2).ry("a", 0).ry("b", 1).cx(0, 1).ry("c", 0).ry("d", 1)
    >>> result = quantum.VQD(h, ansatz, states=4, initial="random").run()
    >>> np.round(result.energies, 4)
    array([-1.5297, -0.5831,  0.5831,  1.5297])
    """

    def __init__(
        self,
        hamiltonian: PauliSum | str,
        ansatz: Circuit,
        states: int = 2,
        *,
        penalty: float | None = None,
        initial: Any = None,
        starts: int = 3,
        optimizer: Any = "bfgs",
        max_steps: int | None = None,
        seed: int = 0,
    ):
        self.ansatz, hamiltonian = check_ansatz("VQD", ansatz).copy(), check_hamiltonian("VQD", hamiltonian)
        for what, number in (("states", states), ("starts", starts)):
            check.integer(number, f"VQD: {what}", 1, error=ParameterError)
        if not ansatz.is_unitary:
            raise CircuitError("VQD: the ansatz must consist of gates alone (the inverse of its circuit is needed)")
        if states > 1 << ansatz.num_qubits:
            raise ParameterError(
                f"VQD: {ansatz.num_qubits} qubits have {1 << ansatz.num_qubits} states, got states={states}"
            )
        if penalty is not None:
            check.positive(penalty, "VQD: penalty", error=ParameterError)
        self.states, self.starts, self.seed = int(states), int(starts), seed
        self.optimizer = find(optimizer, max_steps, seed)
        self.theta = start("VQD", ansatz, initial, seed)
        self.energy = Expectation(self.ansatz, hamiltonian)
        self.penalty = 2.0 * sum(abs(c) for string, c in hamiltonian if string) if penalty is None else float(penalty)

    def __repr__(self) -> str:
        return f"<VQD: {self.states} states, {self.ansatz.num_qubits} qubits, {len(self.ansatz.parameters)} parameters>"

    def run(
        self, *, report: Reports = None, progress: bool | None = None, checkpoint: str | os.PathLike | None = None
    ) -> VQDResult:
        """Find the states one after the other.

        Parameters
        ----------
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``energy`` (with the
            penalty), ``state`` and ``start``; see `core.report`. A
            reporter that raises StopIteration ends the run, with its reason as the message.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the values so far, written about once a second and at the end. If it exists, the run resumes from
            it bit for bit.

        Returns
        -------
        VQDResult

        Raises
        ------
        CheckpointError
            If the checkpoint belongs to another run; the message names what differs.
        """
        found: list[Minimum] = []
        objective, evaluations = _Deflated(self.energy, self.penalty), 0
        journal = Journal(
            "VQD.run",
            checkpoint,
            {
                **describe(self.energy),
                "theta": self.theta.tolist(),
                "seed": self.seed,
                "states": self.states,
                "starts": self.starts,
                "penalty": self.penalty,
                "optimizer": repr(self.optimizer),
            },
        )
        with Steps("VQD.run", report, progress, journal) as steps:
            for k in range(self.states):
                runs: list[Minimum] = []
                for attempt in range(self.starts):
                    begin = (
                        self.theta
                        if k == attempt == 0
                        else random_angles(self.theta.size, self.seed + 7919 * k + attempt + 1)
                    )
                    runs.append(descend(objective, begin, self.optimizer, steps, name="energy", state=k, start=attempt))
                    if steps.stopped:
                        break
                evaluations += sum(r.evaluations for r in runs)
                found.append(min(runs, key=lambda r: r.value))
                if steps.stopped:
                    break
                objective.push_away(found[-1].theta)
        theta = np.array([f.theta for f in found])
        states = np.array([run(self.ansatz, t).statevector() for t in theta])
        return VQDResult(
            np.array([float(self.energy(t)) for t in theta]),
            theta,
            np.abs(states.conj() @ states.T) ** 2,
            tuple(f.history for f in found),
            evaluations,
            all(f.converged for f in found),
            found[-1].message,
            self.ansatz,
        )


class _Deflated:
    """The energy, and a penalty for the overlap with each state that is known.

    The overlap is the probability of |0...0> after a circuit and the inverse of the known state's: an expectation value
    of the projector prod (1 + Z_q) / 2, and so with the same adjoint gradient as the energy.
    """

    def __init__(self, energy: Expectation, penalty: float):
        self.energy, self.circuit = energy, energy.circuit
        n = self.circuit.num_qubits
        weights = np.full(1 << n, penalty / (1 << n), complex)
        self._projector = PauliSum.from_arrays(
            np.zeros((1 << n, 1), np.uint64), np.arange(1 << n, dtype=np.uint64)[:, None], weights
        )
        self._penalties: list[Expectation] = []

    def push_away(self, known: np.ndarray) -> None:
        """From now on, penalize the overlap with the state of these angles."""
        self._penalties.append(Expectation(self.circuit + self.circuit.bind(known).inverse(), self._projector))

    def __call__(self, theta: np.ndarray) -> float:
        return float(sum(part(theta) for part in (self.energy, *self._penalties)))

    def value_and_grad(self, theta: np.ndarray) -> tuple[float, np.ndarray]:
        parts = [part.value_and_grad(theta) for part in (self.energy, *self._penalties)]
        return float(sum(value for value, _ in parts)), np.sum([gradient for _, gradient in parts], axis=0)
