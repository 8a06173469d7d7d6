"""States as plain arrays: vectors (2**n,) and density matrices (2**n, 2**n), qubit 0 being the least significant bit.

Every function takes either, or a `Result`, and a list of qubits where it is about a part of the state; bit k of a
reduced state's index is the k-th qubit of that list.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from triskele.core.extend import check

from .errors import CircuitError, StateError

__all__ = [
    "bloch_vector",
    "concurrence",
    "entropy",
    "fidelity",
    "mutual_information",
    "partial_trace",
    "probabilities",
    "purity",
    "schmidt",
    "trace_distance",
]

TOLERANCE = {"f": 1e-3, "d": 1e-5}  # of norms, by precision: those of complex64 states drift by 1e-4 in 10^5 gates


def as_state(state: Any, where: str) -> np.ndarray:
    """Return an array or result as an array, checked to be a state: a power of two long, finite, normalized, Hermitian
    if a matrix.
    """
    array = np.asarray(getattr(state, "_state", state))  # a Result has one
    if array.dtype.kind not in "biufc":
        raise StateError(f"{where}: a state is an array of numbers or a Result, got {type(state).__name__}")
    array = array if array.dtype in (np.complex64, np.complex128) else array.astype(complex)
    size = array.shape[0] if array.ndim else 0
    if array.ndim not in (1, 2) or array.ndim == 2 and array.shape[1] != size or size < 1 or size & (size - 1):
        raise StateError(f"{where}: a state is an array of shape (2**n,) or (2**n, 2**n), got {array.shape}")
    weight = np.vdot(array, array).real if array.ndim == 1 else np.trace(array)
    tolerance = TOLERANCE[array.real.dtype.char]
    if not abs(weight - 1.0) < tolerance:  # a NaN comes here too
        raise StateError(f"{where}: a state must have norm (a density matrix: trace) 1, got {weight:.6g}")
    if array.ndim == 2 and not np.allclose(array, array.conj().T, atol=tolerance):
        raise StateError(
            f"{where}: a density matrix must be Hermitian, got one that differs from its adjoint by "
            f"{np.abs(array - array.conj().T).max():.2g}"
        )
    return array


def check_qubits(qubits: int | Iterable[int] | None, n: int, where: str) -> tuple[int, ...]:
    """Return qubits as a tuple of int, checked to differ and to be less than `n`; all `n` for None."""
    if qubits is None:
        return tuple(range(n))
    chosen = (qubits,) if isinstance(qubits, (int, np.integer)) else tuple(qubits)
    for q in chosen:
        check.integer(q, f"{where}: each of the qubits", 0, n - 1, error=CircuitError)
    if len(set(chosen)) != len(chosen):
        raise CircuitError(f"{where}: qubits must differ, got {list(map(int, chosen))}")
    return tuple(map(int, chosen))


def probabilities(state: Any, qubits: int | Sequence[int] | None = None) -> np.ndarray:
    """Probability of each outcome of measuring `qubits`.

    Parameters
    ----------
    state : (2**n,) or (2**n, 2**n) array
    qubits : int or sequence of int, optional
        Bit k of the result's index is `qubits[k]`. Defaults to all in order.

    Returns
    -------
    (2**len(qubits),) float64 array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import probabilities
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> probabilities(bell, [1]).round(12)
    array([0.5, 0.5])
    """
    array = as_state(state, "probabilities")
    return marginal(diagonal(array), qubits, "probabilities")


def diagonal(array: np.ndarray) -> np.ndarray:
    """Probabilities of all basis states, float64."""
    if array.ndim == 2:
        return np.ascontiguousarray(np.diagonal(array).real, float)
    p = np.square(array.real, dtype=float)
    p += np.square(array.imag, dtype=float)
    return p


def marginal(p: np.ndarray, qubits: int | Sequence[int] | None, where: str) -> np.ndarray:
    """Probabilities (2**n,) summed over all qubits but these, in the order of these."""
    n = p.size.bit_length() - 1
    chosen = check_qubits(qubits, n, where)
    if chosen == tuple(range(n)):
        return p
    rest = tuple(n - 1 - q for q in range(n) if q not in chosen)
    left = sorted(chosen, reverse=True)  # axes that remain, most significant first
    summed = p.reshape((2,) * n).sum(rest)
    return np.ascontiguousarray(summed.transpose([left.index(q) for q in reversed(chosen)])).reshape(-1)


def _halves(psi: np.ndarray, keep: Sequence[int]) -> np.ndarray:
    """The vector as a matrix (2**len(keep), 2**rest); bit k of the row is keep[k], the columns' bits are the others in
    order.
    """
    n = psi.size.bit_length() - 1
    rest = [q for q in range(n) if q not in keep]
    axes = [n - 1 - q for q in (*reversed(keep), *reversed(rest))]
    return psi.reshape((2,) * n).transpose(axes).reshape(1 << len(keep), -1)


def partial_trace(state: Any, keep: int | Sequence[int]) -> np.ndarray:
    """Density matrix of some qubits, the others traced out.

    Parameters
    ----------
    state : (2**n,) or (2**n, 2**n) array
    keep : int or sequence of int
        Bit k of the result's index is `keep[k]`.

    Returns
    -------
    (2**len(keep), 2**len(keep)) complex array

    Raises
    ------
    StateError, CircuitError
        If `state` is not a valid state, or a qubit is out of range or repeated.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import partial_trace
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> partial_trace(bell, 0).real.round(12)
    array([[0.5, 0. ],
           [0. , 0.5]])
    """
    array = as_state(state, "partial_trace")
    n = array.shape[0].bit_length() - 1
    chosen = check_qubits(keep, n, "partial_trace")
    if array.ndim == 1:
        rows = _halves(array, chosen)
        return rows @ rows.conj().T
    rest = [q for q in range(n) if q not in chosen]
    axes = [n - 1 - q for q in (*reversed(chosen), *reversed(rest))]
    size = 1 << len(chosen)
    moved = array.reshape((2,) * (2 * n)).transpose([*axes, *(n + a for a in axes)])
    return np.einsum("arbr->ab", moved.reshape(size, 1 << len(rest), size, 1 << len(rest)))


def schmidt(state: Any, qubits: int | Sequence[int]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Schmidt decomposition of a pure state between `qubits` (A) and the others (B): sum_k s_k |a_k>|b_k>.

    Parameters
    ----------
    state : (2**n,) array
    qubits : int or sequence of int
        Bit k of A's index is `qubits[k]`; B's bits are the others in ascending order.

    Returns
    -------
    s : (r,) float array, descending
    a : (r, 2**len(qubits)) complex array
    b : (r, 2**(n - len(qubits))) complex array

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import states
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> states.schmidt(bell, 0)[0].round(6)
    array([0.707107, 0.707107])
    """
    array = check.shape(as_state(state, "schmidt"), ("2**n",), "schmidt: a pure state", error=StateError)
    chosen = check_qubits(qubits, array.size.bit_length() - 1, "schmidt")
    u, s, vh = np.linalg.svd(_halves(array, chosen), full_matrices=False)
    return s, np.ascontiguousarray(u.T), vh


