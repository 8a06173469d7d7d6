"""Values and gradients of expectation values of a batch of examples, as one compiled call."""

import numpy as np
from numba import carray

from triskele.core.extend import kernel, simd, threads

from ...compile.ops import RECIPE_COLUMNS
from ...compile.schedule import PASS_COLUMNS
from ...simulators.context import context_type, read_context
from ...simulators.statevector.engine import align, make_coefficients, run_passes
from .backward import backward
from .observable_kernels import TILE, TILE_LINES, apply_tile
from .recipes import pull_angles, pull_recipes

__all__ = ["CALL_CONTEXT", "apply_tiles", "evaluate", "example"]

_parallel_for = threads.for_numba()
_PARALLEL_ADDS = 1 << 15  # rows of observables times blocks, below which one thread applies them
_CHUNKS = 16  # of tiles


# Addresses unless said otherwise, 0 where there is nothing
CALL_CONTEXT = context_type(
    "words",  # of `engine.Packed`
    "words_length",  # a number
    "numbers",
    "numbers_length",  # a number
    "wanted",  # (K,) uint8
    "rows",  # of the observables
    "row_starts",  # (m + 1,) int64
    "observables",  # m, a number
    "masks",
    "weights",
    "tables",
    "forward",  # chunk functions
    "backward",
    "tiles",
    "examples",
    "num_values",  # V, a number
    "values",  # (B, V)
    "ct",  # (B, m): gradients are those of sums with these weights, else there is one for each observable
    "out_values",  # (B, m)
    "out_gradients",  # (B, 1 or m, V)
    "initial",  # (B or 1, N) complex128
    "initial_step",  # numbers from one example to the next
    "out_initial",  # (B, N) complex128, with `ct`
    "out_coefficients",  # (B, 1 or m, C): cotangents of coefficients, for gates that are functions
    "count",  # N, a number
)
_TILE_CONTEXT = context_type(
    "psi",
    "lambdas",  # 0: only values
    "stride",  # numbers from one lambda to the next
    "rows",
    "row_starts",
    "observables",  # a number
    "masks",
    "weights",
    "tables",
    "size",  # blocks in a tile
    "number",  # of tiles
    "per_chunk",  # tiles in a chunk
    "partial",  # (m, number) values
    "ct",  # weights of observables; 0: a lambda for each
)


