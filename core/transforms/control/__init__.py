"""Loops and branches as operations, with their derivatives."""

__all__: list[str] = []