def _spectrum(array: np.ndarray, qubits: int | Sequence[int] | None, where: str, small: bool = False) -> np.ndarray:
    """Eigenvalues of the reduced density matrix of these qubits that are not 0; `small` ones to all digits if asked."""
    n = array.shape[0].bit_length() - 1
    chosen = check_qubits(qubits, n, where)
    if array.ndim == 2:
        values = np.linalg.eigvalsh(array if len(chosen) == n else partial_trace(array, chosen))
    elif len(chosen) in (0, n):
        return np.ones(1)
    elif small:
        values = np.linalg.svd(_halves(array, chosen), compute_uv=False) ** 2
    else:  # the smaller Gram matrix has the same spectrum, at a fraction of the cost
        rows = _halves(array, chosen)
        values = np.linalg.eigvalsh(rows @ rows.conj().T if rows.shape[0] <= rows.shape[1] else rows.conj().T @ rows)
    return values[values > 1e-15]


def entropy(state: Any, qubits: int | Sequence[int] | None = None, *, alpha: float = 1.0, base: float = 2.0) -> float:
    """Entropy of the state of some qubits: von Neumann's -tr(rho log rho), or Rényi's log(tr rho**alpha)/(1 - alpha).

    Parameters
    ----------
    state : (2**n,) or (2**n, 2**n) array
    qubits : int or sequence of int, optional
        Defaults to all. For a pure state this is their entanglement with the others.
    alpha : float
        Order: 1 is von Neumann's, 0 the logarithm of the rank, infinity the min-entropy.
    base : float
        Base of the logarithm; 2 gives bits.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If `alpha` is negative, or `base` not above 1.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import entropy
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> round(entropy(bell, [0]), 12), entropy(bell)
    (1.0, 0.0)
    """
    check_order(alpha, base)
    p = _spectrum(as_state(state, "entropy"), qubits, "entropy", small=alpha < 1)
    return spectral_entropy(p, alpha, base)


