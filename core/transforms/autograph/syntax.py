"""Questions about syntax trees, and the making of nodes: for the passes that rewrite functions."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Sequence

__all__ = [
    "LOOPS",
    "RETURNED",
    "RUN",
    "SCOPES",
    "VALUE",
    "assign",
    "assigned",
    "constant",
    "if_stmt",
    "modified",
    "count_loads",
    "inner_variables",
    "later",
    "name",
    "walk",
    "written_first",
]

RUN, RETURNED, VALUE = "ag__", "ag__returned", "ag__value"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
LOOPS = (ast.While, ast.For)


def walk(
    nodes: ast.AST | Iterable[ast.AST], into_loops: bool = True, into_generators: bool = True
) -> Iterable[ast.AST]:
    """All nodes of the same scope (of the same loop only, unless `into_loops`)."""
    stack = [nodes] if isinstance(nodes, ast.AST) else list(nodes)
    while stack:
        node = stack.pop()
        yield node
        if (
            isinstance(node, SCOPES)
            or (not into_loops and isinstance(node, LOOPS))
            or (not into_generators and isinstance(node, ast.GeneratorExp))
        ):
            continue
        # as ast.iter_child_nodes, but without the nodes that say Load or Store: half of all
        for name in node._fields:
            child = getattr(node, name, None)
            if child.__class__ is list:
                stack.extend([c for c in child if isinstance(c, ast.AST)])
            elif isinstance(child, ast.AST) and not isinstance(child, ast.expr_context):
                stack.append(child)


def symbol(node: ast.AST) -> str | None:
    """Return the variable that an assignment to `node` changes: a name or a dotted path."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = symbol(node.value) if isinstance(node.value, (ast.Name, ast.Attribute)) else None
        if (
            isinstance(node.value, ast.Name)
            and node.attr in ("T", "mT", "real", "imag", "flat")
            and base not in ("self", "cls")
        ):
            return base  # a view of the variable itself
        return f"{base}.{node.attr}" if base else None
    if isinstance(node, ast.Subscript):
        return symbol(node.value)
    return None


def modified(nodes: ast.AST | Sequence[ast.AST]) -> list[str]:
    """The variables that statements assign, in order of name; objects they assign into count."""
    found = assigned(nodes)
    paths = [
        symbol(n)
        for n in walk(nodes)
        if isinstance(n, (ast.Attribute, ast.Subscript)) and isinstance(n.ctx, (ast.Store, ast.Del))
    ]
    found.update(p for p in paths if p is not None)
    # a path from a variable that is itself assigned changes with it
    return sorted(s for s in found if not any(s.startswith(t + ".") for t in found))


def assigned(nodes: ast.AST | Sequence[ast.AST]) -> set[str]:
    """The names that statements bind."""
    found = set()
    nodes = list(walk(nodes))
    inner = {id(n) for c in nodes if isinstance(c, ast.comprehension) for n in ast.walk(c.target)}
    for n in nodes:
        if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del)) and id(n) not in inner:
            found.add(n.id)
        elif isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(n.name)
        elif isinstance(n, (ast.Import, ast.ImportFrom)):
            found.update((a.asname or a.name).split(".")[0] for a in n.names)
        elif isinstance(n, ast.ExceptHandler) and n.name:
            found.add(n.name)
    return found


def written_first(loop: ast.For) -> set[str]:
    """The variables that each round of a loop assigns before it reads them (loops inside it taken to make a round)."""
    written, read, partly = _uses(loop.body, assigned(loop.target))
    return written - read - partly


def inner_variables(loop: ast.For | ast.While, loads: Counter[str]) -> set[str]:
    """The variables of a loop that no round reads before it assigns them, and nothing after the loop.

    `loads` counts by name how often the function around reads a variable.
    """
    head = [loop.target] if isinstance(loop, ast.For) else [loop.test]
    before = assigned(loop.target) if isinstance(loop, ast.For) else set()
    read = _uses([ast.Expr(h) for h in head if h is not getattr(loop, "target", None)] + loop.body, before)[1]
    own = count_loads(walk([*head, *loop.body], into_generators=False))
    return {n for n in assigned([*head, *loop.body]) - read if own[n] == loads[n]}


def count_loads(nodes: Iterable[ast.AST]) -> Counter[str]:
    """How often each name is read."""
    return Counter(n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))


def _uses(stmts: Iterable[ast.stmt], before: set[str]) -> tuple[set[str], set[str], set[str]]:
    """The variables that statements are sure to assign, those that they may read before, and those that only some
    branches assign, where the ones in `before` have been assigned.
    """
    written, names, partly = set(before), set(), set()

    def read(*nodes):
        names.update({n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)} - written)

    for s in stmts:
        if isinstance(s, ast.Assign):
            targets = {
                n.id for t in s.targets for n in ast.walk(t) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
            }
            read(
                s.value, *[n for t in s.targets for n in ast.walk(t) if isinstance(n, ast.Name) and n.id not in targets]
            )
            written |= targets
        elif isinstance(s, ast.If):
            read(s.test)
            (then, a, p), (orelse, b, q) = _uses(s.body, written), _uses(s.orelse, written)
            names |= a | b
            partly |= p | q | ((then ^ orelse) - written)
            written |= then & orelse
        elif isinstance(s, (ast.For, ast.While)):
            read(s.iter if isinstance(s, ast.For) else s.test)
            inner, a, p = _uses(s.body, written | assigned(s.target) if isinstance(s, ast.For) else written)
            names |= a
            partly |= p | (set() if isinstance(s, ast.For) else inner - written)
            written |= inner if isinstance(s, ast.For) else set()
        else:
            read(s)
    return written, names, partly


def name(text: str, at: ast.AST, store: bool = False) -> ast.Name:
    """Return the syntax of a name at the position of `at`."""
    return ast.copy_location(ast.Name(text, ast.Store() if store else ast.Load()), at)


def constant(value: object, at: ast.AST) -> ast.Constant:
    """Return the syntax of a constant at the position of `at`."""
    return ast.copy_location(ast.Constant(value), at)


def assign(target: str, value: ast.expr, at: ast.AST) -> ast.stmt:
    """Return the syntax of an assignment at the position of `at`."""
    return ast.copy_location(ast.Assign([name(target, at, True)], value), at)


def later(expr: ast.expr, at: ast.AST) -> ast.Lambda:
    """Return the syntax of ``lambda: expr`` at the position of `at`."""
    none = ast.arguments(posonlyargs=[], args=[], vararg=None, kwonlyargs=[], kw_defaults=[], kwarg=None, defaults=[])
    return ast.copy_location(ast.Lambda(none, expr), at)


def if_stmt(test: ast.expr, body: list[ast.stmt], orelse: list[ast.stmt], at: ast.AST) -> ast.If:
    """Return the syntax of an ``if`` statement at the position of `at`."""
    return ast.copy_location(ast.If(test, body or [ast.copy_location(ast.Pass(), at)], orelse), at)
