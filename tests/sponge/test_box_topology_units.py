"""Boxes, topologies and units against what they mean."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core
from triskele.core.kernels.njit import kernel
from triskele.sponge import box as boxes
from triskele.sponge import units
from triskele.sponge.errors import BoxError
from triskele.sponge.topology import Topology, graph_distances

edges = st.floats(1.0, 5.0)
tilts = st.floats(-0.5, 0.5)


@st.composite
def triclinic(draw):
    a, b, c = draw(edges), draw(edges), draw(edges)
    return boxes.as_box([[a, 0, 0], [draw(tilts) * a, b, 0], [draw(tilts) * a, draw(tilts) * b, c]])


def nearest_by_search(d, box):
    images = [d + np.array(n) @ box for n in itertools.product(range(-2, 3), repeat=3)]
    return min(images, key=lambda v: v @ v)


@given(triclinic(), st.integers(0, 1000))
@settings(max_examples=50, deadline=None)
def test_displacement_is_the_nearest_image_of_short_vectors(box, seed):
    rng = np.random.default_rng(seed)
    short = rng.normal(size=3)
    short *= rng.uniform(0, 0.999) * boxes.largest_cutoff(box) / np.linalg.norm(short)
    far = short + rng.integers(-3, 4, 3) @ box
    np.testing.assert_allclose(boxes.displacement(far, box), short, atol=1e-12)
    np.testing.assert_allclose(nearest_by_search(boxes.displacement(far, box), box), short, atol=1e-12)


@kernel(cache=False)
def image_of(d, box, out):
    out[0], out[1], out[2] = boxes.minimum_image(d[0], d[1], d[2], box)


@given(triclinic(), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_the_kernel_s_image_is_the_same(box, seed):
    d = np.random.default_rng(seed).uniform(-5, 5, 3)
    out = np.zeros(3)
    image_of(d, box, out)
    np.testing.assert_allclose(out, boxes.displacement(d, box), atol=1e-12)


def test_the_box_gets_its_gradient():
    box = boxes.as_box([[2, 0, 0], [0.5, 2.2, 0], [0.3, -0.4, 2.4]])
    core.check_grads(
        lambda d, b: np.sum(boxes.displacement(d, b) ** 2),
        (np.array([[1.3, 0.4, -1.5], [0.1, 0.2, 0.3]]), box),
        order=2,
    )


@given(edges, edges, edges, st.floats(60, 120), st.floats(60, 120), st.floats(60, 120))
@settings(max_examples=50, deadline=None)
def test_a_reduced_box_spans_the_same_lattice(a, b, c, alpha, beta, gamma):
    alpha, beta, gamma = np.radians([alpha, beta, gamma])
    square = (
        1
        - np.cos(alpha) ** 2
        - np.cos(beta) ** 2
        - np.cos(gamma) ** 2
        + 2 * np.cos(alpha) * np.cos(beta) * np.cos(gamma)
    )
    if square < 0.1:
        return
    box = boxes.from_lengths_angles((a, b, c), (alpha, beta, gamma))
    assert boxes.volume(box) == pytest.approx(a * b * c * np.sqrt(square), rel=1e-9)
    assert np.all(np.abs(box[[1, 2, 2], [0, 0, 1]]) <= 0.5 * np.diag(box)[[0, 0, 1]] + 1e-12)


def test_truncated_octahedron_keeps_lengths_and_angles():
    angle = np.arccos(-1 / 3)
    box = boxes.from_lengths_angles([3.0] * 3, [angle] * 3)
    assert boxes.volume(box) == pytest.approx(4 / 9 * np.sqrt(3) * 27, rel=1e-12)


@pytest.mark.parametrize(
    "bad, message",
    [
        ([1, 2], "three lengths"),
        ([1, 2, -3], "positive"),
        ([1, 2, np.nan], "finite"),
        ([[1, 0, 0], [0, 1, 0.5], [0, 0, 1]], "lower triangular"),
        (np.zeros((3, 3)), "positive"),
    ],
)
def test_bad_boxes_are_refused(bad, message):
    with pytest.raises(BoxError, match=message):
        boxes.as_box(bad)


def test_constants_are_those_of_codata():
    assert units.COULOMB == pytest.approx(138.935457644, rel=1e-11)  # 1 / (4 pi eps0), kJ/mol nm/e^2
    assert units.GAS_CONSTANT == pytest.approx(8.31446261815324e-3, rel=1e-14)
    assert units.BAR_PER_PRESSURE == pytest.approx(16.605390671738466, rel=1e-12)
    assert units.eV == pytest.approx(96.48533212331, rel=1e-12)
    assert 33.3679 * 18.01528 * units.DENSITY == pytest.approx(0.9982, rel=1e-4)  # molecules of water in a nm^3 at 20 C


@pytest.mark.parametrize("text, ps", [("1 ns", 1e3), ("2fs", 2e-3), ("1.5 us", 1.5e6), ("10 ps", 10), (3, 3)])
def test_times(text, ps):
    assert units.parse_time(text) == pytest.approx(ps)


@pytest.mark.parametrize("text", ["1", "ns", "1 second", "1 n s"])
def test_times_that_are_none(text):
    with pytest.raises(ValueError, match="for example '1 ns'"):
        units.parse_time(text)


def test_bond_distances_of_a_ring_and_a_chain():
    ring = np.array([[k, (k + 1) % 6] for k in range(6)])
    one, two, three = graph_distances(ring, 6)
    assert {tuple(p) for p in one} == {tuple(sorted(p)) for p in ring}
    assert {tuple(p) for p in two} == {(0, 2), (1, 3), (2, 4), (3, 5), (0, 4), (1, 5)}
    assert {tuple(p) for p in three} == {(0, 3), (1, 4), (2, 5)}


def test_molecules_are_joined_by_bonds():
    assert Topology.of_particles(5, bonds=[[0, 3], [1, 2]]).molecules.tolist() == [0, 1, 1, 0, 2]


@pytest.mark.parametrize(
    "change, message",
    [
        (dict(bonds=[[0, 9]]), "atoms of bonds must be 0 to 1"),
        (dict(elements=[1]), "of one length"),
        (dict(residue_ids=["1"]), "of one length"),
    ],
)
def test_topologies_that_do_not_fit_together(change, message):
    good = vars(Topology.of_particles(2))
    with pytest.raises(ValueError, match=message):
        Topology(**{k: v for k, v in good.items() if k != "molecules"} | change)
