"""Values and gradients of expectation values of a batch of examples, as one compiled call."""

from __future__ import annotations

from enum import IntEnum

import numpy as np
from numba import carray

from triskele.core.extend import kernel, simd, threads

from ...compile.ops import RECIPE_COLUMNS
from ...compile.schedule import PASS_COLUMNS
from ...simulators.statevector.engine import align, make_coefficients, run_passes
from .backward import backward
from .observable_kernels import TILE, TILE_LINES, apply_tile
from .recipes import pull_angles, pull_recipes

__all__ = ["Word", "apply_tiles", "evaluate", "example"]

_parallel_for = threads.for_numba()
_PARALLEL_ADDS = 1 << 15  # rows of observables times blocks, below which one thread applies them
_CHUNKS = 16  # of tiles


class Word(IntEnum):
    """Words of the context of a call; addresses unless said otherwise, 0 where there is nothing."""

    WORDS = 0  # of `engine.Packed`
    WORDS_LENGTH = 1  # a number
    NUMBERS = 2
    NUMBERS_LENGTH = 3  # a number
    WANTED = 4  # (K,) uint8
    ROWS = 5  # of the observables
    ROW_STARTS = 6  # (m + 1,) int64
    OBSERVABLES = 7  # m, a number
    MASKS = 8
    WEIGHTS = 9
    TABLES = 10
    FORWARD = 11  # chunk functions
    BACKWARD = 12
    TILES = 13
    EXAMPLES = 14
    NUM_VALUES = 15  # V, a number
    VALUES = 16  # (B, V)
    BATCH = 17  # B, a number
    CT = 18  # (B, m): gradients are those of sums with these weights, else there is one for each observable
    OUT_VALUES = 19  # (B, m)
    OUT_GRADIENTS = 20  # (B, 1 or m, V)
    INITIAL = 21  # (B or 1, N) complex128
    INITIAL_STEP = 22  # numbers from one example to the next
    OUT_INITIAL = 23  # (B, N) complex128, with CT
    OUT_COEFFICIENTS = 24  # (B, 1 or m, C): cotangents of coefficients, for gates that are functions
    COUNT = 25


@kernel(nogil=True)
def apply_tiles(like, chunk):
    """Some tiles of H|psi>.

    `like` is a pointer to the context, of the type of the state's numbers. Words of the context: 0 psi, 1 lambdas (0:
    only values), 2 numbers from one to the next, 3 rows, 4 row starts, 5 observables, 6 masks, 7 weights, 8 tables, 9
    blocks in a tile, 10 tiles, 11 tiles in a chunk, 12 (m, tiles) partial values, 13 weights of observables (0: a
    lambda for each).
    """
    context, w = simd.pointer_to(simd.address_of(like), np.int64), simd.lanes_of(like)
    psi, lam, stride = simd.pointer_like(context[0], like), simd.pointer_like(context[1], like), context[2]
    rows, starts, count = simd.pointer_to(context[3], np.int64), simd.pointer_to(context[4], np.int64), context[5]
    masks, weights, tables = simd.pointer_to(context[6],
                                        np.int64), simd.pointer_like(context[7], like), simd.pointer_like(context[8],
                                                                                                          like)
    size, tiles, per_chunk = context[9], context[10], context[11]
    partial, ct = simd.pointer_to(context[12], np.float64), simd.pointer_to(context[13], np.float64)
    scratch = simd.stack(like, TILE_LINES)
    for tile in range(chunk * per_chunk, min(tiles, (chunk + 1) * per_chunk)):
        at = 2 * tile * size * w
        for i in range(count):
            if context[1] == 0 or (context[13] != 0 and count > 1):
                out = scratch
            elif context[13] != 0:
                out = simd.address(lam, at)
            else:
                out = simd.address(lam, i * stride + at)
            partial[i * tiles + tile] = apply_tile(tile * size, size, rows, starts[i], starts[i + 1], masks, weights,
                                                   tables, psi, out)
            if context[1] != 0 and context[13] != 0:
                scale = simd.splat_line(like, ct[i])
                to = simd.address(lam, at)
                if i == 0:
                    for b in range(2 * size):
                        simd.store_line(to, b * w, scale * simd.load_line(out, b * w))
                else:
                    for b in range(2 * size):
                        simd.store_line(to, b * w, simd.load_line(to, b * w) + scale * simd.load_line(out, b * w))


