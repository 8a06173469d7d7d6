"""Frames of XTC files, encoded and decoded: GROMACS's compression of coordinates, ``xdr3dfcoord``.

Coordinates become multiples of 1 / precision. An atom is a number in mixed radix, its offset from the lower corner of
the frame in three digits. Atoms close to the one before them follow as runs of at most eight small offsets, whose range
is an entry of a table, and goes up or down by one entry with the run. The first two atoms of a run change places, so
that the hydrogens of a water are both near the atom before. Bits are packed from the most significant on.

The algorithm is Frans van Hoesel's (Europort-D, 1995); constants are those of GROMACS's ``libxdrf``. All integers and
floats of a frame are big-endian.
"""

from __future__ import annotations

import struct

import numpy as np

from triskele.core.extend import device, kernel

__all__ = ["MOST_OF_HEAD", "decode_frame", "encode_frame", "frame_length"]

_FIRST, _LAST = 9, 72  # entries of the table of ranges that frames use
# Ranges of small offsets: entry k is about 2^(k/3), so that a triple takes k bits; `magicints` of libxdrf
_RANGES = np.array(
    [0] * 9
    + [8, 10, 12, 16, 20, 25, 32, 40, 50, 64, 80, 101, 128, 161, 203, 256, 322, 406, 512, 645, 812, 1024, 1290, 1625]
    + [2048, 2580, 3250, 4096, 5060, 6501, 8192, 10321, 13003, 16384, 20642, 26007, 32768, 41285, 52015, 65536, 82570]
    + [104031, 131072, 165140, 208063, 262144, 330280, 416127, 524287, 660561, 832255, 1048576, 1321122, 1664510]
    + [2097152, 2642245, 3329021, 4194304, 5284491, 6658042, 8388607, 10568983, 13316085, 16777216]
)
_MAGIC, _LARGE_MAGIC = 1995, 2023
_LARGE = 298_261_617  # atoms beyond which a frame begins with the second number, and its length has 64 bits
_UNCOMPRESSED = 9  # atoms up to which a frame holds plain float32
_LARGEST = 2**31 - 3  # multiple of 1 / precision that fits
_RUN = 8  # small offsets after one atom
_HEAD = struct.Struct(">3i10fi")  # magic number, atoms, step, time, box, atoms
MOST_OF_HEAD = 96  # bytes before the compressed atoms
_CORNERS = struct.Struct(">f7i")  # precision, lower and upper corner, entry of the table
_FINE, _TRUNCATED, _DAMAGED = 0, 1, 2


# -- bits --------------------------------------------------------------------------------------------------------------


@device
def _put(data, at, bits, value):
    """Write at most eight bits at bit `at` of zeros; return where they end."""
    word = value << (16 - bits - (at & 7))
    data[at >> 3] |= word >> 8
    data[(at >> 3) + 1] |= word & 255
    return at + bits


@device
def _get(data, at, bits):
    """Read at most eight bits at bit `at`."""
    word = (np.int64(data[at >> 3]) << 8) | np.int64(data[(at >> 3) + 1])
    return (word >> (16 - bits - (at & 7))) & ((1 << bits) - 1)


@device
def _put_one(data, at, bits, value):
    while bits > 8:
        at = _put(data, at, 8, (value >> (bits - 8)) & 255)
        bits -= 8
    return _put(data, at, bits, value & ((1 << bits) - 1))


@device
def _get_one(data, at, bits):
    value = 0
    while bits > 8:
        value = (value << 8) | _get(data, at, 8)
        at += 8
        bits -= 8
    return (value << bits) | _get(data, at, bits)


@device
def _put_three(data, at, bits, a, b, c, radix_b, radix_c):
    """Write (a radix_b + b) radix_c + c, which may have 72 bits, from its lowest byte on."""
    ab = a * radix_b + b
    low = (ab & 0xFFFFFFFF) * radix_c + c
    high = (ab >> 32) * radix_c + (low >> 32)
    word, k = low & 0xFFFFFFFF, 0
    while bits > 0:
        if k == 4:
            word = high
        at = _put(data, at, min(bits, 8), word & ((1 << min(bits, 8)) - 1))
        word >>= 8
        bits -= 8
        k += 1
    return at


