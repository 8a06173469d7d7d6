"""Tree search and reinforcement learning: games, environments, searches, agents."""

if __name__ != "triskele.reinforce":
    raise ImportError(f"import this package as triskele.reinforce, not as {__name__!r}")

import importlib

from triskele.core.extend import lazy

from .rules import first_use

__getattr__, __dir__, __all__ = lazy.attach(__name__)
first_use.register(lambda: importlib.import_module(".testing.first_use", __name__))
