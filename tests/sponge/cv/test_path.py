"""Path collective variables: a twin in NumPy, derivatives, the choice of lambda, every method that biases them."""

import pickle

import numpy as np
import pytest

from tests.sponge.cv.test_cv import TRICLINIC, chain, numerical
from triskele import core, sponge
from triskele.sponge import cv

X, Y = (cv.function(lambda x, k=k: x[0, k], [0], name="xy"[k]) for k in range(2))
WEIGHTS = np.arange(1.0, 8.0)
STRUCTURES = np.stack([chain(7) + 0.04 * i * chain(50 + i) for i in range(6)])
ATOMS = [0, 2, 3, 5, 8, 10, 11]


def twin(squares, lam):
    """s and z from square distances, by the formula as it is written."""
    e = [np.exp(-lam * r) for r in squares]
    return sum((i + 1) * w for i, w in enumerate(e)) / sum(e), -np.log(sum(e)) / lam


def turn(a, b, c):
    return (a - b + np.pi) % (2 * np.pi) - np.pi if c else a - b


def both_kinds():
    """Both pairs of variables and what square distances they have from the path in NumPy."""
    torsions = [cv.torsion(1, 4, 7, 11), cv.distance(2, 9), cv.torsion(0, 3, 5, 8)]
    nodes = np.array([[3.0, 0.3, -1.0], [-3.0, 0.35, -0.5], [-2.0, 0.5, 0.3], [-1.0, 0.6, 1.5]])

    def squares_of_structures(x, box):
        chosen, weights = x[ATOMS][None], WEIGHTS
        return [sponge.analysis.rmsd(chosen, r[ATOMS], weights=weights).value[0] ** 2 for r in STRUCTURES]

    def squares_of_variables(x, box):
        values = [float(v(x, box)) for v in torsions]
        return [
            sum(w * turn(s, n, c != 1) ** 2 for c, (w, s, n) in enumerate(zip((1.0, 30.0, 0.5), values, node)))
            for node in nodes
        ]

    return [
        (cv.path(ATOMS, STRUCTURES, weights=WEIGHTS, lambda_=200.0), squares_of_structures, 200.0),
        (cv.variable_path(torsions, nodes, weights=[1.0, 30.0, 0.5], lambda_=1.3), squares_of_variables, 1.3),
    ]


@pytest.mark.parametrize("kind", range(2), ids=["structures", "variables"])
@pytest.mark.parametrize("box", [None, TRICLINIC], ids=["no box", "triclinic"])
def test_values_and_derivatives(kind, box):
    variables, squares, lam = both_kinds()[kind]
    for seed in (0, 3):
        x = STRUCTURES[seed] + 0.05 * chain(20 + seed)
        v = np.random.default_rng(seed).normal(size=x.shape)
        for s, expected in zip(variables, twin(squares(x, box), lam), strict=True):
            value, gradient = core.value_and_grad(lambda x, s=s: s(x, box))(x)
            assert value == pytest.approx(expected, rel=1e-9, abs=1e-12)
            np.testing.assert_allclose(gradient, numerical(lambda x, s=s: float(s(x, box)), x), atol=1e-7)
            product = core.hvp(lambda x, s=s: s(x, box), (x,), (v,))
            slope = core.grad(lambda x, s=s: s(x, box))
            expected = (slope(x + 1e-5 * v) - slope(x - 1e-5 * v)) / 2e-5
            np.testing.assert_allclose(product, expected, atol=1e-4, rtol=1e-5)
            assert float(pickle.loads(pickle.dumps(s))(x, box)) == float(s(x, box))


def test_far_away_nothing_underflows():
    """Where every term of the formula would be 0: s is the nearest node, z its square distance."""
    s, z = cv.variable_path([X, Y], [[0.0, 0.0], [1.0, 0.0], [2.0, 0.0]], lambda_=1000.0)
    x = np.array([[1.1, 5.0, 0.0]])
    assert float(s(x)) == pytest.approx(2.0) and float(z(x)) == pytest.approx(25.01)
    assert np.isfinite(core.grad(z)(x)).all()


def test_at_a_structure_however_turned():
    s, z = cv.path(range(12), STRUCTURES, lambda_=1e6)
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    q *= np.linalg.det(q)
    for i, structure in enumerate(STRUCTURES):
        x = structure @ q + 0.7
        assert float(s(x)) == pytest.approx(i + 1, abs=1e-4) and float(z(x)) == pytest.approx(0.0, abs=1e-6)
        assert np.abs(core.grad(z)(x)).max() < 1e-4


def test_lambda_gives_a_neighbor_a_tenth_of_the_weight():
    nodes = np.array([[0.0, 0.0], [0.0, 0.3], [0.4, 0.3], [0.4, 0.7]])
    s, _ = cv.variable_path([X, Y], nodes)
    assert s.options["lambda_"] == pytest.approx(2.3 / np.mean([0.09, 0.16, 0.16]))
    s, _ = cv.path(ATOMS, STRUCTURES, weights=WEIGHTS)
    apart = [
        sponge.analysis.rmsd(b[ATOMS][None], a[ATOMS], weights=WEIGHTS).value[0] ** 2
        for a, b in zip(STRUCTURES, STRUCTURES[1:])
    ]
    assert s.options["lambda_"] == pytest.approx(2.3 / np.mean(apart), rel=1e-9)


