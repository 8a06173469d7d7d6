"""Potentials, one to a file.

A file's function `example()` returns pairs of a list of potentials and the options of `testing.example_system` for
them; `testing` builds the systems and checks every potential.
"""
