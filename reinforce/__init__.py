"""Tree search and reinforcement learning on triskele.core. Nothing is here yet."""

if __name__ != "triskele.reinforce":
    raise ImportError(f"import this package as triskele.reinforce, not as {__name__!r}")
