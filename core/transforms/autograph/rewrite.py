"""Rewriting a function's syntax tree: Python's control flow becomes calls of the operators in `run`.

Three passes. `Failures` makes what the function returns depend on its assert and raise statements. `Jumps` turns
return, break and continue inside branches and loops into flags and nested branches. `Control` then turns each branch
and loop into local functions over the enclosing variables, which the operators call: directly when everything is
concrete, under tracing otherwise. All new nodes carry the line numbers of what they replace.
"""

from __future__ import annotations

import ast
from collections import Counter

from .failures import Failures
from .jumps import Jumps, has_jump
from .syntax import (
    LOOPS,
    RUN,
    assign,
    assigned,
    constant,
    count_loads,
    if_stmt,
    inner_variables,
    later,
    modified,
    name,
    walk,
    written_first,
)

__all__ = ["Control"]

_UNTOUCHED = {"super", "locals", "globals", "vars", "eval", "exec", "dir", "isinstance", "issubclass", "type", "len",
              "print", "hasattr", "getattr", "id"}  # fmt: skip


_COLLECT = {"append", "extend", "insert", "add", "update", "setdefault"}  # methods of containers


def _is_fixed(index: ast.expr) -> bool:
    """Return True if an index cannot be a traced value: a literal number or string, or a slice."""
    return isinstance(index, (ast.Constant, ast.Slice)) or (
        isinstance(index, ast.UnaryOp) and isinstance(index.operand, ast.Constant)
    )


