"""Dispatch of operations to the active transform: `bind`, levels, and recording into a graph.

Each running transform is a `Trace` with a level; the Tensor of the highest level among the arguments decides who
processes an operation. A trace processes it in terms of operations on the values beneath, one level down, until only
plain arrays are left and NumPy does the work: all transforms nest in any order.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import EscapedTensorError, TracerError
from ..tensor import Tensor
from ..views import connect, in_c_order, own_array
from .graph import Const, Equation, Graph, Source, Spec, Var, spec_of
from .primitive import Primitive

__all__ = [
    "GraphTensor",
    "GraphTrace",
    "Trace",
    "asked_by",
    "bind",
    "dead_code",
    "describe",
    "evaluate",
    "is_recording",
    "is_spread",
    "library_sources",
    "make_graph",
    "no_transforms",
    "recorded",
    "recording",
    "traceable",
    "user_source",
    "view",
]

# as installed, and behind links
_CORE = tuple({str(Path(__file__).parents[1]), str(Path(__file__).resolve().parents[1])})
_LIBRARY = tuple(str(Path(core, name)) for core in _CORE for name in ("nn", "optim", "models", "data", "train"))
_NOT_THE_USERS = (*_CORE, contextlib.__file__, *[str(Path(np.__file__).parents[1] / n) for n in ("numpy", "scipy")])


class _State(threading.local):
    depth = 0
    stage: Any = None  # the graph into which operations go even when all their Tensors are from outer transforms
    floor = 0  # its level
    recording = 0  # how many graphs are being recorded
    recorded = 0  # equations so far, in all graphs
    # the level of the loop body that is being recorded: what is outside must not change, the body runs many times
    frozen = 0
    source: Source | None = None  # of the equation that is being run again
    shown: tuple[str, ...] = ()  # folders of this package whose lines count like the user's


_state = _State()
_converters: list[Callable[[Any], Any]] = []


class Trace:
    """A running transform. Subclasses say how an operation is processed and how a plain value is lifted."""

    __slots__ = ("level", "alive")

    def __init__(self):
        self.level = 0
        self.alive = False

    def __enter__(self):
        _state.depth += 1
        self.level = _state.depth
        self.alive = True
        return self

    def __exit__(self, kind, error, traceback):
        _state.depth -= 1
        self.alive = False
        if isinstance(error, Exception):
            _tell_where(error, traceback)
            clearer = _what_numpy_hides(error)
            if clearer is not None:
                for note in getattr(error, "__notes__", ()):
                    clearer.add_note(note)
                raise clearer from error

    def process(self, primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
        raise NotImplementedError

    def lift(self, value: Any) -> Tensor:
        raise NotImplementedError

    def check_write(self) -> None:
        """Raise a TracerError if values of this transform cannot be assigned into at the moment."""
        if self.level < _state.frozen:
            raise TracerError(
                f"x[i] = v: the body of a loop on traced values assigns into an array from outside of the loop, at "
                f"{user_source()} "
                "(assign into it by its own name, as y[i, j] = v, or make it part of the loop's carry)"
            )


def _what_numpy_hides(error: Exception) -> TracerError | None:
    """The error a user can act on, where NumPy asked a traced value for its number and reports something else."""
    if type(error) is ValueError and isinstance(error.__cause__, TracerError):
        return TracerError(
            "plain[i] = v: a traced value cannot be put into a plain array "
            "(make the array with np.zeros_like(x) of a traced x or np.zeros(shape, like=x), or collect the values "
            "with np.stack)"
        )
    if type(error) is SystemError and isinstance(error.__cause__, TracerError):  # C code did not look for errors
        return TracerError(f"{error.__cause__} (for roots, core.root takes SciPy's solvers with mode='python')")
    if type(error) is RecursionError:
        return TracerError(
            "recursion: it continued until Python's stack was full; a traced condition cannot end it, since both "
            "branches are traced "
            "(write it as a loop: while, or core.while_loop; name an argument that decides in static_argnames)"
        )
    if type(error) is TypeError and "single integer, got 'Tensor(" in str(error):
        return TracerError(
            "shape: it must be known when the function is traced, got a traced value "
            "(name the argument in static_argnames, or make an array of the largest shape and mask it)"
        )
    return None


def bind(primitive: Primitive, *args: Any, **params: Any) -> Any:
    """Apply a primitive to arrays and Tensors: the one way in for every operation."""
    top = None
    level = 0
    for a in args:
        if isinstance(a, Tensor) and a.level > level:
            top = a
            level = a.level
    if top is None:
        return primitive.impl(*args, **params)
    if level < _state.floor:
        return _state.stage.process(primitive, args, params)
    return top._trace.process(primitive, args, params)


def view(primitive: Primitive, x: Any, gapless: bool = False, **params: Any) -> Any:
    """`bind` for a primitive that makes a view: what is written into the result is written into `x` (see `views`)."""
    out = bind(primitive, x, **params)
    if isinstance(out, Tensor) and isinstance(x, Tensor):
        if x.shape or x._link is not None:
            connect(out, x, primitive, params, gapless)
        elif primitive.write_back is None:
            connect(out, x._handle(), primitive, params)
        elif not out.shape and primitive.may_copy:  # reshape makes an array of a scalar
            own_array(out)
    return out


def user_source() -> Source | None:
    """The innermost line outside this package on the call stack; while a graph runs, that of the equation at hand."""
    if _state.source is not None:
        return _state.source
    frame = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        if not code.co_filename.startswith(_NOT_THE_USERS) or code.co_filename.startswith(_state.shown):
            return Source(code.co_filename, frame.f_lineno, code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return None


@contextmanager
def asked_by(source: Source) -> Iterator[None]:
    """Context in which equations have the given source, in place of the line that runs."""
    before, _state.source = _state.source, source
    try:
        yield
    finally:
        _state.source = before


@contextmanager
def library_sources() -> Iterator[None]:
    """Context in which lines of layers and optimizers are sources of equations, too, and not only the user's."""
    outer, _state.shown = _state.shown, _LIBRARY
    try:
        yield
    finally:
        _state.shown = outer


