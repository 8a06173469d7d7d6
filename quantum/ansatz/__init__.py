"""Circuits with parameters to be found."""
