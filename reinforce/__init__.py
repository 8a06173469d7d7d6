"""Tree search and reinforcement learning: games, environments, searches, agents."""

if __name__ != "triskele.reinforce":
    raise ImportError(f"import this package as triskele.reinforce, not as {__name__!r}")

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
