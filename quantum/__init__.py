"""Quantum circuits on triskele.core. Nothing is here yet."""

if __name__ != "triskele.quantum":
    raise ImportError(f"import this package as triskele.quantum, not as {__name__!r}")