class Control(ast.NodeTransformer):
    """Pass 2: statements and expressions become calls of operators."""

    def __init__(self, plain_call=lambda node: False, stood_in=lambda node: False):
        self.plain_call, self.stood_in = plain_call, stood_in
        self.count = 0
        self.changed = False
        self.state: set[str] = set()
        self.variables: set[str] = set()
        self.first: str | None = None
        self.loads: Counter[str] = Counter()

    # -- functions -----------------------------------------------------------------------------------------------------

    def scope(self, node: ast.FunctionDef) -> ast.FunctionDef:
        """Rewrite the body of one function."""
        nodes = list(walk(node.body))
        if any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in nodes):
            return node
        outer = self.state, self.variables, self.first, self.loads
        self.first = next((a.arg for a in [*node.args.posonlyargs, *node.args.args]), None)
        self.state = set()
        outside = {n for s in nodes if isinstance(s, ast.Global) for n in s.names}
        beyond = {n for s in nodes if isinstance(s, ast.Nonlocal) for n in s.names}
        arguments = {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        jumps = any(isinstance(n, (ast.If, *LOOPS)) for n in nodes)
        body = Failures().function(node.body)
        body = Jumps().function(body) if jumps else body
        self.variables = (assigned(body) | arguments | beyond) - outside
        self.loads = count_loads(n for s in body for n in ast.walk(s)) + Counter(beyond) if jumps else Counter()
        body = self.block(body)
        declared = sorted(self.state - arguments - beyond)
        if declared:  # makes them local variables of this function, for the local functions to refer to
            targets = [name(n, node.body[0], True) for n in declared]
            never = if_stmt(
                constant(False, node.body[0]),
                [ast.copy_location(ast.Assign(targets, constant(None, node.body[0])), node.body[0])],
                [],
                node.body[0],
            )
            head = [s for s in body if isinstance(s, (ast.Global, ast.Nonlocal))]
            body = [*head, never, *[s for s in body if s not in head]]
        node.body = body
        self.state, self.variables, self.first, self.loads = outer
        return node

    def visit_FunctionDef(self, node):
        node.args = self.generic_visit(node.args)
        node.decorator_list = [self.visit(d) for d in node.decorator_list]
        if any(isinstance(n, (ast.Yield, ast.YieldFrom, ast.Await)) for n in walk(node.body)):
            return node
        self.scope(node)
        node.decorator_list.append(self.operator("converted", node))
        return node

    def visit_Lambda(self, node):
        node.args = self.generic_visit(node.args)
        before = self.changed
        node.body = self.visit(node.body)
        self.changed = before or self.changed
        return self.call("converted", [node], node)

    def visit_ClassDef(self, node):
        return node

    def visit_AsyncFunctionDef(self, node):
        return node

    # -- statements ----------------------------------------------------------------------------------------------------

    def block(self, stmts):
        out = []
        for s in stmts:
            new = self.visit(s)
            out += new if isinstance(new, list) else [new]
        return out

    def operator(self, text, at):
        self.changed = True
        return ast.copy_location(ast.Attribute(name(RUN, at), text, ast.Load()), at)

    def call(self, text, args, at):
        return ast.copy_location(ast.Call(self.operator(text, at), args, []), at)

    def local(self, text, body, symbols, at, args=()):
        """A local function that shares the variables of the enclosing one."""
        names = [s for s in symbols if "." not in s]
        head = [ast.copy_location(ast.Nonlocal(names), at)] if names else []
        arguments = ast.arguments(
            posonlyargs=[],
            args=[ast.copy_location(ast.arg(a), at) for a in args],
            vararg=None,
            kwonlyargs=[],
            kw_defaults=[],
            kwarg=None,
            defaults=[],
        )
        node = ast.FunctionDef(text, arguments, [*head, *body] or [ast.Pass()], [], None)
        if hasattr(ast, "TypeAlias"):
            node.type_params = []
        return ast.copy_location(node, at)

    def frame(self, nodes, at, inner=()):
        """(symbols, functions that read and write them but for those in `inner`, their arguments to an operator)."""
        changed = [s for s in modified(nodes) if "." in s or s in self.variables]
        self.state.update(s for s in changed if "." not in s)
        symbols = [s for s in changed if s not in inner]
        k = self.count
        read = ast.Tuple([self.call("read", [later(self.path(s, at), at)], at) for s in symbols], ast.Load())
        get = self.local(f"ag__get_{k}", [ast.copy_location(ast.Return(ast.copy_location(read, at)), at)], [], at)
        targets = ast.copy_location(ast.List([self.path(s, at, True) for s in symbols], ast.Store()), at)
        put = self.local(
            f"ag__set_{k}",
            [ast.copy_location(ast.Assign([targets], name("ag__values", at)), at)],
            symbols,
            at,
            ["ag__values"],
        )
        args = [
            name(f"ag__get_{k}", at),
            name(f"ag__set_{k}", at),
            constant(tuple(symbols), at),
            constant(at.lineno, at),
        ]
        return changed, [get, put], args

    def forget(self, inner, at):
        """Statements that take the values of the last round from variables that only matter within a round."""
        return [assign(n, self.call("forgotten", [constant(n, at)], at), at) for n in sorted(inner & self.variables)]

    def path(self, text, at, store=False):
        first, *rest = text.split(".")
        node = name(first, at, store and not rest)
        for i, attr in enumerate(rest):
            last = store and i == len(rest) - 1
            node = ast.copy_location(ast.Attribute(node, attr, ast.Store() if last else ast.Load()), at)
        return node

    def visit_If(self, node):
        if has_jump(node) and not getattr(node, "returns", False):
            node.test = self.call(
                "plain_test", [self.visit(node.test), constant("if", node), constant(node.lineno, node)], node
            )
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        self.count += 1
        k = self.count
        symbols, functions, args = self.frame([*node.body, *node.orelse], node)
        then = self.local(f"ag__then_{k}", self.block(node.body), symbols, node)
        other = self.local(
            f"ag__else_{k}", self.block(node.orelse) or [ast.copy_location(ast.Pass(), node)], symbols, node
        )
        test = self.visit(node.test)
        branches = [name(f"ag__then_{k}", node), name(f"ag__else_{k}", node)]
        if getattr(node, "returns", False):
            last = ast.copy_location(ast.Return(self.call("if_return", [test, *branches, *args], node)), node)
        else:
            last = ast.copy_location(ast.Expr(self.call("if_", [test, *branches, *args], node)), node)
        return [then, other, *functions, last]

    def visit_While(self, node):
        if getattr(node, "plain", False):
            node.test = self.call(
                "plain_test", [self.visit(node.test), constant("while", node), constant(node.lineno, node)], node
            )
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        self.count += 1
        k = self.count
        test = node.test
        if node.stop:
            go = ast.copy_location(ast.UnaryOp(ast.Not(), name(node.stop, node)), node)
            test = (
                go
                if isinstance(test, ast.Constant) and test.value
                else ast.copy_location(ast.BoolOp(ast.And(), [go, test]), node)
            )
        inner = inner_variables(node, self.loads) - {node.stop}
        symbols, functions, args = self.frame([node.test, *node.body], node, inner)
        body = self.local(f"ag__body_{k}", [*self.forget(inner, node), *self.block(node.body)], symbols, node)
        test = self.local(
            f"ag__test_{k}",
            [ast.copy_location(ast.Return(self.visit(test)), node)],
            symbols if modified(node.test) else [],
            node,
        )
        call = self.call("while_", [name(f"ag__test_{k}", node), name(f"ag__body_{k}", node), *args], node)
        return [body, test, *functions, ast.copy_location(ast.Expr(call), node)]

    def visit_For(self, node):
        if getattr(node, "plain", False):
            node.iter = self.visit(node.iter)
            node.body, node.orelse = self.block(node.body), self.block(node.orelse)
            return node
        self.count += 1
        k = self.count
        collects = any(
            isinstance(n, ast.Call)
            and isinstance(n.func, ast.Attribute)
            and n.func.attr in _COLLECT
            and not self.plain_call(n.func)
            for n in walk(node.body)
        )
        inner = inner_variables(node, self.loads) - {node.stop}
        symbols, functions, args = self.frame([node.target, *node.body], node, inner)
        fresh = constant(tuple(written_first(node)), node)
        first = ast.copy_location(ast.Assign([node.target], name("ag__item", node)), node)
        body = self.local(
            f"ag__body_{k}", [*self.forget(inner, node), first, *self.block(node.body)], symbols, node, ["ag__item"]
        )
        more = constant(None, node)
        if node.stop:
            more = later(self.call("not_", [name(node.stop, node)], node), node)
        over = self.visit(node.iter)
        if collects:
            over = self.call("rows", [over], node)  # a loop of the graph cannot fill a list
        call = self.call("for_", [over, name(f"ag__body_{k}", node), more, *args, fresh], node)
        return [body, *functions, ast.copy_location(ast.Expr(call), node)]

    def visit_Assign(self, node):
        """Rewrite ``x[i] = v`` to rebind the variable `x` to the result of the assignment."""
        node.value = self.visit(node.value)
        if len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
            return self.store(node.targets[0], node.value)
        writes: list[ast.stmt] = []
        node.targets = [self.unpacked(t, writes) for t in node.targets]
        return [node, *writes]

    def owned(self, target):
        return isinstance(target, ast.Name) and target.id in self.variables

    def unpacked(self, target, writes):
        """An assignment's target with names for the elements of arrays in it, which `writes` assigns to them."""
        if isinstance(target, ast.Starred):
            target.value = self.unpacked(target.value, writes)
        elif isinstance(target, (ast.Tuple, ast.List)):
            target.elts = [self.unpacked(t, writes) for t in target.elts]
        elif isinstance(target, ast.Subscript):
            self.count += 1
            part = f"ag__part_{self.count}"
            writes.append(self.store(target, name(part, target)))
            return name(part, target, True)
        else:
            return self.visit(target)
        return target

    def store(self, target, value):
        index = self.index(target.slice)
        if not self.owned(target.value):
            return ast.copy_location(
                ast.Expr(self.call("put", [value, self.visit(target.value), index], target)), target
            )
        x = target.value.id
        return assign(x, self.call("assign", [value, later(name(x, target), target), index], target), target)

    def index(self, node):
        """Return the content of the brackets as an expression."""
        if isinstance(node, ast.Slice):
            parts = [constant(None, node) if p is None else self.visit(p) for p in (node.lower, node.upper, node.step)]
            return self.call("slice", parts, node)
        if isinstance(node, ast.Tuple):
            return ast.copy_location(ast.Tuple([self.index(e) for e in node.elts], ast.Load()), node)
        return self.visit(node)

    def visit_AugAssign(self, node):
        """Rewrite ``x += v`` and ``x[i] += v`` to rebind `x` in the same way."""
        at, value = node.target, self.visit(node.value)
        if any(isinstance(n, ast.NamedExpr) for n in ast.walk(value)) or isinstance(at, ast.Attribute):
            node.target, node.value = self.visit(at), value
            return node
        kind, value = constant(type(node.op).__name__, node), later(value, value)
        if self.owned(at):
            return assign(at.id, self.call("update", [kind, later(name(at.id, node), node), value], node), node)
        if isinstance(at, ast.Name):
            node.value = value.body
            return node
        index = self.index(at.slice)
        if self.owned(at.value):
            x = at.value.id
            return assign(x, self.call("update_at", [kind, later(name(x, node), node), index, value], node), node)
        return ast.copy_location(
            ast.Expr(self.call("put_update", [kind, self.visit(at.value), index, value], node)), node
        )

    def visit_AnnAssign(self, node):
        self.generic_visit(node)
        if node.value is None or not isinstance(node.target, ast.Name):
            return node
        return ast.copy_location(ast.Assign([node.target], node.value), node)  # shared variables cannot be annotated

    def visit_Raise(self, node):
        self.generic_visit(node)
        return if_stmt(self.call("reached", [], node), [node], [], node)

    # -- expressions ---------------------------------------------------------------------------------------------------

    def visit_BoolOp(self, node):
        text = "and_" if isinstance(node.op, ast.And) else "or_"
        first, *rest = [self.visit(v) for v in node.values]
        if any(isinstance(n, ast.NamedExpr) for v in rest for n in ast.walk(v)):
            node.values = [first, *rest]
            return node
        return self.call(text, [first, *[later(v, v) for v in rest]], node)

    def visit_UnaryOp(self, node):
        node.operand = self.visit(node.operand)
        return self.call("not_", [node.operand], node) if isinstance(node.op, ast.Not) else node

    def visit_IfExp(self, node):
        test, body, orelse = self.visit(node.test), self.visit(node.body), self.visit(node.orelse)
        if any(isinstance(n, ast.NamedExpr) for v in (body, orelse) for n in ast.walk(v)):
            return ast.copy_location(ast.IfExp(test, body, orelse), node)
        return self.call("if_expression", [test, later(body, body), later(orelse, orelse)], node)

    def visit_Compare(self, node):
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        ops = ast.copy_location(ast.Tuple([constant(type(o).__name__, node) for o in node.ops], ast.Load()), node)
        return self.call("chain", [ops, node.left, *[later(c, c) for c in node.comparators]], node)

    def visit_Subscript(self, node):
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        if not isinstance(node.ctx, ast.Load) or all(_is_fixed(p) for p in parts):
            return self.generic_visit(node)
        return self.call("item", [self.visit(node.value), self.index(node.slice)], node)

    def visit_Name(self, node):
        """A function that another one stands in for, passed as a value."""
        if isinstance(node.ctx, ast.Load) and self.stood_in(node):
            return self.call("call", [node], node)
        return self.generic_visit(node)

    visit_Attribute = visit_Name

    def visit_Call(self, node):
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args and self.first:
            node.args = [name("__class__", node), name(self.first, node)]  # local functions have other first arguments
            return node
        plain = self.plain_call(node.func)
        node.args, node.keywords = [self.visit(a) for a in node.args], [self.visit(k) for k in node.keywords]
        node.func = (
            node.func
            if isinstance(node.func, ast.Name)
            else self.generic_visit(node.func)
            if isinstance(node.func, ast.Attribute)
            else self.visit(node.func)
        )
        if plain or (isinstance(node.func, ast.Name) and node.func.id in _UNTOUCHED):
            return node
        if isinstance(node.func, ast.Attribute) and isinstance(node.func.value, ast.Name) and node.func.value.id == RUN:
            return node
        node.func = self.call("call", [node.func], node.func)
        return node
