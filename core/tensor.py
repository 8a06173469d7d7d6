"""`Tensor`: what a transform passes into a function. It follows NumPy's protocols; the operations are in `ops`.

Operations find their way here by registration: `implements(np.sum, method="sum")` next to the definition makes
``np.sum(tensor)`` and ``tensor.sum()`` work. There is no second list.
"""

from __future__ import annotations

import functools
import importlib
import sys
from collections.abc import Callable
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from .errors import TracerError
from .views import check_writeable, fetch, in_c_order, own_array, remember_order, wrote

__all__ = ["CREATION", "FUNCTIONS", "Tensor", "UFUNCS", "VALUES", "implements", "separate"]

UFUNCS: dict[Any, Callable] = {}
FUNCTIONS: dict[Any, Callable] = {}
ARRAYS: set[Any] = set()  # the functions among them whose results without dimensions are arrays, not scalars
VIEWS: set[Any] = set()  # the functions among them whose results share memory with their arguments
CREATION: dict[Any, Callable] = {}  # np.zeros(..., like=tensor) and the like: called with the Tensor first


def implements(
    *numpy_functions: Any,
    method: str | None = None,
    prop: str | None = None,
    operators: tuple[str, ...] = (),
    view: bool = False,
    array: bool = False,
):
    """Register the decorated function for NumPy (or SciPy) functions, and as a method, property or operator of
    `Tensor`.

    `operators` are dunder names; a name starting with ``__r`` whose plain form is also given has its arguments swapped.
    Results share memory with arguments only with `view`; without dimensions they are arrays with `array`, else scalars.
    """

    def register(f):
        for g in numpy_functions:
            table = UFUNCS if isinstance(g, np.ufunc) else FUNCTIONS
            if g in table:
                raise ValueError(f"implements: {g!r} is already implemented by {table[g]!r}")
            table[g] = f
            if view:
                VIEWS.add(g)
            if array:
                ARRAYS.add(g)
        if method:
            setattr(Tensor, method, f if view or method.startswith("__") else _with_own_memory(f))
        if prop:
            setattr(Tensor, prop, property(f))
        for name in operators:
            if name.startswith("__r") and f"__{name[3:]}" in operators:
                setattr(
                    Tensor,
                    name,
                    lambda self, other, f=f: f(other, self) if isinstance(other, VALUES) else _binary(f, other, self),
                )
            elif name.endswith("invert__") or name in ("__neg__", "__pos__", "__abs__"):
                setattr(Tensor, name, lambda self, f=f: f(self))
            elif name.startswith("__i") and len(operators) > 1:
                # scalars are immutable in NumPy, unlike arrays without dimensions: ``x += 1`` gives the name a new one
                setattr(
                    Tensor,
                    name,
                    lambda self, other, f=f: (
                        self._become(_binary(f, self, other))
                        if self.shape or self._link is not None
                        else _binary(f, self, other)
                    ),
                )
            else:
                setattr(
                    Tensor,
                    name,
                    lambda self, other, f=f: f(self, other) if isinstance(other, VALUES) else _binary(f, self, other),
                )
        return f

    return register


def _with_own_memory(f):
    @functools.wraps(f)
    def method(*args, **kwargs):
        out = f(*args, **kwargs)
        return separate(out) if type(out) is tuple or (isinstance(out, Tensor) and out._link is not None) else out

    return method


def separate(out):
    """Results without the memory that they share with arguments or with one another."""
    if isinstance(out, Tensor):
        return out if out._link is None or out._link.parent is None else out._handle()
    if type(out) in (tuple, list):
        return type(out)([separate(x) for x in out])
    return out if not isinstance(out, tuple) else type(out)(*[separate(x) for x in out])


def _scipy_ufunc(ufunc):
    """Ufuncs of scipy.special are registered by name, so that SciPy is loaded only by those who use it."""
    name = ufunc.__name__
    if getattr(sys.modules.get("scipy.special"), name, None) is not ufunc:
        return None
    f = FUNCTIONS.get(f"scipy.special.{name}")
    if f is not None:
        UFUNCS[ufunc] = f
    return f


def _binary(f, a, b):
    for x in (a, b):
        if x is None or isinstance(x, (str, dict, set)):
            return NotImplemented
    return f(a, b)


