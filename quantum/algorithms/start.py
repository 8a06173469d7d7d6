"""Where a variational algorithm starts, and what its ansatz must be like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from triskele.core import random
from triskele.quantum.circuit import Circuit
from triskele.quantum.errors import CircuitError, ParameterError

__all__ = ["check_ansatz", "random_angles", "start"]


def check_ansatz(where: str, ansatz: Any) -> Circuit:
    """The ansatz, if it is a circuit that has trainable parameters alone."""
    if not isinstance(ansatz, Circuit):
        raise CircuitError(f"{where}: the ansatz must be a Circuit, got {type(ansatz).__name__}")
    if ansatz.data:
        raise ParameterError(f"{where}: the ansatz has unbound data parameters {_some(ansatz.data)} (bind() them; to train on data use Classifier)")
    return ansatz


def start(where: str, ansatz: Circuit, initial: Any, seed: int) -> np.ndarray:
    """The angles to start from, in the order of `ansatz.parameters`.

    Parameters
    ----------
    where : str
        Begins the error message.
    ansatz : Circuit
    initial : (P,) array, dict by name, "random" or None
        None means zeros.
    seed : int
        Of random angles.

    Returns
    -------
    (P,) float64 array

    Raises
    ------
    ParameterError
        If there are not as many values as parameters, names are missing or unknown, or values not finite.
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
    if theta.shape != (len(names),):
        raise ParameterError(f"{where}: initial must have one angle for each of the ansatz's {len(names)} parameters, got an array of shape {theta.shape}")
    if not np.all(np.isfinite(theta)):
        raise ParameterError(f"{where}: initial angles must be finite, got {theta[~np.isfinite(theta)][0]} for {names[int(np.argmin(np.isfinite(theta)))]!r}")
    return theta


def random_angles(number: int, seed: int) -> np.ndarray:
    """Angles from -pi to pi."""
    return np.pi * (2.0 * random.uniform(random.key(seed), (number,), dtype=np.float64) - 1.0)


def _some(names: Any) -> str:
    names = list(names)
    return str(names[:4])[:-1] + (", ...]" if len(names) > 4 else "]")
