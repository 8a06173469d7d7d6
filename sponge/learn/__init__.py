"""Learning potentials: data, networks, training, and networks as potentials of simulations."""

from triskele.core.extend import lazy

__getattr__, __dir__, __all__ = lazy.attach(__name__)
