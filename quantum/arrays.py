"""Instructions from arrays."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np

from triskele.core.extend import check

from .errors import CircuitError, GateError, ParameterError
from .gates.instruction import Instruction
from .gates.standard import resolve
from .parameters import angle

__all__ = ["instructions"]


def instructions(num_qubits: int, names: Sequence[str] | str, qubits: Any, params: Any) -> list[Instruction]:
    """See `Circuit.from_arrays`."""
    wires = np.asarray(qubits)
    if wires.ndim == 1:
        wires = wires[:, None]
    if wires.ndim != 2 or (wires.size and wires.dtype.kind not in "iu"):
        raise CircuitError(
            f"from_arrays: qubits must be integers of the shape (gates, qubits), got the shape "
            f"{np.shape(qubits)} of {wires.dtype}"
        )
    count = len(wires)
    if isinstance(names, str):
        codes, number = {names: 0}, np.zeros(count, np.intp)
    else:
        codes = {}
        number = np.fromiter((codes.setdefault(name, len(codes)) for name in names), np.intp, len(names))
    angles = np.zeros((count, 0)) if params is None else np.asarray(params)
    if angles.ndim == 1:
        angles = angles[:, None]
    if len(number) != count or len(angles) != count:
        raise CircuitError(
            f"from_arrays: names, qubits and params must be of one length, got {len(number)}, {count}, {len(angles)}"
        )
    found: list[Any] = [None] * count
    for name, code in codes.items():
        of_kind = np.flatnonzero(number == code)
        made = _of_kind(num_qubits, name, wires[of_kind], angles[of_kind])
        if len(codes) == 1:
            return made
        for i, instruction in zip(of_kind.tolist(), made, strict=True):
            found[i] = instruction
    return found


def _of_kind(num_qubits: int, name: str, wires: np.ndarray, angles: np.ndarray) -> list[Instruction]:
    controls, gate = resolve(name)
    if controls is None or gate.num_qubits is None:
        raise GateError(
            f"from_arrays: {name} takes any number of qubits (append it, or give each number its own name: ccx, c3x)"
        )
    width = controls + gate.num_qubits
    if wires.shape[1] < width or np.any(wires[:, width:] != -1):
        raise CircuitError(f"{name}: acts on {width} qubits, got rows such as {wires[0].tolist()}")
    wires = wires[:, :width]
    if wires.size and (wires.min() < 0 or wires.max() >= num_qubits):
        raise CircuitError(
            f"{name}: qubits must be integers from 0 to {num_qubits - 1}, got {wires.min()} to {wires.max()}"
        )
    for a in range(width):
        for b in range(a):
            if np.any(same := wires[:, a] == wires[:, b]):
                raise CircuitError(f"{name}: qubits must differ, got {wires[np.argmax(same)].tolist()}")
    if angles.shape[1] < gate.num_params:
        raise GateError(f"{name}: {gate.num_params} parameters are needed, got {angles.shape[1]}")
    angles = angles[:, : gate.num_params]
    if angles.dtype.kind in "fiu":
        check.finite(angles, f"{name}: an angle", error=ParameterError)
        columns = [angles[:, k].astype(float).tolist() for k in range(gate.num_params)]
    else:
        columns = [[angle(a, name) for a in angles[:, k].tolist()] for k in range(gate.num_params)]
    targets = [wires[:, k].tolist() for k in range(width)]
    return list(
        map(
            Instruction,
            repeat(gate),
            zip(*targets[controls:], strict=True) if gate.num_qubits else repeat((), len(wires)),
            zip(*columns, strict=True) if columns else repeat(()),
            zip(*targets[:controls], strict=True) if controls else repeat(()),
        )
    )
