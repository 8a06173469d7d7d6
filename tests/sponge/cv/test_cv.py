"""Collective variables: values against other programs and formulas, gradients against finite differences, bad input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triskele import core, sponge
from triskele.sponge import cv

TRICLINIC = np.array([[2.0, 0, 0], [0.4, 1.8, 0], [-0.6, 0.5, 1.9]])


def chain(seed, n=12, step=0.15):
    steps = np.random.default_rng(seed).normal(size=(n, 3))
    return np.cumsum(step * steps / np.linalg.norm(steps, axis=1, keepdims=True), axis=0)


def every_kind():
    """One collective variable of every kind, for a chain of twelve atoms."""
    reference = chain(99)
    return [
        cv.distance(2, 9),
        cv.angle(1, 5, 3),
        cv.torsion(0, 4, 7, 11),
        cv.rmsd([0, 2, 3, 5, 8, 11], reference),
        cv.rmsd(range(12), reference, weights=np.arange(1.0, 13.0)),
        cv.coordination([0, 1, 2], [2, 5, 6, 7], r0=0.3),
        cv.coordination([0, 1], [8, 9, 10], r0=0.4, n=7, m=12),
        cv.coordination([3], [0, 1], r0=0.35, n=8, m=14),
        cv.radius_of_gyration(range(3, 10), masses=np.linspace(1, 16, 12)),
        cv.function(lambda x: np.sum(np.tanh(x[0] * x[1])) + x[2, 0] ** 2, [4, 1, 8], name="network"),
    ]


KINDS = [v.name for v in every_kind()]


def test_every_kind_of_variable_is_here():
    """test_path.py has those along a path of structures."""
    kinds = {name for name in cv.__all__ if not isinstance(getattr(cv, name), type)} - {"path", "variable_path"}
    assert kinds == {name.partition("(")[0].replace(" ", "_").replace("network", "function") for name in KINDS}


def numerical(f, x, h=1e-5):
    """Gradient by central differences of fourth order."""
    g = np.zeros_like(x)
    for i in np.ndindex(x.shape):
        d = np.zeros_like(x)
        d[i] = h
        g[i] = (8 * (f(x + d) - f(x - d)) - (f(x + 2 * d) - f(x - 2 * d))) / (12 * h)
    return g


@pytest.mark.parametrize("k", range(len(KINDS)), ids=KINDS)
@pytest.mark.parametrize("box", [None, TRICLINIC], ids=["no box", "triclinic"])
def test_gradient_against_finite_differences(k, box):
    s, x = every_kind()[k], chain(k + 3)
    value, gradient = core.value_and_grad(lambda x: s(x, box))(x)
    assert value == pytest.approx(float(s(x, box)), abs=1e-14)
    np.testing.assert_allclose(gradient, numerical(lambda x: float(s(x, box)), x), atol=1e-8)
    assert not gradient[np.setdiff1d(range(12), s.atoms)].any()


@pytest.mark.parametrize("k", range(len(KINDS)), ids=KINDS)
def test_second_derivatives(k):
    s, x = every_kind()[k], chain(k + 3)
    v = np.random.default_rng(k).normal(size=x.shape)
    product = core.hvp(s, (x,), (v,))
    gradient = core.grad(s)
    h = 1e-5
    np.testing.assert_allclose(product, (gradient(x + h * v) - gradient(x - h * v)) / (2 * h), atol=2e-6, rtol=1e-6)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_rotations_and_translations_change_nothing(seed):
    x, rng = chain(seed), np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    q *= np.linalg.det(q)
    for s in every_kind()[:-1]:
        assert float(s(x @ q + rng.normal(size=3))) == pytest.approx(float(s(x)), abs=1e-9), s


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_nearest_images_do_not_depend_on_which_copy_of_an_atom_is_meant(seed):
    rng = np.random.default_rng(seed)
    x = chain(seed, 12, step=0.08)
    copies = x + rng.integers(-2, 3, size=(12, 3)) @ TRICLINIC
    for s in every_kind()[:3] + every_kind()[5:8]:
        assert float(s(copies, TRICLINIC)) == pytest.approx(float(s(x, TRICLINIC)), abs=1e-9), s


def test_values_of_mdtraj():
    md = pytest.importorskip("mdtraj")
    n = 10
    topology = md.Topology()
    residue = topology.add_residue("X", topology.add_chain())
    for _ in range(n):
        topology.add_atom("C", md.element.carbon, residue)
    x = np.stack([chain(k, n) for k in range(5)]).astype(np.float32)
    trajectory = md.Trajectory(x, topology)
    frames = x.astype(np.float64)
    for s, expected in (
        (cv.distance(1, 7), md.compute_distances(trajectory, [[1, 7]])[:, 0]),
        (cv.angle(0, 3, 8), md.compute_angles(trajectory, [[0, 3, 8]])[:, 0]),
        (cv.torsion(2, 9, 4, 5), md.compute_dihedrals(trajectory, [[2, 9, 4, 5]])[:, 0]),
        (cv.rmsd(range(n), frames[3]), md.rmsd(trajectory, trajectory, 3)),
        (cv.radius_of_gyration(range(n)), md.compute_rg(trajectory)),
    ):
        np.testing.assert_allclose(
            [float(s(f)) for f in frames], expected, atol=2e-4 if "rmsd" in s.name else 2e-6, err_msg=s.name
        )


def test_radius_of_gyration_by_pairs():
    """By Lagrange's identity: sum over pairs of m_i m_j r_ij^2 / M^2."""
    x, m = chain(4), np.linspace(1, 16, 12)
    pairs = np.sum(m[:, None] * m * np.sum((x[:, None] - x) ** 2, axis=2)) / 2
    assert float(cv.radius_of_gyration(range(12), m)(x)) == pytest.approx(np.sqrt(pairs) / m.sum(), rel=1e-12)


