"""Writes into arrays: `scatter` and `slice_update`, in place where the old array is not needed any more."""

from __future__ import annotations

import math

import numpy as np

from ...graph.graph import Const, Equation
from ...kernels.native import checked
from ..builder import Builder
from ..emit import NATIVE, Unit, as_array
from ..formulas import align, linear
from ..scalars import I64, supported

__all__: list[str] = []

_COMBINE = {"add": "add", "multiply": "mul", "min": "min", "max": "max"}


class _Update:
    """``out = x; out[places] = combine(out[places], u)`` in order."""

    updates = 0
    """The operand that the result may take the place of."""

    def accepts(self, eqn: Equation) -> bool:
        return (
            all(supported(a.spec.dtype) for a in eqn.inputs)
            and eqn.inputs[0].spec.size > 0
            and eqn.inputs[1].spec.dtype == eqn.inputs[0].spec.dtype
        )

    def scratch(self, unit: Unit, eqn: Equation) -> dict:
        return {}

    def emit(self, unit: Unit, eqn: Equation) -> None:
        out = eqn.outputs[0]
        target, source = unit.pointer(out), unit.pointer(as_array(eqn.inputs[0]))
        if target != source:
            unit.copy(target, source, out.spec.nbytes)
        b = Builder()
        name = f"{unit.name}.u{len(unit.module.functions)}"
        operands: list[str] = []
        flag = None

        def check(ok):
            nonlocal flag
            if flag is None:
                flag = b.alloca("i64")
                b.scopes[0].items.insert(0, f"store i64 0, ptr {flag}")
            bad = b.ins(f"select i1 {b.name(ok)}, i64 0, i64 1", ok.level)
            old = b.here(f"load i64, ptr {flag}")
            b.line(f"store i64 {b.here(f'or i64 {old}, {bad}')}, ptr {flag}")

        b.check = check
        if checked():
            b.sizes["%out"] = out.spec.nbytes

        def read(atom, index):
            if type(atom) is Const and np.size(atom.value) == 1:
                return b.const(np.asarray(atom.value).reshape(-1)[0].item(), atom.spec.dtype)
            pointer = unit.pointer(as_array(atom))
            if pointer not in operands:
                operands.append(pointer)
                if checked():
                    b.sizes[f"%q{len(operands) - 1}"] = as_array(atom).spec.nbytes
            return b.load(f"%q{operands.index(pointer)}", atom.spec.dtype, linear(b, index, atom.spec.shape))

        shape = self.shape(eqn)
        if math.prod(shape):
            index = [b.open(0, n, 0, n - 1) for n in shape]
            at = linear(b, self.places(b, eqn, index, read), out.spec.shape)
            u = read(eqn.inputs[1], index if eqn.inputs[1].spec.shape else [])
            mode = eqn.params["mode"]
            if mode != "set":
                u = getattr(b, _COMBINE[mode])(b.load("%out", out.spec.dtype, at, movable=False), u)
            b.store("%out", at, u, out.spec.dtype)
            for _ in shape:
                b.close()
        unit.module.declares |= b.declares
        parameters = ["ptr noalias %out", *[f"ptr noalias %q{k}" for k in range(len(operands))]]
        tail = [f"  %failed = load i64, ptr {flag}", "  ret i64 %failed"] if flag else ["  ret i64 0"]
        unit.module.functions += [
            f"define internal i64 @{name}({', '.join(parameters)}) #0 {{",
            "entry:",
            *b.render(),
            *tail,
            "}",
        ]
        failed = unit.ins(f"call i64 @{name}({', '.join(f'ptr {p}' for p in [target, *operands])})")
        unit.module.bytes += 2 * eqn.inputs[1].spec.nbytes
        if flag:
            unit.report([eqn], failed)

    def shape(self, eqn) -> tuple[int, ...]:
        """The dtype of the updates."""
        raise NotImplementedError

    def places(self, b, eqn, index, read) -> list:
        """Return the position of the update `index`."""
        raise NotImplementedError


class _Scatter(_Update):
    def shape(self, eqn):
        x, _, *indices = eqn.inputs
        return (*np.broadcast_shapes(*[i.spec.shape for i in indices]), *x.spec.shape[len(indices) :])

    def places(self, b, eqn, index, read):
        x, _, *indices = eqn.inputs
        rank = len(np.broadcast_shapes(*[i.spec.shape for i in indices]))
        head = np.broadcast_shapes(*[i.spec.shape for i in indices])
        out = []
        for i, known, n in zip(indices, eqn.params["in_range"], x.spec.shape, strict=False):
            at = b.cast(read(i, align(b, index[:rank], head, i.spec.shape)), I64)
            out.append(at if known else b.check_index(at, b.index(n)))
        return [*out, *index[rank:]]


class _SliceUpdate(_Update):
    def shape(self, eqn):
        return tuple(e[2] for e in eqn.params["index"] if type(e) is not int)

    def places(self, b, eqn, index, read):
        rest = iter(index)
        return [
            b.index(e) if type(e) is int else b.add(b.mul(next(rest), b.index(e[1])), b.index(e[0]))
            for e in eqn.params["index"]
        ]


NATIVE["scatter"], NATIVE["slice_update"] = _Scatter(), _SliceUpdate()
