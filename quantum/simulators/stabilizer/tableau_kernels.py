"""Kernels of the stabilizer simulator: 64 rows of the tableau, or 64 shots, a word.

A tableau [1]_ has the x and z bits of n stabilizers and n destabilizers for each qubit: x, z [n, 2S] uint64, signs
[2S], where bit i of the first S words is stabilizer i, of the last S destabilizer i. A gate reads and writes the words
of its qubits.

References
----------
.. [1] Aaronson, Gottesman, "Improved simulation of stabilizer circuits", Phys. Rev. A 70 (2004) 052328, section III.
   doi:10.1103/PhysRevA.70.052328
"""

import numpy as np

from triskele.core.extend import device, kernel
from triskele.core.random import Counter
from triskele.core.random import numba as draws

__all__ = ["GATE", "MEASURE", "NOISE", "READ", "RESET", "run_frames", "run_tableau", "value", "project"]

GATE, MEASURE, RESET, NOISE, READ = 0, 1, 2, 3, 4
_ALL = np.uint64(0xFFFFFFFFFFFFFFFF)
_ONE, _ZERO = np.uint64(1), np.uint64(0)
_STREAM = int(Counter.STABILIZER)


@device
# qubits [k], linear [>= 2k] masks, old [>= 2k, words]: gets the words of before
def _conjugate(x, z, qubits, linear, old):
    k, words = qubits.size, x.shape[1]
    for i in range(k):
        q = qubits[i]
        for w in range(words):
            old[i, w], old[k + i, w] = x[q, w], z[q, w]
    for out in range(2 * k):
        mask = linear[out]
        if mask == 1 << out:
            continue
        row = x[qubits[out]] if out < k else z[qubits[out - k]]
        first = True
        for b in range(2 * k):
            if mask >> b & 1:
                if first:
                    for w in range(words):
                        row[w] = old[b, w]
                else:
                    for w in range(words):
                        row[w] ^= old[b, w]
                first = False


@device
def _flip(signs, monomials, old, product):  # signs [words] change where an odd number of monomials is 1
    for m in monomials:
        for w in range(signs.size):
            product[w] = _ALL
        b = 0
        while m >> b:
            if m >> b & 1:
                for w in range(signs.size):
                    product[w] &= old[b, w]
            b += 1
        for w in range(signs.size):
            signs[w] ^= product[w]


@device
def _anticommuting(x, z, px, pz, out):  # out [2S]: the rows that anticommute with the string px, pz [n] uint8
    out[:] = _ZERO
    for q in range(px.size):
        if px[q]:
            for w in range(out.size):
                out[w] ^= z[q, w]
        if pz[q]:
            for w in range(out.size):
                out[w] ^= x[q, w]


@device
def _product_sign(x, z, signs, rows, y_count):
    """Sign (0 or 1) of the product of the stabilizers in `rows` [S], in order, a Hermitian string with y_count letters
    Y.

    Row k is i**(x.z) (-1)**sign X^x Z^z, and Z^z X^x' = (-1)**(z.x') X^x' Z^z: the power of i is the number of letters
    Y of all rows less that of the product, plus twice the pairs of rows k < l with z_k x_l = 1. Counted mod 4 in bits
    of words.
    """
    low, high, negative = _ZERO, _ZERO, _ZERO
    for w in range(rows.size):
        negative ^= signs[w] & rows[w]
    for q in range(x.shape[0]):
        before = _ZERO  # all ones if an odd number of rows of the words before has z
        for w in range(rows.size):
            a, b = x[q, w] & rows[w], z[q, w] & rows[w]
            y = a & b
            high ^= low & y
            low ^= y
            b ^= b << np.uint64(1)
            b ^= b << np.uint64(2)
            b ^= b << np.uint64(4)
            b ^= b << np.uint64(8)
            b ^= b << np.uint64(16)
            b ^= b << np.uint64(32)
            negative ^= a & ((b << _ONE) ^ before)
            if b >> np.uint64(63):
                before = ~before
    power = -y_count
    for k in range(64):
        bit = np.uint64(k)
        power += np.int64(low >> bit & _ONE) + 2 * np.int64(high >> bit & _ONE) + 2 * np.int64(negative >> bit & _ONE)
    return (power & 3) >> 1


