"""Faults tried on purpose, and how many were survived: `python -m tests.faults`."""
