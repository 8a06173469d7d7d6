"""Matrices that every step of a loop multiplies with: brought into the form the products want once, before the loop."""

from __future__ import annotations

from typing import NamedTuple

from ..graph.graph import Equation, Graph, Spec, Var
from ..kernels import blas
from .primitives.products import NAMES, Matrices, product, product_add

__all__ = ["LEAST_STEPS", "pack_constants"]

LEAST_STEPS = 4
LEAST_WORK = 1 << 15  # multiply-adds of a product: smaller ones are BLAS's


class Packed(NamedTuple):
    """Input number `source` of the body, read as `matrices` [k, n], and the array of panels that is made of it."""

    source: int
    matrices: Matrices
    n: int
    k: int
    panels: Var


def pack_constants(body: Graph, n_consts: int) -> tuple[Graph, list[Packed]]:
    """`body`, whose first `n_consts` inputs are the same in every step, with further inputs for packed matrices."""
    places = {v: i for i, v in enumerate(body.inputs[:n_consts])}
    found: dict[tuple[int, Matrices], Packed] = {}
    equations = []
    for e in body.equations:
        if e.primitive in (product, product_add) and e.inputs[1] in places and e.params["batch"] == ():
            m, n, k = e.params["sizes"]
            dtype = e.outputs[0].spec.dtype
            layout = blas.packed(NAMES[f"{dtype.kind}{dtype.itemsize}"], n, k)
            if layout is not None and m * n * k >= LEAST_WORK:
                columns, size = layout
                key = places[e.inputs[1]], e.params["right"]
                p = found.setdefault(key, Packed(*key, n, k, Var(Spec((size,), dtype))))
                params = {**e.params, "right": Matrices(0, (), -columns, False)}
                e = Equation(e.primitive, [e.inputs[0], p.panels, *e.inputs[2:]], params, e.outputs, e.source)
        equations.append(e)
    return Graph([*body.inputs, *[p.panels for p in found.values()]], equations, body.outputs, body.name), list(
        found.values()
    )
