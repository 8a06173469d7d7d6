"""A graph as LLVM IR text: one function that calls its loop nests, matrix products and host calls in order.

Every graph, bodies of control flow included, becomes ``i32 name(ptr inputs, ptr outputs, ptr scratch)`` with arrays of
pointers to C-contiguous buffers; the outermost is `main`. It returns 0, or 1 after a host call raised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from ..dtypes import widened
from ..graph.graph import Const, Equation, Graph, Var
from ..kernels import vecmath
from . import math_calls
from .builder import number_loops
from .fuse import Fusion, Group, Step
from .kernel import PARALLEL, Kernel, Nest, Partial, identity_of
from .plan import Plan
from .row_blocks import RowBlocks, find_row_blocks
from .stopwatch import Stopwatch

__all__ = ["Again", "Module", "NATIVE", "Unit", "as_array", "has_entry"]

ATTRIBUTES = 'attributes #0 = { nounwind noinline "prefer-vector-width"="512" }'

NATIVE: dict[str, Any] = {}
"""Emitters of steps that are not loop nests, by primitive.

They are objects with ``accepts(eqn)``, ``scratch(unit, eqn)`` (further buffers and their bytes), ``emit(unit, eqn)``,
`updates`, the operand whose place the result may take, and `fails`, False if the step cannot raise."""


class Module:
    """State shared by all functions of a program."""

    def __init__(self, stopwatch: Stopwatch | None = None):
        self.stopwatch = stopwatch
        self.functions: list[str] = []
        self.declares: set[str] = set()
        self.symbols: set[str] = set()
        # Host calls by operation index: an Equation or a loop nest (Again) to run, or a tuple of the Equations whose
        # index may have been out of bounds.
        self.calls: list[Any] = []
        self.constants: list[Const] = []  # arrays that the program reads through a table
        self._constant_ids: dict[int, int] = {}
        self._bodies: dict[tuple[str, ...], str] = {}
        self.parallel = self.polls = False
        self.units: list[Unit] = []
        self.flops = self.bytes = 0.0

    def constant(self, atom: Const) -> int:
        k = self._constant_ids.get(id(atom.value))
        if k is None:
            k = self._constant_ids[id(atom.value)] = len(self.constants)
            self.constants.append(atom)
        return k

    def define(self, name: str, head: str, body: Sequence[str]) -> str:
        """Name of the internal function ``head(parameters) { body }``: `name`, or that of an equal one that there is
        already.

        `head` has "@" in the place of the name.
        """
        key = (head, *body)
        found = self._bodies.get(key)
        if found is None:
            found = self._bodies[key] = name
            self.functions += [f"define internal {head.replace('@', f'@{name}', 1)} {{", *body, "}"]
        return found

    def function(self, graph: Graph, name: str, in_place: dict[int, int] | None = None) -> Unit:
        """Emit `graph` as the function `name`; `in_place`: see `Plan`."""
        unit = Unit(self, graph, name, in_place or {})
        self.units.append(unit)
        unit.emit()
        return unit

    def text(self) -> str:
        called = {s for s in self.symbols if ".scalar." in s}
        bodies, declares = vecmath.definitions(sorted(self.symbols - called))
        more, further = math_calls.definitions(called)
        bodies, declares = bodies | more, declares | further
        lines = ["@tsk_constants = global ptr null"] if self.constants else []
        if any(has_entry(c) for c in self.calls):
            lines.append(f"@tsk_entries = global [{len(self.calls)} x ptr] zeroinitializer")
        if self.calls:
            lines += ["@tsk_context = external global ptr", "declare i32 @tsk_callback(ptr, i64, ptr)"]
        if self.polls:
            lines.append("declare i32 @tsk_poll()")
        if self.parallel:
            lines.append("declare void @tsk_parallel_for(ptr, ptr, i64)")
        if self.stopwatch is not None:
            lines += self.stopwatch.definitions()
        lines += sorted(self.declares | declares) + list(bodies.values()) + self.functions + [ATTRIBUTES]
        return number_loops("\n".join(lines) + "\n")


class Again(NamedTuple):
    """A host call that computes a loop nest by the implementations of its primitives."""

    graph: Graph


class Unit:
    """One function under construction."""

    def __init__(self, module: Module, graph: Graph, name: str, in_place: dict[int, int]):
        self.module, self.graph, self.name, self.in_place = module, graph, name, in_place
        self.kernels: list[Kernel] = []
        self.memo: dict[Any, Any] = {}  # what the emitter of a step keeps between `scratch` and `emit`
        self.bodies: dict[Equation, list[Unit]] = {}  # of control flow
        self.lines: list[str] = []
        self.head: list[str] = []
        self.count = 0
        self.pointers: dict[Any, str] = {}

    # -- pieces of text ------------------------------------------------------------------------------------------------

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"%{stem}{self.count}"

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def ins(self, text: str) -> str:
        name = self.fresh()
        self.lines.append(f"  {name} = {text}")
        return name

    def label(self, stem: str) -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def pointer(self, what: Any) -> str:
        """Pointer to the buffer of a value (or of what else has a place in the plan), made in the entry block."""
        if isinstance(what, Var):
            what = self.fusion.base(what)
        key = id(what.value) if type(what) is Const else what
        name = self.pointers.get(key)
        if name is None:
            name = self.pointers[key] = self.fresh("p")
            if type(what) is Const:
                table = self.fresh()
                k = self.module.constant(what)
                self.head += [
                    f"  {table} = load ptr, ptr @tsk_constants",
                    f"  {table}.q = getelementptr ptr, ptr {table}, i64 {k}",
                    f"  {name} = load ptr, ptr {table}.q",
                ]
            else:
                place = self.plan.places[what]
                if place.kind == "arena":
                    self.head.append(f"  {name} = getelementptr i8, ptr %scratch, i64 {place.at}")
                else:
                    self.head += [
                        f"  {name}.q = getelementptr ptr, ptr %{place.kind}s, i64 {place.at}",
                        f"  {name} = load ptr, ptr {name}.q",
                    ]
        return name

    def table(self, pointers: list[str], stem: str = "table", size: int = 0) -> str:
        """An array of pointers on the stack, the first of which are filled in."""
        name = self.fresh(stem)
        self.head.append(f"  {name} = alloca ptr, i64 {max(1, size, len(pointers))}")
        for k, p in enumerate(pointers):
            self.store_pointer(name, k, p)
        return name

    def store_pointer(self, table: str, k: int, pointer: str) -> None:
        at = table if k == 0 else self.ins(f"getelementptr ptr, ptr {table}, i64 {k}")
        self.line(f"store ptr {pointer}, ptr {at}")

    def offset(self, pointer: str, bytes_: int | str) -> str:
        return pointer if bytes_ == 0 else self.ins(f"getelementptr i8, ptr {pointer}, i64 {bytes_}")

    @contextmanager
    def loop(self, n: int | str, alternating: Sequence[tuple[str, str, str]] = ()):
        """Instructions inside run for the index 0 ... n - 1, n > 0.

        For each (start, first, other) of `alternating` the loop has a pair of pointers (now, then): `start` and `first`
        in the first round, then the last round's second and whichever of `first` and `other` that was not.
        Yields (index, pairs).
        """
        var = self.fresh("i")
        body, done, before = self.label("loop"), self.label("done"), self.label("before")
        self.lines += [f"  br label %{before}", f"{before}:", f"  br label %{body}", f"{body}:"]
        slot = len(self.lines)
        triples = [(self.fresh("c"), self.fresh("c"), self.fresh("c")) for _ in alternating]
        self.lines += [""] * (1 + 3 * len(triples))
        yield var, [t[:2] for t in triples]
        end = self.label("end")
        self.lines[slot] = f"  {var} = phi i64 [ 0, %{before} ], [ {var}.n, %{end} ]"
        for k, ((now, then, other), (start, first, second)) in enumerate(zip(triples, alternating, strict=True)):
            for j, (name, initial, later) in enumerate(
                ((now, start, then), (then, first, other), (other, second, then))
            ):
                self.lines[slot + 1 + 3 * k + j] = f"  {name} = phi ptr [ {initial}, %{before} ], [ {later}, %{end} ]"
        self.lines += [
            f"  br label %{end}",
            f"{end}:",
            f"  {var}.n = add nuw nsw i64 {var}, 1",
            f"  {var}.c = icmp eq i64 {var}.n, {n}",
            f"  br i1 {var}.c, label %{done}, label %{body}",
            f"{done}:",
        ]

    def return_if(self, condition: str) -> None:
        """End the function with 1 where the i1 `condition` holds."""
        fail, go = self.label("fail"), self.label("go")
        self.lines += [f"  br i1 {condition}, label %{fail}, label %{go}", f"{fail}:", "  ret i32 1", f"{go}:"]

    def copy(self, target: str, source: str, nbytes: int) -> None:
        if nbytes:
            self.module.declares.add("declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)")
            self.line(f"call void @llvm.memcpy.p0.p0.i64(ptr {target}, ptr {source}, i64 {nbytes}, i1 false)")

    # -- the whole -----------------------------------------------------------------------------------------------------

    def emit(self) -> None:
        graph = self.graph
        self.fusion = Fusion(graph, native_kind)
        self.steps = find_row_blocks(self.fusion)
        kernels: dict[Group, Kernel] = {}
        extra: dict[Any, dict[Any, int]] = {}
        for step in self.steps:
            if isinstance(step, (Group, RowBlocks)):
                row_blocks, groups = (step, step.groups) if isinstance(step, RowBlocks) else (None, [step])
                extra[step] = {}
                for group in groups:
                    kernel = kernels[group] = self._take(
                        Nest(self.fusion, group, f"{self.name}.k{len(kernels)}", row_blocks).emit()
                    )
                    group.again = kernel.again
                    extra[step] |= {p: p.size * p.root.var.spec.dtype.itemsize * kernel.chunks for p in kernel.partials}
            elif (emitter := NATIVE.get(step.eqn.primitive.name)) is not None and emitter.accepts(step.eqn):
                extra[step] = emitter.scratch(self, step.eqn)
        settled = self._settled(kernels) if self.name == "main" and self.in_place else 0
        self.plan = Plan(self.fusion, self.steps, extra, self.in_place, updated_operand, settled)
        watch = self.module.stopwatch
        if watch is not None:
            watch.read(self)
        for step in self.steps:
            if isinstance(step, Group):
                self._call_kernel(step, kernels[step])
            elif isinstance(step, RowBlocks):
                self._call_row_blocks(step, [kernels[g] for g in step.groups])
            elif (emitter := NATIVE.get(step.eqn.primitive.name)) is not None and emitter.accepts(step.eqn):
                emitter.emit(self, step.eqn)
            else:
                self.call_host(step.eqn)
            if watch is not None:
                watch.read(self, step)
        for k, o in self.plan.copies:
            target = self.ins(f"load ptr, ptr {self.ins(f'getelementptr ptr, ptr %outputs, i64 {k}')}")
            self.copy(target, self.pointer(as_array(o)), o.spec.nbytes)
        if watch is not None and self.plan.copies:
            watch.read(self, self.plan)
        linkage = "" if self.name == "main" else "internal "
        self.module.functions += [
            f"define {linkage}i32 @{self.name}(ptr %inputs, ptr %outputs, ptr %scratch) {{",
            "entry:",
            *self.head,
            "  br label %start",
            "start:",
            *self.lines,
            "  ret i32 0",
            "}",
        ]

    def _settled(self, kernels):
        """Number of the first step from which on nothing can raise: a call that raises leaves its arguments alone."""
        for t, step in reversed(list(enumerate(self.steps, 1))):
            if isinstance(step, Step):
                if getattr(NATIVE.get(step.eqn.primitive.name), "fails", True):
                    return t
            elif any(kernels[g].checks or g.again for g in getattr(step, "groups", [step])):
                return t
        return 0

    def _take(self, kernel):
        """The kernel, under the name of an equal one if there is one: long unrolled programs are the same nests again
        and again.
        """
        module = self.module
        kernel = kernel._replace(name=module.define(kernel.name, kernel.head, kernel.text))
        self.kernels.append(kernel)
        module.declares |= kernel.declares
        module.symbols |= kernel.symbols
        module.flops += kernel.flops
        module.bytes += kernel.bytes
        return kernel

    # -- loop nests ----------------------------------------------------------------------------------------------------

    def _call_kernel(self, group: Group, kernel: Kernel):
        if kernel.chunks == 1:
            arguments = ", ".join(
                [f"ptr {self.pointer(b)}" for b in kernel.buffers] + ["i64 0", f"i64 {kernel.extent}"]
            )
            failed = self.ins(f"call i64 @{kernel.name}({arguments})")
            self._settle([group], [kernel], [failed])
            return
        function, context, flag = self._chunk(kernel)
        self._run_chunks(function, context, kernel.chunks)
        self._finish([group], [kernel], [flag])

    def _call_row_blocks(self, row_blocks: RowBlocks, kernels: list[Kernel]):
        """Block by block, each nest after the other."""
        chunks = [self._chunk(k) for k in kernels]
        lines = []
        for k, (function, _, _) in enumerate(chunks):
            lines += [
                f"  %q{k} = getelementptr ptr, ptr %contexts, i64 {k}",
                f"  %c{k} = load ptr, ptr %q{k}",
                f"  call void @{function}(ptr %c{k}, i64 %chunk)",
            ]
        name = self.module.define(
            self.label(f"{self.name}.blocks"), "void @(ptr %contexts, i64 %chunk)", [*lines, "  ret void"]
        )
        table = self.table([context for _, context, _ in chunks])
        if sum(k.estimate for k in kernels) > PARALLEL:
            self._run_chunks(name, table, row_blocks.chunks)
        else:
            with self.loop(row_blocks.chunks) as (i, _):
                self.line(f"call void @{name}(ptr {table}, i64 {i})")
        self._finish(row_blocks.groups, kernels, [flag for _, _, flag in chunks])

    def _run_chunks(self, function, context, chunks):
        self.module.parallel = True
        self.line(f"call void @tsk_parallel_for(ptr @{function}, ptr {context}, i64 {chunks})")

    def _finish(self, groups, kernels, flags):
        """After all chunks: the sum of the partial results, and what went wrong."""
        for kernel in kernels:
            for partial in kernel.partials:
                self._combine(kernel, partial)
        self._settle(groups, kernels, [flag and self.ins(f"load i64, ptr {flag}") for flag in flags])

    def _settle(self, groups, kernels, failed):
        """Errors are raised; what met an argument too far for vector math is computed again by the host."""
        far = [f for kernel, f in zip(kernels, failed, strict=True) if kernel.again]
        again, near, settled = (self.label(stem) if far else "" for stem in ("again", "near", "settled"))
        if far:
            total = far[0]
            for f in far[1:]:
                total = self.ins(f"or i64 {total}, {f}")
            self.lines += [
                f"  br i1 {self.ins(f'icmp slt i64 {total}, 0')}, label %{again}, label %{near}",
                f"{again}:",
            ]
            for group in groups:
                graph = self._graph_of(group)
                self._callback(
                    self._operation(Again(graph)),
                    self.table([self.pointer(v) for v in (*graph.inputs, *graph.outputs)]),
                )
            self.lines += [f"  br label %{settled}", f"{near}:"]
        for kernel, f in zip(kernels, failed, strict=True):
            if kernel.checks:
                self.report(kernel.checks, f)
        if far:
            self.lines += [f"  br label %{settled}", f"{settled}:"]

    def _graph_of(self, group):
        """A nest as a graph from what it reads in memory to what it stores."""
        own = {r.var for r in group.roots}
        return Graph(
            [v for v in group.reads if v not in own],
            sorted(group.formulas, key=self._order.__getitem__),
            [r.var for r in group.roots],
            self.name,
        )

    @cached_property
    def _order(self):
        return {e: k for k, e in enumerate(self.graph.equations)}

    def _chunk(self, kernel):
        """Name of ``chunk(context, number)``, which runs one range of the outer loop; the context and where failures
        are noted.
        """
        pointers = [self.pointer(b) for b in kernel.buffers]
        flag = None
        if kernel.checks or kernel.again:
            flag = self.fresh("flag")
            self.head.append(f"  {flag} = alloca i64")
            self.line(f"store i64 0, ptr {flag}")
        lines = [
            f"  %lo = mul nsw i64 %chunk, {kernel.step}",
            f"  %end = add nsw i64 %lo, {kernel.step}",
            f"  %over = icmp sgt i64 %end, {kernel.extent}",
            f"  %hi = select i1 %over, i64 {kernel.extent}, i64 %end",
        ]
        names = []
        for k, what in enumerate(kernel.buffers):
            lines += [f"  %q{k} = getelementptr ptr, ptr %context, i64 {k}", f"  %p{k} = load ptr, ptr %q{k}"]
            if isinstance(what, Partial):
                nbytes = what.size * what.root.var.spec.dtype.itemsize
                lines += [
                    f"  %o{k} = mul nsw i64 %chunk, {nbytes}",
                    f"  %r{k} = getelementptr i8, ptr %p{k}, i64 %o{k}",
                ]
                names.append(f"ptr %r{k}")
            else:
                names.append(f"ptr %p{k}")
        lines.append(f"  %failed = call i64 @{kernel.name}({', '.join([*names, 'i64 %lo', 'i64 %hi'])})")
        if flag:
            lines += [
                f"  %fq = getelementptr ptr, ptr %context, i64 {len(pointers)}",
                "  %flag = load ptr, ptr %fq",
                "  %old = atomicrmw or ptr %flag, i64 %failed monotonic",
            ]
        name = self.module.define(
            self.label(f"{self.name}.chunk"), "void @(ptr %context, i64 %chunk)", [*lines, "  ret void"]
        )
        return name, self.table(pointers + ([flag] if flag else [])), flag

    def _combine(self, kernel, partial):
        """Sum the results of the chunks, in order."""
        root = partial.root
        op, spec = root.eqn.primitive.name, root.var.spec
        body = combine_body(op, spec.dtype, partial.size, kernel.chunks, self.module)
        name = self.module.define(
            self.label(f"{self.name}.sum"), "void @(ptr noalias %out, ptr noalias %partials) #0", body
        )
        self.line(f"call void @{name}(ptr {self.pointer(root.var)}, ptr {self.pointer(partial)})")

    # -- host calls ----------------------------------------------------------------------------------------------------

    def _operation(self, call) -> int:
        self.module.calls.append(call)
        return len(self.module.calls) - 1

    def call_host(self, eqn: Equation):
        k = self._operation(eqn)
        pointers = [self.pointer(a) for a in eqn.inputs if isinstance(a, Var)] + [self.pointer(o) for o in eqn.outputs]
        if not has_entry(eqn):
            self._callback(k, self.table(pointers))
            return
        # through the operator's own machine code once the process has it, and by Python where that fails
        arrays = [self.pointer(as_array(a)) for a in (*eqn.inputs, *eqn.outputs)]
        machine, python, done = self.label("machine"), self.label("python"), self.label("called")
        entry = self.ins(f"load atomic ptr, ptr {self.offset('@tsk_entries', 8 * k)} acquire, align 8")
        self.lines += [
            f"  br i1 {self.ins(f'icmp eq ptr {entry}, null')}, label %{python}, label %{machine}",
            f"{machine}:",
        ]
        failed = self.ins(f"call i32 {entry}(ptr {self.table(arrays)})")
        self.lines += [f"  br i1 {self.ins(f'icmp eq i32 {failed}, 0')}, label %{done}, label %{python}", f"{python}:"]
        self._callback(k, self.table(pointers))
        self.lines += [f"  br label %{done}", f"{done}:"]

    def _callback(self, k, table):
        context = self.ins("load ptr, ptr @tsk_context")
        failed = self.ins(f"call i32 @tsk_callback(ptr {context}, i64 {k}, ptr {table})")
        self.return_if(self.ins(f"icmp ne i32 {failed}, 0"))

    def report(self, eqns, failed):
        """Raise when an index was out of bounds: the host learns which equations met one."""
        bad, go = self.label("bad"), self.label("go")
        condition = self.ins(f"icmp ne i64 {failed}, 0")
        self.lines += [f"  br i1 {condition}, label %{bad}, label %{go}", f"{bad}:"]
        slot = self.fresh("mask")
        self.head.append(f"  {slot} = alloca i64")
        self.line(f"store i64 {failed}, ptr {slot}")
        self._callback(self._operation(tuple(eqns)), self.table([slot]))
        self.lines += [f"  br label %{go}", f"{go}:"]


def has_entry(call: Any) -> bool:
    """Return True if a host call may become native: ``primitive.native(in_specs, out_specs, **params)`` has
    its address.
    """
    return isinstance(call, Equation) and getattr(call.primitive, "native", None) is not None


def as_array(atom):
    """A constant as an array in its spec's dtype."""
    if type(atom) is Const and not (isinstance(atom.value, np.ndarray) and atom.value.dtype == atom.spec.dtype):
        return Const(np.array(atom.value, atom.spec.dtype))
    return atom


