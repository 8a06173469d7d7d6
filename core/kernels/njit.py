"""The one door to `numba.njit`: `kernel`, `device` and `template`.

A *device* function is a formula, a *template* a loop over formulas that is always inlined, a *kernel* takes arrays and
is cached on disk. All are lazy: decorating costs nothing, and Numba is imported when a function is first called, or
first met inside another compiled function.

Numba's own cache checks only the file that a kernel stands in, so it returns stale code when a function that the
kernel calls is edited elsewhere. Ours is `core.store`; a key has a hash of all sources of the suite that the kernel's
file imports, directly or through others.

Examples
--------
>>> from triskele.core.kernels.njit import device, kernel
>>> @device
... def square(x):
...     return x * x
>>> @kernel(cache=False)  # a notebook has no file to cache by
... def sum_of_squares(x):
...     total = 0.0
...     for i in range(x.size):
...         total += square(x[i])
...     return total
>>> import numpy as np
>>> sum_of_squares(np.arange(4.0))
14.0
"""

from __future__ import annotations

import ast
import contextlib
import functools
import gc
import hashlib
import os
import pickle
import re
import sys
import warnings
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import CodeType
from typing import Any

from ..disk import disk_cache
from . import native
from .ahead import compiled_ahead
from .linked import linked_compiler
from .native import checked
from .notice import compiling
from .resolution import remembered

__all__ = ["FASTMATH", "Compiled", "device", "kernel", "template"]

# Without "nnan" and "ninf", because a NaN has to stay visible, and without "reassoc", which undoes compensated sums.
FASTMATH = frozenset({"contract", "arcp", "nsz", "afn"})


@cache
def source_stamp(path: str) -> bytes:
    """Hash of the source file at `path`, and of every file of the suite or of its own package that it imports, directly
    or not.

    Examples
    --------
    >>> import json
    >>> from triskele.core.extend import source_stamp
    >>> source_stamp(json.__file__) == source_stamp(json.__file__)
    True
    """
    found, waiting = set(), {Path(path)}
    while waiting:
        found |= waiting
        waiting = set().union(*(_source(p)[1] for p in waiting)) - found
    return hashlib.sha256(b"".join(sorted(_source(p)[0] for p in found))).digest()


_IMPORT = re.compile(r"^\s*(?:from\s+(\.*)([\w.]*)\s+import\s+(\([^)]*\)|.*)|import triskele([\w.]*))", re.MULTILINE)
_NAME = re.compile(r"(\w+)(?:\s+as\s+\w+)?\s*(?=,|\)|#|$)", re.MULTILINE)
_TYPES_ONLY = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+", re.MULTILINE)
_SUITE = Path(__file__).parents[2]  # .../triskele


@cache
def _source(path: Path) -> tuple[bytes, frozenset[Path]]:
    """Hash of a file, and the files that it imports from the suite or from its own package (inside functions too)."""
    found, text = set(), path.read_text()
    if path.is_relative_to(_SUITE):
        text = disk_cache.code_of(text)
    digest = hashlib.sha256(f"{path.name}\0{text}".encode())
    for dots, home, names, module in _IMPORT.findall(_TYPES_ONLY.sub("", text)):
        place = _place(path, dots, f"triskele{module}" if module else home)
        for name in (_NAME.findall(names) or ["*"]) if place is not None else ():
            files, origin = _homes(place, name)
            found |= files
            digest.update(origin.encode())
    return digest.digest(), frozenset(p for p in found if p.exists())


def _place(path: Path, dots: str, home: str) -> Path | None:
    """The folder, or the file without its suffix, that an import statement in `path` names; None if it is somebody
    else's.
    """
    parts = home.split(".") if home else []
    if dots:
        return path.parents[len(dots) - 1].joinpath(*parts)
    return _SUITE.joinpath(*parts[1:]) if parts[:1] == ["triskele"] else None


def _homes(place: Path, name: str) -> tuple[set[Path], str]:
    """The files that `name`, imported from `place`, may come from, and the place and name of its definition where
    known.
    """
    inner, file = place / name, place.with_suffix(".py")
    if place.is_dir():
        if inner.with_suffix(".py").exists():
            return {inner.with_suffix(".py")}, ""
        if inner.is_dir():
            return _package(inner), ""
        file = place / "__init__.py"
    if name in (bound := _face(file)):
        return _homes(*bound[name])
    return _package(place) if place.is_dir() else {file}, f"{place.name}.{name}"


def _package(place: Path) -> set[Path]:
    """Return the files that may define a name that is not a module: all files of a package of the suite."""
    return set(place.rglob("*.py")) if place.is_relative_to(_SUITE) else {place / "__init__.py"}


