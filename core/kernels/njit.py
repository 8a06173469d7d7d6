"""The one door to `numba.njit`: `kernel`, `device` and `template`.

A *device* function is a formula, a *template* a loop over formulas that is always inlined, a *kernel* takes arrays and
is cached on disk. All are lazy: decorating costs nothing, and Numba is imported when a function is first called, or
first met inside another compiled function.

Numba's own cache checks only the file that a kernel stands in, so it returns stale code when a function that the
kernel calls is edited elsewhere. Ours is stamped with a hash of all sources of the suite that the file imports,
directly or through others.

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
import io
import logging
import os
import pickle
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from ..files import only_ours
from .linked import linked_compiler
from .native import checked

__all__ = ["FASTMATH", "Compiled", "device", "kernel", "template"]

# Without "nnan" and "ninf", because a NaN has to stay visible, and without "reassoc", which undoes compensated sums.
FASTMATH = frozenset({"contract", "arcp", "nsz", "afn"})


@cache
def source_stamp(path: str) -> bytes:
    """Hash of the source file at `path`, and of every file of the suite or of its own package that it imports, directly
    or not.
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


_DIGEST = 16
_log = logging.getLogger(__name__)


def _digest(path, content):
    return hashlib.blake2b(content, digest_size=_DIGEST,
                           key=hashlib.blake2b(os.path.basename(path).encode(), digest_size=16).digest()).digest()


@cache
def _warn(place):
    _log.warning("compiled code in %s is not used: it belongs to another user, or others may write there", place)


def _owner(path):
    """Return the owner of a source file, who can run code anyway."""
    try:
        return os.stat(path).st_uid
    except OSError:
        return os.geteuid() if hasattr(os, "geteuid") else 0


@cache
def _cache_class() -> type:
    """A Numba function cache with our stamp, in which a failing disk only costs time.

    Files begin with a digest of their name and content, and nothing is unpickled that has another one, that lies in a
    folder in which others may write, or that belongs to somebody other than this user, root and the owner of the
    source.
    """
    from numba.core.caching import FunctionCache, IndexDataCacheFile

    class File(IndexDataCacheFile):
        owner: int  # of the source

        def _content(self, path):
            with open(path, "rb") as file:
                if not only_ours(os.stat(self._cache_path),
                                 self.owner) or not only_ours(os.fstat(file.fileno()), self.owner):
                    _warn(self._cache_path)
                    raise PermissionError(path)
                digest, content = file.read(_DIGEST), file.read()
            if digest != _digest(path, content):
                raise ValueError(f"{path} is damaged")
            return content

        @contextlib.contextmanager
        def _open_for_write(self, path):
            content = io.BytesIO()
            yield content
            with super()._open_for_write(path) as file:
                file.write(_digest(path, content.getvalue()))
                file.write(content.getvalue())

        # Data carry stamp and key, and are refused when they are not those asked for: a process killed between its
        # two writes, or two processes writing at once, can leave an index that points at another entry's data.
        def _load_index(self):
            try:
                content = io.BytesIO(self._content(self._index_path))
                if pickle.load(content) != self._version:
                    return {}
                stamp, overloads = pickle.load(content)
                return overloads if stamp == self._source_stamp else {}
            except Exception:  # noqa: BLE001  missing, damaged, or made by another build: start from scratch
                return {}

        def _load_data(self, name):
            return pickle.loads(self._content(self._data_path(name)))

        def save(self, key, data):
            super().save(key, (self._source_stamp, key, data))

        def load(self, key):
            entry = super().load(key)
            return entry[2] if entry is not None and entry[:2] == (self._source_stamp, key) else None

    class SuiteCache(FunctionCache):
        def __init__(self, py_func):
            super().__init__(py_func)
            own = self._cache_file._source_stamp  # of the file, which may lie outside the suite
            stamp = (own, source_stamp(py_func.__code__.co_filename), checked())
            self._cache_file = File(self._cache_path, self._impl.filename_base, stamp)
            self._cache_file.owner = _owner(py_func.__code__.co_filename)

        def load_overload(self, sig, target_context):
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # noqa: BLE001  the same of the data: compile instead
                return None

        def save_overload(self, sig, data):
            try:
                super().save_overload(sig, data)
            except OSError:  # read-only, full
                pass

    return SuiteCache


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
def _collect_seldom() -> None:
    """While Numba compiles, let Python's collector run seldom: it finds little, and takes a fifteenth of the time."""
    from numba.core import event

    class Seldom(event.Listener):
        depth, usual = 0, (0, 0, 0)  # one thread compiles at a time

        def on_start(self, event):
            if self.depth == 0:
                self.usual = gc.get_threshold()
                if self.usual[0]:  # 0: it is off
                    gc.set_threshold(100_000, *self.usual[1:])
            self.depth += 1

        def on_end(self, event):
            self.depth -= 1
            if self.depth == 0:
                gc.set_threshold(*self.usual)

    event.register("numba:compile", Seldom())


class Compiled:
    """A function that Numba compiles when it is first needed. Attributes are those of Numba's dispatcher."""

    def __init__(self, function: Callable, cached: bool, linked: bool, options: dict[str, Any]):
        functools.update_wrapper(self, function)
        self.py_func = function
        self._cached, self._linked, self.options = cached, linked, options

    def _new(self, **options):
        import numba

        _collect_seldom()
        options |= self.options | ({"boundscheck": True} if checked() else {})
        return numba.njit(error_model="numpy", fastmath=set(FASTMATH), **options)(self.py_func)

    @functools.cached_property
    def dispatcher(self):
        """Numba's dispatcher."""
        dispatcher = self._new()
        if self._cached:
            try:
                dispatcher._cache = _cache_class()(self.py_func)
            except RuntimeError:  # no place for a cache: source not in a file, or no writable folder at all
                pass
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
    """
    if function is None:
        return functools.partial(kernel, cache=cache, **options)
    return Compiled(function, cache, False, options)


def device(function: Callable | None = None, **options) -> Any:
    """Compile a function for compiled callers, with which it is optimised. Parameters as for `kernel`."""
    if function is None:
        return functools.partial(device, **options)
    return Compiled(function, False, True, options)


def template(function: Callable | None = None, **options) -> Any:
    """Compile a loop over device functions given as arguments; inlined, so that kernels made of it can be cached."""
    return device(function, forceinline=True, **options)