@kernel(nogil=True)
def value(x, z, signs, px, pz):
    """Expectation value of the string with bits px, pz [n] uint8: 1, 0 or -1."""
    words = signs.size // 2
    rows = np.empty(2 * words, np.uint64)
    _anticommuting(x, z, px, pz, rows)
    for w in range(words):
        if rows[w]:
            return 0
    y = 0
    for q in range(px.size):
        y += px[q] & pz[q]
    return 1 - 2 * _product_sign(x, z, signs, rows[words:], y)


@kernel(nogil=True)
def project(x, z, signs, px, pz, wanted):
    """Measure the string px, pz [n], leaving outcome `wanted` (0 or 1) if it is open: (outcome, whether it was
    open).
    """
    words = signs.size // 2
    rows = np.empty(2 * words, np.uint64)
    _anticommuting(x, z, px, pz, rows)
    for w in range(words):
        if rows[w]:
            bit = _ZERO
            while not rows[w] >> bit & _ONE:
                bit += _ONE
            _replace(x, z, signs, px, pz, wanted, rows, w, bit)
            return wanted, True
    y = 0
    for q in range(px.size):
        y += px[q] & pz[q]
    return _product_sign(x, z, signs, rows[words:], y), False


@device
def _replace(x, z, signs, px, pz, sign, rows, word, bit):
    """The string becomes stabilizer (word, bit), what that was its destabilizer; the other anticommuting rows are
    multiplied by it.
    """
    words, total = signs.size // 2, signs.size
    one = _ONE << bit
    rows[word] &= ~one
    rows[words + word] &= ~one
    low, high = np.zeros(total, np.uint64), np.zeros(total, np.uint64)  # powers of i by row, mod 4
    negative = signs[word] >> bit & _ONE
    for q in range(x.shape[0]):
        sx, sz = x[q, word] >> bit & _ONE, z[q, word] >> bit & _ONE
        if sx | sz:
            for w in range(total):
                a, b = x[q, w], z[q, w]
                if sx & sz:
                    odd, minus = a ^ b, b & ~a
                elif sx:
                    odd, minus = b, b & a
                else:
                    odd, minus = a, a & ~b
                high[w] ^= (low[w] ^ minus) & odd
                low[w] ^= odd
            if sx:
                for w in range(total):
                    x[q, w] ^= rows[w]
            if sz:
                for w in range(total):
                    z[q, w] ^= rows[w]
        x[q, words + word] = x[q, words + word] & ~one | sx << bit
        z[q, words + word] = z[q, words + word] & ~one | sz << bit
        x[q, word] = x[q, word] & ~one | np.uint64(px[q]) << bit
        z[q, word] = z[q, word] & ~one | np.uint64(pz[q]) << bit
    for w in range(total):
        signs[w] ^= rows[w] & (high[w] ^ (_ALL if negative else _ZERO))
    signs[words + word] = signs[words + word] & ~one | negative << bit
    signs[word] = signs[word] & ~one | np.uint64(sign) << bit


@device
def _wanted(program, op, bits):  # whether the classical bits [num_clbits] uint8 satisfy the operation's condition
    for c in range(program.condition_start[op], program.condition_start[op + 1]):
        if bits[program.condition_bits[c]] != program.condition_values[c]:
            return False
    return True


@device
def _word(k0, k1, number, draw):  # 64 random bits, independent for every number and draw
    b = np.uint64(number)
    words = draws.block(k0, k1, b & np.uint64(0xFFFFFFFF), b >> np.uint64(32), draw, _STREAM)
    return np.uint64(words[0]) | np.uint64(words[1]) << np.uint64(32)


