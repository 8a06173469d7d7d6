"""Circuits as OpenQASM 2 and 3 programs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator

from triskele.core.extend import check

from ...circuit import Circuit
from ...compile.synthesis.euler import angles_of
from ...compile.synthesis.expand import expand
from ...errors import CircuitError
from ...gates.base import Gate, find
from ...gates.instruction import BARRIER, LOOP, MEASURE, REPEAT, RESET, Condition, Instruction
from ...noise.readout import ReadoutError
from ...parameters import Linear, linear_text
from .names import KEYWORDS, LIBRARIES, U_DEFINITION, known
from .values import CONSTANTS, FUNCTIONS

__all__ = ["to_qasm"]


# not in the specification's file, or with a global phase that readers disagree about
_AMBIGUOUS = ("u", "u2", "u3", "cu3")


def _names(file: str) -> dict[tuple[int, str], str]:
    found: dict[tuple[int, str], str] = {}
    for theirs, ours in LIBRARIES[file].items():
        if ours != "u0":
            controls, gate = known(ours or theirs)
            if file != "stdgates.inc" or theirs not in _AMBIGUOUS:
                found.setdefault((controls, gate.name), theirs)
    return found


def to_qasm(circuit: Circuit, version: int = 3) -> str:
    """The circuit as an OpenQASM program.

    Gates that are not in the language's standard library are decomposed into gates that are; numbers are exact. Version
    2 has no global phase: it is left out there. Version 3 has parameters (`input float`), whose names are changed where
    they have brackets or dots, or are names of gates. Conditions on several bits are written as nested `if`s.

    Parameters
    ----------
    circuit : Circuit
    version : int
        2 or 3.

    Raises
    ------
    CircuitError
        If version 2 is requested with parameters or conditions on bits that are not a register, or if there are
        channels.

    Examples
    --------
    >>> from triskele.quantum.io import to_qasm
    >>> from triskele import quantum
    >>> print(to_qasm(quantum.Circuit(2).h(0).crx("a", 0, 1)), end="")
    OPENQASM 3.0;
    include "stdgates.inc";
    input float a;
    qubit[2] q;
    h q[0];
    crx(a) q[0], q[1];
    """
    check.choice(version, (2, 3), "to_qasm: version", error=CircuitError)
    if version == 2 and circuit.names:
        raise CircuitError(
            f"to_qasm: OpenQASM 2 has no parameters such as {circuit.names[0]!r} (bind them, or use version=3)"
        )
    return "\n".join(_Writer(circuit, version).lines()) + "\n"


class _Writer:
    def __init__(self, circuit: Circuit, version: int):
        self._circuit, self._version = circuit, version
        self._known = _names("qelib1.inc" if version == 2 else "stdgates.inc")
        self._bits = _registers(circuit) if version == 2 else [range(circuit.num_clbits)] if circuit.num_clbits else []
        self._inputs = _identifiers(circuit.names)
        self._qubits, self._clbits = (
            next(name for name in (letter + "_" * k for k in itertools.count()) if name not in self._inputs.values())
            for letter in "qc"
        )
        self._defines_u = False
        self._loops: list[int] = []  # the bits of those around an instruction

    def lines(self) -> Iterator[str]:
        n = self._circuit.num_qubits
        if self._version == 2:
            yield from ("OPENQASM 2.0;", 'include "qelib1.inc";')
            yield from ([f"qreg {self._qubits}[{n}];"] if n else [])
            yield from (f"creg {self._register(k)}[{len(bits)}];" for k, bits in enumerate(self._bits))
        else:
            yield from ("OPENQASM 3.0;", 'include "stdgates.inc";')
            yield from (
                f"input float {name};" + ("" if name == was else f"  // {was}") for was, name in self._inputs.items()
            )
            yield from ([f"qubit[{n}] {self._qubits};"] if n else [])
            yield from (f"bit[{len(bits)}] {self._register(k)};" for k, bits in enumerate(self._bits))
        body = list(self._body(n))
        yield from [f"gate {U_DEFINITION}"] * self._defines_u + body

    def _body(self, n: int) -> Iterator[str]:
        for instruction in self._circuit:
            if instruction.gate in (BARRIER, MEASURE, RESET):
                yield self._operation(instruction)
            elif instruction.gate is LOOP and self._version == 3:
                yield f"while ({self._bit(instruction.clbits[0])}) {{"
                self._loops += instruction.clbits
            elif instruction.gate is REPEAT and self._version == 3:
                yield "}"
                self._loops.pop()
            elif isinstance(instruction.gate, ReadoutError) and self._version == 3:
                yield self._stored(instruction)
            elif isinstance(instruction.gate, Gate):
                for i in expand(instruction, n, self._keep):
                    yield from self._gate(i)
            else:
                raise CircuitError(f"to_qasm: OpenQASM {self._version} has nothing like {instruction.gate.name}")

    def _keep(self, i: Instruction) -> bool:
        if self._version == 3:
            return (0, i.gate.name) in self._known or i.gate.name in ("u", "x") or not i.qubits
        return (len(i.controls), i.gate.name) in self._known

    def _register(self, k: int) -> str:
        return self._clbits if len(self._bits) == 1 else f"{self._clbits}{k}"

    def _bit(self, clbit: int) -> str:
        k = next(k for k, bits in enumerate(self._bits) if clbit in bits)
        return f"{self._register(k)}[{clbit - self._bits[k].start}]"

    def _under(self, condition: Condition | None, statement: str) -> str:
        if condition is None:
            return statement
        if self._version == 2:
            k = next(k for k, bits in enumerate(self._bits) if tuple(bits) == condition.clbits)
            return f"if ({self._register(k)} == {condition.value}) {statement}"
        for c, value in reversed([bit for bit in condition.bits() if bit[0] not in self._loops[-1:]]):
            statement = f"if ({'' if value else '!'}{self._bit(c)}) {{ {statement} }}"
        return statement

    def _stored(self, i: Instruction) -> str:
        """An assignment, which is a reading that always gives the same."""
        bit, outcomes = self._bit(i.clbits[0]), tuple(i.gate.matrix[1])  # probabilities of 1
        value = {(0.0, 0.0): "0", (1.0, 1.0): "1", (1.0, 0.0): f"!{bit}"}.get(outcomes)
        if value is None:
            raise CircuitError("to_qasm: OpenQASM has no errors in reading")
        return self._under(i.condition, f"{bit} = {value};")

    def _operation(self, i: Instruction) -> str:
        if i.gate is BARRIER:
            return (
                "barrier "
                + (self._qubits if len(i.qubits) == self._circuit.num_qubits else self._wires(i.qubits))
                + ";"
            )
        what = f"reset {self._wires(i.qubits)};"
        if i.gate is MEASURE:
            bit, qubit = self._bit(i.clbits[0]), self._wires(i.qubits)
            what = f"measure {qubit} -> {bit};" if self._version == 2 else f"{bit} = measure {qubit};"
        return self._under(i.condition, what)

    def _gate(self, i: Instruction) -> Iterator[str]:
        if not i.qubits and i.controls:  # a global phase becomes that of a control
            i = i._replace(gate=find("p"), qubits=i.controls[-1:], controls=i.controls[:-1])
        wires, single = self._wires((*i.controls, *i.qubits)), self._known.get((0, i.gate.name))
        if single is None and i.gate.name == "u" and self._version == 3:
            self._defines_u, single = True, "u"
        name = self._known.get((len(i.controls), i.gate.name)) or (None if i.controls else single)
        if name is not None:
            yield self._under(i.condition, f"{name}{self._params(i)} {wires};")
        elif not i.qubits:
            if self._version == 3:
                yield self._under(i.condition, f"gphase{self._params(i)};")
        elif i.controls and single is not None:
            ctrl = "ctrl @ " if len(i.controls) == 1 else f"ctrl({len(i.controls)}) @ "
            yield self._under(i.condition, f"{ctrl}{single}{self._params(i)} {wires};")
        else:
            found = angles_of(i)
            assert found is not None  # all other gates with parameters are decomposed
            theta, phi, lam, phase = found
            yield from self._gate(i._replace(gate=find("u"), params=(theta, phi, lam)))
            if type(phase) is Linear or phase:
                yield from self._gate(Instruction(find("global_phase"), (), (phase,), condition=i.condition))

    def _wires(self, qubits: tuple[int, ...]) -> str:
        return ", ".join(f"{self._qubits}[{q}]" for q in qubits)

    def _params(self, i: Instruction) -> str:
        return f"({', '.join(_expression(p, self._inputs) for p in i.params)})" if i.params else ""


def _registers(circuit: Circuit) -> list[range]:
    """Classical registers of version 2: one for each set of bits that a condition reads, the bits between as they
    are.
    """
    wanted = sorted({i.condition.clbits for i in circuit if i.condition})
    found, end = [], 0
    for bits in wanted:
        if bits != tuple(range(bits[0], bits[0] + len(bits))) or bits[0] < end:
            raise CircuitError(
                f"to_qasm: OpenQASM 2 only has conditions on whole registers, got one on the bits "
                f"{list(bits)} (use version=3)"
            )
        if bits[0] > end:
            found.append(range(end, bits[0]))
        end = bits[-1] + 1
        found.append(range(bits[0], end))
    return found + ([range(end, circuit.num_clbits)] if end < circuit.num_clbits else [])


def _identifiers(names: tuple[str, ...]) -> dict[str, str]:
    """A name of the language for each parameter's name, different ones for different ones."""
    found: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"\W", "_", name).strip("_") or "_"
        taken = {*found.values(), *KEYWORDS, *CONSTANTS, *FUNCTIONS, *LIBRARIES["stdgates.inc"], "U", "gphase", "u"}
        while plain in taken or plain in names and plain != name:
            plain += "_"
        found[name] = plain
    return found


def _expression(value: float | Linear, inputs: dict[str, str]) -> str:
    if type(value) is not Linear:
        return _number(value)
    return linear_text(value, _number, lambda c: "" if c == 1 else f"{_number(c)}*", inputs.__getitem__)


def _number(value: float) -> str:
    """A fraction of pi where that is the same number, or the digits that restore it."""
    for divisor in (1, 2, 3, 4, 6, 8, 16, 32, 64, 128):
        times = round(value * divisor / math.pi)
        if 0 < abs(times) <= 128 and times * math.pi / divisor == value:
            sign, size = "-" * (times < 0), abs(times)
            return f"{sign}{'' if size == 1 else f'{size}*'}pi{'' if divisor == 1 else f'/{divisor}'}"
    return repr(float(value))
