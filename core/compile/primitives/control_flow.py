"""Control flow in compiled programs: bodies are functions of the program, called in loops and branches.

A body reads and writes through tables of pointers, so that a scan hands out the rows of its inputs and results where
they lie. A carry alternates between two buffers, the last of which is the result; the first step reads the initial
value where it is. A carry that the body only updates stays in one buffer.
"""

from __future__ import annotations

import sys
from typing import Any

from ...dtypes import kind_of
from ...graph.graph import Equation, Graph
from ...graph.simplify import simplify
from ...kernels import blas
from ..emit import NATIVE, Unit, as_array
from ..fuse import Group
from ..lower import lower
from ..packing import LEAST_STEPS, pack_constants
from ..row_blocks import RowBlocks
from ..stopwatch import CLOCK
from .products import NAMES

__all__: list[str] = []


class _Interrupts:
    """Lets Ctrl-C end a long loop: about ten times a second the loop lets Python look at signals.

    The clock is read in every 64th round of quick bodies, in every one of others.
    """

    ROUNDS = 63  # between two looks at the clock, as a mask
    LONG = 1e5  # ns of a body from which on the clock is looked at in every round
    LEAST = 1000  # rounds of quick bodies that are worth it
    LATE = 200_000_000 if CLOCK == "llvm.readcyclecounter" else 2_000_000

    def __init__(self, unit: Unit, function: Unit, rounds: int | None = None):
        rest = [s.eqn for s in function.steps if not isinstance(s, (Group, RowBlocks))]
        products = [e for e in rest if e.primitive.name == "dot_general"]
        flops = sum(
            e.primitive.flops([a.spec for a in e.inputs], [o.spec for o in e.outputs], **e.params) for e in products
        )
        # at 10 GFLOP/s
        quick = rest == products and sum(k.estimate for k in function.kernels) + 0.1 * flops < self.LONG
        self.unit, self.mask = unit, self.ROUNDS if quick else 0
        self.wanted = sys.platform != "win32" and not (quick and rounds is not None and rounds < self.LEAST)
        if not self.wanted:
            return
        self.since = unit.fresh("since")
        unit.head.append(f"  {self.since} = alloca i64")
        unit.module.declares.add(f"declare i64 @{CLOCK}()")
        unit.module.polls = True
        unit.line(f"store i64 {unit.ins(f'call i64 @{CLOCK}()')}, ptr {self.since}")

    def look(self, k: str) -> None:
        """Emit the checks at the start of round `k`."""
        if not self.wanted:
            return
        unit = self.unit
        clock, late, go = (unit.label(stem) for stem in ("clock", "late", "go"))
        turn = unit.ins(f"icmp eq i64 {unit.ins(f'and i64 {k}, {self.mask}')}, {self.mask}")
        unit.lines += [f"  br i1 {turn}, label %{clock}, label %{go}", f"{clock}:"]
        now = unit.ins(f"call i64 @{CLOCK}()")
        passed = unit.ins(f"sub i64 {now}, {unit.ins(f'load i64, ptr {self.since}')}")
        unit.lines += [
            f"  br i1 {unit.ins(f'icmp ugt i64 {passed}, {self.LATE}')}, label %{late}, label %{go}",
            f"{late}:",
        ]
        unit.line(f"store i64 {now}, ptr {self.since}")
        unit.return_if(unit.ins(f"icmp ne i32 {unit.ins('call i32 @tsk_poll()')}, 0"))
        unit.lines += [f"  br label %{go}", f"{go}:"]


class _Temporary:
    """A buffer that lives during one step."""

    __slots__ = ("nbytes",)

    def __init__(self, nbytes: int):
        self.nbytes = nbytes


