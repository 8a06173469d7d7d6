"""Molecular dynamics on triskele.core. Nothing is here yet."""

if __name__ != "triskele.sponge":
    raise ImportError(f"import this package as triskele.sponge, not as {__name__!r}")
