"""Noise models: rules that insert channels into circuits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check

from ..errors import ChannelError
from ..gates.base import Gate
from ..gates.instruction import BARRIER, MEASURE, RESET, Instruction
from ..gates.standard import resolve
from .channel import Channel
from .channels import thermal_relaxation
from .readout import ReadoutError

__all__ = ["NoiseModel"]

_OPERATIONS = {"measure": MEASURE, "reset": RESET}


class _Rule(NamedTuple):
    channel: Channel
    gates: frozenset[Any] | None  # (number of controls or None, gate)
    qubits: tuple[int, ...] | None
    before: bool


class NoiseModel:
    """Channels by gate and qubits, relaxation in time, and readout errors; `circuit.with_noise(model)` inserts them.

    A gate on more qubits than the model's channels on several qubits is refused, since part of its noise would be
    missing: decompose the circuit, add a channel of the gate's width, or name the gate in a rule of its own.

    Examples
    --------
    >>> from triskele import quantum
    >>> from triskele.quantum import noise
    >>> model = noise.NoiseModel().add(noise.depolarizing(0.001)).add(noise.depolarizing(0.01, 2), gates=["cx"])
    >>> model.readout(noise.ReadoutError(0.02, 0.01))
    NoiseModel(2 rules, readout errors)
    >>> quantum.Circuit(2).h(0).cx(0, 1).with_noise(model).counts()
    {'h': 1, 'depolarizing': 4, 'cx': 1}
    """

    def __init__(self) -> None:
        self._rules: list[_Rule] = []
        self._relaxation: tuple[Any, Any, dict[Any, float], Any] | None = None
        self._readout: dict[int | None, ReadoutError] = {}

    def add(
        self,
        channel: Channel,
        gates: str | Iterable[str] | None = None,
        qubits: int | Sequence[int] | None = None,
        *,
        before: bool = False,
    ) -> NoiseModel:
        """Let `channel` act with gates; rules act in the order in which they were added.

        Parameters
        ----------
        channel : Channel
            On one qubit: it acts on each of the gate's qubits. On k qubits: on the qubits of gates that have k,
            controls first; it does not affect gates on fewer.
        gates : str or iterable of str, optional
            Names of gates (`"cx"`, `"rz"`), `"measure"` or `"reset"`. Defaults to every gate.
        qubits : int or sequence of int, optional
            For a channel on one qubit, the qubits it acts on; else the gate's qubits, controls first. All when left
            out.
        before : bool
            Insert the channel before the gate instead of after it.

        Returns
        -------
        NoiseModel
            The model itself.

        Raises
        ------
        ChannelError
            If `channel` is not a channel, or the number of `qubits` is wrong.
        GateError
            If a gate is unknown.
        """
        check.kind(channel, Channel, "NoiseModel.add: channel", error=ChannelError)
        places = (qubits,) if isinstance(qubits, (int, np.integer)) else None if qubits is None else tuple(qubits)
        if places is not None and channel.num_qubits > 1 and len(places) != channel.num_qubits:
            raise ChannelError(
                f"NoiseModel.add: {channel.name} acts on {channel.num_qubits} qubits, got {len(places)}: {list(places)}"
            )
        self._rules.append(_Rule(channel, None if gates is None else _kinds(gates), places, before))
        return self

    def relaxation(
        self, t1: Any, t2: Any, durations: Mapping[str, float], *, excited_population: Any = 0.0
    ) -> NoiseModel:
        """Let qubits relax during gates and while they wait for others.

        Gates start as early as the circuit's order allows; those without a duration take no time.

        Parameters
        ----------
        t1, t2 : float, or sequence of float
            Relaxation times, of all qubits or of each.
        durations : dict of str to float
            Gate names, `"measure"`, `"reset"` to times in the same unit.
        excited_population : float, or sequence of float
            Population of 1 at equilibrium.

        Raises
        ------
        ChannelError
            If times are out of range.
        GateError
            If a gate is unknown.
        """
        t1, t2, excited = (
            v if isinstance(v, (int, float)) else tuple(float(x) for x in v) for v in (t1, t2, excited_population)
        )
        for q in range(max(len(v) if isinstance(v, tuple) else 1 for v in (t1, t2, excited))):
            for time in durations.values():
                thermal_relaxation(_of(t1, q), _of(t2, q), time, _of(excited, q))  # says what is wrong
        self._relaxation = (t1, t2, {kind: time for name, time in durations.items() for kind in _kinds(name)}, excited)
        return self

    def readout(self, error: ReadoutError, qubits: int | Iterable[int] | None = None) -> NoiseModel:
        """Add a readout error to measurements of these qubits, all by default.

        It acts on the measurements in a circuit, and wherever a result draws shots of these qubits.

        Raises
        ------
        ChannelError
            If `error` is not a ReadoutError.
        """
        check.kind(error, ReadoutError, "NoiseModel.readout: error", error=ChannelError)
        self._readout.update(
            (q, error)
            for q in ([None] if qubits is None else [qubits] if isinstance(qubits, (int, np.integer)) else qubits)
        )
        return self

    def __repr__(self) -> str:
        parts = [f"{len(self._rules)} rule{'s' * (len(self._rules) != 1)}"]
        parts += ["relaxation"] * (self._relaxation is not None) + ["readout errors"] * bool(self._readout)
        return f"NoiseModel({', '.join(parts)})"

    def apply(self, circuit: Any) -> Any:
        """Return the circuit with noise; `Circuit.with_noise` calls this.

        Raises
        ------
        ChannelError
            If a channel and a gate that was named for it have different numbers of qubits, or a gate is wider than the
            channels on several qubits that act with every gate.
        """
        for value in self._relaxation or ():
            if isinstance(value, tuple) and len(value) < circuit.num_qubits:
                raise ChannelError(
                    f"with_noise: relaxation needs a number for each of {circuit.num_qubits} qubits, got {len(value)}"
                )
        out: list[Instruction] = []
        time = [0.0] * circuit.num_qubits
        for i in circuit:
            wires = (*i.controls, *i.qubits)
            if not isinstance(i.gate, Gate) and i.gate not in (MEASURE, RESET):
                out += [*(self._relax(i, wires, time)[0] if i.gate is BARRIER else ()), i]
                continue
            self._check_width(i, wires)
            before, after = self._noise(i, wires, True), self._noise(i, wires, False)
            waiting, passing = self._relax(i, wires, time)
            out += [*waiting, *before, i, *after, *passing]
            if i.gate is MEASURE and (error := self._readout.get(i.qubits[0], self._readout.get(None))) is not None:
                out.append(Instruction(error, (), clbits=i.clbits, condition=i.condition))
        new = circuit._with(out)
        errors = {q: self._readout.get(q, self._readout.get(None)) for q in range(circuit.num_qubits)}
        new.readout = circuit.readout | {q: e.then(circuit.readout.get(q)) for q, e in errors.items() if e}
        return new

    def _check_width(self, i: Instruction, wires: tuple[int, ...]) -> None:
        """Refuse a gate that is wider than the channels that act with every gate, and has none of its own."""
        acting = [r for r in self._rules if _matches(r.gates, i)]
        narrow = [
            r
            for r in acting
            if 1 < r.channel.num_qubits < len(wires) and (r.qubits is None or set(r.qubits) <= set(wires))
        ]
        if narrow and all(r.gates is None and r.channel.num_qubits != len(wires) for r in acting):
            raise ChannelError(
                f"with_noise: {narrow[0].channel.name} acts on {narrow[0].channel.num_qubits} qubits, but "
                f"{'c' * len(i.controls)}{i.gate.name} on "
                f"{len(wires)}: {list(wires)} (decompose the circuit, as in quantum.decompose(circuit, ['u', 'cx']), "
                f"or add a channel for this gate)"
            )

    def _noise(self, i: Instruction, wires: tuple[int, ...], before: bool) -> list[Instruction]:
        found = []
        for rule in self._rules:
            if rule.before != before or not _matches(rule.gates, i):
                continue
            k = rule.channel.num_qubits
            if k == 1:
                found += [
                    Instruction(rule.channel, (q,), condition=i.condition)
                    for q in wires
                    if rule.qubits is None or q in rule.qubits
                ]
            elif k == len(wires):
                if rule.qubits is None or rule.qubits == wires:
                    found.append(Instruction(rule.channel, wires, condition=i.condition))
            elif rule.gates is not None:
                raise ChannelError(
                    f"with_noise: {rule.channel.name} acts on {k} qubits, but {i.gate.name} on "
                    f"{len(wires)}: {list(wires)}"
                )
        return found

    def _relax(
        self, i: Instruction, wires: tuple[int, ...], time: list[float]
    ) -> tuple[list[Instruction], list[Instruction]]:
        """Relaxation of those that wait for the others, and of all during the gate."""
        if self._relaxation is None:
            return [], []
        t1, t2, durations, excited = self._relaxation
        kind = (len(i.controls), i.gate)
        duration = durations.get(kind, durations.get((None, i.gate), 0.0))
        start = max((time[q] for q in wires), default=0.0)

        def relax(q: int, length: float) -> list[Instruction]:
            channel = thermal_relaxation(*(_of(v, q) for v in (t1, t2)), length, _of(excited, q))
            return [Instruction(channel, (q,))] if length > 0 else []

        waiting = [x for q in wires for x in relax(q, start - time[q])]
        for q in wires:
            time[q] = start + duration
        return waiting, [x for q in wires for x in relax(q, duration)]


def _kinds(names: str | Iterable[str]) -> frozenset[Any]:
    names = [names] if isinstance(names, str) else list(names)
    return frozenset((0, _OPERATIONS[n]) if n in _OPERATIONS else resolve(n) for n in names)


def _matches(kinds: frozenset[Any] | None, i: Instruction) -> bool:
    if kinds is None:
        return isinstance(i.gate, Gate)
    return (len(i.controls), i.gate) in kinds or (None, i.gate) in kinds


def _of(value: float | tuple[float, ...], q: int) -> float:
    if not isinstance(value, tuple):
        return value
    if q >= len(value):
        raise ChannelError(
            f"NoiseModel.relaxation: all sequences must have a value for each qubit, got one of only {len(value)}"
        )
    return value[q]