def check_order(alpha: float, base: float) -> None:
    """Reject invalid orders and bases of entropies."""
    if not alpha >= 0 or not base > 1:
        raise ValueError(f"entropy: alpha must be at least 0 and base above 1, got alpha {alpha} and base {base}")


def spectral_entropy(p: np.ndarray, alpha: float, base: float) -> float:
    """Entropy of a distribution without zeros."""
    if alpha == 1:
        value = -np.sum(p * np.log(p))
    elif alpha == np.inf:
        value = -np.log(p.max())
    else:
        value = np.log(np.sum(p**alpha)) / (1 - alpha)
    return max(0.0, float(value / np.log(base)))


def mutual_information(state: Any, a: int | Sequence[int], b: int | Sequence[int], *, base: float = 2.0) -> float:
    """S(A) + S(B) - S(AB) of two sets of qubits.

    Parameters
    ----------
    state : Result, or (2**n,) or (2**n, 2**n) array
    a, b : int or sequence of int
        The two sets of qubits, without a common one.
    base : float, default 2
        Base of the logarithm: 2 for bits.

    Raises
    ------
    CircuitError
        If they share a qubit.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import mutual_information
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> round(mutual_information(bell, 0, 1), 12)
    2.0
    """
    array = as_state(state, "mutual_information")
    n = array.shape[0].bit_length() - 1
    a, b = check_qubits(a, n, "mutual_information"), check_qubits(b, n, "mutual_information")
    both = check_qubits(a + b, n, "mutual_information")
    return entropy(array, a, base=base) + entropy(array, b, base=base) - entropy(array, both, base=base)


def purity(state: Any, qubits: int | Sequence[int] | None = None) -> float:
    """tr(rho**2) of the state of some qubits, all when left out: 1 if pure, 2**-k if nothing is known of k qubits.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum import states
    >>> bell = np.array([1, 0, 0, 1]) / np.sqrt(2)
    >>> round(states.purity(bell), 12), round(states.purity(bell, 0), 12)
    (1.0, 0.5)
    """
    array = as_state(state, "purity")
    return float(np.sum(_spectrum(array, qubits, "purity") ** 2))