@device
def _unit(word):
    return np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53


@device
def _string(program, table, word):  # a Pauli string of a channel, by its cumulative probabilities
    u = _unit(word)
    k, last = program.noise_start[table], program.noise_start[table + 1] - 1
    while k < last and u >= program.noise_cumulative[k]:
        k += 1
    return program.noise_strings[k]


@kernel(nogil=True)
def run_tableau(program, x, z, signs, bits, k0, k1, shot, random):
    """One shot: the tableau and the classical bits [num_clbits] uint8 are changed in place.

    Open outcomes are drawn where `random`, else 0 (a reference for `run_frames`, in which channels do nothing either).
    Returns for each operation -1 if its condition did not hold, else the outcome of a measurement or 0: [ops] int8.
    """
    n, words = x.shape
    old, product = np.empty((8, words), np.uint64), np.empty(words, np.uint64)
    px, pz = np.zeros(n, np.uint8), np.zeros(n, np.uint8)
    log = np.zeros(program.kind.size, np.int8)
    for op in range(program.kind.size):
        if not _wanted(program, op, bits):
            log[op] = -1
            continue
        qubits = program.qubits[program.start[op] : program.start[op + 1]]
        what, kind = program.what[op], program.kind[op]
        if kind == GATE:
            _conjugate(x, z, qubits, program.linear[what], old)
            _flip(
                signs, program.monomials[program.monomial_start[what] : program.monomial_start[what + 1]], old, product
            )
        elif kind == NOISE:
            if random:
                string = _string(program, what, _word(k0, k1, shot, op))
                for q in qubits:
                    for w in range(words):
                        signs[w] ^= (z[q, w] if string & 1 else _ZERO) ^ (x[q, w] if string & 2 else _ZERO)
                    string >>= 2
        elif kind == READ:
            if random:
                bits[qubits[0]] = _unit(_word(k0, k1, shot, op)) < program.readings[what, bits[qubits[0]]]
        else:
            q = qubits[0]
            pz[q] = 1
            outcome = np.int64(_word(k0, k1, shot, op) & _ONE) if random else np.int64(0)
            outcome = project(x, z, signs, px, pz, outcome)[0]
            pz[q] = 0
            if kind == MEASURE:
                log[op] = bits[what] = outcome
            elif outcome:
                for w in range(words):
                    signs[w] ^= z[q, w]
    return log


@kernel(nogil=True)
def run_frames(program, log, k0, k1, x, z, bits):
    """Run many shots as differences from a reference run: Pauli frames, 64 shots a word (Gidney, Quantum 5 (2021) 497,
    section 4, doi:10.22331/q-2021-07-06-497).

    `log` (ops,) is what `run_tableau` returned; `x` and `z` (n, words) and the classical bits `bits` (num_clbits,
    words) are zeros. Conditions are allowed on gates that are Pauli strings.
    """
    n, words = x.shape
    old, met = np.empty((8, words), np.uint64), np.empty(words, np.uint64)
    ops = program.kind.size
    for q in range(n):  # Z does nothing to |0>, so that a random one makes later outcomes random where they are open
        for w in range(words):
            z[q, w] = _word(k0, k1, w, ops + q)
    for op in range(ops):
        qubits = program.qubits[program.start[op] : program.start[op + 1]]
        what, kind = program.what[op], program.kind[op]
        if kind == GATE and program.condition_start[op] == program.condition_start[op + 1]:
            _conjugate(x, z, qubits, program.linear[what], old)
        elif kind == GATE:
            met[:] = _ALL
            for c in range(program.condition_start[op], program.condition_start[op + 1]):
                flip = _ZERO if program.condition_values[c] else _ALL
                for w in range(words):
                    met[w] &= bits[program.condition_bits[c], w] ^ flip
            flip = _ZERO if log[op] < 0 else _ALL  # the frame changes where a shot does not do as the reference did
            for m in program.monomials[program.monomial_start[what] : program.monomial_start[what + 1]]:
                for b in range(2 * qubits.size):
                    if m == 1 << b:
                        row = z[qubits[b]] if b < qubits.size else x[qubits[b - qubits.size]]
                        for w in range(words):
                            row[w] ^= met[w] ^ flip
        elif kind == NOISE:
            for shot in range(64 * words):
                string = _string(program, what, _word(k0, k1, shot, op))
                bit, w = np.uint64(shot & 63), shot >> 6
                for q in qubits:
                    x[q, w] ^= np.uint64(string & 1) << bit
                    z[q, w] ^= np.uint64(string >> 1 & 1) << bit
                    string >>= 2
        elif kind == READ:
            for shot in range(64 * words):
                bit, w = np.uint64(shot & 63), shot >> 6
                measured = bits[qubits[0], w] >> bit & _ONE
                read = np.uint64(_unit(_word(k0, k1, shot, op)) < program.readings[what, np.int64(measured)])
                bits[qubits[0], w] ^= (measured ^ read) << bit
        else:
            q = qubits[0]
            flip = _ALL if log[op] else _ZERO
            for w in range(words):
                if kind == MEASURE:
                    bits[what, w] = x[q, w] ^ flip
                else:
                    x[q, w] = _ZERO
                z[q, w] ^= _word(k0, k1, w, op)


