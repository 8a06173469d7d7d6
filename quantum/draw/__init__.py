"""Drawings of circuits, counts and states.

All functions return text or matplotlib objects and change no global state.
"""

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
