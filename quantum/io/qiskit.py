"""Qiskit circuits, both ways. Qiskit uses the same order of qubits and the same conventions of gates."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from triskele.core.extend import optional

from ..circuit import Circuit
from ..compile.synthesis.euler import angles_of
from ..compile.synthesis.expand import expand
from ..errors import CircuitError, GateError
from ..gates.base import Gate, find
from ..gates.instruction import BARRIER, MEASURE, RESET, Condition, Instruction
from ..gates.standard import resolve
from ..parameters import Linear

__all__ = ["from_qiskit", "to_qiskit"]

_ORDER = "triskele.parameters"  # key of the metadata that lists parameters in their order
_OURS = {"rcccx": "rc3x"}
_THEIRS = {"rc3x": "rcccx"}


def from_qiskit(circuit: Any) -> Circuit:
    """A Qiskit `QuantumCircuit` as a circuit, global phase included.

    Gates that Triskele does not have are replaced by their definition or matrix. `if_else` is kept as conditions of
    each instruction, so that no branch may go on after it measured a bit that chose it. Parameters must occur in linear
    expressions. They are in the order of first appearance, or in the order that `to_qiskit` left in the metadata.

    Raises
    ------
    ImportError
        If Qiskit is not installed.
    CircuitError
        If it has loops, branches that go on after a measurement of their bits, parameters that are not linear, or
        operations with neither a definition nor a matrix.

    Examples
    --------
    >>> from qiskit import QuantumCircuit  # doctest: +SKIP
    >>> from triskele.quantum.io import from_qiskit
    >>> from_qiskit(QuantumCircuit(2)).num_qubits  # doctest: +SKIP
    2
    """
    optional.need("qiskit", "from_qiskit", "quantum")
    new = Circuit(circuit.num_qubits, circuit.num_clbits)
    qubits = {q: k for k, q in enumerate(circuit.qubits)}
    clbits = {c: k for k, c in enumerate(circuit.clbits)}
    _add(new, circuit, qubits, clbits, {}, set())
    order = (circuit.metadata or {}).get(_ORDER, ())
    return new._ordered(order) if all(isinstance(n, str) for n in order) else new


def _add(
    new: Circuit, circuit: Any, qubits: dict[Any, int], clbits: dict[Any, int], bits: dict[int, int], changed: set[int]
) -> None:
    """Add a circuit under the condition `bits`; `changed` collects those of them that are measured again."""
    condition = Condition(tuple(bits), sum(v << k for k, v in enumerate(bits.values()))) if bits else None
    if not _is_zero(circuit.global_phase):
        new.append("global_phase", (), [_angle(circuit.global_phase)], condition=condition)
    for item in circuit.data:
        wires = [qubits[q] for q in item.qubits]
        _check_condition(changed & bits.keys())
        if (known := _standard_gate(item)) is not None:
            number, gate = known
            angles = [_angle(p) for p in item.params]
            new.append(gate, wires[number:], angles, controls=wires[:number], condition=condition)
            continue
        op = item.operation
        if op.name == "measure":
            written = [clbits[c] for c in item.clbits]
            new.append(MEASURE, wires, clbits=written, condition=condition)
            changed.update(written)
        elif op.name == "reset":
            new.append(RESET, wires, condition=condition)
        elif op.name == "barrier":
            new.append(BARRIER, wires)
        elif op.name == "if_else":
            _branch(new, item, wires, clbits, bits, changed)
        elif op.name != "delay":
            for i in _gates(op, wires, new.num_qubits):
                new.append(i.gate, i.qubits, i.params, controls=i.controls, condition=condition)


def _branch(
    new: Circuit, item: Any, wires: Sequence[int], clbits: dict[Any, int], bits: dict[int, int], changed: set[int]
) -> None:
    try:
        target, value = item.operation.condition
    except TypeError:
        raise CircuitError(
            "from_qiskit: if_else of an expression is not supported (a bit or register compared with a value is)"
        ) from None
    of = [clbits[target]] if target in clbits else [clbits[c] for c in target]
    wanted = {c: int(value) >> k & 1 for k, c in enumerate(of)}
    then, otherwise = item.operation.params
    if otherwise is not None and len(of) != 1:
        raise CircuitError("from_qiskit: an else branch needs a condition on a single bit")
    inside: set[int] = set()
    blocks = [
        (block, these, {c: clbits[outer] for c, outer in zip(block.clbits, item.clbits, strict=True)})
        for block, these in ((then, wanted), (otherwise, {c: 1 - v for c, v in wanted.items()}))
        if block is not None
    ]
    # one that may measure the bits of the condition comes last: only one of both runs
    blocks.sort(key=lambda b: any(b[2][c] in wanted for i in b[0].data for c in i.clbits))
    for block, these, inner in blocks:
        _check_condition(inside & these.keys())
        if any(bits.get(c, v) != v for c, v in these.items()):
            continue  # contradicts an if around it
        _add(new, block, dict(zip(block.qubits, wires, strict=True)), inner, bits | these, inside)
    changed |= inside


def _check_condition(changed: set[int]) -> None:
    if changed:
        raise CircuitError(
            f"from_qiskit: an if_else must not go on after it measured the bits of its condition, got a "
            f"measurement into bit {min(changed)}"
        )


def _gates(op: Any, wires: list[int], num_qubits: int) -> list[Instruction]:
    """The operation as Triskele's gates."""
    if (known := _known(op.name, op.base_class)) is not None:
        number, gate = known
        angles = tuple(_angle(p) for p in op.params)
        return [Instruction(gate, tuple(wires[number:]), angles, tuple(wires[:number]))]
    from qiskit.circuit import ControlledGate
    from qiskit.circuit.library import RVGate

    single = Circuit(num_qubits)
    if op.name == "rv" and issubclass(op.base_class, RVGate):
        return single.append("rv", wires, [_angle(p) for p in op.params])._instructions
    if op.name == "unitary" and not isinstance(op, ControlledGate):
        return single.unitary(op.params[0], wires)._instructions
    if op.name == "diagonal" and len(wires) <= 10:
        return single.diagonal(np.angle(np.asarray(op.params, complex)).tolist(), wires)._instructions
    k = getattr(op, "num_ctrl_qubits", 0)
    controls, targets = wires[:k], wires[k:]
    if isinstance(op, ControlledGate) and op.base_gate.num_qubits == len(targets):
        for j, c in enumerate(controls):
            single.append("x", c) if not op.ctrl_state >> j & 1 else None
        is_cu = op.base_gate.name == "u" and len(op.params) == 4  # CU, also with more controls
        for i in _controlled_u(op, targets, num_qubits) if is_cu else _gates(op.base_gate, targets, num_qubits):
            if i.qubits:
                single.append(i.gate, i.qubits, i.params, controls=(*controls, *i.controls))
            else:
                single.append("p", controls[-1], i.params, controls=controls[:-1])
        for j, c in enumerate(controls):
            single.append("x", c) if not op.ctrl_state >> j & 1 else None
        return single._instructions
    if getattr(op, "definition", None) is not None:
        _add(single, op.definition, dict(zip(op.definition.qubits, wires, strict=True)), {}, {}, set())
        return single._instructions
    try:
        return single.unitary(op.to_matrix(), wires)._instructions
    except Exception as error:  # whatever a foreign operation raises
        raise CircuitError(f"from_qiskit: {op.name!r} has no definition and no matrix") from error


