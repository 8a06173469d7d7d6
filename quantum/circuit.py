"""Quantum circuits."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from . import draw, io
from .errors import CircuitError, GateError, ParameterError
from .gate_methods import GateMethods, hint
from .gates import families, fermionic
from .gates.base import Gate
from .gates.instruction import BARRIER, MEASURE, RESET, Condition, Instruction
from .gates.standard import resolve
from .noise.readout import ReadoutError
from .parameters import Linear, Parameter, angle, named_values

__all__ = ["Circuit"]

_MOST_DRAWN = 20_000  # instructions times qubits, of what notebooks draw as a picture


class Circuit(GateMethods):
    """A sequence of gates, measurements and channels on qubits.

    Every registered gate is a method: parameters first, then qubits, controls before targets (`rx("a", 2)`, `cx(0, 1)`,
    `crz(0.5, control, target)`). Methods change the circuit and return it, so that calls can be chained. Qubit 0 is the
    least significant bit of a basis state's index.

    Parameters
    ----------
    num_qubits : int
    num_clbits : int, optional
        Number of classical bits; `measure` adds bits as needed.

    Attributes
    ----------
    readout : dict of int to ReadoutError
        Errors in reading qubits, from a noise model; they act on all shots.

    Raises
    ------
    CircuitError
        If a number is negative or not an integer.

    Examples
    --------
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(2).h(0).cx(0, 1).rz("a", 1)
    >>> circuit.parameters
    ('a',)
    >>> len(circuit), circuit.depth()
    (3, 3)
    """

    def __init__(self, num_qubits: int, num_clbits: int = 0):
        for what, number in (("num_qubits", num_qubits), ("num_clbits", num_clbits)):
            check.integer(number, f"Circuit: {what}", 0, error=CircuitError)
        self._num_qubits, self._num_clbits = int(num_qubits), int(num_clbits)
        self._instructions: list[Instruction] = []
        self._data: frozenset[str] = frozenset()
        self._order: tuple[str, ...] = ()  # names that come first, in this order, where they occur
        self.readout: dict[int, ReadoutError] = {}
        self._condition: Condition | None = None
        self._programs: dict[Any, Any] = {}  # what is made of it for simulators, until it changes

    @classmethod
    def from_arrays(cls, num_qubits: int, names: Sequence[str] | str, qubits: Any, params: Any = None) -> Circuit:
        """Build a circuit from arrays of gates, several times faster than gate by gate.

        Parameters
        ----------
        num_qubits : int
        names : sequence of G str, or str
            A name for each gate, or one for all.
        qubits : (G, k) array of int
            Arguments of each gate, controls before targets; -1 behind those of gates with fewer than k.
        params : (G, p) array of float or object, optional
            Angles of each gate; anything behind those of gates with fewer than p.

        Raises
        ------
        CircuitError, GateError, ParameterError
            As for `append`.

        Examples
        --------
        >>> from triskele.quantum import Circuit
        >>> Circuit.from_arrays(3, ["h", "cx", "rx"], [[0, -1], [0, 2], [1, -1]], [[0], [0], [0.5]])
        Circuit(3 qubits, 3 instructions, 0 parameters)
        """
        from .arrays import instructions

        circuit = cls(num_qubits)
        circuit._instructions = instructions(num_qubits, names, qubits, params)
        return circuit

    # -- what is in it ----------------------------------------------------------------------------------------------

    @property
    def num_qubits(self) -> int:
        """Number of qubits, fixed when the circuit is made."""
        return self._num_qubits

    @property
    def num_clbits(self) -> int:
        """Number of classical bits: those requested and those that `measure` added.

        It can be set to any number that covers the bits in use.
        """
        return self._num_clbits

    @num_clbits.setter
    def num_clbits(self, number: int) -> None:
        used = (
            max(
                (c for i in self._instructions for c in (*i.clbits, *(i.condition.clbits if i.condition else ()))),
                default=-1,
            )
            + 1
        )
        self._num_clbits = check.integer(number, "Circuit: num_clbits", used, error=CircuitError)

    @property
    def instructions(self) -> tuple[Instruction, ...]:
        """All instructions in order."""
        return tuple(self._instructions)

    def __len__(self) -> int:
        return len(self._instructions)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(tuple(self._instructions))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Circuit):
            return NotImplemented
        return all(
            getattr(self, name) == getattr(other, name)
            for name in ("num_qubits", "num_clbits", "_instructions", "parameters", "data", "readout")
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def names(self) -> tuple[str, ...]:
        """All parameter names, data among them, in order of first appearance.

        Circuits made from others (`inverse`, `decompose`, `from_qasm`, ...) keep their order.
        """
        found = dict.fromkeys(n for i in self._instructions for n in i.names)
        return tuple(dict.fromkeys([*(n for n in self._order if n in found), *found])) if self._order else tuple(found)

    def _ordered(self, names: Iterable[str]) -> Circuit:
        """This circuit, whose names are from now on in this order."""
        self._order = tuple(names)
        return self

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of trainable parameters in the order of `names`: the order of `theta` everywhere."""
        return tuple(n for n in self.names if n not in self._data)

    @property
    def data(self) -> tuple[str, ...]:
        """Names of data parameters (see `as_encoder`) in the order of `names`: the order of `data` everywhere."""
        return tuple(n for n in self.names if n in self._data)

    @property
    def is_unitary(self) -> bool:
        """True if the circuit consists of gates (and barriers) alone."""
        return all(i.is_unitary or i.gate is BARRIER for i in self._instructions)

    def counts(self) -> dict[str, int]:
        """Return the count of each gate, controls written as leading `c`."""
        return dict(Counter("c" * len(i.controls) + i.gate.name for i in self._instructions))

    def depth(self) -> int:
        """Length of the longest chain of instructions that share qubits or classical bits; barriers add no depth."""
        level: dict[Any, int] = {}
        for i in self._instructions:
            wires: list[Any] = [*i.qubits, *i.controls, *(("c", c) for c in i.clbits)]
            wires += [("c", c) for c in i.condition.clbits] if i.condition else []
            top = max((level.get(w, 0) for w in wires), default=0) + (i.gate is not BARRIER)
            level.update((w, top) for w in wires)
        return max(level.values(), default=0)

    def __repr__(self) -> str:
        return f"Circuit({self.num_qubits} qubits, {len(self)} instructions, {len(self.parameters)} parameters)"

    def __str__(self) -> str:
        return self.draw("text") if len(self) * self.num_qubits <= 100_000 else repr(self)  # too long to read

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))  # what notebooks show

    def _repr_html_(self) -> str | None:
        if len(self) * self.num_qubits > _MOST_DRAWN:
            return None
        return f'<div style="overflow-x:auto">{self.draw("svg", background=None)}</div>'

    def _repr_svg_(self) -> str | None:
        return self.draw("svg") if len(self) * self.num_qubits <= _MOST_DRAWN else None

    def draw(self, output: str = "text", **options: Any) -> Any:
        """Draw the circuit: "text" and "svg" return a string, "mpl" a matplotlib figure (see `draw.draw_text`,
        `draw.draw_svg`, `draw.draw_mpl`).
        """
        return draw.circuit(self, output, **options)

    # -- building ---------------------------------------------------------------------------------------------------

    def append(
        self,
        gate: Any,
        qubits: Sequence[int] | int,
        params: Sequence[Any] = (),
        *,
        controls: Sequence[int] | int = (),
        clbits: Sequence[int] = (),
        condition: Condition | None = None,
    ) -> Circuit:
        """Add one instruction.

        Parameters
        ----------
        gate : str, Gate or Channel
            A registered name, with `c` before it for controls (`"cx"`: controls then lead `qubits`), or an object.
        qubits : int or sequence of int
            Targets in the gate's order.
        params : sequence of angles
            Each a number, a name, a dict of coefficients, an expression string, or made of `Parameter`s.
        controls : int or sequence of int
            Qubits that must be 1.
        clbits : sequence of int
            Classical bits of a measurement.
        condition : Condition, optional
            Classical bits and the value they must have.

        Raises
        ------
        CircuitError, GateError, ParameterError
            If the gate is unknown, qubits are out of range or repeated, the number of qubits or parameters is wrong, or
            an angle is invalid.
        """
        targets = (qubits,) if isinstance(qubits, (int, np.integer)) else tuple(qubits)
        control = (controls,) if isinstance(controls, (int, np.integer)) else tuple(controls)
        where = "c" * len(control) + (gate if isinstance(gate, str) else str(getattr(gate, "name", gate)))
        if isinstance(gate, str):
            number, gate = resolve(gate)
            if number != 0:
                number = len(targets) - gate.num_qubits if number is None else number
                control, targets = control + targets[:number], targets[number:]
        elif not hasattr(gate, "num_params"):
            raise GateError(f"append: a gate's name, or a gate, channel or operation is needed, got {gate!r}")
        n = self._num_qubits
        wires = targets + control
        for q in wires:
            if type(q) is not int and isinstance(q, np.integer):
                return self.append(
                    gate,
                    [int(t) for t in targets],
                    params,
                    controls=[int(c) for c in control],
                    clbits=clbits,
                    condition=condition,
                )
            if isinstance(q, bool) or not isinstance(q, int) or not 0 <= q < n:
                raise CircuitError(f"{where}: qubits must be integers from 0 to {n - 1}, got {q!r}{hint(gate, q)}")
        if len(wires) > 1 and len(set(wires)) != len(wires):
            raise CircuitError(f"{where}: qubits must differ, got {list(wires)}")
        if gate.num_qubits is not None and len(targets) != gate.num_qubits:
            raise CircuitError(f"{where}: acts on {gate.num_qubits} qubits, got {len(targets)}: {list(targets)}")
        if len(params) != gate.num_params:
            raise GateError(f"{where}: {gate.num_params} parameters are needed, got {len(params)}")
        if control and not isinstance(gate, Gate):
            raise CircuitError(f"{where}: only gates have controls, got {list(control)}")
        angles = tuple([angle(p, where) for p in params])
        if clbits or condition:
            if condition and self._condition:
                raise CircuitError(f"{where}: conditions cannot be nested (use one condition on all the bits)")
            if any(isinstance(c, bool) or not isinstance(c, (int, np.integer)) or c < 0 for c in clbits):
                raise CircuitError(f"{where}: classical bits must be integers >= 0, got {list(clbits)}")
            condition = condition and Condition.checked(where, *condition, self._num_clbits)
            clbits = tuple([int(c) for c in clbits])
            self._num_clbits = max(self._num_clbits, *[c + 1 for c in clbits], 0)  # there is room for what is written
        self._instructions.append(
            Instruction(gate, targets, angles, control, tuple(clbits), condition or self._condition)
        )
        return self

    def unitary(self, matrix: Any, qubits: Sequence[int] | int, *, controls: Sequence[int] | int = ()) -> Circuit:
        """Add the gate of a unitary matrix (2**q, 2**q), bit k of whose index is `qubits[k]`; GateError if it is not
        unitary.
        """
        return self.append(families.unitary(matrix), qubits, controls=controls)

    def diagonal(self, phases: Sequence[Any], qubits: Sequence[int] | int) -> Circuit:
        """Add diag(exp(i t_0), exp(i t_1), ...) with an angle for each basis state of `qubits`, the first least
        significant.
        """
        qubits = (qubits,) if isinstance(qubits, (int, np.integer)) else tuple(qubits)
        return self.append(families.diagonal(len(qubits)), qubits, phases)

    def pauli_rotation(
        self, paulis: str, angle: Any, qubits: Sequence[int] | int, *, controls: Sequence[int] | int = ()
    ) -> Circuit:
        """Add exp(-i angle/2 P) of a Pauli string; letter k of `paulis` (I, X, Y, Z) acts on `qubits[k]`."""
        return self.append(*families.rotation_on(paulis, qubits, angle), controls=controls)

    def excitation(
        self,
        angle: Any,
        source: Sequence[int] | int,
        target: Sequence[int] | int,
        *,
        controls: Sequence[int] | int = (),
    ) -> Circuit:
        """Add exp(angle (T - T^dagger)), T moving fermions from one or two `source` modes to `target` modes (after
        Jordan-Wigner).
        """
        return self.append(*fermionic.excitation_on(angle, source, target), controls=controls)

    def measure(self, qubits: Sequence[int] | int, clbits: Sequence[int] | int | None = None) -> Circuit:
        """Measure qubits into classical bits, by default those with the same numbers."""
        qubits = (qubits,) if isinstance(qubits, (int, np.integer)) else tuple(qubits)
        clbits = qubits if clbits is None else (clbits,) if isinstance(clbits, (int, np.integer)) else tuple(clbits)
        if len(clbits) != len(qubits):
            raise CircuitError(
                f"measure: the numbers of classical bits and qubits must be equal, got {len(clbits)} and {len(qubits)}"
            )
        for q, c in zip(qubits, clbits, strict=True):
            c = int(c) if isinstance(c, np.integer) else c
            self.append(MEASURE, q, clbits=(c,))
            if q in self.readout:
                self.append(self.readout[q], (), clbits=(c,))
        return self

    def measure_all(self) -> Circuit:
        """Measure every qubit into the classical bit of its number."""
        return self.measure(range(self.num_qubits))

    def reset(self, *qubits: int) -> Circuit:
        """Set qubits to 0."""
        for q in qubits:
            self.append(RESET, q)
        return self

    def barrier(self, *qubits: int) -> Circuit:
        """Add a barrier, across which no gate is moved or merged; on all qubits by default."""
        return self.append(BARRIER, qubits or tuple(range(self.num_qubits)))

    @contextlib.contextmanager
    def when(self, clbits: Sequence[int] | int, value: int = 1) -> Iterator[Circuit]:
        """Apply instructions added inside the `with` only if these classical bits (first least significant) hold
        `value`.
        """
        bits = (clbits,) if isinstance(clbits, (int, np.integer)) else tuple(clbits)
        if self._condition is not None:
            raise CircuitError("when: conditions cannot be nested (use one condition on all the bits)")
        self._condition = Condition.checked("when", bits, value, self._num_clbits)
        try:
            yield self
        finally:
            self._condition = None

    # -- circuits from circuits -------------------------------------------------------------------------------------

    def reading(self) -> tuple[list[Instruction], int, int, dict[int, ReadoutError]]:
        """Return what `compile.readings.wiring` needs: instructions, their number now, classical bits and readout."""
        return self._instructions, len(self._instructions), self._num_clbits, self.readout

    def copy(self) -> Circuit:
        """Return a copy of the circuit."""
        new = self._with(self._instructions)
        new._programs = dict(self._programs)
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_programs": {}}  # made again where they are needed

    def _with(self, instructions: Iterable[Instruction], num_qubits: int | None = None) -> Circuit:
        new = Circuit(self.num_qubits if num_qubits is None else num_qubits, self.num_clbits)
        new._instructions, new._data, new._order = list(instructions), self._data, self._order
        new.readout = self.readout
        return new

    def __add__(self, other: Circuit) -> Circuit:
        return self.copy().extend(other)

    def extend(self, other: Circuit, qubits: Sequence[int] | None = None) -> Circuit:
        """Add another circuit's instructions, its qubit k being `qubits[k]` here."""
        check.kind(other, Circuit, "extend: other", error=CircuitError)
        if qubits is None and other.num_qubits > self.num_qubits:
            raise CircuitError(
                f"extend: a circuit on {other.num_qubits} qubits does not fit on {self.num_qubits} "
                f"(give its qubits here)"
            )
        if qubits is not None:
            other = other.remap(qubits, self.num_qubits)
        if mixed := (set(self.parameters) & set(other.data)) | (set(self.data) & set(other.parameters)):
            raise ParameterError(
                f"extend: {sorted(mixed)} are trainable in one circuit and data in the other (rename them)"
            )
        added: Iterable[Instruction] = other._instructions
        if misread := {q: e for q, e in self.readout.items() if q not in other.readout}:
            added = [
                a
                for i in added
                for a in (
                    [i, Instruction(misread[i.qubits[0]], (), clbits=i.clbits, condition=i.condition)]
                    if i.gate is MEASURE and i.qubits[0] in misread
                    else [i]
                )
            ]
        if self._condition is not None:
            if any(i.condition for i in added):
                raise CircuitError("extend: conditions cannot be nested (use one condition on all the bits)")
            added = [i if i.gate is BARRIER else i._replace(condition=self._condition) for i in added]
        if self._order or other._order:
            self._order = tuple(dict.fromkeys([*self.names, *other.names]))
        self._instructions.extend(added)
        self._num_clbits = max(self._num_clbits, other.num_clbits)
        self._data, self.readout = self._data | other._data, self.readout | other.readout
        return self

    def remap(self, qubits: Sequence[int], num_qubits: int | None = None) -> Circuit:
        """Return the circuit with qubit k renamed `qubits[k]`, on `num_qubits` qubits."""
        new_n = max(self.num_qubits, max(qubits, default=-1) + 1) if num_qubits is None else num_qubits
        if len(qubits) != self.num_qubits or len(set(qubits)) != len(qubits) or any(not 0 <= q < new_n for q in qubits):
            raise CircuitError(
                f"remap: {self.num_qubits} different qubits from 0 to {new_n - 1} are needed, got {list(qubits)}"
            )
        new = self._with(
            (
                i._replace(qubits=tuple(qubits[q] for q in i.qubits), controls=tuple(qubits[q] for q in i.controls))
                for i in self._instructions
            ),
            new_n,
        )
        new.readout = {qubits[q]: error for q, error in self.readout.items()}
        return new

    def repeat(self, times: int) -> Circuit:
        """Return the circuit repeated `times` times with the same parameters."""
        check.integer(times, "repeat: times", 0, error=CircuitError)
        return self._with(self._instructions * times)

    def inverse(self) -> Circuit:
        """Return the inverse circuit.

        Raises
        ------
        CircuitError
            If it has measurements, resets, channels or conditions.
        """
        from .gates.inverse import inverse

        return self._with(inverse(i) for i in reversed(self._instructions))._ordered(self.names)

    def control(self, controls: Sequence[int] | int) -> Circuit:
        """Return the circuit controlled by `controls`, qubits that it does not act on."""
        control = (controls,) if isinstance(controls, (int, np.integer)) else tuple(controls)
        n = max(self.num_qubits, max(control, default=-1) + 1)
        if used := sorted(
            {q for i in self._instructions for q in (*i.qubits, *i.controls) if i.gate is not BARRIER}.intersection(
                control
            )
        ):
            raise CircuitError(
                f"control: controls must be qubits that the circuit does not act on, got {used} (remap it first)"
            )
        new = self._with([], n)
        for i in self._instructions:
            if i.gate is BARRIER:
                new._instructions.append(i)
            elif not i.is_unitary:
                raise CircuitError(f"control: {i.gate.name} cannot be controlled (only gates without a condition can)")
            else:
                new.append(i.gate, i.qubits, i.params, controls=i.controls + control)
        return new

    def bind(self, values: Mapping[str, float] | Sequence[float] | np.ndarray) -> Circuit:
        """Return the circuit with numbers for parameters, given by name or one for each of `parameters` in order.

        Raises
        ------
        ParameterError
            If a name is unknown, the number of values wrong, or a value not finite.
        """
        values = self.named(values)
        return self._with(
            i._replace(params=tuple(p.bind(values) if type(p) is Linear else p for p in i.params)) if i.params else i
            for i in self._instructions
        )

    def named(self, values: Mapping[str, float] | Sequence[float] | np.ndarray) -> dict[str, float]:
        """Parameter values by name, checked; a sequence gives those of `parameters` in order."""
        return named_values(values, self.parameters, self.names)

    def rename(self, names: Mapping[str, str]) -> Circuit:
        """Return the circuit with other parameter names.

        Raises
        ------
        ParameterError
            If a name is unknown, a new name is invalid, or a parameter and data would share a name.
        """
        if unknown := set(names) - set(self.names):
            raise ParameterError(f"rename: no parameters {sorted(unknown)} (this circuit has {list(self.names)})")
        for name in names.values():
            Parameter(name)
        if mixed := {names.get(n, n) for n in self.parameters} & {names.get(n, n) for n in self.data}:
            raise ParameterError(f"rename: {sorted(mixed)} would be trainable and data at once")
        new = self._with(
            i._replace(params=tuple(p.rename(names) if type(p) is Linear else p for p in i.params))
            for i in self._instructions
        )
        new._data = frozenset(names.get(n, n) for n in self._data)
        return new._ordered(names.get(n, n) for n in self._order)

    # -- files and other packages -------------------------------------------------------------------------------------

    @staticmethod
    def from_qasm(source: Any) -> Circuit:
        """Read an OpenQASM 2 or 3 program, or the file at a path: see `quantum.io.qasm.reader`."""
        return io.from_qasm(source)

    def to_qasm(self, version: int = 3) -> str:
        """Return the circuit as an OpenQASM program: see `quantum.io.qasm.writer`."""
        return io.to_qasm(self, version)

    @staticmethod
    def from_json(text: str) -> Circuit:
        """Return the circuit that `to_json` wrote."""
        return io.from_json(text)

    def to_json(self) -> str:
        """Return the circuit as JSON text with exact numbers."""
        return io.to_json(self)

    @staticmethod
    def from_qiskit(circuit: Any) -> Circuit:
        """Convert a Qiskit `QuantumCircuit`: see `quantum.io.qiskit`."""
        return io.from_qiskit(circuit)

    def to_qiskit(self) -> Any:
        """Return the circuit as a Qiskit `QuantumCircuit`."""
        return io.to_qiskit(self)

    @staticmethod
    def from_cirq(circuit: Any) -> Circuit:
        """Convert a Cirq `Circuit`: see `quantum.io.cirq`."""
        return io.from_cirq(circuit)

    def to_cirq(self) -> Any:
        """Return the circuit as a Cirq `Circuit` on `LineQubit`s."""
        return io.to_cirq(self)

    def with_noise(self, model: Any) -> Circuit:
        """Return the circuit with the channels of a `noise.NoiseModel` after (or before) its gates, and with its
        errors in reading after measurements and in all shots.
        """
        return model.apply(self)

    def as_encoder(self) -> Circuit:
        """Return the circuit with all its parameters as data: given at each call, not trained."""
        new = self._with(self._instructions)  # without programs, which tell data from parameters
        new._data = frozenset(self.names)
        return new
