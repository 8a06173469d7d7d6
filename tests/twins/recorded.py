"""Graphs of converted functions: recorded once, they give what Python gives."""

from numpy.testing import assert_allclose

import triskele.core.ops  # noqa: F401
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.transforms.autograph.convert import convert


def record(f, *args):
    """The graph of the converted function for arguments like these."""
    graph, captured = make_graph(lambda *a: [convert(f)(*a)], [spec_of(a) for a in args])
    assert not captured
    return graph


def check(f, *calls):
    """One graph, recorded for arguments like the first call's, gives Python's values for all calls."""
    graph = record(f, *calls[0])
    for args in calls:
        assert_allclose(evaluate(graph, *args)[0], f(*args), rtol=1e-12, err_msg=f"{f.__name__}{args}")
    return graph


def names(graph):
    return [e.primitive.name for e in graph.equations]
