"""`jit`: a function of arrays, traced once for each kind of arguments and compiled.

A call looks for the program of the last call first: arguments are taken apart by generated code, and the fast caller
checks shapes and dtypes itself. Anything else goes through the table of programs, keyed by the structure of the
arguments, the shape and dtype of each array, the type of each Python number, and the values of static arguments.
"""

from __future__ import annotations

import copy
import functools
import inspect
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, overload

import numpy as np

from .. import check, foreign, tree
from ..by_name import ByName
from ..dtypes import kind_of
from ..errors import EscapedTensorError, IndexOutOfBoundsError
from ..graph.graph import Spec, spec_of
from ..graph.trace import make_graph
from ..tensor import Tensor
from ..transforms.grad import check_plain
from . import tree_code
from .baked import ClosedOver, closed_over, warn_of_baked
from .donation import check_separate, donated_leaves, donated_positions
from .graph_function import GraphFunction
from .recompiles import difference
from .waiting import Waiting
from .wrapper import MISS, miss_after

if TYPE_CHECKING:
    from .program import Program
    from .program_report import ProgramReport

__all__ = ["Jitted", "explain_recompiles", "jit"]

P = ParamSpec("P")
R = TypeVar("R")

_NUMBERS = (bool, int, float, complex)
_functions: weakref.WeakSet[Jitted[..., Any]] = weakref.WeakSet()


@dataclass(eq=False)
class Entry:
    """One compiled form of a function."""

    function: GraphFunction
    arguments: tree.Structure
    out_structure: tree.Structure
    captured: list[Any]

    @functools.cached_property
    def fast(self):
        """Flattener, caller and unflattener; None for arguments that only the slow path takes. Made once: the slow
        path calls again and again where an argument is a view.
        """
        flatten = tree_code.flattener(self.arguments)
        return flatten and (flatten, self.function.program.caller, tree_code.unflattener(self.out_structure))


class _Static:
    """A static argument in a key: equal when type and value are."""

    __slots__ = ("value",)

    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash((type(self.value), self.value))

    def __eq__(self, other):
        """0.0 and -0.0 differ."""
        return (
            type(other) is _Static
            and type(other.value) is type(self.value)
            and other.value == self.value
            and (not isinstance(self.value, (float, complex, tuple)) or repr(other.value) == repr(self.value))
        )

    def __repr__(self):
        return repr(self.value)


