"""PennyLane's operators as Triskele's gates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..circuit import Circuit
from ..gates.families import pauli_rotation, unitary
from ..gates.standard import resolve
from ..operators.pauli import PauliSum
from ..parameters import Linear

__all__ = ["Template", "can_differentiate", "can_run", "pauli_sum", "template"]

qml = optional.need("pennylane", "pennylane", "quantum")

# PennyLane's name: our gates in order, as (name, for each parameter: coefficients of PennyLane's); wires are in
# PennyLane's order
_SAME: dict[str, str] = {
    "PauliX": "x", "PauliY": "y", "PauliZ": "z", "Hadamard": "h", "S": "s", "T": "t", "SX": "sx", "SWAP": "swap",
    "ISWAP": "iswap", "CNOT": "cx", "CZ": "cz", "CY": "cy", "CH": "ch", "CSWAP": "cswap", "CCZ": "ccz",
    "Toffoli": "ccx", "RX": "rx", "RY": "ry", "RZ": "rz", "PhaseShift": "p", "U1": "p", "U2": "u2", "U3": "u",
    "ControlledPhaseShift": "cp", "CPhase": "cp", "CRX": "crx", "CRY": "cry", "CRZ": "crz", "IsingXX": "rxx",
    "IsingYY": "ryy", "IsingZZ": "rzz",
}  # fmt: skip
_INVERSES = {"Adjoint(S)": "sdg", "Adjoint(T)": "tdg", "Adjoint(SX)": "sxdg", "Adjoint(ISWAP)": "iswapdg"}
_NOTHING = ("Identity", "Barrier", "WireCut", "Snapshot")
_SEQUENCES: dict[str, tuple[tuple[str, tuple[tuple[float, ...], ...]], ...]] = {
    "Rot": (("rz", ((1, 0, 0),)), ("ry", ((0, 1, 0),)), ("rz", ((0, 0, 1),))),
    "CRot": (("crz", ((1, 0, 0),)), ("cry", ((0, 1, 0),)), ("crz", ((0, 0, 1),))),
    "DoubleExcitation": (("double_excitation", ((-0.5,),)),),
    "GlobalPhase": (("global_phase", ((-1,),)),),
    "IsingXY": (("xx_plus_yy", ((-1,), (0,))),),
    "SingleExcitation": (("givens", ((-0.5,),)),),
}
_Preparation = qml.operation.StatePrepBase
# gate, targets, coefficients of parameters, controls
_Gate = tuple[Any, tuple[int, ...], tuple[tuple[float, ...], ...], tuple[int, ...]]


def _gates(op: Any, qubit: Callable[[Any], int]) -> list[_Gate] | None:
    """The operator as gates whose parameters are linear in its own, or None if that is not possible."""
    name = op.name
    if name in _NOTHING:
        return []
    if name in _SAME or name in _INVERSES:
        controls, gate = resolve(_SAME.get(name) or _INVERSES[name])
        wires = tuple(qubit(w) for w in op.wires)
        return [(gate, wires[controls:], tuple(map(tuple, np.eye(gate.num_params))), wires[:controls])]
    if name in _SEQUENCES:
        wires = () if name == "GlobalPhase" else tuple(qubit(w) for w in op.wires)
        found: list[_Gate] = []
        for ours, coefficients in _SEQUENCES[name]:
            controls, gate = resolve(ours)
            found.append((gate, wires[controls:], coefficients, wires[:controls]))
        return found
    if name in ("PauliRot", "MultiRZ"):
        word = op.hyperparameters["pauli_word"] if name == "PauliRot" else "Z" * len(op.wires)
        kept = [(p, qubit(w)) for p, w in zip(word, op.wires, strict=True) if p != "I"]
        if not kept:
            return [(resolve("global_phase")[1], (), ((-0.5,),), ())]
        return [(pauli_rotation("".join(p for p, _ in kept)), tuple(q for _, q in kept), ((1.0,),), ())]
    if isinstance(op, qml.ops.op_math.Controlled):
        return _controlled(op, qubit)
    if isinstance(op, qml.ops.op_math.Adjoint):
        return _adjoint(op, qubit)
    if op.has_matrix and len(op.wires) <= 6 and (not op.parameters or _is_constant(op)):
        matrix = np.asarray(qml.math.unwrap([op.matrix()])[0], complex)
        # the first wire is the most significant bit of the matrix's index
        return [(unitary(matrix, name.lower()), tuple(qubit(w) for w in op.wires)[::-1], (), ())]
    return None


def _is_constant(op: Any) -> bool:
    """Return True if its parameters are matrices or vectors and not angles."""
    return any(qml.math.ndim(p) for p in op.parameters)


def _controlled(op: Any, qubit: Callable[[Any], int]) -> list[_Gate] | None:
    body = _gates(op.base, qubit)
    if body is None:
        return None
    controls = tuple(qubit(w) for w in op.control_wires)
    flips: list[_Gate] = [
        (resolve("x")[1], (c,), (), ()) for c, on in zip(controls, op.control_values, strict=True) if not on
    ]
    inner: list[_Gate] = []
    for gate, targets, coefficients, more in body:
        if not targets:  # a global phase is one of the controls'
            everything = controls + more
            inner.append((resolve("p")[1], everything[-1:], coefficients, everything[:-1]))
        else:
            inner.append((gate, targets, coefficients, controls + more))
    return flips + inner + flips


def _adjoint(op: Any, qubit: Callable[[Any], int]) -> list[_Gate] | None:
    body = _gates(op.base, qubit)
    if body is None:
        return None
    found: list[_Gate] = []
    for gate, targets, coefficients, controls in reversed(body):
        if gate.num_params == 0:
            (undone,) = Circuit(max((*targets, *controls)) + 1).append(gate, targets, controls=controls).inverse()
            found.append((undone.gate, targets, (), controls))
        elif gate.num_params == 1 or gate.name == "xx_plus_yy":  # rotations
            found.append((gate, targets, tuple(tuple(-c for c in row) for row in coefficients), controls))
        else:
            return None
    return found


def can_run(op: Any) -> bool:
    """Return True if the simulator supports the operator. (Preparations at the beginning are always accepted.)"""
    if isinstance(op, _Preparation):
        return False
    return (
        op.name in _SAME
        or op.name in _SEQUENCES
        or _gates(op, lambda wire: abs(hash(wire)) % 1009 + 1009 * op.wires.index(wire)) is not None
    )


def can_differentiate(op: Any) -> bool:
    """Return True if its parameters are angles, or none of them is differentiated."""
    return can_run(op) and not any(qml.math.ndim(p) and qml.math.requires_grad(p) for p in op.parameters)


class Template:
    """A tape without its numbers: a circuit with one parameter for each angle."""

    def __init__(self, tape: Any, key: Any):
        self.key = key
        n = tape.num_wires
        qubit = lambda wire: n - 1 - wire  # wire 0 is the most significant bit of states
        self.circuit = Circuit(n)
        self.angles: list[bool] = []  # for each of the tape's gate parameters: whether it is an angle
        number = 0
        for op in tape.operations:
            constant = isinstance(op, _Preparation) or _is_constant(op)
            self.angles += [not constant] * len(op.parameters)
            if isinstance(op, _Preparation):
                continue
            names = [] if constant else [f"p{number + k}" for k in range(len(op.parameters))]
            number += len(names)
            for gate, targets, coefficients, controls in _gates(op, qubit) or ():
                params = [Linear(tuple((n, c) for n, c in zip(names, row, strict=True) if c)) for row in coefficients]
                self.circuit.append(gate, targets, [p if p.terms else 0.0 for p in params], controls=controls)
        place = {name: k for k, name in enumerate(self.circuit.parameters)}
        self.order = np.array([int(name[1:]) for name in self.circuit.parameters], int)  # theta = angles[order]
        self.columns = {k: place[f"p{k}"] for k in range(number) if f"p{k}" in place}

    def theta(self, values: Sequence[Any]) -> np.ndarray:
        """Parameter values of a tape in the order of the circuit's."""
        angles = np.array([float(v) for v, is_angle in zip(values, self.angles, strict=True) if is_angle])
        return angles[self.order]


