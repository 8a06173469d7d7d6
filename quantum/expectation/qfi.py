"""The quantum Fisher information of a circuit's state, and the natural gradient."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..compile.lower import lower
from ..errors import ParameterError, SimulatorError
from .statevector.functions import push_functions
from .statevector.scalar_dual import forward_dual, push_recipes
from .statevector.sweeps import Sweeps, push_angles

__all__ = ["natural_gradient", "qfi"]

_MOST_BYTES = 1 << 33


def qfi(circuit: Any, theta: Any = None, data: Any = None, *, initial: Any = None) -> np.ndarray:
    """Quantum Fisher information of the state after a circuit: 4 Re(<d_i psi|d_j psi> - <d_i psi|psi><psi|d_j psi>).

    It is four times the Fubini-Study metric. The derivatives of the state are found together by one sweep with
    tangents.

    Parameters
    ----------
    circuit : Circuit
        A circuit of gates.
    theta : (P,) array, or dict by name
    data : (D,) array, or dict by name, optional
    initial : (2**n,) complex array, optional
        Initial state. Defaults to |0...0>.

    Returns
    -------
    (P, P) float64 array, symmetric and positive semidefinite

    Raises
    ------
    ParameterError
        If values are missing, of the wrong number, or not finite.
    SimulatorError
        If the derivatives of the state do not fit in memory.

    References
    ----------
    Stokes, Izaac, Killoran, Carleo, "Quantum natural gradient", Quantum 4, 269 (2020), arXiv:1909.02108, eq. (11).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(1).ry("a", 0).rz("b", 0)
    >>> np.abs(quantum.qfi(circuit, np.array([0.5, 0.1]))).round(6).tolist()  # diag(1, sin(a)**2)
    [[1.0, 0.0], [0.0, 0.229849]]
    """
    program = lower(circuit, fuse=False)
    values = program.values(theta, data)
    count, size = len(program.parameters), 1 << program.num_qubits
    if count * size * 16 > _MOST_BYTES:
        raise SimulatorError(
            f"qfi: derivatives of the state with respect to {count} parameters need {count * size * 16 / 2**30:.1f} GiB"
        )
    sweeps = Sweeps(program)
    angles, c = sweeps.coefficients(values)
    state, slopes = sweeps.start(initial), np.zeros((count, size), np.complex128)
    for k in range(count):
        d_values, d_angles, d_c = np.zeros(len(values)), np.zeros_like(angles), np.zeros_like(c)
        d_values[k] = 1.0
        push_angles(program, d_values, d_angles)
        push_recipes(program.recipes, angles, d_angles, d_c)
        push_functions(program, values, d_angles, d_c)
        psi = state.copy()
        forward_dual(program.ops, sweeps.wanted, c, d_c, psi, slopes[k])
    if not count:
        return np.zeros((0, 0))
    along = slopes @ psi.conj()  # <psi|d_i psi>
    metric = 4 * (np.conj(slopes) @ slopes.T - np.outer(along.conj(), along)).real
    return 0.5 * (metric + metric.T)


def natural_gradient(energy: Any, theta: Any, data: Any = None, *, regularization: float = 1e-6) -> np.ndarray:
    """The direction of steepest ascent of an energy in the space of states: (F / 4 + regularization)^-1 times the
    gradient, F being `qfi`.

    Parameters
    ----------
    energy : Expectation
        An expectation value of a single operator.
    theta : (P,) array
    data : (D,) array, optional
    regularization : float
        Added to the diagonal of the Fubini-Study metric, which is singular where parameters are redundant.

    Returns
    -------
    (P,) float64 array

    Raises
    ------
    ParameterError
        If the energy has several operators, or the regularization is negative.

    References
    ----------
    Stokes, Izaac, Killoran, Carleo, "Quantum natural gradient", Quantum 4, 269 (2020), arXiv:1909.02108, eq. (4).

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import natural_gradient
    >>> from triskele import quantum
    >>> energy = quantum.Expectation(quantum.Circuit(1).ry("a", 0), quantum.PauliSum("Z0"))
    >>> natural_gradient(energy, np.array([0.5])).round(4).tolist()  # 4 times the gradient: the metric is 1/4
    [-1.9177]
    """
    if energy.is_list:
        raise ParameterError(f"natural_gradient: an energy of one operator is needed, got {energy.size}")
    if not regularization >= 0:
        raise ParameterError(f"natural_gradient: regularization must be at least 0, got {regularization}")
    metric = 0.25 * qfi(energy.circuit, theta, data, initial=energy.initial)
    return np.linalg.solve(metric + regularization * np.eye(len(metric)), energy.gradient(theta, data))
