"""Sources of arrays, tables and Python generators."""

from __future__ import annotations

import csv as csv_format
import dataclasses
import importlib.util
import inspect
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from .. import check, tree
from ..errors import DataError
from ..foreign import as_plain
from ..imports.optional import need
from .block import Block, map_in_order
from .columns import as_column, checked_columns, exact
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
        values = map_in_order(lambda a: np.asarray(a[positions]), self.values)
        return Block(values, positions, np.full(len(positions), epoch, np.int64), True)

    def held(self) -> Any:
        if any(isinstance(a, np.memmap) or a.dtype.kind not in "biufc" for a in tree.leaves(self.values)):
            return None
        return self.values, lambda values, positions: map_in_order(lambda a: a[positions], values)

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


def csv(
    path: str | os.PathLike[str],
    columns: Sequence[str] | None = None,
    *,
    types: dict[str, Any] | None = None,
    delimiter: str = ",",
) -> Source:
    """Make a source of the rows of a CSV file with a header; samples are dictionaries.

    The file is read into memory, several times faster if pyarrow is installed. A column has the first of the types
    int64, uint64, float64, bool and str that fits all its values. Empty fields and NA, N/A, NULL, null, NaN and nan are
    NaN in columns of floats. Whole numbers keep their digits: a column of them is text if they are beyond 64 bits, or
    beyond 2**53 where fields are missing.

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
        If a column is missing, two columns to read have one name, a row has another number of fields, or a value does
        not fit the type that is given.

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
    name, where = os.fsdecode(path), f"csv: {os.fsdecode(path)!r}"
    with open(path, newline="", encoding="utf-8-sig") as file:
        header = next(csv_format.reader(file, delimiter=delimiter), None)
    if not header:
        raise DataError(f"{where} must begin with the names of the columns, got an empty file")
    wanted = checked_columns(columns, header, where)
    checked_columns(list(types or ()), header, where)
    texts = _arrow_texts(path, wanted, delimiter) or _texts(path, header, delimiter, where)
    return Arrays({c: as_column(texts[c], (types or {}).get(c), f"{where} column {c!r}") for c in wanted}, name, 1)


def _arrow_texts(path, wanted, delimiter):
    """The columns by name, read by pyarrow; None where it is not installed, and of files that it does not read."""
    if importlib.util.find_spec("pyarrow") is None:
        return None
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    try:
        table = arrow_csv.read_csv(
            os.fspath(path),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, newlines_in_values=True),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=wanted, column_types=dict.fromkeys(wanted, pa.string())
            ),
        )
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        return None
    return {c: table[c] for c in wanted} if table.num_rows else None


def _texts(path, header, delimiter, where):
    """The columns by name; DataError where rows are not as long as the header."""
    rows = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv_format.reader(file, delimiter=delimiter)
        next(reader)
        for row in reader:
            if len(row) != len(header) and row:
                raise DataError(f"{where} line {reader.line_num} must have {len(header)} fields, got {len(row)}")
            if row:
                rows.append(row)
    if not rows:
        raise DataError(f"{where} must have at least one row, got only a header")
    return dict(zip(header, zip(*rows, strict=True), strict=True))


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
        If a column is missing, or two columns to read have one name.

    Examples
    --------
    >>> from triskele.core import data
    >>> table = data.parquet("customers.parquet", ["age", "income"])  # doctest: +SKIP
    """
    format_ = need("pyarrow.parquet", "parquet", "data")
    name = os.fsdecode(path)
    with format_.ParquetFile(path) as file:
        wanted = checked_columns(columns, file.schema_arrow.names, f"parquet: {name!r}")
        table = file.read(columns=wanted)
    if table.num_rows == 0:
        raise DataError(f"parquet: {name!r} must have at least one row, got none")
    found = {c: table[c].to_numpy() for c in wanted}
    for c, a in found.items():
        if str(table[c].type) in ("int64", "uint64") and a.dtype.kind == "f" and not exact(a):
            found[c] = table[c].cast("string").to_numpy()  # whose digits a float64 does not hold
    texts = {
        c: np.array(["" if v is None else v for v in a])
        for c, a in found.items()
        if a.dtype == object and all(v is None or isinstance(v, str) for v in a)
    }
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
                raise DataError(
                    f"generator: `{getattr(self.make, '__name__', type(self.make).__name__)}` failed at "
                    f"sample {k}: {type(error).__name__}: {error}"
                ) from error
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
    check.kind(
        make,
        Callable,
        "generator: make",
        "a function that returns an iterable",
        hint="pass the function, not its result",
    )
    return Generator(make)
