"""Expectation values of Hermitian operators after a circuit, as differentiable functions of everything they depend on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from triskele.quantum.compile.program import lower
from triskele.quantum.errors import OperatorError, ParameterError, SimulatorError
from triskele.quantum.gradients.observable import compile_observable
from triskele.quantum.gradients.sweeps import Sweeps, apply
from triskele.quantum.gradients.terms import term_values
from triskele.quantum.operators.pauli import PauliSum

__all__ = ["Expectation"]


class Expectation:
    """<psi|H|psi> with psi = U(theta, data)|initial>, as a function of theta, data, coefficients of H, and the initial state.

    `core.grad`, `vjp`, `jvp`, `hessian`, `vmap` and `jit` see it as one operation, with respect to all four.

    Parameters
    ----------
    circuit : Circuit
        Gates and barriers.
    hamiltonians : PauliSum, or list of PauliSum
        Hermitian. One gives a value of shape (), a list of m gives (m,).
    initial : (2**n,) array, optional
        The state before the circuit; |0...0> when left out.

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
    (np.float64(1.113012), array([ 0.36533 , -0.09519]))
    >>> core.hessian(energy)(theta).round(6)
    """

    def __init__(self, circuit: Any, hamiltonians: PauliSum | Sequence[PauliSum], *, initial: Any = None):
        self.circuit = circuit
        self.is_list = not isinstance(hamiltonians, (PauliSum, str))
        self.hamiltonians = tuple(PauliSum(h) for h in (hamiltonians if self.is_list else [hamiltonians]))
        if not self.hamiltonians:
            raise OperatorError("Expectation: at least one operator is needed, got none")
        n = circuit.num_qubits
        self.observables = [compile_observable(h, n) for h in self.hamiltonians]
        self.program = lower(circuit, fuse=False)
        self.parameters, self.data = self.program.parameters, self.program.data
        self.initial = None if initial is None else _state(initial, n)
        self._sweeps = Sweeps(self.program)
        self._ends = np.cumsum([len(h) for h in self.hamiltonians])

    @property
    def size(self) -> int:
        """Number of operators."""
        return len(self.hamiltonians)

    def __repr__(self) -> str:
        return f"Expectation({self.circuit!r}, {self.size} operator{'s' if self.size > 1 else ''})"

    # -- what users call --------------------------------------------------------------------------------------------

    def __call__(self, theta: Any = None, data: Any = None, *, coefficients: Any = None, initial: Any = None) -> Any:
        """The value.

        Parameters
        ----------
        theta : (P,) array, or dict by name, optional
            In the order of `parameters`. (B, P) is a batch.
        data : (D,) or (B, D) array, or dict by name, optional
            In the order of the circuit's data; (B, D) is a batch.
        coefficients : (T,) array, or list of such, optional
            Coefficients of the operator's terms in their order, in place of its own: one array for each of a list of operators.
        initial : (2**n,) complex array, optional
            The state before the circuit. It is not normalised here.

        Returns
        -------
        float64, of shape () for one operator, (m,) for a list; with a batch (B,) or (B, m)

        Raises
        ------
        ParameterError
            If values are missing, of the wrong number, or not finite.
        """
        from triskele.quantum.gradients.rules import expect

        inputs, batched = self._inputs(theta, data, coefficients, initial)
        out = expect(*inputs, energy=self)
        out = out if batched else out[0]
        return out if self.is_list else out[..., 0]

    def gradient(self, theta: Any = None, data: Any = None) -> np.ndarray:
        """Gradient with respect to theta: (P,), for a list (m, P), with a batch axis before these."""
        return self.value_and_grad(theta, data)[1]

    def value_and_grad(self, theta: Any = None, data: Any = None) -> tuple[Any, np.ndarray]:
        """The value, and its gradient with respect to theta: (P,), for a list (m, P), with a batch axis before these."""
        inputs, batched = self._inputs(theta, data, None, None)
        values, gradients = self._jacobian(*(np.asarray(i) for i in inputs))
        if not batched:
            values, gradients = values[0], gradients[0]
        return (values, gradients) if self.is_list else (values[..., 0], gradients[..., 0, :])

    def hessian(self, theta: Any = None, data: Any = None) -> np.ndarray:
        """Second derivatives with respect to theta, (P, P), for a list (m, P, P).

        They come from sweeps with tangents (forward over adjoint), one for each parameter: exact, and for each cheaper than
        the shifted gradients at +-pi/2 of every gate that parameter shift would need.
        """
        from triskele import core

        return core.hessian(lambda t: self(t, data))(np.asarray(theta, float))

    # -- arguments --------------------------------------------------------------------------------------------------

    def _inputs(self, theta: Any, data: Any, coefficients: Any, initial: Any) -> tuple[list[Any], bool]:
        """The four inputs with a batch axis each, and whether there is a batch."""
        theta, data = self._named(theta, self.parameters, "theta"), self._named(data, self.data, "data")
        batched = np.ndim(theta) == 2 or np.ndim(data) == 2
        if coefficients is None:
            coefficients = np.zeros((1, 0))
        else:
            given = coefficients if self.is_list and isinstance(coefficients, (list, tuple)) else [coefficients]
            if len(given) != self.size or any(np.shape(c) != (len(h),) for c, h in zip(given, self.hamiltonians, strict=False)):
                wanted = [len(h) for h in self.hamiltonians] if self.is_list else len(self.hamiltonians[0])
                raise OperatorError(f"Expectation: coefficients must be one number for each term ({wanted}), got shape {[np.shape(c) for c in given]}")
            coefficients = np.concatenate([_real(c) for c in given])[None]
        if initial is None:
            initial = np.zeros((1, 0), complex) if self.initial is None else self.initial[None]
        else:
            if np.shape(initial) != (1 << self.circuit.num_qubits,):
                raise SimulatorError(f"Expectation: the initial state must have shape ({1 << self.circuit.num_qubits},), got {np.shape(initial)}")
            initial = (initial + 0j)[None]
        rows = [a if np.ndim(a) == 2 else a[None] for a in (theta, data)]
        return [*rows, coefficients, initial], batched

    def _named(self, given: Any, names: tuple[str, ...], what: str) -> Any:
        if given is None:
            if names:
                raise ParameterError(f"Expectation: {what} must have a value for {', '.join(names[:5])}{' ...' if len(names) > 5 else ''}, got none")
            return np.zeros(0)
        if isinstance(given, Mapping):
            if unknown := [n for n in given if n not in names]:
                raise ParameterError(f"Expectation: {what} has no {unknown[0]!r} (the circuit's are {', '.join(names) or 'none'})")
            if missing := [n for n in names if n not in given]:
                raise ParameterError(f"Expectation: {what} must have a value for {missing[0]!r}")
            given = np.stack([_real(given[n]) for n in names]) if names else np.zeros(0)
        given = _real(given)
        if np.ndim(given) not in (1, 2) or np.shape(given)[-1] != len(names):
            shape = f"({len(names)},) or (batch, {len(names)})"
            raise ParameterError(f"Expectation: {what} must have shape {shape}, one for each of {', '.join(names[:5]) or 'none'}{' ...' if len(names) > 5 else ''}, got {np.shape(given)}")
        return given

    # -- numbers: what the operators of `rules` call ----------------------------------------------------------------

    def _examples(self, *inputs: np.ndarray):
        batch = max(len(i) for i in inputs)
        for k in range(batch):
            yield k, [i[k if len(i) > 1 else 0] for i in inputs]

    def _checked(self, theta, data, initial):
        values = np.concatenate([theta, data])
        if not np.isfinite(values).all():
            name = (self.parameters + self.data)[int(np.argmin(np.isfinite(values)))]
            raise ParameterError(f"Expectation: values must be finite, got {values[~np.isfinite(values)][0]} for {name}")
        return values, (initial if len(initial) else None)

    def _observables(self, coefficients):
        if not len(coefficients):
            return self.observables
        parts = np.split(coefficients, self._ends[:-1])
        return [compile_observable(_with(h, c), self.circuit.num_qubits) for h, c in zip(self.hamiltonians, parts, strict=True)]

    def _values(self, *inputs):
        out = np.zeros((max(len(i) for i in inputs), self.size))
        for k, (theta, data, coefficients, initial) in self._examples(*inputs):
            psi = self._sweeps.forward(*self._checked(theta, data, initial))
            out[k] = [apply(h, psi, np.empty_like(psi)) for h in self._observables(coefficients)]
        return out

    def _jacobian(self, *inputs):
        batch = max(len(i) for i in inputs)
        values, gradients = np.zeros((batch, self.size)), np.zeros((batch, self.size, len(self.parameters)))
        for k, (theta, data, coefficients, initial) in self._examples(*inputs):
            at, start = self._checked(theta, data, initial)
            psi = self._sweeps.forward(at, start)
            for i, h in enumerate(self._observables(coefficients)):
                lam = np.empty_like(psi)
                values[k, i] = apply(h, psi, lam)
                gradients[k, i] = self._sweeps.backward(at, psi.copy(), lam)[: len(self.parameters)]
        return values, gradients

    def _pull(self, *inputs):
        batch = max(len(i) for i in inputs)
        out = [np.zeros((batch, i.shape[1]), i.dtype) for i in inputs[:4]]
        for k, (theta, data, coefficients, initial, ct) in self._examples(*inputs):
            at, start = self._checked(theta, data, initial)
            psi = self._sweeps.forward(at, start)
            lam, work = np.zeros_like(psi), np.empty_like(psi)
            for h, c in zip(self._observables(coefficients), ct, strict=True):
                apply(h, psi, work)
                lam += c * work
            if len(coefficients):
                out[2][k] = self._terms(ct, psi, psi)
            g = self._sweeps.backward(at, psi, lam)
            out[0][k], out[1][k] = np.split(g, [len(theta)])
            if len(initial):
                out[3][k] = 2 * lam.conj()
        return out

    def _second(self, *inputs):
        batch = max(len(i) for i in inputs)
        out = [np.zeros((batch, self.size))] + [np.zeros((batch, i.shape[1]), i.dtype) for i in inputs[:4]]
        for k, (theta, data, coefficients, initial, ct, d_theta, d_data, d_coefficients, d_initial) in self._examples(*inputs):
            at, start = self._checked(theta, data, initial)
            d_start = d_initial if len(initial) else np.zeros(self._sweeps.size, complex)
            changes = self._observables(d_coefficients) if len(coefficients) else None
            slopes, g, d_lam, psi, d_psi = self._sweeps.second(at, start, np.concatenate([d_theta, d_data]), d_start, self._observables(coefficients), changes, ct)
            out[0][k] = slopes
            out[1][k], out[2][k] = np.split(g, [len(theta)])
            if len(coefficients):
                out[3][k] = 2 * self._terms(ct, psi, d_psi)
            if len(initial):
                out[4][k] = 2 * d_lam.conj()
        return out

    def _terms(self, ct, bra, ket):
        return np.concatenate([c * term_values(h.x[:, 0].astype(np.int64), h.z[:, 0].astype(np.int64), bra, ket)
                               for h, c in zip(self.hamiltonians, ct, strict=True)])  # fmt: skip


def _with(h: PauliSum, coefficients: np.ndarray) -> PauliSum:
    new = PauliSum.__new__(PauliSum)
    new._set(h.x, h.z, np.asarray(coefficients, complex))
    return new


def _real(a: Any) -> Any:
    """float64, traced or not."""
    from triskele import core

    if isinstance(a, core.Tensor):
        return a if a.dtype == np.float64 else a.astype(np.float64)
    return np.asarray(a, np.float64)


def _state(initial: Any, n: int) -> np.ndarray:
    state = np.array(initial, np.complex128)
    if state.shape != (1 << n,):
        raise SimulatorError(f"Expectation: the initial state must have shape ({1 << n},), got {state.shape}")
    if not abs(np.vdot(state, state).real - 1) < 1e-6:
        raise SimulatorError(f"Expectation: the initial state must have norm 1, got {np.linalg.norm(state)}")
    return state
