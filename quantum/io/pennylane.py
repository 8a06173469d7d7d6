"""A PennyLane device with Triskele's simulator and adjoint gradients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from triskele.core.extend import check

from ..expectation.expectation import Expectation
from ..simulators.run import run
from .pennylane_gates import (
    Template,
    can_differentiate,
    can_run,
    initial_state,
    pauli_sum,
    qml,
    template,
)

__all__ = ["TriskeleQubit"]

from pennylane.devices import preprocess
from pennylane.devices.modifiers import simulator_tracking, single_tape_support
from pennylane.devices.qubit.measure import measure
from pennylane.devices.qubit.sampling import measure_with_samples

_ExpectationMP, _StateMeasurement, _SampleMeasurement = (
    qml.measurements.ExpectationMP,
    qml.measurements.StateMeasurement,
    qml.measurements.SampleMeasurement,
)
_Shadows = (qml.measurements.ClassicalShadowMP, qml.measurements.ShadowExpvalMP)
_KNOWN = 64  # compiled expectation values that are kept


@simulator_tracking
@single_tape_support
class TriskeleQubit(qml.devices.Device):  # type: ignore[name-defined]
    """State vectors of Triskele for PennyLane: `qml.device("triskele.qubit", wires=4)`.

    Circuits are compiled once for their structure: another call with other angles only fills in numbers. Expectation
    values of Pauli observables, and their adjoint gradients, are computed by `quantum.Expectation`; other measurements
    from the state. Mid-circuit measurements are deferred to the end.

    Parameters
    ----------
    wires : int or sequence, optional
    shots : int, optional
    seed : int, Generator or None
        Seed of the samples.

    Examples
    --------
    >>> import pennylane as qml  # doctest: +SKIP
    >>> device = qml.device("triskele.qubit", wires=2)  # doctest: +SKIP
    """

    name = "triskele.qubit"
    author = "Triskele"
    version = "1.0"
    pennylane_requires = ">=0.40"

    def __init__(self, wires: Any = None, shots: int | None = None, seed: Any = None):
        super().__init__(wires=wires, shots=shots)
        self._random = np.random.default_rng(seed)
        self._templates: dict[Any, Template] = {}
        self._expectations: dict[Any, Expectation] = {}

    # -- preparation --------------------------------------------------------------------------------------------------

    def setup_execution_config(self, config: Any = None, circuit: Any = None) -> Any:
        """Say how derivatives are computed: by the adjoint method where it is possible."""
        config = config or qml.devices.ExecutionConfig()
        if config.gradient_method in ("best", "adjoint", "device") and self.supports_derivatives(config, circuit):
            defaults = {"use_device_gradient": True, "use_device_jacobian_product": True, "grad_on_execution": True}
            missing = {k: v for k, v in defaults.items() if getattr(config, k) is None}
            config = replace(config, gradient_method="adjoint", **missing)
        if config.mcm_config.mcm_method in (None, "device"):
            config = replace(config, mcm_config=replace(config.mcm_config, mcm_method="deferred"))
        check.choice(
            config.mcm_config.mcm_method, ("deferred", "one-shot"), "mcm_method", error=qml.exceptions.DeviceError
        )
        return config

    def preprocess_transforms(self, execution_config: Any = None) -> Any:
        """PennyLane's transforms, with our gates as their target."""
        config = execution_config or qml.devices.ExecutionConfig()
        program = qml.CompilePipeline() if hasattr(qml, "CompilePipeline") else qml.transforms.core.TransformProgram()
        adjoint = config.gradient_method == "adjoint" and config.use_device_gradient
        name = "adjoint + triskele.qubit" if adjoint else self.name
        program.add_transform(qml.transforms.broadcast_expand)
        program.add_transform(qml.defer_measurements, allow_postselect=False)
        program.add_transform(
            preprocess.decompose,
            stopping_condition=can_differentiate if adjoint else can_run,
            device_wires=self.wires,
            name=name,
        )
        program.add_transform(preprocess.device_resolve_dynamic_wires, wires=self.wires, allow_resets=False)
        program.add_transform(preprocess.validate_device_wires, self.wires, name=self.name)
        program.add_transform(
            preprocess.validate_measurements,
            analytic_measurements=lambda m: isinstance(m, _StateMeasurement),
            sample_measurements=lambda m: isinstance(m, (_SampleMeasurement, *_Shadows)),
            name=name,
        )
        if adjoint:
            program.add_transform(preprocess.no_sampling, name=name)
            program.add_transform(preprocess.validate_adjoint_trainable_params)
        return program

    def supports_derivatives(self, execution_config: Any = None, circuit: Any = None) -> bool:
        """Return True if the adjoint method applies: expectation values of Pauli observables, no shots."""
        method = None if execution_config is None else execution_config.gradient_method
        if method not in (None, "best", "adjoint", "device"):
            return False
        if circuit is None:
            return True
        return not circuit.shots and all(_is_pauli_expval(m) for m in circuit.measurements)

    def supports_vjp(self, execution_config: Any = None, circuit: Any = None) -> bool:
        """Products of cotangents with the derivatives: wherever there are derivatives."""
        return self.supports_derivatives(execution_config, circuit)

    # -- what is computed ---------------------------------------------------------------------------------------------

    def execute(self, circuits: Any, execution_config: Any = None) -> Any:
        """Values of all measurements."""
        tapes = [c.map_to_standard_wires() for c in circuits]
        fast = [
            not t.shots and bool(t.measurements) and all(_is_pauli_expval(m) for m in t.measurements) for t in tapes
        ]
        values = iter(
            self._batched([t for t, is_fast in zip(tapes, fast, strict=True) if is_fast], Expectation.__call__)
        )
        return tuple(
            _shaped(next(values)) if is_fast else self._from_state(t) for t, is_fast in zip(tapes, fast, strict=True)
        )

    def compute_derivatives(self, circuits: Any, execution_config: Any = None) -> Any:
        """Derivatives of expectation values with respect to trainable parameters."""
        return tuple(_nested(jacobian) for _, jacobian in self._jacobians(circuits))

    def execute_and_compute_derivatives(self, circuits: Any, execution_config: Any = None) -> Any:
        """Values and derivatives from one sweep."""
        both = self._jacobians(circuits)
        return tuple(_shaped(values) for values, _ in both), tuple(_nested(jacobian) for _, jacobian in both)

    def compute_vjp(self, circuits: Any, cotangents: Any, execution_config: Any = None) -> Any:
        """Cotangents times derivatives."""
        return tuple(
            _product(jacobian, ct) for (_, jacobian), ct in zip(self._jacobians(circuits), cotangents, strict=True)
        )

    def execute_and_compute_vjp(self, circuits: Any, cotangents: Any, execution_config: Any = None) -> Any:
        """Values, and cotangents times derivatives."""
        both = self._jacobians(circuits)
        products = tuple(_product(jacobian, ct) for (_, jacobian), ct in zip(both, cotangents, strict=True))
        return tuple(_shaped(values) for values, _ in both), products

    def _batched(self, tapes: Sequence[Any], compute: Callable[[Expectation, np.ndarray], Any]) -> list[Any]:
        """Return ``compute(tape)`` for each tape; those of one structure, as of a batch or of shifted parameters, are
        computed together.
        """
        groups: dict[int, list[int]] = {}
        prepared = [self._expectation(t) for t in tapes]
        for k, (energy, _) in enumerate(prepared):
            groups.setdefault(id(energy), []).append(k)
        results: list[Any] = [None] * len(tapes)
        for members in groups.values():
            energy = prepared[members[0]][0]
            found = compute(energy, np.stack([prepared[k][1] for k in members]))
            for place, k in enumerate(members):
                results[k] = tuple(f[place] for f in found) if isinstance(found, tuple) else found[place]
        return results

    def _from_state(self, tape: Any) -> Any:
        made = template(tape, self._templates)
        state = (
            run(made.circuit, made.theta(_values(tape)), initial=initial_state(tape))
            .statevector()
            .reshape((2,) * tape.num_wires)
        )
        if not tape.shots:
            results = tuple(measure(m, state) for m in tape.measurements)
            return results[0] if len(results) == 1 else results
        results = measure_with_samples(tape.measurements, state, tape.shots, rng=self._random)
        if len(tape.measurements) == 1:
            return tuple(r[0] for r in results) if tape.shots.has_partitioned_shots else results[0]
        return results

    def _expectation(self, tape: Any) -> tuple[Expectation, np.ndarray]:
        made = template(tape, self._templates)
        sentences = [m.obs.pauli_rep for m in tape.measurements]
        start = initial_state(tape)
        key = (
            made.key,
            tuple(tuple((w, complex(c).real) for w, c in s.items()) for s in sentences),
            None if start is None else start.tobytes(),
        )
        energy = self._expectations.get(key)
        if energy is None:
            if len(self._expectations) >= _KNOWN:
                self._expectations.clear()
            observables = [pauli_sum(s, tape.num_wires) for s in sentences]
            energy = self._expectations[key] = Expectation(made.circuit, observables, initial=start)
        return energy, made.theta(_values(tape))

    def _jacobians(self, circuits: Any) -> list[tuple[np.ndarray, np.ndarray]]:
        """Values (m,), and derivatives (m, P) with respect to trainable parameters, of each tape."""
        tapes = [c.map_to_standard_wires() for c in circuits]
        both = self._batched(tapes, Expectation.value_and_grad)
        return [
            (values, _trainable(t, template(t, self._templates), gradient))
            for t, (values, gradient) in zip(tapes, both, strict=True)
        ]


