"""The state-vector engine: a whole circuit is one compiled call."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray

from triskele.core.extend import kernel, simd, template, threads

from ...compile.ops import RECIPE_COLUMNS
from ...compile.program import Program
from ...compile.schedule import CODE_COLUMNS, PASS_COLUMNS, PassColumn, Schedule, schedule
from ...errors import SimulatorError
from .blocks import Block, default_block
from .coefficients import expand, fill_coefficients
from .passes import BUFFER_ROWS, PASS_CONTEXT, chunk
from .rows import store

__all__ = ["Packed", "align", "make_coefficients", "pack", "run_passes", "simulate"]

_parallel_for = threads.for_numba()

PARALLEL_WORK = 1 << 17  # a pass of fewer amplitudes times ops is not worth waking a thread for


class Packed(NamedTuple):
    """A program and its schedule as two arrays, so that a call has few arguments."""

    words: np.ndarray  # (Q,) int64: header (see `HEADER`), then the integer tables one after the other
    numbers: np.ndarray  # (F,) float64: `angle_coefficients`, `angle_constants`, `coefficients` of the program
    schedule: Schedule


# header: 0 bits of an index (with padding), 1 angles, 2 recipes, 3 coefficients, 4 terms, 5 ops, 6 passes, 7 vectors
HEADER = 8


def pack(program: Program, single: bool, block: Block | None = None, states: int = 1) -> Packed:
    """Return the packed program for one precision, cached with the program. `states` is the number of states whose
    blocks a pass copies together into its buffer of `BUFFER_ROWS` rows, which they must fit.
    """
    key = (single, block, states)
    if key not in program.cache:
        lane_bits = 4 if single else 3
        plan = schedule(program, lane_bits, *(block or default_block(program, single, states)))
        for size, low, in_place in plan.passes[:, [PassColumn.SIZE, PassColumn.LOW, PassColumn.IN_PLACE]].tolist():
            if low != size and not in_place and states << size - lane_bits > BUFFER_ROWS:
                raise SimulatorError(
                    f"statevector: a block of {size} qubits does not fit the buffer of {BUFFER_ROWS} rows"
                )
        header = [
            max(program.num_qubits, lane_bits),
            len(program.angle_constants),
            len(program.recipes),
            len(program.coefficients),
            len(program.angle_indices),
            len(plan.code),
            len(plan.passes),
            plan.vectors,
        ]
        words = np.concatenate(
            [
                np.array(header, np.int64),
                program.angle_starts,
                program.angle_indices,
                program.recipes.ravel(),
                plan.code.ravel(),
                plan.passes.ravel(),
            ]
        )
        numbers = np.concatenate([program.angle_coefficients, program.angle_constants, program.coefficients])
        program.cache[key] = Packed(words, numbers, plan)
    return program.cache[key]


@template
def align(array):
    """Number of elements from the beginning of an array to the next address that is a multiple of 64."""
    return (-simd.address_of(array) & 63) // array.itemsize


@template
def make_coefficients(values, words, numbers):
    """A program's coefficients for these values: a new (C,) float64 array."""
    angles, recipes, terms = words[1], words[2], words[4]
    starts = words[8 : 9 + angles]
    indices = words[9 + angles : 9 + angles + terms]
    at = 9 + angles + terms
    # a view that is not counted
    table = carray(simd.pointer_to(simd.address_of(simd.address(words, at)), np.int64), (recipes, RECIPE_COLUMNS))
    coefficients = numbers[terms + angles :].copy()
    fill_coefficients(
        values,
        starts,
        indices,
        numbers[:terms],
        numbers[terms : terms + angles],
        table,
        coefficients,
        np.empty((2, angles)),
    )
    return coefficients


@template
def run_passes(words, coefficients, state, start, chunk, from_zero, finish):
    """Run the passes of a schedule on the state that begins at `state[start]`, in place; it must be aligned."""
    w = simd.lanes_of(simd.address(state, 0))
    n, angles, recipes, terms, ops, passes = words[0], words[1], words[2], words[4], words[5], words[6]
    code_start = 9 + angles + terms + recipes * RECIPE_COLUMNS
    # a view that is not counted
    code = carray(simd.pointer_to(simd.address_of(simd.address(words, code_start)), np.int64), (ops, CODE_COLUMNS))
    vectors = np.empty((words[7] + 1) * w, state.dtype)
    first = simd.address(vectors, align(vectors))
    for i in range(ops):
        expand(code[i], coefficients, first)
    contexts = np.empty(1, PASS_CONTEXT)
    context = contexts[0]
    context.state = simd.address_of(simd.address(state, start))
    context.bits = n
    context.code = simd.address_of(simd.address(words, code_start))
    context.vectors = simd.address_of(first)
    pass_start = code_start + ops * CODE_COLUMNS
    for i in range(passes):
        at = pass_start + i * PASS_COLUMNS
        context.row = simd.address_of(simd.address(words, at))
        size = words[at + 2]
        blocks = 1 << (n - size)
        chunks = 1
        if ((words[at + 1] - words[at]) << n) >= PARALLEL_WORK:
            chunks = min(blocks, 32)
        context.per_chunk = blocks // chunks
        context.blocks = blocks
        context.zero = words[at + 5] if from_zero else 0
        context.finish = finish and i == passes - 1
        _parallel_for(chunk, simd.address_of(contexts), chunks)
    return vectors[0] + contexts[0].bits  # both must live till here


@kernel(nogil=True)
def _run(values, words, numbers, state, chunk, from_zero):
    """State after a program, as complex numbers beginning at the element of `state` that is returned."""
    start = align(state)
    if from_zero:
        state[start] = 1.0
    else:
        _split(state, start)
    run_passes(words, make_coefficients(values, words, numbers), state, start, chunk, from_zero, True)
    return start


@template
def _split(state, start):
    """Complex numbers to rows, in place."""
    p = simd.address(state, start)
    w = simd.lanes_of(p)
    for u in range(0, (state.size - start) // (2 * w) * 2 * w, 2 * w):
        re, im = simd.unzip_lanes(simd.load_line(p, u), simd.load_line(p, u + w))
        store(p, u, re, im)


def simulate(
    program: Program,
    values: np.ndarray,
    dtype: Any = np.complex128,
    initial: np.ndarray | None = None,
    block: Block | None = None,
) -> np.ndarray:
    """Return the state (2**n,) after a program with `values` (V,) of theta and data, from `initial` (2**n,), or |0...0>
    for None. Neither is checked; `dtype` is complex128 or complex64.
    """
    single = dtype == np.complex64
    packed = pack(program, single, block)
    numbers = packed.numbers
    if program.functions:
        numbers = numbers.copy()
        program.fill_functions(numbers[len(numbers) - len(program.coefficients) :], values)
    size = 2 << program.num_qubits
    lanes = 16 if single else 8
    real = np.float32 if single else np.float64
    raw = np.zeros(max(size, 2 * lanes) + lanes, real)
    if initial is not None:
        start = -raw.ctypes.data % 64 // raw.itemsize
        raw[start : start + size] = np.ascontiguousarray(initial, dtype).view(real)
    start = _run(
        values, packed.words, numbers, raw, threads.body(chunk, "float32" if single else "float64"), initial is None
    )
    return raw[start : start + size].view(dtype)
