"""Programs on disk: a graph seen before needs no planning again, only its object and the functions to call besides it.

The key is a hash of the traced graph, exact: structure, shapes and dtypes, parameters, constants by content, and the
sources that turn graphs into programs. Variables count by place, source lines by which equations share them, so that
moving a function within its file changes nothing. What has no exact form (a parameter that is a function, a primitive
with rules from elsewhere) is not stored.
"""

from __future__ import annotations

import hashlib
import io
import logging
import pickle
import sys
import types
from typing import Any, NamedTuple

import numpy as np

from ..disk import disk_cache
from ..dtypes import kind_of, spelled
from ..graph.graph import Const, Graph, Source, Spec, Var
from ..graph.primitive import PRIMITIVES, Primitive
from ..kernels import native

__all__ = ["Record", "load", "save", "key_of"]

_log = logging.getLogger(__name__)
_PLAIN = frozenset([bool, int, float, complex, str, bytes, type(None), type(...)])


class NotStorable(Exception):
    """An object without an exact form."""


class Record(NamedTuple):
    """A program without its graph and text."""

    object_key: str  # of the object in the cache
    exports: frozenset[str]
    imports: frozenset[str]
    scratch: int  # bytes
    calls: list[Any]  # like `constants`, see `emit.Module`
    constants: list[Const]
    release_gil: bool
    donors: dict[int, int]  # by output: the input that it overwrites


class GraphKey:
    """A traced graph as a key, and its parts that are not stored but taken from the graph of the process that loads.

    The constructor raises NotStorable for a graph that has no exact form.
    """

    def __init__(self, graph: Graph, in_place: dict[int, int], contract: bool):
        self.primitives: dict[str, Primitive] = {}
        self.sources: dict[Source | None, int] = {}
        self.arrays: list[np.ndarray] = []
        self._array_codes: dict[int, Any] = {}
        self._specs: dict[Spec, int] = {}
        self._new_specs: list[Any] = []
        code = self._graph(graph)
        parts = (
            "program",
            repr((self._new_specs, code, in_place, contract)),
            np.__version__,
            sys.implementation.cache_tag,
            disk_cache.source_stamp("graph", "transforms", "random"),
        )
        self.keys = [disk_cache.make_key(*parts, *target) for target in native.targets()]

    def _graph(self, graph: Graph) -> Any:
        numbers: dict[Var, int] = {}
        for v in graph.inputs:
            numbers[v] = len(numbers)
        lines: list[list[Any]] = [[self._spec(v.spec) for v in graph.inputs]]
        for e in graph.equations:
            inputs = [numbers[a] if type(a) is Var else self._const(a) for a in e.inputs]  # graphs are closed
            for o in e.outputs:
                numbers[o] = len(numbers)
            p = e.primitive
            # a call is written out: what else it carries is for derivatives
            params = self._graph(e.params["graph"]) if p.kind == "call" else self._value(e.params) if e.params else None
            source = self.sources.setdefault(e.source, len(self.sources))
            lines.append([self._primitive(p), inputs, params, [self._spec(o.spec) for o in e.outputs], source])
        lines.append([numbers[o] if type(o) is Var else self._const(o) for o in graph.outputs])
        return lines

    def _spec(self, spec: Spec) -> int:
        found = self._specs.get(spec)
        if found is None:
            if kind_of(spec.dtype) not in "biufc":
                raise NotStorable(f"dtype {spec.dtype}")
            found = self._specs[spec] = len(self._specs)
            self._new_specs.append((spec.shape, spelled(spec.dtype), spec.weak))
        return found

    def _const(self, atom: Const) -> Any:
        return ("c", self._spec(atom.spec), self._value(atom.value))

    def _primitive(self, p: Primitive) -> str:
        if p.name not in self.primitives:
            by_name = p.kind == "opaque" and p.emit is None and p.pull is None  # called by that name, whatever it does
            if not by_name and not all(map(_is_ours, (p.impl, p.emit, p.pull, p.loop))):
                raise NotStorable(f"primitive {p.name}")
            self.primitives[p.name] = p
        if self.primitives[p.name] is not p:
            raise NotStorable(f"two primitives called {p.name}")
        return p.name

    def _array(self, x: np.ndarray) -> Any:
        found = self._array_codes.get(id(x))
        if found is None:
            if kind_of(x.dtype) not in "biufc":
                raise NotStorable(f"dtype {x.dtype}")
            stretched = tuple([s == 0 for s in x.strides])
            held = x[tuple([slice(0, 1) if s else slice(None) for s in stretched])] if any(stretched) else x
            digest = hashlib.blake2b(np.ascontiguousarray(held).reshape(-1).view(np.uint8), digest_size=20).hexdigest()
            found = self._array_codes[id(x)] = ("a", len(self.arrays), x.shape, spelled(x.dtype), stretched, digest)
            self.arrays.append(x)
        return found

    def _value(self, x: Any) -> Any:
        t = type(x)
        if t in _PLAIN:
            return x
        if t is tuple or t is list:
            return (t.__name__, [v if type(v) in _PLAIN else self._value(v) for v in x])
        if t is dict:
            if not all([type(k) is str for k in x]):
                raise NotStorable("a dictionary with keys other than names")
            return ("dict", [(k, self._value(v)) for k, v in sorted(x.items())])
        if t is np.ndarray:
            return self._array(x)
        if isinstance(x, np.generic):
            if kind_of(x.dtype) not in "biufc":
                raise NotStorable(f"dtype {x.dtype}")
            return ("g", spelled(x.dtype), x.tobytes())
        if isinstance(x, np.dtype):
            if kind_of(x) not in "biufc":
                raise NotStorable(f"dtype {x}")
            return ("d", spelled(x))
        if t is slice:
            return ("slice", self._value((x.start, x.stop, x.step)))
        if t is Graph:
            return self._graph(x)
        if isinstance(x, tuple) and t.__module__.startswith("triskele.core."):
            return (t.__module__, t.__qualname__, [self._value(v) for v in x])
        if isinstance(x, type) and issubclass(x, np.generic):
            return ("t", spelled(np.dtype(x)))
        raise NotStorable(f"parameter of type {t.__name__}")


