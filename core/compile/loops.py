"""Hoisting: computations of a loop's body that are equal in every step are done once, before the loop.

A carry that the body hands on unchanged becomes a constant of the loop. Equations of constants alone go in front of it
when they are dear; cheap ones (a stretched scalar, a sum of two arrays) stay, where they fuse with what reads them. A
loop that may run no step at all keeps inside whatever can raise.
"""

from __future__ import annotations

from typing import Any

from ..graph.graph import Const, Equation, Graph, Var
from ..graph.simplify import LOOPS, Rewriter, simplify
from ..graph.trace import dead_code
from .formulas import cost_of

__all__: list[str] = []

DEAR = 4.0  # operations per element from which on a value is better kept than computed again
LARGE = 1 << 20  # bytes up to which a value may be kept whatever it is made of
_KINDS = frozenset(["elementwise", "reshape", "pull", "reduce", "contract", "conv", "scan"])
_RAISES = frozenset(["gather", "left_shift", "right_shift"])


def _movable(eqn: Equation, safe: bool) -> bool:
    p = eqn.primitive
    if p.kind in _KINDS:
        return not (safe and p.name in _RAISES)
    return (
        not safe
        and p.kind == "opaque"
        and (getattr(p.impl, "__module__", None) or "").startswith(("triskele.core.ops", "numpy"))
    )


def _is_dear(eqn: Equation) -> bool:
    kind = eqn.primitive.kind
    return cost_of(eqn) >= DEAR if kind == "elementwise" else kind not in ("reshape", "pull")


def _invariant(graph: Graph, fixed: set[Var], safe: bool) -> tuple[list[Equation], list[Var]]:
    """Equations of `fixed` alone, and those of their results that are to be computed in front of the loop."""
    limit = max([LARGE, *[4 * v.spec.nbytes for v in fixed]])
    made: dict[Var, Equation] = {}
    dear: set[Var] = set()
    needed: list[Var] = [o for o in graph.outputs if type(o) is Var]
    for e in graph.equations:
        if _movable(e, safe) and all(type(a) is Const or a in fixed or a in made for a in e.inputs):
            made.update(dict.fromkeys(e.outputs, e))
            if _is_dear(e) or any(a in dear for a in e.inputs if type(a) is Var):
                dear.update(e.outputs)
        else:
            needed += [a for a in e.inputs if type(a) is Var]
    taken: dict[Var, None] = {}
    seen: set[Var] = set()
    while needed:
        v = needed.pop()
        if v in seen or v not in made:
            continue
        seen.add(v)
        e = made[v]
        stretched = e.primitive.kind == "reshape" or e.primitive.name in ("broadcast_to", "transpose")
        if v in dear and not stretched and v.spec.nbytes <= limit:
            taken[v] = None
        else:
            needed += [a for a in e.inputs if type(a) is Var]
    return list(dict.fromkeys(made.values())), list(taken)


def _hoist(r: Rewriter, graph: Graph, atoms: dict[Var, Any], safe: bool) -> tuple[list[Var], list[Any]]:
    """Further constants of the body `graph`, whose constants are `atoms` outside, and their values outside."""
    equations, taken = _invariant(graph, set(atoms), safe)
    if not taken:
        return [], []
    outside = dead_code(Graph(list(atoms), equations, list(taken), graph.name))
    return taken, r.run(outside, dict(atoms))


def _without(graph: Graph, taken: list[Var], inputs: list[Var], outputs: list[Any]) -> Graph:
    """`graph` with `taken` among its inputs."""
    known = set(taken)
    equations = [e for e in graph.equations if not known.issuperset(e.outputs)]
    return dead_code(Graph(inputs, equations, outputs, graph.name))


def _unchanged(body: Graph, n_consts: int, n_carry: int, carry: list[Any]) -> list[int]:
    return [
        k
        for k in range(n_carry)
        if body.outputs[k] is body.inputs[n_consts + k] and carry[k].spec == body.outputs[k].spec
    ]


def _scan(r, primitive, inputs, params, specs, source):
    body, n_consts, n_carry = simplify(params["body"]), params["n_consts"], params["n_carry"]
    n = n_consts + n_carry
    same = _unchanged(body, n_consts, n_carry, inputs[n_consts:n])
    moving = [k for k in range(n_carry) if k not in same]
    constant = [*range(n_consts), *[n_consts + k for k in same]]
    taken, values = _hoist(r, body, {body.inputs[i]: inputs[i] for i in constant}, safe=params["length"] == 0)
    if not same and not taken:
        return None

    def order(consts, rest):
        return [*[rest[i] for i in constant], *consts, *[rest[n_consts + k] for k in moving], *rest[n:]]

    outputs = [*[body.outputs[k] for k in moving], *body.outputs[n_carry:]]
    new = {
        **params,
        "body": _without(body, taken, order(taken, body.inputs), outputs),
        "n_consts": len(constant) + len(taken),
        "n_carry": len(moving),
    }
    found = r.add(primitive, order(values, inputs), new, [*[specs[k] for k in moving], *specs[n_carry:]], source)
    carry = {**{k: inputs[n_consts + k] for k in same}, **dict(zip(moving, found, strict=False))}
    return [*[carry[k] for k in range(n_carry)], *found[len(moving) :]]


def _while(r, primitive, inputs, params, specs, source):
    cond, body = simplify(params["cond"]), simplify(params["body"])
    n_cond, n_body = params["n_cond_consts"], params["n_body_consts"]
    n, n_carry = n_cond + n_body, len(specs)
    same = _unchanged(body, n_body, n_carry, inputs[n:])
    moving = [k for k in range(n_carry) if k not in same]
    places = {
        "cond": [*range(n_cond), *[n_cond + k for k in same]],
        "body": [*range(n_body), *[n_body + k for k in same]],
    }
    fixed = {
        "cond": [*inputs[:n_cond], *[inputs[n + k] for k in same]],
        "body": [*inputs[n_cond:n], *[inputs[n + k] for k in same]],
    }
    new = dict(params)
    atoms = []
    changed = bool(same)
    for name, graph, first in (("cond", cond, n_cond), ("body", body, n_body)):
        consts = [graph.inputs[i] for i in places[name]]
        taken, values = _hoist(r, graph, dict(zip(consts, fixed[name], strict=True)), safe=True)
        changed = changed or bool(taken)
        outputs = graph.outputs if name == "cond" else [graph.outputs[k] for k in moving]
        new[name] = _without(graph, taken, [*consts, *taken, *[graph.inputs[first + k] for k in moving]], outputs)
        new[f"n_{name}_consts"] = len(consts) + len(taken)
        atoms += [*fixed[name], *values]
    if not changed:
        return None
    found = r.add(primitive, [*atoms, *[inputs[n + k] for k in moving]], new, [specs[k] for k in moving], source)
    carry = {**{k: inputs[n + k] for k in same}, **dict(zip(moving, found, strict=True))}
    return [carry[k] for k in range(n_carry)]


LOOPS["scan"], LOOPS["while"] = _scan, _while
