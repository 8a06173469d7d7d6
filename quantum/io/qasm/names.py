"""Names of OpenQASM: its reserved words, its gates with ours, and the message for unknown gates."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from triskele.core.extend import check

from ...gates.base import Gate
from ...gates.standard import resolve
from .values import TYPES

__all__ = [
    "ADDED",
    "BUILT_IN",
    "KEYWORDS",
    "KEYWORDS_2",
    "LIBRARIES",
    "MODIFIERS",
    "NOT_SUPPORTED",
    "U_DEFINITION",
    "known",
    "unknown",
]

_SAME = "x y z h s sdg t tdg sx rx ry rz p u u2 id swap cx cy cz ch cp crx cry crz cu ccx cswap".split()
_ALIKE = {"u1": "p", "u3": "u", "cu1": "cp", "cu3": "cu3"}

MODIFIERS = ("ctrl", "negctrl", "inv", "pow")
NOT_SUPPORTED = {
    "cal": "pulses", "defcal": "pulses", "defcalgrammar": "pulses", "extern": "other programs",
    "durationof": "timing", "pragma": "other programs", "complex": "use float",
}  # fmt: skip
# of OpenQASM 3, and of version 2
KEYWORDS = frozenset(["OPENQASM", "include", "gate", "opaque", "qreg", "creg", "qubit", "bit", "input", "output",
                      "const", "let", "if", "else", "for", "in", "while", "switch", "case", "default", "break",
                      "continue", "end", "def", "return", "array", "readonly", "mutable", "measure", "reset", "barrier",
                      "box", "delay", "nop", "duration", "stretch", "void", *TYPES, *MODIFIERS,
                      *NOT_SUPPORTED])  # fmt: skip
KEYWORDS_2 = frozenset(["OPENQASM", "include", "gate", "opaque", "qreg", "creg", "if", "measure", "reset", "barrier"])

# gates of the language itself, and of the files that programs include; each with our name for it
BUILT_IN = {2: {"U": "u", "CX": "cx"}, 3: {"gphase": "global_phase"}}
LIBRARIES = {
    "qelib1.inc": dict.fromkeys(_SAME)
    | _ALIKE
    | dict.fromkeys("sxdg csx rxx rzz rccx rc3x c3x c4x".split())
    | {"c3sqrtx": "c3sx", "u0": "u0"},
    "stdgates.inc": dict.fromkeys(_SAME) | _ALIKE | {"CX": "cx", "phase": "p", "cphase": "cp"},
}
ADDED = ("u", "cu1", "cu3")  # which the specification's stdgates.inc does not have


# Our u, the same whatever the phase of the built-in U. Some readers take parameters in the order of their names.
U_DEFINITION = "u(a, b, c) q { p(c) q; ry(a) q; p(b) q; }"


@functools.cache
def known(name: str) -> tuple[int, Gate]:
    """Number of controls and gate of one of our names, as `resolve` gives them where it is not for any number."""
    controls, gate = resolve(name)
    return controls or 0, gate


def unknown(name: str, version: int, defined: Iterable[str]) -> str:
    """Return what is wrong with the name of a gate that is not among those that a program has defined or included."""
    for file, gates in LIBRARIES.items():
        if name in gates and (file == "qelib1.inc") == (version == 2):
            return f'unknown gate {name!r} (include "{file}"; is missing)'
    return f"unknown gate {name!r}{check.near(name, defined)}"
