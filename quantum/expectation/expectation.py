"""Expectation values of Hermitian operators after a circuit, as differentiable functions of everything they depend
on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..circuit import Circuit
from ..errors import CircuitError, OperatorError, ParameterError, SimulatorError
from ..operators.pauli import PauliSum
from ..parameters import LARGEST
from ..shots.sampling import check_observable, check_shots
from ..simulators.registry import find
from .autodiff import BatchedEngine, expect
from .engine import Engine
from .engine import find as find_engine
from .parameter_shift import Sampled

__all__ = ["Expectation"]


class Expectation:
    """<psi|H|psi> with psi = U(theta, data)|initial>, as a function of theta, data, coefficients of H, and the initial
    state.

    `core.grad`, `vjp`, `jvp`, `hessian`, `vmap` and `jit` see it as one operation, with respect to all four.

    Parameters
    ----------
    circuit : Circuit
        Circuit of gates and barriers.
    hamiltonians : PauliSum, or list of PauliSum
        Hermitian operators. One operator gives a value of shape (), a list of m operators gives (m,).
    simulator : str
        "statevector"; "subspace" for circuits that keep the number of particles; "density_matrix" for circuits with
        channels, where the value is Tr(H rho); or any other simulator of `quantum.run`, with parameter shift.
    dtype : complex128 or complex64
        Data type of the state. Values and gradients are float64.
    gradient : str, optional
        "adjoint" (exact; for state vectors, subspaces and density matrices without shots), or "parameter_shift": from
        values at shifted angles, for any simulator, and for shots. Defaults to "adjoint" where it is available.
    shots : int, optional
        Number of measurements of each group of terms, or of trajectories. Qubits are read with the errors of the noise
        model. Values are exact by default.
    seed : int
        Seed of the shots. The same seed and the same sequence of calls give the
        same values.
    initial : (2**n,) array, optional
        Initial state. Defaults to |0...0>.

    Raises
    ------
    OperatorError
        If an operator is not Hermitian, or acts on qubits that the circuit does not have.
    SimulatorError
        If the circuit measures, resets, or has channels or conditions.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core, quantum
    >>> circuit = quantum.Circuit(2).ry("a", 0).cx(0, 1).rz("b", 1)
    >>> energy = quantum.Expectation(circuit, quantum.PauliSum("Z0 Z1 + 0.5 X0 X1"))
    >>> theta = np.array([0.3, 0.7])
    >>> energy(theta).round(6), energy.gradient(theta).round(6)
    (np.float64(1.113013), array([ 0.365341, -0.09519 ]))
    >>> bool(np.allclose(core.grad(energy)(theta), energy.gradient(theta)))
    True
    """

    def __init__(
        self,
        circuit: Circuit,
        hamiltonians: PauliSum | str | Sequence[PauliSum | str],
        *,
        simulator: str = "statevector",
        dtype: Any = np.complex128,
        gradient: str | None = None,
        shots: int | None = None,
        seed: int = 0,
        initial: Any = None,
    ):
        self.circuit = check.kind(circuit, Circuit, "Expectation: circuit", error=CircuitError)
        several = [hamiltonians] if isinstance(hamiltonians, (PauliSum, str)) else hamiltonians
        self.is_list = several is hamiltonians
        self.hamiltonians = tuple(PauliSum(h) for h in several)
        if not self.hamiltonians:
            raise OperatorError("Expectation: at least one operator is needed, got none")
        for h in self.hamiltonians:
            check_observable(h, circuit.num_qubits, "Expectation")
        dtype = np.dtype(dtype)
        if dtype not in (np.complex128, np.complex64):
            raise SimulatorError(f"Expectation: dtype must be complex128 or complex64, got {dtype}")
        self.single = dtype == np.complex64
        self.initial = None if initial is None else _state(initial, circuit.num_qubits)
        self._initials = _NO_STATE if self.initial is None else self.initial[None]
        self.parameters, self.data = circuit.parameters, circuit.data
        kind = find_engine(simulator) if gradient in (None, "adjoint") and shots is None else None
        self._engine: Engine = (
            _sampled(circuit, self.hamiltonians, simulator, dtype.type, gradient, shots, seed)
            if kind is None
            else kind(circuit, self.hamiltonians, self.single, self.initial)
        )
        if not self._engine.takes_start:
            self.initial, self._initials = None, _NO_STATE
        self._batched = BatchedEngine(self._engine, self.hamiltonians, self.parameters + self.data)
        self.circuit = circuit.copy()  # what is added to the circuit from now on is not part of this
        self._shape = (len(self.parameters),)

    @property
    def size(self) -> int:
        """Number of operators."""
        return len(self.hamiltonians)

    def __repr__(self) -> str:
        return f"Expectation({self.circuit!r}, {self.size} operator{'s' if self.size > 1 else ''})"

    @property
    def stream(self) -> Any:
        """The stream of shots, whose `position` counts the values drawn; None where values are exact."""
        return self._engine if getattr(self._engine, "shots", None) is not None else None

    @property
    def method(self) -> list[Any]:
        """Engine, precision, shots and seed: what values depend on next to circuit and operators."""
        engine = self._engine
        return [
            type(engine).__name__,
            getattr(engine, "simulator", ""),
            "single" if self.single else "double",
            getattr(engine, "shots", None),
            getattr(engine, "seed", 0),
        ]

    # -- what users call --------------------------------------------------------------------------------------------

    def __call__(self, theta: Any = None, data: Any = None, *, coefficients: Any = None, initial: Any = None) -> Any:
        """Return the expectation value.

        Parameters
        ----------
        theta : (P,) array, or dict by name, optional
            Values of `parameters` in order; (B, P) is a batch.
        data : (D,) or (B, D) array, or dict by name, optional
            Values of `data` in order; (B, D) is a batch.
        coefficients : (T,) array, or list of arrays, optional
            Coefficients that replace those of the operator's terms, in order; one array for each operator of a list.
        initial : (2**n,) complex array, optional
            Initial state. It is not normalized.

        Returns
        -------
        float64, of shape () for one operator, (m,) for a list; with a batch (B,) or (B, m)

        Raises
        ------
        ParameterError
            If values are missing, of the wrong number, or not finite.
        """
        if (
            type(theta) is np.ndarray
            and (data is None or type(data) is np.ndarray)
            and coefficients is None
            and initial is None
        ):
            values, batched = self._plain(theta, data)
            out = self._engine.values(values, self._initials)
            if not batched:
                return out[0] if self.is_list else out[0, 0]
            return out if self.is_list else out[:, 0]
        inputs, batched = self._inputs(theta, data, coefficients, initial)
        out = expect(*inputs, energy=self._batched)
        out = out if batched else out[0]
        return out if self.is_list else out[..., 0]

    def gradient(self, theta: Any = None, data: Any = None) -> np.ndarray:
        """Return the gradient with respect to theta: (P,), or (m, P) for a list; a batch adds a leading axis."""
        return self.value_and_grad(theta, data)[1]

    def value_and_grad(self, theta: Any = None, data: Any = None) -> tuple[Any, np.ndarray]:
        """Return the value and its gradient with respect to theta: (P,), or (m, P) for a list; a batch adds a leading
        axis.
        """
        values, batched = self._plain(theta, data)
        values, gradients = self._engine.jacobian(values, self._initials)
        if self.data:
            gradients = gradients[..., : len(self.parameters)]
        if not batched:
            return (values[0], gradients[0]) if self.is_list else (values[0, 0], gradients[0, 0])
        return (values, gradients) if self.is_list else (values[:, 0], gradients[:, 0])

    def hessian(self, theta: Any = None, data: Any = None) -> np.ndarray:
        """Return second derivatives with respect to theta: (P, P), or (m, P, P) for a list; a batch adds a leading
        axis.

        Exact: by parameter shift of adjoint gradients, which run in vector code, where every gate has a shift rule and
        there are not many gates to a parameter; else, as for `core.hessian`, by sweeps with tangents (forward over
        adjoint), one a parameter.
        """
        from triskele import core

        (theta, data, *_), batched = self._inputs(theta, data, None, None)
        rows = self._batched.rows(theta, data)
        found = [h for v in rows if (h := self._engine.hessian(v, self._initials)) is not None]
        if found:
            all_ = np.stack(found) if self.is_list else np.stack(found)[:, 0]
            return all_ if batched else all_[0]
        second = core.jacfwd(core.jacrev(lambda t, d: self(t, d if self.data else None)))
        if not batched:
            return second(theta[0], data[0])
        return core.vmap(second, in_axes=tuple(0 if len(a) > 1 else None for a in (theta, data)))(
            *(a if len(a) > 1 else a[0] for a in (theta, data))
        )

    def _plain(self, theta: Any, data: Any) -> tuple[np.ndarray, bool]:
        """Return checked values (B, V) of arguments other than tracers, and whether there is a batch."""
        if (
            type(theta) is np.ndarray
            and data is None
            and not self.data
            and theta.dtype == np.float64
            and theta.shape == self._shape
        ):
            # the common case, in as few steps as it takes
            values = theta[None] if theta.flags.c_contiguous else theta.copy()[None]
            return values if theta.dot(theta) <= LARGEST**2 else self._batched.finite(values), False
        inputs, batched = self._inputs(theta, data, None, None)
        return self._batched.rows(inputs[0], inputs[1]), batched

    # -- arguments --------------------------------------------------------------------------------------------------

    def _inputs(self, theta: Any, data: Any, coefficients: Any, initial: Any) -> tuple[list[Any], bool]:
        """The four inputs with a batch axis each, and whether there is a batch."""
        theta, data = self._named(theta, self.parameters, "theta"), self._named(data, self.data, "data")
        batched = np.ndim(theta) == 2 or np.ndim(data) == 2
        if coefficients is None:
            coefficients = np.zeros((1, 0))
        else:
            given = coefficients if self.is_list and isinstance(coefficients, (list, tuple)) else [coefficients]
            if len(given) != self.size or any(
                np.shape(c) != (len(h),) for c, h in zip(given, self.hamiltonians, strict=False)
            ):
                wanted = [len(h) for h in self.hamiltonians] if self.is_list else len(self.hamiltonians[0])
                raise OperatorError(
                    f"Expectation: coefficients must be one number for each term ({wanted}), got shape "
                    f"{[np.shape(c) for c in given]}"
                )
            coefficients = np.concatenate([_real(c) for c in given])[None]
        if initial is None:
            initial = np.zeros((1, 0), complex) if self.initial is None else self.initial[None]
        else:
            if not self._engine.takes_start:
                raise SimulatorError(
                    "Expectation: with this simulator the initial state is fixed, got one as an "
                    "argument (give it to Expectation(...))"
                )
            check.shape(
                initial, (1 << self.circuit.num_qubits,), "Expectation: the initial state", error=SimulatorError
            )
            initial = (initial + 0j)[None]
        rows = [a if np.ndim(a) == 2 else a[None] for a in (theta, data)]
        return [*rows, coefficients, initial], batched

    def _named(self, given: Any, names: tuple[str, ...], what: str) -> Any:
        if given is None:
            if names:
                raise ParameterError(
                    f"Expectation: {what} must have a value for "
                    f"{', '.join(names[:5])}{' ...' if len(names) > 5 else ''}, got none"
                )
            return np.zeros(0)
        if isinstance(given, Mapping):
            if unknown := [n for n in given if n not in names]:
                raise ParameterError(
                    f"Expectation: {what} has no {unknown[0]!r} (the circuit's are {', '.join(names) or 'none'})"
                )
            if missing := [n for n in names if n not in given]:
                raise ParameterError(f"Expectation: {what} must have a value for {missing[0]!r}")
            given = np.stack([_real(given[n]) for n in names]) if names else np.zeros(0)
        given = _real(given)
        if np.ndim(given) not in (1, 2) or np.shape(given)[-1] != len(names):
            shape = f"({len(names)},) or (batch, {len(names)})"
            raise ParameterError(
                f"Expectation: {what} must have shape {shape}, one for each of "
                f"{', '.join(names[:5]) or 'none'}{' ...' if len(names) > 5 else ''}, got "
                f"{np.shape(given)}"
            )
        return given


def _sampled(
    circuit: Any, hamiltonians: Any, simulator: str, dtype: Any, gradient: str | None, shots: Any, seed: Any
) -> Sampled:
    check.choice(gradient, (None, "adjoint", "parameter_shift"), "Expectation: gradient", error=SimulatorError)
    if gradient == "adjoint":
        why = f"shots={shots}" if shots is not None else f"simulator={simulator!r}"
        raise SimulatorError(
            f"Expectation: with {why} the adjoint method does not support gradients (give gradient='parameter_shift')"
        )
    if shots is not None:
        check_shots(shots, "Expectation")
    find(simulator)
    return Sampled(circuit, hamiltonians, simulator, dtype, shots, seed)


def _real(a: Any) -> Any:
    """float64, traced or not."""
    from triskele import core

    if isinstance(a, core.Tensor):
        return a if a.dtype == np.float64 else a.astype(np.float64)
    if np.iscomplexobj(a):
        raise ParameterError(f"Expectation: angles and coefficients must be real, got {np.asarray(a).dtype}")
    return np.asarray(a, np.float64)


_NO_STATE = np.zeros((0, 0), np.complex128)


def _state(initial: Any, n: int) -> np.ndarray:
    state = check.shape(
        np.array(initial, np.complex128), (1 << n,), "Expectation: the initial state", error=SimulatorError
    )
    if not abs(np.vdot(state, state).real - 1) < 1e-6:
        raise SimulatorError(f"Expectation: the initial state must have norm 1, got {np.linalg.norm(state)}")
    return state