@device
def _get_three(data, at, bits, radix_b, radix_c):
    """Read the three digits of a number of at most 72 bits."""
    low, high, k = 0, 0, 0
    while bits > 0:
        byte = _get(data, at, min(bits, 8))
        if k < 4:
            low |= byte << (8 * k)
        else:
            high |= byte << (8 * (k - 4))
        at += 8
        bits -= 8
        k += 1
    if high < 1 << 31:
        value = (high << 32) | low
        ab = value // radix_c
        c = value - ab * radix_c
    else:
        top = high // radix_c
        value = ((high - top * radix_c) << 32) | low
        quotient = value // radix_c
        c = value - quotient * radix_c
        ab = (top << 32) + quotient
    a = ab // radix_b
    return a, ab - a * radix_b, c


# -- atoms -------------------------------------------------------------------------------------------------------------


@device
def _near(xs, i, x, y, z, distance):
    return abs(xs[i, 0] - x) < distance and abs(xs[i, 1] - y) < distance and abs(xs[i, 2] - z) < distance


@device
def _wrapped(square):
    """A number as libxdrf has it, whose integers have 32 bits: the same bytes even where these overflow."""
    return ((square + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@kernel
def extent(xs, low, high):
    """Write the corners of atoms xs [n, 3]; return the least distance, by sums of differences, of two in succession."""
    nearest = np.int64(1) << 62
    for i in range(len(xs)):
        apart = 0
        for d in range(3):
            low[d], high[d] = min(low[d], xs[i, d]), max(high[d], xs[i, d])
            apart += abs(xs[i, d] - xs[i - 1, d])
        if i > 0:
            nearest = min(nearest, apart)
    return nearest


@kernel
def encode_atoms(xs, low, sizes, bits, entry, ranges, data):
    """Write the atoms xs [n, 3], which is overwritten, into zeros; return the number of bits.

    `bits` [4] has those of an atom, or 0 and those of its three coordinates.
    """
    n, at, i, run_before = len(xs), 0, 0, -1
    most = min(_LAST, entry + 8)
    x, y, z = 0, 0, 0
    offsets = np.empty((_RUN, 3), np.int64)
    while i < n:
        small, smaller = ranges[entry] // 2, ranges[entry - 1] // 2
        change = 0
        if entry < most and i >= 1 and _near(xs, i, x, y, z, ranges[most] // 2):
            change = 1
        elif entry > most - 8:
            change = -1
        follows = i + 1 < n and _near(xs, i + 1, xs[i, 0], xs[i, 1], xs[i, 2], small)
        if follows:
            for d in range(3):
                xs[i, d], xs[i + 1, d] = xs[i + 1, d], xs[i, d]
        elif change == -1:
            change = 0
        x, y, z = xs[i, 0], xs[i, 1], xs[i, 2]
        if bits[0] == 0:
            for d in range(3):
                at = _put_one(data, at, bits[d + 1], xs[i, d] - low[d])
        else:
            at = _put_three(data, at, bits[0], x - low[0], y - low[1], z - low[2], sizes[1], sizes[2])
        i += 1
        run = 0
        while follows and run < _RUN:
            dx, dy, dz = xs[i, 0] - x, xs[i, 1] - y, xs[i, 2] - z
            if change == -1 and _wrapped(dx * dx + dy * dy + dz * dz) >= _wrapped(smaller * smaller):
                change = 0
            offsets[run, 0], offsets[run, 1], offsets[run, 2] = dx + small, dy + small, dz + small
            x, y, z = xs[i, 0], xs[i, 1], xs[i, 2]
            run += 1
            i += 1
            follows = i < n and _near(xs, i, x, y, z, small)
        if run != run_before or change != 0:
            run_before = run
            at = _put(data, at, 6, 32 + 3 * run + change + 1)
        else:
            at = _put(data, at, 1, 0)
        for k in range(run):
            at = _put_three(data, at, entry, offsets[k, 0], offsets[k, 1], offsets[k, 2], ranges[entry], ranges[entry])
        entry += change
    return at


@kernel
def decode_atoms(data, end, low, sizes, bits, entry, ranges, xs):
    """Read the atoms xs [n, 3] from `end` bits, after which `data` has 16 bytes more; return a status."""
    n, at, i, run = len(xs), 0, 0, 0
    width = bits[0] if bits[0] else bits[1] + bits[2] + bits[3]
    while i < n:
        if at + width + 1 > end:
            return _TRUNCATED
        if bits[0] == 0:
            a = _get_one(data, at, bits[1])
            b = _get_one(data, at + bits[1], bits[2])
            c = _get_one(data, at + bits[1] + bits[2], bits[3])
        else:
            a, b, c = _get_three(data, at, bits[0], sizes[1], sizes[2])
        at += width
        if a >= sizes[0] or b >= sizes[1] or c >= sizes[2]:
            return _DAMAGED
        x, y, z = a + low[0], b + low[1], c + low[2]
        xs[i, 0], xs[i, 1], xs[i, 2] = x, y, z
        i += 1
        change = 0
        at += 1
        if _get(data, at - 1, 1):
            code = _get(data, at, 5)
            at += 5
            run, change = code // 3, code % 3 - 1
        if i + run > n:
            return _DAMAGED
        if at + run * entry > end:
            return _TRUNCATED
        radix = ranges[entry]
        for k in range(run):
            a, b, c = _get_three(data, at, entry, radix, radix)
            at += entry
            x, y, z = x + a - radix // 2, y + b - radix // 2, z + c - radix // 2
            if k == 0:  # in its place, before the atom that was written first
                for d in range(3):
                    xs[i, d] = xs[i - 1, d]
                xs[i - 1, 0], xs[i - 1, 1], xs[i - 1, 2] = x, y, z
            else:
                xs[i, 0], xs[i, 1], xs[i, 2] = x, y, z
            if not (0 <= x - low[0] < sizes[0] and 0 <= y - low[1] < sizes[1] and 0 <= z - low[2] < sizes[2]):
                return _DAMAGED
            i += 1
        entry += change
        if entry < _FIRST or entry > _LAST:
            return _DAMAGED
    return _FINE if end - at < 8 else _DAMAGED


def _widths(sizes):
    """Bits of an atom, or 0 where a coordinate has more than 24, and of its coordinates."""
    a, b, c = sizes.tolist()
    return np.array([0 if a | b | c > 0xFFFFFF else (a * b * c).bit_length(), *(s.bit_length() for s in (a, b, c))])


# -- frames ------------------------------------------------------------------------------------------------------------


def encode_frame(
    positions: np.ndarray,  # (n, 3), nm
    box: np.ndarray,  # (3, 3), nm; zeros for none
    step: int,
    time: float,  # ps
    precision: float = 1000.0,  # parts of a nm
) -> bytes:
    """Return a frame of an XTC file; raise ValueError for positions that do not fit."""
    x, n = np.ascontiguousarray(positions, np.float32), len(positions)
    large = n > _LARGE
    head = _HEAD.pack(_LARGE_MAGIC if large else _MAGIC, n, step, time, *np.ravel(box), n)
    if n <= _UNCOMPRESSED:
        return head + x.astype(">f4").tobytes()
    with np.errstate(all="ignore"):  # checked below
        rounded = ((x * np.float32(precision)).astype(np.float64) + np.where(x >= 0, 0.5, -0.5)).astype(np.float32)
    if not np.abs(rounded).max() <= _LARGEST:
        atom = int(np.argmin((np.abs(rounded) <= _LARGEST).all(1)))
        raise ValueError(
            f"XTC: positions must be finite and below {_LARGEST / precision:.0f} nm, got {positions[atom]} for atom "
            f"{atom} of the frame"
        )
    xs = rounded.astype(np.int64)
    low, high = xs[0].copy(), xs[0].copy()
    nearest = extent(xs, low, high)
    sizes = high - low + 1
    if sizes.max() > _LARGEST:
        raise ValueError(
            f"XTC: positions must span less than {_LARGEST / precision:.0f} nm, got {sizes.max() / precision:.0f} nm"
        )
    entry = int(min(max(np.searchsorted(_RANGES, nearest), _FIRST), _LAST))
    data = np.zeros(16 * n + 16, np.uint8)
    used = (encode_atoms(xs, low, sizes, _widths(sizes), entry, _RANGES, data) + 7) // 8
    corners = _CORNERS.pack(precision, *low.tolist(), *high.tolist(), entry)
    return head + corners + struct.pack(">q" if large else ">i", used) + data[: used + -used % 4].tobytes()


def frame_length(head: bytes) -> tuple[int, int]:
    """Return the bytes of the frame that begins with `head`, `MOST_OF_HEAD` bytes or all there are, and its atoms.

    Raise ValueError if no frame begins like this, EOFError if `head` is too short to tell.
    """
    if len(head) < _HEAD.size:
        raise EOFError
    magic, n, *_, again = _HEAD.unpack_from(head)
    if magic not in (_MAGIC, _LARGE_MAGIC):
        raise ValueError(f"must begin with {_MAGIC} or {_LARGE_MAGIC}, got {magic}")
    if n != again or n < 1:
        raise ValueError(f"must have one positive number of atoms, got {n} and {again}")
    if n <= _UNCOMPRESSED:
        return _HEAD.size + 12 * n, n
    form = ">i" if magic == _MAGIC else ">q"
    begin = _HEAD.size + _CORNERS.size
    if len(head) < begin + struct.calcsize(form):
        raise EOFError
    size = struct.unpack_from(form, head, begin)[0]
    if not n // 4 <= size <= 16 * n + 16:  # an atom takes 2 to 128 bits
        raise ValueError(f"cannot hold {n} atoms in {size} bytes")
    return begin + struct.calcsize(form) + size + -size % 4, n


def decode_frame(frame: bytes) -> tuple[np.ndarray, np.ndarray, float]:
    """Return positions (n, 3), box (3, 3) and time of a whole frame, in float32; raise ValueError if it is damaged."""
    length, n = frame_length(frame)
    _, _, _, time, *box, _ = _HEAD.unpack_from(frame)
    if n <= _UNCOMPRESSED:
        x = np.frombuffer(frame, ">f4", 3 * n, _HEAD.size).astype(np.float32)
        return x.reshape(n, 3), np.array(box, np.float32).reshape(3, 3), time
    precision, *corners, entry = _CORNERS.unpack_from(frame, _HEAD.size)
    low, high = np.array(corners).reshape(2, 3)
    sizes = high - low + 1
    if not (0 < precision < np.inf and sizes.min() >= 1 and _FIRST <= entry <= _LAST):
        raise ValueError(f"has a precision, corners or a range that no frame has ({precision:g}, {corners}, {entry})")
    form = ">q" if frame[:4] == struct.pack(">i", _LARGE_MAGIC) else ">i"
    begin = _HEAD.size + _CORNERS.size + struct.calcsize(form)
    used = struct.unpack_from(form, frame, begin - struct.calcsize(form))[0]
    data = np.zeros(used + 16, np.uint8)
    data[:used] = np.frombuffer(frame, np.uint8, used, begin)
    xs = np.empty((n, 3), np.int64)
    status = decode_atoms(data, 8 * used, low, sizes, _widths(sizes), entry, _RANGES, xs)
    if status != _FINE:
        if status == _TRUNCATED:
            raise ValueError("ends before its last atom")
        raise ValueError("has atoms that do not fit its corners or its length")
    x = xs.astype(np.float32) * (np.float32(1) / np.float32(precision))
    return x, np.array(box, np.float32).reshape(3, 3), time
