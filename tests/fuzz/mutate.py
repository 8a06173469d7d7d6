"""Damage done to files: what disks, transfers, editors and people with bad intentions do to them."""

import re

import numpy as np

_NUMBER = re.compile(rb"-?\d+\.?\d*(?:[eEdD][-+]?\d+)?")
_WORD = re.compile(rb"[A-Za-z_]{2,}")
_NUMBERS = (
    b"0",
    b"-1",
    b"1",
    b"7",
    b"99999",
    b"2147483647",
    b"2147483648",
    b"-2147483649",
    b"4294967297",
    b"9223372036854775807",
    b"9223372036854775808",
    b"1e308",
    b"1e999",
    b"-1e999",
    b"nan",
    b"inf",
    b"1e-320",
    b"0.5",
    b"9" * 400,
    b"9" * 5000,
    b"0x10",
    b"1_000",
    b"--1",
    b"",
    b" ",
    b"*****",
)
_TEXTS = (
    b"",
    b"\0",
    b"\xff\xfe",
    b"\xc3",
    "\N{SNOWMAN}".encode(),
    b"%s%n",
    b"'",
    b'"',
    b"\\",
    b"\n",
    b"\r\n",
    b"\t",
    b"#",
    b"{}",
    b"[]",
    b"<",
    b"&",
    b"]]>",
    b"A" * 3000,
    b"(" * 3000,
    b"[" * 3000,
    b"{" * 3000,
    b"-" * 3000,
    b"<a>" * 3000,
    b"null",
    b"true",
    b"None",
    b"..",
    b"/",
    b"__import__('os').abort()",
)


def mutate(data: bytes, others: list[bytes], rng: np.random.Generator) -> bytes:
    """The data with one to four kinds of damage."""
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        data = KINDS[rng.integers(len(KINDS))](data, others, rng)
    return data


def _span(data, rng, most=64):
    start = int(rng.integers(len(data) + 1))
    return start, min(len(data), start + int(rng.integers(1, most)))


def flip(data, others, rng):
    out = bytearray(data)
    for _ in range(int(rng.integers(1, 4)) if out else 0):
        out[rng.integers(len(out))] ^= 1 << int(rng.integers(8))
    return bytes(out)


def replace(data, others, rng):
    a, b = _span(data, rng, 9)
    return data[:a] + rng.bytes(b - a) + data[b:]


def truncate(data, others, rng):
    return data[: rng.integers(len(data) + 1)]


def delete(data, others, rng):
    a, b = _span(data, rng)
    return data[:a] + data[b:]


def repeat(data, others, rng):
    a, b = _span(data, rng)
    return data[:b] + data[a:b] * int(rng.choice([1, 2, 100])) + data[b:]


def zero(data, others, rng):
    a, b = _span(data, rng)
    return data[:a] + (b"\0" if rng.integers(2) else b"\xff") * (b - a) + data[b:]


def integer(data, others, rng):
    """A binary number of another size."""
    width = int(rng.choice([1, 2, 4, 8]))
    value = (
        int(
            rng.choice(
                [
                    0,
                    1,
                    -1,
                    2 ** (8 * width - 1) - 1,
                    -(2 ** (8 * width - 1)),
                    int(rng.integers(-300, 300)) % 2 ** (8 * width - 1),
                ],
                shuffle=False,
            )
        )
        if width < 8
        else -1
    )
    at = int(rng.integers(max(len(data) - width, 0) + 1))
    return data[:at] + (value % 2 ** (8 * width)).to_bytes(width, rng.choice(["little", "big"])) + data[at + width :]


def number(data, others, rng):
    return _exchange(_NUMBER, _NUMBERS, data, rng)


def word(data, others, rng):
    """A word by another of the file, or by something else."""
    words = [m.group() for m in _WORD.finditer(data[:20000])]
    return _exchange(_WORD, (*_TEXTS[:4], words[rng.integers(len(words))] if words else b"x"), data, rng)


def _exchange(pattern, by, data, rng):
    found = list(pattern.finditer(data))
    if not found:
        return data
    m = found[rng.integers(len(found))]
    return data[: m.start()] + by[rng.integers(len(by))] + data[m.end() :]


def insert(data, others, rng):
    at = int(rng.integers(len(data) + 1))
    return data[:at] + _TEXTS[rng.integers(len(_TEXTS))] + data[at:]


def lines(data, others, rng):
    """A line that is missing, doubled, moved, or cut short."""
    rows = data.split(b"\n")
    a, b = (int(k) for k in rng.integers(len(rows), size=2))
    kind = rng.integers(4)
    if kind == 0:
        del rows[a]
    elif kind == 1:
        rows.insert(a, rows[b])
    elif kind == 2:
        rows[a], rows[b] = rows[b], rows[a]
    else:
        rows[a] = rows[a][: rng.integers(len(rows[a]) + 1)]
    return b"\n".join(rows)


def splice(data, others, rng):
    """The beginning of one file and the end of another."""
    other = others[rng.integers(len(others))]
    return data[: rng.integers(len(data) + 1)] + other[rng.integers(len(other) + 1) :]


KINDS = (flip, replace, truncate, delete, repeat, zero, integer, number, number, word, insert, lines, splice)