class _Bodies:
    """Shared by all control flow: each body becomes a function, with an arena for its own values."""

    def accepts(self, eqn: Equation) -> bool:
        return all(kind_of(a.spec.dtype) in "biufc" for a in (*eqn.inputs, *eqn.outputs))

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        graphs = [
            self.prepared(unit, eqn, lower(simplify(g), self.in_place(eqn, g).values())) for g in self.graphs(eqn)
        ]
        functions = [
            unit.module.function(g, f"{unit.name}.b{len(unit.module.units)}", self.in_place(eqn, g)) for g in graphs
        ]
        arena = _Temporary(max(f.plan.size for f in functions))
        temporaries = self.temporaries(eqn, functions)
        unit.memo[eqn], unit.bodies[eqn] = (functions, arena, temporaries), functions
        return {t: t.nbytes for t in (arena, *temporaries) if t is not None}

    def graphs(self, eqn: Equation) -> list[Graph]:
        raise NotImplementedError

    def prepared(self, unit: Unit, eqn: Equation, graph: Graph) -> Graph:
        """The lowered body in the form in which it is emitted."""
        return graph

    def in_place(self, eqn: Equation, graph: Graph) -> dict[int, int]:
        """Inputs that the function may overwrite with an output: {output: input}."""
        return {}

    def temporaries(self, eqn: Equation, functions: list[Unit]) -> list[Any]:
        return []

    @staticmethod
    def call(unit: Unit, function: Unit, inputs: str, outputs: str, arena: str) -> None:
        failed = unit.ins(f"call i32 @{function.name}(ptr {inputs}, ptr {outputs}, ptr {arena})")
        unit.return_if(unit.ins(f"icmp ne i32 {failed}, 0"))


class _Call(_Bodies):
    """A graph kept apart from what is around it, so that it is computed again where it occurs again."""

    def graphs(self, eqn):
        return [eqn.params["graph"]]

    def emit(self, unit, eqn):
        (function,), arena, _ = unit.memo[eqn]
        inputs = unit.table([unit.pointer(as_array(a)) for a in eqn.inputs])
        outputs = unit.table([unit.pointer(o) for o in eqn.outputs])
        self.call(unit, function, inputs, outputs, unit.pointer(arena))


class _Cond(_Bodies):
    def graphs(self, eqn):
        return list(eqn.params["branches"])

    def emit(self, unit, eqn):
        functions, arena, _ = unit.memo[eqn]
        index, *operands = eqn.inputs
        scratch = unit.pointer(arena)
        inputs = unit.table([unit.pointer(as_array(a)) for a in operands])
        outputs = unit.table([unit.pointer(o) for o in eqn.outputs])
        bits = 8 * index.spec.dtype.itemsize
        which = unit.ins(f"load i{bits}, ptr {unit.pointer(as_array(index))}")
        labels = [unit.label("branch") for _ in functions]
        done = unit.label("joined")
        cases = " ".join(f"i{bits} {k}, label %{label}" for k, label in enumerate(labels[1:], 1))
        unit.line(f"switch i{bits} {which}, label %{labels[0]} [ {cases} ]")
        for label, function in zip(labels, functions, strict=True):
            unit.lines.append(f"{label}:")
            self.call(unit, function, inputs, outputs, scratch)
            unit.line(f"br label %{done}")
        unit.lines.append(f"{done}:")