def _tell_where(error: Exception, traceback: Any) -> None:
    """Add a note to an error that does not say it: the user's line behind it, and what was called there with which
    arrays.
    """
    source, called = user_source(), None
    while traceback is not None:
        code, values = traceback.tb_frame.f_code, traceback.tb_frame.f_locals
        if not code.co_filename.startswith(_NOT_THE_USERS):
            source, called = Source(code.co_filename, traceback.tb_lineno, code.co_name), None
        elif called is not None:
            pass
        elif code is Tensor.__array_function__.__code__:
            called = _call(values["func"].__name__, enumerate(values["args"]), values["kwargs"].items())
        elif code is Tensor.__array_ufunc__.__code__:
            called = _call(values["ufunc"].__name__, enumerate(values["inputs"]))
        elif code is bind.__code__:
            called = f"{values['primitive'].name}({describe(values['args'])})"
        elif (
            f"{os.sep}ops{os.sep}" in code.co_filename
            and code.co_argcount
            and code.co_name[0] not in "_<"
            and code.co_name != "function"
        ):
            names = code.co_varnames[: code.co_argcount]
            called = _call(code.co_name, [(0, values.get(names[0]))], [(n, values.get(n)) for n in names[1:]])
        traceback = traceback.tb_next
    told = "".join([str(error), *getattr(error, "__notes__", [])])
    if source is not None and f"{source.file}:{source.line}" not in told:
        error.add_note(f"in {called}, at {source}" if called else f"at {source}")


def _call(function, positional, keywords=()):
    """A call as text: arrays by shape and dtype, options that say something."""
    shown = []
    for name, x in (*positional, *keywords):
        if isinstance(x, (Tensor, np.ndarray)):
            shown.append(describe([x]))
        elif isinstance(x, (tuple, list)) and any(isinstance(y, (Tensor, np.ndarray)) for y in x):
            shown.append(f"[{describe(x)}]")
        elif isinstance(x, (int, float, complex, str, tuple, list)) and x is not False:
            shown.append(f"{x!r:.60}" if isinstance(name, int) else f"{name}={x!r:.60}")
    return f"{function}({', '.join(shown)})"


