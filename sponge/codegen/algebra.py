"""A small algebra of scalar expressions: what a derivative needs before it becomes code.

An expression is a monomial `Term`: a number times integer powers of *nodes*. A node is an input, a function call, a
selection or a sum of terms; equal nodes are made once, so common subexpressions are found by construction. Products,
quotients and integer powers never become nodes, and a sum has the factor that its terms share taken out, so that
``-12 s**12 / r**14 + 6 s**6 / r**8`` is stored as ``6 s**6 r**-8 (1 - 2 s**6 r**-6)``.

Laws of the reals are used (x/x = 1, 0 x = 0); a NaN in an input stays visible wherever that input still matters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

__all__ = ["Algebra", "Term"]


class Term(NamedTuple):
    """``number * node**power * ...``; factors are sorted by node."""

    number: float
    factors: tuple[tuple[int, int], ...] = ()


class Algebra:
    """The nodes of one or several expressions."""

    def __init__(self):
        # by index: ("input", name), ("sum", terms...), (function, argument terms...) or ("select", condition, x, y)
        self.nodes: list[tuple[Any, ...]] = []
        self._index: dict[tuple[Any, ...], int] = {}

    def node(self, *key) -> Term:
        """The node with this content as a term."""
        if key not in self._index:
            self._index[key] = len(self.nodes)
            self.nodes.append(key)
        return Term(1.0, ((self._index[key], 1),))

    def multiply(self, *terms: Term) -> Term:
        number = 1.0
        powers: dict[int, int] = {}
        for term in terms:
            number *= term.number
            for node, n in term.factors:
                powers[node] = powers.get(node, 0) + n
        if number == 0:
            return Term(0.0)
        return Term(number, tuple(sorted((node, n) for node, n in powers.items() if n)))

    def power(self, term: Term, n: int) -> Term:
        number = term.number**n if term.number or n > 0 else float("inf")
        return Term(number, tuple((node, n * p) for node, p in term.factors if n))

    def negative(self, term: Term) -> Term:
        return Term(-term.number, term.factors)

    def add(self, *terms: Term) -> Term:
        sums: dict[tuple, float] = {}
        for term in self._merge_selections([t for given in terms for t in self._addends(given)]):
            sums[term.factors] = sums.get(term.factors, 0.0) + term.number
        left = [Term(number, factors) for factors, number in sums.items() if number]
        if len(left) < 2:
            return left[0] if left else Term(0.0)
        left.sort(key=lambda t: t.factors)
        common = self._common_factor(left)
        inverse = self.power(common, -1)
        left = [self.multiply(inverse, t) for t in left]
        if any(self._sum(t) for t in left):  # x (x - 1) + x x has become x times a sum of sums
            return self.multiply(common, self.add(*left))
        return self.multiply(common, self.node("sum", *left))

    def select(self, condition: Term, x: Term, y: Term) -> Term:
        if not condition.factors:
            return x if condition.number else y
        return x if x == y else self.node("select", condition, x, y)

    def _addends(self, term: Term):
        """The terms of a sum times a number; else the term itself."""
        return [Term(term.number * t.number, t.factors) for t in self._sum(term)] or [term]

    def _sum(self, term: Term) -> list[Term]:
        """The terms of the sum that the term is a multiple of; empty if it is none."""
        if len(term.factors) != 1 or term.factors[0][1] != 1:
            return []
        kind, *inner = self.nodes[term.factors[0][0]]
        return inner if kind == "sum" else []

    def _merge_selections(self, terms):
        """Derivatives of branches come as select(c, x, 0) + select(c, 0, y)."""
        by_condition: dict[Term, list[tuple[float, Term, Term]]] = {}
        others = []
        for term in terms:
            key: tuple = self.nodes[term.factors[0][0]] if len(term.factors) == 1 and term.factors[0][1] == 1 else ("",)
            if key[0] == "select":
                by_condition.setdefault(key[1], []).append((term.number, key[2], key[3]))
            else:
                others.append(term)
        for condition, found in by_condition.items():
            branches = [
                self.add(*[Term(number * t.number, t.factors) for number, *xy in found for t in [xy[side]]])
                for side in (0, 1)
            ]
            others.append(self.select(condition, *branches))
        return others

    def _common_factor(self, terms) -> Term:
        shared = dict(terms[0].factors)
        for term in terms[1:]:
            powers = dict(term.factors)
            shared = {
                node: min(n, powers[node], key=abs)
                for node, n in shared.items()
                if node in powers and (n > 0) == (powers[node] > 0)
            }
        size = abs(terms[0].number) if len({abs(t.number) for t in terms}) == 1 else 1.0
        sign = -1.0 if terms[0].number < 0 else 1.0
        return Term(sign * size, tuple(sorted(shared.items())))
