"""Sums of matrix products over the steps of a loop, taken out of it: one large product instead of many small ones.

The cotangent of a matrix used in every step is the sum of one product per step. Where the factors are smaller than the
product, they are collected and multiplied once after the loop, with the steps as one more dimension to sum over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ...graph.graph import Equation, Graph, Var
from ...graph.trace import bind, dead_code
from ...ops.contract import dot_general
from ...ops.elementwise import add

__all__ = ["take_out_products"]


class Product(NamedTuple):
    """One term of a sum: the product of two values of each step, found among the loop's xs or ys."""

    total: int
    left: tuple[str, int]
    right: tuple[str, int]
    contract: tuple[tuple[int, ...], tuple[int, ...]]
    batch: tuple[tuple[int, ...], tuple[int, ...]]

    def of(self, xs: Sequence[Any], ys: Sequence[Any]) -> Any:
        """The sum over all steps."""
        left, right = [(xs if kind == "x" else ys)[k] for kind, k in (self.left, self.right)]
        (cl, cr), (bl, br) = self.contract, self.batch
        contract = (0, *[d + 1 for d in cl]), (0, *[d + 1 for d in cr])
        return bind(
            dot_general, left, right, contract=contract, batch=(tuple([d + 1 for d in bl]), tuple([d + 1 for d in br]))
        )


def take_out_products(body: Graph, n_consts: int, n_carry: int, n_sums: int) -> tuple[Graph, list[int], list[Product]]:
    """Take products out of the body of a scan whose last `n_sums` carries are sums that begin at zero.

    The body is ``(*consts, *carry, *sums, *xs) -> (*carry, *sums, *ys)``. Return it with fewer sums and more ys (at the
    end), the indices of the sums that it still carries, and the terms to add to the sums after the loop.
    """
    producer = {o: eqn for eqn in body.equations for o in eqn.outputs}
    uses: dict[Any, int] = {}
    for v in [a for eqn in body.equations for a in eqn.inputs] + body.outputs:
        uses[v] = uses.get(v, 0) + 1
    first_x = n_consts + n_carry + n_sums
    place = {v: ("x", k) for k, v in enumerate(body.inputs[first_x:])}
    constant = set(body.inputs[:n_consts])
    ys = list(body.outputs[n_carry + n_sums :])
    kept, products, sums, equations = [], [], [], list(body.equations)
    for s in range(n_sums):
        total, out = body.inputs[n_consts + n_carry + s], body.outputs[n_carry + s]
        chain = _chain(total, out, producer, uses)
        taken = [g for _, g in chain or () if _is_small(producer.get(g), constant) and uses[g] == 1]
        for g in taken:
            eqn = producer[g]
            factors = []
            for v in eqn.inputs:
                if v not in place:
                    place[v] = ("y", ys.index(v) if v in ys else len(ys))
                    if place[v][1] == len(ys):
                        ys.append(v)
                factors.append(place[v])
            products.append(Product(s, *factors, **eqn.params))
        if chain and len(taken) == len(chain):
            continue
        kept.append(s)
        if taken:
            rest = [g for _, g in chain if g not in taken]
            for g in rest:
                new = Var(total.spec)
                equations.append(Equation(add.primitive, [total, g], {}, [new]))
                total = new
            out = total
        sums.append(out)
    if not products:
        return body, list(range(n_sums)), []
    inputs = [
        v for k, v in enumerate(body.inputs) if not n_consts + n_carry <= k < first_x or k - n_consts - n_carry in kept
    ]
    return dead_code(Graph(inputs, equations, [*body.outputs[:n_carry], *sums, *ys], body.name)), kept, products


def _chain(total, out, producer, uses):
    """``out = total + g1 + g2 ...`` as a list of (sum so far, g), None where it is not of this form."""
    chain, v = [], out
    while v is not total:
        eqn = producer.get(v)
        if eqn is None or eqn.primitive is not add.primitive or (v is not out and uses[v] > 1):
            return None
        left, right = eqn.inputs
        forward = left is total or (right is not total and _leads_to(left, total, producer))
        v, g = (left, right) if forward else (right, left)
        if g.spec.shape != total.spec.shape or g.spec.dtype != total.spec.dtype:
            return None
        chain.append((v, g))
    return chain if uses.get(total) == 1 else None


def _leads_to(v, total, producer):
    eqn = producer.get(v)
    return v is total or (
        eqn is not None and eqn.primitive is add.primitive and any(_leads_to(a, total, producer) for a in eqn.inputs)
    )


def _is_small(eqn, constant):
    """Return True if an equation is a product whose factors differ from step to step and are smaller than it."""
    if eqn is None or eqn.primitive is not dot_general or any(type(a) is not Var or a in constant for a in eqn.inputs):
        return False
    return sum(a.spec.nbytes for a in eqn.inputs) <= eqn.outputs[0].spec.nbytes
