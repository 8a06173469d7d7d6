"""Write the page of all derivative rules from the registry of primitives: a table, then the rules of several lines."""

import ast
import inspect
import textwrap
from functools import cache
from pathlib import Path

import triskele.core.ops  # noqa: F401  registers the primitives
from triskele.core.graph.primitive import PRIMITIVES

ROOT = Path(__file__).parents[1]
HEAD = """# Derivative rules

This page lists every primitive of `core/ops` with its derivative rules, as they stand in the source. A reverse rule
takes the cotangent `ct` of the output `out`, and a forward rule takes the tangent `t` of an argument. One rule with `t`
serves both directions of an elementwise primitive. Rules call other primitives, which have rules of their own, so that
derivatives of any order follow. *linear* means that the primitive itself maps the tangent. The last column names the
helper that writes the batching rule of `vmap`, or says that the primitive has its own.

| primitive | kind | reverse, by argument | forward, by argument | batching |
| --- | --- | --- | --- | --- |
"""


@cache
def lambdas(path):
    """Return the lambdas of a source file as syntax trees."""
    return [node for node in ast.walk(ast.parse(Path(path).read_text())) if isinstance(node, ast.Lambda)]


def body(rule):
    """Return the expression of a lambda as text, or None for a function of several statements."""
    code, last = rule.__code__, max((p[0], p[2]) for p in rule.__code__.co_positions() if p[3])
    fits = [
        node
        for node in lambdas(code.co_filename)
        if node.lineno == code.co_firstlineno
        and (node.body.lineno, node.body.col_offset) <= last <= (node.body.end_lineno, node.body.end_col_offset)
    ]
    if not fits:
        return None
    factor = inspect.getclosurevars(rule).nonlocals.get("f")  # t * f(out, *args), made by `elementwise`
    text = ast.unparse(min(fits, key=lambda node: node.end_lineno - node.lineno).body)
    if factor is None:
        return text
    inner = body(factor)
    return text.replace("f(", f"{factor.__qualname__.partition('.')[0]}(") if inner is None else f"t * ({inner})"


def cells(name, one_each, whole, long):
    """Return the text of one derivative rule for each argument, or of the rule for all; collect long ones."""
    texts = []
    for rule in (whole,) if one_each is None else one_each:
        if rule is None or isinstance(rule, str):
            texts.append("none" if rule is None else "linear")
        elif (text := body(rule)) is not None:
            texts.append(f"`{text.replace('|', chr(92) + '|')}`")
        else:
            long.setdefault(rule, []).append(name)
            texts.append("below")
    return "<br>".join(texts)


def page():
    """Return the page as Markdown."""
    rows, long = [], {}
    for name, p in sorted(PRIMITIVES.items()):  # without those that users have defined
        if name.isidentifier() and p.spec.__module__.startswith("triskele.core.ops"):
            reverse = cells(name, p.vjps, p.vjp_all or p.taped, long)
            forward = cells(name, p.jvps, p.jvp_all, long)
            forward = "same" if p.differentiable and forward == reverse != "below" else forward
            maker, local, _ = p.batch.__qualname__.partition(".<locals>")
            rows.append(f"| `{name}` | {p.kind} | {reverse} | {forward} | {maker.strip('_') if local else 'own'} |\n")
    text = [
        f"\n`{'`, `'.join(dict.fromkeys(names))}`, in `{Path(inspect.getfile(rule)).resolve().relative_to(ROOT)}`:"
        f"\n\n```python\n{textwrap.dedent(inspect.getsource(rule))}```\n"
        for rule, names in long.items()
    ]
    return HEAD + "".join(rows) + "\n## Rules of several lines\n" + "".join(text)