def describe(args: Sequence[Any]) -> str:
    """Shapes and dtypes of arguments, for messages."""
    return ", ".join(map(_described, args))


def _described(x):
    try:
        return str(spec_of(x))
    except EscapedTensorError:  # a view of what has changed since, in a transform that has ended
        return "a view"


class GraphTensor(Tensor):
    """A value of a graph under construction: only its spec is known."""

    __slots__ = ("spec",)

    def __init__(self, trace: GraphTrace, atom: Var | Const):
        self._trace = trace
        self.value = atom
        self.spec = atom.spec
        self.level = trace.level
        self._link = self._made = None

    def _take(self, other):
        self.value, self.spec = other.value, other.spec

    def _handle(self):
        return GraphTensor(self._trace, self.value)

    def _identity(self):
        return (id(self._trace), id(self.value))

    def _in_c_order(self):
        return self._trace.in_c_order(self.value)

    def __repr__(self):
        return f"Tensor({self.spec}, traced)"

    def _concrete(self, what):
        raise TracerError(
            f"{what}: {self!r} has no value yet, at {user_source()} "
            "(under jit, plain if/while/for are converted automatically where the source is available; "
            "elsewhere use np.where, core.cond or core.while_loop, or static_argnames for an argument that is not an "
            "array)"
        )


def is_spread(x: Any) -> bool:
    """Return True if a traced `x` refers to one element in several places, so that its copies in order K are not row by
    row.
    """
    return isinstance(x, GraphTensor) and x.ndim > 1 and bool(x._in_c_order()) and x.value in x._trace.spread


class GraphTrace(Trace):
    """Records operations as equations.

    Tensors of outer transforms that the function closes over become extra inputs.
    """

    __slots__ = ("equations", "captured", "unordered", "spread", "_captured_vars", "_consts", "_followed")

    def __init__(self):
        super().__init__()
        self.equations: list[Equation] = []
        self.captured: list[Any] = []
        self.unordered: set[Any] = set()  # variables whose elements NumPy may not have row by row in memory
        # those that refer to one element in several places; NumPy's copies have other orders
        self.spread: set[Any] = set()
        self._followed = 0  # the equations that this is known of
        self._captured_vars: dict[Any, Var] = {}
        self._consts: dict[int, tuple[weakref.ref, Const]] = {}

    def __enter__(self):
        _state.recording += 1
        return super().__enter__()

    def __exit__(self, *exc):
        _state.recording -= 1
        super().__exit__(*exc)

    def input(self, spec: Spec) -> GraphTensor:
        return GraphTensor(self, Var(spec))

    def lift(self, value: Any) -> GraphTensor:
        return GraphTensor(self, self.atom(value))

    def atom(self, value: Any) -> Var | Const:
        # a constant is one everywhere
        if isinstance(value, GraphTensor) and (value._trace is self or type(value.value) is Const):
            return value.value
        if isinstance(value, Tensor):
            if not value._trace.alive and isinstance(value, GraphTensor) and value.level >= self.level:
                raise EscapedTensorError(
                    f"{value!r} was kept from a transform that has ended (return it from the function instead of "
                    f"storing it)"
                )
            key = value._identity()
            if key not in self._captured_vars:
                self._captured_vars[key] = Var(spec_of(value))
                self.captured.append(value._handle())
            return self._captured_vars[key]
        if isinstance(value, np.ndarray):
            return self._constant(value)
        if isinstance(value, np.generic):
            return Const(value)
        if isinstance(value, (bool, int, float, complex)):
            return Const(value)
        array = np.asarray(value)
        if array.dtype == object:
            raise TypeError(f"jit: expected arrays and numbers, got {type(value).__name__} {value!r}")
        return Const(array)

    def _constant(self, array):
        """An array with the values it has now, which may be assigned to later."""
        owner, const = self._consts.get(id(array), (None, Const(array)))
        known: Any = owner and owner()
        if known is not array or const.value.tobytes() != array.tobytes():
            const = Const(array.copy() if array.flags.writeable else array)
            self._consts[id(array)] = weakref.ref(array), const
        return const

    def process(self, primitive, args, params):
        if not self.alive:
            raise EscapedTensorError(
                f"{primitive.name}: a traced value was used after its transform had ended (return it instead of "
                f"storing it), at {user_source()}"
            )
        try:
            if primitive.loop is not None and any(type(a) is int for a in args):
                known = _compared(primitive, args)
                if known is not None:
                    return known
                args = _fitting(primitive, args)
            atoms = [self.atom(a) for a in args]
            out = primitive.spec(*[a.spec for a in atoms], **params)
        except Exception as error:
            error.add_note(f"in {primitive.name}({describe(args)}), at {user_source()}")
            raise
        outs = [Var(s) for s in (out if primitive.multiple else (out,))]
        _state.recorded += 1
        self.equations.append(Equation(primitive, atoms, params, outs, user_source()))
        tensors = tuple([GraphTensor(self, v) for v in outs])
        return tensors if primitive.multiple else tensors[0]

    def in_c_order(self, atom: Var | Const) -> bool:
        """Return True if NumPy surely has the value row by row in memory: no operation behind it has moved axes."""
        for e in self.equations[self._followed :]:
            if e.primitive.name == "broadcast_to" or (
                e.primitive.write_back is not None and not self.spread.isdisjoint(e.inputs)
            ):
                self.spread.update(e.outputs)
            if e.primitive.name == "transpose" or not all(self._row_by_row(a) for a in e.inputs):
                self.unordered.update(v for v in e.outputs if sum(n > 1 for n in v.spec.shape) > 1)
        self._followed = len(self.equations)
        return self._row_by_row(atom)

    def _row_by_row(self, atom):
        return in_c_order(atom.value) if type(atom) is Const else atom not in self.unordered

    def finish(self, inputs: Sequence[GraphTensor], outputs: Sequence[Any], name: str = "graph") -> Graph:
        """The graph of everything recorded that `outputs` need; captured values are its last inputs."""
        atoms = [self.atom(o) for o in outputs]
        return Graph([t.value for t in inputs] + list(self._captured_vars.values()), self.equations, atoms, name)