def _is_ours(f: Any) -> bool:
    """Return True if the behavior of `f` is fixed by the sources of the core, NumPy's version and its name."""
    if isinstance(f, (types.FunctionType, types.MethodType)):
        return (f.__module__ or "").startswith("triskele.core.")
    return (
        f is None
        or isinstance(f, (str, np.ufunc, types.BuiltinFunctionType))
        or (getattr(f, "__module__", None) or "").startswith("numpy")
    )


class _Pickler(pickle.Pickler):
    def __init__(self, file, key):
        super().__init__(file, protocol=5)
        self._sources = key.sources
        self._arrays = {id(x): k for k, x in enumerate(key.arrays)}

    def persistent_id(self, obj):
        if type(obj) is Source:
            return ("source", self._sources[obj])
        if type(obj) is Primitive:
            return ("primitive", obj.name)
        if type(obj) is np.ndarray and id(obj) in self._arrays:
            return ("array", self._arrays[id(obj)])
        return None


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, key):
        super().__init__(file)
        self._key, self._sources = key, list(key.sources)

    def persistent_load(self, pid):
        what, which = pid
        if what == "source":
            return self._sources[which]
        if what == "primitive":
            return self._key.primitives.get(which) or PRIMITIVES[which]
        return self._key.arrays[which]


def key_of(graph: Graph, in_place: dict[int, int] | None = None, contract: bool = True) -> GraphKey | None:
    """The key of `graph` whose outputs may overwrite the inputs `in_place`; None if it has none."""
    try:
        return GraphKey(graph, in_place or {}, contract)
    except NotStorable as reason:
        _log.debug("%s is not stored: %s", graph.name, reason)
        return None


def load(key: GraphKey | None) -> Record | None:
    """Return the stored program of a graph, or None if there is none."""
    data = next(filter(None, map(disk_cache.get, key.keys)), None) if key is not None else None
    return None if data is None else _Unpickler(io.BytesIO(data), key).load()


def save(key: GraphKey | None, record: Record) -> None:
    """Store a program under the key of its graph. Programs that cannot be pickled are left out."""
    if key is None:
        return
    file = io.BytesIO()
    try:
        _Pickler(file, key).dump(record)
    # a host call with a parameter of its own making
    except (pickle.PicklingError, AttributeError, TypeError, KeyError) as reason:
        _log.debug("not stored: %s", reason)
        return
    disk_cache.put(key.keys[0], file.getvalue())
