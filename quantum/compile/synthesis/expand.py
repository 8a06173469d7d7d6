"""One gate as several simpler ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

from ...circuit import Circuit
from ...errors import CircuitError
from ...gates.base import Gate
from ...gates.instruction import Instruction
from ...gates.primitives import Factor, Pair, Phase, Rotation
from ...parameters import Linear
from . import controlled
from .euler import angles_of
from .shannon import shannon

__all__ = ["expand", "name_of"]

# Constant gates of several qubits, as names with the numbers of their qubits in the order in which they act. rccx and
# rc3x: D. Maslov, Phys. Rev. A 93, 022311 (2016), figures 3 and 4.
_DEFINITIONS = {
    "swap": "cx10 cx01 cx10",
    "iswap": "s0 s1 h0 cx01 cx10 h1",
    "dcx": "cx01 cx10",
    "dcxdg": "cx10 cx01",
    "rccx": "h2 t2 cx12 tdg2 cx02 t2 cx12 tdg2 h2",
    "rc3x": "h3 t3 cx23 tdg3 h3 cx03 t3 cx13 tdg3 cx03 t3 cx13 tdg3 h3 t3 cx23 tdg3 h3",
    "rc3xdg": "h3 t3 cx23 tdg3 h3 t3 cx13 tdg3 cx03 t3 cx13 tdg3 cx03 h3 t3 cx23 tdg3 h3",
}
_NO_CONTROL = {"swap": (0, 2)}  # gates that cancel where the others do nothing: they need no control


def name_of(instruction: Instruction) -> str:
    """The name with a `c` for each control: "cx", "ccrz"."""
    return "c" * len(instruction.controls) + instruction.gate.name


def expand(instruction: Instruction, num_qubits: int, keep: Callable[[Instruction], bool]) -> list[Instruction]:
    """Return a gate as gates that `keep` accepts, or else as single-qubit gates, CNOTs and global phases."""
    if keep(instruction) or _is_basic(instruction):
        return [instruction]
    found = []
    for i in _step(instruction, num_qubits):
        found += expand(i._replace(condition=instruction.condition), num_qubits, keep)
    return found


def _is_basic(i: Instruction) -> bool:
    controls, qubits = len(i.controls), len(i.qubits)
    return (
        not controls
        and (qubits == 0 or qubits == 1 and angles_of(i) is not None)
        or controls == 1
        and i.gate.name == "x"
    )


def _step(i: Instruction, n: int) -> list[Instruction]:
    gate, circuit = i.gate, Circuit(n)
    spare = [q for q in range(n) if q not in i.qubits and q not in i.controls]
    numbers = all(type(p) is not Linear for p in i.params)
    if not i.qubits:
        _phase(circuit, i.params[0], i.controls)
    elif gate.name == "x" and i.controls:
        controlled.controlled_x(circuit, i.controls, i.qubits[0], spare)
    elif gate.name == "z" and i.controls:
        circuit.h(i.qubits[0])
        controlled.controlled_x(circuit, i.controls, i.qubits[0], spare)
        circuit.h(i.qubits[0])
    elif gate.name in _DEFINITIONS:
        for number, word in enumerate(_DEFINITIONS[gate.name].split()):
            name = word.rstrip("0123")
            controls = () if number in _NO_CONTROL.get(gate.name, ()) else i.controls
            circuit.append(f"{'c' * len(controls)}{name}", [*controls, *(i.qubits[int(q)] for q in word[len(name) :])])
    elif gate.factors is not None and not (numbers and _better_as_matrix(i)):
        for factor in gate.factors:
            _factor(circuit, factor, i)
    elif not numbers:
        raise CircuitError(
            f"decompose: {gate.name} is a function of parameters that are not bound (bind the circuit first)"
        )
    elif len(i.qubits) == 1 and i.controls:
        controlled.controlled_matrix(circuit, gate.matrix(*i.params), i.controls, i.qubits[0])
    else:
        wires = (*i.qubits, *i.controls)
        if len(wires) > 10:
            raise CircuitError(
                f"decompose: {gate.name} is a matrix on {len(wires)} qubits, which takes "
                f"{4 ** len(wires):.1g} gates (at most 10)"
            )
        circuit.extend(_matrix_circuit(gate, i.params, len(i.controls)), [*wires])
    return circuit._instructions


def _better_as_matrix(i: Instruction) -> bool:
    """Return True if a matrix takes fewer gates than the factors: several factors on one qubit, or on two without
    controls.
    """
    wide = sum(len(f.qubits) > 1 for f in i.gate.factors)
    return len(i.qubits) == 1 and len(i.gate.factors) > 1 or len(i.qubits) == 2 and not i.controls and wide > 1


@functools.lru_cache(8)  # they may be large
def _matrix_circuit(gate: Gate, params: tuple[float, ...], controls: int) -> Circuit:
    return shannon(
        Instruction(
            gate, tuple(range(gate.num_qubits)), params, tuple(range(gate.num_qubits, gate.num_qubits + controls))
        ).matrix()
    )


def _phase(circuit: Circuit, angle: float | Linear, qubits: Sequence[int]) -> None:
    if qubits:
        controlled.controlled_phase(circuit, angle, qubits[:-1], qubits[-1])
    else:
        circuit.global_phase(angle)


def _factor(circuit: Circuit, factor: Factor, i: Instruction) -> None:
    qubits, angle = [i.qubits[q] for q in factor.qubits], factor.angle(i.params)
    if isinstance(factor.primitive, Phase):
        _phase(circuit, angle, [*i.controls, *qubits])
    elif isinstance(factor.primitive, Rotation):
        _rotation(circuit, factor.primitive.paulis, angle, qubits, i.controls)
    else:
        _pair(circuit, factor.primitive, angle, qubits, i.controls)


def _rotation(
    circuit: Circuit, paulis: str, angle: float | Linear, qubits: Sequence[int], controls: Sequence[int]
) -> None:
    """Every letter is made a Z, their parity is collected in the last qubit; one qubit keeps its letter."""
    last = len(qubits) - 1
    letters = "Z" * last + paulis[last] if last == 0 else "Z" * (last + 1)
    change = [(q, p) for q, p, wanted in zip(qubits, paulis, letters, strict=True) if p != wanted]
    for q, p in change:
        circuit.h(q) if p == "X" else circuit.sdg(q).h(q)
    for a, b in zip(qubits[:-1], qubits[1:], strict=True):
        circuit.cx(a, b)
    controlled.controlled_rotation(circuit, letters[-1].lower(), angle, controls, qubits[-1])
    for a, b in list(zip(qubits[:-1], qubits[1:], strict=True))[::-1]:
        circuit.cx(a, b)
    for q, p in change:
        circuit.h(q) if p == "X" else circuit.h(q).s(q)


def _pair(circuit: Circuit, pair: Pair, angle: float | Linear, qubits: Sequence[int], controls: Sequence[int]) -> None:
    """CNOTs from one qubit that differs make the others equal in both states; then it is a rotation of that qubit."""
    differ = [k for k in range(pair.qubits) if (pair.a ^ pair.b) >> k & 1]
    if pair.qubits == 2 and len(differ) == 2 and not controls:
        _exchange(circuit, pair, angle, qubits)
        return
    pivot = differ[-1]
    pattern = pair.a
    # where the pivot is 1 the qubit is flipped, so that both states have what the one with pivot 0 has
    for k in differ[:-1]:
        pattern = pattern & ~(1 << k) | ((pair.b if pair.a >> pivot & 1 else pair.a) & (1 << k))
    fixed = [k for k in range(pair.qubits) if not pair.free >> k & 1 and k != pivot]
    flips = [qubits[k] for k in fixed if not pattern >> k & 1]
    signs = [qubits[k] for k in range(pair.qubits) if pair.parity >> k & 1]
    ladder = [(qubits[pivot], qubits[k]) for k in differ[:-1]]
    # [[c, -s], [s, c]] is RY where a has the pivot at 0; X and Z of the pivot reverse RY and RX
    sign = -1.0 if pair.a >> pivot & 1 and not pair.imaginary else 1.0
    target = qubits[pivot]

    def frame() -> None:
        for q in flips:
            circuit.x(q)
        for q in signs:
            (circuit.cz if pair.imaginary else circuit.cx)(q, target)

    for a, b in ladder:
        circuit.cx(a, b)
    frame()
    axis = "x" if pair.imaginary else "y"
    circuit.append(f"r{axis}", target, [sign * angle], controls=[*controls, *(qubits[k] for k in fixed)])
    frame()
    for a, b in ladder[::-1]:
        circuit.cx(a, b)


def _exchange(circuit: Circuit, pair: Pair, angle: float | Linear, qubits: Sequence[int]) -> None:
    """exp(-i t/4 (XX + YY)) or, on 00 and 11, exp(-i t/4 (XX - YY)): two CNOTs make XX and YY an X and a Z."""
    first, second = qubits
    raised = qubits[0] if pair.b & 1 else qubits[1]  # where b has 1, or a has if b has none
    turn = ("sdg", "s") if pair.b else ("s", "sdg")  # b gets the phase i: -i s becomes s
    if not pair.imaginary:
        circuit.append(turn[0], raised)
    circuit.rx(math.pi / 2, first).rx(math.pi / 2, second).cx(first, second)
    circuit.rx(0.5 * angle, first).rz((0.5 if pair.a in (1, 2) else -0.5) * angle, second)
    circuit.cx(first, second).rx(-math.pi / 2, first).rx(-math.pi / 2, second)
    if not pair.imaginary:
        circuit.append(turn[1], raised)