_ABOVE = {"less": True, "less_equal": True, "not_equal": True, "equal": False, "greater": False, "greater_equal": False}
_SWAPPED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}


def _compared(primitive: Primitive, args: Sequence[Any]) -> Any:
    """The result of comparing integers with a Python number beyond their range; None if that is not the case."""
    if primitive.name not in _ABOVE:
        return None
    x, y = args
    name = primitive.name
    if type(x) is int:
        x, y, name = y, x, _SWAPPED.get(name, name)
    spec = spec_of(x)
    if type(y) is not int or spec.dtype.kind not in "iu" or np.iinfo(spec.dtype).min <= y <= np.iinfo(spec.dtype).max:
        return None
    return np.full(spec.shape, _ABOVE[name] if y > 0 else _ABOVE[_SWAPPED.get(name, name)])[()]


def _fitting(primitive: Primitive, args: Sequence[Any]) -> list[Any]:
    """Convert Python integers as NumPy does next to arrays: an error when they do not fit, floats next to floats."""
    out = []
    for a, dtype in zip(args, primitive.loop(*[spec_of(a) for a in args]), strict=False):  # type: ignore[misc]
        if type(a) is int:
            if dtype.kind in "iu" and not np.iinfo(dtype).min <= a <= np.iinfo(dtype).max:
                raise OverflowError(f"Python integer {a} out of bounds for {dtype}")
            if dtype.kind in "fc" and abs(a) >= 2**63:
                a = float(a)
        out.append(a)
    return out


