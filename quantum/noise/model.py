"""Noise models: rules that insert channels into circuits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from triskele.core.extend import check

from ..errors import ChannelError
from ..gates.base import Gate
from ..gates.instruction import MEASURE, RESET, Instruction
from .channel import Channel
from .device import Device
from .readout import ReadoutError
from .relaxation import Relaxation, kinds

__all__ = ["NoiseModel"]


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
        self._relaxation: Relaxation | None = None
        self._device: Device | None = None
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
        self._rules.append(_Rule(channel, None if gates is None else kinds(gates), places, before))
        return self

    @classmethod
    def from_device(cls, device: Any, *, temperature: float = 0.0, idle: str | None = None) -> NoiseModel:
        """Build the noise of a device from its table of numbers, or from a Qiskit backend.

        Each gate is followed by a depolarizing channel and by the relaxation of its qubits for its duration. The
        depolarizing channel is such that both together have the reported error, as in Qiskit Aer's
        `NoiseModel.from_backend`; it is left out where relaxation alone exceeds the error. A gate that the device does
        not have is refused.

        Parameters
        ----------
        device : dict, or Qiskit BackendV2 or Target
            A dict has the lists `"qubits"` and `"gates"`. Qubit k is a dict of any of `"t1"`, `"t2"` (s), `"p01"`,
            `"p10"` (see `ReadoutError`), `"frequency"` (Hz) and `"excited_population"`. Without t1 and t2 a qubit does
            not relax; a t2 above 2 t1, as noisy measurements give it, counts as 2 t1. A gate is a dict of `"gate"` (its
            name, `"measure"` or `"reset"`), `"qubits"` (controls first; all qubits when left out), `"error"` (the
            average gate infidelity) and `"duration"` (s), both 0 when left out.
        temperature : float
            In K: sets the excited population of qubits with a frequency and without a population of their own.
        idle : {"asap", "alap"}, optional
            Let qubits relax while they wait and are measured, by the schedule that `relaxation` describes. When left
            out, they relax during gates and resets alone, as in Aer.

        Raises
        ------
        ChannelError
            If a number or name in the table is wrong, or the device reports no noise.
        GateError
            If a gate of the dict is unknown.

        References
        ----------
        M. A. Nielsen, Phys. Lett. A 303, 249 (2002), doi:10.1016/S0375-9601(02)01272-0: average and entanglement
        fidelities.

        Examples
        --------
        >>> from triskele import quantum
        >>> from triskele.quantum import noise
        >>> qubit = {"t1": 120e-6, "t2": 90e-6, "p01": 0.03, "p10": 0.01}
        >>> gates = [{"gate": "sx", "error": 3e-4, "duration": 35e-9}, {"gate": "rz"}]
        >>> gates.append({"gate": "cx", "qubits": [0, 1], "error": 7e-3, "duration": 300e-9})
        >>> model = noise.NoiseModel.from_device({"qubits": [qubit, qubit], "gates": gates})
        >>> quantum.Circuit(2).sx(0).rz(0.5, 0).cx(0, 1).with_noise(model).counts()
        {'sx': 1, 'depolarizing': 2, 'thermal_relaxation': 3, 'rz': 1, 'cx': 1}
        """
        found = Device.read(device, temperature)
        model = cls()
        model._device = found
        durations = {key: time for key, (_, time) in found.gates.items() if idle is not None or key[0] != "measure"}
        model.relaxation(found.t1, found.t2, durations, excited_population=found.excited, idle=idle)
        for q, error in found.readout.items():
            model.readout(error, q)
        return model

    def relaxation(
        self,
        t1: Any,
        t2: Any,
        durations: Mapping[Any, float],
        *,
        excited_population: Any = 0.0,
        idle: str | None = "asap",
    ) -> NoiseModel:
        """Let qubits relax during gates and while they wait for others.

        Instructions without a duration take no time. One with a classical condition waits for the measurements that
        its bits come from.

        Parameters
        ----------
        t1, t2 : float, or sequence of float
            Relaxation times, of all qubits or of each.
        durations : dict of str, or of tuple (str, int, ...), to float
            Gate names, `"measure"`, `"reset"`, or one of these and its qubits, controls first (`("cx", 0, 1)`), which
            goes before the name alone; to times in the same unit.
        excited_population : float, or sequence of float
            Population of 1 at equilibrium.
        idle : {"asap", "alap", None}
            Schedule of waiting qubits. With "asap", gates start as early as the circuit's order allows, and a qubit is
            done after its last gate (a barrier at the end lets all wait for the last). With "alap", they start as late
            as possible, which is how most devices run, and all qubits are done at the same time. With None, qubits
            that wait do not relax.

        Raises
        ------
        ChannelError
            If times are out of range.
        GateError
            If a gate is unknown.
        """
        self._relaxation = Relaxation.checked(t1, t2, excited_population, durations, idle)
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
        parts += ["a device's gates"] * (self._device is not None)
        parts += ["relaxation"] * (self._relaxation is not None) + ["readout errors"] * bool(self._readout)
        return f"NoiseModel({', '.join(parts)})"

    def apply(self, circuit: Any) -> Any:
        """Return the circuit with noise; `Circuit.with_noise` calls this.

        Raises
        ------
        ChannelError
            If a channel and a gate that was named for it have different numbers of qubits, a gate is wider than the
            channels on several qubits that act with every gate, or the model's device does not have a gate.
        """
        instructions = circuit.instructions
        waits = self._relaxation.waits(instructions, circuit.num_qubits) if self._relaxation else iter(())
        out: list[Instruction] = []
        for i in instructions:
            out += next(waits, ())
            if not isinstance(i.gate, Gate) and i.gate not in (MEASURE, RESET):
                out.append(i)
                continue
            wires = (*i.controls, *i.qubits)
            self._check_width(i, wires)
            before, after = self._noise(i, wires, True), self._noise(i, wires, False)
            if i.condition and set(i.clbits) & set(i.condition.clbits) and (after or self._error(i.qubits[0])):
                raise ChannelError(
                    f"with_noise: the measurement of qubit {i.qubits[0]} into bit {i.clbits[0]} has a condition on "
                    f"that bit, which its noise would see changed (measure into another bit)"
                )
            if self._device is not None and (channel := self._device.depolarizing(i, wires)) is not None:
                after.append(Instruction(channel, wires, condition=i.condition))
            out += [*before, i, *after, *(self._relaxation.during(i, wires) if self._relaxation else ())]
            if i.gate is MEASURE and (error := self._error(i.qubits[0])) is not None:
                out.append(Instruction(error, (), clbits=i.clbits, condition=i.condition))
        out += next(waits, ())
        new = circuit._with(out)
        errors = {q: self._error(q) for q in range(circuit.num_qubits)}
        new.readout = circuit.readout | {q: e.then(circuit.readout.get(q)) for q, e in errors.items() if e}
        return new

    def _error(self, qubit: int) -> ReadoutError | None:
        return self._readout.get(qubit, self._readout.get(None))

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


def _matches(kinds: frozenset[Any] | None, i: Instruction) -> bool:
    if kinds is None:
        return isinstance(i.gate, Gate)
    return (len(i.controls), i.gate) in kinds or (None, i.gate) in kinds