@kernel(nogil=True)
def apply_tiles(like, chunk):
    """Some tiles of H|psi>; `like` is a pointer to a `_TILE_CONTEXT`, typed as the state's numbers."""
    context, w = read_context(like, _TILE_CONTEXT), simd.lanes_of(like)
    psi, lam, stride = simd.pointer_like(context.psi, like), simd.pointer_like(context.lambdas, like), context.stride
    rows, starts = simd.pointer_to(context.rows, np.int64), simd.pointer_to(context.row_starts, np.int64)
    masks, weights = simd.pointer_to(context.masks, np.int64), simd.pointer_like(context.weights, like)
    tables, ct = simd.pointer_like(context.tables, like), simd.pointer_to(context.ct, np.float64)
    partial = simd.pointer_to(context.partial, np.float64)
    count, size, tiles, per_chunk = context.observables, context.size, context.number, context.per_chunk
    gradient, weighted = context.lambdas != 0, context.ct != 0
    scratch = simd.stack(like, TILE_LINES)
    for tile in range(chunk * per_chunk, min(tiles, (chunk + 1) * per_chunk)):
        at = 2 * tile * size * w
        for i in range(count):
            if not gradient or (weighted and count > 1):
                out = scratch
            elif weighted:
                out = simd.address(lam, at)
            else:
                out = simd.address(lam, i * stride + at)
            partial[i * tiles + tile] = apply_tile(
                tile * size, size, rows, starts[i], starts[i + 1], masks, weights, tables, psi, out
            )
            if gradient and weighted:
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
    """Value and gradient of one example; `like` is a pointer to a `CALL_CONTEXT`, typed as the state's numbers."""
    context, w = read_context(like, CALL_CONTEXT), simd.lanes_of(like)
    words = carray(simd.pointer_to(context.words, np.int64), (context.words_length,))
    numbers = carray(simd.pointer_to(context.numbers, np.float64), (context.numbers_length,))
    size, observables = context.num_values, context.observables
    values = carray(simd.pointer_to(context.values + 8 * k * size, np.float64), (size,))
    coefficients = make_coefficients(values, words, numbers)
    n, angles, recipes, terms = words[0], words[1], words[2], words[4]
    length = 2 << n
    gradient = context.out_gradients != 0
    count = 0 if not gradient else 1 if context.ct != 0 else observables
    # with blocks that are copied, lambdas go back one by one, each with a psi of its own
    copied = words[len(words) - PASS_COLUMNS + 2] < n
    sweeps = count if copied else min(count, 1)
    memory = np.empty((length * (1 + count + (sweeps > 1)) * 8 // w + 8) + 8)
    begin = align(memory)
    psi = simd.pointer_like(simd.address_of(simd.address(memory, begin)), like)
    lam = simd.address(psi, length)
    for b in range(0, length, w):
        simd.store_line(psi, b, simd.splat_line(psi, 0))
    if context.initial == 0:
        psi[0] = 1.0
    else:
        initial = simd.pointer_to(context.initial + 16 * k * context.initial_step, np.float64)
        for j in range(context.count):
            at = j // w * 2 * w + j % w
            psi[at], psi[at + w] = initial[2 * j], initial[2 * j + 1]
    run_passes(words, coefficients, carray(psi, (length,)), 0, context.forward, context.initial == 0, False)

    lane_bits = 3 if w == 8 else 4
    blocks = 1 << (n - lane_bits)
    tile = min(blocks, TILE)
    tiles = blocks // tile
    partial = np.empty(observables * tiles)
    starts = simd.pointer_to(context.row_starts, np.int64)
    chunks = min(tiles, _CHUNKS) if starts[observables] * blocks >= _PARALLEL_ADDS else 1
    contexts = np.empty(1, _TILE_CONTEXT)
    inner = contexts[0]
    inner.psi, inner.lambdas, inner.stride = simd.address_of(psi), simd.address_of(lam) if gradient else 0, length
    inner.rows, inner.row_starts, inner.observables = context.rows, context.row_starts, observables
    inner.masks, inner.weights, inner.tables = context.masks, context.weights, context.tables
    inner.size, inner.number, inner.per_chunk = tile, tiles, -(-tiles // chunks)
    inner.partial = simd.address_of(partial)
    inner.ct = context.ct + 8 * k * observables if context.ct != 0 else 0
    _parallel_for(context.tiles, simd.address_of(contexts), chunks)
    out_values = simd.pointer_to(context.out_values + 8 * k * observables, np.float64)
    for i in range(observables):
        total = 0.0
        for t in range(i * tiles, (i + 1) * tiles):
            total += partial[t]
        out_values[i] = total

    if gradient:
        g = np.zeros((count, len(coefficients)))
        wanted = carray(simd.pointer_to(context.wanted, np.uint8), (max(1, words[5]),))
        for i in range(sweeps):
            here = psi
            if i < sweeps - 1:
                here = simd.address(lam, count * length)
                for b in range(0, length, w):
                    simd.store_line(here, b, simd.load_line(psi, b))
            each = count // sweeps
            backward(
                words,
                coefficients,
                here,
                simd.address(lam, i * length),
                each,
                length,
                wanted,
                context.backward,
                context.initial == 0,
                g[i : i + each],
            )
        table = words[9 + angles + terms : 9 + angles + terms + recipes * RECIPE_COLUMNS].reshape(
            (recipes, RECIPE_COLUMNS)
        )
        gradients = carray(simd.pointer_to(context.out_gradients + 8 * k * count * size, np.float64), (count, size))
        for i in range(count):
            g_angles = np.zeros(angles)
            pull_recipes(table, coefficients, g[i], g_angles)
            for j in range(size):
                gradients[i, j] = 0.0
            pull_angles(
                words[8 : 9 + angles], words[9 + angles : 9 + angles + terms], numbers[:terms], g_angles, gradients[i]
            )
        if context.out_coefficients != 0:  # what recipes made was used up
            out = simd.pointer_to(context.out_coefficients + 8 * k * g.size, np.float64)
            for i in range(count):
                for j in range(len(coefficients)):
                    out[i * len(coefficients) + j] = g[i, j]
        if context.out_initial != 0:
            out = simd.pointer_to(context.out_initial + 16 * k * context.count, np.float64)
            for j in range(context.count):
                at = j // w * 2 * w + j % w
                out[2 * j], out[2 * j + 1] = 2 * lam[at], -2 * lam[at + w]
    memory[0] = partial[0] = 0.0  # they and `contexts` must live till here
    contexts[0].psi = 0


@kernel(nogil=True)
def evaluate(fixed, values, ct, initial, out_values, out_gradients, out_initial, out_coefficients):
    """All examples; `fixed` is the context, of which this call's words are filled here.

    Arrays of size 0: not given, not wanted.
    """
    contexts = fixed.copy()
    context = contexts[0]
    context.values, context.out_values = simd.address_of(values), simd.address_of(out_values)
    context.ct = simd.address_of(ct) if ct.size else 0
    context.out_gradients = simd.address_of(out_gradients) if out_gradients.size else 0
    context.initial = initial.ctypes.data if initial.size else 0
    context.initial_step = initial.shape[1] if initial.shape[0] > 1 else 0
    context.out_initial = out_initial.ctypes.data if out_initial.size else 0
    context.out_coefficients = simd.address_of(out_coefficients) if out_coefficients.size else 0
    _parallel_for(context.examples, simd.address_of(contexts), values.shape[0])
    return contexts[0].words  # it must live till here
