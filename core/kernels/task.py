"""Tasks: kernels bound to their arrays, callable from the native step loop without Python.

A kernel is written ``@kernel(nogil=True) def f(chunk, a, b, ...)``: an int64 chunk number, then C-contiguous arrays,
int64 or float64 scalars, and named tuples of these; it returns nothing. `Task` compiles it for the types of its
arguments and adds a machine-code entry ``void entry(ptr context, i64 chunk)`` that reads data pointers and shapes from
a context block. Every chunk writes memory that no other chunk touches, and the number of chunks depends on the system
alone, so that results are the same for any number of threads.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from . import native

__all__ = ["Task"]


class Task:
    """A kernel with its arguments.

    Parameters
    ----------
    kernel : Compiled
        From `triskele.core.kernels.njit.kernel`.
    *args : ndarray, int, float or NamedTuple of these
        Arrays are held by address and never copied; numbers are frozen.
    chunks : int
        How often the kernel is called, with chunk = 0 ... chunks - 1, in any order and from several threads.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core.extend import Task, kernel
    >>> @kernel(cache=False, nogil=True)
    ... def fill(chunk, out):
    ...     out[chunk] = chunk * 10
    >>> out = np.zeros(3, np.int64)
    >>> task = Task(fill, out, chunks=3)
    """

    def __init__(self, kernel: Any, *args: Any, chunks: int = 1):
        self.kernel, self.chunks = kernel, int(chunks)
        self.args = tuple(_argument(kernel, k, a) for k, a in enumerate(args))
        if self.chunks < 0:
            raise ValueError(f"task {kernel.__name__}: chunks must be >= 0, got {chunks}")
        words: list[int] = []
        for a in _leaves(self.args):
            if isinstance(a, np.ndarray):
                words += [a.ctypes.data, *a.shape]
            else:
                words.append(int(np.asarray(a).view(np.int64)))
        self.context = np.array([0, *words], np.int64)
        self._ready = False

    @property
    def entry(self) -> int:
        """Address of the entry; the first call compiles the kernel."""
        if not self._ready:
            self.context[0] = _address(self.kernel, tuple(map(_kind, self.args)))
            self._ready = True
        return _entry(tuple(map(_kind, _leaves(self.args))))  # Numba passes the parts of a tuple one by one

    def run(self) -> None:
        """Run all chunks here and now, one after the other."""
        for chunk in range(self.chunks):
            self.kernel(chunk, *self.args)

    def __repr__(self):
        return f"<task {self.kernel.__name__}, {self.chunks} chunks>"


def _argument(kernel, k, a):
    if isinstance(a, np.ndarray):
        if not a.flags.c_contiguous or not a.flags.aligned:
            raise TypeError(f"task {kernel.__name__}: argument {k + 1} must be a C-contiguous array")
        return a
    if isinstance(a, (bool, np.bool_, int, np.integer)):
        return np.int64(a)
    if isinstance(a, (float, np.floating)):
        return np.float64(a)
    if isinstance(a, tuple):
        return type(a)(*[_argument(kernel, k, part) for part in a])
    raise TypeError(f"task {kernel.__name__}: argument {k + 1} must be an array or a number, got {type(a).__name__}")


def _leaves(args):
    """Yield the arrays and numbers of arguments in the order in which compiled code takes them."""
    for a in args:
        yield from _leaves(a) if isinstance(a, tuple) else (a,)


def _kind(a):
    """Return all that the machine code depends on: (ndim, itemsize, dtype), a dtype's name, or a class and kinds."""
    if isinstance(a, tuple):
        return type(a), *map(_kind, a)
    return (a.ndim, a.dtype.itemsize, a.dtype.str) if isinstance(a, np.ndarray) else a.dtype.name


def _numba_type(kind):
    from numba.core import types
    from numba.core.types.containers import BaseTuple
    from numba.np.numpy_support import from_dtype

    if isinstance(kind, str):
        return getattr(types, kind)
    if isinstance(kind[0], type):
        return BaseTuple.from_types(tuple(map(_numba_type, kind[1:])), kind[0])
    return types.Array(from_dtype(np.dtype(kind[2])), kind[0], "C")


_addresses: dict[Any, int] = {}


def _address(kernel, kinds) -> int:
    """Address of the compiled kernel, in Numba's calling convention."""
    if (kernel, kinds) not in _addresses:
        from numba.core import types

        signature = types.int64, *map(_numba_type, kinds)
        kernel.compile(signature)
        compiled = kernel.overloads[signature]
        if compiled.signature.return_type != types.none:
            raise TypeError(
                f"task {kernel.__name__}: the kernel must return nothing, got {compiled.signature.return_type}"
            )
        _addresses[kernel, kinds] = compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    return _addresses[kernel, kinds]


@cache
def _entry(kinds) -> int:
    """Address of ``void entry(ptr context, i64 chunk)`` for kernels of such arguments: (ndim, itemsize, dtype), or a
    dtype's name.
    """
    load, args, types_ = [], ["ptr %result", "ptr %error", "i64 %chunk"], ["ptr", "ptr", "i64"]
    word = 1

    def read(kind="i64"):
        nonlocal word
        name = f"%w{word}"
        load.append(f"  %p{word} = getelementptr i64, ptr %context, i64 {word}\n  {name} = load {kind}, ptr %p{word}")
        word += 1
        args.append(f"{kind} {name}")
        types_.append(kind)
        return name

    for k, kind in enumerate(kinds):
        if isinstance(kind, str):
            read({"int64": "i64", "float64": "double"}[kind])
            continue
        ndim, itemsize, _ = kind
        at = len(args)
        data = read("ptr")
        shape = [read() for _ in range(ndim)]
        del args[at:], types_[at:]
        strides: list[str] = []
        size = str(itemsize)
        for d in reversed(range(ndim)):
            strides.insert(0, size)
            load.append(f"  %s{k}_{d} = mul i64 {size}, {shape[d]}")
            size = f"%s{k}_{d}"
        load.append(f"  %n{k} = sdiv i64 {size}, {itemsize}")
        # meminfo and parent null, number of items, size of one, data, shape, strides
        args += [
            "ptr null",
            "ptr null",
            f"i64 %n{k}",
            f"i64 {itemsize}",
            f"ptr {data}",
            *[f"i64 {s}" for s in shape],
            *[f"i64 {s}" for s in strides],
        ]
        types_ += ["ptr", "ptr", "i64", "i64", "ptr"] + ["i64"] * (2 * ndim)
    text = "\n".join(
        [
            "define void @entry(ptr %context, i64 %chunk) {",
            "  %result = alloca ptr\n  %error = alloca ptr\n  %kernel = load ptr, ptr %context",
            *load,
            f"  %status = call i32 %kernel({', '.join(args)})",
            "  ret void\n}\n",
        ]
    )
    return native.load(text, {}, opt=1).address("entry")
