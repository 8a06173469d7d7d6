"""Circuits in the gates of a device."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ..circuit import Circuit
from ..errors import CircuitError
from ..gates.base import Gate, find
from ..gates.families import unitary
from ..gates.instruction import Instruction
from ..gates.standard import resolve
from ..parameters import Linear
from .synthesis.euler import angles, angles_of, sequence
from .synthesis.expand import expand, name_of
from .synthesis.kak import canonical, matrix_of

__all__ = ["decompose"]

_PI = math.pi
# gates of two qubits that are a CNOT up to single-qubit gates, alone or twice with RX between them
_ENTANGLERS: dict[str, list[tuple[str, tuple[float, ...], tuple[int, ...]]]] = {
    "cx": [("cx", (), (0, 1))],
    "cz": [("cz", (), (0, 1))],
    "ecr": [("ecr", (), (0, 1))],
    "rzz": [("rzz", (_PI / 2,), (0, 1))],
    "rxx": [("rxx", (_PI / 2,), (0, 1))],
    "iswap": [("iswap", (), (0, 1)), ("rx", (_PI / 2,), (0,)), ("iswap", (), (0, 1))],
}


def decompose(circuit: Circuit, basis: Iterable[str] = ("u", "cx")) -> Circuit:
    """Return the circuit in the gates of a basis, exact including the global phase.

    Gates of the basis stay, and all others become single-qubit gates and CNOTs. Runs of single-qubit gates without
    parameters become one gate, and parameters stay parameters.

    Parameters
    ----------
    circuit : Circuit
        Measurements, resets and conditions are kept where they are.
    basis : iterable of str
        Names of gates: single-qubit ones such as {"u"}, {"rz", "sx"}, {"rz", "ry"}, {"rz", "rx"}, {"rx", "ry"} or
        {"rz", "h"}, and one of "cx", "cz", "ecr", "iswap", "rzz", "rxx". "global_phase" is always allowed.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If the basis cannot make every gate, or a gate is a function of parameters that are not bound.

    References
    ----------
    V. V. Shende, S. S. Bullock and I. L. Markov, IEEE Trans. CAD 25, 1000 (2006) (matrices on any number of qubits).

    Examples
    --------
    >>> from triskele.quantum import decompose
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(3).ccx(0, 1, 2).rxx("a", 0, 2)
    >>> decompose(circuit, {"rz", "sx", "cx"}).counts()["cx"]
    8
    """
    names = frozenset(basis)
    for name in names:
        resolve(name)
    entangler = next((e for e in _ENTANGLERS if e in names), None)
    keep = lambda i: name_of(i) in names and not _is_single(i)
    new = circuit._with([])._ordered(circuit.names)
    simple = list(_entangled(circuit, keep, entangler))
    phase: Any = 0.0
    for i in _merged(simple):
        if isinstance(i.gate, Gate) and not i.qubits and not i.controls and i.condition is None:
            phase = phase + i.params[0]
        elif _is_single(i):
            if (found := angles_of(i)) is None:
                raise CircuitError(
                    f"decompose: {i.gate.name} is a function of parameters that are not bound (bind the circuit first)"
                )
            theta, phi, lam, more = found
            gates, extra = sequence(theta, phi, lam, names)
            for name, params in gates:
                new.append(name, i.qubits, params, condition=i.condition)
            if i.condition is None:
                phase = phase + extra + more
            elif not _is_zero(extra + more):
                new.append("global_phase", (), [extra + more], condition=i.condition)
        else:
            new.append(i.gate, i.qubits, i.params, controls=i.controls, clbits=i.clbits, condition=i.condition)
    if not _is_zero(phase):
        new.global_phase(math.remainder(phase, 2 * _PI) if type(phase) is float else phase)
    return new


def _is_zero(t: float | Linear) -> bool:
    return type(t) is not Linear and abs(math.remainder(t, 2 * _PI)) < 1e-15


def _is_single(i: Instruction) -> bool:
    return isinstance(i.gate, Gate) and len(i.qubits) == 1 and not i.controls


def _entangled(circuit: Circuit, keep: Any, entangler: str | None) -> Iterator[Instruction]:
    """Single-qubit gates, and gates of the basis on more."""
    for instruction in circuit:
        if not isinstance(instruction.gate, Gate):
            yield instruction
            continue
        for i in expand(instruction, circuit.num_qubits, keep):
            if not i.controls or keep(i):
                yield i
                continue
            if entangler is None:
                raise CircuitError(
                    f"decompose: a basis for {name_of(instruction)} needs one of {', '.join(_ENTANGLERS)}"
                )
            for g in _cnot(entangler).remap((*i.controls, *i.qubits), circuit.num_qubits):
                yield g._replace(condition=i.condition)


@functools.cache
def _cnot(entangler: str) -> Circuit:
    """cx(0, 1) by another gate: both have the same canonical form, so that single-qubit gates before and behind
    differ.
    """
    core = Circuit(2)
    for name, params, qubits in _ENTANGLERS[entangler]:
        core.append(name, qubits, params)
    if entangler == "cx":
        return core
    cnot = matrix_of(Circuit(2).cx(0, 1))
    wanted, made = canonical(cnot), canonical(matrix_of(core))
    circuit = Circuit(2)
    for q in (0, 1):
        circuit.append(unitary(made.b[q].conj().T @ wanted.b[q]), q)
    circuit.extend(core)
    for q in (0, 1):
        circuit.append(unitary(wanted.a[q] @ made.a[q].conj().T), q)
    return circuit.global_phase(float(np.angle(np.vdot(matrix_of(circuit), cnot))))


def _merged(instructions: list[Instruction]) -> Iterator[Instruction]:
    """Runs of single-qubit gates without parameters as one matrix each."""
    runs: dict[int, list[Instruction]] = {}

    def flush(qubits: Iterable[int]) -> Iterator[Instruction]:
        for q in qubits:
            if run := runs.pop(q, None):
                if len(run) == 1:
                    yield run[0]
                    continue
                matrix = np.eye(2)
                for i in run:
                    matrix = i.matrix() @ matrix
                theta, phi, lam, phase = angles(matrix)
                yield Instruction(find("u"), (q,), (theta, phi, lam))
                yield Instruction(find("global_phase"), (), (phase,))

    for i in instructions:
        if _is_single(i) and i.condition is None and all(type(p) is float for p in i.params):
            runs.setdefault(i.qubits[0], []).append(i)
        else:
            yield from flush((*i.qubits, *i.controls))
            yield i
    yield from flush(sorted(runs))
