"""A compiled program as text: the result of ``jit(f).lower(*args)``."""

from __future__ import annotations

from typing import Any

from ..graph.graph import Const, Equation
from ..graph.show import show
from .emit import Unit
from .fuse import Group
from .kernel import Kernel
from .program import Program
from .row_blocks import RowBlocks

__all__ = ["ProgramReport"]


class ProgramReport:
    """A compiled program to be read: print it, or one of its attributes.

    Attributes
    ----------
    graph : str
        The simplified graph.
    kernels : str
        The steps in order; each loop nest with what it computes.
    memory : str
        The plan: inputs, results, and offsets in the arena.
    flops, bytes : float
        Operations and memory traffic of one call (loops of control flow counted once).
    source : str
        LLVM IR.
    seconds : dict of str to float
        Compile time by stage.
    """

    def __init__(self, program: Program, name: str):
        self.name, self._program, emitted = name, program, program.emitted
        self._units = emitted.module.units
        self.source, self.seconds = emitted.text, dict(program.seconds)
        self.flops, self.bytes = emitted.module.flops, emitted.module.bytes

    @property
    def graph(self) -> str:
        return show(self._program.emitted.graph)

    @property
    def kernels(self) -> str:
        return "\n".join(line for unit in self._units for line in _steps(unit))

    @property
    def memory(self) -> str:
        lines = [f"arena {self._program.scratch} bytes"]
        for unit in self._units:
            for what, place in unit.plan.places.items():
                spec = getattr(what, "spec", None) or (
                    f"{what.size} x chunks" if hasattr(what, "size") else f"scratch, {unit.plan.sizes[what]} bytes"
                )
                lines.append(f"  {unit.name:12s} {place.kind:6s} {place.at:>10d}  {spec}")
        return "\n".join(lines)

    def __str__(self):
        times = ", ".join(f"{k} {1e3 * v:.1f} ms" for k, v in self.seconds.items())
        return (
            f"{self.graph}\n\n{self.kernels}\n\n{self.memory}\n\n{self.flops:.3g} flops, {self.bytes:.3g} bytes; "
            f"compiled in: {times}\n"
            f"({len(self.source.splitlines())} lines of LLVM IR in .source)"
        )

    __repr__ = __str__


def _steps(unit: Unit):
    kernels = iter(unit.kernels)
    yield f"{unit.name}:"
    for step in unit.steps:
        if isinstance(step, Group):
            yield from _nest(step, next(kernels))
        elif isinstance(step, RowBlocks):
            yield f"  {step.chunks} blocks of {step.step} rows, in each:"
            for group in step.groups:
                yield from [f"  {line}" for line in _nest(group, next(kernels))]
        else:
            yield f"  {_call(step.eqn, unit)}"


def _nest(group: Group, kernel: Kernel):
    chunks = f", {kernel.chunks} chunks" if kernel.chunks > 1 else ""
    yield f"  {kernel.loops[0] or 'once'}{chunks}: {kernel.flops:.3g} flops, {kernel.bytes:.3g} bytes"
    for e in group.formulas:
        yield f"    {e.outputs[0]!r} = {_formula(e)}"
    for r in group.roots:
        yield f"    store {r.var!r}: {r.var.spec}" + (
            f" = {r.eqn.primitive.name} over axes {r.axes}" if r.axes is not None else ""
        )


def _formula(e: Equation) -> str:
    return f"{e.primitive.name}({', '.join(repr(a) for a in e.inputs)})"


def _call(e: Equation, unit: Unit) -> Any:
    how = {"native": "", "call": "host call "}[unit.fusion.kinds[e]]
    shapes = ", ".join(str(a.spec) if type(a) is Const or a.spec.shape else repr(a) for a in e.inputs)
    return f"{how}{', '.join(map(repr, e.outputs))} = {e.primitive.name}({shapes})"
