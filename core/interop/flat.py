"""Functions of trees as functions of a flat list of arrays, with their derivatives in the same form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree
from ..graph.trace import traceable
from ..transforms.forward import jvp
from ..transforms.grad import check_arrays, vjp

__all__ = ["Flat", "name_of"]


def name_of(f: Any) -> str:
    """The name of a function in messages."""
    return getattr(f, "__name__", None) or type(f).__name__


class Flat:
    """A function of arrays, ``f(*arrays) -> list of arrays``; `where` begins its messages."""

    def __init__(self, f: Callable[..., list[Any]], where: str):
        self.f, self.where = f, where
        self.structure: tree.Structure | None = None  # of the results, known once the function has run

    @classmethod
    def of(
        cls, f: Callable[..., Any], where: str, leaves: Sequence[Any], arrays: Sequence[int], structure: tree.Structure
    ) -> Flat:
        """The function `f` of (args, kwargs), whose leaves at the positions `arrays` are the arguments."""

        def run(*xs):
            full = list(leaves)
            for k, x in zip(arrays, xs, strict=True):
                full[k] = x
            args, kwargs = tree.unflatten(structure, full)
            outs, flat.structure = tree.flatten(traceable(f)(*args, **kwargs))
            check_arrays(outs, f"{where}: the function must return")
            return outs

        flat = cls(run, where)
        return flat

    def __call__(self, *xs: Any) -> list[Any]:
        return self.f(*xs)

    def pulling(self, live: Sequence[int], count: int) -> Flat:
        """``(*xs, *cotangents) -> cotangents`` of the arguments at `live`, of `count` arguments."""

        def run(*values):
            xs, cts = values[:count], values[count:]
            return list(vjp(self._of(xs, live), *[xs[k] for k in live])[1](list(cts)))

        return Flat(run, self.where)

    def pushing(self, live: Sequence[int], count: int) -> Flat:
        """``(*xs, *tangents) -> tangents`` of the results, along the arguments at `live`."""

        def run(*values):
            xs, tangents = values[:count], values[count:]
            return jvp(self._of(xs, live), [xs[k] for k in live], list(tangents))[1]

        return Flat(run, self.where)

    def value_and_pull(self, xs: Sequence[Any], live: Sequence[int]) -> tuple[list[Any], Callable[..., list[Any]]]:
        """Results at `xs`, and the function that pulls cotangents back to the arguments at `live`."""
        outs, pull = vjp(self._of(xs, live), *[xs[k] for k in live])
        return outs, lambda *cts: list(pull(list(cts)))

    def _of(self, xs, live):
        def part(*active):
            full = list(xs)
            for k, x in zip(live, active, strict=True):
                full[k] = x
            return self.f(*full)

        return part
