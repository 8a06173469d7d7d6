"""Pass 1 of rewriting a function: return, break and continue inside branches and loops become flags and nested
branches.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Sequence

from .syntax import LOOPS, RETURNED, SCOPES, VALUE, assign, constant, if_stmt, name, walk

__all__ = ["Jumps", "has_jump"]


def has_return(nodes: ast.AST | Sequence[ast.stmt]) -> bool:
    return any(isinstance(n, ast.Return) for n in walk(nodes))


def has_jump(nodes: ast.AST | Sequence[ast.stmt]) -> bool:
    """Return True if the statements contain a return, or a break or continue of the enclosing loop."""
    if isinstance(nodes, LOOPS):
        return has_return(nodes) or any(has_jump(s) for s in nodes.orelse)
    return has_return(nodes) or any(isinstance(n, (ast.Break, ast.Continue)) for n in walk(nodes, into_loops=False))


def falls_through(stmts: Sequence[ast.stmt]) -> bool:
    """Return True if the code after `stmts` may be reached."""
    for s in stmts:
        if isinstance(s, (ast.Return, ast.Raise, ast.Break, ast.Continue)):
            return False
        if isinstance(s, ast.If) and s.orelse and not falls_through(s.body) and not falls_through(s.orelse):
            return False
    return True


class Jumps:
    """`function` rewrites the body of one function."""

    def __init__(self):
        self.count = 0
        self.flag_returns = False

    def function(self, body: list[ast.stmt]) -> list[ast.stmt]:
        """The body of a function with branches or loops."""
        out = self.tail(body)
        if self.flag_returns:
            out.insert(0, assign(RETURNED, constant(False, body[0]), body[0]))
        return out

    def tail(self, stmts: list[ast.stmt]) -> list[ast.stmt]:
        """Statements after whose end the function returns."""
        out: list[ast.stmt] = []
        for k, s in enumerate(stmts):
            rest = stmts[k + 1 :]
            if isinstance(s, (ast.Return, ast.Raise)):
                return [*out, s]
            if isinstance(s, ast.If) and has_return(s) and self.liftable(s):
                body, orelse = s.body, s.orelse
                if falls_through(body):
                    body = body + copy.deepcopy(rest)
                if falls_through(orelse):
                    orelse = orelse + rest
                new = if_stmt(s.test, self.ended(self.tail(body), s), self.ended(self.tail(orelse), s), s)
                new.returns = True
                return [*out, new]
            if isinstance(s, LOOPS):
                leaves = has_return(s) and self.liftable(s)
                out += self.loop(s)
                if leaves:
                    done = if_stmt(name(RETURNED, s), [ast.copy_location(ast.Return(name(VALUE, s)), s)], [], s)
                    return out + self.tail([done, *rest])
            else:
                out.append(self.inner(s))
        return out

    def ended(self, stmts: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
        return [*stmts, ast.copy_location(ast.Return(constant(None, at)), at)] if falls_through(stmts) else stmts

    def inner(self, s: ast.stmt) -> ast.stmt:
        """Rewrite the loops inside a statement that is not a loop."""
        for field in ("body", "orelse", "finalbody"):
            block = getattr(s, field, None)
            if isinstance(block, list) and not isinstance(s, SCOPES):
                setattr(
                    s, field, [t for b in block for t in (self.loop(b) if isinstance(b, LOOPS) else [self.inner(b)])]
                )
        for part in [*getattr(s, "handlers", []), *getattr(s, "cases", [])]:
            self.inner(part)
        return s

    def liftable(self, s: ast.stmt) -> bool:
        """Return True if no jump is inside with, try or match."""
        return not any(
            isinstance(n, (ast.With, ast.Try, ast.Match, ast.AsyncWith, ast.AsyncFor)) and has_jump([n])
            for n in walk(s)
        )

    def loop(self, s: ast.While | ast.For) -> list[ast.stmt]:
        """A loop without jumps, and what follows from them."""
        if isinstance(s, ast.While) and any(isinstance(n, ast.NamedExpr) for n in ast.walk(s.test)) and not s.orelse:
            # a test that assigns is part of the step
            leave = if_stmt(
                ast.copy_location(ast.UnaryOp(ast.Not(), s.test), s), [ast.copy_location(ast.Break(), s)], [], s
            )
            s.test, s.body = constant(True, s), [leave, *s.body]
        if not self.liftable(s):
            for n in walk(s):
                n.plain = isinstance(n, LOOPS)
            return [s]
        self.count += 1
        stop, skip = f"ag__stop_{self.count}", f"ag__skip_{self.count}"
        own = [n for b in s.body for n in walk(b, into_loops=False)]
        leaves = has_return(s.body) or any(isinstance(n, ast.Break) for n in own)
        skips = any(isinstance(n, ast.Continue) for n in own)
        orelse, s.orelse = s.orelse, []
        s.body = self.block(s.body, stop, skip)
        if skips:
            s.body.insert(0, assign(skip, constant(False, s), s))
        setattr(s, "stop", stop if leaves else None)  # noqa: B010  a mark for the rewriting of the loop
        out: list[ast.stmt] = [assign(stop, constant(False, s), s)] if leaves else []
        out.append(s)
        if orelse:
            follow = [t for b in orelse for t in (self.loop(b) if isinstance(b, LOOPS) else [self.inner(b)])]
            out += (
                [if_stmt(ast.copy_location(ast.UnaryOp(ast.Not(), name(stop, s)), s), follow, [], s)]
                if leaves
                else follow
            )
        return out

    def block(self, stmts: list[ast.stmt], stop: str, skip: str) -> list[ast.stmt]:
        """The inside of a loop."""
        out: list[ast.stmt] = []
        for k, s in enumerate(stmts):
            rest = stmts[k + 1 :]
            if isinstance(s, ast.Break):
                return [*out, assign(stop, constant(True, s), s)]
            if isinstance(s, ast.Continue):
                return [*out, assign(skip, constant(True, s), s)]
            if isinstance(s, ast.Return):
                self.flag_returns = True
                value = s.value or constant(None, s)
                return [
                    *out,
                    assign(VALUE, value, s),
                    assign(RETURNED, constant(True, s), s),
                    assign(stop, constant(True, s), s),
                ]
            if isinstance(s, ast.If) and has_jump(s):
                if not falls_through(s.body) and not has_jump(s.orelse):
                    return [
                        *out,
                        if_stmt(s.test, self.block(s.body, stop, skip), self.block(s.orelse + rest, stop, skip), s),
                    ]
                if s.orelse and not falls_through(s.orelse) and not has_jump(s.body):
                    return [
                        *out,
                        if_stmt(s.test, self.block(s.body + rest, stop, skip), self.block(s.orelse, stop, skip), s),
                    ]
                names = [
                    n
                    for n, kinds in ((stop, (ast.Break, ast.Return)), (skip, (ast.Continue,)))
                    if any(isinstance(m, kinds) for m in walk(s))
                ]
                flags = [assign(n, constant(False, s), s) for n in names]
                new = if_stmt(s.test, self.block(s.body, stop, skip), self.block(s.orelse, stop, skip), s)
                return [*out, *flags, new, *self.unless(names, self.block(rest, stop, skip), s)]
            if isinstance(s, LOOPS):
                leaves = has_return(s)
                out += self.loop(s)
                if leaves:
                    leave = [assign(stop, constant(True, s), s)]
                    return [*out, if_stmt(name(RETURNED, s), leave, self.block(rest, stop, skip), s)]
            else:
                out.append(self.inner(s))
        return out

    def unless(self, flags: list[str], stmts: list[ast.stmt], at: ast.AST) -> list[ast.stmt]:
        if not stmts:
            return []
        values = [name(f, at) for f in flags]
        test = values[0] if len(values) == 1 else ast.copy_location(ast.BoolOp(ast.Or(), values), at)
        return [if_stmt(ast.copy_location(ast.UnaryOp(ast.Not(), test), at), stmts, [], at)]