@functools.cache
def _standard() -> dict[str, Any]:
    """Qiskit's standard gates by name; made once, as this takes it milliseconds."""
    from qiskit.circuit.library import get_standard_gate_name_mapping

    return get_standard_gate_name_mapping()


def _standard_gate(item: Any) -> tuple[int, Gate] | None:
    """What `_known` says of an instruction, if Qiskit stores it as a standard gate: its operation is not made then."""
    if not getattr(item, "is_standard_gate", bool)():  # not in Qiskit 1.0
        return None
    return _known(item.name, _standard()[item.name].base_class) if item.name in _standard() else None


@functools.cache
def _known(name: str, kind: type) -> tuple[int, Gate] | None:
    """Number of controls and gate of a standard one, which has another name where controls must be 0."""
    standard = _standard().get(name)
    if standard is None or not issubclass(kind, standard.base_class):
        return None
    number, gate = resolve(_OURS.get(name, name))
    return number or 0, gate


def _controlled_u(op: Any, targets: list[int], num_qubits: int) -> list[Instruction]:
    """Return the gate that a CU gate controls: its base gate is a U, which lacks the phase."""
    theta, phi, lam, phase = (_angle(p) for p in op.params)
    return Circuit(num_qubits).u(theta, phi, lam, *targets).global_phase(phase)._instructions


