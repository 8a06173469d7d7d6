"""Types of the columns of a table, which are read as text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import check
from ..errors import DataError

__all__ = ["as_column", "checked_columns", "exact"]

_MISSING = frozenset(["", "#N/A", "N/A", "NA", "NULL", "NaN", "n/a", "nan", "null"])
_TRUTH = {"True": True, "true": True, "TRUE": True, "False": False, "false": False, "FALSE": False}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?(?i:nan|inf|infinity)")
_EXACT = 2**53  # whole numbers up to here are float64


def checked_columns(columns: Sequence[str] | None, header: Sequence[str], where: str) -> list[str]:
    """The columns to read: those asked for, or all. DataError if one is missing, or two of them have one name."""
    wanted = list(header if columns is None else columns)
    for column in wanted:
        check.choice(column, header, f"{where}: column", error=DataError)
        if (count := list(header).count(column)) > 1:
            raise DataError(f"{where}: columns to read must have names of their own, got {count} columns {column!r}")
    return wanted


def as_column(texts: Any, kind: Any, where: str) -> np.ndarray:
    """Return a column of texts (str, or a pyarrow ChunkedArray) with the dtype `kind`, or the first type that fits."""
    values = texts
    if not isinstance(texts, Sequence):
        if kind is None and (found := _cast(texts)) is not None:
            return found
        values = texts.to_pylist()
    if kind is None:
        return _inferred(values)
    kind = np.dtype(kind)
    try:
        return _converted(values, kind)
    except (ValueError, OverflowError, TypeError):
        for k, value in enumerate(values):
            try:
                _converted([value], kind)
            except (ValueError, OverflowError, TypeError):
                raise DataError(f"{where} must be {kind}, got {value!r} in row {k + 1}") from None
        raise


def exact(numbers: np.ndarray) -> bool:
    """Return True if float64 surely holds the whole numbers that were converted to these; NaN stands for no number."""
    return not np.any(np.abs(numbers) >= _EXACT)


def _cast(texts):
    """What `_inferred` gives for columns of plain numbers, by pyarrow; None for others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pc.any(pc.match_substring_regex(texts, r"[xX]|^\s*\+")).as_py():  # 0x10 is whole for pyarrow alone, +1 is not
        return None
    missing = pc.is_in(texts, pa.array(sorted(_MISSING)))
    if pc.any(missing).as_py():
        texts = pc.if_else(missing, pa.scalar(None, pa.string()), texts)
    else:
        try:
            return pc.cast(texts, pa.int64()).to_numpy()
        except pa.ArrowInvalid:
            pass
    try:
        found = pc.cast(texts, pa.float64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    return np.array(found) if exact(found) else None


def _inferred(values):
    """int64, uint64, float64, bool or str, the first one that fits."""
    texts = [v.strip() for v in values]
    present = [t for t in texts if t not in _MISSING]
    if all(map(_WHOLE.fullmatch, present)):
        numbers = [int(t) for t in present]
        low, high = min(numbers, default=0), max(numbers, default=0)
        if len(present) == len(texts):
            for kind in (np.int64, np.uint64):
                if np.iinfo(kind).min <= low and high <= np.iinfo(kind).max:
                    return np.array(numbers, kind)
        if low < -_EXACT or high > _EXACT:
            return np.array(values)
    if all(map(_NUMBER.fullmatch, present)):
        return _converted(values, np.dtype(np.float64))
    if all(t in _TRUTH for t in texts):
        return np.array([_TRUTH[t] for t in texts])
    return np.array(values)


def _converted(values, kind):
    if kind.kind not in "iufb":
        return np.array(values, kind)
    texts = [v.strip() for v in values]
    if kind.kind == "b":
        known = {"true": True, "false": False, "1": True, "0": False}
        if any(t.lower() not in known for t in texts):
            raise ValueError("not a truth value")
        return np.array([known[t.lower()] for t in texts])
    form, number = (_NUMBER, float) if kind.kind == "f" else (_WHOLE, int)
    if kind.kind == "f":
        texts = ["nan" if t in _MISSING else t for t in texts]
    if not all(map(form.fullmatch, texts)):
        raise ValueError("not a number")
    return np.array([number(t) for t in texts], kind)
