"""The cost of running a circuit: passes over memory, arithmetic, bytes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from triskele.core.extend import threads

from ...compile.lower import lower
from ...compile.ops import Form, Kind, OpColumn
from .engine import PARALLEL_WORK, pack
from .simulator import precision

if TYPE_CHECKING:
    from ...circuit import Circuit

__all__ = ["Plan", "plan"]


@dataclass(frozen=True)
class Plan:
    """Costs of one run as a state vector.

    Attributes
    ----------
    num_qubits, gates : int
    state_bytes : int
    factors : int
        Ops before merging: one for each factor of each gate.
    ops : int
        After merging.
    passes : int
        Times that the state goes through the cache.
    ops_per_pass : tuple of int
    local_bits : int
        Qubits of a block; a pass does all ops that mix these alone.
    flops : float
        Multiplications and additions, of those blocks that are not zero.
    bytes_moved : float
        Read and written by passes; 0 if the whole state is one block.
    threads : int

    Examples
    --------
    >>> from triskele import quantum
    >>> plan = quantum.plan(quantum.Circuit(3).h(0).cx(0, 1).cx(1, 2))
    >>> plan.num_qubits, plan.gates, plan.state_bytes
    (3, 3, 128)
    """

    num_qubits: int
    gates: int
    state_bytes: int
    factors: int
    ops: int
    passes: int
    ops_per_pass: tuple[int, ...]
    local_bits: int
    flops: float
    bytes_moved: float
    threads: int
    single: bool

    def limit(self) -> tuple[float, float]:
        """Seconds that arithmetic and data movement alone would take, at the rates of this machine (measured once, 0.1
        s).
        """
        flops, rate = _machine(self.single, max(20, min(27, self.state_bytes.bit_length())))
        return self.flops / (flops * self.threads), self.bytes_moved / rate

    def __str__(self) -> str:
        most = max(self.ops_per_pass, default=0)
        return "\n".join(
            [
                f"{self.num_qubits} qubits, {'complex64' if self.single else 'complex128'}: {_size(self.state_bytes)}, "
                f"{self.threads} thread{'s' * (self.threads > 1)}",
                f"{self.gates} gates -> {self.factors} factors -> {self.ops} ops in {self.passes} "
                f"pass{'es' * (self.passes != 1)}"
                f" over blocks of {self.local_bits} qubits (at most {most} ops in one)",
                f"{self.flops:.3g} flops, {_size(self.bytes_moved)} moved, "
                f"{self.flops / self.bytes_moved if self.bytes_moved else np.inf:.3g} flops a byte",
            ]
        )


def plan(circuit: Circuit, dtype: Any = np.complex128) -> Plan:
    """The execution plan of a circuit as a state vector.

    Parameters
    ----------
    circuit : Circuit
        A circuit of gates.
    dtype : complex128 or complex64

    Raises
    ------
    SimulatorError
        If there are measurements, resets, channels or conditions.

    Examples
    --------
    >>> from triskele.quantum import plan
    >>> from triskele import quantum
    >>> circuit = quantum.Circuit(16)
    >>> for q in range(16):
    ...     _ = circuit.rx(0.1, q).rz(0.2, q).cx(q, (q + 1) % 16)
    >>> costs = plan(circuit)
    >>> costs.gates, costs.passes < 8
    (48, True)
    """
    single = precision(dtype) is np.complex64
    unfused, program = lower(circuit, False), lower(circuit)
    n = program.num_qubits
    table = pack(program, single).schedule
    amplitudes = (16 if single else 8) * max(1.0, 2.0**n / (16 if single else 8))
    size = 2 * amplitudes * (4 if single else 8)
    flops = moved = 0.0
    per_pass, parallel = [], False
    for first, last, local, _, _, zero, *_ in table.passes.tolist():
        share = 2.0 ** -int(zero).bit_count()
        flops += sum(_flops(program.ops[op]) for op in table.code[first:last, 1]) * amplitudes * share
        moved += 2 * size * share if local < n else 0.0
        per_pass.append(last - first)
        parallel |= local < n and (last - first) << n >= PARALLEL_WORK
    return Plan(
        n,
        len(circuit),
        int(size),
        len(unfused.ops),
        len(program.ops),
        len(table.passes),
        tuple(per_pass),
        int(table.passes[0, 2]),
        flops,
        moved,
        threads.get_threads() if parallel else 1,
        single,
    )


def _flops(op: np.ndarray) -> float:
    """Multiplications and additions for each amplitude."""
    share = 2.0 ** -int(op[OpColumn.M] & ~op[OpColumn.X]).bit_count()
    if op[OpColumn.KIND] == Kind.DIAG:
        return 6 * share
    if op[OpColumn.KIND] == Kind.DENSE:
        return 8 * 2.0 ** int(op[OpColumn.WIDTH]) * share
    inside = int(op[OpColumn.M] & op[OpColumn.X]).bit_count()
    return (
        {Form.GENERAL: 14, Form.REAL: 6, Form.IMAGINARY: 6, Form.SWAP: 0}[Form(int(op[OpColumn.FORM]))]
        * share
        * 2.0**-inside
    )


@cache
def _machine(single: bool, log_bytes: int) -> tuple[float, float]:
    """Flops a second of one thread in general single-qubit gates in the cache, and bytes a second (read and written) of
    a copy.
    """
    from ...circuit import Circuit
    from .engine import simulate

    seconds, repeats, n = [], 50, 10
    for count in (repeats, 2 * repeats):
        circuit = Circuit(n)
        for _ in range(count):
            circuit.sx(5).sx(6)
        program, best = lower(circuit, False), np.inf
        for _ in range(20):
            start = time.perf_counter()
            simulate(program, np.zeros(0), np.complex64 if single else np.complex128)
            best = min(best, time.perf_counter() - start)
        seconds.append((best, sum(_flops(op) for op in program.ops) * 2.0**n))
    flops = (seconds[1][1] - seconds[0][1]) / max(seconds[1][0] - seconds[0][0], 1e-9)
    a, b, best = np.zeros(1 << log_bytes - 4), np.zeros(1 << log_bytes - 4), np.inf
    for _ in range(5):
        start = time.perf_counter()
        np.copyto(a, b)
        best = min(best, time.perf_counter() - start)
    return flops, 2 * a.nbytes / best


def _size(count: float) -> str:
    power = min(3, max(0, int(np.log2(max(count, 1)) // 10)))
    return f"{count / 1024**power:.3g} {('B', 'KiB', 'MiB', 'GiB')[power]}"
