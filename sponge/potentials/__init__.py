"""Potentials, one to a file.

A file's function `example()` returns systems by which `testing` checks what the file defines.
"""
