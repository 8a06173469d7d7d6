"""ADAPT-VQE: an ansatz grown by the operators that lower the energy most."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Reports, dataframe, html_facts, plots

from ..circuit import Circuit
from ..errors import CircuitError, ParameterError
from ..expectation.expectation import Expectation
from ..operators.pauli import PauliSum
from ..optimizers.journal import Journal, describe
from ..optimizers.minimize import Steps, Unreported, descend, find
from .start import check_ansatz, check_hamiltonian

__all__ = ["AdaptResult", "AdaptVQE"]


@dataclass(frozen=True)
class AdaptResult:
    """Result of an `AdaptVQE`.

    Attributes
    ----------
    energy : float
    theta : (P,) float64 array
        In the order of `ansatz.parameters`.
    ansatz : Circuit
        The reference and the chosen elements, with parameters `t0`, `t1`, ...
    chosen : tuple of int
        Index in the pool of the element added at each step.
    history : (P + 1,) float64 array
        Energy of the reference, and after each element was added and all angles were optimized.
    slopes : (P + 1,) float64 array
        Largest slope of the pool before each choice, and at the end.
    evaluations : int
        Energies computed with their gradients.
    converged : bool
        True if no element of the pool has a slope above the tolerance.
    message : str
        Reason for stopping.
    """

    energy: float
    theta: np.ndarray
    ansatz: Circuit
    chosen: tuple[int, ...]
    history: np.ndarray
    slopes: np.ndarray
    evaluations: int
    converged: bool
    message: str

    def to_dataframe(self) -> Any:
        """Return the history as a pandas DataFrame: ``energy`` and ``slope`` by number of operators."""
        return dataframe({"energy": self.history, "slope": self.slopes}, "operators")

    def plot(self, ax: Any = None, *, reference: float | None = None, **line: Any) -> Any:
        """Draw the energy over the number of operators.

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
        with plots.axes(ax, xlabel="operators", ylabel="energy") as ax:
            plots.curves(ax, None, {"energy": self.history}, reference=reference, **line)
        return ax

    def _repr_html_(self) -> str:
        return html_facts(
            "AdaptResult",
            {
                "energy": f"{self.energy:.8f}",
                "operators": len(self.chosen),
                "largest slope": float(self.slopes[-1]),
                "converged": self.converged,
                "evaluations": self.evaluations,
                "message": self.message,
            },
        )

    def __repr__(self) -> str:
        end = "converged" if self.converged else "NOT converged"
        return (
            f"<AdaptResult: energy {self.energy:.8f}, {end} with {len(self.chosen)} elements, {self.evaluations} "
            f"evaluations>"
        )


