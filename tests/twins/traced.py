"""NumPy itself as the twin: a function of arrays must give the same under every way of tracing it."""

import numpy as np

from triskele.core import tree
from triskele.core.graph.graph import spec_of
from triskele.core.graph.trace import evaluate, make_graph
from triskele.core.testing import check_grads
from triskele.core.transforms.grad import vjp
from triskele.core.transforms.vmap import vmap


def assert_same(found, expected, rtol, how):
    """Equal structure, shapes, dtypes; values to `rtol` of the largest (0: exactly)."""
    found, structure = tree.flatten(found)
    expected, expected_structure = tree.flatten(expected)
    assert len(found) == len(expected), (how, structure, expected_structure)
    for a, b in zip(found, expected):
        assert np.shape(a) == np.shape(b) and np.result_type(a) == np.result_type(b), (how, spec_of(a), spec_of(b))
        finite = np.asarray(b)[np.isfinite(b)]
        scale = np.abs(finite).max() if finite.size and finite.dtype != bool else 0
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * float(scale), err_msg=how)


def assert_as_numpy(f, *args, rtol=1e-12, grads=True, batch=True, graph=True):
    """`f` on a tape, in a graph and under vmap against plain NumPy; its derivatives against finite differences."""
    expected = f(*args)
    assert_same(vjp(f, *args)[0], expected, rtol, "on a tape")
    if graph:
        structure = None

        def flat(*xs):
            nonlocal structure
            leaves, structure = tree.flatten(f(*xs))
            return leaves

        recorded, _ = make_graph(flat, [spec_of(a) for a in args])
        assert_same(tree.unflatten(structure, evaluate(recorded, *args)), expected, rtol, "in a graph")
        for spec, value in zip(recorded.out_specs, tree.leaves(expected)):
            assert (spec.shape, spec.dtype) == (np.shape(value), np.result_type(value)), ("spec", spec, spec_of(value))
    if batch:
        second = [a * np.asarray(0.9, a.dtype) for a in args]
        both = [expected, f(*second)]
        found = vmap(f)(*[np.stack(pair) for pair in zip(args, second)])
        assert_same(found, tree.map(lambda *xs: np.stack(xs), *both), rtol, "under vmap")
    if grads:
        check_grads(f, args, order=1)