@kernel(nogil=True)
def example(like, k):
    """Value and gradient of one example; `like` is a pointer to the context (`Word`), of the type of the state's
    numbers.
    """
    context, w = simd.pointer_to(simd.address_of(like), np.int64), simd.lanes_of(like)
    words = carray(simd.pointer_to(context[0], np.int64), (context[1],))
    numbers = carray(simd.pointer_to(context[2], np.float64), (context[3],))
    size, observables = context[15], context[7]
    values = carray(simd.pointer_to(context[16] + 8 * k * size, np.float64), (size,))
    coefficients = make_coefficients(values, words, numbers)
    n, angles, recipes, terms = words[0], words[1], words[2], words[4]
    length = 2 << n
    gradient = context[20] != 0
    count = 0 if not gradient else 1 if context[18] != 0 else observables
    # with blocks that are copied, lambdas go back one by one, each with a psi of its own
    copied = words[len(words) - PASS_COLUMNS + 2] < n
    sweeps = count if copied else min(count, 1)
    memory = np.empty((length * (1 + count + (sweeps > 1)) * 8 // w + 8) + 8)
    begin = align(memory)
    psi = simd.pointer_like(simd.address_of(simd.address(memory, begin)), like)
    lam = simd.address(psi, length)
    for b in range(0, length, w):
        simd.store_line(psi, b, simd.splat_line(psi, 0))
    if context[21] == 0:
        psi[0] = 1.0
    else:
        initial = simd.pointer_to(context[21] + 16 * k * context[22], np.float64)
        for j in range(context[25]):
            at = j // w * 2 * w + j % w
            psi[at], psi[at + w] = initial[2 * j], initial[2 * j + 1]
    run_passes(words, coefficients, carray(psi, (length,)), 0, context[11], context[21] == 0, False)

    lane_bits = 3 if w == 8 else 4
    blocks = 1 << (n - lane_bits)
    tile = min(blocks, TILE)
    tiles = blocks // tile
    partial = np.empty(observables * tiles)
    inner = np.empty(16, np.int64)
    inner[0], inner[1], inner[2] = simd.address_of(psi), simd.address_of(lam) if gradient else 0, length
    inner[3], inner[4], inner[5] = context[5], context[6], observables
    inner[6], inner[7], inner[8] = context[8], context[9], context[10]
    starts = simd.pointer_to(context[6], np.int64)
    chunks = min(tiles, _CHUNKS) if starts[observables] * blocks >= _PARALLEL_ADDS else 1
    inner[9], inner[10], inner[11] = tile, tiles, -(-tiles // chunks)
    inner[12], inner[13] = simd.address_of(partial), context[18] + 8 * k * observables if context[18] != 0 else 0
    _parallel_for(context[13], simd.address_of(inner), chunks)
    out_values = simd.pointer_to(context[19] + 8 * k * observables, np.float64)
    for i in range(observables):
        total = 0.0
        for t in range(i * tiles, (i + 1) * tiles):
            total += partial[t]
        out_values[i] = total

    if gradient:
        g = np.zeros((count, len(coefficients)))
        wanted = carray(simd.pointer_to(context[4], np.uint8), (max(1, words[5]),))
        for i in range(sweeps):
            here = psi
            if i < sweeps - 1:
                here = simd.address(lam, count * length)
                for b in range(0, length, w):
                    simd.store_line(here, b, simd.load_line(psi, b))
            each = count // sweeps
            backward(words, coefficients, here, simd.address(lam, i * length), each, length, wanted, context[12],
                     context[21] == 0, g[i : i + each])
        table = words[9 + angles + terms : 9 + angles + terms + recipes
                      * RECIPE_COLUMNS].reshape((recipes, RECIPE_COLUMNS))
        gradients = carray(simd.pointer_to(context[20] + 8 * k * count * size, np.float64), (count, size))
        for i in range(count):
            g_angles = np.zeros(angles)
            pull_recipes(table, coefficients, g[i], g_angles)
            for j in range(size):
                gradients[i, j] = 0.0
            pull_angles(words[8 : 9 + angles], words[9 + angles : 9 + angles + terms], numbers[:terms], g_angles,
                        gradients[i])
        if context[24] != 0:  # what recipes made was used up
            out = simd.pointer_to(context[24] + 8 * k * g.size, np.float64)
            for i in range(count):
                for j in range(len(coefficients)):
                    out[i * len(coefficients) + j] = g[i, j]
        if context[23] != 0:
            out = simd.pointer_to(context[23] + 16 * k * context[25], np.float64)
            for j in range(context[25]):
                at = j // w * 2 * w + j % w
                out[2 * j], out[2 * j + 1] = 2 * lam[at], -2 * lam[at + w]
    memory[0] = partial[0] = 0.0  # they and `inner` must live till here
    inner[0] = 0

@kernel(nogil=True)
def evaluate(fixed, values, ct, initial, out_values, out_gradients, out_initial, out_coefficients):
    """All examples; `fixed` is the context, of which this call's words are filled here.

    Arrays of size 0: not given, not wanted.
    """
    context = fixed.copy()
    context[16], context[17] = simd.address_of(values), values.shape[0]
    context[18] = simd.address_of(ct) if ct.size else 0
    context[19] = simd.address_of(out_values)
    context[20] = simd.address_of(out_gradients) if out_gradients.size else 0
    context[21] = initial.ctypes.data if initial.size else 0
    context[22] = initial.shape[1] if initial.shape[0] > 1 else 0
    context[23] = out_initial.ctypes.data if out_initial.size else 0
    context[24] = simd.address_of(out_coefficients) if out_coefficients.size else 0
    _parallel_for(context[14], simd.address_of(context), values.shape[0])
    return context[0]  # it must live till here
