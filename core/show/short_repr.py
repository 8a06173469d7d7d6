"""`short_repr`: dataclasses of arrays whose representation says the shapes, and not the numbers."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

import numpy as np

from .. import tree
from ..dtypes import kind_of

__all__ = ["brief", "short_repr"]

C = TypeVar("C", bound=type)
_LONG = 60  # characters of one value
_SHOWN = 4  # numbers of an array that are shown as they are


def short_repr(cls: C) -> C:
    """Decorate a dataclass or named tuple: `repr` shows arrays by dtype and shape, and other long values in one word.

    Examples
    --------
    >>> import dataclasses
    >>> import numpy as np
    >>> from triskele.core.extend import short_repr
    >>> @short_repr
    ... @dataclasses.dataclass
    ... class Profile:
    ...     x: np.ndarray
    ...     temperature: float
    >>> Profile(np.zeros(36), 300.0)
    Profile(x=float64[36], temperature=300.0)
    """

    def __repr__(self: Any) -> str:
        names = self._fields if isinstance(self, tuple) else [f.name for f in dataclasses.fields(self) if f.repr]
        return f"{type(self).__name__}({', '.join(f'{name}={brief(getattr(self, name))}' for name in names)})"

    cls.__repr__ = __repr__  # type: ignore[assignment]
    return cls


def brief(value: Any) -> str:
    """Describe a value in a few words.

    >>> brief([np.zeros((3, 4)), np.zeros(9)]), brief(np.float32(1.5)), brief(np.tanh), brief(list(range(100)))
    ('(float64[3, 4], float64[9])', '1.5', 'tanh', '100 values')
    """
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        if value.shape == ():
            return str(value)
        short = isinstance(value, np.ndarray) and value.ndim == 1 and value.size <= _SHOWN
        if short and kind_of(value.dtype) in "biuf":
            return np.array2string(value, precision=4, separator=", ")
        return f"{'str' if value.dtype.kind == 'U' else value.dtype}{list(value.shape)}"
    if callable(value) and hasattr(value, "__name__"):
        return value.__name__
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        shown = repr(value)
        return shown if len(shown) <= _LONG else f"{type(value).__name__}({_numbers(value)})"
    if isinstance(value, (list, tuple)):
        shown = f"({', '.join(map(brief, value))}{',' * (len(value) == 1)})" if len(value) <= 8 else ""
        return shown if 0 < len(shown) <= 2 * _LONG else f"{len(value)} values"
    if isinstance(value, dict):
        shown = f"{{{', '.join(f'{k}: {brief(v)}' for k, v in value.items())}}}" if len(value) <= 8 else ""
        return shown if 0 < len(shown) <= _LONG else f"{len(value)} entries"
    shown = repr(value)
    return shown if len(shown) <= _LONG else f"{shown[:_LONG]}..."


def _numbers(value):
    return f"{sum(np.size(leaf) for leaf in tree.leaves(value)):,} numbers"
