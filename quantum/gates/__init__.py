"""Gates: one definition each, found by circuits, simulators, files and drawings alike."""

from triskele.quantum.gates import families as _families  # noqa: F401 - all of these register gates
from triskele.quantum.gates import fermionic as _fermionic  # noqa: F401
from triskele.quantum.gates import function as _function  # noqa: F401
from triskele.quantum.gates import standard as _standard  # noqa: F401
from triskele.quantum.gates.base import Factor, Gate, Pair, Phase, Rotation, find, names, register

__all__ = ["Factor", "Gate", "Pair", "Phase", "Rotation", "find", "names", "register"]
