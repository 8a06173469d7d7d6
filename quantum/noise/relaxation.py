"""Relaxation in time: how long each instruction takes, and how long qubits wait for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from triskele.core.extend import check

from ..errors import ChannelError
from ..gates.base import Gate
from ..gates.instruction import BARRIER, LOOP, MEASURE, REPEAT, RESET, Instruction
from ..gates.standard import resolve
from .channels import thermal_relaxation

__all__ = ["Relaxation", "by_kind", "find", "kinds"]

_OPERATIONS = {"measure": MEASURE, "reset": RESET}


def kinds(names: str | Iterable[str]) -> frozenset[Any]:
    """(number of controls, or None for any; gate or operation) of each name."""
    names = [names] if isinstance(names, str) else list(names)
    return frozenset((0, _OPERATIONS[n]) if n in _OPERATIONS else resolve(n) for n in names)


def by_kind(values: Mapping[Any, Any]) -> dict[Any, dict[Any, Any]]:
    """Values of names and of (name, *qubits), by kind and then by qubits; None is for all others."""
    table: dict[Any, dict[Any, Any]] = {}
    for key, value in values.items():
        name, *qubits = (key,) if isinstance(key, str) else key
        for kind in kinds(name):
            if qubits and kind[0] is not None and len(qubits) != kind[0] + kind[1].num_qubits:
                raise ChannelError(
                    f"NoiseModel: {name} acts on {kind[0] + kind[1].num_qubits} qubits, got {len(qubits)}: {qubits}"
                )
            table.setdefault(kind, {})[tuple(qubits) or None] = value
    return table


def find(table: dict[Any, dict[Any, Any]], i: Instruction, wires: tuple[int, ...]) -> Any:
    """The value in a table of `by_kind`, or None."""
    for kind in ((len(i.controls), i.gate), (None, i.gate)):
        for qubits in (wires, None):
            if (value := table.get(kind, {}).get(qubits)) is not None:
                return value
    return None


class Relaxation(NamedTuple):
    """Relaxation times of qubits (a number for all, or one for each), durations by kind and qubits, and a schedule."""

    t1: Any
    t2: Any
    excited: Any
    durations: dict[Any, dict[Any, float]]
    idle: str | None

    @classmethod
    def checked(cls, t1: Any, t2: Any, excited: Any, durations: Mapping[Any, float], idle: str | None) -> Relaxation:
        """As `NoiseModel.relaxation` is given them."""
        where = "NoiseModel.relaxation"
        if idle not in ("asap", "alap", None):
            raise ChannelError(f"{where}: idle must be 'asap', 'alap' or None, got {idle!r}")
        t1, t2, excited = (v if isinstance(v, (int, float)) else tuple(float(x) for x in v) for v in (t1, t2, excited))
        new = cls(t1, t2, excited, by_kind(durations), idle)
        for name, time in durations.items():
            check.number(time, f"{where}: duration of {name}", 0, error=ChannelError)
        for q in range(max(len(v) if isinstance(v, tuple) else 1 for v in (t1, t2, excited))):
            new._relax(q, 0.0)  # says what is wrong
        return new

    def _relax(self, q: int, time: float) -> Instruction:
        values = [v if not isinstance(v, tuple) else v[q] if q < len(v) else None for v in self[:3]]
        if None in values:
            raise ChannelError(
                f"NoiseModel.relaxation: all sequences must have a value for each qubit, got none for qubit {q}"
            )
        t1, t2, excited = values
        return Instruction(thermal_relaxation(t1, t2, time, excited), (q,))

    def _duration(self, i: Instruction) -> float:
        return find(self.durations, i, (*i.controls, *i.qubits)) or 0.0

    def during(self, i: Instruction, wires: tuple[int, ...]) -> list[Instruction]:
        """Relaxation of an instruction's qubits for its duration."""
        time = self._duration(i)
        return [self._relax(q, time) for q in wires] if time > 0 else []

    def waits(self, instructions: Sequence[Instruction], num_qubits: int) -> Iterator[list[Instruction]]:
        """Yield relaxation before each instruction, of those of its qubits that wait, and at last that at the end."""
        for value in self[:3]:
            if isinstance(value, tuple) and len(value) < num_qubits:
                raise ChannelError(
                    f"with_noise: relaxation needs a number for each of {num_qubits} qubits, got {len(value)}"
                )
        if self.idle is None:
            return
        spans, start = self._spans(instructions)
        time = [start] * num_qubits
        for i, (begin, end) in zip(instructions, spans, strict=True):
            wires = _wires(i)
            yield [self._relax(q, begin - time[q]) for q in wires if begin > time[q]]
            for q in wires:
                time[q] = end
        if self.idle == "alap":
            yield [self._relax(q, -t) for q, t in enumerate(time) if t < 0]

    def _spans(self, instructions: Sequence[Instruction]) -> tuple[list[tuple[float, float]], float]:
        """When each instruction begins and ends, and when the circuit begins.

        Times count from the begin of the circuit ("asap"), or are negative and count to its end ("alap"): a gate
        directly after another then begins at exactly the time at which the other ends.
        """
        late, ready, spans = self.idle == "alap", dict[Any, float](), []
        for i in reversed(instructions) if late else instructions:
            wires, read = _wires(i), i.condition.clbits if i.condition else ()
            # those that read a bit may go on at the same time, but not while it is written
            needed = [*wires, *((c, "write") for c in (*read, *i.clbits)), *((c, "read") for c in i.clbits)]
            begin = max((ready.get(w, 0.0) for w in needed), default=0.0)
            end = begin + self._duration(i)
            for w in (*wires, *((c, "read") for c in read), *((c, "write") for c in i.clbits)):
                ready[w] = max(ready.get(w, 0.0), end)
            spans.append((-end, -begin) if late else (begin, end))
        return (spans[::-1], -max(ready.values(), default=0.0)) if late else (spans, 0.0)


def _wires(i: Instruction) -> tuple[int, ...]:
    """Qubits that an instruction occupies; channels take no time."""
    return (
        (*i.controls, *i.qubits)
        if isinstance(i.gate, Gate) or i.gate in (MEASURE, RESET, BARRIER, LOOP, REPEAT)
        else ()
    )
