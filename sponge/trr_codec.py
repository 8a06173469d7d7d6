"""Frames of TRR files, encoded and decoded: GROMACS's full-precision positions, velocities and forces in XDR.

A frame is a head with the number of bytes of each of its parts, which may be absent, and then these parts. Layout and
names are those of GROMACS's ``trrio.cpp``. All integers and floats are big-endian; floats have 4 bytes or 8.
"""

from __future__ import annotations

import struct

import numpy as np

__all__ = ["MOST_OF_HEAD", "decode_frame", "encode_frame", "frame_length", "same_layout"]

_MAGIC, _VERSION = 1993, b"GMX_trn_file"
_HEAD = struct.Struct(">3i12s13i")  # magic number, length of the version with its 0 and without, version, sizes
_PARTS = 10  # sizes of: input, energies, box, virial, pressure, topology, symbols, positions, velocities, forces
_BOX, _VIRIAL, _PRESSURE, _X, _V, _F = 2, 3, 4, 7, 8, 9
MOST_OF_HEAD = _HEAD.size + 16  # time and lambda follow the sizes


def encode_frame(
    positions: np.ndarray,  # (n, 3), nm
    box: np.ndarray | None,  # (3, 3), nm
    step: int,
    time: float,  # ps
    velocities: np.ndarray | None = None,  # (n, 3), nm/ps
) -> bytes:
    """Return a frame of a TRR file in single precision."""
    parts = {_BOX: box, _X: positions, _V: velocities}
    data = [b"" if parts.get(k) is None else np.asarray(parts[k], ">f4").tobytes() for k in range(_PARTS)]
    head = _HEAD.pack(_MAGIC, 13, 12, _VERSION, *map(len, data), len(positions), step, 0)
    return head + struct.pack(">2f", time, 0.0) + b"".join(data)


def frame_length(head: bytes) -> tuple[int, int]:
    """Return the bytes of the frame that begins with `head`, `MOST_OF_HEAD` bytes or all there are, and its atoms.

    A frame without positions has no atoms. Raise ValueError if no frame begins like this, EOFError if `head` is too
    short to tell.
    """
    if len(head) < _HEAD.size:
        raise EOFError
    magic, _, length, version, *sizes, n, _, _ = _HEAD.unpack_from(head)
    if (magic, length, version) != (_MAGIC, 12, _VERSION):
        raise ValueError(f"must begin with {_MAGIC} and {_VERSION.decode()}, got {magic} and {version!r}")
    width = _width(sizes, n)
    if width not in (4, 8) or any(size not in (0, width * count) for size, count in zip(sizes, _counts(n))):
        raise ValueError(f"must have parts of one precision for a positive number of atoms, got {sizes} bytes for {n}")
    return _HEAD.size + 2 * width + sum(sizes), n if sizes[_X] else 0


def same_layout(head: bytes, other: bytes) -> bool:
    """Return True if two frames begin alike: with the same parts, precision and number of atoms."""
    return head[: _HEAD.size - 8] == other[: _HEAD.size - 8]  # step and a number that nobody uses follow


def decode_frame(frame: bytes) -> tuple[np.ndarray, np.ndarray | None, float]:
    """Return positions (n, 3), box (3, 3) or None, and time of a whole frame, in the precision of the file."""
    *sizes, n, _, _ = _HEAD.unpack_from(frame)[4:]
    kind, begin = f">f{_width(sizes, n)}", np.cumsum([_HEAD.size + 2 * _width(sizes, n), *sizes])
    box = np.frombuffer(frame, kind, 9, begin[_BOX]).reshape(3, 3) if sizes[_BOX] else None
    x = np.frombuffer(frame, kind, 3 * n, begin[_X]).reshape(n, 3)
    return x, box, float(np.frombuffer(frame, kind, 1, _HEAD.size)[0])


def _counts(n):
    """Numbers in each part if it is there; GROMACS leaves some parts without any."""
    return (0, 0, 9, 9, 9, 0, 0, 3 * n, 3 * n, 3 * n)


def _width(sizes, n):
    """Bytes of a number; 0 if no part tells."""
    return next((size // count for size, count in zip(sizes, _counts(n)) if size > 0 and count > 0), 0)
