"""`profile`: the time of each operation of a compiled function, with the line that asked for it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import check
from ..foreign import dataframe
from ..graph.graph import Equation
from ..graph.trace import library_sources
from ..show import plots
from ..show.notebook import html_table
from .emit import Unit
from .formulas import cost_of
from .fuse import Group
from .graph_function import as_argument
from .jit import Jitted, jit
from .plan import Plan, values_of
from .program import Program
from .row_blocks import RowBlocks
from .stopwatch import Stopwatch

__all__ = ["Operation", "OperationTimes", "described", "equations_of", "profile", "timed"]

_NAMED = 3  # primitives that the name of a loop nest lists
_TURNS = 15  # between calls of the plain program and of the one with clocks


class Operation(NamedTuple):
    """One step of a compiled function: a loop nest, a matrix product, a convolution, a loop, a call of Python.

    Attributes
    ----------
    name : str
        Its primitives, the costliest first.
    kind : {"loops", "native", "python", "control", "copy"}
        Loop nests are generated from fused elementwise operations and reductions. The time of a loop or a branch
        ("control") is without its body's operations, which stand for themselves.
    shape : str
        Its largest result.
    source : str
        The line, ``file:line in function``, that asked for most of it.
    lines : int
        How many lines asked for parts of it.
    calls : int
        Executions in one call of the function.
    seconds : float
        Of one call of the function, all executions together.
    flops, bytes : float
        Estimates for one execution; NaN where unknown.
    memory : float
        Bytes of intermediate values that are kept while it runs, without arguments and results of the function.
    order : int
        Its place in the program.
    inside : str
        The loop or branch whose body it is part of; empty outside of any.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> operation, = core.profile(lambda x: np.sin(x).sum(), np.ones(1000), seconds=0.01).operations
    >>> operation.name, operation.kind, operation.calls
    ('sin, sum', 'loops', 1)
    """

    name: str
    kind: str
    shape: str
    source: str
    lines: int
    calls: int
    seconds: float
    flops: float
    bytes: float
    memory: float
    order: int
    inside: str

    @property
    def place(self) -> str:
        """The source in short: folder, file and line."""
        file, _, rest = self.source.partition(" in ")[0].rpartition(":")
        return f"{'/'.join(Path(file).parts[-2:])}:{rest}" if file else ""


class OperationTimes:
    """Time of one call of a compiled function, by operation.

    Parameters
    ----------
    name : str
    seconds : float
        Time of one call, mean of the calls in which the operations were timed.
    operations : list of Operation
        The slowest first.
    undisturbed : float, seconds
        Time of one call of the program without clocks, called in turns with the other.

    Attributes
    ----------
    overhead : float, seconds
        What the operations leave of the call: checking the arguments, allocating results, crossing from Python to
        machine code.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> found = core.profile(lambda a, b: np.tanh(a @ b), np.ones((64, 64)), np.ones((64, 64)), seconds=0.01)
    >>> sorted(o.name for o in found.operations)
    ['product', 'tanh']
    """

    def __init__(self, name: str, seconds: float, operations: list[Operation], undisturbed: float):
        self.name, self.seconds, self.undisturbed = name, seconds, undisturbed
        self.operations = sorted(operations, key=lambda o: -o.seconds)

    @property
    def overhead(self) -> float:
        return self.seconds - sum(o.seconds for o in self.operations)

    def __repr__(self) -> str:
        first = "".join(f", {o.name} {o.seconds / self.seconds:.0%}" for o in self.operations[:2])
        return f"<OperationTimes of {self.name}: {_time(self.seconds)}, {len(self.operations)} operations{first}>"

    def __str__(self) -> str:
        rows = self._rows()
        wide = max(len(name) for _, _, name, _ in rows)
        head = f"{'us':>10} {'share':>6} {'calls':>6}  {'operation':{wide}}  line"
        lines = [
            f"{1e6 * s:10.1f} {s / self.seconds:6.1%} {calls:6}  {name:{wide}}  {place}".rstrip()
            for s, calls, name, place in rows
        ]
        title = f"{self.name}: {_time(self.seconds)} a call, {_time(self.undisturbed)} without clocks"
        return "\n".join([title, head, *lines])

    def _repr_html_(self) -> str:
        seconds, calls, names, places = zip(*self._rows(), strict=True)
        return html_table(
            f"{self.name}: {_time(self.seconds)} a call",
            {
                "us": [f"{1e6 * s:.1f}" for s in seconds],
                "share": [f"{s / self.seconds:.1%}" for s in seconds],
                "calls": calls,
                "operation": names,
                "line": places,
            },
            most=40,
        )

    def _rows(self):
        rows = [(o.seconds, o.calls, f"{o.name}{' (Python)' * (o.kind == 'python')}", o.place) for o in self.operations]
        return [*rows, (self.overhead, 1, "overhead", "")]

    def lines(self) -> dict[str, float]:
        """Seconds of one call by source line, the slowest first."""
        found: Counter[str] = Counter()
        for o in self.operations:
            found[o.source] += o.seconds  # type: ignore[assignment]
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def to_dataframe(self) -> Any:
        """Return the operations as a pandas DataFrame, the last row being the overhead."""
        rest = Operation("overhead", "python", "", "", 0, 1, self.overhead, np.nan, np.nan, np.nan, -1, "")
        rows = [*self.operations, rest]
        return dataframe({name: [getattr(o, name) for o in rows] for name in Operation._fields}, "rank")

    def plot(self, ax: Any = None, *, most: int = 12, **bars: Any) -> Any:
        """Draw the times of the slowest operations as bars.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            Axes to draw on; new ones by default.
        most : int, default 12
            Operations to show; the others and the overhead share the last two bars.
        **bars
            Options of Matplotlib's ``barh``.

        Returns
        -------
        matplotlib.axes.Axes
        """
        rows = [(o.name if len(o.name) < 28 else f"{o.name[:26]}…", o.seconds) for o in self.operations[:most]]
        if len(self.operations) > most:
            rest = self.operations[most:]
            rows.append((f"{len(rest)} others", sum(o.seconds for o in rest)))
        rows.append(("overhead", self.overhead))
        with plots.axes(ax, xlabel="time [µs]", ylabel="operation") as ax:
            ax.barh(range(len(rows)), [1e6 * s for _, s in rows], **{"color": plots.COLORS[0], "alpha": 0.6, **bars})
            ax.set_yticks(range(len(rows)), [name for name, _ in rows])
            ax.invert_yaxis()
        return ax


def profile(f: Callable[..., Any], *args: Any, seconds: float = 0.3, **kwargs: Any) -> OperationTimes:
    """Time each operation of a compiled function.

    The function is compiled a second time with a reading of the processor's clock after each of its steps, and both
    programs are called in turns. Lines of layers and optimizers count as sources.

    Parameters
    ----------
    f : callable
        A function under `jit`, or one that can be.
    *args, **kwargs
        Its arguments.
    seconds : float, default 0.3
        Time for which each of the two programs is called.

    Returns
    -------
    OperationTimes

    Raises
    ------
    TypeError
        If `f` is not a function, or its arguments are not those that `jit` takes.

    Notes
    -----
    A reading of the clock takes about 10 ns, which the operation pays that follows. Of the turns, the fastest of each
    program counts.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> @core.jit
    ... def step(w, x):
    ...     return w - 0.1 * x.T @ np.tanh(x @ w)
    >>> found = core.profile(step, np.ones((8, 2)), np.ones((100, 8)), seconds=0.01)
    >>> bool(np.isclose(sum(o.seconds for o in found.operations) + found.overhead, found.seconds))
    True
    """
    if not callable(f):
        raise TypeError(f"core.profile: expected a function, got {type(f).__name__} {f!r:.80}")
    check.positive(seconds, "core.profile: seconds")
    return timed(f, args, kwargs, seconds)[0]


def timed(
    f: Callable[..., Any], args: Any, kwargs: Any, seconds: float
) -> tuple[OperationTimes, list[tuple[Unit, Any]]]:
    """The operations with their times, and the steps that they are, by their place in the program."""
    given = f if isinstance(f, Jitted) else jit(f)
    with library_sources():
        function, flat = given.again().flat(args, kwargs)
    flat = [as_argument(a, s) for a, s in zip(flat, function.graph.in_specs, strict=True)]
    plain, timed = function.program.caller, Program(function.graph, watch := Stopwatch(), contract=function.contract)
    laps = watch.laps(timed.module)
    best, least, kept = np.inf, np.inf, None
    calls = max(1, int(seconds / _TURNS / max(min(_timed(plain, flat), _timed(plain, flat)), 1e-7)))
    for _ in range(_TURNS):
        best = min(best, _timed(plain, flat, calls))
        laps[:] = 0
        (tick, clock), spent = watch.ticks(timed.module), _timed(timed.caller, flat, calls)
        after, later = watch.ticks(timed.module)
        if spent < least:
            least, kept = spent, (laps * np.array([(later - clock) / max(after - tick, 1), 1.0]) / calls)
    return OperationTimes(function.graph.name, least, _operations(watch.slots, kept), best), watch.slots


def _timed(caller, flat, calls=1):
    """Seconds of one call."""
    start = time.perf_counter()
    for _ in range(calls):
        caller(*flat)
    return (time.perf_counter() - start) / calls


def _operations(slots, laps):
    """Operations of the slots. What a loop does between the steps of its body belongs to the loop."""
    owner = {
        body: k for k, (unit, step) in enumerate(slots) for body in unit.bodies.get(getattr(step, "eqn", None), ())
    }
    spent = laps.copy()
    for k, (unit, step) in enumerate(slots):
        if step is None and unit in owner:
            spent[owner[unit], 0] += laps[k, 0]
    found = []
    for order, ((unit, step), (seconds, calls)) in enumerate(zip(slots, spent, strict=True)):
        if step is not None:
            loop = slots[owner[unit]][1].eqn.primitive.name if unit in owner else ""
            found.append(_operation(unit, step)._replace(seconds=seconds, calls=round(calls), order=order, inside=loop))
    return found


def _operation(unit, step):
    """A step of the program whose time has not been measured yet."""
    if isinstance(step, Plan):
        size = sum(o.spec.nbytes for _, o in step.copies)
        return Operation(
            "copies of results", "copy", f"{len(step.copies)} results", "", 0, 0, 0.0, 0.0, 2.0 * size, 0.0, 0, ""
        )
    name, shape, source, lines = described(step)
    memory = float(unit.plan.alive[unit.steps.index(step)])
    if isinstance(step, (Group, RowBlocks)):
        kernels = _kernels(unit, step)
        return Operation(
            name,
            "loops",
            shape,
            source,
            lines,
            0,
            0.0,
            sum(k.flops for k in kernels),
            sum(k.bytes for k in kernels),
            memory,
            0,
            "",
        )
    eqn = step.eqn
    kind = "control" if eqn in unit.bodies else "python" if unit.fusion.kinds[eqn] == "call" else "native"
    flops, specs = eqn.primitive.flops, [a.spec for a in eqn.inputs]
    work = flops(specs, [o.spec for o in eqn.outputs], **eqn.params) if callable(flops) else np.nan
    size = sum(a.spec.nbytes for a in (*eqn.inputs, *eqn.outputs))
    return Operation(name, kind, shape, source, lines, 0, 0.0, float(work), float(size), memory, 0, "")


def described(step: Any) -> tuple[str, str, str, int]:
    """Primitives of a step of a program, its largest result, the line that asked for most of it, and how many did."""
    shape = str(max(values_of(step)[0], key=lambda v: v.spec.nbytes).spec)
    if not isinstance(step, (Group, RowBlocks)):
        return step.eqn.primitive.name, shape, str(step.eqn.source or ""), 1
    names, sources = Counter[str](), Counter[str]()
    for e in equations_of(step):
        cost = cost_of(e) * max(a.spec.size for a in (*e.inputs, *e.outputs))
        names[e.primitive.name] += cost  # type: ignore[assignment]
        sources[str(e.source or "")] += cost  # type: ignore[assignment]
    shown = ", ".join(name for name, _ in names.most_common(_NAMED))
    shown += f" + {len(names) - _NAMED}" if len(names) > _NAMED else ""
    return shown, shape, sources.most_common(1)[0][0], len(sources)


def _kernels(unit: Unit, step: Any) -> list[Any]:
    """The kernels of a step."""
    kernels = iter(unit.kernels)
    for other in unit.steps:
        if isinstance(other, (Group, RowBlocks)):
            found = [next(kernels) for _ in (other.groups if isinstance(other, RowBlocks) else [other])]
            if other is step:
                return found
    return []


def equations_of(step: Any) -> list[Equation]:
    """The equations of a step; none of copies."""
    if not isinstance(step, (Group, RowBlocks)):
        return [step.eqn] if hasattr(step, "eqn") else []
    return [e for g in (step.groups if isinstance(step, RowBlocks) else [step]) for e in _equations(g)]


def _equations(group: Group) -> list[Equation]:
    return [*group.formulas, *[r.eqn for r in group.roots if r.axes is not None and r.eqn not in group.formulas]]


def _time(seconds: float) -> str:
    return (
        f"{seconds:.3g} s"
        if seconds >= 1
        else f"{1e3 * seconds:.3g} ms"
        if seconds >= 1e-3
        else f"{1e6 * seconds:.3g} us"
    )
