"""Matrices of gates as text: expressions of Python in cos, sin, sqrt and exp, and the names of the gate's angles."""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Gate
from .primitives import Pair, Phase, Rotation

__all__ = ["angles", "formula"]

# Products of several factors; tests compare the expressions with the factors
_PRODUCTS = {
    "u": """\
[[cos(angle1/2), -exp(1j*angle3)*sin(angle1/2)],
 [exp(1j*angle2)*sin(angle1/2), exp(1j*(angle2 + angle3))*cos(angle1/2)]]""",
    "u2": """\
[[sqrt(1/2), -sqrt(1/2)*exp(1j*angle2)],
 [sqrt(1/2)*exp(1j*angle1), sqrt(1/2)*exp(1j*(angle1 + angle2))]]""",
    "r": """\
[[cos(angle1/2), -1j*exp(-1j*angle2)*sin(angle1/2)],
 [-1j*exp(1j*angle2)*sin(angle1/2), cos(angle1/2)]]""",
    "fsim": """\
[[1, 0, 0, 0],
 [0, cos(angle1), -1j*sin(angle1), 0],
 [0, -1j*sin(angle1), cos(angle1), 0],
 [0, 0, 0, exp(-1j*angle2)]]""",
    "xx_plus_yy": """\
[[1, 0, 0, 0],
 [0, cos(angle1/2), -1j*exp(-1j*angle2)*sin(angle1/2), 0],
 [0, -1j*exp(1j*angle2)*sin(angle1/2), cos(angle1/2), 0],
 [0, 0, 0, 1]]""",
    "xx_minus_yy": """\
[[cos(angle1/2), 0, 0, -1j*exp(-1j*angle2)*sin(angle1/2)],
 [0, 1, 0, 0],
 [0, 0, 1, 0],
 [-1j*exp(1j*angle2)*sin(angle1/2), 0, 0, cos(angle1/2)]]""",
    "swapalpha": """\
[[1, 0, 0, 0],
 [0, (1 + exp(1j*angle))/2, (1 - exp(1j*angle))/2, 0],
 [0, (1 - exp(1j*angle))/2, (1 + exp(1j*angle))/2, 0],
 [0, 0, 0, 1]]""",
    "cu": """\
[[1, 0, 0, 0],
 [0, exp(1j*angle4)*cos(angle1/2), 0, -exp(1j*(angle3 + angle4))*sin(angle1/2)],
 [0, 0, 1, 0],
 [0, exp(1j*(angle2 + angle4))*sin(angle1/2), 0, exp(1j*(angle2 + angle3 + angle4))*cos(angle1/2)]]""",
    "rv": "expm(-1j/2*(angle1*X + angle2*Y + angle3*Z))",
}


def angles(gate: Gate) -> list[str]:
    """Names of a gate's parameters in signatures: "angle", or "angle1", "angle2", ..."""
    return ["angle"] if gate.num_params == 1 else [f"angle{k + 1}" for k in range(gate.num_params)]


def formula(gate: Gate) -> str | None:
    """Return the matrix of a gate as text, or None for gates of more than three qubits and for products without a text.

    >>> from triskele.quantum import gates
    >>> print(formula(gates.find("rx")))
    [[cos(angle/2), -1j*sin(angle/2)],
     [-1j*sin(angle/2), cos(angle/2)]]
    """
    if gate.num_qubits > 3:
        return None
    if gate.name in _PRODUCTS:
        return _PRODUCTS[gate.name]
    if gate.constant is not None:
        return _rows([[_number(value) for value in row] for row in gate.constant])
    if gate.num_params != 1 or gate.factors is None or len(gate.factors) != 1:
        return None
    (factor,) = gate.factors
    if factor.qubits != tuple(range(gate.num_qubits)) or factor.constant:
        return None
    return _rows(_exponential(factor.primitive, factor.coefficients[0]))


def _exponential(primitive: Rotation | Phase | Pair, coefficient: float) -> list[list[str]]:
    """Entries of exp(-i c angle G), for a G whose square is a quarter of a projector, or that of a phase."""
    half = {1.0: "angle/2", 2.0: "angle"}.get(coefficient, f"{coefficient / 2:g}*angle")
    whole = "angle" if coefficient == 1 else f"{coefficient:g}*angle"
    double = 2 * primitive.generator
    n = len(double)
    if isinstance(primitive, Phase):
        return [[(f"exp(1j*{whole})" if i == n - 1 else "1") if i == j else "0" for j in range(n)] for i in range(n)]
    moved = np.rint((double @ double).diagonal().real)
    off = {0: "0", 1: f"-1j*sin({half})", -1: f"1j*sin({half})", 1j: f"sin({half})", -1j: f"-sin({half})"}
    on = {0: f"cos({half})", 1: f"exp(-1j*{half})", -1: f"exp(1j*{half})"}
    return [
        [(on[double[i, i].real] if moved[i] else "1") if i == j else off[double[i, j]] for j in range(n)]
        for i in range(n)
    ]


def _number(value: complex) -> str:
    for scale, name in ((1.0, ""), (np.sqrt(0.5), "sqrt(1/2)"), (0.5, "1/2")):
        parts = np.array([value.real, value.imag]) / scale
        if np.allclose(parts, np.rint(parts), atol=1e-12):
            real, imaginary = (int(round(p)) for p in parts)
            text = {(0, 0): "0", (1, 0): "1", (-1, 0): "-1", (0, 1): "1j", (0, -1): "-1j"}.get((real, imaginary))
            if text is None:
                text = f"({real} {'+' if imaginary > 0 else '-'} {abs(imaginary)}j)"
            if not name or text == "0":
                return text
            return {"1": name, "-1": f"-{name}"}.get(text, f"{text}*{name}")
    return f"{value:.6g}"


def _rows(entries: list[list[Any]]) -> str:
    return "[" + ",\n ".join(f"[{', '.join(row)}]" for row in entries) + "]"
