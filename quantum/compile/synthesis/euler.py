"""Single-qubit gates as angles, and angles as sequences of the gates of a basis."""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ...errors import CircuitError
from ...gates.instruction import Instruction
from ...parameters import Linear

__all__ = ["BASES", "angles", "angles_of", "sequence"]

Angles = tuple[Any, Any, Any, Any]  # theta, phi, lambda, phase: exp(i phase) U(theta, phi, lambda); numbers or Linear
_PI = math.pi


def angles(matrix: np.ndarray) -> Angles:
    """The angles of a unitary (2, 2) matrix: exp(i phase) U(theta, phi, lambda)."""
    (a, b), (c, d) = matrix.tolist()
    theta = 2 * math.atan2(abs(c) + abs(b), abs(a) + abs(d))
    if abs(a) + abs(d) >= abs(b) + abs(c):  # the larger entries say what the phases are
        phase = cmath.phase(a)
        both = cmath.phase(d) - phase  # phi + lambda
        phi = cmath.phase(c) - phase if c else 0.0
        return theta, phi, both - phi, phase
    # a may vanish: exp(i phase) = |a| / a is then free, and what counts is phase + phi and phase + lambda + pi
    phase = cmath.phase(a) if a else 0.0
    return theta, cmath.phase(c) - phase, cmath.phase(-b) - phase, phase


# gates of one factor or one matrix as U(theta, phi, lambda), for angles that may be expressions
_SYMBOLIC: dict[str, Callable[..., Angles]] = {
    "rx": lambda t: (t, -_PI / 2, _PI / 2, 0.0),
    "ry": lambda t: (t, 0.0, 0.0, 0.0),
    "rz": lambda t: (0.0, 0.0, t, -0.5 * t),
    "p": lambda t: (0.0, 0.0, t, 0.0),
    "u": lambda t, f, l: (t, f, l, 0.0),
    "u2": lambda f, l: (_PI / 2, f, l, 0.0),
    "r": lambda t, f: (t, f - _PI / 2, _PI / 2 - f, 0.0),
}


def angles_of(instruction: Instruction) -> Angles | None:
    """The angles of a gate on one qubit, or None where they are not linear in its parameters."""
    gate = instruction.gate
    if all(type(p) is float for p in instruction.params):
        return angles(gate.matrix(*instruction.params))
    return _SYMBOLIC[gate.name](*instruction.params) if gate.name in _SYMBOLIC else None


def _zero(t: Any) -> bool:
    return type(t) is not Linear and abs(math.remainder(t, 4 * _PI)) < 1e-14


def _is(t: Any, value: float) -> bool:
    return type(t) is not Linear and abs(t - value) < 1e-14


Sequence = tuple[list[tuple[str, tuple[Any, ...]]], Any]  # gates in the order in which they act, and a global phase


def _u(t: Any, f: Any, l: Any) -> Sequence:
    return [("u", (t, f, l))], 0.0


def _rotations(outer: str, inner: str, shift: float) -> Callable[[Any, Any, Any], Sequence]:
    """U = exp(i (phi + lambda)/2) RZ(phi) RY(theta) RZ(lambda), and RY(t) = RZ(pi/2) RX(t) RZ(-pi/2)."""

    def make(t: Any, f: Any, l: Any) -> Sequence:
        if _zero(t):
            return [(outer, (f + l,))], 0.5 * (f + l)
        return [(outer, (l - shift,)), (inner, (t,)), (outer, (f + shift,))], 0.5 * (f + l)

    return make


def _xy(t: Any, f: Any, l: Any) -> Sequence:
    # RZ(a) = RX(pi/2) RY(a) RX(-pi/2) as matrices
    half = 0.5 * (f + l)
    if _zero(t):
        return [("rx", (-_PI / 2,)), ("ry", (f + l,)), ("rx", (_PI / 2,))], half
    return [
        ("rx", (-_PI / 2,)),
        ("ry", (l,)),
        ("rx", (_PI / 2,)),
        ("ry", (t,)),
        ("rx", (-_PI / 2,)),
        ("ry", (f,)),
        ("rx", (_PI / 2,)),
    ], half


def _rz_sx(t: Any, f: Any, l: Any) -> Sequence:
    # SX = exp(i pi/4) RX(pi/2), and RZ(pi) RX(pi/2) RZ(t + pi) RX(pi/2) = -RY(t) as matrices
    half = 0.5 * (f + l)
    if _zero(t):
        return [("rz", (f + l,))], half
    if _is(t, _PI / 2):
        return [("rz", (l - _PI / 2,)), ("sx", ()), ("rz", (f + _PI / 2,))], half - _PI / 4
    return [("rz", (l,)), ("sx", ()), ("rz", (t + _PI,)), ("sx", ()), ("rz", (f + _PI,))], half + _PI / 2


def _rz_h(t: Any, f: Any, l: Any) -> Sequence:
    if _zero(t):
        return [("rz", (f + l,))], 0.5 * (f + l)
    return [("rz", (l - _PI / 2,)), ("h", ()), ("rz", (t,)), ("h", ()), ("rz", (f + _PI / 2,))], 0.5 * (f + l)


# the first of these that is in a basis is used
BASES: tuple[tuple[frozenset[str], Callable[[Any, Any, Any], Sequence]], ...] = (
    (frozenset({"u"}), _u),
    (frozenset({"rz", "ry"}), _rotations("rz", "ry", 0.0)),
    (frozenset({"rz", "rx"}), _rotations("rz", "rx", _PI / 2)),
    (frozenset({"rz", "sx"}), _rz_sx),
    (frozenset({"rx", "ry"}), _xy),
    (frozenset({"rz", "h"}), _rz_h),
)


def sequence(theta: Any, phi: Any, lam: Any, basis: frozenset[str]) -> Sequence:
    """Return U(theta, phi, lambda) as gates of a universal basis, without those that do nothing, and a global phase."""
    for needed, make in BASES:
        if needed <= basis:
            gates, phase = make(theta, phi, lam)
            kept = []
            for name, params in gates:
                turns = _turns(params[0]) if len(params) == 1 else None
                if turns is not None:
                    phase = phase + turns * _PI  # a rotation by 2 pi is -1
                elif not (name == "u" and all(_zero(p) for p in params)):
                    kept.append((name, params))
            return kept, phase
    known = ", ".join("{" + ", ".join(sorted(needed)) + "}" for needed, _ in BASES)
    raise CircuitError(f"decompose: the basis must have all gates of one of {known}, got {sorted(basis)}")


def _turns(t: Any) -> int | None:
    """Return an angle as a multiple of 2 pi if that is a whole number, else None."""
    if type(t) is Linear:
        return None
    turns = round(t / (2 * _PI))
    return turns if abs(t - turns * 2 * _PI) < 1e-14 * max(1.0, abs(t)) else None
