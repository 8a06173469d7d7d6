"""Circuits from and to files and other packages."""
