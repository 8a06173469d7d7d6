"""Frequently used circuits: Fourier transform, entangled states, states from vectors."""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from .circuit import Circuit
from .errors import CircuitError
from .parameters import angle

__all__ = ["basis_state", "ghz", "graph_state", "prepare_state", "qft", "uniformly_controlled_rotation", "w_state"]


def qft(num_qubits: int, *, swaps: bool = True, approximate: int = 0) -> Circuit:
    """Quantum Fourier transform: state j goes to `sum_k exp(2 pi i j k / 2**n) |k> / sqrt(2**n)`.

    Parameters
    ----------
    num_qubits : int
    swaps : bool
        Append the swaps without which the qubits are in reverse order.
    approximate : int
        Number of the smallest kinds of rotation to omit: those by pi / 2**k for the largest k.

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If `approximate` is negative.

    References
    ----------
    M. A. Nielsen and I. L. Chuang, Quantum Computation and Quantum Information (2010), section 5.1.

    Examples
    --------
    >>> from triskele.quantum import qft
    >>> qft(3).counts()
    {'h': 3, 'cp': 3, 'swap': 1}
    >>> qft(8, swaps=False, approximate=5).counts()
    {'h': 8, 'cp': 13}
    """
    check.integer(approximate, "qft: approximate", 0, error=CircuitError)
    circuit = Circuit(num_qubits)
    for q in reversed(range(num_qubits)):
        circuit.h(q)
        for k in range(1, q + 1):
            if k < num_qubits - approximate:
                circuit.cp(math.pi / (1 << k), q - k, q)
    if swaps:
        for q in range(num_qubits // 2):
            circuit.swap(q, num_qubits - 1 - q)
    return circuit


def ghz(num_qubits: int) -> Circuit:
    """(|0...0> + |1...1>) / sqrt(2) from |0...0>, with a depth of 1 + log2(n).

    Examples
    --------
    >>> from triskele.quantum import ghz
    >>> ghz(8).depth()
    4
    """
    circuit = Circuit(num_qubits)
    if num_qubits:
        circuit.h(0)
    done = 1
    while done < num_qubits:
        for q in range(min(done, num_qubits - done)):
            circuit.cx(q, done + q)
        done *= 2
    return circuit


def w_state(num_qubits: int) -> Circuit:
    """The equal superposition of the n states with one qubit 1, from |0...0>: an excitation shared along the line.

    Examples
    --------
    >>> from triskele.quantum import w_state
    >>> w_state(3).counts()
    {'x': 1, 'givens': 2}
    """
    circuit = Circuit(num_qubits)
    if num_qubits:
        circuit.x(0)
    for q in range(num_qubits - 1):  # 1/(n - q) of what is left stays
        circuit.givens(math.acos(math.sqrt(1.0 / (num_qubits - q))), q, q + 1)
    return circuit


def graph_state(num_qubits: int, edges: Iterable[tuple[int, int]]) -> Circuit:
    """|+> on every qubit, and a CZ for each edge.

    Examples
    --------
    >>> from triskele.quantum import graph_state
    >>> graph_state(3, [(0, 1), (1, 2)]).counts()
    {'h': 3, 'cz': 2}
    """
    circuit = Circuit(num_qubits)
    for q in range(num_qubits):
        circuit.h(q)
    for a, b in edges:
        circuit.cz(a, b)
    return circuit


def basis_state(index: int, num_qubits: int) -> Circuit:
    """The basis state of that index from |0...0>; qubit q is bit q of `index`.

    Raises
    ------
    CircuitError
        If the index is not from 0 to 2**num_qubits - 1.

    Examples
    --------
    >>> from triskele.quantum import basis_state
    >>> [i.qubits for i in basis_state(0b101, 3)]
    [(0,), (2,)]
    """
    check.integer(index, "basis_state: the index", 0, (1 << num_qubits) - 1, error=CircuitError)
    circuit = Circuit(num_qubits)
    for q in range(num_qubits):
        if index >> q & 1:
            circuit.x(q)
    return circuit


def uniformly_controlled_rotation(axis: str, angles: Sequence[Any], controls: Sequence[int], target: int) -> Circuit:
    """R_axis(`angles[j]`) on `target` where the controls hold the number j, the first control least significant.

    2**k rotations and at most 2**k CNOTs (CZs for x); rotations whose angle is the number 0 after the transform are
    left out.

    Parameters
    ----------
    axis : str
        "x", "y" or "z".
    angles : sequence of 2**k angles
        Numbers, names or expressions.
    controls : sequence of k int
    target : int

    Returns
    -------
    Circuit

    Raises
    ------
    CircuitError
        If the axis is not "x", "y" or "z", or the number of angles is not 2**k.

    References
    ----------
    M. Möttönen, J. J. Vartiainen, V. Bergholm and M. M. Salomaa, Phys. Rev. Lett. 93, 130502 (2004).

    Examples
    --------
    >>> from triskele.quantum import uniformly_controlled_rotation
    >>> uniformly_controlled_rotation("y", [0.1, 0.2, 0.3, 0.5], [0, 1], 2).counts()
    {'ry': 4, 'cx': 4}
    """
    k = len(controls)
    check.choice(axis, ("x", "y", "z"), "uniformly_controlled_rotation: the axis", error=CircuitError)
    if len(angles) != 1 << k:
        raise CircuitError(
            f"uniformly_controlled_rotation: {1 << k} angles are needed for {k} controls, got {len(angles)}"
        )
    exact = [angle(t, "uniformly_controlled_rotation") for t in angles]
    # between CNOTs from a set S of controls the sign of a rotation is (-1)^|j & S|: the angles are a Walsh transform,
    # and Gray code makes neighboring sets differ by one control
    for bit in range(k):
        step = 1 << bit
        for j in range(1 << k):
            if not j & step:
                exact[j], exact[j | step] = (exact[j] + exact[j | step]) * 0.5, (exact[j] - exact[j | step]) * 0.5
    circuit = Circuit(max([target, *controls]) + 1)
    noise = 4 * np.finfo(float).eps * max((abs(t) for t in exact if isinstance(t, float)), default=0.0)
    now = 0
    flip, rotation = "cz" if axis == "x" else "cx", f"r{axis}"
    for number in range(1 << k):
        subset = number ^ number >> 1
        value = exact[subset]
        if not isinstance(value, float) or abs(value) > noise:
            _flip(circuit, flip, controls, now ^ subset, target)
            circuit.append(rotation, target, [value])
            now = subset
    _flip(circuit, flip, controls, now, target)
    return circuit


def _flip(circuit: Circuit, gate: str, controls: Sequence[int], subset: int, target: int) -> None:
    for bit, control in enumerate(controls):
        if subset >> bit & 1:
            circuit.append(gate, (control, target))


def prepare_state(vector: Any) -> Circuit:
    """Return a circuit that prepares a state from |0...0>, global phase included.

    Parameters
    ----------
    vector : (2**n,) complex array
        State vector of norm 1 (to 1e-8); bit q of an index is qubit q.

    Returns
    -------
    Circuit
        At most 2**(n + 1) CNOTs; half of that where the vector is real and not negative, none where it is a basis
        state.

    Raises
    ------
    CircuitError
        If the length is not a power of two, or the norm is not 1.

    References
    ----------
    V. V. Shende, S. S. Bullock and I. L. Markov, IEEE Trans. CAD 25, 1000 (2006).

    Examples
    --------
    >>> from triskele.quantum import prepare_state
    >>> prepare_state([0.6, 0, 0, 0.8j]).counts()
    {'ry': 3, 'rz': 1, 'cx': 2, 'global_phase': 1}
    """
    state = np.array(vector, complex)
    if state.ndim != 1 or not state.size or state.size & (state.size - 1):
        raise CircuitError(f"prepare_state: a vector of 2**n amplitudes is needed, got the shape {state.shape}")
    if not abs(np.linalg.norm(state) - 1) < 1e-8:
        raise CircuitError(
            f"prepare_state: the norm must be 1, got {np.linalg.norm(state):.9g} (divide the vector by it)"
        )
    n = state.size.bit_length() - 1
    # qubit 0 is split off first: (a, b) = r exp(i f) (exp(-i w/2) cos(t/2), exp(i w/2) sin(t/2)), then the r exp(i f)
    # remain
    stages = []
    for q in range(n):
        even, odd = state[::2], state[1::2]
        size, phase_even, phase_odd = np.hypot(abs(even), abs(odd)), np.angle(even), np.angle(odd)
        phase_even, phase_odd = np.where(even == 0, phase_odd, phase_even), np.where(odd == 0, phase_even, phase_odd)
        y, z = 2 * np.arctan2(abs(odd), abs(even)), phase_odd - phase_even
        used = size > 0  # elsewhere any angle does: one that is there already makes the transform sparse
        stages.append((q, np.where(used, y, y[used][0]), np.where(used, z, z[used][0])))
        state = size * np.exp(0.5j * (phase_even + phase_odd))
    circuit = Circuit(n)
    for q, y, z in reversed(stages):
        above = range(q + 1, n)
        circuit.extend(uniformly_controlled_rotation("y", y.tolist(), above, q))
        circuit.extend(uniformly_controlled_rotation("z", z.tolist(), above, q))
    if phase := cmath.phase(state[0]):
        circuit.global_phase(phase)
    return circuit