def _trainable(tape: Any, made: Template, gradient: np.ndarray) -> np.ndarray:
    """Columns of a gradient (m, all angles) for the tape's trainable parameters; 0 for parameters that are not angles
    of gates.
    """
    numbers = np.cumsum(made.angles) - 1
    jacobian = np.zeros((len(gradient), len(tape.trainable_params)))
    for k, p in enumerate(tape.trainable_params):
        if p < len(made.angles) and made.angles[p] and int(numbers[p]) in made.columns:
            jacobian[:, k] = gradient[:, made.columns[int(numbers[p])]]
    return jacobian


def _nested(jacobian: np.ndarray) -> Any:
    """Derivatives as PennyLane nests them: no tuple where there is one result or one parameter."""
    rows = [row[0] if len(row) == 1 else tuple(row) for row in (tuple(np.array(x) for x in row) for row in jacobian)]
    return rows[0] if len(rows) == 1 else tuple(rows)


def _product(jacobian: np.ndarray, cotangents: Any) -> tuple[np.ndarray, ...]:
    """Cotangents of each result (numbers, or arrays of several cotangents) times the derivatives."""
    single = len(jacobian) == 1
    weights = np.asarray(
        qml.math.unwrap([cotangents])[0] if single else np.stack([np.asarray(c) for c in cotangents]), float
    )
    weights = weights[None] if single and weights.shape[:1] != (1,) else weights
    return tuple(np.tensordot(column, weights, (0, 0)) for column in jacobian.T)


def _is_pauli_expval(m: Any) -> bool:
    return isinstance(m, _ExpectationMP) and m.obs is not None and m.obs.pauli_rep is not None


def _shaped(values: np.ndarray) -> Any:
    return np.array(values[0]) if len(values) == 1 else tuple(np.array(v) for v in values)


def _values(tape: Any) -> Sequence[Any]:
    """All parameters of operations, as plain numbers."""
    return [p for op in tape.operations for p in op.parameters]
