"""Trajectories, eight at a time: a list of steps is gone through, each choosing at random what happens.

Maps on single qubits are multiplied up in `chain`, one 2 x 2 matrix a qubit and lane, and reach the state when another
qubit takes part. A row of steps is: kind, condition (place in `ints`, or -1), and six integers that depend on the kind:

    TIMES      qubit, place of a 2 x 2 matrix in `coefficients`
    SCALE      qubit, places of its two diagonal numbers (-1 for 1)
    PAULI      place in `ints` of [k, qubits, strings], place in `table` of cumulative probabilities, how many, draw
    UNITARY    qubit, place in `table` of cumulative probabilities and then 2 x 2 matrices, how many, draw
    KRAUS      the same with any matrices, after them the products K^dagger K as (00, 11, Re 01, Im 01); then the
               classical bit or -1
    KRAUS_MANY place in `ints` of [k, qubits], place in `table` of matrices and products, how many, draw
    FLIP       classical bit, place in `table` of the probabilities of reading 1 where 0 and where 1 was, draw
    APPLY      qubit: its chain
    GATE       row of `ops`
    REPEAT     row that is next where the condition holds in any lane
"""

import math

import numpy as np
from numba import carray

from triskele.core.extend import device, kernel, simd, threads
from triskele.core.random import Counter

from ...compile.ops import OP_COLUMNS
from ..context import context_type, read_context
from . import states

TIMES, SCALE, PAULI, UNITARY, KRAUS, KRAUS_MANY, FLIP, APPLY, GATE, REPEAT = range(10)
ROW = 8
_RUN_CONTEXT = context_type(
    "num_qubits",
    "chunks",
    "shots",
    "first",
    "draws_each",
    "num_bits",
    "dense",
    "k0",
    "k1",
    "rows",
    "num_rows",
    "ints",
    "num_ints",
    "table",
    "num_table",
    "ops",
    "num_ops",
    "coefficients",
    "num_coefficients",
    "initial",
    "num_initial",
    "samples",
    "values",
    "bits",
    "final",
    "num_final",
    "terms",
    "strings",
    "weights",
)
_LEAST = 1e-14  # probability below which an operator is never chosen: rounding has made it
PASSES = 1 << 17  # through loops, of eight trajectories together
_STREAM = int(Counter.TRAJECTORIES)
_SWAP = 3  # compile.ops.Form

_parallel_for = threads.for_numba()


@device
def _uniforms(k0, k1, number, number_of_draw, out):
    """out[lane]: in [0, 1), of the stream of trajectory `number` + lane (`number` is a multiple of 8)."""
    c0 = simd.convert(simd.iota(8), np.uint32) + np.uint32(number & 0xFFFFFFFF)
    c1, c2, c3 = (
        simd.splat(np.uint32(number >> 32), 8),
        simd.splat(np.uint32(number_of_draw), 8),
        simd.splat(np.uint32(_STREAM), 8),
    )
    w = simd.philox4x32(c0, c1, c2, c3, simd.splat(k0, 8), simd.splat(k1, 8))
    word = (simd.convert(w[1], np.uint64) << np.uint64(21)) | (simd.convert(w[0], np.uint64) >> np.uint64(11))
    simd.store(out, 0, simd.convert(simd.convert(word, np.int64), np.float64) * 2.0**-53)


@device
def _active(ints, at, bits, lane):
    """Return True if a condition [count, 2 * bit + value of each] holds in a lane."""
    if at < 0:
        return True
    for k in range(at + 1, at + 1 + ints[at]):
        if bits[8 * (ints[k] >> 1) + lane] != ints[k] & 1:
            return False
    return True


@device
def _put(c, lane, numbers, at, scale):
    """A 2 x 2 matrix at numbers[at:], times a number, to a lane of c."""
    for i in range(8):
        c[8 * i + lane] = scale * numbers[at + i]