def test_rmsd_is_that_of_the_analysis():
    """Which superposes by a singular value decomposition; both for weights, and for mirror images, which no rotation
    removes.
    """
    frames, reference = np.stack([*(chain(k) for k in range(6)), -chain(50)]), chain(50)
    for weights in (None, np.arange(12.0)):
        expected = sponge.analysis.rmsd(frames, reference, weights=weights).value
        np.testing.assert_allclose(
            [float(cv.rmsd(range(12), reference, weights=weights)(f)) for f in frames], expected, atol=1e-12
        )


def test_rmsd_at_its_reference():
    reference = chain(5)
    s = cv.rmsd(range(12), reference)
    value, gradient = core.value_and_grad(s)(reference + 1.0)
    assert value == 0 and not gradient.any()


def test_coordination_number_where_distances_equal_r0():
    """The formula is 0/0 there; its limit is n/m, and its slope n (n - m) / (2 m r0)."""
    for n, m in ((6, 12), (7, 12), (5, 9), (8, 14), (1, 2)):
        s = cv.coordination([0], [1], r0=0.5, n=n, m=m)
        x = np.array([[0.0, 0, 0], [0.0, 0.5, 0]])
        value, gradient = core.value_and_grad(s)(x)
        assert value == pytest.approx(n / m)
        assert gradient[1, 1] == pytest.approx(n * (n - m) / (2 * m * 0.5))
        r = np.array([0.2, 0.49, 0.51, 0.9, 5.0])
        found = [float(s(np.array([[0.0, 0, 0], [0, 0, d]]))) for d in r]
        np.testing.assert_allclose(found, (1 - (r / 0.5) ** n) / (1 - (r / 0.5) ** m), rtol=1e-10)


def test_coordination_of_a_set_with_itself_counts_no_atom_with_itself():
    x = chain(2, 5)
    both = float(cv.coordination(range(5), range(5), r0=0.2)(x))
    pairs = sum(float(cv.coordination([i], [j], r0=0.2)(x)) for i in range(5) for j in range(i))
    assert both == pytest.approx(2 * pairs)


def test_a_variable_is_one_number():
    with pytest.raises(TypeError, match=r"collective variable f must have shape \(\), got \(3,\) \(a number"):
        cv.function(lambda x: x[0], [1, 2], name="f")(chain(0))


def test_functions_in_single_precision():
    """As of networks."""
    square = cv.function(lambda x: x[0, 0].astype(np.float32) ** 2, [0])
    system = sponge.System(sponge.Topology.of_particles(1), [12.0], positions=[[0.5, 0, 0]])
    system.add(sponge.umbrella(square, 0.15, 100.0))
    assert system.energy() == pytest.approx(50 * 0.1**2, rel=1e-6)
    np.testing.assert_allclose(system.forces(), [[-100 * 0.1 * 2 * 0.5, 0, 0]], rtol=1e-6)


def test_periodic_differences():
    phi = cv.torsion(0, 1, 2, 3)
    assert float(phi.difference(3.0, -3.0)) == pytest.approx(6 - 2 * np.pi)
    assert float(cv.distance(0, 1).difference(3.0, -3.0)) == 6.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cv.distance(1, 1), "cv.distance: atoms must be different and >= 0, got"),
        (lambda: cv.angle(0, 1, -1), "cv.angle: atoms must be different"),
        (lambda: cv.torsion(0, 1, 2, 2.5), "cv.torsion: atoms must be 4 numbers of atoms"),
        (lambda: cv.rmsd([0, 1], np.zeros((2, 3))), "cv.rmsd: atoms must be at least 3 numbers"),
        (lambda: cv.rmsd([0, 1, 9], np.zeros((4, 3))), r"cv.rmsd: reference must have shape \(3, 3\)"),
        (lambda: cv.rmsd([0, 1, 2], np.outer(np.arange(3.0), [1, 2, 3])), "must not lie on a line"),
        (lambda: cv.rmsd([0, 1, 2], chain(0, 3), weights=[1, -1, 1]), "weights must be 3 numbers >= 0"),
        (lambda: cv.coordination([0], [0], r0=0.3), "must hold different atoms"),
        (lambda: cv.coordination([0], [1], r0=0.0), "r0 must be a positive number"),
        (lambda: cv.coordination([0], [1], r0=0.3, n=12, m=6), "0 < n < m"),
        (lambda: cv.radius_of_gyration([3, 4], masses=[0.0, 0.0]), "masses must be 2 numbers"),
        (lambda: cv.function(3.0, [0]), "must be a function"),
        (lambda: cv.function(np.sum, [0], period=(1, 0)), "period must be"),
        (lambda: cv.function(np.sum, [0], period=(1,)), "period must be"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
