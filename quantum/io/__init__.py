"""Circuits from and to files and other packages: a format is a module with the functions `from_NAME` and `to_NAME`."""

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
