"""`core.elementwise`: a Python function of scalars becomes a function of arrays that is differentiated and fused."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from functools import cached_property, partial, update_wrapper
from typing import Any

import numpy as np

from ..by_name import ByName
from ..graph.graph import Const, Graph, Spec, spec_of
from ..graph.primitive import PRIMITIVES
from ..graph.trace import bind, evaluate
from ..ops import define
from ..tensor import Tensor
from .control.body import runner
from .forward import jvp
from .scalar import over_numpy, scalar_graph
from .vmap import vmap

__all__ = ["Elementwise", "elementwise"]


class Elementwise(ByName):
    """A function of scalars applied to arrays with broadcasting. Made by `elementwise`.

    Attributes
    ----------
    names : tuple of str
        The arguments.
    numba : callable
        The function for use inside code compiled by Numba, on scalars of any floating-point type.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from triskele.core.extend import elementwise
    >>> @elementwise
    ... def bump(x, width):
    ...     return math.exp(-((x / width) ** 2))
    >>> bump.names
    ('x', 'width')
    >>> bump(np.array([0.0, 1.0]), 1.0).round(4)
    array([1.    , 0.3679])
    """

    def __init__(self, function: Callable, names: Sequence[str], signature: inspect.Signature | None = None):
        self.function, self.names = function, tuple(names)
        self._signature = signature
        self._overrides: dict[int, Elementwise] = {}
        self._partials: dict[tuple[int, ...], Elementwise] = {}
        self._graphs: dict[Any, Graph] = {}
        self._plans: dict[Graph, tuple[bool, str | None, Callable]] = {}  # by graph: how it is applied to arrays
        self._primitive: Any = None
        self.kept: dict[Any, Any] = {}  # derived forms of the function, until it is read again
        self.read: bytes | None = None  # for them to know what it read when they did so
        update_wrapper(self, function)

    def __repr__(self):
        return f"<elementwise {self.__name__}({', '.join(self.names)})>"

    @property
    def _where(self):
        return f"elementwise {self.__name__}"

    # -- application ---------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if kwargs or len(args) != len(self.names):
            args = self._bind(args, kwargs)
        args = [define.as_value(a) for a in args]
        if self._overrides:
            return bind(self._overridden(), *args)
        return self._apply(*args)

    def _bind(self, args, kwargs):
        signature = self._signature or inspect.Signature(
            [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD) for n in self.names]
        )
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self._where}: {error}, got {len(args)} positional and {sorted(kwargs)}") from None
        bound.apply_defaults()
        return [bound.arguments[n] for n in self.names]

    def _apply(self, *args):
        """The function itself on arrays or Tensors, its own derivative rules left out."""
        graph = self._scalar_graph([spec_of(a) for a in args])
        shape = define.broadcast_shapes(self.__name__, *[np.shape(a) for a in args])
        if graph not in self._plans:
            elementwise_only = all(e.primitive.kind == "elementwise" for e in graph.equations)
            # both branches are evaluated
            quiet = "ignore" if any(e.primitive.name == "select" for e in graph.equations) else None
            self._plans[graph] = elementwise_only, quiet, runner(graph)
        elementwise_only, quiet, run = self._plans[graph]
        if elementwise_only:
            with np.errstate(all=quiet):
                (out,) = evaluate(graph, *args) if any(isinstance(a, Tensor) for a in args) else run(*args)
        elif shape == ():
            (out,) = evaluate(graph, *args)
        else:
            flat = [np.reshape(np.broadcast_to(a, shape), (-1,)) for a in args]
            out = np.reshape(vmap(lambda *xs: evaluate(graph, *xs)[0])(*flat), shape)
        if np.shape(out) != shape:
            dtype = graph.outputs[0].spec.dtype
            out = np.broadcast_to(out if not isinstance(out, (float, int, complex)) else np.asarray(out, dtype), shape)
            out = np.array(out) if isinstance(out, np.ndarray) else out
        return out

    def forget(self) -> None:
        """Read the function again when it is next called, with the values that it has captured and its globals as they
        are then.
        """
        self._graphs, self._partials, self._plans, self._primitive, self.kept = {}, {}, {}, None, {}
        for name in ("_converted", "numba"):
            self.__dict__.pop(name, None)

    @property
    def overrides(self) -> dict[int, Elementwise]:
        """The partial derivatives given by hand, by the number of the argument."""
        return dict(self._overrides)

    def _scalar_graph(self, specs: Sequence[Spec], inline: bool = False) -> Graph:
        key = (inline, *[(s.dtype, s.weak) for s in specs])
        if key not in self._graphs:
            self._graphs[key] = scalar_graph(
                self._converted, [s._replace(shape=()) for s in specs], self._where, inline
            )
        return self._graphs[key]

    @cached_property
    def _converted(self):
        return over_numpy(self.function)

    def _overridden(self):
        """The primitive that knows the derivatives given by hand; named by content, since compiled code is kept by
        name.
        """
        if self._primitive is None:
            graph = self.graph()
            digest = hashlib.blake2b(canonical(graph).encode(), digest_size=8).hexdigest()
            name = f"{self.__module__}.{self.__qualname__}:{digest}"
            PRIMITIVES.pop(name, None)
            n = len(self.names)
            public = define.elementwise(
                name,
                impl=self._apply,
                loop=self._loop,
                emit=self._emit,
                doc=self.__doc__,
                flops=len(graph.equations),
                d=[lambda out, *args, i=i: self._partial((i,))(*args) for i in range(n)],
            )
            self._primitive = public.primitive
            self._primitive.scalar = self._converted
        return self._primitive

    def _loop(self, *specs):
        graph = self._scalar_graph(specs, inline=True)
        return *[s.dtype for s in specs], graph.outputs[0].spec.dtype

    def _emit(self, b, *values):
        graph = self._scalar_graph([Spec((), v.dtype) for v in values], inline=True)
        env = dict(zip(graph.inputs, values, strict=True))

        def read(atom, dtype):
            return b.const(atom.value, dtype) if type(atom) is Const else b.cast(env[atom], dtype)

        for eqn in graph.equations:
            p = eqn.primitive
            dtypes = p.loop(*[a.spec for a in eqn.inputs], **eqn.params)  # of the inputs, then of the output
            args = [read(a, d) for a, d in zip(eqn.inputs, dtypes, strict=False)]
            emit = getattr(b, p.emit) if isinstance(p.emit, str) else partial(p.emit, b)
            env[eqn.outputs[0]] = emit(*args, **eqn.params)
        out = graph.outputs[0]
        return read(out, out.spec.dtype)

    # -- derivatives ---------------------------------------------------------------------------------------------------

    def _index(self, name: str) -> int:
        if name not in self.names:
            raise ValueError(f"{self._where}: the argument must be one of {', '.join(self.names)}, got {name!r}")
        return self.names.index(name)

    def derivative(self, name: str) -> Callable[[Callable], Elementwise]:
        """Decorator: override the partial derivative with respect to the argument `name`.

        The decorated function takes the same arguments and is elementwise itself, so that higher orders follow from it.

        Examples
        --------
        >>> import math
        >>> from triskele.core.extend import elementwise
        >>> @elementwise
        ... def soft(x):
        ...     return math.log1p(math.exp(x))
        >>> @soft.derivative("x")
        ... def _(x):
        ...     return 1 / (1 + math.exp(-x))
        """
        i = self._index(name)

        def register(rule):
            d = rule if isinstance(rule, Elementwise) else elementwise(rule)
            if len(d.names) != len(self.names):
                raise TypeError(
                    f"{self._where}: a derivative must take the same {len(self.names)} arguments, got {len(d.names)}"
                )
            self._overrides[i] = d
            self._partials.clear()
            self._primitive = None
            return d

        return register

    def partial(self, *names: str) -> Elementwise:
        """The partial derivative with respect to the arguments `names`, one after the other, as an elementwise
        function.

        Examples
        --------
        >>> from triskele.core.extend import elementwise
        >>> @elementwise
        ... def cube(x):
        ...     return x**3
        >>> float(cube.partial("x", "x")(2.0))
        12.0
        """
        return self._partial(tuple(self._index(n) for n in names))

    def _partial(self, path: tuple[int, ...]) -> Elementwise:
        if not path:
            return self
        if path not in self._partials:
            *first, last = path
            base = self._partial(tuple(first))
            self._partials[path] = base._overrides[last] if last in base._overrides else _derivative(base, last)
        return self._partials[path]

    # -- forms for other compilers
    # ----------------------------------------------------------------------------------------

    def graph(self, dtype: Any = float) -> Graph:
        """The function as a straight-line graph of scalars, everything it calls opened.

        Parameters
        ----------
        dtype : dtype, or sequence of them
            Dtype of all arguments, or one for each.
        """
        dtypes = dtype if isinstance(dtype, (tuple, list)) else [dtype] * len(self.names)
        return self._scalar_graph([Spec((), np.dtype(d)) for d in dtypes], inline=True)

    @cached_property
    def numba(self):
        from .scalar_numba import device_function

        return device_function(self)


def _derivative(base: Elementwise, i: int) -> Elementwise:
    def derivative(*args):
        one = np.ones((), np.result_type(args[i]))[()]
        return jvp(lambda x: base._apply(*args[:i], x, *args[i + 1 :]), (args[i],), (one,))[1]

    derivative.__name__ = derivative.__qualname__ = f"{base.__name__}_{base.names[i]}"
    derivative.__module__ = base.__module__
    derivative.__doc__ = f"Partial derivative of {base.__name__} with respect to {base.names[i]}."
    return Elementwise(derivative, base.names, base._signature)


def canonical(graph: Graph) -> str:
    """A text that is equal for equal graphs, whichever variables they use."""
    number = {v: f"x{i}" for i, v in enumerate(graph.inputs)}
    for eqn in graph.equations:
        for out in eqn.outputs:
            number[out] = f"v{len(number)}"

    def show(atom):
        return f"{atom.value!r}:{atom.spec}" if type(atom) is Const else f"{number[atom]}:{atom.spec}"

    lines = [
        f"{show(e.outputs[0])}={e.primitive.name}{sorted(e.params.items())!r}({','.join(map(show, e.inputs))})"
        for e in graph.equations
    ]
    return "\n".join([",".join(map(show, graph.inputs)), *lines, ",".join(map(show, graph.outputs))])


def elementwise(function: Callable) -> Elementwise:
    """Turn a Python function of scalars into a function of arrays, differentiable to any order and fused under `jit`.

    Parameters
    ----------
    function : callable
        Takes scalars, returns one. It may use ``math`` or NumPy, arithmetic, comparisons, ``if``, ``and``/``or``, other
        elementwise functions and plain Python functions. Branches are evaluated on both sides and selected, as by
        ``np.where``. Its globals are read when it is first called.

    Returns
    -------
    Elementwise
        Broadcasts its arguments; keeps name, documentation, keywords and defaults. ``derivative`` overrides a partial
        derivative, ``partial`` returns one, ``graph`` is the function as a graph, ``numba`` its form for compiled code.

    Raises
    ------
    TypeError
        If the function has ``*args`` or keyword-only arguments; when called, if it does not return one scalar.
    TracerError
        When called, if a loop depends on a value.

    Examples
    --------
    >>> import numpy as np
    >>> import math
    >>> from triskele.core import elementwise
    >>> @elementwise
    ... def morse(r, depth, width, r0):
    ...     return depth * (1 - math.exp(-width * (r - r0))) ** 2
    >>> morse(np.array([1.0, 2.0]), 5.0, 1.0, r0=1.0)
    array([0.      , 1.997882])
    """
    if not callable(function):
        raise TypeError(f"elementwise: expected a function, got {type(function).__name__}")
    plain = getattr(function, "py_func", function)
    signature = inspect.signature(plain)
    for p in signature.parameters.values():
        if p.kind not in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD):
            raise TypeError(
                f"elementwise {plain.__name__}: arguments must be plain ones, got {p} (no *args, **kwargs or "
                "keyword-only)"
            )
    return Elementwise(plain, list(signature.parameters), signature)