def template(tape: Any, known: dict[Any, Template]) -> Template:
    """The tape's template, made once."""
    key: Any = [tape.num_wires]
    for op in tape.operations:
        if isinstance(op, _Preparation):
            continue
        wires = op.wires.labels
        if op.name in _SAME or op.name in _SEQUENCES:
            key.append((op.name, wires))
        elif op.parameters and _is_constant(op):
            key.append((op.name, wires, np.asarray(qml.math.unwrap([op.matrix()])[0]).tobytes()))
        else:
            extra = op.hyperparameters.get("pauli_word") or (_structure(op) if op.name != "MultiRZ" else None)
            key.append((op.name, wires, extra))
    key = tuple(key)
    if key not in known:
        if len(known) > 256:
            known.clear()
        known[key] = Template(tape, key)
    return known[key]


def _structure(op: Any) -> Any:
    """Return a key that distinguishes operators of one name on the same wires."""
    base = getattr(op, "base", None)
    if base is not None:
        return (
            base.name,
            base.wires.labels,
            tuple(getattr(op, "control_values", ())),
            base.hyperparameters.get("pauli_word"),
            _structure(base),
        )
    return np.asarray(op.matrix()).tobytes() if not op.parameters and op.has_matrix else None


def initial_state(tape: Any) -> np.ndarray | None:
    """The state that a preparation at the beginning gives, in PennyLane's order of bits, which is the simulator's."""
    if tape.operations and isinstance(tape.operations[0], _Preparation):
        return np.asarray(tape.operations[0].state_vector(wire_order=range(tape.num_wires)), complex).reshape(-1)
    return None


def pauli_sum(sentence: Any, num_wires: int) -> PauliSum:
    """A PennyLane `PauliSentence` as a Pauli sum on our qubits."""
    terms = []
    for word, coefficient in sentence.items():
        terms.append(
            (" ".join(f"{p}{num_wires - 1 - w}" for w, p in word.items() if p != "I"), complex(coefficient).real)
        )
    return PauliSum(terms or [("", 0.0)])