class _Scan(_Bodies):
    def accepts(self, eqn):
        return super().accepts(eqn) and eqn.params["length"] > 0

    def graphs(self, eqn):
        return [eqn.params["body"]]

    def in_place(self, eqn, graph):
        n = eqn.params["n_consts"]
        return {k: n + k for k in range(eqn.params["n_carry"])}

    def temporaries(self, eqn, functions):
        specs = eqn.params["body"].out_specs[: eqn.params["n_carry"]]
        updated = functions[0].plan.overwritten
        if eqn.params["length"] == 1:
            return [None] * len(specs)
        panels = [_Temporary(v.spec.nbytes) for v in functions[0].graph.inputs[len(eqn.inputs) :]]
        return [*[None if k in updated else _Temporary(s.nbytes) for k, s in enumerate(specs)], *panels]

    def prepared(self, unit, eqn, graph):
        if eqn.params["length"] < LEAST_STEPS:
            return graph
        graph, unit.memo[eqn, "packed"] = pack_constants(graph, eqn.params["n_consts"])
        return graph

    @staticmethod
    def _pack(unit, packed, source, target):
        dtype, q = packed.panels.spec.dtype, packed.matrices
        unit.module.declares.update(blas.definitions().splitlines())
        start = unit.offset(source, q.offset * dtype.itemsize)
        unit.line(
            f"call void @tsk.pack.{NAMES[f'{dtype.kind}{dtype.itemsize}']}(i64 {packed.n}, i64 {packed.k}, ptr "
            f"{start}, i64 {q.ld}, "
            f"i1 {'true' if q.transposed else 'false'}, ptr {target})"
        )

    def emit(self, unit, eqn):
        (function,), arena, temporaries = unit.memo[eqn]
        p = eqn.params
        n_consts, n_carry, length = p["n_consts"], p["n_carry"], p["length"]
        atoms = [as_array(a) for a in eqn.inputs]
        consts, carry, xs = atoms[:n_consts], atoms[n_consts : n_consts + n_carry], atoms[n_consts + n_carry :]
        scratch = unit.pointer(arena)
        panels = [unit.pointer(t) for t in temporaries[n_carry:]]
        inputs = unit.table([unit.pointer(c) for c in consts], "ins", len(atoms) + len(panels))
        for k, (packed, panel) in enumerate(zip(unit.memo.get((eqn, "packed"), ()), panels, strict=True)):
            self._pack(unit, packed, unit.pointer(consts[packed.source]), panel)
            unit.store_pointer(inputs, len(atoms) + k, panel)
        outputs = unit.table([], "outs", n_carry + len(eqn.outputs) - n_carry)
        starts, firsts, others = [], [], []
        for k, c in enumerate(carry):
            out = unit.pointer(eqn.outputs[k])
            start = unit.pointer(c)
            if k in function.plan.overwritten:
                unit.copy(out, start, c.spec.nbytes)
                start = first = other = out
            else:
                other = out if temporaries[k] is None else unit.pointer(temporaries[k])
                first, other = (out, other) if (length - 1) % 2 == 0 else (other, out)
            starts.append(start)
            firsts.append(first)
            others.append(other)
        rows = [(unit.pointer(x), x.spec.nbytes // length, n_consts + n_carry + k, inputs) for k, x in enumerate(xs)]
        rows += [
            (unit.pointer(y), y.spec.nbytes // length, n_carry + k, outputs)
            for k, y in enumerate(eqn.outputs[n_carry:])
        ]
        interrupts = _Interrupts(unit, function, length)
        with unit.loop(length, [(s, f, o) for s, f, o in zip(starts, firsts, others, strict=True)]) as (i, pairs):
            interrupts.look(i)
            t = unit.ins(f"sub nsw i64 {length - 1}, {i}") if p["reverse"] else i
            for k, (now, then) in enumerate(pairs):
                unit.store_pointer(inputs, n_consts + k, now)
                unit.store_pointer(outputs, k, then)
            for pointer, stride, place, table in rows:
                unit.store_pointer(
                    table, place, unit.offset(pointer, unit.ins(f"mul nsw i64 {t}, {stride}")) if stride else pointer
                )
            self.call(unit, function, inputs, outputs, scratch)


class _While(_Bodies):
    def graphs(self, eqn):
        return [eqn.params["cond"], eqn.params["body"]]

    def temporaries(self, eqn, functions):
        specs = eqn.params["body"].out_specs
        return [_Temporary(1), *[_Temporary(s.nbytes) for s in specs], *[_Temporary(s.nbytes) for s in specs]]

    def emit(self, unit, eqn):
        (cond, body), arena, (flag, *buffers) = unit.memo[eqn]
        p = eqn.params
        n_cond, n_body = p["n_cond_consts"], p["n_body_consts"]
        pointers = [unit.pointer(as_array(a)) for a in eqn.inputs]
        cond_consts, body_consts, carry = (
            pointers[:n_cond],
            pointers[n_cond : n_cond + n_body],
            pointers[n_cond + n_body :],
        )
        n = len(carry)
        scratch, flag_pointer = unit.pointer(arena), unit.pointer(flag)
        tests, ins, outs = (
            unit.table(cond_consts, "tests", n_cond + n),
            unit.table(body_consts, "ins", n_body + n),
            unit.table([], "outs", n),
        )
        result = unit.table([flag_pointer])
        a, b = [unit.pointer(t) for t in buffers[:n]], [unit.pointer(t) for t in buffers[n:]]
        interrupts = _Interrupts(unit, body)
        head, again, done, before = unit.label("while"), unit.label("again"), unit.label("done"), unit.label("before")
        unit.lines += [f"  br label %{before}", f"{before}:", f"  br label %{head}", f"{head}:"]
        slot = len(unit.lines)
        now, then, other = ([unit.fresh("c") for _ in range(n)] for _ in range(3))
        rounds = unit.fresh("rounds")
        unit.lines += [""] * (3 * n + 1)
        interrupts.look(rounds)
        for k in range(n):
            unit.store_pointer(tests, n_cond + k, now[k])
        self.call(unit, cond, tests, result, scratch)
        go = unit.ins(f"icmp ne i8 {unit.ins(f'load i8, ptr {flag_pointer}')}, 0")
        unit.lines += [f"  br i1 {go}, label %{again}, label %{done}", f"{again}:"]
        for k in range(n):
            unit.store_pointer(ins, n_body + k, now[k])
            unit.store_pointer(outs, k, then[k])
        self.call(unit, body, ins, outs, scratch)
        end = unit.label("end")
        unit.lines += [f"  br label %{end}", f"{end}:", f"  {rounds}.n = add i64 {rounds}, 1", f"  br label %{head}"]
        unit.lines[slot + 3 * n] = f"  {rounds} = phi i64 [ 0, %{before} ], [ {rounds}.n, %{end} ]"
        for k in range(n):
            unit.lines[slot + 3 * k] = f"  {now[k]} = phi ptr [ {carry[k]}, %{before} ], [ {then[k]}, %{end} ]"
            unit.lines[slot + 3 * k + 1] = f"  {then[k]} = phi ptr [ {a[k]}, %{before} ], [ {other[k]}, %{end} ]"
            unit.lines[slot + 3 * k + 2] = f"  {other[k]} = phi ptr [ {b[k]}, %{before} ], [ {then[k]}, %{end} ]"
        unit.lines.append(f"{done}:")
        for k, o in enumerate(eqn.outputs):
            unit.copy(unit.pointer(o), now[k], o.spec.nbytes)


class _Ensure:
    """Python is called to raise the error where there is one."""

    def accepts(self, eqn):
        return all(kind_of(a.spec.dtype) in "biufc" for a in eqn.inputs)

    def scratch(self, unit, eqn):
        return {}

    def emit(self, unit, eqn):
        failed, *xs = [unit.pointer(as_array(a)) for a in eqn.inputs]
        bad, go = unit.label("bad"), unit.label("go")
        condition = unit.ins(f"icmp ne i32 {unit.ins(f'load i32, ptr {failed}')}, 0")
        unit.lines += [f"  br i1 {condition}, label %{bad}, label %{go}", f"{bad}:"]
        unit.call_host(eqn)
        unit.lines += [f"  br label %{go}", f"{go}:"]
        for x, out in zip(xs, eqn.outputs, strict=True):
            unit.copy(unit.pointer(out), x, out.spec.nbytes)


NATIVE["ensure"] = _Ensure()
NATIVE["cond"], NATIVE["scan"], NATIVE["while"], NATIVE["checkpoint"] = _Cond(), _Scan(), _While(), _Call()
