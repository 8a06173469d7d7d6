"""Sources of arrays, tables and Python generators."""

from __future__ import annotations

import csv as csv_format
import dataclasses
import inspect
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import tree
from ..check import near
from ..errors import DataError
from ..foreign import as_plain
from ..optional import need
from .block import Block
from .pipeline import Source

__all__ = ["Arrays", "arrays", "csv", "generator", "memory_map", "parquet"]


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Arrays(Source):
    """See `arrays`."""

    values: Any
    name: str
    lines: int | None = None  # line of the file that sample 0 stands in

    def count(self) -> int:
        return len(tree.leaves(self.values)[0])

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        values = tree.map(lambda a: np.asarray(a[positions]), self.values)
        return Block(values, positions, np.full(len(positions), epoch, np.int64), True)

    def held(self) -> Any:
        if any(isinstance(a, np.memmap) or a.dtype.kind not in "biufc" for a in tree.leaves(self.values)):
            return None
        return self.values, lambda values, positions: tree.map(lambda a: a[positions], values)

    def describe(self, index: int) -> str | None:
        return None if self.lines is None else f"{self.name} row {self.lines + index}"

    def __repr__(self) -> str:
        return f"{self.name if self.lines is None else 'table'}({self.count()})"


def arrays(*values: Any) -> Source:
    """Make a source of arrays whose leading axes count the samples.

    Parameters
    ----------
    *values : array_like, or dicts and tuples of these
        Several arguments make samples that are tuples. One argument makes samples of its own form: an array or a
        dictionary, say. Memory maps are read sample by sample.

    Returns
    -------
    Source

    Raises
    ------
    ValueError
        If the arrays differ in length, or are empty.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.core import data
    >>> next(iter(data.arrays(np.zeros((4, 2)), np.arange(4))))
    (array([0., 0.]), np.int64(0))
    """
    if not values:
        raise TypeError("arrays: must be given at least one array")
    whole = _as_arrays(values[0] if len(values) == 1 else values)
    leaves = tree.leaves(whole)
    shapes = [a.shape for a in leaves]
    if not leaves or any(s == () for s in shapes) or len({s[0] for s in shapes}) != 1:
        raise ValueError(f"arrays: all arrays must have the same number of samples along axis 0, got shapes {shapes}")
    if shapes[0][0] == 0:
        raise ValueError(f"arrays: must have at least one sample, got shapes {shapes}")
    return Arrays(whole, "arrays")


def _as_arrays(value):
    """The tree with arrays as leaves; a list is one array."""
    if isinstance(value, dict):
        return {k: _as_arrays(v) for k, v in value.items()}
    if isinstance(value, tuple):
        found = [_as_arrays(v) for v in value]
        return type(value)(*found) if hasattr(value, "_fields") else tuple(found)
    return value if isinstance(value, np.ndarray) else np.asarray(as_plain(value, "arrays"))


# -- memory maps -------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class MemoryMap(Source):
    """See `memory_map`."""

    paths: Any

    def __repr__(self) -> str:
        return f"memory_map({self.count()})"

    @cached_property
    def _opened(self):
        return arrays(tree.map(lambda p: np.load(p, mmap_mode="r"), self.paths))

    def count(self) -> int | None:
        return self._opened.count()

    def rows(self, positions: np.ndarray, epoch: int) -> Block:
        return self._opened.rows(positions, epoch)

    def describe(self, index: int) -> str:
        return ", ".join(f"{p} row {index}" for p in tree.leaves(self.paths))


def memory_map(*paths: Any) -> Source:
    """Make a source of arrays in ``.npy`` files, which are read sample by sample and may be larger than memory.

    Parameters
    ----------
    *paths : path-like, or trees of these
        As the arguments of `arrays`. The leading axis of each array counts the samples.

    Returns
    -------
    Source

    Raises
    ------
    FileNotFoundError
    ValueError
        If a file is not an array, or the arrays differ in length.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from triskele.core import data
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npy")
    >>> np.save(path, np.arange(6.0).reshape(3, 2))
    >>> next(iter(data.memory_map(path)))
    array([0., 1.])
    """
    whole = tree.map(lambda p: os.fsdecode(p), paths[0] if len(paths) == 1 else paths)
    for path in tree.leaves(whole):
        try:
            np.load(path, mmap_mode="r")
        except (ValueError, EOFError) as error:
            raise ValueError(f"memory_map: {path!r} must be an array in the .npy format, got {error}") from error
    source = MemoryMap(whole)
    source.count()  # raises if the lengths differ
    return source


# -- tables ------------------------------------------------------------------------------------------------------------


