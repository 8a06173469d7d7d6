"""Pauli sums as rows for the kernels: what is added to each amplitude of H|psi> from which other one.

Terms with the same x mask are one group: they move amplitude j ^ x to j. In the engine's layout an amplitude is a lane
of a block (a vector of re, then one of im), so the masks fall into a block part and a lane part; signs and patterns of
lane bits are written into vectors of weights. A group with several terms is split by the bits of its x mask: for
molecular Hamiltonians most of the patterns then vanish, and those that stay have a single sign mask, where their Pauli
strings number 8 and more. A row whose weight depends on the block in many ways has it in a table, memory permitting.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import OperatorError
from ...operators.pauli import PauliSum

__all__ = ["Observable", "compile_observable", "join"]

X, LANES, FIXED, PATTERN, IMAGINARY, FIRST, COUNT, TABLE = range(8)  # columns of `rows`
_MOST_SPLIT = 5  # bits of an x mask by which a group is split
_MOST_TERMS = 2  # sign masks a row may have before a table is made
_TABLE_BYTES = 1 << 26


@dataclass(frozen=True, eq=False)
class Observable:
    """A compiled Hermitian Pauli sum on `num_qubits` qubits.

    Row r adds i**imaginary * weight(B)[lane] * psi[B ^ x, lane ^ lanes] to block B where B & fixed == pattern; the
    weight is `tables[table + index of B among such]`, or if `table` is -1 the sum of `weights[k, parity(B & masks[k])]`
    over its `count` entries from `first` on.
    """

    num_qubits: int
    rows: np.ndarray  # (R, 8) int64
    masks: np.ndarray  # (E,) int64
    weights: np.ndarray  # (E, 2, lanes): for even and for odd parity
    tables: np.ndarray  # flat, of the dtype of weights


def compile_observable(h: PauliSum, num_qubits: int, dtype: type = np.float64) -> Observable:
    """Return the rows of a Hermitian Pauli sum for circuits of `num_qubits` qubits; `dtype` is float64 or float32."""
    if h.num_qubits > num_qubits:
        raise OperatorError(
            f"Expectation: the operator acts on qubit {h.num_qubits - 1}, the circuit has {num_qubits} qubits"
        )
    if not h.is_hermitian:
        worst = h.coefficients[np.argmax(abs(h.coefficients.imag))]
        raise OperatorError(
            f"Expectation: an energy needs a Hermitian operator, got the coefficient {worst} (take h + h.adjoint())"
        )
    lanes = 64 // np.dtype(dtype).itemsize
    lane_bits = lanes.bit_length() - 1
    x, z = h.x[:, 0].astype(np.int64), h.z[:, 0].astype(np.int64)
    power = np.bitwise_count(x & z) & 3
    value = h.coefficients.real * np.array([1.0, -1.0, -1.0, 1.0])[power]  # (-i)**power without its factor i
    imaginary = (power & 1).astype(np.int64)

    # groups of equal x and phase, split by the bits of x above the lanes
    order = np.lexsort([imaginary, x])
    x, z, value, imaginary = x[order], z[order], value[order], imaginary[order]
    start = np.flatnonzero(np.r_[True, (np.diff(x) != 0) | (np.diff(imaginary) != 0)]) if len(x) else np.zeros(0, int)
    size = np.repeat(np.diff(np.r_[start, len(x)]), np.diff(np.r_[start, len(x)]))
    x_block = x >> lane_bits
    fixed = np.where((size > 1) & (np.bitwise_count(x_block) <= _MOST_SPLIT), x_block, 0)
    copies = 1 << np.bitwise_count(fixed).astype(np.int64)
    term = np.repeat(np.arange(len(x)), copies)
    pattern = _deposit(np.arange(len(term)) - np.repeat(np.cumsum(copies) - copies, copies), fixed[term])
    z_block = (z >> lane_bits)[term]
    sign = 1.0 - 2.0 * (np.bitwise_count(z_block & pattern) & 1)
    mask = z_block & ~fixed[term]

    # entries: equal row and sign mask
    keys = [mask, pattern, imaginary[term], x[term]]
    order = np.lexsort(keys)
    keys = [k[order] for k in keys]
    new_row = np.ones(len(term), bool)
    new_row[1:] = (np.diff(keys[1]) != 0) | (np.diff(keys[2]) != 0) | (np.diff(keys[3]) != 0)
    new = new_row.copy()
    new[1:] |= np.diff(keys[0]) != 0
    entry = np.cumsum(new) - 1
    lane = np.arange(lanes)
    lane_sign = 1.0 - 2.0 * (np.bitwise_count((z[term[order]] & (lanes - 1))[:, None] & lane) & 1)
    weights = np.zeros((int(new.sum()), lanes))
    np.add.at(weights, entry, (value[term] * sign)[order][:, None] * lane_sign)
    size_of = np.zeros(len(weights))
    np.maximum.at(size_of, entry, abs(value[term])[order])
    keep = (abs(weights) > 1e-14 * size_of[:, None]).any(1)  # what cancels within a pattern
    weights = np.where(abs(weights) > 1e-14 * size_of[:, None], weights, 0.0)

    which = np.flatnonzero(new)
    row = (np.cumsum(new_row) - 1)[which][keep]
    entries = order[which[keep]]
    head = np.flatnonzero(np.r_[True, np.diff(row) != 0]) if len(row) else np.zeros(0, int)
    rows = np.zeros((len(head), 8), np.int64)
    of = entries[head]
    rows[:, X], rows[:, LANES] = x[term[of]] >> lane_bits, x[term[of]] & (lanes - 1)
    rows[:, FIXED], rows[:, PATTERN], rows[:, IMAGINARY] = fixed[term[of]], pattern[of], imaginary[term[of]]
    rows[:, FIRST], rows[:, COUNT] = head, np.diff(np.r_[head, len(entries)])
    masks, weights = mask[entries], weights[keep].astype(dtype)
    both = np.ascontiguousarray(np.stack([weights, -weights], 1))

    blocks = 1 << max(num_qubits - lane_bits, 0)
    lengths = (blocks >> np.bitwise_count(rows[:, FIXED]).astype(np.int64)) * lanes
    many = rows[:, COUNT] > _MOST_TERMS
    ends = np.cumsum(np.where(many, lengths, 0))
    most = max(_TABLE_BYTES, 16 << num_qubits) // np.dtype(dtype).itemsize
    many &= ends <= most
    rows[:, TABLE] = np.where(many, ends - lengths, -1)
    tables: np.ndarray = np.zeros(int(lengths[many].sum()), dtype)
    if len(tables):
        from .observable_kernels import fill_tables

        fill_tables(rows, masks, both, tables, blocks)
    return Observable(num_qubits, rows, masks, both, tables)


def join(observables: list[Observable]) -> tuple[Observable, np.ndarray]:
    """Several observables in one set of arrays, and where the rows of each begin, (m + 1,) int64."""
    if len(observables) == 1:
        return observables[0], np.array([0, len(observables[0].rows)])
    rows, entries, numbers = [], 0, 0
    for o in observables:
        moved = o.rows.copy()
        moved[:, FIRST] += entries
        moved[:, TABLE] += np.where(moved[:, TABLE] >= 0, numbers, 0)
        rows.append(moved)
        entries, numbers = entries + len(o.masks), numbers + len(o.tables)
    together = (np.concatenate([getattr(o, name) for o in observables]) for name in ("masks", "weights", "tables"))
    return Observable(observables[0].num_qubits, np.concatenate(rows), *together), np.cumsum([0, *map(len, rows)])


def _deposit(values: np.ndarray, masks: np.ndarray) -> np.ndarray:
    """The low bits of each value put where its mask has ones."""
    out, left, values = np.zeros_like(values), masks.copy(), values.copy()
    while left.any():
        bit = left & -left
        out |= np.where(values & 1, bit, 0)
        values >>= 1
        left ^= bit
    return out
