"""Matrix products in the form in which they are carried out: matrices as they lie, or sums of products in loops.

A product with one row or column, or of few elements, is a sum over a broadcast multiplication, which fuses with what
is around it; the axis that is contiguous in the larger operand becomes the innermost loop. Others become `product`,
which reads its operands through transpositions, reshapes and slices, and writes its result transposed where that is
what is wanted: an operand is copied only if neither its free nor its contracted axes are one contiguous axis.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import numpy as np

from ..dtypes import FLOAT32, is_narrow, widened
from ..graph.graph import Const, Equation, Graph, Spec, Var
from ..graph.simplify import Rewriter
from ..graph.trace import dead_code
from ..ops.windows import LONGEST
from .primitives.convolution_tail import with_tails
from .primitives.depthwise import depthwise, depthwise_input, depthwise_terms, is_depthwise
from .primitives.products import Matrices, has_product, product, product_add
from .scalars import supported
from .strides import contiguous, merged, reshaped, sliced, transposed, whole

__all__ = ["lower"]

FEW = 600  # multiplications below which a product is written as loops
LARGE_COMPLEX = 1 << 16  # multiplications from which complex products are made from real ones, which threads share ...
LONG_COMPLEX = 32  # ... if they sum over at least this many: splitting and joining is then a small part of the cost


def lower(graph: Graph, overwritable: Iterable[int] = ()) -> Graph:
    """`graph` with its products in the form the compiler carries out; `overwritable`: inputs whose memory may be
    reused.
    """
    r = _Lowering()
    outputs = r.run(graph, {v: v for v in graph.inputs})
    lowered = dead_code(Graph(graph.inputs, r.equations, outputs, graph.name))
    return with_tails(_transposing(_widened_anew(_widening(_accumulating(lowered, set(overwritable))))))


def _accumulating(graph: Graph, overwritable: set[int]) -> Graph:
    """Sums of an array and a product of matrices, neither read by others, become products that add to the array in
    place.

    (Where the array had to be copied first, a loop nest that adds is as quick, and may do more on the way.)
    """
    fixed = {v for i, v in enumerate(graph.inputs) if i not in overwritable}
    uses = Counter(a for e in graph.equations for a in e.inputs if isinstance(a, Var))
    uses.update(o for o in graph.outputs if isinstance(o, Var))
    products = {e.outputs[0]: e for e in graph.equations if e.primitive is product}
    equations = []
    for e in graph.equations:
        if e.primitive.name == "add":
            for x, y in (e.inputs, e.inputs[::-1]):
                made = products.get(y) if isinstance(y, Var) else None
                if (
                    made is not None
                    and x is not y
                    and uses[y] == 1 == uses.get(x)
                    and x not in fixed
                    and x.spec == y.spec == e.outputs[0].spec
                    and not is_narrow(made.inputs[0].spec.dtype)
                ):
                    e = Equation(product_add, [*made.inputs, x], made.params, e.outputs, e.source)
                    break
        equations.append(e)
    return dead_code(Graph(graph.inputs, equations, graph.outputs, graph.name))


def _widening(graph: Graph) -> Graph:
    """Products of bfloat16 that are used only as float32, such as gradients of parameters, are not rounded."""
    uses = Counter(a for e in graph.equations for a in e.inputs if isinstance(a, Var))
    uses.update(o for o in graph.outputs if isinstance(o, Var))
    made = {e.outputs[0]: e for e in graph.equations if e.primitive is product and is_narrow(e.outputs[0].spec.dtype)}
    wide = {}
    for e in graph.equations:
        own = made.get(e.inputs[0]) if e.primitive.name == "convert" and isinstance(e.inputs[0], Var) else None
        if own is not None and uses[e.inputs[0]] == 1 and e.outputs[0].spec.dtype == FLOAT32:
            wide[own] = Equation(product, own.inputs, {**own.params, "dtype": FLOAT32}, e.outputs, own.source)
            wide[e] = None
    equations = [wide.get(e, e) for e in graph.equations]
    return Graph(graph.inputs, [e for e in equations if e is not None], graph.outputs, graph.name)


def _widened_anew(graph: Graph) -> Graph:
    """A float32 copy of a float16 or bfloat16 array is made again for each reader, so that it need not be kept."""
    made = {
        e.outputs[0]: e
        for e in graph.equations
        if e.primitive.name == "convert"
        and len(e.outputs[0].spec.shape)
        and is_narrow(e.inputs[0].spec.dtype)
        and isinstance(e.inputs[0], Var)
    }
    seen: set[Var] = set()
    equations = []
    for e in graph.equations:
        inputs = list(e.inputs)
        for k, a in enumerate(inputs):
            if a in made and e.primitive.kind != "elementwise":
                if a in seen:
                    inputs[k] = Var(a.spec)
                    c = made[a]
                    equations.append(Equation(c.primitive, c.inputs, c.params, [inputs[k]], c.source))
                seen.add(a)
        equations.append(Equation(e.primitive, inputs, e.params, e.outputs, e.source))
    return Graph(graph.inputs, equations, graph.outputs, graph.name)


def _transposing(graph: Graph) -> Graph:
    """Matrix products whose result is used only transposed are written transposed."""
    uses = Counter(a for e in graph.equations for a in e.inputs if isinstance(a, Var))
    uses.update(o for o in graph.outputs if isinstance(o, Var))
    equations = {e.outputs[0]: e for e in graph.equations}
    out = []
    for e in graph.equations:
        made = equations.get(e.inputs[0]) if e.primitive.name == "transpose" and isinstance(e.inputs[0], Var) else None
        if made is not None and made.primitive is product and uses[e.inputs[0]] == 1:
            e = _transposed_product(made, e) or e
        out.append(e)
    return dead_code(Graph(graph.inputs, out, graph.outputs, graph.name))


def _transposed_product(made, transpose):
    p, axes = made.params, transpose.params["axes"]
    (m, n, k), shape, new = p["sizes"], made.outputs[0].spec.shape, transpose.outputs[0].spec.shape
    strides = [0] * len(shape)
    for axis, stride in zip(axes, contiguous(new), strict=True):
        strides[axis] = stride
    b = len(p["batch"])
    f = b
    while math.prod(shape[b:f]) != m or math.prod(shape[f:]) != n:
        f += 1
    rows, columns = merged(shape[b:f], strides[b:f]), merged(shape[f:], strides[f:])
    if rows is None or columns is None:
        return None
    left, right = p["left"], p["right"]
    if columns[1] != 1:  # C' = B' A'
        rows, columns, m, n = columns, rows, n, m
        left, right = (x._replace(transposed=not x.transposed) for x in (right, left))
    if columns[1] != 1 or rows[1] < n:
        return None
    params = {
        **p,
        "sizes": (m, n, k),
        "left": left,
        "right": right,
        "result": Matrices(0, tuple(strides[:b]), rows[1], False),
        "shape": new,
    }
    inputs = made.inputs if left is p["left"] else made.inputs[::-1]
    return Equation(product, inputs, params, transpose.outputs, made.source)


_IN_FLOAT32 = frozenset(["reduce", "contract", "conv", "scan"])  # kinds of primitives that add up many elements


class _Lowering(Rewriter):
    def equation(self, primitive, inputs, params, specs, source):
        if primitive.kind in _IN_FLOAT32 and any(is_narrow(a.spec.dtype) for a in (*inputs, *[Var(s) for s in specs])):
            return self._in_float32(primitive, inputs, params, specs, source)
        if (
            primitive.name == "dot_general"
            and specs[0].size
            and all(a.spec.size for a in inputs)
            and supported(specs[0].dtype)
        ):
            out = self._product(inputs, params, specs[0], source)
            if out is not None:
                return [out]
        if primitive.name in ("conv", "conv_input", "conv_kernel"):
            out = self._depthwise(primitive.name, inputs, params, specs[0], source)
            if out is not None:
                return [out]
        if (
            primitive.name in ("window_max", "window_sum", "window_argmax")
            and len(params["window"]) > 1
            and math.prod(params["window"]) > LONGEST
        ):
            return [self._by_axis(primitive.name, inputs[0], params, specs[0].dtype, source)]
        return super().equation(primitive, inputs, params, specs, source)

    def _in_float32(self, primitive, inputs, params, specs, source):
        """An operation on float16 or bfloat16, whose sums are float32."""
        if primitive.name == "dot_general" and has_product(specs[0].dtype) and not params["batch"][0] and specs[0].size:
            out = self._with_views(inputs, params, specs[0], source)
            if out is not None:
                return [out]
        wide = [self.apply("convert", a, source=source, dtype=widened(a.spec.dtype)) for a in inputs]
        if "dtype" in params:
            params = {**params, "dtype": widened(np.dtype(params["dtype"]))}
        found = self.equation(primitive, wide, params, [s._replace(dtype=widened(s.dtype)) for s in specs], source)
        return [self.apply("convert", y, source=source, dtype=s.dtype) for y, s in zip(found, specs, strict=True)]

    def _by_axis(self, name, x, params, dtype, source):
        """Pooling over a long window: over its last axis, then over the others."""
        last, rest = dict(params), dict(params)
        for key, alone in (("window", 1), ("stride", 1), ("padding", (0, 0))):
            *others, own = params[key]
            last[key], rest[key] = (*(alone for _ in others), own), (*others, alone)

        def pooled(name, y, p):
            return self.apply(name, y, source=source, **p)

        if name != "window_argmax":
            return pooled(name, pooled(name, x, last), rest)
        row = pooled("window_argmax", pooled("window_max", x, last), rest)
        column = self.apply("window_pick", pooled("window_argmax", x, last), row, source=source, **rest)
        row, column = (self.apply("convert", i, source=source, dtype=dtype) for i in (row, column))
        width = Const(dtype.type(params["window"][-1]))
        return self.apply("add", self.apply("multiply", row, width, source=source), column, source=source)

    def _depthwise(self, name, inputs, params, spec, source):
        x = params["shape"] if name == "conv_input" else inputs[0].spec.shape
        window = spec.shape[:-2] if name == "conv_kernel" else inputs[1].spec.shape[:-2]
        if not (spec.size and all(a.spec.size for a in inputs) and is_depthwise(x[-1], window, params["groups"])):
            return None
        if name != "conv_kernel":
            return super().equation(depthwise if name == "conv" else depthwise_input, inputs, params, [spec], source)[0]
        terms = Spec((*inputs[1].spec.shape[:-1], *window, spec.shape[-1]), spec.dtype)
        made = super().equation(depthwise_terms, inputs, params, [terms], source)[0]
        total = self.apply("sum", made, source=source, axes=tuple(range(len(window) + 1)), dtype=spec.dtype)
        return self.apply("reshape", total, source=source, shape=spec.shape)

    def _product(self, inputs, params, spec, source):
        found = self._with_views(inputs, params, spec, source)
        if found is not None:
            return found
        (l, lp), (r, rp) = map(self._untransposed, inputs)
        (cl, cr), (bl, br) = params["contract"], params["batch"]
        cl, bl, cr, br = (
            tuple(lp[d] for d in cl),
            tuple(lp[d] for d in bl),
            tuple(rp[d] for d in cr),
            tuple(rp[d] for d in br),
        )
        fl = [lp[d] for d in range(len(lp)) if lp[d] not in cl and lp[d] not in bl]
        fr = [rp[d] for d in range(len(rp)) if rp[d] not in cr and rp[d] not in br]
        return self._loops(l, r, (cl, bl, fl), (cr, br, fr), spec, source)

    def _untransposed(self, atom):
        """The array a transposition reads, and which of its axes each axis is."""
        made = self.made_by(atom, "transpose")
        if made is not None:
            return made.inputs[0], made.params["axes"]
        return atom, tuple(range(len(atom.spec.shape)))

    def _from_parts(self, inputs, params, spec, source):
        """A complex product from four real ones, which share out their work among our threads."""
        real = np.dtype(f"f{spec.dtype.itemsize // 2}")

        def times(l, r):
            return self._with_views([l, r], params, Spec(spec.shape, real), source)

        (a, b), (c, d) = (self._parts(x, source) for x in inputs)
        first = self.apply("add", times(a, c), times(self.apply("negative", b, source=source), d), source=source)
        second = self.apply("add", times(a, d), times(b, c), source=source)
        return self.apply("complex", first, second, source=source)

    def _parts(self, x, source):
        made = self.made_by(x, "transpose", "reshape")
        if made is None:
            return [self.apply(part, x, source=source) for part in ("real", "imag")]
        return [
            self.apply(made.primitive.name, part, source=source, **made.params)
            for part in self._parts(made.inputs[0], source)
        ]

    def _with_views(self, inputs, params, spec, source):
        """As a `product`; None for products that are better as loops."""
        (cl, cr), (bl, br) = params["contract"], params["batch"]
        fl, fr = (
            [d for d in range(len(x.spec.shape)) if d not in c and d not in b]
            for x, c, b in zip(inputs, (cl, cr), (bl, br), strict=True)
        )
        sizes = [
            [x.spec.shape[d] for d in axes]
            for x, axes in zip((inputs[0], inputs[1], inputs[0]), (fl, fr, cl), strict=True)
        ]
        m, n, k = map(math.prod, sizes)
        if not has_product(spec.dtype) or min(m, n) <= 1 or k <= 1 or m * n * k <= FEW:
            return None
        if spec.dtype.kind == "c" and k >= LONG_COMPLEX and m * n * k > LARGE_COMPLEX:
            return self._from_parts(inputs, params, spec, source)
        batch = tuple(inputs[0].spec.shape[d] for d in bl)
        views = [self._views(x) for x in inputs]
        # contracted axes in the order in which they lie in the larger operand
        first, axes = (views[0][0], cl) if inputs[0].spec.size >= inputs[1].spec.size else (views[1][0], cr)
        order = sorted(range(len(cl)), key=lambda i: -first.strides[axes[i]])
        cl, cr = [cl[i] for i in order], [cr[i] for i in order]
        left, l = self._matrices(inputs[0], views[0], bl, fl, cl, source)
        right, r = self._matrices(inputs[1], views[1], br, cr, fr, source)
        shape = spec.shape
        p = {
            "batch": batch,
            "sizes": (m, n, k),
            "left": left,
            "right": right,
            "shape": shape,
            "result": Matrices(0, contiguous(shape)[: len(batch)], n, False),
        }
        return super().equation(product, [l, r], p, [spec], source)[0]

    def _views(self, x):
        """Return the chain of views that ends in `x`, from the base to `x` itself."""
        found = [whole(x)]
        made = self.made_by(x, "transpose", "reshape", "slice")
        if made is not None and (made.primitive.name != "slice" or self._lies_in_memory(made.inputs[0])):
            for view in self._views(made.inputs[0])[::-1]:
                if made.primitive.name == "transpose":
                    found.append(transposed(view, made.params["axes"]))
                elif made.primitive.name == "slice":
                    found.append(sliced(view, made.params["index"]))
                else:
                    found.append(reshaped(view, x.spec.shape))
        return [v for v in found[::-1] if v is not None]

    def _lies_in_memory(self, x):
        """Return True if all of `x` is stored for every reader."""
        made = self.made_by(x, "transpose", "reshape", "slice")
        if made is not None:
            return self._lies_in_memory(made.inputs[0])
        made = self.producer.get(x) if isinstance(x, Var) else None
        return made is None or made.primitive is product or made.primitive.kind == "control"

    def _matrices(self, x, views, batch, rows, columns, source):
        """`x` as a stack of matrices, and the array in which they lie: a copy if need be."""
        for view in views:
            shape, strides = view.shape, view.strides
            (m, by_row), (n, by_column) = (
                merged([shape[d] for d in g], [strides[d] for d in g]) or (0, 0) for g in (rows, columns)
            )
            steps = tuple(strides[d] for d in batch)
            if min(steps, default=0) >= 0:
                if by_column == 1 and by_row >= n > 0:
                    return Matrices(view.offset, steps, by_row, False), view.base
                if by_row == 1 and by_column >= m > 0:
                    return Matrices(view.offset, steps, by_column, True), view.base
        axes = (*batch, *rows, *columns)
        x = self.apply("transpose", x, source=source, axes=axes)
        shape = x.spec.shape
        n = math.prod(shape[len(batch) + len(rows) :])
        return Matrices(0, contiguous(shape)[: len(batch)], n, False), x

    def _loops(self, l, r, left, right, spec, source):
        """sum(l * r) over axes ordered so that the larger operand is read along its rows."""
        (cl, bl, fl), (cr, br, fr) = left, right
        tags = (
            [("b", i) for i in range(len(bl))]
            + [("l", i) for i in range(len(fl))]
            + [("r", i) for i in range(len(fr))]
            + [("c", i) for i in range(len(cl))]
        )
        where_l = (
            {("b", i): d for i, d in enumerate(bl)}
            | {("l", i): d for i, d in enumerate(fl)}
            | {("c", i): d for i, d in enumerate(cl)}
        )
        where_r = (
            {("b", i): d for i, d in enumerate(br)}
            | {("r", i): d for i, d in enumerate(fr)}
            | {("c", i): d for i, d in enumerate(cr)}
        )
        big = where_l if l.spec.size >= r.spec.size else where_r
        last = max(big, key=big.__getitem__, default=None)
        if last is not None and last[0] in "lr" and cl:
            # contracted axes first: the free axis of the large operand is the inner loop
            tags = (
                [t for t in tags if t[0] == "b"] + [t for t in tags if t[0] == "c"] + [t for t in tags if t[0] in "lr"]
            )

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