def csv(path: str | os.PathLike[str], columns: Sequence[str] | None = None, *, types: dict[str, Any] | None = None,
        delimiter: str = ",") -> Source:
    """Make a source of the rows of a CSV file with a header; samples are dictionaries.

    The file is read into memory. A column has the first of the types int64, float64 and str that fits all its values;
    empty fields are NaN in columns of floats.

    Parameters
    ----------
    path : path-like
    columns : sequence of str, optional
        Columns to read. By default all.
    types : dict from str to dtype, optional
        Types of columns, which are then not inferred.
    delimiter : str, default ","

    Returns
    -------
    Source

    Raises
    ------
    DataError
        If a column is missing, a row has another number of fields, or a value does not fit the type that is given.

    Examples
    --------
    >>> import os, tempfile
    >>> from pathlib import Path
    >>> from triskele.core import data
    >>> path = Path(tempfile.mkdtemp()) / "t.csv"
    >>> _ = path.write_text("age,name\\n31,Ada\\n42,Max\\n")
    >>> next(iter(data.csv(path)))
    {'age': np.int64(31), 'name': np.str_('Ada')}
    """
    name = os.fsdecode(path)
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv_format.reader(file, delimiter=delimiter)
        header = next(reader, None)
        if not header:
            raise DataError(f"csv: {name!r} must begin with the names of the columns, got an empty file")
        rows = []
        for row in reader:
            if len(row) != len(header) and row:
                raise DataError(f"csv: {name!r} line {reader.line_num} must have {len(header)} fields, got {len(row)}")
            if row:
                rows.append(row)
    if not rows:
        raise DataError(f"csv: {name!r} must have at least one row, got only a header")
    wanted = list(header if columns is None else columns)
    known = dict(zip(header, zip(*rows, strict=True), strict=True))
    for column in [*wanted, *(types or ())]:
        if column not in known:
            raise DataError(f"csv: {name!r} has no column {column!r}{near(column, header, listing=True)}")
    found = {c: _column(known[c], (types or {}).get(c), f"csv: {name!r} column {c!r}") for c in wanted}
    return Arrays(found, name, 1)


def _column(values, kind, where):
    if kind is None:
        for kind in (np.int64, np.float64):
            try:
                return _converted(values, kind)
            except (ValueError, OverflowError):
                pass
        return np.array(values)
    try:
        return _converted(values, np.dtype(kind))
    except (ValueError, OverflowError, TypeError):
        for k, value in enumerate(values):
            try:
                _converted([value], np.dtype(kind))
            except (ValueError, OverflowError, TypeError):
                raise DataError(f"{where} must be {np.dtype(kind)}, got {value!r} in row {k + 1}") from None
        raise


def _converted(values, kind):
    kind = np.dtype(kind)
    if kind.kind in "iu":
        return np.array([int(v) for v in values], kind)
    if kind.kind == "f":
        return np.array([float(v) if v.strip() else np.nan for v in values], kind)
    if kind.kind == "b":
        known = {"true": True, "false": False, "1": True, "0": False}
        if any(v.strip().lower() not in known for v in values):
            raise ValueError("not a truth value")
        return np.array([known[v.strip().lower()] for v in values])
    return np.array(values, kind)


def parquet(path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> Source:
    """Make a source of the rows of a Parquet file, read into memory by pyarrow; samples are dictionaries.

    Parameters
    ----------
    path : path-like
    columns : sequence of str, optional
        Columns to read. By default all.

    Returns
    -------
    Source

    Raises
    ------
    ImportError
        If pyarrow is not installed.
    DataError
        If a column is missing.

    Examples
    --------
    >>> from triskele.core import data
    >>> table = data.parquet("customers.parquet", ["age", "income"])  # doctest: +SKIP
    """
    format_ = need("pyarrow.parquet", "parquet", "data")
    name = os.fsdecode(path)
    with format_.ParquetFile(path) as file:
        header = file.schema_arrow.names
        for column in columns or ():
            if column not in header:
                raise DataError(f"parquet: {name!r} has no column {column!r}{near(column, header, listing=True)}")
        table = file.read(columns=None if columns is None else list(columns))
    if table.num_rows == 0:
        raise DataError(f"parquet: {name!r} must have at least one row, got none")
    found = {c: table[c].to_numpy() for c in table.column_names}
    texts = {c: np.array(["" if v is None else v for v in a]) for c, a in found.items()
             if a.dtype == object and all(v is None or isinstance(v, str) for v in a)}
    return Arrays({**found, **texts}, name, 0)


# -- generators --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, repr=False, eq=False)
class Generator(Source):
    """See `generator`."""

    make: Callable[..., Any]

    @property
    def indexed(self) -> bool:
        return False

    def count(self) -> None:
        return None

    def __repr__(self) -> str:
        return f"generator({getattr(self.make, '__name__', type(self.make).__name__)})"

    def elements(self, epoch: int, state: Any) -> Iterator[tuple[Any, int, int, Any]]:
        begin = 0 if state is None else int(state)
        made = self.make(epoch) if "epoch" in inspect.signature(self.make).parameters else self.make()
        samples = itertools.islice(made, begin, None)
        for k in itertools.count(begin):
            try:
                value = next(samples)
            except StopIteration:
                return
            except Exception as error:
                raise DataError(f"generator: `{getattr(self.make, '__name__', type(self.make).__name__)}` failed at "
                                f"sample {k}: {type(error).__name__}: {error}") from error
            yield value, k, epoch, k + 1


def generator(make: Callable[..., Any]) -> Source:
    """Make a source of a Python generator, or of any function that returns an iterable.

    The function is called at the beginning of each epoch and must yield the same samples each time. A position is
    restored by skipping samples.

    Parameters
    ----------
    make : callable
        Called without arguments, or with the number of the epoch if it has a parameter `epoch`.

    Returns
    -------
    Source

    Raises
    ------
    TypeError
        If `make` cannot be called.

    Examples
    --------
    >>> from triskele.core import data
    >>> def squares():
    ...     for k in range(4):
    ...         yield k * k
    >>> list(data.generator(squares).batch(2))
    [array([0, 1]), array([4, 9])]
    """
    if not callable(make):
        raise TypeError(f"generator: must be given a function that returns an iterable, got {make!r} (pass the "
                        "function, not its result)")
    return Generator(make)
