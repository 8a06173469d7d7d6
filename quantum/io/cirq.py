"""Cirq circuits, both ways. Cirq's first qubit is the most significant bit; here it becomes qubit 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..circuit import Circuit
from ..compile.synthesis.euler import angles_of
from ..compile.synthesis.expand import expand
from ..errors import CircuitError
from ..gates.base import Gate, find
from ..gates.families import unitary
from ..gates.instruction import BARRIER, MEASURE, RESET, Condition, Instruction
from ..parameters import Linear

__all__ = ["from_cirq", "to_cirq"]

_PI = math.pi
_ORDER = "parameters:"  # begins the tag that lists parameters in their order
# gate of Cirq by its class: rotation whose angle is pi times the exponent, and the phase at exponent 1 for global_shift
# 0, in turns of pi
_POWERS = {
    "XPowGate": ("rx", 0.5),
    "YPowGate": ("ry", 0.5),
    "ZPowGate": ("rz", 0.5),
    "XXPowGate": ("rxx", 0.5),
    "YYPowGate": ("ryy", 0.5),
    "ZZPowGate": ("rzz", 0.5),
    "CZPowGate": ("cp", 0.0),
    "CCZPowGate": ("ccp", 0.0),
    "SwapPowGate": ("swapalpha", 0.0),
    "Rx": ("rx", 0.5),
    "Ry": ("ry", 0.5),
    "Rz": ("rz", 0.5),
}


def from_cirq(circuit: Any) -> Circuit:
    """A Cirq `Circuit` as a circuit; its qubits in sorted order are 0, 1, ..., and each measured bit of each key a
    classical bit.

    Parameters are in the order of first appearance, by name within an expression, unless a tag of `to_cirq` lists
    another order.

    Raises
    ------
    ImportError
        If Cirq is not installed.
    CircuitError
        If it has operations without a matrix or decomposition, conditions on more than a measured bit, or angles
        that are not linear in their symbols.

    Examples
    --------
    >>> import cirq  # doctest: +SKIP
    >>> from triskele.quantum.io import from_cirq
    >>> from_cirq(cirq.Circuit(cirq.H(cirq.LineQubit(0)))).counts()  # doctest: +SKIP
    {'h': 1}
    """
    cirq = optional.need("cirq", "from_cirq", "quantum")
    return _FromCirq(cirq, circuit).circuit


class _FromCirq:
    def __init__(self, cirq: Any, circuit: Any):
        self._cirq = cirq
        qubits = {q: k for k, q in enumerate(sorted(circuit.all_qubits()))}
        self.circuit = Circuit(len(qubits))
        self._keys: dict[str, tuple[int, ...]] = {}
        for op in circuit.all_operations():
            self._add(op, [qubits[q] for q in op.qubits], (), None)
            for tag in op.tags:
                if isinstance(tag, str) and tag.startswith(_ORDER):
                    self.circuit._ordered(tag.removeprefix(_ORDER).split(","))

    def _append(
        self, name: str, wires: list[int], params: list[Any], controls: tuple[int, ...], condition: Condition | None
    ) -> None:
        if not wires and controls:
            wires, controls, name = [controls[-1]], controls[:-1], "p"
        self.circuit.append(f"{'c' * len(controls)}{name}", [*controls, *wires], params, condition=condition)

    def _add(self, op: Any, wires: list[int], controls: tuple[int, ...], condition: Condition | None) -> None:
        op = op.untagged  # what is inside may be a condition or a control
        cirq, gate = self._cirq, op.gate
        if isinstance(op, cirq.ClassicallyControlledOperation):
            self._add(op.without_classical_controls(), wires, controls, self._condition(op.classical_controls))
        elif isinstance(op, cirq.ControlledOperation):
            self._controlled(op, wires, controls, condition)
        elif isinstance(gate, cirq.MeasurementGate):
            self._measure(gate, wires, condition)
        elif isinstance(gate, cirq.ResetChannel):
            self.circuit.append(RESET, wires, condition=condition)
        elif isinstance(gate, cirq.IdentityGate):
            pass
        elif isinstance(gate, cirq.GlobalPhaseGate):
            self._append("global_phase", [], [float(np.angle(complex(gate.coefficient)))], controls, condition)
        elif not self._known(gate, wires, controls, condition):
            self._other(op, wires, controls, condition)

    def _known(self, gate: Any, wires: list[int], controls: tuple[int, ...], condition: Condition | None) -> bool:
        kind = type(gate).__name__
        kind = f"{kind[-1]}PowGate" if kind in ("_PauliX", "_PauliY", "_PauliZ") else kind
        exponent = getattr(gate, "exponent", None)
        shift = getattr(gate, "_global_shift", 0.0)
        add = lambda name, params, where=wires: self._append(name, where, params, controls, condition)
        if kind in ("CXPowGate", "CCXPowGate"):
            number = len(wires) - 1
            more = controls + tuple(wires[:number])
            if exponent == 1:
                self._append("x", wires[number:], [], more, condition)
            else:
                self._append("rx", wires[number:], [_angle(exponent, _PI)], more, condition)
                self._append("global_phase", [], [_angle(exponent, _PI / 2)], more, condition)
        elif kind in ("XPowGate", "YPowGate", "ZPowGate", "HPowGate") and exponent == 1 and shift == 0:
            add(kind[0].lower(), [])
        elif kind == "SwapPowGate" and exponent == 1:
            add("swap", [])
        elif kind == "CSwapGate":
            self._append("swap", wires[1:], [], (*controls, wires[0]), condition)
        elif kind in _POWERS:
            name, phase = _POWERS[kind]
            add(name, [_angle(exponent, _PI)])
            if phase and not (type(phase + shift) is float and phase + shift == 0):
                add("global_phase", [_angle(exponent, _PI * (phase + shift))], [])
        elif kind == "ISwapPowGate":
            add("xx_plus_yy", [_angle(exponent, -_PI), 0.0])
        elif kind == "FSimGate":
            add("fsim", [_angle(gate.theta, 1.0), _angle(gate.phi, 1.0)])
        elif kind == "PhasedXPowGate" and shift == 0:
            add("r", [_angle(exponent, _PI), _angle(gate.phase_exponent, _PI)])
            add("global_phase", [_angle(exponent, _PI / 2)], [])
        else:
            return False
        if kind in ("CXPowGate", "CCXPowGate", "SwapPowGate", "CZPowGate", "CCZPowGate", "ISwapPowGate") and shift:
            add("global_phase", [_angle(exponent, _PI * shift)], [])
        return True

    def _other(self, op: Any, wires: list[int], controls: tuple[int, ...], condition: Condition | None) -> None:
        cirq = self._cirq
        matrix = None if cirq.is_parameterized(op) or len(wires) > 6 else cirq.unitary(op, None)
        if matrix is not None:
            self.circuit.append(unitary(matrix), wires[::-1], controls=controls, condition=condition)
            return
        parts = cirq.decompose_once(op, None)
        if parts is None:
            raise CircuitError(f"from_cirq: {op} has no matrix and no decomposition")
        place = dict(zip(op.qubits, wires, strict=True))
        for part in parts:
            if any(q not in place for q in part.qubits):
                raise CircuitError(f"from_cirq: {op} needs additional qubits")
            self._add(part, [place[q] for q in part.qubits], controls, condition)

    def _controlled(self, op: Any, wires: list[int], controls: tuple[int, ...], condition: Condition | None) -> None:
        mine = tuple(wires[: len(op.controls)])
        try:
            (values,) = list(op.control_values.expand())
        except ValueError:
            raise CircuitError(f"from_cirq: controls with several values cannot be read, got {op}") from None
        if any(v not in (0, 1) for v in values):
            raise CircuitError(f"from_cirq: control values must be 0 or 1, got {op}")
        flips = [c for c, v in zip(mine, values, strict=True) if not v]
        for c in flips:
            self.circuit.append("x", c, condition=condition)
        self._add(op.sub_operation, wires[len(mine) :], controls + mine, condition)
        for c in flips:
            self.circuit.append("x", c, condition=condition)

    def _measure(self, gate: Any, wires: list[int], condition: Condition | None) -> None:
        if any(gate.full_invert_mask()):
            raise CircuitError("from_cirq: measurements with inverted bits are not supported (add X after them)")
        key = gate.key
        if key not in self._keys:
            self._keys[key] = tuple(range(self.circuit.num_clbits, self.circuit.num_clbits + len(wires)))
            self.circuit.num_clbits += len(wires)
        for q, c in zip(wires, self._keys[key], strict=True):
            self.circuit.append(MEASURE, q, clbits=(c,), condition=condition)

    def _condition(self, conditions: Any) -> Condition:
        bits: dict[int, int] = {}
        for c in conditions:
            keys = [str(k) for k in c.keys]
            if len(keys) != 1 or len(self._keys.get(keys[0], ())) != 1:
                raise CircuitError(f"from_cirq: a condition must be on one measured bit, got {c}")
            values = {v for v in (0, 1) if _holds(self._cirq, c, keys[0], v)}
            if len(values) != 1:
                raise CircuitError(f"from_cirq: a condition must compare one bit with a value, got {c}")
            bits[self._keys[keys[0]][0]] = values.pop()
        return Condition(tuple(bits), sum(v << k for k, v in enumerate(bits.values())))


def _holds(cirq: Any, condition: Any, key: str, value: int) -> bool:
    data = cirq.ClassicalDataDictionaryStore()
    data.record_measurement(cirq.MeasurementKey.parse_serialized(key), (value,), (cirq.LineQubit(0),))
    return bool(condition.resolve(data))


def _angle(value: Any, scale: float) -> float | Linear:
    if isinstance(value, (int, float, np.number)):
        return float(value) * scale
    sympy = optional.need("sympy", "from_cirq", "quantum")
    total: Any = Linear(())
    for symbol in sorted(value.free_symbols, key=str):
        slope = sympy.diff(value, symbol)
        if slope.free_symbols:
            raise CircuitError(f"from_cirq: angles must be linear in their symbols, got {value}")
        total = total + Linear(((str(symbol), float(slope) * scale),))
    constant = float(value.subs(dict.fromkeys(value.free_symbols, 0))) * scale
    return total + constant if total.terms else constant


def to_cirq(circuit: Circuit) -> Any:
    """The circuit as a Cirq `Circuit` on `LineQubit`s; classical bit k is the measurement key "ck".

    Barriers are left out, and global phases with parameters are not supported. A tag lists the parameters where
    `from_cirq` would not find their order.

    Raises
    ------
    ImportError
        If Cirq is not installed.
    CircuitError
        If it has channels, functions of parameters that are not bound, or global phases with parameters.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import io
    >>> len(list(io.to_cirq(quantum.Circuit(2).h(0).cx(0, 1)).all_operations()))
    2
    """
    cirq = optional.need("cirq", "to_cirq", "quantum")
    sympy = optional.need("sympy", "to_cirq", "quantum")
    line = cirq.LineQubit.range(circuit.num_qubits)
    rotations = {
        "rx": cirq.rx,
        "ry": cirq.ry,
        "rz": cirq.rz,
        "p": lambda t: cirq.ZPowGate(exponent=t / (sympy.pi if isinstance(t, sympy.Basic) else _PI)),
    }
    operations = []

    def value(p: float | Linear) -> Any:
        return sum((c * sympy.Symbol(n) for n, c in p.terms), p.constant) if type(p) is Linear else p

    keep = lambda i: (
        i.gate.name in rotations
        or bool(i.qubits)
        and all(type(p) is float for p in i.params)
        and len(i.qubits) + len(i.controls) <= 4
    )
    for instruction in circuit:
        if instruction.gate is BARRIER:
            continue
        if instruction.gate is MEASURE:
            made = [cirq.measure(line[instruction.qubits[0]], key=f"c{instruction.clbits[0]}")]
        elif instruction.gate is RESET:
            made = [cirq.reset(line[instruction.qubits[0]])]
        elif isinstance(instruction.gate, Gate):
            made = []
            for i in _simple(instruction, circuit.num_qubits, keep):
                made.append(_operation(cirq, rotations, i, [value(p) for p in i.params], line))
        else:
            raise CircuitError(f"to_cirq: channels such as {instruction.gate.name} are not translated")
        for c, wanted in instruction.condition.bits() if instruction.condition else ():
            condition = f"c{c}" if wanted else cirq.SympyCondition(sympy.Eq(sympy.Symbol(f"c{c}"), 0))
            made = [m.with_classical_controls(condition) for m in made]
        operations += made
    made = cirq.Circuit(operations, strategy=cirq.InsertStrategy.INLINE)  # keeps the order of operations
    found = dict.fromkeys(name for op in made.all_operations() for name in sorted(cirq.parameter_names(op)))
    if tuple(name for name in circuit.names if name in found) != tuple(found):
        first = next(k for k, op in enumerate(operations) if cirq.is_parameterized(op))
        operations[first] = operations[first].with_tags(_ORDER + ",".join(circuit.names))
        made = cirq.Circuit(operations, strategy=cirq.InsertStrategy.INLINE)
    return made


def _simple(instruction: Instruction, num_qubits: int, keep: Any) -> list[Instruction]:
    found = []
    for i in expand(instruction, num_qubits, keep):
        angles = None if keep(i) or not any(type(p) is Linear for p in i.params) or not i.qubits else angles_of(i)
        if angles is None:
            found.append(i)
            continue
        theta, phi, lam, phase = angles
        found += [
            Instruction(find(name), i.qubits, (angle,)) for name, angle in (("p", lam), ("ry", theta), ("p", phi))
        ]
        if type(phase) is Linear or phase:
            found.append(Instruction(find("global_phase"), (), (phase,)))
    return found


def _operation(cirq: Any, rotations: dict[str, Any], i: Instruction, params: list[Any], line: list[Any]) -> Any:
    if not i.qubits:
        if type(i.params[0]) is Linear:
            raise CircuitError("to_cirq: Cirq has no global phase with parameters (bind them)")
        return cirq.global_phase_operation(np.exp(1j * params[0]))
    if i.gate.name in rotations:
        gate = rotations[i.gate.name](*params)
    else:
        plain = {
            "x": cirq.X,
            "y": cirq.Y,
            "z": cirq.Z,
            "h": cirq.H,
            "s": cirq.S,
            "t": cirq.T,
            "swap": cirq.SWAP,
            "iswap": cirq.ISWAP,
        }
        gate = plain.get(i.gate.name) or cirq.MatrixGate(i.gate.matrix(*i.params), name=i.gate.name)
    wires = i.qubits if not isinstance(gate, cirq.MatrixGate) else i.qubits[::-1]
    operation = gate.on(*(line[q] for q in wires))
    return operation.controlled_by(*(line[c] for c in i.controls)) if i.controls else operation
