"""Edges from rows of neighbors: every neighbor within the cut-off, once in each direction, whatever the box."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import sponge
from triskele.sponge.neighbors.edges import Edges


def engine_of(positions, box=None, exclusions=(), **options):
    n = len(positions)
    return sponge.Engine(
        sponge.System(sponge.Topology.of_particles(n), np.ones(n), box=box, positions=positions, exclusions=exclusions),
        **options,
    )


def brute(positions, box, cutoff):
    """All (i, j, vector) within the cut-off, over all images."""
    images = np.zeros((1, 3))
    if box is not None:
        steps = np.stack(np.meshgrid(*[np.arange(-3, 4)] * 3, indexing="ij"), -1).reshape(-1, 3)
        images = steps @ box
        positions = positions - np.floor(positions @ np.linalg.inv(box)) @ box
    d = positions[None, :, None] - positions[:, None, None] + images
    i, j, s = np.nonzero((np.linalg.norm(d, axis=-1) < cutoff) & ~(np.eye(len(positions), dtype=bool)[..., None]))
    return i, j, d[i, j, s]


def as_rows(i, j, vectors):
    return np.array(sorted((a, b, *np.round(v, 6) + 0.0) for a, b, v in zip(i, j, vectors)))


def listed(edges):
    i, k = np.nonzero(np.arange(edges.neighbors.shape[1]) < edges.counts[:, None])
    return i, edges.neighbors[i, k], edges.vectors[i, k]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), periodic=st.booleans(), lean=st.floats(-0.5, 0.5), exclude=st.integers(0, 60))
def test_every_neighbor_is_found_in_leaning_boxes(seed, periodic, lean, exclude):
    rng = np.random.default_rng(seed)
    n, cutoff = 70, 0.45
    box = np.array([[1.0, 0, 0], [lean, 0.95, 0], [-lean, 0.45 * lean, 1.1]])
    positions = rng.random((n, 3)) @ box + (rng.integers(-2, 3, (n, 3)) @ box if periodic else 0)
    engine = engine_of(positions, box if periodic else None, rng.integers(0, n, (exclude, 2)), precision="double")
    edges = Edges(engine, cutoff)
    edges.now()
    expected = as_rows(*brute(positions, engine.box if periodic else None, cutoff))
    np.testing.assert_allclose(as_rows(*listed(edges)), expected, atol=2e-6)


def test_free_places_end_beyond_the_cutoff():
    edges = Edges(engine_of(np.array([[0, 0, 0], [0.3, 0, 0], [5, 5, 5.0]])), 0.5, places=4)
    edges.now()
    assert edges.counts.tolist() == [1, 1, 0]
    free = np.arange(4) >= edges.counts[:, None]
    assert np.all(edges.neighbors[free] == np.nonzero(free)[0])
    assert np.all(np.linalg.norm(edges.vectors[free], axis=-1) == 1.0)


def test_some_atoms_only():
    """Rows are numbered by their place among the chosen atoms."""
    positions = np.random.default_rng(1).random((40, 3))
    atoms = np.array([31, 2, 17, 8, 25])
    edges = Edges(engine_of(positions, precision="double"), 0.6, atoms)
    edges.now()
    np.testing.assert_allclose(as_rows(*listed(edges)), as_rows(*brute(positions[atoms], None, 0.6)), atol=2e-6)


def test_pairs_within_and_between_groups_are_all_there():
    positions, groups = np.random.default_rng(2).random((60, 3)), np.arange(60) % 3 == 0
    edges = Edges(engine_of(positions, groups=groups, precision="double"), 0.4)
    edges.now()
    np.testing.assert_allclose(as_rows(*listed(edges)), as_rows(*brute(positions, None, 0.4)), atol=2e-6)


def test_a_row_that_is_too_short_is_never_silent():
    edges = Edges(engine_of(np.random.default_rng(3).random((30, 3)) * 0.3), 0.5, places=5)
    with pytest.raises(ValueError, match="more neighbors than there are places"):
        edges.now()
    assert edges.most[0] == 29
