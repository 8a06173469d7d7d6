"""Kernels of attention."""

__all__: list[str] = []