class AdaptVQE:
    """The lowest energy of an ansatz that is grown one element at a time [1]_.

    Each step adds the element of the pool along which the energy falls most steeply, and optimizes all angles again.
    The slopes of the whole pool, <[H, A]> of their generators, come from one adjoint gradient: that of the present
    circuit followed by all elements at angle zero.

    Parameters
    ----------
    hamiltonian : PauliSum or str
        Hermitian operator.
    pool : sequence of Circuit
        Circuits with one parameter each that are the identity at zero, such as those of `quantum.fermionic_pool` and
        `quantum.qubit_pool`.
    reference : Circuit
        Circuit without parameters that prepares the initial state, such as `quantum.hartree_fock`.
    tolerance : float
        Converged when no slope is larger, in units of the Hamiltonian per radian.
    max_elements : int
    optimizer : str or object
        See `quantum.minimize`.
    simulator : str
        "statevector", or "subspace" for pools that keep the number of particles (`quantum.fermionic_pool`).
    seed : int
        Seed of optimizers that draw random numbers, such as ``"spsa"``.

    Raises
    ------
    CircuitError, OperatorError, ParameterError, OptimizerError
        If an argument is invalid or does not match the others.

    References
    ----------
    .. [1] Grimsley, Economou, Barnes, Mayhall, "An adaptive variational algorithm for exact molecular simulations on a
       quantum computer", Nat. Commun. 10, 3007 (2019). doi:10.1038/s41467-019-10988-2

    Examples
    --------
    >>> from triskele import quantum
    >>> h = quantum.PauliSum("Z0 + Z1 + 0.5 X0 X1")
    >>> pool = [quantum.Circuit(2).rxy("t", 0, 1), quantum.Circuit(2).ry("t", 0), quantum.Circuit(2).ry("t", 1)]
    >>> result = quantum.AdaptVQE(h, pool, quantum.Circuit(2).x(0).x(1)).run()
    >>> result.chosen, round(result.energy, 6)
    ((0,), -2.061553)
    """

    def __init__(
        self,
        hamiltonian: PauliSum | str,
        pool: Sequence[Circuit],
        reference: Circuit,
        *,
        tolerance: float = 1e-3,
        max_elements: int = 100,
        optimizer: Any = "bfgs",
        simulator: str = "statevector",
        seed: int = 0,
    ):
        self.hamiltonian, self.reference = (
            check_hamiltonian("AdaptVQE", hamiltonian),
            check_ansatz("AdaptVQE", reference, "the reference").copy(),
        )
        if reference.parameters:
            raise ParameterError(
                f"AdaptVQE: the reference must have no parameters, got {list(reference.parameters)[:4]} (bind() them)"
            )
        if isinstance(pool, Circuit):
            raise CircuitError("AdaptVQE: the pool must be a sequence of Circuits, got one Circuit")
        self.pool = tuple(pool)
        if not self.pool:
            raise CircuitError("AdaptVQE: the pool must have at least one element")
        for k, element in enumerate(self.pool):
            if len(check_ansatz("AdaptVQE", element, f"pool[{k}]").parameters) != 1:
                raise ParameterError(
                    f"AdaptVQE: every element of the pool must have one parameter, pool[{k}] has "
                    f"{len(element.parameters)}"
                )
            if element.num_qubits > reference.num_qubits:
                raise CircuitError(
                    f"AdaptVQE: pool[{k}] is on {element.num_qubits} qubits, the reference on {reference.num_qubits}"
                )
        if not tolerance > 0 or max_elements < 1:
            raise ParameterError(
                f"AdaptVQE: tolerance must be positive and max_elements at least 1, got {tolerance} and {max_elements}"
            )
        self.tolerance, self.max_elements = tolerance, max_elements
        self.optimizer, self.seed = find(optimizer, seed=seed), seed
        self.simulator = simulator
        self._energy(reference)  # does it fit? it says so now
        self._all = Circuit(reference.num_qubits)
        for k, element in enumerate(self.pool):
            self._all.extend(element.rename({element.parameters[0]: f"pool{k}"}))

    def _energy(self, ansatz: Circuit) -> Expectation:
        return Expectation(ansatz, self.hamiltonian, simulator=self.simulator)

    def __repr__(self) -> str:
        return f"<AdaptVQE: {self.reference.num_qubits} qubits, {len(self.pool)} elements in the pool>"

    def run(
        self, *, report: Reports = None, progress: bool | None = None, checkpoint: str | os.PathLike | None = None
    ) -> AdaptResult:
        """Grow the ansatz and optimize its angles.

        Parameters
        ----------
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``energy``, ``slope`` and
            ``elements``; see `core.report`. A
            reporter that raises StopIteration ends the run, with its reason as the message.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the values so far, written about once a second and at the end. If it exists, the run resumes from
            it bit for bit.

        Returns
        -------
        AdaptResult

        Raises
        ------
        CheckpointError
            If the checkpoint belongs to another run; the message names what differs.
        """
        ansatz, theta, evaluations = self.reference.copy(), np.zeros(0), 0
        chosen: list[int] = []
        history: list[float] = []
        largest: list[float] = []
        journal = Journal(
            "AdaptVQE.run",
            checkpoint,
            {
                **describe(self._energy(self.reference + self._all)),
                "tolerance": self.tolerance,
                "max_elements": self.max_elements,
                "optimizer": repr(self.optimizer),
                "seed": self.seed,
            },
        )
        with Steps("AdaptVQE.run", report, progress, journal, unit="element") as steps:
            while True:
                energy = self._energy(ansatz + self._all)
                at = np.concatenate([theta, np.zeros(len(self.pool))])
                found = journal(
                    at,
                    lambda energy=energy, at=at: np.concatenate(  # type: ignore[misc]
                        [np.ravel(x) for x in energy.value_and_grad(at)]
                    ),
                )
                evaluations += 1
                slopes = np.abs(found[1 + theta.size :])
                best = int(np.argmax(slopes))
                history.append(float(found[0]))
                largest.append(float(slopes[best]))
                steps(
                    {"energy": history[-1], "slope": largest[-1], "elements": len(chosen)},
                    f"{history[-1]:.8f}, slope {slopes[best]:.1e}",
                )
                if slopes[best] <= self.tolerance:
                    converged, message = True, f"no slope is above {self.tolerance:g}"
                    break
                if len(chosen) >= self.max_elements:
                    converged, message = False, f"the limit of {self.max_elements} elements was reached"
                    break
                if len(chosen) > 1 and history[-2] - history[-1] < 1e-12:
                    converged, message = (
                        False,
                        f"the optimizer no longer lowers the energy, at a slope of {slopes[best]:.1e}",
                    )
                    break
                if steps.stopped:
                    converged, message = False, steps.stopped
                    break
                element = self.pool[best]
                ansatz = ansatz + element.rename({element.parameters[0]: f"t{len(chosen)}"})
                chosen.append(best)
                lowest = descend(self._energy(ansatz), np.append(theta, 0.0), self.optimizer, Unreported(journal))
                theta, evaluations = lowest.theta, evaluations + lowest.evaluations
        return AdaptResult(
            history[-1],
            theta,
            ansatz,
            tuple(chosen),
            np.array(history),
            np.array(largest),
            evaluations,
            converged,
            message,
        )
