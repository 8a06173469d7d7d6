"""Molecular dynamics on triskele.core: real force fields, compiled step loop, every potential differentiable.

Everything a script needs is here under one name, and is imported when it is first used.
"""

if __name__ != "triskele.sponge":
    raise ImportError(f"import this package as triskele.sponge, not as {__name__!r}")

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