def make_graph(
    f: Callable[..., Any], specs: Sequence[Spec], name: str = "graph", stage: bool = False, loop: bool = False
) -> tuple[Graph, list[Any]]:
    """Record ``f(*tensors) -> sequence of values`` into a graph.

    With `stage`, operations on captured Tensors alone are recorded too (a branch that may not be taken); otherwise they
    are done once, outside (a loop's body, for which `loop` refuses assignments into what is outside).

    Parameters
    ----------
    f : callable
        Function of tensors that returns a sequence of values.
    specs : sequence of Spec
        Shapes and dtypes of its arguments.
    name : str, default "graph"
    stage : bool, default False
        Record operations on captured tensors alone, too.
    loop : bool, default False
        `f` is the body of a loop: assignments into captured arrays raise an error.

    Returns
    -------
    graph : Graph
        Inputs are those of `specs`, followed by one for each captured value.
    captured : list
        Tensors of outer transforms that `f` closed over.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> from triskele.core.extend import make_graph
    >>> graph, captured = make_graph(lambda x: [np.sin(x) + 1.0], [core.spec((3,), float)])
    >>> len(graph.equations), captured
    (2, [])
    """
    trace = GraphTrace()
    with recording(trace, stage, loop):
        inputs = [trace.input(s) for s in specs]
        # f may assign into its arguments: hand out handles so that the graph's inputs stay what they are
        outputs = f(*[t._handle() for t in inputs])
        graph = trace.finish(inputs, outputs, name)
    return dead_code(graph), list(trace.captured)


def dead_code(graph: Graph) -> Graph:
    """Drop equations whose results are unused."""
    live = {o for o in graph.outputs if isinstance(o, Var)}
    kept = []
    for eqn in reversed(graph.equations):
        if any(o in live for o in eqn.outputs):
            kept.append(eqn)
            live.update(a for a in eqn.inputs if isinstance(a, Var))
    graph.equations = kept[::-1]
    return graph


def evaluate(graph: Graph, *args: Any) -> list[Any]:
    """Run a graph on arrays or Tensors, equation by equation: with Tensors, this is how a graph is transformed."""
    env: dict[Var, Any] = dict(zip(graph.inputs, args, strict=True))

    def read(atom):
        return atom.value if type(atom) is Const else env[atom]

    before = _state.source
    try:
        for eqn in graph.equations:
            _state.source = eqn.source or before
            out = bind(eqn.primitive, *[read(a) for a in eqn.inputs], **eqn.params)
            if eqn.primitive.multiple:
                env.update(zip(eqn.outputs, out, strict=True))
            else:
                env[eqn.outputs[0]] = out
    finally:
        _state.source = before
    return [read(o) for o in graph.outputs]


def traceable(f: Callable[..., Any]) -> Callable[..., Any]:
    """The form of `f` that takes traced values: with its control flow rewritten while a graph is being recorded
    (`transforms.autograph.convert`), else with calls only (`transforms.autograph.eager`).

    Examples
    --------
    >>> from triskele.core.extend import traceable
    >>> def f(x):
    ...     return x if x > 0 else -x
    >>> traceable(f)(-2.0)
    2.0
    """
    if len(_converters) < 2:
        importlib.import_module("triskele.core.transforms.autograph.eager")  # which is above this package
    return _converters[0 if _state.recording else 1](f)


def is_recording() -> bool:
    """Return True while a graph is being recorded."""
    return _state.recording > 0


def recorded() -> int:
    """Return the number of equations that this thread has recorded."""
    return _state.recorded


@contextmanager
def recording(trace: GraphTrace, stage: bool = True, loop: bool = False) -> Iterator[None]:
    """Record into `trace`; `stage` and `loop` are those of `make_graph`."""
    with trace, staging(trace if stage else None), _frozen(trace.level if loop else _state.frozen):
        yield


@contextmanager
def staging(trace: GraphTrace | None) -> Iterator[None]:
    """Let `trace` record what is done with Tensors of outer transforms as well."""
    before = _state.stage, _state.floor
    if trace is not None:
        _state.stage, _state.floor = trace, trace.level
    try:
        yield
    finally:
        _state.stage, _state.floor = before


@contextmanager
def _frozen(level: int) -> Iterator[None]:
    before, _state.frozen = _state.frozen, level
    try:
        yield
    finally:
        _state.frozen = before


@contextmanager
def no_transforms() -> Iterator[None]:
    """Start afresh at level 0 (for callbacks that run while an outer transform is active)."""
    before = _state.depth, _state.stage, _state.floor, _state.recording, _state.frozen
    _state.depth, _state.stage, _state.floor, _state.recording, _state.frozen = 0, None, 0, 0, 0
    try:
        yield
    finally:
        _state.depth, _state.stage, _state.floor, _state.recording, _state.frozen = before
