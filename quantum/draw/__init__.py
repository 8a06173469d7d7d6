"""Pictures of circuits, counts, states and training.

All give back text or matplotlib objects, and change nothing global.
"""

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
