"""Ordinary differential equations: adaptive methods, one file each, and the integrator that runs them."""

__all__: list[str] = []
