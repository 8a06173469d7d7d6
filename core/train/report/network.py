"""The network as a short graph: the steps that its compiled form consists of, and what they read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ... import tree
from ...compile.emit import native_kind
from ...compile.fuse import Fusion
from ...compile.jit import jit
from ...compile.lower import lower
from ...compile.plan import values_of
from ...compile.profile import described
from ...graph.graph import Graph, Var
from ...graph.simplify import simplify
from ...graph.trace import library_sources
from ..model import applied

__all__ = ["forward_graph", "network_graph"]


def forward_graph(net: Any, inputs: Any) -> tuple[Graph, list[str]]:
    """The forward pass as a graph, and the paths of its inputs, beginning with those of the network."""
    with library_sources():
        function, flat = jit(applied).flat((net, inputs), {})
    paths = [path for path, _ in tree.paths((net, inputs))]
    return function.graph, paths if len(paths) == len(flat) else [""] * len(flat)


def network_graph(net: Any, inputs: Any) -> list[dict[str, Any]]:
    """Return the steps of the forward pass: name, shape, line, the parameters that each reads, and the earlier steps.

    >>> from triskele.core import nn
    >>> net = nn.Sequential([nn.Linear(np.ones((64, 64))), nn.relu])
    >>> found = network_graph(net, np.ones((32, 64)))
    >>> [step["name"] for step in found], found[1]["after"]
    (['product', 'maximum'], [0])
    """
    traced, paths = forward_graph(net, inputs)
    graph = lower(simplify(traced))
    fusion = Fusion(graph, native_kind)
    names = dict(zip(graph.inputs, paths, strict=True))
    made: dict[Var, int] = {}
    found = []
    for k, step in enumerate(fusion.steps):
        name, shape, source, _ = described(step)
        written, read = values_of(step)
        bases = dict.fromkeys(map(fusion.base, read))
        held = [names[v].removeprefix("[0]").removeprefix(".") for v in bases if names.get(v, "").startswith("[0]")]
        file, _, line = source.partition(" in ")[0].rpartition(":")
        found.append(
            {
                "name": name,
                "shape": shape,
                "line": f"{'/'.join(Path(file).parts[-2:])}:{line}" if file else "",
                "parameters": held,
                "after": sorted({made[v] for v in bases if v in made and made[v] != k}),
            }
        )
        made.update({v: k for v in written})
    return found