@overload
def jit(
    f: None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    donate: int | Sequence[int] = (),
    debug: bool = False,
    contract: bool = True,
) -> Callable[[Callable[P, R]], Jitted[P, R]]: ...
@overload
def jit(
    f: Callable[P, R],
    *,
    static_argnames: str | Sequence[str] = (),
    donate: int | Sequence[int] = (),
    debug: bool = False,
    contract: bool = True,
) -> Jitted[P, R]: ...
def jit(
    f: Callable[..., Any] | None = None,
    *,
    static_argnames: str | Sequence[str] = (),
    donate: int | Sequence[int] = (),
    debug: bool = False,
    contract: bool = True,
    **others: Any,
) -> Any:
    """Compile a function written in plain NumPy.

    Parameters
    ----------
    f : callable
        Function of trees of arrays; returns a tree of arrays. It runs once for each kind of arguments, on traced
        values; side effects happen then only.
    static_argnames : str or sequence of str
        Arguments that are not arrays but part of the program: strings, functions, sizes. Hashable; each new value
        compiles again.
    donate : int or sequence of int
        Positions of arguments whose memory the results may take, like JAX's ``donate_argnums``. Arrays of these
        arguments that the call overwrites come back as results of the same shape and dtype; use none of them, nor
        views of them, after the call. A call that raises leaves them as they were. Arrays that do not own their memory
        or are read-only are copied first, and transforms of the function leave its arguments alone.
    debug : bool
        Run operation by operation instead and raise FloatingPointError at the first one that makes a NaN or an
        infinity out of finite values, with the line that asked for it.
    contract : bool
        Let processors compute ``x * y + z`` with one rounding, which is faster and usually closer. With False, products
        and sums of elements round separately, as in NumPy: ``x * x - y`` is then exactly 0 for ``y = x * x``. Calls
        inside another compiled function follow that function's setting.
    **others
        None; an argument of ``jax.jit`` raises an error that names the one above.

    Returns
    -------
    Jitted
        Called like `f`; see its methods for what was compiled.

    Raises
    ------
    TypeError
        When called, for arguments or results that are not arrays.
    ValueError
        When called, if a donated array shares memory with another argument or was passed by keyword.
    EscapedTensorError
        When a traced value is kept beyond the call.

    Warns
    -----
    BakedValueWarning
        When tracing draws random numbers of NumPy or Python or reads a clock, whose values become constants; and when
        something that the function read from outside has changed since: globals, variables of functions around it,
        attributes of objects behind these names and of static arguments, elements of lists and dictionaries of
        numbers, arrays (by a sample of 64 KiB), and the same of the functions that it calls. Calls look at most every
        2 ms, and less often where a look takes more than 20 us. Libraries are not looked at.

    Notes
    -----
    When a result of 256 KiB or more is deleted, its memory is kept for results of the same size, up to 256 MiB in all.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import jit
    >>> double = jit(lambda x: 2 * x)
    >>> double(np.arange(3.0))
    array([0., 2., 4.])

    A large array is updated in place:

    >>> step = jit(lambda x, g: x - 0.5 * g, donate=0)
    >>> x = np.ones(3)
    >>> step(x, np.ones(3)) is x
    True
    """
    if others:
        check.renamed(
            others,
            "jit",
            static_argnums="static_argnames, with names of parameters",
            donate_argnums="donate, with positions",
        )
        raise TypeError(f"jit: unknown argument {', '.join(others)}")
    if f is None:
        return functools.partial(jit, static_argnames=static_argnames, donate=donate, debug=debug, contract=contract)
    if not callable(f):
        raise TypeError(f"jit: expected a function, got {type(f).__name__} {f!r}")
    static = (static_argnames,) if isinstance(static_argnames, str) else tuple(static_argnames)
    return Jitted(f, static, debug, donated_positions(donate), contract)


