"""Families of cases; each module registers its own."""

from tests.benchmarks.quantum.cases import chemistry, circuits, gradients, noise  # noqa: F401