@device
def _fill(c, numbers, at, count, stride, active):
    """`count` complex numbers at numbers[at:] to the active lanes of c; to others a matrix of 0 and, every `stride`,
    1.
    """
    for i in range(count):
        for lane in range(8):
            if active[lane]:
                c[16 * i + lane], c[16 * i + 8 + lane] = numbers[at + 2 * i], numbers[at + 2 * i + 1]
            else:
                c[16 * i + lane], c[16 * i + 8 + lane] = (1.0 if i % stride == 0 else 0.0), 0.0


@device
def _multiply(chains, at, c):
    """The chain at chains[at : at + 64] multiplied from the left by the matrices in c."""
    ar, ai = states.load(c, 0)
    br, bi = states.load(c, 16)
    cr, ci = states.load(c, 32)
    dr, di = states.load(c, 48)
    for u in range(at, at + 32, 16):
        w = u + 32
        ur, ui = states.load(chains, u)
        wr, wi = states.load(chains, w)
        states.store(chains, u, ar * ur - ai * ui + br * wr - bi * wi, ar * ui + ai * ur + br * wi + bi * wr)
        states.store(chains, w, cr * ur - ci * ui + dr * wr - di * wi, cr * ui + ci * ur + dr * wi + di * wr)


@device
def _reset(chains, at):
    for i in range(64):
        chains[at + i] = 1.0 if i < 8 or 48 <= i < 56 else 0.0


@device
def _choose(table, at, count, u):
    """Number of the first cumulative probability at table[at : at + count] above u."""
    k = 0
    while k < count - 1 and u >= table[at + k]:
        k += 1
    return k


@device
def _pauli(chains, at, lane, letter):
    if letter & 1:  # X: rows exchanged
        for i in range(at + lane, at + lane + 32, 8):
            chains[i], chains[i + 32] = chains[i + 32], chains[i]
    if letter & 2:  # Z; Y up to a phase, which no measurement sees
        for i in range(at + lane + 32, at + lane + 64, 8):
            chains[i] = -chains[i]


@device
def _conjugated(chains, at, lane, rho):
    """rho_00, rho_11, real and imaginary part of rho_10 of a lane, after its chain."""
    r0, r1, re, im = rho[lane], rho[8 + lane], rho[16 + lane], rho[24 + lane]
    a, b = complex(chains[at + lane], chains[at + 8 + lane]), complex(chains[at + 16 + lane], chains[at + 24 + lane])
    c, d = (
        complex(chains[at + 32 + lane], chains[at + 40 + lane]),
        complex(chains[at + 48 + lane], chains[at + 56 + lane]),
    )
    low, high = complex(re, im), complex(re, -im)
    e0, e1, f0, f1 = a * r0 + b * low, a * high + b * r1, c * r0 + d * low, c * high + d * r1
    out = f0 * a.conjugate() + f1 * b.conjugate()
    return (
        (e0 * a.conjugate() + e1 * b.conjugate()).real,
        (f0 * c.conjugate() + f1 * d.conjugate()).real,
        out.real,
        out.imag,
    )


@device
def _kraus_one(chains, chain, table, at, count, uniform, active, choice, rho, c):
    """Choose one of `count` operators in every active lane; in c they have been divided by the roots of their
    probabilities.
    """
    for lane in range(8):
        r0, r1, re, im = _conjugated(chains, chain, lane, rho)
        u, k, weight = uniform[lane] * (r0 + r1), 0, 1.0
        for i in range(count):
            e = at + 8 * count + 4 * i
            w = table[e] * r0 + table[e + 1] * r1 + 2.0 * (table[e + 2] * re - table[e + 3] * im)
            if w > _LEAST:
                k, weight = i, w
                u -= w
                if u < 0.0:
                    break
        choice[lane] = k
        if active[lane]:
            _put(c, lane, table, at + 8 * k, 1.0 / math.sqrt(weight))