def _is_zero(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == 0


def _angle(value: Any) -> float | Linear:
    if type(value) is float:
        return value
    if not hasattr(value, "parameters"):
        return float(value)
    terms = []
    for p in sorted(value.parameters, key=lambda p: p.name):
        slope = value.gradient(p)
        slope = complex(slope) if not hasattr(slope, "parameters") or not slope.parameters else None
        if slope is None or slope.imag:
            raise CircuitError(f"from_qiskit: angles must be linear in their parameters, got {value}")
        if slope.real:
            terms.append((p.name, slope.real))
    constant = float(value.bind(dict.fromkeys(value.parameters, 0.0)))
    return Linear(tuple(terms), constant) if terms else constant


def to_qiskit(circuit: Circuit) -> Any:
    """The circuit as a Qiskit `QuantumCircuit`, global phase included.

    Raises
    ------
    ImportError
        If Qiskit is not installed.
    CircuitError
        If it has channels, or functions of parameters that are not bound.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import io
    >>> len(io.to_qiskit(quantum.Circuit(2).h(0).cx(0, 1)).data)
    2
    """
    optional.need("qiskit", "to_qiskit", "quantum")
    from qiskit import QuantumCircuit
    from qiskit.circuit import Parameter as Theirs

    standard = _standard()
    parameters = {name: Theirs(name) for name in circuit.names}

    def value(p: float | Linear) -> Any:
        return sum((c * parameters[n] for n, c in p.terms), p.constant) if type(p) is Linear else p

    keep = lambda i: (
        _THEIRS.get(i.gate.name, i.gate.name) in standard and i.qubits != () or i.gate.constant is not None or _is_rv(i)
    )
    new = QuantumCircuit(circuit.num_qubits, circuit.num_clbits)
    for instruction in circuit:
        if not isinstance(instruction.gate, Gate) and instruction.gate not in (MEASURE, RESET, BARRIER):
            raise CircuitError(f"to_qiskit: channels such as {instruction.gate.name} are not translated")
        with _conditions(new, instruction.condition):
            if instruction.gate is MEASURE:
                new.measure(instruction.qubits[0], instruction.clbits[0])
            elif instruction.gate is RESET:
                new.reset(instruction.qubits[0])
            elif instruction.gate is BARRIER:
                new.barrier(*instruction.qubits)
            else:
                for i in expand(instruction, circuit.num_qubits, keep):
                    _append(new, i, [value(p) for p in i.params], standard)
    if len(circuit.names) > 1:
        new.metadata = {_ORDER: list(circuit.names)}
    return new


def _conditions(new: Any, condition: Condition | None) -> Any:
    import contextlib

    stack = contextlib.ExitStack()
    for c, value in condition.bits() if condition else ():
        stack.enter_context(new.if_test((new.clbits[c], value)))
    return stack


def _is_rv(i: Instruction) -> bool:
    return i.gate is find("rv") and not i.controls


def _append(new: Any, i: Instruction, params: list[Any], standard: dict[str, Any]) -> None:
    from qiskit.circuit.library import RVGate, UnitaryGate

    name = _THEIRS.get(i.gate.name, i.gate.name)
    if not i.qubits:
        from qiskit.circuit.library import GlobalPhaseGate

        new.append(GlobalPhaseGate(params[0]), [])
        return
    if _is_rv(i):
        new.append(RVGate(*params), [*i.qubits])
        return
    if name not in standard and i.gate.constant is None:  # a function of numbers on one qubit
        found = angles_of(i)
        assert found is not None  # all other gates with parameters are decomposed
        theta, phi, lam, phase = found
        _append(new, Instruction(find("u"), i.qubits, (theta, phi, lam)), [theta, phi, lam], standard)
        _append(new, Instruction(find("global_phase"), (), (phase,)), [phase], standard)
        return
    shorthand = {1: "c", 2: "cc"}.get(len(i.controls), "-") + name
    try:
        known = shorthand in standard and resolve(shorthand) == (len(i.controls), i.gate)
    except GateError:
        known = False
    if known:
        gate = standard[shorthand].base_class(*params)
    else:
        gate = (
            standard[name].base_class(*params)
            if name in standard
            else UnitaryGate(np.array(i.gate.constant), label=i.gate.name)
        )
        gate = gate.control(len(i.controls), annotated=False) if i.controls else gate
    new.append(gate, [*i.controls, *i.qubits])
