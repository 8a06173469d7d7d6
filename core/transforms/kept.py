"""Plain arrays that a tape keeps until the backward pass: changed in place meanwhile, they would give wrong
derivatives.

Small ones are copied. Of large ones a fingerprint is kept, and a change between use and backward pass is an error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["check", "keep"]

SMALL = 1 << 14  # bytes; copying this much costs less than NumPy's call for an operation on it


def keep(a: np.ndarray) -> tuple[np.ndarray, Any]:
    """Return (the array or a copy, its fingerprint or None) to keep for a plain operand."""
    if not a.flags.writeable:
        return a, None
    return (a, fingerprint(a)) if a.nbytes > SMALL and a.dtype.char != "g" else (a.copy(), None)


def fingerprint(a: np.ndarray) -> tuple[int, ...]:
    """Sums of the bits of all elements, and of the upper bits of every second one (signs and exponents, which alone
    could
    cancel in the first): two passes at memory speed.
    """
    if a.dtype.kind == "c":
        return fingerprint(a.real) + fingerprint(a.imag)
    bits = a.view(f"u{a.itemsize}")
    half = bits[tuple([slice(None, None, 2)] * bits.ndim)] >> (4 * a.itemsize)
    return int(np.sum(bits, dtype=np.uint64)), int(np.sum(half, dtype=np.uint64))


def check(where: str, a: np.ndarray, mark: Any) -> None:
    """Raise a ValueError if `a` is not what it was when its fingerprint was taken."""
    if fingerprint(a) != mark:
        raise ValueError(
            f"{where}: an array of shape {a.shape} must stay as it is until the derivative is taken, "
            "got one that was changed in place after its use (work on a copy, or use core.jit)"
        )