@device
def _kraus_many(p, size, places, k, table, at, count, uniform, active, c, work):
    """The same for operators on k qubits, done at once."""
    dim = 1 << k
    length = dim * dim
    states.reduced(p, size, places, k, simd.address(c, 0))
    chosen = np.empty(8, np.int64)
    scale = np.ones(8)
    for lane in range(8):
        total = 0.0
        for a in range(dim):
            total += c[16 * (a * dim + a) + lane]
        u = uniform[lane] * total
        chosen[lane] = -1
        if not active[lane]:
            continue
        for i in range(count):
            e, w = at + 2 * length * (count + i), 0.0
            for a in range(dim):
                w += table[e + 2 * (a * dim + a)] * c[16 * (a * dim + a) + lane]
                for b in range(a):  # Tr(E rho) = sum of E_ba rho_ab
                    o, q = e + 2 * (b * dim + a), 16 * (a * dim + b) + lane
                    w += 2.0 * (table[o] * c[q] - table[o + 1] * c[q + 8])
            if w > _LEAST:
                chosen[lane], scale[lane] = i, 1.0 / math.sqrt(w)
                u -= w
                if u < 0.0:
                    break
    for i in range(length):
        for lane in range(8):
            if chosen[lane] < 0:
                c[16 * i + lane], c[16 * i + 8 + lane] = (1.0 if i % (dim + 1) == 0 else 0.0), 0.0
            else:
                o = at + 2 * (length * chosen[lane] + i)
                c[16 * i + lane], c[16 * i + 8 + lane] = scale[lane] * table[o], scale[lane] * table[o + 1]
    states.dense(p, size, places, k, 0, 0, simd.address(c, 0), simd.address(work, 0))


@device
def _gate(p, size, op, coefficients, everywhere, active, c, work):
    """One gate of the op table; lanes where it is not active keep their states."""
    kind, form, x, m, v, z, at, k = op[0], op[1], op[2], op[3], op[4], op[5], op[6], op[7]
    if kind == 0 and form == _SWAP and everywhere and z == 0:
        states.swap(p, size, x, m, v)
        return
    count = 4 if kind == 0 else 2 if kind == 1 else 1 << (2 * k)
    _fill(c, coefficients, at, count, 3 if kind == 0 else 1 if kind == 1 else (1 << k) + 1, active)
    if kind == 0:
        states.pair(p, size, x, m, v, z, simd.address(c, 0))
    elif kind == 1:
        states.diagonal(p, size, m, v, z, simd.address(c, 0))
    else:
        states.dense(p, size, op[8:], k, m, v, simd.address(c, 0), simd.address(work, 0))


