"""Quantum circuits on triskele.core."""

if __name__ != "triskele.quantum":
    raise ImportError(f"import this package as triskele.quantum, not as {__name__!r}")

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