@cache
def _face(path: Path) -> dict[str, tuple[Path, str]]:
    """Return the home of each name that `path`, or the stub next to it, only re-exports; empty if the file does more.

    A kernel that takes `simd` from `core.extend` depends on `simd`, not on the whole core.
    """
    stub = path.with_suffix(".pyi")
    source = stub if stub.exists() else path
    text = source.read_text() if source.exists() else "def"
    if _DOES_MORE.search(text):
        return {}
    bound = {}
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            place = _place(path, "." * node.level, node.module or "")
            if node.names[0].name == "*":
                return {}
            bound.update({a.asname or a.name: (place, a.name) for a in node.names if place is not None})
        elif not isinstance(node, ast.Expr) and "__all__" not in ast.unparse(node):
            return {}
    return bound


_DOES_MORE = re.compile(r"^(?:def|class|async|if|for|while|with|try|@)", re.MULTILINE)  # spares parsing most files


def _content(docstring: str | None, code: CodeType) -> str:
    """All of a function but its docstring and its place, since a file may define two functions of one name."""
    return repr(
        (
            code.co_code,
            code.co_names,
            [
                _content(None, c) if isinstance(c, CodeType) else c
                for c in code.co_consts
                if c is None or c != docstring
            ],
        )
    )


@cache
def _cache_class() -> type:
    """A Numba function cache in our store, in which a failing disk only costs time."""
    import numba
    from numba.core.caching import NullCache
    from numba.core.compiler import CompileResult
    from numba.core.errors import NumbaWarning
    from numba.core.serialize import dumps

    class Entries(NullCache):
        """The entries of one function: a key is a hash of all that the machine code depends on."""

        def __init__(self, function):
            self.function, code = function, function.__code__
            # what a file of the suite, or one generated by it, imports is in its stamp wherever the file lies
            ours = any(map(Path(code.co_filename).is_relative_to, (_SUITE, disk_cache.folder())))
            closure = [cell.cell_contents for cell in function.__closure__ or ()]
            self._parts = [
                "kernel",
                source_stamp(code.co_filename),
                "" if ours else code.co_filename,
                function.__module__,
                function.__qualname__,
                _content(function.__doc__, code),
                dumps(closure) if closure else b"",
                numba.__version__,
                sys.implementation.cache_tag,
            ]

        def _keys(self, sig, context):
            """The key for this processor, then those of lower ones that shipped code may have been compiled for."""
            triple, *host = context.codegen().magic_tuple()
            own, *lower = native.targets()
            return [
                disk_cache.make_key(*self._parts, str(sig), triple, *cpu, *target)
                for cpu, target in [(host, own), *((t[1:3], t) for t in lower)]
            ]

        def load_overload(self, sig, target_context):
            target_context.refresh()
            result = self._load(sig, target_context)
            if result is None and compiled_ahead(self.function, sig):
                result = self._load(sig, target_context)
            return result

        def _load(self, sig, target_context):
            for key in self._keys(sig, target_context):
                data = disk_cache.get(key)
                if data is None:
                    continue
                with contextlib.suppress(Exception):  # made by another build: compile instead
                    kept, result = pickle.loads(data)
                    if kept == sig:  # types may share a name
                        return CompileResult._rebuild(target_context, *result)
            return None

        def save_overload(self, sig, data):
            if data.library.has_dynamic_globals or any(not loop.can_cache for loop in data.lifted):
                code = self.function.__code__
                text = f"{self.function.__qualname__}: compiled again in each process, for it contains an address"
                warnings.warn_explicit(text, NumbaWarning, code.co_filename, code.co_firstlineno)
                return
            disk_cache.put(self._keys(sig, data.target_context)[0], dumps((sig, data._reduce())))

    return Entries


@cache
def _function_type() -> type:
    """The Numba type of our functions: a dispatcher that is passed to other functions as a null pointer.

    Numba embeds the address of a dispatcher that is passed as a value, which only code that boxes the value would read.
    Whether LLVM removes the embedded address depends on what it inlines, and that on the processor. A kernel that keeps
    one cannot be cached.
    """
    from numba import types
    from numba.core.datamodel import models, register_default
    from numba.core.imputils import lower_constant

    class Function(types.Dispatcher):
        pass

    register_default(Function)(models.OpaqueModel)

    @lower_constant(Function)
    def null(context, builder, typ, value):
        return context.get_constant_null(typ)

    return Function


@cache
def _attend() -> None:
    """While Numba compiles, tell who waits, remember resolved operations, and let Python's collector run seldom: it
    finds little, and takes a fifteenth of the time.
    """
    from numba.core import event

    class Attendant(event.Listener):
        depth, usual = 0, (0, 0, 0)  # one thread compiles at a time
        ours = contextlib.ExitStack()

        def on_start(self, event):
            if self.depth == 0:
                function = event.data["dispatcher"].py_func
                if event.data["dispatcher"] in _OURS:
                    self.ours.enter_context(compiling(f"{function.__module__}.{function.__qualname__}"))
                    self.ours.enter_context(remembered())
                self.usual = gc.get_threshold()
                if self.usual[0]:  # 0: it is off
                    gc.set_threshold(100_000, *self.usual[1:])
            self.depth += 1

        def on_end(self, event):
            self.depth -= 1
            if self.depth == 0:
                gc.set_threshold(*self.usual)
                self.ours.close()

    event.register("numba:compile", Attendant())


