"""Short text for angles and gates."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from ..parameters import Linear, linear_text

__all__ = ["angle_text", "gate_label", "params_text"]

_LONGEST = 24


def angle_text(value: float | Linear) -> str:
    """Return an angle in few characters, with fractions of pi written as such.

    >>> from triskele.quantum import Parameter
    >>> angle_text(-3 * math.pi / 4), angle_text(0.25), angle_text(2 * Parameter("a") + math.pi / 2)
    ('-3π/4', '0.25', '2a + π/2')
    """
    if not isinstance(value, Linear):
        return _number(value)
    text = linear_text(value, _number, lambda c: "" if (size := _number(c)) == "1" else size)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _number(x: float) -> str:
    if x:
        ratio = Fraction(x / math.pi).limit_denominator(1024)
        simple = ratio.denominator <= 16 or ratio.denominator.bit_count() == 1  # as in Fourier transforms
        if simple and abs(ratio * math.pi - x) < 1e-9 * abs(x):
            top = {1: "", -1: "-"}.get(ratio.numerator, str(ratio.numerator)) + "π"
            return top if ratio.denominator == 1 else f"{top}/{ratio.denominator}"
    return f"{x:.3g}".replace("e-0", "e-").replace("e+0", "e")


def params_text(params: Any) -> str:
    """All angles of a gate."""
    return ", ".join(angle_text(p) for p in params)


def gate_label(gate: Any) -> str:
    """Return the label of a gate, measurement or channel."""
    return gate.label or gate.name