@device
def _batch(p, n, rows, ints, table, ops, coefficients, k0, k1, number, draws_each, bits, chains, touched, c, work):
    """Eight trajectories, the first being `number`; p holds the initial states. Return False if loops do not end."""
    size = 1 << n
    uniform, active, nowhere, choice, rho = (
        np.empty(8),
        np.empty(8, np.bool_),
        np.zeros(8, np.bool_),
        np.empty(8, np.int64),
        np.empty(32),
    )
    for q in range(n):
        touched[q] = 0
        _reset(chains, 64 * q)
    row, passes = -1, 0
    while row + 1 < len(rows):
        row += 1
        kind, condition, a, b, count, d, bit = (
            rows[row, 0],
            rows[row, 1],
            rows[row, 2],
            rows[row, 3],
            rows[row, 4],
            rows[row, 5],
            rows[row, 6],
        )
        everywhere = True
        for lane in range(8):
            active[lane] = _active(ints, condition, bits, lane)
            everywhere = everywhere and active[lane]
        if PAULI <= kind <= FLIP:
            _uniforms(k0, k1, number, d + passes * draws_each, uniform)
        if kind <= KRAUS and kind != PAULI:  # each makes a matrix for each lane in c
            if kind == TIMES:
                _fill(c, coefficients, b, 4, 3, active)
            else:
                _fill(c, coefficients, 0, 4, 3, nowhere)
                if kind == SCALE:
                    for lane in range(8):
                        if active[lane] and b >= 0:
                            c[lane], c[8 + lane] = coefficients[b], coefficients[b + 1]
                        if active[lane] and count >= 0:
                            c[48 + lane], c[56 + lane] = coefficients[count], coefficients[count + 1]
                elif kind == UNITARY:
                    for lane in range(8):
                        if active[lane]:
                            _put(c, lane, table, b + count + 8 * _choose(table, b, count, uniform[lane]), 1.0)
                else:
                    states.reduced_one(p, size, a, simd.address(rho, 0))
                    _kraus_one(chains, 64 * a, table, b, count, uniform, active, choice, rho, c)
                    if bit >= 0:
                        for lane in range(8):
                            if active[lane]:
                                bits[8 * bit + lane] = choice[lane]
            _multiply(chains, 64 * a, c)
            touched[a] = 1
        elif kind == PAULI:
            k = ints[a]
            for lane in range(8):
                string = 0
                if active[lane]:  # the first string is the most likely: the identity if it is there
                    string = ints[a + 1 + k + _choose(table, b, count, uniform[lane])]
                for i in range(k):
                    if (string >> (2 * i)) & 3:
                        q = ints[a + 1 + i]
                        _pauli(chains, 64 * q, lane, (string >> (2 * i)) & 3)
                        touched[q] = 1
        elif kind == KRAUS_MANY:
            _kraus_many(p, size, ints[a + 1 :], ints[a], table, b, count, uniform, active, c, work)
        elif kind == FLIP:
            for lane in range(8):
                if active[lane]:
                    bits[8 * a + lane] = uniform[lane] < table[b + np.int64(bits[8 * a + lane])]
        elif kind == APPLY:
            if touched[a]:
                states.pair(p, size, 1 << a, 0, 0, 0, simd.address(chains, 64 * a))
                _reset(chains, 64 * a)
                touched[a] = 0
        elif kind == REPEAT:
            if np.any(active):
                row, passes = a - 1, passes + 1
                if passes > PASSES or passes * draws_each >= 1 << 32:
                    return False
        else:
            _gate(p, size, ops[a], coefficients, everywhere, active, c, work)
    return True


