"""Compressed files from anyone: unpacked up to a limit, with one error for whatever is wrong with them.

A small file can unpack to more than any memory holds. Files of numbers and text shrink to a tenth, seldom to a
hundredth.
"""

from __future__ import annotations

import ast
import gzip
import io
import math
import zipfile
import zlib
from typing import Any

import numpy as np

from .errors import FileFormatError

__all__ = ["gunzip", "read_npz"]

_ALWAYS = 256 << 20  # bytes that any file may unpack to
_RATIO = 200  # how many times its size a larger one may
_CHUNK = 1 << 20
_HEADER = 1 << 16  # bytes that may describe an array


def gunzip(data: bytes, where: Any) -> bytes:
    """Unpack gzipped data.

    Parameters
    ----------
    data : bytes
    where : str or path
        Source of the data, for error messages.

    Raises
    ------
    FileFormatError
        If the data are damaged, or unpack to more than 256 MiB and 200 times their size.
    """
    limit, parts, size = max(_ALWAYS, _RATIO * len(data)), [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while part := file.read(_CHUNK):
                parts.append(part)
                size += len(part)
                if size > limit:
                    raise FileFormatError(f"{where}: must unpack to at most {limit} bytes, got more")
    except (EOFError, OSError, zlib.error) as error:
        raise FileFormatError(f"{where}: must be a whole gzip file, got {error}") from error
    return b"".join(parts)


def read_npz(data: Any, where: Any) -> dict[str, np.ndarray]:
    """Arrays of a NumPy archive: numbers, booleans, texts and records, no objects.

    Parameters
    ----------
    data : bytes or buffer
    where : str or path
        Source of the data, for error messages.

    Raises
    ------
    FileFormatError
        If the archive is damaged, holds something else than arrays, or unpacks to more than 256 MiB and 200 times its
        size.
    """
    limit = max(_ALWAYS, _RATIO * len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            size = sum(entry.file_size for entry in entries)
            if size > limit:
                raise ValueError(f"must unpack to at most {limit} bytes, got {size}")
            if len({entry.filename for entry in entries}) != len(entries):
                raise ValueError("two arrays have one name")
            return {entry.filename.removesuffix(".npy"): _array(archive, entry) for entry in entries}
    except (ValueError, TypeError, KeyError, EOFError, SyntaxError, NotImplementedError, RuntimeError, OverflowError,
            MemoryError,
            zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(
            f"{where}: must be a whole archive of arrays, got {type(error).__name__}: {error}"
        ) from error


def _array(archive, entry):
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename} must be stored or deflated")
    with archive.open(entry) as file:
        version = np.lib.format.read_magic(file)
        length = int.from_bytes(file.read(2 if version == (1, 0) else 4), "little")
        if version[0] > 3 or length > _HEADER:
            raise ValueError(f"{entry.filename} must be described in {_HEADER} bytes, got {length}")
        head = ast.literal_eval(file.read(length).decode())
        shape, dtype = head["shape"], np.lib.format.descr_to_dtype(head["descr"])
        if dtype.hasobject or not (isinstance(shape, tuple) and all(type(side) is int and side >= 0 for side in shape)):
            raise ValueError(f"{entry.filename} must be an array of numbers, got shape {shape} and type {dtype}")
        data = file.read()
        if len(data) != math.prod(shape) * dtype.itemsize:
            raise ValueError(
                f"{entry.filename} must hold an array of shape {shape} and type {dtype}, got {len(data)} bytes"
            )
        if dtype.itemsize == 0 or dtype.kind == "b" and max(data, default=0) > 1:
            raise ValueError(f"{entry.filename} must hold values of type {dtype}, got others")
    return np.frombuffer(bytearray(data), dtype).reshape(shape, order="F" if head["fortran_order"] else "C")
