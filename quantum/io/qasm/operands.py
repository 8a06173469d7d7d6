"""Values of operands, parameters and modifiers in statements of OpenQASM."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ...parameters import Linear
from .lexer import Token, fail
from .statements import Modifier
from .values import Qubits

__all__ = ["angle", "broadcast", "modifier", "qubits_of"]


def angle(value: Any, token: Token) -> float | Linear:
    """A gate's parameter."""
    if isinstance(value, Linear):
        return value if value.terms else value.constant
    if not isinstance(value, (int, float)):
        fail(f"{token.text}: parameters must be numbers", token)
    try:
        return float(value)
    except OverflowError:
        fail(f"{token.text}: a parameter does not fit in 64 bits", token)


def modifier(token: Token, value: Any) -> Modifier:
    """A modifier with its number."""
    if (
        not isinstance(value, (int, float))
        or token.text != "pow"
        and (isinstance(value, bool) or not isinstance(value, int))
    ):
        fail(f"{token.text}: a {'number' if token.text == 'pow' else 'whole number'} is needed", token)
    return Modifier(token.text, value, token)


def qubits_of(value: Any, token: Token) -> Qubits:
    """The qubits that an operand stands for."""
    if not isinstance(value, Qubits):
        fail(f"{token.text!r} is not a qubit", token)
    return value


def broadcast(operands: Sequence[Any], places: Sequence[Token], token: Token) -> Iterator[list[int]]:
    """Qubits of each gate, where operands are registers; single qubits take part in all."""
    values = [qubits_of(value, place) for value, place in zip(operands, places, strict=True)]
    sizes = {len(v.wires) for v in values if not v.one}
    if len(sizes) > 1:
        fail(f"{token.text}: registers must have the same size, got {sorted(sizes)}", token)
    for k in range(sizes.pop() if sizes else 1):
        yield [v.wires[0] if v.one else v.wires[k] for v in values]