def fidelity(a: Any, b: Any) -> float:
    """Fidelity of two states: |<a|b>|**2, <a|rho|a>, or (tr sqrt(sqrt(rho) sigma sqrt(rho)))**2.

    Parameters
    ----------
    a, b : (2**n,) or (2**n, 2**n) array

    Returns
    -------
    float
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import fidelity
    >>> fidelity([1, 0], [np.sqrt(0.5), np.sqrt(0.5)]).__round__(12)
    0.5
    """
    a, b = _same_size(a, b, "fidelity")
    if a.ndim == 1 and b.ndim == 1:
        value = abs(np.vdot(a, b)) ** 2
    elif a.ndim == 1 or b.ndim == 1:
        psi, rho = (a, b) if a.ndim == 1 else (b, a)
        value = np.vdot(psi, rho @ psi).real
    else:
        value = np.sum(np.linalg.svd(_root(a) @ _root(b), compute_uv=False)) ** 2
    return float(min(max(value, 0.0), 1.0))


def trace_distance(a: Any, b: Any) -> float:
    """Half the sum of the absolute eigenvalues of the difference of two states, from 0 (equal) to 1 (orthogonal).

    Examples
    --------
    >>> from triskele.quantum.states import trace_distance
    >>> trace_distance([1, 0], [0, 1])
    1.0
    """
    a, b = _same_size(a, b, "trace_distance")
    if a.ndim == 1 and b.ndim == 1:  # sqrt(1 - F), without the cancellation near equal states
        overlap = np.vdot(b, a)
        apart = a - b * overlap
        return min(float(np.linalg.norm(apart)), 1.0)
    return float(min(0.5 * np.sum(np.abs(np.linalg.eigvalsh(density_matrix(a) - density_matrix(b)))), 1.0))


def concurrence(state: Any) -> float:
    """Wootters' concurrence of a state of two qubits, from 0 (separable) to 1 (a Bell state) [1]_, equations (4) and
    (10).

    Raises
    ------
    StateError
        If the state does not have two qubits (take `partial_trace` first).

    References
    ----------
    .. [1] Wootters, "Entanglement of formation of an arbitrary state of two qubits", Phys. Rev. Lett. 80 (1998) 2245.
       doi:10.1103/PhysRevLett.80.2245

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import concurrence
    >>> concurrence(np.array([1, 0, 0, 1]) / np.sqrt(2)).__round__(12)
    1.0
    """
    array = as_state(state, "concurrence")
    if array.shape[0] != 4:
        raise StateError(
            f"concurrence: two qubits are needed, got {array.shape[0].bit_length() - 1} (take partial_trace first)"
        )
    if array.ndim == 1:
        return float(min(2 * abs(array[0] * array[3] - array[1] * array[2]), 1.0))
    flip = np.fliplr(np.diag([-1.0, 1.0, 1.0, -1.0]))  # Y x Y
    root = _root(array)
    r = np.linalg.svd(root.T @ flip @ root, compute_uv=False)  # square roots of the spectrum of rho (YY rho* YY)
    return float(min(max(r[0] - r[1] - r[2] - r[3], 0.0), 1.0))


def bloch_vector(state: Any, qubit: int = 0) -> np.ndarray:
    """(<X>, <Y>, <Z>) of one qubit: (3,) float64, of length 1 if its state is pure.

    Examples
    --------
    >>> import numpy as np
    >>> from triskele.quantum.states import bloch_vector
    >>> bloch_vector([1, 1j] / np.sqrt(2)).round(12)
    array([0., 1., 0.])
    """
    rho = partial_trace(state, qubit)
    return np.array([2 * rho[1, 0].real, 2 * rho[1, 0].imag, (rho[0, 0] - rho[1, 1]).real], float)


def density_matrix(array: np.ndarray) -> np.ndarray:
    """|psi><psi| of a vector; a matrix as it is."""
    return np.outer(array, array.conj()) if array.ndim == 1 else array


def _same_size(a: Any, b: Any, where: str) -> tuple[np.ndarray, np.ndarray]:
    a, b = as_state(a, where), as_state(b, where)
    if a.shape[0] != b.shape[0]:
        raise StateError(
            f"{where}: states must have the same number of qubits, got {a.shape[0].bit_length() - 1} and "
            f"{b.shape[0].bit_length() - 1}"
        )
    return a, b


def _root(rho: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(rho)
    return (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.conj().T
