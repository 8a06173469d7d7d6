"""Circuits of the library against the states and matrices that define them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.twins import statevector as twin
from triskele import quantum
from triskele.quantum.errors import CircuitError


@pytest.mark.parametrize("n", range(1, 6))
def test_qft_is_the_fourier_transform(n):
    size = 1 << n
    fourier = np.exp(2j * np.pi * np.outer(np.arange(size), np.arange(size)) / size) / np.sqrt(size)
    np.testing.assert_allclose(twin.unitary(quantum.qft(n)), fourier, atol=1e-14)
    backwards = [int(f"{j:0{n}b}"[::-1], 2) for j in range(size)]
    np.testing.assert_allclose(twin.unitary(quantum.qft(n, swaps=False)), fourier[backwards], atol=1e-14)


def test_qft_approximated():
    """Leaving out the rotations by pi/2^k for k > m: the error is at most the sum of what was left out."""
    exact = twin.unitary(quantum.qft(6))
    for approximate in range(6):
        left_out = sum((6 - k) * np.pi / 2**k for k in range(6 - approximate, 6))
        error = np.linalg.norm(twin.unitary(quantum.qft(6, approximate=approximate)) - exact, 2)
        assert error <= left_out + 1e-14
    assert quantum.qft(6, approximate=5).counts() == {"h": 6, "swap": 3}
    with pytest.raises(CircuitError, match="approximate"):
        quantum.qft(3, approximate=-1)


@pytest.mark.parametrize("n", range(1, 8))
def test_entangled_states(n):
    ghz = np.zeros(1 << n)
    ghz[[0, -1]] = np.sqrt(0.5)
    np.testing.assert_allclose(twin.statevector(quantum.ghz(n)), ghz, atol=1e-15)
    assert quantum.ghz(n).depth() == 1 + int(np.ceil(np.log2(n)))
    w = np.zeros(1 << n)
    w[[1 << q for q in range(n)]] = 1 / np.sqrt(n)
    np.testing.assert_allclose(twin.statevector(quantum.w_state(n)), w, atol=1e-15)


def test_graph_state_is_stabilized():
    """X on a vertex and Z on its neighbors leave a graph state as it is."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 4)]
    circuit = quantum.graph_state(5, edges)
    state = twin.statevector(circuit)
    for vertex in range(5):
        stabilizer = quantum.Circuit(5).x(vertex)
        for edge in edges:
            if vertex in edge:
                stabilizer.z(sum(edge) - vertex)
        np.testing.assert_allclose(twin.statevector(stabilizer, initial=state), state, atol=1e-15)


@given(st.integers(0, 5), st.integers(0, 2**32 - 1), st.floats(0, 1))
@settings(max_examples=60, deadline=None)
def test_any_state_is_prepared(n, seed, density):
    random = np.random.default_rng(seed)
    vector = random.normal(size=1 << n) + 1j * random.normal(size=1 << n)
    vector *= random.random(1 << n) < max(density, 0.1)
    if not vector.any():
        vector[0] = -1j
    vector /= np.linalg.norm(vector)
    np.testing.assert_allclose(twin.statevector(quantum.prepare_state(vector)), vector, atol=1e-13)


def test_preparation_is_short_where_the_state_is_simple():
    basis = quantum.prepare_state(np.eye(16)[11])
    assert basis.counts().get("cx", 0) == 0
    real = quantum.prepare_state(np.sqrt(np.arange(1, 17) / np.arange(1, 17).sum()))
    assert set(real.counts()) == {"ry", "cx"} and real.counts()["cx"] <= 2 + 4 + 8
    product = np.kron([0.6, 0.8], np.kron([0.8, 0.6], [1, 0]))
    assert "cx" not in quantum.prepare_state(product).counts()


@pytest.mark.parametrize(
    "vector, message",
    [
        ([1, 1], "norm must be 1, got 1.41421356"),
        ([1, 0, 0], "2\\*\\*n"),
        ([], "2\\*\\*n"),
        ([[1, 0]], "shape"),
        ([np.nan, 0], "norm"),
        ([0, 0], "norm"),
    ],
)
def test_preparation_refuses(vector, message):
    with pytest.raises(CircuitError, match=message):
        quantum.prepare_state(vector)


@given(st.sampled_from("xyz"), st.integers(0, 3), st.data())
@settings(max_examples=30, deadline=None)
def test_uniformly_controlled_rotations(axis, k, data):
    angles = data.draw(st.lists(st.sampled_from([0.0, 0.3, -1.2, 2.5]), min_size=1 << k, max_size=1 << k))
    wires = data.draw(st.permutations(range(k + 1)))
    controls, target = wires[:k], wires[k]
    circuit = quantum.uniformly_controlled_rotation(axis, angles, controls, target)
    expected = quantum.Circuit(k + 1)
    for j, t in enumerate(angles):  # one controlled rotation for each value, with X where a control must be 0
        off = [c for bit, c in enumerate(controls) if not j >> bit & 1]
        for c in off:
            expected.x(c)
        expected.append(f"r{axis}", target, [t], controls=controls)
        for c in off:
            expected.x(c)
    np.testing.assert_allclose(twin.unitary(circuit), twin.unitary(expected), atol=1e-14)


def test_uniformly_controlled_rotations_with_parameters():
    circuit = quantum.uniformly_controlled_rotation("y", ["a", "b"], [0], 1)
    numbers = quantum.uniformly_controlled_rotation("y", [0.3, 0.9], [0], 1)
    np.testing.assert_allclose(twin.unitary(circuit, {"a": 0.3, "b": 0.9}), twin.unitary(numbers), atol=1e-15)
    with pytest.raises(CircuitError, match="4 angles are needed for 2 controls, got 3"):
        quantum.uniformly_controlled_rotation("y", [1, 2, 3], [0, 1], 2)
    with pytest.raises(CircuitError, match="axis"):
        quantum.uniformly_controlled_rotation("w", [1], [], 0)


def test_basis_states():
    for index in range(8):
        assert twin.statevector(quantum.basis_state(index, 3))[index] == 1
    with pytest.raises(CircuitError, match="from 0 to 7, got 8"):
        quantum.basis_state(8, 3)