def test_references_of_all_atoms_or_of_those():
    of_all, of_some = cv.path(ATOMS, STRUCTURES), cv.path(ATOMS, STRUCTURES[:, ATOMS])
    for a, b in zip(of_all, of_some):
        assert float(a(chain(1))) == float(b(chain(1)))


# -- every method ------------------------------------------------------------------------------------------------------

S, Z = cv.variable_path([X, Y], [[0.0, 0.0], [0.3, 0.0], [0.6, 0.2], [0.9, 0.5]], name="way")


@pytest.mark.parametrize(
    "make",
    [
        lambda: sponge.Metadynamics(
            [S, Z], sigma=[0.2, 0.01], height=1.0, every=20, bias_factor=5, grid=[(0.5, 4.5), (-0.5, 3.0)]
        ),
        lambda: sponge.OPES([S, Z], barrier=20.0, every=20),
        pytest.param(lambda: sponge.ABF(S, (1.0, 4.0, 30), sigma=0.1), marks=pytest.mark.slow),
        lambda: sponge.SteeredMD(S, 1.2, 3.8, 500.0, 1000),
    ],
)
def test_methods_bias_a_path(make):
    system = sponge.System(
        sponge.Topology.of_particles(1), [10.0], positions=[[0.05, 0.0, 0.0]], remove_com_motion=False
    )
    system.add(sponge.FunctionPotential(lambda x: 20.0 * np.sum((x[0] - np.array([0.45, 0.2, 0.0])) ** 2)))
    method = make()
    sim = sponge.Simulation(system, sponge.LangevinMiddle(300, 5.0, 0.005), seed=1, sampling=[method])
    sim.run(1000)
    assert np.ptp(method.values[:, 0]) > 0.4
    if isinstance(method, sponge.SteeredMD):
        assert float(S(sim.positions)) == pytest.approx(3.8, abs=0.4)


@pytest.mark.parametrize("order", ["sz", "zts", "ss"])
def test_an_umbrella_on_a_path_of_structures(order):
    """Its compiled forces and virial are those of the pure function, with a torsion between them, too."""
    from tests.sponge.engine.test_energy_split import derivatives
    from triskele.sponge.testing import example_system

    known = dict(zip("sz", cv.path(range(8), chain(3)[None] + 0.1 * STRUCTURES[:4]))) | {"t": cv.torsion(2, 3, 5, 9)}
    center, k = {"s": 3.0, "z": 0.0, "t": 1.0}, {"s": 50.0, "z": 1e4, "t": 30.0}
    bias = sponge.umbrella(*([d[part] for part in order] for d in (known, center, k)))
    system = example_system(bias, box=np.eye(3) * 3.0)
    engine = sponge.Engine(system, "double")
    engine.compute()
    value, forces, virial = derivatives(lambda x, box: bias.energy(bias.params, x, box), system)
    assert engine.energies()["umbrella"] == pytest.approx(value, rel=1e-10)
    np.testing.assert_allclose(engine.forces, forces, atol=1e-9 * np.abs(forces).max())
    np.testing.assert_allclose(engine.virial(), virial, atol=1e-8 * np.abs(virial).max())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: cv.path(ATOMS, STRUCTURES[:1]), r"cv.path: references must be at least two structures \(N, 7, 3\)"),
        (lambda: cv.path([0, 1], STRUCTURES), "cv.path: atoms must be at least 3 numbers"),
        (lambda: cv.path(ATOMS, STRUCTURES[:, :9]), r"cv.path: structure 1: reference must have shape \(7, 3\)"),
        (lambda: cv.path(ATOMS, STRUCTURES[[0, 1, 1]]), "cv.path: neighbors must be different, got 2 and 3 alike"),
        (lambda: cv.path(ATOMS, STRUCTURES, lambda_=0.0), "cv.path: lambda_ must be a positive number"),
        (lambda: cv.path(ATOMS, STRUCTURES, weights=[1.0]), "cv.path: weights must be 7 numbers"),
        (lambda: cv.path(ATOMS, np.full((2, 7, 3), np.nan)), "cv.path: structure 1: reference"),
        (
            lambda: cv.variable_path([X, Y], [[0.0, 1.0]]),
            r"nodes must be at least two points \(N, 2\), got shape \(1, 2\)",
        ),
        (lambda: cv.variable_path([X], [[0.0], [0.0]]), "neighbors must be different, got 1 and 2 alike"),
        (lambda: cv.variable_path([X], [[0.0], [np.inf]]), "cv.variable_path: nodes"),
        (lambda: cv.variable_path(cv.torsion(0, 1, 2, 3), [[-80.0], [60.0]]), "angles are in radians"),
        (lambda: cv.variable_path([X], [[0.0], [1.0]], weights=[0.0]), "weights must be 1 positive numbers"),
        (lambda: cv.variable_path([3], [[0.0], [1.0]]), "collective variables must be made by sponge.cv"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises((TypeError, ValueError), match=message):
        make()
