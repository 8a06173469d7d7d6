"""`rule_function`: a user's Python function, with the Python functions that it calls, for compiled callers."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

from triskele.core.extend import device

from .fingerprint import names_of, plain

__all__ = ["rule_function"]


def rule_function(function: Callable, **options: Any) -> Any:
    """Compile a user's function for compiled callers, with plain Python functions that it calls; `options` are those of
    `core.extend.device`, for all of them.

    >>> from triskele.core.extend import kernel
    >>> twice = lambda x: 2 * x
    >>> rule = rule_function(lambda x: twice(x) + 1)
    >>> int(kernel(lambda x: rule(x), cache=False)(3))
    7
    """
    return device(_with_helpers(plain(function), options, ()), **options)


def _with_helpers(function, options, callers):
    """A copy of the function that finds device functions in place of plain Python ones."""

    def compiled(value):
        if not isinstance(value, types.FunctionType) or value is function or value in callers:
            return value  # Numba compiles a function that calls itself
        return device(_with_helpers(value, options, (*callers, function)), **options)

    code, space = function.__code__, function.__globals__
    used = {name: space[name] for name in names_of(code) if name in space}
    helpers = {name: new for name, value in used.items() if (new := compiled(value)) is not value}
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    closed = [compiled(value) for value in cells]
    if not helpers and all(new is old for new, old in zip(closed, cells, strict=True)):
        return function
    copy = types.FunctionType(
        code,
        space | helpers,
        function.__name__,
        function.__defaults__,
        tuple(types.CellType(value) for value in closed),
    )
    copy.__kwdefaults__, copy.__module__, copy.__qualname__ = (
        function.__kwdefaults__,
        function.__module__,
        function.__qualname__,
    )
    return copy