@kernel(nogil=True)
def run_chunk(context, index):
    """Some of the batches; `context` points to a `_RUN_CONTEXT`."""
    w = read_context(context, _RUN_CONTEXT)
    n, chunks, shots, first, draws_each, num_bits, dense = (
        w.num_qubits,
        w.chunks,
        w.shots,
        w.first,
        w.draws_each,
        w.num_bits,
        w.dense,
    )
    k0, k1, terms = np.uint32(w.k0), np.uint32(w.k1), w.terms
    rows = carray(simd.pointer_to(w.rows, np.int64), (w.num_rows, ROW))
    ints = carray(simd.pointer_to(w.ints, np.int64), (w.num_ints,))
    table = carray(simd.pointer_to(w.table, np.float64), (w.num_table,))
    ops = carray(simd.pointer_to(w.ops, np.int64), (w.num_ops, OP_COLUMNS))
    coefficients = carray(simd.pointer_to(w.coefficients, np.float64), (w.num_coefficients,))
    initial = carray(simd.pointer_to(w.initial, np.float64), (w.num_initial,))
    samples = carray(simd.pointer_to(w.samples, np.int64), (shots,))
    values = carray(simd.pointer_to(w.values, np.float64), (shots,))
    out_bits = carray(simd.pointer_to(w.bits, np.uint8), (shots, num_bits))
    final = carray(simd.pointer_to(w.final, np.float64), (w.num_final,))
    strings = carray(simd.pointer_to(w.strings, np.int64), (2 * terms,))
    weights = carray(simd.pointer_to(w.weights, np.float64), (terms,))
    size, batches = 1 << n, (shots + 7) // 8
    memory = np.empty(16 * size + 8)
    p = simd.address(memory, (-simd.address_of(memory) & 63) >> 3)
    bits, chains, touched, uniform, result = (
        np.zeros(8 * max(num_bits, 1), np.uint8),
        np.empty(64 * n),
        np.empty(n, np.int64),
        np.empty(8),
        np.empty(8),
    )
    c, work = np.empty(16 * max(4, dense * dense)), np.empty(16 * dense)
    for batch in range(batches * index // chunks, batches * (index + 1) // chunks):
        for j in range(size):
            if len(initial):
                states.store(p, 16 * j, simd.splat(initial[2 * j], 8), simd.splat(initial[2 * j + 1], 8))
            else:
                states.store(p, 16 * j, simd.splat(1.0 if j == 0 else 0.0, 8), simd.splat(0.0, 8))
        bits[:] = 0
        number = first + 8 * batch
        ends = _batch(
            p, n, rows, ints, table, ops, coefficients, k0, k1, number, draws_each, bits, chains, touched, c, work
        )
        _uniforms(k0, k1, number, draws_each - 1, uniform)
        states.draw(p, size, simd.address(uniform, 0), simd.address(result, 0))
        count = min(8, shots - 8 * batch)
        for lane in range(count):
            samples[8 * batch + lane] = np.int64(result[lane]) if ends else -1
            for k in range(num_bits):
                out_bits[8 * batch + lane, k] = bits[8 * k + lane]
            if len(final):
                for j in range(size):
                    at = 2 * ((8 * batch + lane) * size + j)
                    final[at], final[at + 1] = (
                        simd.load_scalar(p, 16 * j + lane),
                        simd.load_scalar(p, 16 * j + 8 + lane),
                    )
        if terms:
            for lane in range(count):
                values[8 * batch + lane] = 0.0
            for t in range(terms):
                states.expectation(p, size, strings[2 * t], strings[2 * t + 1], simd.address(result, 0))
                for lane in range(count):
                    values[8 * batch + lane] += weights[t] * result[lane]
    memory[0] = 0.0  # it must live till here


@kernel(nogil=True)
def run(
    n,
    chunks,
    first,
    draws_each,
    dense,
    k0,
    k1,
    rows,
    ints,
    table,
    ops,
    coefficients,
    initial,
    samples,
    values,
    bits,
    final,
    strings,
    weights,
    chunk,
):
    """Trajectories `first` and following, as many as there are `samples`; results go into `samples` (the outcome of
    measuring all qubits, or -1 where loops do not end), `values` (of the sum of Pauli strings), `bits` and, unless it
    is empty, `final` (the states).
    """
    contexts = np.empty(1, _RUN_CONTEXT)
    context = contexts[0]
    context.num_qubits, context.chunks, context.shots, context.first = n, chunks, len(samples), first
    context.draws_each, context.num_bits, context.dense = draws_each, bits.shape[1], dense
    context.k0, context.k1 = np.int64(k0), np.int64(k1)
    context.rows, context.num_rows = simd.address_of(rows), len(rows)
    context.ints, context.num_ints = simd.address_of(ints), len(ints)
    context.table, context.num_table = simd.address_of(table), len(table)
    context.ops, context.num_ops = simd.address_of(ops), len(ops)
    context.coefficients, context.num_coefficients = simd.address_of(coefficients), len(coefficients)
    context.initial, context.num_initial = simd.address_of(initial), len(initial)
    context.samples, context.values = simd.address_of(samples), simd.address_of(values)
    context.bits = simd.address_of(bits)
    context.final, context.num_final = simd.address_of(final), len(final)
    context.terms, context.strings, context.weights = len(weights), simd.address_of(strings), simd.address_of(weights)
    _parallel_for(chunk, simd.address_of(contexts), chunks)
    return contexts[0].num_qubits  # it must live till here
