"""`assert` and `raise` that depend on traced values: the program computes its results, and then raises the error.

Pass 0 of rewriting a function: a variable holds the number of the error that came first, and what the function returns
depends on it (see `control.ensure`). Branches and loops carry the variable as any other.
"""

from __future__ import annotations

import ast
import threading
from typing import Any

import numpy as np

from ... import tree
from ...errors import TracerError
from ...graph.trace import bind
from ...tensor import Tensor
from ..control.ensure import ensure_p, stored
from .syntax import RUN, SCOPES, assign, constant, later, name, walk
from .variables import known, place_of, truth

__all__ = ["Failures", "undecided"]

FAILED, ERRORS = "ag__failed", "ag__errors"


class Failures(ast.NodeTransformer):
    """`function` rewrites the body of one function."""

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body of a function with assert or raise statements; others stay the same."""
        if not any(isinstance(n, (ast.Assert, ast.Raise)) for n in walk(body)):
            return body
        first, last = body[0], body[-1]
        end = ast.copy_location(ast.Return(), last)
        return [
            assign(FAILED, constant(0, first), first),
            assign(ERRORS, ast.List([], ast.Load()), first),
            *[s for node in [*body, end] for s in _list(self.visit(node))],
        ]

    def visit(self, node):
        return node if isinstance(node, SCOPES) else super().visit(node)

    def _call(self, operator, args, at):
        """A call of an operator with the two variables before its own arguments."""
        function = ast.copy_location(ast.Attribute(name(RUN, at), operator, ast.Load()), at)
        return ast.copy_location(ast.Call(function, [name(FAILED, at), name(ERRORS, at), *args], []), at)

    def visit_Assert(self, node):
        message = node.msg or constant(None, node)
        args = [node.test, later(message, node), constant(ast.unparse(message), node), constant(node.lineno, node)]
        return assign(FAILED, self._call("assert_", args, node), node)

    def visit_Raise(self, node):
        error = node.exc or constant(None, node)
        kind, given = (error.func, error.args) if isinstance(error, ast.Call) else (error, [])
        text = constant(", ".join(map(ast.unparse, given)), node)
        args = [later(error, node), later(kind, node), text, constant(node.lineno, node)]
        return [assign(FAILED, self._call("raise_", args, node), node), node]

    def visit_Return(self, node):
        node.value = self._call("ensured", [node.value or constant(None, node), constant(node.lineno, node)], node)
        return node


def _list(nodes):
    return nodes if isinstance(nodes, list) else [nodes]


class _Undecided(threading.local):
    branches = 0  # of traced conditions that are being traced
    returns = 0  # those of them that end the function


undecided = _Undecided()


def assert_(failed: Any, errors: list[Any], test: Any, message: Any, text: str, line: int) -> Any:
    """The number of the first error after ``assert test, message()``."""
    decided, value = known(test)
    if decided and (value or not undecided.branches):
        if not value:
            said = message()
            raise AssertionError(*([] if said is None else [said]))
        return failed
    number = _noted(
        errors, lambda: AssertionError(*[m for m in [message()] if m is not None]), lambda: AssertionError, text, line
    )
    return (
        np.where(truth(test, "assert", line), failed, _first(failed, number)) if not decided else _first(failed, number)
    )


def raise_(failed: Any, errors: list[Any], error: Any, kind: Any, text: str, line: int) -> Any:
    """The number of the first error after ``raise error()``, which `reached` has Python run where it is certain."""
    if not undecided.branches:
        return failed
    if undecided.returns:
        raise TracerError(
            f"raise: whether this branch returns or raises depends on a traced condition, at {place_of(line)} "
            "(raise before the `if` that returns)"
        )
    return _first(failed, _noted(errors, error, kind, text, line))


def reached() -> bool:
    return not undecided.branches


def ensured(failed: Any, errors: list[Any], value: Any, line: int) -> Any:
    """Return what a function returns, which depends on that nothing has failed."""
    if not isinstance(failed, (Tensor, np.generic)):
        return value
    leaves, structure = tree.flatten(value)
    if not any(isinstance(x, Tensor) for x in leaves):
        raise TracerError(
            f"assert, raise: the condition has no value when a function is compiled, so that the "
            f"function must return an array for its error to be raised with, at {place_of(line)}"
        )
    out = iter(bind(ensure_p, failed, *[x for x in leaves if isinstance(x, Tensor)], errors=tuple(errors)))
    return tree.unflatten(structure, [next(out) if isinstance(x, Tensor) else x for x in leaves])


def _noted(errors, make, kind, text, line):
    """The number of an error, whose message is the source `text` where it says what has no value yet."""
    try:
        error = make()
    except TracerError:
        error = kind()(text)
    error = error() if isinstance(error, type) else error
    if not isinstance(error, BaseException):
        raise TypeError(f"raise: an exception is needed, got {error!r}, at {place_of(line)}")
    errors.append(stored(error, place_of(line)))
    return np.int32(len(errors))


def _first(failed, number):
    """The number of the error that came first."""
    return np.where(np.equal(failed, 0), number, failed) if isinstance(failed, Tensor) else failed or number
