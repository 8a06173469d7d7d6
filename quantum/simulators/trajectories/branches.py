"""Large circuits that measure and reset on their way, without noise: shots with the same outcomes share one state.

A branch is a state, the shots that are in it, and their classical bits. Every measurement splits it in two at most, and
each gate is done once for all shots of a branch: much less work where there are few measurements and many shots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.random import Fold, fold_in, key, uniform

from ...gates.instruction import BARRIER, MEASURE, RESET, Instruction
from ...noise.readout import ReadoutError
from ...shots import sampling
from ..statevector.simulator import simulate

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["branch_events", "run_branches"]


def branch_events(body: Sequence[Instruction]) -> float:
    """Count instructions that may split a branch; infinite if more than measurements, resets and errors in reading is
    random.
    """
    random = [i for i in body if i.gate in (MEASURE, RESET) or isinstance(i.gate, ReadoutError)]
    rest = [i for i in body if not (i.gate in (BARRIER, MEASURE, RESET) or isinstance(i.gate, ReadoutError))]
    return len(random) if all(i._replace(condition=None).is_unitary for i in rest) else float("inf")


def run_branches(
    circuit: Circuit,
    body: Sequence[Instruction],
    values: dict[str, float],
    dtype: Any,
    initial: np.ndarray | None,
    shots: int,
    seed: int,
    segments: dict[Any, Circuit],
) -> tuple[np.ndarray, np.ndarray]:
    """Outcomes of measuring all qubits at the end (shots,), and classical bits (shots, bits).

    `segments` keeps what is made of gates between measurements, for the next call.
    """
    words = key(seed)
    samples, bits = np.empty(shots, np.int64), np.zeros((shots, circuit.num_clbits), np.uint8)
    waiting = [(0, initial, np.arange(shots))]
    ended = 0
    while waiting:
        place, state, members = waiting.pop()
        place, state = _advance(circuit, body, place, state, bits[members[0]], values, dtype, segments)
        if place == len(body):
            child = fold_in(words, Fold.BRANCHES + ended)
            samples[members] = sampling.sample(state, len(members), int(child[0]) | int(child[1]) << 32)
            ended += 1
            continue
        i = body[place]
        u = uniform(fold_in(words, place), (shots,))[members]
        if isinstance(i.gate, ReadoutError):
            c = i.clbits[0]
            bits[members, c] = u < i.gate.matrix[1, bits[members, c]]
            groups = [(state, members[bits[members, c] == value]) for value in (0, 1)]
        else:
            groups = _measured(i, state, members, u, bits)
        waiting += [(place + 1, s, m) for s, m in groups if len(m)]
    return samples, bits


def _advance(
    circuit: Circuit,
    body: Sequence[Instruction],
    place: int,
    state: np.ndarray | None,
    bits: np.ndarray,
    values: dict[str, float],
    dtype: Any,
    segments: dict[Any, Circuit],
) -> tuple[int, np.ndarray]:
    """The state before the next instruction that is random for these classical bits, and that one's place."""
    gates = []
    while place < len(body):
        i = body[place]
        if i.condition is None or sum(int(bits[c]) << k for k, c in enumerate(i.condition.clbits)) == i.condition.value:
            if i.gate is MEASURE or i.gate is RESET or isinstance(i.gate, ReadoutError):
                break
            if i.gate is not BARRIER:
                gates.append(place)
        place += 1
    if gates or state is None:
        found = tuple(gates)
        if found not in segments:
            segments[found] = circuit._with(body[g]._replace(condition=None) for g in gates)
        segment = segments[found]
        theta, data = ([values[name] for name in names] for names in (segment.parameters, segment.data))
        state = simulate(segment, theta, data, dtype=dtype, initial=state).statevector()
    return place, state


def _measured(
    i: Instruction, state: np.ndarray, members: np.ndarray, u: np.ndarray, bits: np.ndarray
) -> list[tuple[np.ndarray, np.ndarray]]:
    """States after a measurement or reset, and the shots that are in them."""
    q = i.qubits[0]
    halves = state.reshape(-1, 2, 1 << q)
    weights = [
        float(np.vdot(h, h).real) for h in (np.ascontiguousarray(halves[:, 0]), np.ascontiguousarray(halves[:, 1]))
    ]
    outcome = u * (weights[0] + weights[1]) >= weights[0]
    if not weights[1] > 0:
        outcome[:] = False
    found = []
    for value in (0, 1):
        chosen = members[outcome == value]
        if len(chosen):
            new = np.zeros_like(halves)
            new[:, value if i.gate is MEASURE else 0] = halves[:, value] / np.sqrt(weights[value])
            if i.gate is MEASURE:
                bits[chosen, i.clbits[0]] = value
            found.append((new.reshape(-1), chosen))
    return found
