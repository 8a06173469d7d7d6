"""A device's numbers: qubits, gates, and the depolarizing channels that make up their errors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
from scipy.special import expit

from triskele.core.extend import check

from ..errors import ChannelError, GateError
from ..gates.base import Gate
from ..gates.instruction import MEASURE, Instruction
from .channel import Channel
from .channels import depolarizing
from .readout import ReadoutError
from .relaxation import by_kind, find, kinds

__all__ = ["Device"]

_KELVIN_PER_HERTZ = 6.62607015e-34 / 1.380649e-23  # h/k_B; exact: The International System of Units, 9th ed. (2019)
_WHERE = "NoiseModel.from_device"


@dataclass
class Device:
    """Numbers of a device, those of qubits in lists, those of gates by (name, *qubits); times in seconds."""

    t1: list[float] = field(default_factory=list)
    t2: list[float] = field(default_factory=list)
    excited: list[float] = field(default_factory=list)
    readout: dict[int, ReadoutError] = field(default_factory=dict)
    gates: dict[tuple[Any, ...], tuple[float, float]] = field(default_factory=dict)  # (error, duration)
    by_kind: dict[Any, dict[Any, tuple[float, float]]] = field(default_factory=dict)  # the same, to look up

    @classmethod
    def read(cls, device: Any, temperature: float) -> Device:
        """From a table, or a Qiskit backend or Target."""
        check.number(temperature, f"{_WHERE}: temperature", 0, error=ChannelError)
        table = _row(device if isinstance(device, dict) else _table(device), ("qubits", "gates"), "the device")
        new = cls()
        for q, given in enumerate(table.get("qubits", ())):
            row = _row(given, ("t1", "t2", "p01", "p10", "frequency", "excited_population"), f"qubit {q}")
            new._add_qubit(q, row, temperature)
        for k, given in enumerate(table.get("gates", ())):
            new._add_gate(_row(given, ("gate", "qubits", "error", "duration"), f"gate {k}"))
        new.by_kind = by_kind(new.gates)
        relaxes = min([*new.t1, *new.t2], default=math.inf) < math.inf and any(t for _, t in new.gates.values())
        if not (relaxes or new.readout or any(e for e, _ in new.gates.values())):
            raise ChannelError(f"{_WHERE}: the device reports no errors, and no relaxation times with durations")
        return new

    def _add_qubit(self, q: int, row: dict[str, Any], temperature: float) -> None:
        where = f"{_WHERE}: qubit {q}"
        t1, t2 = (row.get(what, math.inf) for what in ("t1", "t2"))
        for what, value in (("t1", t1), ("t2", t2)):
            if not isinstance(value, (int, float, np.number)) or not value > 0:
                raise ChannelError(f"{where}: {what} must be a number above 0 (seconds), got {value!r}")
        self.t1.append(t1)
        self.t2.append(min(t2, 2 * t1))
        numbers = {
            what: check.number(row.get(what, 0.0), f"{where}: {what}", 0, most, error=ChannelError)
            for what, most in (("p01", 1), ("p10", 1), ("excited_population", 1), ("frequency", math.inf))
        }
        population = numbers["excited_population"]
        if "excited_population" not in row and "frequency" in row and temperature > 0:
            population = float(expit(-_KELVIN_PER_HERTZ * numbers["frequency"] / temperature))
        self.excited.append(population)
        if numbers["p01"] or numbers["p10"]:
            self.readout[q] = ReadoutError(numbers["p01"], numbers["p10"])

    def _add_gate(self, row: dict[str, Any]) -> None:
        name, qubits = row.get("gate", ""), row.get("qubits", ())
        qubits = (qubits,) if isinstance(qubits, (int, np.integer)) else tuple(qubits)
        where = f"{_WHERE}: {' '.join(map(str, (name, *qubits)))}"
        if any(q not in range(len(self.t1)) for q in qubits) or len(set(qubits)) < len(qubits):
            raise ChannelError(f"{where}: qubits must differ and be from 0 to {len(self.t1) - 1}")
        error, duration = (
            check.number(row.get(what, 0.0), f"{where}: {what}", 0, most, error=ChannelError)
            for what, most in (("error", 1), ("duration", math.inf))
        )
        if error and name in ("measure", "reset"):
            raise ChannelError(f"{where}: only gates have an error (those of readout are p01 and p10 of a qubit)")
        self.gates[name, *qubits] = error, duration

    def depolarizing(self, i: Instruction, wires: tuple[int, ...]) -> Channel | None:
        """The channel that makes up the difference between a gate's error and that of relaxation; None if there is
        none. Raise ChannelError if the device does not have the gate.

        Relaxation for a time t leaves the entanglement fidelity f, the product of (1 + exp(-t/T1) + 2 exp(-t/T2))/4
        over the qubits. Depolarizing with probability p makes it (1 - p) f + p/d**2 in dimension d, and the average
        fidelity F belongs to the entanglement fidelity ((d + 1) F - 1)/d.
        """
        if i.gate is MEASURE or not wires:  # readout errors stand for its errors; a global phase takes no gate
            return None
        error, time = find(self.by_kind, i, wires) or self._refuse(i, wires)
        f = math.prod((1 + math.exp(-time / self.t1[q]) + 2 * math.exp(-time / self.t2[q])) / 4 for q in wires)
        d, most = 2.0 ** len(wires), 1 / (1 - 0.25 ** len(wires))
        missing, left = f - 1 + error * (d + 1) / d, f - 1 / d**2
        if not error or missing <= 0:
            return None
        return depolarizing(min(missing / left, most) if left > 0 else most, len(wires))

    def _refuse(self, i: Instruction, wires: tuple[int, ...]) -> NoReturn:
        name, kind = "c" * len(i.controls) + i.gate.name, (len(i.controls), i.gate)
        if places := [str(list(q)) for q in self.by_kind.get(kind, ())]:
            raise ChannelError(
                f"with_noise: the device has no {name} on {list(wires)}, but on {', '.join(places[:6])}"
                f"{', ...' * (len(places) > 6)} (route the circuit, as in qiskit.transpile(circuit.to_qiskit(), "
                f"backend), or add a row for these qubits)"
            )
        names = list(dict.fromkeys(key[0] for key in self.gates if key[0] not in ("measure", "reset")))
        raise ChannelError(
            f"with_noise: the device has no {name}, but {', '.join(names)} (quantum.decompose(circuit, {names}), or "
            f"add a row for this gate)"
        )


def _row(given: Any, known: tuple[str, ...], what: str) -> dict[str, Any]:
    """The numbers of a row that are given, under names that are known."""
    check.kind(given, Mapping, f"{_WHERE}: {what}", "a dict", error=ChannelError)
    if unknown := [key for key in given if key not in known]:
        raise ChannelError(f"{_WHERE}: {what} has {unknown[0]!r}, which is none of {', '.join(known)}")
    return {key: value for key, value in given.items() if value is not None}


def _table(backend: Any) -> dict[str, Any]:
    """A Qiskit backend or Target as a table; gates that Triskele does not know cannot be in a circuit."""
    target = getattr(backend, "target", backend)
    if not hasattr(target, "operation_names"):
        raise ChannelError(f"{_WHERE}: a dict, or a Qiskit BackendV2 or Target is needed, got {type(backend).__name__}")
    properties = target.qubit_properties or [None] * (target.num_qubits or 0)
    qubits = [{what: getattr(p, what, None) for what in ("t1", "t2", "frequency")} for p in properties]
    gates = []
    for name in target.operation_names:
        try:
            ((_, gate),) = kinds(name)
        except GateError:
            continue
        for places, p in (target[name] or {None: None}).items():
            error = getattr(p, "error", None)
            gates.append({"gate": name, "qubits": places, "duration": getattr(p, "duration", None)})
            if isinstance(gate, Gate):
                gates[-1]["error"] = error
            elif gate is MEASURE and places is not None:
                qubits[places[0]]["p01"] = getattr(p, "prob_meas0_prep1", error)
                qubits[places[0]]["p10"] = getattr(p, "prob_meas1_prep0", error)
    return {"qubits": qubits, "gates": gates}
