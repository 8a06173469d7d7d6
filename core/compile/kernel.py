"""One loop nest: the code of a group of equations over a common iteration space.

Loops run in the order of the axes; a short last axis is written out. A reduction over the innermost loops has an
accumulator in a register; one over outer loops adds to its result in memory. Long outer loops are cut into chunks that
depend on sizes only, each with its own partial results, summed in order: results do not depend on the threads.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import widened
from ..graph.graph import Const, Equation, Var
from ..kernels.native import checked
from .builder import CALLING_LOOP, LONG_LOOP, Builder
from .formulas import REDUCERS, align, emit_formula, index_key, linear, pull_element
from .fuse import UNROLL, Fusion, Group, Root
from .math_calls import call_out_of_line
from .row_blocks import RowBlocks
from .scalars import I64, Value, llvm_type, real_of

__all__ = ["Kernel", "Nest", "PARALLEL", "Partial", "identity_of"]

CHUNK = 25e3  # ns of work per chunk
PARALLEL = 60e3  # ns of work from which on a nest is cut into chunks
MAX_CHUNKS = 64
PIECES = 8
BLOCK = 1024  # elements whose sum is rounded as one: sums of blocks are added in float64
INLINE = 10  # calls of vector-math functions in a nest up to which they are written out


class Partial(NamedTuple):
    """A result that chunks compute in part: its buffer is [chunks, size]."""

    root: Root
    size: int


class Kernel(NamedTuple):
    """Code of one loop nest."""

    name: str
    head: str  # type and parameters of the function: the pointers of `buffers`, then the range of the outer loop
    text: list[str]  # body
    buffers: list[Any]  # Var, Const or Partial
    chunks: int  # ranges of `step` into which the outer loop, 0 ... extent, is cut
    step: int
    extent: int
    partials: list[Partial]
    checks: list[Equation]  # their index may be out of bounds: bit k of the function's result
    again: bool  # the result may be negative: the nest must then be computed again in another way
    flops: float
    bytes: float
    estimate: float  # ns
    loops: list[str]
    declares: set[str]
    symbols: set[str]


def identity_of(name: str, dtype: np.dtype):
    """Return the identity element of a reduction, for example 0 for a sum."""
    if name == "max":
        return -np.inf if dtype.kind == "f" else dtype.kind != "b" and np.iinfo(dtype).min
    if name == "min":
        return np.inf if dtype.kind == "f" else dtype.kind == "b" or np.iinfo(dtype).max
    return {"sum": 0, "prod": 1, "any": False, "all": True}[name]


def _bits_of(x: float, bits: int) -> int:
    return int(np.array(x, f"f{bits // 8}").view(f"i{bits // 8}"))


class Nest:
    """Emits one group."""

    def __init__(self, fusion: Fusion, group: Group, name: str, row_blocks: RowBlocks | None = None):
        self.fusion, self.group, self.name, self.row_blocks = fusion, group, name, row_blocks
        self.own = {r.var for r in group.roots}
        self._choose_axes()
        self._choose_chunks()

    # -- the shape of the nest
    # -------------------------------------------------------------------------------------------

    def _atoms(self):
        for r in self.group.roots:
            yield r.var
        for e in self.group.formulas:
            yield from e.inputs

    def _choose_axes(self):
        """Merge neighboring axes where every operand allows it; decide which loops there are."""
        roots = self.group.roots
        space = max((r.space for r in roots), key=len)
        self.merge = None
        plain = all(
            e.primitive.kind == "elementwise" or e.primitive.name == "broadcast_to" or (e in self._reducing())
            for e in self.group.formulas
        )
        if plain and all(r.space == space for r in roots) and len(space) > 1:
            rank = len(space)
            shapes = {
                a.spec.shape for e in self.group.formulas if e not in self._reducing() for a in (*e.inputs, *e.outputs)
            }
            shapes |= {a.spec.shape for e in self._reducing() for a in e.inputs}
            full = [tuple(n != 1 for n in (1,) * (rank - len(s)) + s) for s in shapes]
            reduced = [[i in r.axes for i in range(rank)] for r in roots if r.axes is not None]
            runs = [[0]]
            for axis in range(1, rank):
                if space[axis] == 1 or all(space[a] == 1 for a in runs[-1]):
                    same = True
                else:
                    last = [a for a in runs[-1] if space[a] != 1][-1]
                    same = all(f[last] == f[axis] for f in full)
                ok = all(len({red[a] for a in (*runs[-1], axis)}) == 1 for red in reduced)
                if self.row_blocks is not None and axis <= self.row_blocks.lead:
                    same = ok = axis < self.row_blocks.lead  # the rows, and nothing but the rows, are the outer loop
                if same and ok:
                    runs[-1].append(axis)
                else:
                    runs.append([axis])
            self.merge = (rank, runs)
            space = tuple(math.prod(space[a] for a in run) for run in runs)
        self.space = space
        last = space[-1] if space else 0
        cost = self.group.cost * last
        # beyond the short axes LLVM makes better vectors of a loop, unless all that is done is to reduce
        reduces = all(r.axes is not None for r in roots)
        unrolled = len(space) > 1 and (last <= UNROLL or (last < 16 and cost < 300 and reduces))
        self.loops = space[:-1] if unrolled else space
        if any(r.space != roots[0].space for r in roots):
            self.loops = self.group.key

    def space_of(self, root) -> tuple[int, ...]:
        """Iteration space of a root in terms of the merged axes."""
        return self.space if self.merge is not None else root.space

    def short(self, root) -> int:
        """Length of the written-out axis, 0 without."""
        space = self.space_of(root)
        return space[-1] if len(space) > len(self.loops) else 0

    def _reducing(self):
        return {r.eqn for r in self.group.roots if r.axes is not None}

    def shape(self, atom) -> tuple[int, ...]:
        """Shape of a value in terms of the merged axes."""
        own = atom.spec.shape
        if self.merge is None:
            return own
        rank, runs = self.merge
        if len(own) == 0:
            return ()
        padded = (1,) * (rank - len(own)) + own
        return tuple(math.prod(padded[a] for a in run) for run in runs)

    def axes(self, root):
        """Reduced axes in terms of the merged axes."""
        if self.merge is None:
            return root.axes
        return tuple(k for k, run in enumerate(self.merge[1]) if run[0] in root.axes)

    def _choose_chunks(self):
        size = math.prod(self.space)
        streams = sum(v.spec.nbytes for v in {*self.group.reads, *self.own})
        self.flops = self.group.cost * size
        self.bytes = streams
        estimate = 0.15 * self.flops + 0.1 * streams
        self.chunks, self.step, self.extent = 1, 0, self.loops[0] if self.loops else 1
        self.estimate = estimate
        if self.row_blocks is not None:
            self.chunks, self.step = self.row_blocks.chunks, self.row_blocks.step
            return
        if estimate > PARALLEL and self.extent > 1:
            chunks = min(MAX_CHUNKS, int(estimate / CHUNK))
            held = max(
                [r.var.spec.nbytes for r in self.group.roots if r.axes is not None and 0 in self.axes(r)], default=0
            )
            if held > 4096:
                chunks = min(chunks, 8)
            step = -(-self.extent // chunks)
            if len(self.loops) == 1:
                step = -(-step // 64) * 64
            self.chunks, self.step = -(-self.extent // step), step
        if self.chunks == 1:
            self.step = self.extent

    # -- code ----------------------------------------------------------------------------------------------------------

    def emit(self) -> Kernel:
        self.pieces: list[list[tuple[int, int]]] = [[(0, n)] for n in self.loops]
        self._emit()
        if self._split():
            self._emit()
        parameters = [f"ptr noalias %p{k}" for k in range(len(self.pointers))] + ["i64 %lo", "i64 %hi"]
        body = self.b.render()
        if sum(" @tsk." in line for line in body) > INLINE:
            body = [call_out_of_line(line).replace(LONG_LOOP, CALLING_LOOP) for line in body]
            self.b.symbols = {s.replace("@tsk.", "@tsk.scalar.") for s in self.b.symbols}
        text = ["entry:", *body, *self._result()]
        loops = [
            f"for {', '.join(f'{n}' for n in self.loops)}"
            + (f" (x {max(map(self.short, self.group.roots))})" if len(self.space) > len(self.loops) else "")
        ]
        return Kernel(
            self.name,
            f"i64 @({', '.join(parameters)}) #0",
            text,
            list(self.pointers),
            self.chunks,
            self.step,
            self.extent,
            self.partials,
            self.checks,
            bool(self.nearest),
            self.flops,
            self.bytes,
            self.estimate,
            loops,
            self.b.declares,
            self.b.symbols,
        )

    def _split(self):
        """Cut loops where a comparison of their variable with a constant changes its result."""
        cut = False
        total = 1
        for axis in reversed(range(len(self.loops))):
            places = set()
            for var in self.vars[axis]:
                places |= self.b.breaks.get(var, set())
            n = self.loops[axis]
            marks = sorted(p for p in places if 0 < p < n)
            if marks and total * (len(marks) + 1) <= PIECES:
                total *= len(marks) + 1
                edges = [0, *marks, n]
                self.pieces[axis] = list(zip(edges, edges[1:], strict=False))
                cut = True
        return cut

    def _emit(self):
        self.b = Builder()
        self.pointers: dict[Any, str] = {}
        self.memo: dict[Any, Value] = {}
        self.checks: list[Equation] = []
        self.flag: str | None = None
        # by range: how little arguments of functions exceed its start
        self.nearest: dict[tuple[int, int, int], str] = {}
        self._noted: set[tuple] = set()
        self.b.far, self.b.special = self._far, self._special
        self.partials = []
        self.vars: list[list[str]] = [[] for _ in self.loops]
        self.accumulators: dict[Any, str] = {}
        self.plans = [self._plan(r) for r in self.group.roots]
        for plan in self.plans:
            if plan["root"].axes is not None and plan["in memory"] and 0 in plan["axes"]:
                self._clear(plan, None)
        self._nest(0, [])

    def _plan(self, root):
        if root.axes is None:
            return {"root": root, "target": self.pointer(root.var)}
        axes = self.axes(root)
        n = len(self.loops)
        suffix = n
        while suffix and suffix - 1 in axes:
            suffix -= 1
        outer = any(a < suffix for a in axes)
        target = root.var
        if self.chunks > 1 and 0 in axes:
            target = Partial(root, root.var.spec.size)
            self.partials.append(target)
        dtype = widened(root.var.spec.dtype)
        return {
            "root": root,
            "target": self.pointer(target),
            "suffix": suffix,
            "in memory": outer,
            "axes": axes,
            "name": root.eqn.primitive.name,
            "dtype": dtype,
            "wide": np.result_type(dtype, float) if dtype.kind in "fc" else dtype,
        }

    def pointer(self, what) -> str:
        if isinstance(what, Var):
            what = self.fusion.base(what)
        name = self.pointers.get(what)
        if name is None:
            name = self.pointers[what] = f"%p{len(self.pointers)}"
            if checked():
                self.b.sizes[name] = (
                    what.size * what.root.var.spec.dtype.itemsize if isinstance(what, Partial) else what.spec.nbytes
                )
        return name

    def _clear(self, plan, row):
        """Start a result that is added to in memory: all of it, or the part that belongs to a round of the outer
        loop.
        """
        b = self.b
        size = plan["root"].var.spec.size // (1 if row is None else self.loops[0])
        value = b.const(identity_of(plan["name"], plan["dtype"]), plan["dtype"])
        i = b.open(0, size, 0, size - 1)
        b.store(
            plan["target"],
            i if row is None else b.add(b.mul(row, b.index(size)), i),
            value,
            plan["root"].var.spec.dtype,
        )
        b.close()

    # -- loops

    def _nest(self, axis, index):
        b = self.b
        starting = [p for p in self.plans if p["root"].axes is not None and p["suffix"] == axis]
        for plan in starting:
            self._start(plan)
        if axis == len(self.loops):
            self._body(index)
        else:
            rounds, blocked = self._blocks(axis)
            for low, high in self.pieces[axis]:
                start, stop = low, high
                if axis == 0 and self.chunks > 1:
                    start, stop = "%lo", "%hi"
                    if len(self.pieces[0]) > 1:
                        t = llvm_type(I64)
                        b.declares |= {f"declare {t} @llvm.smax.i64({t}, {t})", f"declare {t} @llvm.smin.i64({t}, {t})"}
                        start = b.here(f"call i64 @llvm.smax.i64(i64 %lo, i64 {low})")
                        stop = b.here(f"call i64 @llvm.smin.i64(i64 %hi, i64 {high})")
                guarded = isinstance(start, str) and len(self.pieces[0]) > 1
                if blocked:
                    start, stop = self._open_block(start, stop, low, high, rounds)
                    b.scopes[-1].guarded, guarded = guarded, False
                i = b.open(start, stop, low, high - 1)
                b.scopes[-1].guarded = guarded
                self.vars[axis].append(b.scopes[-1].var)
                if axis == 0:
                    for plan in self.plans:
                        if plan["root"].axes is not None and plan["in memory"] and 0 not in plan["axes"]:
                            self._clear(plan, i)
                self._nest(axis + 1, [*index, i])
                b.close()
                if blocked:
                    for plan in blocked:
                        self._carry(plan)
                    b.close()
        for plan in starting:
            self._finish(plan, index)

    # -- sums in blocks: as exact as pairwise ones, with the vectors of a plain loop

    def _blocks(self, axis):
        """Rounds of the loop over `axis` that make a block, and the plans of the sums that are computed block by
        block.
        """
        inside = math.prod(self.loops[axis + 1 :]) * max(map(self.short, self.group.roots)) or 1
        rounds = -(-BLOCK // inside)
        if inside >= BLOCK or self.loops[axis] < 2 * rounds:
            return rounds, []
        return rounds, [
            p
            for p in self.plans
            if p["root"].axes is not None and p["name"] == "sum" and p["dtype"].kind in "fc" and p["suffix"] <= axis
        ]

    def _open_block(self, start, stop, low, high, rounds):
        """Open a loop over the blocks of start ... stop; where its block starts and stops."""
        b = self.b
        most = -(-(high - low) // rounds)
        count: int | str = most
        if isinstance(start, str):
            length = b.here(f"sub i64 {stop}, {start}")
            count = b.here(f"udiv i64 {b.here(f'add i64 {length}, {rounds - 1}')}, {rounds}")
        k = b.open(0, count, 0, most - 1)
        first = b.here(f"add i64 {b.here(f'mul i64 {b.name(k)}, {rounds}')}, {start}")
        last = b.here(f"add i64 {first}, {rounds}")
        b.declares.add("declare i64 @llvm.smin.i64(i64, i64)")
        return first, b.here(f"call i64 @llvm.smin.i64(i64 {last}, i64 {stop})")

    def _carry(self, plan):
        """Add the sum of a block to the total, and start the next."""
        b, dtype, wide = self.b, plan["dtype"], plan["wide"]
        for k in self._places(plan):
            block, total = (plan["root"].var, k), (plan["root"].var, k, "total")
            self._write(total, b.add(self._read(total, wide), b.cast(self._read(block, dtype), wide)))
            self._write(block, b.const(0, dtype))

    def _places(self, plan):
        """The written-out positions that have accumulators of their own."""
        n = self.short(plan["root"])
        return range(n) if n and len(self.loops) not in plan["axes"] else (0,)

    def _start(self, plan):
        """Accumulators in registers, at the place where the reduced loops begin."""
        plan["blocked"] = any(plan in self._blocks(a)[1] for a in range(len(self.loops)))
        for k in self._places(plan):
            self._accumulator((plan["root"].var, k), plan["name"], plan["dtype"])
            if plan["blocked"]:
                self._accumulator((plan["root"].var, k, "total"), "sum", plan["wide"])

    def _accumulator(self, key, name, dtype):
        if key not in self.accumulators:
            parts = 2 if dtype.kind == "c" else 1
            t = llvm_type(real_of(dtype) if dtype.kind == "c" else dtype)
            self.accumulators[key] = tuple(self.b.alloca(t) for _ in range(parts))
        self._write(key, self.b.const(identity_of(name, dtype), dtype))

    def _write(self, key, v):
        for slot, part in zip(self.accumulators[key], v.parts or (v,), strict=True):
            self.b.line(f"store {llvm_type(part.dtype)} {self.b.name(part)}, ptr {slot}")

    def _read(self, key, dtype):
        level = len(self.b.scopes) - 1
        if dtype.kind == "c":
            r = real_of(dtype)
            parts = tuple(Value(self.b.here(f"load {llvm_type(r)}, ptr {s}"), r, level) for s in self.accumulators[key])
            return Value(None, dtype, level, parts)
        return Value(self.b.here(f"load {llvm_type(dtype)}, ptr {self.accumulators[key][0]}"), dtype, level)

    def _finish(self, plan, index):
        b, root = self.b, plan["root"]
        for k in self._places(plan):
            if plan["blocked"]:
                total = b.cast(self._read((root.var, k, "total"), plan["wide"]), plan["dtype"])
            else:
                total = self._read((root.var, k), plan["dtype"])
            at = [i for a, i in enumerate(index) if a not in plan["axes"]]
            if self.short(root) and len(self.loops) not in plan["axes"]:
                at.append(b.index(k))
            offset = self._offset(plan, at)
            if plan["in memory"]:
                total = self._combine(plan, b.load(plan["target"], root.var.spec.dtype, offset, movable=False), total)
            b.store(plan["target"], offset, total, root.var.spec.dtype)

    def _offset(self, plan, at):
        kept = [n for a, n in enumerate(self.space_of(plan["root"])) if a not in plan["axes"]]
        return linear(self.b, at, kept)

    def _combine(self, plan, x, y):
        """x (op) y where the order of a chain of them may change."""
        b, dtype, name = self.b, plan["dtype"], plan["name"]
        if dtype.kind == "f" and name in ("sum", "prod"):
            op, t = ("fadd" if name == "sum" else "fmul"), llvm_type(dtype)
            return Value(b.here(f"{op} reassoc contract {t} {b.name(x)}, {b.name(y)}"), dtype, len(b.scopes) - 1)
        if dtype.kind == "c" and name == "sum":
            parts = tuple(
                self._combine({"dtype": p.dtype, "name": name}, p, q) for p, q in zip(x.parts, y.parts, strict=True)
            )
            return Value(None, dtype, len(b.scopes) - 1, parts)
        if dtype.kind == "f":
            return b._intrinsic("maximum" if name == "max" else "minimum", x, y)
        return getattr(b, REDUCERS[name])(x, y)

    def _body(self, index):
        b = self.b
        for plan in self.plans:
            root = plan["root"]
            short = self.short(root)
            for k in range(short) if short else (0,):
                at = [*index, b.index(k)] if short else index
                if root.axes is None:
                    v = self.value(root.var, at, compute=True)
                    b.store(plan["target"], linear(self.b, at, self.shape(root.var)), v, root.var.spec.dtype)
                    continue
                x = b.cast(self.value(root.eqn.inputs[0], at), plan["dtype"])
                key = (root.var, k if k in self._places(plan) else 0)
                old = self._read(key, plan["dtype"])
                self._write(key, self._combine(plan, old, x))

    # -- values --------------------------------------------------------------------------------------------------------

    def value(self, atom, index, compute: bool = False) -> Value:
        """The element of a value at an index, computed or loaded."""
        b = self.b
        if type(atom) is Const:
            return self._constant(atom, index)
        key = (atom, index_key(index))
        found = self.memo.get(key)
        if found is not None:
            return found
        if atom in self.fusion.in_memory and not compute:
            v = b.load(self.pointer(atom), atom.spec.dtype, linear(self.b, index, self.shape(atom)))
        else:
            eqn = self.fusion.producer[atom]
            outer, b.check = b.check, lambda ok: self._check(eqn, ok)
            if eqn.primitive.kind == "elementwise":
                shape = self.shape(atom)
                v = emit_formula(b, eqn, [self.value(a, self._aligned(index, shape, a)) for a in eqn.inputs])
            elif self.merge is not None:  # broadcast_to
                v = self.value(eqn.inputs[0], self._aligned(index, self.shape(atom), eqn.inputs[0]))
            else:
                v = pull_element(b, eqn, index, lambda k, at: self.value(eqn.inputs[k], at))
                v = b.cast(v, atom.spec.dtype)
            b.check = outer
        self.memo[key] = v
        return v

    def _aligned(self, index, shape, atom):
        return align(self.b, index, shape, self.shape(atom))

    def _constant(self, atom, index):
        b, dtype = self.b, atom.spec.dtype
        value = np.asarray(atom.value)
        if value.size == 1:
            return b.const(value.reshape(-1)[0].item(), dtype)
        return b.load(self.pointer(atom), dtype, linear(self.b, index, self.shape(atom)))

    def _far(self, x, limit):
        """Compute the nest again where `x` is finite and beyond `limit`."""
        bits = 8 * x.dtype.itemsize
        self._again_in(x, _bits_of(limit, bits) + 1, _bits_of(np.inf, bits))

    def _special(self, x):
        """Compute the nest again where `x` is infinite or NaN."""
        bits = 8 * x.dtype.itemsize
        self._again_in(x, _bits_of(np.inf, bits), 1 << bits - 1)

    def _again_in(self, x, start, stop):
        """Note an `x` whose absolute value has bits in start ... stop - 1: those of floats order like integers."""
        name = self.b.name(x)
        bits, b = 8 * x.dtype.itemsize, self.b
        key = (bits, start, stop)
        if (name, *key) in self._noted:
            return
        self._noted.add((name, *key))
        t = f"i{bits}"
        if key not in self.nearest:
            self.nearest[key] = b.alloca(t)
            b.scopes[0].items.insert(0, f"store {t} -1, ptr {self.nearest[key]}")
            b.declares.add(f"declare {t} @llvm.umin.{t}({t}, {t})")
        slot = self.nearest[key]
        word = b.ins(f"bitcast {llvm_type(x.dtype)} {name} to {t}", x.level)
        word = b.ins(f"and {t} {word}, {(1 << bits - 1) - 1}", x.level)
        beyond = b.ins(f"sub {t} {word}, {start}", x.level)  # what is below wraps around
        old, new = b.fresh(), b.fresh()
        b.scopes[x.level].items += [
            f"{old} = load {t}, ptr {slot}",
            f"{new} = call {t} @llvm.umin.{t}({t} {old}, {t} {beyond})",
            f"store {t} {new}, ptr {slot}",
        ]

    def _result(self):
        """The end of the function: failed checks as bits, the sign where the nest is to be computed again."""
        lines, total = [], "0"
        if self.checks:
            lines, total = [f"  %failed = load i64, ptr {self.flag}"], "%failed"
        for k, ((bits, start, stop), slot) in enumerate(self.nearest.items()):
            lines += [
                f"  %near{k} = load i{bits}, ptr {slot}",
                f"  %far{k} = icmp ult i{bits} %near{k}, {stop - start}",
                f"  %sign{k} = select i1 %far{k}, i64 {-1 << 63}, i64 0",
                f"  %total{k} = or i64 {total}, %sign{k}",
            ]
            total = f"%total{k}"
        return [*lines, f"  ret i64 {total}"]

    def _check(self, eqn, ok):
        b = self.b
        if eqn not in self.checks:
            self.checks.append(eqn)
        if self.flag is None:
            self.flag = b.alloca("i64")
            b.scopes[0].items.insert(0, f"store i64 0, ptr {self.flag}")
        bit = 1 << min(self.checks.index(eqn), 61)
        # where it is checked for every element the flag is a reduction by or
        bad = b.ins(f"select i1 {b.name(ok)}, i64 0, i64 {bit}", ok.level)
        scope = b.scopes[ok.level].items
        old, new = b.fresh(), b.fresh()
        scope += [
            f"{old} = load i64, ptr {self.flag}",
            f"{new} = or i64 {old}, {bad}",
            f"store i64 {new}, ptr {self.flag}",
        ]
