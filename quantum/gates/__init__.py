"""Gates: one definition each, found by circuits, simulators, files and drawings alike."""

from triskele.core.extend import discover as _discover

from .base import Gate, find, names, register
from .primitives import Factor, Pair, Phase, Rotation

__all__ = ["Factor", "Gate", "Pair", "Phase", "Rotation", "find", "names", "register"]

_discover.modules(__name__)  # each registers its gates
