"""QAOA on problems whose answers are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triskele import quantum
from triskele.quantum.algorithms.qaoa import cost_values
from triskele.quantum.algorithms.recursive_qaoa import _substitute
from triskele.quantum.errors import CircuitError, OperatorError, OptimizerError, ParameterError
from triskele.quantum.optimizers import SPSA

PETERSEN = [
    *((k, (k + 1) % 5) for k in range(5)),
    *((k, k + 5) for k in range(5)),
    *((5 + k, 5 + (k + 2) % 5) for k in range(5)),
]


def ring(n):
    return [(k, (k + 1) % n) for k in range(n)]


def best_cut(graph):
    return -quantum.maxcut(graph).matrix().diagonal().real.min()


def weight(graph, bits):
    return sum((edge[2] if len(edge) == 3 else 1.0) for edge in graph if bits[edge[0]] != bits[edge[1]])


def random_graph(n, seed, signs=False):
    rng = np.random.default_rng(seed)
    edges = [(i, j) for i in range(n) for j in range(i) if rng.random() < 0.5]
    return [(i, j, float(rng.choice([-1.0, 1.0]) if signs else rng.uniform(0.2, 2.0))) for i, j in edges]


def test_cost_is_minus_the_cut():
    graph = random_graph(6, 0)
    diagonal = quantum.maxcut(graph).matrix(6).diagonal().real
    for index in range(64):
        assert diagonal[index] == pytest.approx(-weight(graph, [(index >> q) & 1 for q in range(6)]), abs=1e-12)


def test_graph_as_a_matrix_of_weights():
    matrix = np.zeros((3, 3))
    matrix[0, 1] = matrix[1, 0] = 2.0
    matrix[1, 2] = matrix[2, 1] = -0.5
    assert quantum.maxcut(matrix) == quantum.maxcut([(0, 1, 2.0), (1, 2, -0.5)])


def test_nodes_without_edges_have_bits():
    matrix = np.zeros((5, 5))
    matrix[1, 2] = matrix[2, 1] = matrix[2, 3] = matrix[3, 2] = 1.0
    cost = quantum.maxcut(matrix)
    assert cost.num_qubits == 5 and cost == quantum.maxcut([(1, 2), (2, 3)])
    for found in (quantum.QAOA(cost).run(progress=False), quantum.RecursiveQAOA(cost, cutoff=2).run(progress=False)):
        bits = found.bits
        assert len(bits) == 5 and bits[1] != bits[2] != bits[3] and found.cost == -2.0


def test_ansatz_is_alternating_evolution():
    """exp(-i beta sum X) exp(-i gamma C) |+...+> by matrix exponentials, with a three-body term and a field."""
    from scipy.linalg import expm

    cost = quantum.PauliSum("0.5 Z0 Z1 - 0.3 Z0 Z1 Z2 + 0.7 Z2")
    theta = np.array([0.4, -0.7, 0.9, 0.2])
    mixer = quantum.PauliSum("X0 + X1 + X2").matrix(3).toarray()
    state = np.full(8, 8**-0.5)
    for gamma, beta in theta.reshape(-1, 2):
        state = expm(-1j * beta * mixer) @ expm(-1j * gamma * cost.matrix(3).toarray()) @ state
    ansatz = quantum.qaoa_ansatz(cost, 2)
    assert ansatz.parameters == ("gamma0", "beta0", "gamma1", "beta1")
    np.testing.assert_allclose(quantum.run(ansatz, theta).statevector(), state, atol=1e-14)


def test_rings_reach_the_exact_ratio():
    """p layers cut (2 p + 1) / (2 p + 2) of the edges of a long even ring (Mbeng, Fazio, Santoro, arXiv:1906.08948)."""
    result = quantum.QAOA(quantum.maxcut(ring(8)), layers=3).run(progress=False)
    np.testing.assert_allclose(-result.depths / 8, [3 / 4, 5 / 6, 7 / 8], atol=1e-6)
    assert result.converged and result.energy == result.depths[-1]


def test_one_layer_on_a_regular_graph():
    """Edges of a three-regular graph without triangles are cut with 1/2 + 1/(3 sqrt 3) (Wang, Hadfield, Jiang, Rieffel,
    Phys. Rev. A 97, 022304 (2018), with D = 3): 0.6924, at gamma = arctan(1/sqrt 2), beta = pi/8.
    """
    result = quantum.QAOA(quantum.maxcut(PETERSEN), layers=1).run(progress=False)
    assert -result.energy / 15 == pytest.approx(0.5 + 1 / (3 * np.sqrt(3)), abs=1e-8)
    assert abs(result.theta[0]) == pytest.approx(np.arctan(1 / np.sqrt(2)), abs=1e-5)
    assert abs(result.theta[1]) == pytest.approx(np.pi / 8, abs=1e-5)


def test_depth_never_hurts_and_samples_are_good():
    graph = random_graph(9, 4)
    result = quantum.QAOA(quantum.maxcut(graph), layers=4, seed=3).run(progress=False)
    assert np.all(np.diff(result.depths) < 0)
    assert -result.energy > 0.93 * best_cut(graph)
    assert -result.cost == pytest.approx(weight(graph, result.bits)) == pytest.approx(best_cut(graph))
    assert result.bits.shape == (9,) and set(result.bits) <= {0, 1}


def test_own_start_and_optimizer():
    cost = quantum.maxcut(ring(6))
    theta = np.array([0.6, -0.4, 0.9, -0.2])
    given = quantum.QAOA(cost, 2, initial=theta).run(progress=False)
    assert given.history[0] == pytest.approx(quantum.Expectation(quantum.qaoa_ansatz(cost, 2), cost)(theta))
    assert len(given.depths) == 1
    random = [
        quantum.QAOA(cost, 2, initial="random", optimizer=SPSA(max_steps=5), seed=s).run(progress=False).theta
        for s in (1, 1, 2)
    ]
    np.testing.assert_array_equal(random[0], random[1])
    assert not np.array_equal(random[0], random[2])


@pytest.mark.parametrize(
    "graph",
    [ring(10), PETERSEN, random_graph(11, 1), random_graph(10, 2, signs=True)],
    ids=["ring", "petersen", "weighted", "spin glass"],
)
def test_recursive_qaoa_finds_the_optimum(graph):
    result = quantum.RecursiveQAOA(quantum.maxcut(graph), layers=2, cutoff=4).run(progress=False)
    assert -result.cost == pytest.approx(weight(graph, result.bits)) == pytest.approx(best_cut(graph))
    assert len(result.eliminated) <= 7


def test_recursive_qaoa_with_fields_and_higher_products():
    cost = quantum.PauliSum("0.5 Z0 Z1 Z2 - 0.8 Z1 Z3 + 0.3 Z4 - 0.4 Z0 + 0.9 Z2 Z4 Z5 - 0.2 Z3 Z5 + 1.5")
    result = quantum.RecursiveQAOA(cost, cutoff=2).run(progress=False)
    assert result.cost == pytest.approx(cost.matrix(6).diagonal().real.min())
    assert result.cost == pytest.approx(cost.matrix(6).diagonal()[result.bits @ (1 << np.arange(6))].real)


@given(
    st.lists(st.tuples(st.frozensets(st.integers(0, 5), min_size=1), st.floats(-2, 2)), min_size=1, max_size=8),
    st.integers(0, 7),
    st.sampled_from([-1.0, 1.0]),
    st.integers(0, 63),
)
def test_a_bit_is_replaced_without_changing_costs(pairs, which, sign, index):
    """Wherever the product of spins has that sign, old and new costs differ by what became constant."""
    terms = dict(pairs)
    spins = [1 - 2 * ((index >> q) & 1) for q in range(6)]
    product = list(terms)[which % len(terms)]
    bit = max(product)
    spins[bit] = int(sign * np.prod([spins[q] for q in product - {bit}]))

    def cost(terms):
        return sum(c * np.prod([spins[q] for q in s]) for s, c in terms.items())

    new = _substitute(terms, bit, product, sign)
    assert cost(new) + terms[product] * sign == pytest.approx(cost(terms), abs=1e-11)
    assert all(bit not in s for s in new)


@given(st.dictionaries(st.frozensets(st.integers(0, 4)), st.floats(-3, 3), min_size=1, max_size=6))
def test_costs_of_assignments_are_the_diagonal(terms):
    cost = quantum.PauliSum([(" ".join(f"Z{q}" for q in s), c) for s, c in terms.items()])
    every = (np.arange(32)[:, None] >> np.arange(5)) & 1
    np.testing.assert_allclose(cost_values(cost, every), cost.matrix(5).diagonal().real, atol=1e-12)


def test_recursive_qaoa_below_the_cutoff_tries_everything():
    graph = random_graph(6, 8)
    result = quantum.RecursiveQAOA(quantum.maxcut(graph)).run(progress=False)
    assert result.eliminated == () and -result.cost == pytest.approx(best_cut(graph))


# -- mistakes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "graph",
    [
        [],
        [(0, 0)],
        [(0, 1, np.inf)],
        [(-1, 2)],
        [(0, 1.5)],
        [(0, 1, 2, 3)],
        [("a", "b")],
        [1, 2],
        [(0, 1, "heavy")],
        np.array([[0.0, 1.0, 0], [2.0, 0.0, 0], [0, 0, 0]]),
        np.array([[1.0, 1.0, 0], [1.0, 0.0, 0], [0, 0, 0]]),
    ],
)
def test_graphs_that_are_none(graph):
    with pytest.raises(OperatorError, match="maxcut: "):
        quantum.maxcut(graph)


@pytest.mark.parametrize(
    "cost, why", [("Z0 X1", "Z alone, got the term 'Z0 X1'"), ("2.0", "not constant"), ("1j Z0", "real")]
)
@pytest.mark.parametrize("algorithm", [quantum.QAOA, quantum.RecursiveQAOA])
def test_costs_that_are_none(algorithm, cost, why):
    with pytest.raises(OperatorError, match=why):
        algorithm(quantum.PauliSum(cost))


def test_numbers_that_make_no_sense():
    cost = quantum.maxcut(ring(4))
    with pytest.raises(CircuitError, match="layers must be an integer >= 1, got 0"):
        quantum.QAOA(cost, 0)
    with pytest.raises(CircuitError, match="samples"):
        quantum.QAOA(cost, samples=0)
    with pytest.raises(ParameterError, match=r"initial must have shape \(4,\), got \(3,\) \(an angle for each"):
        quantum.QAOA(cost, 2, initial=np.zeros(3))
    with pytest.raises(ParameterError, match="cutoff"):
        quantum.RecursiveQAOA(cost, cutoff=40)
    with pytest.raises(OptimizerError, match="a name must be one of bfgs, .*, got 'gradient'"):
        quantum.RecursiveQAOA(cost, optimizer="gradient")
    with pytest.raises(OperatorError, match="must be a PauliSum, got list"):
        quantum.QAOA(ring(4))


def test_graphs_of_networkx():
    networkx = pytest.importorskip("networkx")
    graph = networkx.Graph([("b", "a"), ("b", 3), ((1, 2), "a", {"weight": 2.5})])
    nodes = list(graph)
    diagonal = quantum.maxcut(graph).matrix(4).diagonal().real
    for cut in range(16):
        part = {node for k, node in enumerate(nodes) if cut >> k & 1}
        assert -diagonal[cut] == pytest.approx(networkx.cut_size(graph, part, weight="weight"))
    twice = networkx.MultiGraph([(0, 1), (0, 1, {"weight": 3.0})])
    assert quantum.maxcut(twice) == quantum.maxcut([(0, 1, 4.0)])
    for wrong in (networkx.Graph(), networkx.Graph([(0, 0)]), networkx.Graph([(0, 1, {"weight": "a"})])):
        with pytest.raises(OperatorError, match="maxcut"):
            quantum.maxcut(wrong)
