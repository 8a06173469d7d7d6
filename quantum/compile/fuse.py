"""Merging of ops."""

from __future__ import annotations

from triskele.quantum.compile.ops import Builder

__all__ = ["fuse"]


def fuse(builder: Builder) -> None:
    """Merge ops of a table where that saves work."""
