"""The variational quantum eigensolver."""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from triskele.core.extend import Reports, dataframe, html_facts, plots

from ..circuit import Circuit
from ..expectation.expectation import Expectation
from ..operators.pauli import PauliSum
from ..optimizers.journal import Journal, describe
from ..optimizers.minimize import Steps, descend, find
from .start import check_ansatz, check_hamiltonian, start

__all__ = ["VQE", "VQEResult"]


@dataclass(frozen=True)
class VQEResult:
    """Result of a `VQE`.

    Attributes
    ----------
    energy : float
        The lowest energy that was reached.
    theta : (P,) float64 array
        Its angles, in the order of `ansatz.parameters`.
    history : (steps + 1,) float64 array
        Energy at the start and after each step.
    evaluations : int
        Energies computed, with or without their gradients.
    converged : bool
        True if the optimizer's criterion was met.
    message : str
        Reason for stopping.
    ansatz : Circuit
        ``quantum.run(result.ansatz, result.theta)`` is the state.
    """

    energy: float
    theta: np.ndarray
    history: np.ndarray
    evaluations: int
    converged: bool
    message: str
    ansatz: Circuit

    def to_dataframe(self) -> Any:
        """Return the history as a pandas DataFrame: ``energy`` by ``step``."""
        return dataframe({"energy": self.history}, "step")

    def plot(self, ax: Any = None, *, reference: float | None = None, **line: Any) -> Any:
        """Draw the energy over the steps.

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
        with plots.axes(ax, xlabel="step", ylabel="energy") as ax:
            plots.curves(ax, None, {"energy": self.history}, reference=reference, **line)
        return ax

    def _repr_html_(self) -> str:
        return html_facts(
            "VQEResult",
            {
                "energy": f"{self.energy:.8f}",
                "steps": len(self.history) - 1,
                "parameters": len(self.theta),
                "converged": self.converged,
                "evaluations": self.evaluations,
                "message": self.message,
            },
        )

    def __repr__(self) -> str:
        end = "converged" if self.converged else "NOT converged"
        return (
            f"<VQEResult: energy {self.energy:.8f}, {end} after {len(self.history) - 1} steps, {self.evaluations} "
            f"evaluations>"
        )


class VQE:
    """Variational quantum eigensolver: minimize the energy of an ansatz over its angles [1]_.

    Parameters
    ----------
    hamiltonian : PauliSum or str
        Hermitian operator.
    ansatz : Circuit
        Circuit with parameters, such as `quantum.uccsd` or `quantum.hardware_efficient`. Noisy circuits need
        ``simulator="density_matrix"``, and those that keep the number of particles are fastest with
        ``simulator="subspace"``.
    initial : (P,) array, dict by name, or "random", optional
        Initial angles. Defaults to zeros, which is the Hartree-Fock state for `uccsd` but often a stationary point of
        other ansatzes; use `"random"` there.
    optimizer : str or object
        See `quantum.minimize`: `"bfgs"`, `"cobyla"`, `"adam"`, `"spsa"`, `"rotosolve"`, `"natural-gradient"`, ... or an
        optimizer.
    max_steps : int, optional
        Overrides the optimizer's own limit.
    simulator, dtype, shots
        See `Expectation`. In complex64 line searches end, not converged, where rounding hides the slope: about 1e-7 of
        the Hamiltonian's size in energy.
    gradient : str, optional
        "adjoint" or "parameter_shift". Defaults to "adjoint" where it is available (see `Expectation`).
    seed : int
        Seed of random angles, shots and stochastic optimizers.

    Raises
    ------
    CircuitError, OperatorError, ParameterError, OptimizerError
        If an argument is invalid or does not match the others. All arguments are checked before anything is computed.

    References
    ----------
    .. [1] Peruzzo et al., "A variational eigenvalue solver on a photonic quantum processor", Nat. Commun. 5, 4213
       (2014). doi:10.1038/ncomms5213

    Examples
    --------
    >>> from triskele import quantum
    >>> h = quantum.PauliSum("-1.0 Z0 Z1 - 0.5 X0 - 0.5 X1")
    >>> ansatz = quantum.Circuit(2).ry("a", 0).ry("b", 1).cx(0, 1).ry("c", 1)
    >>> result = quantum.VQE(h, ansatz, initial="random").run()
    >>> round(result.energy, 6), result.converged
    (-1.414214, True)
    """

    def __init__(
        self,
        hamiltonian: PauliSum | str,
        ansatz: Circuit,
        *,
        initial: Any = None,
        optimizer: Any = "bfgs",
        max_steps: int | None = None,
        simulator: str = "statevector",
        dtype: Any = np.complex128,
        gradient: str | None = None,
        shots: int | None = None,
        seed: int = 0,
    ):
        self.ansatz = ansatz = check_ansatz("VQE", ansatz).copy()
        self.optimizer, self.seed = find(optimizer, max_steps, seed), seed
        self.theta = start("VQE", ansatz, initial, seed)
        self.energy = Expectation(
            ansatz,
            check_hamiltonian("VQE", hamiltonian),
            simulator=simulator,
            dtype=dtype,
            gradient=gradient,
            shots=shots,
            seed=seed,
        )
        self._zeros = initial is None

    def __repr__(self) -> str:
        return f"<VQE: {self.ansatz.num_qubits} qubits, {len(self.ansatz.parameters)} parameters>"

    def run(
        self, *, report: Reports = None, progress: bool | None = None, checkpoint: str | os.PathLike | None = None
    ) -> VQEResult:
        """Optimize the angles.

        Parameters
        ----------
        report : function or list of functions, optional
            Called after every step with a dictionary of ``step`` and ``energy``; see `core.report`. A
            reporter that raises StopIteration ends the run, with its reason as the message.
        progress : bool, optional
            Show a progress bar. By default only on terminals and in notebooks.
        checkpoint : path-like, optional
            File of the values so far, written about once a second and at the end. If it exists, the run resumes from
            it bit for bit.

        Returns
        -------
        VQEResult

        Raises
        ------
        CheckpointError
            If the checkpoint belongs to another run; the message names what differs.
        """
        journal = Journal(
            "VQE.run",
            checkpoint,
            {
                **describe(self.energy),
                "theta": self.theta.tolist(),
                "optimizer": repr(self.optimizer),
                "seed": self.seed,
            },
        )
        total = self.optimizer.max_steps if self.optimizer.max_steps < 1000 else None
        with Steps("VQE.run", report, progress, journal, total=total) as steps:
            found = descend(self.energy, self.theta, self.optimizer, steps, name="energy")
        if self._zeros and found.converged and found.theta.size and not np.any(found.theta):
            warnings.warn(
                "VQE: zero angles are a stationary point of this ansatz, so nothing was optimized "
                '(initial="random" starts elsewhere)',
                stacklevel=2,
            )
        return VQEResult(
            found.value, found.theta, found.history, found.evaluations, found.converged, found.message, self.ansatz
        )
