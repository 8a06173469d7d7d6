"""Matrix products in the form in which they are carried out: BLAS on arrays as they lie, or sums of products in loops.

A product with one row or column, or of few elements, is a sum over a broadcast multiplication, which fuses with what
is around it; the axis that is contiguous in the larger operand becomes the innermost loop. Others stay `dot_general`
with operands whose axes are (batch, free, contracted) or (batch, contracted, free), so that BLAS reads them without a
copy.
"""

from __future__ import annotations

import math
from collections import Counter

from triskele.core.compile.products import accepts, dot_add
from triskele.core.compile.values import supported
from triskele.core.graph.graph import Equation, Graph, Var
from triskele.core.graph.primitive import PRIMITIVES
from triskele.core.graph.simplify import Rewriter
from triskele.core.graph.trace import dead_code

FEW = 600  # multiplications below which a product is written as loops


def lower(graph: Graph) -> Graph:
    """`graph` with its products in the form the compiler carries out."""
    r = _Lowering()
    outputs = r.run(graph, {v: v for v in graph.inputs})
    return _accumulating(dead_code(Graph(graph.inputs, r.equations, outputs, graph.name)))


def _accumulating(graph: Graph) -> Graph:
    """Sums of an array and a product of matrices nobody else reads become products that add to the array."""
    uses = Counter(a for e in graph.equations for a in e.inputs if isinstance(a, Var))
    uses.update(o for o in graph.outputs if isinstance(o, Var))
    products = {e.outputs[0]: e for e in graph.equations if e.primitive.name == "dot_general"}
    equations = []
    for e in graph.equations:
        if e.primitive.name == "add":
            for x, y in (e.inputs, e.inputs[::-1]):
                made = products.get(y) if isinstance(y, Var) else None
                if made is not None and x is not y and uses[y] == 1 and x.spec == y.spec == e.outputs[0].spec and accepts(made):
                    e = Equation(dot_add, [*made.inputs, x], made.params, e.outputs, e.source)
                    break
        equations.append(e)
    return dead_code(Graph(graph.inputs, equations, graph.outputs, graph.name))


class _Lowering(Rewriter):
    def equation(self, primitive, inputs, params, specs, source):
        if primitive.name == "dot_general" and specs[0].size and all(a.spec.size for a in inputs) and supported(specs[0].dtype):
            out = self._product(inputs, params, specs[0], source)
            if out is not None:
                return [out]
        return super().equation(primitive, inputs, params, specs, source)

    def _product(self, inputs, params, spec, source):
        l, r = map(self._untransposed, inputs)
        (l, lp), (r, rp) = l, r
        (cl, cr), (bl, br) = params["contract"], params["batch"]
        cl, bl, cr, br = (tuple(lp[d] for d in cl), tuple(lp[d] for d in bl), tuple(rp[d] for d in cr), tuple(rp[d] for d in br))
        fl = [lp[d] for d in range(len(lp)) if lp[d] not in cl and lp[d] not in bl]
        fr = [rp[d] for d in range(len(rp)) if rp[d] not in cr and rp[d] not in br]
        m, n = math.prod(l.spec.shape[d] for d in fl), math.prod(r.spec.shape[d] for d in fr)
        k = math.prod(l.spec.shape[d] for d in cl)
        kind = spec.dtype.kind
        if kind in "fc" and min(m, n) > 1 and k > 1 and m * n * k > FEW:
            return self._blas(l, r, (cl, bl, fl), (cr, br, fr), spec, source)
        return self._loops(l, r, (cl, bl, fl), (cr, br, fr), spec, source)

    def _untransposed(self, atom):
        """The array a transposition reads, and which of its axes each axis is."""
        made = self.made_by(atom, "transpose")
        if made is not None:
            return made.inputs[0], made.params["axes"]
        return atom, tuple(range(len(atom.spec.shape)))

    def _blas(self, l, r, left, right, spec, source):
        (cl, bl, fl), (cr, br, fr) = left, right
        # contracted axes in the order in which they lie in the larger operand
        order = sorted(range(len(cl)), key=(cl if l.spec.size >= r.spec.size else cr).__getitem__)
        cl, cr = [cl[i] for i in order], [cr[i] for i in order]
        l, l_last = self._arranged(l, bl, fl, cl, source)
        r, r_last = self._arranged(r, br, fr, cr, source)
        b, nk = len(bl), len(cl)

        def contracted(x, last):
            rank = len(x.spec.shape)
            return tuple(range(rank - nk, rank)) if last else tuple(range(b, b + nk))

        batch = tuple(range(b))
        p = {"contract": (contracted(l, l_last), contracted(r, r_last)), "batch": (batch, batch)}
        return super().equation(PRIMITIVES["dot_general"], [l, r], p, [spec], source)[0]

    def _arranged(self, x, batch, free, contracted, source):
        """`x` with axes (batch, free, contracted) or (batch, contracted, free), whichever it has; whether the former."""
        natural = [d for d in range(len(x.spec.shape)) if x.spec.shape[d] != 1]
        for axes, last in (((*batch, *free, *contracted), True), ((*batch, *contracted, *free), False)):
            if [d for d in axes if x.spec.shape[d] != 1] == natural:
                return self._ordered(x, axes, source), last
        return self._ordered(x, (*batch, *free, *contracted), source), True

    def _ordered(self, x, axes, source):
        return x if list(axes) == sorted(axes) else self.apply("transpose", x, source=source, axes=tuple(axes))

    def _loops(self, l, r, left, right, spec, source):
        """sum(l * r) over axes ordered so that the larger operand is read along its rows."""
        (cl, bl, fl), (cr, br, fr) = left, right
        tags = [("b", i) for i in range(len(bl))] + [("l", i) for i in range(len(fl))] + [("r", i) for i in range(len(fr))] + [("c", i) for i in range(len(cl))]
        where_l = {("b", i): d for i, d in enumerate(bl)} | {("l", i): d for i, d in enumerate(fl)} | {("c", i): d for i, d in enumerate(cl)}
        where_r = {("b", i): d for i, d in enumerate(br)} | {("r", i): d for i, d in enumerate(fr)} | {("c", i): d for i, d in enumerate(cr)}
        big = where_l if l.spec.size >= r.spec.size else where_r
        last = max(big, key=big.__getitem__, default=None)
        if last is not None and last[0] in "lr" and cl:
            # contracted axes first: the free axis of the large operand is the inner loop
            tags = [t for t in tags if t[0] == "b"] + [t for t in tags if t[0] == "c"] + [t for t in tags if t[0] in "lr"]

        def spread(x, where):
            axes = [where[t] for t in tags if t in where]
            if axes != sorted(axes):
                x = self.apply("transpose", x, source=source, axes=tuple(axes))
            shape = iter(x.spec.shape)
            return self.apply("reshape", x, source=source, shape=tuple(next(shape) if t in where else 1 for t in tags))

        product = self.apply("multiply", spread(l, where_l), spread(r, where_r), source=source)
        axes = tuple(i for i, t in enumerate(tags) if t[0] == "c")
        if not axes:
            return product
        if spec.dtype.kind == "b":
            return self.apply("any", product, source=source, axes=axes)
        return self.apply("sum", product, source=source, axes=axes, dtype=spec.dtype)
