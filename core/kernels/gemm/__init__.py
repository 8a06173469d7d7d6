"""Kernels of matrix products."""

__all__: list[str] = []
