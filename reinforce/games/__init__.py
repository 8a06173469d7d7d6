"""Games that come with the package. Each file is one game, and is found by being here."""

from triskele.core.extend import discover as _discover

__getattr__, __dir__ = _discover.attach(__name__)