_OURS: weakref.WeakSet = weakref.WeakSet()  # dispatchers: others of Numba's may be compiled in this process too


class Compiled:
    """A function that Numba compiles when it is first needed. Attributes are those of Numba's dispatcher.

    Parameters
    ----------
    function : callable
    cached : bool
        True to keep the machine code on disk.
    linked : bool
        True for a function that is linked into its callers.
    options : dict
        Options of `numba.njit`.

    Examples
    --------
    >>> from triskele.core.extend import Compiled, kernel
    >>> @kernel(cache=False)
    ... def twice(x):
    ...     return 2 * x
    >>> isinstance(twice, Compiled)
    True
    """

    def __init__(self, function: Callable, cached: bool, linked: bool, options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.py_func = function
        self._cached, self._linked, self.options = cached, linked, options

    def _new(self, **options):
        import numba

        _attend()
        options |= self.options | ({"boundscheck": True} if checked() else {})
        dispatcher = numba.njit(error_model="numpy", fastmath=set(FASTMATH), **options)(self.py_func)
        _OURS.add(dispatcher)
        return dispatcher

    @functools.cached_property
    def dispatcher(self):
        """Numba's dispatcher."""
        dispatcher = self._new()
        # what has no file has no stamp: only the interpreter knows its source
        if self._cached and os.path.isfile(self.py_func.__code__.co_filename):
            dispatcher._cache = _cache_class()(self.py_func)
        return dispatcher

    @functools.cached_property
    def _callee(self):
        """The dispatcher that compiled callers use."""
        if not self._linked:
            return self.dispatcher
        return self._new(pipeline_class=linked_compiler(), no_cpython_wrapper=True, no_cfunc_wrapper=True)

    def __call__(self, *args):
        return self.dispatcher(*args)

    @property
    def _numba_type_(self):
        # Numba asks any object for its type this way: inside compiled code we stand for the dispatcher.
        return _function_type()(self._callee)

    def __getattr__(self, name):
        # else an error in making a dispatcher would recurse
        if name.startswith("__") or name in ("dispatcher", "_callee"):
            raise AttributeError(name)
        return getattr(self.dispatcher, name)

    def __repr__(self):
        return f"<compiled {self.__module__}.{self.__qualname__}>"


def kernel(function: Callable | None = None, *, cache: bool = True, **options) -> Any:
    """Compile a function of arrays and scalars, cached on disk.

    Parameters
    ----------
    function : callable
        At module level, closing over nothing but module-level names: Numba finds nothing else in its cache again.
    cache : bool
        False for a function defined in a notebook or interpreter.
    **options
        Passed to `numba.njit`: `nogil`, `parallel`, `boundscheck`, `locals`.

    Returns
    -------
    Compiled
        Callable from Python and from other compiled functions.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.extend import kernel
    >>> @kernel(cache=False)  # a notebook has no file to cache by
    ... def largest(x):
    ...     best = x[0]
    ...     for i in range(x.size):
    ...         best = max(best, x[i])
    ...     return best
    >>> largest(np.array([1.0, 3.0, 2.0]))
    3.0
    """
    if function is None:
        return functools.partial(kernel, cache=cache, **options)
    return Compiled(function, cache, False, options)


def device(function: Callable | None = None, **options) -> Any:
    """Compile a function for compiled callers, with which it is optimized. Parameters as for `kernel`.

    Examples
    --------
    >>> from triskele.core.extend import device, kernel
    >>> @device
    ... def square(x):
    ...     return x * x
    >>> @kernel(cache=False)
    ... def norm(x, y):
    ...     return (square(x) + square(y)) ** 0.5
    >>> norm(3.0, 4.0)
    5.0
    """
    if function is None:
        return functools.partial(device, **options)
    return Compiled(function, False, True, options)


def template(function: Callable | None = None, **options) -> Any:
    """Compile a loop over device functions given as arguments; inlined, so that kernels made of it can be cached.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.extend import device, kernel, template
    >>> @template
    ... def total(f, x):
    ...     s = 0.0
    ...     for i in range(x.size):
    ...         s += f(x[i])
    ...     return s
    >>> @device
    ... def square(x):
    ...     return x * x
    >>> @kernel(cache=False)
    ... def sum_of_squares(x):
    ...     return total(square, x)
    >>> sum_of_squares(np.array([1.0, 2.0]))
    5.0
    """
    return device(function, forceinline=True, **options)
