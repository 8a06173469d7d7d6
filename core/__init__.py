"""Differentiable tensor core: plain NumPy code goes in; derivatives and compiled kernels come out."""

if __name__ != "triskele.core":
    raise ImportError(f"import this package as triskele.core, not as {__name__!r}")
