"""A graph as a function in this process: simplified, emitted, compiled or taken from the disk cache, and callable."""

from __future__ import annotations

import ctypes
import itertools
import logging
import sys
import time
from collections.abc import Collection
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..errors import IndexOutOfBoundsError
from ..graph.graph import Const, Equation, Graph, Var
from ..graph.simplify import scalar, simplify
from ..graph.trace import describe, evaluate, no_transforms
from ..imports.discover import modules
from ..kernels import blas, lapack, native, threads
from . import engine, loops, program_cache, wrapper  # noqa: F401  (loops registers itself)
from .emit import Again, Module, has_entry
from .lower import lower
from .stopwatch import Stopwatch

__all__ = ["Program"]

_log = logging.getLogger(__name__)
modules(f"{__package__}.primitives")  # they register themselves

# calls through Python, some 20 us each, before an operator's own machine code is made, which takes 1 s
NATIVE_AFTER = 2000
RELEASE = 1e4  # operations from which on other Python threads may run meanwhile


class Program:
    """A compiled graph: ``caller(*flat)`` runs it, and `traced` is the graph as it was given."""

    def __init__(
        self, graph: Graph, stopwatch: Stopwatch | None = None, donated: Collection[int] = (), contract: bool = True
    ):
        """With a stopwatch the program times its steps, and neither comes from the disk cache nor goes there.
        Results may take the memory of the inputs `donated`. Without `contract`, products and sums round separately.
        """
        start = time.perf_counter()
        self._contract = contract
        self.traced, self.stopwatch, self._in_place = graph, stopwatch, _paired(graph, donated)
        self.seconds: dict[str, float] = {}  # compile time by stage
        key = None if stopwatch is not None else program_cache.key_of(graph, self._in_place, contract)
        record = None if key is None else program_cache.load(key)
        module = None
        if record is not None:
            module = engine.load_module(record.object_key, native.Symbols(record.exports, record.imports), _Symbols())
            self.seconds["plan from disk"] = time.perf_counter() - start
        if record is None or module is None:
            emitted = self.emitted
            module = engine.compile_module(emitted.text, symbols=_Symbols())
            ir = emitted.module
            release = any(isinstance(c, Equation) for c in ir.calls) or ir.flops > RELEASE or ir.parallel
            record = program_cache.Record(
                module.key, *module.names, emitted.scratch, ir.calls, ir.constants, release, emitted.donors
            )
            if key is not None:
                program_cache.save(key, record)
        # scratch: bytes of the arena; donors: the argument whose memory a result takes, by result
        self.module, self.scratch, self.donors = module, record.scratch, record.donors
        self.seconds.update({f"llvm {k}": v for k, v in module.seconds.items()})
        self._connect(record)
        self.seconds["total"] = time.perf_counter() - start

    @cached_property
    def emitted(self) -> Emitted:
        """Graph and text behind the program, made again if it came from the disk."""
        start = time.perf_counter()
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(max(limit, 20_000))  # formulas are trees
        try:
            graph = lower(simplify(self.traced))
            middle = time.perf_counter()
            module = Module(self.stopwatch)
            main = module.function(graph, "main", self._in_place)
            text = module.text() if self._contract else module.text().replace(" contract ", " ")
        finally:
            sys.setrecursionlimit(limit)
        self.seconds.update({"simplify": middle - start, "emit": time.perf_counter() - middle})
        return Emitted(graph, module, text, main.plan.size, {k: self._in_place[k] for k in main.plan.overwritten})

    def _connect(self, record):
        module = self.module
        if record.constants:
            self._arrays = [np.ascontiguousarray(np.array(c.value, c.spec.dtype)) for c in record.constants]
            self._table = (ctypes.c_void_p * len(self._arrays))(*[a.ctypes.data for a in self._arrays])
            ctypes.c_void_p.from_address(module.address("tsk_constants")).value = ctypes.addressof(self._table)
        for k, call in enumerate(record.calls):
            if isinstance(call, Equation):
                inputs = [engine.ArraySpec(a.spec.shape, a.spec.dtype) for a in call.inputs if isinstance(a, Var)]
                outputs = [engine.ArraySpec(o.spec.shape, o.spec.dtype) for o in call.outputs]
                run = host_call(call)
                if has_entry(call):
                    run = _until_native(run, call, ctypes.c_void_p.from_address(module.address("tsk_entries") + 8 * k))
                module.register_callback(k, run, inputs, outputs)
            elif isinstance(call, Again):
                inputs, outputs = (
                    [engine.ArraySpec(v.spec.shape, v.spec.dtype) for v in vs]
                    for vs in (call.graph.inputs, call.graph.outputs)
                )
                module.register_callback(k, _computed_again(call.graph), inputs, outputs)
            else:
                module.register_callback(k, _out_of_bounds(call), [engine.ArraySpec((1,), np.dtype(np.int64))], [])
        given = set(self.donors.values())
        accepted = [
            wrapper.InputSpec(
                s.shape, s.dtype, "python scalar" if s.weak else "ndarray" if s.shape else "numpy scalar", k in given
            )
            for k, s in enumerate(self.traced.in_specs)
        ]
        returned = [
            wrapper.OutputSpec(s.shape, s.dtype, self.donors.get(k)) for k, s in enumerate(self.traced.out_specs)
        ]
        self.caller = wrapper.make_caller(module, accepted, returned, self.scratch, release_gil=record.release_gil)


