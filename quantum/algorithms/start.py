"""Checked arguments of variational algorithms, and their initial angles."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from triskele.core import random
from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import CircuitError, OperatorError, ParameterError
from ..operators.pauli import PauliSum

__all__ = ["check_ansatz", "check_data", "check_hamiltonian", "random_angles", "start"]


def check_ansatz(where: str, circuit: Any, what: str = "the ansatz") -> Circuit:
    """The circuit, if it is one that has trainable parameters alone."""
    check.kind(circuit, Circuit, f"{where}: {what}", error=CircuitError)
    if circuit.data:
        raise ParameterError(
            f"{where}: {what} has unbound data parameters {_some(circuit.data)} (bind() them; to "
            f"train on data use Classifier)"
        )
    return circuit


def check_hamiltonian(where: str, hamiltonian: Any) -> PauliSum:
    """The Hamiltonian, if it is a Hermitian Pauli sum or the text of one."""
    if isinstance(hamiltonian, str):
        hamiltonian = PauliSum(hamiltonian)
    check.kind(
        hamiltonian, PauliSum, f"{where}: the Hamiltonian", error=OperatorError, hint="a molecule has a .hamiltonian"
    )
    if not hamiltonian.is_hermitian:
        raise OperatorError(f"{where}: the Hamiltonian must be Hermitian, got coefficients that are not real")
    return hamiltonian


def check_data(where: str, x: Any, names: tuple[str, ...]) -> np.ndarray:
    """Data as a finite (N, D) float64 array with a column for each name."""
    try:
        array = np.asarray(x, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{where}: data must be an array of real numbers, got {type(x).__name__}") from None
    check.shape(
        array, ("N", len(names)), f"{where}: data", error=ParameterError, hint=f"a column for each of {_some(names)}"
    )
    return check.finite(array, f"{where}: data", error=ParameterError)


def start(where: str, ansatz: Circuit, initial: Any, seed: int) -> np.ndarray:
    """Return the initial angles (P,), in the order of `ansatz.parameters`.

    `initial` is an array (P,), a dict by name, "random" or None, which stands for zeros. Errors begin with `where`.
    """
    names = ansatz.parameters
    if initial is None:
        return np.zeros(len(names))
    if isinstance(initial, str):
        if initial != "random":
            raise ParameterError(f"{where}: initial must be angles, 'random' or None (zeros), got {initial!r}")
        return random_angles(len(names), seed)
    if isinstance(initial, Mapping):
        if missing := [n for n in names if n not in initial]:
            raise ParameterError(f"{where}: initial has no value for {_some(missing)}")
        values = ansatz.named(initial)
        return np.array([values[n] for n in names])
    try:
        theta = np.array(initial, np.float64)
    except (TypeError, ValueError):
        raise ParameterError(f"{where}: initial must be angles, 'random' or None (zeros), got {initial!r}") from None
    check.shape(
        theta,
        (len(names),),
        f"{where}: initial",
        error=ParameterError,
        hint="an angle for each parameter of the ansatz",
    )
    if not np.all(np.isfinite(theta)):
        raise ParameterError(
            f"{where}: initial angles must be finite, got {theta[~np.isfinite(theta)][0]} for "
            f"{names[int(np.argmin(np.isfinite(theta)))]!r}"
        )
    return theta


def random_angles(number: int, seed: int) -> np.ndarray:
    """Angles from -pi to pi."""
    return np.pi * (2.0 * random.uniform(random.key(seed), (number,), dtype=np.float64) - 1.0)


def _some(names: Any) -> str:
    names = list(names)
    return str(names[:4])[:-1] + (", ...]" if len(names) > 4 else "]")
