"""Expressions of OpenMM's custom forces, evaluated with NumPy to find out which known form they have."""

from __future__ import annotations

import ast
import operator
from typing import Any

import numpy as np

from triskele.sponge.errors import FileFormatError

__all__ = ["evaluate"]

_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
    ast.USub: operator.neg,
    ast.UAdd: operator.pos,
}
_FUNCTIONS = {
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "tanh": np.tanh,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "abs": np.abs,
    "min": np.minimum,
    "max": np.maximum,
    "floor": np.floor,
    "ceil": np.ceil,
    "step": lambda x: np.where(x < 0, 0.0, 1.0),
    "select": lambda c, a, b: np.where(c != 0, a, b),
    "delta": lambda x: np.where(x == 0, 1.0, 0.0),
}


def evaluate(expression: str, values: dict[str, Any], where: str) -> Any:
    """The value of an expression such as ``"0.5*k*(r-r0)^2; r0=0.1"``.

    Parameters
    ----------
    expression : str
        In OpenMM's syntax: definitions that follow, separated by semicolons, hold for what stands before them.
    values : dict
        Numbers or arrays of the free variables; functions that tables stand for.
    where : str
        How errors begin.

    Raises
    ------
    FileFormatError
        If the expression contains functions or variables that are not known.

    Examples
    --------
    >>> evaluate("0.5*k*(r-r0)^2; r0=0.5", {"k": 8.0, "r": 1.0}, "bond")
    1.0
    """
    first, *definitions = [part.strip() for part in expression.split(";") if part.strip()]
    known = dict(values)
    for definition in reversed(definitions):  # later ones may be used by earlier ones
        name, _, text = definition.partition("=")
        known[name.strip()] = _value(text, known, where)
    return _value(first, known, where)


def _value(text: str, known: dict[str, Any], where: str) -> Any:
    try:
        tree = ast.parse(text.strip().replace("^", "**"), mode="eval")
    except SyntaxError:
        raise FileFormatError(f"{where}: must be an arithmetic expression, got {text!r}") from None

    def visit(node):
        match node:
            case ast.Expression():
                return visit(node.body)
            case ast.Constant(value=int() | float()):
                return float(node.value)
            case ast.BinOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](visit(node.left), visit(node.right))
            case ast.UnaryOp() if type(node.op) in _OPERATORS:
                return _OPERATORS[type(node.op)](visit(node.operand))
            case ast.Call(func=ast.Name(id=name), keywords=[]) if name in _FUNCTIONS or name in known:
                return (known.get(name) or _FUNCTIONS[name])(*(visit(a) for a in node.args))
            case ast.Name(id=name) if name in known:
                return known[name]
        raise FileFormatError(f"{where}: {ast.unparse(node)!r} in the expression {text.strip()!r} is not known")

    return visit(tree)
