"""Bits of masks in compiled code."""

from triskele.core.extend import device

__all__ = ["top"]


@device
def top(x):
    """The highest set bit."""
    while x & (x - 1):
        x &= x - 1
    return x
