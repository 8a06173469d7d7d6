"""Gates: one definition each, found by circuits, simulators, files and drawings alike."""

from . import families as _families  # noqa: F401 - all of these register gates
from . import fermionic as _fermionic  # noqa: F401
from . import function as _function  # noqa: F401
from . import standard as _standard  # noqa: F401
from .base import Factor, Gate, Pair, Phase, Rotation, find, names, register

__all__ = ["Factor", "Gate", "Pair", "Phase", "Rotation", "find", "names", "register"]
