"""Checks of arguments, each with one wording: choices, types, shapes, integers, numbers, finite arrays, near names.

Messages read ``where must be ..., got ... (hint)``; `where` names the function and the argument, as in
``"run: steps"``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from .errors import TracerError

__all__ = ["choice", "finite", "integer", "kind", "near", "number", "positive", "renamed", "shape"]

_LISTED = 60  # options in a message
_WORDS: dict[Any, str] = {
    str: "a string",
    bool: "True or False",
    dict: "a dictionary",
    None: "None",
    Callable: "a function",
    Iterable: "an iterable",
    Mapping: "a mapping",
}


def choice(
    value: Any, options: Iterable[Any], where: str, *, error: type[Exception] = ValueError, hint: str = ""
) -> Any:
    """Return `value` if it is one of `options`, else raise `error`.

    >>> choice("geometrical", ["geometric", "linear"], "ladder: spacing")
    Traceback (most recent call last):
    ValueError: ladder: spacing must be 'geometric' or 'linear', got 'geometrical' (did you mean 'geometric'?)
    """
    known = (
        options
        if isinstance(options, dict)
        else dict.fromkeys(sorted(options, key=str) if isinstance(options, (set, frozenset)) else options)
    )
    try:
        found = value in known
    except TypeError:  # a list has no hash
        found = False
    if not found:
        texts = [*map(str, known)][:_LISTED] + [f"... ({len(known)} in all)"] * (len(known) > _LISTED)
        rule = _either(map(repr, known)) if 0 < len(known) < 4 else f"one of {', '.join(texts) or 'none'}"
        similar = near(value, [k for k in known if isinstance(k, str)]) if isinstance(value, str) else ""
        raise error(f"{where} must be {rule}, got {value!r:.80}{similar}{_in_brackets(hint)}")
    return value


def kind(
    value: Any, types: Any, where: str, what: str = "", *, error: type[Exception] = TypeError, hint: str = ""
) -> Any:
    """Return `value` if it is an instance of `types`, else raise `error`.

    `types` is a class, or a tuple of classes and None; `what` words them where their names do not say enough.

    >>> kind("protein.pdb", Mapping, "Variables: variables", hint="names to collective variables")
    Traceback (most recent call last):
    TypeError: Variables: variables must be a mapping, got str 'protein.pdb' (names to collective variables)
    """
    types = types if isinstance(types, tuple) else (types,)
    accepted = tuple(type(None) if t is None else t for t in types) + (np.bool_,) * (bool in types)
    if not isinstance(value, accepted):
        raise error(
            f"{where} must be {what or _either(map(_words, types))}, got {_given(value, accepted)}{_in_brackets(hint)}"
        )
    return value


def shape(
    array: Any,
    expected: tuple[Any, ...] | list[tuple[Any, ...]],
    where: str,
    *,
    error: type[Exception] = ValueError,
    hint: str = "",
) -> Any:
    """Return `array` if it has the shape `expected`, or one of a list of shapes, else raise `error`.

    A string in place of a length names an axis of any length, and axes of the same name must be equally long. An
    ellipsis in front stands for any axes.

    >>> shape(np.zeros((4, 2)), ("n", 3), "run: positions")
    Traceback (most recent call last):
    ValueError: run: positions must have shape (n, 3), got (4, 2)
    """
    got = np.shape(array)
    shapes = expected if isinstance(expected, list) else [expected]
    if not any(_fits(got, one) for one in shapes):
        texts = [", ".join("..." if axis is ... else str(axis) for axis in one) for one in shapes]
        rule = " or ".join(f"({text}{',' * (len(one) == 1)})" for text, one in zip(texts, shapes))
        raise error(f"{where} must have shape {rule}, got {got}{_in_brackets(hint)}")
    return array


def integer(
    value: Any,
    where: str,
    low: int | None = None,
    high: int | None = None,
    *,
    error: type[Exception] = ValueError,
    hint: str = "",
) -> int:
    """Return `value` as an int if it is an integer from `low` to `high` (a bool is not), else raise `error`.

    >>> integer(0.5, "run: steps", 0, hint="not picoseconds")
    Traceback (most recent call last):
    ValueError: run: steps must be an integer >= 0, got 0.5 (not picoseconds)
    """
    try:
        found = None if isinstance(value, (bool, np.bool_)) else operator.index(value)
    except TracerError:
        raise
    except TypeError:
        found = None
    if found is None or (low is not None and found < low) or (high is not None and found > high):
        raise error(_message(where, "an integer", low, high, value, hint=hint))
    return found


def number(
    value: Any,
    where: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    unit: str = "",
    error: type[Exception] = ValueError,
) -> float:
    """Return `value` as a float if it is a finite number from `low` to `high` (a bool is not), else raise `error`.

    >>> number(-1, "NVT: temperature", 0, unit="K")
    Traceback (most recent call last):
    ValueError: NVT: temperature must be a number >= 0 (K), got -1
    """
    found = _real(value)
    if not (low <= found <= high and abs(found) < math.inf):
        bounded = low > -math.inf or high < math.inf
        raise error(_message(where, "a number" if bounded else "a finite number", low, high, value, unit=unit))
    return found


def positive(value: Any, where: str, unit: str = "", *, error: type[Exception] = ValueError) -> float:
    """Return `value` as a float if it is a positive, finite number (a bool is not), else raise `error`.

    >>> positive(-0.9, "nonbonded: cutoff", "nm")
    Traceback (most recent call last):
    ValueError: nonbonded: cutoff must be a positive number (nm), got -0.9
    """
    found = _real(value)
    if not 0 < found < math.inf:
        raise error(_message(where, "a positive number", None, None, value, unit=unit))
    return found


def finite(values: Any, where: str, *, error: type[Exception] = ValueError) -> np.ndarray:
    """Return `values` as an array if all of them are finite, else raise `error` at the first that is not.

    >>> finite([1.0, float("nan")], "target: values")
    Traceback (most recent call last):
    ValueError: target: values must be finite, got nan at 1
    """
    values = np.asarray(values)
    good = np.isfinite(values)
    if not good.all():
        at = np.unravel_index(int(np.argmin(good)), values.shape)
        place = ", ".join(str(int(k)) for k in at)
        raise error(f"{where} must be finite, got {values[at]}" + (f" at {place}" if place else ""))
    return values


def near(name: object, known: Iterable[str], *, listing: bool = False) -> str:
    """Return a hint at known names that resemble the unknown `name`, to end a message; with `listing`, list all names.

    >>> near("Steps", ["step", "time"]), near("Steps", ["time"])
    (" (did you mean 'step'?)", '')
    >>> near("seed", ["step", "time"], listing=True)
    ' (known: step, time)'
    """
    from difflib import get_close_matches  # late: only errors need it

    known = list(known)
    names = {k.lower(): k for k in known}
    close = [repr(names[k]) for k in get_close_matches(str(name).lower(), names, 3)]
    parts = [f"did you mean {' or '.join(close)}?"] if close else []
    if listing:
        parts.append(f"known: {', '.join(known) or 'none'}")
    return f" ({' '.join(parts)})" if parts else ""


def renamed(given: Iterable[str], where: str, **names: str) -> None:
    """Raise TypeError if `given` holds a name from another library; `names` maps those to the names here.

    >>> renamed({"lr": 0.1}, "Adam", lr="learning_rate")
    Traceback (most recent call last):
    TypeError: Adam: unknown argument lr (use learning_rate)
    """
    for name in given:
        if name in names:
            raise TypeError(f"{where}: unknown argument {name} (use {names[name]})")


def _either(texts):
    """Join texts as ``a, b or c``."""
    *most, last = texts
    return f"{', '.join(most)} or {last}" if most else last


def _words(one):
    """A class as messages name it, with its article."""
    return _WORDS.get(one) or f"{'an' if one.__name__[0] in 'AEIOUaeio' else 'a'} {one.__name__}"


def _given(value, accepted):
    """A value of another kind as messages name it: its type, and what it is if its repr says that in words."""
    if isinstance(value, type):
        made = f" (make one: {value.__name__}(...))" if issubclass(value, accepted) else ""
        return f"the class {value.__name__}{made}"
    name, text = type(value).__name__, f"{' '.join(repr(value).split()):.80}"
    return "None" if value is None else name if text[0] == "<" else text if text.startswith(name) else f"{name} {text}"


def _fits(got, expected):
    lengths: dict[str, int] = {}
    if expected[:1] == (...,):
        expected = expected[1:]
        got = got[max(len(got) - len(expected), 0) :]
    return len(got) == len(expected) and all(
        n == (lengths.setdefault(axis, n) if isinstance(axis, str) else axis) for n, axis in zip(got, expected)
    )


def _in_brackets(hint):
    return f" ({hint})" if hint else ""


def _real(value):
    """`value` as a float, NaN if it is not a real number."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        return math.nan
    try:
        return float(value)
    except TracerError:
        raise
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _message(where, kind, low, high, value, *, unit="", hint=""):
    above, below = low not in (None, -math.inf), high not in (None, math.inf)
    if above and below:
        kind += f" from {_bound(low)} to {_bound(high)}"
    elif above or below:
        kind += f" >= {_bound(low)}" if above else f" <= {_bound(high)}"
    return f"{where} must be {kind}{_in_brackets(unit)}, got {value!r}{_in_brackets(hint)}"


def _bound(n):
    """Large limits of machine integers as powers of two."""
    if isinstance(n, int) and n >= 2**31 - 1 and n & (n + 1) == 0:
        return f"2**{n.bit_length()} - 1"
    return f"{n}" if isinstance(n, int) else f"{n:g}"