@kernel(nogil=True)
def reduce_rows(x, z, signs):
    """Bring stabilizers to reduced echelon form, x first, then z: x, z [n, words over qubits] uint64, signs [n] uint8.

    Returns how many rows have an x part; these come first.
    """
    n = x.shape[0]
    found = 0
    for part in range(2):
        for q in range(n):
            w, bit = q >> 6, np.uint64(q & 63)
            pivot = -1
            for r in range(found, n):
                if (x[r, w] if part == 0 else z[r, w]) >> bit & _ONE:
                    pivot = r
                    break
            if pivot < 0:
                continue
            if pivot != found:
                for v in range(x.shape[1]):
                    x[pivot, v], x[found, v] = x[found, v], x[pivot, v]
                    z[pivot, v], z[found, v] = z[found, v], z[pivot, v]
                signs[pivot], signs[found] = signs[found], signs[pivot]
            for r in range(n):
                if r != found and (x[r, w] if part == 0 else z[r, w]) >> bit & _ONE:
                    _multiply(x, z, signs, r, found)
            found += 1
        if part == 0:
            rank = found
    return rank


@device
def _multiply(x, z, signs, r, by):  # row r becomes its product with row `by`, which commutes with it
    low, high = _ZERO, _ZERO
    for v in range(x.shape[1]):
        a, b, c, d = x[r, v], z[r, v], x[by, v], z[by, v]
        odd = (a & d) ^ (b & c)  # where the letters differ and neither is I
        minus = (c & ~d & b & a) | (~c & d & a & ~b) | (c & d & b & ~a)
        high ^= (low ^ minus) & odd
        low ^= odd
        x[r, v], z[r, v] = a ^ c, b ^ d
    power = np.int64(0)
    for k in range(64):
        bit = np.uint64(k)
        power += np.int64(low >> bit & _ONE) + 2 * np.int64(high >> bit & _ONE)
    signs[r] ^= signs[by] ^ np.uint8((power & 3) >> 1)


@kernel(nogil=True)
def draw_affine(origin, tables, k0, k1, out):
    """Random points origin + span: tables [groups, 256, words] are the sums of up to 8 directions; out [shots,
    words].
    """
    groups, _, words = tables.shape
    per = (groups + 7) // 8  # random words a shot
    for s in range(out.shape[0]):
        for w in range(words):
            out[s, w] = origin[w]
        for g in range(groups):
            if g & 7 == 0:
                number = _word(k0, k1, s * per + (g >> 3), 0)
            choice = np.int64(number & np.uint64(255))
            number >>= np.uint64(8)
            for w in range(words):
                out[s, w] ^= tables[g, choice, w]
