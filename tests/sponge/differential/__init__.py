"""Differential tests of the readers: random and real inputs, read by us and by OpenMM, compared term by term.

Each module here with a function ``case(seed, folder)`` is a source of inputs; ``python -m tests.sponge.differential``
runs them all. `compare` holds the comparison.
"""
