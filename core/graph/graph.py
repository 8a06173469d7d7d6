"""The intermediate representation: a `Graph` is a list of equations over variables and constants.

``Spec`` is what is known of a value before it exists. Graphs are in static single assignment form; control-flow
primitives carry their bodies as graphs in their parameters.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Const", "Equation", "Graph", "Source", "Spec", "Var", "spec_of"]

_ids = itertools.count()


class Spec(NamedTuple):
    """Shape and dtype of a value; `weak` marks Python numbers, which take part in NumPy's promotion as such.

    Parameters
    ----------
    shape : tuple of int
    dtype : numpy.dtype
    weak : bool, default False
        True for Python numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele import core
    >>> spec = core.Spec((3, 2), np.dtype(np.float32))
    >>> print(spec, spec.size, spec.nbytes)
    float32[3,2] 6 24
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    weak: bool = False

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self):
        return f"{self.dtype.name}[{','.join(map(str, self.shape))}]{'~' if self.weak else ''}"


_WEAK = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64), complex: np.dtype(np.complex128)}


def spec_of(value: Any) -> Spec:
    """The `Spec` of an array, NumPy scalar, Python number or Tensor."""
    t = type(value)
    if t in _WEAK:
        return Spec((), _WEAK[t], True)
    if t is np.ndarray:
        return Spec(value.shape, value.dtype)
    s = getattr(value, "spec", None)
    if type(s) is Spec:
        return s
    a = np.asarray(value)
    return Spec(a.shape, a.dtype)


class Var:
    """A value computed inside a graph."""

    __slots__ = ("spec", "id")

    def __init__(self, spec: Spec):
        self.spec = spec
        self.id = next(_ids)

    def __repr__(self):
        return f"v{self.id}"


class Const:
    """A value known when the graph was made: an ndarray, or a Python number (then its spec is weak).

    Examples
    --------
    >>> from triskele.core.extend import Const
    >>> Const(2.0).spec.weak
    True
    """

    __slots__ = ("spec", "value")

    def __init__(self, value: Any, spec: Spec | None = None):
        self.value: Any = value
        self.spec = spec or spec_of(value)

    def __repr__(self):
        return repr(self.value) if self.spec.size <= 4 else f"const {self.spec}"


class Source(NamedTuple):
    """The user's line that asked for an equation."""

    file: str
    line: int
    function: str
    indices: str = ""  # what to say of an index out of bounds: which indices, and what must hold for them

    def __str__(self):
        return f"{self.file}:{self.line} in {self.function}"


class Equation:
    """``outputs = primitive(*inputs, **params)``."""

    __slots__ = ("primitive", "inputs", "params", "outputs", "source")

    def __init__(self, primitive, inputs, params, outputs, source=None):
        self.primitive, self.inputs, self.params, self.outputs, self.source = primitive, inputs, params, outputs, source

    def __repr__(self):
        params = "".join(f" {k}={v!r}" for k, v in self.params.items() if not isinstance(v, Graph))
        outs = ", ".join(f"{o!r}:{o.spec}" for o in self.outputs)
        return f"{outs} = {self.primitive.name}[{params.strip()}] {' '.join(map(repr, self.inputs))}"


class Graph:
    """``inputs`` (Vars) -> ``outputs`` (Vars or Consts) through ``equations`` in order."""

    __slots__ = ("inputs", "equations", "outputs", "name", "_key")

    def __init__(self, inputs, equations, outputs, name="graph"):
        self.inputs, self.equations, self.outputs, self.name = list(inputs), list(equations), list(outputs), name
        self._key = None

    @property
    def in_specs(self) -> list[Spec]:
        return [v.spec for v in self.inputs]

    @property
    def out_specs(self) -> list[Spec]:
        return [v.spec for v in self.outputs]

    def __repr__(self):
        head = f"{self.name}({', '.join(f'{v!r}:{v.spec}' for v in self.inputs)})"
        return "\n  ".join([head, *map(repr, self.equations), "-> " + ", ".join(map(repr, self.outputs))])
