"""The simulator "statevector" of `quantum.run`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from ...compile.lower import lower
from ...errors import SimulatorError
from ...gates.base import Gate
from ...gates.instruction import BARRIER, MEASURE, RESET
from ..result import StatevectorResult
from .engine import simulate as _simulate

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["check_memory", "check_state", "precision", "simulate"]


def simulate(
    circuit: Circuit,
    theta: Any = None,
    data: Any = None,
    *,
    dtype: Any = np.complex128,
    initial: Any = None,
    shots: int | None = None,
    seed: int | None = None,
) -> Any:
    """Arguments and result are those of `quantum.run`.

    Measurements at the end do not change the state that is given back; with `shots` the result counts classical bits.
    Circuits with other measurements, resets, channels or conditions are run shot by shot.
    """
    kept = circuit._programs
    if True in kept and kept["key"] == (len(circuit), circuit._data):
        program = kept[True]
    else:
        if any(i.condition or not isinstance(i.gate, Gate) and i.gate is not BARRIER for i in circuit._instructions):
            if shots is not None:
                from ..registry import find

                return find("trajectories")(circuit, theta, data, dtype=dtype, initial=initial, shots=shots, seed=seed)
            circuit = without_measurements(circuit)
        program = lower(circuit)
    if dtype is not np.complex128:
        dtype = precision(dtype)
    values = program.values(theta, data)
    n = program.num_qubits
    if n > 20:
        check_memory("statevector", n, np.dtype(dtype).itemsize << n)
    if initial is not None:
        initial = check_state(initial, n)
    return StatevectorResult(_simulate(program, values, dtype, initial), shots, seed)


def precision(dtype: Any) -> Any:
    """Return `dtype` as complex128 or complex64; raise SimulatorError for any other."""
    for known in (np.complex128, np.complex64):
        if np.dtype(dtype) == known:
            return known
    raise SimulatorError(f"run: dtype must be complex128 or complex64, got {dtype!r}")


def check_state(initial: Any, n: int) -> np.ndarray:
    """Return an initial state or result as an array, checked to have shape (2**n,) and norm 1."""
    state = np.asarray(getattr(initial, "_state", initial))
    if state.shape != (1 << n,):
        raise SimulatorError(f"run: initial must have the shape ({1 << n},) for {n} qubits, got {state.shape}")
    norm = float(np.linalg.norm(state))
    if not abs(norm - 1) < 1e-5:
        raise SimulatorError(f"run: initial must have norm 1, got {norm:.6g}")
    return state


def check_memory(simulator: str, n: int, needed: int, hint: str = "dtype=complex64 halves it") -> None:
    """Raise SimulatorError if fewer than `needed` bytes of memory are free."""
    try:
        with open("/proc/meminfo") as file:
            free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        try:
            free = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        except (ValueError, OSError, AttributeError):
            return
    if needed > free:
        raise SimulatorError(
            f"{simulator}: {n} qubits need {needed / 2**30:.3g} GiB, and {free / 2**30:.3g} GiB are free ({hint})"
        )


def without_measurements(circuit: Circuit) -> Circuit:
    """Return the circuit without measurements at its end and errors in reading them, cached; raise SimulatorError if
    there are others, resets or conditions.
    """
    kept = circuit._programs.get("unmeasured")
    if kept is not None and kept[0] == len(circuit):
        return kept[1]
    measured: set[int] = set()
    for i in circuit._instructions:
        wires = (*i.qubits, *i.controls)
        if i.gate is RESET or i.condition is not None or (i.gate is not BARRIER and measured.intersection(wires)):
            what = (
                i.gate.name
                if i.gate is RESET
                else "a condition"
                if i.condition
                else f"{i.gate.name} after a measurement"
            )
            raise SimulatorError(
                f"statevector: {what} on qubits {list(wires)} makes every shot end in its own state (give shots=...)"
            )
        if i.gate is MEASURE:
            measured.update(i.qubits)
    new = circuit._with(i for i in circuit._instructions if not i.clbits)
    circuit._programs["unmeasured"] = (len(circuit), new)
    return new
