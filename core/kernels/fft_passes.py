"""Stockham's transform over vectors of 16 lanes, and a 16 x 16 transpose, in LLVM's instructions.

There is code for the radices 2, 3, 4, 5, 7 and 8, and a plain sum for other primes.

A pass of radix r over n = r * blocks elements (in `copies` interleaved copies) reads elements p + k * blocks,
k = 0 ... r - 1, transforms the r of them, multiplies number k by exp(-2 pi i p k / n) and writes them side by side.
"""

from __future__ import annotations

import math
from functools import cache

import llvmlite.binding
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.errors import TypingError
from numba.extending import intrinsic

from . import native
from .simd.vector import FLAGS, I32, LLVM, Vec, splat_value, start

__all__ = ["LANES", "RADICES", "compile_transform", "constants", "transform", "transpose"]

LANES = 16
RADICES = (2, 3, 4, 5, 7, 8)
I64 = ir.IntType(64)


def constants() -> list[float]:
    """Return the butterflies' constants: sqrt(1/2), then cos and sin of 2 pi k / r, k <= r / 2, of odd radices."""
    found = [math.sqrt(0.5)]
    for r in RADICES:
        if r % 2:
            found += [f(2 * math.pi * k / r) for k in range(1, r // 2 + 1) for f in (math.cos, math.sin)]
    return found


def _first_constant(r):
    return 1 + sum(2 * (p // 2) for p in RADICES if p % 2 and p < r)


class _Lines:
    """Emits instructions on complex numbers, which are pairs (re, im) of vectors."""

    def __init__(self, builder, scalar, table):
        self.b, self.scalar, self.table = builder, scalar, table
        self.vector = Vec(scalar, LANES).llvm.as_pointer()

    def _at(self, pointer, index):
        return self.b.bitcast(self.b.gep(pointer, [index]), self.vector)

    def load(self, re, im, index):
        return tuple(self.b.load(self._at(p, index), align=self.scalar.bitwidth // 8) for p in (re, im))

    def store(self, re, im, index, x):
        for p, v in zip((re, im), x):
            self.b.store(v, self._at(p, index), align=self.scalar.bitwidth // 8)

    def number(self, pointer, index):
        """The number at `index` in all lanes."""
        at = index if isinstance(index, ir.Value) else I64(index)
        return splat_value(self.b, self.b.load(self.b.gep(pointer, [at]), align=self.scalar.bitwidth // 8), LANES)

    def add(self, x, y):
        return self._each("fadd", x, y)

    def sub(self, x, y):
        return self._each("fsub", x, y)

    def scale(self, c, x):
        return self._each("fmul", (c, c), x)

    def _each(self, op, x, y):
        return tuple(getattr(self.b, op)(u, v, flags=FLAGS) for u, v in zip(x, y))

    def turn(self, x, y):
        """x - i y and x + i y."""
        (a, b), (c, d) = x, y
        sub, add = (lambda u, v: self.b.fsub(u, v, flags=FLAGS)), (lambda u, v: self.b.fadd(u, v, flags=FLAGS))
        return (add(a, d), sub(b, c)), (sub(a, d), add(b, c))

    def times(self, x, c, s):
        """x * (c + i s)."""
        (a, b), m = x, lambda u, v: self.b.fmul(u, v, flags=FLAGS)
        return self.b.fsub(m(a, c), m(b, s), flags=FLAGS), self.b.fadd(m(a, s), m(b, c), flags=FLAGS)

    def transform(self, x):
        """The discrete transform of the list `x`."""
        return x if len(x) == 1 else self._odd(x) if len(x) % 2 else self._even(x)

    def _even(self, x):
        r = len(x)
        even, odd = self.transform(x[::2]), self.transform(x[1::2])
        low, high = [], []
        for k in range(r // 2):  # odd[k] times exp(-2 pi i k / r)
            eighth, u = 8 * k // r, odd[k]
            if eighth % 2:  # (1 - i) / sqrt(2)
                a, b = u
                u = self.scale(
                    self.number(self.table, 0), (self.b.fadd(a, b, flags=FLAGS), self.b.fsub(b, a, flags=FLAGS))
                )
            pair = (self.add(even[k], u), self.sub(even[k], u)) if eighth < 2 else self.turn(even[k], u)
            low.append(pair[0])
            high.append(pair[1])
        return low + high

    def _odd(self, x):
        r, first = len(x), _first_constant(len(x))
        h = r // 2
        sums = [self.add(x[k], x[r - k]) for k in range(1, h + 1)]
        differences = [self.sub(x[k], x[r - k]) for k in range(1, h + 1)]
        out = [x[0]] * r
        for s in sums:
            out[0] = self.add(out[0], s)
        for k in range(1, h + 1):
            u, v = x[0], None
            for j in range(1, h + 1):
                turns = j * k % r
                folded = min(turns, r - turns)
                u = self.add(u, self.scale(self.number(self.table, first + 2 * (folded - 1)), sums[j - 1]))
                w = self.scale(self.number(self.table, first + 2 * (folded - 1) + 1), differences[j - 1])
                v = w if v is None else self.add(v, w) if turns == folded else self.sub(v, w)
            out[k], out[r - k] = self.turn(u, v)
        return out


@cache
def compile_transform(scalar) -> None:
    """Machine code of `transform` for Numba's float32 or float64, under a name that kernels find, also cached ones.

    It is one function for all kernels, since LLVM takes longer for it than for most of them.
    """
    address = native.load(_transform_text(scalar), {}, opt=2).address(_symbol(scalar))
    llvmlite.binding.add_symbol(_symbol(scalar), address)


def _symbol(scalar):
    return f"tsk_fft_f{scalar.bitwidth}"


def _signature(scalar):
    p, n = LLVM[scalar].as_pointer(), I64
    return ir.FunctionType(ir.VoidType(), [p, p, n, p, p, p, n, n.as_pointer(), p])


@intrinsic
def transform(typingctx, re, im, stride, work, out_re, out_im, out_stride, table, twiddles):
    """Transform 16 lines of complex vectors, whose element k is at ``re[k * stride]`` and ``im[k * stride]``.

    Arrays are pointers (`simd.address`); `table` and `twiddles` come from `fft.passes`. `work` holds two copies of the
    lines; the output must be elsewhere than the input. Swapping (re, im) and (out_re, out_im) gives the opposite
    transform.
    """
    if not isinstance(re, types.CPointer | types.Array) or any(p != re for p in (im, work, out_re, out_im, twiddles)):
        raise TypingError(
            f"transform: arrays must be pointers to one dtype, got {re}, {im}, {work}, {out_re}, {out_im}, {twiddles}"
        )
    n = types.int64
    sig = types.void(re, im, n, work, out_re, out_im, n, table, twiddles)

    def codegen(context, builder, sig, args):
        compile_transform(re.dtype)
        args = [a if t == n else start(context, builder, t, a) for t, a in zip(sig.args, args, strict=True)]
        builder.call(cgutils.get_or_insert_function(builder.module, _signature(re.dtype), _symbol(re.dtype)), args)
        return context.get_dummy_value()

    return sig, codegen


def _transform_text(scalar):
    module = ir.Module("fft")
    function = ir.Function(module, _signature(scalar), _symbol(scalar))
    builder = ir.IRBuilder(function.append_basic_block())
    re, im, stride, work, out_re, out_im, out_stride, table, twiddles = function.args
    word = lambda index: builder.load(builder.gep(table, [index]))
    one, two, lanes = I64(1), I64(2), I64(LANES)
    wide = I64(2 * LANES)
    last = builder.sub(word(I64(0)), one)
    size = builder.mul(builder.mul(word(one), word(two)), wide)
    now = [cgutils.alloca_once_value(builder, v) for v in (re, im, stride)]
    with cgutils.for_range(builder, builder.add(last, one)) as loop:
        k = loop.index
        radix, blocks, copies, at = (word(builder.add(builder.mul(k, I64(4)), I64(1 + w))) for w in range(4))
        half = builder.mul(builder.and_(k, one), size)
        ends = builder.icmp_signed("==", k, last)
        to = [
            builder.select(ends, a, b)
            for a, b in (
                (out_re, builder.gep(work, [half])),
                (out_im, builder.gep(work, [builder.add(half, lanes)])),
                (out_stride, wide),
            )
        ]
        source = [builder.load(v) for v in now]
        _pass(builder, scalar, (*source, *to, radix, blocks, copies, twiddles, builder.gep(twiddles, [at])))
        for v, slot in zip(to, now):
            builder.store(v, slot)
    builder.ret_void()
    return str(module)


def _pass(builder, scalar, args):
    """A pass over elements at multiples of `stride` from `re` and `im` on."""
    re, im, stride, out_re, out_im, out_stride, radix, blocks, copies, table, twiddles = args
    lines = _Lines(builder, scalar, table)
    done, other = builder.append_basic_block("passed"), builder.append_basic_block("other")
    choice = builder.switch(radix, other)
    for r in RADICES:
        block = builder.append_basic_block(f"radix{r}")
        choice.add_case(I64(r), block)
        builder.position_at_end(block)
        step = builder.mul(builder.mul(copies, blocks), stride)
        out_step = builder.mul(copies, out_stride)

        def butterfly(p, q, twiddled, r=r, step=step, out_step=out_step):
            of = builder.mul(builder.add(builder.mul(copies, p), q), stride)
            to = builder.mul(builder.add(builder.mul(builder.mul(copies, I64(r)), p), q), out_stride)
            x = [lines.load(re, im, builder.add(of, builder.mul(I64(k), step))) for k in range(r)]
            w = builder.mul(p, I64(2 * (r - 1)))
            for k, y in enumerate(lines.transform(x)):
                if twiddled and k:
                    at = [builder.add(w, I64(2 * (k - 1) + part)) for part in (0, 1)]
                    y = lines.times(y, *(lines.number(twiddles, a) for a in at))
                lines.store(out_re, out_im, builder.add(to, builder.mul(I64(k), out_step)), y)

        with cgutils.for_range(builder, copies) as loop:
            butterfly(I64(0), loop.index, False)
        with cgutils.for_range(builder, builder.sub(blocks, I64(1))) as outer:
            p = builder.add(outer.index, I64(1))
            with cgutils.for_range(builder, copies) as loop:
                butterfly(p, loop.index, True)
        builder.branch(done)
    builder.position_at_end(other)
    _plain_sum(builder, lines, args)
    builder.branch(done)
    builder.position_at_end(done)


def _plain_sum(builder, lines, args):
    """A pass of any radix; the roots of one follow the twiddle factors."""
    re, im, stride, out_re, out_im, out_stride, radix, blocks, copies, _, twiddles = args
    zero, one, two, mul, add = I64(0), I64(1), I64(2), builder.mul, builder.add
    step, out_step = mul(mul(copies, blocks), stride), mul(copies, out_stride)
    others = builder.sub(radix, one)
    roots = mul(two, mul(blocks, others))
    sums = [cgutils.alloca_once(builder, Vec(lines.scalar, LANES).llvm) for _ in range(2)]

    def factor(index):
        return [lines.number(twiddles, add(index, part)) for part in (zero, one)]

    with cgutils.for_range(builder, mul(blocks, copies)) as loop:
        p, q = builder.udiv(loop.index, copies), builder.urem(loop.index, copies)
        of, to = mul(add(mul(copies, p), q), stride), mul(add(mul(mul(copies, radix), p), q), out_stride)
        with cgutils.for_range(builder, radix) as outputs:
            k = outputs.index
            for at, v in zip(sums, lines.load(re, im, of)):
                builder.store(v, at)
            with cgutils.for_range(builder, others) as inputs:
                j = add(inputs.index, one)
                root = factor(add(roots, mul(two, builder.urem(mul(j, k), radix))))
                x = lines.times(lines.load(re, im, add(of, mul(j, step))), *root)
                for at, v in zip(sums, lines.add(tuple(builder.load(s) for s in sums), x)):
                    builder.store(v, at)
            y = tuple(builder.load(s) for s in sums)
            first = builder.icmp_signed("==", k, zero)
            at = builder.select(first, roots, mul(two, add(mul(p, others), builder.sub(k, one))))  # the first root is 1
            lines.store(out_re, out_im, add(to, mul(k, out_step)), lines.times(y, *factor(at)))


@intrinsic
def transpose(typingctx, of, of_stride, to, to_stride):
    """Rows of 16 elements at ``of[k * of_stride]`` become columns of the rows at ``to[k * to_stride]`` (pointers)."""
    if not isinstance(of, types.CPointer | types.Array) or of != to:
        raise TypingError(f"transpose: arrays must be pointers to one dtype, got {of}, {to}")
    sig = types.void(of, types.int64, to, types.int64)

    def codegen(context, builder, sig, args):
        of, of_stride, to, to_stride = (
            a if t == types.int64 else start(context, builder, t, a) for t, a in zip(sig.args, args, strict=True)
        )
        lines, alignment = _Lines(builder, sig.args[0].dtype, None), sig.args[0].dtype.bitwidth // 8
        rows = [builder.load(lines._at(of, builder.mul(I64(k), of_stride)), align=alignment) for k in range(LANES)]
        half = LANES // 2
        picks = [
            ir.Constant(ir.VectorType(I32, LANES), [k // 2 + LANES * (k % 2) + start for k in range(LANES)])
            for start in (0, half)
        ]
        for _ in range(4):  # a perfect shuffle of 256 elements; four of them are a transpose
            rows = [builder.shuffle_vector(rows[k], rows[k + half], pick) for k in range(half) for pick in picks]
        for k, row in enumerate(rows):
            builder.store(row, lines._at(to, builder.mul(I64(k), to_stride)), align=alignment)
        return context.get_dummy_value()

    return sig, codegen