class Tensor:
    """A traced array: used like an ndarray inside functions given to the transforms.

    Attributes
    ----------
    shape, dtype, ndim, size : as for ndarray.
    level : int
        Nesting depth of the transform it belongs to.

    Notes
    -----
    ``x[i] = v`` and ``x += y`` change the Tensor as they change an ndarray. Views such as ``x[1:]``, ``x.T``,
    ``x.reshape(-1)`` and ``z.real`` share memory with `x` as in NumPy: a write into either shows in the other. The
    arguments of a function count as C-contiguous arrays. Where NumPy's choice between a view and a copy depends on a
    memory order that is unknown while tracing, the reshaped array and its origin cannot both be used after a write into
    one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> seen = []
    >>> def f(x):
    ...     seen.append(isinstance(x, core.Tensor))
    ...     return np.sum(x**2)
    >>> core.grad(f)(np.array([1.0, 2.0]))
    array([2., 4.])
    >>> seen
    [True]
    """

    # _link: None for an array of its own that nothing is a view of, else see views.Link
    # _made: for a few operations, how this value was made (see ops.kinks)
    __slots__ = ("level", "_trace", "value", "_link", "_made", "__weakref__")
    _content: tuple[str, ...] = ("value",)  # the slots that say what the Tensor stands for
    __array_priority__ = 1000

    spec: Any
    _made: Any

    @property
    def shape(self) -> tuple[int, ...]:
        return self.spec.shape

    @property
    def dtype(self) -> np.dtype:
        return self.spec.dtype

    @property
    def ndim(self) -> int:
        return len(self.spec.shape)

    @property
    def size(self) -> int:
        return self.spec.size

    @property
    def nbytes(self) -> int:
        return self.spec.nbytes

    @property
    def itemsize(self) -> int:
        return self.spec.dtype.itemsize

    if TYPE_CHECKING:

        def __getitem__(self, key: Any) -> Any: ...  # core.ops.methods gives it

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of unsized object")
        return self.shape[0]

    def __iter__(self):
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(self.shape[0]))

    def __hash__(self):
        raise TracerError(
            f"unhashable: {self!r} is traced, so sets and dictionaries cannot find it by value (compare "
            f"with ==, or use its id)"
        )

    def _become(self, other: Any) -> Tensor:
        """Let this very object stand for `other` from now on (in-place operators and assignments)."""
        link = self._link
        self._trace.check_write()
        if link is not None:
            check_writeable(self)
        other = self._lifted(other)
        if other.spec.shape != self.spec.shape:
            raise ValueError(
                f"non-broadcastable output operand with shape {self.spec.shape} doesn't match the broadcast shape "
                f"{other.spec.shape}"
            )
        if other.spec.dtype != self.spec.dtype:
            if not np.can_cast(other.spec.dtype, self.spec.dtype, "same_kind"):
                raise np.exceptions.DTypePromotionError(
                    f"in-place operation: cannot cast the result from {other.dtype} to {self.dtype} with rule "
                    f"'same_kind'"
                )
            other = self._lifted(other.astype(self.spec.dtype))
        if link is not None or len(self.shape) > 1:
            remember_order(self)
        self._take(other)
        if link is not None:
            link.stale = False
            wrote(self)
        return self

    def _lifted(self, other: Any) -> Any:
        """`other` as a Tensor of the same transform."""
        if isinstance(other, Tensor) and other.level == self.level:
            return other
        if isinstance(other, Tensor) and other.level > self.level:
            raise TracerError(
                f"x[i] = v, x += v: {other!r} is of an inner transform and cannot be put into {self!r} of an outer one "
                "(make the array inside, with np.zeros_like of a value there)"
            )
        return self._trace.lift(other)

    def _take(self, other):
        raise NotImplementedError

    def _forget(self) -> None:
        """Drop the content of a view that is out of date; whoever reads it next fetches it."""
        if not (self._link.stale or self._link.torn):
            for name in self._content:
                delattr(self, name)

    def __getattr__(self, name):
        if name in self._content and self._link is not None and (self._link.stale or self._link.torn):
            fetch(self)
            return object.__getattribute__(self, name)
        hint = " (write x[i] = v or x[i] += v)" if name == "at" else ""
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}")

    def _in_c_order(self) -> bool:
        """Return True if NumPy surely has the elements of this result of an operation row by row in memory."""
        return in_c_order(self.value)

    def _handle(self) -> Tensor:
        """Another Tensor object for the same value, which later assignments to this one leave alone."""
        raise NotImplementedError

    def _identity(self) -> Any:
        """A key that is equal for two Tensors when they stand for the same value."""
        raise NotImplementedError

    # -- NumPy's protocols ------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **kwargs):
        if method != "__call__":
            f = FUNCTIONS.get((ufunc, method)) or FUNCTIONS.get(f"ufunc.{method}")
            if f is None:
                raise TypeError(f"np.{ufunc.__name__}.{method}: not supported for traced values")
            result = f(*inputs, **kwargs) if (ufunc, method) in FUNCTIONS else f(ufunc, *inputs, **kwargs)
        else:
            f = UFUNCS.get(ufunc) or _scipy_ufunc(ufunc)
            if f is None:
                scipy = _scipy_caller()
                raise TypeError(
                    f"{ufunc.__name__}: no traced form of this ufunc "
                    f"({_in_core(scipy) if scipy else 'define one with core.elementwise or core.custom_op'})"
                )
            result = f(*inputs, **kwargs)
        if out is None or all(o is None for o in out):
            return result
        return _store(ufunc.__name__, result, out)

    def __array_function__(self, func, types, args, kwargs):
        f = FUNCTIONS.get(func)
        if f is None and func in CREATION:
            return CREATION[func](self, *args, **kwargs)
        if f is None:
            name = f"{getattr(func, '__module__', 'numpy')}.{getattr(func, '__name__', func)}"
            raise TypeError(
                f"{name}: no traced form of this function "
                "(write it with supported functions, or wrap it with core.custom_op(mode='python'))"
            )
        out = f(*args, **kwargs)
        if isinstance(out, Tensor):
            if not out.shape and func in ARRAYS:
                return own_array(out._handle())
            return out if out._link is None or func in VIEWS or "out" in kwargs else separate(out)
        return separate(out) if isinstance(out, (tuple, list)) and func not in VIEWS else out

    def __array__(self, dtype=None, copy=None):
        scipy = _scipy_caller()
        if scipy is not None:
            raise TracerError(f"{scipy}: SciPy's function cannot take {self._brief()} ({_in_core(scipy)})")
        if self.shape == () and self.dtype.kind in "iu":
            raise TracerError(
                f"{self._brief()} cannot become a plain number: np.arange(n), an array of a length that is traced, "
                f"np.array([n, ...]) or an index "
                "of a plain array asked for it (name a length in static_argnames, or make an array of the largest "
                "length and mask it; "
                "core.numpy.array collects traced values; core.numpy.take(table, i, axis=0) indexes a plain array)"
            )
        raise TracerError(
            f"{self._brief()} cannot become a plain ndarray: np.array([...]) of traced values, assigning one into a "
            f"plain array, or a "
            "function NumPy cannot redirect asked for it (use np.stack or core.numpy.array to collect values, "
            "np.zeros_like(x) of a traced x, for an array to assign into; core.numpy.take(table, i, axis=0) to index a "
            "plain array with a "
            "traced one; core.stop_gradient drops a derivative)"
        )

    def _brief(self):
        """The repr, with the shape in place of many values."""
        text = repr(self)
        return text if len(text) < 80 else f"Tensor({self.spec}, {text.rpartition(', ')[2]}"

    # -- conversion to Python numbers -------------------------------------------------------------------------------

    def _concrete(self, what):
        raise TracerError(f"{what}: {self._brief()} has no value yet")

    def __bool__(self):
        return bool(self._concrete("bool()"))

    def __int__(self):
        return int(self._concrete("int()"))

    def __index__(self):
        if self.dtype.kind not in "iub":
            raise TypeError(f"only integer scalar arrays can be converted to a scalar index, got {self._brief()}")
        return int(self._concrete("index"))

    def __float__(self):
        raise TracerError(
            f"float(): {self._brief()} is traced, a Python float would lose its derivative or has no value yet "
            "(use NumPy's functions rather than math's, and np.zeros_like(x) of a traced x, for an array to assign "
            "into; "
            "core.stop_gradient(x) drops the derivative)"
        )

    def __format__(self, spec):
        raise TracerError(
            f"format: {self._brief()} has no value to put into a string (return it and format the result, or write "
            f"{{x!r}} for its type)"
        )

    def __complex__(self):
        raise TracerError(f"complex(): {self._brief()} is traced (use NumPy's functions rather than cmath's)")