class Emitted(NamedTuple):
    """A graph as it is carried out, and its code."""

    graph: Graph
    module: Module
    text: str
    scratch: int
    donors: dict[int, int]


def _paired(graph: Graph, donated: Collection[int]) -> dict[int, int]:
    """{result: donated argument of its shape and dtype}: results that are arguments first, the others in order."""
    free, pairs = sorted(donated), {}
    for same in (lambda i, o: graph.inputs[i] is o, lambda i, o: graph.inputs[i].spec[:2] == o.spec[:2]):
        for k, o in enumerate(graph.outputs):
            found = next((i for i in free if same(i, o)), None) if k not in pairs else None
            if found is not None:
                free.remove(found)
                pairs[k] = found
    return pairs


class _Symbols(dict):
    """Addresses of what programs call outside themselves."""

    def get(self, name, default=None):
        if name == "tsk_parallel_for":
            return threads.address()
        if name.startswith(lapack.PREFIX):
            return lapack.address(name)
        if name.startswith(blas.PREFIXES):
            return blas.address(name)
        return default


def host_call(eqn: Equation):
    """The function behind a host call: the primitive's implementation on views of the buffers."""
    p, params, specs = eqn.primitive, eqn.params, [a.spec for a in eqn.inputs]
    fixed = [scalar(a) if type(a) is Const else None for a in eqn.inputs]
    given = [k for k, a in enumerate(eqn.inputs) if isinstance(a, Var)]
    out_specs = [o.spec for o in eqn.outputs]

    def run(*views):
        args = list(fixed)
        for k, view in zip(given, views, strict=True):
            args[k] = view if specs[k].shape else view.item() if specs[k].weak else view[()]
        try:
            with np.errstate(all="ignore"), no_transforms():
                out = p.impl(*args, **params)
        except Exception as error:
            error.add_note(f"in {p.name}({describe(args)}), at {eqn.source}")
            raise
        outs = out if p.multiple else (out,)
        return tuple([np.asarray(o, s.dtype) for o, s in zip(outs, out_specs, strict=True)])

    run.__name__ = p.name
    return run


def _until_native(run, eqn, slot):
    """`run`, which after `NATIVE_AFTER` calls has machine code made that the program calls in its place from then
    on.
    """
    calls = itertools.count(1)
    kept = []  # the code lives as long as the program

    def counted(*views):
        if next(calls) == NATIVE_AFTER:
            try:
                entry = eqn.primitive.native([a.spec for a in eqn.inputs], [o.spec for o in eqn.outputs], **eqn.params)
            except Exception as reason:  # noqa: BLE001  what Python can run need not compile
                _log.info("%s stays a call of Python: %s", eqn.primitive.name, reason)
                entry = None
            if entry is not None:
                kept.append(entry)
                slot.value = entry.address
        return run(*views)

    counted.__name__ = run.__name__
    return counted


def _computed_again(graph):
    """A loop nest that met arguments its vector math does not take, by NumPy."""
    specs, out_specs = graph.in_specs, graph.out_specs

    def run(*views):
        args = [v if s.shape else v.item() if s.weak else v[()] for v, s in zip(views, specs, strict=True)]
        with np.errstate(all="ignore"), no_transforms():
            outs = evaluate(graph, *args)
        return tuple([np.asarray(o, s.dtype) for o, s in zip(outs, out_specs, strict=True)])

    return run


def _out_of_bounds(eqns):
    def run(mask):
        bits = int(mask[0])
        bad = [e for k, e in enumerate(eqns) if bits >> min(k, 62) & 1]
        for e in bad:
            if e.primitive.name == "power":
                raise ValueError(f"Integers to negative integer powers are not allowed. (at {e.source})")
            if e.source is not None and e.source.indices:
                raise IndexOutOfBoundsError(f"{e.source.indices} (at {e.source})")
        what = "; ".join(f"for an array of shape {e.inputs[0].spec.shape} at {e.source}" for e in bad)
        raise IndexOutOfBoundsError(f"an index is out of bounds {what}")

    return run