class Jitted(ByName, Generic[P, R]):
    """A function under `jit`.

    Parameters
    ----------
    f : callable
    static : tuple of str
        Names of arguments that are part of the program.
    debug : bool
        True to check every result for NaN.
    donate : tuple of int
        Positions of arguments whose memory the results may take.
    contract : bool
        False to round products and sums separately.

    Examples
    --------
    >>> from triskele import core
    >>> from triskele.core.extend import Jitted
    >>> isinstance(core.jit(lambda x: 2 * x), Jitted)
    True
    """

    def __init__(
        self,
        f: Callable[..., Any],
        static: tuple[str, ...],
        debug: bool,
        donate: tuple[int, ...] = (),
        contract: bool = True,
    ):
        functools.update_wrapper(self, f)
        self._f, self._static, self._debug, self._donate = f, static, debug, donate
        self._contract = contract
        self._name = getattr(f, "__name__", type(f).__name__)
        self._entries: dict[Any, Entry] = {}
        self._history: list[tuple[Any, str]] = []
        self._lock = threading.RLock()
        self._fast: tuple[Any, Any, Any] | None = None
        self._fast_static: dict[Any, tuple[Any, Any, Any]] = {}
        self._traced = None
        self._positions = self._static_positions()
        self._closed_over: ClosedOver | None = None  # of functions that read from outside
        _functions.add(self)

    def __repr__(self):
        return f"<jit {self._name}>"

    def __reduce__(self):
        """By name where the module has it under its function's name, otherwise with the function."""
        return super().__reduce__() if self._has_name() else (Jitted, self._arguments())

    def __deepcopy__(self, memo):
        """Itself; for a method of an object, that of the object's copy."""
        return Jitted(*copy.deepcopy(self._arguments(), memo)) if inspect.ismethod(self._f) else self

    def _arguments(self):
        """What it was made with."""
        return tuple([getattr(self, f"_{name}") for name in inspect.signature(Jitted).parameters])

    @overload
    def __get__(self, instance: None, owner: type) -> Jitted[P, R]: ...
    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Callable[..., R]: ...
    def __get__(self, instance: object | None, owner: type | None = None) -> Callable[..., R]:
        """Methods: `self` is an ordinary argument."""
        return self if instance is None else functools.partial(self, instance)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        given = args
        if self._positions and not kwargs:
            fast, args = self._fast_for_static(args)
        else:
            fast = self._fast
        if fast is not None and not kwargs:
            flat_args = fast[0](args)
            if flat_args is not None:
                try:
                    out = fast[1](*flat_args)
                    if out is MISS and self._look_outside(fast[1]):
                        out = fast[1](*flat_args)
                except IndexOutOfBoundsError as error:
                    raise self._located(error, given, {}) from None
                if out is not MISS:
                    return out if fast[2] is None else fast[2](out)
        if self._closed_over is not None:
            self._closed_over.check(self._name)
        return self._slow(given, kwargs)

    def _look_outside(self, caller):
        """Return True where it was time to look at what the function closes over, which made `caller` miss."""
        outside = self._closed_over
        if outside is None:
            return False
        outside.check(self._name, 5)
        return miss_after(caller, outside.pause())

    def _static_key(self, args):
        values = [args[k] for k in self._positions if k < len(args)]
        return (len(args), *[(type(v), v if type(v) is not float or v else repr(v)) for v in values])

    def _fast_for_static(self, args):
        """The last program for these static arguments, and the other arguments."""
        try:
            fast = self._fast_static.get(self._static_key(args))
        except TypeError:  # not hashable: the slow path says so
            return None, args
        return fast, tuple([a for k, a in enumerate(args) if k not in self._positions])

    # -- the table of programs
    # ---------------------------------------------------------------------------------------------

    def _static_positions(self):
        if not self._static:
            return {}
        try:
            parameters = list(inspect.signature(self._f).parameters.values())
        except (TypeError, ValueError):
            return {}
        names = [p.name for p in parameters]
        anything = any(p.kind is p.VAR_KEYWORD for p in parameters)
        for s in self._static:
            if s not in names and not anything:
                raise ValueError(
                    f"jit of {self._name}: static_argnames must name parameters, got {s!r} (it has {', '.join(names)})"
                )
        return {
            k: n
            for k, n in enumerate(names)
            if n in self._static
            and parameters[k].kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        }

    def _split(self, args, kwargs):
        """(dynamic args, dynamic kwargs, static values by place)."""
        if not self._static:
            return args, kwargs, ()
        static = [(k, _Static(a)) for k, a in enumerate(args) if k in self._positions]
        static += [(n, _Static(kwargs[n])) for n in sorted(kwargs) if n in self._static]
        for where, s in static:
            try:
                hash(s)
            except TypeError:
                raise TypeError(
                    f"jit of {self._name}: a static argument must be hashable, got "
                    f"{type(s.value).__name__} for "
                    f"{self._positions.get(where, where)!r} (use a tuple for a list, or pass an array as "
                    f"an ordinary argument)"
                ) from None
        dynamic = tuple([a for k, a in enumerate(args) if k not in self._positions])
        return dynamic, {n: v for n, v in kwargs.items() if n not in self._static}, tuple(static)

    def _slow(self, args, kwargs):
        dynamic, named, static = self._split(args, kwargs)
        leaves, structure = foreign.flatten((dynamic, named), f"jit of {self._name}")
        key = (structure, static, tuple([self._leaf_key(x, structure, k) for k, x in enumerate(leaves)]))
        entry = self._entries.get(key)
        if entry is None:
            with self._lock:
                entry = self._entries.get(key) or self._compile(key, leaves, structure, static, len(args))
        traced = any(isinstance(x, Tensor) for x in leaves)
        if entry.function.donated and not traced:
            check_separate(leaves, entry.function.donated, dynamic, self._name)
        if self._debug and not traced:
            from .debug import run_checked

            outs = run_checked(entry.function.graph, [*leaves, *entry.captured], self._name)
        else:
            try:
                outs = entry.function([*leaves, *entry.captured])
            except IndexOutOfBoundsError as error:
                raise self._located(error, args, kwargs) from None
        if not (traced or entry.captured or self._debug or kwargs):
            outside, fast = self._closed_over, entry.fast
            if outside is not None and fast and not miss_after(fast[1], outside.pause()):
                fast = (fast[0], functools.partial(outside.ask, fast[1]), fast[2])
            if self._positions and fast and not any(_may_be_minus_zero(s.value) for _, s in static):
                self._fast_static[self._static_key(args)] = fast
            elif fast:
                self._fast = fast
        return tree.unflatten(entry.out_structure, outs)

    def _located(self, error, args, kwargs):
        """The error with the place of the index, which donated arguments may no longer tell."""
        if self._donate:
            return error
        from .debug import located

        function, leaves = self.flat(args, kwargs)
        return error if any(isinstance(x, Tensor) for x in leaves) else located(error, function.graph, leaves)

    def _leaf_key(self, x, structure, k):
        t = type(x)
        if t is np.ndarray:
            if kind_of(x.dtype) not in "biufc":
                raise TypeError(
                    f"jit of {self._name}: expected arrays of numbers, got dtype {x.dtype} in "
                    f"{self._argument(structure, k)}"
                )
            return (x.shape, x.dtype if x.dtype.isnative else x.dtype.newbyteorder("="))
        if t in _NUMBERS:
            if t is int and not -(2**63) <= x < 2**63:
                raise OverflowError(
                    f"jit of {self._name}: Python integers are taken as int64, got {x} in "
                    f"{self._argument(structure, k)}"
                )
            return t
        if isinstance(x, Tensor):
            return x.spec
        if isinstance(x, np.generic) and kind_of(x.dtype) in "biufc":
            return ((), x.dtype)
        if isinstance(x, np.ndarray) and kind_of(x.dtype) in "biufc":
            check_plain(x, f"jit of {self._name}")
            return (x.shape, x.dtype.newbyteorder("="))
        raise TypeError(
            f"jit of {self._name}: arguments must be trees of arrays and numbers, got {t.__name__} "
            f"{x!r:.80} in {self._argument(structure, k)} "
            "(name it in static_argnames if it is part of the program)"
        )

    def _argument(self, structure, k):
        """The place of leaf `k` of the dynamic arguments, such as ``batch[0]``."""
        path = _path(structure, k)  # [0] are positional arguments, [1] those with keywords
        if path.startswith("[1]"):
            return path[3:].removeprefix(".")
        number, _, rest = path[4:].partition("]")
        position = [i for i in range(int(number) + len(self._positions) + 1) if i not in self._positions][int(number)]
        try:
            names = [p.name for p in inspect.signature(self._f).parameters.values() if p.kind < p.VAR_POSITIONAL]
        except (TypeError, ValueError):
            names = []
        return (names[position] if position < len(names) else f"argument {position}") + rest

    def _compile(self, key, leaves, structure, static, n_args):
        specs = [
            k if isinstance(k, Spec) else spec_of(x) if isinstance(k, type) else Spec(*k)
            for x, k in zip(leaves, key[2], strict=True)
        ]
        out_structure = None
        f = self._traceable()

        def run(*tensors):
            nonlocal out_structure
            dynamic, named = tree.unflatten(structure, tensors)
            args, rest = [], iter(dynamic)
            fixed = {k: s.value for k, s in static}
            for k in range(n_args):
                args.append(fixed[k] if k in fixed else next(rest))
            out = f(*args, **named, **{k: v for k, v in fixed.items() if isinstance(k, str)})
            outs, out_structure = tree.flatten(out)
            for k, o in enumerate(outs):
                if not isinstance(o, (Tensor, np.ndarray, np.generic, *_NUMBERS)):
                    raise TypeError(
                        f"jit of {self._name}: the function must return trees of arrays and numbers, got "
                        f"{type(o).__name__} {o!r:.80}{_within(out_structure, k)}"
                    )
            return outs

        self._history.append((key, difference(key, self._history)))
        waiting = Waiting(self._f, self._name)
        with warn_of_baked(self._f, self._name), waiting.tracing():
            graph, captured = make_graph(run, specs, self._name)
        fixed = {self._positions.get(k, k): s.value for k, s in static}
        self._closed_over = closed_over(self._f, graph, self._closed_over, fixed)
        if any(getattr(c, "_trace", None) is not None and not c._trace.alive for c in captured):
            raise EscapedTensorError(f"jit of {self._name}: it reads a traced value of a transform that has ended")
        donated: list[int] = []
        if self._donate:
            positions = [k for k in range(n_args) if k not in self._positions]
            donated = donated_leaves(self._donate, positions, structure.children[0], specs, self._name)
        entry = Entry(
            GraphFunction(graph, donated, self._contract, waiting), structure.children[0], out_structure, captured
        )
        if not captured:
            self._entries[key] = entry
        return entry

    def _traceable(self):
        """The function with Python's control flow on traced values made control flow of the graph."""
        if self._traced is None:
            from ..transforms.autograph.convert import convert

            self._traced = convert(self._f)
        return self._traced

    def _entry(self, args, kwargs):
        dynamic, named, static = self._split(args, kwargs)
        leaves, structure = foreign.flatten((dynamic, named), f"jit of {self._name}")
        key = (structure, static, tuple([self._leaf_key(x, structure, k) for k, x in enumerate(leaves)]))
        with self._lock:
            return self._entries.get(key) or self._compile(key, leaves, structure, static, len(args))

    def lower(self, *args: Any, **kwargs: Any) -> ProgramReport:
        """Return the program compiled for these arguments: graph, loop nests, memory, LLVM IR and compile time.

        Returns
        -------
        ProgramReport
        """
        from .program_report import ProgramReport

        return ProgramReport(self._entry(args, kwargs).function.program, self._name)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for these arguments, for callers in machine code.

        ``program.module.address("main")`` is ``int32 main(ptr inputs, ptr outputs, ptr scratch)``: tables of pointers
        to the flat arguments and results, and ``program.scratch`` bytes at a multiple of 64. After a return value other
        than 0 ``program.module.raise_pending()`` raises what went wrong.
        """
        entry = self._entry(args, kwargs)
        if self._donate:
            raise ValueError(
                f"jit of {self._name}: a program for machine code must not donate arguments, got donate={self._donate}"
            )
        if entry.captured:
            raise EscapedTensorError(
                f"jit of {self._name}: a program by itself cannot read traced values of a transform around it"
            )
        return entry.function.program

    def again(self) -> Jitted[P, R]:
        """The same function without any of its compiled forms. It leaves its arguments alone."""
        return Jitted(self._f, self._static, self._debug, contract=self._contract)

    def flat(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[GraphFunction, list[Any]]:
        """The traced function for these arguments, and its flat arguments, arrays that it closes over included."""
        entry = self._entry(args, kwargs)
        leaves, _ = foreign.flatten(self._split(args, kwargs)[:2], f"jit of {self._name}")
        return entry.function, [*leaves, *entry.captured]

    def numba(self, *args: Any, **kwargs: Any) -> Callable[..., Any]:
        """The program for these arguments (arrays and numbers, not trees) as a function for the user's own Numba
        code.
        """
        from .numba_form import numba_form

        return numba_form(self.again()._entry(args, kwargs) if self._donate else self._entry(args, kwargs), self._name)


def _may_be_minus_zero(x):
    """Return True for values inside of which 0.0 and -0.0 are equal to a dictionary."""
    return isinstance(x, (complex, tuple, np.floating)) and any(part in repr(x) for part in ("0.0", "j"))


def _path(structure, k):
    """The path of leaf `k` of a tree of this structure."""
    return tree.paths(tree.unflatten(structure, list(range(structure.size))))[k][0]


def _within(structure, k):
    return f" at {path}" if (path := _path(structure, k)) else ""


def explain_recompiles(f: Jitted[..., Any] | None = None) -> str:
    """Report what changed each time a function under `jit` was compiled again.

    Parameters
    ----------
    f : function under `jit`, optional
        Defaults to all functions that were compiled more than once.

    Returns
    -------
    str

    Raises
    ------
    TypeError
        If `f` is not under `jit`.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import explain_recompiles, jit
    >>> half = jit(lambda x: x / 2)
    >>> _ = half(np.ones(2)), half(np.ones(3))
    >>> print(explain_recompiles(half))
    <lambda>: compiled 2 times
      1. first call
      2. leaf 0: float64[2] became float64[3]
    """
    if f is not None and not isinstance(f, Jitted):
        raise TypeError(f"explain_recompiles: expected a function under jit, got {type(f).__name__} (use core.jit(f))")
    lines = []
    for function in list(_functions) if f is None else [f]:
        if len(function._history) > 1:
            lines.append(f"{function._name}: compiled {len(function._history)} times")
            lines += [f"  {k}. {why}" for k, (_, why) in enumerate(function._history, 1)]
    return "\n".join(lines) or "nothing was compiled more than once"
