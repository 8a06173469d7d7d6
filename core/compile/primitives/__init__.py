"""Primitives with machine code of their own: one file per family, found by itself."""

__all__: list[str] = []
