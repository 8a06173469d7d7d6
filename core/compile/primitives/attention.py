"""Attention and its gradient by `kernels.attention`."""

from __future__ import annotations

import math
import sys
from typing import NamedTuple

import numpy as np

from ...graph.graph import Const, Equation
from ...kernels import blas
from ...kernels.attention import forward
from ..emit import NATIVE, Unit, as_array
from .products import NAMES

__all__: list[str] = []

_STACK = 1 << 21 if sys.platform == "linux" else 400 << 10  # bytes of a chunk: threads elsewhere have 512 KiB


class _Buffer(NamedTuple):
    """A buffer that lives during one step."""

    eqn: Equation
    name: str
    nbytes: int


class _Attention:
    def __init__(self, function: str, fields: tuple[str, ...], arguments: tuple[str, ...], results: tuple[str, ...]):
        self.function, self.fields, self.arguments, self.results = function, fields, arguments, results

    @staticmethod
    def sizes(eqn: Equation) -> forward.Sizes:
        q, k, v = (a.spec.shape for a in eqn.inputs[:3])
        return forward.Sizes(q[0], q[1], q[2], k[1], k[2], q[3], v[3])

    @staticmethod
    def name(eqn: Equation) -> str:
        return NAMES[f"f{eqn.outputs[0].spec.dtype.itemsize}"]

    def accepts(self, eqn: Equation) -> bool:
        s, dtype = self.sizes(eqn), eqn.outputs[0].spec.dtype
        return (
            f"{dtype.kind}{dtype.itemsize}" in ("f4", "f8")
            and min(s) > 0
            and forward.stack_bytes(s, dtype.itemsize) <= _STACK
        )

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        counts = forward.scratch_sizes(self.sizes(eqn), blas.convolution_tile(self.name(eqn))[1])
        itemsize = eqn.outputs[0].spec.dtype.itemsize
        buffers = [_Buffer(eqn, x, n * itemsize) for x, n in counts.items() if x in self.fields]
        unit.memo[eqn] = {b.name: b for b in buffers}
        return {b: b.nbytes for b in buffers}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        s, arrays = self.sizes(eqn), dict(zip(self.arguments, eqn.inputs, strict=False))
        steps = (0, 0, 0)
        if "mask" in arrays:
            shape = arrays["mask"].spec.shape
            steps = tuple(math.prod(shape[d + 1 :]) if shape[d] > 1 else 0 for d in range(3))
        sizes = np.array(
            [
                s.batch,
                s.queries,
                s.heads,
                s.keys,
                s.key_heads,
                "mask" in arrays,
                *steps,
                eqn.params["causal"],
                s.parts,
                0,
            ],
            np.int64,
        )
        sizes[-1:] = np.array([eqn.params["scale"]], np.float64).view(np.int64)
        places = {x: unit.pointer(as_array(a)) for x, a in arrays.items()}
        places |= dict(zip(self.results, map(unit.pointer, eqn.outputs), strict=True))
        places["sizes"] = unit.pointer(as_array(Const(sizes)))
        places.setdefault("mask", places["sizes"])
        places |= {x: unit.pointer(b) for x, b in unit.memo[eqn].items()}
        table = unit.table([places[x] for x in self.fields])
        symbol = f"tsk.attention.{self.function}.{self.name(eqn)}.{s.depth}.{s.width}"
        unit.module.declares.add(f"declare void @{symbol}(ptr)")
        unit.line(f"call void @{symbol}(ptr {table})")
        unit.module.flops += eqn.primitive.flops([a.spec for a in eqn.inputs], [])


NATIVE["attention"] = _Attention("forward", forward.FORWARD, ("q", "k", "v", "mask"), ("out", "lse"))
NATIVE["attention_grad"] = _Attention(
    "backward", forward.BACKWARD, ("q", "k", "v", "out", "lse", "ct", "mask"), ("dq", "dk", "dv")
)