def updated_operand(step: Step) -> Any:
    """The operand whose place the step's result may take."""
    emitter = NATIVE.get(step.eqn.primitive.name)
    place = getattr(emitter, "updates", None)
    return None if emitter is None or place is None or not emitter.accepts(step.eqn) else step.eqn.inputs[place]


def native_kind(eqn: Equation) -> str:
    """Return how an equation that is not elementwise runs: "native" or "call"."""
    emitter = NATIVE.get(eqn.primitive.name)
    return "native" if emitter is not None and emitter.accepts(eqn) else "call"


def combine_body(op: str, dtype: np.dtype, size: int, chunks: int, module: Module) -> list[str]:
    """Emit ``void sum(ptr out, ptr partials)``: out[i] = the chunks' results for i, one after the other."""
    from .builder import Builder
    from .formulas import REDUCERS

    b = Builder()
    combine: Callable = getattr(b, REDUCERS[op])
    i = b.open(0, size, 0, size - 1)
    b.store("%out", i, b.const(identity_of(op, widened(dtype)), dtype), dtype)
    b.close()
    c = b.open(0, chunks, 0, chunks - 1)
    i = b.open(0, size, 0, size - 1)
    x = b.load("%out", dtype, i, movable=False)
    y = b.load("%partials", dtype, b.add(b.mul(c, b.index(size)), i))
    b.store("%out", i, combine(x, y), dtype)
    b.close()
    b.close()
    module.declares |= b.declares
    return ["entry:", *b.render(), "  ret void"]
