"""Variables in the operators of converted functions: whether Python can decide on a value, and trees of
arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ... import tree
from ...graph.graph import Const, Spec
from ...graph.trace import user_source
from ...tensor import Tensor
from ..control.body import concrete, leaf_names

__all__ = ["NUMBERS", "Undefined", "Variables", "known", "place_of", "read", "same", "truth", "user_line", "zero_of"]

NUMBERS = (np.ndarray, np.generic, bool, int, float, complex)


class Undefined:
    """Stands for a variable without a value: any use of it is an error that says why."""

    __slots__ = ("why",)

    def __init__(self, why: str):
        self.why = why

    def _fail(self, *args, **kwargs):
        raise UnboundLocalError(self.why)

    def __repr__(self):
        return f"<undefined: {self.why}>"

    __getattr__ = __call__ = __bool__ = __iter__ = __len__ = __getitem__ = __setitem__ = __eq__ = __ne__ = __hash__ = (
        _fail
    )
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __pow__ = __rpow__ = (
        _fail
    )
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __matmul__ = __rmatmul__ = __and__ = __or__ = __xor__ = _fail
    __neg__ = __pos__ = __abs__ = __invert__ = __lt__ = __le__ = __gt__ = __ge__ = __float__ = __int__ = __index__ = (
        _fail
    )
    __array__ = __array_ufunc__ = __array_function__ = _fail


def read(get: Callable[[], Any]) -> Any:
    """The value of a variable, or an `Undefined`."""
    try:
        return get()
    except (NameError, AttributeError) as error:
        return Undefined(str(error))


def place_of(line: int) -> str:
    """``file:line`` of the statement at hand."""
    source = user_source()
    return f"{source.file}:{line}" if source else f"line {line}"


def known(x: Any) -> tuple[bool, Any]:
    """(whether Python can decide on `x`, what to decide on)."""
    if not isinstance(x, Tensor):
        return True, x
    value = concrete(x)
    return value is not None, value


def user_line() -> int:
    """Return the number of the user's line that is running."""
    source = user_source()
    return source.line if source is not None else 0


def truth(x: Tensor, what: str, line: int) -> Any:
    """A traced condition as a boolean scalar, as Python's ``bool()`` would take it."""
    if x.size != 1:
        raise TypeError(
            f"{what}: the condition must have one element, got {x.spec}, at {place_of(line)} (use .any() or .all(), or "
            f"np.where to choose element by element)"
        )
    x = np.reshape(x, ()) if x.shape else x
    return x if x.dtype.kind == "b" else np.not_equal(x, 0)


class Variables:
    """Values of variables taken apart into arrays, which are traced, and everything else, which must not change."""

    def __init__(self, names: Sequence[str], values: Sequence[Any], numbers: bool = True):
        self.names, self.values = names, values
        self.leaves: list[Any] = []
        self.dynamic: list[bool] = []
        self.leaf_names: list[str] = []
        self.structures = []
        for n, v in zip(names, values, strict=True):
            flat, structure = ([v], None) if isinstance(v, Undefined) else tree.flatten(v)
            self.structures.append(structure)
            self.leaves += flat
            self.leaf_names += [n] if structure is None else leaf_names(v, n)
        kinds = (Tensor, *NUMBERS) if numbers else (Tensor, np.ndarray)
        self.dynamic = [isinstance(x, kinds) for x in self.leaves]

    @property
    def arrays(self) -> list[Any]:
        return [x for x, d in zip(self.leaves, self.dynamic, strict=True) if d]

    def rebuild(self, arrays: Sequence[Any]) -> list[Any]:
        """The variables' values with other arrays."""
        it = iter(arrays)
        leaves = iter([next(it) if d else x for x, d in zip(self.leaves, self.dynamic, strict=True)])
        return [next(leaves) if s is None else tree.unflatten(s, leaves) for s in self.structures]


def same(a: Any, b: Any) -> bool:
    """Return True if two values of a variable are known to be the same: one object, or equal numbers or strings."""
    if a is b:
        return True
    return type(a) is type(b) and isinstance(a, (str, bytes, *NUMBERS)) and not isinstance(a, np.ndarray) and a == b


def zero_of(spec: Spec) -> Const:
    """A zero of the kind a `Spec` tells."""
    return Const(spec.dtype.type(0).item() if spec.weak else np.zeros(spec.shape, spec.dtype), spec)
