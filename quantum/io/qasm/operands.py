"""Values of operands, parameters and modifiers in statements of OpenQASM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ...parameters import Linear
from .expressions import Evaluate, Qubits, Scope
from .lexer import Token, fail
from .statements import Modifier

__all__ = ["angle", "broadcast", "converted", "modifier", "qubits_of"]


def converted(value: Any, kind: Token) -> Any:
    """A value as its declared type holds it."""
    convert: Callable[[Any], Any] = {"int": int, "uint": int, "bool": bool}.get(kind.text, float)
    if isinstance(value, Linear) and kind.text in ("float", "angle"):
        return value
    if not isinstance(value, (int, float)):
        fail(f"{kind.text}: the value must be a number", kind)
    if convert is int and value != int(value) or kind.text == "uint" and value < 0:
        fail(f"{kind.text}: the value must be a number of this type, got {value}", kind)
    return convert(value)


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


def modifier(token: Token, evaluate: Evaluate | None, scope: Scope) -> Modifier:
    """A modifier with its number."""
    value: Any = 1 if evaluate is None else evaluate(scope)
    if (
        not isinstance(value, (int, float))
        or token.text != "pow"
        and (isinstance(value, bool) or not isinstance(value, int))
    ):
        fail(f"{token.text}: a {'number' if token.text == 'pow' else 'whole number'} is needed", token)
    if token.text == "inv" and evaluate is not None:
        fail("inv takes no argument", token)
    return Modifier(token.text, value, token)


def qubits_of(operand: tuple[Token, Evaluate], scope: Scope) -> Qubits:
    """The qubits that an operand stands for."""
    value = operand[1](scope)
    if not isinstance(value, Qubits):
        fail(f"{operand[0].text!r} is not a qubit", operand[0])
    return value


def broadcast(operands: list[tuple[Token, Evaluate]], scope: Scope, token: Token) -> Iterator[list[int]]:
    """Qubits of each gate, where operands are registers; single qubits take part in all."""
    values = [qubits_of(operand, scope) for operand in operands]
    sizes = {len(v.wires) for v in values if not v.one}
    if len(sizes) > 1:
        fail(f"{token.text}: registers must have the same size, got {sorted(sizes)}", token)
    for k in range(sizes.pop() if sizes else 1):
        yield [v.wires[0] if v.one else v.wires[k] for v in values]