def _scipy_caller():
    """The public SciPy function, ``scipy.linalg.expm``, that is at work; None where it is none."""
    frame, found = sys._getframe(2), None
    while frame is not None:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("scipy."):
            # decorators hold the function they wrap in a variable
            wrapped = [
                f for f in frame.f_locals.values() if isinstance(f, FunctionType) and f.__module__.startswith("scipy.")
            ]
            for m, name in [(module, frame.f_code.co_name), *[(f.__module__, f.__name__) for f in wrapped]]:
                public = ".".join(m.split(".")[:2])
                if name[0] != "_" and hasattr(sys.modules[public], name):
                    found = f"{public}.{name}"
        elif not module.startswith("numpy"):
            return found
        frame = frame.f_back
    return found


def _in_core(name):
    module, function = f"triskele.core.{name.rsplit('.', 1)[0]}", name.rsplit(".", 1)[1]
    if name.split(".")[1] in ("special", "linalg", "fft") and function in importlib.import_module(module).__all__:
        return f"use {module}.{function}, which takes traced and plain arrays; under jit, calls by name are redirected"
    return "write it with supported functions, or wrap it with core.custom_op(mode='python')"


def _store(name, result, out):
    outs = out if isinstance(out, tuple) else (out,)
    results = result if isinstance(result, tuple) else (result,)
    for o, r in zip(outs, results, strict=True):
        if o is None:
            continue
        if not isinstance(o, Tensor):
            raise TracerError(
                f"{name}: out= must be a traced array here, got a plain ndarray (a traced value cannot be put into it)"
            )
        o._become(r)
    return out if isinstance(out, tuple) and len(out) > 1 else outs[0]


VALUES = (Tensor, np.ndarray, float, int, np.generic, complex)
"""Types that operations take unchanged; everything else is turned into an array first."""
