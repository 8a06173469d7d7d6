"""Expectation values of circuits and their derivatives."""
