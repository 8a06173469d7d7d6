"""The safetensors format: named arrays in a file that holds no code, read without trust and written with a checksum.

A file is the length of its header (8 bytes), the header (JSON: type, shape and place of every array, and a dictionary
of strings), and the arrays, one behind the other without gaps. https://github.com/huggingface/safetensors
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from typing import Any

import numpy as np

from ..dtypes import is_bfloat16
from ..errors import FileFormatError
from ..imports import optional
from .files import atomic

__all__ = ["CHECKSUM", "read", "write"]

CHECKSUM = "triskele.sha256"  # of the whole file, with zeros in the place of this entry's value

_METADATA = "__metadata__"
_LONGEST_HEADER = 100_000_000  # bytes, as the format has it
_BLANK = "0" * 64
_CODES = {
    "BOOL": "?",
    "U8": "u1",
    "I8": "i1",
    "U16": "<u2",
    "I16": "<i2",
    "F16": "<f2",
    "U32": "<u4",
    "I32": "<i4",
    "F32": "<f4",
    "U64": "<u8",
    "I64": "<i8",
    "F64": "<f8",
    "C64": "<c8",
}
_BFLOAT16 = "BF16"
_NAMES = {np.dtype(code): name for name, code in _CODES.items()}


def write(path: str | os.PathLike, arrays: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write arrays and strings, all or nothing; raise TypeError for a dtype that the format has no name for."""
    header: dict[str, Any] = {_METADATA: {**metadata, CHECKSUM: _BLANK}}
    parts, end = [], 0
    for name in sorted(arrays, key=lambda n: (-arrays[n].itemsize, n)):  # so that all are aligned
        array = arrays[name]
        little = array.dtype if array.dtype.kind in "bV" else array.dtype.newbyteorder("<")
        code = _BFLOAT16 if is_bfloat16(little) else _NAMES.get(little)
        if code is None or name == _METADATA:
            raise TypeError(
                f"save: the array {name!r} must have one of the types {', '.join(map(str, _NAMES))}, "
                f"bfloat16, got {array.dtype}"
            )
        parts.append(np.ascontiguousarray(array, little).reshape(-1).view(np.uint8))
        header[name] = {"dtype": code, "shape": array.shape, "data_offsets": [end, end := end + array.nbytes]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    state = hashlib.sha256(text)
    for part in parts:
        state.update(part)
    checksum = f'"{CHECKSUM}":"%s"'
    text = text.replace((checksum % _BLANK).encode(), (checksum % state.hexdigest()).encode(), 1)
    with atomic(path) as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for part in parts:
            file.write(part.data)


def read(path: str | os.PathLike) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and strings of a file whose checksum, if it has one, fits; raise FileFormatError otherwise."""
    path = os.fspath(path)
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if length > min(_LONGEST_HEADER, size - 8):
            raise _error(
                path,
                f"the header must have at most {min(_LONGEST_HEADER, max(size - 8, 0))} bytes, got {length} "
                "(the file is cut off, or of another kind)",
            )
        text = file.read(length)
        entries, metadata = _parse(path, text)
        end = max((place[1] for _, _, place in entries.values()), default=0)
        if size != 8 + length + end:
            raise _error(
                path, f"must hold {8 + length + end} bytes, got {size} (it was cut off, or something was appended)"
            )
        checksum = metadata.get(CHECKSUM)
        state = None if checksum is None else hashlib.sha256(text.replace(checksum.encode(), _BLANK.encode(), 1))
        arrays = {}
        for name, (dtype, shape, _) in entries.items():
            try:
                array = np.empty(shape, dtype)
            except ValueError as error:  # an empty array with sides beyond what NumPy takes
                raise _error(path, f"the array {name!r} has a shape that cannot be: {error}") from error
            data = array.reshape(-1).view(np.uint8)
            if file.readinto(data) != data.size:
                raise _error(path, f"the array {name!r} is cut off")
            if state is not None:
                state.update(data)
            if dtype.kind == "b" and data.max(initial=0) > 1:
                raise _error(path, f"the array {name!r} must hold only true and false")
            arrays[name] = array
    if state is not None and state.hexdigest() != checksum:
        raise _error(path, "the checksum does not fit (the file is damaged)")
    return arrays, metadata


def _parse(path, text):
    """Type, shape and place of every array, in the order of the file, and the strings."""
    try:
        header = json.loads(text.decode())
        metadata = header.pop(_METADATA, {})
        entries = {name: _entry(entry) for name, entry in header.items()}
        entries = dict(sorted(entries.items(), key=lambda item: item[1][2]))
        begin = 0
        for name, (dtype, shape, place) in entries.items():
            if place != (begin, begin + dtype.itemsize * math.prod(shape)):
                raise ValueError(f"the place of the array {name!r} does not fit its shape and its neighbors")
            begin = place[1]
        if not all(isinstance(x, str) for item in metadata.items() for x in item):
            raise ValueError("the metadata must be strings")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError) as error:
        raise _error(path, f"the header cannot be read: {type(error).__name__} {error}") from error
    return entries, metadata


def _entry(entry):
    numbers = [*entry["shape"], *entry["data_offsets"]]
    if (
        not all(type(n) is int and 0 <= n < 2**63 for n in numbers)
        or len(entry["data_offsets"]) != 2
        or len(entry["shape"]) > 64
    ):
        raise ValueError(f"shape and place must be natural numbers, got {numbers}")
    code = entry["dtype"]
    dtype = optional.need("ml_dtypes", "load", "precision").bfloat16 if code == _BFLOAT16 else _CODES[code]
    return np.dtype(dtype), tuple(entry["shape"]), tuple(entry["data_offsets"])


def _error(path, reason):
    return FileFormatError(f"load: {os.fsdecode(path)!r}: {reason}")
